//! The sessions of one shard.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;
use stentor_mqtt::{QoS, Version};
use stentor_session::{
    Inbound, Outbound, Output, Publisher, ReceivedAliases, SentAliases, Tick, WillRequest,
};
use stentor_topic::{FilterId, TopicHasher, Zone};

use crate::authenticate::Method;
use crate::conflate::Conflating;
use crate::key::{LinkId, SessionKey};
use crate::memory::{Absences, Account, Lease, Tenant};
use crate::quota::{Meter, Seat};
use crate::rights::Identity;
use crate::room::Element;
use crate::room::Purse;
use crate::settings::Settings;
use crate::snapshot::Snapshots;
use crate::subscribe::SubscriptionRef;
use crate::work::Debt;

/// One session: what outlives a connection, and the connection while there is one. Kept small:
/// what most sessions do not have is boxed.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) generation: u32,
    /// Tells timers of the present connection or absence from those of earlier ones.
    pub(crate) epoch: u32,
    pub(crate) identity: Arc<Identity>,
    pub(crate) client_id: Box<str>,
    /// The client, in the messages that it publishes.
    pub(crate) publisher: Publisher,
    /// Seconds that it outlives its connection. Changed by [`Sessions::set_expiry`] only.
    expiry_secs: u32,
    /// Bytes of memory that its subscriptions are charged with.
    pub(crate) filter_bytes: u32,
    /// Subscriptions of which the rights permit a part or nothing: while there are any, each
    /// delivery is checked.
    pub(crate) filtered: u32,
    /// Bytes that may wait for the client, by its quota; `u32::MAX` for none of its own.
    queue_bytes: u32,
    /// Kept by [`Sessions`] only.
    account: Account,
    pub(crate) link: Link,
    pub(crate) subscriptions: SmallVec<[SubscriptionRef; 2]>,
    pub(crate) outbound: Option<Box<Outbound>>,
    pub(crate) inbound: Option<Box<Inbound>>,
    pub(crate) will: Option<Box<WillRequest>>,
}

/// Whether the client of a session is there.
#[derive(Debug)]
pub(crate) enum Link {
    Live(Live),
    Away(Away),
}

/// The connection of a session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) link: LinkId,
    pub(crate) version: Version,
    pub(crate) flushing: Flushing,
    pub(crate) keep_alive_secs: u16,
    /// How many messages may be in flight to the client: the smaller of its limit and ours.
    pub(crate) window: u16,
    pub(crate) packet_bytes_max: u32,
    pub(crate) announced: Announced,
    pub(crate) since: Tick,
    pub(crate) last_seen: Tick,
    pub(crate) output: Option<Box<Output>>,
    pub(crate) extras: Option<Box<Extras>>,
}

/// What a connection's CONNACK said of the server's limits. It holds for as long as the
/// connection does, whatever a reload changes: the client keeps to what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The largest packet that the client may send, in bytes.
    pub(crate) packet_bytes_max: u32,
    /// QoS 1 and 2 messages that it may have under way. 3.x is told of no maximum: then it is
    /// the number of packet ids.
    pub(crate) receive_maximum: u16,
    /// The highest topic alias that it may use.
    pub(crate) topic_alias_maximum: u16,
}

/// What few connections need.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Subscriptions of a mosquitto bridge are no-local and retain-as-published.
    pub(crate) bridge: bool,
    /// The enhanced authentication method that it was let in by.
    pub(crate) method: Option<Method>,
    pub(crate) received_aliases: Option<ReceivedAliases>,
    pub(crate) sent_aliases: Option<SentAliases>,
    /// Retained messages still to be sent, by subscription.
    pub(crate) snapshots: Option<Box<Snapshots>>,
    /// What is held back of what it subscribes to.
    pub(crate) conflating: Option<Box<Conflating>>,
    /// How much may wait for its socket before messages are conflated.
    pub(crate) backlog: Backlog,
    /// How fast it publishes, where that is bounded.
    pub(crate) meter: Option<Meter>,
    /// What it owes for work that is beyond its due.
    pub(crate) debt: Debt,
    /// What it owes for commands about rooms, where it has given any.
    pub(crate) purse: Option<Purse>,
    /// Whether it takes no reason strings [MQTT-3.1.2-29].
    pub(crate) terse: bool,
    /// Its places among the connections of its user and zone, where those are counted.
    pub(crate) seat: Seat,
    /// How many things that it has asked for have to be decided before more is read.
    pub(crate) held: u32,
    /// The rooms that it is in, with the number of its subscriptions below each.
    rooms: BTreeMap<Box<str>, u32>,
    /// Hashes of the topics and filters whose refusal was logged already.
    denied: Vec<u64>,
}

