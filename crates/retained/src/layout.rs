//! The layout of a segment's file: a head, a directory with an entry for each block, the blocks.
//!
//! `docs/retained-format.md` describes it; a change needs a new [`FORMAT`].

use crate::class::{self, BLOCK_BYTES, ClassId};
use crate::record;

/// The version of the format that is written.
pub(crate) const FORMAT: u32 = 2;
/// The format before: nothing in it is keyed by its place, and zeros stand for what is free.
pub(crate) const FORMAT_1: u32 = 1;

/// Bytes of the head of a segment.
const HEAD_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"STENTORS";
/// Bytes of an entry of the directory.
pub(crate) const ENTRY_BYTES: usize = 8;
/// What blocks begin at a multiple of.
const PAGE_BYTES: usize = 4096;
/// Blocks of the largest segment: an allocation of 1 GiB.
pub(crate) const BLOCKS_MAX: usize = (1 << 30) / BLOCK_BYTES;

/// Where the head has the generation: a word of its own, which changes at every start.
const GENERATION_AT: usize = 40;

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
    /// The key of everything that lies in the segment; `key` is that of the store.
    pub(crate) fn key(&self, key: u32) -> u32 {
        segment_key(key, self.stripe, self.number)
    }

    /// The head as it lies in the file, with a generation.
    pub(crate) fn encode(&self, generation: u32) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.seed.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.stripe.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes[GENERATION_AT..][..8].copy_from_slice(&self.generation_word(generation));
        bytes
    }

    /// What a new segment begins with, and where: its head, and a directory of free blocks. `key`
    /// is the store's.
    pub(crate) fn fresh(&self, key: u32, generation: u32) -> [(usize, Vec<u8>); 2] {
        let key = self.key(key);
        let entries = (0..self.blocks as usize).flat_map(|block| free_entry(key, block));
        [
            (0, self.encode(generation).to_vec()),
            (entry_at(0), entries.collect()),
        ]
    }

    /// The word of the head that says the generation.
    fn generation_word(&self, generation: u32) -> [u8; 8] {
        let mut checksum = crc32fast::Hasher::new_with_initial(self.key(self.seed as u32));
        checksum.update(&generation.to_le_bytes());
        let word = u64::from(generation) | u64::from(checksum.finalize()) << 32;
        word.to_le_bytes()
    }

    /// The word of the head that says the generation, and where it stands.
    pub(crate) fn generation_at(&self, generation: u32) -> (usize, [u8; 8]) {
        (GENERATION_AT, self.generation_word(generation))
    }

    /// The generation that a file with this head says; `None` if it is damaged.
    pub(crate) fn generation(&self, file: &[u8]) -> Option<u32> {
        let word = file.get(GENERATION_AT..GENERATION_AT + 8)?;
        let generation = u32_at(word, 0);
        (word == self.generation_word(generation)).then_some(generation)
    }

    /// Reads a head, and the format of the segment.
    ///
    /// # Errors
    /// If it is damaged or newer than this program.
    pub(crate) fn decode(file: &[u8]) -> Result<(Self, u32), BadHead> {
        let bytes = file.first_chunk::<HEAD_BYTES>().ok_or(BadHead::Damaged)?;
        if &bytes[..8] != MAGIC || u32_at(bytes, 12) != checksum(bytes) {
            return Err(BadHead::Damaged);
        }
        let format = u32_at(bytes, 8);
        if format > FORMAT {
            return Err(BadHead::Newer(format));
        }
        let (low, high) = (u32_at(bytes, 16), u32_at(bytes, 20));
        let head = Self {
            seed: u64::from(high) << 32 | u64::from(low),
            number: u32_at(bytes, 24),
            blocks: u32_at(bytes, 28),
            stripe: u16::from_le_bytes([bytes[32], bytes[33]]),
        };
        Ok((head, format))
    }
}

/// The checksum of a head: of everything but itself and the generation, which has one of its own.
fn checksum(bytes: &[u8; HEAD_BYTES]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&bytes[..12]);
    checksum.update(&bytes[16..GENERATION_AT]);
    checksum.update(&[0; 8]);
    checksum.update(&bytes[GENERATION_AT + 8..]);
    checksum.finalize()
}

