//! Reading fields within a frame, and what may be wrong with one.

use core::fmt;

use alloc::vec::Vec;

/// What the peer did against the protocol. The connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The first bytes are not those of this protocol.
    Magic,
    /// A version that this code does not speak; the peer's.
    Version(u8),
    /// A kind of frame that does not exist in this direction.
    UnknownFrame(u8),
    /// A frame that must not come now; its kind.
    Unexpected(u8),
    /// A frame or a field goes beyond its bound; which.
    TooLong(&'static str),
    /// A frame ends in the middle of a field, or goes on after the last one.
    Length,
    /// A field has a value that does not exist; which.
    Value(&'static str),
    /// The file that came has not the size that was announced.
    Size,
}

/// What MQTT begins with. No frame has this kind.
const MQTT_CONNECT: u8 = 0x10;
/// What TLS begins with. No frame has this kind.
const TLS_HANDSHAKE: u8 = 0x16;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("this is not the call protocol"),
            Self::Version(version) => write!(
                f,
                "the peer speaks version {version} of the call protocol, not {}",
                crate::VERSION
            ),
            Self::UnknownFrame(MQTT_CONNECT) => {
                f.write_str("this is an MQTT client, and the listener is for calls (stentor-call)")
            }
            Self::UnknownFrame(TLS_HANDSHAKE) => f.write_str(
                "the client speaks TLS, and this listener does not; call it by call://, or make it \
                 a listener calls://",
            ),
            Self::UnknownFrame(kind) => write!(f, "there is no frame of kind {kind:#04x}"),
            Self::Unexpected(kind) => write!(f, "a frame of kind {kind:#04x} must not come now"),
            Self::TooLong(what) => write!(f, "the {what} is longer than allowed"),
            Self::Length => f.write_str("a frame's length does not fit its fields"),
            Self::Value(what) => write!(f, "the {what} has an impossible value"),
            Self::Size => f.write_str("the file does not have the announced size"),
        }
    }
}

impl core::error::Error for Violation {}

/// A cursor over the content of one frame.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Violation> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Violation::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Violation> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Violation::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Violation> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Violation> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Violation> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Violation> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes after a one-byte length.
    pub(crate) fn short(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], Violation> {
        let len = usize::from(self.u8()?);
        self.bounded(len, max, what)
    }

    /// Bytes after a two-byte length.
    pub(crate) fn medium(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], Violation> {
        let len = usize::from(self.u16()?);
        self.bounded(len, max, what)
    }

    /// Bytes after a four-byte length.
    pub(crate) fn long(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], Violation> {
        let len = self.u32()? as usize;
        self.bounded(len, max, what)
    }

    fn bounded(
        &mut self,
        len: usize,
        max: usize,
        what: &'static str,
    ) -> Result<&'a [u8], Violation> {
        if len > max {
            return Err(Violation::TooLong(what));
        }
        self.bytes(len)
    }

    /// Nothing may follow the last field.
    pub(crate) const fn end(self) -> Result<(), Violation> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Violation::Length)
        }
    }
}

/// A line of printable text: no control characters, which could end a line of a mail or a log.
pub(crate) fn line<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Violation> {
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text),
        _ => Err(Violation::Value(what)),
    }
}

/// Appends a one-byte length and the bytes.
pub(crate) fn put_short(
    bytes: &[u8],
    max: usize,
    what: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), Violation> {
    let len = u8::try_from(bytes.len()).map_err(|_| Violation::TooLong(what))?;
    put(bytes, max, what, &[len], out)
}

/// Appends a two-byte length and the bytes.
pub(crate) fn put_medium(
    bytes: &[u8],
    max: usize,
    what: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), Violation> {
    let len = u16::try_from(bytes.len()).map_err(|_| Violation::TooLong(what))?;
    put(bytes, max, what, &len.to_be_bytes(), out)
}

/// Appends a four-byte length and the bytes.
pub(crate) fn put_long(
    bytes: &[u8],
    max: usize,
    what: &'static str,
    out: &mut Vec<u8>,
) -> Result<(), Violation> {
    let len = u32::try_from(bytes.len()).map_err(|_| Violation::TooLong(what))?;
    put(bytes, max, what, &len.to_be_bytes(), out)
}

fn put(
    bytes: &[u8],
    max: usize,
    what: &'static str,
    len: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Violation> {
    if bytes.len() > max {
        return Err(Violation::TooLong(what));
    }
    out.extend_from_slice(len);
    out.extend_from_slice(bytes);
    Ok(())
}
