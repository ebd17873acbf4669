//! MQTT in WebSocket frames, from the client's side.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use stentor_websocket::{
    ClientRequest, Decoder, Event, Opcode, Role, Step, apply_mask, client_request, encode_close,
    encode_pong, frame_header, parse_response,
};

use crate::connack::is_tls_alert;
use crate::error::ClientError;
use crate::transport::Socket;
use crate::url::Url;

const READ_BYTES: usize = 16 * 1_024;

/// A WebSocket that carries a byte stream.
#[derive(Debug)]
pub(crate) struct WebSocket {
    socket: Socket,
    decoder: Decoder,
    /// Payload that was not asked for yet.
    payload: Vec<u8>,
    frame: Vec<u8>,
    random: Random,
    phase: Phase,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// A close frame was sent or received.
    Closed,
}

impl WebSocket {
    /// What carries the frames.
    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Asks the server for an upgrade, offering the subprotocol `mqtt` [MQTT-6.0.0-3].
    pub(crate) fn open(
        mut socket: Socket,
        url: &Url,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let mut random = Random::new();
        let authority = url.authority();
        let request = ClientRequest {
            host: &authority,
            path: &url.path,
            protocols: &["mqtt"],
            nonce: random.nonce(),
        };
        let mut frame = Vec::new();
        client_request(&request, &mut frame)?;
        socket.send_all(&frame)?;
        let mut input = Vec::new();
        let deadline = Instant::now() + timeout;
        let head_bytes = loop {
            if is_tls_alert(&input) {
                return Err(ClientError::SpeaksTls);
            }
            let begins_as_http = input.iter().zip(b"HTTP/").all(|(a, b)| a == b);
            if !begins_as_http {
                return Err(ClientError::SpeaksNoHttp);
            }
            if let Some(accepted) = parse_response(&input, &request)? {
                break accepted.head_bytes;
            }
            match read_more(&mut socket, &mut input, deadline) {
                // The server closed: it does not take the request for MQTT.
                Err(ClientError::Closed | ClientError::Io(_)) if input.is_empty() => {
                    return Err(ClientError::SpeaksNoHttp);
                }
                read => read?,
            }
        };
        let decoder = Decoder::new(Role::Client, u64::from(u32::MAX));
        let mut websocket = Self {
            socket,
            decoder,
            payload: Vec::new(),
            frame,
            random,
            phase: Phase::Open,
        };
        websocket.decode(&mut input[head_bytes..])?;
        Ok(websocket)
    }

    /// As [`Transport::read`](crate::transport::Transport::read).
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, ClientError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        while self.payload.is_empty() && self.phase == Phase::Open {
            let mut input = [0; READ_BYTES];
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            match self.socket.read_within(&mut input, left)? {
                None => return Ok(None),
                Some(0) => return Ok(Some(0)),
                Some(read) => self.decode(&mut input[..read])?,
            }
        }
        let taken = self.payload.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.payload[..taken]);
        self.payload.drain(..taken);
        Ok(Some(taken))
    }

    /// Sends `bytes` in one binary frame.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let mask = self.random.mask();
        self.frame.clear();
        let header = frame_header(bytes.len() as u64, Opcode::Binary, Some(mask));
        self.frame.extend_from_slice(&header);
        let start = self.frame.len();
        self.frame.extend_from_slice(bytes);
        apply_mask(&mut self.frame[start..], mask);
        self.socket.send_all(&self.frame)
    }

    /// Sends a close frame, best effort.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closed;
            self.frame.clear();
            encode_close(None, "", Some(self.random.mask()), &mut self.frame);
            let _ = self.socket.send_all(&self.frame);
        }
        self.socket.close();
    }

    fn decode(&mut self, input: &mut [u8]) -> Result<(), ClientError> {
        let mut at = 0;
        loop {
            let rest = &mut input[at..];
            let Step { consumed, event } = self.decoder.decode(rest)?;
            match event {
                Event::Data(range) => self.payload.extend_from_slice(&input[at..][range]),
                Event::Ping(payload) => {
                    self.frame.clear();
                    encode_pong(payload, Some(self.random.mask()), &mut self.frame);
                    self.socket.send_all(&self.frame)?;
                }
                Event::Pong(_) => {}
                Event::Close(..) => {
                    self.close();
                    return Ok(());
                }
                Event::NeedMore => return Ok(()),
            }
            at += consumed;
        }
    }
}

fn read_more(
    socket: &mut Socket,
    input: &mut Vec<u8>,
    deadline: Instant,
) -> Result<(), ClientError> {
    let mut chunk = [0; 2_048];
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ClientError::Timeout("answer to the WebSocket upgrade"));
    }
    match socket.read_within(&mut chunk, Some(left))? {
        Some(0) => Err(ClientError::Closed),
        Some(read) => {
            input.extend_from_slice(&chunk[..read]);
            Ok(())
        }
        None => Ok(()),
    }
}

/// Numbers that the server cannot foresee, which is all that masks are for [RFC 6455, 10.3]: a
/// counter under the keyed hash that the standard library seeds from the system.
#[derive(Debug)]
struct Random {
    key: RandomState,
    counter: u64,
}

impl Random {
    fn new() -> Self {
        Self {
            key: RandomState::new(),
            counter: 0,
        }
    }

    fn next(&mut self) -> [u8; 8] {
        self.counter += 1;
        self.key.hash_one(self.counter).to_le_bytes()
    }

    fn mask(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.next();
        [a, b, c, d]
    }

    fn nonce(&mut self) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.next());
        nonce[8..].copy_from_slice(&self.next());
        nonce
    }
}
