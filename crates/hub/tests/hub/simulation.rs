//! Several hubs with hundreds of sessions, messages under way between them in any order that the
//! mesh allows, connections that break at any moment: every delivery guarantee is checked.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

use std::collections::{HashMap, HashSet};

use crate::world::{ConnectOptions, Random, World};
use stentor_mqtt::{PacketId, QoS, Version};

/// What one subscriber is and has seen, over all its connections.
struct Subscriber {
    id: String,
    version: Version,
    qos: QoS,
    /// Ends its session whenever its connection ends.
    brief: bool,
    client: usize,
    /// QoS 2 messages received and not yet released.
    unreleased: HashSet<PacketId>,
    /// `(publisher, number)` in the order of arrival.
    seen: Vec<(usize, usize)>,
}

struct Simulation {
    w: World,
    random: Random,
    publishers: Vec<usize>,
    /// How many messages each publisher has sent.
    sent: Vec<usize>,
    subscribers: Vec<Subscriber>,
    members: Vec<Subscriber>,
}

const TOPICS: usize = 5;

/// How large a simulation is.
#[derive(Clone, Copy)]
struct Size {
    /// Four numbers of hubs are tried, from this one on.
    shards_min: usize,
    /// Sessions with subscriptions of their own.
    subscribers: usize,
    /// Sessions that share one.
    members: usize,
    steps: usize,
}

