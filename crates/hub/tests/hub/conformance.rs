//! Statements of the standard that no scenario shows by the way.

use crate::world::{ConnectOptions, VERSIONS, World, clean};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Local, Remote, Violation};

/// PUBLISH bytes of topic `t` with an identifier.
fn publish(version: Version, first: u8, id: u8) -> Vec<u8> {
    if version.is_v5() {
        vec![first, 7, 0, 1, b't', 0, id, 0, b'x']
    } else {
        vec![first, 6, 0, 1, b't', 0, id, b'x']
    }
}

/// The identifiers of the acknowledgements that a client received, in order.
fn acknowledged(w: &mut World, client: usize, kind: u8) -> Vec<u8> {
    core::iter::from_fn(|| w.take_packet(client, kind).map(|packet| packet[3])).collect()
}

/// [MQTT-4.6.0-2] [MQTT-4.6.0-3] [MQTT-4.6.0-4], with the identifiers that were sent.
#[test]
fn acknowledgements_keep_the_order_of_what_they_acknowledge() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.subscribe(s, "t", QoS::ExactlyOnce);
        let bytes: Vec<u8> = [(0x32, 7), (0x34, 5), (0x32, 3), (0x34, 9), (0x34, 1)]
            .iter()
            .flat_map(|(first, id)| publish(version, *first, *id))
            .collect();
        w.send_bytes(p, &bytes);
        assert_eq!(acknowledged(&mut w, p, 0x40), [7, 3]);
        assert_eq!(acknowledged(&mut w, p, 0x50), [5, 9, 1]);
        w.send_bytes(p, &[0x62, 2, 0, 9, 0x62, 2, 0, 5, 0x62, 2, 0, 1]);
        assert_eq!(acknowledged(&mut w, p, 0x70), [9, 5, 1]);
        let sent: Vec<_> = w
            .take_messages(s)
            .into_iter()
            .filter(|m| m.qos == QoS::ExactlyOnce)
            .filter_map(|m| m.packet_id)
            .collect();
        let order = [sent[2], sent[0], sent[1]];
        for id in order {
            w.send_ack(s, 0x50, id);
        }
        assert_eq!(
            acknowledged(&mut w, s, 0x60),
            order.map(|id| id.get() as u8)
        );
    }
}

/// [MQTT-4.3.2-5] [MQTT-4.3.3-12]: an identifier that is free again names a new message.
#[test]
fn an_identifier_may_be_used_again_after_its_exchange() {
    for version in VERSIONS {
        let mut w = World::new(1);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.subscribe(s, "t", QoS::AtMostOnce);
        for first in [0x32, 0x3A] {
            w.send_bytes(p, &publish(version, first, 1));
        }
        assert_eq!(w.take_messages(s).len(), 2, "DUP says nothing at QoS 1");
        for first in [0x34, 0x3C] {
            w.send_bytes(p, &publish(version, first, 1));
            w.send_bytes(p, &[0x62, 2, 0, 1]);
        }
        assert_eq!(w.take_messages(s).len(), 2);
        // Unknown identifiers are answered too, so that the client can go on.
        w.send_bytes(p, &[0x62, 2, 0, 8]);
        assert!(acknowledged(&mut w, p, 0x70).contains(&8));
        w.send_bytes(p, &[0x50, 2, 0, 8]);
        assert_eq!(acknowledged(&mut w, p, 0x60), [8]);
        assert_eq!(w.clients[p].closed, None);
    }
}

/// [MQTT-4.3.3-9]: a PUBREC with an error ends the exchange.
#[test]
fn a_refused_qos_2_publish_frees_its_identifier() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "#", QoS::AtMostOnce);
    let mut secret = vec![0x34, 14, 0, 8];
    secret.extend(b"secret/x\0\x01\0x");
    w.send_bytes(p, &secret);
    assert_eq!(w.take_packet(p, 0x50).unwrap()[4], 0x87);
    w.send_bytes(p, &publish(Version::V5, 0x34, 1));
    assert_eq!(w.take_payloads(s), ["x"]);
}

