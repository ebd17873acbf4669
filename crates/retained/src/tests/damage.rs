//! Flipped bits, foreign files and other damage: found, skipped, counted, and no start fails.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone.

use std::collections::BTreeMap;
use std::time::Duration;

use stentor_session::Tick;
use stentor_topic::Zone;

use super::support::{Random, get, options, put, walk};
use crate::{DamageReport, Outcome, Store, Sync};
use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;

/// Every message that a topic ever held; the last one is what it holds.
pub(super) type Held = BTreeMap<String, Vec<Vec<u8>>>;

pub(super) fn filled(seed: u64, random: &mut Random) -> (SimulatedDisk, Held) {
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
    // So that the list of segments is complete.
    store.reserve_versions();
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
    let (_, reports) = store.damage();
    assert_eq!(reports[0].outcome, Outcome::Mended);
    // The newer of the two places.
    assert_eq!(reports[1].outcome, Outcome::Salvaged);
    assert_eq!(reports[1].topic, Some((Zone(0), "a".to_owned())));
    assert_eq!((reports.len(), store.losses()), (2, 0));
    assert_eq!(walk(&store, "#", 10).len(), 1);
}

#[test]
fn a_damaged_place_that_was_empty_is_no_loss() {
    let (disk, segment) = with_one_topic();
    // The first place of the second slot, in its mark.
    disk.damage(&segment, FIRST_BLOCK + 128 + 2, 0x55);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let (count, reports) = store.damage();
    assert_eq!((count, store.losses()), (1, 0), "{reports:?}");
    assert_eq!(
        (reports[0].outcome, &reports[0].topic),
        (Outcome::Mended, &None)
    );
    drop(store);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(store.damage().0, 0, "it is empty again");
}

/// A publisher that publishes again what was lost has mended it.
#[test]
fn a_loss_is_none_after_the_topic_was_published_again() {
    for (flips, outcome) in [(1, Outcome::Previous), (2, Outcome::Lost)] {
        let (disk, segment) = with_one_topic();
        for place in 2 - flips..2 {
            disk.damage(&segment, FIRST_BLOCK + 64 * place + 50, 1);
        }
        let mut later = options(Sync::Never);
        later.started_at += Duration::from_secs(10);
        let store = Store::open(disk, &later).unwrap();
        let (_, reports) = store.damage();
        assert_eq!(store.losses(), flips as u64);
        let is_settled = || {
            assert!(reports.iter().all(|report| report.outcome == outcome));
            reports
                .iter()
                .all(|report| store.is_published_again(report))
        };
        assert!(!is_settled(), "{reports:?}");
        put(&store, "a", b"again").unwrap();
        assert!(is_settled(), "{reports:?}");
    }
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
    let store = Store::open(disk.clone(), &other).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    assert_eq!(
        (store.damage().0, store.losses()),
        (1, 0),
        "there is a copy"
    );
    drop(store);
    for name in ["store", "store.copy"] {
        disk.remove(name).unwrap();
    }
    other.random = 78;
    let store = Store::open(disk, &other).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    assert_eq!(
        store.losses(),
        1,
        "nobody knows whether all files are there"
    );
}

/// Whatever else is lost with it, a missing segment is told.
#[test]
fn a_segment_that_is_missing_is_told_without_the_store_file() {
    let (disk, held) = with_many_topics();
    let names = segments(&disk);
    for lost in [&["store"][..], &["store.copy"], &["store", "store.copy"]] {
        let disk = disk.after_kill();
        for name in lost.iter().copied().chain([&*names[3]]) {
            disk.remove(name).unwrap();
        }
        let store = Store::open(disk, &options(Sync::Never)).unwrap();
        assert!(!changed(&store, &held).is_empty());
        let (_, reports) = store.damage();
        assert_eq!(store.losses(), 1, "{lost:?}: {reports:?}");
        let told = |name: &str| {
            let is_it = |report: &&DamageReport| report.file == name;
            reports.iter().find(is_it).map(|report| report.outcome)
        };
        let expected = match lost {
            ["store"] => (Some(Outcome::Mended), Some(Outcome::Lost)),
            ["store.copy"] => (None, Some(Outcome::Lost)),
            // The list is gone with both.
            _ => (Some(Outcome::Lost), None),
        };
        assert_eq!((told("store"), told(&names[3])), expected, "{lost:?}");
    }
}

