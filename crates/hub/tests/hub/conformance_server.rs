//! Statements of the standard about retained messages, wills, subscriptions and what a server
//! leaves out, each by itself.

use crate::world::{ConnectOptions, Message, VERSIONS, World, clean, qos};
use stentor_hub::Settings;
use stentor_mqtt::{
    Packet, PacketId, Properties, PropertyBuf, QoS, RetainHandling, Subscribe, SubscribeFilterBuf,
    SubscribeOptions, Version, decode, frame,
};

const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// What a new subscriber to `filter` gets at once.
fn retained(w: &mut World, version: Version, filter: &str) -> Vec<Message> {
    let s = w.connect(version, "late", &clean());
    w.subscribe(s, filter, QoS::ExactlyOnce);
    let messages = w.take_messages(s);
    w.drop_link(s);
    messages
}

fn payloads(messages: &[Message]) -> Vec<&str> {
    let text = |m| std::str::from_utf8(m).unwrap();
    messages.iter().map(|m| text(&m.payload)).collect()
}

/// 3.1.1: [MQTT-3.1.2-7] [MQTT-3.3.1-5] to [MQTT-3.3.1-8] [MQTT-3.3.1-10] to [MQTT-3.3.1-12];
/// 5.0: [MQTT-3.3.1-5] to [MQTT-3.3.1-9].
#[test]
fn retained_messages_are_kept_replaced_and_cleared() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        w.publish(p, "t/1", "one", QoS::ExactlyOnce, true);
        w.publish(p, "t/2", "two", QoS::AtLeastOnce, true);
        // They outlive the session that they came from.
        w.drop_link(p);
        let got = retained(&mut w, version, "t/1");
        assert_eq!(payloads(&got), ["one"]);
        assert_eq!((got[0].qos, got[0].retain), (QoS::ExactlyOnce, true));
        let mut both = retained(&mut w, version, "t/+");
        both.sort_by(|a, b| a.topic.cmp(&b.topic));
        assert_eq!(payloads(&both), ["one", "two"]);
        assert!(both.iter().all(|m| m.retain));
        let p = w.connect(version, "p", &clean());
        // A message of lower QoS replaces one of higher QoS.
        w.publish(p, "t/1", "three", QoS::AtMostOnce, true);
        let got = retained(&mut w, version, "t/1");
        assert_eq!(payloads(&got), ["three"]);
        assert_eq!(got[0].qos, QoS::AtMostOnce);
        // One without RETAIN is neither kept nor does it clear.
        w.publish(p, "t/1", "four", QoS::AtLeastOnce, false);
        w.publish(p, "t/1", "", QoS::AtLeastOnce, false);
        assert_eq!(payloads(&retained(&mut w, version, "t/1")), ["three"]);
        w.publish(p, "t/1", "", QoS::AtLeastOnce, true);
        assert!(retained(&mut w, version, "t/1").is_empty());
        w.publish(p, "t/3", "", QoS::AtLeastOnce, true);
        assert!(retained(&mut w, version, "t/3").is_empty());
        assert_eq!(payloads(&retained(&mut w, version, "t/#")), ["two"]);
    }
}

/// 3.1.1: [MQTT-3.3.1-9]; 5.0: [MQTT-3.3.1-12] [MQTT-3.3.1-13]. And [MQTT-4.3.1-1]: QoS 0 is
/// never a repetition, whatever its publisher says.
#[test]
fn live_messages_have_retain_0_unless_it_is_asked_for_and_qos_0_never_has_dup() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let plain = w.connect(version, "plain", &clean());
        let asks = w.connect(Version::V5, "asks", &clean());
        w.subscribe(plain, "t", QoS::AtMostOnce);
        let options = SubscribeOptions {
            retain_as_published: true,
            ..Default::default()
        };
        w.subscribe_with(asks, "t", options, None);
        for retain in [false, true] {
            for level in LEVELS {
                w.publish(p, "t", "x", level, retain);
                let to_plain = w.take_messages(plain).remove(0);
                assert_eq!((to_plain.retain, to_plain.dup), (false, false));
                assert_eq!(w.take_messages(asks)[0].retain, retain);
            }
        }
        // DUP of what was received says nothing of what is sent [MQTT-3.3.1-3].
        let bytes: &[u8] = if version.is_v5() {
            &[0x3A, 7, 0, 1, b't', 0, 9, 0, b'x']
        } else {
            &[0x3A, 6, 0, 1, b't', 0, 9, b'x']
        };
        w.send_bytes(p, bytes);
        let sent = w.take_messages(plain).remove(0);
        assert_eq!((sent.qos, sent.dup), (QoS::AtMostOnce, false));
    }
}

