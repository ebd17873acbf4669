//! What is on the disk comes back in its order, whatever happens: a model with a disk, a client
//! that comes and goes, and restarts.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::num::NonZeroU32;

use super::*;
use crate::backlog::{
    disk_len, fetched, is_spooled, next_fetch, seal, sealed, spooled_but, take_done_chunks,
};
use crate::owed::{Piece, counts, waiting_behind};

const OPEN: Window = Window {
    messages: 20,
    bytes: usize::MAX,
};

fn numbered(number: u64, id: u64, qos: QoS) -> Delivery {
    let payload = id.to_le_bytes();
    let parts = MessageParts {
        topic: "t",
        properties: &[],
        payload: &payload,
        qos,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts);
    Delivery {
        message: Arc::new(message),
        number,
        ..delivery(0, qos, None)
    }
}

fn id(delivery: &Delivery) -> u64 {
    let payload = delivery.message.payload().try_into();
    payload.map_or(0, u64::from_le_bytes)
}

/// A session, its client and the disk.
struct World {
    outbound: Outbound,
    disk: BTreeMap<u16, Vec<Delivery>>,
    next_place: u16,
    /// What the disk was given, and has not answered.
    sealing: VecDeque<(u64, u8, u16)>,
    fetching: Option<Chunk>,
    is_here: bool,
    /// What the client holds: by packet id, with its QoS, and whether PUBREC was sent.
    held: Vec<(PacketId, u64, QoS, bool)>,
    /// What the client has received for the first time, in order.
    received: Vec<u64>,
    known: BTreeSet<u64>,
    /// What was pushed, in order, and not withdrawn.
    pushed: Vec<u64>,
    last_id: u64,
    /// What the client has acknowledged: it must never come again.
    done: BTreeSet<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            outbound: Outbound::default(),
            disk: BTreeMap::new(),
            next_place: 0,
            sealing: VecDeque::new(),
            fetching: None,
            is_here: false,
            held: Vec::new(),
            received: Vec::new(),
            known: BTreeSet::new(),
            pushed: Vec::new(),
            last_id: 0,
            done: BTreeSet::new(),
        }
    }

    fn push(&mut self, random: &mut impl FnMut(usize) -> usize) {
        self.last_id += 1;
        let id = self.last_id;
        let number = match random(40) {
            0 => 0,
            _ => self.outbound.next_number(),
        };
        let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce][random(2)];
        let delivery = Delivery {
            share: u64::from(random(30) == 0),
            ..numbered(number, id, qos)
        };
        self.pushed.push(id);
        match self
            .is_here
            .then(|| self.outbound.send(OPEN, &delivery))
            .flatten()
        {
            Some(packet_id) => self.receive(packet_id, &delivery),
            None => self.outbound.wait(delivery),
        }
    }

    fn seal(&mut self) {
        while let Some(sealing) = seal(&mut self.outbound, usize::MAX) {
            let (first, place) = (sealing.first, self.next_place);
            let numbers = sealing.deliveries.iter().map(|it| it.number);
            assert!(numbers.eq(first..first + sealing.deliveries.len() as u64));
            let count = sealing.deliveries.len() as u8;
            self.disk.insert(place, sealing.deliveries.to_vec());
            self.sealing.push_back((first, count, place));
            self.next_place += 1;
        }
    }

    fn answer_seal(&mut self, refuses: bool) {
        let Some((first, count, at)) = self.sealing.pop_front() else {
            return;
        };
        let place = ChunkPlace {
            file: NonZeroU32::MIN,
            at,
            len: 1,
        };
        let place = Some(place).filter(|_| !refuses);
        if !sealed(&mut self.outbound, first, count, place) {
            self.disk.remove(&at);
        }
    }

    fn answer_fetch(&mut self) {
        if let Some(chunk) = self.fetching.take() {
            let found = self.disk[&chunk.place.at].clone();
            let lost = fetched(&mut self.outbound, chunk.first, found, |_| true);
            assert_eq!(lost, Some(0));
        }
    }

    fn receive(&mut self, packet_id: PacketId, delivery: &Delivery) {
        let id = id(delivery);
        assert!(!self.done.contains(&id), "{id} was acknowledged");
        if self.known.insert(id) {
            self.received.push(id);
        }
        let is_it = |held: &&mut (PacketId, u64, QoS, bool)| held.1 == id;
        match self.held.iter_mut().find(is_it) {
            Some(held) => assert_eq!(held.0, packet_id, "it keeps its packet id"),
            None => {
                assert!(
                    self.held.iter().all(|held| held.0 != packet_id),
                    "it is free"
                );
                self.held.push((packet_id, id, delivery.qos, false));
            }
        }
    }

    fn pump(&mut self) {
        while self.is_here {
            if let Some(resend) = self.outbound.resend(OPEN) {
                match resend {
                    Resend::Publish(packet_id, delivery) => {
                        let delivery = delivery.clone();
                        self.receive(packet_id, &delivery);
                    }
                    Resend::PubRel(packet_id) => {
                        let held = self.held.iter().find(|held| held.0 == packet_id);
                        assert!(held.is_none_or(|held| held.3), "it was received");
                    }
                }
            } else if let Some(next) = self.outbound.advance(OPEN) {
                let id = id(&next.delivery);
                let was_sent = self.known.contains(&id);
                let number = next.delivery.number;
                assert!(
                    next.dup || !was_sent,
                    "{id}, number {number}, has DUP if it was sent before {} {}",
                    self.outbound.sent_before,
                    self.outbound.progress().sent,
                );
                self.receive(next.packet_id, &next.delivery);
            } else {
                break;
            }
        }
        if self.is_here && self.fetching.is_none() {
            self.fetching = next_fetch(&mut self.outbound);
        }
    }

    fn acknowledge(&mut self, at: usize) {
        if !self.is_here || self.held.is_empty() {
            return;
        }
        let at = at % self.held.len();
        let (packet_id, id, qos, has_received) = self.held[at];
        if qos == QoS::AtLeastOnce {
            if self.outbound.on_puback(packet_id) == Acked::Complete {
                self.done.insert(id);
                self.held.remove(at);
            }
        } else if !has_received {
            if self.outbound.on_pubrec(packet_id, ReasonCode::Success) == Acked::Release {
                self.done.insert(id);
                self.held[at].3 = true;
            }
        } else if self.outbound.on_pubcomp(packet_id) == Acked::Complete {
            self.held.remove(at);
        }
    }

    fn free(&mut self) {
        for chunk in take_done_chunks(&mut self.outbound) {
            assert!(self.disk.remove(&chunk.place.at).is_some(), "it was there");
        }
    }

    /// Everything in memory is gone but what is written down: what has no number.
    fn restart(&mut self) {
        self.is_here = false;
        let outbound = core::mem::take(&mut self.outbound);
        let kept: Vec<PriorDelivery> = outbound
            .numbered_but(0..0)
            .map(|(number, packet_id, delivery)| PriorDelivery {
                number,
                packet_id: packet_id.or_else(|| natural_id(number)).unwrap(),
                delivery: delivery.cloned(),
            })
            .collect();
        assert!(kept.is_sorted_by_key(|prior| prior.number) || outbound.spool.is_some());
        let mut kept = kept;
        kept.sort_by_key(|prior| prior.number);
        let mut gone: BTreeSet<u64> = outbound
            .in_flight
            .iter()
            .filter(|it| it.number() == 0)
            .filter_map(|it| match &it.awaits {
                Awaits::Acknowledgement(it) | Awaits::Receipt(it) => Some(id(it)),
                Awaits::Completion(_) => None,
            })
            .collect();
        let waiting = outbound.waiting_here().filter(|it| it.number == 0);
        gone.extend(waiting.map(id));
        self.pushed
            .retain(|id| !gone.contains(id) || self.known.contains(id));
        self.held.retain(|held| !gone.contains(&held.1));
        // PUBREL of these is never sent.
        let released: BTreeSet<PacketId> = outbound
            .in_flight
            .iter()
            .filter(|it| matches!(it.awaits, Awaits::Completion(0)))
            .map(|it| it.packet_id)
            .collect();
        self.held.retain(|held| !released.contains(&held.0));
        let sent = outbound.progress().sent;
        let all = spooled_but(&outbound, &(0..0));
        let used: BTreeSet<u16> = all.iter().map(|it| it.chunk.place.at).collect();
        let numbers = outbound.next_number() - 1;
        self.outbound = Outbound::restored(numbers, sent, kept, all);
        self.sealing.clear();
        self.fetching = None;
        self.disk.retain(|at, _| used.contains(at));
    }

    fn bytes_in_memory(&self) -> usize {
        let in_flight = self.outbound.in_flight.iter().map(InFlight::cost);
        let waiting = self.outbound.waiting_here().map(Delivery::cost);
        in_flight.chain(waiting).sum()
    }

    /// The messages that wait, by number, with those on the disk.
    fn waiting_behind(&self, after: u64, passed: usize) -> Vec<u64> {
        let all = waiting_behind(&self.outbound, after, passed);
        let numbers = all.flat_map(|piece| match piece {
            Piece::Here(delivery) => vec![delivery.number],
            Piece::Chunk(spooled) => {
                let all = spooled.chunk.first..spooled.chunk.end();
                all.filter(|it| !spooled.gone.contains(it) && *it > after)
                    .collect()
            }
        });
        numbers.collect()
    }

    /// A look at the queue may stop anywhere, and goes on there.
    fn check_look(&self, at: usize) {
        let all = self.waiting_behind(0, 0);
        let counts = counts(&self.outbound);
        assert_eq!(all.len(), counts.here + counts.on_the_disk);
        let (before, behind) = all.split_at(at.min(all.len()));
        let last = before.iter().rposition(|number| *number > 0);
        let number = last.map_or(0, |last| before[last]);
        let passed = before.len() - last.map_or(0, |last| last + 1);
        let found = self.waiting_behind(number, passed);
        let differs = found.iter().zip(behind).position(|(a, b)| a != b);
        assert_eq!(
            (differs, found.len()),
            (None, behind.len()),
            "{number} and {passed}"
        );
    }

    fn check(&self) {
        assert_eq!(self.outbound.bytes(), self.bytes_in_memory());
        let waiting = self.outbound.waiting_here().count();
        assert!(self.outbound.held_len() <= waiting && waiting <= self.outbound.waiting_len());
        assert!(self.outbound.held_bytes() <= self.outbound.bytes());
    }
}

