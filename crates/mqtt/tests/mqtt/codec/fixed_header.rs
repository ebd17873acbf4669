//! The fixed header: types, flags, lengths.

use crate::codec::support::{
    ALL, Client, ONLY_V5, ONLY_V31, ONLY_V311, Server, bad, check_bad, check_both, check_decode, id,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V31, V311};
use stentor_mqtt::{Ack, Frame, Packet, Properties, decode, frame, frame_header};

#[track_caller]
fn check_frame(bytes: &[u8], max: u32, expected: Result<Option<(usize, usize)>, K>) {
    let found = frame(bytes, max)
        .map(|found| {
            found.map(
                |Frame {
                     header_len,
                     total_len,
                     ..
                 }| (header_len, total_len),
            )
        })
        .map_err(|error| error.kind);
    assert_eq!(found, expected, "{bytes:02x?} with a limit of {max}");
}

/// [MQTT5 2.1.4] The four sizes of a remaining length, each at both ends of its range.
#[test]
fn remaining_length_takes_one_to_four_bytes() {
    for (header, body) in [
        (&hex!("30 00")[..], 0usize),
        (&hex!("30 7f"), 127),
        (&hex!("30 80 01"), 128),
        (&hex!("30 ff 7f"), 16_383),
        (&hex!("30 80 80 01"), 16_384),
        (&hex!("30 ff ff 7f"), 2_097_151),
        (&hex!("30 80 80 80 01"), 2_097_152),
    ] {
        let mut packet = header.to_vec();
        packet.resize(header.len() + body, 0);
        check_frame(&packet, u32::MAX, Ok(Some((header.len(), packet.len()))));
        if body > 0 {
            check_frame(&packet[..packet.len() - 1], u32::MAX, Ok(None));
        }
        packet.extend_from_slice(&[0xC0, 0]);
        check_frame(
            &packet,
            u32::MAX,
            Ok(Some((header.len(), packet.len() - 2))),
        );
    }
    let largest = hex!("30 ff ff ff 7f");
    let found = frame_header(&largest, u32::MAX)
        .expect("legal")
        .expect("length is there");
    assert_eq!(
        found,
        Frame {
            first: 0x30,
            header_len: 5,
            total_len: 268_435_460
        }
    );
}

/// [MQTT5 1.5.5] Four bytes with a continuation bit each are refused before a fifth arrives.
#[test]
fn remaining_length_of_five_bytes_is_malformed() {
    check_frame(&hex!("30 80 80 80"), u32::MAX, Ok(None));
    check_frame(&hex!("30 80 80 80 80"), u32::MAX, Err(K::VarIntTooLong));
    check_frame(&hex!("30 ff ff ff ff 7f"), u32::MAX, Err(K::VarIntTooLong));
}

/// [MQTT-1.5.5-1] 5.0 wants the shortest form, older versions do not say.
#[test]
fn padded_remaining_length_is_malformed_in_v5() {
    let padded = hex!("c0 80 00");
    let found = frame(&padded, u32::MAX)
        .expect("legal in 3.x")
        .expect("whole");
    assert_eq!((found.header_len, found.total_len), (3, 3));
    assert_eq!(found.check(V31), Ok(()));
    assert_eq!(found.check(V311), Ok(()));
    assert_eq!(
        found.check(V5).map_err(|error| error.kind),
        Err(K::VarIntNotMinimal)
    );
}

/// [MQTT-3.2.2-15] The limit counts the fixed header and strikes before the body arrives.
#[test]
fn packet_over_the_limit_is_refused_by_its_length() {
    check_frame(&hex!("30 08"), 10, Ok(None));
    check_frame(&hex!("30 09"), 10, Err(K::PacketTooLarge));
    check_frame(&hex!("30 ff ff ff 7f"), 10, Err(K::PacketTooLarge));
    let error = frame(&hex!("30 09"), 10).expect_err("too large");
    assert_eq!(error.reason(), R::PacketTooLarge);
}

