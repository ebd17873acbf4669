//! Clients that get the newest message of each topic: because they are slow, or because they ask
//! for fewer.

use std::collections::HashMap;
use std::time::Duration;

use crate::world::PING;
use crate::world::{ConnectOptions, Random, World, clean, encoded_publish};
use stentor_hub::{LossCause, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{Packet, Properties, Publish, QoS, Sender, Version, decode, encode, frame};
use stentor_session::{CloseReason, Limit, Tick};

const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// Everything below `t/` is conflated, what is below `r/` goes out twice a second and topic.
fn settings() -> Settings {
    let conflate = TopicPolicy {
        filter: "t/#".into(),
        qos0: SlowPolicy::Conflate,
        qos1: SlowPolicy::Conflate,
        ..TopicPolicy::default()
    };
    let rate = TopicPolicy {
        filter: "r/#".into(),
        interval: Duration::from_millis(500),
        ..TopicPolicy::default()
    };
    Settings {
        policies: vec![conflate, rate],
        ..Settings::default()
    }
}

fn numbers(payloads: Vec<String>) -> Vec<u32> {
    payloads
        .iter()
        .map(|p| p.trim_end_matches('x').parse().unwrap())
        .collect()
}

/// Subscribes with user properties; returns the reason code.
fn subscribe(w: &mut World, client: usize, filter: &str, qos: QoS, pairs: &[(&str, &str)]) -> u8 {
    *w.subscribe_asking(client, filter, qos, pairs)
        .last()
        .unwrap()
}

/// A message that newer ones may replace is more work for each of its subscribers.
#[test]
fn a_turn_hands_over_fewer_messages_that_newer_ones_may_replace() {
    let handed = |topic: &str| {
        let mut w = World::with_settings(1, settings());
        for n in 0..100 {
            let s = w.connect(Version::V5, &format!("s{n}"), &clean());
            w.subscribe(s, "#", QoS::AtMostOnce);
        }
        let ids = (0..50).map(|n| format!("p{n}"));
        let publishers: Vec<_> = ids
            .map(|id| w.connect(Version::V5, &id, &clean()))
            .collect();
        w.paused = true;
        w.hubs[0].begin_turn();
        for (n, p) in publishers.into_iter().enumerate() {
            let topic = format!("{topic}/{n}");
            w.send_without_settling(p, &encoded_publish(&topic, b"x", Properties::EMPTY));
        }
        (
            w.hubs[0].turn().handed_over().subscribers,
            w.hubs[0].turn().has_jobs(),
        )
    };
    assert_eq!(handed("other"), (5_000, false));
    let (subscribers, goes_on) = handed("t");
    assert!(subscribers < 2_000 && goes_on, "{subscribers} {goes_on}");
}

#[test]
fn a_slow_client_gets_the_newest_of_each_topic_and_a_fast_one_all() {
    for (qos, shards) in [(0, 1), (0, 3), (1, 1), (2, 2)] {
        let qos = LEVELS[qos];
        let mut w = World::with_settings(shards, settings());
        let p = w.connect(Version::V311, "p", &clean());
        let (slow, fast) = (
            w.connect(Version::V5, "slow", &clean()),
            w.connect(Version::V5, "fast", &clean()),
        );
        for s in [slow, fast] {
            w.subscribe(s, "t/#", qos);
        }
        w.clients[slow].socket_room = 0;
        for i in 0..100 {
            for topic in ["t/a", "t/b", "t/c"] {
                w.publish(p, topic, &i.to_string(), qos, false);
            }
        }
        assert_eq!(w.take_messages(fast).len(), 300);
        w.open_socket(slow, usize::MAX);
        let got = w.take_messages(slow);
        // The first one was under way when the socket turned out to be full.
        let seen: Vec<_> = got
            .iter()
            .map(|m| format!("{}={}", m.topic, String::from_utf8_lossy(&m.payload)))
            .collect();
        assert_eq!(seen, ["t/a=0", "t/b=99", "t/c=99", "t/a=99"], "{qos:?}");
        let shard = usize::from(w.clients[slow].shard);
        assert_eq!(
            w.hubs[shard]
                .inspect()
                .losses()
                .by_cause(LossCause::Conflated),
            99 + 99 + 98
        );
        // It keeps up again: nothing is left out.
        for i in 0..5 {
            w.publish(p, "t/a", &i.to_string(), qos, false);
        }
        assert_eq!(w.take_messages(slow).len(), 5);
    }
}

/// What holds a packet id is never dropped, and comes before what is newer.
#[test]
fn a_client_that_does_not_acknowledge_gets_the_newest_when_it_does() {
    let mut w = World::with_settings(1, settings());
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        receive_maximum: 2,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t/#", QoS::AtLeastOnce);
    for i in 0..10 {
        w.publish(p, "t/a", &i.to_string(), QoS::AtLeastOnce, false);
    }
    w.publish(p, "t/b", "10", QoS::AtLeastOnce, false);
    // QoS 0 needs no packet id and is not held up by those who do; but not before what is older.
    w.publish(p, "t/c", "11", QoS::AtMostOnce, false);
    w.publish(p, "t/a", "12", QoS::AtMostOnce, false);
    let got = w.take_messages(s);
    let ids: Vec<_> = got.iter().filter_map(|m| m.packet_id).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(
        numbers(got.iter().map(|m| text(&m.payload)).collect()),
        [0, 1, 11]
    );
    w.drop_link(s);
    w.publish(p, "t/b", "13", QoS::AtLeastOnce, false);
    let s = w.connect(Version::V5, "s", &options);
    let again = w.take_messages(s);
    assert_eq!(
        numbers(again.iter().map(|m| text(&m.payload)).collect()),
        [0, 1]
    );
    assert!(again.iter().all(|m| m.dup));
    for id in ids {
        w.send_ack(s, 0x40, id);
    }
    // What waited at QoS 0 went with the connection.
    assert_eq!(numbers(w.take_payloads(s)), [13]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_absent_client_finds_the_newest_of_each_topic() {
    let mut w = World::with_settings(1, settings());
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t/#", QoS::AtLeastOnce);
    w.drop_link(s);
    for i in 0..50 {
        w.publish(p, "t/a", &i.to_string(), QoS::AtLeastOnce, false);
        w.publish(p, "t/b", &i.to_string(), QoS::AtMostOnce, false);
        w.publish(p, "t/c", &i.to_string(), QoS::ExactlyOnce, false);
    }
    let waiting = w.hubs[0]
        .inspect()
        .client(stentor_topic::Zone(0), "s")
        .unwrap()
        .waiting;
    assert_eq!(waiting, 2);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    assert_eq!(numbers(w.take_payloads(s)), [49, 49]);
}

/// A small queue conflates before it is full, also within one read.
#[test]
fn a_small_queue_conflates_as_well() {
    for queue_bytes_max in [4, 16, 64, 100].map(|kib| kib * 1024) {
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            let settings = Settings {
                queue_bytes_max,
                ..settings()
            };
            let mut w = World::with_settings(1, settings);
            let p = w.connect(Version::V311, "p", &clean());
            let s = w.connect(Version::V5, "s", &clean());
            w.subscribe(s, "t/#", qos);
            let mut bytes = Vec::new();
            for i in 0..1_000 {
                let publish = Publish {
                    dup: false,
                    qos: QoS::AtMostOnce,
                    retain: false,
                    topic: "t/a",
                    packet_id: None,
                    properties: Properties::EMPTY,
                    payload: &[b"x".repeat(500).as_slice(), i.to_string().as_bytes()].concat(),
                };
                encode(Version::V311, &Packet::Publish(publish), &mut bytes).unwrap();
            }
            w.send_bytes(p, &bytes);
            assert_eq!(w.clients[s].closed, None, "{queue_bytes_max} {qos:?}");
            let last = w.take_payloads(s).pop().unwrap();
            assert!(last.ends_with("x999"), "{queue_bytes_max} {qos:?}: {last}");
        }
    }
}

/// Even the newest of each are bounded: then the connection is closed, as for `disconnect`.
#[test]
fn too_many_topics_disconnect() {
    let mut w = World::with_settings(
        1,
        Settings {
            queue_bytes_max: 10_000,
            ..settings()
        },
    );
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    w.clients[s].socket_room = 0;
    for i in 0..1_000 {
        w.publish(p, "t/same", &i.to_string(), QoS::AtMostOnce, false);
    }
    assert_eq!(w.clients[s].closed, None);
    for i in 0..100 {
        w.publish(p, &format!("t/{i}"), "x", QoS::AtMostOnce, false);
    }
    assert_eq!(
        w.clients[s].closed,
        Some(CloseReason::Limit(Limit::QueueBytes))
    );
}

fn pass_millis(w: &mut World, millis: u64) {
    w.now = Tick::from_micros(w.now.as_micros() + millis * 1_000);
    w.advance();
}

#[test]
fn a_maximum_rate_sends_the_newest_and_never_loses_the_last() {
    for qos in LEVELS {
        let mut w = World::with_settings(2, settings());
        let p = w.connect(Version::V5, "p", &clean());
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "r/#", qos);
        let mut got = Vec::new();
        // 20 a second for two seconds, in two topics.
        for i in 0..40 {
            w.publish(p, "r/a", &i.to_string(), qos, false);
            w.publish(p, "r/b", &i.to_string(), qos, false);
            got.extend(w.take_messages(s));
            for id in got.iter().filter_map(|m| m.packet_id) {
                let ack = if qos == QoS::AtLeastOnce { 0x40 } else { 0x50 };
                w.send_ack(s, ack, id);
                w.send_ack(s, 0x70, id);
            }
            pass_millis(&mut w, 50);
        }
        pass_millis(&mut w, 500);
        got.extend(w.take_messages(s));
        for topic in ["r/a", "r/b"] {
            let of = got.iter().filter(|m| m.topic == topic);
            let of = numbers(of.map(|m| text(&m.payload)).collect());
            assert_eq!(of, [0, 9, 19, 29, 39], "{qos:?}");
        }
        // After a pause the next one goes at once.
        pass_millis(&mut w, 500);
        w.publish(p, "r/a", "40", qos, false);
        assert_eq!(numbers(w.take_payloads(s)), [40]);
    }
}

/// [MQTT-3.3.1-9] Each SUBSCRIBE gets what is stored, however recently the last message of the
/// topic went; the rate goes on from there.
#[test]
fn a_new_subscribe_is_answered_whatever_the_rate() {
    for (qos, shards) in [(0, 1), (0, 2), (1, 1), (2, 2)] {
        let qos = LEVELS[qos];
        let mut w = World::with_settings(shards, settings());
        let p = w.connect(Version::V5, "p", &clean());
        let s = w.connect(Version::V5, "s", &clean());
        w.publish(p, "r/a", "1", qos, true);
        let found = |w: &mut World| -> Vec<(String, bool)> {
            let got = w.take_messages(s).into_iter();
            got.map(|m| (text(&m.payload), m.retain)).collect()
        };
        let stored = |payload: &str| vec![(payload.to_owned(), true)];
        for filter in ["r/a", "r/a", "r/#", "r/a"] {
            assert_eq!(subscribe(&mut w, s, filter, qos, &[]), qos as u8);
            assert_eq!(found(&mut w), stored("1"), "{qos:?} {filter}");
            pass_millis(&mut w, 100);
        }
        w.unsubscribe(s, "r/#");
        // One waits for its turn, the stored one comes at once, and the turn does not move.
        w.publish(p, "r/a", "2", qos, true);
        assert!(found(&mut w).is_empty());
        assert_eq!(subscribe(&mut w, s, "r/a", qos, &[]), qos as u8);
        assert_eq!(found(&mut w), stored("2"), "{qos:?}");
        pass_millis(&mut w, 399);
        assert!(found(&mut w).is_empty());
        pass_millis(&mut w, 1);
        assert_eq!(found(&mut w), [("2".to_owned(), false)], "{qos:?}");
        // The stored message counts for the rate.
        pass_millis(&mut w, 500);
        assert_eq!(subscribe(&mut w, s, "r/a", qos, &[]), qos as u8);
        assert_eq!(found(&mut w), stored("2"));
        w.publish(p, "r/a", "3", qos, false);
        pass_millis(&mut w, 499);
        assert!(found(&mut w).is_empty(), "{qos:?}");
        pass_millis(&mut w, 1);
        assert_eq!(found(&mut w), [("3".to_owned(), false)], "{qos:?}");
    }
}

#[test]
fn a_subscription_may_ask_for_a_rate() {
    let mut w = World::with_settings(1, settings());
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    for bad in [
        "", "x", "0", "-1", "+1", "NaN", "inf", "1000001", "0.0001", "1e3", ".5", "5.", " 5",
        "1.2.3",
    ] {
        let refused = w.subscribe_asking(s, "m", QoS::AtMostOnce, &[("max-rate", bad)]);
        assert_eq!(refused.last(), Some(&0x83), "{bad}");
        let told = String::from_utf8_lossy(&refused);
        assert!(told.contains("from 0.001 to 1000000"), "{told}");
    }
    assert_eq!(
        subscribe(&mut w, s, "m", QoS::AtMostOnce, &[("max-rate", "4")]),
        0
    );
    let burst = |w: &mut World, s: usize, from: u32| {
        for i in from..from + 5 {
            w.publish(p, "m", &i.to_string(), QoS::AtMostOnce, false);
        }
        numbers(w.take_payloads(s))
    };
    assert_eq!(burst(&mut w, s, 0), [0]);
    assert_eq!(
        w.hubs[0].next_deadline(),
        Some(w.now.after(Duration::from_millis(250)))
    );
    pass_millis(&mut w, 249);
    assert!(numbers(w.take_payloads(s)).is_empty());
    pass_millis(&mut w, 1);
    assert_eq!(numbers(w.take_payloads(s)), [4]);
    // Half a message a second, and the subscription outlives the connection.
    assert_eq!(
        subscribe(&mut w, s, "m", QoS::AtMostOnce, &[("max-rate", "0.5")]),
        0
    );
    w.drop_link(s);
    pass_millis(&mut w, 2_000);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    assert_eq!(burst(&mut w, s, 10), [10]);
    pass_millis(&mut w, 1_999);
    assert!(numbers(w.take_payloads(s)).is_empty());
    pass_millis(&mut w, 1);
    assert_eq!(numbers(w.take_payloads(s)), [14]);
    // Another one that matches asks for everything.
    pass_millis(&mut w, 2_000);
    w.subscribe(s, "+", QoS::AtMostOnce);
    assert_eq!(burst(&mut w, s, 20), [20, 21, 22, 23, 24]);
    w.unsubscribe(s, "+");
    assert_eq!(burst(&mut w, s, 30), [30]);
    pass_millis(&mut w, 2_000);
    assert_eq!(numbers(w.take_payloads(s)), [34]);
    // Subscribing without one takes it back.
    pass_millis(&mut w, 2_000);
    w.subscribe(s, "m", QoS::AtMostOnce);
    assert_eq!(burst(&mut w, s, 40), [40, 41, 42, 43, 44]);
}

/// The rates of one session are counted.
/// A message that is paced takes far longer than others, also the first of its topic: the shard
/// looks at its clock the sooner.
#[test]
fn messages_that_are_paced_count_as_more_work() {
    let mut w = World::with_settings(1, settings());
    let p = w.connect(Version::V5, "p", &clean());
    for (client, filter, pairs) in [
        ("a", "usual", &[][..]),
        ("b", "asked", &[("max-rate", "1")]),
        ("c", "r/policy", &[]),
    ] {
        let s = w.connect(Version::V5, client, &clean());
        subscribe(&mut w, s, filter, QoS::AtMostOnce, pairs);
    }
    w.paused = true;
    w.hubs[0].begin_turn();
    let mut work = |topic: &str| {
        let before = w.hubs[0].turn().work();
        w.publish(p, topic, "x", QoS::AtMostOnce, false);
        w.hubs[0].turn().work() - before
    };
    let usual = work("usual");
    for topic in ["asked", "r/policy"] {
        for what in ["passes", "waits", "replaces"] {
            let more = work(topic);
            assert!(more >= usual + 40, "{topic} {what}: {more}, {usual}");
        }
    }
}

#[test]
fn too_many_rates_are_refused() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    let ask = |w: &mut World, i: u32| {
        let filter = format!("f/{i}");
        subscribe(w, s, &filter, QoS::AtMostOnce, &[("max-rate", "1")])
    };
    for i in 0..64 {
        assert_eq!(ask(&mut w, i), 0);
    }
    assert_eq!(ask(&mut w, 64), 0x97);
    // Nor for a subscription that has none yet; one that has one may change it.
    w.subscribe(s, "f/64", QoS::AtMostOnce);
    assert_eq!(ask(&mut w, 64), 0x97);
    assert_eq!(ask(&mut w, 7), 0);
    w.unsubscribe(s, "f/7");
    assert_eq!(ask(&mut w, 64), 0);
}

