//! Lists of everything that the shards have: made by one walk at a time, kept for two seconds and
//! shared by all who ask (`docs/decisions/0108-a-list-is-kept-for-two-seconds.md` has the reasons).
//!
//! A shard copies what it has into rows, 256 places in a turn. Choosing, sorting and dividing into
//! pages happen on the threads that ask.

mod census;
mod cursor;
mod filters;
mod first;
mod rows;
mod selection;
mod shelf;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stentor_hub::{Holder, Part, ZoneFigures};

pub(crate) use census::{Census, SESSIONS_MAX, sessions};
pub(crate) use cursor::{Cursor, Place};
pub(crate) use filters::{FilterRows, each_part};
pub(crate) use rows::{Origin, Rows, Seen};
pub(crate) use selection::{Selection, away_secs};
pub(crate) use shelf::{Age, Kept, Shelf};

use crate::context::ServerContext;
use crate::shard::Survey;
use crate::telemetry::collect::survey_while;

/// What all kept lists may take, in bytes.
const BYTES_MAX: usize = 64 << 20;

/// Which part of `limits.memory` they may take, if that is less.
const PART: u64 = 8;

/// Older surveys that are kept for those who page in them, beside the newest.
const OLDER_MAX: usize = 4;

/// For how long one of them is kept after its last page.
const PAGED_TIME: Duration = Duration::from_secs(60);

/// Why rows are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    /// There are more than [`SESSIONS_MAX`].
    Sessions,
    /// They would take more bytes than this.
    Bytes(usize),
}

/// The sessions, or why they are not kept.
pub(crate) type Counted = Result<Census, TooMany>;

/// The lists that are kept.
pub(crate) struct Surveys {
    clients: Shelf<Counted>,
    filters: Shelf<Result<FilterRows, TooMany>>,
    /// Those that hold most memory.
    pub(crate) holders: Shelf<Vec<Holder>>,
    /// What there is of each zone, by number.
    pub(crate) zones: Shelf<BTreeMap<u32, ZoneFigures>>,
    /// Surveys that somebody pages in, the newest among them perhaps, by their last use.
    paged: Mutex<Vec<Paged>>,
    /// What walks that are under way take: over sessions, and over filters.
    building: [AtomicUsize; 2],
    numbers: AtomicU64,
}

impl Default for Surveys {
    fn default() -> Self {
        Self {
            clients: Shelf::default(),
            filters: Shelf::default(),
            holders: Shelf::default(),
            zones: Shelf::default(),
            paged: Mutex::default(),
            building: Default::default(),
            // Numbers of an earlier process mean nothing, or they would lead into other lists.
            numbers: AtomicU64::new(RandomState::new().hash_one(())),
        }
    }
}

/// A survey of which a page was told that is not the last.
struct Paged {
    counted: Arc<Counted>,
    used: Instant,
    /// Whether somebody has come back for another page. Most look at the first one alone.
    has_come_back: bool,
}

/// Where a shard puts the rows of a step.
type Answer<T> = Sender<Part<Box<T>>>;

/// Walks over what all shards have, and hands over what each step has found, as long as it is
/// wanted. The rows of a step go to a shard with room, come back full, and go to a shard again when
/// `take` has emptied them. Returns whether all shards have answered.
fn each_step<T>(
    context: &ServerContext,
    with_room: fn() -> T,
    question: fn(Box<T>, Answer<T>) -> Survey,
    mut take: impl FnMut(&mut T) -> ControlFlow<()>,
) -> bool {
    let spare: RefCell<Vec<Box<T>>> = RefCell::default();
    let empty = || spare.borrow_mut().pop();
    let lend = |answer| question(empty().unwrap_or_else(|| Box::new(with_room())), answer);
    survey_while(context, lend, |mut rows: Box<T>| {
        let goes_on = take(&mut rows);
        spare.borrow_mut().push(rows);
        goes_on
    })
}

fn bytes_of(counted: &Counted) -> usize {
    counted.as_ref().map_or(0, Census::bytes)
}

/// Gives one survey up: the one that was used least lately, of those to which nobody has come back,
/// if there are any. Returns whether there was one.
fn drop_least(paged: &mut Vec<Paged>) -> bool {
    let place = |it: &Paged| (it.has_come_back, it.used);
    let least = (0..paged.len()).min_by_key(|at| place(&paged[*at]));
    least.map(|at| paged.remove(at)).is_some()
}