/// The key of everything that lies in a segment.
pub(crate) fn segment_key(key: u32, stripe: u16, number: u32) -> u32 {
    let mut checksum = crc32fast::Hasher::new_with_initial(key);
    checksum.update(&stripe.to_le_bytes());
    checksum.update(&number.to_le_bytes());
    checksum.finalize()
}

/// The key of what lies at a place of a segment: what was copied there from elsewhere, in this
/// segment for sure and in another one nearly so, does not have it.
pub(crate) const fn place_key(segment_key: u32, at: usize) -> u32 {
    // A segment has fewer than 2^32 times eight bytes.
    segment_key.wrapping_add((at / 8) as u32)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Where the first block begins in a segment of this many blocks.
pub(crate) const fn blocks_at(blocks: usize) -> usize {
    (HEAD_BYTES + blocks * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
}

/// Bytes of a file with this many blocks.
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

/// In the place of a class: the block is free.
const FREE: ClassId = ClassId(u16::MAX);

/// The entry that says that a run of a class begins at a block; `key` is the segment's.
pub(crate) fn encode_entry(key: u32, block: usize, class: ClassId) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..2].copy_from_slice(&class.0.to_le_bytes());
    bytes[4..].copy_from_slice(&entry_check(key, block, class).to_le_bytes());
    bytes
}

/// The entry of a block that is free, or inside a run.
pub(crate) fn free_entry(key: u32, block: usize) -> [u8; ENTRY_BYTES] {
    encode_entry(key, block, FREE)
}

/// Reads the entry of a block.
pub(crate) fn decode_entry(file: &[u8], key: u32, block: usize) -> Entry {
    let Some(bytes) = file
        .get(entry_at(block)..)
        .and_then(|rest| rest.first_chunk::<ENTRY_BYTES>())
    else {
        return Entry::Damaged;
    };
    let id = ClassId(u16::from_le_bytes([bytes[0], bytes[1]]));
    let is_sound = u32_at(bytes, 4) == entry_check(key, block, id) && bytes[2..4] == [0; 2];
    match id {
        FREE if is_sound => Entry::Free,
        id if is_sound && class::get(id).is_some() => Entry::Run(id),
        _ => Entry::Damaged,
    }
}

/// Whether the entry of a block is all zero: the disk never got it, or has lost it.
pub(crate) fn is_blank_entry(file: &[u8], block: usize) -> bool {
    file.get(entry_at(block)..entry_at(block) + ENTRY_BYTES) == Some(&[0; ENTRY_BYTES])
}

/// Reads the entry of a block in a segment of format 1; `key` is the store's.
pub(crate) fn decode_entry_1(file: &[u8], key: u32, block: usize) -> Entry {
    if is_blank_entry(file, block) {
        return Entry::Free;
    }
    match decode_entry(file, key, block) {
        Entry::Free => Entry::Damaged,
        entry => entry,
    }
}

fn entry_check(key: u32, block: usize, class: ClassId) -> u32 {
    let mut checksum = crc32fast::Hasher::new_with_initial(key);
    checksum.update(&(block as u64).to_le_bytes());
    checksum.update(&class.0.to_le_bytes());
    // Never all zero, as in a page that was lost.
    checksum.finalize() | 1
}

