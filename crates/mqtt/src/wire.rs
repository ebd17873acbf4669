//! The data types that packets are made of [MQTT 5.0, section 1.5]: reading and writing.

use crate::STRING_BYTES_MAX;
use crate::encode::EncodeError;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::types::PacketId;
use alloc::vec::Vec;

/// Reads fields off the front of a packet's body. Every read checks what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes behind the last field.
    #[inline]
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeErrorKind::TrailingBytes.into())
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(DecodeErrorKind::Truncated.into()),
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(DecodeErrorKind::Truncated.into()),
        }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A packet identifier, which is never zero [MQTT-2.2.1-3].
    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, DecodeError> {
        PacketId::new(self.u16()?).ok_or_else(|| DecodeErrorKind::PacketIdZero.into())
    }

    /// A Variable Byte Integer in its shortest form [MQTT-1.5.5-1].
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u32, DecodeError> {
        let (value, len) = read_varint(self.rest)?.ok_or(DecodeErrorKind::Truncated)?;
        if len != varint_len(value) {
            return Err(DecodeErrorKind::VarIntNotMinimal.into());
        }
        self.rest = &self.rest[len..];
        Ok(value)
    }

    /// Binary data: two bytes of length in front.
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    /// A UTF-8 string without U+0000 [MQTT-1.5.4-1] [MQTT-1.5.4-2].
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a str, DecodeError> {
        checked_str(self.binary()?)
    }
}

/// Validates a string: UTF-8 (hence no surrogates), no U+0000.
#[inline]
pub(crate) fn checked_str(bytes: &[u8]) -> Result<&str, DecodeError> {
    let text = simdutf8::basic::from_utf8(bytes).map_err(|_| DecodeErrorKind::Utf8)?;
    if bytes.contains(&0) {
        return Err(DecodeErrorKind::Nul.into());
    }
    Ok(text)
}

/// Reads a Variable Byte Integer, shortest form or not: value and bytes used, `None` if more bytes
/// are needed.
#[inline]
pub(crate) fn read_varint(bytes: &[u8]) -> Result<Option<(u32, usize)>, DecodeError> {
    let mut value = 0u32;
    for index in 0..4 {
        let Some(&byte) = bytes.get(index) else {
            return Ok(None);
        };
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Ok(Some((value, index + 1)));
        }
    }
    Err(DecodeErrorKind::VarIntTooLong.into())
}

/// How many bytes a Variable Byte Integer takes: 1 to 4 for what the type can hold.
#[inline]
pub(crate) const fn varint_len(value: u32) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

/// Where an encoder writes: a buffer, or only a count of bytes. Packets are "written" to a count
/// first, because their length precedes them.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    #[inline]
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    #[inline]
    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// The caller has checked that `value` is within [`crate::REMAINING_LEN_MAX`].
    #[inline]
    fn varint(&mut self, value: u32) {
        debug_assert!(value <= crate::REMAINING_LEN_MAX);
        let mut rest = value;
        while rest >= 0x80 {
            self.u8((rest & 0x7F) as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8);
    }

    #[inline]
    fn binary(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        if bytes.len() > STRING_BYTES_MAX {
            return Err(EncodeError::StringTooLong { bytes: bytes.len() });
        }
        self.u16(bytes.len() as u16);
        self.put(bytes);
        Ok(())
    }

    #[inline]
    fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        self.binary(text.as_bytes())
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts what would be written.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) bytes: usize,
}

impl Sink for Counter {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
    }
}
