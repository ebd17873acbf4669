//! Sessions that survive a restart.

use alloc::vec::Vec;

use stentor_session::{ChunkPlace, Tick};
use stentor_session_log::{Name, RestoredRoom};

use super::Hub;
use crate::core::delivery::spool;
use crate::core::ids::SessionKey;
use crate::core::routing::share::{self, tell};
use crate::core::sessions::log::{self, PriorSession, begin_bases, give_up_bases, write_bases};
use crate::effects::SpoolOrder;

pub use crate::core::sessions::log::ALL_WRITTEN;

impl PriorSession {
    /// Has a hub go on with the session: the one of the home of its client id, by
    /// [`crate::home_shard`].
    ///
    /// The hub raises interest, and tells other shards of shared subscriptions. The shard appends
    /// and forwards its effects before anybody is let in.
    ///
    /// Its records are then those of its origin and those that follow here. The journals of earlier
    /// starts can go when [`rewrite_sessions`] has been round.
    pub fn restore(self, hub: &mut Hub, now: Tick) {
        self.go_on_in(&mut hub.core, now);
    }
}

/// A hub is about to go on with sessions that were there before the start. Until [`end_restoring`],
/// none of them ends, and no will is published: other shards may not know of their shared
/// subscriptions, and members that end leave messages to others.
///
/// The other shards hear of these in turns that have room for them.
pub fn begin_restoring(hub: &mut Hub) {
    tell::set_room(&mut hub.core, 0);
    log::begin_restoring(&mut hub.core);
}

/// The hub has all that others have said of their sessions. Without effect if it has restored none.
pub fn end_restoring(hub: &mut Hub) {
    log::end_restoring(&mut hub.core);
}

/// Numbers from this one on stand for rooms in a round: more than there are sessions.
const ROOMS: u32 = 1 << 31;

/// Has a hub write down whole what rooms and some sessions are, from a number on: 0 at first, then
/// what was returned. `None` says that all are done: that was one round. [`ALL_WRITTEN`] says that
/// all are written, and that something is under way to other shards that was written before. It
/// stops when it has looked at `at_most` places for sessions and subscriptions, or has written some
/// 256 KiB.
///
/// After a round on all shards, the journals of earlier starts are needed no longer. Where there
/// are none of these, a round on one shard makes its records from before that round superfluous.
pub fn rewrite_sessions(hub: &mut Hub, from: u32, at_most: usize) -> Option<u32> {
    let room = match from {
        0 => {
            begin_bases(&mut hub.core);
            Some(0)
        }
        ALL_WRITTEN => None,
        from => from.checked_sub(ROOMS),
    };
    let Some(room) = room else {
        return write_bases(&mut hub.core, from, at_most);
    };
    match hub.services.rewrite_rooms(&mut hub.core, room) {
        Some(next) => Some(ROOMS + next),
        None => write_bases(&mut hub.core, 1, at_most),
    }
}

/// Has a hub go on with a room that was there before the start: the one of [`crate::home_of_zone`],
/// after [`begin_restoring`]. Its members are away, and their places are kept for the grace period
/// of the room.
pub fn restore_room(hub: &mut Hub, now: Tick, room: RestoredRoom) {
    hub.services.restore_room(&mut hub.core, now, room);
}

/// Whether other shards have not heard of all changes of shared subscriptions.
#[must_use]
pub fn has_untold_shares(hub: &Hub) -> bool {
    share::has_untold_shares(&hub.core)
}

/// The shard gives up the round that is under way. Another one begins at 0.
pub fn give_up_rewriting(hub: &mut Hub) {
    give_up_bases(&mut hub.core);
}

/// The journal of the shard has no room for more that sessions are owed, or has room again. Until
/// then, the hubs of all shards refuse what sessions that last would take on.
pub fn set_journal_full(hub: &Hub, is_full: bool) {
    log::set_full(&hub.core, is_full);
}

/// Much waits for room in the journal of the shard, or little does again. Until then, a PUBLISH
/// that it would have to keep waits on every shard where it was read.
pub fn set_journal_laden(hub: &Hub, is_laden: bool) {
    log::set_laden(&hub.core, is_laden);
}

