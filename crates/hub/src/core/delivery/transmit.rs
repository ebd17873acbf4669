//! Handing queued output to the shard that writes it.

use alloc::vec::Vec;
use core::mem;

use stentor_session::{Batch, Flush, Output, Tick};

use crate::core::Core;
use crate::core::delivery::conflate::release;
use crate::core::delivery::{pump, snapshot};
use crate::core::ids::SessionKey;
use crate::core::memory::Pressure;
use crate::core::sessions::registry::{Flushing, Link, Live, Session};
use crate::core::sessions::tally::Bound;
use crate::core::sessions::{ending, lifecycle};
use crate::core::stats::LossCause;

/// What one flush writes at most, so that no client holds up the others.
const FLUSH_BYTES: usize = 64 * 1024;

/// What one write hands to the kernel at most: a packet that is longer goes on in later ones. That
/// takes 0.1 to 0.4 ms; with half of it, long messages cost a twelfth more. What several messages
/// make is hardly ever cut.
const WRITE_BYTES: usize = 4 * FLUSH_BYTES;

/// More than this takes longer to write than answers and messages that are not long.
const BULK_BYTES: usize = 16 * 1024;

/// Whether so much is to be written for a session that others come first. O(1).
pub(crate) fn has_bulk(core: &Core, key: SessionKey) -> bool {
    let live = core.sessions.get(key).and_then(Session::live);
    let output = live.and_then(|live| live.output.as_ref());
    output.is_some_and(|output| output.due_bytes() > BULK_BYTES)
}

/// The connection of a session that is to be flushed.
#[inline]
fn listed(core: &mut Core, key: SessionKey) -> Option<&mut Live> {
    let session = core.sessions.unmarked_mut(key)?;
    let Link::Live(live) = &mut session.link else {
        return None;
    };
    (live.flushing == Flushing::Listed).then_some(live)
}

/// [`gather`] of what was released for a client, if that is anything.
pub(crate) fn transmit_released(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    batch: &mut Batch,
) -> bool {
    batch.clear();
    let has_room = core.memory.ledger.pressure() == Pressure::None;
    let Some(live) = listed(core, key) else {
        return false;
    };
    let Some(output) = live.output.as_ref().filter(|it| it.has_released()) else {
        return false;
    };
    let extras = live.extras.as_mut();
    let aliases = extras.and_then(|extras| extras.sent_aliases.as_mut());
    let aliases = aliases.filter(|_| has_room);
    output.gather_released(now, aliases, FLUSH_BYTES, batch);
    batch.cut(WRITE_BYTES);
    batch.count_latency_since(live.since);
    true
}

/// See [`crate::output::note_touched`].
pub(crate) fn note_touched(core: &mut Core) {
    core.outbox.listed.touched.get_or_insert_default();
}

/// See [`crate::output::take_touched`].
pub(crate) fn take_touched(core: &mut Core) -> Vec<SessionKey> {
    let touched = core.outbox.listed.touched.as_mut();
    touched.map(mem::take).unwrap_or_default()
}

/// See [`crate::output::forget_touched`].
pub(crate) fn forget_touched(core: &mut Core) {
    if let Some(touched) = &mut core.outbox.listed.touched {
        touched.clear();
    }
}

/// Changes which part of what waits for a client may leave.
pub(crate) fn change_output(core: &mut Core, key: SessionKey, change: fn(&mut Output)) {
    let session = core.sessions.unmarked_mut(key);
    if let Some(Link::Live(live)) = session.map(|session| &mut session.link)
        && let Some(output) = &mut live.output
    {
        change(output);
    }
}

/// Gathers what waits for a client, up to a budget, for one write. Nothing else may be asked
/// of the hub before [`forget_written`], which does not follow if this is `false`: then the
/// client is gone, or has been flushed since it was listed.
pub(crate) fn gather(core: &mut Core, now: Tick, key: SessionKey, batch: &mut Batch) -> bool {
    batch.clear();
    // A topic without an alias is always right, and takes no memory.
    let has_room = core.memory.ledger.pressure() == Pressure::None;
    let Some(live) = listed(core, key) else {
        return false;
    };
    let aliases = live
        .extras
        .as_mut()
        .and_then(|extras| extras.sent_aliases.as_mut())
        .filter(|_| has_room);
    if let Some(output) = &live.output {
        output.gather(now, aliases, FLUSH_BYTES, batch);
        batch.cut(WRITE_BYTES);
        batch.count_latency_since(live.since);
    }
    true
}

