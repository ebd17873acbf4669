//! Recovery from whatever lies in the files: cut off, zeroed, overwritten, renamed, gone, or
//! nobody's. The store opens, holds nothing that was not put, tells what it has lost, and works.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many; the
//! fuzz target `recover` goes on where these end.

use super::damage::{Held, filled};
use super::support::{Random, get, options, put, walk};
use crate::class;
use crate::damage::Outcome;
use crate::layout::{self, SegmentHead};
use crate::{Store, StoreOptions, Sync};
use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;
use stentor_hub::Retained;

const PAGE_BYTES: usize = 4096;

/// This many bytes that nobody wrote.
fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// A part of a file of this many bytes.
fn part(random: &mut Random, len: usize) -> std::ops::Range<usize> {
    let from = random.below(len);
    // Short ones, and whole pages.
    let most = [16, PAGE_BYTES, len][random.below(3)];
    from..len.min(from + 1 + random.below(most))
}

/// Spoils a file in one of the ways in which files are spoilt; says how.
fn spoil(random: &mut Random, disk: &SimulatedDisk) -> String {
    let names = disk.names().unwrap();
    let name = &names[random.below(names.len())];
    let mut bytes = disk.content(name);
    let part = part(random, bytes.len().max(1));
    let part = part.start..part.end.min(bytes.len());
    let what = match random.below(10) {
        0 => {
            bytes.truncate(part.start);
            "cut off"
        }
        1 => {
            bytes.fill(0);
            "zeroed"
        }
        2 | 3 => {
            bytes[part.clone()].fill(0);
            "zeroed in part"
        }
        4 | 5 => {
            let noise = noise(random, part.len());
            bytes[part.clone()].copy_from_slice(&noise);
            "overwritten"
        }
        6 if bytes.len() >= 2 * PAGE_BYTES => {
            let mut page = || random.below(bytes.len() / PAGE_BYTES) * PAGE_BYTES;
            let (from, to) = (page(), page());
            bytes.copy_within(from..from + PAGE_BYTES, to);
            "overwritten with another of its pages"
        }
        7 => {
            disk.remove(name).unwrap();
            return format!("{name}: removed");
        }
        8 => {
            let other = format!("{:02}-{:06}.seg", random.below(33), random.below(3));
            disk.rename(name, &other).unwrap();
            return format!("{name}: renamed to {other}");
        }
        _ => {
            let other = format!("{:02}-{:06}.seg", random.below(33), random.below(3));
            // As long as a real one, or as it comes.
            let len = [random.below(10_000), layout::file_len(8)][random.below(2)];
            disk.put(&other, &noise(random, len));
            return format!("{other}: {len} bytes of noise");
        }
    };
    disk.put(name, &bytes);
    format!("{name}, {} bytes: {what} at {part:?}", bytes.len())
}

/// Opens the store and looks at all topics; how many do not hold what was put last.
fn check(disk: &SimulatedDisk, held: &Held, boot: u64) -> (Store<SimulatedDisk>, usize) {
    let options = StoreOptions {
        boot,
        ..options(Sync::Never)
    };
    let store = Store::open(disk.clone(), &options).unwrap();
    let mut changed = 0;
    let mut expected = 0;
    for (topic, messages) in held {
        let message = get(&store, topic);
        changed += usize::from(message.as_ref() != messages.last());
        expected += usize::from(message.is_some());
        if let Some(message) = message {
            assert!(messages.contains(&message), "{topic} holds what nobody put");
        }
    }
    assert_eq!(walk(&store, "#", 7).len(), expected);
    assert_eq!(store.verify().damaged, 0, "what is damaged is gone");
    (store, changed)
}