/// Whether much waits for room in the journal of any shard, or far too much is on its way to the
/// store of backlogs.
#[must_use]
pub fn is_journal_laden(hub: &Hub) -> bool {
    !log::laden(&hub.core).is_empty() || spool::is_far_behind(&hub.core)
}

/// About how many bytes a round of [`rewrite_sessions`] writes. O(sessions + rooms that are written
/// down).
#[must_use]
pub fn bytes_to_write(hub: &Hub) -> u64 {
    log::bytes_to_write(&hub.core) + hub.services.bytes_of_rooms()
}

/// Whether there are orders for the store of backlogs: see [`take_spool_orders`].
#[must_use]
#[inline]
pub const fn has_spool_orders(hub: &Hub) -> bool {
    spool::has_orders(&hub.core)
}

/// What the store of backlogs is to do, in order. [`crate::Effects::log`] has to be appended
/// before. Costs little while there is nothing.
#[must_use]
pub fn take_spool_orders(hub: &mut Hub) -> Vec<SpoolOrder> {
    spool::take_orders(&mut hub.core)
}

/// Whether messages are to go to the store of backlogs: see [`seal_backlogs`].
#[must_use]
pub fn has_backlogs(hub: &Hub) -> bool {
    spool::is_due(&hub.core)
}

/// The bytes that the shard has given the store of backlogs and that are not kept yet, and those
/// that have room there beside them. To be called in each turn.
///
/// While these and what the hub still has for it are much, nothing more is read from connections
/// whose messages add to it. The owner of sessions may have a part of the room: see
/// [`crate::Tenants`].
pub fn tell_backlog_room(hub: &mut Hub, now: Tick, under_way: usize, free: u64) {
    spool::tell_room(&mut hub.core, now, under_way, free);
}

/// Gives the store of backlogs some of what is to go there, about `bytes_max` at most: see
/// [`take_spool_orders`].
pub fn seal_backlogs(hub: &mut Hub, bytes_max: usize) {
    spool::seal_some(&mut hub.core, bytes_max);
}

/// The store of backlogs has messages that [`crate::SpoolOrder::Seal`] has given it; without a
/// place, it has refused them, and nothing is given to it until [`spool_goes_on`].
pub fn sealed(
    hub: &mut Hub,
    session: SessionKey,
    first: u64,
    count: u8,
    place: Option<ChunkPlace>,
) {
    spool::sealed(&mut hub.core, session, first, count, place);
}

/// The store of backlogs takes messages again.
pub fn spool_goes_on(hub: &mut Hub) {
    spool::goes_on(&mut hub.core);
}

/// The store of backlogs has read what [`crate::SpoolOrder::Fetch`] has asked for; `None` if nobody
/// can read it.
pub fn fetched(hub: &mut Hub, now: Tick, session: SessionKey, first: u64, bytes: Option<&[u8]>) {
    spool::fetched(&mut hub.core, now, session, first, bytes);
    hub.finish(now);
}

/// Memory that is kept for [`crate::Effects::log`].
const LOG_BYTES_KEPT: usize = 256 << 10;

/// Takes out [`crate::Effects::log`] in batches. The shard appends each as one, in order, and calls
/// [`logged`] for each. Returns whether an answer promises some of it.
pub fn take_batches(hub: &mut Hub, mut append: impl FnMut(&[u8])) -> bool {
    let effects = hub.effects();
    if effects.log.is_empty() {
        return false;
    }
    let is_promised = core::mem::take(&mut effects.log_is_promised);
    let mut log = core::mem::take(&mut effects.log);
    let mut cuts = core::mem::take(&mut effects.log_cuts);
    cuts.push(log.len());
    log::were_taken(&mut hub.core);
    let mut from = 0;
    for to in cuts.drain(..) {
        append(log.get(from..to).unwrap_or_default());
        from = to;
    }
    log.clear();
    log.shrink_to(LOG_BYTES_KEPT);
    let effects = hub.effects();
    (effects.log, effects.log_cuts) = (log, cuts);
    is_promised
}

/// The shard has appended the oldest batch that it has not told of, and its records begin at this
/// name; `None` if it has dropped it.
///
/// It drains `mesh` when it has told of all: other shards name the messages that are written there.
/// Other calls may come before, while batches wait for room.
pub fn logged(hub: &mut Hub, at: Option<Name>) {
    log::logged(&mut hub.core, at);
}