/// Whether so much waits for a session's socket that it is better written at once than at the
/// end of the turn: what many connections have caused in one turn would leave the caches
/// before it is written.
pub(crate) fn is_laden(core: &Core, key: SessionKey) -> bool {
    const BYTES: usize = 64 * 1024;
    let live = core.sessions.get(key).and_then(Session::live);
    live.is_some_and(|live| live.flushing == Flushing::Listed && live.queued_bytes() >= BYTES)
}

/// Whether something waits for a session's socket, all of it answers what its client has sent,
/// and more answers fit into the same write. O(1).
pub(crate) fn has_few_answers_only(core: &Core, key: SessionKey) -> bool {
    /// Some 800 acknowledgements. With more of them, the client had better go on.
    const BYTES: usize = 4 * 1024;
    let live = core.sessions.get(key).and_then(Session::live);
    live.is_some_and(|live| {
        let answers = live.control_bytes();
        live.flushing == Flushing::Listed && answers < BYTES && live.queued_bytes() == answers
    })
}

/// Forgets what was written of a batch. After [`Flush::More`] the shard flushes the session
/// again, now or in its next turn; after [`Flush::Blocked`] the shard calls
/// [`writable`] when the socket is.
pub(crate) fn forget_written(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    batch: &mut Batch,
    written: usize,
) -> Flush {
    let Some(session) = core.sessions.unmarked_mut(key) else {
        return Flush::Done;
    };
    let had_queue = session.had_queue();
    let Link::Live(live) = &mut session.link else {
        return Flush::Done;
    };
    if written > batch.len() {
        lifecycle::bug(core, now, key, "more was written than there was");
        return Flush::Done;
    }
    let flush = live
        .output
        .as_mut()
        .map_or(Flush::Done, |out| out.written(batch, written));
    match flush {
        Flush::Done => {
            live.flushing = Flushing::Idle;
            if let Some(output) = live.output.take() {
                core.outbox.recycle(output);
            }
        }
        // It stays listed.
        Flush::More => {}
        Flush::Blocked => live.flushing = Flushing::Blocked,
    }
    let has_extras = live.extras.is_some();
    if had_queue || has_extras || flush != Flush::Done {
        core.sessions.mark(key);
    }
    if batch.expired().next().is_some() {
        forget_expired(core, now, key, batch);
    }
    if has_extras && flush != Flush::Blocked {
        release::begin(core, now, key);
    }
    if has_extras && core.sessions.has_snapshots(key) {
        snapshot::go_on(core, now, key);
    }
    flush
}

/// Messages that expired before they were sent are lost; their packet ids are free, and what
/// waits for one goes out.
fn forget_expired(core: &mut Core, now: Tick, key: SessionKey, batch: &Batch) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let mut messages = 0;
    for packet_id in batch.expired() {
        messages += 1;
        if let Some(packet_id) = packet_id {
            session.state.owed.discard(packet_id);
        }
    }
    if messages > 0 {
        session
            .tally()
            .lose(now, LossCause::Expired, messages, Bound::AsConfigured);
    }
    core.counters.stats.publishes_dropped += messages;
    core.counters
        .losses
        .record_many(LossCause::Expired, messages);
    pump::begin(core, now, key);
}

/// The socket of a connection takes bytes again.
pub(crate) fn writable(core: &mut Core, key: SessionKey) {
    if let Some(Link::Live(live)) = core.sessions.get_mut(key).map(|session| &mut session.link)
        && live.flushing == Flushing::Blocked
    {
        live.flushing = Flushing::Listed;
        core.outbox.listed.dirty.push(key);
    }
}

/// Takes back the queue of a final output that was written or given up.
pub(crate) fn recycle(core: &mut Core, final_output: alloc::boxed::Box<Output>) {
    ending::discard(core, final_output);
}
