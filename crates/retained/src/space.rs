//! The slots of a stripe: which are free, and what lies in them.

mod run;
mod segment;

use crate::class::{self, BLOCK_BYTES, Class, ClassId};
use crate::layout;
use crate::record::{self, Damaged, EMPTY_BYTES, Head, Record, empty_mark};
use stentor_disk::Region;

pub(crate) use segment::Segment;

/// Segments of one stripe: what [`Place`] can number.
pub(crate) const SEGMENTS_MAX: usize = 1 << 16;

/// Records of up to this many bytes are put together before they are written.
const TOGETHER_BYTES_MAX: usize = 512;

/// A slot: two places of its class's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    /// Position among the segments of the stripe.
    pub(crate) segment: u16,
    /// The first block of its run; below 2^24.
    pub(crate) block: u32,
    /// Position in the run.
    pub(crate) index: u8,
}

/// One of the two places of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    /// The second one instead of the first.
    pub(crate) second: bool,
}

impl Place {
    /// The other place of the slot.
    pub(crate) const fn spare(self) -> Self {
        Self {
            second: !self.second,
            ..self
        }
    }
}

/// The segments of a stripe and what is free in them.
#[derive(Debug)]
pub(crate) struct Space<R> {
    /// By position; a removed segment leaves a gap that the next one fills.
    segments: Vec<Option<Segment<R>>>,
    /// Runs with a free slot, by class.
    partial: Vec<Vec<RunId>>,
    /// Blocks were taken since this was last asked.
    has_carved: bool,
    /// Where short records are put together, so that no put has to clear room for that.
    together: Box<[u8]>,
}

/// A run, by its segment and first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunId {
    segment: u16,
    block: u32,
}

impl<R: Region> Space<R> {
    /// No segments.
    pub(crate) fn new() -> Self {
        let partial = vec![Vec::new(); class::count()];
        Self {
            segments: Vec::new(),
            partial,
            has_carved: false,
            together: vec![0; TOGETHER_BYTES_MAX].into(),
        }
    }

    /// Whether blocks were taken since this was last asked.
    pub(crate) fn take_carved(&mut self) -> bool {
        std::mem::take(&mut self.has_carved)
    }

    /// Takes no more slots from a segment, so that it can be emptied.
    pub(crate) fn retire(&mut self, position: u16) {
        let Some(segment) = self.segment_mut(position) else {
            return;
        };
        segment.retire();
        let listed: Vec<u32> = segment
            .runs()
            .filter(|(_, run)| !run.is_full())
            .map(|(block, _)| block)
            .collect();
        for block in listed {
            // Positions change as runs leave the lists.
            let run = self
                .segment(position)
                .and_then(|segment| segment.run(block));
            if let Some((class, at)) = run.map(|run| (run.class, run.position)) {
                self.unlist(class, at);
            }
        }
        // Nothing is freed in a run that a kill has left without anything in it.
        if let Some(segment) = self.segment_mut(position) {
            segment.free_unused_runs();
        }
    }

    /// Adds a segment; its position, or the segment itself if there are too many.
    pub(crate) fn attach(&mut self, segment: Segment<R>) -> Result<u16, Segment<R>> {
        let gap = self.segments.iter().position(Option::is_none);
        let position = gap.unwrap_or(self.segments.len());
        if position >= SEGMENTS_MAX {
            return Err(segment);
        }
        if gap.is_none() {
            self.segments.push(None);
        }
        self.segments[position] = Some(segment);
        // Below `SEGMENTS_MAX`.
        Ok(position as u16)
    }