/// 5.0: [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11]
#[test]
fn retain_handling_says_when_retained_messages_are_sent() {
    for (handling, new, again) in [
        (RetainHandling::Send, 1, 1),
        (RetainHandling::SendIfNew, 1, 0),
        (RetainHandling::DoNotSend, 0, 0),
    ] {
        for filter in ["t", "+"] {
            let mut w = World::new(2);
            let p = w.connect(Version::V5, "p", &clean());
            w.publish(p, "t", "x", QoS::AtMostOnce, true);
            let s = w.connect(Version::V5, "s", &clean());
            let options = SubscribeOptions {
                retain_handling: handling,
                ..Default::default()
            };
            for expected in [new, again] {
                w.subscribe_with(s, filter, options, None);
                assert_eq!(w.take_messages(s).len(), expected, "{handling:?} {filter}");
            }
        }
    }
}

/// 3.1.1: [MQTT-3.1.2-12] [MQTT-3.1.2-16] [MQTT-3.1.2-17]; 5.0: [MQTT-3.1.2-14] [MQTT-3.1.2-15].
#[test]
fn a_will_is_retained_if_its_flag_says_so() {
    for version in VERSIONS {
        for will_retain in [false, true] {
            let mut w = World::new(2);
            let watcher = w.connect(version, "watcher", &clean());
            w.subscribe(watcher, "#", QoS::AtMostOnce);
            let none = w.connect(version, "none", &clean());
            w.drop_link(none);
            assert_eq!(w.take_messages(watcher), [], "there was no will");
            let options = ConnectOptions {
                will: Some(("will", "gone", 0)),
                will_retain,
                ..clean()
            };
            let c = w.connect(version, "c", &options);
            w.drop_link(c);
            assert_eq!(w.take_payloads(watcher), ["gone"]);
            let expected: &[&str] = if will_retain { &["gone"] } else { &[] };
            assert_eq!(payloads(&retained(&mut w, version, "will")), expected);
        }
    }
}

/// [MQTT-3.1.3-10]
#[test]
fn user_properties_of_a_will_keep_their_order() {
    let mut w = World::new(2);
    let watcher = w.connect(Version::V5, "watcher", &clean());
    w.subscribe(watcher, "will", QoS::AtMostOnce);
    let pairs = [("k", "2"), ("a", "1"), ("k", "3"), ("k", "2")];
    let options = ConnectOptions {
        will: Some(("will", "gone", 0)),
        will_user_properties: &pairs,
        ..clean()
    };
    let c = w.connect(Version::V5, "c", &options);
    w.drop_link(c);
    let packet = w.take_packet(watcher, 0x30).unwrap();
    let frame = frame(&packet, u32::MAX).unwrap().unwrap();
    let body = &packet[frame.header_len..];
    let sender = stentor_mqtt::Sender::Server;
    let Ok(Packet::Publish(publish)) = decode(Version::V5, sender, frame.first, body) else {
        panic!("a PUBLISH");
    };
    let sent: Vec<_> = publish.properties.user_properties().collect();
    assert_eq!(sent, pairs);
}

/// 3.1.1: [MQTT-3.3.2-3] [MQTT-3.8.4-6] [MQTT-4.5.0-1]; 5.0: [MQTT-3.3.2-3] [MQTT-3.8.4-8]
/// [MQTT-4.5.0-1].
#[test]
fn messages_arrive_on_their_topic_at_the_lower_qos() {
    for version in VERSIONS {
        let mut w = World::new(3);
        let p = w.connect(version, "p", &clean());
        for granted in LEVELS {
            let s = w.connect(version, "s", &clean());
            let reason = w.subscribe(s, "t/+/x", granted);
            assert_eq!(reason, granted as u8);
            for published in LEVELS {
                w.publish(p, "t/1/y", "other", published, false);
                w.publish(p, "t/1/x", "x", published, false);
                let got = w.take_messages(s);
                assert_eq!(got.len(), 1);
                assert_eq!(
                    (&*got[0].topic, got[0].qos),
                    ("t/1/x", published.min(granted))
                );
            }
            w.drop_link(s);
        }
    }
}