/// [MQTT-2.1.3-1] Every first byte there is: legal ones ask for more, forbidden ones fail at once.
#[test]
fn forbidden_first_byte_is_refused_at_once() {
    for first in 0..=255u8 {
        let flags = first & 0x0F;
        let expected = match first >> 4 {
            0 => Err(K::TypeReserved),
            3 if flags & 0b0110 == 0b0110 => Err(K::QoSReserved),
            3 if flags & 0b1110 == 0b1000 => Err(K::DupWithoutQoS),
            3 => Ok(None),
            // With DUP, as 3.1 repeats them, and without.
            6 | 8 | 10 if flags == 0b0010 || flags == 0b1010 => Ok(None),
            _ if flags == 0 && ![6, 8, 10].contains(&(first >> 4)) => Ok(None),
            _ => Err(K::FlagsReserved),
        };
        check_frame(&[first], u32::MAX, expected);
    }
    check_frame(&[], u32::MAX, Ok(None));
}

/// [MQTT-2.1.3-1] [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1]
#[test]
fn flags_are_checked_again_with_the_version() {
    check_bad(&[
        bad(
            "3.6.1-1 PUBREL with DUP",
            ONLY_V311,
            Client,
            &hex!("6a 02 0001"),
            K::FlagsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.6.1-1 PUBREL with DUP",
            ONLY_V5,
            Client,
            &hex!("6a 02 0001"),
            K::FlagsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.8.1-1 SUBSCRIBE with DUP",
            ONLY_V311,
            Client,
            &hex!("8a 06 0001 0001 61 00"),
            K::FlagsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.10.1-1 UNSUBSCRIBE with DUP",
            ONLY_V311,
            Client,
            &hex!("aa 05 0001 0001 61"),
            K::FlagsReserved,
            R::MalformedPacket,
        ),
    ]);
    let pubrel = Packet::PubRel(Ack {
        packet_id: id(1),
        reason: R::Success,
        properties: Properties::EMPTY,
    });
    check_decode(
        "3.1 repeats PUBREL with DUP",
        V31,
        Client,
        &hex!("6a 02 0001"),
        &pubrel,
    );
    // `decode` does not rely on `frame` having been called.
    for first in 0..=255u8 {
        if frame(&[first], u32::MAX).is_err() {
            for version in [V31, V311, V5] {
                for from in [Client, Server] {
                    assert!(
                        decode(version, from, first, &[0, 1, 0x61]).is_err(),
                        "{first:02x}"
                    );
                }
            }
        }
    }
}

/// [MQTT5 2.1.2] The direction of each packet type.
#[test]
fn packets_of_the_other_side_are_protocol_errors() {
    check_bad(&[
        bad(
            "CONNACK to a server",
            ALL,
            Client,
            &hex!("20 02 0000"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "SUBACK to a server",
            ALL,
            Client,
            &hex!("90 03 0001 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "UNSUBACK to a server",
            ALL,
            Client,
            &hex!("b0 02 0001"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "PINGRESP to a server",
            ALL,
            Client,
            &hex!("d0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "CONNECT to a client",
            ALL,
            Server,
            &hex!("10 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "SUBSCRIBE to a client",
            ALL,
            Server,
            &hex!("82 06 0001 0001 61 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "UNSUBSCRIBE to a client",
            ALL,
            Server,
            &hex!("a2 05 0001 0001 61"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "PINGREQ to a client",
            ALL,
            Server,
            &hex!("c0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "DISCONNECT to a client of 3.1",
            ONLY_V31,
            Server,
            &hex!("e0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "DISCONNECT to a client of 3.1.1",
            ONLY_V311,
            Server,
            &hex!("e0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "AUTH in 3.1.1",
            ONLY_V311,
            Client,
            &hex!("f0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
        bad(
            "AUTH in 3.1",
            ONLY_V31,
            Server,
            &hex!("f0 00"),
            K::PacketNotExpected,
            R::ProtocolError,
        ),
    ]);
}

/// [MQTT5 3.12] [MQTT5 3.13]
#[test]
fn pings_have_no_body() {
    for &version in ALL {
        check_both("PINGREQ", version, Client, &hex!("c0 00"), &Packet::PingReq);
        check_both(
            "PINGRESP",
            version,
            Server,
            &hex!("d0 00"),
            &Packet::PingResp,
        );
    }
    check_bad(&[
        bad(
            "PINGREQ with a body",
            ALL,
            Client,
            &hex!("c0 01 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "PINGRESP with a body",
            ALL,
            Server,
            &hex!("d0 01 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
    ]);
}
