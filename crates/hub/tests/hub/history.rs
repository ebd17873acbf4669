//! Topics with a history, and subscribers that ask for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::world::{ConnectOptions, Random, World, clean, encoded, qos};
use stentor_disk::simulated::SimulatedDisk;
use stentor_hub::{HistoryBounds, Keep, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{
    Packet, PacketId, Property, PropertyBuf, QoS, Sender, Subscribe, SubscribeFilterBuf, Version,
    decode, frame,
};
use stentor_retained::{Quota, Store, StoreOptions, Sync};

const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

fn settings(messages: u32, slow: SlowPolicy) -> Settings {
    let policy = TopicPolicy {
        filter: "k/#".into(),
        qos0: slow,
        qos1: slow,
        keep: Keep::All,
        history: HistoryBounds {
            messages,
            age: Duration::ZERO,
            bytes: u64::MAX,
        },
        ..TopicPolicy::default()
    };
    Settings {
        policies: vec![policy],
        ..Settings::default()
    }
}

fn world_of(shards: u8, settings: Settings) -> World {
    let options = StoreOptions {
        sync: Sync::Never,
        total: Quota::UNLIMITED,
        zone: Quota::UNLIMITED,
        started_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000),
        now: stentor_session::Tick::ZERO,
        random: 7,
        boot: 1,
    };
    let store = Store::open(SimulatedDisk::new(1), &options).unwrap();
    World::with_store(shards, settings, Arc::new(store))
}

fn world(shards: u8, messages: u32) -> World {
    world_of(shards, settings(messages, SlowPolicy::DropNewest))
}

/// A PUBLISH as a subscriber of MQTT 5 reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    topic: String,
    payload: String,
    retain: bool,
    qos: u8,
    packet_id: Option<PacketId>,
    pairs: Vec<(String, String)>,
}

impl Got {
    fn of(bytes: &[u8]) -> Self {
        let frame = frame(bytes, u32::MAX).unwrap().unwrap();
        let body = &bytes[frame.header_len..];
        let decoded = decode(Version::V5, Sender::Server, frame.first, body);
        let Ok(Packet::Publish(publish)) = decoded else {
            panic!("a PUBLISH");
        };
        let pairs = publish.properties.user_properties();
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            topic: publish.topic.to_owned(),
            payload: String::from_utf8_lossy(publish.payload).into_owned(),
            retain: publish.retain,
            qos: publish.qos as u8,
            packet_id: publish.packet_id,
            pairs: pairs.collect(),
        }
    }

    fn property(&self, name: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    }

    fn seq(&self) -> u64 {
        self.property("seq").expect("a number").parse().unwrap()
    }
}

/// Takes all that a client gets, and acknowledges it, until nothing comes any more.
fn take(w: &mut World, client: usize, room: usize) -> Vec<Got> {
    let (mut got, mut idle) = (Vec::new(), 0);
    while idle < 3 {
        w.open_socket(client, room);
        idle += 1;
        while let Some(packet) = w.take_packet(client, 0x30) {
            idle = 0;
            let one = Got::of(&packet);
            if let Some(id) = one.packet_id {
                w.send_ack(client, if one.qos == 1 { 0x40 } else { 0x50 }, id);
                w.send_ack(client, 0x70, id);
            }
            got.push(one);
        }
    }
    got
}

fn ask(w: &mut World, client: usize, filter: &str, qos: QoS, value: &str) -> Vec<Got> {
    let suback = w.subscribe_asking(client, filter, qos, &[("history", value)]);
    assert_eq!(*suback.last().unwrap(), qos as u8, "{value}");
    take(w, client, usize::MAX)
}

/// The SUBSCRIBE of [`ask`] as bytes.
fn subscribe(filter: &str, level: QoS, value: &str) -> Vec<u8> {
    let mut properties = PropertyBuf::new();
    properties.push(Property::UserProperty(("history", value)));
    let mut filters = SubscribeFilterBuf::new(Version::V5);
    filters.push(filter, qos(level)).unwrap();
    let packet = Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).unwrap(),
        properties: properties.as_properties(),
        filters: filters.as_filters(),
    });
    encoded(Version::V5, &packet)
}

fn payloads(got: &[Got]) -> Vec<&str> {
    got.iter().map(|one| one.payload.as_str()).collect()
}

