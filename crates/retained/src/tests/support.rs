//! What the tests of the store share.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stentor_hub::{Cursor, NotKept, Retained, Scope, Walk};
use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

use crate::{Quota, Store, StoreOptions, Sync};
use stentor_disk::Disk;
pub(super) use stentor_disk::simulated::Random;

/// Options without quotas, for a server that was started at a fixed time.
pub(super) fn options(sync: Sync) -> StoreOptions {
    StoreOptions {
        sync,
        total: Quota::UNLIMITED,
        zone: Quota::UNLIMITED,
        started_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000),
        now: Tick::ZERO,
        random: 0x5EED_5EED_5EED_5EED,
        boot: 1,
    }
}

pub(super) fn message(zone: Zone, topic: &str, payload: &[u8]) -> Arc<Message> {
    expiring(zone, topic, payload, None)
}

pub(super) fn expiring(
    zone: Zone,
    topic: &str,
    payload: &[u8],
    expiry_secs: Option<u32>,
) -> Arc<Message> {
    let parts = MessageParts {
        topic,
        properties: b"\x01\x01",
        payload,
        qos: QoS::AtLeastOnce,
        retain: true,
        expiry_secs,
    };
    let publisher = Publisher::client("c");
    Arc::new(Message::new(zone, publisher, Tick::from_secs(5), &parts))
}

pub(super) fn put<D: Disk>(store: &Store<D>, topic: &str, payload: &[u8]) -> Result<u64, NotKept> {
    let message = message(Zone(0), topic, payload);
    store.put(&message).map(|_| message.sequence())
}

pub(super) fn get<D: Disk>(store: &Store<D>, topic: &str) -> Option<Vec<u8>> {
    let mark = store.mark();
    let found = store.get(Zone(0), topic, mark, Tick::from_secs(6))?;
    assert!(!store.lacks(Zone(0), topic, mark), "{topic} is there");
    assert_eq!(found.topic(), topic);
    assert_eq!(found.properties(), b"\x01\x01");
    Some(found.payload().to_vec())
}

/// All matches of a filter, in steps of this many visits.
pub(super) fn walk<D: Disk>(store: &Store<D>, filter: &str, visits: usize) -> Vec<Arc<Message>> {
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    let scope = Scope::until(store.mark(), Tick::from_secs(6));
    while store.walk(Zone(0), filter, scope, &mut cursor, visits, &mut found) == Walk::More {}
    found
}
