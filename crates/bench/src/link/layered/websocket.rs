//! The client's side of a WebSocket: the upgrade, then binary frames [MQTT-6.0.0-3].

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;

use stentor_client::Url;
use stentor_websocket::{
    ClientRequest, Decoder, Event, Opcode, Role, Step, apply_mask, client_request, encode_pong,
    frame_header, parse_response,
};

/// What an upgrade asks for.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    authority: String,
    path: String,
}

impl Place {
    /// Host, port and path of an address.
    pub(crate) fn of(url: &Url) -> Self {
        Self {
            authority: url.authority(),
            path: url.path.clone(),
        }
    }
}

/// How far it has come.
#[derive(Debug)]
enum Phase {
    /// The upgrade was asked for; the head of the answer so far.
    Upgrading {
        place: Place,
        nonce: [u8; 16],
        head: Vec<u8>,
    },
    Open(Box<Decoder>),
    /// The server has sent a close frame.
    Closed,
}

/// One WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    phase: Phase,
    /// Masks are to be unforeseeable; each frame has its own.
    key: RandomState,
    frames: u64,
}

impl WebSocket {
    /// Appends the request for an upgrade.
    ///
    /// # Errors
    /// When the address has no place in a request.
    pub(super) fn begin(place: &Place, out: &mut Vec<u8>) -> io::Result<Self> {
        let key = RandomState::new();
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&key.hash_one("nonce").to_le_bytes());
        nonce[8..].copy_from_slice(&key.hash_one("second half").to_le_bytes());
        client_request(&request(place, nonce), out).map_err(io::Error::other)?;
        let phase = Phase::Upgrading {
            place: place.clone(),
            nonce,
            head: Vec::new(),
        };
        Ok(Self {
            phase,
            key,
            frames: 0,
        })
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// Appends one binary frame.
    pub(super) fn frame(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mask = self.mask();
        let header = frame_header(payload.len() as u64, Opcode::Binary, Some(mask));
        out.extend_from_slice(&header);
        let start = out.len();
        out.extend_from_slice(payload);
        apply_mask(&mut out[start..], mask);
    }

    fn mask(&mut self) -> [u8; 4] {
        self.frames += 1;
        let [a, b, c, d, ..] = self.key.hash_one(self.frames).to_le_bytes();
        [a, b, c, d]
    }

    /// Takes what has arrived: payload goes to `inbox`, answers to `out`. `false` once the server
    /// has closed.
    ///
    /// # Errors
    /// When the server refuses the upgrade or breaks the protocol.
    pub(super) fn take(
        &mut self,
        input: &mut [u8],
        inbox: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let Phase::Upgrading { place, nonce, head } = &mut self.phase else {
            return self.decode(input, inbox, out);
        };
        head.extend_from_slice(input);
        let answer = parse_response(head, &request(place, *nonce)).map_err(io::Error::other)?;
        let Some(accepted) = answer else {
            return Ok(true);
        };
        let mut rest = head.split_off(accepted.head_bytes);
        let decoder = Decoder::new(Role::Client, u64::from(u32::MAX));
        self.phase = Phase::Open(Box::new(decoder));
        self.decode(&mut rest, inbox, out)
    }

    fn decode(
        &mut self,
        input: &mut [u8],
        inbox: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let mut at = 0;
        loop {
            let mask = self.mask();
            let Phase::Open(decoder) = &mut self.phase else {
                return Ok(false);
            };
            let rest = &mut input[at..];
            let Step { consumed, event } = decoder.decode(rest).map_err(io::Error::other)?;
            match event {
                Event::Data(range) => inbox.extend_from_slice(&input[at..][range]),
                Event::Ping(payload) => encode_pong(payload, Some(mask), out),
                Event::Pong(_) => {}
                Event::Close(..) => {
                    self.phase = Phase::Closed;
                    return Ok(false);
                }
                Event::NeedMore => return Ok(true),
            }
            at += consumed;
        }
    }
}

fn request(place: &Place, nonce: [u8; 16]) -> ClientRequest<'_> {
    ClientRequest {
        host: &place.authority,
        path: &place.path,
        protocols: &["mqtt"],
        nonce,
    }
}
