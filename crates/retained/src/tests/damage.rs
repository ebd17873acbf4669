//! Flipped bits, foreign files and other damage: found, skipped, counted, and no start fails.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone.

use std::collections::BTreeMap;

use super::support::{Random, get, options, put, walk};
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::{Outcome, Store, Sync};

/// Every message that a topic ever held; the last one is what it holds.
type Held = BTreeMap<String, Vec<Vec<u8>>>;

fn filled(seed: u64, random: &mut Random) -> (SimulatedDisk, Held) {
    let disk = SimulatedDisk::new(seed);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let mut held = Held::new();
    for i in 0..200 {
        let topic = format!("plant/{}", random.below(80));
        let mut payload = format!("{i} ").into_bytes();
        payload.resize(10 + random.below(400), b'x');
        put(&store, &topic, &payload).unwrap();
        held.entry(topic).or_default().push(payload);
    }
    drop(store);
    (disk.after_kill(), held)
}

fn flip_bits(seed: u64) {
    let mut random = Random(seed);
    let (disk, held) = filled(seed, &mut random);
    let names = disk.names().unwrap();
    for _ in 0..1 + random.below(30) {
        let name = &names[random.below(names.len())];
        // Most of the interesting bytes stand in front.
        let bound = if random.one_in(3) { 200_000 } else { 8_000 };
        let at = random.below(disk.len_of(name).min(bound));
        disk.damage(name, at, 1 << random.below(8));
    }
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let found: BTreeMap<_, _> = walk(&store, "plant/#", 7)
        .into_iter()
        .map(|message| (message.topic().to_owned(), message.payload().to_vec()))
        .collect();
    let (count, reports) = store.damage();
    for (topic, messages) in &held {
        let message = get(&store, topic);
        assert_eq!(found.get(topic), message.as_ref(), "{topic}");
        let last = messages.last();
        if message.as_ref() != last {
            assert!(count > 0, "{topic} changed and nobody says so");
        }
        if let Some(message) = message {
            assert!(messages.contains(&message), "{topic} holds what nobody put");
        }
    }
    assert_eq!(reports.len() as u64, count);
    assert_eq!(store.verify().damaged, 0, "what is damaged is gone");
    for topic in held.keys() {
        put(&store, topic, b"new").unwrap();
        assert_eq!(get(&store, topic).as_deref(), Some(&b"new"[..]));
    }
    drop(store);
    let store = Store::open(disk.after_kill(), &options(Sync::Never)).unwrap();
    for topic in held.keys() {
        assert_eq!(get(&store, topic).as_deref(), Some(&b"new"[..]), "{topic}");
    }
}

#[test]
fn flipped_bits_are_found_and_harm_nothing_else() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return flip_bits(seed.parse().expect("STENTOR_SEED is a number"));
    }
    let runs = if std::env::var_os("STENTOR_SOAK").is_some() {
        20_000
    } else {
        200
    };
    for seed in 0..runs {
        if std::panic::catch_unwind(|| flip_bits(seed)).is_err() {
            panic!("seed {seed} fails: STENTOR_SEED={seed} runs it alone");
        }
    }
}

/// The name of a file of the only topic's stripe.
fn only_segment(disk: &SimulatedDisk) -> String {
    let names = disk.names().unwrap();
    let mut segments = names.into_iter().filter(|name| name.ends_with(".seg"));
    let name = segments.next().unwrap();
    assert_eq!(segments.next(), None);
    name
}

fn with_one_topic() -> (SimulatedDisk, String) {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    put(&store, "a", b"first").unwrap();
    put(&store, "a", b"second").unwrap();
    drop(store);
    let segment = only_segment(&disk);
    (disk, segment)
}

/// The first block begins there in a segment of eight blocks.
const FIRST_BLOCK: usize = 4096;

#[test]
fn a_damaged_record_is_told_by_its_topic() {
    let (disk, segment) = with_one_topic();
    // The second place of the first slot, in its payload.
    disk.damage(&segment, FIRST_BLOCK + 64 + 50, 1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let (count, reports) = store.damage();
    assert_eq!(count, 1);
    assert_eq!(reports[0].file, segment);
    assert_eq!(reports[0].offset, (FIRST_BLOCK + 64) as u64);
    assert_eq!(reports[0].topic.as_ref().unwrap().1, "a");
    assert_eq!(reports[0].outcome, Outcome::Previous);
    assert_eq!(get(&store, "a").as_deref(), Some(&b"first"[..]));
}

#[test]
fn a_damaged_directory_loses_no_record() {
    let (disk, segment) = with_one_topic();
    disk.damage(&segment, crate::layout::entry_at(0), 0xFF);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    assert_eq!(store.damage().1[0].outcome, Outcome::Mended);
    assert_eq!(walk(&store, "#", 10).len(), 1);
}

#[test]
fn a_damaged_head_and_a_lost_store_file_lose_nothing() {
    let (disk, segment) = with_one_topic();
    disk.damage(&segment, 20, 0xFF);
    let store = Store::open(disk.after_kill(), &options(Sync::Never)).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    drop(store);
    let (disk, _) = with_one_topic();
    disk.remove("store").unwrap();
    let mut other = options(Sync::Never);
    other.random = 77;
    let store = Store::open(disk, &other).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
}

#[test]
fn foreign_files_are_set_aside() {
    let (disk, segment) = with_one_topic();
    disk.put("00-000000.seg", b"short");
    disk.put("31-999999.seg", &vec![7; crate::layout::file_len(8)]);
    disk.put("notes.txt", b"mine");
    disk.put("05-000009.seg.new", b"unfinished");
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    let names = disk.names().unwrap();
    assert!(names.contains(&"00-000000.seg.damaged".to_owned()) || segment == "00-000000.seg");
    assert!(names.contains(&"notes.txt".to_owned()));
    assert!(!names.contains(&"05-000009.seg.new".to_owned()));
}

#[test]
fn a_later_format_is_refused_and_left_alone() {
    let (disk, _) = with_one_topic();
    let mut bytes = disk.read("store").unwrap().unwrap();
    bytes[8] = 9;
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&bytes[..12]);
    checksum.update(&bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.finalize().to_le_bytes());
    disk.put("store", &bytes);
    let error = Store::open(disk, &options(Sync::Never)).unwrap_err();
    assert!(error.to_string().contains("format 9"), "{error}");
}
