//! Packets that no client may send.

use stentor_tests::raw::{VERSIONS, connect, packet, string};
use stentor_tests::{Server, Version};

use crate::Healthy;

const MALFORMED: u8 = 0x81;
const PROTOCOL_ERROR: u8 = 0x82;
const TOO_LARGE: u8 = 0x95;

/// A packet that comes after the login ends that connection; MQTT 5 says why.
#[track_caller]
fn check(server: &Server, version: Version, what: &str, bytes: &[u8], codes: &[u8]) {
    let mut client = server.client(version, "hostile");
    client.send(bytes);
    match (version, client.try_receive()) {
        (Version::V4, None) => {}
        (Version::V5, Some(packet)) if packet.kind() == 14 => {
            assert!(codes.contains(&packet.body[0]), "{what}: {packet:?}");
        }
        (_, other) => panic!("{what} in {version:?}: {other:?}"),
    }
    client.closed();
}

fn with_version(version: Version, before: &[u8], after: &[u8]) -> Vec<u8> {
    let mut body = before.to_vec();
    if version == Version::V5 {
        body.push(0);
    }
    body.extend_from_slice(after);
    body
}

/// Each of these packets, by its first byte and its body, closes its connection and no other.
fn close_one_each(packets: &[(u8, &[u8])]) {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    for version in VERSIONS {
        for (first, body) in packets {
            let what = format!("first byte {first:#04x}, {} bytes of body", body.len());
            let bytes = packet(*first, body);
            check(
                &server,
                version,
                &what,
                &bytes,
                &[MALFORMED, PROTOCOL_ERROR],
            );
            healthy.check();
        }
    }
}

/// [MQTT-2.1.3-1] and others: fixed headers that no packet has.
#[test]
fn wrong_flags_of_each_type() {
    let packets: Vec<(u8, &[u8])> = (0..16_u8)
        .map(|kind| {
            // A PUBLISH has free flags, and 0x36 has both bits of the QoS set.
            let first = if kind == 3 { 0x36 } else { kind << 4 | 0x0F };
            (first, &[0, 1, b'a', 0, 1, 0][..])
        })
        .collect();
    close_one_each(&packets);
}

#[test]
fn packets_that_only_servers_send() {
    close_one_each(&[0x20, 0x90, 0xB0, 0xD0].map(|first| (first, &[0, 0, 0][..])));
}

#[test]
fn truncated_bodies_of_each_type() {
    let firsts = [0x10, 0x30, 0x32, 0x40, 0x50, 0x62, 0x82, 0xA2];
    close_one_each(&firsts.map(|first| (first, &[0][..])));
}

#[test]
fn packets_that_break_their_own_rules() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    for version in VERSIONS {
        let filter = |text: &str, options: u8| [string(text), vec![options]].concat();
        let errors = [MALFORMED, PROTOCOL_ERROR];
        let invalid_topic = [MALFORMED, PROTOCOL_ERROR, 0x90];
        let invalid_filter = [MALFORMED, PROTOCOL_ERROR, 0x8F];
        let table: Vec<(&str, Vec<u8>, &[u8])> = vec![
            (
                "a second CONNECT",
                connect(version, "hostile", true),
                &errors,
            ),
            (
                "a fifth length byte",
                vec![0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
                &errors,
            ),
            (
                "packet id 0",
                packet(0x32, &with_version(version, &[0, 1, b'a', 0, 0], b"x")),
                &errors,
            ),
            (
                "a wildcard in a topic",
                { packet(0x30, &with_version(version, &string("a/#"), b"x")) },
                &invalid_topic,
            ),
            (
                "an empty topic",
                packet(0x30, &with_version(version, &[0, 0], b"x")),
                &invalid_topic,
            ),
            (
                "a topic that is no UTF-8",
                { packet(0x30, &with_version(version, &[0, 2, 0xC3, 0x28], b"x")) },
                &invalid_topic,
            ),
            (
                "a null in a topic",
                { packet(0x30, &with_version(version, &string("a\0b"), b"x")) },
                &invalid_topic,
            ),
            (
                "a SUBSCRIBE of nothing",
                packet(0x82, &with_version(version, &[0, 1], &[])),
                &errors,
            ),
            (
                "a SUBSCRIBE with QoS 3",
                { packet(0x82, &with_version(version, &[0, 1], &filter("a", 3))) },
                &errors,
            ),
            (
                "a SUBSCRIBE with reserved bits",
                { packet(0x82, &with_version(version, &[0, 1], &filter("a", 0xC0))) },
                &errors,
            ),
            (
                "an UNSUBSCRIBE of nothing",
                packet(0xA2, &with_version(version, &[0, 1], &[])),
                &errors,
            ),
        ];
        for (what, bytes, codes) in table {
            check(&server, version, what, &bytes, codes);
            healthy.check();
        }
        let _ = invalid_filter;
    }
}

#[test]
fn a_packet_beyond_the_limit_is_refused_before_it_is_read() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    for version in VERSIONS {
        // 256 MB announced, nothing sent: the server must not wait for them.
        check(
            &server,
            version,
            "a huge packet",
            &[0x30, 0xFF, 0xFF, 0xFF, 0x7F],
            &[TOO_LARGE],
        );
        healthy.check();
    }
    let mut unknown = server.dial();
    unknown.send(&[0x10, 0xFF, 0xFF, 0xFF, 0x7F]);
    unknown.closed();
    healthy.check();
}

#[test]
fn first_packets_that_are_no_login() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut wrong_name = connect(Version::V4, "c", true);
    wrong_name[4] = b'X';
    let mut reserved = connect(Version::V4, "c", true);
    reserved[9] |= 1;
    let table: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &[0xC0, 0],
        &[0x30, 3, 0, 1, b'a'],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0],
        &[0; 64],
        &[0xFF; 64],
        &wrong_name,
        &reserved,
    ];
    for bytes in table {
        let mut client = server.dial();
        client.send(bytes);
        client.closed();
        healthy.check();
    }
}

/// [MQTT-3.1.2-2] A version that the server does not speak is answered before the end.
#[test]
fn an_unknown_version_is_answered() {
    let server = Server::open();
    for (level, code) in [(9, 0x84_u8), (6, 0x84)] {
        let mut bytes = connect(Version::V5, "c", true);
        bytes[8] = level;
        let mut client = server.dial();
        client.send(&bytes);
        let answer = client.expect(2);
        assert!([code, 1].contains(&answer.body[1]), "{answer:?}");
        client.closed();
    }
}

/// [MQTT-3.1.3-8] An empty client id without a clean session.
#[test]
fn an_empty_client_id_needs_a_clean_session() {
    let server = Server::open();
    let mut client = server.dial();
    client.send(&connect(Version::V4, "", false));
    assert_eq!(client.expect(2).body, [0, 2]);
    client.closed();
}

/// Bytes by a fixed recipe, so that a failure happens again.
#[test]
fn noise_after_the_login() {
    let server = Server::open();
    let mut healthy = Healthy::new(&server);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..300 {
        let mut client = server.client(VERSIONS[round % 2], "noise");
        let noise: Vec<u8> = (0..200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()[0]
            })
            .collect();
        // The server may close while it is sent.
        let _ = client.try_send(&noise);
        drop(client);
        if round % 10 == 0 {
            healthy.check();
        }
    }
    assert_eq!(server.json(&["status"])["bugs"], 0);
}
