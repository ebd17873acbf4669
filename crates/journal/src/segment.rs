//! A file of the ring while it is filled.

use std::io;
use std::ops::Range;

use stentor_disk::{Flusher, Region};

use crate::Position;
use crate::frame::{ALIGN, FileKey, HEADER_BYTES, Known, MARK_BYTES, frame_bytes, header};
use crate::head::{HEAD_BYTES, Head};

/// Bytes of a segment that no batch takes: so that two empty frames, with a floor and with a
/// commit, find room in a ring that is full.
const NOTES_BYTES: usize = 2 * HEADER_BYTES;

/// Bytes behind the end of what is written that are brought into memory ahead.
pub(crate) const WARM_BYTES: usize = 256 << 10;

/// A file that was made ahead: its whole length is allocated and written.
///
/// The maintenance thread of the files makes it, a [`Journal`](crate::Journal) fills it.
#[derive(Debug)]
pub struct Segment<R> {
    region: R,
    key: FileKey,
    number: u32,
    /// Where the next frame goes.
    end: usize,
    /// What stands behind this is not used.
    limit: usize,
    /// Up to here it is in memory, or was asked for.
    warm: usize,
}

/// Bytes of a file that is to hold a link and a batch of these lengths.
pub(crate) fn bytes_for(link: usize, records: usize) -> usize {
    HEAD_BYTES + frame_bytes(link) + frame_bytes(records) + NOTES_BYTES + MARK_BYTES
}

impl<R: Region> Segment<R> {
    /// Makes a file an empty segment: nothing that it held before is valid any longer. The mark
    /// goes first, so a file whose head has this number begins with the mark or a frame.
    pub(crate) fn begin(mut region: R, head: &Head) -> Self {
        let key = FileKey::new(head.secret, head.number);
        region.write(HEAD_BYTES, &key.mark(HEAD_BYTES));
        region.write(0, &head.encode());
        Self {
            key,
            number: head.number,
            end: HEAD_BYTES,
            limit: region.bytes().len(),
            warm: 0,
            region,
        }
    }

    /// The number of the file.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes().len()
    }

    /// Where the next frame goes.
    pub(crate) fn end(&self) -> Position {
        // A segment has less than 4 GiB.
        Position {
            file: self.number,
            offset: self.end as u32,
        }
    }

    /// Bytes that the frame of a batch may take.
    pub(crate) fn room(&self) -> usize {
        self.room_for_notes().saturating_sub(NOTES_BYTES)
    }

    /// Bytes that an empty frame may take.
    pub(crate) fn room_for_notes(&self) -> usize {
        self.limit.saturating_sub(self.end + MARK_BYTES)
    }

    /// Appends a frame, for which there is room. Until the first eight bytes of the frame are
    /// written, the mark is in their place; so a process that is killed leaves all of the
    /// frame or none of it.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn append(&mut self, known: Known, records: &[u8]) -> Position {
        let bytes = frame_bytes(records.len());
        assert!(bytes <= self.room_for_notes(), "room was not granted");
        let (position, at) = (self.end(), self.end);
        let header = header(self.key, at, known, records);
        let next = at + bytes;
        self.region.write(next, &self.key.mark(next));
        self.region.write(at + HEADER_BYTES, records);
        self.region.write(at + ALIGN, &header[ALIGN..]);
        self.region.write(at, &header[..ALIGN]);
        self.end = next;
        position
    }

    /// Nothing more is appended.
    pub(crate) fn seal(&mut self) {
        self.limit = self.end;
    }

    pub(crate) fn flusher(&self) -> R::Flusher {
        self.region.flusher()
    }

    pub(crate) fn into_region(self) -> R {
        self.region
    }

    /// The part to be brought into memory, if what is written comes near its end.
    pub(crate) fn warm(&mut self) -> Option<Warm<R::Flusher>> {
        let is_near = self.end + WARM_BYTES / 2 > self.warm;
        if !is_near || self.warm >= self.limit {
            return None;
        }
        let from = self.warm.max(self.end);
        self.warm = self.limit.min(self.end + WARM_BYTES);
        Some(Warm {
            flusher: self.region.flusher(),
            part: from..self.warm,
        })
    }
}

/// A part of a segment that will be written soon.
#[derive(Debug)]
pub struct Warm<F> {
    flusher: F,
    part: Range<usize>,
}

impl<F: Flusher> Warm<F> {
    pub(crate) fn new(flusher: F, part: Range<usize>) -> Self {
        Self { flusher, part }
    }

    /// Waits until writing there waits for nothing.
    ///
    /// # Errors
    /// When the disk cannot give it.
    pub fn load(self) -> io::Result<()> {
        self.flusher.load(self.part, true)
    }
}
