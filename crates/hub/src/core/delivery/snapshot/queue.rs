//! The snapshots of one session that wait for their turn.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use hashbrown::HashMap;
use stentor_session::Tick;
use stentor_topic::FilterId;

use super::ahead::Ahead;
use super::{SNAPSHOT_END, Wanted};
use crate::core::delivery::conflate::HeldBack;
use crate::core::history::{HISTORY_END, HistoryAsk};
use crate::core::retained::{Cursor, Mark};
use crate::core::routing::options::Options;
use crate::core::sessions::registry::{Link, Session};

/// Visits without a message that nothing is owed for, each time that a session has snapshots
/// again: those of one filter that matches nothing, and more.
const VAIN_VISITS_FREE: u32 = 512;
/// What the topics up to which walks have come may hold before one walk is ended first.
const CURSOR_BYTES_MAX: usize = 64 * 1024;

/// What is left to send of the retained messages for one subscription.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) id: FilterId,
    pub(super) filter: Box<str>,
    pub(super) options: Options,
    /// What was put until then has been looked at; `Mark(0)` for nothing.
    pub(super) after: Mark,
    pub(super) mark: Mark,
    /// What the session had lost when the walk began.
    pub(super) lost: Lost,
    pub(super) progress: Progress,
    /// Whether stored messages are still wanted.
    pub(super) sends: bool,
    pub(super) marks_end: bool,
    /// Which messages of histories are wanted.
    pub(super) history: Option<HistoryAsk>,
    /// What has to come live first.
    pub(super) ahead: Option<Ahead>,
    /// How often its next step was asked for.
    pub(super) fetches: u16,
}

impl Snapshot {
    /// Whether a message tells its end.
    pub(super) const fn has_end(&self) -> bool {
        self.marks_end || self.history.is_some()
    }

    /// The user property of that message.
    pub(super) const fn end_name(&self) -> &'static str {
        match self.history {
            Some(_) => HISTORY_END,
            None => SNAPSHOT_END,
        }
    }

    /// Bytes of the topic up to which it has come.
    fn cursor_bytes(&self) -> usize {
        match &self.progress {
            Progress::Recalling(cursor) | Progress::Walking(cursor) => {
                cursor.after.as_ref().map_or(0, |after| after.len())
            }
            Progress::Walked(_) => 0,
        }
    }
}

/// How far a snapshot has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// There may be more in histories; the last messages of other topics follow.
    Recalling(Cursor),
    /// There may be more in the store.
    Walking(Cursor),
    /// All is on its way, or held back up to there; what follows it is not yet.
    Walked([u64; 2]),
}

impl Progress {
    /// At the beginning of the store.
    pub(super) fn begin(history: Option<HistoryAsk>) -> Self {
        match history {
            Some(_) => Self::Recalling(Cursor::default()),
            None => Self::Walking(Cursor::default()),
        }
    }
}

/// How often a session has lost messages while it had snapshots. What is above a snapshot's mark
/// comes live, unless it is lost on the way: then it is read from the store after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// Messages that would have come live.
    pub(super) live: u64,
    /// Messages that had been queued, and may have been stored ones.
    pub(super) queued: u64,
}

/// The snapshots of one session, which take turns: one for each subscription at most.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// The session whose turn it is. An entry whose ticket is not that of its snapshot stands for
    /// nothing.
    turns: VecDeque<(FilterId, u64)>,
    by_filter: HashMap<FilterId, (u64, Snapshot), foldhash::fast::FixedState>,
    tickets: u64,
    pub(super) lost: Lost,
    /// Until then the store is fetching what is next.
    pub(super) idle_until: Tick,
    /// Bytes of the filters, and of the topics up to which walks have come.
    filter_bytes: usize,
    cursor_bytes: usize,
    /// Whether the session is in the shard's list of those that go on in a later turn.
    pub(super) is_listed: bool,
    /// Visits without a message that were not charged.
    granted: u32,
}

