//! PUBLISH.

use crate::codec::support::{
    ALL, Client, ONLY_V5, Server, V3, bad, check_bad, check_both, check_decode, check_encode, id,
    props,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V311};
use stentor_mqtt::{EncodeError, Packet, Properties, Property, Publish, QoS, encode};

fn publish<'a>(topic: &'a str, payload: &'a [u8]) -> Publish<'a> {
    Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic,
        packet_id: None,
        properties: Properties::EMPTY,
        payload,
    }
}

/// [MQTT-2.2.1-2] QoS 0 has no packet identifier, the others have one.
#[test]
fn publish_of_each_qos() {
    for &version in V3 {
        let packet = Packet::Publish(publish("a/b", b"hi"));
        check_both(
            "QoS 0",
            version,
            Client,
            &hex!("30 07 0003 612f62 6869"),
            &packet,
        );
        check_both(
            "QoS 0",
            version,
            Server,
            &hex!("30 07 0003 612f62 6869"),
            &packet,
        );
        let packet = Packet::Publish(Publish {
            qos: QoS::AtLeastOnce,
            packet_id: Some(id(0x1234)),
            ..publish("a/b", b"hi")
        });
        check_both(
            "QoS 1",
            version,
            Client,
            &hex!("32 09 0003 612f62 1234 6869"),
            &packet,
        );
    }
    let packet = Packet::Publish(publish("a/b", b"hi"));
    check_both(
        "QoS 0",
        V5,
        Client,
        &hex!("30 08 0003 612f62 00 6869"),
        &packet,
    );
    let packet = Packet::Publish(Publish {
        dup: true,
        qos: QoS::ExactlyOnce,
        retain: true,
        packet_id: Some(id(0xFFFF)),
        ..publish("a/b", b"hi")
    });
    check_both(
        "QoS 2, DUP, RETAIN",
        V5,
        Client,
        &hex!("3d 0a 0003 612f62 ffff 00 6869"),
        &packet,
    );
}

/// [MQTT5 3.3.3] Empty payload, topic `/`, characters of four bytes.
#[test]
fn publish_at_the_edges() {
    for &version in V3 {
        let packet = Packet::Publish(publish("/", b""));
        check_both(
            "empty payload",
            version,
            Client,
            &hex!("30 03 0001 2f"),
            &packet,
        );
        let packet = Packet::Publish(publish("\u{1F4E3}\u{FEFF}", b"\0"));
        // [MQTT-1.5.4-3] U+FEFF is a character like any other.
        check_both(
            "UTF-8",
            version,
            Client,
            &hex!("30 0a 0007 f09f93a3efbbbf 00"),
            &packet,
        );
    }
}

/// [MQTT-3.3.4-6] Properties both ways; only a server's PUBLISH has subscription identifiers.
#[test]
fn publish_with_properties() {
    let client = hex!(
        "32 24 0001 74 0001 1a 01 01 02 0000000a 23 0005 08 0001 72
         09 0002 abcd 26 0001 6b 0001 76 78797a 00"
    );
    let packet = Packet::Publish(Publish {
        qos: QoS::AtLeastOnce,
        packet_id: Some(id(1)),
        properties: props(&[
            Property::PayloadFormatIndicator(true),
            Property::MessageExpiryInterval(10),
            Property::TopicAlias(5),
            Property::ResponseTopic("r"),
            Property::CorrelationData(&[0xAB, 0xCD]),
            Property::UserProperty(("k", "v")),
        ]),
        ..publish("t", b"xyz\0")
    });
    check_both("from a client", V5, Client, &client, &packet);
    let server = hex!("30 0a 0001 74 05 0b 01 0b 8001 78");
    let packet = Packet::Publish(Publish {
        properties: props(&[
            Property::SubscriptionIdentifier(1),
            Property::SubscriptionIdentifier(128),
        ]),
        ..publish("t", b"x")
    });
    check_both("from a server", V5, Server, &server, &packet);
    check_encode(
        "3.1.1 has no properties",
        V311,
        &packet,
        &hex!("30 04 0001 74 78"),
    );
}

/// [MQTT5 3.3.2.3.4] An alias stands for a topic that was sent before.
#[test]
fn publish_with_an_alias_alone() {
    let packet = Packet::Publish(Publish {
        properties: props(&[Property::TopicAlias(5)]),
        ..publish("", b"x")
    });
    check_both(
        "alias",
        V5,
        Client,
        &hex!("30 07 0000 03 23 0005 78"),
        &packet,
    );
    check_both(
        "alias",
        V5,
        Server,
        &hex!("30 07 0000 03 23 0005 78"),
        &packet,
    );
}

/// The codec leaves it to the server whether the payload is what the indicator says.
#[test]
fn payload_format_is_not_checked_here() {
    let packet = Packet::Publish(Publish {
        properties: props(&[Property::PayloadFormatIndicator(true)]),
        ..publish("t", &[0xFF])
    });
    check_decode(
        "not UTF-8",
        V5,
        Client,
        &hex!("30 07 0001 74 02 01 01 ff"),
        &packet,
    );
}

