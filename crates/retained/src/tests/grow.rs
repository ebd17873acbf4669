//! Segments are made before anybody needs them.

use std::io::ErrorKind;

use stentor_hub::Retained;
use stentor_session::Tick;

use super::support::{get, options, put};
use crate::{Store, Sync};
use stentor_disk::simulated::{Operation, SimulatedDisk};

fn open(disk: &SimulatedDisk) -> Store<SimulatedDisk> {
    Store::open(disk.clone(), &options(Sync::Never)).expect("a store")
}

/// Puts new topics; the maintenance thread comes after each `pace` of them. Returns how many
/// segments nobody had made ahead.
fn late(store: &Store<SimulatedDisk>, topics: std::ops::Range<usize>, pace: usize) -> u64 {
    let before = store.grown_late();
    for n in topics {
        put(store, &format!("t/{n}"), &[7; 200]).expect("there is room");
        if n % pace == 0 {
            store.grow_low();
        }
    }
    store.grown_late() - before
}

#[test]
fn a_store_that_grows_waits_for_the_first_segment_of_each_stripe_only() {
    let store = open(&SimulatedDisk::new(1));
    assert_eq!(late(&store, 0..60_000, 1_500), 32);
    let files = store.status().files.files;
    assert!(files > 200, "{files} segments");
    // It was too late: it grows all the same.
    let late = late(&store, 60_000..200_000, usize::MAX);
    assert!(late > 32, "{late}");
    assert_eq!(store.count(), 200_000);
}

/// What cannot be made ahead is missed by nobody until it is needed.
#[test]
fn a_full_disk_is_told_when_messages_are_about_to_be_refused() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    late(&store, 0..3_000, 100);
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    let (mut kept, mut told_at) = (0, None);
    let refused = (3_000..100_000).find(|n| {
        store.grow_low();
        told_at = told_at.or_else(|| store.trouble().map(|_| *n));
        let is_kept = put(&store, &format!("t/{n}"), &[7; 200]).is_ok();
        kept += u64::from(is_kept);
        !is_kept
    });
    assert!(
        refused.is_some() && told_at <= refused,
        "{told_at:?}, {refused:?}"
    );
    assert!(kept > 1_000, "much had room: {kept}");
    disk.break_down(None);
    store.forget_troubles();
    store.clean_up(Tick::from_secs(6));
    assert_eq!(
        store.trouble(),
        None,
        "it sees by itself that there is room"
    );
    late(&store, 100_000..101_000, 100);
}

/// Segments that were made ahead and are empty do no harm, whenever the process ends.
#[test]
fn a_process_may_be_killed_while_a_segment_is_made_ahead() {
    let (mut fuse, mut was_killed) = (0, true);
    while was_killed {
        let disk = SimulatedDisk::new(1);
        let store = open(&disk);
        // Of eight blocks, five are used.
        put(&store, "t", &[7; 35_000]).expect("there is room");
        disk.kill_after(fuse);
        store.grow_low();
        was_killed = disk.is_killed();
        assert!(was_killed || store.status().files.files == 2);
        drop(store);
        let store = open(&disk.after_kill());
        assert_eq!(store.damage(), (0, vec![]), "after {fuse} bytes");
        assert_eq!(get(&store, "t").as_deref(), Some(&[7; 35_000][..]));
        put(&store, "u", b"y").expect("there is room");
        fuse += 7 + fuse / 4;
    }
    assert!(fuse > 100, "something was written: {fuse}");
}
