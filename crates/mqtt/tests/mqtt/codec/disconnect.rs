//! DISCONNECT and AUTH.

use crate::codec::support::{
    Client, ONLY_V5, Server, V3, bad, check_bad, check_both, check_decode, check_encode, parse,
    props,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V311};
use stentor_mqtt::{Disconnect, EncodeError, Packet, Properties, Property, encode};

fn with(reason: R, properties: Properties<'static>) -> Disconnect<'static> {
    Disconnect { reason, properties }
}

#[test]
fn disconnect_of_each_version() {
    let normal = Packet::Disconnect(with(R::Success, Properties::EMPTY));
    for &version in V3 {
        check_both("normal", version, Client, &hex!("e0 00"), &normal);
    }
    for from in [Client, Server] {
        check_both("normal", V5, from, &hex!("e0 00"), &normal);
        check_decode("reason given", V5, from, &hex!("e0 01 00"), &normal);
        check_decode("length given", V5, from, &hex!("e0 02 00 00"), &normal);
    }
    let will = Packet::Disconnect(with(R::DisconnectWithWill, Properties::EMPTY));
    check_both("with will", V5, Client, &hex!("e0 01 04"), &will);
    check_encode("3.1.1 has no reasons", V311, &will, &hex!("e0 00"));
    let expiry = Packet::Disconnect(with(
        R::Success,
        props(&[Property::SessionExpiryInterval(0)]),
    ));
    check_both(
        "session expiry",
        V5,
        Client,
        &hex!("e0 07 00 05 11 00000000"),
        &expiry,
    );
    let moved = Packet::Disconnect(with(
        R::ServerMoved,
        props(&[Property::ServerReference("s")]),
    ));
    check_both(
        "server reference",
        V5,
        Server,
        &hex!("e0 06 9d 04 1c 0001 73"),
        &moved,
    );
}

/// [MQTT-3.14.2-1] Table 3-10: which side may give which reason, for all bytes.
#[test]
fn disconnect_reasons_by_side() {
    const CLIENT: &[u8] = &hex!("00 04 80 81 82 83 90 93 94 95 96 97 98 99");
    const SERVER: &[u8] = &hex!(
        "00 80 81 82 83 87 89 8b 8c 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2"
    );
    for reason in 0..=255u8 {
        let bytes = [0xE0, 1, reason];
        assert_eq!(
            parse(V5, Client, &bytes).is_ok(),
            CLIENT.contains(&reason),
            "{reason:02x}"
        );
        assert_eq!(
            parse(V5, Server, &bytes).is_ok(),
            SERVER.contains(&reason),
            "{reason:02x}"
        );
    }
}

#[test]
fn malformed_disconnects() {
    check_bad(&[
        bad(
            "3.14.1 body in 3.x",
            V3,
            Client,
            &hex!("e0 01 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "3.14.2-1 undefined reason",
            ONLY_V5,
            Client,
            &hex!("e0 01 01"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.14.2-1 undefined reason",
            ONLY_V5,
            Client,
            &hex!("e0 01 ff"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.14.2-1 a server's reason",
            ONLY_V5,
            Client,
            &hex!("e0 01 8b"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.14.2-1 a client's reason",
            ONLY_V5,
            Server,
            &hex!("e0 01 04"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.14.2-2 session expiry",
            ONLY_V5,
            Server,
            &hex!("e0 07 00 05 11 00000000"),
            K::SessionExpiryFromServer,
            R::ProtocolError,
        ),
        bad(
            "3.14.2.2.5 server reference",
            ONLY_V5,
            Client,
            &hex!("e0 06 00 04 1c 0001 73"),
            K::ServerReferenceFromClient,
            R::ProtocolError,
        ),
        bad(
            "2.1.4 behind the properties",
            ONLY_V5,
            Client,
            &hex!("e0 03 00 00 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2.2 property of CONNECT",
            ONLY_V5,
            Client,
            &hex!("e0 05 00 03 21 0001"),
            K::PropertyNotAllowed,
            R::MalformedPacket,
        ),
    ]);
}

#[test]
fn auth_packets() {
    let step = |reason| {
        Packet::Auth(with(
            reason,
            props(&[
                Property::AuthenticationMethod("m"),
                Property::AuthenticationData(&[1, 2]),
            ]),
        ))
    };
    let go_on = hex!("f0 0b 18 09 15 0001 6d 16 0002 0102");
    check_both(
        "continue",
        V5,
        Client,
        &go_on,
        &step(R::ContinueAuthentication),
    );
    check_both(
        "continue",
        V5,
        Server,
        &go_on,
        &step(R::ContinueAuthentication),
    );
    let again = hex!("f0 0b 19 09 15 0001 6d 16 0002 0102");
    check_both(
        "re-authenticate",
        V5,
        Client,
        &again,
        &step(R::ReAuthenticate),
    );
    let done = hex!("f0 0b 00 09 15 0001 6d 16 0002 0102");
    check_both("success", V5, Server, &done, &step(R::Success));
    let short = Packet::Auth(with(R::Success, Properties::EMPTY));
    check_both("short success", V5, Server, &hex!("f0 00"), &short);
    check_bad(&[
        bad(
            "3.15.2-1 success from a client",
            ONLY_V5,
            Client,
            &hex!("f0 00"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.15.2-1 re-authenticate from a server",
            ONLY_V5,
            Server,
            &hex!("f0 06 19 04 15 0001 6d"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "3.15.2-1 undefined reason",
            ONLY_V5,
            Client,
            &hex!("f0 06 17 04 15 0001 6d"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.15.2.2.2 no method",
            ONLY_V5,
            Client,
            &hex!("f0 02 18 00"),
            K::AuthMethodMissing,
            R::ProtocolError,
        ),
        bad(
            "3.15.2.2.2 data without method",
            ONLY_V5,
            Client,
            &hex!("f0 07 18 05 16 0002 0102"),
            K::AuthMethodMissing,
            R::ProtocolError,
        ),
        bad(
            "3.15.2.2.2 method twice",
            ONLY_V5,
            Client,
            &hex!("f0 0a 18 08 15 0001 6d 15 0001 6d"),
            K::PropertyDuplicate,
            R::ProtocolError,
        ),
        bad(
            "3.15.2.2.1 no property length",
            ONLY_V5,
            Client,
            &hex!("f0 01 18"),
            K::Truncated,
            R::MalformedPacket,
        ),
    ]);
    let mut out = Vec::new();
    assert_eq!(
        encode(V311, &short, &mut out),
        Err(EncodeError::NotInVersion)
    );
    assert!(out.is_empty());
}
