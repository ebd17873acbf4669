//! Sizes at their bounds, reason codes, error texts.

use crate::codec::support::{hex, id};
use std::collections::HashSet;
use stentor_mqtt::{
    Connect, DecodeError, DecodeErrorKind, EncodeError, FILTERS_MAX, PROPERTIES_MAX, Packet,
    PacketId, Properties, Property, PropertyBuf, Publish, QoS, ReasonCode, Sender, Version, decode,
    encode, frame,
};

fn publish<'a>(topic: &'a str, payload: &'a [u8]) -> Packet<'a> {
    Packet::Publish(Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic,
        packet_id: None,
        properties: Properties::EMPTY,
        payload,
    })
}

/// [MQTT5 1.5.5] The largest body that a remaining length can announce, and one byte more.
#[test]
fn largest_packet() {
    let payload = vec![7; 268_435_455 - 3];
    let mut out = Vec::new();
    assert_eq!(
        encode(Version::V311, &publish("t", &payload), &mut out),
        Ok(())
    );
    assert_eq!(hex(&out[..8]), "30ffffff7f000174");
    assert_eq!(
        frame(&out, u32::MAX).unwrap().unwrap().total_len,
        268_435_460
    );
    out.clear();
    assert_eq!(
        encode(Version::V311, &publish("tt", &payload), &mut out),
        Err(EncodeError::PacketTooLarge { bytes: 268_435_456 })
    );
    assert!(out.is_empty());
}

/// [MQTT-1.5.4] Strings end at 65,535 bytes.
#[test]
fn longest_string() {
    let text = "x".repeat(65_536);
    let mut out = Vec::new();
    assert_eq!(
        encode(Version::V5, &publish(&text[1..], b""), &mut out),
        Ok(())
    );
    out.clear();
    let too_long = Err(EncodeError::StringTooLong { bytes: 65_536 });
    assert_eq!(
        encode(Version::V5, &publish(&text, b""), &mut out),
        too_long
    );
    let connect = Packet::Connect(Connect {
        version: Version::V5,
        bridge: false,
        clean_start: true,
        keep_alive_secs: 0,
        client_id: "",
        will: None,
        username: Some("u"),
        password: Some(text.as_bytes()),
        properties: Properties::EMPTY,
    });
    assert_eq!(encode(Version::V5, &connect, &mut out), too_long);
    assert!(out.is_empty(), "nothing is written of a packet that fails");
}

/// [MQTT5 2.4] 43 values with a name each; undefined bytes are none of them.
#[test]
fn reason_codes_and_bytes() {
    let mut names = HashSet::new();
    for byte in 0..=255u8 {
        match ReasonCode::from_u8(byte) {
            Some(code) => {
                assert_eq!(code as u8, byte);
                assert_eq!(code.is_error(), byte >= 0x80);
                assert!(names.insert(code.name()), "{code:?} has a name of its own");
                assert!(ReasonCode::ALL.contains(&code));
            }
            None => assert!(ReasonCode::ALL.iter().all(|&code| code as u8 != byte)),
        }
    }
    assert_eq!(names.len(), ReasonCode::ALL.len());
    assert_eq!(ReasonCode::ALL.len(), 43);
}

/// [MQTT311-3.2.2-4] Every return code comes back as itself.
#[test]
fn return_codes() {
    for code in 0..=5 {
        let reason = ReasonCode::from_connect_return_code(code).unwrap();
        assert_eq!(reason.connect_return_code(), code);
    }
    assert_eq!(ReasonCode::from_connect_return_code(6), None);
    for &reason in ReasonCode::ALL {
        assert_eq!(
            reason.connect_return_code() != 0,
            reason.is_error(),
            "{reason:?}"
        );
        assert!(reason.connect_return_code() <= 5);
    }
}

/// Every error is a failure to its peer, cites the specification, and reads as a sentence.
#[test]
fn every_error_explains_itself() {
    let mut texts = HashSet::new();
    for &kind in DecodeErrorKind::ALL {
        let error = DecodeError { kind };
        assert!(error.reason().is_error(), "{kind:?}");
        let requirement = error.requirement();
        assert!(requirement.starts_with("MQTT"), "{kind:?}: {requirement}");
        let text = error.to_string();
        assert!(text.contains(requirement), "{text}");
        assert!(texts.insert(text), "{kind:?} has a text of its own");
    }
    let error = DecodeError {
        kind: DecodeErrorKind::Nul,
    };
    assert_eq!(error.to_string(), "a string contains U+0000 [MQTT-1.5.4-2]");
}

/// A client's packet has a bounded number of properties and of filters; a server's may say more.
#[test]
fn lists_are_bounded() {
    let publish = |count: usize| {
        let mut properties = PropertyBuf::new();
        for _ in 0..count {
            properties.push(Property::UserProperty(("", "")));
        }
        let mut out = Vec::new();
        let packet = Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: "t",
            packet_id: None,
            properties: properties.as_properties(),
            payload: b"",
        });
        encode(Version::V5, &packet, &mut out).unwrap();
        out
    };
    let read = |packet: &[u8], from| {
        let frame = frame(packet, u32::MAX).unwrap().unwrap();
        let body = &packet[frame.header_len..];
        decode(Version::V5, from, frame.first, body).map(|_| ())
    };
    assert_eq!(read(&publish(PROPERTIES_MAX), Sender::Client), Ok(()));
    let error = read(&publish(PROPERTIES_MAX + 1), Sender::Client).unwrap_err();
    assert_eq!(error.reason(), ReasonCode::QuotaExceeded);
    assert!(error.to_string().contains("4,096"), "{error}");
    assert_eq!(read(&publish(PROPERTIES_MAX + 1), Sender::Server), Ok(()));
    for (first, filter) in [(0x82, &b"\0\x01f\0"[..]), (0xA2, b"\0\x01f")] {
        let list = |count: usize| [b"\0\x01\0", filter.repeat(count).as_slice()].concat();
        let read = |count| decode(Version::V5, Sender::Client, first, &list(count)).map(|_| ());
        assert_eq!(read(FILTERS_MAX), Ok(()));
        let error = read(FILTERS_MAX + 1).unwrap_err();
        assert_eq!(error.reason(), ReasonCode::QuotaExceeded);
        assert!(error.to_string().contains("131,072"), "{error}");
    }
}

/// Each property is found wherever it stands, and no other.
#[test]
fn a_finder_finds_what_is_there() {
    let mut properties = PropertyBuf::new();
    properties.push(Property::UserProperty(("a", "b")));
    assert_eq!(properties.as_properties().message_expiry(), None);
    properties.push(Property::MessageExpiryInterval(7));
    let mut other = PropertyBuf::new();
    other.push(Property::TopicAlias(3));
    other.extend(properties.as_properties());
    let found = other.as_properties();
    assert_eq!(
        (found.message_expiry(), found.topic_alias()),
        (Some(7), Some(3))
    );
    assert_eq!(found.content_type(), None);
    other.clear();
    assert_eq!(other.as_properties().topic_alias(), None);
}

/// [MQTT-2.2.1-3]
#[test]
fn packet_identifiers_are_not_zero() {
    assert_eq!(PacketId::new(0), None);
    assert_eq!(id(65_535).get(), 65_535);
    assert_eq!(id(7).to_string(), "7");
}
