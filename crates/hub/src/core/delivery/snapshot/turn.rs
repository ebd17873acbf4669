//! When snapshots go on: in the turn of their SUBACK, as far as that may do more, and else one
//! session after the other in later turns.

use core::cmp::Reverse;

use stentor_session::Tick;

use super::{Wanted, has_less, has_nothing, ordinary};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::retained::Cursor;
use crate::core::sessions::log::Terms;
use crate::core::sessions::registry::{Session, Sessions};
use crate::core::work::ENQUEUE_VISITS;

/// A single value that goes at once may find more waiting: it needs less than a note to send it
/// later.
const SINGLE_BYTES_LOW: usize = 256 * 1024;
/// Visits of one step, so that a large walk does not hold up the shard, and of one session until
/// it is another's turn.
pub(super) const VISITS: usize = 256;

impl Sessions {
    /// Whether a session still has retained messages to come.
    pub(crate) fn has_snapshots(&self, key: SessionKey) -> bool {
        let session = self.get(key);
        session
            .and_then(Session::snapshots)
            .is_some_and(|snapshots| !snapshots.is_empty())
    }
}

impl Core {
    /// Has a snapshot begin: what it sends follows by [`Core::begin_snapshots`]. A single value
    /// that may go out at once does so if `is_soon`.
    pub(crate) fn enqueue_snapshot(
        &mut self,
        now: Tick,
        key: SessionKey,
        wanted: &Wanted<'_>,
        is_soon: bool,
    ) {
        if wanted.is_single() && lacks(self, key, wanted) {
            // The most common case of all. What is put from now on comes live.
            return;
        }
        if is_soon && is_single_and_next(self, key, wanted) {
            // The common case, one value at most, needs no bookkeeping.
            self.send_stored(now, key, wanted);
        } else {
            enqueue(self, key, wanted);
        }
    }

    /// Begins with what was enqueued for a session: at once, if the turn has not done what it may,
    /// as far as its socket takes more and for one session's share.
    pub(crate) fn begin_snapshots(&mut self, now: Tick, key: SessionKey) {
        if !self.sessions.has_snapshots(key) {
            return;
        }
        if self.turn.left() == 0 {
            self.list_snapshots(key);
        } else {
            self.run_snapshots(now, key, VISITS);
        }
    }

    /// Goes on with the snapshots of a session, after those that wait for their turn.
    pub(crate) fn continue_snapshots(&mut self, now: Tick, key: SessionKey) {
        if !self.sessions.has_snapshots(key) {
            // Nothing to do.
        } else if self.turn.left() == 0 || !self.outbox.snapshots.is_empty() {
            self.list_snapshots(key);
        } else {
            self.run_snapshots(now, key, VISITS);
        }
    }

    /// Has the snapshots of a session go on when it is its turn.
    pub(crate) fn list_snapshots(&mut self, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        let live = session.and_then(|session| session.live_mut());
        let Some(snapshots) = live.and_then(|live| live.snapshots()) else {
            return;
        };
        if !snapshots.is_empty() && !core::mem::replace(&mut snapshots.is_listed, true) {
            self.outbox.snapshots.push_back(key);
        }
    }

    /// Goes on with the sessions that wait for their turn, one after the other, as far as the
    /// turn of the shard allows, and a little in any case.
    pub(crate) fn continue_listed(&mut self, now: Tick) {
        let mut left = self.turn.slice();
        while left > 0
            && let Some(key) = self.outbox.snapshots.pop_front()
        {
            let session = self.sessions.get_mut(key);
            let live = session.and_then(|session| session.live_mut());
            if let Some(snapshots) = live.and_then(|live| live.snapshots()) {
                snapshots.is_listed = false;
            }
            let before = self.turn.spent();
            self.run_snapshots(now, key, VISITS.min(left as usize));
            // One that has gone costs a look.
            self.turn.spend(1);
            let used = self.turn.spent() - before;
            self.turn.attribute(key, used);
            left = left.saturating_sub(used);
        }
    }

    /// This many visits of the snapshots of a session, which take turns, as far as its socket takes
    /// more. What is left then waits for its turn.
    fn run_snapshots(&mut self, now: Tick, key: SessionKey, visits: usize) {
        let before = self.turn.spent();
        loop {
            let used = (self.turn.spent() - before) as usize;
            if used >= visits {
                return self.list_snapshots(key);
            }
            if !self.step_snapshots(now, key, visits - used) {
                return;
            }
        }
    }

    /// Goes on with the snapshots that have waited for other shards.
    pub(crate) fn continue_fenced(&mut self, now: Tick) {
        for key in core::mem::take(&mut self.outbox.fenced) {
            if let Some(snapshots) = self.sessions.snapshots_mut(key) {
                snapshots.idle_until = now;
            }
            self.continue_snapshots(now, key);
        }
    }

    /// Goes on with the snapshots that have waited for the store.
    pub(crate) fn continue_fetched(&mut self, now: Tick) {
        while let Some(Reverse((at, key))) = self.outbox.fetches.peek().copied()
            && at <= now
        {
            self.outbox.fetches.pop();
            self.continue_snapshots(now, key);
        }
    }
}

/// Whether nothing is retained for a subscription to one topic.
fn lacks(core: &Core, key: SessionKey, wanted: &Wanted<'_>) -> bool {
    let zone = core.sessions.get(key).map(|session| session.state.zone());
    let retained = &core.store.retained;
    zone.is_some_and(|zone| retained.lacks(zone, wanted.filter, wanted.mark))
}

/// Whether a snapshot is of one topic at most, that it need not wait for, and that its session
/// has room for.
fn is_single_and_next(core: &mut Core, key: SessionKey, wanted: &Wanted<'_>) -> bool {
    if !wanted.is_single() || core.routing.what_is_ahead().is_some() {
        return false;
    }
    let Some(session) = core.sessions.get_mut(key) else {
        return false;
    };
    let snapshots = session.live_mut().and_then(|live| live.snapshots());
    let is_first = snapshots.is_none_or(|snapshots| snapshots.is_empty());
    let most = session.state.queue_bytes_max(&core.rules.settings) / 4;
    let zone = session.state.zone();
    let start = Cursor::default();
    let retained = &core.store.retained;
    is_first
        && has_less(session, SINGLE_BYTES_LOW, most)
        && (has_nothing(session) || !core.memory.is_short())
        && !retained.is_fetching(zone, wanted.filter, &start, 1)
}

#[inline(never)]
fn enqueue(core: &mut Core, key: SessionKey, wanted: &Wanted<'_>) {
    let ahead = core.routing.what_is_ahead();
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    core.turn.spend(ENQUEUE_VISITS);
    if let Some(live) = session.live_mut() {
        let snapshots = live.extras().snapshots.get_or_insert_default();
        snapshots.add(wanted, ahead);
    }
    if wanted.sends {
        let terms = Terms {
            options: wanted.options,
            interval: session.rate_of(SubscriptionRef::Filter(wanted.id)),
            snapshot: true,
        };
        let log = &mut core.pending.log;
        session
            .state
            .snapshot_begins(ordinary(wanted.filter), terms, log);
    }
}
