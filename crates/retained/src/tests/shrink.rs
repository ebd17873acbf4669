//! What was large and is not any more gives its room back, and is not harmed by it.

use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use stentor_hub::Retained;
use stentor_topic::Zone;

use super::damage::segments;
use super::support::{get, options, put, walk};
use crate::{Store, Sync, layout};
use stentor_disk::MappedDisk;
use stentor_disk::simulated::{Operation, SimulatedDisk};

const LARGE: &str = "large";
const INTERVAL: Sync = Sync::Interval(Duration::from_secs(1));

fn open(disk: &SimulatedDisk, sync: Sync) -> Store<SimulatedDisk> {
    Store::open(disk.clone(), &options(sync)).unwrap()
}

/// Bytes of the files, once there is nothing more to be given back: two commits free what was
/// cleared, one what was moved.
fn compacted(store: &Store<SimulatedDisk>) -> u64 {
    for _ in 0..20 {
        store.compact();
        store.commit();
    }
    store.status().files.allocated
}

fn clear(store: &Store<SimulatedDisk>, topics: impl Iterator<Item = String>) {
    for topic in topics {
        put(store, &topic, b"").unwrap();
    }
}

/// What a store takes on disk is a matter of what it holds, not of what it once held.
#[test]
fn a_store_that_was_large_shrinks() {
    for sync in [Sync::Never, INTERVAL] {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk, sync);
        let topics = || (0..30_000).map(|i| format!("t/{i}"));
        for topic in topics() {
            put(&store, &topic, &[7; 300]).unwrap();
        }
        put(&store, LARGE, &[8; 3 << 20]).unwrap();
        let full = store.status().files.allocated;
        // In each stripe something stays.
        clear(&store, topics().skip(500));
        put(&store, LARGE, b"").unwrap();
        let left = compacted(&store);
        assert!(
            left <= 16 << 20 && left < full / 2,
            "{left} of {full} bytes"
        );
        assert_eq!(walk(&store, "#", 1_000).len(), 500);
        clear(&store, topics().take(500));
        let empty = compacted(&store);
        assert!(empty <= 9 << 20, "{empty} bytes");
        assert_eq!(compacted(&store), empty, "that is all");
        drop(store);
        let store = open(&disk, sync);
        assert_eq!(store.damage(), (0, vec![]));
        put(&store, "t/1", b"again").unwrap();
        assert_eq!(get(&store, "t/1").as_deref(), Some(&b"again"[..]));
    }
}

/// A commit that is under way frees what it has taken when it ends, so a compaction waits for it.
#[test]
fn a_compaction_waits_for_a_commit_that_is_under_way() {
    let store = open(&SimulatedDisk::new(1), INTERVAL);
    let topics = || (0..30_000).map(|i| format!("t/{i}"));
    for topic in topics() {
        put(&store, &topic, &[7; 300]).unwrap();
    }
    store.commit();
    clear(&store, topics());
    let round = Cell::new(Some(store.begin_round()));
    store.compact_by(|| match round.take() {
        Some(round) => store.end_round(round, Ok(())),
        None => store.commit(),
    });
    let empty = store.status().files.allocated;
    assert!(empty <= 9 << 20, "{empty} bytes");
}

/// Topics of the stripe that the large one falls to: they share its file.
fn neighbours() -> Vec<String> {
    let is_one = |topic: &String| {
        let store = open(&SimulatedDisk::new(1), Sync::Never);
        put(&store, LARGE, b"x").unwrap();
        put(&store, topic, b"x").unwrap();
        store.status().files.files == 1
    };
    let topics = (0..200).map(|i| format!("n/{i}"));
    topics.filter(is_one).take(3).collect()
}

/// A store with one large segment, and little in it.
fn hollow(sync: Sync) -> (SimulatedDisk, Vec<String>) {
    let (disk, topics) = (SimulatedDisk::new(1), neighbours());
    let store = open(&disk, sync);
    put(&store, LARGE, &[7; 400_000]).unwrap();
    put(&store, LARGE, b"").unwrap();
    // Two commits free what was cleared.
    store.commit();
    store.commit();
    for topic in &topics {
        put(&store, topic, topic.as_bytes()).unwrap();
    }
    store.commit();
    let files = store.status().files;
    assert!(files.files == 1 && files.allocated > 800_000, "{files:?}");
    (disk, topics)
}

#[track_caller]
fn check(store: &Store<SimulatedDisk>, topics: &[String], what: &str) {
    for topic in topics {
        let found = get(store, topic);
        assert_eq!(found.as_deref(), Some(topic.as_bytes()), "{what}");
    }
    assert_eq!(store.count(), topics.len() as u64, "{what}");
    assert_eq!(store.verify().damaged, 0, "{what}");
}

/// Killed or without power after any write of the exchange of a large segment for a small one:
/// each message is there, once, and the next process completes it.
#[test]
fn an_exchange_of_segments_may_end_at_any_write() {
    for (sync, loses_power) in [(Sync::Never, false), (INTERVAL, false), (INTERVAL, true)] {
        let (disk, topics) = hollow(sync);
        assert!(!topics.is_empty(), "there are topics in the stripe");
        let (mut fuse, mut was_killed) = (0, true);
        while was_killed {
            let what = format!("{sync:?}, {loses_power}, after {fuse} bytes");
            let disk = disk.after_kill();
            let store = open(&disk, sync);
            disk.kill_after(fuse);
            compacted(&store);
            was_killed = disk.is_killed();
            let disk = match loses_power {
                true => disk.after_power_loss(),
                false => disk.after_kill(),
            };
            let mut options = options(sync);
            options.boot += u64::from(loses_power);
            let store = Store::open(disk, &options).unwrap();
            assert_eq!(store.losses(), 0, "{what}");
            check(&store, &topics, &what);
            let bytes = compacted(&store);
            assert!(bytes < 400_000, "{what}: {bytes} bytes are left");
            check(&store, &topics, &what);
            fuse += 8;
        }
        assert!(fuse > 100, "something was written");
    }
}

