//! What of a file is needed, and what may go.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::file::{FILE_BYTES, Place, UNIT};

/// What a disk gives back at a time: most file systems have such blocks.
const BLOCK: usize = 4096;

/// The chunks of a file that are needed, and what lies between them.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// How many chunks are needed.
    needed: u32,
    /// Bytes of the blocks that they touch; one that two of them touch counts twice.
    touched: u64,
    /// Freed parts, in units: where each begins, where it ends, and whether the disk has it back.
    holes: BTreeMap<usize, (usize, bool)>,
}

/// Bytes of the blocks that a part touches, and those of the ones that are whole in it.
fn blocks(part: &Range<usize>) -> (usize, usize) {
    let (from, to) = (part.start * UNIT, part.end * UNIT);
    let touched = to.div_ceil(BLOCK) - from / BLOCK;
    let whole = (to / BLOCK).saturating_sub(from.div_ceil(BLOCK));
    (touched * BLOCK, whole * BLOCK)
}

impl Extents {
    /// Of a file that was written before the start, with these chunks.
    pub(crate) fn of(mut places: Vec<Place>) -> Self {
        places.sort_unstable();
        let mut extents = Self::default();
        // The head takes one unit.
        let mut at = 1;
        for place in places {
            let part = place.units();
            if part.start > at {
                extents.holes.insert(at, (part.start, false));
            }
            at = at.max(part.end);
            extents.add(place);
        }
        if at < FILE_BYTES / UNIT {
            extents.holes.insert(at, (FILE_BYTES / UNIT, false));
        }
        extents
    }

    /// One more chunk is needed.
    pub(crate) fn add(&mut self, place: Place) {
        self.needed += 1;
        self.touched += blocks(&place.units()).0 as u64;
    }

    /// Nothing more is written to the file, whose last chunk ends there, in units.
    pub(crate) fn close(&mut self, end: usize) {
        if end < FILE_BYTES / UNIT {
            self.make_hole(end..FILE_BYTES / UNIT);
        }
    }

    /// A chunk is not needed any more. O(log chunks).
    pub(crate) fn free(&mut self, place: Place) {
        let part = place.units();
        self.needed = self.needed.saturating_sub(1);
        let touched = blocks(&part).0 as u64;
        self.touched = self.touched.saturating_sub(touched);
        self.make_hole(part);
    }

    fn make_hole(&mut self, mut part: Range<usize>) {
        if let Some((from, (to, _))) = self.holes.range(..part.start).next_back()
            && *to == part.start
        {
            part.start = *from;
        }
        if let Some((to, _)) = self.holes.remove(&part.end) {
            part.end = to;
        }
        self.holes.insert(part.start, (part.end, false));
    }

    /// Whether no chunk is needed.
    pub(crate) const fn is_empty(&self) -> bool {
        self.needed == 0
    }

    /// Bytes that the file takes when its holes are given back.
    pub(crate) fn bytes(&self) -> u64 {
        (BLOCK as u64 + self.touched).min(FILE_BYTES as u64)
    }

    /// The holes that can be given back, in bytes, each once: see [`Extents::was_given`].
    pub(crate) fn holes(&self) -> Vec<Range<usize>> {
        let left = self.holes.iter().filter(|(_, (_, is_given))| !is_given);
        left.map(|(from, (to, _))| *from..*to)
            .filter(|part| blocks(part).1 > 0)
            .map(|part| part.start * UNIT..part.end * UNIT)
            .collect()
    }

    /// The disk has one of [`Extents::holes`] back.
    pub(crate) fn was_given(&mut self, hole: &Range<usize>) {
        if let Some((_, is_given)) = self.holes.get_mut(&(hole.start / UNIT)) {
            *is_given = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn place(at: u16, len: u16) -> Place {
        Place {
            file: NonZeroU32::MIN,
            at,
            len,
        }
    }

    /// Blocks have 64 units.
    #[test]
    fn holes_grow_together_and_are_given_back_once() {
        let mut extents = Extents::default();
        let chunks = [place(1, 100), place(101, 100), place(201, 100)];
        chunks.iter().for_each(|chunk| extents.add(*chunk));
        assert_eq!(extents.bytes(), (1 + 2 + 3 + 2) * 4096);
        extents.close(301);
        let holes = |extents: &Extents| {
            let all = extents.holes().into_iter();
            all.map(|hole| (hole.start, hole.end)).collect::<Vec<_>>()
        };
        assert_eq!(holes(&extents), [(301 * 64, FILE_BYTES)]);
        extents.was_given(&(301 * 64..FILE_BYTES));
        assert_eq!(holes(&extents), []);
        extents.free(chunks[0]);
        assert_eq!(
            extents.holes(),
            [],
            "it is smaller than a block behind the head"
        );
        extents.free(chunks[1]);
        assert_eq!(holes(&extents), [(64, 201 * 64)]);
        extents.was_given(&(64..201 * 64));
        assert_eq!((holes(&extents), extents.is_empty()), (vec![], false));
        extents.free(chunks[2]);
        assert_eq!(holes(&extents), [(64, FILE_BYTES)]);
        assert!(extents.is_empty() && extents.bytes() == 4096);
    }

    #[test]
    fn after_a_start_all_between_the_chunks_is_free() {
        let extents = Extents::of(vec![place(500, 10), place(200, 300)]);
        let holes = [64..200 * 64, 510 * 64..FILE_BYTES];
        assert_eq!(extents.holes(), holes);
        assert_eq!(extents.bytes(), (1 + 5 + 1) * 4096);
    }
}
