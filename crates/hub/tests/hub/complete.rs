//! A wildcard snapshot brings every topic that holds a message, though live messages are lost
//! meanwhile.

use std::collections::HashMap;

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::{Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};

const TOPICS: usize = 1_500;

fn fill(w: &mut World, publisher: usize, qos: QoS, text: &str) {
    for i in 0..TOPICS {
        let payload = format!("{text}{}", "x".repeat(100));
        w.publish(publisher, &format!("d/{i}"), &payload, qos, true);
    }
}

fn subscribe(w: &mut World, client: usize, qos: QoS) {
    w.subscribe_asking(client, "d/#", qos, &[("snapshot-end", "")]);
}

/// Reads until nothing comes any more: the last payload's first letter of each topic, of which no
/// older one follows a newer one, and whether the end was told, last.
fn read_all(w: &mut World, client: usize, seen: &mut HashMap<String, char>) -> bool {
    let (mut is_over, mut idle) = (false, 0);
    while idle < 3 {
        w.open_socket(client, 50_000);
        idle += 1;
        for message in w.take_messages(client) {
            idle = 0;
            if let Some(id) = message.packet_id {
                w.send_ack(client, 0x40, id);
            }
            is_over = message.topic == "d/snapshot-end";
            if !is_over {
                let letter = char::from(message.payload[0]);
                let before = seen.insert(message.topic, letter);
                assert!(before.is_none_or(|before| before <= letter), "no older one");
            }
        }
    }
    is_over
}

#[test]
fn what_was_dropped_on_its_way_comes_from_the_store() {
    for policy in [
        SlowPolicy::DropNewest,
        SlowPolicy::DropOldest,
        SlowPolicy::Conflate,
    ] {
        for (shards, qos) in [
            (1, QoS::AtMostOnce),
            (3, QoS::AtMostOnce),
            (2, QoS::AtLeastOnce),
        ] {
            // What conflates ends where not even the newest of each topic has room.
            let queue_kib = match policy {
                SlowPolicy::Conflate => 2_048,
                _ => 64,
            };
            let settings = Settings {
                queue_bytes_max: queue_kib * 1_024,
                policies: vec![TopicPolicy {
                    filter: "d/#".into(),
                    qos0: policy,
                    qos1: policy,
                    ..TopicPolicy::default()
                }],
                ..Settings::default()
            };
            let mut w = World::with_settings(shards, settings);
            let p = w.connect(Version::V5, "p", &clean());
            fill(&mut w, p, qos, "a");
            let s = w.connect(Version::V5, "s", &clean());
            w.clients[s].socket_room = 3_000;
            subscribe(&mut w, s, qos);
            fill(&mut w, p, qos, "b");
            let mut seen = HashMap::new();
            let case = format!("{policy:?}, {qos:?}, {shards} shards");
            assert!(read_all(&mut w, s, &mut seen), "{case}: the end is last");
            assert_eq!(seen.len(), TOPICS, "{case}");
            assert!(seen.values().all(|letter| *letter == 'b'), "{case}");
            let dropped: u64 = w
                .hubs
                .iter()
                .map(|h| h.inspect().stats().publishes_dropped)
                .sum();
            let is_lossy = policy != SlowPolicy::Conflate;
            assert_eq!(dropped > 0, is_lossy, "{case}");
        }
    }
}

#[test]
fn what_changed_while_the_client_was_away_comes_when_it_is_back() {
    let mut w = World::new(2);
    let p = w.connect(Version::V5, "p", &clean());
    fill(&mut w, p, QoS::AtLeastOnce, "a");
    let options = ConnectOptions {
        receive_maximum: 20,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &options);
    subscribe(&mut w, s, QoS::AtLeastOnce);
    let mut seen = HashMap::new();
    for message in w.take_messages(s) {
        w.send_ack(s, 0x40, message.packet_id.unwrap());
        seen.insert(message.topic, 'a');
    }
    assert!(seen.len() < TOPICS);
    w.drop_link(s);
    fill(&mut w, p, QoS::AtMostOnce, "b");
    let back = ConnectOptions {
        clean_start: false,
        ..options
    };
    let s = w.connect(Version::V5, "s", &back);
    assert!(read_all(&mut w, s, &mut seen), "the end is last");
    assert_eq!(seen.len(), TOPICS);
}
