//! CONNECT and CONNACK.

use crate::codec::support::{
    ALL, Client, ONLY_V5, ONLY_V31, ONLY_V311, Server, V3, bad, check_bad, check_both,
    check_decode, check_encode, props,
};
use hex_literal::hex;
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::ReasonCode as R;
use stentor_mqtt::Version::{V5, V31, V311};
use stentor_mqtt::{
    ConnAck, Connect, Packet, Properties, Property, QoS, Version, Will, connect_version,
};

fn connect(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        bridge: false,
        clean_start: true,
        keep_alive_secs: 60,
        client_id,
        will: None,
        username: None,
        password: None,
        properties: Properties::EMPTY,
    }
}

/// [MQTT-3.1.2-1] Names and levels of the three versions.
#[test]
fn connect_of_each_version() {
    let v31 = hex!("10 0f 0006 4d5149736470 03 02 003c 0001 61");
    check_both(
        "3.1",
        V31,
        Client,
        &v31,
        &Packet::Connect(connect(V31, "a")),
    );
    let v311 = hex!("10 0d 0004 4d515454 04 02 003c 0001 61");
    check_both(
        "3.1.1",
        V311,
        Client,
        &v311,
        &Packet::Connect(connect(V311, "a")),
    );
    let v5 = hex!("10 0e 0004 4d515454 05 02 003c 00 0001 61");
    check_both("5.0", V5, Client, &v5, &Packet::Connect(connect(V5, "a")));
    // The version that the caller names does not matter.
    check_decode(
        "5.0 as first packet",
        V311,
        Client,
        &v5,
        &Packet::Connect(connect(V5, "a")),
    );
    assert_eq!(connect_version(&v31[2..]), Some(V31));
    assert_eq!(connect_version(&v311[2..]), Some(V311));
    assert_eq!(connect_version(&v5[2..]), Some(V5));
    assert_eq!(connect_version(&hex!("0004 4d515454 06")), None);
    assert_eq!(connect_version(&[]), None);
}

/// Mosquitto's bridge bit on the levels of 3.1 and 3.1.1.
#[test]
fn connect_of_a_bridge() {
    let v31 = hex!("10 0f 0006 4d5149736470 83 02 003c 0001 61");
    let packet = Packet::Connect(Connect {
        bridge: true,
        ..connect(V31, "a")
    });
    check_both("bridge 3.1", V31, Client, &v31, &packet);
    let v311 = hex!("10 0d 0004 4d515454 84 02 003c 0001 61");
    let packet = Packet::Connect(Connect {
        bridge: true,
        ..connect(V311, "a")
    });
    check_both("bridge 3.1.1", V311, Client, &v311, &packet);
}

/// [MQTT-3.1.3-1] Everything that a CONNECT can hold, in its order.
#[test]
fn connect_with_everything() {
    let v311 = hex!(
        "10 23 0004 4d515454 04 ee 000a 0003 636964 0001 77 0003 010203 0004 75736572 0004 70617373"
    );
    let packet = Connect {
        keep_alive_secs: 10,
        will: Some(Will {
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "w",
            payload: &[1, 2, 3],
            properties: Properties::EMPTY,
        }),
        username: Some("user"),
        password: Some(b"pass"),
        ..connect(V311, "cid")
    };
    check_both(
        "3.1.1",
        V311,
        Client,
        &v311,
        &Packet::Connect(packet.clone()),
    );

    let v5 = hex!(
        "10 3c 0004 4d515454 05 f4 000a 0b 11 00000e10 21 0014 22 000a 0003 636964"
        "0c 18 00000005 01 01 02 0000003c 0001 77 0003 010203 0004 75736572 0004 70617373"
    );
    let packet = Connect {
        version: V5,
        clean_start: false,
        properties: props(&[
            Property::SessionExpiryInterval(3600),
            Property::ReceiveMaximum(20),
            Property::TopicAliasMaximum(10),
        ]),
        will: Some(Will {
            qos: QoS::ExactlyOnce,
            properties: props(&[
                Property::WillDelayInterval(5),
                Property::PayloadFormatIndicator(true),
                Property::MessageExpiryInterval(60),
            ]),
            ..packet.will.clone().expect("set above")
        }),
        ..packet
    };
    check_both("5.0", V5, Client, &v5, &Packet::Connect(packet));
}

