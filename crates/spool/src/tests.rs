//! On a disk that fails, is full, and loses power.

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use stentor_disk::simulated::{Operation, Random, SimulatedDisk};

use crate::file::{FILE_BYTES, file_name, read};
use crate::*;

const MUCH: u64 = 1 << 40;

fn open(disk: &SimulatedDisk, needed: &[Place]) -> (Folder<SimulatedDisk>, Vec<NonZeroU32>) {
    Folder::open(disk.clone(), needed.iter().copied(), MUCH).unwrap()
}

fn content(disk: &SimulatedDisk, place: Place) -> Option<Vec<u8>> {
    use stentor_disk::Disk;
    let region = disk.open(&file_name(place.file)).ok()?;
    read(&region, place).ok()?
}

fn chunk(random: &mut Random) -> Vec<u8> {
    let len = [random.below(300), random.below(40_000), 900_000][random.below(20) / 9];
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// What was flushed is there after a power loss, and what was freed gives its files back.
#[test]
fn what_was_flushed_is_kept_and_what_was_freed_goes() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let mut disk = SimulatedDisk::new(seed);
        let (mut folder, _) = open(&disk, &[]);
        let (mut kept, mut fresh) = (Vec::new(), Vec::new());
        for _ in 0..120 {
            match random.below(10) {
                0..=5 => {
                    let bytes = chunk(&mut random);
                    fresh.push((folder.append(&bytes).unwrap(), bytes));
                }
                6 => {
                    folder.flush().unwrap();
                    kept.append(&mut fresh);
                }
                7 if random.one_in(4) => {
                    disk = disk.after_power_loss();
                    fresh.clear();
                    let places: Vec<Place> = kept.iter().map(|(place, _)| *place).collect();
                    let (opened, missing) = open(&disk, &places);
                    assert_eq!(missing, []);
                    folder = opened;
                }
                _ if !kept.is_empty() => {
                    let (place, _) = kept.swap_remove(random.below(kept.len()));
                    folder.free(place);
                }
                _ => {}
            }
            for (place, bytes) in kept.iter().chain(&fresh) {
                assert_eq!(content(&disk, *place).as_ref(), Some(bytes), "seed {seed}");
            }
        }
        folder.flush().unwrap();
        for (place, _) in kept.into_iter().chain(fresh) {
            folder.free(place);
        }
        assert!(
            folder.bytes() <= FILE_BYTES as u64,
            "one file is written still"
        );
        use stentor_disk::Disk;
        let left = disk.names().unwrap().len();
        assert!(left <= 1, "the others are gone, seed {seed}");
    }
}

#[test]
fn a_full_disk_refuses_and_damage_is_seen() {
    let disk = SimulatedDisk::new(3);
    let (mut folder, _) = open(&disk, &[]);
    disk.break_down(Some((Operation::Grow, ErrorKind::StorageFull)));
    assert!(matches!(folder.append(b"chunk"), Err(NotKept::Disk(_))));
    disk.break_down(None);
    let place = folder.append(b"chunk").unwrap();
    folder.flush().unwrap();
    assert_eq!(content(&disk, place).as_deref(), Some(&b"chunk"[..]));
    let elsewhere = Place { at: 2, ..place };
    assert_eq!(content(&disk, elsewhere), None);
    let beyond = Place {
        at: u16::MAX,
        len: 9,
        ..place
    };
    assert_eq!(content(&disk, beyond), None);
    disk.damage(&file_name(place.file), usize::from(place.at) * 64 + 9, 1);
    assert_eq!(content(&disk, place), None);
    let (mut small, missing) = Folder::open(disk, [], 1 << 20).unwrap();
    assert_eq!(missing, []);
    assert!(matches!(small.append(b"chunk"), Err(NotKept::Full)));
}

/// A failure at the end of a file is one of all that was written since the last flush.
#[test]
fn a_failed_flush_is_told_once_for_all() {
    let disk = SimulatedDisk::new(4);
    let (mut folder, _) = open(&disk, &[]);
    let place = folder.append(&[1; 100]).unwrap();
    disk.break_down(Some((Operation::Flush, ErrorKind::Other)));
    let refused = (0..5).find_map(|_| folder.append(&vec![2; 1 << 20]).err());
    assert!(matches!(refused, Some(NotKept::Disk(_))));
    disk.break_down(None);
    assert!(folder.append(b"later").is_ok());
    assert!(folder.flush().is_err(), "the first chunk may be lost");
    folder.free(place);
    assert!(folder.flush().is_ok());
}

