//! What of a session outlives its connection.
//!
//! The fields are private to this module and its parts. They change by methods that return what has
//! changed, so every change of what a session has to remember passes through here. Of a session
//! that lasts, they leave a record of the change in the [`SessionLog`].
//!
//! What few sessions have stands elsewhere, so that the others need no room for it: messages that
//! are held back, unfinished snapshots and rooms. [`Session::attach`] and the end of a connection
//! move them between [`Extras`] and [`Away`].
//!
//! [`Session::attach`]: crate::core::sessions::registry::Session::attach
//! [`Extras`]: crate::core::sessions::registry::Extras
//! [`Away`]: crate::core::sessions::registry::Away

mod arrivals;
mod owed;
mod queue_member;
mod subscriptions;

pub(crate) use arrivals::Arrivals;
pub(crate) use owed::Owed;
pub(crate) use subscriptions::{Grant, StoredMessages, Subscribed, Subscriptions};

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS, ReasonCode};
use stentor_session::{
    Acked, Chunk, CloseReason, Delivery, Outbound, Publisher, Remains, Tick, WillRequest, backlog,
};
use stentor_session_log::{Filter, Origin};
use stentor_topic::Zone;

use crate::core::inbound::subscribe::{SubscriptionRef, room_of};
use crate::core::routing::options::Options;
use crate::core::sessions::log::{Number, SessionLog, Terms, Together, free, write_unpromised};
use crate::core::sessions::quota::Quotas;
use crate::core::sessions::rights::{Access, Identity, QueueBounds};
use crate::core::settings::Settings;
use crate::core::transitions::DueWill;

pub(in crate::core::sessions) use queue_member::{
    gives_back, is_written, leave_queues, serve_queue, served_queue,
};

/// What of a session outlives its connection: whose it is, for how long it lasts, what it has
/// subscribed to, the messages above QoS 0 in both directions, and its will.
#[derive(Debug)]
pub(crate) struct SessionState {
    identity: Arc<Identity>,
    client_id: Box<str>,
    /// The client, in the messages that it publishes.
    publisher: Publisher,
    /// Seconds that it outlives its connection.
    expiry_secs: u32,
    /// Bytes that may wait for the client, by its quota; `u32::MAX` for none of its own.
    queue_bytes: u32,
    /// What it is called where changes are written down; `None` where they are not. Of a session
    /// that does not outlive its connection, only its will is written down, unless it serves a
    /// queue.
    number: Option<Number>,
    /// Whether it has become a member of a queue. Then it is written down until it ends, also if it
    /// does not outlive its connection: see [`queue_member`].
    serves_queue: bool,
    /// With whose sessions it counts together, in three bytes: see [`crate::Tenants::owner`].
    owner: [u8; 3],
    will: Option<Box<WillRequest>>,
    pub(crate) subscriptions: Subscriptions,
    /// The messages above QoS 0 to the client.
    pub(crate) owed: Owed,
    /// Those from the client.
    pub(crate) arrivals: Arrivals,
}

/// How long a session waits for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// When the session ends; `NEVER` for never.
    pub(crate) until: Tick,
    /// When its will is due; `NEVER` if it has none.
    pub(crate) will_at: Tick,
}

/// What a session leaves when it ends, besides its subscriptions.
#[derive(Debug)]
pub(crate) struct Legacy {
    /// What it was owed.
    pub(crate) owed: Remains,
    pub(crate) will: Option<Box<DueWill>>,
}

impl SessionState {
    /// Nothing is subscribed, and nothing is owed.
    pub(crate) fn new(identity: Arc<Identity>, client_id: &str, expiry_secs: u32) -> Self {
        Self {
            identity,
            client_id: client_id.into(),
            publisher: Publisher::client(client_id),
            expiry_secs,
            queue_bytes: u32::MAX,
            number: None,
            serves_queue: false,
            owner: [0; 3],
            will: None,
            subscriptions: Subscriptions::default(),
            owed: Owed::default(),
            arrivals: Arrivals::default(),
        }
    }

    /// The session ends: nothing stays of it but its subscriptions.
    pub(in crate::core::sessions) fn end(&mut self, log: &mut SessionLog) -> Legacy {
        self.forget(log);
        self.subscriptions.permit_all();
        self.arrivals = Arrivals::default();
        Legacy {
            owed: self.owed.abandon(),
            will: self.take_will(log),
        }
    }

    #[inline]
    pub(crate) const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    #[inline]
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    #[inline]
    pub(crate) const fn publisher(&self) -> Publisher {
        self.publisher
    }

    #[inline]
    pub(crate) fn zone(&self) -> Zone {
        self.identity.zone
    }

    /// Its bounds, if this is the session of a queue, which no client has.
    pub(crate) fn queue(&self) -> Option<QueueBounds> {
        self.identity.rights.queue()
    }

