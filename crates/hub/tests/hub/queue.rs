//! One bound for all that waits for a client or is in flight to it, whatever it costs.

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::{Event, Full, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};

const BYTES_MAX: usize = 64 * 1024;

fn world(policy: SlowPolicy, queue_messages_max: usize) -> World {
    let settings = Settings {
        queue_bytes_max: BYTES_MAX,
        queue_messages_max,
        in_flight_max: 1_000,
        policies: vec![TopicPolicy {
            filter: "#".into(),
            qos0: policy,
            qos1: policy,
            ..TopicPolicy::default()
        }],
        ..Settings::default()
    };
    World::with_settings(1, settings)
}

fn payload(number: usize, bytes: usize) -> String {
    format!("{number:03}{}", "x".repeat(bytes - 3))
}

/// The bounds that were met, as the log is told of them.
fn full(w: &World) -> Vec<Full> {
    let full = w.events.iter().filter_map(|event| match event {
        Event::Losing { full, .. } => *full,
        _ => None,
    });
    full.collect()
}

/// It reads everything, and says so of nothing.
#[test]
fn messages_in_flight_are_bounded_by_bytes() {
    for level in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut w = world(SlowPolicy::DropNewest, 1_000);
        let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
        w.subscribe(s, "t", level);
        let p = w.connect(Version::V5, "p", &clean());
        for number in 0..200 {
            w.publish(p, "t", &payload(number, 1_000), level, false);
        }
        let first = w.take_messages(s);
        let most = BYTES_MAX / 1_000;
        assert!((most / 2..most).contains(&first.len()), "{}", first.len());
        let dropped = w.hubs[0].inspect().stats().publishes_dropped;
        assert_eq!(dropped as usize, 200 - first.len(), "{level:?}");
        assert_eq!(full(&w), [Full::Bytes(BYTES_MAX)], "{level:?}");
        // Away, it holds no more.
        w.drop_link(s);
        w.publish(p, "t", &payload(200, 1_000), level, false);
        let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
        let mut again = 0;
        loop {
            let messages = w.take_messages(s);
            if messages.is_empty() {
                break;
            }
            again += messages.len();
            for message in messages {
                let id = message.packet_id.unwrap();
                if level == QoS::ExactlyOnce {
                    w.send_ack(s, 0x50, id);
                    w.send_ack(s, 0x70, id);
                } else {
                    w.send_ack(s, 0x40, id);
                }
            }
        }
        assert_eq!(again, first.len(), "{level:?}");
        // What it has acknowledged makes room.
        w.publish(p, "t", &payload(201, 1_000), level, false);
        assert_eq!(w.take_payloads(s).len(), 1);
    }
}

/// One message gets on, however small the bound.
#[test]
fn a_message_larger_than_the_queue_is_sent_above_qos_0() {
    let mut w = world(SlowPolicy::DropNewest, 1_000);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "t", QoS::AtLeastOnce);
    let p = w.connect(Version::V5, "p", &clean());
    for number in 0..3 {
        let large = payload(number, 2 * BYTES_MAX);
        w.publish(p, "t", &large, QoS::AtLeastOnce, false);
    }
    let got = w.take_messages(s);
    assert_eq!(got.len(), 1, "the others meet the policy");
    w.send_ack(s, 0x40, got[0].packet_id.unwrap());
    w.publish(p, "t", &payload(3, 2 * BYTES_MAX), QoS::AtLeastOnce, false);
    assert_eq!(w.take_messages(s).len(), 1);
}

/// Small messages cost more than their bytes, and are counted.
#[test]
fn small_messages_that_wait_are_bounded_by_what_they_cost() {
    for policy in [SlowPolicy::DropNewest, SlowPolicy::DropOldest] {
        let mut w = world(policy, 1_000);
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "#", QoS::AtMostOnce);
        let p = w.connect(Version::V5, "p", &clean());
        w.clients[s].socket_room = 0;
        for number in 0..1_000 {
            // To two topics in turn: they do not make one entry.
            w.publish(p, ["a", "b"][number % 2], "", QoS::AtMostOnce, false);
        }
        w.open_socket(s, usize::MAX);
        let got = w.take_messages(s).len();
        assert!((BYTES_MAX / 300..BYTES_MAX / 100).contains(&got), "{got}");
        let dropped = w.hubs[0].inspect().stats().publishes_dropped;
        assert_eq!(dropped as usize, 1_000 - got, "{policy:?}");
    }
}

#[test]
fn messages_with_qos_0_count_for_the_bound_of_messages() {
    for policy in [SlowPolicy::DropNewest, SlowPolicy::DropOldest] {
        let mut w = world(policy, 10);
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "#", QoS::AtMostOnce);
        let p = w.connect(Version::V5, "p", &clean());
        w.clients[s].socket_room = 0;
        for number in 0..30 {
            w.publish(p, "t", &payload(number, 3), QoS::AtMostOnce, false);
        }
        w.open_socket(s, usize::MAX);
        let got = w.take_payloads(s);
        let first = if policy == SlowPolicy::DropOldest {
            20
        } else {
            0
        };
        let expected: Vec<_> = (first..first + 10).map(|n| payload(n, 3)).collect();
        // One was begun and waits no more.
        assert_eq!(got[got.len() - 10..], expected, "{policy:?}");
        assert!(got.len() <= 11);
        assert_eq!(full(&w), [Full::Messages(10)], "{policy:?}");
    }
}

/// Little waits, but the next message is long: the bound that it meets is the one that is told,
/// whatever part of the other one is used.
#[test]
fn a_long_message_meets_the_bound_of_bytes() {
    for policy in [SlowPolicy::DropNewest, SlowPolicy::DropOldest] {
        for level in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            for waiting in [0, 5] {
                let mut w = world(policy, 10);
                let s = w.connect(Version::V5, "s", &clean());
                w.subscribe(s, "#", level);
                let p = w.connect(Version::V5, "p", &clean());
                w.clients[s].socket_room = 0;
                for number in 0..waiting {
                    w.publish(p, "t", &payload(number, 3), level, false);
                }
                // Above QoS 0, the first one goes on in any case.
                for number in 0..2 {
                    let long = payload(number, 2 * BYTES_MAX);
                    w.publish(p, "long", &long, level, false);
                }
                let told = full(&w);
                let bytes = told.iter().all(|one| *one == Full::Bytes(BYTES_MAX));
                let what = (policy, level, waiting);
                assert!(bytes && !told.is_empty(), "{what:?}: {told:?}");
            }
        }
    }
}