/// One chunk in each file keeps all files, but not what they take.
#[test]
fn a_few_chunks_do_not_keep_the_room_of_many() {
    const FILES: u64 = 8;
    let disk = SimulatedDisk::new(5);
    let most = FILES * FILE_BYTES as u64;
    let (mut folder, _) = Folder::open(disk.clone(), [], most).unwrap();
    let chunk = vec![7; 30_000];
    let mut places = Vec::new();
    while let Ok(place) = folder.append(&chunk) {
        places.push(place);
    }
    assert!(folder.bytes() > most - FILE_BYTES as u64 / 8);
    assert_eq!(folder.free_bytes(), 0);
    let one_of_each = |place: &Place| place.at == 1;
    let (kept, freed): (Vec<Place>, Vec<Place>) = places.into_iter().partition(one_of_each);
    for place in freed {
        folder.free(place);
    }
    assert_eq!(kept.len() as u64, FILES);
    assert!(folder.bytes() < most / 16 && folder.free_bytes() >= most * 7 / 8);
    // What was freed in the meantime is there for others, also after a start.
    let mut kept = kept;
    for _ in 0..2 {
        for _ in 0..130 {
            kept.push(folder.append(&chunk).unwrap());
        }
        folder.flush().unwrap();
        drop(folder);
        (folder, _) = Folder::open(disk.clone(), kept.iter().copied(), most).unwrap();
    }
    for place in &kept {
        assert_eq!(content(&disk, *place).as_ref(), Some(&chunk));
    }
    for place in kept {
        folder.free(place);
    }
    assert_eq!(folder.bytes(), 0);
}

/// What is free is what may be written, though files are whole.
#[test]
fn nothing_is_free_where_no_file_may_be_begun() {
    let most = 5 * FILE_BYTES as u64 / 2;
    let (mut folder, _) = Folder::open(SimulatedDisk::new(6), [], most).unwrap();
    let chunk = vec![7; 30_000];
    let mut before = u64::MAX;
    while folder.append(&chunk).is_ok() {
        let free = folder.free_bytes();
        assert!(free < before && free < most);
        before = free;
    }
    assert!(before < chunk.len() as u64, "{before} were free");
    assert_eq!(folder.free_bytes(), 0);
}

struct Events(Mutex<Sender<SpoolEvent>>);

impl Watcher for Events {
    fn wake(&self, _shard: u16) {}

    fn event(&self, event: SpoolEvent) {
        let _ = self.0.lock().unwrap().send(event);
    }
}

fn replies(handle: &SpoolHandle) -> Vec<Reply> {
    loop {
        let replies = handle.replies();
        if !replies.is_empty() {
            return replies.into();
        }
        std::thread::yield_now();
    }
}

#[test]
fn shards_write_and_read_and_hear_of_a_full_disk() {
    let disk = SimulatedDisk::new(1);
    let (folder, _) = open(&disk, &[]);
    let (send, events) = channel();
    let watcher = Arc::new(Events(Mutex::new(send)));
    let spool = Spool::start(folder, 2, watcher).unwrap();
    let handle = spool.handle(1);
    let owner = |first| Owner {
        slot: 7,
        generation: 3,
        first,
        count: 1,
    };
    handle.batch().seal(owner(1), vec![1; 100]);
    let sealed = replies(&handle);
    let [Reply::Sealed(whose, Some(place))] = sealed[..] else {
        panic!("{sealed:?}");
    };
    assert_eq!(whose, owner(1));
    handle.batch().fetch(owner(1), place);
    let fetched = Reply::Fetched(owner(1), Some(vec![1; 100]));
    assert_eq!(replies(&handle), [fetched]);
    assert_eq!((handle.under_way(), handle.is_refused()), (0, false));
    disk.break_down(Some((Operation::Flush, ErrorKind::StorageFull)));
    handle.batch().seal(owner(2), vec![2; 100]);
    assert_eq!(replies(&handle), [Reply::Sealed(owner(2), None)]);
    assert!(matches!(events.recv().unwrap(), SpoolEvent::Refused(_)));
    assert!(handle.is_refused() && spool.monitor().trouble().is_some());
    disk.break_down(None);
    assert_eq!(events.recv().unwrap(), SpoolEvent::Recovered);
    assert_eq!(replies(&handle), [Reply::GoesOn]);
    handle.batch().free(place);
    handle.batch().fetch(owner(9), place);
    drop(spool);
    use stentor_disk::Disk;
    assert_eq!(disk.names().unwrap().len(), 1, "the first file is gone");
}

/// A reader tells a chunk that is damaged from one whose file has gone.
#[test]
fn a_reader_tells_what_is_damaged_and_what_is_missing() {
    let disk = SimulatedDisk::new(3);
    let (mut folder, _) = open(&disk, &[]);
    let first = folder.append(b"first").unwrap();
    let second = folder.append(b"second").unwrap();
    folder.flush().unwrap();
    drop(folder);
    disk.damage(
        &file_name(second.file),
        usize::from(second.at) * UNIT + 9,
        1,
    );
    let mut reader = Reader::new(disk.clone());
    assert_eq!(reader.files().unwrap(), 1);
    assert_eq!(reader.read(first).unwrap(), b"first");
    assert!(matches!(reader.read(second), Err(NotRead::Damaged)));
    let elsewhere = Place {
        file: NonZeroU32::new(7).unwrap(),
        ..first
    };
    assert!(matches!(reader.read(elsewhere), Err(NotRead::Missing)));
    let beyond = Place {
        at: u16::MAX,
        ..first
    };
    assert!(matches!(reader.read(beyond), Err(NotRead::Damaged)));
    assert_eq!(reader.read(first).unwrap(), b"first");
}
