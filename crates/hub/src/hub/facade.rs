//! What the shard asks of the core.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Batch, CloseReason, ConnectRequest, Flush, Output, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::delivery::transmit;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::memory::Tenants;
use crate::core::routing::batch;
use crate::core::sessions::authenticate::Authenticated;
use crate::core::sessions::connect::Admitted;
use crate::core::sessions::registry::{Live, Session};
use crate::core::sessions::rights::Identity;
use crate::core::sessions::state::set_owner_of;
use crate::core::sessions::{authenticate, command_rate, connect};
use crate::core::{memory, upkeep, work};
use crate::effects::Effects;

impl Hub {
    /// The shard begins a turn: what it may do is counted from here on.
    pub fn begin_turn(&mut self) {
        work::begin_turn(&mut self.core);
    }

    /// Routes what waits for more of its kind. To be called after the last of several
    /// [`Hub::apply`]; all other calls do it by themselves.
    pub fn settle(&mut self, now: Tick) {
        batch::settle(&mut self.core, now);
        self.finish(now);
    }

    /// Gathers what waits for a client, up to a budget, for one write of at most 256 KiB. Nothing
    /// else may be asked of the hub before [`Hub::transmitted`], which does not follow if this is
    /// `false`: then the client is gone, or has been flushed since it was listed.
    #[must_use]
    #[inline]
    pub fn transmit(&mut self, now: Tick, key: SessionKey, batch: &mut Batch) -> bool {
        transmit::gather(&mut self.core, now, key, batch)
    }

    /// Whether so much waits for a session's socket that it is better written at once than at the
    /// end of the turn: what many connections have caused in one turn would leave the caches
    /// before it is written.
    #[must_use]
    #[inline]
    pub fn is_laden(&self, key: SessionKey) -> bool {
        transmit::is_laden(&self.core, key)
    }

    /// Whether something waits for a session's socket, all of it answers what its client has sent,
    /// and more answers fit into the same write. O(1).
    #[must_use]
    #[inline]
    pub fn has_few_answers_only(&self, key: SessionKey) -> bool {
        transmit::has_few_answers_only(&self.core, key)
    }

    /// Forgets what was written of a batch. After [`Flush::More`] the shard flushes the session
    /// again, now or in its next turn; after [`Flush::Blocked`] the shard calls
    /// [`Hub::writable`] when the socket is.
    #[inline]
    pub fn transmitted(
        &mut self,
        now: Tick,
        key: SessionKey,
        batch: &mut Batch,
        written: usize,
    ) -> Flush {
        let result = transmit::forget_written(&mut self.core, now, key, batch, written);
        self.finish(now);
        result
    }

    /// The socket of a connection takes bytes again.
    #[inline]
    pub fn writable(&mut self, key: SessionKey) {
        transmit::writable(&mut self.core, key);
    }

    /// Takes back the queue of a final output that was written or given up.
    pub fn recycle(&mut self, final_output: Box<Output>) {
        transmit::recycle(&mut self.core, final_output);
    }

    /// Whether a client may have the session that it asks for: there is room for it, its user and
    /// zone have a place left, and its will is permitted. To be asked right before
    /// [`Hub::connect`], whose argument it returns: the identity as the latest changes of rights
    /// have it, and the places taken.
    ///
    /// # Errors
    /// Why the client has to be refused.
    pub fn admit(
        &self,
        request: &ConnectRequest,
        identity: Arc<Identity>,
    ) -> Result<Admitted, CloseReason> {
        connect::admit(&self.core, request, identity)
    }

    /// [`Hub::admit`] of somebody whose sessions are counted.
    ///
    /// # Errors
    /// Why the client has to be refused.
    pub fn admit_as(
        &self,
        request: &ConnectRequest,
        identity: Arc<Identity>,
        tenants: Option<&Tenants>,
    ) -> Result<Admitted, CloseReason> {
        connect::admit_as(&self.core, request, identity, tenants)
    }

    /// The connection that a client id has now is about to be taken over: commands that it has
    /// sent already need not wait, up to some more, or else they would be lost, and a DISCONNECT
    /// behind them. To be undone.
    pub fn read_last(&mut self, zone: Zone, client_id: &str, is_last: bool) {
        command_rate::read_last(&mut self.core, zone, client_id, is_last);
    }

