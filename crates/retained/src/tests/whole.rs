//! The store as the hub sees it: quotas, expiry, order, memory and files.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stentor_hub::{Kept, NotKept, Purpose, Retained};
use stentor_session::{Tick, Ticket};
use stentor_topic::Zone;

use super::support::{Random, expiring, get, message, options, put, walk};
use crate::{Quota, Store, StoreEvent, StoreOptions, Sync, Watcher};
use stentor_disk::MappedDisk;
use stentor_disk::simulated::{Operation, SimulatedDisk};

fn simulated(sync: Sync) -> Store<SimulatedDisk> {
    Store::open(SimulatedDisk::new(1), &options(sync)).unwrap()
}

#[test]
fn quotas_bound_all_zones_and_each() {
    let store = simulated(Sync::Never);
    let total = Quota {
        messages_max: 3,
        bytes_max: u64::MAX,
    };
    let zone = Quota {
        messages_max: 2,
        bytes_max: 20,
    };
    store.set_quotas(total, zone);
    let put = |zone, topic, payload: &[u8]| store.put(&message(Zone(zone), topic, payload));
    assert_eq!(put(1, "a", b"1"), Ok(Kept::Now));
    assert_eq!(put(1, "b", b"1"), Ok(Kept::Now));
    assert_eq!(put(1, "c", b"1"), Err(NotKept::Full), "the zone is full");
    let met = |zone| store.bound_met(Zone(zone)).map(String::from);
    assert_eq!(met(1).as_deref(), Some("retained.zone_messages is 2"));
    assert_eq!(put(2, "a", b"1"), Ok(Kept::Now), "another zone is not");
    assert_eq!(put(2, "b", b"1"), Err(NotKept::Full), "all zones are full");
    assert_eq!(met(2).as_deref(), Some("retained.messages is 3"));
    assert_eq!(put(1, "a", b"2"), Ok(Kept::Now), "an update needs no room");
    assert_eq!(put(1, "a", &[0; 30]), Err(NotKept::Full), "bytes count too");
    assert_eq!(put(1, "a", b""), Ok(Kept::Now));
    assert_eq!(
        put(1, "c", b"1"),
        Ok(Kept::Now),
        "what is cleared makes room"
    );
    assert_eq!(store.status().zones.len(), 2);
}

/// Shards that put at the same moment do not go beyond a quota together.
#[test]
fn a_quota_holds_whoever_puts_at_the_same_moment() {
    const PUTTERS: usize = 4;
    let store = simulated(Sync::Never);
    let zone = Quota {
        messages_max: 2,
        bytes_max: u64::MAX,
    };
    store.set_quotas(Quota::UNLIMITED, zone);
    let start = std::sync::Barrier::new(PUTTERS);
    std::thread::scope(|scope| {
        for putter in 0..PUTTERS {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                for zone in 0..400 {
                    start.wait();
                    // Refused or not.
                    let _ = store.put(&message(Zone(zone), &format!("t/{putter}"), &[7; 3_000]));
                }
            });
        }
    });
    for (zone, messages, _) in store.status().zones {
        assert_eq!(messages, 2, "zone {zone:?}");
    }
}

#[test]
fn what_expires_is_not_read_and_then_removed() {
    let store = simulated(Sync::Never);
    store
        .put(&expiring(Zone(0), "short", b"1", Some(10)))
        .unwrap();
    store
        .put(&expiring(Zone(0), "later", b"1", Some(10)))
        .unwrap();
    store
        .put(&expiring(Zone(0), "later", b"2", Some(100)))
        .unwrap();
    let get = |topic, secs| store.get(Zone(0), topic, store.mark(), Tick::from_secs(secs));
    assert!(get("short", 14).is_some());
    // It was received at 5 seconds.
    assert!(get("short", 15).is_none());
    assert_eq!(store.count(), 2);
    store.expire(Tick::from_secs(15));
    assert_eq!(store.count(), 1);
    assert_eq!(get("later", 15).unwrap().payload(), b"2");
    assert_eq!(
        get("later", 15).unwrap().expiry_secs(Tick::from_secs(15)),
        Some(90)
    );
    store.expire(Tick::from_secs(105));
    assert_eq!((store.count(), store.status().bytes), (0, 0));
}

#[test]
fn a_shorter_expiry_than_before_counts_at_once() {
    let quota = Quota {
        messages_max: 3,
        ..Quota::UNLIMITED
    };
    let store = simulated(Sync::Never);
    store.set_quotas(quota, Quota::UNLIMITED);
    for secs in [3_600, 1] {
        for topic in ["a", "b", "c"] {
            store
                .put(&expiring(Zone(0), topic, b"1", Some(secs)))
                .unwrap();
        }
    }
    // As in a message that had none before.
    store.put(&message(Zone(0), "c", b"1")).unwrap();
    store.put(&expiring(Zone(0), "c", b"1", Some(1))).unwrap();
    store.expire(Tick::from_secs(6));
    assert_eq!((store.count(), store.status().bytes), (0, 0));
    put(&store, "d", b"1").unwrap();
}