fn recover(seed: u64) {
    let mut random = Random(seed);
    let (disk, mut held) = filled(seed, &mut random);
    let count = [1, 2 + random.below(8)][random.below(2)];
    let spoilt: Vec<String> = (0..count).map(|_| spoil(&mut random, &disk)).collect();
    // The machine has been started anew now and then.
    let boot = 1 + u64::from(random.one_in(3));
    let (store, changed) = check(&disk, &held, boot);
    let (told, reports) = store.damage();
    assert_eq!(reports.len() as u64, told);
    if changed > 0 && boot == 1 {
        let is_told = store.losses() > 0;
        assert!(is_told, "{changed} topics changed: {spoilt:?}: {reports:?}");
    }
    for (topic, messages) in &mut held {
        put(&store, topic, b"new").unwrap();
        messages.push(b"new".to_vec());
    }
    drop(store);
    let (store, changed) = check(&disk.after_kill(), &held, boot);
    assert_eq!(changed, 0, "{spoilt:?}");
    assert_eq!(store.damage().1, [], "it is told once: {spoilt:?}");
}

#[test]
fn whatever_lies_in_the_files_the_store_works_and_tells_its_losses() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return recover(seed.parse().expect("STENTOR_SEED is a number"));
    }
    let runs = if std::env::var_os("STENTOR_SOAK").is_some() {
        20_000
    } else {
        200
    };
    for seed in 0..runs {
        if std::panic::catch_unwind(|| recover(seed)).is_err() {
            panic!("seed {seed} fails: STENTOR_SEED={seed} runs it alone");
        }
    }
}

/// The segment that has a run of more than one block at its beginning.
fn segment_with_a_run(disk: &SimulatedDisk) -> String {
    let names = disk.names().unwrap();
    let begins_with_a_run = |name: &String| {
        let Some((stripe, number)) = layout::parse_file_name(name) else {
            return false;
        };
        let head = SegmentHead::decode(&disk.content(name));
        let (head, _) = head.ok().filter(|(head, _)| head.number == number).unwrap();
        let key = layout::segment_key(head.seed as u32 ^ (head.seed >> 32) as u32, stripe, number);
        let entry = layout::decode_entry(&disk.content(name), key, 0);
        matches!(entry, layout::Entry::Run(id) if class::get(id).unwrap().run_blocks > 1)
    };
    names.into_iter().find(begins_with_a_run).unwrap()
}

/// Nothing reads the entries inside a run while it is there. What a power loss took of them is
/// mended at the start after it, and not found missing when the run has gone.
#[test]
fn what_a_power_loss_took_inside_a_run_is_no_loss_later() {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    put(&store, "t", &[1; 40_000]).unwrap();
    let name = segment_with_a_run(&disk);
    let at = layout::entry_at(1);
    let entry = disk.content(&name)[at..at + layout::ENTRY_BYTES].to_vec();
    for (i, byte) in entry.into_iter().enumerate() {
        // It is zero then.
        disk.damage(&name, at + i, byte);
    }
    let disk = disk.after_kill();
    let after = StoreOptions {
        boot: 2,
        ..options(Sync::Never)
    };
    let store = Store::open(disk.clone(), &after).unwrap();
    assert_eq!(store.damage().1, []);
    let epoch = store.epoch();
    put(&store, "t", b"").unwrap();
    store.compact();
    let disk = disk.after_kill();
    let store = Store::open(disk, &after).unwrap();
    assert_eq!((store.damage().1, store.epoch()), (Vec::new(), epoch));
}

#[test]
fn a_damaged_entry_inside_a_run_is_mended_and_told() {
    let disk = SimulatedDisk::new(1);
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    put(&store, "t", &[1; 40_000]).unwrap();
    let name = segment_with_a_run(&disk);
    disk.damage(&name, layout::entry_at(1), 1);
    let disk = disk.after_kill();
    let store = Store::open(disk.clone(), &options(Sync::Never)).unwrap();
    let told: Vec<_> = store
        .damage()
        .1
        .into_iter()
        .map(|report| report.outcome)
        .collect();
    assert_eq!(told, [Outcome::Mended]);
    assert_eq!(get(&store, "t").as_deref(), Some(&[1; 40_000][..]));
    let store = Store::open(disk.after_kill(), &options(Sync::Never)).unwrap();
    assert_eq!(store.damage().1, []);
}
