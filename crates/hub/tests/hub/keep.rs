//! Topics of which every message is kept, and numbered.

use std::sync::Arc;

use crate::world::{ConnectOptions, Random, VERSIONS, World, clean};
use stentor_hub::{Keep, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{Packet, QoS, Sender, SubscribeOptions, Version, decode, frame};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{CloseReason, Limit};
use stentor_topic::TopicHasher;

fn settings() -> Settings {
    let policy = TopicPolicy {
        filter: "k/#".into(),
        qos0: SlowPolicy::Conflate,
        keep: Keep::Last,
        sequence: true,
        ..TopicPolicy::default()
    };
    Settings {
        policies: vec![policy],
        ..Settings::default()
    }
}

/// The payload and the user properties of a PUBLISH.
fn read(version: Version, bytes: &[u8]) -> (String, Vec<(String, String)>) {
    let frame = frame(bytes, u32::MAX).unwrap().unwrap();
    let body = &bytes[frame.header_len..];
    let Ok(Packet::Publish(publish)) = decode(version, Sender::Server, frame.first, body) else {
        panic!("a PUBLISH");
    };
    let pairs = publish.properties.user_properties();
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (
        String::from_utf8_lossy(publish.payload).into_owned(),
        pairs.collect(),
    )
}

fn property(pairs: &[(String, String)], name: &str) -> Option<String> {
    pairs
        .iter()
        .find(|(of, _)| of == name)
        .map(|(_, value)| value.clone())
}

/// The numbers of the messages that a client received: payload, `seq`, `conflated`.
fn take_numbers(w: &mut World, client: usize) -> Vec<(u64, u64, u64)> {
    let mut numbers = Vec::new();
    while let Some(packet) = w.take_packet(client, 0x30) {
        let (payload, pairs) = read(Version::V5, &packet);
        let seq = property(&pairs, "seq").unwrap().parse().unwrap();
        let conflated = property(&pairs, "conflated").map_or(0, |n| n.parse().unwrap());
        assert_eq!(property(&pairs, "epoch").unwrap().len(), 16);
        numbers.push((payload.parse().unwrap(), seq, conflated));
    }
    numbers
}

/// The publisher need not know: RETAIN 1 in the snapshot, 0 live, as published where asked for.
#[test]
fn a_late_subscriber_gets_the_last_message_without_any_flag() {
    for shards in [1, 4] {
        for version in VERSIONS {
            let mut w = World::with_settings(shards, settings());
            let p = w.connect(version, "p", &clean());
            let live = w.connect(Version::V5, "live", &clean());
            let options = SubscribeOptions {
                retain_as_published: true,
                ..Default::default()
            };
            w.subscribe_with(live, "#", options, None);
            for topic in ["k/a", "k/b", "n/a"] {
                for payload in ["1", "2"] {
                    w.publish(p, topic, payload, QoS::AtLeastOnce, false);
                }
            }
            let got = w.take_messages(live);
            assert!(got.len() == 6 && got.iter().all(|m| !m.retain));
            assert_eq!(
                w.clients[p]
                    .received
                    .iter()
                    .filter(|a| a[0] == 0x40)
                    .count(),
                6
            );
            let late = w.connect(version, "late", &clean());
            w.subscribe(late, "+/a", QoS::AtMostOnce);
            w.subscribe(late, "k/b", QoS::AtMostOnce);
            let got = w.take_messages(late);
            let got: Vec<_> = got
                .iter()
                .map(|m| (&*m.topic, &*m.payload, m.retain))
                .collect();
            assert_eq!(got, [("k/a", &b"2"[..], true), ("k/b", &b"2"[..], true)]);
            // An empty message clears, like one with RETAIN.
            w.publish(p, "k/a", "", QoS::AtMostOnce, false);
            w.unsubscribe(late, "+/a");
            w.take_messages(late);
            w.subscribe(late, "k/a", QoS::AtMostOnce);
            assert_eq!(w.take_messages(late), []);
        }
    }
}

#[test]
fn a_will_is_kept_too() {
    let mut w = World::with_settings(4, settings());
    for i in 0..8 {
        let topic = format!("k/{i}");
        let options = ConnectOptions {
            will: Some((&topic, "gone", 0)),
            ..clean()
        };
        let c = w.connect(Version::V5, &format!("c{i}"), &options);
        w.drop_link(c);
    }
    let late = w.connect(Version::V311, "late", &clean());
    w.subscribe(late, "k/+", QoS::AtMostOnce);
    assert_eq!(w.take_payloads(late), ["gone"; 8]);
}

/// The acknowledgement waits for the shard that keeps the message.
#[test]
fn a_publish_is_acknowledged_when_it_is_kept() {
    let mut w = World::with_settings(4, settings());
    let p = w.connect(Version::V5, "p", &clean());
    w.paused = true;
    let mut deferred = 0;
    for i in 0..16 {
        w.publish(p, &format!("k/{i}"), "x", QoS::AtLeastOnce, false);
        w.publish(p, "n", "x", QoS::AtLeastOnce, false);
        while w.flush(w.clients[p].shard) {}
        if w.take_packet(p, 0x40).is_some() {
            assert!(w.take_packet(p, 0x40).is_some());
            continue;
        }
        deferred += 1;
        let pairs = w.pairs_under_way();
        assert_eq!(
            pairs.len(),
            1,
            "on its way to the shard that orders its topic"
        );
        w.deliver_one(pairs[0]);
        while w.flush(w.clients[p].shard) {}
        assert!(w.take_packet(p, 0x40).is_some() && w.take_packet(p, 0x40).is_some());
    }
    assert!(
        deferred > 4,
        "{deferred}: most topics are ordered elsewhere"
    );
}

/// What the other shard cannot keep is refused by this one.
#[test]
fn a_full_store_refuses_across_shards() {
    for i in 0..8 {
        let bounds = Bounds {
            messages_max: 1,
            ..Bounds::default()
        };
        let store = MemoryStore::new(TopicHasher::new(7), bounds);
        let mut w = World::with_store(4, settings(), Arc::new(store));
        let (old, new) = (
            w.connect(Version::V311, "old", &clean()),
            w.connect(Version::V5, &format!("new{i}"), &clean()),
        );
        w.publish(old, "k/first", "x", QoS::AtLeastOnce, false);
        assert_eq!(w.take_packet(old, 0x40).unwrap().len(), 4);
        w.publish(new, "k/second", "x", QoS::AtLeastOnce, false);
        let refused = w.take_packet(new, 0x40).unwrap();
        assert_eq!(refused[4], 0x97);
        assert!(
            String::from_utf8_lossy(&refused).contains("a bound of retained messages is reached")
        );
        w.publish(old, "k/second", "x", QoS::AtLeastOnce, false);
        assert_eq!(w.take_packet(old, 0x40), None);
        assert_eq!(
            w.clients[old].closed,
            Some(CloseReason::Limit(Limit::Retained))
        );
    }
}

/// `seq` goes up by one with each message; what was left out is counted in `conflated`.
#[test]
fn numbers_tell_a_gap_from_a_conflation() {
    for shards in [1, 3] {
        let mut w = World::with_settings(shards, settings());
        let p = w.connect(Version::V5, "p", &clean());
        let s = w.connect(Version::V5, "s", &clean());
        let old = w.connect(Version::V311, "old", &clean());
        w.subscribe(s, "k/+", QoS::AtMostOnce);
        w.subscribe(old, "k/+", QoS::AtMostOnce);
        for i in 0..5 {
            w.publish(p, "k/a", &i.to_string(), QoS::AtMostOnce, false);
        }
        let got = take_numbers(&mut w, s);
        let first = got[0].1;
        let expected: Vec<_> = (0..5).map(|i| (i, first + i, 0)).collect();
        assert_eq!(got, expected);
        assert_eq!(w.take_messages(old).len(), 5);
        w.clients[s].socket_room = 0;
        for i in 5..30 {
            w.publish(p, "k/a", &i.to_string(), QoS::AtMostOnce, false);
        }
        w.open_socket(s, usize::MAX);
        let got = take_numbers(&mut w, s);
        assert_eq!(got, [(5, first + 5, 0), (29, first + 29, 23)]);
        // A snapshot tells the number that was live.
        let late = w.connect(Version::V5, "late", &clean());
        w.subscribe(late, "k/a", QoS::AtLeastOnce);
        assert_eq!(take_numbers(&mut w, late), [(29, first + 29, 0)]);
        // Messages that nobody numbers have none.
        w.subscribe(late, "n", QoS::AtMostOnce);
        w.publish(p, "n", "x", QoS::AtMostOnce, true);
        let packet = w.take_packet(late, 0x30).unwrap();
        assert_eq!(read(Version::V5, &packet).1, []);
    }
}

/// The publisher's own user properties stay before them, in their order.
#[test]
fn numbers_follow_the_properties_of_the_publisher() {
    let mut w = World::with_settings(1, settings());
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "k/a", QoS::AtLeastOnce);
    let mut properties = stentor_mqtt::PropertyBuf::new();
    for value in ["2", "1"] {
        properties.push(stentor_mqtt::Property::UserProperty(("own", value)));
    }
    let properties = properties.as_properties();
    w.publish_with(s, "k/a", "1", QoS::AtLeastOnce, false, properties);
    let packet = w.take_packet(s, 0x30).unwrap();
    let (_, pairs) = read(Version::V5, &packet);
    let names: Vec<_> = pairs
        .iter()
        .map(|(name, value)| (&**name, value.len()))
        .collect();
    assert_eq!(names, [("own", 1), ("own", 1), ("seq", 1), ("epoch", 16)]);
    assert_eq!((&*pairs[0].1, &*pairs[1].1), ("2", "1"));
}

