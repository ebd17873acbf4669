//! A store that has to fetch what a snapshot reads from a disk first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::world::{ConnectOptions, World};
use stentor_hub::{Cursor, Kept, Mark, NotKept, Retained, Scope, Settings, Walk};
use stentor_mqtt::{QoS, Version};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{Message, Tick};
use stentor_topic::{TopicHasher, Zone};

/// Has to be asked so many times before anything may be read.
struct ColdStore {
    inner: MemoryStore,
    left: AtomicU32,
}

impl Retained for ColdStore {
    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept> {
        self.inner.put(message)
    }
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }
    fn mark(&self) -> Mark {
        self.inner.mark()
    }
    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>> {
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "it would wait");
        self.inner.get(zone, topic, mark, now)
    }
    fn is_fetching(&self, _: Zone, _: &str, _: &Cursor, _: usize) -> bool {
        let asked = |left: u32| left.checked_sub(1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.left.fetch_update(set, get, asked).is_ok()
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
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "it would wait");
        self.inner.walk(zone, filter, scope, cursor, visits, out)
    }
    fn count(&self) -> u64 {
        self.inner.count()
    }
}

#[test]
fn a_snapshot_waits_for_the_store_and_nobody_else_does() {
    for (filter, expected) in [("t/3", 1), ("t/#", 40)] {
        let store = Arc::new(ColdStore {
            inner: MemoryStore::new(TopicHasher::new(7), Bounds::default()),
            left: AtomicU32::new(0),
        });
        let retained: Arc<dyn Retained> = Arc::<ColdStore>::clone(&store);
        let mut w = World::with_store(1, Settings::default(), retained);
        let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
        for i in 0..40 {
            w.publish(p, &format!("t/{i}"), "stored", QoS::AtMostOnce, true);
        }
        let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
        store.left.store(3, Ordering::Relaxed);
        assert_eq!(
            w.subscribe(s, filter, QoS::AtMostOnce),
            0,
            "the SUBACK comes at once"
        );
        assert_eq!(w.take_messages(s).len(), 0);
        // Live messages do not wait.
        w.publish(p, "t/3", "live", QoS::AtMostOnce, false);
        let live = w.take_messages(s);
        assert_eq!((live.len(), &live[0].payload[..]), (1, &b"live"[..]));
        let mut stored = 0;
        for _ in 0..20 {
            w.now = w.hubs[0].next_deadline().unwrap_or(w.now).max(w.now);
            w.advance();
            stored += w.take_messages(s).len();
        }
        assert_eq!(stored, expected, "{filter}");
        assert_eq!(store.left.load(Ordering::Relaxed), 0);
    }
}

/// A snapshot paces itself by what waits already: it loses nothing to a small queue.
#[test]
fn a_snapshot_is_complete_however_small_the_queue() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let settings = Settings {
            queue_bytes_max: 4_096,
            ..Settings::default()
        };
        let mut w = World::with_settings(1, settings);
        let p = w.connect(Version::V5, "p", &ConnectOptions::persistent());
        let payload = "x".repeat(700);
        for i in 0..300 {
            w.publish(p, &format!("t/{i}"), &payload, qos, true);
        }
        let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
        w.open_socket(s, 0);
        w.subscribe(s, "t/#", qos);
        let mut found = 0;
        for _ in 0..2_000 {
            w.open_socket(s, 1_000);
            w.settle();
            for message in w.take_messages(s) {
                found += 1;
                if let Some(id) = message.packet_id {
                    w.send_ack(s, 0x40, id);
                }
            }
        }
        assert_eq!(found, 300, "{qos:?}");
    }
}
