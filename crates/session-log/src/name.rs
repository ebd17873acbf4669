//! Where a message was first written, which names it for ever.

use alloc::vec::Vec;

use crate::wire::{Fault, Reader, put_varint};

/// The place of a record: the number of its file, and the offset there in bytes.
///
/// A name never changes, whatever is copied where later. Numbers of files are never used twice, so
/// neither are names. Within a journal, later records have greater names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The number of the file, from 1 on; 0 in a record that names another one of its own batch.
    pub file: u32,
    /// Bytes from the beginning of the file. In a record that names another one of its own batch,
    /// bytes from the beginning of the batch.
    pub offset: u32,
}

impl Name {
    /// The record that stands `at` bytes behind the beginning of the batch that names it: the batch
    /// gets its place when it is appended.
    #[must_use]
    pub const fn in_this_batch(at: u32) -> Self {
        Self {
            file: 0,
            offset: at,
        }
    }

    /// The name of the record that stands `at` bytes behind the beginning of a batch with this
    /// name. A batch and what surrounds it take more room than its records, so names differ.
    #[must_use]
    pub const fn within(self, at: u32) -> Self {
        Self {
            file: self.file,
            offset: self.offset.saturating_add(at),
        }
    }

    /// As a number above 0, in the same order, if the file has a number.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.file as u64) << 32 | self.offset as u64
    }

    /// What [`Name::to_bits`] gave; `None` for a number that names no file.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match (bits >> 32) as u32 {
            0 => None,
            file => Some(Self {
                file,
                offset: bits as u32,
            }),
        }
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.file));
        put_varint(out, u64::from(self.offset));
    }

    /// Reads a name. One of the same batch becomes one for ever.
    pub(crate) fn take(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Fault> {
        let (file, offset) = (reader.u32(field)?, reader.u32(field)?);
        Ok(match file {
            0 => reader.batch().within(offset),
            file => Self { file, offset },
        })
    }
}
