//! The journal of one shard: a ring of segments, filled at its head and given up at its tail.

use std::collections::VecDeque;
use std::fmt;

use stentor_disk::Region;

use crate::Position;
use crate::commit::{Round, SyncError, Synced};
use crate::frame::{Known, frame_bytes};
use crate::head::{Id, Link};
use crate::segment::{Segment, WARM_BYTES, Warm, bytes_for};

/// Files of larger batches have a multiple of this many bytes.
const PAGE_BYTES: usize = 4096;

/// How large a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a segment: a multiple of 4,096, or of eight in tests; less than 4 GiB.
    pub segment_bytes: usize,
    /// Empty segments that the maintenance thread makes ahead, those of the reserve included.
    pub ahead: usize,
    /// Empty segments that are left when the state becomes [`Room::Low`].
    pub reserve: usize,
    /// Segments of the ring in all, full, empty and released.
    pub segments_max: usize,
}

/// Whether the owner may take on debts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There are more empty segments than the reserve.
    Plenty,
    /// Only what makes room may be appended: from the reserve, until the maintenance thread has
    /// made more.
    Low,
}

/// There is no room for a batch: more was appended than was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal has no room for this batch")]
pub struct Full;

/// What the maintenance thread has to do for a journal.
#[derive(Debug)]
pub enum Order<R: Region> {
    /// Make a segment of this many bytes: see [`Folder::fulfil`](crate::Folder::fulfil).
    Make(usize),
    /// Put a segment aside, to be used again.
    Recycle(Segment<R>),
    /// Remove a segment: the disk failed it.
    Remove(Segment<R>),
    /// Bring what will be written soon into memory.
    Warm(Warm<R::Flusher>),
}

/// How full a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Segments that count, the one that is written to included.
    pub used: usize,
    /// Empty segments.
    pub ready: usize,
    /// Segments that were released, and wait for a commit.
    pub released: usize,
    /// Bytes of those that count.
    pub used_bytes: usize,
    /// Bytes of those that were released.
    pub released_bytes: usize,
}

/// Where the commits stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    Idle,
    Running,
    /// The owner appends again what segments held that the disk failed to sync.
    Rewriting,
    /// It has done so, and a segment has to begin that names them.
    Naming,
}

/// A segment for a batch that is larger than a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    Asked(usize),
    Making(usize),
}

/// A segment that counts no longer, and is used again when the disk knows that.
#[derive(Debug)]
struct Released<R> {
    segment: Segment<R>,
    /// Where the journal ended then: a later commit covers a frame that says the new floor.
    at: Position,
}

/// The journal of one shard, in one generation.
///
/// Its owner is one thread. [`append`](Self::append), [`release_oldest`](Self::release_oldest) and
/// the ends of a commit neither wait nor call the system. What does is handed out as values, for
/// threads that may wait:
///
/// - [`next_order`](Self::next_order) gives the work of the maintenance thread. It answers with
///   [`supply`](Self::supply) or [`not_made`](Self::not_made).
/// - [`begin_commit`](Self::begin_commit) gives a [`Round`] to sync, whose result goes to
///   [`end_commit`](Self::end_commit).
pub struct Journal<R: Region> {
    id: Id,
    bounds: Bounds,
    /// Oldest first; the last one is written to.
    used: VecDeque<Segment<R>>,
    /// In the order of their numbers, which are above those of `used`.
    ready: VecDeque<Segment<R>>,
    released: VecDeque<Released<R>>,
    /// For the maintenance thread.
    orders: VecDeque<Order<R>>,
    /// Segments of the usual size that the maintenance thread makes now.
    making: usize,
    wish: Wish,
    known: Known,
    commit: Commit,
    /// The end of the last frame that is worth a commit.
    worth: Position,
    /// Segments that the disk failed to sync, and whose content the owner appends again now.
    failed: Vec<u32>,
    /// Those of the ring whose content has been appended again.
    given_up: Vec<u32>,
    written_bytes: u64,
}

impl<R: Region> fmt::Debug for Journal<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Journal");
        out.field("id", &self.id).field("usage", &self.usage());
        out.field("known", &self.known).finish_non_exhaustive()
    }
}

impl<R: Region> Journal<R> {
    /// An empty journal without room. [`Folder::journal`](crate::Folder::journal) makes one.
    ///
    /// # Panics
    /// If the bounds contradict each other.
    pub(crate) fn new(id: Id, bounds: Bounds) -> Self {
        bounds.check();
        Self {
            id,
            bounds,
            used: VecDeque::new(),
            ready: VecDeque::new(),
            released: VecDeque::new(),
            orders: VecDeque::new(),
            making: 0,
            wish: Wish::Nothing,
            known: Known {
                committed: Position::ORIGIN,
                floor: 0,
            },
            commit: Commit::Idle,
            worth: Position::ORIGIN,
            failed: Vec::new(),
            given_up: Vec::new(),
            written_bytes: 0,
        }
    }

