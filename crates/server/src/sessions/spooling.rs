//! A shard's side of the spool: what waits for clients that are away, on the disk.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use stentor_hub::spool::{
    fetched, has_backlogs, has_spool_orders, seal_backlogs, sealed, spool_goes_on,
    take_spool_orders, tell_backlog_room,
};
use stentor_hub::{Hub, SPOOL_UNIT, SessionKey, SpoolOrder};
use stentor_session::{ChunkPlace, Tick};
use stentor_spool::{Owner, Place, Reply, SpoolEvent, SpoolHandle, UNIT, Watcher};
use tracing::{info, warn};

use super::wake;
use crate::context::ServerContext;

/// Bytes of a shard that are on their way to the disk at most. What is more waits in the hub.
const UNDER_WAY_MAX: usize = 16 << 20;

const _: () = assert!(SPOOL_UNIT == UNIT as u64, "places mean the same to both");

/// See the module.
pub(crate) struct Spooling {
    handle: SpoolHandle,
    /// Of what has come, what an earlier turn had no time for: what was read, and the rest.
    read: VecDeque<(Owner, Option<Vec<u8>>)>,
    written: VecDeque<Reply>,
    /// Whether the hub has more for the disk.
    has_more: bool,
}

/// Bytes that are given to the disk in one turn.
const BYTES_PER_TURN: usize = 1 << 20;
/// Chunks that are read in one turn: their messages are sent.
const FETCHED_PER_TURN: usize = 32;
/// Chunks that are noted in one turn: the disk has them. Their messages are dropped, up to 64 of
/// each: that takes a millisecond or two.
const SEALED_PER_TURN: usize = 128;

impl Spooling {
    pub(crate) const fn new(handle: SpoolHandle) -> Self {
        Self {
            handle,
            read: VecDeque::new(),
            written: VecDeque::new(),
            has_more: false,
        }
    }

    /// Has the hub give the disk some of what sessions hold beyond their share, unless much is on
    /// its way there.
    pub(super) fn seal(&mut self, hub: &mut Hub) {
        let may_seal = has_backlogs(hub) && self.handle.under_way() < UNDER_WAY_MAX;
        if may_seal {
            seal_backlogs(hub, BYTES_PER_TURN);
            self.order(hub);
        }
        let may_go_on = self.handle.under_way() < UNDER_WAY_MAX;
        self.has_more = may_go_on && has_backlogs(hub);
    }

    /// Whether the hub has more of that.
    pub(super) const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Hands on what the hub has ordered. What it has said before is appended to the journal.
    #[inline]
    pub(super) fn order(&self, hub: &mut Hub) {
        // Asked after each call of the hub, mostly for nothing.
        if has_spool_orders(hub) {
            self.order_some(hub);
        }
    }

    fn order_some(&self, hub: &mut Hub) {
        let mut batch = self.handle.batch();
        for order in take_spool_orders(hub) {
            match order {
                SpoolOrder::Seal {
                    session,
                    first,
                    count,
                    bytes,
                } => batch.seal(owner(session, first, count), bytes),
                SpoolOrder::Fetch {
                    session,
                    first,
                    place: chunk,
                } => batch.fetch(owner(session, first, 0), place(chunk)),
                SpoolOrder::Free(chunk) => batch.free(place(chunk)),
            }
        }
    }

    /// Takes what has come from the disk, as far as one turn has time. Returns whether there was
    /// anything.
    #[inline]
    pub(super) fn hear(&mut self, hub: &mut Hub, now: Tick) -> bool {
        let free = self.handle.free_bytes();
        tell_backlog_room(hub, now, self.handle.under_way(), free);
        // Asked in each turn, mostly for nothing.
        self.is_waited_for() && self.hear_some(hub, now)
    }

    fn hear_some(&mut self, hub: &mut Hub, now: Tick) -> bool {
        for reply in self.handle.replies() {
            match reply {
                Reply::Fetched(whose, bytes) => self.read.push_back((whose, bytes)),
                Reply::Sealed(..) | Reply::GoesOn => self.written.push_back(reply),
            }
        }
        let (read, written) = (
            self.read.len().min(FETCHED_PER_TURN),
            self.written.len().min(SEALED_PER_TURN),
        );
        for (whose, bytes) in self.read.drain(..read) {
            fetched(hub, now, session(whose), whose.first, bytes.as_deref());
        }
        for reply in self.written.drain(..written) {
            match reply {
                Reply::Sealed(whose, chunk) => {
                    let place = chunk.map(chunk_place);
                    sealed(hub, session(whose), whose.first, whose.count, place);
                }
                Reply::GoesOn | Reply::Fetched(..) => spool_goes_on(hub),
            }
        }
        read + written > 0
    }

    /// Whether something has come, or waits for another turn.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.read.is_empty() || !self.written.is_empty() || self.handle.has_replies()
    }

    /// Bytes that are on their way to the disk. What the hub still has for it counts for its
    /// sessions. O(1).
    pub(super) fn bytes(&self) -> usize {
        self.handle.under_way()
    }
}

const fn owner(session: SessionKey, first: u64, count: u8) -> Owner {
    Owner {
        slot: session.slot,
        generation: session.generation,
        first,
        count,
    }
}

const fn session(owner: Owner) -> SessionKey {
    SessionKey {
        slot: owner.slot,
        generation: owner.generation,
    }
}

const fn place(chunk: ChunkPlace) -> Place {
    Place {
        file: chunk.file,
        at: chunk.at,
        len: chunk.len,
    }
}

const fn chunk_place(place: Place) -> ChunkPlace {
    ChunkPlace {
        file: place.file,
        at: place.at,
        len: place.len,
    }
}

/// Passes on what the spool says.
pub(crate) struct SpoolMessenger(Weak<ServerContext>);

impl SpoolMessenger {
    pub(crate) fn new(context: &Arc<ServerContext>) -> Self {
        Self(Arc::downgrade(context))
    }
}

impl Watcher for SpoolMessenger {
    fn wake(&self, shard: u16) {
        wake(&self.0, shard);
    }

    fn event(&self, event: SpoolEvent) {
        match event {
            SpoolEvent::Refused(why) => warn!(
                "backlogs of sessions do not go to the disk: {why}; until they do, the server \
                 refuses messages for absent clients whose sessions have used their share of the \
                 memory. Make room, or end sessions that nobody needs (`stentor sessions ls --by \
                 bytes`)"
            ),
            SpoolEvent::Recovered => info!("backlogs of sessions go to the disk again"),
            SpoolEvent::Unreadable { file, error } => {
                if let Some(context) = self.0.upgrade()
                    && let Some(journals) = &context.journals
                {
                    journals.unreadable.fetch_add(1, Ordering::Relaxed);
                }
                warn!(
                    file,
                    error, "a part of a backlog cannot be read, and is lost"
                );
            }
        }
    }
}
