//! What a subscriber gets, and how often.

use stentor_hub::output::has_bulk;
use stentor_mqtt::{PacketId, Properties, PropertyBuf, QoS, SubscribeOptions, Version};
use stentor_session::{Batch, CloseReason, Flush};

use crate::world::{ConnectOptions, VERSIONS, World, clean, encoded_publish, qos};

#[test]
fn a_publish_reaches_every_matching_subscriber_once() {
    for shards in 1..4 {
        for version in VERSIONS {
            let mut w = World::new(shards);
            let publisher = w.connect(version, "publisher", &clean());
            let subscribers: Vec<_> = (0..20)
                .map(|i| w.connect(VERSIONS[i % 3], &format!("subscriber-{i}"), &clean()))
                .collect();
            for (i, s) in subscribers.iter().enumerate() {
                w.subscribe(*s, ["a/b", "a/+", "#", "a/#"][i % 4], QoS::AtMostOnce);
            }
            w.publish(publisher, "a/b", "hello", QoS::AtMostOnce, false);
            for s in &subscribers {
                assert_eq!(w.take_payloads(*s), ["hello"], "{shards} shards");
            }
        }
    }
}

/// [MQTT-3.3.4-2] [MQTT-3.3.4-4]
#[test]
fn overlapping_subscriptions_give_one_copy_at_the_highest_qos_with_all_identifiers() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    let options = |qos| SubscribeOptions {
        qos,
        ..Default::default()
    };
    w.subscribe_with(s, "a/+", options(QoS::AtMostOnce), Some(7));
    w.subscribe_with(s, "#", options(QoS::AtLeastOnce), Some(300));
    w.publish(s, "a/b", "x", QoS::ExactlyOnce, false);
    let messages = w.take_messages(s);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].qos, QoS::AtLeastOnce);
    let mut ids = messages[0].ids.clone();
    ids.sort_unstable();
    assert_eq!(ids, [7, 300]);
}

/// [MQTT-4.3.2-1] [MQTT-4.3.3-1]
#[test]
fn qos_1_and_2_complete_and_free_their_packet_ids() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.subscribe(s, "t", QoS::ExactlyOnce);
        w.publish(p, "t", "one", QoS::AtLeastOnce, false);
        assert!(w.take_packet(p, 0x40).is_some(), "PUBACK");
        w.publish(p, "t", "two", QoS::ExactlyOnce, false);
        assert!(w.take_packet(p, 0x70).is_some(), "PUBCOMP");
        let messages = w.take_messages(s);
        assert_eq!(messages.len(), 2);
        w.send_ack(s, 0x40, messages[0].packet_id.unwrap());
        w.send_ack(s, 0x50, messages[1].packet_id.unwrap());
        assert!(w.take_packet(s, 0x60).is_some(), "PUBREL");
        w.send_ack(s, 0x70, messages[1].packet_id.unwrap());
        let hub = &w.hubs[usize::from(w.clients[s].shard)];
        let info = hub.inspect().client(stentor_topic::Zone(0), "s");
        assert_eq!(
            info.map(|info| (info.in_flight, info.waiting)),
            Some((0, 0))
        );
    }
}

/// A late acknowledgement of an old message must not be one of a new message.
#[test]
fn packet_ids_go_round_also_when_each_message_is_acknowledged_at_once() {
    for version in VERSIONS {
        let mut w = World::new(1);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.subscribe(s, "t", QoS::AtLeastOnce);
        let ids: Vec<u16> = (0..4)
            .map(|_| {
                w.publish(p, "t", "x", QoS::AtLeastOnce, false);
                let id = w.take_messages(s)[0].packet_id.unwrap();
                w.send_ack(s, 0x40, id);
                id.get()
            })
            .collect();
        assert_eq!(ids, [1, 2, 3, 4]);
    }
}