/// The user properties of a message, and its topic.
fn properties(bytes: &[u8]) -> (String, Vec<(String, String)>) {
    let frame = frame(bytes, u32::MAX).unwrap().unwrap();
    let body = &bytes[frame.header_len..];
    let Ok(Packet::Publish(publish)) = decode(Version::V5, Sender::Server, frame.first, body)
    else {
        panic!("a PUBLISH");
    };
    let pairs = publish.properties.user_properties();
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (publish.topic.to_owned(), pairs.collect())
}

#[test]
fn the_end_of_a_snapshot_is_told_to_those_who_ask() {
    for (filter, stored, topic) in [
        ("k/+/x", 40, "k/snapshot-end/x"),
        ("#", 40, "snapshot-end"),
        ("k/3/x", 1, "k/3/x"),
        ("none", 0, "none"),
    ] {
        for qos in LEVELS {
            let mut w = World::new(2);
            let p = w.connect(Version::V5, "p", &clean());
            for i in 0..40 {
                w.publish(p, &format!("k/{i}/x"), "v", QoS::ExactlyOnce, true);
            }
            let options = ConnectOptions {
                receive_maximum: 7,
                ..clean()
            };
            let s = w.connect(Version::V5, "s", &options);
            let reason = subscribe(&mut w, s, filter, qos, &[("snapshot-end", "")]);
            assert_eq!(reason, qos as u8);
            let mut got = Vec::new();
            while let Some(packet) = w.take_packet(s, 0x30) {
                let message = w.clients[s].parse(&packet);
                if let Some(id) = message.packet_id {
                    assert!(message.retain);
                    w.send_ack(s, if qos == QoS::AtLeastOnce { 0x40 } else { 0x50 }, id);
                    w.send_ack(s, 0x70, id);
                }
                got.push(packet);
            }
            assert_eq!(got.len(), stored + 1, "{filter} {qos:?}");
            let (name, pairs) = properties(got.last().unwrap());
            assert_eq!(name, topic);
            assert_eq!(pairs, [("snapshot-end".to_owned(), filter.to_owned())]);
            let end = w.clients[s].parse(got.last().unwrap());
            assert!(end.payload.is_empty() && !end.retain && end.qos == QoS::AtMostOnce);
        }
    }
}