#[test]
fn what_is_on_the_disk_comes_back_in_its_order() {
    for seed in 0..60 {
        let mut random = random(seed);
        let mut world = World::new();
        for _ in 0..400 {
            match random(14) {
                0..=3 => {
                    for _ in 0..random(120) {
                        world.push(&mut random);
                    }
                }
                4 | 5 => {
                    if !world.is_here || is_spooled(&world.outbound) {
                        world.seal();
                    }
                }
                6 => (0..random(9)).for_each(|_| world.answer_seal(random(8) == 0)),
                7 => world.answer_fetch(),
                8 => {
                    world.is_here = !world.is_here;
                    world.outbound.disconnected();
                }
                9 if random(6) == 0 => world.restart(),
                _ => (0..random(40)).for_each(|_| world.acknowledge(random(20))),
            }
            world.pump();
            world.free();
            world.check();
            if random(4) == 0 {
                world.check_look(random(2_000));
            }
        }
        // The client takes all that is left.
        world.is_here = true;
        for turn in 0.. {
            assert!(turn < 100_000, "it gets on, seed {seed}");
            world.answer_seal(false);
            world.answer_fetch();
            world.pump();
            world.acknowledge(random(4));
            world.free();
            world.check();
            if world.outbound.is_empty() && world.sealing.is_empty() && world.held.is_empty() {
                break;
            }
        }
        let (received, pushed) = (&world.received, &world.pushed);
        let differs = received.iter().zip(pushed).find(|(a, b)| a != b);
        assert_eq!(differs, None, "all, in order, seed {seed}");
        assert_eq!(received.len(), pushed.len(), "all, seed {seed}");
        assert!(world.disk.is_empty(), "the disk is free again, seed {seed}");
        assert_eq!((world.outbound.bytes(), disk_len(&world.outbound)), (0, 0));
    }
}

