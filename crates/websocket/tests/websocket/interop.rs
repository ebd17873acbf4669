//! Against an independent implementation, in memory, in both roles.

use std::io::{self, Read, Write};

use crate::support::{Owned, feed};
use stentor_websocket::{
    ClientRequest, CloseCode, Decoder, Kind, Limits, Opcode, Role, apply_mask, client_request,
    encode_close, encode_ping, encode_pong, frame_header, parse_request, parse_response,
    response_accept,
};
use tungstenite::handshake::server::NoCallback;
use tungstenite::protocol::CloseFrame;
use tungstenite::{HandshakeError, Message, WebSocket, client::IntoClientRequest};

/// The other side's end of a connection without a network.
#[derive(Default)]
struct Wire {
    /// From us, not yet read.
    inbox: Vec<u8>,
    /// To us.
    outbox: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.inbox.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Small pieces, so that the other side sees cuts too.
        let taken = buffer.len().min(self.inbox.len()).min(1000);
        buffer[..taken].copy_from_slice(&self.inbox[..taken]);
        self.inbox.drain(..taken);
        Ok(taken)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outbox.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection between the peer and a decoder of ours.
struct Pair {
    peer: WebSocket<Wire>,
    decoder: Decoder,
    /// The masks of our frames, if we are the client.
    mask: Option<[u8; 4]>,
}

impl Pair {
    /// The peer is the client.
    fn serving() -> Self {
        let mut request = "ws://localhost/mqtt"
            .into_client_request()
            .expect("a request");
        let value = "mqtt, mqttv3.1".parse().expect("a header");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", value);
        let Err(HandshakeError::Interrupted(mut handshake)) =
            tungstenite::client(request, Wire::default())
        else {
            panic!("a client waits for the answer");
        };
        let wire = handshake.get_mut().get_mut();
        let sent = std::mem::take(&mut wire.outbox);
        let (request, head_bytes) = parse_request(&sent, Limits::default())
            .expect("valid")
            .expect("complete");
        assert_eq!((request.path, head_bytes), ("/mqtt", sent.len()));
        let Kind::Upgrade { key, protocols } = request.kind else {
            panic!("an upgrade");
        };
        assert_eq!(protocols, ["mqtt", "mqttv3.1"]);
        response_accept(key, Some("mqtt"), &mut wire.inbox);
        let Ok((peer, response)) = handshake.handshake() else {
            panic!("the client accepts our answer");
        };
        assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "mqtt");
        Self {
            peer,
            decoder: Decoder::new(Role::Server, 1 << 20),
            mask: None,
        }
    }

    /// We are the client.
    fn connected() -> Self {
        let request = ClientRequest {
            host: "localhost",
            path: "/",
            protocols: &[],
            nonce: [9; 16],
        };
        let mut wire = Wire::default();
        client_request(&request, &mut wire.inbox).expect("a request");
        let mut peer = match tungstenite::accept_hdr(wire, NoCallback) {
            Ok(peer) => peer,
            Err(error) => panic!("the server accepts our request: {error}"),
        };
        let sent = std::mem::take(&mut peer.get_mut().outbox);
        let accepted = parse_response(&sent, &request)
            .expect("valid")
            .expect("complete");
        assert_eq!(accepted.head_bytes, sent.len());
        Self {
            peer,
            decoder: Decoder::new(Role::Client, 1 << 20),
            mask: Some([1, 2, 3, 4]),
        }
    }

    /// What the peer makes of these bytes.
    fn peer_reads(&mut self, bytes: &[u8]) -> Message {
        self.peer.get_mut().inbox.extend_from_slice(bytes);
        self.peer.read().expect("a message")
    }

    /// What we make of all that the peer wrote, cut into pieces of this size.
    fn we_read(&mut self, piece_bytes: usize) -> Vec<Owned> {
        match self.peer.flush() {
            Ok(()) | Err(tungstenite::Error::ConnectionClosed) => {}
            Err(error) => panic!("memory takes all: {error}"),
        }
        let sent = std::mem::take(&mut self.peer.get_mut().outbox);
        let mut events = Vec::new();
        for piece in sent.chunks(piece_bytes) {
            feed(&mut self.decoder, piece, &mut events).expect("valid frames");
        }
        events
    }

    fn data(&self, payload: &[u8]) -> Vec<u8> {
        let mut frame = frame_header(payload.len() as u64, Opcode::Binary, self.mask).to_vec();
        let start = frame.len();
        frame.extend_from_slice(payload);
        apply_mask(&mut frame[start..], self.mask.unwrap_or_default());
        frame
    }
}

/// Lengths on both sides of each form of a header.
const LENGTHS: [usize; 8] = [0, 1, 125, 126, 1_000, 65_535, 65_536, 200_000];

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn data_in_both_directions_and_roles() {
    for mut pair in [Pair::serving(), Pair::connected()] {
        for len in LENGTHS {
            let frame = pair.data(&payload(len));
            assert_eq!(pair.peer_reads(&frame), Message::binary(payload(len)));
            for piece_bytes in [1, 7, 1 << 20] {
                pair.peer
                    .send(Message::binary(payload(len)))
                    .expect("memory takes all");
                let expected = if len == 0 {
                    vec![]
                } else {
                    vec![Owned::Data(payload(len))]
                };
                assert_eq!(pair.we_read(piece_bytes), expected);
            }
        }
    }
}

#[test]
fn pings_in_both_directions_and_roles() {
    for mut pair in [Pair::serving(), Pair::connected()] {
        for len in [0, 1, 125] {
            let mut ping = Vec::new();
            encode_ping(&payload(len), pair.mask, &mut ping);
            assert_eq!(pair.peer_reads(&ping), Message::Ping(payload(len).into()));
            // The peer's own answer.
            assert_eq!(pair.we_read(1), [Owned::Pong(payload(len))]);
            pair.peer
                .send(Message::Ping(payload(len).into()))
                .expect("memory takes all");
            assert_eq!(pair.we_read(3), [Owned::Ping(payload(len))]);
            let mut pong = Vec::new();
            encode_pong(&payload(len), pair.mask, &mut pong);
            assert_eq!(pair.peer_reads(&pong), Message::Pong(payload(len).into()));
        }
    }
}

#[test]
fn we_close() {
    for mut pair in [Pair::serving(), Pair::connected()] {
        let mut close = Vec::new();
        encode_close(Some(CloseCode::GOING_AWAY), "bye", pair.mask, &mut close);
        let frame = CloseFrame {
            code: 1001.into(),
            reason: "bye".into(),
        };
        assert_eq!(pair.peer_reads(&close), Message::Close(Some(frame)));
        let events = pair.we_read(1);
        assert!(
            matches!(&*events, [Owned::Close(Some(1001), _)]),
            "{events:?}"
        );
    }
}

#[test]
fn the_peer_closes() {
    for mut pair in [Pair::serving(), Pair::connected()] {
        let frame = CloseFrame {
            code: 1000.into(),
            reason: "done".into(),
        };
        pair.peer.close(Some(frame)).expect("memory takes all");
        assert_eq!(
            pair.we_read(1),
            [Owned::Close(Some(1000), "done".to_owned())]
        );
        let mut close = Vec::new();
        encode_close(Some(CloseCode::NORMAL), "", pair.mask, &mut close);
        let message = pair.peer_reads(&close);
        assert!(matches!(message, Message::Close(Some(_))), "{message:?}");
    }
}
