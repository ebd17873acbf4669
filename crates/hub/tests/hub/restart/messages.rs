//! Messages above QoS 0 to sessions that last, while the server is killed at any moment: what was
//! acknowledged arrives, and at QoS 2 once.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stentor_hub::spool::tell_backlog_room;
use stentor_hub::{AtOnce, Keep, Settings, SlowPolicy, SpoolSettings, TopicPolicy};
use stentor_mqtt::{
    Ack, Disconnect, Packet, PacketId, Properties, Property, PropertyBuf, Publish, QoS, ReasonCode,
    Sender, Version, decode, frame,
};
use stentor_topic::matches;

use crate::world::{ConnectOptions, Disk, Random, World, encoded, qos as options};

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

/// Subscribers, and what they subscribe to. Those of private messages are sessions of one user.
const SUBSCRIBERS: [(&str, &str, QoS); 12] = [
    ("s0", "t/0", Q1),
    ("s1", "t/+", Q2),
    ("s2", "#", Q1),
    ("s3", "t/1", Q2),
    ("s4", "t/+", Q1),
    ("s5", "$share/g/t/#", Q2),
    ("s6", "$share/g/t/#", Q1),
    ("s7", "$share/g/t/#", Q1),
    ("s8", "k/#", Q2),
    ("s9", "c/#", Q2),
    ("sa", "$private/#", Q2),
    ("sb", "$private/from/+", Q1),
];
/// Its session ends from time to time.
const MORTAL: usize = 6;
const PUBLISHERS: usize = 3;
/// The last of `k` is kept by one shard. Of `c`, only the newest message arrives in any case: one
/// publisher has these.
const TOPICS: [&str; 6] = ["t/0", "t/1", "k/0", "$private/to/u", "c/pace", "c/slow"];
const KEPT: &str = "k/0";

fn is_thinned(topic: &str) -> bool {
    topic.starts_with("c/")
}

fn policies() -> Vec<TopicPolicy> {
    let of = |filter: &str| TopicPolicy {
        filter: filter.into(),
        ..TopicPolicy::default()
    };
    vec![
        TopicPolicy {
            keep: Keep::Last,
            ..of("k/#")
        },
        TopicPolicy {
            interval: Duration::from_millis(400),
            ..of("c/pace")
        },
        TopicPolicy {
            qos1: SlowPolicy::Conflate,
            ..of("c/slow")
        },
    ]
}

/// Limits by which nearly every message is a job.
pub(super) fn dear() -> AtOnce {
    AtOnce {
        filters: 1,
        subscribers: 0,
        shares: 0,
        work: 30,
        job_visits: 3,
        ..AtOnce::default()
    }
}

/// What a publisher waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// PUBACK or PUBREC.
    Taken,
    /// PUBCOMP.
    Completion,
}

/// A message that was sent and not settled.
#[derive(Clone, Copy, Debug)]
struct Sent {
    serial: u32,
    topic: &'static str,
    qos: QoS,
    packet_id: PacketId,
    step: Step,
}

#[derive(Debug, Default)]
struct Publisher {
    client: Option<usize>,
    /// In order.
    sent: Vec<Sent>,
    last_id: u16,
}

/// What a subscriber remembers, connected or not.
#[derive(Debug, Default)]
struct Subscriber {
    client: Option<usize>,
    /// Messages at QoS 2 that it has received and that were not released.
    unreleased: BTreeSet<PacketId>,
    /// How often each message was new to it, and with which packet id it came last.
    received: BTreeMap<u32, (u32, PacketId)>,
    /// What its earlier sessions have received.
    before: BTreeSet<u32>,
    /// Whether it was told that it is subscribed.
    is_subscribed: bool,
}