/// Publishers and subscribers on all shards, and a mesh that delivers in any order that it may:
/// everybody sees the same messages in the same order, and the last one is what is kept.
fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut w = World::with_settings(2 + u8::try_from(random.below(3)).unwrap(), settings());
    let connect = |w: &mut World, name: &str, i: usize| {
        w.connect(Version::V5, &format!("{name}{i}"), &clean())
    };
    let publishers: Vec<_> = (0..6).map(|i| connect(&mut w, "p", i)).collect();
    let subscribers: Vec<_> = (0..6).map(|i| connect(&mut w, "s", i)).collect();
    for s in &subscribers {
        w.subscribe(*s, "k/#", QoS::AtMostOnce);
    }
    w.paused = true;
    for number in 0..200 {
        let p = publishers[random.below(6)];
        let topic = ["k/0", "k/1"][random.below(2)];
        let qos = [QoS::AtMostOnce, QoS::AtLeastOnce][random.below(2)];
        w.publish(p, topic, &number.to_string(), qos, false);
        for _ in 0..random.below(4) {
            let pairs = w.pairs_under_way();
            if !pairs.is_empty() {
                w.deliver_one(pairs[random.below(pairs.len())]);
            }
        }
    }
    w.paused = false;
    w.settle();
    let mut seen = Vec::new();
    for s in &subscribers {
        let mut of_topics = [Vec::new(), Vec::new()];
        while let Some(packet) = w.take_packet(*s, 0x30) {
            let (payload, pairs) = read(Version::V5, &packet);
            let seq: u64 = property(&pairs, "seq").unwrap().parse().unwrap();
            let topic = w.clients[*s].parse(&packet).topic;
            of_topics[usize::from(topic == "k/1")].push((payload, seq));
        }
        for of in &of_topics {
            let steps = of.windows(2).all(|pair| pair[1].1 == pair[0].1 + 1);
            assert!(steps, "seed {seed}: a gap or a step back");
        }
        seen.push(of_topics);
    }
    assert!(
        seen.windows(2).all(|pair| pair[0] == pair[1]),
        "seed {seed}: two orders"
    );
    assert_eq!(
        seen[0].iter().map(Vec::len).sum::<usize>(),
        200,
        "seed {seed}"
    );
    let late = w.connect(Version::V5, "late", &clean());
    for (topic, of) in ["k/0", "k/1"].iter().zip(&seen[0]) {
        w.subscribe(late, topic, QoS::AtMostOnce);
        assert_eq!(
            w.take_payloads(late),
            [of.last().unwrap().0.clone()],
            "seed {seed}"
        );
    }
}

#[test]
fn all_subscribers_see_one_order_whatever_the_mesh_does() {
    crate::world::run_seeds(60, run);
}