    /// The user's name; `None` for a client without one.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.user.as_deref()
    }

    /// Gives the session another identity. Returns the one before.
    pub(crate) fn adopt(&mut self, identity: Arc<Identity>, log: &mut SessionLog) -> Arc<Identity> {
        let before = core::mem::replace(&mut self.identity, identity);
        if self.number.is_some() && !is_written_alike(&before, &self.identity) {
            self.note(log);
        }
        before
    }

    /// Writes down whose it is and how long it lasts, if its changes are written down.
    fn note(&self, log: &mut SessionLog) {
        if let Some(number) = self.number {
            let (identity, client_id) = (&*self.identity, &*self.client_id);
            number.session(log, identity, client_id, self.expiry_secs, false);
        }
    }

    /// Its number, if all that it remembers is written down.
    #[inline]
    pub(in crate::core) fn number(&self) -> Option<Number> {
        self.number.filter(|_| is_written(self))
    }

    /// Goes on with a session of an earlier start, whose records are those of its origin. Without
    /// an origin, nothing was written of it, and [`write_base`] has to follow.
    ///
    /// [`write_base`]: crate::core::sessions::log::write_base
    pub(in crate::core::sessions) fn adopted(
        &mut self,
        origin: Option<Origin>,
        will: Option<Box<WillRequest>>,
        log: &mut SessionLog,
    ) {
        self.will = will;
        self.number = log.number();
        if let (Some(number), Some(origin)) = (self.number, origin) {
            number.adopted(log, origin);
            if let Some(owed) = self.owed.get() {
                // What was sent last is perhaps not written.
                number.progress(log, &owed.progress());
            }
        }
    }

    /// Writes down whose it is and what will it has, as the beginning of all that there is to say
    /// of it. Returns its number, if it has one.
    pub(in crate::core::sessions) fn write_base(&self, log: &mut SessionLog) -> Option<Number> {
        let number = self.number?;
        let (identity, client_id) = (&*self.identity, &*self.client_id);
        number.session(log, identity, client_id, self.expiry_secs, true);
        if let Some(will) = &self.will
            && (self.is_persistent() || log.keeps_wills())
        {
            number.will(log, will);
        }
        Some(number)
    }

    /// Seconds that it outlives its connection; `u32::MAX` for ever.
    pub(crate) const fn expiry_secs(&self) -> u32 {
        self.expiry_secs
    }

    /// Whether it outlives its connection.
    #[inline]
    pub(crate) const fn is_persistent(&self) -> bool {
        self.expiry_secs > 0
    }

    /// Sets how long it outlives its connection, in seconds. Returns what held before. Only
    /// [`Sessions::set_expiry`] calls it, which counts the sessions that outlive theirs.
    ///
    /// [`Sessions::set_expiry`]: crate::core::sessions::registry::Sessions::set_expiry
    pub(in crate::core::sessions) fn set_expiry(&mut self, secs: u32, log: &mut SessionLog) -> u32 {
        let before = core::mem::replace(&mut self.expiry_secs, secs);
        if secs == before {
            return before;
        }
        let keeps_will = self.will.is_some() && log.keeps_wills();
        if !is_written(self) && !keeps_will {
            self.forget(log);
        } else {
            self.note(log);
        }
        before
    }

    /// Nothing that was written down of it holds after the next start.
    fn forget(&mut self, log: &mut SessionLog) {
        if let Some(number) = self.number.take() {
            number.end(log);
        }
    }

    /// Applies the quotas of its identity, and returns them.
    pub(crate) fn apply_quotas(&mut self) -> Quotas {
        let quotas = self.identity.rights.quotas();
        // Nobody waits for 4 GiB.
        let queue_bytes = quotas.queued_bytes.map(u32::try_from);
        self.queue_bytes = queue_bytes.and_then(Result::ok).unwrap_or(u32::MAX);
        quotas
    }

    /// Bytes that may wait for the client.
    #[inline]
    pub(crate) fn queue_bytes_max(&self, settings: &Settings) -> usize {
        match self.queue_bytes {
            u32::MAX => settings.queue_bytes_max,
            own => settings.queue_bytes_max.min(own as usize),
        }
    }

    /// The same for messages of one QoS.
    #[inline]
    pub(crate) fn queue_bytes_max_at(&self, qos: QoS, settings: &Settings) -> usize {
        let most = self.queue_bytes_max(settings);
        match qos {
            QoS::AtMostOnce => most.min(settings.qos0_bytes_max),
            QoS::AtLeastOnce | QoS::ExactlyOnce => most,
        }
    }

    /// Whether a message may be delivered. Costs nothing while all subscriptions are permitted in
    /// full.
    #[inline]
    pub(crate) fn may_receive(&self, topic: &str) -> bool {
        !self.subscriptions.are_filtered() || self.identity.rights.may_receive(topic)
    }

    /// The subscription to this filter goes: it is not among the filtered ones any more, if it was.
    pub(crate) fn forget_filtered(&mut self, filter: &str) {
        let rights = &self.identity.rights;
        self.subscriptions
            .forget_filtered(|| rights.may_subscribe(filter) != Access::All);
    }

    /// One is granted. It is added, unless the session has it already, with the options `before`.
    /// `stored` are the messages that an earlier grant asked for.
    pub(crate) fn subscribe(
        &mut self,
        subscription: SubscriptionRef,
        filter: Filter<'_>,
        grant: &Grant,
        stored: StoredMessages,
        before: Option<Options>,
        log: &mut SessionLog,
    ) -> Subscribed {
        if let Some(number) = self.number() {
            number.subscribed(log, filter, grant.terms(stored));
        }
        self.subscriptions.subscribe(subscription, grant, before)
    }

    /// One that cost this many bytes has ended. The list has it until [`Subscriptions::retain`].
    /// If it is below a room, it may come back: see [`SessionState::leave`].
    pub(crate) fn unsubscribe(&mut self, filter: Filter<'_>, bytes: usize, log: &mut SessionLog) {
        if room_of(filter.filter).is_none() {
            self.leave(filter, log);
        }
        self.subscriptions.unsubscribe(bytes);
    }

    /// It does not come back to a filter by itself when its client does.
    pub(crate) fn leave(&self, filter: Filter<'_>, log: &mut SessionLog) {
        if let Some(number) = self.number() {
            number.unsubscribed(log, filter);
        }
    }

    /// The stored messages of a subscription are still to be sent, and go on after a restart.
    pub(crate) fn snapshot_begins(&self, filter: Filter<'_>, terms: Terms, log: &mut SessionLog) {
        if let Some(number) = self.number() {
            number.subscribed(log, filter, terms);
        }
    }

    /// All of them are sent, or owed.
    pub(crate) fn snapshot_ends(&self, filter: Filter<'_>, log: &mut SessionLog) {
        if let Some(number) = self.number() {
            number.done(log, filter);
        }
    }

    /// Whether its user is known to be one still.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.identity.rights.is_confirmed()
    }

    /// Writes down how far its deliveries have come, where that has changed. No answer
    /// promises it.
    pub(crate) fn write_progress(&mut self, log: &mut SessionLog) {
        if let Some(number) = self.number()
            && let Some(progress) = self.owed.take_progress()
        {
            write_unpromised(log, |log| number.progress(log, &progress));
        }
        if self.owed.get().is_some_and(backlog::is_spooling) {
            // A restart needs them no longer.
            free(log, &self.owed.take_done_chunks());
        }
    }

    /// The same at once, if a packet id does not follow from the number of its delivery: the client
    /// is about to see it.
    pub(crate) fn write_odd(&mut self, log: &mut SessionLog) {
        if self.owed.get().is_some_and(Outbound::has_odd)
            && let Some(number) = self.number()
            && let Some(progress) = self.owed.take_progress()
        {
            number.progress(log, &progress);
        }
    }

    /// PUBREC: the client has a message at QoS 2, or refuses it.
    pub(crate) fn received(
        &mut self,
        packet_id: PacketId,
        reason: ReasonCode,
        log: &mut SessionLog,
    ) -> Acked {
        let delivery = self.owed.get().map_or(0, |it| it.number_of(packet_id));
        let acked = self.owed.received(packet_id, reason);
        if acked == Acked::Release
            && delivery > 0
            && let Some(number) = self.number()
        {
            number.received(log, delivery);
        }
        acked
    }

    /// PUBREC is about to be sent: the message was taken, and is not to be taken again.
    pub(crate) fn has_arrived(&self, packet_id: PacketId, log: &mut SessionLog) {
        if let Some(number) = self.number() {
            number.arrived(log, packet_id);
        }
    }

    /// Forgets a message at QoS 2 that was not taken.
    pub(crate) fn refuse(&mut self, packet_id: PacketId, log: &mut SessionLog) {
        self.arrivals.refuse(packet_id);
        if let Some(number) = self.number() {
            number.released(log, packet_id);
        }
    }

    /// PUBREL: see [`Arrivals::released`].
    pub(crate) fn released(&mut self, packet_id: PacketId, log: &mut SessionLog) -> bool {
        let is_known = self.arrivals.released(packet_id);
        if is_known && let Some(number) = self.number() {
            number.released(log, packet_id);
        }
        is_known
    }

    pub(crate) fn will(&self) -> Option<&WillRequest> {
        self.will.as_deref()
    }

    /// A connection begins, with this will or without one.
    pub(crate) fn attached(&mut self, will: Option<Box<WillRequest>>, log: &mut SessionLog) {
        let needs_number = is_written(self) || will.is_some() && log.keeps_wills();
        if self.number.is_none() && needs_number {
            self.number = log.number();
            self.note(log);
        }
        if let Some(number) = self.number {
            number.here(log);
            match &will {
                Some(will) => number.will(log, will),
                None if self.will.is_some() => number.will_gone(log),
                None => {}
            }
        }
        self.will = will;
    }

    /// It waits for its client, since this many milliseconds after 1970.
    pub(in crate::core::sessions) fn is_away(
        &self,
        since_ms: u64,
        absence: Absence,
        log: &mut SessionLog,
    ) {
        if let Some(number) = self.number() {
            number.away(log, since_ms, absence);
        }
    }

    /// The connection is gone. Returns for how long the session waits for its client.
    pub(crate) fn detached(
        &mut self,
        now: Tick,
        reason: CloseReason,
        log: &mut SessionLog,
    ) -> Absence {
        if reason.drops_will() {
            self.take_will(log);
        }
        self.write_progress(log);
        self.owed.disconnected();
        self.arrivals.disconnected();
        let until = match self.expiry_secs {
            u32::MAX => Tick::NEVER,
            secs => now.after_secs(secs),
        };
        let delay = self.will.as_ref().map(|will| will.delay_secs);
        let will_at = delay.map_or(Tick::NEVER, |secs| now.after_secs(secs).min(until));
        let absence = Absence { until, will_at };
        self.is_away(log.ms(now), absence, log);
        absence
    }

    /// Its will is not to be published before the next start of the server.
    pub(crate) fn put_off_will(&mut self) {
        self.will = None;
        // The end of a session that does not last is not to be told, or its will would be gone.
        self.number = self.number();
    }

    /// The time of its will has come, if it has one.
    pub(crate) fn take_will(&mut self, log: &mut SessionLog) -> Option<Box<DueWill>> {
        let will = self.will.take()?;
        match self.number() {
            Some(number) => number.will_gone(log),
            None => self.forget(log),
        }
        Some(Box::new(DueWill {
            identity: Arc::clone(&self.identity),
            client_id: self.client_id.clone(),
            will,
        }))
    }
}

