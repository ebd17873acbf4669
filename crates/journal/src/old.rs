//! A journal of an earlier generation: what is whole in it, in order, and what is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use stentor_disk::{Flusher, Region};

use crate::Position;
use crate::frame::{ALIGN, FileKey, Found, HEADER_BYTES, Known, look};
use crate::head::{HEAD_BYTES, Id, Link};

/// Whether the disk was given everything that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    Kept,
    Lost,
}

/// A file of an old journal, which nobody writes.
#[derive(Debug)]
pub(crate) struct OldSegment<R> {
    pub(crate) number: u32,
    pub(crate) key: FileKey,
    pub(crate) region: R,
    /// Its first frame, if that is whole.
    pub(crate) link: Option<Link>,
    /// As in [`Head::before`](crate::head::Head::before).
    pub(crate) before: u32,
}

impl<R: Region> OldSegment<R> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.region.bytes()
    }

    /// Whether anything was appended to it, as far as it tells. A power loss may have left the old
    /// beginning.
    pub(crate) fn is_used(&self, power: Power) -> bool {
        let first = look(self.key, self.bytes(), HEAD_BYTES);
        match (first, power) {
            (Found::Mark, Power::Kept) => false,
            (Found::Mark, Power::Lost) => self.find_frame(HEAD_BYTES, self.bytes().len()).is_some(),
            (Found::Frame(_) | Found::Nothing, _) => true,
        }
    }

    /// The first frame behind a place: where it begins. It takes time in proportion to the bytes
    /// that are searched.
    fn find_frame(&self, behind: usize, end: usize) -> Option<usize> {
        let mut places = (behind + ALIGN..end).step_by(ALIGN);
        let is_frame = |at: &usize| matches!(look(self.key, self.bytes(), *at), Found::Frame(_));
        places.find(is_frame)
    }

    fn position(&self, offset: usize) -> Position {
        // A segment has less than 4 GiB.
        Position {
            file: self.number,
            offset: offset as u32,
        }
    }
}

/// A batch of an old journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Where it was first written.
    pub position: Position,
    /// What was appended, byte for byte.
    pub records: &'a [u8],
}

/// A part of a journal that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where it begins.
    pub from: Position,
    /// Bytes that were skipped: of what was there, or, at the end of a journal, of what may have
    /// been there. `u64::MAX` for a file that is missing and of which nobody knows the bytes.
    pub bytes: u64,
    /// What it means.
    pub kind: GapKind,
}

/// What a missing part means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// What was promised is lost. What follows is read.
    Damage,
    /// The disk had failed to sync it, and what was live in it follows. Nothing is lost.
    GivenUp,
    /// The power failed before the disk had it. It was not promised by a commit, and the journal
    /// ends here.
    Unpromised,
}

/// What an old journal holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What is missing, in order.
    pub gaps: Vec<Gap>,
    /// The oldest file that counts.
    pub floor: u32,
    /// Behind the last batch.
    pub end: Position,
    extents: Vec<Extent>,
}

/// Frames without a gap, within a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// The index of the segment.
    segment: usize,
    from: Position,
    /// Behind the last frame.
    to: Position,
    /// What the last frame knows, which is the most.
    known: Known,
}

#[derive(Clone, Copy, Debug)]
enum Item {
    Extent(Extent),
    /// Bytes of a file that are none of a frame.
    Hole(Position, u64),
    /// A file in which the journal had this many bytes.
    NoFile(Position, u64),
}

/// A journal of an earlier generation. Reading never changes it.
#[derive(Debug)]
pub struct OldJournal<R> {
    id: Id,
    power: Power,
    /// By number.
    segments: Vec<OldSegment<R>>,
    /// Files that were made for it and are not there, though nothing was appended behind them:
    /// nobody knows whether they held anything. By number.
    missing: Vec<u32>,
}

impl<R: Region> OldJournal<R> {
    /// With segments and missing ones in the order of their numbers.
    pub(crate) fn new(
        id: Id,
        power: Power,
        segments: Vec<OldSegment<R>>,
        missing: Vec<u32>,
    ) -> Self {
        Self {
            id,
            power,
            segments,
            missing,
        }
    }

