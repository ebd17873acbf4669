//! Several messages in one read: what each subscriber gets is what it would get one by one.

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::{LossCause, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{Packet, PacketId, Properties, Publish, QoS, SubscribeOptions, Version, encode};

/// PUBLISH packets with these topics and payloads in one piece.
fn burst(version: Version, messages: &[(&str, &str, QoS)]) -> Vec<u8> {
    burst_with(version, messages, false)
}

fn burst_with(version: Version, messages: &[(&str, &str, QoS)], retain: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (topic, payload, qos)) in (1..).zip(messages) {
        let publish = Publish {
            dup: false,
            qos: *qos,
            retain,
            topic,
            packet_id: PacketId::new(number).filter(|_| *qos > QoS::AtMostOnce),
            properties: Properties::EMPTY,
            payload: payload.as_bytes(),
        };
        encode(version, &Packet::Publish(publish), &mut bytes).unwrap();
    }
    bytes
}

fn plain(payload: &str) -> (&'static str, &str, QoS) {
    ("t", payload, QoS::AtMostOnce)
}

#[test]
fn every_kind_of_subscriber_gets_every_message_in_order() {
    for shards in 1..4 {
        let mut w = World::new(shards);
        let publisher = w.connect(Version::V5, "publisher", &clean());
        let aliases = ConnectOptions {
            alias_maximum: 5,
            ..clean()
        };
        let subscribers = [
            w.connect(Version::V311, "old", &clean()),
            w.connect(Version::V5, "new", &clean()),
            w.connect(Version::V5, "aliases", &aliases),
            w.connect(Version::V5, "ids", &clean()),
            w.connect(Version::V5, "twice", &clean()),
        ];
        for (index, subscriber) in subscribers.into_iter().enumerate() {
            let options = SubscribeOptions {
                qos: QoS::AtLeastOnce,
                ..Default::default()
            };
            let id = (index == 3).then_some(9);
            w.subscribe_with(subscriber, "t", options, id);
        }
        w.subscribe(subscribers[4], "#", QoS::AtMostOnce);
        let once = QoS::AtLeastOnce;
        let messages = [
            plain("1"),
            plain("2"),
            ("t", "3", once),
            plain("4"),
            ("t/other", "no", QoS::AtMostOnce),
            plain("5"),
            plain("6"),
        ];
        w.send_bytes(publisher, &burst(Version::V5, &messages));
        for (index, subscriber) in subscribers.into_iter().enumerate() {
            let got = w.take_messages(subscriber);
            let text = |m: &crate::world::Message| String::from_utf8(m.payload.clone()).unwrap();
            let payloads: Vec<_> = got.iter().map(text).collect();
            if index == 4 {
                assert_eq!(payloads, ["1", "2", "3", "4", "no", "5", "6"], "{shards}");
            } else {
                assert_eq!(
                    payloads,
                    ["1", "2", "3", "4", "5", "6"],
                    "{index}, {shards}"
                );
            }
            assert!(got.iter().all(|m| (m.ids == [9]) == (index == 3)));
        }
    }
}

/// [MQTT-3.8.3-3]
#[test]
fn no_local_holds_for_all_of_a_burst() {
    let mut w = World::new(1);
    let publisher = w.connect(Version::V5, "publisher", &clean());
    let other = w.connect(Version::V5, "other", &clean());
    let options = SubscribeOptions {
        no_local: true,
        ..Default::default()
    };
    for client in [publisher, other] {
        w.subscribe_with(client, "t", options, None);
    }
    w.send_bytes(publisher, &burst(Version::V5, &[plain("1"), plain("2")]));
    assert!(w.take_payloads(publisher).is_empty());
    assert_eq!(w.take_payloads(other), ["1", "2"]);
}