#[test]
fn a_subscriber_gets_what_it_asks_for_and_then_the_end() {
    for (shards, qos) in [
        (1, QoS::AtMostOnce),
        (4, QoS::AtLeastOnce),
        (4, QoS::ExactlyOnce),
    ] {
        let mut w = world(shards, 100);
        let p = w.connect(Version::V311, "p", &clean());
        for number in 1..=300 {
            w.publish(p, "k/a", &number.to_string(), QoS::ExactlyOnce, false);
        }
        let s = w.connect(Version::V5, "s", &clean());
        let got = ask(&mut w, s, "k/a", qos, "last:10");
        let expected: Vec<String> = (291..=300).map(|n| n.to_string()).collect();
        assert_eq!(payloads(&got[..10]), expected);
        let (end, messages) = got.split_last().unwrap();
        assert_eq!(end.property("history-end"), Some("k/a"));
        assert_eq!((end.topic.as_str(), end.payload.as_str()), ("k/a", ""));
        assert!(!end.retain && end.qos == 0 && end.property("snapshot-end").is_none());
        let epoch = messages[0].property("epoch").unwrap().to_owned();
        for pair in messages.windows(2) {
            assert_eq!(pair[1].seq(), pair[0].seq() + 1);
        }
        let is_stored = |one: &Got| one.retain && one.property("epoch") == Some(&epoch);
        assert!(messages.iter().all(is_stored));
        assert!(messages.iter().all(|one| one.qos == qos as u8));
        // What follows comes live, with the numbers after that.
        w.publish(p, "k/a", "301", QoS::ExactlyOnce, false);
        let live = take(&mut w, s, usize::MAX);
        assert_eq!((payloads(&live), live[0].retain), (vec!["301"], false));
        assert_eq!(live[0].seq(), messages[9].seq() + 1);
        let seq = messages[7].seq();
        let got = ask(&mut w, s, "k/a", qos, &format!("after:{seq}"));
        assert_eq!(payloads(&got), ["299", "300", "301", ""]);
        let got = ask(&mut w, s, "k/a", qos, "since:0");
        assert_eq!(got.len(), 101);
        let got = ask(&mut w, s, "k/a", qos, "since:2031-01-01T00:00:00Z");
        assert_eq!(payloads(&got), [""]);
        // A subscriber that does not ask gets the last message.
        let plain = w.connect(Version::V5, "plain", &clean());
        w.subscribe(plain, "k/a", qos);
        assert_eq!(payloads(&take(&mut w, plain, usize::MAX)), ["301"]);
    }
}

#[test]
fn a_filter_brings_the_history_of_each_topic_and_the_last_of_others() {
    let mut w = world(3, 5);
    let p = w.connect(Version::V5, "p", &clean());
    for number in 1..=7 {
        for topic in ["k/a", "k/b", "k/b/c", "n/x"] {
            let payload = format!("{topic} {number}");
            w.publish(p, topic, &payload, QoS::AtLeastOnce, true);
        }
    }
    // An empty message is one of them.
    w.publish(p, "k/b", "", QoS::AtLeastOnce, false);
    let s = w.connect(Version::V5, "s", &clean());
    let got = ask(&mut w, s, "#", QoS::AtMostOnce, "last:2");
    let mut by_topic: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (end, messages) = got.split_last().unwrap();
    for one in messages {
        by_topic.entry(&one.topic).or_default().push(&one.payload);
    }
    let expected = BTreeMap::from([
        ("k/a", vec!["k/a 6", "k/a 7"]),
        ("k/b", vec!["k/b 7", ""]),
        ("k/b/c", vec!["k/b/c 6", "k/b/c 7"]),
        ("n/x", vec!["n/x 7"]),
    ]);
    assert_eq!(by_topic, expected);
    assert_eq!(end.topic, "history-end");
    assert_eq!(end.property("history-end"), Some("#"));
    // Both ends in one message, and nothing stored where the client wants none.
    let pairs = [("snapshot-end", ""), ("history", "last:1")];
    w.subscribe_asking(s, "k/+", QoS::AtMostOnce, &pairs);
    let got = take(&mut w, s, usize::MAX);
    let end = got.last().unwrap();
    assert_eq!((end.topic.as_str(), got.len()), ("k/history-end", 3));
    assert_eq!(end.property("snapshot-end"), Some("k/+"));
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    let mut w = world(1, 5);
    let s = w.connect(Version::V5, "s", &clean());
    for value in ["", "last:0", "last:x", "10", "since:yesterday", "after:-1"] {
        let suback = w.subscribe_asking(s, "k/a", QoS::AtMostOnce, &[("history", value)]);
        assert_eq!(*suback.last().unwrap(), 0x83, "{value}");
        let text = String::from_utf8_lossy(&suback);
        assert!(text.contains("last:N with N from 1 to 1000000"), "{text}");
    }
    let two = [("history", "last:1"), ("history", "last:2")];
    let suback = w.subscribe_asking(s, "k/a", QoS::AtMostOnce, &two);
    assert_eq!(*suback.last().unwrap(), 0x83);
    assert!(String::from_utf8_lossy(&suback).contains("there twice"));
    assert_eq!(take(&mut w, s, usize::MAX), []);
}

#[test]
fn a_client_gets_no_history_that_it_may_not_receive() {
    let mut w = world(2, 5);
    let p = w.connect(Version::V5, "p", &clean());
    for topic in ["k/a", "k/secret/b"] {
        w.publish(p, topic, "x", QoS::AtLeastOnce, false);
    }
    let narrow = ConnectOptions {
        denied: &["k/secret"],
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &narrow);
    let got = ask(&mut w, s, "k/#", QoS::AtMostOnce, "last:9");
    let topics: Vec<&str> = got.iter().map(|one| one.topic.as_str()).collect();
    assert_eq!(topics, ["k/a", "k/history-end"]);
}