impl Extras {
    /// Whether the refusal of something with this hash is to be logged: once each, and no more
    /// than a few for each connection.
    pub(crate) fn remember_refusal(&mut self, hash: u64) -> bool {
        const REMEMBERED_MAX: usize = 64;
        let is_new = self.denied.len() < REMEMBERED_MAX && !self.denied.contains(&hash);
        if is_new {
            self.denied.push(hash);
        }
        is_new
    }
}

/// How much may wait for the socket of a client whose messages may be replaced by newer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Backlog {
    /// As for everybody.
    #[default]
    Usual,
    /// Little in the kernel.
    Bounded,
    /// Little here as well: it did not keep up before.
    Least,
}

/// Where a connection stands between having output and having written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushing {
    /// Nothing to write.
    Idle,
    /// Listed as dirty: the shard flushes it at the end of its turn.
    Listed,
    /// The socket is full: the shard reports when it is writable.
    Blocked,
}

/// A session that waits for its client.
#[derive(Debug)]
pub(crate) struct Away {
    /// When the session ends; `NEVER` for never.
    pub(crate) until: Tick,
    /// When the will is published, if there is one.
    pub(crate) will_at: Tick,
    /// Retained messages that it did not get before its connection ended.
    pub(crate) snapshots: Option<Box<Snapshots>>,
    /// What waits for it under policy `conflate`, and the rates of its subscriptions.
    pub(crate) conflating: Option<Box<Conflating>>,
    /// What it subscribed to in rooms.
    pub(crate) rooms: Box<[Element]>,
}

impl Session {
    /// One that is new: nothing is subscribed, nothing is owed, and nobody is there.
    pub(crate) fn new(identity: Arc<Identity>, client_id: &str, expiry_secs: u32) -> Self {
        let (until, will_at) = (Tick::NEVER, Tick::NEVER);
        let away = Away {
            until,
            will_at,
            snapshots: None,
            conflating: None,
            rooms: Box::default(),
        };
        Self {
            generation: 0,
            epoch: 0,
            identity,
            client_id: client_id.into(),
            publisher: Publisher::client(client_id),
            expiry_secs,
            filter_bytes: 0,
            filtered: 0,
            queue_bytes: u32::MAX,
            account: Account::default(),
            link: Link::Away(away),
            subscriptions: SmallVec::new(),
            outbound: None,
            inbound: None,
            will: None,
        }
    }

    /// Whether something waited for its client when it was last counted.
    #[inline]
    pub(crate) const fn had_queue(&self) -> bool {
        self.account.has_queue()
    }

    /// Whether a message for it changes nothing but its output, which is counted when it has been
    /// written.
    #[inline]
    fn is_counted_by_flush(&self) -> bool {
        let Link::Live(live) = &self.link else {
            return false;
        };
        live.flushing != Flushing::Blocked && live.extras.is_none()
    }

    pub(crate) const fn expiry_secs(&self) -> u32 {
        self.expiry_secs
    }

    /// Whether it outlives its connection.
    pub(crate) const fn is_persistent(&self) -> bool {
        self.expiry_secs > 0
    }

    pub(crate) fn zone(&self) -> Zone {
        self.identity.zone
    }