struct Simulation {
    w: World,
    random: Random,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    /// What was acknowledged, with its topic and QoS.
    acknowledged: BTreeMap<u32, (&'static str, QoS)>,
    /// What was refused, with its topic. At QoS 1 it may have been taken before that.
    refused: BTreeMap<u32, &'static str>,
    /// What was sent more than once at QoS 1: each time is a message of its own.
    repeated: BTreeSet<u32>,
    serials: u32,
    crashes: u64,
    /// Sessions of members that have ended: what they were owed may come twice.
    ends: u32,
    /// Whether messages are jobs: a member may be served twice if one is broken off.
    is_dear: bool,
    /// Whether disks are slow or full from time to time.
    disks_change: bool,
    /// Whether some of what waits goes to the disk for backlogs.
    spools: bool,
    /// Whether some messages are so large that the records of a call are several batches.
    is_large: bool,
    power: Power,
    /// Whether a server forgets the packet ids that have arrived when the power was lost.
    forgets_arrivals: bool,
    /// What was sent at QoS 2 before a crash or in an earlier connection, and was not answered. If
    /// nothing is forgotten, its packet id may be one that the server still remembers of an
    /// earlier message.
    uncertain: BTreeSet<u32>,
}

/// Whether the machine loses power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Stays,
    MayGo,
    /// It was lost: what was told before that is uncertain, and what was sent may come again.
    WasLost,
    /// The same, and it stays from now on.
    IsBack,
}

impl Power {
    const fn may_go(self) -> bool {
        matches!(self, Self::MayGo | Self::WasLost)
    }

    const fn was_lost(self) -> bool {
        matches!(self, Self::WasLost | Self::IsBack)
    }
}

fn ack(packet_id: PacketId) -> Ack<'static> {
    Ack {
        packet_id,
        reason: ReasonCode::Success,
        properties: Properties::EMPTY,
    }
}

impl Simulation {
    fn new(seed: u64, settings: Settings) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut w = World::writing(1 + random.below(3) as u8, settings);
        for (id, filter, qos) in SUBSCRIBERS {
            let client = w.connect(Version::V5, id, &options_of(filter));
            assert!(w.subscribe(client, filter, qos) < 3, "{filter}");
            w.drop_link(client);
        }
        w.paused = true;
        Self {
            w,
            random,
            publishers: (0..PUBLISHERS).map(|_| Publisher::default()).collect(),
            subscribers: SUBSCRIBERS
                .iter()
                .map(|_| Subscriber {
                    is_subscribed: true,
                    ..Subscriber::default()
                })
                .collect(),
            acknowledged: BTreeMap::new(),
            refused: BTreeMap::new(),
            repeated: BTreeSet::new(),
            serials: 0,
            crashes: 0,
            ends: 0,
            is_dear: false,
            disks_change: false,
            spools: false,
            is_large: false,
            power: Power::Stays,
            forgets_arrivals: false,
            uncertain: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        self.w.dies_between = self.is_large && self.random.chance(20);
        if self.spools {
            self.step_spool();
        }
        if self.power.may_go() && self.random.chance(10) {
            let shard = self.random.below(self.w.hubs.len()) as u8;
            self.w.sync(shard);
        }
        let publisher = self.random.below(PUBLISHERS);
        let subscriber = self.random.below(SUBSCRIBERS.len());
        let steps = if self.disks_change { 48 } else { 40 };
        match self.random.below(steps) {
            0..12 => self.publish(publisher),
            12..17 => self.come(subscriber, false),
            // It takes over.
            17 => self.come(subscriber, true),
            18..32 => self.turn(),
            32 => self.leave(subscriber),
            33 => self.drop_publisher(publisher),
            34..37 => {
                for pair in self.w.pairs_under_way() {
                    self.w.deliver_one(pair);
                }
            }
            37 => {
                let shard = self.random.below(self.w.hubs.len()) as u8;
                let at_most = self.random.below(6);
                self.w.rewrite(shard, at_most);
            }
            38 if self.random.chance(60) => self.w.pass_secs(1),
            38 => self.end(),
            40..48 => self.change_disk(),
            _ if self.random.chance(50) => self.crash(),
            _ => {}
        }
        if self.w.is_dead {
            self.crash();
        }
    }

