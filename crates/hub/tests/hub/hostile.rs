//! Clients that do what few do: at the edges of the protocol, or in bad faith.

use crate::world::{ConnectOptions, World, clean, qos};
use stentor_hub::{LossCause, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{PacketId, Properties, PropertyBuf, QoS, SubscribeOptions, Version};
use stentor_session::{CloseReason, Limit, Timer};

/// The walk visits many topics without a match before it finds one.
#[test]
fn a_sparse_wildcard_finds_its_only_retained_match() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    for i in 0..3_000 {
        w.publish(p, &format!("a/{i}/x"), "1", QoS::AtMostOnce, true);
    }
    w.publish(p, "a/2999/y", "found", QoS::AtMostOnce, true);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "a/+/y", QoS::AtMostOnce);
    assert_eq!(w.take_payloads(s), ["found"]);
}

/// What was not taken is not remembered as received, so that it is not acknowledged later.
#[test]
fn a_qos_2_publish_that_closed_the_connection_is_new_when_it_comes_again() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "t", QoS::AtMostOnce);
    let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    // Topic alias 3 was never set.
    w.send_bytes(p, &[0x34, 9, 0, 0, 0, 5, 3, 0x23, 0, 3, b'x']);
    assert!(w.clients[p].closed.is_some());
    let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    w.send_bytes(p, &[0x3C, 7, 0, 1, b't', 0, 5, 0, b'x']);
    assert_eq!(w.take_payloads(s), ["x"]);
}

/// A full store closes a 3.1.1 publisher, and does not acknowledge when it tries again.
#[test]
fn what_a_full_store_refused_is_never_acknowledged() {
    let mut w = World::with_retained_max(1);
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    let p = w.connect(Version::V311, "p", &ConnectOptions::persistent());
    w.publish(p, "a", "1", QoS::AtLeastOnce, true);
    for first in [0x35, 0x3D] {
        let p = w.connect(Version::V311, "p", &ConnectOptions::persistent());
        w.send_bytes(p, &[first, 6, 0, 1, b'b', 0, 5, b'x']);
        assert!(w.take_packet(p, 0x50).is_none(), "a PUBREC");
        assert_eq!(
            w.clients[p].closed,
            Some(CloseReason::Limit(Limit::Retained))
        );
    }
    assert_eq!(w.take_payloads(s), ["1"]);
}

/// Nobody hears what became of a message with QoS 0, or of a will: who is there gets it, though
/// it is not kept.
#[test]
fn what_cannot_be_refused_is_delivered_without_being_kept() {
    let mut w = World::with_retained_max(1);
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    let p = w.connect(Version::V311, "p", &clean());
    w.publish(p, "a", "1", QoS::AtLeastOnce, true);
    w.publish(p, "b", "2", QoS::AtMostOnce, true);
    assert_eq!(w.clients[p].closed, None);
    let will = ConnectOptions {
        will: Some(("b", "3", 0)),
        will_retain: true,
        ..clean()
    };
    let gone = w.connect(Version::V5, "gone", &will);
    w.drop_link(gone);
    assert_eq!(w.take_payloads(s), ["1", "2", "3"]);
    assert_eq!(w.hubs[0].inspect().losses().by_cause(LossCause::NotKept), 2);
    assert_eq!(w.hubs[0].inspect().stats().publishes_dropped, 2);
    let late = w.connect(Version::V311, "late", &clean());
    w.subscribe(late, "#", QoS::AtMostOnce);
    assert_eq!(w.take_payloads(late), ["1"]);
}