/// However many topics are stored, however little may wait for the client, and whatever its
/// policy: it gets all of them, and then the end.
#[test]
fn a_snapshot_of_conflated_topics_is_paced() {
    const TOPICS: usize = 3_000;
    for (prefix, qos, receive_maximum, step) in [
        ("t", 0, 65_535, usize::MAX),
        ("t", 0, 65_535, 3_000),
        ("t", 1, 65_535, usize::MAX),
        ("t", 1, 5, 3_000),
        ("t", 2, 70, 3_000),
        ("r", 0, 65_535, 3_000),
        ("r", 1, 5, usize::MAX),
    ] {
        let settings = Settings {
            queue_bytes_max: 128 * 1024,
            ..settings()
        };
        let mut w = World::with_settings(2, settings);
        let p = w.connect(Version::V5, "p", &clean());
        for i in 0..TOPICS {
            let payload = format!("{i}{}", "x".repeat(100));
            w.publish(
                p,
                &format!("{prefix}/{i}"),
                &payload,
                QoS::ExactlyOnce,
                true,
            );
        }
        let options = ConnectOptions {
            receive_maximum,
            ..clean()
        };
        let s = w.connect(Version::V5, "s", &options);
        w.clients[s].socket_room = 1_000;
        let filter = format!("{prefix}/#");
        subscribe(&mut w, s, &filter, LEVELS[qos], &[("snapshot-end", "")]);
        let mut got = Vec::new();
        let mut idle = 0;
        while idle < 3 {
            w.open_socket(s, step);
            idle += 1;
            for message in w.take_messages(s) {
                idle = 0;
                if let Some(id) = message.packet_id {
                    w.send_ack(s, if qos == 1 { 0x40 } else { 0x50 }, id);
                    w.send_ack(s, 0x70, id);
                }
                got.push(message.topic);
            }
        }
        let case = format!("{prefix}, QoS {qos}, {receive_maximum}, {step}");
        assert_eq!(w.clients[s].closed, None, "{case}");
        assert_eq!(
            got.last().unwrap(),
            &format!("{prefix}/snapshot-end"),
            "{case}"
        );
        got.sort_unstable();
        got.dedup();
        assert_eq!(got.len(), TOPICS + 1, "{case}");
    }
}