/// [MQTT-3.1.2-24]: each message is measured, not the burst.
#[test]
fn a_client_gets_the_messages_that_it_takes() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        packet_bytes_max: 40,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::AtMostOnce);
    let p = w.connect(Version::V5, "p", &clean());
    let long = "x".repeat(60);
    let messages = [plain("1"), plain(&long), plain("2")];
    w.send_bytes(p, &burst(Version::V5, &messages));
    assert_eq!(w.take_payloads(s), ["1", "2"]);
    assert_eq!(w.hubs[0].inspect().stats().publishes_dropped, 1);
}

/// The policy of a slow reader takes single messages out of a burst, and counts each.
#[test]
fn the_queue_of_a_slow_reader_holds_as_many_as_fit() {
    for policy in [SlowPolicy::DropNewest, SlowPolicy::DropOldest] {
        let settings = Settings {
            queue_bytes_max: 700,
            policies: vec![TopicPolicy {
                filter: "#".into(),
                qos0: policy,
                qos1: policy,
                ..TopicPolicy::default()
            }],
            ..Settings::default()
        };
        let mut w = World::with_settings(1, settings);
        let s = w.connect(Version::V311, "s", &clean());
        w.subscribe(s, "t", QoS::AtMostOnce);
        let p = w.connect(Version::V311, "p", &clean());
        w.clients[s].socket_room = 0;
        let payloads: Vec<String> = (100..160).map(|number| number.to_string()).collect();
        for part in payloads.chunks(20) {
            let messages: Vec<_> = part.iter().map(|payload| plain(payload)).collect();
            w.send_bytes(p, &burst(Version::V311, &messages));
        }
        w.open_socket(s, usize::MAX);
        let got = w.take_payloads(s);
        assert!((3..60).contains(&got.len()), "{}", got.len());
        let dropped = w.hubs[0].inspect().stats().publishes_dropped as usize;
        assert_eq!(got.len() + dropped, payloads.len(), "{policy:?}");
        match policy {
            SlowPolicy::DropOldest => assert_eq!(got, payloads[dropped..]),
            _ => assert_eq!(got, payloads[..got.len()]),
        }
    }
}

/// The queue of a client that is disconnected for it names what it lost.
#[test]
fn what_a_slow_reader_loses_by_its_end_is_named() {
    let settings = Settings {
        // A PUBLISH has 8 bytes here, and its places take about 140.
        queue_bytes_max: 8_000,
        policies: vec![TopicPolicy {
            filter: "#".into(),
            qos0: SlowPolicy::Disconnect,
            ..TopicPolicy::default()
        }],
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "t", QoS::AtMostOnce);
    let p = w.connect(Version::V311, "p", &clean());
    w.clients[s].socket_room = 0;
    for payload in 100..160 {
        let payload = payload.to_string();
        w.send_bytes(p, &burst(Version::V311, &[plain(&payload)]));
    }
    let losses = w.hubs[0].inspect().losses();
    let lost = losses.by_cause(LossCause::Disconnect);
    assert!(lost > 40, "{lost}");
    assert_eq!(losses.worst(9), [("s", "t", lost)]);
    assert_eq!(w.hubs[0].inspect().stats().publishes_dropped, lost);
}

/// What a client published before its connection broke comes before its will.
#[test]
fn a_burst_comes_before_what_follows_it() {
    let mut w = World::new(1);
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    let options = ConnectOptions {
        will: Some(("will", "gone", 0)),
        ..clean()
    };
    let p = w.connect(Version::V311, "p", &options);
    let mut bytes = burst(Version::V311, &[plain("1"), plain("2")]);
    // A PUBLISH with QoS 3.
    bytes.extend_from_slice(&[0x36, 4, 0, 1, b't', 0]);
    w.send_bytes(p, &bytes);
    assert_eq!(w.take_payloads(s), ["1", "2", "gone"]);
}

