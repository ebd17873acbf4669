//! Segments whose files have other lengths or names than they had: what is in them is used, and
//! nothing is told as lost but what is missing.

use super::damage::{changed, segments, with_many_topics};
use super::support::options;
use crate::{Outcome, Store, Sync};
use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;

fn open(disk: &SimulatedDisk) -> Store<SimulatedDisk> {
    Store::open(disk.clone(), &options(Sync::Never)).expect("damage is no error")
}

/// What is told: the file, where, and what came of it.
fn told(store: &Store<SimulatedDisk>) -> Vec<(String, u64, Outcome)> {
    let (count, reports) = store.damage();
    assert_eq!(count, reports.len() as u64);
    let told = reports.into_iter();
    told.map(|report| (report.file, report.offset, report.outcome))
        .collect()
}

/// The store holds everything, and tells of these files that they are mended; once.
#[track_caller]
fn check_mended(disk: &SimulatedDisk, names: &[&str]) {
    let held = with_many_topics().1;
    let store = open(disk);
    assert_eq!(changed(&store, &held), [""; 0]);
    let mended = names
        .iter()
        .map(|name| ((*name).to_owned(), 0, Outcome::Mended));
    assert_eq!(told(&store), mended.collect::<Vec<_>>());
    drop(store);
    let store = open(&disk.after_kill());
    assert_eq!(changed(&store, &held), [""; 0]);
    assert_eq!(told(&store), [], "it is told once");
}

#[test]
fn a_file_that_has_grown_has_lost_nothing() {
    let (disk, _) = with_many_topics();
    let name = &segments(&disk)[2];
    let whole = disk.content(name);
    for more in [&[7; 13][..], &[0; 4096], &[1; 3 * 16_384 + 8]] {
        let disk = disk.after_kill();
        disk.put(name, &[&whole[..], more].concat());
        check_mended(&disk, &[name]);
        assert_eq!(disk.len_of(name), whole.len());
    }
}

#[test]
fn a_file_that_was_cut_off_has_lost_what_is_missing() {
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[2];
    let whole = disk.content(name);
    let used = whole.iter().rposition(|byte| *byte != 0).expect("a byte");
    let used = (used - 4096).next_multiple_of(16_384) + 4096;
    assert!(used < whole.len(), "some blocks are free");
    for boot in [1, 2] {
        // In blocks that are free, there is nothing to lose.
        for len in [used, used + 13, whole.len() - 1] {
            let disk = disk.after_kill();
            disk.put(name, &whole[..len]);
            check_mended(&disk, &[name]);
        }
        // Right behind the head, in the directory, and in the blocks; after a power loss too.
        for len in [64, 80, 4096, 4096 + 16_384 + 100, used - 16_384] {
            let disk = disk.after_kill();
            disk.put(name, &whole[..len]);
            let mut later = options(Sync::Never);
            later.boot = boot;
            let store = Store::open(disk.clone(), &later).expect("damage is no error");
            let lost = changed(&store, &held);
            assert!(!lost.is_empty());
            let mut told = told(&store).into_iter();
            assert_eq!(told.next(), Some((name.clone(), 0, Outcome::Mended)));
            let mut losses = 0;
            for (file, at, outcome) in told.filter(|(.., outcome)| outcome.is_loss()) {
                assert_eq!((&file, outcome), (name, Outcome::Lost));
                assert!(at < 4096 || at as usize + 512 > len, "{len}: {at}");
                losses += 1;
            }
            assert!(losses > 0 && (len <= 4096 || losses >= lost.len()), "{len}");
            drop(store);
            let store = Store::open(disk, &later).expect("damage is no error");
            assert_eq!(changed(&store, &held), lost, "what was found stays");
            assert_eq!(store.damage().0, 0, "it is told once");
        }
    }
}

#[test]
fn files_that_have_changed_places_have_lost_nothing() {
    let (disk, _) = with_many_topics();
    let names = segments(&disk);
    let [one, other, third] = [0, 3, 5].map(|at| names[at].as_str());
    let moves: [&[(&str, &str)]; 5] = [
        &[(one, "x"), (other, one), ("x", other)],
        &[(one, "x"), (other, one), (third, other), ("x", third)],
        // One, whose place is free.
        &[(one, "00-000777.seg")],
        // Both, as a kill leaves them that comes while they change places again.
        &[(one, "x"), (other, one), ("x", "00-000000.seg.moved")],
        &[(one, "x"), (other, "03-000000.seg.moved"), ("x", other)],
    ];
    assert_eq!((one, other), ("00-000000.seg", "03-000000.seg"));
    for moves in moves {
        let disk = disk.after_kill();
        for (from, to) in moves {
            disk.rename(from, to).expect("it can be renamed");
        }
        let mut moved = vec![one, other, third];
        moved.retain(|name| moves.iter().any(|(from, _)| from == name));
        check_mended(&disk, &moved);
        assert_eq!(segments(&disk), names);
    }
}

/// A copy of a segment tells nothing new, and what it has overwritten is lost.
#[test]
fn a_copy_of_a_segment_is_not_used() {
    let (disk, held) = with_many_topics();
    let names = segments(&disk);
    let copy = disk.after_kill();
    let unlisted = "00-000777.seg".to_owned();
    copy.put(&unlisted, &disk.content(&names[0]));
    check_mended(&copy, &[&unlisted]);
    copy.put(&names[3], &disk.content(&names[0]));
    let store = open(&copy);
    assert!(!changed(&store, &held).is_empty());
    assert_eq!(told(&store), [(names[3].clone(), 0, Outcome::Lost)]);
    let put_aside = format!("{}.damaged", names[3]);
    assert!(copy.names().expect("there is a list").contains(&put_aside));
}

/// What was copied to another page is none of that page's, and told.
#[test]
fn pages_that_have_changed_places_are_told() {
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[0];
    let whole = disk.content(name);
    let (head, rest) = whole.split_at(8192);
    disk.put(name, &[head, &rest[4096..], &rest[..4096]].concat());
    let store = open(&disk);
    assert!(!changed(&store, &held).is_empty());
    assert!(store.losses() > 0);
}

/// Where there is no room for a whole file, what is found is put into those that there are.
#[test]
fn a_file_that_was_cut_off_is_used_on_a_full_disk() {
    use stentor_disk::simulated::Operation;
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[2];
    let whole = disk.content(name);
    disk.put(name, &whole[..whole.len() - 16_384]);
    disk.break_down(Some((Operation::Grow, std::io::ErrorKind::StorageFull)));
    let store = open(&disk);
    assert_eq!(told(&store)[0], (name.clone(), 0, Outcome::Lost));
    let lost = changed(&store, &held);
    assert!(lost.len() < held.len() / 16, "the other files are used");
}