/// [MQTT-4.3.3-10]: a repeated QoS 2 PUBLISH is acknowledged again and not passed on again.
#[test]
fn a_repeated_qos_2_publish_is_passed_on_once() {
    let mut w = World::new(1);
    let p = w.connect(Version::V311, "p", &clean());
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "t", QoS::AtMostOnce);
    let publish = [0x34, 6, 0, 1, b't', 0, 5, b'x'];
    w.send_bytes(p, &publish);
    w.send_bytes(p, &[0x3C, 6, 0, 1, b't', 0, 5, b'x']);
    assert_eq!(w.take_payloads(s), ["x"]);
    assert!(w.take_packet(p, 0x50).is_some() && w.take_packet(p, 0x50).is_some());
}

/// [MQTT-3.3.4-9] towards the client: never more in flight than its receive maximum.
#[test]
fn the_receive_maximum_of_a_client_is_kept_also_after_a_reconnect() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let two = ConnectOptions {
        receive_maximum: 2,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &two);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    for i in 0..5 {
        w.publish(p, "t", &i.to_string(), QoS::AtLeastOnce, false);
    }
    let first = w.take_messages(s);
    assert_eq!(first.len(), 2);
    w.send_ack(s, 0x40, first[0].packet_id.unwrap());
    assert_eq!(w.take_payloads(s), ["2"]);
    w.drop_link(s);
    let one = ConnectOptions {
        receive_maximum: 1,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &one);
    let mut seen = Vec::new();
    while let [message] = w.take_messages(s).as_slice() {
        seen.push(String::from_utf8(message.payload.clone()).unwrap());
        w.send_ack(s, 0x40, message.packet_id.unwrap());
    }
    assert_eq!(seen, ["1", "2", "3", "4"]);
}

/// [MQTT-3.8.3-3] no-local; retain-as-published.
#[test]
fn no_local_and_retain_as_published() {
    let mut w = World::new(1);
    let a = w.connect(Version::V5, "a", &clean());
    let options = SubscribeOptions {
        no_local: true,
        retain_as_published: true,
        ..Default::default()
    };
    w.subscribe_with(a, "t", options, None);
    w.publish(a, "t", "own", QoS::AtMostOnce, false);
    assert!(w.take_messages(a).is_empty());
    let b = w.connect(Version::V5, "b", &clean());
    w.publish(b, "t", "other", QoS::AtMostOnce, true);
    assert!(w.take_messages(a)[0].retain);
    // A mosquitto bridge of 3.1.1 gets both without asking.
    let bridge = ConnectOptions {
        bridge: true,
        ..clean()
    };
    let c = w.connect(Version::V311, "c", &bridge);
    w.subscribe(c, "u", QoS::AtMostOnce);
    w.publish(c, "u", "own", QoS::AtMostOnce, false);
    assert!(w.take_messages(c).is_empty());
    w.publish(b, "u", "other", QoS::AtMostOnce, true);
    assert!(w.take_messages(c)[0].retain);
}

/// [MQTT-3.3.2-6]
#[test]
fn message_expiry_counts_down_and_ends_the_wait() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    let mut properties = PropertyBuf::new();
    properties.push(stentor_mqtt::Property::MessageExpiryInterval(60));
    w.publish_with(
        p,
        "t",
        "long",
        QoS::AtLeastOnce,
        false,
        properties.as_properties(),
    );
    properties.clear();
    properties.push(stentor_mqtt::Property::MessageExpiryInterval(5));
    w.publish_with(
        p,
        "t",
        "short",
        QoS::AtLeastOnce,
        false,
        properties.as_properties(),
    );
    w.pass_secs(20);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    let messages = w.take_messages(s);
    assert_eq!(messages.len(), 1, "the short one expired");
    assert_eq!(
        (messages[0].payload.as_slice(), messages[0].expiry),
        (b"long".as_slice(), Some(40))
    );
}

/// [MQTT-3.3.2-8] and aliases towards the client.
#[test]
fn topic_aliases_work_both_ways() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        alias_maximum: 1,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "#", QoS::AtMostOnce);
    let mut alias = PropertyBuf::new();
    alias.push(stentor_mqtt::Property::TopicAlias(3));
    w.publish_with(
        p,
        "long/topic",
        "1",
        QoS::AtMostOnce,
        false,
        alias.as_properties(),
    );
    w.publish_with(p, "", "2", QoS::AtMostOnce, false, alias.as_properties());
    w.publish(p, "other", "3", QoS::AtMostOnce, false);
    let topics: Vec<_> = w.take_messages(s).into_iter().map(|m| m.topic).collect();
    assert_eq!(
        topics,
        ["long/topic", "", "other"],
        "the one alias is for the first topic"
    );
    alias.clear();
    alias.push(stentor_mqtt::Property::TopicAlias(9));
    w.publish_with(p, "", "?", QoS::AtMostOnce, false, alias.as_properties());
    assert!(matches!(
        w.clients[p].closed,
        Some(CloseReason::Violation(_))
    ));
}