    /// The authenticator has answered what [`crate::Authentication`] told it. Does nothing if the
    /// connection has ended in the meantime. A client that turns out to be somebody else is
    /// refused: what its session holds is the first one's.
    pub fn authenticated(
        &mut self,
        now: Tick,
        key: SessionKey,
        link: LinkId,
        decision: Authenticated,
    ) {
        authenticate::authenticated(&mut self.core, now, key, link, decision);
        self.finish(now);
    }

    /// Counts the sessions again that have changed, and writes the sums into the ledger.
    /// [`Hub::advance`] does it; O(sessions that have changed).
    pub fn settle_accounts(&mut self) {
        memory::settle_accounts(&mut self.core, self.services.room_bytes());
    }

    /// What the calls since have asked for.
    #[inline]
    pub fn effects(&mut self) -> &mut Effects {
        upkeep::effects(&mut self.core)
    }

    /// The shard is about to take what other shards have left in their rings until now, all of it.
    pub fn begin_drain(&mut self) {
        upkeep::begin_drain(&mut self.core);
    }

    /// Everything that was in `effects().mesh` lies in the rings of the other shards. Until then
    /// their snapshots may wait for it, so this has to be called soon after the hub was.
    pub fn forwarded(&mut self) {
        upkeep::forwarded(&mut self.core);
    }
}

/// Whether packets wait to be written to a client that answer what it has asked for: anything but
/// PUBLISH and PINGRESP. O(1).
#[must_use]
pub fn has_answers(hub: &Hub, key: SessionKey) -> bool {
    let live = hub.core.session(key).and_then(Session::live);
    live.is_some_and(Live::has_answers)
}

/// Whether anything but PINGRESP waits to be written to a client. O(1).
#[must_use]
pub fn has_news(hub: &Hub, key: SessionKey) -> bool {
    let live = hub.core.session(key).and_then(Session::live);
    live.is_some_and(Live::has_news)
}

/// How many bytes of packets other than PUBLISH wait to be written to a client. O(1).
#[must_use]
pub fn answer_bytes(hub: &Hub, key: SessionKey) -> usize {
    let live = hub.core.session(key).and_then(Session::live);
    live.map_or(0, |live| live.control_bytes())
}

/// [`Hub::transmit`] for a client whose output may not leave as it comes: of what was released, if
/// that is anything.
#[must_use]
pub fn transmit_released(hub: &mut Hub, now: Tick, key: SessionKey, batch: &mut Batch) -> bool {
    transmit::transmit_released(&mut hub.core, now, key, batch)
}

/// From now on, [`take_touched`] says who gets output: for a shard that has to hold back what
/// belongs to a change which is not on the disk. A session whose output is not written yet
/// does not become dirty again.
pub fn note_touched(hub: &mut Hub) {
    transmit::note_touched(&mut hub.core);
}

/// The sessions that have got output since this was asked last, also those that had some already.
/// A session may stand there more than once. Empty before [`note_touched`].
#[must_use]
pub fn take_touched(hub: &mut Hub) -> Vec<SessionKey> {
    transmit::take_touched(&mut hub.core)
}

/// The same, where nobody wants to know.
pub fn forget_touched(hub: &mut Hub) {
    transmit::forget_touched(&mut hub.core);
}

/// Marks what waits for a client now: [`release_marked`] has to follow when it may leave. O(1).
pub fn mark_output(hub: &mut Hub, key: SessionKey) {
    transmit::change_output(&mut hub.core, key, Output::mark);
}

/// What was marked for a client may leave. O(1).
pub fn release_marked(hub: &mut Hub, key: SessionKey) {
    transmit::change_output(&mut hub.core, key, Output::release_marked);
}

/// All that waits for a client now may leave. O(1).
pub fn release_output(hub: &mut Hub, key: SessionKey) {
    transmit::change_output(&mut hub.core, key, Output::release);
}

/// With whose sessions that of a connection counts together: see [`crate::Tenants::owner`]. To be
/// called when the client has connected; until then, it counts with nobody's.
pub fn set_owner(hub: &mut Hub, key: SessionKey, owner: u32) {
    if let Some(session) = hub.core.session_mut(key) {
        set_owner_of(&mut session.state, owner);
    }
}

/// Whether so much is to be written for a session, more than 16 KiB, that others come first. O(1).
#[must_use]
#[inline]
pub fn has_bulk(hub: &Hub, key: SessionKey) -> bool {
    transmit::has_bulk(&hub.core, key)
}

/// Whether a session outlives its connection. O(1).
#[must_use]
pub fn session_lasts(hub: &Hub, key: SessionKey) -> bool {
    let session = hub.core.session(key);
    session.is_some_and(|session| session.state.is_persistent())
}
