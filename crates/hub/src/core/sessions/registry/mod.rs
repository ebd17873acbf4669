//! The sessions of one shard.

mod accounts;
mod link;
mod session;

use accounts::{OfFull, give_back};
pub(crate) use accounts::{
    RECOUNTED_AT_ONCE, about_written, absent_level, count_disk_of, look_at_full, mark_of,
    most_absent_bytes, owner_in, part_of, take_new_of_full,
};
pub use link::Messages;
pub(crate) use link::{Announced, Away, Backlog, Extras, Flushing, Left, Link, Live};
use session::RETIRED;
pub(crate) use session::Session;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use stentor_mqtt::QoS;
use stentor_session::Remains;
use stentor_topic::{Slots, TagTable, TopicHasher, Zone};

use crate::core::delivery::conflate::Conflating;
use crate::core::ids::SessionKey;
use crate::core::memory::{Absences, Account, Laden, Lease};
use crate::core::sessions::log::{Journals, SessionLog, Together};
use crate::core::sessions::state::{self, Legacy, is_written};

/// All sessions of a shard, by slot and by client id.
#[derive(Debug)]
pub(crate) struct Sessions {
    hasher: TopicHasher,
    slots: Slots<Session>,
    slots_end: usize,
    by_client: TagTable,
    generations: u32,
    /// Sessions of all shards that outlive their connection.
    persistent: Arc<AtomicU64>,
    /// Those of this shard.
    lasting: Lasting,
    /// The slots of sessions that have changed, perhaps, since they were counted.
    marked: Vec<u32>,
    /// What all sessions were charged with when they were last counted: themselves, and what waits
    /// for their clients.
    charged: [u64; 2],
    /// By slot, the places of sessions that outlive their connection.
    leases: Vec<Option<Box<Lease>>>,
    /// How far sessions have come; empty between the calls of a shard.
    together: Together,
    of_full: OfFull,
    absences: Absences,
    pub(crate) laden: Laden,
    /// Sessions that have ended and keep their slot still.
    retired: usize,
}

/// How many sessions of a shard outlive their connection. Other shards may ask whether there are
/// any.
#[derive(Debug)]
struct Lasting {
    count: usize,
    journals: Arc<Journals>,
    shard: u8,
}

impl Lasting {
    fn change(&mut self, came: bool, went: bool) {
        let before = self.count;
        self.count = (before + usize::from(came)).saturating_sub(usize::from(went));
        if (before == 0) != (self.count == 0) {
            self.journals.set_lasting(self.shard, self.count > 0);
        }
    }
}

/// How many sessions are written down as long as they are there.
pub(crate) const fn lasting_len(sessions: &Sessions) -> usize {
    sessions.lasting.count
}

/// A session becomes a member of a queue: see [`super::queue_member`]. Whether a base of it has to
/// follow.
pub(crate) fn serve_queue(sessions: &mut Sessions, key: SessionKey, log: &mut SessionLog) -> bool {
    let session = sessions.get_mut(key);
    let is_new = session.is_some_and(|session| state::serve_queue(&mut session.state, log));
    sessions.lasting.change(is_new, false);
    is_new
}

/// A session leaves its queues: see [`super::queue_member`]. Returns what it was owed; `None` if
/// the session has ended.
pub(crate) fn leave_queues(sessions: &mut Sessions, key: SessionKey) -> Option<Remains> {
    let session = sessions.get_mut(key)?;
    let was_written = is_written(&session.state);
    let owed = state::leave_queues(&mut session.state);
    let is_written = is_written(&session.state);
    sessions.lasting.change(is_written, was_written);
    Some(owed)
}

/// The session in a slot, with its key.
pub(crate) fn in_slot(sessions: &Sessions, slot: u32) -> Option<(SessionKey, &Session)> {
    let session = sessions.at(slot)?;
    let generation = session.generation;
    Some((SessionKey { slot, generation }, session))
}

/// A session that has ended, and what it leaves.
#[derive(Debug)]
pub(crate) struct Retired {
    /// Its name from now on.
    pub(crate) key: SessionKey,
    pub(crate) legacy: Legacy,
    /// What was held back for it.
    pub(crate) held_back: Option<Box<Conflating>>,
}