/// [MQTT-3.1.3-6] [MQTT311-3.1.3-7] [MQTT311-3.1.3-8] Who may leave the client identifier empty.
#[test]
fn empty_client_id() {
    let clean = hex!("10 0c 0004 4d515454 04 02 003c 0000");
    check_both(
        "3.1.1 clean",
        V311,
        Client,
        &clean,
        &Packet::Connect(connect(V311, "")),
    );
    let v5 = hex!("10 0d 0004 4d515454 05 00 003c 00 0000");
    let packet = Connect {
        clean_start: false,
        ..connect(V5, "")
    };
    check_both("5.0 not clean", V5, Client, &v5, &Packet::Connect(packet));
    check_bad(&[
        bad(
            "3.1.3-8 empty id without clean session",
            ONLY_V311,
            Client,
            &hex!("10 0c 0004 4d515454 04 00 003c 0000"),
            K::ClientIdEmpty,
            R::ClientIdentifierNotValid,
        ),
        bad(
            "3.1 empty id",
            ONLY_V31,
            Client,
            &hex!("10 0e 0006 4d5149736470 03 02 003c 0000"),
            K::ClientIdEmpty,
            R::ClientIdentifierNotValid,
        ),
    ]);
}

/// [MQTT-3.1.2-18] 5.0 allows a password alone (a token), 3.1.1 does not [MQTT311-3.1.2-22].
#[test]
fn password_without_user_name() {
    let v5 = hex!("10 11 0004 4d515454 05 42 003c 00 0001 61 0001 70");
    let packet = Connect {
        password: Some(b"p"),
        ..connect(V5, "a")
    };
    check_both("5.0", V5, Client, &v5, &Packet::Connect(packet));
    check_bad(&[
        bad(
            "3.1.2-22",
            ONLY_V311,
            Client,
            &hex!("10 10 0004 4d515454 04 42 003c 0001 61 0001 70"),
            K::PasswordWithoutUserName,
            R::MalformedPacket,
        ),
        bad(
            "3.1",
            ONLY_V31,
            Client,
            &hex!("10 12 0006 4d5149736470 03 42 003c 0001 61 0001 70"),
            K::PasswordWithoutUserName,
            R::MalformedPacket,
        ),
    ]);
}

/// What 3.1 leaves open: bit 0 of the flags, and flags for fields that are not there.
#[test]
fn leniency_of_3_1() {
    let reserved = hex!("10 0f 0006 4d5149736470 03 03 003c 0001 61");
    check_decode(
        "reserved flag",
        V31,
        Client,
        &reserved,
        &Packet::Connect(connect(V31, "a")),
    );
    let missing = hex!("10 0f 0006 4d5149736470 03 c2 003c 0001 61");
    check_decode(
        "announced only",
        V31,
        Client,
        &missing,
        &Packet::Connect(connect(V31, "a")),
    );
}