/// The end answers the subscription, which was accepted: no rights keep it back.
#[test]
fn the_end_of_a_snapshot_comes_where_rights_cover_a_part() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    for topic in ["k/a", "x/b"] {
        w.publish(p, topic, "v", QoS::AtMostOnce, true);
    }
    let narrow = ConnectOptions {
        denied: &["x/", "snapshot-end"],
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &narrow);
    subscribe(&mut w, s, "#", QoS::AtMostOnce, &[("snapshot-end", "")]);
    let topics: Vec<_> = w.take_messages(s).into_iter().map(|m| m.topic).collect();
    assert_eq!(topics, ["k/a", "snapshot-end"]);
}

/// What one subscriber has seen: the last number of each topic, and of each QoS where messages
/// of different QoS may overtake each other because not all of them are conflated.
#[derive(Default)]
struct Seen(HashMap<(String, Option<QoS>), u32>);

fn is_strict(topic: &str) -> bool {
    !topic.starts_with('n') && topic != "t/0"
}

impl Seen {
    fn take_in(&mut self, w: &mut World, client: usize, seed: u64) {
        for message in w.take_messages(client) {
            let number = text(&message.payload)
                .trim_end_matches('x')
                .parse()
                .unwrap();
            let qos = (!is_strict(&message.topic)).then_some(message.qos);
            let last = self.0.insert((message.topic.clone(), qos), number);
            let is_newer = last.is_none_or(|last| last < number || message.dup && last == number);
            assert!(
                is_newer,
                "seed {seed}: {} went back from {last:?} to {number}",
                message.topic
            );
            if let Some(id) = message.packet_id {
                let ack = if message.qos == QoS::AtLeastOnce {
                    0x40
                } else {
                    0x50
                };
                w.send_ack(client, ack, id);
                w.send_ack(client, 0x70, id);
            }
        }
    }
}