/// The system's clock may be years from the store's: only the store's counts while it runs, and the
/// next start reckons from its own.
#[test]
fn no_message_outlives_its_interval_whatever_the_clocks_say() {
    const AHEAD: Duration = Duration::from_secs(3_600);
    let disk = SimulatedDisk::new(1);
    let right = options(Sync::Never);
    let ahead = StoreOptions {
        started_at: right.started_at + AHEAD,
        ..right
    };
    let store = Store::open(disk.clone(), &ahead).unwrap();
    store.put(&expiring(Zone(0), "a", b"1", Some(10))).unwrap();
    drop(store);
    let later = StoreOptions {
        now: Tick::from_secs(2),
        ..right
    };
    let store = Store::open(disk.clone(), &later).unwrap();
    let left = |topic, secs| {
        let now = Tick::from_secs(secs);
        let found = store.get(Zone(0), topic, store.mark(), now)?;
        found.expiry_secs(now)
    };
    assert_eq!((left("a", 2), left("a", 11)), (Some(10), Some(1)));
    assert_eq!(left("a", 12), None);
    // What is put now counts from when it was received, at 5 seconds.
    store.put(&expiring(Zone(0), "b", b"1", Some(10))).unwrap();
    store.clean_up(Tick::from_secs(12));
    assert_eq!((store.count(), left("b", 14)), (1, Some(1)));
    store.clean_up(Tick::from_secs(15));
    assert_eq!(store.count(), 0);
}

#[test]
fn a_message_is_read_as_it_was_put() {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let sent = message(Zone(7), "a/b", b"payload");
    store.put(&sent).unwrap();
    let read = store
        .get(Zone(7), "a/b", store.mark(), Tick::from_secs(9))
        .unwrap();
    assert_eq!(
        (read.zone, read.qos, read.retain),
        (sent.zone, sent.qos, true)
    );
    assert_eq!(read.publisher, sent.publisher);
    assert_eq!(
        (read.received_at, read.expires_at),
        (sent.received_at, Tick::NEVER)
    );
    assert_eq!((read.topic(), read.payload()), ("a/b", &b"payload"[..]));
    assert_eq!(read.properties(), sent.properties());
    assert_eq!(read.sequence(), sent.sequence());
    assert!(
        store
            .get(Zone(0), "a/b", store.mark(), Tick::ZERO)
            .is_none()
    );
    drop(store);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    let read = store
        .get(Zone(7), "a/b", store.mark(), Tick::from_secs(9))
        .unwrap();
    assert_eq!(read.publisher, sent.publisher, "clients keep their ids");
}

#[test]
fn what_was_put_after_the_mark_is_not_read() {
    let store = simulated(Sync::Never);
    put(&store, "a", b"1").unwrap();
    let mark = store.mark();
    put(&store, "a", b"2").unwrap();
    assert!(store.get(Zone(0), "a", mark, Tick::ZERO).is_none());
    assert_eq!(get(&store, "a").as_deref(), Some(&b"2"[..]));
}

#[derive(Default)]
struct Told {
    resolved: Mutex<Vec<(Ticket, bool)>>,
    events: Mutex<Vec<StoreEvent>>,
}

impl Watcher for Told {
    fn resolved(&self, ticket: Ticket, is_kept: bool) {
        self.resolved.lock().unwrap().push((ticket, is_kept));
    }

    fn event(&self, event: StoreEvent) {
        self.events.lock().unwrap().push(event);
    }
}

impl Told {
    #[track_caller]
    fn wait_for(&self, ticket: Ticket) -> bool {
        for _ in 0..2_000_000 {
            let resolved = self.resolved.lock().unwrap();
            if let Some((_, is_kept)) = resolved.iter().find(|(of, _)| *of == ticket) {
                return *is_kept;
            }
            drop(resolved);
            std::thread::yield_now();
        }
        panic!("{ticket:?} was never resolved");
    }
}

