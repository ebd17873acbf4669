//! A file of chunks.
//!
//! It has a head, and then frames: a checksum, the length of the chunk, the chunk, and zeros up to
//! a multiple of [`UNIT`]. Numbers are little-endian.

use std::io;
use std::num::NonZeroU32;
use std::ops::Range;

use stentor_disk::{Disk, Flusher, Region};

/// Bytes of the unit of [`Place`]. Frames begin at multiples of it.
pub const UNIT: usize = 64;
/// Bytes of a file.
pub(crate) const FILE_BYTES: usize = 4 << 20;
/// Bytes of a chunk, at most.
pub(crate) const CHUNK_BYTES_MAX: usize = 1 << 20;
const FRAME_HEAD: usize = 8;
const MAGIC: &[u8; 8] = b"STENTORB";
const FORMAT: u32 = 1;
const SUFFIX: &str = ".spool";

/// Where a chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The number of the file. None is used twice, but for one whose chunks were all freed.
    pub file: NonZeroU32,
    /// Where its frame begins, in units of 64 bytes.
    pub at: u16,
    /// How long that is, in the same unit.
    pub len: u16,
}

impl Place {
    /// Where it lies, in units.
    pub(crate) fn units(self) -> Range<usize> {
        let from = usize::from(self.at);
        from..from + usize::from(self.len)
    }

    fn range(self) -> Range<usize> {
        let units = self.units();
        units.start * UNIT..units.end * UNIT
    }
}

pub(crate) fn file_name(number: NonZeroU32) -> String {
    format!("{number:08}{SUFFIX}")
}

pub(crate) fn parse_file_name(name: &str) -> Option<NonZeroU32> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// A file that is written.
pub(crate) struct Current<R> {
    pub(crate) number: NonZeroU32,
    region: R,
    /// Where the next frame begins, in units.
    next: usize,
}

impl<R: Region> Current<R> {
    /// Makes a file. The disk has room for all of it from now on.
    pub(crate) fn make<D: Disk<Region = R>>(disk: &D, number: NonZeroU32) -> io::Result<Self> {
        let name = file_name(number);
        let mut region = disk.grow(&name, FILE_BYTES)?;
        let mut head = [0; UNIT];
        head[..8].copy_from_slice(MAGIC);
        head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        head[12..16].copy_from_slice(&number.get().to_le_bytes());
        region.write(0, &head);
        disk.sync_names()?;
        Ok(Self {
            number,
            region,
            next: 1,
        })
    }

    /// Adds a chunk; `None` if there is no room left for it.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Option<Place> {
        let units = (FRAME_HEAD + chunk.len()).div_ceil(UNIT);
        if self.next + units > FILE_BYTES / UNIT {
            return None;
        }
        let place = Place {
            file: self.number,
            at: u16::try_from(self.next).ok()?,
            len: u16::try_from(units).ok()?,
        };
        let at = self.next * UNIT;
        // The bound of a chunk makes it fit.
        let len = chunk.len() as u32;
        let mut head = [0; FRAME_HEAD];
        head[..4].copy_from_slice(&checksum(place, chunk).to_le_bytes());
        head[4..].copy_from_slice(&len.to_le_bytes());
        self.region.write(at, &head);
        self.region.write(at + FRAME_HEAD, chunk);
        self.next += units;
        Some(place)
    }

    /// Where the next chunk begins, in units.
    pub(crate) const fn end(&self) -> usize {
        self.next
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        self.region.flusher().flush()
    }
}

/// Where it is counts, so that no chunk passes for another one.
fn checksum(place: Place, chunk: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&place.file.get().to_le_bytes());
    checksum.update(&place.at.to_le_bytes());
    checksum.update(&(chunk.len() as u32).to_le_bytes());
    checksum.update(chunk);
    checksum.finalize()
}

/// Reads a chunk of a file; `None` if it is not there, or damaged.
///
/// # Errors
/// When the disk fails.
pub(crate) fn read<R: Region>(region: &R, place: Place) -> io::Result<Option<Vec<u8>>> {
    let range = place.range();
    if region.bytes().len() < range.end || range.is_empty() {
        return Ok(None);
    }
    region.flusher().load(range.clone(), false)?;
    let frame = region.bytes().get(range).unwrap_or_default();
    let word = |at: usize| {
        let bytes = frame.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let (Some(known), Some(len)) = (word(0), word(4)) else {
        return Ok(None);
    };
    let chunk = frame.get(FRAME_HEAD..FRAME_HEAD + len as usize);
    let chunk = chunk.filter(|chunk| checksum(place, chunk) == known);
    Ok(chunk.map(<[u8]>::to_vec))
}