    /// Whether it holds nothing, and lacks nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.missing.is_empty()
    }

    pub(crate) fn into_segments(self) -> impl Iterator<Item = OldSegment<R>> {
        self.segments.into_iter()
    }

    /// Which start of the server wrote it.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.id.generation
    }

    /// The number of the shard that wrote it, of those there were then.
    #[must_use]
    pub fn shard(&self) -> u16 {
        self.id.shard
    }

    /// Its files, and their bytes.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        let bytes = self.segments.iter().map(|it| it.bytes().len() as u64);
        (self.segments.len(), bytes.sum())
    }

    /// Whether the machine may have lost power before the disk had all of it.
    #[must_use]
    pub fn has_lost_power(&self) -> bool {
        self.power == Power::Lost
    }

    /// What stands where the records of the first batch in a gap were. Some of its bytes are not
    /// what was written, and others may follow it. Nothing if a file is missing, or the gap begins
    /// with the link.
    #[must_use]
    pub fn remains(&self, gap: &Gap) -> &[u8] {
        if gap.from.offset as usize <= HEAD_BYTES {
            return &[];
        }
        let segment = self.segments.iter().find(|it| it.number == gap.from.file);
        let from = gap.from.offset as usize;
        let to = usize::try_from(gap.bytes).map_or(usize::MAX, |bytes| from.saturating_add(bytes));
        let file = segment.map_or(&[][..], OldSegment::bytes);
        let part = file.get(from..to.min(file.len())).unwrap_or_default();
        part.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Brings everything to the disk: after a kill, the system may not have written it yet.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn sync(&self) -> io::Result<()> {
        let mut synced = self.segments.iter().map(|it| it.region.flusher().flush());
        synced.try_for_each(|result| result)
    }

    /// Checks everything. It reads all files once, in proportion to their bytes, and keeps none of
    /// it.
    #[must_use]
    pub fn survey(&self) -> Survey {
        self.judge(&self.items())
    }

    /// The batches that are whole and count, in the order in which they were appended.
    pub fn batches<'a>(&'a self, survey: &'a Survey) -> impl Iterator<Item = Batch<'a>> {
        survey.extents.iter().flat_map(move |extent| {
            let segment = &self.segments[extent.segment];
            let mut at = extent.from.offset as usize;
            std::iter::from_fn(move || {
                if at >= extent.to.offset as usize {
                    return None;
                }
                let Found::Frame(frame) = look(segment.key, segment.bytes(), at) else {
                    return None;
                };
                let position = segment.position(at);
                at += frame.bytes();
                let records = frame.records;
                Some(Batch { position, records })
            })
            .filter(|it| !it.records.is_empty() && it.position.offset as usize != HEAD_BYTES)
        })
    }

    /// Everything in order: frames, and where some are missing.
    fn items(&self) -> Vec<Item> {
        let links = self.segments.iter().filter_map(|it| it.link.as_ref());
        let ends: BTreeMap<u32, usize> = links
            .map(|link| (link.previous.file, link.previous.offset as usize))
            .collect();
        let (mut items, mut last_file) = (Vec::new(), 0);
        for (index, segment) in self.segments.iter().enumerate() {
            let previous = segment.link.as_ref().map(|link| link.previous);
            if let Some(previous) = previous.filter(|previous| previous.file > last_file) {
                let from = Position {
                    file: previous.file,
                    offset: 0,
                };
                items.push(Item::NoFile(from, u64::from(previous.offset)));
            }
            self.walk(index, ends.get(&segment.number).copied(), &mut items);
            last_file = segment.number;
        }
        let missing = self.missing.iter().filter(|number| **number > last_file);
        items.extend(missing.map(|number| {
            let from = Position {
                file: *number,
                offset: 0,
            };
            Item::NoFile(from, u64::MAX)
        }));
        items
    }

    /// Everything in a segment. Its end is known if the journal went on in another one.
    fn walk(&self, index: usize, known_end: Option<usize>, items: &mut Vec<Item>) {
        let segment = &self.segments[index];
        let end = known_end.unwrap_or_else(|| segment.bytes().len());
        let mut at = HEAD_BYTES;
        while at < end {
            let found = self.extent(index, at, end);
            if let Some(extent) = found {
                at = extent.to.offset as usize;
                items.push(Item::Extent(extent));
                continue;
            }
            let is_marked = look(segment.key, segment.bytes(), at) == Found::Mark;
            if is_marked && known_end.is_none() && self.power == Power::Kept {
                return;
            }
            let next = segment.find_frame(at, end.min(segment.bytes().len()));
            if next.is_none() && is_marked && known_end.is_none() {
                return;
            }
            let next = next.unwrap_or(end);
            items.push(Item::Hole(segment.position(at), (next - at) as u64));
            at = next;
        }
    }

    /// The frames from a place on, up to the first thing that is none.
    fn extent(&self, index: usize, from: usize, end: usize) -> Option<Extent> {
        let segment = &self.segments[index];
        let (mut at, mut last) = (from, None);
        while at < end
            && let Found::Frame(frame) = look(segment.key, segment.bytes(), at)
        {
            at += frame.bytes();
            last = Some(frame.known);
        }
        last.map(|known| Extent {
            segment: index,
            from: segment.position(from),
            to: segment.position(at),
            known,
        })
    }

    /// What counts, and what the holes mean.
    fn judge(&self, items: &[Item]) -> Survey {
        let judge = Judge::new(&self.segments, self.power, items);
        let (mut gaps, mut extents) = (Vec::new(), Vec::<Extent>::new());
        for item in items {
            let (from, bytes, kind) = match *item {
                Item::Extent(extent) => {
                    extents.push(extent);
                    continue;
                }
                Item::Hole(from, bytes) => (from, bytes, judge.of_hole(from)),
                // A file that was used is on the disk, until the disk knows the floor above it.
                Item::NoFile(from, bytes) => (from, bytes, judge.of_promised(from)),
            };
            gaps.push(Gap { from, bytes, kind });
            if kind == GapKind::Unpromised {
                break;
            }
        }
        let last = extents.last();
        let floor = last.map_or(0, |extent| extent.known.floor);
        let end = last.map_or(Position::ORIGIN, |extent| extent.to);
        gaps.retain(|gap| gap.from.file >= floor);
        extents.retain(|extent| extent.from.file >= floor);
        Survey {
            gaps,
            floor,
            end,
            extents,
        }
    }
}