impl Snapshots {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_filter.is_empty()
    }

    /// Whether stored messages of this subscription are still to be sent.
    pub(crate) fn are_due(session: &Session, id: FilterId) -> bool {
        let snapshots = match &session.link {
            Link::Live(_) => session.snapshots(),
            Link::Away(away) => away.snapshots.as_deref(),
        };
        snapshots.is_some_and(|snapshots| snapshots.by_filter.contains_key(&id))
    }

    /// Adds one that begins, behind what has to come live first.
    pub(crate) fn add(&mut self, wanted: &Wanted<'_>, ahead: Option<Ahead>) {
        let Wanted {
            id,
            filter,
            has_wildcard: _,
            options,
            mark,
            sends,
            marks_end,
            history,
        } = *wanted;
        let lost = self.lost;
        self.push(Snapshot {
            id,
            filter: filter.into(),
            options,
            after: Mark(0),
            mark,
            lost,
            progress: match sends {
                true => Progress::begin(history),
                false => Progress::Walked([0; 2]),
            },
            sends,
            marks_end,
            history,
            ahead,
            fetches: 0,
        });
    }

    /// Bytes of memory that they hold. O(1).
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.by_filter.capacity() * size_of::<(FilterId, (u64, Snapshot))>();
        let turns = self.turns.capacity() * size_of::<(FilterId, u64)>();
        size_of::<Self>() + entries + turns + self.filter_bytes + self.cursor_bytes
    }

    /// Adds one at the end; one for the same subscription begins again. While the walks that have
    /// begun hold many bytes, one of them goes on until it is over.
    pub(super) fn push(&mut self, snapshot: Snapshot) {
        /// Empty turns that are not worth a sweep.
        const SLACK: usize = 16;
        self.cancel(snapshot.id);
        self.tickets += 1;
        let turn = (snapshot.id, self.tickets);
        let cursor_bytes = snapshot.cursor_bytes();
        self.filter_bytes += snapshot.filter.len();
        self.cursor_bytes += cursor_bytes;
        if cursor_bytes > 0 && self.cursor_bytes > CURSOR_BYTES_MAX {
            self.turns.push_front(turn);
        } else {
            self.turns.push_back(turn);
        }
        self.by_filter.insert(snapshot.id, (self.tickets, snapshot));
        if self.turns.len() > 2 * self.by_filter.len() + SLACK {
            let known = &self.by_filter;
            self.turns
                .retain(|(id, ticket)| known.get(id).is_some_and(|(of, _)| of == ticket));
        }
    }

    fn pop(&mut self) -> Option<Snapshot> {
        loop {
            let (id, ticket) = self.turns.pop_front()?;
            if self.by_filter.get(&id).is_some_and(|(of, _)| *of == ticket) {
                return self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: FilterId) -> Option<Snapshot> {
        let (_, snapshot) = self.by_filter.remove(&id)?;
        self.filter_bytes -= snapshot.filter.len();
        self.cursor_bytes -= snapshot.cursor_bytes();
        Some(snapshot)
    }

    /// The next one, but not one whose end alone is left while messages of it are held back: it
    /// comes after them, and what lets them go asks again.
    pub(super) fn pop_ready(&mut self, held: HeldBack) -> Option<Snapshot> {
        let next = self.pop()?;
        if let Progress::Walked(listed) = next.progress
            && !held.has_passed(listed)
        {
            self.push(next);
            return None;
        }
        Some(next)
    }

    /// Of this many visits without a message, those that are charged.
    pub(super) const fn charged(&mut self, vain: u32) -> u32 {
        let free = VAIN_VISITS_FREE.saturating_sub(self.granted);
        let granted = if vain < free { vain } else { free };
        self.granted += granted;
        vain - granted
    }

    /// A message that would have come live was lost.
    pub(crate) const fn lose_live(&mut self) {
        self.lost.live += 1;
    }

    /// Messages were lost that had been queued: perhaps stored ones.
    pub(crate) const fn lose_queued(&mut self) {
        self.lost.queued += 1;
    }

    /// The connection has ended: what waits at QoS 0 is lost, and what comes at QoS 0 from now on.
    pub(crate) const fn disconnected(&mut self) {
        self.lose_live();
        self.is_listed = false;
    }

    /// The subscription is gone: what is left of its snapshot is not wanted any more.
    pub(crate) fn cancel(&mut self, id: FilterId) {
        self.remove(id);
    }
}