/// The parts of a segment of format 1 as they are written in this one, with where they go; all
/// else is zero. `key` is the store's.
pub(crate) fn upgraded(old: &[u8], head: SegmentHead, key: u32) -> Vec<(usize, Vec<u8>)> {
    let segment_key = head.key(key);
    let blocks = head.blocks as usize;
    let mut parts = vec![(0, head.encode(0).to_vec())];
    let mut block = 0;
    while block < blocks {
        let entry = decode_entry_1(old, key, block);
        let at = blocks_at(blocks) + block * BLOCK_BYTES;
        let (count, entry) = match entry {
            Entry::Run(id) => {
                let class = class::get(id).filter(|class| block + class.run_blocks <= blocks);
                let places = class.map_or(0, |class| 2 * class.run_slots);
                let place_bytes = class.map_or(0, |class| class.place_bytes);
                for place in 0..places {
                    let at = at + place * place_bytes;
                    let place = &old[at..at + place_bytes];
                    parts.push((at, upgraded_place(place, key, place_key(segment_key, at))));
                }
                let count = class.map_or(1, |class| class.run_blocks);
                (count, encode_entry(segment_key, block, id))
            }
            Entry::Free => (1, free_entry(segment_key, block)),
            // All that can be found in it is found when it is read.
            Entry::Damaged => {
                for place in (at..at + BLOCK_BYTES).step_by(8) {
                    if let Some(record) =
                        record::rekeyed(&old[place..], key, || place_key(segment_key, place))
                    {
                        parts.push((place, record));
                    }
                }
                (1, [0; ENTRY_BYTES])
            }
        };
        for inside in block..block + count {
            let entry = if inside == block {
                entry
            } else {
                free_entry(segment_key, inside)
            };
            parts.push((entry_at(inside), entry.to_vec()));
        }
        block += count;
    }
    parts
}

/// A whole segment as format 1 has it, whose directory and records are sound.
#[cfg(test)]
pub(crate) fn downgraded(new: &[u8], key: u32) -> Vec<u8> {
    let (head, _) = SegmentHead::decode(new).expect("a sound head");
    let segment_key = head.key(key);
    let mut old = vec![0; new.len()];
    let mut bytes = head.encode(0);
    bytes[8..12].copy_from_slice(&FORMAT_1.to_le_bytes());
    bytes[GENERATION_AT..][..8].fill(0);
    let check = checksum(&bytes);
    bytes[12..16].copy_from_slice(&check.to_le_bytes());
    old[..HEAD_BYTES].copy_from_slice(&bytes);
    for block in 0..head.blocks as usize {
        let Entry::Run(id) = decode_entry(new, segment_key, block) else {
            continue;
        };
        old[entry_at(block)..][..ENTRY_BYTES].copy_from_slice(&encode_entry(key, block, id));
        let class = class::get(id).expect("a class");
        for place in 0..2 * class.run_slots {
            let at =
                blocks_at(head.blocks as usize) + block * BLOCK_BYTES + place * class.place_bytes;
            let place = &new[at..at + class.place_bytes];
            if let Some(record) = record::rekeyed(place, place_key(segment_key, at), || key) {
                old[at..at + record.len()].copy_from_slice(&record);
            }
        }
    }
    old
}

/// A place of format 1 as it is written in this one: what is damaged stays so.
fn upgraded_place(place: &[u8], key: u32, place_key: u32) -> Vec<u8> {
    if place[..record::EMPTY_BYTES] == [0; record::EMPTY_BYTES] {
        return record::empty_mark(place_key).to_vec();
    }
    record::rekeyed(place, key, || place_key).unwrap_or_else(|| place.to_vec())
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
        let bytes = HEAD.encode(7);
        assert_eq!(SegmentHead::decode(&bytes), Ok((HEAD, FORMAT)));
        assert_eq!(HEAD.generation(&bytes), Some(7));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            if (GENERATION_AT..GENERATION_AT + 8).contains(&(bit / 8)) {
                assert_eq!(HEAD.generation(&damaged), None);
            } else {
                assert_eq!(SegmentHead::decode(&damaged), Err(BadHead::Damaged));
            }
        }
        assert_eq!(SegmentHead::decode(&bytes[1..]), Err(BadHead::Damaged));
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut bytes = HEAD.encode(7);
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
        assert_eq!(decode_entry(&file, 1, 2), Entry::Damaged, "a lost page");
        assert_eq!(decode_entry_1(&file, 1, 2), Entry::Free);
        file[entry_at(2)..][..ENTRY_BYTES].copy_from_slice(&free_entry(1, 2));
        assert_eq!(decode_entry(&file, 1, 2), Entry::Free);
        assert_eq!(decode_entry(&file, 2, 2), Entry::Damaged);
        assert_eq!(decode_entry_1(&file, 1, 2), Entry::Damaged);
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