    /// The segments with their positions.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u16, &Segment<R>)> {
        // At most `SEGMENTS_MAX`.
        let numbered = (0..=u16::MAX).zip(&self.segments);
        numbered.filter_map(|(position, segment)| Some((position, segment.as_ref()?)))
    }

    /// The segments with their positions, to be changed.
    pub(crate) fn segments_mut(&mut self) -> impl Iterator<Item = (u16, &mut Segment<R>)> {
        let numbered = (0..=u16::MAX).zip(&mut self.segments);
        numbered.filter_map(|(position, segment)| Some((position, segment.as_mut()?)))
    }

    pub(crate) fn segment(&self, position: u16) -> Option<&Segment<R>> {
        self.segments.get(usize::from(position))?.as_ref()
    }

    pub(crate) fn segment_mut(&mut self, position: u16) -> Option<&mut Segment<R>> {
        self.segments.get_mut(usize::from(position))?.as_mut()
    }

    /// Takes an empty segment out.
    pub(crate) fn detach(&mut self, position: u16) -> Option<Segment<R>> {
        let segment = self.segments.get_mut(usize::from(position))?;
        debug_assert!(segment.as_ref().is_none_or(Segment::is_unused));
        segment.take()
    }

    /// Blocks that belong to no run, in segments that may be used.
    pub(crate) fn free_blocks(&self) -> usize {
        self.segments()
            .map(|(_, segment)| segment.free_blocks())
            .sum()
    }

    /// Blocks of all segments.
    pub(crate) fn blocks(&self) -> usize {
        self.segments().map(|(_, segment)| segment.blocks()).sum()
    }

    /// Blocks of as few runs as hold what lies in all segments.
    pub(crate) fn packed_blocks(&self) -> usize {
        let runs = self.segments().flat_map(|(_, segment)| segment.runs());
        segment::packed_blocks(runs.map(|(_, run)| run))
    }

    /// Takes a free slot of a class; `None` if the stripe has to grow.
    pub(crate) fn take(&mut self, id: ClassId, class: &Class) -> Option<Slot> {
        let partial = self.partial.get(usize::from(id.0))?;
        let run = match partial.last() {
            Some(run) => *run,
            None => self.carve(id, class)?,
        };
        let RunId { segment, block } = run;
        let taken = self.segment_mut(segment)?.run_mut(block)?.take();
        let Some((index, is_full)) = taken else {
            debug_assert!(false, "a run without free slots is not listed");
            return None;
        };
        if is_full {
            self.partial[usize::from(id.0)].pop();
        }
        Some(Slot {
            segment,
            block,
            index,
        })
    }

    /// Makes a new run of a class, empty in the file before the directory says that it is there.
    fn carve(&mut self, id: ClassId, class: &Class) -> Option<RunId> {
        let numbered = (0..=u16::MAX).zip(&mut self.segments);
        let mut usable = numbered.filter_map(|(position, segment)| {
            let segment = segment.as_mut().filter(|segment| !segment.is_retired())?;
            let block = segment.find_blocks(class.run_blocks)?;
            Some((position, block, segment))
        });
        let (position, block, segment) = usable.next()?;
        let key = segment.key();
        for index in 0..class.run_slots {
            for at in [0, class.place_bytes] {
                let at = segment.block_at(block) + index * class.slot_bytes() + at;
                segment.write(at, &empty_mark(layout::place_key(key, at)));
            }
        }
        let entry = layout::encode_entry(key, block as usize, id);
        segment.write(layout::entry_at(block as usize), &entry);
        segment.add_run(block, id, class);
        let run = RunId {
            segment: position,
            block,
        };
        self.has_carved = true;
        self.list(run, id);
        Some(run)
    }

    fn list(&mut self, id: RunId, class: ClassId) {
        let partial = &mut self.partial[usize::from(class.0)];
        let position = partial.len();
        partial.push(id);
        if let Some(run) = self
            .segment_mut(id.segment)
            .and_then(|segment| segment.run_mut(id.block))
        {
            run.position = position;
        }
    }

    fn unlist(&mut self, class: ClassId, position: usize) {
        let partial = &mut self.partial[usize::from(class.0)];
        if position >= partial.len() {
            debug_assert!(false, "a listed run knows its position");
            return;
        }
        partial.swap_remove(position);
        if let Some(moved) = partial.get(position).copied()
            && let Some(run) = self
                .segment_mut(moved.segment)
                .and_then(|segment| segment.run_mut(moved.block))
        {
            run.position = position;
        }
    }

    /// Empties a slot and frees it; the last one of a run frees its blocks.
    pub(crate) fn free(&mut self, slot: Slot) {
        let place = Place {
            slot,
            second: false,
        };
        // A kill between the two leaves the newer one of an unfinished clear, or nothing.
        self.wipe(place);
        self.wipe(place.spare());
        let Some(segment) = self.segment_mut(slot.segment) else {
            return;
        };
        let Some(run) = segment.run_mut(slot.block) else {
            debug_assert!(false, "a slot lies in a run");
            return;
        };
        let (class, position) = (run.class, run.position);
        let was_full = run.is_full();
        run.give_back(slot.index);
        let is_unused = run.is_unused();
        let is_retired = segment.is_retired();
        let id = RunId {
            segment: slot.segment,
            block: slot.block,
        };
        if !is_unused {
            if was_full && !is_retired {
                self.list(id, class);
            }
            return;
        }
        segment.free_run(slot.block);
        if !was_full && !is_retired {
            self.unlist(class, position);
        }
    }

    /// Takes note of a run that the directory of a segment reports; whether it can be there.
    pub(crate) fn restore_run(&mut self, position: u16, block: u32, id: ClassId) -> bool {
        let Some(class) = class::get(id) else {
            return false;
        };
        let run = RunId {
            segment: position,
            block,
        };
        let has_room = self.segment_mut(position).is_some_and(|segment| {
            let has_room = segment.has_room(block, class.run_blocks);
            if has_room {
                segment.add_run(block, id, class);
            }
            has_room
        });
        if has_room {
            self.list(run, id);
        }
        has_room
    }

    /// Takes note that a slot of a restored run is in use.
    pub(crate) fn restore_slot(&mut self, slot: Slot) {
        let Some(run) = self
            .segment_mut(slot.segment)
            .and_then(|segment| segment.run_mut(slot.block))
        else {
            return;
        };
        let (class, position) = (run.class, run.position);
        if run.take_that(slot.index) && run.is_full() {
            self.unlist(class, position);
        }
    }

    /// Bytes of each of the two places of a slot.
    pub(crate) fn place_bytes(&self, slot: Slot) -> Option<usize> {
        self.segment(slot.segment)?.place_bytes(slot.block)
    }

    /// Where a place lies in its segment: from, to.
    fn range(&self, place: Place) -> Option<(&Segment<R>, usize, usize)> {
        let segment = self.segment(place.slot.segment)?;
        let place_bytes = segment.place_bytes(place.slot.block)?;
        let before = 2 * usize::from(place.slot.index) + usize::from(place.second);
        let at = segment.block_at(place.slot.block) + before * place_bytes;
        Some((segment, at, at + place_bytes))
    }

    /// Where a place lies in its file, in bytes.
    pub(crate) fn offset(&self, place: Place) -> u64 {
        self.range(place).map_or(0, |(_, from, _)| from as u64)
    }

    /// What has to be in memory to read a place without waiting.
    pub(crate) fn part(&self, place: Place) -> Option<(&Segment<R>, std::ops::Range<usize>)> {
        let (segment, from, to) = self.range(place)?;
        Some((segment, from..to))
    }

    /// The bytes of a place.
    pub(crate) fn bytes(&self, place: Place) -> &[u8] {
        self.keyed(place).0
    }

    /// The bytes of a place, and its key.
    pub(crate) fn keyed(&self, place: Place) -> (&[u8], u32) {
        let Some((segment, from, to)) = self.range(place) else {
            return (&[], 0);
        };
        let bytes = segment.bytes().get(from..to).unwrap_or_default();
        (bytes, layout::place_key(segment.key(), from))
    }

    /// Says that the record in a place will be read or written soon.
    #[inline]
    pub(crate) fn expect(&self, place: Place) {
        /// More of a long record comes by itself, as it is passed over from front to back.
        const BYTES: usize = 256;
        if let Some((segment, from, to)) = self.range(place) {
            segment.expect(from..to.min(from + BYTES));
        }
    }

    /// The head of the record in a place; `None` if it is empty.
    pub(crate) fn head(&self, place: Place) -> Result<Option<Head>, Damaged> {
        let (bytes, key) = self.keyed(place);
        Head::read(bytes, key)
    }

    /// The record in a place; `None` if it is empty.
    pub(crate) fn read(&self, place: Place) -> Result<Option<Record<'_>>, Damaged> {
        let (bytes, key) = self.keyed(place);
        record::read(bytes, key)
    }

    /// Writes a record, which has to fit. Killed in between, it leaves an empty place.
    pub(crate) fn write(&mut self, place: Place, record: &Record<'_>) {
        let Some((segment, at, end)) = self.range(place) else {
            debug_assert!(false, "a place lies in a segment");
            return;
        };
        let key = layout::place_key(segment.key(), at);
        debug_assert!(at + record.encoded_len() <= end, "the record fits");
        let segments = &mut self.segments;
        let Some(Some(segment)) = segments.get_mut(usize::from(place.slot.segment)) else {
            return;
        };
        let head;
        // A short record is put together first: its parts are copied and summed up faster.
        let (first, rest) = if let Some(whole) = record.encode(key, &mut self.together) {
            let (first, rest) = whole.split_at(EMPTY_BYTES);
            (first, [rest, &[], &[], &[]])
        } else {
            head = record.encode_head(key);
            let (first, rest) = head.bytes().split_at(EMPTY_BYTES);
            let topic = record.topic.as_bytes();
            (first, [rest, topic, record.properties, record.payload])
        };
        segment.write(at, &empty_mark(key));
        let mut behind = at + EMPTY_BYTES;
        for part in rest.into_iter().filter(|part| !part.is_empty()) {
            segment.write(behind, part);
            behind += part.len();
        }
        segment.write(at, first);
    }

    /// Copies the whole record of one place to an empty one; whether there is one.
    pub(crate) fn copy(&mut self, from: Place, to: Place) -> bool {
        let (bytes, key) = self.keyed(from);
        let bytes = bytes.to_vec();
        let Ok(Some(record)) = record::read(&bytes, key) else {
            return false;
        };
        self.write(to, &record);
        true
    }

    /// Copies what is not a record from one place to another of its size; there it is none either.
    pub(crate) fn transplant(&mut self, from: Place, to: Place) {
        /// What says nothing, and is not a page that the disk never got.
        const UNKNOWN: u8 = 0xFF;
        let mut bytes = self.bytes(from).to_vec();
        if bytes.iter().all(|byte| *byte == 0) {
            bytes.fill(UNKNOWN);
        }
        let Some((_, at, end)) = self.range(to) else {
            return;
        };
        bytes.truncate(end - at);
        if let Some(segment) = self.segment_mut(to.slot.segment) {
            segment.write(at, &bytes);
        }
    }

    /// The class of the run that a slot lies in.
    pub(crate) fn class_of(&self, slot: Slot) -> Option<(ClassId, &'static Class)> {
        let id = self.segment(slot.segment)?.run(slot.block)?.class;
        Some((id, class::get(id)?))
    }

    /// Empties a place.
    pub(crate) fn wipe(&mut self, place: Place) {
        let (bytes, key) = self.keyed(place);
        let mark = empty_mark(key);
        if bytes.get(..EMPTY_BYTES) == Some(&mark) {
            return;
        }
        if let Some((_, at, _)) = self.range(place)
            && let Some(segment) = self.segment_mut(place.slot.segment)
        {
            segment.write(at, &mark);
        }
    }

    /// The slots of a segment that are in use.
    pub(crate) fn slots_in_use(&self, position: u16) -> Vec<Slot> {
        let segment = self.segment(position);
        let runs = segment.into_iter().flat_map(Segment::runs);
        runs.flat_map(|(block, run)| {
            run.in_use().map(move |index| Slot {
                segment: position,
                block,
                index,
            })
        })
        .collect()
    }

    /// Bytes that live slots take.
    pub(crate) fn bytes_in_use(&self) -> u64 {
        let live = self.segments().map(|(_, segment)| segment.live_bytes());
        live.sum::<usize>() as u64
    }

    /// Bytes of all segments' files.
    pub(crate) fn file_bytes(&self) -> u64 {
        let files = self.segments().map(|(_, segment)| segment.bytes().len());
        files.sum::<usize>() as u64
    }

    /// Bytes of the blocks that belong to runs.
    pub(crate) fn run_bytes(&self) -> u64 {
        ((self.blocks() - self.free_blocks()) * BLOCK_BYTES) as u64
    }
}