/// What is kept travels in bursts too, with RETAIN for those who asked for it [MQTT-3.3.1-12].
#[test]
fn a_burst_is_kept_and_delivered() {
    for shards in 1..4 {
        let mut w = World::new(shards);
        let p = w.connect(Version::V5, "p", &clean());
        let (plain_one, as_published) = (
            w.connect(Version::V5, "plain", &clean()),
            w.connect(Version::V5, "as-published", &clean()),
        );
        w.subscribe(plain_one, "t", QoS::AtMostOnce);
        let options = SubscribeOptions {
            retain_as_published: true,
            ..Default::default()
        };
        w.subscribe_with(as_published, "t", options, None);
        let messages = [plain("1"), plain("2"), plain("3")];
        w.send_bytes(p, &burst_with(Version::V5, &messages, true));
        for (client, retain) in [(plain_one, false), (as_published, true)] {
            let got = w.take_messages(client);
            assert!(got.iter().all(|m| m.retain == retain), "{shards}");
            let payloads: Vec<_> = got.into_iter().map(|m| m.payload).collect();
            assert_eq!(payloads, [b"1", b"2", b"3"], "{shards}");
        }
        let late = w.connect(Version::V5, "late", &clean());
        w.subscribe(late, "t", QoS::AtMostOnce);
        assert_eq!(w.take_payloads(late), ["3"], "{shards}");
    }
}

/// A client that subscribes while kept messages are on their way from another shard does not get an
/// older one after a newer one: the stored one comes when they have come.
#[test]
fn a_snapshot_waits_for_what_was_kept_before_it() {
    let mut w = World::new(2);
    let p = w.connect(Version::V5, "p", &clean());
    let other = (w.clients[p].shard + 1) % 2;
    let on_other = |w: &mut World, name: &str| {
        let clients = (0..100).map(|i| w.connect(Version::V5, &format!("{name}{i}"), &clean()));
        let clients: Vec<_> = clients.collect();
        let found = clients.into_iter().find(|c| w.clients[*c].shard == other);
        found.unwrap()
    };
    let (first, second) = (on_other(&mut w, "first"), on_other(&mut w, "second"));
    // Raises the interest of their shard.
    w.subscribe(first, "t", QoS::AtMostOnce);
    w.paused = true;
    let messages = [plain("1"), plain("2"), plain("3")];
    w.send_bytes(p, &burst_with(Version::V5, &messages, true));
    w.subscribe(second, "t", QoS::AtMostOnce);
    w.flush(other);
    assert!(
        w.take_payloads(second).is_empty(),
        "an older one may follow"
    );
    w.paused = false;
    w.settle();
    let got = w.take_messages(second);
    let got: Vec<_> = got.into_iter().map(|m| (m.payload, m.retain)).collect();
    let live = ["1", "2", "3"].map(|text| (text.as_bytes().to_vec(), false));
    assert_eq!(got[..3], live);
    assert_eq!(got[3..], [(b"3".to_vec(), true)]);
}

/// The same for what the command line keeps.
#[test]
fn a_snapshot_waits_for_what_the_command_line_keeps() {
    let mut w = World::new(2);
    let clients = (0..100).map(|i| w.connect(Version::V5, &format!("c{i}"), &clean()));
    let clients: Vec<_> = clients.collect();
    let home = stentor_hub::home_shard(&w.hasher, stentor_topic::Zone(0), "t", 2).0;
    let mut elsewhere = clients.into_iter().filter(|c| w.clients[*c].shard != home);
    let (first, second) = (elsewhere.next().unwrap(), elsewhere.next().unwrap());
    w.subscribe(first, "t", QoS::AtMostOnce);
    w.paused = true;
    w.restore("t", "1");
    w.restore("t", "2");
    w.subscribe(second, "t", QoS::AtMostOnce);
    w.flush(1 - home);
    assert!(
        w.take_payloads(second).is_empty(),
        "an older one may follow"
    );
    w.paused = false;
    w.settle();
    assert_eq!(w.take_payloads(second), ["1", "2", "2"]);
}