#[test]
fn malformed_publishes() {
    check_bad(&[
        bad(
            "3.3.1-4 QoS 3",
            ALL,
            Client,
            &hex!("36 05 0001 74 0001"),
            K::QoSReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.3.1-2 DUP with QoS 0",
            ALL,
            Client,
            &hex!("38 03 0001 74"),
            K::DupWithoutQoS,
            R::MalformedPacket,
        ),
        bad(
            "2.2.1-3 packet identifier 0",
            V3,
            Client,
            &hex!("32 05 0001 74 0000"),
            K::PacketIdZero,
            R::ProtocolError,
        ),
        bad(
            "2.2.1-3 packet identifier 0",
            ONLY_V5,
            Client,
            &hex!("34 06 0001 74 0000 00"),
            K::PacketIdZero,
            R::ProtocolError,
        ),
        bad(
            "3.3.2-1 topic not UTF-8",
            V3,
            Client,
            &hex!("30 03 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "3.3.2-1 topic not UTF-8",
            ONLY_V5,
            Client,
            &hex!("30 04 0001 ff 00"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "1.5.4-1 overlong",
            V3,
            Client,
            &hex!("30 04 0002 c080"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "1.5.4-1 surrogate",
            V3,
            Client,
            &hex!("30 05 0003 edbfbf"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "4.7.3-2 NUL in the topic",
            V3,
            Client,
            &hex!("30 05 0003 610062"),
            K::Nul,
            R::MalformedPacket,
        ),
        bad(
            "3.3.2-2 + in the topic",
            V3,
            Client,
            &hex!("30 05 0003 612f2b"),
            K::TopicWildcard,
            R::TopicNameInvalid,
        ),
        bad(
            "3.3.2-2 # in the topic",
            ONLY_V5,
            Client,
            &hex!("30 06 0003 612f23 00"),
            K::TopicWildcard,
            R::TopicNameInvalid,
        ),
        bad(
            "3.3.2-2 # from a server",
            V3,
            Server,
            &hex!("30 03 0001 23"),
            K::TopicWildcard,
            R::TopicNameInvalid,
        ),
        bad(
            "4.7.3-1 empty topic",
            V3,
            Client,
            &hex!("30 02 0000"),
            K::TopicEmpty,
            R::ProtocolError,
        ),
        bad(
            "3.3.2.1 empty topic without alias",
            ONLY_V5,
            Client,
            &hex!("30 03 0000 00"),
            K::TopicEmpty,
            R::ProtocolError,
        ),
        bad(
            "2.1.4 nothing",
            ALL,
            Client,
            &hex!("30 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 topic beyond the end",
            ALL,
            Client,
            &hex!("30 03 0002 74"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 no packet identifier",
            ALL,
            Client,
            &hex!("32 04 0001 74 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2-1 no property length",
            ONLY_V5,
            Client,
            &hex!("30 03 0001 74"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2.1 properties beyond the end",
            ONLY_V5,
            Client,
            &hex!("30 06 0001 74 05 01 01"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2.1 value beyond the properties",
            ONLY_V5,
            Client,
            &hex!("30 09 0001 74 03 02 0000 000a"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.3.2-8 alias 0",
            ONLY_V5,
            Client,
            &hex!("30 07 0001 74 03 23 0000"),
            K::TopicAliasZero,
            R::TopicAliasInvalid,
        ),
        bad(
            "3.3.4-6 subscription identifier",
            ONLY_V5,
            Client,
            &hex!("30 06 0001 74 02 0b 01"),
            K::SubscriptionIdFromClient,
            R::ProtocolError,
        ),
        bad(
            "3.3.2-14 wildcard in the response topic",
            ONLY_V5,
            Client,
            &hex!("30 08 0001 74 04 08 0001 23"),
            K::ResponseTopicInvalid,
            R::ProtocolError,
        ),
        bad(
            "3.3.2-13 response topic not UTF-8",
            ONLY_V5,
            Client,
            &hex!("30 08 0001 74 04 08 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "3.3.2-19 content type not UTF-8",
            ONLY_V5,
            Client,
            &hex!("30 08 0001 74 04 03 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
    ]);
}

/// [MQTT-2.2.1-2] The encoder does not write what no decoder takes.
#[test]
fn packet_identifier_must_fit_the_qos() {
    let mut out = Vec::new();
    let with = Packet::Publish(Publish {
        packet_id: Some(id(1)),
        ..publish("t", b"")
    });
    assert_eq!(
        encode(V5, &with, &mut out),
        Err(EncodeError::PacketIdMismatch)
    );
    let without = Packet::Publish(Publish {
        qos: QoS::AtLeastOnce,
        ..publish("t", b"")
    });
    assert_eq!(
        encode(V5, &without, &mut out),
        Err(EncodeError::PacketIdMismatch)
    );
    assert!(out.is_empty());
}
