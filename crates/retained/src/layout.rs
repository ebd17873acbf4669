//! The layout of a segment's file: a head, a directory with an entry for each block, the blocks.
//!
//! `docs/retained-format.md` describes it; a change needs a new [`FORMAT`].

use crate::class::{self, BLOCK_BYTES, ClassId};

/// The version of the format that is written.
pub(crate) const FORMAT: u32 = 1;

/// Bytes of the head of a segment.
const HEAD_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"STENTORS";
/// Bytes of an entry of the directory.
pub(crate) const ENTRY_BYTES: usize = 8;
/// What blocks begin at a multiple of.
const PAGE_BYTES: usize = 4096;
/// Blocks of the largest segment: an allocation of 1 GiB.
pub(crate) const BLOCKS_MAX: usize = (1 << 30) / BLOCK_BYTES;

/// What tells one segment of a store from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    /// The secret number of the store.
    pub(crate) seed: u64,
    pub(crate) stripe: u16,
    pub(crate) number: u32,
    pub(crate) blocks: u32,
}

/// Why a head is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHead {
    /// Nothing that this program wrote, or no longer.
    Damaged,
    /// Whole, and of a format that only later programs know.
    Newer(u32),
}

impl SegmentHead {
    /// The head as it lies in the file.
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seed.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.stripe.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a head.
    ///
    /// # Errors
    /// If it is damaged or newer than this program.
    pub(crate) fn decode(file: &[u8]) -> Result<Self, BadHead> {
        let bytes = file.first_chunk::<HEAD_BYTES>().ok_or(BadHead::Damaged)?;
        if &bytes[..8] != MAGIC || u32_at(bytes, 12) != checksum(bytes) {
            return Err(BadHead::Damaged);
        }
        let format = u32_at(bytes, 8);
        if format > FORMAT {
            return Err(BadHead::Newer(format));
        }
        let (low, high) = (u32_at(bytes, 16), u32_at(bytes, 20));
        Ok(Self {
            seed: u64::from(high) << 32 | u64::from(low),
            number: u32_at(bytes, 24),
            blocks: u32_at(bytes, 28),
            stripe: u16::from_le_bytes([bytes[32], bytes[33]]),
        })
    }
}

/// The checksum of a head: of everything but itself.
fn checksum(bytes: &[u8; HEAD_BYTES]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&bytes[..12]);
    checksum.update(&bytes[16..]);
    checksum.finalize()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Where the first block begins in a segment of so many blocks.
pub(crate) const fn blocks_at(blocks: usize) -> usize {
    (HEAD_BYTES + blocks * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
}

/// Bytes of a file with so many blocks.
pub(crate) const fn file_len(blocks: usize) -> usize {
    blocks_at(blocks) + blocks * BLOCK_BYTES
}

/// How many blocks a file of that length has; `None` for a length that no file has.
pub(crate) fn blocks_of(file_bytes: usize) -> Option<usize> {
    let most = file_bytes.checked_sub(PAGE_BYTES)? / BLOCK_BYTES;
    // The directory takes less than one block in two thousand.
    (most.saturating_sub(most / 1_024 + 1)..=most).find(|blocks| file_len(*blocks) == file_bytes)
}

/// Where the directory has the entry of a block.
pub(crate) const fn entry_at(block: usize) -> usize {
    HEAD_BYTES + block * ENTRY_BYTES
}

/// What the directory says of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It is free, or belongs to the run of a block before it.
    Free,
    /// A run of this class begins here.
    Run(ClassId),
    /// Nothing that can be true.
    Damaged,
}

/// The entry that says that a run of a class begins at a block.
pub(crate) fn encode_entry(key: u32, block: usize, class: ClassId) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..2].copy_from_slice(&class.0.to_le_bytes());
    bytes[4..].copy_from_slice(&entry_check(key, block, class).to_le_bytes());
    bytes
}