/// 3.1.1: [MQTT-3.3.5-1]; 5.0: [MQTT-3.3.4-2].
#[test]
fn overlapping_subscriptions_deliver_once_at_the_highest_qos() {
    for version in VERSIONS {
        for order in [[0, 1, 2], [2, 0, 1]] {
            let mut w = World::new(2);
            let s = w.connect(version, "s", &clean());
            for at in order {
                w.subscribe(s, ["a/b", "a/+", "#"][at], LEVELS[at]);
            }
            for published in LEVELS {
                w.publish(s, "a/b", "x", published, false);
                let got = w.take_messages(s);
                assert_eq!(got.len(), 1);
                assert_eq!(got[0].qos, published);
            }
        }
    }
}

/// 3.1.1: [MQTT-3.8.4-3]; 5.0: [MQTT-3.8.4-3] [MQTT-3.8.4-4].
#[test]
fn subscribing_again_replaces_and_interrupts_nothing() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.publish(p, "t", "kept", QoS::AtLeastOnce, true);
        w.subscribe(s, "t", QoS::AtLeastOnce);
        assert_eq!(w.take_payloads(s), ["kept"]);
        w.clients[s].socket_room = 0;
        w.publish(p, "t", "1", QoS::AtLeastOnce, false);
        assert_eq!(
            w.subscribe(s, "t", QoS::AtMostOnce),
            0xFF,
            "nothing can be read yet"
        );
        w.publish(p, "t", "2", QoS::AtLeastOnce, false);
        w.open_socket(s, usize::MAX);
        assert_eq!(w.take_packet(s, 0x90).unwrap().last(), Some(&0));
        let got = w.take_messages(s);
        assert_eq!(payloads(&got), ["1", "kept", "2"]);
        assert_eq!(got[0].qos, QoS::AtLeastOnce, "begun before");
        assert_eq!(got[2].qos, QoS::AtMostOnce, "the new one counts");
        let (shard, key) = (usize::from(w.clients[s].shard), w.clients[s].key.unwrap());
        assert_eq!(w.hubs[shard].inspect().subscriptions(key).len(), 1);
    }
}

/// 3.1.1: [MQTT-3.8.4-4]; 5.0: [MQTT-3.8.4-5]. As if each had come alone, but one answer.
#[test]
fn several_filters_in_one_subscribe_are_handled_one_after_another() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let s = w.connect(version, "s", &clean());
        w.publish(s, "a", "1", QoS::AtLeastOnce, true);
        w.publish(s, "b", "2", QoS::AtLeastOnce, true);
        w.clients[s].received.clear();
        let mut filters = SubscribeFilterBuf::new(version);
        // The last one replaces the first.
        for (filter, level) in [("a", 2), ("b", 1), ("a", 0)] {
            filters.push(filter, qos(LEVELS[level])).unwrap();
        }
        let packet = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(3).unwrap(),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        w.send(s, &packet);
        assert!(w.take_packet(s, 0x90).unwrap().ends_with(&[2, 1, 0]));
        assert!(w.take_packet(s, 0x90).is_none(), "one SUBACK");
        let mut got = w.take_payloads(s);
        got.sort();
        assert_eq!(got, ["1", "1", "2"]);
        w.publish(s, "a", "3", QoS::ExactlyOnce, false);
        assert_eq!(w.take_messages(s)[0].qos, QoS::AtMostOnce);
    }
}

/// [MQTT-3.10.4-1] [MQTT-3.10.4-2] [MQTT-3.10.4-6]
#[test]
fn unsubscribing_ends_exactly_the_filter_that_is_named() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let s = w.connect(version, "s", &clean());
        for filter in ["a/b", "a/+", "A/b", "a/b/"] {
            w.subscribe(s, filter, QoS::AtMostOnce);
        }
        // It matches, and is not the same.
        w.unsubscribe(s, "a/#");
        w.unsubscribe(s, "+/b");
        for topic in ["a/b", "A/b", "a/b/"] {
            w.publish(s, topic, "x", QoS::AtMostOnce, false);
            assert_eq!(w.take_messages(s).len(), 1, "{topic}");
        }
        w.unsubscribe(s, "a/b");
        w.publish(s, "a/b", "x", QoS::AtMostOnce, false);
        assert_eq!(w.take_messages(s).len(), 1, "the other one matches still");
        w.unsubscribe(s, "a/+");
        w.publish(s, "a/b", "x", QoS::AtMostOnce, false);
        assert_eq!(w.take_messages(s), []);
        for topic in ["A/b", "a/b/"] {
            w.publish(s, topic, "x", QoS::AtMostOnce, false);
            assert_eq!(w.take_messages(s).len(), 1, "{topic}");
        }
    }
}