#[test]
fn malformed_connects() {
    check_bad(&[
        bad(
            "3.1.2-1 protocol name",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515455 04 02 003c 0001 61"),
            K::ProtocolName,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-1 protocol name in lower case",
            ALL,
            Client,
            &hex!("10 0d 0004 6d717474 04 02 003c 0001 61"),
            K::ProtocolName,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-2 level 6",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 06 02 003c 0001 61"),
            K::ProtocolLevel,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-2 level 0",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 00 02 003c 0001 61"),
            K::ProtocolLevel,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-2 MQTT with level 3",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 03 02 003c 0001 61"),
            K::ProtocolLevel,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-2 MQIsdp with level 4",
            ALL,
            Client,
            &hex!("10 0f 0006 4d5149736470 04 02 003c 0001 61"),
            K::ProtocolLevel,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-2 no bridge bit in 5.0",
            ALL,
            Client,
            &hex!("10 0e 0004 4d515454 85 02 003c 00 0001 61"),
            K::ProtocolLevel,
            R::UnsupportedProtocolVersion,
        ),
        bad(
            "3.1.2-3 reserved flag",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 03 003c 0001 61"),
            K::ConnectFlagReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-3 reserved flag",
            ALL,
            Client,
            &hex!("10 0e 0004 4d515454 05 03 003c 00 0001 61"),
            K::ConnectFlagReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-11 will QoS without will",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 0a 003c 0001 61"),
            K::WillQoSWithoutWill,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-12 will QoS 3",
            ALL,
            Client,
            &hex!("10 13 0004 4d515454 04 1e 003c 0001 61 0001 77 0001 70"),
            K::WillQoSReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-13 will retain without will",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 22 003c 0001 61"),
            K::WillRetainWithoutWill,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-9 will without its fields",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 06 003c 0001 61"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-9 will without payload",
            ALL,
            Client,
            &hex!("10 10 0004 4d515454 04 06 003c 0001 61 0001 77"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-17 user name announced only",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 82 003c 0001 61"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-19 password announced only",
            ALL,
            Client,
            &hex!("10 10 0004 4d515454 04 c2 003c 0001 61 0001 75"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2-16 user name not announced",
            ALL,
            Client,
            &hex!("10 10 0004 4d515454 04 02 003c 0001 61 0001 75"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "3.1.3-4 client id not UTF-8",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 02 003c 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "1.5.4-1 client id with a surrogate",
            ALL,
            Client,
            &hex!("10 0f 0004 4d515454 04 02 003c 0003 eda080"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "1.5.4-2 client id with NUL",
            ALL,
            Client,
            &hex!("10 0d 0004 4d515454 04 02 003c 0001 00"),
            K::Nul,
            R::MalformedPacket,
        ),
        bad(
            "3.1.3-11 will topic not UTF-8",
            ALL,
            Client,
            &hex!("10 13 0004 4d515454 04 06 003c 0001 61 0001 ff 0001 70"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "4.7.0-1 will topic with a wildcard",
            ALL,
            Client,
            &hex!("10 13 0004 4d515454 04 06 003c 0001 61 0001 23 0001 70"),
            K::TopicWildcard,
            R::TopicNameInvalid,
        ),
        bad(
            "4.7.3-1 empty will topic",
            ALL,
            Client,
            &hex!("10 12 0004 4d515454 04 06 003c 0001 61 0000 0001 70"),
            K::TopicEmpty,
            R::ProtocolError,
        ),
        bad(
            "3.1.3-12 user name not UTF-8",
            ALL,
            Client,
            &hex!("10 10 0004 4d515454 04 82 003c 0001 61 0001 ff"),
            K::Utf8,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 empty",
            ALL,
            Client,
            &hex!("10 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 ends in the keep alive",
            ALL,
            Client,
            &hex!("10 09 0004 4d515454 04 02 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "5.0 without property length",
            ALL,
            Client,
            &hex!("10 0a 0004 4d515454 05 02 003c"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "3.1.2.11.10 data without method",
            ALL,
            Client,
            &hex!("10 12 0004 4d515454 05 02 003c 04 16 0001 78 0001 61"),
            K::AuthMethodMissing,
            R::ProtocolError,
        ),
    ]);
}

#[test]
fn connack_of_each_version() {
    let accepted = Packet::ConnAck(ConnAck {
        session_present: false,
        reason: R::Success,
        properties: Properties::EMPTY,
    });
    for &version in V3 {
        check_both("accepted", version, Server, &hex!("20 02 00 00"), &accepted);
    }
    check_both("accepted", V5, Server, &hex!("20 03 00 00 00"), &accepted);
    let present = Packet::ConnAck(ConnAck {
        session_present: true,
        reason: R::Success,
        properties: Properties::EMPTY,
    });
    check_both(
        "session present",
        V311,
        Server,
        &hex!("20 02 01 00"),
        &present,
    );
    check_both(
        "session present",
        V5,
        Server,
        &hex!("20 03 01 00 00"),
        &present,
    );
    check_encode(
        "3.1 has no session present",
        V31,
        &present,
        &hex!("20 02 00 00"),
    );
    check_decode(
        "3.1 has no session present",
        V31,
        Server,
        &hex!("20 02 ff 00"),
        &accepted,
    );

    let rich = Packet::ConnAck(ConnAck {
        session_present: false,
        reason: R::Success,
        properties: props(&[
            Property::AssignedClientIdentifier("x"),
            Property::ServerKeepAlive(30),
            Property::MaximumQoS(QoS::AtLeastOnce),
            Property::RetainAvailable(false),
        ]),
    });
    check_both(
        "properties",
        V5,
        Server,
        &hex!("20 0e 00 00 0b 12 0001 78 13 001e 24 01 25 00"),
        &rich,
    );
    check_encode("properties are left out", V311, &rich, &hex!("20 02 00 00"));
}

/// [MQTT311-3.2.2-4] [MQTT-3.2.2-6] Return codes of 3.x, both ways, and refusals claim no session.
#[test]
fn connack_refusals() {
    for (code, reason) in [
        (1, R::UnsupportedProtocolVersion),
        (2, R::ClientIdentifierNotValid),
        (3, R::ServerUnavailable),
        (4, R::BadUserNameOrPassword),
        (5, R::NotAuthorized),
    ] {
        let packet = Packet::ConnAck(ConnAck {
            session_present: false,
            reason,
            properties: Properties::EMPTY,
        });
        for &version in V3 {
            check_both("return code", version, Server, &[0x20, 2, 0, code], &packet);
        }
        check_both(
            "reason code",
            V5,
            Server,
            &[0x20, 3, 0, reason as u8, 0],
            &packet,
        );
        let claims = Packet::ConnAck(ConnAck {
            session_present: true,
            reason,
            properties: Properties::EMPTY,
        });
        check_encode("3.2.2-6", V5, &claims, &[0x20, 3, 0, reason as u8, 0]);
        check_encode("3.2.2-4", V311, &claims, &[0x20, 2, 0, code]);
    }
    for (reason, code) in [
        (R::Banned, 5),
        (R::BadAuthenticationMethod, 5),
        (R::ServerBusy, 3),
        (R::QuotaExceeded, 3),
        (R::ConnectionRateExceeded, 3),
    ] {
        let packet = Packet::ConnAck(ConnAck {
            session_present: false,
            reason,
            properties: Properties::EMPTY,
        });
        check_encode("nearest return code", V311, &packet, &[0x20, 2, 0, code]);
    }
}

#[test]
fn malformed_connacks() {
    check_bad(&[
        bad(
            "3.2.2-1 reserved flags",
            ONLY_V311,
            Server,
            &hex!("20 02 02 00"),
            K::ConnAckFlagsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.2.2-1 reserved flags",
            ONLY_V5,
            Server,
            &hex!("20 03 80 00 00"),
            K::ConnAckFlagsReserved,
            R::MalformedPacket,
        ),
        bad(
            "3.2.2-6 session present in a refusal",
            ONLY_V5,
            Server,
            &hex!("20 03 01 87 00"),
            K::SessionPresentWithError,
            R::ProtocolError,
        ),
        bad(
            "3.2.2-4 session present in a refusal",
            ONLY_V311,
            Server,
            &hex!("20 02 01 05"),
            K::SessionPresentWithError,
            R::ProtocolError,
        ),
        bad(
            "3.2.2.3 return code 6",
            V3,
            Server,
            &hex!("20 02 00 06"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.2.2-7 undefined reason",
            ONLY_V5,
            Server,
            &hex!("20 03 00 03 00"),
            K::ReasonUnknown,
            R::MalformedPacket,
        ),
        bad(
            "3.2.2-7 reason of other packets",
            ONLY_V5,
            Server,
            &hex!("20 03 00 8e 00"),
            K::ReasonNotAllowed,
            R::ProtocolError,
        ),
        bad(
            "2.1.4 too long",
            V3,
            Server,
            &hex!("20 03 00 00 00"),
            K::TrailingBytes,
            R::MalformedPacket,
        ),
        bad(
            "2.1.4 too short",
            ALL,
            Server,
            &hex!("20 01 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
        bad(
            "2.2.2-1 no property length",
            ONLY_V5,
            Server,
            &hex!("20 02 00 00"),
            K::Truncated,
            R::MalformedPacket,
        ),
    ]);
}
