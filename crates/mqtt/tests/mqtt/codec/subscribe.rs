//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK.

use crate::codec::support::{
    ALL, Client, ONLY_V5, Server, V3, bad, check_bad, check_both, check_decode, check_encode, id,
    parse, props,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V311};
use stentor_mqtt::{
    Packet, Properties, Property, QoS, RetainHandling, SubAck, Subscribe, SubscribeFilterBuf,
    SubscribeOptions, Unsubscribe, UnsubscribeFilterBuf, encode, peek_topic,
};

fn options(qos: QoS) -> SubscribeOptions {
    SubscribeOptions {
        qos,
        ..SubscribeOptions::default()
    }
}

/// [MQTT-3.8.3-1] [MQTT-3.8.3-2] Filters in order, at least one.
#[test]
fn subscribe_of_each_version() {
    for &version in V3 {
        let mut filters = SubscribeFilterBuf::new(version);
        filters.push("a/+", options(QoS::AtLeastOnce)).unwrap();
        filters.push("#", options(QoS::ExactlyOnce)).unwrap();
        let packet = Packet::Subscribe(Subscribe {
            packet_id: id(10),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        check_both(
            "two filters",
            version,
            Client,
            &hex!("82 0c 000a 0003 612f2b 01 0001 23 02"),
            &packet,
        );
        assert_eq!(filters.as_filters().count(), 2);
    }
    let mut filters = SubscribeFilterBuf::new(V5);
    let all = SubscribeOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DoNotSend,
    };
    filters.push("a", all).unwrap();
    filters
        .push("$share/g/a", options(QoS::AtMostOnce))
        .unwrap();
    let packet = Packet::Subscribe(Subscribe {
        packet_id: id(10),
        properties: props(&[Property::SubscriptionIdentifier(268_435_455)]),
        filters: filters.as_filters(),
    });
    let bytes = hex!("82 19 000a 05 0b ffffff7f 0001 61 2e 000a 24 73 68 61 72 65 2f 67 2f 61 00");
    check_both("options and identifier", V5, Client, &bytes, &packet);
    check_encode(
        "3.1.1 keeps the QoS",
        V311,
        &packet,
        &hex!("82 13 000a 0001 61 02 000a 24 73 68 61 72 65 2f 67 2f 61 00"),
    );
}

#[test]
fn subscribe_filters_are_iterated_in_order() {
    let bytes = hex!("82 16 000a 00 0001 61 00 0002 622f 15 0003 632f64 1e 0001 65 02");
    let Ok(Packet::Subscribe(packet)) = parse(V5, Client, &bytes) else {
        panic!("not a SUBSCRIBE")
    };
    let found: Vec<_> = packet
        .filters
        .iter()
        .map(|item| (item.filter, item.options.to_bits()))
        .collect();
    assert_eq!(
        found,
        [("a", 0x00), ("b/", 0x15), ("c/d", 0x1E), ("e", 0x02)]
    );
    assert_eq!(packet.filters.count(), 4);
}

/// [MQTT5 3.8.3.1] All 256 option bytes.
#[test]
fn every_options_byte() {
    for bits in 0..=255u8 {
        let expected = if bits & 0xC0 != 0 {
            Err(K::SubscribeOptionsReserved)
        } else if bits & 3 == 3 {
            Err(K::SubscribeQoSReserved)
        } else if bits >> 4 == 3 {
            Err(K::RetainHandlingReserved)
        } else {
            Ok(bits)
        };
        let found = SubscribeOptions::from_bits(V5, bits)
            .map(SubscribeOptions::to_bits)
            .map_err(|error| error.kind);
        assert_eq!(found, expected, "{bits:02x}");
        for &version in V3 {
            let expected = match bits {
                0..=2 => Ok(bits),
                3 => Err(K::SubscribeQoSReserved),
                _ => Err(K::SubscribeOptionsReserved),
            };
            let found = SubscribeOptions::from_bits(version, bits)
                .map(SubscribeOptions::to_bits)
                .map_err(|error| error.kind);
            assert_eq!(found, expected, "{bits:02x}");
        }
    }
}

/// A filter with misplaced wildcards reaches the server, which answers it with 0x8F.
#[test]
fn invalid_filters_are_not_malformed() {
    for filter in ["a/#/b", "a+", "+a/b", "##", "$share//a", "$share/g"] {
        let mut filters = SubscribeFilterBuf::new(V311);
        filters.push(filter, options(QoS::AtMostOnce)).unwrap();
        let packet = Packet::Subscribe(Subscribe {
            packet_id: id(1),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        let mut bytes = Vec::new();
        encode(V311, &packet, &mut bytes).unwrap();
        check_decode(filter, V311, Client, &bytes, &packet);
        let mut filters = UnsubscribeFilterBuf::new();
        filters.push(filter).unwrap();
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id: id(1),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        bytes.clear();
        encode(V5, &packet, &mut bytes).unwrap();
        check_decode(filter, V5, Client, &bytes, &packet);
    }
}

#[test]
fn malformed_subscribes() {
    check_bad(&[
        bad(
            "3.8.3-2 no filter",
            V3,
            Client,
            &hex!("82 02 0001"),
            K::SubscribeEmpty,
            R::ProtocolError,
        ),
        bad(
            "3.8.3-2 no filter",
            ONLY_V5,
            Client,
            &hex!("82 03 0001 00"),
            K::SubscribeEmpty,
            R::ProtocolError,
        ),
        bad(
            "2.2.1-3 identifier 0",
            V3,
            Client,
            &hex!("82 06 0000 0001 61 00"),
            K::PacketIdZero,
            R::ProtocolError,
        ),
        bad(
            "4.7.3-1 empty filter",
            V3,
            Client,
            &hex!("82 05 0001 0000 00"),
            K::FilterEmpty,
            R::MalformedPacket,
        ),
        bad(
            "3.8.3-1 filter not UTF-8",
            V3,
            Client,
            &hex!("82 06 0001 0001 ff 00"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "4.7.3-2 NUL in a filter",
            V3,
            Client,
            &hex!("82 06 0001 0001 00 00"),
            K::Nul,
            R::MalformedPacket,
        ),
        bad(
            "3.8.3-3 no options",
            V3,
            Client,
            &hex!("82 05 0001 0001 61"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.8.3-3 second without options",
            V3,
            Client,
            &hex!("82 09 0001 0001 61 00 0001 62"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3-8.3-4 QoS 3",
            V3,
            Client,
            &hex!("82 06 0001 0001 61 03"),
            K::SubscribeQoSReserved,
            R::ProtocolError,
        ),
        bad(
            "3-8.3-4 reserved bits",
            V3,
            Client,
            &hex!("82 06 0001 0001 61 04"),
            K::SubscribeOptionsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.8.3-5 reserved bits",
            ONLY_V5,
            Client,
            &hex!("82 07 0001 00 0001 61 40"),
            K::SubscribeOptionsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.8.3.1 QoS 3",
            ONLY_V5,
            Client,
            &hex!("82 07 0001 00 0001 61 03"),
            K::SubscribeQoSReserved,
            R::ProtocolError,
        ),
        bad(
            "3.8.3.1 retain handling 3",
            ONLY_V5,
            Client,
            &hex!("82 07 0001 00 0001 61 30"),
            K::RetainHandlingReserved,
            R::ProtocolError,
        ),
        bad(
            "3.8.3-4 no local on a shared subscription",
            ONLY_V5,
            Client,
            &hex!("82 10 0001 00 000a 2473686172652f672f61 04"),
            K::NoLocalShared,
            R::ProtocolError,
        ),
        bad(
            "3.8.2.1.2 subscription identifier 0",
            ONLY_V5,
            Client,
            &hex!("82 09 0001 02 0b00 0001 61 00"),
            K::PropertyValue,
            R::ProtocolError,
        ),
        bad(
            "3.8.2.1.2 subscription identifier twice",
            ONLY_V5,
            Client,
            &hex!("82 0b 0001 04 0b01 0b02 0001 61 00"),
            K::PropertyDuplicate,
            R::ProtocolError,
        ),
        bad(
            "1.5.5-1 padded subscription identifier",
            ONLY_V5,
            Client,
            &hex!("82 0a 0001 03 0b8100 0001 61 00"),
            K::VarIntNotMinimal,
            R::MalformedPacket,
        ),
        bad(
            "1.5.5 subscription identifier of five bytes",
            ONLY_V5,
            Client,
            &hex!("82 0d 0001 06 0b8080808001 0001 61 00"),
            K::VarIntTooLong,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2.2 property of PUBLISH",
            ONLY_V5,
            Client,
            &hex!("82 09 0001 02 0101 0001 61 00"),
            K::PropertyNotAllowed,
            R::MalformedPacket,
        ),
    ]);
}

#[test]
fn unsubscribe_of_each_version() {
    let mut filters = UnsubscribeFilterBuf::new();
    filters.push("a/b").unwrap();
    filters.push("c").unwrap();
    let packet = Packet::Unsubscribe(Unsubscribe {
        packet_id: id(2),
        properties: Properties::EMPTY,
        filters: filters.as_filters(),
    });
    for &version in V3 {
        check_both(
            "two filters",
            version,
            Client,
            &hex!("a2 0a 0002 0003 612f62 0001 63"),
            &packet,
        );
    }
    check_both(
        "two filters",
        V5,
        Client,
        &hex!("a2 0b 0002 00 0003 612f62 0001 63"),
        &packet,
    );
    assert_eq!(filters.as_filters().count(), 2);
    assert_eq!(
        filters.as_filters().iter().collect::<Vec<_>>(),
        ["a/b", "c"]
    );
    check_bad(&[
        bad(
            "3.10.3-2 no filter",
            V3,
            Client,
            &hex!("a2 02 0001"),
            K::UnsubscribeEmpty,
            R::ProtocolError,
        ),
        bad(
            "3.10.3-2 no filter",
            ONLY_V5,
            Client,
            &hex!("a2 03 0001 00"),
            K::UnsubscribeEmpty,
            R::ProtocolError,
        ),
        bad(
            "3.10.3-1 not UTF-8",
            V3,
            Client,
            &hex!("a2 05 0001 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "4.7.3-1 empty filter",
            V3,
            Client,
            &hex!("a2 04 0001 0000"),
            K::FilterEmpty,
            R::MalformedPacket,
        ),
        bad(
            "4.7.3-2 NUL",
            V3,
            Client,
            &hex!("a2 05 0001 0001 00"),
            K::Nul,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 cut off",
            ALL,
            Client,
            &hex!("a2 05 0001 0002 61"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.10.2.1 property of SUBSCRIBE",
            ONLY_V5,
            Client,
            &hex!("a2 08 0001 02 0b01 0001 61"),
            K::PropertyNotAllowed,
            R::MalformedPacket,
        ),
    ]);
}

fn suback(reasons: &[u8]) -> SubAck<'_> {
    SubAck {
        packet_id: id(3),
        properties: Properties::EMPTY,
        reasons,
    }
}

#[test]
fn suback_of_each_version() {
    let packet = Packet::SubAck(suback(&[0, 1, 2, 0x80]));
    for &version in V3 {
        check_both(
            "four answers",
            version,
            Server,
            &hex!("90 06 0003 00010280"),
            &packet,
        );
    }
    check_both(
        "four answers",
        V5,
        Server,
        &hex!("90 07 0003 00 00010280"),
        &packet,
    );
    let packet = Packet::SubAck(suback(&[0x87, 0x8F, 0x97, 0x01]));
    check_both(
        "reasons",
        V5,
        Server,
        &hex!("90 07 0003 00 878f9701"),
        &packet,
    );
    // [MQTT311-3.9.3-2]
    check_encode(
        "3.1.1 has one failure",
        V311,
        &packet,
        &hex!("90 06 0003 80808001"),
    );
    check_bad(&[
        bad(
            "3.9.3-2 reserved return code",
            V3,
            Server,
            &hex!("90 03 0003 03"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.9.3-2 reason of 5.0",
            V3,
            Server,
            &hex!("90 03 0003 87"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.9.3-2 reason of UNSUBACK",
            ONLY_V5,
            Server,
            &hex!("90 04 0003 00 11"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.8.4-6 no answer",
            V3,
            Server,
            &hex!("90 02 0003"),
            K::ReasonsEmpty,
            R::MalformedPacket,
        ),
        bad(
            "3.8.4-6 no answer",
            ONLY_V5,
            Server,
            &hex!("90 03 0003 00"),
            K::ReasonsEmpty,
            R::MalformedPacket,
        ),
    ]);
}

#[test]
fn unsuback_of_each_version() {
    for &version in V3 {
        check_both(
            "3.x",
            version,
            Server,
            &hex!("b0 02 0003"),
            &Packet::UnsubAck(suback(&[])),
        );
    }
    let packet = Packet::UnsubAck(suback(&[0x00, 0x11, 0x8F]));
    check_both("5.0", V5, Server, &hex!("b0 06 0003 00 00118f"), &packet);
    check_encode("3.1.1 has no reasons", V311, &packet, &hex!("b0 02 0003"));
    check_bad(&[
        bad(
            "2.1.4 too long in 3.x",
            V3,
            Server,
            &hex!("b0 03 0003 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "3.11.3-2 reason of SUBACK",
            ONLY_V5,
            Server,
            &hex!("b0 04 0003 00 01"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.11.3-1 no answer",
            ONLY_V5,
            Server,
            &hex!("b0 03 0003 00"),
            K::ReasonsEmpty,
            R::MalformedPacket,
        ),
    ]);
}

/// A builder refuses what does not fit and stays as it was.
#[test]
fn filter_of_65536_bytes_is_refused() {
    let long = "a".repeat(65_536);
    let mut filters = SubscribeFilterBuf::new(V5);
    filters.push("a", options(QoS::AtMostOnce)).unwrap();
    let before = filters.clone();
    filters.push(&long, options(QoS::AtMostOnce)).unwrap_err();
    assert_eq!(filters, before);
    filters.push(&long[1..], options(QoS::AtMostOnce)).unwrap();
    assert_eq!(filters.as_filters().count(), 2);
}

/// What is seen of a packet before it is decoded, whatever it holds.
#[test]
fn the_topic_is_seen_before_the_packet_is_decoded() {
    for version in [V311, V5] {
        assert_eq!(
            peek_topic(version, 0x31, b"\x00\x03a/bxyz"),
            Some(&b"a/b"[..])
        );
        assert_eq!(peek_topic(version, 0x31, b"\x00\x03a/"), None, "cut short");
        assert_eq!(peek_topic(version, 0x31, b"\x00\x00\x03"), None, "an alias");
        assert_eq!(peek_topic(version, 0x31, b"\x00"), None);
        for first in [0x10, 0x40, 0xA2, 0xC0] {
            assert_eq!(peek_topic(version, first, b"\x00\x03a/bxyz"), None);
        }
        assert_eq!(peek_topic(version, 0x82, b"\x00"), None);
    }
    assert_eq!(
        peek_topic(V311, 0x82, b"\x00\x07\x00\x01a\x00"),
        Some(&b"a"[..])
    );
    let body = b"\x00\x07\x02\x0B\x05\x00\x01a\x00";
    assert_eq!(peek_topic(V5, 0x82, body), Some(&b"a"[..]));
    assert_eq!(peek_topic(V5, 0x82, b"\x00\x07\x7F\x0B\x05"), None);
    assert_eq!(peek_topic(V5, 0x82, b"\x00\x07\xFF\xFF\xFF\xFF\x01"), None);
}