/// What all frames together say about what may be missing.
struct Judge {
    power: Power,
    /// A commit promised everything before this.
    committed: Position,
    /// Segments that were given up, by the segment that names them.
    given_up: BTreeMap<u32, BTreeSet<u32>>,
    /// Files in which something is missing.
    incomplete: BTreeSet<u32>,
}

impl Judge {
    fn new<R>(segments: &[OldSegment<R>], power: Power, items: &[Item]) -> Self {
        let committed = items.iter().filter_map(|item| match item {
            Item::Extent(extent) => Some(extent.known.committed),
            Item::Hole(..) | Item::NoFile(..) => None,
        });
        let incomplete = items.iter().filter_map(|item| match item {
            Item::Hole(from, _) | Item::NoFile(from, _) => Some(from.file),
            Item::Extent(_) => None,
        });
        let named = segments.iter().filter_map(|it| {
            let link = it.link.as_ref()?;
            Some((it.number, link.given_up.iter().copied().collect()))
        });
        Self {
            power,
            committed: committed.max().unwrap_or(Position::ORIGIN),
            given_up: named.collect(),
            incomplete: incomplete.collect(),
        }
    }

    /// After a power loss, the journal ends at the first hole that no commit promised. What follows
    /// may lack what it builds on. It does not if what was live in the file is there again.
    fn of_hole(&self, from: Position) -> GapKind {
        let is_promised = self.power == Power::Kept || from < self.committed;
        match is_promised || self.is_rewritten(from.file) {
            true => self.of_promised(from),
            false => GapKind::Unpromised,
        }
    }

    fn of_promised(&self, from: Position) -> GapKind {
        match self
            .given_up
            .values()
            .any(|named| named.contains(&from.file))
        {
            true => GapKind::GivenUp,
            false => GapKind::Damage,
        }
    }

    /// Whether a file was given up, and all is there that was appended until another one named it.
    fn is_rewritten(&self, file: u32) -> bool {
        self.given_up.iter().any(|(by, named)| {
            let between = file + 1..*by;
            *by > file
                && named.contains(&file)
                && self
                    .incomplete
                    .range(between)
                    .all(|other| named.contains(other))
        })
    }
}