    /// The user's name; `None` for who has none.
    pub(crate) fn user(&self) -> Option<&str> {
        self.identity.user.as_deref()
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

    /// Applies the quotas of its identity, to the connection too if it has one.
    pub(crate) fn apply_quotas(&mut self) {
        let quotas = self.identity.rights.quotas();
        // Nobody waits for 4 GiB.
        let queue_bytes = quotas.queued_bytes.map(u32::try_from);
        self.queue_bytes = queue_bytes.and_then(Result::ok).unwrap_or(u32::MAX);
        let Link::Live(live) = &mut self.link else {
            return;
        };
        match (Meter::new(quotas), &mut live.extras) {
            (None, None) => {}
            (meter, _) => live.extras().meter = meter,
        }
    }

    /// Counts the connection where the session's identity says from now on.
    pub(crate) fn keep_seat(&mut self) {
        let needs = self.identity.rights.needs();
        let Link::Live(live) = &mut self.link else {
            return;
        };
        // The old place first: it may be the same one.
        let claim = live
            .extras
            .as_mut()
            .and_then(|extras| extras.seat.stand_up());
        let seat = Seat::keep(&needs, claim);
        if !seat.is_empty() {
            live.extras().seat = seat;
        }
    }

    /// Whether it has a subscription below a room.
    pub(crate) fn is_in_room(&self, room: &str) -> bool {
        let extras = self.live().and_then(|live| live.extras.as_ref());
        extras.is_some_and(|extras| extras.rooms.contains_key(room))
    }

    /// How many rooms it has subscriptions below.
    pub(crate) fn room_count(&self) -> usize {
        let extras = self.live().and_then(|live| live.extras.as_ref());
        extras.map_or(0, |extras| extras.rooms.len())
    }

    /// It has one subscription more below a room.
    pub(crate) fn entered(&mut self, room: &str) {
        if let Link::Live(live) = &mut self.link {
            let rooms = &mut live.extras().rooms;
            match rooms.get_mut(room) {
                Some(count) => *count += 1,
                None => drop(rooms.insert(room.into(), 1)),
            }
        }
    }

    /// It has one subscription less below a room.
    pub(crate) fn left(&mut self, room: &str) {
        let Some(extras) = self.live_mut().and_then(|live| live.extras.as_mut()) else {
            return;
        };
        if let Some(count) = extras.rooms.get_mut(room) {
            *count -= 1;
            if *count == 0 {
                extras.rooms.remove(room);
            }
        }
    }

    /// Adds a subscription that costs so many bytes.
    pub(crate) fn subscribed(&mut self, subscription: SubscriptionRef, bytes: usize) {
        self.subscriptions.push(subscription);
        // A subscription costs some megabytes at most, and the limit keeps the sum far from 4 GiB.
        self.filter_bytes = self.filter_bytes.saturating_add(bytes as u32);
    }

    /// A subscription that cost so many bytes is gone.
    pub(crate) const fn unsubscribed(&mut self, bytes: usize) {
        self.filter_bytes = self.filter_bytes.saturating_sub(bytes as u32);
    }

    /// The shared subscriptions of which it is a member, by their slots: a list of its own, so
    /// that the hub can be changed while it is walked.
    pub(crate) fn shares(&self) -> SmallVec<[u32; 2]> {
        let share = |subscription: &SubscriptionRef| match subscription {
            SubscriptionRef::Share(slot) => Some(*slot),
            SubscriptionRef::Filter(_) => None,
        };
        self.subscriptions.iter().filter_map(share).collect()
    }

    /// Its client is there, and gets what it did not get before. Returns what it subscribed to
    /// in rooms.
    pub(crate) fn attach(&mut self, mut live: Live) -> Vec<Element> {
        let mut rooms = Vec::new();
        if let Link::Away(away) = &mut self.link {
            if let Some(snapshots) = away.snapshots.take() {
                live.extras().snapshots = Some(snapshots);
            }
            if let Some(conflating) = away.conflating.take() {
                live.extras().conflating = Some(conflating);
            }
            rooms = core::mem::take(&mut away.rooms).into_vec();
        }
        self.link = Link::Live(live);
        self.epoch = self.epoch.wrapping_add(1);
        rooms
    }

    /// Its client's retained messages that are still to be sent, while it is there.
    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        self.live()?.extras.as_ref()?.snapshots.as_deref()
    }

    /// What is left of a subscription's snapshot is not wanted any more.
    pub(crate) fn forget_snapshot(&mut self, id: FilterId) {
        if let Some(snapshots) = self.live_mut().and_then(Live::snapshots) {
            snapshots.cancel(id);
        }
    }

    /// Whether it has something that most sessions do not have.
    #[inline]
    pub(crate) const fn is_special(&self) -> bool {
        match &self.link {
            Link::Live(live) => live.extras.is_some(),
            Link::Away(away) => away.conflating.is_some(),
        }
    }

    /// Whether it is connected by MQTT 5.
    pub(crate) fn speaks_v5(&self) -> bool {
        self.live().is_some_and(|live| live.version.is_v5())
    }

    pub(crate) const fn live(&self) -> Option<&Live> {
        match &self.link {
            Link::Live(live) => Some(live),
            Link::Away(_) => None,
        }
    }

    pub(crate) const fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.link {
            Link::Live(live) => Some(live),
            Link::Away(_) => None,
        }
    }
}