impl Sessions {
    pub(crate) fn new(
        hasher: TopicHasher,
        persistent: Arc<AtomicU64>,
        journals: Arc<Journals>,
        shard: u8,
    ) -> Self {
        Self {
            persistent,
            lasting: Lasting {
                count: 0,
                journals,
                shard,
            },
            hasher,
            slots: Slots::new(),
            slots_end: 0,
            by_client: TagTable::new(),
            generations: 0,
            marked: Vec::new(),
            charged: [0; 2],
            leases: Vec::new(),
            together: Together::default(),
            of_full: OfFull::default(),
            absences: Absences::default(),
            laden: Laden::default(),
            retired: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.retired
    }

    /// One more than the highest slot that was ever taken.
    pub(crate) fn slots(&self) -> usize {
        self.slots_end
    }

    /// Adds a session of a user who has none with its client id yet.
    pub(crate) fn insert(&mut self, mut session: Session) -> SessionKey {
        self.generations = self.generations.wrapping_add(1).max(RETIRED + 1);
        session.generation = self.generations;
        let generation = session.generation;
        let persistent = u64::from(session.state.is_persistent());
        self.persistent.fetch_add(persistent, Ordering::Relaxed);
        self.lasting.change(is_written(&session.state), false);
        session.account = Account::default();
        session.account.mark();
        let hash = self
            .hasher
            .hash(session.state.zone(), session.state.client_id());
        // A slab of more than 2^32 sessions does not fit into memory.
        let slot = self.slots.insert(session);
        self.marked.push(slot);
        self.slots_end = self.slots_end.max(slot as usize + 1);
        self.by_client.insert_unique(hash, slot);
        SessionKey { slot, generation }
    }

    /// A session has ended: nobody finds it any more, and it gets nothing. It keeps its slot, for
    /// its subscriptions name that, until [`Sessions::free`] with the key that is returned.
    /// O(1).
    pub(crate) fn retire(&mut self, key: SessionKey, log: &mut SessionLog) -> Option<Retired> {
        let session = self.get(key)?;
        let persistent = u64::from(session.state.is_persistent());
        let was_written = is_written(&session.state);
        let hash = self
            .hasher
            .hash(session.state.zone(), session.state.client_id());
        self.by_client.remove(hash, key.slot);
        self.came_back(key);
        give_back(self, key.slot);
        self.persistent.fetch_sub(persistent, Ordering::Relaxed);
        self.lasting.change(false, was_written);
        self.retired += 1;
        let (legacy, held_back) = self.get_mut(key)?.retire(log);
        Some(Retired {
            key: SessionKey {
                generation: RETIRED,
                ..key
            },
            legacy,
            held_back,
        })
    }

    /// Gives the slot of a retired session free, which has no subscription left.
    pub(crate) fn free(&mut self, retired: SessionKey) {
        debug_assert!(retired.generation == RETIRED, "it has ended");
        if let Some(session) = self.slots.remove(retired.slot) {
            self.retired -= 1;
            self.recharge(session.account, Account::default());
            self.laden.forget(retired.slot);
        }
    }

    /// How many sessions of all shards outlive their connection.
    pub(crate) fn persistent(&self) -> u64 {
        self.persistent.load(Ordering::Relaxed)
    }

    /// Sets how long a session outlives its connection, in seconds.
    pub(crate) fn set_expiry(&mut self, key: SessionKey, expiry_secs: u32, log: &mut SessionLog) {
        let count = Arc::clone(&self.persistent);
        let Some(session) = self.get_mut(key) else {
            return;
        };
        let was_written = is_written(&session.state);
        let before = session.state.set_expiry(expiry_secs, log);
        let stays_written = is_written(&session.state);
        count.fetch_add(u64::from(expiry_secs > 0), Ordering::Relaxed);
        count.fetch_sub(u64::from(before > 0), Ordering::Relaxed);
        self.lasting.change(stays_written, was_written);
    }

    /// The session that a user has under a client id.
    pub(crate) fn find(
        &self,
        zone: Zone,
        client_id: &str,
        user: Option<&str>,
    ) -> Option<SessionKey> {
        // No client has the session of a queue, whatever it is called.
        let is_own = |(_, session): &(SessionKey, &Session)| {
            session.state.user() == user && session.state.queue().is_none()
        };
        let (key, _) = self.all(zone, client_id).find(is_own)?;
        Some(key)
    }

    /// The sessions of a client id: one for each user who has come with it and may come back.
    pub(crate) fn all<'s>(
        &'s self,
        zone: Zone,
        client_id: &'s str,
    ) -> impl Iterator<Item = (SessionKey, &'s Session)> {
        let slots = self.by_client.with_hash(self.hasher.hash(zone, client_id));
        let is_it = move |session: &&Session| {
            session.state.zone() == zone && session.state.client_id() == client_id
        };
        slots.filter_map(move |slot| {
            let session = self.slots.get(slot).filter(is_it)?;
            let key = SessionKey {
                slot,
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

    /// The connection of a client id, by its hash with the zone.
    pub(crate) fn live_by_hash(&mut self, hash: u64) -> Option<&mut Live> {
        let (slots, hasher) = (&self.slots, &self.hasher);
        let is_it = |slot: &u32| {
            let session = slots.get(*slot);
            session.is_some_and(|session| {
                session.live().is_some()
                    && hasher.hash(session.state.zone(), session.state.client_id()) == hash
            })
        };
        let slot = self.by_client.with_hash(hash).find(is_it)?;
        self.get_mut(self.key(slot)?)?.live_mut()
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
        let generation = self.at(slot)?.generation;
        Some(SessionKey { slot, generation })
    }

    pub(crate) fn get(&self, key: SessionKey) -> Option<&Session> {
        self.slots
            .get(key.slot)
            .filter(|s| s.generation == key.generation)
    }

    /// Marks it: what it holds is counted at the end of the turn.
    pub(crate) fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        let session = self.slots.get_mut(key.slot)?;
        if session.generation != key.generation {
            return None;
        }
        if !session.account.mark() {
            self.marked.push(key.slot);
        }
        Some(session)
    }

    /// For a change that does not touch what it holds, or is followed by [`Sessions::mark`] where
    /// it does: to count a session again reads memory that most packets do not need.
    #[inline]
    pub(crate) fn unmarked_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        self.slots
            .get_mut(key.slot)
            .filter(|s| s.generation == key.generation)
    }

    /// Has a session counted at the end of the turn.
    pub(crate) fn mark(&mut self, key: SessionKey) {
        self.get_mut(key);
    }

    /// By slot alone: for the topic index, whose entries never outlive the slot of their session,
    /// which may be retired. To give it a message of this QoS: it is marked unless only its output
    /// changes by that.
    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u32, qos: QoS) -> Option<&mut Session> {
        let session = self.slots.get_mut(slot)?;
        let by_flush = qos == QoS::AtMostOnce && session.is_counted_by_flush();
        if !by_flush && !session.account.mark() {
            self.marked.push(slot);
        }
        Some(session)
    }

    pub(crate) fn at(&self, slot: u32) -> Option<&Session> {
        let session = self.slots.get(slot)?;
        (!session.is_retired()).then_some(session)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionKey, &Session)> {
        let slots = self.slots.iter();
        slots.filter_map(|(slot, _)| in_slot(self, slot))
    }
}