#[test]
fn always_answers_when_the_disk_has_it() {
    let disk = SimulatedDisk::new(1);
    let store = Arc::new(Store::open(disk.clone(), &options(Sync::Always)).unwrap());
    let told = Arc::new(Told::default());
    let maintenance = store
        .start(Arc::clone(&told) as Arc<dyn Watcher>, || Tick::ZERO)
        .unwrap();
    for round in 0..20_u32 {
        let payload = round.to_le_bytes();
        let Ok(Kept::Later(ticket)) = store.put(&message(Zone(0), "a", &payload)) else {
            panic!("it has to wait for the disk");
        };
        assert!(told.wait_for(ticket));
        let after = Store::open(disk.after_power_loss(), &options(Sync::Always)).unwrap();
        assert_eq!(get(&after, "a").as_deref(), Some(&payload[..]));
    }
    disk.break_down(Some((Operation::Flush, ErrorKind::Other)));
    let Ok(Kept::Later(ticket)) = store.put(&message(Zone(0), "a", b"lost")) else {
        panic!("it has to wait for the disk");
    };
    assert!(!told.wait_for(ticket), "the disk failed");
    disk.break_down(None);
    let Ok(Kept::Later(ticket)) = store.put(&message(Zone(0), "a", b"works")) else {
        panic!("it has to wait for the disk");
    };
    assert!(told.wait_for(ticket), "the disk works again");
    maintenance.end();
    let events = told.events.lock().unwrap();
    assert!(matches!(events[0], StoreEvent::Trouble(_)), "{events:?}");
    assert_eq!(events.last(), Some(&StoreEvent::Recovered));
}

/// Per topic: a reader never sees an older value after a newer one, whatever runs at once.
#[test]
fn readers_never_go_back_under_concurrent_puts() {
    let folder = tempfile::tempdir().unwrap();
    let disk = MappedDisk::new(folder.path()).unwrap();
    let sync = Sync::Interval(Duration::from_millis(1));
    let store = Arc::new(Store::open(disk, &options(sync)).unwrap());
    let maintenance = store
        .start(Arc::new(Told::default()), || Tick::ZERO)
        .unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..20_000_u64 {
                    let topic = format!("w{writer}/{}", i % 50);
                    put(store, &topic, &i.to_be_bytes()).unwrap();
                }
            });
        }
        let reader = scope.spawn(|| {
            let mut seen = std::collections::HashMap::new();
            while !ends.load(Ordering::Relaxed) {
                for message in walk(&store, "#", 16) {
                    let value = u64::from_be_bytes(message.payload().try_into().unwrap());
                    let last = seen.entry(message.topic().to_owned()).or_insert(value);
                    assert!(*last <= value, "{} went back", message.topic());
                    *last = value;
                }
                if seen.values().filter(|value| **value >= 19_950).count() == 100 {
                    return;
                }
            }
        });
        let read = reader.join();
        ends.store(true, Ordering::Relaxed);
        read.unwrap();
    });
    maintenance.end();
    assert_eq!(store.count(), 100);
}

#[test]
fn a_hundred_thousand_messages_take_what_was_promised() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = MappedDisk::new(folder.path()).unwrap();
        Store::open(disk, &options(Sync::Never)).unwrap()
    };
    let store = open();
    for i in 0..100_000 {
        put(&store, &format!("plant/{}/sensor/{i}", i % 100), &[7; 100]).unwrap();
    }
    let check = |store: &Store<MappedDisk>| {
        let status = store.status();
        assert_eq!(status.messages, 100_000);
        let promised = 2 * status.bytes + 128 * status.messages;
        assert!(status.files.used <= promised, "{status:?}");
        assert!(status.index_bytes < 10_000_000, "{status:?}");
    };
    check(&store);
    drop(store);
    let store = open();
    check(&store);
    assert_eq!(walk(&store, "plant/7/#", 1_000).len(), 1_000);
    assert_eq!(walk(&store, "plant/+/sensor/77777", 1_000).len(), 1);
    // Most of it goes, and the files with it.
    for message in walk(&store, "plant/#", 1_000) {
        if !message.topic().starts_with("plant/7/") {
            put(&store, message.topic(), b"").unwrap();
        }
    }
    let before = store.status().files.allocated;
    assert!(store.compact() > 0);
    let status = store.status();
    assert!(
        status.files.allocated < before / 3,
        "{before}, then {status:?}"
    );
    assert_eq!(walk(&store, "#", 1_000).len(), 1_000);
    drop(store);
    assert_eq!(walk(&open(), "#", 1_000).len(), 1_000);
}

/// While the disk is busy with a commit, a topic takes no more room than it had to begin with,
/// however often its length changes.
#[test]
fn a_slow_commit_does_not_make_the_files_grow() {
    let store = simulated(Sync::Interval(Duration::from_secs(1)));
    let put = |len: usize| store.put(&message(Zone(0), "t", &vec![b'x'; len])).unwrap();
    put(100);
    put(20_000);
    let round = store.begin_round();
    for _ in 0..1_000 {
        put(100);
        put(20_000);
    }
    assert!(
        store.status().files.live < 200_000,
        "{:?}",
        store.status().files
    );
    store.end_round(round, Ok(()));
    assert_eq!(get(&store, "t").unwrap().len(), 20_000);
}