    /// The disk for backlogs does some of what was asked. Sometimes it refuses it.
    fn step_spool(&mut self) {
        if self.random.chance(4) {
            self.w.set_spool(self.random.chance(40));
        }
        for _ in 0..self.random.below(3) {
            self.w.spool_one();
        }
        let now = self.w.now;
        for hub in &mut self.w.hubs {
            tell_backlog_room(hub, now, 0, u64::MAX);
        }
    }

    /// A disk is slow, or full, or is so no longer.
    fn change_disk(&mut self) {
        let shard = self.random.below(self.w.hubs.len()) as u8;
        let is_full = self.random.chance(20);
        match self.random.below(5) {
            0 if is_full => self.w.set_disk(shard, Disk::IsFull),
            0..2 => self.w.set_disk(shard, Disk::IsSlow),
            2 => self.w.set_disk(shard, Disk::CatchesUp),
            3 => _ = self.w.rewrite(shard, 3),
            _ => self.w.set_disk(shard, Disk::Takes),
        }
    }

    /// All disks take what is written again, and everything is written down.
    fn mend_disks(&mut self) {
        for _ in 0..1_000 {
            for shard in 0..self.w.hubs.len() as u8 {
                self.w.set_disk(shard, Disk::Takes);
                self.w.set_disk(shard, Disk::CatchesUp);
                self.w.rewrite(shard, 5);
                self.w.go_on(shard);
            }
            for pair in self.w.pairs_under_way() {
                self.w.deliver_one(pair);
            }
            if self.w.is_sound() {
                return;
            }
        }
        panic!("a journal does not become complete");
    }

    /// A shard goes on and writes; clients read and answer.
    fn turn(&mut self) {
        let shard = self.random.below(self.w.hubs.len()) as u8;
        self.w.go_on(shard);
        self.w.flush(shard);
        (0..PUBLISHERS).for_each(|who| self.read_publisher(who));
        // Some answer later.
        for who in 0..SUBSCRIBERS.len() {
            if self.random.chance(70) {
                self.read_subscriber(who);
            }
        }
    }

    fn send(&mut self, client: usize, packet: &Packet<'_>) {
        let bytes = encoded(Version::V5, packet);
        self.w.send_without_settling(client, &bytes);
    }

    fn send_publish(&mut self, client: usize, sent: Sent, dup: bool) {
        let mut payload = sent.serial.to_string();
        if self.is_large && sent.serial.is_multiple_of(4) {
            payload.extend(core::iter::repeat_n(' ', 300_000));
        }
        let packet = Packet::Publish(Publish {
            dup,
            qos: sent.qos,
            retain: false,
            topic: sent.topic,
            packet_id: Some(sent.packet_id),
            properties: Properties::EMPTY,
            payload: payload.as_bytes(),
        });
        self.send(client, &packet);
    }

    fn publish(&mut self, who: usize) {
        let Some(client) = self.publishers[who].client else {
            return self.connect_publisher(who);
        };
        if self.publishers[who].sent.len() >= 5 {
            return;
        }
        self.serials += 1;
        let publisher = &mut self.publishers[who];
        publisher.last_id = publisher.last_id % 7 + 1;
        let packet_id = PacketId::new(publisher.last_id).unwrap();
        if publisher
            .sent
            .iter()
            .any(|sent| sent.packet_id == packet_id)
        {
            return;
        }
        let sent = Sent {
            serial: self.serials,
            topic: TOPICS[self.random.below(if who == 0 { 6 } else { 4 })],
            qos: [Q1, Q2][self.random.below(2)],
            packet_id,
            step: Step::Taken,
        };
        publisher.sent.push(sent);
        self.send_publish(client, sent, false);
    }