impl Surveys {
    /// All sessions.
    pub(crate) fn clients(&self, context: &ServerContext, age: Age) -> Kept<Counted> {
        self.clients.get(age, || {
            // It gives way to the next one. A reader that pages in it keeps it.
            drop(self.clients.take());
            census::walk(context)
        })
    }

    /// All subscribed filters.
    pub(crate) fn filters(
        &self,
        context: &ServerContext,
        age: Age,
    ) -> Kept<Result<FilterRows, TooMany>> {
        self.filters.get(age, || {
            drop(self.filters.take());
            filters::walk(context)
        })
    }

    /// Something was changed by a verb: whoever asks from now on sees it.
    pub(crate) fn outdate(&self) {
        self.clients.outdate();
        self.filters.outdate();
        self.holders.outdate();
        self.zones.outdate();
    }

    /// Somebody is given a cursor of this survey.
    pub(crate) fn page_in(&self, counted: &Arc<Counted>) {
        let mut paged = self.paged();
        let before = paged
            .iter()
            .position(|it| Arc::ptr_eq(&it.counted, counted));
        let before = before.map(|place| paged.remove(place));
        if paged.len() > OLDER_MAX {
            drop_least(&mut paged);
        }
        paged.push(Paged {
            counted: Arc::clone(counted),
            used: Instant::now(),
            has_come_back: before.is_some_and(|it| it.has_come_back),
        });
    }

    /// The survey that a cursor names, if it is still kept.
    pub(crate) fn numbered(&self, number: u64) -> Option<Arc<Counted>> {
        self.drop_old();
        let mut paged = self.paged();
        let has = |counted: &Counted| counted.as_ref().is_ok_and(|it| it.number == number);
        let found = paged.iter_mut().find(|it| has(&it.counted))?;
        (found.used, found.has_come_back) = (Instant::now(), true);
        Some(Arc::clone(&found.counted))
    }

    /// Gives up what nobody uses any more.
    pub(crate) fn drop_old(&self) {
        drop(self.clients.take_old());
        drop(self.filters.take_old());
        drop(self.holders.take_old());
        drop(self.zones.take_old());
        self.paged().retain(|it| it.used.elapsed() <= PAGED_TIME);
    }

    /// What all of it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // One lock at a time.
        let (newest, filters) = (self.clients.newest(), self.filters.newest());
        let paged = self.paged();
        let is_newest = |counted| newest.as_ref().is_some_and(|it| Arc::ptr_eq(it, counted));
        let older = paged.iter().filter(|it| !is_newest(&it.counted));
        let filters = filters.as_deref().and_then(|it| it.as_ref().ok());
        let building = self.building.iter().map(|it| it.load(Ordering::Relaxed));
        newest.as_deref().map_or(0, bytes_of)
            + older.map(|it| bytes_of(&it.counted)).sum::<usize>()
            + filters.map_or(0, FilterRows::bytes)
            + building.sum::<usize>()
    }

    /// What it may take.
    pub(crate) fn bytes_max(context: &ServerContext) -> usize {
        let part = context.ledger.budget() / PART;
        usize::try_from(part).unwrap_or(usize::MAX).min(BYTES_MAX)
    }

    fn has_room_for_clients(&self, context: &ServerContext, bytes: usize) -> bool {
        self.building[0].store(bytes, Ordering::Relaxed);
        self.has_room(Self::bytes_max(context))
    }

    fn has_room_for_filters(&self, context: &ServerContext, bytes: usize) -> bool {
        self.building[1].store(bytes, Ordering::Relaxed);
        self.has_room(Self::bytes_max(context))
    }

    /// Whether all of it fits, once other surveys have made room: first those that were used least
    /// lately.
    fn has_room(&self, bytes_max: usize) -> bool {
        while self.bytes() > bytes_max {
            if !self.drop_one() {
                return false;
            }
        }
        true
    }

    /// Gives one survey up. Returns whether there was one.
    fn drop_one(&self) -> bool {
        let is_dropped = drop_least(&mut self.paged());
        is_dropped || self.filters.take().is_some() || self.clients.take().is_some()
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A list is changed in one step.
    fn paged(&self) -> MutexGuard<'_, Vec<Paged>> {
        self.paged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