/// Where the disk does not take the small segment, the large one stays, and nobody is refused.
#[test]
fn an_exchange_of_segments_may_fail() {
    for (operation, kind) in [
        (Operation::Grow, ErrorKind::StorageFull),
        (Operation::Rename, ErrorKind::ReadOnlyFilesystem),
        (Operation::Write, ErrorKind::StorageFull),
        (Operation::Remove, ErrorKind::Other),
        (Operation::Flush, ErrorKind::Other),
        (Operation::SyncNames, ErrorKind::Other),
    ] {
        let (disk, topics) = hollow(INTERVAL);
        let store = open(&disk, INTERVAL);
        let what = format!("{operation:?}");
        disk.break_down(Some((operation, kind)));
        compacted(&store);
        check(&store, &topics, &what);
        put(&store, &topics[0], topics[0].as_bytes()).expect("nobody is refused");
        disk.break_down(None);
        compacted(&store);
        drop(store);
        let store = open(&disk.after_kill(), INTERVAL);
        check(&store, &topics, &what);
        let bytes = compacted(&store);
        assert!(bytes < 400_000, "{what}: {bytes} bytes are left");
        check(&store, &topics, &what);
    }
}

/// Changes the last byte of some records' contents, which begin with `t/`, wherever they lie in the
/// files of a folder, as a disk that rots does: whoever has them mapped sees it.
fn rot(folder: &Path, contents: &[Vec<u8>]) {
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|it| it != "seg") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        for (at, _) in bytes.windows(2).enumerate().filter(|(_, it)| it == b"t/") {
            let is_here = |content: &&Vec<u8>| bytes[at..].starts_with(content);
            if let Some(content) = contents.iter().find(is_here) {
                let last = at + content.len() - 1;
                file.write_all_at(b"?", last as u64).unwrap();
            }
        }
    }
}

/// A damaged message does not keep its segment, nor that one the others: it is told once by its
/// topic, the rest is given back, and the message before it stands at the next start.
#[test]
fn a_damaged_message_keeps_no_file() {
    const OLD: &[u8] = &[b'o'; 2_000];
    const NEW: &[u8] = &[b'n'; 2_000];
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = MappedDisk::new(folder.path()).unwrap();
        Store::open(disk, &options(INTERVAL)).unwrap()
    };
    let store = open();
    let topics = || (0..16_000).map(|i| format!("t/{i}"));
    for payload in [OLD, NEW] {
        for topic in topics() {
            put(&store, &topic, payload).unwrap();
        }
        store.commit();
    }
    let kept: Vec<String> = topics().step_by(40).collect();
    let rotten: Vec<&String> = kept.iter().step_by(2).collect();
    let newest = |topic: &&String| [topic.as_bytes(), b"\x01\x01", NEW].concat();
    rot(
        folder.path(),
        &rotten.iter().map(newest).collect::<Vec<_>>(),
    );
    let full = store.status().files.allocated;
    for topic in topics().filter(|topic| !kept.contains(topic)) {
        put(&store, &topic, b"").unwrap();
    }
    for _ in 0..20 {
        store.compact();
        store.commit();
    }
    let left = store.status().files.allocated;
    assert!(left < full / 2, "{left} of {full} bytes");
    let check = |store: &Store<MappedDisk>, of_rotten: Option<&[u8]>, damaged: usize| {
        for topic in &kept {
            let expected = match rotten.contains(&topic) {
                true => of_rotten,
                false => Some(NEW),
            };
            assert_eq!(get(store, topic).as_deref(), expected, "{topic}");
        }
        assert_eq!(store.verify().damaged, damaged as u64);
        let (count, reports) = store.damage();
        assert_eq!((count, reports.len()), (rotten.len() as u64, rotten.len()));
        let told = |topic: &String| {
            reports
                .iter()
                .any(|it| it.topic == Some((Zone(0), topic.clone())))
        };
        assert!(rotten.iter().all(|topic| told(topic)), "{reports:?}");
    };
    check(&store, None, rotten.len());
    store.compact();
    check(&store, None, rotten.len());
    drop(store);
    check(&open(), Some(OLD), 0);
}

/// Blocks that were given up, since nothing says how they are divided, keep no other segment.
#[test]
fn a_damaged_directory_keeps_no_other_file() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, INTERVAL);
    let topics = || (0..4_000).map(|i| format!("t/{i}"));
    for topic in topics() {
        put(&store, &topic, &[7; 2_000]).unwrap();
    }
    store.commit();
    drop(store);
    // Of the largest segment of each stripe.
    for stripe in 0..32 {
        let mut names = segments(&disk);
        names.retain(|name| name.starts_with(&format!("{stripe:02}-")));
        let largest = names.iter().max_by_key(|name| disk.len_of(name)).unwrap();
        disk.damage(largest, layout::entry_at(0), 0xFF);
    }
    let store = open(&disk.after_kill(), INTERVAL);
    assert_eq!((store.damage().0 > 0, store.losses()), (true, 0));
    let full = store.status().files.allocated;
    clear(&store, topics().skip(100));
    let left = compacted(&store);
    assert!(left < full / 4 * 3, "{left} of {full} bytes");
    assert_eq!(walk(&store, "#", 1_000).len(), 100);
}
