//! Slow readers.

use stentor_hub::{Event, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Limit};

use crate::world::{ConnectOptions, World, clean};

fn slow_world(qos0: SlowPolicy, qos1: SlowPolicy) -> (World, usize, usize) {
    let mut w = World::with_settings(
        2,
        Settings {
            queue_bytes_max: 20_000,
            policies: vec![TopicPolicy {
                filter: "t/#".into(),
                qos0,
                qos1,
                ..TopicPolicy::default()
            }],
            ..Settings::default()
        },
    );
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        expiry_secs: 100,
        ..clean()
    };
    let s = w.connect(Version::V5, "slow", &options);
    w.subscribe(s, "t/#", QoS::AtLeastOnce);
    w.clients[s].socket_room = 0;
    (w, p, s)
}

fn flood(w: &mut World, p: usize, qos: QoS) {
    for i in 0..100 {
        let payload = format!("{i:03}{}", "x".repeat(997));
        w.publish(p, "t/1", &payload, qos, false);
    }
}

#[test]
fn the_topic_policy_decides_what_a_slow_client_gets() {
    let numbers = |payloads: Vec<String>| -> Vec<usize> {
        payloads.iter().map(|p| p[..3].parse().unwrap()).collect()
    };
    let (mut w, p, s) = slow_world(SlowPolicy::DropNewest, SlowPolicy::DropNewest);
    flood(&mut w, p, QoS::AtMostOnce);
    w.open_socket(s, usize::MAX);
    let got = numbers(w.take_payloads(s));
    assert_eq!(
        got,
        (0..got.len()).collect::<Vec<_>>(),
        "the oldest are kept"
    );
    assert!(got.len() < 25);
    let (mut w, p, s) = slow_world(SlowPolicy::DropOldest, SlowPolicy::DropOldest);
    flood(&mut w, p, QoS::AtMostOnce);
    w.open_socket(s, usize::MAX);
    let got = numbers(w.take_payloads(s));
    assert_eq!(
        got,
        (100 - got.len()..100).collect::<Vec<_>>(),
        "the newest are kept"
    );
    let shard = usize::from(w.clients[s].shard);
    assert_eq!(
        w.hubs[shard].inspect().stats().publishes_dropped,
        100 - got.len() as u64
    );
    assert_eq!(w.hubs[shard].inspect().losses().worst(1)[0].0, "slow");
}

#[test]
fn policy_disconnect_closes_with_0x97_and_keeps_the_session() {
    let (mut w, p, s) = slow_world(SlowPolicy::Disconnect, SlowPolicy::Disconnect);
    flood(&mut w, p, QoS::AtLeastOnce);
    assert_eq!(
        w.clients[s].closed,
        Some(CloseReason::Limit(Limit::QueueBytes))
    );
    let told = w.events.iter().any(|event| {
        let limit = match event {
            Event::Disconnected { limit, .. } => limit.as_deref(),
            _ => None,
        };
        limit.is_some_and(|limit| limit.contains("reads too slowly: limits.queue_"))
    });
    assert!(told, "the log names the bound of the queue");
    let options = ConnectOptions {
        clean_start: false,
        expiry_secs: 100,
        ..clean()
    };
    let s = w.connect_only(Version::V5, "slow", &options);
    assert_eq!(w.receive_packet(s).unwrap()[2], 1);
    // What has not gone out counts as a message and as a packet.
    assert!(w.take_messages(s).len() > 5);
}

/// Whatever the QoS, if the session ends with its connection.
#[test]
fn what_is_lost_by_policy_disconnect_is_counted() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let (mut w, p, other) = slow_world(SlowPolicy::Disconnect, SlowPolicy::Disconnect);
        w.clients[other].socket_room = usize::MAX;
        w.unsubscribe(other, "t/#");
        let s = w.connect(Version::V5, "brief", &clean());
        w.subscribe(s, "t/#", qos);
        w.clients[s].socket_room = 0;
        let mut published = 0;
        while w.clients[s].closed.is_none() {
            w.publish(p, "t/1", &"x".repeat(1_000), qos, false);
            published += 1;
        }
        let shard = usize::from(w.clients[s].shard);
        assert_eq!(
            w.hubs[shard].inspect().stats().publishes_dropped,
            published,
            "{qos:?}"
        );
        let told = w.events.iter().any(|event| match event {
            Event::Disconnected { limit, .. } => {
                let limit = limit.as_deref().unwrap_or_default();
                limit.contains("limits.queue_bytes is")
            }
            _ => false,
        });
        assert!(told, "{qos:?}: the log names the bound that was met");
    }
}

#[test]
fn a_slow_client_gets_every_byte_in_order_through_any_window() {
    for room in [5, 64, 1_000, 9_000] {
        let mut w = World::new(1);
        let p = w.connect(Version::V5, "p", &clean());
        let options = ConnectOptions {
            alias_maximum: 10,
            ..clean()
        };
        let aliased = w.connect(Version::V5, "aliased", &options);
        let plain = w.connect(Version::V311, "plain", &clean());
        for s in [aliased, plain] {
            w.subscribe(s, "#", QoS::AtLeastOnce);
            w.clients[s].socket_room = 0;
        }
        for i in 0..40 {
            // Some above and some below the size at which payloads are shared.
            let payload = format!("{i:02}{}", "y".repeat(if i % 3 == 0 { 6_000 } else { 30 }));
            let qos = if i % 2 == 0 {
                QoS::AtMostOnce
            } else {
                QoS::AtLeastOnce
            };
            w.publish(p, &format!("topic/{}", i % 12), &payload, qos, false);
        }
        for s in [aliased, plain] {
            let mut got = Vec::new();
            for _ in 0..200_000 {
                w.open_socket(s, room);
                got.extend(w.take_payloads(s));
                if got.len() == 40 {
                    break;
                }
            }
            let numbers: Vec<usize> = got.iter().map(|p| p[..2].parse().unwrap()).collect();
            assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "room {room}");
        }
    }
}