/// On real files: what lies in the store is what is copied from it, expected or not.
#[test]
fn a_look_shows_what_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let disk = MappedDisk::new(folder.path()).unwrap();
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    let topic = |number: usize| {
        format!(
            "{}/{number}",
            if number.is_multiple_of(7) {
                "$SYS"
            } else {
                "t"
            }
        )
    };
    let topics: Vec<String> = (0..500).map(topic).collect();
    for (number, topic) in topics.iter().enumerate() {
        let payload = vec![number as u8; number * 11 % 900 + 1];
        let expiry = (number % 5 == 0).then_some(10);
        if number % 3 > 0 {
            store
                .put(&expiring(Zone(number as u32 % 2), topic, &payload, expiry))
                .unwrap();
        }
    }
    let half = store.mark();
    for topic in topics.iter().step_by(4) {
        store.put(&message(Zone(1), topic, b"later")).unwrap();
    }
    for (mark, now) in [
        (half, Tick::ZERO),
        (store.mark(), Tick::ZERO),
        (store.mark(), Tick::from_secs(20)),
        (stentor_hub::Mark(0), Tick::ZERO),
    ] {
        let expected: Vec<_> = topics.iter().map(String::as_bytes).collect();
        store.expect(Zone(1), &expected, Purpose::Get);
        store.expect(Zone(1), &[b"nothing", b"is/here", b"\xFF"], Purpose::Put);
        for topic in topics.iter().map(String::as_str) {
            let mut shown = None;
            store.look(Zone(1), topic, mark, now, &mut |stored| {
                let text = format!("{:?}", stored.to_message());
                assert!(shown.replace(text).is_none(), "once");
            });
            let copied = store.get(Zone(1), topic, mark, now);
            let copied = copied.map(|message| format!("{message:?}"));
            assert_eq!(shown, copied, "{topic}");
        }
    }
}

/// The lengths of messages may change after a restart as before it: nothing is lost, and the files
/// stay in proportion. Optimised builds once lost count of the slots that a restart found in use;
/// `make soak` therefore runs these tests optimised, too.
#[test]
fn lengths_change_after_a_restart() {
    for sync in [Sync::Never, Sync::Interval(Duration::from_secs(1))] {
        let disk = SimulatedDisk::new(1);
        let mut random = Random(7);
        let mut kept = vec![Vec::new(); 60];
        for start in 0..4 {
            let store = Store::open(disk.clone(), &options(sync)).unwrap();
            for (number, kept) in kept.iter().enumerate().filter(|(_, kept)| !kept.is_empty()) {
                let found = get(&store, &format!("k/{number}"));
                assert_eq!(found.as_ref(), Some(kept), "start {start}, topic {number}");
            }
            for _ in 0..300 {
                let number = random.below(kept.len());
                let len = [4, 12_000][random.below(2)];
                kept[number] = vec![random.below(256) as u8; len];
                put(&store, &format!("k/{number}"), &kept[number]).unwrap();
                match random.below(40) {
                    0 => drop(store.commit()),
                    1 => drop(store.compact()),
                    2 => store.clean_up(Tick::ZERO),
                    _ => {}
                }
            }
            store.commit();
            store.close();
            let bytes = store.status().files.allocated;
            assert!(bytes < 64 << 20, "start {start}: {bytes} bytes of files");
        }
    }
}

/// What was there before the start can be cleared on a full disk, as what came later can.
#[test]
fn a_full_disk_can_be_cleared_after_a_start() {
    for is_closed in [false, true] {
        let disk = SimulatedDisk::new(1);
        let options = options(Sync::Interval(Duration::from_secs(1)));
        let store = Store::open(disk.clone(), &options).unwrap();
        let topics: Vec<String> = (0..5_000).map(|number| format!("t/{number}")).collect();
        for topic in &topics {
            put(&store, topic, &[1; 100]).unwrap();
        }
        assert!(store.commit());
        for topic in &topics {
            put(&store, topic, &[2; 100]).unwrap();
        }
        assert!(store.commit());
        disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
        let more = (0..).map(|number| format!("more/{number}"));
        let refused = more
            .map(|topic| put(&store, &topic, &[3; 100]))
            .filter(Result::is_err);
        assert_eq!(
            refused.take(1_000).count(),
            1_000,
            "no slot is left anywhere"
        );
        assert!(store.commit());
        if is_closed {
            store.close();
        }
        drop(store);

        let disk = disk.after_kill();
        disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
        let store = Store::open(disk.clone(), &options).unwrap();
        for topic in &topics {
            assert!(put(&store, topic, &[]).is_ok(), "{topic}");
        }
        assert!(store.commit());
        drop(store);
        let store = Store::open(disk.after_power_loss(), &options).unwrap();
        assert_eq!(walk(&store, "t/#", 100).len(), 0);
    }
}