    /// What was not settled is sent again, in order.
    fn connect_publisher(&mut self, who: usize) {
        let id = format!("p{who}");
        let options = ConnectOptions {
            user: Some("publisher"),
            ..ConnectOptions::persistent()
        };
        let client = self.w.connect_only(Version::V5, &id, &options);
        self.publishers[who].client = Some(client);
        for sent in self.publishers[who].sent.clone() {
            match sent.step {
                Step::Taken => {
                    // Another shard may have taken it, and nobody knows here.
                    if sent.qos == Q1 || sent.topic == KEPT {
                        self.repeated.insert(sent.serial);
                    }
                    // The server may not have read it: some connections are held.
                    let may_wait = self.is_dear || self.disks_change;
                    let remembers = self.power.was_lost() && !self.forgets_arrivals;
                    if sent.qos == Q2 && may_wait && remembers {
                        self.uncertain.insert(sent.serial);
                    }
                    self.send_publish(client, sent, true);
                }
                Step::Completion => self.send(client, &Packet::PubRel(ack(sent.packet_id))),
            }
        }
    }

    fn drop_publisher(&mut self, who: usize) {
        self.read_publisher(who);
        if let Some(client) = self.publishers[who].client.take() {
            self.w.drop_link(client);
        }
    }

    fn read_publisher(&mut self, who: usize) {
        let Some(client) = self.publishers[who].client else {
            return;
        };
        while let Some(bytes) = self.w.clients[client].received.pop_front() {
            let header = frame(&bytes, u32::MAX).unwrap().unwrap().header_len;
            let packet = decode(Version::V5, Sender::Server, bytes[0], &bytes[header..]);
            let (packet_id, step) = match packet.unwrap() {
                Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_error() => {
                    // The disk has refused backlogs.
                    assert_eq!(ack.reason, ReasonCode::QuotaExceeded, "{ack:?}");
                    let is_it = |sent: &mut Sent| sent.packet_id == ack.packet_id;
                    let all = self.publishers[who].sent.extract_if(.., is_it);
                    self.refused
                        .extend(all.map(|sent| (sent.serial, sent.topic)));
                    continue;
                }
                Packet::PubAck(ack) | Packet::PubRec(ack) => (ack.packet_id, Step::Taken),
                Packet::PubComp(ack) => (ack.packet_id, Step::Completion),
                _ => continue,
            };
            let all = &mut self.publishers[who].sent;
            let Some(at) = all.iter().position(|sent| sent.packet_id == packet_id) else {
                continue;
            };
            if all[at].step != step {
                continue;
            }
            let sent = all[at];
            if step == Step::Taken {
                let what = (sent.topic, sent.qos);
                self.acknowledged.insert(sent.serial, what);
            }
            if step == Step::Taken && sent.qos == Q2 {
                all[at].step = Step::Completion;
                self.send(client, &Packet::PubRel(ack(packet_id)));
            } else {
                all.remove(at);
            }
        }
    }

    fn come(&mut self, who: usize, takes_over: bool) {
        if self.subscribers[who].client.is_some() && !takes_over {
            return;
        }
        // What the old connection has answered counts.
        self.read_subscriber(who);
        let (id, filter, _) = SUBSCRIBERS[who];
        let options = ConnectOptions {
            receive_maximum: 1 + self.random.below(5) as u16,
            ..options_of(filter)
        };
        let client = self.w.connect_only(Version::V5, id, &options);
        self.subscribers[who].client = Some(client);
    }

    /// A session ends that shares a subscription, and perhaps another one begins.
    fn end(&mut self) {
        let client = match self.subscribers[MORTAL].client {
            Some(client) if self.random.chance(50) => {
                let mut properties = PropertyBuf::new();
                properties.push(Property::SessionExpiryInterval(0));
                let disconnect = Disconnect {
                    reason: ReasonCode::Success,
                    properties: properties.as_properties(),
                };
                self.send(client, &Packet::Disconnect(disconnect));
                None
            }
            _ => {
                let (id, filter, _) = SUBSCRIBERS[MORTAL];
                let options = ConnectOptions {
                    clean_start: true,
                    ..options_of(filter)
                };
                Some(self.w.connect_only(Version::V5, id, &options))
            }
        };
        self.ends += 1;
        let me = &mut self.subscribers[MORTAL];
        me.before.extend(me.received.keys());
        *me = Subscriber {
            client,
            before: std::mem::take(&mut me.before),
            ..Subscriber::default()
        };
    }

