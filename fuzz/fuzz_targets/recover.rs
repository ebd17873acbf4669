//! Recovery: whatever lies in the files, the store opens, holds only whole messages, and works.
//!
//! The input is a list of changes to the files of a small store, then perhaps a file of its own.

#![no_main]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use stentor_hub::{Cursor, Retained, Scope, Walk};
use stentor_mqtt::QoS;
use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;
use stentor_retained::{Quota, Store, StoreOptions, Sync};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

fn options() -> StoreOptions {
    StoreOptions {
        sync: Sync::Interval(Duration::from_secs(1)),
        total: Quota::UNLIMITED,
        zone: Quota::UNLIMITED,
        started_at: SystemTime::UNIX_EPOCH,
        now: Tick::ZERO,
        random: 1,
        boot: 1,
    }
}

fn put(store: &Store<SimulatedDisk>, topic: &str, payload: &[u8]) {
    let parts = MessageParts {
        topic,
        properties: &[],
        payload,
        qos: QoS::AtMostOnce,
        retain: true,
        expiry_secs: None,
    };
    let message = Message::new(Zone(0), Publisher::SERVER, Tick::ZERO, &parts);
    store.put(&Arc::new(message)).expect("there is room");
}

fn filled() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options()).expect("an empty disk opens");
    for i in 0..40_usize {
        put(&store, &format!("t/{}", i % 8), &vec![b'x'; i * 37]);
    }
    disk
}

fn check(disk: &SimulatedDisk) {
    // A later format is the one thing that is refused.
    let Ok(store) = Store::open(disk.clone(), &options()) else {
        return;
    };
    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
    let scope = Scope::until(store.mark(), Tick::ZERO);
    while store.walk(Zone(0), "#", scope, &mut cursor, 16, &mut found) == Walk::More {}
    for message in &found {
        assert!(message.topic().starts_with("t/"), "nobody put that");
        assert!(message.payload().iter().all(|byte| *byte == b'x'));
    }
    assert_eq!(store.count(), found.len() as u64);
    for i in 0..8 {
        put(&store, &format!("t/{i}"), b"xx");
    }
    let message = store.get(Zone(0), "t/3", store.mark(), Tick::ZERO);
    assert_eq!(message.expect("it was put").payload(), b"xx");
}

fuzz_target!(|input: &[u8]| {
    let disk = filled();
    let names = disk.names().expect("a simulated disk has names");
    let (changes, rest) = input.split_at(input.len().min(200));
    for change in changes.chunks_exact(5) {
        let name = &names[usize::from(change[0]) % names.len()];
        let at = usize::from(u16::from_le_bytes([change[1], change[2]])) * 3;
        disk.damage(name, at % disk.len_of(name).max(1), change[4]);
    }
    if let Some((first, rest)) = rest.split_first() {
        let name = format!("{:02}-000007.seg", first % 32);
        // As long as a real one, or as it comes.
        let mut file = rest.to_vec();
        if first & 0x80 != 0 {
            file.resize(4096 + 8 * 16_384, 0);
        }
        disk.put(&name, &file);
    }
    check(&disk);
    check(&disk.after_kill());
});