#[test]
fn what_ends_gives_its_chunks_back() {
    let mut random = random(77);
    let mut world = World::new();
    for _ in 0..1_000 {
        world.push(&mut random);
    }
    world.seal();
    (0..5).for_each(|_| world.answer_seal(false));
    world.is_here = true;
    world.pump();
    world.answer_fetch();
    world.pump();
    let mut remains = world.outbound.abandon();
    while remains.next().is_some() {}
    assert_eq!((remains.pieces(), remains.bytes()), (0, 0));
    let chunks = remains.take_chunks();
    assert_eq!(chunks.len(), 5);
}

#[test]
fn what_nobody_may_have_is_withdrawn_from_the_disk_too() {
    let mut random = random(5);
    let mut world = World::new();
    for _ in 0..500 {
        world.push(&mut random);
    }
    world.seal();
    (0..3).for_each(|_| world.answer_seal(false));
    let in_memory = world.outbound.waiting_here().count();
    let withdrawn = world.outbound.withdraw(|_| false);
    assert_eq!(withdrawn.pieces(), in_memory);
    world.is_here = true;
    world.pump();
    let mut lost = 0;
    while let Some(chunk) = world.fetching.take() {
        let found = world.disk[&chunk.place.at].clone();
        lost += fetched(&mut world.outbound, chunk.first, found, |_| false).unwrap();
        world.pump();
    }
    assert_eq!(lost + in_memory, 500);
    assert_eq!(take_done_chunks(&mut world.outbound).len(), 3);
    assert!(world.outbound.is_empty() && world.received.is_empty());
}
