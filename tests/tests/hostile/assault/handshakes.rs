//! TLS handshakes: each has the server sign, whatever becomes of it.

use std::io::{Read, Write};
use std::net::TcpStream;

use stentor_tests::DEADLINE;
use stentor_tests::raw::eventually;

use super::MIB;
use crate::bystander::Scene;

const CLIENTS: usize = 400;

/// A ClientHello of TLS 1.3 with a key of X25519, which the server answers with its certificate and
/// a signature.
fn client_hello() -> Vec<u8> {
    let extension = |kind: u16, body: &[u8]| {
        let length = u16::try_from(body.len()).expect("short");
        [&kind.to_be_bytes()[..], &length.to_be_bytes(), body].concat()
    };
    let key_share = [&[0, 36, 0, 29, 0, 32][..], &[9; 32]].concat();
    let extensions = [
        // Groups, signatures, versions, and the key.
        extension(10, &[0, 2, 0, 29]),
        extension(13, &[0, 6, 4, 3, 8, 4, 8, 7]),
        extension(43, &[2, 3, 4]),
        extension(51, &key_share),
    ]
    .concat();
    let length = u16::try_from(extensions.len()).expect("short");
    let hello = [
        &[3, 3][..],
        &[7; 32],
        // No session; one cipher; no compression.
        &[0, 0, 2, 0x13, 0x01, 1, 0],
        &length.to_be_bytes(),
        &extensions,
    ]
    .concat();
    let length = u16::try_from(hello.len()).expect("short");
    let message = [&[1, 0][..], &length.to_be_bytes(), &hello].concat();
    let length = u16::try_from(message.len()).expect("short");
    [&[0x16, 3, 1][..], &length.to_be_bytes(), &message].concat()
}

/// Hundreds of clients say hello at once and go no further.
#[test]
fn handshakes_are_spread_over_turns() {
    let mut scene = Scene::with_tls("");
    scene.endures(64 * MIB, |server| {
        let hello = client_hello();
        let mut clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| TcpStream::connect(server.address("mqtts")).expect("the server answers"))
            .collect();
        for client in &mut clients {
            client.write_all(&hello).expect("the server takes bytes");
        }
        for client in &mut clients {
            client
                .set_read_timeout(Some(DEADLINE))
                .expect("a socket takes time limits");
            let mut first = [0; 6];
            client.read_exact(&mut first).expect("the server answers");
            // A handshake record with a ServerHello.
            assert_eq!((first[0], first[5]), (0x16, 2));
        }
    });
}

/// Thousands of clients say hello and are gone: nobody is answered who cannot hear it, and the
/// server has a place for the next one.
#[test]
fn who_hangs_up_during_a_handshake_holds_no_place() {
    let mut scene = Scene::with_tls("[limits]\nconnections = 100\n");
    scene.endures(64 * MIB, |server| {
        let hello = client_hello();
        let dial = || {
            let mut client = TcpStream::connect(server.address("mqtts")).expect("a listener");
            // The server may have refused it already.
            let _ = client.write_all(&hello);
            client
        };
        for _ in 0..10 * CLIENTS {
            drop(dial());
        }
        let mut first = [0; 6];
        let mut client = dial();
        client
            .set_read_timeout(Some(DEADLINE))
            .expect("a socket takes time limits");
        client.read_exact(&mut first).expect("the server answers");
        assert_eq!((first[0], first[5]), (0x16, 2));
        eventually("free places", || {
            server.json(&["status", "--sample-ms", "0"])["connections"].as_u64() < Some(10)
        });
    });
}