/// Reads the entry of a block.
pub(crate) fn decode_entry(file: &[u8], key: u32, block: usize) -> Entry {
    let Some(bytes) = file
        .get(entry_at(block)..)
        .and_then(|rest| rest.first_chunk::<ENTRY_BYTES>())
    else {
        return Entry::Damaged;
    };
    if *bytes == [0; ENTRY_BYTES] {
        return Entry::Free;
    }
    let id = ClassId(u16::from_le_bytes([bytes[0], bytes[1]]));
    let is_sound = u32_at(bytes, 4) == entry_check(key, block, id)
        && bytes[2..4] == [0; 2]
        && class::get(id).is_some();
    if is_sound {
        Entry::Run(id)
    } else {
        Entry::Damaged
    }
}

fn entry_check(key: u32, block: usize, class: ClassId) -> u32 {
    let mut checksum = crc32fast::Hasher::new_with_initial(key);
    checksum.update(&(block as u64).to_le_bytes());
    checksum.update(&class.0.to_le_bytes());
    // Never all zero, which stands for a free block.
    checksum.finalize() | 1
}

/// The name of a segment's file.
pub(crate) fn file_name(stripe: u16, number: u32) -> String {
    format!("{stripe:02}-{number:06}.seg")
}

/// Reads the name of a segment's file: stripe and number.
pub(crate) fn parse_file_name(name: &str) -> Option<(u16, u32)> {
    let (stripe, number) = name.strip_suffix(".seg")?.split_once('-')?;
    let parsed = (stripe.parse().ok()?, number.parse().ok()?);
    // One segment has one name.
    (file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: SegmentHead = SegmentHead {
        seed: 0x0123_4567_89AB_CDEF,
        stripe: 31,
        number: 70_000,
        blocks: 8,
    };

    #[test]
    fn a_head_is_read_back_and_every_flipped_bit_shows() {
        let bytes = HEAD.encode();
        assert_eq!(SegmentHead::decode(&bytes), Ok(HEAD));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHead::decode(&damaged), Err(BadHead::Damaged));
        }
        assert_eq!(SegmentHead::decode(&bytes[1..]), Err(BadHead::Damaged));
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut bytes = HEAD.encode();
        bytes[8..12].copy_from_slice(&9_u32.to_le_bytes());
        let check = checksum(&bytes);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        assert_eq!(SegmentHead::decode(&bytes), Err(BadHead::Newer(9)));
    }

    #[test]
    fn a_length_tells_the_number_of_blocks() {
        for blocks in [1, 7, 8, 503, 504, 505, 506, 1_016, 20_000, BLOCKS_MAX] {
            assert_eq!(blocks_of(file_len(blocks)), Some(blocks));
            assert_eq!(blocks_of(file_len(blocks) + 1), None);
        }
        assert_eq!(blocks_of(0), None);
    }

    #[test]
    fn entries_are_checked() {
        let mut file = vec![0; file_len(4)];
        assert_eq!(decode_entry(&file, 1, 2), Entry::Free);
        let entry = encode_entry(1, 2, ClassId(5));
        file[entry_at(2)..][..ENTRY_BYTES].copy_from_slice(&entry);
        assert_eq!(decode_entry(&file, 1, 2), Entry::Run(ClassId(5)));
        assert_eq!(decode_entry(&file, 2, 2), Entry::Damaged);
        file[entry_at(2)] ^= 1;
        assert_eq!(decode_entry(&file, 1, 2), Entry::Damaged);
        assert_eq!(decode_entry(&file[..entry_at(2)], 1, 2), Entry::Damaged);
    }

    #[test]
    fn names_are_read_back() {
        assert_eq!(parse_file_name(&file_name(3, 12)), Some((3, 12)));
        assert_eq!(parse_file_name("03-000012.seg"), Some((3, 12)));
        for name in ["3-12.seg", "03-000012.new", "store", "03_000012.seg", ""] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
