//! Where a batch was first written, which names it for ever.

/// The place of a batch: the number of its file and the offset there, in bytes.
///
/// Numbers of files are never used twice, so neither are positions. Within a journal, later batches
/// have greater positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The number of the file, from 1 on.
    pub file: u32,
    /// Bytes from the beginning of the file: a multiple of eight.
    pub offset: u32,
}

impl Position {
    /// Before all batches.
    pub const ORIGIN: Self = Self { file: 0, offset: 0 };

    /// As eight bytes, in which records name a batch.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        let (file, offset) = (u64::from(self.file), u64::from(self.offset));
        (file | offset << 32).to_le_bytes()
    }

    /// What [`Position::to_bytes`] made.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self {
            file: both as u32,
            offset: (both >> 32) as u32,
        }
    }
}
