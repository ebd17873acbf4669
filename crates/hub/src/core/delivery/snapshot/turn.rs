//! When snapshots go on: in the turn of their SUBACK, as far as that may do more, and else one
//! session after the other in later turns.

use core::cmp::Reverse;

use stentor_session::Tick;

use super::{Wanted, has_less, has_nothing, ordinary, step_snapshots};
use crate::core::Core;
use crate::core::delivery::stored;
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

/// Has a snapshot begin: what it sends follows by [`begin`]. A single value
/// that may go out at once does so if `is_soon`.
pub(in crate::core) fn enqueue(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    wanted: &Wanted<'_>,
    is_soon: bool,
) {
    if wanted.is_single() && lacks(core, key, wanted) {
        // The most common case of all. What is put from now on comes live.
        return;
    }
    if is_soon && is_single_and_next(core, key, wanted) {
        // The common case, one value at most, needs no bookkeeping.
        stored::send(core, now, key, wanted);
    } else {
        enqueue_later(core, key, wanted);
    }
}

/// Begins with what was enqueued for a session: at once, if the turn has not done what it may,
/// as far as its socket takes more and for one session's share.
pub(in crate::core) fn begin(core: &mut Core, now: Tick, key: SessionKey) {
    if !core.sessions.has_snapshots(key) {
        return;
    }
    if core.turn.left() == 0 {
        list(core, key);
    } else {
        run(core, now, key, VISITS);
    }
}

/// Goes on with the snapshots of a session, after those that wait for their turn.
pub(in crate::core) fn go_on(core: &mut Core, now: Tick, key: SessionKey) {
    if !core.sessions.has_snapshots(key) {
        // Nothing to do.
    } else if core.turn.left() == 0 || !core.outbox.snapshots.is_empty() {
        list(core, key);
    } else {
        run(core, now, key, VISITS);
    }
}

/// Has the snapshots of a session go on when it is its turn.
pub(in crate::core) fn list(core: &mut Core, key: SessionKey) {
    let session = core.sessions.get_mut(key);
    let live = session.and_then(|session| session.live_mut());
    let Some(snapshots) = live.and_then(|live| live.snapshots()) else {
        return;
    };
    if !snapshots.is_empty() && !core::mem::replace(&mut snapshots.is_listed, true) {
        core.outbox.snapshots.push_back(key);
    }
}

/// Goes on with the sessions that wait for their turn, one after the other, as far as the
/// turn of the shard allows, and a little in any case.
pub(crate) fn continue_listed(core: &mut Core, now: Tick) {
    let mut left = core.turn.slice();
    while left > 0
        && let Some(key) = core.outbox.snapshots.pop_front()
    {
        let session = core.sessions.get_mut(key);
        let live = session.and_then(|session| session.live_mut());
        if let Some(snapshots) = live.and_then(|live| live.snapshots()) {
            snapshots.is_listed = false;
        }
        let before = core.turn.spent();
        run(core, now, key, VISITS.min(left as usize));
        // One that has gone costs a look.
        core.turn.spend(1);
        let used = core.turn.spent() - before;
        core.turn.attribute(key, used);
        left = left.saturating_sub(used);
    }
}

/// This many visits of the snapshots of a session, which take turns, as far as its socket takes
/// more. What is left then waits for its turn.
fn run(core: &mut Core, now: Tick, key: SessionKey, visits: usize) {
    let before = core.turn.spent();
    loop {
        let used = (core.turn.spent() - before) as usize;
        if used >= visits {
            return list(core, key);
        }
        if !step_snapshots(core, now, key, visits - used) {
            return;
        }
    }
}

/// Goes on with the snapshots that have waited for other shards.
pub(in crate::core) fn continue_fenced(core: &mut Core, now: Tick) {
    for key in core::mem::take(&mut core.outbox.fenced) {
        if let Some(snapshots) = core.sessions.snapshots_mut(key) {
            snapshots.idle_until = now;
        }
        go_on(core, now, key);
    }
}

/// Goes on with the snapshots that have waited for the store.
pub(crate) fn continue_fetched(core: &mut Core, now: Tick) {
    while let Some(Reverse((at, key))) = core.outbox.fetches.peek().copied()
        && at <= now
    {
        core.outbox.fetches.pop();
        go_on(core, now, key);
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
fn enqueue_later(core: &mut Core, key: SessionKey, wanted: &Wanted<'_>) {
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