/// [MQTT-3.3.4-10] [MQTT-4.9.0-3]: the client's quota is used up, and only PUBLISH waits.
#[test]
fn without_quota_only_publishes_wait() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        receive_maximum: 1,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::ExactlyOnce);
    w.publish(s, "t", "1", QoS::ExactlyOnce, false);
    w.publish(s, "t", "2", QoS::ExactlyOnce, false);
    let first = w.take_messages(s);
    assert_eq!(payloads(&first), ["1"]);
    w.clients[s].received.clear();
    w.send_bytes(s, &[0xC0, 0]);
    assert_eq!(w.receive_packet(s).unwrap(), [0xD0, 0]);
    assert_eq!(w.subscribe(s, "u", QoS::AtLeastOnce), 1);
    w.unsubscribe(s, "u");
    w.publish(s, "v", "x", QoS::AtLeastOnce, false);
    assert!(w.take_packet(s, 0x40).is_some());
    // QoS 0 needs no quota.
    w.publish(s, "t", "0", QoS::AtMostOnce, false);
    assert_eq!(w.take_payloads(s), ["0"]);
    let id = first[0].packet_id.unwrap();
    w.send_ack(s, 0x50, id);
    assert!(w.take_packet(s, 0x60).is_some(), "PUBREL does not wait");
    assert_eq!(w.take_messages(s), []);
    w.send_ack(s, 0x70, id);
    assert_eq!(w.take_payloads(s), ["2"]);
}

/// [MQTT-4.3.3-7] [MQTT-4.3.3-13]: the time of a message runs out in the middle of its exchange.
#[test]
fn a_qos_2_exchange_is_completed_whatever_the_expiry() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t", QoS::ExactlyOnce);
    let p = w.connect(Version::V5, "p", &clean());
    let mut properties = PropertyBuf::new();
    properties.push(stentor_mqtt::Property::MessageExpiryInterval(2));
    for payload in ["a", "b"] {
        let properties = properties.as_properties();
        w.publish_with(p, "t", payload, QoS::ExactlyOnce, false, properties);
    }
    let got = w.take_messages(s);
    let (a, b) = (got[0].packet_id.unwrap(), got[1].packet_id.unwrap());
    w.send_ack(s, 0x50, a);
    assert!(w.take_packet(s, 0x60).is_some());
    w.pass_secs(3);
    w.drop_link(s);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    assert!(w.take_packet(s, 0x60).is_some(), "PUBREL again");
    let again = w.take_messages(s);
    assert_eq!(payloads(&again), ["b"]);
    assert_eq!((again[0].packet_id, again[0].dup), (Some(b), true));
    w.send_ack(s, 0x70, a);
    w.send_ack(s, 0x50, b);
    assert!(w.take_packet(s, 0x60).is_some());
    w.send_ack(s, 0x70, b);
    assert_eq!(
        w.hubs[0]
            .inspect()
            .client(stentor_topic::Zone(0), "s")
            .unwrap()
            .in_flight,
        0
    );
}

/// [MQTT-4.8.2-3] [MQTT-4.8.2-4]
#[test]
fn a_shared_message_has_its_members_qos_and_waits_for_that_member() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let one = w.connect(Version::V5, "one", &ConnectOptions::persistent());
    w.subscribe(one, "$share/g/t", QoS::ExactlyOnce);
    w.publish(p, "t", "x", QoS::ExactlyOnce, false);
    let begun = w.take_messages(one);
    assert_eq!(begun[0].qos, QoS::ExactlyOnce);
    let two = w.connect(Version::V5, "two", &clean());
    w.subscribe(two, "$share/g/t", QoS::AtMostOnce);
    w.drop_link(one);
    assert_eq!(w.take_messages(two), [], "its delivery has begun");
    w.publish(p, "t", "y", QoS::ExactlyOnce, false);
    assert_eq!(w.take_messages(two)[0].qos, QoS::AtMostOnce);
    let one = w.connect(Version::V5, "one", &ConnectOptions::persistent());
    let again = w.take_messages(one);
    assert_eq!(payloads(&again), ["x"]);
    assert_eq!(again[0].packet_id, begun[0].packet_id);
}

