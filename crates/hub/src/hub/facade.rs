//! What the shard asks of the core.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Batch, CloseReason, ConnectRequest, Flush, Output, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::delivery::transmit;
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inbound::subscribe::Granted;
use crate::core::memory::{Holding, Tenants};
use crate::core::routing::share::ShareName;
use crate::core::sessions::authenticate::Authenticated;
use crate::core::sessions::connect::Admitted;
use crate::core::sessions::registry::Session;
use crate::core::sessions::rights::Identity;
use crate::core::sessions::state::set_owner_of;
use crate::core::stats::{Losses, Stats};
use crate::core::work::{Beside, HandedOver, TurnFigures};
use crate::effects::Effects;

impl Hub {
    /// The shard begins a turn: what it may do is counted from here on.
    pub fn begin_turn(&mut self) {
        self.core.begin_turn();
    }

    /// What the present turn has done so far, in visits of about 30 ns.
    #[must_use]
    pub const fn turn_visits(&self) -> u32 {
        self.core.turn().spent()
    }

    /// What the present turn has done so far.
    #[must_use]
    pub fn turn_figures(&self) -> TurnFigures<'_> {
        self.core.turn_figures()
    }

    /// What the present turn has handed over so far.
    #[inline]
    #[must_use]
    pub const fn turn_handed_over(&self) -> HandedOver {
        self.core.turn().handed_over()
    }

    /// Whether more messages are there that go to a crowd, and wait only for the next turn: so
    /// that the crowd is better written to when it has them too.
    #[must_use]
    pub const fn crowd_goes_on(&self) -> bool {
        self.core.crowd_goes_on()
    }

    /// Whether messages that were expensive to route go on in later turns.
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        self.core.has_jobs()
    }

    /// Whether what came by the last connection went to a crowd: see [`crate::Effects::crowd`].
    #[inline]
    #[must_use]
    pub const fn has_served_crowd(&self) -> bool {
        self.core.turn().serves_crowd()
    }

    /// Whether the present turn has done what it may.
    #[inline]
    #[must_use]
    pub const fn turn_is_spent(&self) -> bool {
        self.core.turn_is_spent()
    }

    /// How many packets of one connection are taken in a turn, at most: [`crate::OWN_PACKETS`], or
    /// fewer while many connections wait for their turn. Holds until the next call.
    pub const fn set_packets_at_once(&mut self, packets: u32) {
        self.core.turn_mut().set_packets_at_once(packets);
    }

    /// A figure that grows with all that the present turn does.
    #[inline]
    #[must_use]
    pub const fn turn_work(&self) -> u64 {
        self.core.turn_work()
    }

    /// Counts what the shard does in the present turn beside the hub.
    #[inline]
    pub fn count_beside(&mut self, what: Beside) {
        self.core.turn_mut().count(what);
    }

    /// Whether a connection waits for the next turn: this one is spent, and it owes for work. O(1).
    #[inline]
    #[must_use]
    pub fn waits(&self, now: Tick, key: SessionKey) -> bool {
        self.core.waits(now, key)
    }

    /// Routes what waits for more of its kind. To be called after the last of several
    /// [`Hub::apply`]; all other calls do it by themselves.
    pub fn settle(&mut self, now: Tick) {
        self.core.settle(now);
        self.finish(now);
    }

    /// The turns of the other shards have room for changes of shared subscriptions that cost this
    /// many of their visits. Holds until the next call; without one there is no bound. Part of what
    /// waits goes out now, so [`Hub::effects`] has something for the lanes.
    pub fn set_share_room(&mut self, visits: u32) {
        self.core.set_share_room(visits);
    }

    /// Whether something waits for room, and for nothing else.
    #[must_use]
    pub fn waits_for_share_room(&self) -> bool {
        self.core.waits_for_share_room()
    }

    /// Bytes of memory of shared subscriptions that have ended, and of which others have not heard
    /// that yet.
    #[must_use]
    pub const fn untold_bytes(&self) -> u64 {
        self.core.untold_bytes()
    }

    /// Gathers what waits for a client, up to a budget, for one write of at most 256 KiB. Nothing
    /// else may be asked of the hub before [`Hub::transmitted`], which does not follow if this is
    /// `false`: then the client is gone, or has been flushed since it was listed.
    #[must_use]
    #[inline]
    pub fn transmit(&mut self, now: Tick, key: SessionKey, batch: &mut Batch) -> bool {
        self.core.transmit(now, key, batch)
    }

    /// Whether so much waits for a session's socket that it is better written at once than at the
    /// end of the turn: what many connections have caused in one turn would leave the caches
    /// before it is written.
    #[must_use]
    #[inline]
    pub fn is_laden(&self, key: SessionKey) -> bool {
        self.core.is_laden(key)
    }

    /// Whether something waits for a session's socket, all of it answers what its client has sent,
    /// and more answers fit into the same write. O(1).
    #[must_use]
    #[inline]
    pub fn has_few_answers_only(&self, key: SessionKey) -> bool {
        self.core.has_few_answers_only(key)
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
        let result = self.core.transmitted(now, key, batch, written);
        self.finish(now);
        result
    }

    /// The socket of a connection takes bytes again.
    #[inline]
    pub fn writable(&mut self, key: SessionKey) {
        self.core.writable(key);
    }

    /// Takes back the queue of a farewell that was written or given up.
    pub fn recycle(&mut self, farewell: Box<Output>) {
        self.core.recycle(farewell);
    }

    /// The subscriptions of a session, for inspection.
    #[must_use]
    pub fn granted(&self, key: SessionKey) -> Vec<Granted> {
        self.core.granted(key)
    }

    /// The subscriptions of a session that match a topic: of all its subscriptions from a number
    /// on, this many are looked at; and with which to go on, if there are more. O(`at_most`).
    #[must_use]
    pub fn matching(
        &self,
        key: SessionKey,
        topic: &str,
        from: usize,
        at_most: usize,
    ) -> (Vec<Granted>, Option<usize>) {
        self.core.matching(key, topic, from, at_most)
    }

    /// The filters of a session, as it wrote them, for inspection.
    #[must_use]
    pub fn subscriptions(&self, key: SessionKey) -> Vec<Arc<str>> {
        self.core.subscriptions(key)
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
        self.core.admit(request, identity)
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
        self.core.admit_as(request, identity, tenants)
    }

    /// The connection that a client id has now is about to be taken over: commands that it has
    /// sent already need not wait, up to some more, or else they would be lost, and a DISCONNECT
    /// behind them. To be undone.
    pub fn read_last(&mut self, zone: Zone, client_id: &str, is_last: bool) {
        self.core.read_last(zone, client_id, is_last);
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
        self.core.authenticated(now, key, link, decision);
        self.finish(now);
    }

    /// Memory is short: the server has to free this many bytes. This shard gives its part of them
    /// in this turn and the next ones, by sessions that wait for their clients. First those of
    /// whoever holds most in that way, the one that is closest to its end before others. They
    /// give what they hold of all that is held, of whatever kind, and no more: what clients hold
    /// that are there does not make others lose their sessions.
    pub fn relieve(&mut self, now: Tick, bytes: u64) {
        self.core.relieve(now, bytes);
        self.finish(now);
    }

    /// An eighth of what the sessions hold that wait for their clients goes with them, in the same
    /// order: their messages may keep far more memory than they count.
    pub fn unpin(&mut self, now: Tick) {
        self.core.unpin(now);
        self.finish(now);
    }

    /// Counts the sessions again that have changed, and writes the sums into the ledger.
    /// [`Hub::advance`] does it; O(sessions that have changed).
    pub fn settle_accounts(&mut self) {
        self.core.settle_accounts(self.services.room_bytes());
    }

    /// Bytes of memory that work holds which goes on in later turns: messages that are expensive to
    /// route, with the subscribers found so far, long SUBSCRIBE and UNSUBSCRIBE packets, and what
    /// waited for sessions that have ended. O(1).
    #[must_use]
    pub fn work_bytes(&self) -> u64 {
        self.core.work_bytes()
    }

    /// The sums over all sessions and all work, counted one by one: what the ledger says of this
    /// shard after [`Hub::settle_accounts`]. O(sessions + work): for tests.
    #[must_use]
    pub fn recount(&self) -> [(Holding, u64); 3] {
        self.core.recount()
    }

    /// What the calls since have asked for.
    #[inline]
    pub fn effects(&mut self) -> &mut Effects {
        self.core.effects()
    }

    /// The shard is about to take what other shards have left in their rings until now, all of it.
    pub fn begin_drain(&mut self) {
        self.core.begin_drain();
    }

    /// Everything that was in `effects().mesh` lies in the rings of the other shards. Until then
    /// their snapshots may wait for it, so this has to be called soon after the hub was.
    pub fn forwarded(&mut self) {
        self.core.forwarded();
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats()
    }

    /// What was lost, and by whom.
    #[must_use]
    pub const fn losses(&self) -> &Losses {
        self.core.losses()
    }

    /// Every filter that this shard routes by, with the number of its own sessions that subscribe
    /// to it: 0 if there are only members of shared subscriptions, here or elsewhere.
    /// [`Hub::shared_subscriptions`] has those.
    pub fn filters(&self) -> impl Iterator<Item = (Zone, &str, usize)> {
        self.core.filters()
    }

    /// Every shared subscription with members on this shard, and their number.
    pub fn shared_subscriptions(&self) -> impl Iterator<Item = (&ShareName, usize)> {
        self.core.shared_subscriptions()
    }
}

/// Whether packets other than PUBLISH wait to be written to a client. O(1).
#[must_use]
pub fn has_answers(hub: &Hub, key: SessionKey) -> bool {
    answer_bytes(hub, key) > 0
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
/// belongs to a change which is not on the disk. Whoever had output that is not written yet does
/// not become dirty again.
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
