//! Retained messages in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_hub::{
    Cursor, Kept, Mark, NotKept, Retained, STRIPE_VISITS, Scope, Walk, topic_visits,
};
use stentor_session::{Message, Publisher, Tick};
use stentor_topic::{TopicHasher, Zone, literal_prefix, matches};

use crate::store::STEP_BYTES;

/// Parts of the store with a lock each. Far more than shards, so that two rarely meet.
const STRIPES: u64 = 64;

/// What begins so is the server's own; of it, clients may publish the state of their bridges.
const SERVERS_OWN: &str = "$SYS/";
/// Messages of clients there that each part of a zone holds. They stay in memory whatever the
/// quotas say, so there are few of them, and they are small.
const CLIENTS_MESSAGES_MAX: usize = 256;
/// Bytes of topic, properties and payload of each of them.
const CLIENTS_BYTES_MAX: usize = 1024;

/// What the store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Topics with a message.
    pub messages_max: u64,
    /// Bytes of all of them: topic, properties, payload and overhead.
    pub bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            messages_max: u64::MAX,
            bytes_max: u64::MAX,
        }
    }
}

/// The retained messages of all zones, in ordered maps striped by the hash of the topic.
///
/// The topics of a stripe are ordered, so that a walk over a wildcard filter visits only what
/// has its literal prefix.
pub struct MemoryStore {
    hasher: TopicHasher,
    stripes: Vec<Mutex<Stripe>>,
    /// Counts puts; a value's version is the count at its put.
    version: Arc<AtomicU64>,
    messages: AtomicU64,
    bytes: AtomicU64,
    messages_max: AtomicU64,
    bytes_max: AtomicU64,
    /// Of this run: a restart forgets everything.
    epoch: u64,
}

type Topics = BTreeMap<Box<str>, Value>;
type Stripe = BTreeMap<Zone, Topics>;

struct Value {
    version: u64,
    message: Arc<Message>,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(hasher: TopicHasher, bounds: Bounds) -> Self {
        Self::counting_with(hasher, bounds, Arc::default())
    }

    /// An empty store that shares its count of puts with another one.
    pub(crate) fn counting_with(
        hasher: TopicHasher,
        bounds: Bounds,
        version: Arc<AtomicU64>,
    ) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        let epoch = hasher.hash(Zone(0), "epoch");
        let (messages, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self {
            hasher,
            stripes,
            version,
            messages,
            bytes,
            messages_max: AtomicU64::new(bounds.messages_max),
            bytes_max: AtomicU64::new(bounds.bytes_max),
            epoch,
        }
    }

    /// Sets other bounds from now on. What is there stays, even beyond them: then nothing new is
    /// kept until enough of it has gone.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.messages_max
            .store(bounds.messages_max, Ordering::Relaxed);
        self.bytes_max.store(bounds.bytes_max, Ordering::Relaxed);
    }

    /// Bytes held: topics, properties, payloads and overhead.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn stripe_of(&self, zone: Zone, topic: &str) -> MutexGuard<'_, Stripe> {
        let stripe = (self.hasher.hash(zone, topic) >> 32) % STRIPES;
        // The index is below the length by construction.
        self.lock(stripe as usize)
    }

    /// A panic while the lock was held left the map whole: it has no multi-step updates.
    fn lock(&self, stripe: usize) -> MutexGuard<'_, Stripe> {
        self.stripes[stripe]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, more: u64) -> bool {
        self.messages.load(Ordering::Relaxed) < self.messages_max.load(Ordering::Relaxed)
            && self.bytes() + more <= self.bytes_max.load(Ordering::Relaxed)
    }

    /// Whether there is room for a message of a client, where the server's own are. Where there is
    /// none, those that have expired make some.
    fn takes_from_client(&self, topics: &mut Topics, message: &Message) -> bool {
        let topic = message.topic();
        if !topic.starts_with(SERVERS_OWN) || message.publisher == Publisher::SERVER {
            return true;
        }
        if topic.len() + message.properties().len() + message.payload().len() > CLIENTS_BYTES_MAX {
            return false;
        }
        let own = topics
            .range::<str, _>((Bound::Included(SERVERS_OWN), Bound::Unbounded))
            .take_while(|(topic, _)| topic.starts_with(SERVERS_OWN))
            .filter(|(_, value)| value.message.publisher != Publisher::SERVER);
        if topics.contains_key(topic) || own.clone().count() < CLIENTS_MESSAGES_MAX {
            return true;
        }
        let expired = own.filter(|(_, value)| value.message.is_expired(message.received_at));
        let expired: Vec<_> = expired.map(|(topic, _)| topic.clone()).collect();
        for topic in &expired {
            if let Some(value) = topics.remove(topic) {
                self.forget(&value);
            }
        }
        !expired.is_empty()
    }

    fn forget(&self, value: &Value) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        self.bytes
            .fetch_sub(value.message.cost() as u64, Ordering::Relaxed);
    }
}