/// The property bytes of a CONNACK.
fn connack_properties(w: &mut World, options: &ConnectOptions<'_>) -> Vec<u8> {
    let c = w.connect_only(Version::V5, "c", options);
    let connack = w.receive_packet(c).unwrap();
    assert_eq!(usize::from(connack[4]), connack.len() - 5);
    connack[5..].to_vec()
}

/// [MQTT-3.1.2-28]
#[test]
fn response_information_is_for_those_who_ask() {
    let settings = Settings {
        response_information: Some("answers/here".into()),
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let has = |properties: &[u8]| properties.windows(12).any(|part| part == b"answers/here");
    assert!(!has(&connack_properties(&mut w, &clean())));
    let asks = ConnectOptions {
        response_information: true,
        ..clean()
    };
    assert!(has(&connack_properties(&mut w, &asks)));
}

/// [MQTT-3.2.2-9] [MQTT-3.2.2-10] [MQTT-3.2.2-12] [MQTT-3.2.2-13] [MQTT-4.12.0-6]: nothing is
/// missing, so CONNACK names no maximum QoS and no lack of retained messages; and it names no
/// authentication method, which nobody asked for.
#[test]
fn connack_says_nothing_of_what_is_not_missing() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        will: Some(("w", "x", 0)),
        will_retain: true,
        ..clean()
    };
    let properties = connack_properties(&mut w, &options);
    // Receive maximum, maximum packet size, topic alias maximum, and no other.
    let ids: Vec<u8> = [properties[0], properties[3], properties[8]].into();
    assert_eq!(ids, [0x21, 0x27, 0x22]);
    assert_eq!(properties.len(), 11);
    for level in LEVELS {
        assert_eq!(w.subscribe(0, "t", level), level as u8);
    }
}

/// [MQTT-3.1.2-29] and the statements on what makes a packet too large: acknowledgements of every
/// kind, good and bad, carry neither reason string nor user properties to clients that declined
/// them, nor to those with small packets.
#[test]
fn answers_carry_neither_reason_strings_nor_user_properties() {
    for (problem_information, packet_bytes_max) in [(false, 0), (true, 30)] {
        let mut w = World::new(1);
        let options = ConnectOptions {
            packet_bytes_max,
            ..clean()
        };
        let (mut request, identity) = crate::world::request(Version::V5, "c", &options);
        request.request_problem_information = problem_information;
        let c = w.enter(request, identity.into());
        w.take_packet(c, 0x20).expect("a CONNACK");
        w.subscribe(c, "t", QoS::ExactlyOnce);
        w.subscribe(c, "secret/x", QoS::AtMostOnce);
        for topic in ["t", "secret/x"] {
            w.publish(c, topic, "x", QoS::AtLeastOnce, false);
            w.publish(c, topic, "x", QoS::ExactlyOnce, false);
        }
        let mut answers = plain_answers(&mut w, c);
        let id = |id| PacketId::new(id).unwrap();
        // Releases and receipts of what is known, and of what is not.
        for number in [1, 2, 77, 400] {
            for kind in [0x50, 0x60, 0x70, 0x40] {
                w.send_ack(c, kind, id(number));
            }
        }
        answers += plain_answers(&mut w, c);
        w.send_bytes(c, &[0xA2, 7, 0, 5, 0, 0, 2, b'n', b'o']);
        // A second CONNECT ends it.
        w.send_bytes(
            c,
            &[
                0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0, 0, 1, b'c',
            ],
        );
        answers += plain_answers(&mut w, c);
        assert!(w.clients[c].closed.is_some());
        assert!(answers > 12, "{answers}");
    }
}

/// Takes all packets of a client, and counts its answers, which have no properties.
fn plain_answers(w: &mut World, client: usize) -> usize {
    let mut answers = 0;
    while let Some(packet) = w.receive_packet(client) {
        let frame = frame(&packet, u32::MAX).unwrap().unwrap();
        let body = &packet[frame.header_len..];
        let sender = stentor_mqtt::Sender::Server;
        match decode(Version::V5, sender, frame.first, body).unwrap() {
            Packet::PubAck(ack)
            | Packet::PubRec(ack)
            | Packet::PubRel(ack)
            | Packet::PubComp(ack) => assert!(ack.properties.is_empty()),
            Packet::SubAck(ack) | Packet::UnsubAck(ack) => assert!(ack.properties.is_empty()),
            Packet::Disconnect(packet) => assert!(packet.properties.is_empty()),
            Packet::Publish(_) => continue,
            other => panic!("unexpected {other:?}"),
        }
        answers += 1;
    }
    answers
}