impl Simulation {
    fn new(seed: u64, size: Size) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let shards = u8::try_from(size.shards_min + random.below(4)).unwrap();
        let mut w = World::new(shards);
        let version = |random: &mut Random| {
            if random.chance(50) {
                Version::V311
            } else {
                Version::V5
            }
        };
        let count = 2 + random.below(6);
        let publishers: Vec<_> = (0..count)
            .map(|i| {
                w.connect(
                    version(&mut random),
                    &format!("p{i}"),
                    &ConnectOptions::default(),
                )
            })
            .collect();
        let mut subscriber = |w: &mut World, id: String, filter: &str, brief, qos| {
            let version = version(&mut random);
            let options = options(brief);
            let client = w.connect(version, &id, &options);
            w.subscribe(client, filter, qos);
            let (unreleased, seen) = (HashSet::new(), Vec::new());
            Subscriber {
                id,
                version,
                qos,
                brief,
                client,
                unreleased,
                seen,
            }
        };
        let filters = ["t/#", "t/+", "#", "t/+"];
        let subscribers = (0..size.subscribers)
            .map(|i| {
                let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][i % 3];
                subscriber(&mut w, format!("s{i}"), filters[i % 4], false, qos)
            })
            .collect();
        let members = (0..size.members)
            .map(|i| {
                let filter = "$share/group/t/+";
                subscriber(
                    &mut w,
                    format!("m{i}"),
                    filter,
                    i % 2 == 1,
                    QoS::AtLeastOnce,
                )
            })
            .collect();
        w.paused = true;
        let sent = vec![0; publishers.len()];
        Self {
            w,
            random,
            publishers,
            sent,
            subscribers,
            members,
        }
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..3 => self.publish(),
            3..6 => {
                let pairs = self.w.pairs_under_way();
                if !pairs.is_empty() {
                    let pair = pairs[self.random.below(pairs.len())];
                    self.w.deliver_one(pair);
                }
            }
            6 => {
                let shard = self.random.below(self.w.hubs.len());
                self.w.flush(u8::try_from(shard).unwrap());
            }
            7 | 8 => {
                let (who, of) = self.pick();
                let subscriber = &mut self.list(of)[who];
                let (client, lists) = (subscriber.client, of);
                if self.w.clients[client].link.is_some() {
                    self.read(lists, who);
                }
            }
            _ => self.disturb(),
        }
    }

    fn list(&mut self, members: bool) -> &mut Vec<Subscriber> {
        if members {
            &mut self.members
        } else {
            &mut self.subscribers
        }
    }

    fn pick(&mut self) -> (usize, bool) {
        let members = self.random.chance(20);
        let len = self.list(members).len();
        (self.random.below(len), members)
    }

    fn publish(&mut self) {
        let publisher = self.random.below(self.publishers.len());
        let number = self.sent[publisher];
        self.sent[publisher] += 1;
        let qos = [QoS::AtLeastOnce, QoS::ExactlyOnce][number % 2];
        let topic = format!("t/{}", self.random.below(TOPICS));
        let packet_id = u16::try_from(number % 60_000 + 1).unwrap();
        let mut packet = vec![if qos == QoS::AtLeastOnce { 0x32 } else { 0x34 }];
        let payload = format!("{publisher}:{number}");
        let v5 = self.w.clients[self.publishers[publisher]].version == Version::V5;
        let mut body = vec![0, u8::try_from(topic.len()).unwrap()];
        body.extend(topic.as_bytes());
        body.extend(packet_id.to_be_bytes());
        if v5 {
            body.push(0);
        }
        body.extend(payload.as_bytes());
        packet.push(u8::try_from(body.len()).unwrap());
        packet.extend(body);
        let client = self.publishers[publisher];
        self.w.send_without_settling(client, &packet);
        if qos == QoS::ExactlyOnce {
            let id = packet_id.to_be_bytes();
            self.w
                .send_without_settling(client, &[0x62, 2, id[0], id[1]]);
        }
        self.w.clients[client].received.clear();
    }

    /// A subscriber reads what its socket holds and acknowledges some of it.
    fn read(&mut self, members: bool, who: usize) {
        let patience = if self.w.paused && self.random.chance(30) {
            self.random.below(4)
        } else {
            usize::MAX
        };
        let mut answered = 0;
        loop {
            let client = self.list(members)[who].client;
            let Some(bytes) = self.w.clients[client].received.pop_front() else {
                return;
            };
            let kind = bytes[0] & 0xF0;
            let id = || PacketId::new(u16::from_be_bytes([bytes[2], bytes[3]])).unwrap();
            match kind {
                0x30 => {
                    let message = self.w.clients[client].parse(&bytes);
                    let text = String::from_utf8(message.payload).unwrap();
                    let (publisher, number) = text.split_once(':').unwrap();
                    let stamp = (publisher.parse().unwrap(), number.parse().unwrap());
                    let subscriber = &mut self.list(members)[who];
                    let fresh = message.qos != QoS::ExactlyOnce
                        || subscriber.unreleased.insert(message.packet_id.unwrap());
                    if fresh {
                        subscriber.seen.push(stamp);
                    }
                    if answered < patience {
                        answered += 1;
                        match message.qos {
                            QoS::AtMostOnce => {}
                            QoS::AtLeastOnce => self.ack(client, 0x40, message.packet_id),
                            QoS::ExactlyOnce => self.ack(client, 0x50, message.packet_id),
                        }
                    }
                }
                0x60 => {
                    self.list(members)[who].unreleased.remove(&id());
                    self.ack(client, 0x70, Some(id()));
                }
                _ => {}
            }
        }
    }

    fn ack(&mut self, client: usize, kind: u8, id: Option<PacketId>) {
        let id = id.unwrap().get().to_be_bytes();
        let flags = if kind == 0x60 { 2 } else { 0 };
        self.w
            .send_without_settling(client, &[kind | flags, 2, id[0], id[1]]);
    }

    /// A connection breaks, a client comes back, or comes twice.
    fn disturb(&mut self) {
        let (who, members) = self.pick();
        let subscriber = &mut self.list(members)[who];
        // QoS 0 promises something only to those who stay.
        if subscriber.qos == QoS::AtMostOnce || !subscriber.seen.len().is_multiple_of(3) {
            return;
        }
        let client = subscriber.client;
        if self.random.chance(60) {
            self.w.drop_link(client);
        }
        if self.random.chance(70) {
            self.come_back(members, who);
        }
    }

    fn come_back(&mut self, members: bool, who: usize) {
        let subscriber = &mut self.list(members)[who];
        let (id, version) = (subscriber.id.clone(), subscriber.version);
        let (brief, qos) = (subscriber.brief, subscriber.qos);
        let client = self.w.connect_only(version, &id, &options(brief));
        self.list(members)[who].client = client;
        if brief {
            self.list(members)[who].unreleased.clear();
            self.w.subscribe(client, "$share/group/t/+", qos);
        }
    }

    fn finish(&mut self) {
        self.w.paused = false;
        for members in [false, true] {
            for who in 0..self.list(members).len() {
                let client = self.list(members)[who].client;
                if self.w.clients[client].link.is_none() {
                    self.come_back(members, who);
                }
            }
        }
        // What was read and not acknowledged comes again on a new connection.
        for members in [false, true] {
            for who in 0..self.list(members).len() {
                if self.list(members)[who].qos > QoS::AtMostOnce {
                    self.come_back(members, who);
                }
                for _ in 0..2_000 {
                    self.w.settle();
                    let client = self.list(members)[who].client;
                    if self.w.clients[client].received.is_empty() {
                        break;
                    }
                    self.read(members, who);
                }
            }
        }
        for members in [true, false] {
            for who in 0..self.list(members).len() {
                self.w.settle();
                self.read(members, who);
                self.w.settle();
                self.read(members, who);
            }
        }
    }

    fn check(&self, seed: u64) {
        for subscriber in &self.subscribers {
            let mut next: HashMap<usize, usize> = HashMap::new();
            let mut once = HashSet::new();
            for (publisher, number) in &subscriber.seen {
                let what = (subscriber.id.as_str(), publisher, number);
                let expected = next.entry(*publisher).or_default();
                if !once.insert((*publisher, *number)) {
                    // Only a QoS 1 delivery may come twice: a QoS 1 subscription, or a QoS 1
                    // message of a QoS 2 one.
                    let may_repeat = subscriber.qos == QoS::AtLeastOnce
                        || (subscriber.qos == QoS::ExactlyOnce && number % 2 == 0);
                    assert!(may_repeat, "seed {seed}: {what:?} came twice");
                    continue;
                }
                assert_eq!(number, expected, "seed {seed}: {what:?} out of order");
                *expected += 1;
            }
            for (publisher, sent) in self.sent.iter().enumerate() {
                let seen = next.get(&publisher).copied().unwrap_or(0);
                assert_eq!(
                    seen, *sent,
                    "seed {seed}: {} lost from {publisher}",
                    subscriber.id
                );
            }
        }
        let all: HashSet<_> = self
            .members
            .iter()
            .flat_map(|m| m.seen.iter().copied())
            .collect();
        let sent: usize = self.sent.iter().sum();
        // A brief member's client may have read a QoS 2 message that then counts as delivered;
        // nothing of QoS 1 may be missing anywhere.
        assert_eq!(all.len(), sent, "seed {seed}: the group lost something");
    }
}

fn options(brief: bool) -> ConnectOptions<'static> {
    if brief {
        ConnectOptions::default()
    } else {
        ConnectOptions::persistent()
    }
}

fn run(seed: u64, size: Size) {
    let mut simulation = Simulation::new(seed, size);
    for _ in 0..size.steps {
        simulation.step();
    }
    simulation.finish();
    simulation.check(seed);
}

#[test]
fn delivery_guarantees_hold_whatever_the_order() {
    let size = Size {
        shards_min: 1,
        subscribers: 60,
        members: 8,
        steps: 4_000,
    };
    crate::world::run_seeds(25, |seed| run(seed, size));
}

/// The same with more sessions than any list or table of a hub begins with.
#[test]
fn delivery_guarantees_hold_among_thousands_of_sessions() {
    let size = Size {
        shards_min: 2,
        subscribers: 3_000,
        members: 500,
        steps: 1_500,
    };
    crate::world::run_seeds_or(1, 50, |seed| run(seed, size));
}
