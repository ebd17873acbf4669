//! Room, bounds, and when a segment is used again.

use std::io::ErrorKind;

use stentor_disk::Disk;
use stentor_disk::simulated::{Operation, SimulatedDisk};

use super::support::{SMALL, batch, begin, commit, open, reread};
use crate::{Answer, Folder, Full, Order, Position, Room};

#[test]
fn positions_name_batches_and_grow() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let mut positions = Vec::new();
    for number in 0..12 {
        positions.push(journal.append(&batch(number, 200)).unwrap());
        folder.serve(&mut journal).unwrap();
    }
    assert!(positions.is_sorted_by(|a, b| a < b));
    let (found, _) = reread(&disk.after_kill(), 1);
    let found: Vec<_> = found.into_iter().map(|(position, _)| position).collect();
    assert_eq!(found, positions);
    let position = positions[11];
    assert_eq!(Position::from_bytes(position.to_bytes()), position);
}

#[test]
fn while_there_is_plenty_of_room_a_batch_fits() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let largest = batch(1, SMALL.batch_bytes());
    for _ in 0..SMALL.segments_max - SMALL.ahead {
        folder.serve(&mut journal).unwrap();
        assert_eq!(journal.room(), Room::Plenty);
        assert_eq!(journal.largest(), largest.len());
        journal.append(&largest).unwrap();
    }
    // The ring has no more segments: the reserve is left.
    folder.serve(&mut journal).unwrap();
    assert_eq!(journal.room(), Room::Plenty);
    journal.append(&largest).unwrap();
    assert_eq!(journal.room(), Room::Low);
    journal.append(&largest).unwrap();
    assert_eq!(journal.append(b"x"), Err(Full));
    assert_eq!(journal.usage().used, SMALL.segments_max);
    assert!(journal.largest() < 1);
}

#[test]
fn a_full_ring_is_emptied_without_room() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    while journal.append(&batch(1, 100)).is_ok() {
        folder.serve(&mut journal).unwrap();
        commit(&mut journal);
    }
    assert_eq!(journal.usage().ready, 0);
    let names = disk.names().unwrap().len();
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    while journal.release_oldest().is_some() {}
    assert_eq!(journal.room(), Room::Low);
    commit(&mut journal);
    folder.serve(&mut journal).unwrap();
    // The floor was said once. Now there is room to say it again.
    assert!(journal.usage().ready >= 1);
    journal.append(&batch(2, 100)).unwrap();
    commit(&mut journal);
    folder.serve(&mut journal).unwrap();
    assert_eq!(journal.room(), Room::Plenty);
    assert!(disk.names().unwrap().len() <= names, "the disk had no room");
}

#[test]
fn a_larger_batch_gets_a_segment_of_its_own() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let large = batch(1, 5000);
    journal.append(b"before").unwrap();
    assert_eq!(journal.append(&large), Err(Full));
    journal.ask(large.len());
    folder.serve(&mut journal).unwrap();
    assert!(journal.largest() >= large.len());
    // Those behind it are as many as before.
    journal.append(&large).unwrap();
    assert_eq!(journal.room(), Room::Plenty);
    journal.append(&batch(2, 800)).unwrap();
    folder.serve(&mut journal).unwrap();
    let (found, gaps) = reread(&disk.after_kill(), 1);
    assert_eq!(gaps, []);
    let found: Vec<_> = found.into_iter().map(|(_, records)| records).collect();
    assert_eq!(found, [b"before".to_vec(), large, batch(2, 800)]);
}

#[test]
fn a_larger_segment_has_a_quarter_more_and_is_not_kept() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let large = batch(1, 5000);
    journal.ask(large.len());
    folder.serve(&mut journal).unwrap();
    // What it was made for may have grown.
    journal.append(&batch(1, 6200)).unwrap();
    while journal.usage().used > 1 {
        journal.release_oldest().unwrap();
    }
    journal.append(&batch(2, 800)).unwrap();
    while journal.release_oldest().is_some() {}
    commit(&mut journal);
    journal.append(&batch(3, 10)).unwrap();
    commit(&mut journal);
    folder.serve(&mut journal).unwrap();
    let spares = |limit: usize| folder.spares.iter().filter(move |it| it.1 > limit).count();
    assert_eq!(spares(SMALL.segment_bytes), 0, "{:?}", folder.spares);
    assert!(spares(0) > 0, "those of the usual size are used again");
}

#[test]
fn longer_spare_files_of_an_earlier_start_go() {
    let disk = SimulatedDisk::new(1);
    for (name, bytes) in [("usual.spare", 1), ("long.spare", 2)] {
        drop(disk.grow(name, bytes * SMALL.segment_bytes).unwrap());
    }
    let mut folder = open(&disk, 1).folder;
    assert_eq!(folder.spares.len(), 2);
    let _ = folder.journal(0, SMALL);
    let names = disk.names().unwrap();
    assert!(!names.contains(&"long.spare".to_owned()), "{names:?}");
}

/// A large segment is not worth the reserve: that may be all there is for a while.
#[test]
fn a_larger_segment_waits_for_a_reserve_behind_it() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let large = batch(1, 5000);
    journal.ask(large.len());
    let order = journal.next_order().unwrap();
    assert!(matches!(order, Order::Make(bytes) if bytes > 5000));
    let Answer::Made(segment) = folder.fulfil(0, order) else {
        panic!("the disk has room");
    };
    journal.supply(segment);
    assert_eq!(journal.usage().ready, SMALL.ahead + 1);
    assert_eq!(journal.append(&large), Err(Full));
    assert!(journal.largest() < large.len());
    journal.append(&batch(2, 100)).unwrap();
    folder.serve(&mut journal).unwrap();
    journal.append(&large).unwrap();
    let (found, gaps) = reread(&disk.after_kill(), 1);
    assert_eq!(gaps, []);
    let found: Vec<_> = found.into_iter().map(|(_, records)| records).collect();
    assert_eq!(found, [batch(2, 100), large]);
}

