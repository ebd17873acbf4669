//! A batch as bytes: a frame that is valid in one place of one file only.

use crate::Position;

/// Bytes before the records of a frame.
pub(crate) const HEADER_BYTES: usize = 24;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// Bytes of the mark that stands behind the last frame.
pub(crate) const MARK_BYTES: usize = 8;

/// What keys the checksums of a file: its number and the secret of the folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileKey(u64);

impl FileKey {
    pub(crate) fn new(secret: u64, file: u32) -> Self {
        Self(mix(
            secret ^ u64::from(file).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ))
    }

    /// The keys of the header and of the records of a frame at this offset.
    fn place(self, offset: usize) -> (u32, u32) {
        let key = mix(self.0 ^ offset as u64);
        (key as u32, (key >> 32) as u32)
    }

    /// What stands at this offset if the next frame will be there.
    pub(crate) fn mark(self, offset: usize) -> [u8; MARK_BYTES] {
        mix(self.0 ^ offset as u64 ^ 0xE0E0_0000_0000_0000).to_le_bytes()
    }
}

/// The finalizer of SplitMix64: each bit of the input changes half of the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What the journal knew when a frame was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The disk had everything before this position.
    pub(crate) committed: Position,
    /// The oldest file that counts.
    pub(crate) floor: u32,
}

/// A frame that checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) known: Known,
    pub(crate) records: &'a [u8],
}

impl Frame<'_> {
    /// Bytes that the frame takes in the file.
    pub(crate) fn bytes(&self) -> usize {
        frame_bytes(self.records.len())
    }
}

/// What stands at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    Frame(Frame<'a>),
    /// The next frame would be here.
    Mark,
    /// Neither: never written, torn, lost or damaged.
    Nothing,
}

/// Bytes that records of this length take in a file; a multiple of [`ALIGN`].
pub(crate) fn frame_bytes(records: usize) -> usize {
    (HEADER_BYTES + records).next_multiple_of(ALIGN)
}

/// The header of a frame. Its first eight bytes make the frame valid, so they are written last.
pub(crate) fn header(
    key: FileKey,
    offset: usize,
    known: Known,
    records: &[u8],
) -> [u8; HEADER_BYTES] {
    let (head_key, records_key) = key.place(offset);
    let mut bytes = [0; HEADER_BYTES];
    // A segment has less than 4 GiB.
    bytes[4..8].copy_from_slice(&(records.len() as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&known.committed.to_bytes());
    bytes[16..20].copy_from_slice(&known.floor.to_le_bytes());
    bytes[20..].copy_from_slice(&checksum(records_key, records).to_le_bytes());
    let check = checksum(head_key, &bytes[4..]);
    bytes[..4].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Looks at one place of a file. Only a frame whose header checks is read any further, so a look
/// at another place costs some nanoseconds, whatever a payload there pretends to be.
pub(crate) fn look(key: FileKey, file: &[u8], offset: usize) -> Found<'_> {
    let Some(rest) = file.get(offset..) else {
        return Found::Nothing;
    };
    let Some((header, rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
        return mark_or_nothing(key, rest, offset);
    };
    let (head_key, records_key) = key.place(offset);
    if word(header, 0) != checksum(head_key, &header[4..]) {
        return mark_or_nothing(key, header, offset);
    }
    let records = rest.get(..word(header, 4) as usize);
    match records.filter(|records| word(header, 20) == checksum(records_key, records)) {
        Some(records) => Found::Frame(Frame {
            known: Known {
                committed: Position {
                    file: word(header, 8),
                    offset: word(header, 12),
                },
                floor: word(header, 16),
            },
            records,
        }),
        None => Found::Nothing,
    }
}

fn mark_or_nothing(key: FileKey, bytes: &[u8], offset: usize) -> Found<'static> {
    match bytes.starts_with(&key.mark(offset)) {
        true => Found::Mark,
        false => Found::Nothing,
    }
}

fn checksum(key: u32, bytes: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new_with_initial(key);
    checksum.update(bytes);
    checksum.finalize()
}

/// Four bytes of a header.
///
/// # Panics
/// If they are not there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Known = Known {
        committed: Position {
            file: 3,
            offset: 96,
        },
        floor: 2,
    };

    fn file_with(key: FileKey, offset: usize, records: &[u8]) -> Vec<u8> {
        let mut file = vec![0xAA; offset];
        file.extend(header(key, offset, KNOWN, records));
        file.extend(records);
        file.resize(offset + frame_bytes(records.len()), 0xBB);
        file.extend(key.mark(file.len()));
        file
    }

    #[test]
    fn a_frame_is_read_back_and_every_flipped_bit_shows() {
        let key = FileKey::new(7, 3);
        let records = b"twelve bytes";
        let file = file_with(key, 96, records);
        let frame = Frame {
            known: KNOWN,
            records,
        };
        assert_eq!(look(key, &file, 96), Found::Frame(frame));
        assert_eq!(look(key, &file, 96 + frame.bytes()), Found::Mark);
        for bit in 96 * 8..(96 + HEADER_BYTES + records.len()) * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(look(key, &damaged, 96), Found::Nothing, "bit {bit}");
        }
        assert_eq!(look(key, &file[..130], 96), Found::Nothing);
        assert_eq!(look(key, &file, file.len() + 8), Found::Nothing);
    }

    #[test]
    fn a_frame_counts_in_its_place_only() {
        let key = FileKey::new(7, 3);
        let file = file_with(key, 96, b"x");
        for other in [FileKey::new(7, 4), FileKey::new(8, 3)] {
            assert_eq!(look(other, &file, 96), Found::Nothing);
            assert_eq!(look(other, &file, 128), Found::Nothing);
        }
        assert_eq!(look(key, &file[8..], 88), Found::Nothing);
        assert_eq!(look(key, &file[8..], 120), Found::Nothing);
    }
}