    /// The number of the shard whose journal it is.
    #[must_use]
    pub fn shard(&self) -> u16 {
        self.id.shard
    }

    /// Sets the size of the ring; segments that there are keep theirs.
    ///
    /// # Panics
    /// If the bounds contradict each other.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        bounds.check();
        self.bounds = bounds;
    }

    /// Appends a batch, which is kept from now on when the process is killed: all of it. Copies
    /// the bytes once, in constant time beside that. An empty batch is not read back.
    ///
    /// # Errors
    /// [`Full`] if the batch is larger than [`largest`](Self::largest), and only then.
    pub fn append(&mut self, records: &[u8]) -> Result<Position, Full> {
        let bytes = frame_bytes(records.len());
        let has_room = self.used.back().is_some_and(|head| bytes <= head.room());
        if !has_room {
            self.advance(bytes)?;
        }
        let head = self.used.back_mut().ok_or(Full)?;
        let position = head.append(self.known, records);
        self.worth = head.end();
        self.written_bytes += bytes as u64;
        Ok(position)
    }

    /// Appends an empty frame, which says what is known. Without room, the next batch says it.
    fn append_note(&mut self) -> Option<Position> {
        let head = self.used.back_mut()?;
        let has_room = frame_bytes(0) <= head.room_for_notes();
        has_room.then(|| {
            head.append(self.known, &[]);
            head.end()
        })
    }

    /// The first empty segment may be used, and each larger one that has the reserve behind it:
    /// those before it are given back.
    fn is_in_reach(&self, index: usize) -> bool {
        index == 0 || self.ready.len() - 1 - index >= self.bounds.reserve
    }

    /// Goes on in the first empty segment in reach with room for a frame of this many bytes.
    /// Smaller ones before it are used again under later numbers.
    fn advance(&mut self, bytes: usize) -> Result<(), Full> {
        let bytes = bytes + self.link_bytes();
        let fits = |segment: &Segment<R>| bytes <= segment.room();
        let index = self.ready.iter().position(fits);
        let index = index.filter(|index| self.is_in_reach(*index)).ok_or(Full)?;
        let skipped = self.ready.drain(..index);
        self.orders.extend(skipped.map(Order::Recycle));
        let mut segment = self.ready.pop_front().ok_or(Full)?;
        if self.used.is_empty() {
            self.known.floor = segment.number();
        }
        let link = Link {
            id: self.id,
            previous: self.end(),
            given_up: self.given_up.clone(),
        };
        segment.append(self.known, &link.encode());
        self.used.push_back(segment);
        Ok(())
    }

    /// Goes on in an empty segment. The next batches have later positions than all before.
    ///
    /// # Errors
    /// [`Full`] if there is none.
    pub fn begin_segment(&mut self) -> Result<(), Full> {
        self.advance(0)
    }

    /// Bytes of the frame that begins the next segment.
    fn link_bytes(&self) -> usize {
        frame_bytes(Link::bytes(self.given_up.len()))
    }

    /// Where the next batch goes, unless that is in the next segment.
    #[must_use]
    pub fn end(&self) -> Position {
        self.used.back().map_or(Position::ORIGIN, Segment::end)
    }

    /// Whether debts may be taken on.
    #[must_use]
    pub fn room(&self) -> Room {
        match self.ready.len() > self.bounds.reserve {
            true => Room::Plenty,
            false => Room::Low,
        }
    }

    /// Bytes of the largest batch for which there is room. While there is [`Room::Plenty`], that
    /// is at least [`Bounds::batch_bytes`], unless segments were given up.
    #[must_use]
    pub fn largest(&self) -> usize {
        let link = self.link_bytes();
        let ready = self.ready.iter().enumerate();
        let ready = ready.filter(|(index, _)| self.is_in_reach(*index));
        let ready = ready.map(|(_, it)| it.room().saturating_sub(link));
        let head = self.used.back().map(Segment::room);
        let frame = ready.chain(head).max().unwrap_or(0);
        frame.saturating_sub(frame_bytes(0))
    }

    /// Asks for room for a batch of this many bytes: once, until a segment was made or could not be
    /// made. The room is there as soon as [`largest`](Self::largest) says so. In a ring that is
    /// full, that takes the release of a segment.
    ///
    /// A batch that does not fit into a usual segment gets a quarter more, since it may have grown
    /// by then.
    pub fn ask(&mut self, records: usize) {
        if records <= self.largest() {
            return;
        }
        let link = Link::bytes(self.given_up.len());
        let usual = self.bounds.segment_bytes;
        let bytes = match bytes_for(link, records) {
            bytes if bytes <= usual => usual,
            bytes => (bytes + bytes / 4).next_multiple_of(PAGE_BYTES),
        };
        match self.wish {
            Wish::Asked(asked) | Wish::Making(asked) if asked >= bytes => {}
            _ => self.wish = Wish::Asked(bytes),
        }
    }

    /// The next thing that the maintenance thread has to do; to be asked after what may have
    /// changed it.
    pub fn next_order(&mut self) -> Option<Order<R>> {
        if let Some(order) = self.orders.pop_front() {
            return Some(order);
        }
        if let Some(warm) = self.used.back_mut().and_then(Segment::warm) {
            return Some(Order::Warm(warm));
        }
        let in_all = self.used.len() + self.ready.len() + self.released.len();
        let making = self.making + usize::from(matches!(self.wish, Wish::Making(_)));
        if in_all + making >= self.bounds.segments_max {
            return None;
        }
        if let Wish::Asked(bytes) = self.wish {
            self.wish = Wish::Making(bytes);
            return Some(Order::Make(bytes));
        }
        // Using a larger segment skips those before it.
        let is_usual = |it: &&Segment<R>| it.bytes() <= self.bounds.segment_bytes;
        let ready = self.ready.iter().rev().take_while(is_usual).count();
        let is_lacking = ready + self.making < self.bounds.ahead;
        is_lacking.then(|| {
            self.making += 1;
            Order::Make(self.bounds.segment_bytes)
        })
    }

    /// Takes a segment that the maintenance thread has made.
    pub fn supply(&mut self, segment: Segment<R>) {
        self.note_answer(segment.bytes());
        let last = self.ready.back().or_else(|| self.used.back());
        match last.is_none_or(|last| last.number() < segment.number()) {
            true => self.ready.push_back(segment),
            // Positions have to grow.
            false => self.orders.push_back(Order::Recycle(segment)),
        }
        if self.commit == Commit::Naming {
            self.name_given_up();
        }
    }

    /// The maintenance thread could not make a segment of this many bytes. It is ordered again when
    /// [`next_order`](Self::next_order) is asked, which the owner puts off for a while.
    pub fn not_made(&mut self, bytes: usize) {
        self.note_answer(bytes);
    }

    fn note_answer(&mut self, bytes: usize) {
        match self.wish {
            Wish::Making(wished) if wished == bytes => self.wish = Wish::Nothing,
            _ => self.making = self.making.saturating_sub(1),
        }
    }

    /// Bytes that may be appended before the maintenance thread makes more segments, about.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        let head = self.used.back().map_or(0, Segment::room);
        head + self.ready.iter().map(Segment::room).sum::<usize>()
    }

    /// The number of the oldest segment that counts.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.used.front().map(Segment::number)
    }

    /// Bytes of all batches that were appended, since the journal was made.
    #[must_use]
    pub const fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// How full the ring is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            used: self.used.len(),
            ready: self.ready.len(),
            released: self.released.len(),
            used_bytes: self.used.iter().map(Segment::bytes).sum(),
            released_bytes: self.released.iter().map(|it| it.segment.bytes()).sum(),
        }
    }

    /// Gives the oldest segment up: nothing in it counts any longer, since the owner has appended
    /// again what did. Returns the number of the oldest one that is left. The last one is never
    /// given up.
    ///
    /// The segment is used again after the next commit, so that a power loss does not find the old
    /// content gone and the new one not there.
    pub fn release_oldest(&mut self) -> Option<u32> {
        let floor = self.used.get(1)?.number();
        let segment = self.used.pop_front()?;
        let at = self.end();
        self.known.floor = floor;
        self.released.push_back(Released { segment, at });
        if let Some(end) = self.append_note() {
            self.worth = end;
        }
        Some(floor)
    }

    /// Everything before this position is on the disk.
    #[must_use]
    pub fn committed(&self) -> Position {
        self.known.committed
    }

    /// Where the last batch ends. Notes of the journal itself may follow it.
    #[must_use]
    pub fn batches_end(&self) -> Position {
        self.worth
    }

    /// Whether the disk has all batches.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        self.worth <= self.known.committed
    }

    /// Begins a commit of all that was appended. `None` if there is nothing, another one is on its
    /// way, or the owner has not yet appended again what a failed one has lost.
    pub fn begin_commit(&mut self) -> Option<Round<R::Flusher>> {
        let has_news = self.worth > self.known.committed;
        (has_news && self.commit == Commit::Idle).then(|| self.begin())
    }

    /// Begins the last commit, which covers everything. Nothing is appended any more; the result
    /// goes to [`end_last_commit`](Self::end_last_commit). `None` as above.
    pub fn begin_last_commit(&mut self) -> Option<Round<R::Flusher>> {
        let has_news = self.end() > self.known.committed;
        (has_news && self.commit == Commit::Idle).then(|| self.begin())
    }

    fn begin(&mut self) -> Round<R::Flusher> {
        self.commit = Commit::Running;
        let has_news = |segment: &&Segment<R>| {
            segment.end() > self.known.committed && !self.given_up.contains(&segment.number())
        };
        // Those that were released too: perhaps no frame says so yet.
        let released = self.released.iter().map(|released| &released.segment);
        let news = released.chain(&self.used).filter(has_news);
        let head = self.used.back().map(|head| {
            let at = head.end().offset as usize;
            Warm::new(head.flusher(), at..at + WARM_BYTES)
        });
        Round {
            up_to: self.end(),
            segments: news.map(|it| (it.number(), it.flusher())).collect(),
            head,
        }
    }

    /// Takes the result of a commit. Returns the position before which everything is on the disk.
    ///
    /// # Errors
    /// When segments were not synced. They are given up: the owner appends again what is live in
    /// them and calls [`rewritten`](Self::rewritten). Until then, no commit begins.
    pub fn end_commit(&mut self, synced: Synced) -> Result<Position, SyncError> {
        debug_assert_eq!(self.commit, Commit::Running, "a commit ends once");
        if let Err(error) = synced.outcome {
            self.give_up(&error.segments);
            return Err(error);
        }
        self.commit = Commit::Idle;
        self.known.committed = synced.up_to;
        self.recycle_released();
        // It is not worth another commit.
        self.append_note();
        Ok(synced.up_to)
    }

    /// Takes the result of the last commit, and ends the journal. So the disk has every byte of it.
    ///
    /// # Errors
    /// When segments were not synced.
    pub fn end_last_commit(self, synced: Synced) -> Result<Position, SyncError> {
        synced.outcome.map(|()| synced.up_to)
    }

    /// What was live in the segments that were given up has been appended again. Commits go on
    /// when a segment names those; it begins now, or when the maintenance thread has made one.
    pub fn rewritten(&mut self) {
        if self.commit == Commit::Rewriting {
            self.commit = Commit::Naming;
            self.name_given_up();
        }
    }

    /// Begins a segment whose link names those that were given up. Without it, a later start would
    /// take the holes in them for the end of the journal.
    fn name_given_up(&mut self) {
        let before = self.given_up.len();
        self.given_up.append(&mut self.failed);
        if self.advance(0).is_ok() {
            self.commit = Commit::Idle;
            self.worth = self.end();
        } else {
            self.failed = self.given_up.split_off(before);
        }
    }

    fn give_up(&mut self, failed: &[u32]) {
        self.commit = Commit::Rewriting;
        let released = self.released.iter_mut().map(|it| &mut it.segment);
        for segment in released.chain(&mut self.used) {
            if failed.contains(&segment.number()) {
                segment.seal();
                self.failed.push(segment.number());
            }
        }
        // What is appended again lies in segments behind those.
        if let Some(head) = self.used.back_mut() {
            head.seal();
        }
    }

    /// Has those segments used again of which the disk knows that they do not count.
    fn recycle_released(&mut self) {
        let committed = self.known.committed;
        while let Some(released) = self.released.pop_front_if(|it| it.at < committed) {
            let segment = released.segment;
            let number = segment.number();
            let order = match self.given_up.contains(&number) {
                true => Order::Remove(segment),
                false => Order::Recycle(segment),
            };
            self.given_up.retain(|given_up| *given_up != number);
            self.orders.push_back(order);
        }
    }
}

impl Bounds {
    /// Bytes of the largest batch that fits into an empty segment.
    #[must_use]
    pub fn batch_bytes(&self) -> usize {
        let empty = bytes_for(Link::bytes(0), 0);
        self.segment_bytes.saturating_sub(empty)
    }

    fn check(&self) {
        assert!(
            self.segment_bytes.is_multiple_of(8) && self.batch_bytes() > 0,
            "a segment of {} bytes",
            self.segment_bytes
        );
        assert!(
            self.reserve < self.ahead && self.ahead < self.segments_max,
            "{} of {} segments ahead, {} of them as a reserve",
            self.ahead,
            self.segments_max,
            self.reserve
        );
    }
}