#[test]
fn a_disk_without_room_for_it_says_so() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    journal.ask(5000);
    let error = folder.serve(&mut journal).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(journal.largest() < 5000);
    assert_eq!(journal.room(), Room::Plenty);
    disk.break_down(None);
    journal.ask(5000);
    folder.serve(&mut journal).unwrap();
    assert!(journal.largest() >= 5000);
}

#[test]
fn a_released_segment_is_used_again_after_a_later_commit() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    journal.append(&batch(1, 800)).unwrap();
    folder.serve(&mut journal).unwrap();
    journal.append(&batch(2, 800)).unwrap();
    let round = journal.begin_commit().unwrap();
    let floor = journal.release_oldest().unwrap();
    assert_eq!(journal.oldest(), Some(floor));
    journal.end_commit(round.sync()).unwrap();
    // That commit began before.
    let is_recycled = |order: &Order<_>| matches!(order, Order::Recycle(_));
    assert!(std::iter::from_fn(|| journal.next_order()).all(|order| !is_recycled(&order)));
    assert_eq!(journal.usage().released, 1);
    commit(&mut journal);
    assert!(std::iter::from_fn(|| journal.next_order()).any(|order| is_recycled(&order)));
    assert_eq!(journal.usage().released, 0);
}

#[test]
fn the_last_segment_stays() {
    let disk = SimulatedDisk::new(1);
    let (_, mut journal) = begin(&disk);
    assert_eq!(journal.release_oldest(), None);
    journal.append(b"x").unwrap();
    assert_eq!(journal.release_oldest(), None);
}

#[test]
fn what_is_committed_is_not_committed_again() {
    let disk = SimulatedDisk::new(1);
    let (_, mut journal) = begin(&disk);
    assert!(journal.begin_commit().is_none());
    journal.append(b"x").unwrap();
    let round = journal.begin_commit().unwrap();
    assert!(journal.begin_commit().is_none(), "one at a time");
    let up_to = round.up_to();
    assert_eq!(journal.end_commit(round.sync()).unwrap(), up_to);
    assert_eq!(journal.committed(), up_to);
    assert!(journal.begin_commit().is_none());
}

#[test]
fn a_segment_that_was_not_synced_is_given_up() {
    let disk = SimulatedDisk::new(1);
    let (mut folder, mut journal) = begin(&disk);
    let lost = journal.append(&batch(1, 300)).unwrap();
    disk.break_down(Some((Operation::Flush, ErrorKind::Other)));
    let round = journal.begin_commit().unwrap();
    let error = journal.end_commit(round.sync()).unwrap_err();
    assert_eq!(error.segments, [lost.file]);
    disk.break_down(None);
    assert!(
        journal.begin_commit().is_none(),
        "a later sync proves nothing"
    );
    let again = journal.append(&batch(1, 300)).unwrap();
    assert_ne!(again.file, lost.file);
    journal.rewritten();
    assert!(journal.begin_commit().is_none(), "no segment names it yet");
    folder.serve(&mut journal).unwrap();
    commit(&mut journal);
    assert!(journal.committed() > again);
    // It is not used again.
    let name = crate::head::file_name(lost.file);
    assert!(disk.names().unwrap().contains(&name));
    journal.release_oldest().unwrap();
    commit(&mut journal);
    folder.serve(&mut journal).unwrap();
    let names = disk.names().unwrap();
    assert!(names.iter().all(|it| !it.starts_with(&name)), "{names:?}");
    let (found, gaps) = reread(&disk.after_power_loss(), 2);
    assert_eq!((found, gaps), (vec![(again, batch(1, 300))], Vec::new()));
}

#[test]
fn a_full_disk_starts_with_the_files_that_were_made_ahead() {
    let disk = SimulatedDisk::new(1);
    let (_, mut journal) = begin(&disk);
    journal.append(b"x").unwrap();
    let mut disk = disk.after_kill();
    for _ in 0..5 {
        disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
        let mut journal = open(&disk, 1).folder.journal(0, SMALL);
        assert_eq!(journal.usage().ready, 1);
        assert_eq!(journal.room(), Room::Low);
        assert!(journal.next_order().is_some(), "it is asked for again");
        disk = disk.after_kill();
    }
    // Another number of shards: one of them has nothing.
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    let mut folder: Folder<SimulatedDisk> = open(&disk, 1).folder;
    let ready = [0, 1].map(|shard| folder.journal(shard, SMALL).usage().ready);
    assert_eq!(ready, [1, 0]);
    assert_eq!(reread(&disk.after_kill(), 1).0.len(), 1);
}

#[test]
fn shards_do_not_see_each_other() {
    let disk = SimulatedDisk::new(1);
    let mut folder = open(&disk, 1).folder;
    let mut journals = [0, 1, 2].map(|shard| folder.journal(shard, SMALL));
    for number in 0..30 {
        let journal = &mut journals[number % 3];
        journal.append(&batch(number, 150)).unwrap();
        folder.serve(journal).unwrap();
    }
    let opened = open(&disk.after_kill(), 1);
    assert_eq!(opened.journals.len(), 3);
    for (shard, journal) in opened.journals.iter().enumerate() {
        assert_eq!(usize::from(journal.shard()), shard);
        let (found, _) = super::support::read(journal);
        let found: Vec<_> = found.into_iter().map(|(_, records)| records).collect();
        let expected: Vec<_> = (0..10).map(|i| batch(i * 3 + shard, 150)).collect();
        assert_eq!(found, expected);
    }
}