/// [MQTT-3.1.2-24]
#[test]
fn a_message_above_the_clients_packet_size_is_left_out() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        packet_bytes_max: 100,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.publish(p, "t", &"x".repeat(200), QoS::AtLeastOnce, false);
    w.publish(p, "t", "small", QoS::AtLeastOnce, false);
    assert_eq!(w.take_payloads(s), ["small"]);
}

/// What another shard sent for a subscription that has ended may come to one that begins, though
/// what was published in between does not: all of that was before the SUBACK. What comes is in its
/// order, and nothing is missing after the SUBACK, or for who was there all the time.
#[test]
fn only_what_was_published_before_the_suback_may_be_missing() {
    let cases = [(false, false), (false, true), (true, false), (true, true)];
    for (retain, stays) in cases {
        for ended in ["t", "t/#", "+"] {
            let mut w = World::new(2);
            let mut connect = |shard, name: &str| {
                let mut ids = (0..).map(|n| format!("{name}{n}"));
                let id = ids.find(|id| w.home(id) == shard).unwrap();
                w.connect(Version::V5, &id, &clean())
            };
            let (p, a, b) = (connect(0, "p"), connect(1, "a"), connect(1, "b"));
            let other = connect(1, "other");
            if stays {
                w.subscribe(other, "t", QoS::AtMostOnce);
            }
            w.subscribe(a, ended, QoS::AtMostOnce);
            w.paused = true;
            w.publish(p, "t", "1", QoS::AtMostOnce, retain);
            w.drop_link(a);
            w.publish(p, "t", "2", QoS::AtMostOnce, retain);
            let nine = PacketId::new(9).unwrap();
            w.subscribe_only(b, nine, "t", qos(QoS::AtMostOnce));
            w.publish(p, "t", "3", QoS::AtMostOnce, retain);
            w.paused = false;
            w.settle();
            assert!(w.take_packet(b, 0x90).is_some());
            let got = w.take_payloads(b);
            assert!(got.is_sorted(), "{got:?}");
            assert_eq!(got.last().unwrap(), "3");
            if stays {
                assert_eq!(got, ["1", "2", "3"]);
                assert_eq!(w.take_payloads(other), got);
            }
        }
    }
}

/// A long packet goes in pieces, and its client is written to after others until all of it is gone.
#[test]
fn a_long_message_is_bulk_and_goes_in_pieces() {
    const PIECE_BYTES: usize = 256 * 1024;
    let mut w = World::new(1);
    let publisher = w.connect(Version::V5, "publisher", &clean());
    let reader = w.connect(Version::V5, "reader", &clean());
    w.subscribe(reader, "t", QoS::AtMostOnce);
    let key = w.clients[reader].key.unwrap();
    for (len, pieces) in [(10_000, 1), (100_000, 1), (800_000, 4)] {
        let message = encoded_publish("t", &vec![b'x'; len], Properties::EMPTY);
        w.send_without_settling(publisher, &message);
        let (now, hub) = (w.now, &mut w.hubs[0]);
        let mut batch = Batch::new();
        for left in (0..pieces).rev() {
            let is_bulk = len - (pieces - 1 - left) * PIECE_BYTES > 16 * 1024;
            assert_eq!(has_bulk(hub, key), is_bulk);
            assert!(hub.transmit(now, key, &mut batch));
            assert!(batch.len() <= PIECE_BYTES);
            assert_eq!(batch.is_cut(), left > 0);
            let written = batch.len();
            let flush = hub.transmitted(now, key, &mut batch, written);
            assert_eq!(flush == Flush::Done, left == 0);
        }
        assert!(!has_bulk(hub, key));
    }
}