/// [MQTT-4.4.0-2] [MQTT-4.3.3-5] [MQTT-4.3.3-6]
#[test]
fn errors_end_a_delivery_and_a_pubrel_is_repeated_without_its_publish() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t", QoS::ExactlyOnce);
    for (payload, qos) in [
        ("one", QoS::AtLeastOnce),
        ("two", QoS::ExactlyOnce),
        ("three", QoS::ExactlyOnce),
    ] {
        w.publish(p, "t", payload, qos, false);
    }
    let ids: Vec<_> = w
        .take_messages(s)
        .iter()
        .map(|m| m.packet_id.unwrap().get() as u8)
        .collect();
    w.send_bytes(s, &[0x40, 3, 0, ids[0], 0x80, 0x50, 3, 0, ids[1], 0x97]);
    w.send_bytes(s, &[0x50, 2, 0, ids[2]]);
    assert_eq!(acknowledged(&mut w, s, 0x60), [ids[2]]);
    w.drop_link(s);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    assert_eq!(w.take_messages(s), []);
    assert_eq!(acknowledged(&mut w, s, 0x60), [ids[2]]);
}

/// SUBACK and UNSUBACK: identifiers, one code for each filter, in order.
#[test]
fn subscriptions_are_answered_filter_by_filter() {
    for version in VERSIONS {
        let is_v5 = version.is_v5();
        let mut w = World::new(2);
        let c = w.connect(version, "c", &clean());
        let property: &[u8] = if is_v5 { &[0] } else { &[] };
        let request = |first: u8, filters: &[(&str, &[u8])]| {
            let mut body = vec![3, 77];
            body.extend(property);
            for (filter, options) in filters {
                body.extend([0, filter.len() as u8]);
                body.extend(filter.bytes().chain(options.iter().copied()));
            }
            let mut bytes = vec![first, body.len() as u8];
            bytes.extend(body);
            bytes
        };
        let filters: &[(&str, &[u8])] =
            &[("a", &[2]), ("secret/x", &[1]), ("b", &[0]), ("c", &[1])];
        w.send_bytes(c, &request(0x82, filters));
        let suback = w.take_packet(c, 0x90).unwrap();
        assert_eq!(suback[2..4], [3, 77]);
        let denied = if is_v5 { 0x87 } else { 0x80 };
        assert!(suback.ends_with(&[2, denied, 0, 1]));
        w.send_bytes(c, &request(0xA2, &[("nobody", &[]), ("a", &[])]));
        let unsuback = w.take_packet(c, 0xB0).unwrap();
        assert_eq!(unsuback[2..4], [3, 77]);
        assert!(!is_v5 || unsuback.ends_with(&[0x11, 0]));
    }
}