    fn leave(&mut self, who: usize) {
        if let Some(client) = self.subscribers[who].client.take() {
            self.w.drop_link(client);
        }
    }

    fn read_subscriber(&mut self, who: usize) {
        let Some(client) = self.subscribers[who].client else {
            return;
        };
        while let Some(bytes) = self.w.clients[client].received.pop_front() {
            let header = frame(&bytes, u32::MAX).unwrap().unwrap().header_len;
            let packet = decode(Version::V5, Sender::Server, bytes[0], &bytes[header..]);
            let answer = match packet.unwrap() {
                Packet::ConnAck(connack) => {
                    let is_present = connack.session_present;
                    assert!(is_present || who == MORTAL, "subscriber {who}");
                    if !self.subscribers[who].is_subscribed {
                        self.subscribe(client, who);
                    }
                    continue;
                }
                Packet::SubAck(_) => {
                    self.subscribers[who].is_subscribed = true;
                    continue;
                }
                Packet::Publish(publish) => self.take(who, &publish),
                Packet::PubRel(released) => {
                    self.subscribers[who].unreleased.remove(&released.packet_id);
                    Packet::PubComp(ack(released.packet_id))
                }
                _ => continue,
            };
            self.send(client, &answer);
        }
    }

    fn subscribe(&mut self, client: usize, who: usize) {
        let (_, filter, qos) = SUBSCRIBERS[who];
        let packet_id = PacketId::new(99).unwrap();
        self.w
            .subscribe_only(client, packet_id, filter, options(qos));
    }

    /// A message has come: how it is answered.
    fn take(&mut self, who: usize, publish: &Publish<'_>) -> Packet<'static> {
        let serial: u32 = std::str::from_utf8(publish.payload)
            .unwrap()
            .trim_end()
            .parse()
            .unwrap();
        let packet_id = publish.packet_id.unwrap();
        let me = &mut self.subscribers[who];
        let is_shared = SUBSCRIBERS[who].1.starts_with("$share");
        let is_repeated =
            self.repeated.contains(&serial) || is_shared && (self.ends > 0 || self.is_dear);
        // What is let go while a disk is slow may still be held back after a restart.
        let is_repeated = is_repeated || self.disks_change && is_thinned(publish.topic);
        let is_repeated = is_repeated || self.power.was_lost();
        if let Some((_, before)) = me.received.get(&serial)
            && !is_repeated
        {
            assert!(
                publish.dup,
                "subscriber {who}: {serial} to {} came again without DUP",
                publish.topic
            );
            assert_eq!(packet_id, *before, "subscriber {who}: {serial}");
        }
        let is_new = publish.qos == Q1 || me.unreleased.insert(packet_id);
        let (times, last) = me.received.entry(serial).or_insert((0, packet_id));
        *times += u32::from(is_new);
        *last = packet_id;
        if publish.qos == Q2 {
            assert!(
                *times <= 1 || is_repeated,
                "subscriber {who}: {serial} came twice"
            );
            return Packet::PubRec(ack(packet_id));
        }
        Packet::PubAck(ack(packet_id))
    }

    fn crash(&mut self) {
        let is_full = self.disks_change && self.random.chance(20);
        self.crash_onto(if is_full { Disk::IsFull } else { Disk::Takes });
    }

    /// The disk of the next start is so.
    fn crash_onto(&mut self, disk: Disk) {
        if !self.w.is_sound() && !self.w.is_dead {
            // Nothing was promised.
            return;
        }
        self.crashes += 1;
        // What was on its way to clients may have arrived.
        if self.random.chance(50) && !self.w.is_dead {
            self.turn();
        }
        let shards = 1 + self.random.below(4) as u8;
        if self.power.may_go() && self.random.chance(60) {
            self.w
                .lose_power(shards, self.crashes, self.forgets_arrivals);
            self.power = Power::WasLost;
            // Nobody knows what of that is left; what is acknowledged from now on is.
            self.acknowledged.clear();
        } else {
            self.w.crash_onto(disk, shards, self.crashes);
        }
        if self.power.was_lost() && !self.forgets_arrivals {
            let sent = self.publishers.iter().flat_map(|it| &it.sent);
            let taken = sent.filter(|it| it.qos == Q2 && it.step == Step::Taken);
            self.uncertain.extend(taken.map(|it| it.serial));
        }
        for publisher in &mut self.publishers {
            publisher.client = None;
        }
        for subscriber in &mut self.subscribers {
            subscriber.client = None;
        }
    }
}

/// How a subscriber connects.
fn options_of(filter: &str) -> ConnectOptions<'static> {
    ConnectOptions {
        user: filter.starts_with("$private").then_some("u"),
        ..ConnectOptions::persistent()
    }
}