/// Sockets that open and close, messages of every QoS, policy and rate: never an older one after
/// a newer one of its topic, and at the end everybody has the last of each.
fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mixed = [
        TopicPolicy {
            filter: "t/0".into(),
            qos0: SlowPolicy::Conflate,
            ..TopicPolicy::default()
        },
        TopicPolicy {
            filter: "t/1".into(),
            qos1: SlowPolicy::Conflate,
            interval: Duration::from_millis(30),
            ..TopicPolicy::default()
        },
    ];
    let mut settings = settings();
    settings.policies.splice(0..0, mixed);
    let mut w = World::with_settings(1 + u8::try_from(random.below(3)).unwrap(), settings);
    let p = w.connect(Version::V5, "p", &clean());
    let topics = ["t/0", "t/1", "t/2", "t/3", "r/0", "r/1", "n/0", "n/1"];
    let mut subscribers: Vec<_> = (0..8)
        .map(|i| {
            let options = ConnectOptions {
                receive_maximum: [1, 3, 65_535][random.below(3)],
                ..clean()
            };
            let s = w.connect(Version::V5, &format!("s{i}"), &options);
            let qos = LEVELS[random.below(3)];
            let rate: &[(&str, &str)] = if i % 2 == 0 {
                &[("max-rate", "7")]
            } else {
                &[]
            };
            subscribe(&mut w, s, "#", qos, rate);
            w.subscribe(s, "t/+", LEVELS[random.below(3)]);
            (s, Seen::default())
        })
        .collect();
    let mut last = HashMap::new();
    for number in 0..400 {
        let topic = topics[random.below(topics.len())];
        let payload = format!("{number}{}", "x".repeat([0, 50, 5_000][random.below(3)]));
        w.publish(
            p,
            topic,
            &payload,
            LEVELS[random.below(3)],
            random.below(4) == 0,
        );
        last.insert(topic.to_owned(), number);
        let (s, seen) = &mut subscribers[random.below(8)];
        match random.below(4) {
            0 => w.open_socket(*s, random.below(20_000)),
            1 => w.clients[*s].socket_room = random.below(100),
            2 => pass_millis(&mut w, random.below(60) as u64),
            _ => seen.take_in(&mut w, *s, seed),
        }
    }
    for (s, seen) in &mut subscribers {
        w.open_socket(*s, usize::MAX);
        for _ in 0..200 {
            seen.take_in(&mut w, *s, seed);
            pass_millis(&mut w, 20);
        }
        assert_eq!(w.clients[*s].closed, None, "seed {seed}");
        for (topic, number) in &last {
            let newest = seen.0.iter().filter(|((of, _), _)| of == topic);
            let newest = newest.map(|(_, number)| number).max();
            assert_eq!(
                newest,
                Some(number),
                "seed {seed}: the last of {topic} is missing"
            );
        }
    }
}