/// The disk has lost all of a file, or its first half: not mended, however whole its name is.
#[test]
fn a_segment_of_zeros_is_a_loss() {
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[0];
    let whole = disk.content(name);
    for zeros in [whole.len(), whole.len() / 2] {
        let disk = disk.after_kill();
        let mut bytes = whole.clone();
        bytes[..zeros].fill(0);
        disk.put(name, &bytes);
        let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
        assert!(!changed(&store, &held).is_empty());
        let (_, reports) = store.damage();
        let is_lost = |report: &DamageReport| {
            report.file == *name && report.outcome == Outcome::Lost && report.topic.is_none()
        };
        assert!(reports.iter().any(is_lost), "{zeros}: {reports:?}");
        if zeros == whole.len() {
            assert_eq!(store.damage().0, 1, "one file, one loss: {reports:?}");
        }
        for topic in held.keys() {
            put(&store, topic, b"again").unwrap();
        }
        drop(store);
        let store = Store::open(disk, &options(Sync::Never)).unwrap();
        assert_eq!(store.damage().0, 0, "it is told once");
        for topic in held.keys() {
            assert_eq!(get(&store, topic).as_deref(), Some(&b"again"[..]));
        }
    }
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

/// Overwrites a page of a file with zeros: the disk has lost it.
fn lose_page(disk: &SimulatedDisk, name: &str, page: usize) {
    let mut bytes = disk.content(name);
    bytes[page * 4096..][..4096].fill(0);
    disk.put(name, &bytes);
}

/// What a store of several segments holds, and its disk.
pub(super) fn with_many_topics() -> (SimulatedDisk, BTreeMap<String, Vec<u8>>) {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let mut held = BTreeMap::new();
    for number in 0..3_000_u32 {
        let (topic, payload) = (format!("m/{number}"), vec![number as u8; 150]);
        put(&store, &topic, &payload).unwrap();
        held.insert(topic, payload);
    }
    store.clean_up(Tick::ZERO);
    (disk, held)
}

pub(super) fn segments(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.names().unwrap();
    names.retain(|name| name.ends_with(".seg"));
    names.sort();
    names
}

/// The topics that a store does not hold as they were put, of which none may be another's.
pub(super) fn changed(
    store: &Store<SimulatedDisk>,
    held: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let differs = |(topic, payload): &(&String, &Vec<u8>)| {
        let found = get(store, topic);
        assert!(
            found.is_none() || found.as_ref() == Some(payload),
            "{topic}"
        );
        found.is_none()
    };
    let lost = held.iter().filter(differs);
    lost.map(|(topic, _)| topic.clone()).collect()
}

#[test]
fn a_segment_that_is_missing_is_told() {
    let (disk, held) = with_many_topics();
    let names = segments(&disk);
    disk.remove(&names[3]).unwrap();
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    assert!(!changed(&store, &held).is_empty());
    let (count, reports) = store.damage();
    assert_eq!((count, &reports[0].file), (1, &names[3]));
    assert_eq!(reports[0].outcome, Outcome::Lost);
    // Once: it is not expected any more.
    drop(store);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(store.damage().0, 0);
}

/// A segment that compaction has removed is not missing.
#[test]
fn a_segment_that_was_removed_is_not_missed() {
    let (disk, held) = with_many_topics();
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let fill = |payload: &[u8]| {
        for topic in held.keys() {
            put(&store, topic, payload).unwrap();
        }
        store.clean_up(Tick::ZERO);
        segments(&disk)
    };
    let (before, after) = (fill(&[b'x'; 2_000]), fill(b""));
    assert!(
        before.iter().any(|name| !after.contains(name)),
        "some are gone"
    );
    drop(store);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(store.damage().0, 0);
}

/// A page of zeros is none that held nothing.
#[test]
fn a_page_that_was_lost_is_told() {
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[0];
    for page in 1..32 {
        let disk = disk.after_kill();
        lose_page(&disk, name, page);
        let store = Store::open(disk, &options(Sync::Never)).unwrap();
        let lost = changed(&store, &held);
        if !lost.is_empty() {
            let (count, _) = store.damage();
            assert!(count >= lost.len() as u64, "page {page}: {count} told");
        }
    }
    // The page of the head and the directory: all records are found.
    lose_page(&disk, name, 0);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(changed(&store, &held), [""; 0]);
    assert!(store.damage().0 > 0);
    assert_eq!(store.losses(), 0);
}

/// Where the directory is lost as well, nothing says what a page of zeros held.
#[test]
fn a_page_that_was_lost_with_the_directory_is_told() {
    let (disk, held) = with_many_topics();
    let name = &segments(&disk)[0];
    let used = disk.content(name);
    let used = used.iter().rposition(|byte| *byte != 0).unwrap() / 4096;
    assert!(used > 4 && used < 31, "{used} pages are used");
    lose_page(&disk, name, 0);
    for page in 1..33 {
        let disk = disk.after_kill();
        lose_page(&disk, name, page);
        let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
        let lost = changed(&store, &held);
        let (_, reports) = store.damage();
        // In the last one, it may be that nothing was put yet.
        if page < used {
            assert!(store.losses() > 0, "page {page}: {lost:?}, {reports:?}");
        } else if page > used {
            assert_eq!((lost.len(), store.losses()), (0, 0), "page {page}");
        }
        drop(store);
        let store = Store::open(disk, &options(Sync::Never)).unwrap();
        assert_eq!(changed(&store, &held), lost, "what was found stays");
        assert_eq!(store.damage().0, 0, "it is told once");
    }
}

#[test]
fn an_older_copy_of_a_segment_is_told() {
    let (disk, segment) = with_one_topic();
    let old = disk.content(&segment);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    put(&store, "a", b"third").unwrap();
    drop(store);
    let newer = disk.after_kill();
    disk.put(&segment, &old);
    let store = Store::open(disk, &options(Sync::Never)).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"second"[..]));
    let (count, reports) = store.damage();
    assert_eq!((count, reports[0].outcome), (1, Outcome::Previous));
    let store = Store::open(newer, &options(Sync::Never)).unwrap();
    assert_eq!(get(&store, "a").as_deref(), Some(&b"third"[..]));
    assert_eq!(store.damage().0, 0);
}

/// The key of the store that [`options`] make: of the halves of its secret, which are the same.
const KEY: u32 = 0;

/// Stores of the first format are taken over.
#[test]
fn a_store_of_format_1_is_written_anew() {
    let (disk, held) = with_many_topics();
    for name in segments(&disk) {
        let bytes = crate::layout::downgraded(&disk.content(&name), KEY);
        disk.put(&name, &bytes);
    }
    let mut meta = disk.content("store");
    meta.truncate(64);
    meta[8] = 1;
    meta[49..64].fill(0);
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&meta[..12]);
    checksum.update(&meta[16..]);
    meta[12..16].copy_from_slice(&checksum.finalize().to_le_bytes());
    disk.put("store", &meta);
    for _ in 0..2 {
        let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
        assert_eq!(changed(&store, &held), [""; 0]);
        assert_eq!(store.damage().0, 0);
    }
}
