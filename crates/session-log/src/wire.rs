//! Numbers, texts and bytes: reading and writing.

use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS, STRING_BYTES_MAX};
use thiserror::Error;

use crate::Name;

/// Bytes of properties or of a payload: what an MQTT packet can hold.
pub const BODY_BYTES_MAX: usize = 268_435_455;

/// Bytes of a text.
pub const TEXT_BYTES_MAX: usize = STRING_BYTES_MAX;

/// The highest number of a delivery: of one session, which has a new one for each message.
pub const DELIVERY_MAX: u64 = (1 << 56) - 1;

/// The latest time, in milliseconds since 1970: in the year 10,889.
pub const MILLIS_MAX: u64 = (1 << 48) - 1;

/// The highest subscription identifier [MQTT-3.8.2.1.2].
pub const IDENTIFIER_MAX: u32 = 268_435_455;

/// A field that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field}: {why}")]
pub struct Fault {
    /// The field, as its type in this crate calls it.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Why {
    /// The batch ends before it does.
    #[error("the batch ends within it")]
    Truncated,
    /// It is above its bound.
    #[error("it is too large")]
    TooLarge,
    /// A number takes more bytes than it needs.
    #[error("the number is not in its shortest form")]
    Padded,
    /// A text is not valid UTF-8, or has a U+0000.
    #[error("it is not a text")]
    Text,
    /// It has a value that means nothing.
    #[error("it has an unknown value")]
    Value,
}

/// Appends a number: seven bits a byte, the lowest first, and the highest bit of a byte says
/// whether another one follows.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes, with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Small numbers for small distances, up or down.
#[inline]
pub(crate) const fn zigzag(distance: i32) -> u32 {
    ((distance << 1) ^ (distance >> 31)) as u32
}

/// What [`zigzag`] was made of.
#[inline]
pub(crate) const fn unzigzag(code: u32) -> i32 {
    (code >> 1) as i32 ^ -((code & 1) as i32)
}

/// Reads the fields of a batch, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Where the batch is.
    batch: Name,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(batch: Name, bytes: &'a [u8]) -> Self {
        Self { rest: bytes, batch }
    }

    pub(crate) const fn batch(&self) -> Name {
        self.batch
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn byte(&mut self, field: &'static str) -> Result<u8, Fault> {
        let (first, rest) = self.rest.split_first().ok_or(Fault {
            field,
            why: Why::Truncated,
        })?;
        self.rest = rest;
        Ok(*first)
    }

    /// A number up to a bound.
    pub(crate) fn varint(&mut self, field: &'static str, max: u64) -> Result<u64, Fault> {
        let fault = |why| Err(Fault { field, why });
        let (mut value, mut shift) = (0_u64, 0_u32);
        loop {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return fault(Why::TooLarge);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return match () {
                    () if byte == 0 && shift > 0 => fault(Why::Padded),
                    () if value > max => fault(Why::TooLarge),
                    () => Ok(value),
                };
            }
            shift += 7;
            if shift > 63 {
                return fault(Why::TooLarge);
            }
        }
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Fault> {
        // The bound makes it fit.
        Ok(self.varint(field, u64::from(u32::MAX))? as u32)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Fault> {
        Ok(self.varint(field, u64::from(u16::MAX))? as u16)
    }

    /// Eight bytes, for what is as good as random.
    pub(crate) fn word(&mut self, field: &'static str) -> Result<u64, Fault> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(Fault {
            field,
            why: Why::Truncated,
        })?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(crate) fn bytes(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], Fault> {
        let len = self.varint(field, max as u64)? as usize;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Fault {
            field,
            why: Why::Truncated,
        })?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, Fault> {
        let bytes = self.bytes(field, TEXT_BYTES_MAX)?;
        match core::str::from_utf8(bytes) {
            Ok(text) if !bytes.contains(&0) => Ok(text),
            _ => Err(Fault {
                field,
                why: Why::Text,
            }),
        }
    }

    pub(crate) fn packet_id(&mut self, field: &'static str) -> Result<PacketId, Fault> {
        PacketId::new(self.u16(field)?).ok_or(Fault {
            field,
            why: Why::Value,
        })
    }

    /// Flags: of the bits, only these have a meaning.
    pub(crate) fn flags(&mut self, field: &'static str, known: u8) -> Result<Flags, Fault> {
        let flags = self.byte(field)?;
        match flags & !known {
            0 => Ok(Flags(flags)),
            _ => Err(Fault {
                field,
                why: Why::Value,
            }),
        }
    }
}

/// A byte of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    /// Of those in `bits`, the flag `bit` if it is so.
    #[must_use]
    pub(crate) const fn with(self, bit: u8, is_set: bool) -> Self {
        match is_set {
            true => Self(self.0 | bit),
            false => self,
        }
    }

    pub(crate) const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// The QoS in the two lowest bits.
    pub(crate) fn qos(self, field: &'static str) -> Result<QoS, Fault> {
        QoS::from_bits(self.0 & 3).ok_or(Fault {
            field,
            why: Why::Value,
        })
    }
}