#[test]
fn whatever_happens_the_newest_arrives_and_nothing_older_follows() {
    crate::world::run_seeds(60, run);
}

/// The pace of very many topics ends at the same time: they go on over many turns, and nothing is
/// lost. A bystander is served in between.
#[test]
fn paces_that_end_together_leave_turns_to_others() {
    const TOPICS: usize = 10_000;
    // What a turn may do, and a little for each session when it has done that.
    const VISITS_MAX: u32 = 4_096 + 4 * 1_000;
    let mut w = World::with_settings(1, Settings::default());
    let bystander = w.connect(Version::V5, "b", &clean());
    let p = w.connect(Version::V5, "p", &clean());
    let sessions: Vec<_> = (0..4)
        .map(|number| w.connect(Version::V5, &format!("s{number}"), &clean()))
        .collect();
    for &s in &sessions {
        let pairs = [("max-rate", "0.2")];
        assert_eq!(subscribe(&mut w, s, "m/#", QoS::AtMostOnce, &pairs), 0);
    }
    for value in ["old", "new"] {
        for topic in 0..TOPICS {
            w.publish(p, &format!("m/{topic}"), value, QoS::AtMostOnce, false);
        }
    }
    let take = |w: &mut World| -> Vec<Vec<String>> {
        sessions.iter().map(|s| w.take_payloads(*s)).collect()
    };
    for payloads in take(&mut w) {
        assert_eq!(payloads.len(), TOPICS);
    }
    w.paused = true;
    w.now = w.now.after(Duration::from_secs(6));
    let (mut got, mut all) = ([0; 4], true);
    let (mut visits, mut turns) = (0, 0);
    while w.hubs[0].next_deadline().is_some_and(|at| at <= w.now) {
        w.advance();
        w.send_without_settling(bystander, &PING);
        w.flush(0);
        assert!(w.take_packet(bystander, 0xD0).is_some(), "turn {turns}");
        // What a flush makes room for belongs to the turn.
        let those = w.hubs[0].turn().visits();
        assert!(those <= VISITS_MAX, "{those} visits in turn {turns}");
        (visits, turns) = (visits + u64::from(those), turns + 1);
        for (count, s) in got.iter_mut().zip(&sessions) {
            let payloads = w.take_payloads(*s);
            *count += payloads.len();
            all &= payloads.iter().all(|payload| payload == "new");
        }
        assert!(turns < 10_000, "it comes to an end");
    }
    assert_eq!(got, [TOPICS; 4]);
    assert!(all, "each is the newest of its topic");
    // A look and a message for each topic.
    assert!(visits >= (48 + 48) * 4 * TOPICS as u64, "{visits}");
    assert!(turns > 50, "{turns} turns");
}