/// Sessions with more than this in memory give messages to the disk.
fn spooling(share: usize) -> SpoolSettings {
    SpoolSettings {
        client_bytes_max: 1 << 30,
        memory: 0,
        share: (share, share),
        ..SpoolSettings::default()
    }
}

/// Large messages wait for the same client.
fn room_for_all() -> Settings {
    Settings {
        queue_bytes_max: 1 << 30,
        ..Settings::default()
    }
}

fn run(seed: u64) {
    let settings = Settings {
        policies: policies(),
        at_once: match seed % 2 {
            0 => dear(),
            _ => AtOnce::default(),
        },
        spool: match seed % 4 {
            0 | 1 => SpoolSettings::default(),
            // Whatever waits goes there.
            2 => spooling(1),
            _ => spooling(3_000),
        },
        ..room_for_all()
    };
    let mut simulation = Simulation::new(seed, settings);
    simulation.is_dear = seed.is_multiple_of(2);
    simulation.is_large = seed.is_multiple_of(5);
    simulation.disks_change = !simulation.is_large && !seed.is_multiple_of(3);
    simulation.spools = seed % 4 > 1;
    for _ in 0..500 {
        simulation.step();
    }
    simulation.conclude();
    let (taken, _) = simulation.w.spool.counts;
    assert!(taken > 0 || seed % 4 != 2, "the disk has had some");
    simulation.w.check_accounts();
}

#[test]
fn what_was_acknowledged_arrives_after_crashes() {
    crate::world::run_seeds(60, run);
    // A message was refused, and a round wrote down that it had arrived.
    [66, 135, 138, 318].into_iter().for_each(run);
}

/// What was acknowledged after the last of them arrives, whatever packet ids the server remembers
/// that its publishers have used again since.
#[test]
fn what_was_acknowledged_arrives_after_power_losses() {
    crate::world::run_seeds(60, |seed| {
        let is_dear = seed % 8 >= 4;
        let settings = Settings {
            policies: policies(),
            at_once: if is_dear { dear() } else { AtOnce::default() },
            ..Settings::default()
        };
        let mut simulation = Simulation::new(seed, settings);
        simulation.is_dear = is_dear;
        simulation.disks_change = seed % 4 >= 2;
        (0..simulation.w.hubs.len() as u8).for_each(|shard| simulation.w.sync(shard));
        simulation.power = Power::MayGo;
        simulation.forgets_arrivals = seed.is_multiple_of(2);
        for _ in 0..500 {
            simulation.step();
        }
        simulation.power = match simulation.power {
            Power::WasLost | Power::IsBack => Power::IsBack,
            Power::Stays | Power::MayGo => Power::Stays,
        };
        simulation.conclude();
    });
}
