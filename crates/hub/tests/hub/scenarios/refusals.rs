//! What is refused, and what ends a connection.

use stentor_mqtt::{QoS, Version};

use crate::world::{World, clean};

#[test]
fn rights_refuse_without_closing() {
    let mut w = World::new(1);
    let old = w.connect(Version::V311, "old", &clean());
    let new = w.connect(Version::V5, "new", &clean());
    assert_eq!(w.subscribe(old, "secret/x", QoS::AtMostOnce), 0x80);
    assert_eq!(w.subscribe(new, "secret/x", QoS::AtMostOnce), 0x87);
    w.publish(old, "secret/x", "1", QoS::AtLeastOnce, false);
    assert_eq!(
        w.take_packet(old, 0x40).unwrap(),
        [0x40, 2, 0, 77],
        "3.1.1 is acknowledged"
    );
    w.publish(new, "secret/x", "1", QoS::AtLeastOnce, false);
    let told = "the right to publish to this topic is missing";
    assert_eq!(w.take_ack(new, 0x40), (0x87, told.to_owned()));
    w.publish(new, "secret/x", "1", QoS::AtLeastOnce, false);
    assert!(w.clients[old].closed.is_none() && w.clients[new].closed.is_none());
    let logged = w
        .events
        .iter()
        .filter(|e| matches!(e, stentor_hub::Event::PublishDenied { .. }));
    assert_eq!(logged.count(), 2, "once for each client and topic");
    assert_eq!(w.subscribe(new, "a/#/b", QoS::AtMostOnce), 0x8F);
}

#[test]
fn a_violation_closes_that_connection_and_no_other() {
    for bytes in [
        &[0x10, 0][..],                     // a broken CONNECT
        &[0x00, 0],                         // a reserved type
        &[0x36, 4, 0, 1, b'a', 0],          // QoS 3
        &[0x30, 3, 0, 1, b'#'],             // a wildcard in a topic name
        &[0x20, 2, 0, 0],                   // CONNACK
        &[0xF0, 0],                         // AUTH without a method
        &[0x82, 3, 0, 1, 0],                // SUBSCRIBE without a filter
        &[0xC0, 0x80, 0x80, 0x80, 0x80, 1], // a length of five bytes
    ] {
        let mut w = World::new(1);
        let bad = w.connect(Version::V5, "bad", &clean());
        let good = w.connect(Version::V5, "good", &clean());
        w.subscribe(good, "t", QoS::AtMostOnce);
        w.send_bytes(bad, bytes);
        assert!(w.clients[bad].closed.is_some(), "{bytes:x?}");
        let goodbye = w.take_packet(bad, 0xE0).expect("5.0 is told why");
        assert!(goodbye[2] >= 0x80);
        w.publish(good, "t", "fine", QoS::AtMostOnce, false);
        assert_eq!(w.take_payloads(good), ["fine"]);
    }
}