/// 3.x has no receive maximum that a client could know; 5.0 has, and 0x93.
#[test]
fn only_5_0_has_a_receive_maximum() {
    let settings = Settings {
        receive_maximum: 10,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    for version in [Version::V31, Version::V311, Version::V5] {
        let p = w.connect(version, "p", &clean());
        for id in 1..=2_000u16 {
            let [high, low] = id.to_be_bytes();
            if version.is_v5() {
                w.send_bytes(p, &[0x34, 7, 0, 1, b't', high, low, 0, b'x']);
            } else {
                w.send_bytes(p, &[0x34, 6, 0, 1, b't', high, low, b'x']);
            }
        }
        let over = version
            .is_v5()
            .then_some(CloseReason::Limit(Limit::ReceiveMaximum));
        assert_eq!(w.clients[p].closed, over, "{version:?}");
    }
}

/// Answers that a client does not read are bounded like messages.
#[test]
fn pings_without_reading_end_at_the_queue_limit() {
    let settings = Settings {
        queue_bytes_max: 20_000,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let p = w.connect(Version::V311, "p", &clean());
    w.clients[p].socket_room = 0;
    for _ in 0..9_000 {
        w.send_bytes(p, &[0xC0, 0]);
    }
    assert_eq!(w.clients[p].closed, None);
    for _ in 0..3_000 {
        w.send_bytes(p, &[0xC0, 0]);
    }
    assert_eq!(
        w.clients[p].closed,
        Some(CloseReason::Limit(Limit::QueueBytes))
    );
}

/// Subscribing again and again starts the retained messages anew instead of adding to them.
#[test]
fn repeated_subscribes_do_not_pile_up_retained_messages() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let payload = "x".repeat(40_000);
    for topic in ["a", "b", "c"] {
        w.publish(p, topic, &payload, QoS::AtMostOnce, true);
    }
    let s = w.connect(Version::V5, "s", &clean());
    w.clients[s].socket_room = 0;
    for _ in 0..200 {
        w.subscribe(s, "#", QoS::AtMostOnce);
        w.subscribe(s, "a", QoS::AtMostOnce);
    }
    w.open_socket(s, usize::MAX);
    let topics: Vec<_> = w.take_messages(s).into_iter().map(|m| m.topic).collect();
    assert!(topics.len() <= 12, "{} messages", topics.len());
    for topic in ["a", "b", "c"] {
        assert!(topics.iter().any(|t| t == topic), "{topic} is missing");
    }
}

/// [MQTT-3.1.2-24]: setting an alias makes a packet longer than its plain form.
#[test]
fn an_alias_never_brings_a_packet_above_the_clients_maximum() {
    for maximum in 20..60 {
        let mut w = World::new(1);
        let options = ConnectOptions {
            alias_maximum: 10,
            packet_bytes_max: maximum,
            ..clean()
        };
        let s = w.connect(Version::V5, "s", &options);
        w.subscribe(s, "#", QoS::AtMostOnce);
        for topic in ["t", "some/topic"] {
            for len in 0..60 {
                w.publish(s, topic, &"x".repeat(len), QoS::AtMostOnce, false);
            }
        }
        while let Some(packet) = w.take_packet(s, 0x30) {
            assert!(packet.len() <= maximum as usize, "{packet:?} > {maximum}");
        }
    }
}

/// Each connection leaves its timer behind; they must not pile up for hours.
#[test]
fn reconnecting_leaves_no_timers_for_long() {
    let mut w = World::new(1);
    for _ in 0..50 {
        let options = ConnectOptions {
            keep_alive_secs: 65_535,
            ..clean()
        };
        let c = w.connect(Version::V5, "c", &options);
        w.drop_link(c);
    }
    w.pass_secs(700);
    assert_eq!(w.hubs[0].next_deadline(), None);
}

/// [MQTT-3.1.2-22] asks for packets; bytes of one that never ends are none.
#[test]
fn a_trickle_of_bytes_does_not_keep_a_connection_alive() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        keep_alive_secs: 10,
        ..clean()
    };
    let c = w.connect(Version::V5, "c", &options);
    let partial = [0x30, 100, 0, 1, b't'];
    for _ in 0..17 {
        w.pass_secs(1);
        if w.clients[c].closed.is_none() {
            let key = w.clients[c].key.unwrap();
            assert_eq!(w.hubs[0].receive(w.now, key, &partial), 0);
        }
    }
    assert_eq!(
        w.clients[c].closed,
        Some(CloseReason::Timeout(Timer::KeepAlive))
    );
}

/// Retained messages that a session did not get before its connection broke come on the next.
#[test]
fn a_broken_connection_does_not_lose_retained_messages() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    for i in 0..1_000 {
        let payload = format!("{i}{}", "x".repeat(997));
        w.publish(p, &format!("a/{i}"), &payload, QoS::AtLeastOnce, true);
    }
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.clients[s].socket_room = 0;
    w.subscribe(s, "a/#", QoS::AtLeastOnce);
    w.drop_link(s);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    let mut topics = std::collections::BTreeSet::new();
    loop {
        let messages = w.take_messages(s);
        if messages.is_empty() {
            break;
        }
        for message in messages {
            topics.insert(message.topic);
            w.send_ack(s, 0x40, message.packet_id.unwrap());
        }
    }
    assert_eq!(topics.len(), 1_000);
}