/// The quota of bytes that a session has of its own, if it has one.
pub(crate) fn own_queue_bytes(state: &SessionState) -> Option<u32> {
    Some(state.queue_bytes).filter(|own| *own != u32::MAX)
}

/// The disk has a part of what a session is owed.
pub(crate) fn write_spooled(state: &SessionState, chunk: &Chunk, log: &mut SessionLog) {
    if let Some(number) = state.number() {
        write_unpromised(log, |log| number.spooled(log, chunk));
    }
}

/// A part of that has come back: see [`backlog::fetched`]. Rights may have changed since. Returns
/// how many messages are not owed any more.
pub(crate) fn take_fetched(
    state: &mut SessionState,
    first: u64,
    deliveries: Vec<Delivery>,
) -> usize {
    let is_filtered = state.subscriptions.are_filtered();
    let rights = &state.identity.rights;
    state.owed.fetched(first, deliveries, |delivery| {
        !is_filtered || rights.may_receive(delivery.message.topic())
    })
}

/// Whether the record of a session says the same of both.
fn is_written_alike(before: &Identity, after: &Identity) -> bool {
    let (old, new) = (&before.rights, &after.rights);
    let are_equal = || {
        old.quotas() == new.quotas()
            && old.has_no_account() == new.has_no_account()
            && old.roles_are_of_credential() == new.roles_are_of_credential()
            && old.roles() == new.roles()
    };
    before.guest == after.guest && (Arc::ptr_eq(old, new) || are_equal())
}

/// With whose sessions one counts together; 0: with nobody's.
pub(crate) const fn owner_of(state: &SessionState) -> u32 {
    let [a, b, c] = state.owner;
    u32::from_le_bytes([a, b, c, 0])
}

/// Says so.
pub(crate) const fn set_owner_of(state: &mut SessionState, owner: u32) {
    let [a, b, c, _] = owner.to_le_bytes();
    state.owner = [a, b, c];
}

/// [`SessionState::write_progress`] of one of several sessions. What all of them have in common is
/// added to `together`, and written by that.
pub(crate) fn write_progress_with(
    state: &mut SessionState,
    log: &mut SessionLog,
    together: &mut Together,
) {
    if let Some(number) = state.number()
        && let Some(progress) = state.owed.take_progress()
    {
        together.add(number, log, &progress);
    }
    if state.owed.get().is_some_and(backlog::is_spooling) {
        together.free_later(&state.owed.take_done_chunks());
    }
}
