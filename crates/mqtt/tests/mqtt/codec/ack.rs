//! PUBACK, PUBREC, PUBREL and PUBCOMP.

use crate::codec::support::{
    ALL, Client, ONLY_V5, Server, V3, bad, check_bad, check_both, check_decode, check_encode, id,
    props,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V311};
use stentor_mqtt::{Ack, Packet, Properties, Property};

type Variant = fn(Ack<'static>) -> Packet<'static>;

/// First byte, packet, and a failure that it may carry.
const ACKS: [(u8, Variant, R); 4] = [
    (0x40, Packet::PubAck, R::QuotaExceeded),
    (0x50, Packet::PubRec, R::NotAuthorized),
    (0x62, Packet::PubRel, R::PacketIdentifierNotFound),
    (0x70, Packet::PubComp, R::PacketIdentifierNotFound),
];

fn ack(reason: R, properties: Properties<'static>) -> Ack<'static> {
    Ack {
        packet_id: id(0x0102),
        reason,
        properties,
    }
}

/// [MQTT5 3.4.2.1] The short forms, and the long ones that mean the same.
#[test]
fn acks_of_each_version() {
    for (first, variant, failure) in ACKS {
        let success = variant(ack(R::Success, Properties::EMPTY));
        for &version in ALL {
            for from in [Client, Server] {
                check_both("success", version, from, &[first, 2, 1, 2], &success);
            }
        }
        check_decode("reason given", V5, Client, &[first, 3, 1, 2, 0], &success);
        check_decode(
            "length given",
            V5,
            Client,
            &[first, 4, 1, 2, 0, 0],
            &success,
        );
        let failed = variant(ack(failure, Properties::EMPTY));
        check_both(
            "failure",
            V5,
            Client,
            &[first, 3, 1, 2, failure as u8],
            &failed,
        );
        check_decode(
            "failure",
            V5,
            Client,
            &[first, 4, 1, 2, failure as u8, 0],
            &failed,
        );
        check_encode("3.1.1 has no reasons", V311, &failed, &[first, 2, 1, 2]);
        let text = variant(ack(
            failure,
            props(&[
                Property::ReasonString("no"),
                Property::UserProperty(("a", "b")),
            ]),
        ));
        let mut bytes = vec![first, 16, 1, 2, failure as u8, 12];
        bytes.extend_from_slice(&hex!("1f 0002 6e6f 26 0001 61 0001 62"));
        bytes[1] = (bytes.len() - 2) as u8;
        bytes[5] = (bytes.len() - 6) as u8;
        check_both("properties", V5, Server, &bytes, &text);
        let success = variant(ack(R::Success, props(&[Property::ReasonString("")])));
        let mut bytes = vec![first, 7, 1, 2, 0, 3];
        bytes.extend_from_slice(&hex!("1f 0000"));
        check_both("success with properties", V5, Server, &bytes, &success);
    }
}

#[test]
fn malformed_acks() {
    check_bad(&[
        bad(
            "2.1.4 empty",
            ALL,
            Client,
            &hex!("40 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 half an identifier",
            ALL,
            Client,
            &hex!("40 01 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.2.1-3 identifier 0",
            ALL,
            Client,
            &hex!("40 02 0000"),
            K::PacketIdZero,
            R::ProtocolError,
        ),
        bad(
            "2.1.4 too long in 3.x",
            V3,
            Client,
            &hex!("40 03 0001 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 too long in 3.x",
            V3,
            Client,
            &hex!("62 04 0001 00 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "3.4.2-1 undefined reason",
            ONLY_V5,
            Client,
            &hex!("40 03 0001 05"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.4.2-1 reason of PUBREL",
            ONLY_V5,
            Client,
            &hex!("40 03 0001 92"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.5.2-1 reason of SUBACK",
            ONLY_V5,
            Client,
            &hex!("50 03 0001 8f"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.6.2-1 reason of PUBACK",
            ONLY_V5,
            Client,
            &hex!("62 03 0001 10"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.7.2-1 reason of PUBACK",
            ONLY_V5,
            Client,
            &hex!("70 03 0001 80"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "2.1.4 behind the properties",
            ONLY_V5,
            Client,
            &hex!("40 05 0001 00 00 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2.2 property of CONNECT",
            ONLY_V5,
            Client,
            &hex!("40 07 0001 00 03 21 0001"),
            K::PropertyNotAllowed,
            R::MalformedPacket,
        ),
        bad(
            "3.4.2.2.2 reason string twice",
            ONLY_V5,
            Client,
            &hex!("40 0a 0001 00 06 1f 0000 1f 0000"),
            K::PropertyDuplicate,
            R::ProtocolError,
        ),
    ]);
}
