//! Frames to bytes.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::CloseCode;
use crate::header::{
    CONTROL_BYTES_MAX, FIN, HEADER_BYTES_MAX, LENGTH_16, LENGTH_64, MASKED, Opcode,
};
use crate::mask::apply_mask;

/// The bytes of a frame's header; at most [`HEADER_BYTES_MAX`], without a mask at most 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    bytes: [u8; HEADER_BYTES_MAX],
    len: u8,
}

impl FrameHeader {
    const EMPTY: Self = Self {
        bytes: [0; HEADER_BYTES_MAX],
        len: 0,
    };

    fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

impl Deref for FrameHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The header of a whole (unfragmented) frame with a payload of `payload_bytes`.
///
/// A server gives no mask. A client gives one that its peer cannot foresee, a new one for each
/// frame, and applies it to the payload with [`apply_mask`].
#[must_use]
pub fn frame_header(payload_bytes: u64, opcode: Opcode, mask: Option<[u8; 4]>) -> FrameHeader {
    let mut header = FrameHeader::EMPTY;
    let masked = if mask.is_some() { MASKED } else { 0 };
    let first = FIN | opcode as u8;
    match (u8::try_from(payload_bytes), u16::try_from(payload_bytes)) {
        (Ok(short), _) if short < LENGTH_16 => header.push(&[first, masked | short]),
        (_, Ok(length)) => {
            header.push(&[first, masked | LENGTH_16]);
            header.push(&length.to_be_bytes());
        }
        _ => {
            header.push(&[first, masked | LENGTH_64]);
            header.push(&payload_bytes.to_be_bytes());
        }
    }
    if let Some(mask) = mask {
        header.push(&mask);
    }
    header
}

/// Appends a close frame.
///
/// Without a code the frame is empty: the answer to an empty one. The reason is for people who
/// debug, and is cut at 123 bytes.
pub fn encode_close(
    code: Option<CloseCode>,
    reason: &str,
    mask: Option<[u8; 4]>,
    out: &mut Vec<u8>,
) {
    let Some(code) = code else {
        return encode_control(Opcode::Close, &[], mask, out);
    };
    let mut payload = Vec::with_capacity(CONTROL_BYTES_MAX);
    payload.extend_from_slice(&code.get().to_be_bytes());
    let fits = reason.floor_char_boundary(CONTROL_BYTES_MAX - payload.len());
    payload.extend_from_slice(&reason.as_bytes()[..fits]);
    encode_control(Opcode::Close, &payload, mask, out);
}

/// Appends a ping frame; the payload is cut at 125 bytes.
pub fn encode_ping(payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    encode_control(Opcode::Ping, payload, mask, out);
}

/// Appends a pong frame with the payload of the ping that it answers, which is at most 125 bytes.
pub fn encode_pong(payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    encode_control(Opcode::Pong, payload, mask, out);
}

fn encode_control(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>, out: &mut Vec<u8>) {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    out.extend_from_slice(&frame_header(payload.len() as u64, opcode, mask));
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply_mask(&mut out[start..], mask);
    }
}
