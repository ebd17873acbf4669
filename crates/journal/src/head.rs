//! The beginning of a segment's file, and its first frame, which says what came before.

use crate::Position;
use crate::frame::word;

/// The only format there is.
pub(crate) const FORMAT: u32 = 1;
/// Bytes of a head; the first frame stands behind it, in the same sector of the disk.
pub(crate) const HEAD_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"STENTORJ";
const SUFFIX: &str = ".log";

/// Which journal something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// Counts the starts of the server.
    pub(crate) generation: u32,
    pub(crate) shard: u16,
}

/// What the head of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) secret: u64,
    pub(crate) number: u32,
    pub(crate) id: Id,
    /// Bytes of the file.
    pub(crate) bytes: u64,
    /// The number of the file that was made for this journal before this one. 0 if this is the
    /// first one, or an earlier version has made it.
    pub(crate) before: u32,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.secret.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.id.generation.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.id.shard.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.before.to_le_bytes());
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// `None` for what is damaged; the format if it is newer.
    pub(crate) fn decode(file: &[u8]) -> Result<Option<Self>, u32> {
        let Some(bytes) = file.first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        if &bytes[..8] != MAGIC || word(bytes, 12) != checksum(bytes) {
            return Ok(None);
        }
        match word(bytes, 8) {
            FORMAT => Ok(Some(Self {
                secret: double_word(bytes, 16),
                number: word(bytes, 24),
                id: Id {
                    generation: word(bytes, 28),
                    shard: word(bytes, 32) as u16,
                },
                bytes: double_word(bytes, 40),
                before: word(bytes, 48),
            })),
            format => Err(format),
        }
    }
}

/// The checksum of a head or of the manifest: of the first 64 bytes but for itself, in every
/// format, so that a newer format does not pass for damage.
pub(crate) fn checksum(bytes: &[u8; HEAD_BYTES]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&bytes[..12]);
    checksum.update(&bytes[16..]);
    checksum.finalize()
}

/// Eight bytes of a head.
pub(crate) fn double_word(bytes: &[u8; HEAD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The name of a segment's file.
pub(crate) fn file_name(number: u32) -> String {
    format!("{number:08}{SUFFIX}")
}

/// The number of the file of a segment.
pub(crate) fn parse_file_name(name: &str) -> Option<u32> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The records of the first frame of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Once more, for when the head is damaged.
    pub(crate) id: Id,
    /// Where the journal ended before it went on in this segment.
    pub(crate) previous: Position,
    /// Segments that the disk failed to sync, and whose live content was appended again.
    pub(crate) given_up: Vec<u32>,
}

impl Link {
    /// Bytes of a link's records.
    pub(crate) fn bytes(given_up: usize) -> usize {
        16 + 4 * given_up
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::bytes(self.given_up.len()));
        bytes.extend(self.id.generation.to_le_bytes());
        bytes.extend(u32::from(self.id.shard).to_le_bytes());
        bytes.extend(self.previous.to_bytes());
        for number in &self.given_up {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(records: &[u8]) -> Option<Self> {
        let (fixed, given_up) = records.split_first_chunk::<16>()?;
        Some(Self {
            id: Id {
                generation: word(fixed, 0),
                shard: word(fixed, 4) as u16,
            },
            previous: Position {
                file: word(fixed, 8),
                offset: word(fixed, 12),
            },
            given_up: given_up.chunks_exact(4).map(|it| word(it, 0)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_back_and_every_flipped_bit_shows() {
        let head = Head {
            secret: u64::MAX - 1,
            number: 70_000,
            id: Id {
                generation: 9,
                shard: 31,
            },
            bytes: 1 << 33,
            before: 69_998,
        };
        let bytes = head.encode();
        assert_eq!(Head::decode(&bytes), Ok(Some(head)));
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&damaged), Ok(None), "bit {bit}");
        }
        assert_eq!(Head::decode(&bytes[1..]), Ok(None));
        let mut newer = bytes;
        newer[8] = 2;
        let check = checksum(&newer);
        newer[12..16].copy_from_slice(&check.to_le_bytes());
        assert_eq!(Head::decode(&newer), Err(2));
    }

    #[test]
    fn a_file_has_one_name() {
        for number in [1, 99_999_999, u32::MAX] {
            assert_eq!(parse_file_name(&file_name(number)), Some(number));
        }
        for name in ["1.log", "+0000001.log", "00000001.lo", "x.log", "00000001"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