impl Retained for MemoryStore {
    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept> {
        let mut stripe = self.stripe_of(message.zone, message.topic());
        let topics = stripe.entry(message.zone).or_default();
        // A topic that is new goes on above all numbers that it may have had before.
        let next = topics.get(message.topic()).map_or_else(
            || self.version.load(Ordering::SeqCst) + 1,
            |old| old.message.sequence() + 1,
        );
        if message.payload().is_empty() {
            if let Some(old) = topics.remove(message.topic()) {
                self.forget(&old);
            }
            message.stamp(next);
            self.version.fetch_add(1, Ordering::SeqCst);
            return Ok(Kept::Now);
        }
        if !self.takes_from_client(topics, message) {
            return Err(NotKept::Full);
        }
        let cost = message.cost() as u64;
        let freed = topics
            .get(message.topic())
            .map_or(0, |old| old.message.cost() as u64);
        let is_new = freed == 0;
        if (is_new && !self.has_room(cost))
            || (cost > freed
                && self.bytes() + (cost - freed) > self.bytes_max.load(Ordering::Relaxed))
        {
            return Err(NotKept::Full);
        }
        // Under the stripe's lock, so that versions of one topic are in the order of its values.
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        message.stamp(next);
        let value = Value {
            version,
            message: Arc::clone(message),
        };
        if let Some(old) = topics.insert(message.topic().into(), value) {
            self.forget(&old);
        }
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(cost, Ordering::Relaxed);
        Ok(Kept::Now)
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn mark(&self) -> Mark {
        Mark(self.version.load(Ordering::SeqCst))
    }

    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>> {
        let stripe = self.stripe_of(zone, topic);
        let value = stripe.get(&zone)?.get(topic)?;
        is_visible(value, Scope::until(mark, now)).then(|| Arc::clone(&value.message))
    }

    fn lacks(&self, zone: Zone, topic: &str, _mark: Mark) -> bool {
        let stripe = self.stripe_of(zone, topic);
        let topics = stripe.get(&zone);
        topics.is_none_or(|topics| !topics.contains_key(topic))
    }

    fn walk(
        &self,
        zone: Zone,
        filter: &str,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk {
        let prefix = literal_prefix(filter);
        let (mut spent, mut bytes) = (0, 0);
        while u64::from(cursor.stripe) < STRIPES {
            if spent >= visits {
                return Walk::More;
            }
            let before = spent;
            spent += STRIPE_VISITS;
            let mut last = None;
            let stripe = self.lock(usize::from(cursor.stripe));
            if let Some(topics) = stripe.get(&zone) {
                let from = match &cursor.after {
                    Some(after) => Bound::Excluded(&**after),
                    None => Bound::Included(prefix),
                };
                let range = topics.range::<str, _>((from, Bound::Unbounded));
                for (topic, value) in range.take_while(|(topic, _)| topic.starts_with(prefix)) {
                    if matches(filter, topic) && is_visible(value, scope) {
                        out.push(Arc::clone(&value.message));
                        bytes += value.message.body_bytes();
                    }
                    spent += topic_visits(topic);
                    if spent >= visits || bytes >= STEP_BYTES {
                        last = Some(topic.clone());
                        break;
                    }
                }
            }
            cursor.visits += (spent - before) as u64;
            if last.is_some() {
                cursor.after = last;
                return Walk::More;
            }
            next_stripe(cursor);
        }
        Walk::Done
    }

    fn count(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

fn next_stripe(cursor: &mut Cursor) {
    cursor.stripe += 1;
    cursor.after = None;
}

fn is_visible(value: &Value, scope: Scope) -> bool {
    let is_put_then = scope.after.0 < value.version && value.version <= scope.mark.0;
    is_put_then && !value.message.is_expired(scope.now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stentor_mqtt::QoS;
    use stentor_session::{MessageParts, Publisher};

    fn message(topic: &str, payload: &[u8], expiry_secs: Option<u32>) -> Arc<Message> {
        let parts = MessageParts {
            topic,
            properties: &[],
            payload,
            qos: QoS::AtMostOnce,
            retain: true,
            expiry_secs,
        };
        Arc::new(Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts))
    }

    fn store() -> MemoryStore {
        MemoryStore::new(TopicHasher::new(1), Bounds::default())
    }

    fn walk(store: &MemoryStore, filter: &str, visits: usize) -> Vec<String> {
        let (mut cursor, mut out) = (Cursor::default(), Vec::new());
        let scope = Scope::until(store.mark(), Tick::ZERO);
        while store.walk(Zone(0), filter, scope, &mut cursor, visits, &mut out) == Walk::More {}
        let mut topics: Vec<_> = out.iter().map(|m| m.topic().to_owned()).collect();
        topics.sort();
        topics
    }

    #[test]
    fn an_empty_payload_clears_the_topic() {
        let store = store();
        store.put(&message("a", b"1", None)).unwrap();
        assert_eq!(store.count(), 1);
        store.put(&message("a", b"", None)).unwrap();
        assert_eq!((store.count(), store.bytes()), (0, 0));
        assert!(store.get(Zone(0), "a", store.mark(), Tick::ZERO).is_none());
    }

    #[test]
    fn what_was_put_after_the_mark_is_not_read() {
        let store = store();
        store.put(&message("a", b"1", None)).unwrap();
        let mark = store.mark();
        assert!(store.get(Zone(0), "a", mark, Tick::ZERO).is_some());
        store.put(&message("a", b"2", None)).unwrap();
        assert!(store.get(Zone(0), "a", mark, Tick::ZERO).is_none());
    }

    #[test]
    fn an_expired_message_is_not_read() {
        let store = store();
        store.put(&message("a", b"1", Some(5))).unwrap();
        assert!(
            store
                .get(Zone(0), "a", store.mark(), Tick::from_secs(4))
                .is_some()
        );
        assert!(
            store
                .get(Zone(0), "a", store.mark(), Tick::from_secs(5))
                .is_none()
        );
    }

    #[test]
    fn a_step_of_a_walk_finds_few_long_messages() {
        let store = store();
        for topic in ["a", "b", "c"] {
            let long = vec![b'x'; STEP_BYTES];
            store.put(&message(topic, &long, None)).unwrap();
        }
        let (mut cursor, mut out) = (Cursor::default(), Vec::new());
        let scope = Scope::until(store.mark(), Tick::ZERO);
        let mut step = || {
            let walk = store.walk(Zone(0), "#", scope, &mut cursor, 1_000_000, &mut out);
            (walk, out.len())
        };
        let steps = [step(), step(), step(), step()];
        let expected = [
            (Walk::More, 1),
            (Walk::More, 2),
            (Walk::More, 3),
            (Walk::Done, 3),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_walk_finds_every_match_however_small_its_steps() {
        let store = store();
        let mut expected = Vec::new();
        for i in 0..500 {
            store
                .put(&message(&format!("x/{i}/v"), b"1", None))
                .unwrap();
            store
                .put(&message(&format!("y/{i}/v"), b"1", None))
                .unwrap();
            expected.push(format!("x/{i}/v"));
        }
        store.put(&message("$SYS/x", b"1", None)).unwrap();
        expected.sort();
        for visits in [1, 7, 256, 10_000] {
            assert_eq!(walk(&store, "x/+/v", visits), expected);
            assert_eq!(walk(&store, "x/#", visits), expected);
        }
        assert_eq!(walk(&store, "#", 64).len(), 1000);
        assert_eq!(walk(&store, "$SYS/#", 64), ["$SYS/x"]);
    }

    /// Those below `$SYS/`, where no quota counts.
    #[test]
    fn what_clients_say_of_their_bridges_is_bounded() {
        let store = store();
        let put = |publisher, topic: &str, payload: &[u8], expiry_secs| {
            let mut message = message(topic, payload, expiry_secs);
            Arc::get_mut(&mut message).unwrap().publisher = publisher;
            store.put(&message)
        };
        let client = Publisher::client("c");
        let state = |number| format!("$SYS/broker/connection/{number}/state");
        assert_eq!(
            put(client, &state(0), &[b'x'; 1_024], None),
            Err(NotKept::Full)
        );
        // What has expired by the time of the next one makes room.
        for number in 50_000..100_000 {
            assert!(put(client, &state(number), b"1", Some(0)).is_ok());
        }
        assert!(store.count() <= 64 * CLIENTS_MESSAGES_MAX as u64);
        assert!(put(client, &state(0), b"1", None).is_ok());
        let kept = |from: usize| {
            (from..from + 50_000)
                .filter(|number| put(client, &state(*number), b"1", None).is_ok())
                .count()
        };
        assert_eq!(kept(1), 64 * CLIENTS_MESSAGES_MAX - 1);
        assert!(
            put(client, &state(0), b"0", None).is_ok(),
            "what is there changes"
        );
        assert!(put(Publisher::SERVER, "$SYS/broker/uptime", b"1", None).is_ok());
        assert!(
            put(client, "a", &[b'x'; 2_000], None).is_ok(),
            "elsewhere quotas count"
        );
    }

    #[test]
    fn a_full_store_refuses_new_topics_and_keeps_the_old() {
        let bounds = Bounds {
            messages_max: 1,
            bytes_max: u64::MAX,
        };
        let store = MemoryStore::new(TopicHasher::new(1), bounds);
        store.put(&message("a", b"1", None)).unwrap();
        assert_eq!(store.put(&message("b", b"1", None)), Err(NotKept::Full));
        store.put(&message("a", b"2", None)).unwrap();
        assert_eq!(store.count(), 1);
        let kept = store.get(Zone(0), "a", store.mark(), Tick::ZERO).unwrap();
        assert_eq!(kept.payload(), b"2");
    }
}
