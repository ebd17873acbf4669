//! The header of a frame (RFC 6455, section 5.2).

use crate::decoder::{FrameError, Role};

/// Length limit of a frame's header, in bytes.
pub const HEADER_BYTES_MAX: usize = 14;

/// Length limit of the payload of a close, ping or pong frame, in bytes.
pub const CONTROL_BYTES_MAX: usize = 125;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// The next part of a fragmented message.
    Continuation = 0,
    /// A text message, or the first part of one.
    Text = 1,
    /// A binary message, or the first part of one.
    Binary = 2,
    /// The end of the connection.
    Close = 8,
    /// Asks for a pong with the same payload.
    Ping = 9,
    /// Answers a ping.
    Pong = 10,
}

impl Opcode {
    const fn new(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }
}

/// Set in the first byte of the last frame of a message.
pub(crate) const FIN: u8 = 0x80;
/// Reserved for extensions; zero without one.
const RESERVED: u8 = 0x70;
/// Set in the second byte of a frame with a mask.
pub(crate) const MASKED: u8 = 0x80;
/// In place of a length: the length follows in two bytes.
pub(crate) const LENGTH_16: u8 = 126;
/// In place of a length: the length follows in eight bytes.
pub(crate) const LENGTH_64: u8 = 127;

/// A frame's header, checked by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    /// All zeros where there is no mask.
    pub(crate) mask: [u8; 4],
}

/// What follows the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of a message.
    Data {
        start: Start,
        end: End,
        payload_bytes: u64,
    },
    /// A whole control frame.
    Control { control: Control, payload_bytes: u8 },
}

/// Whether a data frame begins a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Message,
    Continuation,
}

/// Whether a data frame ends its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Message,
    Fragment,
}

/// The frames that may stand between the parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Close,
    Ping,
    Pong,
}

impl Header {
    /// Reads a header off the front of `bytes`, and its length; `None` while it is incomplete.
    ///
    /// A rule is broken as soon as the bytes that break it are there, so that splitting the stream
    /// elsewhere changes no outcome.
    #[inline]
    pub(crate) fn parse(bytes: &[u8], role: Role) -> Result<Option<(Self, usize)>, FrameError> {
        let &[first, second, ref rest @ ..] = bytes else {
            return Ok(None);
        };
        if first & RESERVED != 0 {
            return Err(FrameError::ReservedBits);
        }
        let opcode = Opcode::new(first & 0x0F).ok_or(FrameError::ReservedOpcode)?;
        match (role, second & MASKED != 0) {
            (Role::Server, false) => return Err(FrameError::Unmasked),
            (Role::Client, true) => return Err(FrameError::Masked),
            (Role::Server, true) | (Role::Client, false) => {}
        }
        let end = if first & FIN != 0 {
            End::Message
        } else {
            End::Fragment
        };
        let kind = match opcode {
            Opcode::Text => return Err(FrameError::Text),
            Opcode::Binary => Ok(Start::Message),
            Opcode::Continuation => Ok(Start::Continuation),
            Opcode::Close => Err(Control::Close),
            Opcode::Ping => Err(Control::Ping),
            Opcode::Pong => Err(Control::Pong),
        };
        let short = second & !MASKED;
        if kind.is_err() && end == End::Fragment {
            return Err(FrameError::ControlFragmented);
        }
        if kind.is_err() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(FrameError::ControlTooLong);
        }
        let Some((payload_bytes, length_bytes)) = parse_length(short, rest)? else {
            return Ok(None);
        };
        let (mask, mask_bytes) = match role {
            Role::Client => ([0; 4], 0),
            Role::Server => match rest.get(length_bytes..).and_then(<[u8]>::first_chunk) {
                Some(mask) => (*mask, 4),
                None => return Ok(None),
            },
        };
        let kind = match kind {
            Ok(start) => Kind::Data {
                start,
                end,
                payload_bytes,
            },
            Err(control) => Kind::Control {
                control,
                payload_bytes: short,
            },
        };
        Ok(Some((Self { kind, mask }, 2 + length_bytes + mask_bytes)))
    }
}

/// The payload's length and how many of `rest` it took; `None` while it is incomplete.
#[inline]
fn parse_length(short: u8, rest: &[u8]) -> Result<Option<(u64, usize)>, FrameError> {
    let (length, taken, least) = match short {
        LENGTH_16 => match rest.first_chunk() {
            Some(bytes) => (
                u64::from(u16::from_be_bytes(*bytes)),
                2,
                u64::from(LENGTH_16),
            ),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.first_chunk() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 8, 1 << 16),
            None => return Ok(None),
        },
        short => (u64::from(short), 0, 0),
    };
    // The shortest form that fits is the only one allowed, and the highest bit is zero.
    if length < least || length > i64::MAX as u64 {
        return Err(FrameError::LengthForm);
    }
    Ok(Some((length, taken)))
}