/// [MQTT-3.8.3-3] holds for retained messages too.
#[test]
fn no_local_keeps_a_clients_own_retained_messages_from_it() {
    let mut w = World::new(1);
    let c = w.connect(Version::V5, "c", &clean());
    let other = w.connect(Version::V5, "other", &clean());
    w.publish(c, "t/own", "own", QoS::AtMostOnce, true);
    w.publish(other, "t/other", "other", QoS::AtMostOnce, true);
    let options = SubscribeOptions {
        no_local: true,
        ..Default::default()
    };
    w.subscribe_with(c, "t/#", options, None);
    w.subscribe_with(c, "t/own", options, None);
    assert_eq!(w.take_payloads(c), ["other"]);
    // By its client id: a new session changes nothing.
    w.drop_link(c);
    let again = w.connect(Version::V5, "c", &clean());
    w.subscribe_with(again, "t/#", options, None);
    assert_eq!(w.take_payloads(again), ["other"]);
}

/// Every message dropped to make room is counted, by its own topic.
#[test]
fn drop_oldest_counts_each_loss() {
    let settings = Settings {
        queue_bytes_max: 20_000,
        policies: vec![TopicPolicy {
            filter: "#".into(),
            qos0: SlowPolicy::DropOldest,
            qos1: SlowPolicy::DropOldest,
            ..TopicPolicy::default()
        }],
        ..Settings::default()
    };
    for level in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut w = World::with_settings(1, settings.clone());
        let options = ConnectOptions {
            receive_maximum: 1,
            ..clean()
        };
        let s = w.connect(Version::V5, "s", &options);
        w.subscribe(s, "#", level);
        let p = w.connect(Version::V5, "p", &clean());
        w.clients[s].socket_room = 0;
        for _ in 0..40 {
            w.publish(p, "small", "x", level, false);
        }
        w.publish(p, "large", &"x".repeat(18_000), level, false);
        w.open_socket(s, usize::MAX);
        let mut got = 0;
        loop {
            let messages = w.take_messages(s);
            if messages.is_empty() {
                break;
            }
            got += messages.len() as u64;
            for id in messages.iter().filter_map(|m| m.packet_id) {
                w.send_ack(s, 0x40, id);
            }
        }
        assert_eq!(
            w.hubs[0].inspect().stats().publishes_dropped,
            41 - got,
            "{level:?}"
        );
        for (_, topic, _) in w.hubs[0].inspect().losses().worst(9) {
            assert_eq!(topic, "small");
        }
    }
}

/// [MQTT-3.14.0-1]: a client that cannot take even CONNACK is closed without a word.
#[test]
fn a_maximum_packet_size_below_connack_closes() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        packet_bytes_max: 4,
        ..clean()
    };
    let c = w.connect_only(Version::V5, "c", &options);
    assert_eq!(
        w.clients[c].closed,
        Some(CloseReason::Limit(Limit::PacketBytes))
    );
    assert_eq!(w.receive_packet(c), None);
}

/// The bridge bit means no-local, which is no fault of a shared subscription.
#[test]
fn a_bridge_may_share_a_subscription() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        bridge: true,
        ..clean()
    };
    let b = w.connect(Version::V311, "b", &options);
    assert_eq!(w.subscribe(b, "$share/g/t", QoS::AtLeastOnce), 1);
    assert_eq!(w.clients[b].closed, None);
}

/// A will obeys the limits of a publish.
#[test]
fn a_will_with_too_many_levels_is_not_published() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    let topic = "a/".repeat(1_000);
    let options = ConnectOptions {
        will: Some((&topic, "x", 0)),
        ..clean()
    };
    let c = w.connect(Version::V5, "c", &options);
    w.drop_link(c);
    assert_eq!(w.take_messages(s), []);
}

/// Many subscribers with a subscription identifier each: every copy carries its own.
#[test]
fn many_subscription_identifiers_stay_apart() {
    let mut w = World::new(1);
    let subscribers: Vec<_> = (1..100)
        .map(|id| {
            let s = w.connect(Version::V5, &format!("s{id}"), &clean());
            w.subscribe_with(s, "t", qos(QoS::AtMostOnce), Some(id));
            (s, id)
        })
        .collect();
    let p = w.connect(Version::V5, "p", &clean());
    w.publish(p, "t", "x", QoS::AtMostOnce, false);
    for (s, id) in subscribers {
        assert_eq!(w.take_messages(s)[0].ids, [id]);
    }
}

