//! What the file `store` says of how the store ended, on a disk that has no room to say otherwise.

use std::io::ErrorKind;
use std::time::Duration;

use stentor_hub::Retained;
use stentor_session::Tick;

use super::support::{get, options, put};
use crate::{Store, StoreOptions, Sync};
use stentor_disk::simulated::{Operation, SimulatedDisk};

const FULL: [Operation; 2] = [Operation::Grow, Operation::Write];

fn open(disk: &SimulatedDisk, options: StoreOptions) -> Store<SimulatedDisk> {
    Store::open(disk.clone(), &options).unwrap()
}

/// A store that was closed in order, with one message, and numbers in its topic.
fn closed(options: StoreOptions) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk, options);
    put(&store, "a", b"1").unwrap();
    assert!(store.commit());
    store.close();
    disk.after_kill()
}

/// The next start after a power loss must not take the word of the last one that ended in order:
/// numbers that were told are told again, so the epoch has to be another one.
#[test]
fn a_store_that_is_opened_on_a_full_disk_is_not_closed() {
    let options = options(Sync::Interval(Duration::from_secs(1)));
    for operation in FULL {
        let disk = closed(options);
        disk.break_down(Some((operation, ErrorKind::StorageFull)));
        let store = open(&disk, options);
        let epoch = store.epoch();
        // There is room for it in the file that is there; but the disk never gets it.
        let told = put(&store, "a", b"2").unwrap();
        drop(store);

        let lost = disk.after_power_loss();
        let store = open(&lost, StoreOptions { boot: 2, ..options });
        if put(&store, "a", b"3").unwrap() <= told {
            assert_ne!(store.epoch(), epoch, "{operation:?}: {told} is told twice");
        }
        assert_ne!(store.epoch(), epoch, "{operation:?}: it is not closed");
    }
}

/// Nor are numbers used again that nothing remembers but the file.
#[test]
fn numbers_are_reserved_on_a_full_disk() {
    let options = options(Sync::Never);
    let disk = closed(options);
    disk.break_down(Some((Operation::Write, ErrorKind::StorageFull)));
    let store = open(&disk, options);
    let (epoch, told) = (store.epoch(), put(&store, "b", b"1").unwrap());
    // It leaves no trace.
    put(&store, "b", b"").unwrap();
    drop(store);
    let store = open(&disk.after_kill(), options);
    assert_eq!(store.epoch(), epoch);
    assert!(put(&store, "b", b"2").unwrap() > told);
    assert_eq!(store.damage(), (0, vec![]));
}

/// Killed or without power at any byte of the writing over: the one or the other is there.
#[test]
fn the_file_may_be_written_over_until_any_byte() {
    let options = options(Sync::Interval(Duration::from_secs(1)));
    for fuse in 0..400 {
        let disk = closed(options);
        disk.break_down(Some((Operation::Write, ErrorKind::StorageFull)));
        disk.kill_after(fuse);
        drop(open(&disk, options));
        for (disk, boot) in [(disk.after_kill(), 1), (disk.after_power_loss(), 2)] {
            let store = open(&disk, StoreOptions { boot, ..options });
            assert_eq!(get(&store, "a").as_deref(), Some(&b"1"[..]), "{fuse}");
            assert_eq!(store.damage(), (0, vec![]), "{fuse}");
        }
    }
}

/// A list of segments that is not that of the file takes room: it is not there until there is some.
#[test]
fn what_is_written_over_is_no_trouble_and_another_list_is() {
    let options = options(Sync::Never);
    let disk = closed(options);
    disk.break_down(Some((Operation::Write, ErrorKind::StorageFull)));
    let store = open(&disk, options);
    assert_eq!(store.status().troubles, [""; 0]);
    put(&store, "b", b"in a segment of its own").unwrap();
    store.clean_up(Tick::ZERO);
    let troubles = store.status().troubles;
    assert!(
        troubles[0].starts_with("writing the file `store`"),
        "{troubles:?}"
    );
    disk.break_down(None);
    store.clean_up(Tick::ZERO);
    assert_eq!(store.status().troubles, [""; 0]);
}