impl Live {
    pub(crate) fn extras(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Gives a new connection its places, and what the one before it owed: whoever connects again
    /// and again pays all the same.
    pub(crate) fn take_on(&mut self, now: Tick, seat: Seat, debt: Debt) {
        if !seat.is_empty() {
            self.extras().seat = seat;
        }
        if debt.is_owed(now) {
            self.extras().debt = debt;
        }
    }

    /// What to try as the reason string of an acknowledgement, one after the other until the
    /// packet is small enough; an empty one stands for none.
    pub(crate) fn explanations<'t>(
        &self,
        text: &'t str,
    ) -> impl Iterator<Item = &'t str> + use<'t> {
        let is_terse = self.extras.as_ref().is_some_and(|extras| extras.terse);
        let text = Some(text).filter(|text| !text.is_empty() && self.version.is_v5() && !is_terse);
        text.into_iter().chain([""])
    }

    /// Whether nothing is taken from the client until something is decided.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.extras.as_ref().is_some_and(|extras| {
            extras.held > 0 || extras.purse.as_ref().is_some_and(Purse::is_full)
        })
    }

    /// Until when nothing is taken from the client, because it publishes faster than it may, or has
    /// given commands about rooms or caused work that is not paid for.
    #[inline]
    pub(crate) fn paused_until(&self, now: Tick) -> Option<Tick> {
        let extras = self.extras.as_ref()?;
        let published = extras.meter.as_ref().map(Meter::paid_at);
        let commanded = extras.purse.as_ref().map(Purse::paid_at);
        let worked = Some(extras.debt.paid_at());
        let until = published.max(commanded).max(worked);
        until.filter(|until| *until > now)
    }

    /// Whether work that the client has caused is not paid for yet.
    pub(crate) fn owes(&self, now: Tick) -> bool {
        let extras = self.extras.as_ref();
        extras.is_some_and(|extras| extras.debt.is_owed(now))
    }

    /// The retained messages that are still to be sent.
    pub(crate) fn snapshots(&mut self) -> Option<&mut Snapshots> {
        self.extras.as_mut()?.snapshots.as_deref_mut()
    }

    /// Bytes of packets other than PUBLISH that wait for the socket.
    #[inline]
    pub(crate) fn control_bytes(&self) -> usize {
        let output = self.output.as_ref();
        output.map_or(0, |output| output.control_bytes())
    }

    /// Bytes that wait for the socket.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.output.as_ref().map_or(0, |output| output.wire_bytes())
    }
}

/// All sessions of a shard, by slot and by client id.
#[derive(Debug)]
pub(crate) struct Sessions {
    hasher: TopicHasher,
    slots: Slab<Session>,
    slots_end: usize,
    by_client: HashTable<u32>,
    generations: u32,
    /// Sessions of all shards that outlive their connection.
    persistent: Arc<AtomicU64>,
    /// The slots of sessions that have changed, perhaps, since they were counted.
    marked: Vec<u32>,
    /// What all sessions were charged with when they were last counted: themselves, and what waits
    /// for their clients.
    charged: [u64; 2],
    /// By slot, the places of sessions that outlive their connection.
    leases: Vec<Option<Box<Lease>>>,
    absences: Absences,
}

