//! Salvage: finding records where nothing says how the blocks are divided.

use std::ops::Range;
use std::sync::Arc;

use crate::class::{self, BLOCK_BYTES, Class};
use crate::damage::{DamageReport, Outcome};
use crate::layout;
use crate::record::{self, Record};

/// A whole record that does not stay where it was found.
pub(crate) struct Salvaged {
    /// Where it was found: the file's name, and the place in it.
    file: Arc<str>,
    at: usize,
    /// Of that place.
    key: u32,
    bytes: Box<[u8]>,
}

impl Salvaged {
    /// The record.
    pub(crate) fn record(&self) -> Option<Record<'_>> {
        record::read(&self.bytes, self.key).ok().flatten()
    }

    /// Tells what became of it.
    pub(crate) fn report(&self, outcome: Outcome) -> DamageReport {
        let record = self.record();
        DamageReport {
            file: self.file.to_string(),
            offset: self.at as u64,
            topic: record.map(|record| (record.zone, record.topic.to_owned())),
            outcome,
        }
    }
}

/// A place that was found: where it begins, and whether with a record; else it is empty.
#[derive(Clone, Copy, Debug)]
struct FoundPlace {
    at: usize,
    has_record: bool,
}

/// What was found in a part of a file of which nothing says how it is divided.
#[derive(Default)]
pub(crate) struct Search {
    pub(crate) salvaged: Vec<Salvaged>,
    /// In their order.
    places: Vec<FoundPlace>,
}

/// The whole records that begin in a part of the bytes of a segment's file; `key` is the
/// segment's.
pub(crate) fn salvage(name: &str, file: &[u8], part: Range<usize>, key: u32) -> Search {
    let name: Arc<str> = name.into();
    let mut found = Search::default();
    search(file, part, key, |at, len| {
        let has_record = len > 0;
        found.places.push(FoundPlace { at, has_record });
        if has_record {
            found.salvaged.push(Salvaged {
                file: Arc::clone(&name),
                at,
                key: layout::place_key(key, at),
                bytes: file[at..at + len].into(),
            });
        }
    });
    found
}

/// Calls `found` with the place and the length of every whole record that begins in a part of a
/// segment's file, and with the place and 0 for every empty place; `key` is the segment's.
pub(super) fn search(
    file: &[u8],
    part: Range<usize>,
    key: u32,
    mut found: impl FnMut(usize, usize),
) {
    let mut at = part.start;
    while at < part.end {
        let place_key = layout::place_key(key, at);
        // Every place begins at a multiple of eight.
        at += match record::read(&file[at..], place_key) {
            Ok(Some(record)) => {
                let len = record.encoded_len();
                found(at, len);
                len.next_multiple_of(8)
            }
            Ok(None) => {
                found(at, 0);
                8
            }
            Err(_) => 8,
        };
    }
}

/// Blocks of a segment's file, the first of which has a damaged entry; up to a run, or to the end.
pub(super) struct Stretch<'a> {
    pub(super) file: &'a [u8],
    /// The segment's.
    pub(super) key: u32,
    pub(super) blocks: Range<usize>,
    /// After a power loss, zeros are what the disk never got.
    pub(super) lost_power: bool,
}

impl Stretch<'_> {
    fn block_at(&self, block: usize) -> usize {
        let blocks = layout::blocks_of(self.file.len()).unwrap_or(0);
        layout::blocks_at(blocks) + block * BLOCK_BYTES
    }

    /// Where in the file the blocks lie.
    pub(super) fn part(&self) -> Range<usize> {
        self.block_at(self.blocks.start)..self.block_at(self.blocks.end)
    }

    /// Where something may be lost: the first blocks of each part that is not all accounted for by
    /// what was `found`.
    ///
    /// A block that was ever used lies in a run, all of whose places are whole, or else its entry
    /// says that it is free. Blocks are used from the first one on: zeros at the end of a file were
    /// never used. But where these and their entry, too, are zeros to begin with, the disk has lost
    /// both.
    pub(super) fn lost(&self, found: &Search) -> Vec<usize> {
        let used_until = self.used_until();
        let mut lost = Vec::new();
        let mut is_told = false;
        let mut block = self.blocks.start;
        while block < self.blocks.end {
            if block >= used_until && !self.begins_with_zeros(block) {
                break;
            }
            let run_blocks = match self.is_free(block) {
                true => None,
                false => self.run_at(block, &found.places),
            };
            if let Some(run_blocks) = run_blocks {
                block += run_blocks;
                is_told = false;
                continue;
            }
            if !self.is_free(block) && !is_told {
                lost.push(block);
                is_told = true;
            }
            block += 1;
        }
        lost
    }

    /// The block behind the last one that was used, as far as it shows.
    fn used_until(&self) -> usize {
        if layout::blocks_of(self.file.len()) != Some(self.blocks.end) {
            // There is a run behind it.
            return self.blocks.end;
        }
        let is_used = |block: &usize| {
            let at = self.block_at(*block);
            !is_blank(&self.file[at..at + BLOCK_BYTES])
        };
        self.blocks
            .clone()
            .rev()
            .find(is_used)
            .map_or(self.blocks.start, |block| block + 1)
    }

    /// Whether a block is the first one, and there is nothing but zeros in its entry.
    fn begins_with_zeros(&self, block: usize) -> bool {
        block == self.blocks.start && layout::is_blank_entry(self.file, block)
    }

    /// Whether a block is free for sure, or inside of a run that begins before it.
    fn is_free(&self, block: usize) -> bool {
        layout::decode_entry(self.file, self.key, block) == layout::Entry::Free
            || self.lost_power && layout::is_blank_entry(self.file, block)
    }

    /// The blocks of the run that begins at a block, if there is one of whose places none is
    /// missing.
    fn run_at(&self, block: usize, places: &[FoundPlace]) -> Option<usize> {
        let room = self.blocks.end - block;
        let from = self.block_at(block);
        let classes = class::all().iter().filter(|class| class.run_blocks <= room);
        let mut whole = classes.filter(|class| is_whole(class, from, places));
        whole.next().map(|class| class.run_blocks)
    }
}

/// Whether all places of a run were found, and no record beside them. Marks of empty places may be
/// left over from an earlier use of the blocks; but where there is nothing else, they have to be
/// this run's alone.
fn is_whole(class: &Class, from: usize, places: &[FoundPlace]) -> bool {
    let end = from + class.run_blocks * BLOCK_BYTES;
    let first = places.partition_point(|place| place.at < from);
    let inside = places[first..].iter().take_while(|place| place.at < end);
    let (mut next, mut left) = (from, 2 * class.run_slots);
    let (mut has_record, mut has_others) = (false, false);
    for place in inside {
        if left > 0 && place.at == next {
            next += class.place_bytes;
            left -= 1;
            has_record |= place.has_record;
        } else if place.has_record || left > 0 && place.at > next {
            return false;
        } else {
            has_others = true;
        }
    }
    left == 0 && (has_record || !has_others)
}

/// Whether there is nothing but zeros.
pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