/// Whatever its policy is for slow clients, and however little it reads: all messages come, in
/// their order, and then the end.
#[test]
fn a_history_is_paced_and_complete() {
    for (qos, policy, receive_maximum) in [
        (0, SlowPolicy::DropNewest, 65_535),
        (0, SlowPolicy::Conflate, 65_535),
        (1, SlowPolicy::Conflate, 5),
        (1, SlowPolicy::Disconnect, 7),
        (2, SlowPolicy::DropOldest, 30),
    ] {
        let settings = Settings {
            queue_bytes_max: 64 * 1024,
            ..settings(3_000, policy)
        };
        let mut w = world_of(2, settings);
        let p = w.connect(Version::V5, "p", &clean());
        for number in 0..2_000 {
            let payload = format!("{number} {}", "x".repeat(100));
            w.publish(p, "k/a", &payload, QoS::ExactlyOnce, false);
        }
        let options = ConnectOptions {
            receive_maximum,
            ..clean()
        };
        let s = w.connect(Version::V5, "s", &options);
        w.clients[s].socket_room = 1_000;
        w.subscribe_asking(s, "k/+", LEVELS[qos], &[("history", "after:0")]);
        let got = take(&mut w, s, 5_000);
        let case = format!("QoS {qos}, {policy:?}");
        assert_eq!(w.clients[s].closed, None, "{case}");
        assert_eq!(got.last().unwrap().topic, "k/history-end", "{case}");
        let first = |one: &Got| one.payload.split(' ').next().unwrap().to_owned();
        let numbers: Vec<String> = got[..got.len() - 1].iter().map(first).collect();
        let expected: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
        assert!(numbers == expected, "{case}: {} messages", numbers.len());
    }
}

/// A long history takes many turns, and others are served in between.
#[test]
fn a_long_history_leaves_turns_to_others() {
    const VISITS_MAX: u32 = 4_096 + 1_024 + 512;
    let mut w = world(1, 30_000);
    let p = w.connect(Version::V5, "p", &clean());
    for number in 0..30_000 {
        w.publish(p, "k/a", &number.to_string(), QoS::AtMostOnce, false);
    }
    let bystander = w.connect(Version::V5, "b", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.paused = true;
    w.hubs[0].begin_turn();
    w.send_without_settling(s, &subscribe("#", QoS::AtMostOnce, "since:1"));
    assert!(w.hubs[0].turn().visits() <= VISITS_MAX);
    let mut got = 0;
    let (_, turns) = w.turns_beside(bystander, VISITS_MAX, |w| {
        while w.take_packet(s, 0x30).is_some() {
            got += 1;
        }
    });
    w.paused = false;
    got += take(&mut w, s, usize::MAX).len();
    assert_eq!(got, 30_001);
    assert!(turns > 20, "{turns}");
}

/// Between what is stored and what comes live, nothing is missing, whenever somebody subscribes.
#[test]
fn history_and_live_messages_leave_no_gap() {
    for seed in 1..=60 {
        let mut random = Random(seed * 7_919);
        let shards = 1 + random.below(4) as u8;
        let mut w = world(shards, 10_000);
        let publishers: Vec<usize> = (0..3)
            .map(|at| w.connect(Version::V5, &format!("p{at}"), &clean()))
            .collect();
        let topics = ["k/a", "k/b", "k/c/d"];
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut readers = Vec::new();
        for _ in 0..200 {
            let topic = topics[random.below(topics.len())];
            let number = counts.entry(topic).or_default();
            *number += 1;
            let publisher = publishers[random.below(publishers.len())];
            w.paused = random.chance(60);
            let payload = number.to_string();
            w.publish(publisher, topic, &payload, QoS::AtLeastOnce, false);
            if random.chance(4) {
                let id = format!("s{}", readers.len());
                w.paused = false;
                let s = w.connect(Version::V5, &id, &clean());
                w.paused = true;
                let filter = ["k/#", "k/a"][random.below(2)];
                let bytes = subscribe(filter, LEVELS[random.below(2)], "after:0");
                w.send_without_settling(s, &bytes);
                readers.push((s, filter));
            }
        }
        w.paused = false;
        w.settle();
        for (s, filter) in readers {
            let got = take(&mut w, s, usize::MAX);
            let mut numbers: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
            for one in got.iter().filter(|one| one.property("seq").is_some()) {
                numbers.entry(&one.topic).or_default().push(one.seq());
            }
            for (topic, count) in &counts {
                if filter != "k/#" && filter != *topic {
                    continue;
                }
                let mut seen = numbers.remove(topic).unwrap_or_default();
                seen.sort_unstable();
                seen.dedup();
                let span = seen.last().map_or(0, |last| last - seen[0] + 1);
                assert_eq!(
                    (seen.len(), span),
                    (*count, *count as u64),
                    "seed {seed}, {topic}"
                );
            }
        }
    }
}