/// One client subscribes to and leaves as much as it may: no step costs what the others cost.
#[test]
fn a_hundred_thousand_subscriptions_come_and_go() {
    let settings = Settings {
        shares_max: 50_000,
        subscription_bytes_max: 64 << 20,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let c = w.connect(Version::V5, "c", &clean());
    let packet = |first: u8, filters: &[String], options: &[u8]| {
        let mut body = vec![0, 1, 0];
        for filter in filters {
            body.extend(u16::try_from(filter.len()).unwrap().to_be_bytes());
            body.extend(filter.as_bytes());
            body.extend(options);
        }
        let len = body.len();
        let mut bytes = vec![first];
        bytes.extend([
            (len & 0x7F) as u8 | 0x80,
            (len >> 7 & 0x7F) as u8 | 0x80,
            (len >> 14) as u8,
        ]);
        bytes.extend(body);
        bytes
    };
    for prefix in ["", "$share/g/"] {
        let filters: Vec<_> = (0..50_000).map(|i| format!("{prefix}{i}")).collect();
        w.send_bytes(c, &packet(0x82, &filters, &[0]));
        assert_eq!(w.hubs[0].inspect().stats().subscriptions, 50_000);
        w.send_bytes(c, &packet(0xA2, &filters, &[]));
        assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
    }
    assert_eq!(w.clients[c].closed, None);
}

/// [MQTT-4.8.2-5]: QoS 2 that was begun goes to nobody else; QoS 1 does.
#[test]
fn only_qos_1_moves_to_another_member_once_it_was_sent() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let first = w.connect(Version::V5, "first", &clean());
    w.subscribe(first, "$share/g/t", QoS::ExactlyOnce);
    w.publish(p, "t", "one", QoS::AtLeastOnce, false);
    w.publish(p, "t", "two", QoS::ExactlyOnce, false);
    let second = w.connect(Version::V5, "second", &clean());
    w.subscribe(second, "$share/g/t", QoS::ExactlyOnce);
    w.drop_link(first);
    assert_eq!(w.take_payloads(second), ["one"]);
}

/// [MQTT-4.8.2-6]: a member's error ends the message.
#[test]
fn a_members_refusal_is_not_passed_on() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let s: Vec<_> = ["a", "b"]
        .iter()
        .map(|id| {
            let s = w.connect(Version::V5, id, &clean());
            w.subscribe(s, "$share/g/t", QoS::AtLeastOnce);
            s
        })
        .collect();
    w.publish(p, "t", "x", QoS::AtLeastOnce, false);
    let (chosen, id) = s
        .iter()
        .find_map(|s| Some((*s, w.take_messages(*s).first()?.packet_id?)))
        .unwrap();
    let [high, low] = PacketId::get(id).to_be_bytes();
    w.send_bytes(chosen, &[0x40, 3, high, low, 0x80]);
    w.drop_link(chosen);
    for s in s {
        assert_eq!(w.take_messages(s), []);
    }
}

/// [MQTT-3.3.2-18]
#[test]
fn properties_reach_the_subscriber_in_order() {
    let mut w = World::new(2);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "t", QoS::AtMostOnce);
    let p = w.connect(Version::V5, "p", &clean());
    let mut properties = PropertyBuf::new();
    for value in ["1", "2", "3"] {
        properties.push(stentor_mqtt::Property::UserProperty(("k", value)));
    }
    w.publish_with(
        p,
        "t",
        "x",
        QoS::AtMostOnce,
        false,
        properties.as_properties(),
    );
    let packet = w.take_packet(s, 0x30).unwrap();
    let text = String::from_utf8_lossy(&packet).into_owned();
    let at: Vec<_> = ["1", "2", "3"]
        .iter()
        .map(|v| text.find(&format!("k\0\u{1}{v}")).unwrap())
        .collect();
    assert!(at.is_sorted());
    w.publish_with(p, "t", "y", QoS::AtMostOnce, false, Properties::EMPTY);
    assert_eq!(w.take_payloads(s), ["y"]);
}
