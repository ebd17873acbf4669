//! The first packet of a connection.

use stentor_mqtt::{Packet, ReasonCode, Sender, Version, decode, frame};
use stentor_session::{CloseReason, Limit, Remote, Violation, auth, read_auth, read_connect};

const CONNECT: [u8; 15] = [
    0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 1, b'c',
];

/// [MQTT-3.1.0-1]
#[test]
fn the_first_packet_is_connect() {
    for first in [0x00, 0x20, 0x30, 0x82, 0xC0, 0xE0, 0xF0] {
        assert_eq!(
            read_connect(&[first], 100).unwrap_err(),
            CloseReason::Violation(Violation::ExpectedConnect)
        );
    }
}

#[test]
fn a_connect_may_come_in_pieces_and_leaves_what_follows() {
    for end in 0..CONNECT.len() {
        assert!(read_connect(&CONNECT[..end], 100).unwrap().is_none());
    }
    let mut bytes = CONNECT.to_vec();
    bytes.extend([0xC0, 0]);
    let (request, consumed) = read_connect(&bytes, 100).unwrap().unwrap();
    assert_eq!(consumed, CONNECT.len());
    assert_eq!((&*request.client_id, request.keep_alive_secs), ("c", 60));
    assert!(request.clean_start);
}

/// [MQTT-3.1.4-1]
#[test]
fn a_connect_that_is_none_closes() {
    assert_eq!(
        read_connect(&CONNECT, 10).unwrap_err(),
        CloseReason::Limit(Limit::PacketBytes)
    );
    let mut bytes = CONNECT;
    bytes[9] |= 1;
    assert!(matches!(
        read_connect(&bytes, 100).unwrap_err(),
        CloseReason::Malformed(_)
    ));
}

/// An AUTH packet of a client: its reason, a method, and the data `ab`.
fn auth_packet(reason: u8, method: &str) -> Vec<u8> {
    let len = u8::try_from(method.len()).unwrap();
    let mut bytes = vec![0xF0, 10 + len, reason, 8 + len, 0x15, 0, len];
    bytes.extend(method.bytes());
    bytes.extend([0x16, 0, 2, b'a', b'b']);
    bytes
}

#[test]
fn an_answer_may_come_in_pieces_and_leaves_what_follows() {
    let mut bytes = auth_packet(0x18, "M");
    let len = bytes.len();
    for end in 0..len {
        assert!(read_auth(&bytes[..end], 100, "M").unwrap().is_none());
    }
    bytes.extend([0xC0, 0]);
    let (answer, consumed) = read_auth(&bytes, 100, "M").unwrap().unwrap();
    assert_eq!((answer.data.as_slice(), consumed), (&b"ab"[..], len));
    let too_large = CloseReason::Limit(Limit::PacketBytes);
    assert_eq!(read_auth(&bytes, 10, "M").unwrap_err(), too_large);
}

/// [MQTT-3.1.2-30] Before CONNACK a client of an authentication method sends AUTH and DISCONNECT,
/// and AUTH goes on [MQTT-4.12.0-3] with the method that it began with [MQTT-4.12.0-5].
#[test]
fn before_connack_only_auth_and_disconnect_are_taken() {
    const CONNECT: &[u8] = &[
        0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 0, 0, 0, 1, b'c',
    ];
    let unexpected = CloseReason::Violation(Violation::UnexpectedAuth);
    for packet in [
        CONNECT,
        &[0x30, 5, 0, 1, b't', 0, b'x'],
        &[0x40, 2, 0, 1],
        &[0x50, 2, 0, 1],
        &[0x62, 2, 0, 1],
        &[0x70, 2, 0, 1],
        &[0x82, 7, 0, 1, 0, 0, 1, b't', 0],
        &[0xA2, 6, 0, 1, 0, 0, 1, b't'],
        &[0xC0, 0],
        &auth_packet(0x19, "M"),
        &auth_packet(0x18, "N"),
        &[0xF0, 0],
    ] {
        let refused = read_auth(packet, 100, "M").unwrap_err();
        let is_refused = refused == unexpected || matches!(refused, CloseReason::Malformed(_));
        assert!(is_refused, "{packet:02x?}: {refused:?}");
    }
    let goodbye = CloseReason::Remote(Remote::Disconnect);
    assert_eq!(read_auth(&[0xE0, 0], 100, "M").unwrap_err(), goodbye);
}

/// [MQTT-3.15.2-2] [MQTT-3.15.2-3] What asks for more has the method and the data, and nothing
/// that would make it larger.
#[test]
fn auth_has_neither_a_reason_string_nor_user_properties() {
    for data in [None, Some(&b"more"[..])] {
        let bytes = auth(ReasonCode::ContinueAuthentication, "M", data);
        let frame = frame(&bytes, u32::MAX).unwrap().unwrap();
        let body = &bytes[frame.header_len..];
        let Packet::Auth(auth) = decode(Version::V5, Sender::Server, bytes[0], body).unwrap()
        else {
            panic!("an AUTH");
        };
        assert_eq!(auth.reason, ReasonCode::ContinueAuthentication);
        assert_eq!(auth.properties.auth_method(), Some("M"));
        assert_eq!(auth.properties.auth_data(), data);
        assert_eq!(auth.properties.iter().count(), 1 + data.iter().count());
    }
    let too_much = vec![0; 1 << 17];
    assert!(auth(ReasonCode::Success, "M", Some(&too_much)).is_empty());
}
