//! WebSocket, RFC 6455, without I/O: the HTTP upgrade and the frames, for servers and clients of
//! MQTT.
//!
//! - [`parse_request`] reads the head of a request; [`response_accept`] and [`response_refuse`]
//!   write the answer. What is accepted is the server's decision, for which there are
//!   [`origin_allowed`] and [`choose_subprotocol`].
//! - [`Decoder`] takes the bytes that arrive after the upgrade, unmasks them where they lie and
//!   says which of them are payload.
//! - [`frame_header`], [`encode_close`], [`encode_ping`] and [`encode_pong`] write frames.
//! - [`client_request`] and [`parse_response`] are the upgrade from the client's side.
//!
//! MQTT is a stream of bytes in binary frames: packets and frames end where they like
//! [MQTT-6.0.0-2]. So messages are never put together, and fragmentation is checked and forgotten.
//! No extension is negotiated.
//!
//! Randomness is the caller's: a client hands in the key of its handshake and a mask per frame.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod client;
mod close;
mod decoder;
mod encoder;
mod header;
mod mask;
mod origin;
mod request;
mod response;

pub use client::{Accepted, ClientRequest, HandshakeError, client_request, parse_response};
pub use close::CloseCode;
pub use decoder::{Decoder, Event, FrameError, Role, Step};
pub use encoder::{FrameHeader, encode_close, encode_ping, encode_pong, frame_header};
pub use header::{CONTROL_BYTES_MAX, HEADER_BYTES_MAX, Opcode};
pub use mask::apply_mask;
pub use origin::origin_allowed;
pub use request::{Kind, Limits, Request, UpgradeError, choose_subprotocol, parse_request};
pub use response::{Status, accept_key, response_accept, response_refuse};
