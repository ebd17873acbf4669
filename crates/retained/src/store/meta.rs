//! The file `store`: what all segments have in common. It is there twice, so that the loss of one
//! file never hides the loss of others.

use std::collections::BTreeSet;
use std::io;

use super::OpenError;
use super::segments::ASIDE_SUFFIX;
use crate::layout::{FORMAT, FORMAT_1};
use stentor_disk::Disk;

/// The file's name.
pub(crate) const FILE: &str = "store";
/// The name of its copy.
pub(crate) const COPY: &str = "store.copy";
/// What a file is called while it is not complete.
pub(crate) const NEW_SUFFIX: &str = ".new";
const MAGIC: &[u8; 8] = b"STENTORR";
/// Bytes before the list of segments.
const HEAD_BYTES: usize = 64;
/// Bytes of a segment in the list.
const ENTRY_BYTES: usize = 8;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The secret number that decides stripes and keys checksums.
    pub(crate) seed: u64,
    /// Changes when the numbers of topics may have started again.
    pub(crate) epoch: u64,
    /// Versions below this one may have been used.
    pub(crate) versions_below: u64,
    /// Tells one start of the machine from the next.
    pub(crate) boot: u64,
    /// The disk has everything, and nobody uses the store.
    pub(crate) is_closed: bool,
    /// Counts the starts: every segment's head says it too, so that an older copy shows.
    pub(crate) generation: u32,
    /// The segments that there are, by stripe and number, but for those that were made since.
    pub(crate) segments: BTreeSet<(u16, u32)>,
}

impl Meta {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES + self.segments.len() * ENTRY_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seed.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.versions_below.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.boot.to_le_bytes());
        bytes[48] = u8::from(self.is_closed);
        bytes[52..56].copy_from_slice(&self.generation.to_le_bytes());
        let entries = bytes[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES);
        for (entry, (stripe, number)) in entries.zip(&self.segments) {
            entry[..2].copy_from_slice(&stripe.to_le_bytes());
            entry[4..].copy_from_slice(&number.to_le_bytes());
        }
        let list = crc32fast::hash(&bytes[HEAD_BYTES..]);
        bytes[56..60].copy_from_slice(&list.to_le_bytes());
        let head = head_checksum(&bytes);
        bytes[12..16].copy_from_slice(&head.to_le_bytes());
        bytes
    }

    /// `None` for what is damaged; the format if it is newer.
    fn decode(bytes: &[u8]) -> Result<Option<Self>, u32> {
        if bytes.len() < HEAD_BYTES {
            return Ok(None);
        }
        let word = |at: usize| {
            let eight: [u8; 8] = std::array::from_fn(|i| bytes[at + i]);
            u64::from_le_bytes(eight)
        };
        // The low half is the format, the high half the checksum.
        let (format, stored) = (word(8) as u32, (word(8) >> 32) as u32);
        if &bytes[..8] != MAGIC || stored != head_checksum(bytes) {
            return Ok(None);
        }
        if format > FORMAT {
            return Err(format);
        }
        if format != FORMAT_1 && word(56) as u32 != crc32fast::hash(&bytes[HEAD_BYTES..]) {
            return Ok(None);
        }
        let list = match format {
            FORMAT_1 => &[],
            _ => &bytes[HEAD_BYTES..],
        };
        let entries = list.chunks_exact(ENTRY_BYTES);
        let segments = entries.map(|entry| {
            let stripe = u16::from_le_bytes([entry[0], entry[1]]);
            let number = [entry[4], entry[5], entry[6], entry[7]];
            (stripe, u32::from_le_bytes(number))
        });
        Ok(Some(Self {
            seed: word(16),
            epoch: word(24),
            versions_below: word(32),
            boot: word(40),
            is_closed: bytes[48] != 0,
            // The first format has neither.
            generation: if format == FORMAT_1 {
                0
            } else {
                (word(48) >> 32) as u32
            },
            segments: segments.collect(),
        }))
    }

    /// Reads the file, or its copy; `None` if it is missing or damaged.
    pub(crate) fn load<D: Disk>(disk: &D, name: &str) -> Result<Option<Self>, OpenError> {
        let bytes = match disk.read(name) {
            // A folder, a pipe or a device has its name.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                let _ = disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"));
                None
            }
            read => read.map_err(|error| OpenError::Read {
                file: name.into(),
                error,
            })?,
        };
        let Some(bytes) = bytes else {
            return Ok(None);
        };
        Self::decode(&bytes).map_err(|format| OpenError::Newer {
            file: name.into(),
            format,
        })
    }

    /// Writes the file and its copy again: the old one stays until the new one is complete. Where
    /// that fails, since the disk is full for example, all but the list of segments is written
    /// over what is there.
    ///
    /// # Errors
    /// When not all of it could be written.
    pub(crate) fn save<D: Disk>(&self, disk: &D) -> io::Result<()> {
        self.write_anew(disk).or_else(|error| {
            let is_written = [FILE, COPY].map(|name| self.write_over(disk, name));
            match is_written {
                [true, true] => Ok(()),
                _ => Err(error),
            }
        })?;
        disk.sync_names()
    }

    fn write_anew<D: Disk>(&self, disk: &D) -> io::Result<()> {
        let bytes = self.encode();
        for name in [FILE, COPY] {
            let temporary = format!("{name}{NEW_SUFFIX}");
            disk.write(&temporary, &bytes)?;
            disk.rename(&temporary, name)?;
        }
        Ok(())
    }

    /// Writes the head over that of a file, whose list stays; whether the file says everything now.
    /// What is damaged stays so.
    fn write_over<D: Disk>(&self, disk: &D, name: &str) -> bool {
        let Ok(Some(old)) = Self::load(disk, name) else {
            return false;
        };
        let next = Self {
            segments: old.segments.clone(),
            ..self.clone()
        };
        let is_written = old == next || disk.overwrite(name, &next.encode()[..HEAD_BYTES]).is_ok();
        is_written && next == *self
    }
}

/// The checksum of the head, which is the same in every format: so that an older program sees a
/// newer format, and not damage that it would repair.
fn head_checksum(bytes: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&bytes[..12]);
    checksum.update(&bytes[16..HEAD_BYTES]);
    checksum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_every_flipped_bit_shows() {
        let meta = Meta {
            seed: u64::MAX - 1,
            epoch: 3,
            versions_below: 1 << 40,
            boot: 7,
            is_closed: true,
            generation: 9,
            segments: [(0, 3), (31, 70_000)].into(),
        };
        let bytes = meta.encode();
        assert_eq!(Meta::decode(&bytes), Ok(Some(meta.clone())));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Meta::decode(&damaged), Ok(None), "bit {bit}");
        }
        assert_eq!(Meta::decode(&bytes[1..]), Ok(None));
        // Whatever a newer format has behind the head.
        let mut newer = bytes;
        newer[8] = 3;
        newer.extend(*b"more");
        let check = head_checksum(&newer);
        newer[12..16].copy_from_slice(&check.to_le_bytes());
        assert_eq!(Meta::decode(&newer), Err(3));
    }
}