impl Sessions {
    pub(crate) fn new(hasher: TopicHasher, persistent: Arc<AtomicU64>) -> Self {
        Self {
            persistent,
            hasher,
            slots: Slab::new(),
            slots_end: 0,
            by_client: HashTable::new(),
            generations: 0,
            marked: Vec::new(),
            charged: [0; 2],
            leases: Vec::new(),
            absences: Absences::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// One more than the highest slot that was ever taken.
    pub(crate) fn slots(&self) -> usize {
        self.slots_end
    }

    /// Adds a session of a user who has none with its client id yet.
    pub(crate) fn insert(&mut self, mut session: Session) -> SessionKey {
        self.generations = self.generations.wrapping_add(1);
        session.generation = self.generations;
        let generation = session.generation;
        let persistent = u64::from(session.is_persistent());
        self.persistent.fetch_add(persistent, Ordering::Relaxed);
        session.account = Account::default();
        session.account.mark();
        let hash = self.hasher.hash(session.zone(), &session.client_id);
        // A slab of more than 2^32 sessions does not fit into memory.
        let slot = u32::try_from(self.slots.insert(session)).unwrap_or(u32::MAX);
        self.marked.push(slot);
        self.slots_end = self.slots_end.max(slot as usize + 1);
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_client.insert_unique(hash, slot, |slot| {
            slots
                .get(*slot as usize)
                .map_or(0, |s| hasher.hash(s.zone(), &s.client_id))
        });
        SessionKey { slot, generation }
    }

    pub(crate) fn remove(&mut self, key: SessionKey) -> Option<Session> {
        let session = self.get(key)?;
        let hash = self.hasher.hash(session.zone(), &session.client_id);
        if let Ok(entry) = self.by_client.find_entry(hash, |slot| *slot == key.slot) {
            entry.remove();
        }
        self.came_back(key);
        if let Some(lease) = self.leases.get_mut(key.slot as usize) {
            *lease = None;
        }
        let session = self.slots.try_remove(key.slot as usize)?;
        let persistent = u64::from(session.is_persistent());
        self.persistent.fetch_sub(persistent, Ordering::Relaxed);
        self.recharge(session.account, Account::default());
        Some(session)
    }

    /// A session takes places of those that outlive their connection.
    pub(crate) fn let_to(&mut self, key: SessionKey, lease: Lease) {
        let slot = key.slot as usize;
        if self.leases.len() <= slot {
            self.leases.resize_with(slot + 1, || None);
        }
        self.leases[slot] = Some(Box::new(lease));
    }

    /// A session waits for its client from now on: it may be the one that goes first where there
    /// is no room.
    pub(crate) fn went_away(&mut self, key: SessionKey) {
        self.note_absence(key, Absences::add);
    }

    /// It does no longer.
    pub(crate) fn came_back(&mut self, key: SessionKey) {
        self.note_absence(key, Absences::remove);
    }

    fn note_absence(
        &mut self,
        key: SessionKey,
        note: fn(&mut Absences, &Tenant, Tick, (u32, u64)),
    ) {
        let slot = key.slot as usize;
        let Some(Some(lease)) = self.leases.get(slot) else {
            return;
        };
        let Some(session) = self.slots.get(slot) else {
            return;
        };
        if let Link::Away(away) = &session.link {
            let holds = (key.slot, session.account.bytes());
            note(&mut self.absences, lease.tenant(), away.until, holds);
        }
    }

    /// How many sessions the tenant has, on all shards, whose session goes first here.
    pub(crate) fn most_absent(&self) -> u32 {
        let first = self.absences.first_by_sessions();
        let lease = first.and_then(|slot| self.leases.get(slot as usize)?.as_ref());
        lease.map_or(0, |lease| lease.tenant().sessions())
    }

    /// The session that goes first where places are short.
    pub(crate) fn first_to_go(&self) -> Option<SessionKey> {
        self.key(self.absences.first_by_sessions()?)
    }

    /// The session that goes first where memory is short, and the bytes that it was charged with.
    pub(crate) fn first_to_free(&self) -> Option<(SessionKey, u64)> {
        let key = self.key(self.absences.first_by_bytes()?)?;
        Some((key, self.get(key)?.account.bytes()))
    }

    /// What part of so many bytes the sessions hold that wait for their clients. Where it is hardly
    /// any, none: to end them would free nothing.
    pub(crate) fn absent_part(&self, bytes: u64) -> u64 {
        /// What is less than such a part is hardly any.
        const PARTS: u64 = 64;
        let held = u128::from(self.charged[0] + self.charged[1]).max(1);
        let part = u128::from(bytes) * u128::from(self.absences.bytes()) / held;
        // No larger than `bytes`, unless counts are about to be settled.
        let part = u64::try_from(part).unwrap_or(bytes);
        if part < bytes / PARTS { 0 } else { part }
    }

    /// Counts the sessions anew that have changed. Returns what all of them are charged with:
    /// themselves, and what waits for their clients.
    pub(crate) fn settle_charges(&mut self) -> [u64; 2] {
        let mut marked = core::mem::take(&mut self.marked);
        for slot in marked.drain(..) {
            let Some(session) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            if session.account.is_marked() {
                let now = Account::of(session);
                let before = core::mem::replace(&mut session.account, now);
                let is_away = session.live().is_none();
                if is_away && let Some(Some(lease)) = self.leases.get(slot as usize) {
                    let (before, now) = (before.bytes(), now.bytes());
                    self.absences.recharge(lease.tenant(), before, now);
                }
                self.recharge(before, now);
            }
        }
        self.marked = marked;
        self.charged
    }

    fn recharge(&mut self, before: Account, now: Account) {
        let (before, now) = (before.parts(), now.parts());
        self.charged[0] = self.charged[0] - before.0 + now.0;
        self.charged[1] = self.charged[1] - before.1 + now.1;
    }

    /// How many sessions of all shards outlive their connection.
    pub(crate) fn persistent(&self) -> u64 {
        self.persistent.load(Ordering::Relaxed)
    }

    /// Sets how long a session outlives its connection, in seconds.
    pub(crate) fn set_expiry(&mut self, key: SessionKey, expiry_secs: u32) {
        let count = Arc::clone(&self.persistent);
        let Some(session) = self.get_mut(key) else {
            return;
        };
        let was = u64::from(session.is_persistent());
        session.expiry_secs = expiry_secs;
        count.fetch_add(u64::from(session.is_persistent()), Ordering::Relaxed);
        count.fetch_sub(was, Ordering::Relaxed);
    }

    /// The session that a user has under a client id.
    pub(crate) fn find(
        &self,
        zone: Zone,
        client_id: &str,
        user: Option<&str>,
    ) -> Option<SessionKey> {
        let is_own = |(_, session): &(SessionKey, &Session)| session.user() == user;
        let (key, _) = self.all(zone, client_id).find(is_own)?;
        Some(key)
    }

    /// The sessions of a client id: one for each user who has come with it and may come back.
    pub(crate) fn all<'s>(
        &'s self,
        zone: Zone,
        client_id: &'s str,
    ) -> impl Iterator<Item = (SessionKey, &'s Session)> {
        let slots = self.by_client.iter_hash(self.hasher.hash(zone, client_id));
        let is_it =
            move |session: &&Session| session.zone() == zone && *session.client_id == *client_id;
        slots.filter_map(move |slot| {
            let session = self.slots.get(*slot as usize).filter(is_it)?;
            let key = SessionKey {
                slot: *slot,
                generation: session.generation,
            };
            Some((key, session))
        })
    }

    /// The session of a client id that is connected: at most one is [MQTT-3.1.4-3].
    pub(crate) fn connected(&self, zone: Zone, client_id: &str) -> Option<SessionKey> {
        let mut all = self.all(zone, client_id);
        let (key, _) = all.find(|(_, session)| session.live().is_some())?;
        Some(key)
    }

    /// The session of a client id that people mean: the connected one, or the newest.
    pub(crate) fn main(&self, zone: Zone, client_id: &str) -> Option<SessionKey> {
        let newest = || {
            self.all(zone, client_id)
                .max_by_key(|(key, _)| key.generation)
        };
        let newest = || newest().map(|(key, _)| key);
        self.connected(zone, client_id).or_else(newest)
    }

    pub(crate) fn key(&self, slot: u32) -> Option<SessionKey> {
        let generation = self.slots.get(slot as usize)?.generation;
        Some(SessionKey { slot, generation })
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session> {
        self.slots
            .get(key.slot as usize)
            .filter(|s| s.generation == key.generation)
    }

    /// Marks it: what it holds is counted at the end of the turn.
    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        let session = self.slots.get_mut(key.slot as usize)?;
        if session.generation != key.generation {
            return None;
        }
        if !session.account.mark() {
            self.marked.push(key.slot);
        }
        Some(session)
    }

    /// For the flush of its output, which is followed by [`Sessions::mark`] where that matters.
    #[inline]
    pub(crate) fn flush_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.slots
            .get_mut(key.slot as usize)
            .filter(|s| s.generation == key.generation)
    }

    /// Has a session counted at the end of the turn.
    pub(crate) fn mark(&mut self, key: SessionKey) {
        self.get_mut(key);
    }

    /// By slot alone: for the topic index, whose entries never outlive their session. To give it a
    /// message of this QoS: it is marked unless only its output changes by that.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32, qos: QoS) -> Option<&mut Session> {
        let session = self.slots.get_mut(slot as usize)?;
        let by_flush = qos == QoS::AtMostOnce && session.is_counted_by_flush();
        if !by_flush && !session.account.mark() {
            self.marked.push(slot);
        }
        Some(session)
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Session> {
        self.slots.get(slot as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionKey, &Session)> {
        self.slots.iter().map(|(slot, session)| {
            let slot = u32::try_from(slot).unwrap_or(u32::MAX);
            (
                SessionKey {
                    slot,
                    generation: session.generation,
                },
                session,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part of the memory that an idle connection costs.
    #[test]
    fn a_session_is_small() {
        assert!(size_of::<Session>() <= 176, "{}", size_of::<Session>());
    }
}
