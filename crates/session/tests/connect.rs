//! The first packet of a connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use stentor_session::{CloseReason, Limit, Violation, read_connect};

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