/// [MQTT-3.10.4-3]
#[test]
fn unsubscribing_leaves_what_has_begun() {
    let mut w = World::new(1);
    let s = w.connect(Version::V311, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t", QoS::ExactlyOnce);
    w.publish(s, "t", "x", QoS::ExactlyOnce, false);
    w.unsubscribe(s, "t");
    w.drop_link(s);
    let s = w.connect(Version::V311, "s", &ConnectOptions::persistent());
    let again = w.take_messages(s);
    assert!(again[0].dup && again.len() == 1);
    w.send_ack(s, 0x50, again[0].packet_id.unwrap());
    assert!(w.take_packet(s, 0x60).is_some());
}

/// An assigned client id is unique, told to 5.0, and as good as any other.
#[test]
fn an_empty_client_id_gets_one() {
    let mut w = World::new(1);
    let c = w.connect_only(Version::V5, "", &ConnectOptions::persistent());
    let connack = w.receive_packet(c).unwrap();
    let text = String::from_utf8_lossy(&connack).into_owned();
    let id = &text[text.find("auto-").unwrap()..];
    let id: String = id.chars().take(5 + 32).collect();
    w.connect(Version::V311, "", &clean());
    w.connect(Version::V5, "", &clean());
    assert_eq!(w.hubs[0].inspect().stats().connected, 3);
    w.drop_link(c);
    let c = w.connect_only(Version::V5, &id, &ConnectOptions::persistent());
    assert_eq!(w.receive_packet(c).unwrap()[2], 1, "session present");
}

/// Session present, as clean start and the session say.
#[test]
fn session_present_tells_the_truth() {
    for version in [Version::V311, Version::V5] {
        let mut w = World::new(2);
        let persistent = ConnectOptions::persistent();
        for (options, expected) in [
            (&clean(), 0),
            (&persistent, 0),
            (&persistent, 1),
            (&clean(), 0),
            (&persistent, 0),
        ] {
            let c = w.connect_only(version, "AZaz09AZaz09AZaz09AZaz0", options);
            let connack = w.receive_packet(c).unwrap();
            assert_eq!(connack[2..4], [expected, 0]);
            assert!(w.take_packet(c, 0x20).is_none(), "one CONNACK");
            w.disconnect(c, CloseReason::Remote(Remote::Disconnect));
        }
    }
}

/// PINGREQ is answered; AUTH without a method and packets after DISCONNECT are not.
#[test]
fn small_packets() {
    for version in VERSIONS {
        let mut w = World::new(1);
        let c = w.connect(version, "c", &clean());
        w.send_bytes(c, &[0xC0, 0]);
        assert_eq!(w.receive_packet(c).unwrap(), [0xD0, 0]);
        w.send_bytes(c, &[0xE0, 0, 0xC0, 0]);
        assert_eq!(w.receive_packet(c), None, "nothing follows DISCONNECT");
        assert_eq!(
            w.clients[c].closed,
            Some(CloseReason::Remote(Remote::Disconnect))
        );
    }
    let mut w = World::new(1);
    let c = w.connect(Version::V5, "c", &clean());
    w.send_bytes(c, &[0xF0, 0]);
    assert!(w.clients[c].closed.is_some());
    assert_eq!(w.receive_packet(c).unwrap()[..3], [0xE0, 1, 0x82]);
}

/// Aliases are of one connection; and a client that allows none gets none.
#[test]
fn topic_aliases_end_with_the_connection() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    w.subscribe(s, "long/topic", QoS::AtMostOnce);
    let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    let mut define = vec![0x30, 17, 0, 10];
    define.extend(b"long/topic\x03\x23\0\x40x");
    w.send_bytes(p, &define);
    assert_eq!(w.take_payloads(s), ["x"], "the highest alias is taken");
    w.send_bytes(p, &[0x30, 7, 0, 0, 3, 0x23, 0, 0x40, b'y']);
    let messages = w.take_messages(s);
    assert_eq!(messages[0].topic, "long/topic", "no alias towards s");
    w.drop_link(p);
    let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    w.send_bytes(p, &[0x30, 7, 0, 0, 3, 0x23, 0, 0x40, b'y']);
    assert_eq!(
        w.clients[p].closed,
        Some(CloseReason::Violation(Violation::UnknownAlias))
    );
    // Section 3.3.2.3.4: a protocol error, where one above the maximum has a code of its own.
    assert_eq!(w.receive_packet(p).unwrap()[..3], [0xE0, 1, 0x82]);
}

/// A session that was not to outlive its connection does not outlive a take-over either: the new
/// connection finds none, and the will is published [MQTT-3.1.2-6].
#[test]
fn a_take_over_goes_on_only_with_a_session_that_lasts() {
    for version in VERSIONS {
        for (lasts, wants) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut w = World::new(2);
            let watcher = w.connect(version, "watcher", &clean());
            w.subscribe(watcher, "will", QoS::AtMostOnce);
            let options = |lasts| match lasts {
                true => ConnectOptions::persistent(),
                false => clean(),
            };
            let first = ConnectOptions {
                will: Some(("will", "gone", 0)),
                ..options(lasts)
            };
            let old = w.connect(version, "c", &first);
            w.subscribe(old, "t", QoS::AtLeastOnce);
            let new = w.connect_only(version, "c", &options(wants));
            let reason = CloseReason::Local(Local::TakenOver);
            assert_eq!(w.clients[old].closed, Some(reason));
            let present = lasts && wants;
            // MQTT 3.1 has no word for it.
            let told = u8::from(present && version != Version::V31);
            assert_eq!(w.receive_packet(new).unwrap()[2], told);
            assert_eq!(w.take_payloads(watcher), ["gone"]);
            w.publish(watcher, "t", "x", QoS::AtMostOnce, false);
            assert_eq!(w.take_payloads(new).len(), usize::from(present));
        }
    }
}
