//! Damage: what is whole is read, what is missing is told, and nothing is invented.

use stentor_disk::Disk;
use stentor_disk::simulated::SimulatedDisk;

use super::support::{Batches, Random, batch, begin, commit, open, read, reread};
use crate::head::{file_name, parse_file_name};
use crate::{Gap, GapKind, Position, TroubleKind, peek};

/// A journal of several segments, committed in the middle: its disk and what it holds.
fn filled() -> (SimulatedDisk, Batches, Position) {
    let disk = SimulatedDisk::new(7);
    let (mut folder, mut journal) = begin(&disk);
    let mut batches = Batches::new();
    let mut committed = Position::ORIGIN;
    for number in 0..24 {
        let records = batch(number, 40 + number * 5);
        batches.push((journal.append(&records).unwrap(), records));
        folder.serve(&mut journal).unwrap();
        if number == 15 {
            commit(&mut journal);
            committed = journal.committed();
        }
    }
    (disk, batches, committed)
}

/// Whichever file goes: if anything was appended to it, that is told.
#[test]
fn a_file_that_is_missing_is_told() {
    let (disk, batches, _) = filled();
    let names = disk.names().unwrap();
    let all = names.iter().filter_map(|it| parse_file_name(it));
    for number in all {
        let disk = disk.after_kill();
        disk.remove(&file_name(number)).unwrap();
        let (found, gaps) = reread(&disk, 1);
        let held = batches.iter().filter(|it| it.0.file == number).count();
        assert_eq!(found.len() + held, batches.len(), "file {number}");
        let is_it = |gap: &Gap| gap.from.file == number && gap.kind == GapKind::Damage;
        assert!(
            held == 0 || gaps.iter().all(is_it) && gaps.len() == 1,
            "{gaps:?}"
        );
    }
}

/// How many files there were is known after an orderly end.
#[test]
fn files_that_no_journal_misses_are_counted() {
    let disk = SimulatedDisk::new(8);
    let (mut folder, mut journal) = begin(&disk);
    journal.append(&batch(0, 40)).unwrap();
    folder.serve(&mut journal).unwrap();
    let round = journal.begin_last_commit().unwrap();
    journal.end_last_commit(round.sync()).unwrap();
    folder.close().unwrap();
    let names = disk.names().unwrap();
    let all: Vec<_> = names.iter().filter_map(|it| parse_file_name(it)).collect();
    assert_eq!(peek(&disk, 1).unwrap().missing, 0);
    for number in &all {
        disk.remove(&file_name(*number)).unwrap();
    }
    let peeked = peek(&disk, 1).unwrap();
    assert_eq!(
        (peeked.missing as usize, peeked.journals.len()),
        (all.len(), 0)
    );
    // The next start has told it.
    drop(open(&disk, 1));
    assert_eq!(peek(&disk, 1).unwrap().missing, 0);
}

/// Bytes of a file that hold frames.
fn used_bytes(batches: &Batches, file: u32) -> usize {
    let last = batches.iter().filter(|(position, _)| position.file == file);
    let ends = last.map(|(position, records)| position.offset as usize + 24 + records.len());
    ends.max().unwrap()
}

#[test]
fn every_byte_that_rots_is_told() {
    let (disk, batches, _) = filled();
    let file = batches[5].0.file;
    let name = file_name(file);
    let mut is_read = 0;
    for at in 64..used_bytes(&batches, file) {
        let damaged = disk.after_kill();
        damaged.damage(&name, at, 0x10);
        let (found, gaps) = reread(&damaged, 1);
        let missing: Vec<_> = batches.iter().filter(|it| !found.contains(it)).collect();
        assert!(missing.len() <= 1, "byte {at}");
        assert!(found.iter().all(|it| batches.contains(it)), "byte {at}");
        match gaps.as_slice() {
            // The padding of a batch.
            [] => {
                assert_eq!(missing.len(), 0, "byte {at}");
                is_read += 1;
            }
            [gap] => {
                assert_eq!(gap.kind, GapKind::Damage, "byte {at}");
                assert_eq!(gap.from.file, file);
                let from = gap.from.offset as usize;
                assert!((from..from + gap.bytes as usize).contains(&at), "byte {at}");
                assert_eq!(gap.bytes % 8, 0);
            }
            gaps => panic!("byte {at}: {gaps:?}"),
        }
    }
    assert!(is_read < 64, "{is_read} bytes are of no account");
}

#[test]
fn a_head_that_rots_costs_nothing() {
    let (disk, batches, _) = filled();
    let name = file_name(batches[5].0.file);
    for at in 0..64 {
        let damaged = disk.after_kill();
        damaged.damage(&name, at, 0x10);
        let opened = open(&damaged, 1);
        assert_eq!(opened.troubles[0].kind, TroubleKind::Head, "byte {at}");
        assert_eq!(read(&opened.journals[0]), (batches.clone(), Vec::new()));
    }
}

#[test]
fn a_file_that_is_gone_is_told() {
    let (disk, batches, _) = filled();
    let file = batches[5].0.file;
    let damaged = disk.after_kill();
    damaged.remove(&file_name(file)).unwrap();
    let (found, gaps) = reread(&damaged, 1);
    let rest: Batches = batches
        .into_iter()
        .filter(|(it, _)| it.file != file)
        .collect();
    assert_eq!(found, rest);
    assert_eq!(gaps.len(), 1);
    assert_eq!((gaps[0].from.file, gaps[0].kind), (file, GapKind::Damage));
}

#[test]
fn lost_sectors_before_a_commit_are_damage_and_after_it_the_end() {
    let (disk, batches, committed) = filled();
    for (index, (position, records)) in batches.iter().enumerate() {
        let damaged = disk.after_kill();
        let name = file_name(position.file);
        damaged.damage(&name, position.offset as usize + 24, 0x10);
        let (found, gaps) = reread(&damaged, 2);
        let gap = Gap {
            from: *position,
            bytes: (24 + records.len()).next_multiple_of(8) as u64,
            kind: GapKind::Damage,
        };
        if *position < committed {
            assert_eq!(found.len(), batches.len() - 1, "batch {index}");
            assert_eq!(gaps, [gap]);
        } else {
            assert_eq!(found, batches[..index], "batch {index}");
            assert_eq!(
                (gaps[0].from, gaps[0].kind),
                (*position, GapKind::Unpromised)
            );
        }
    }
}

#[test]
fn the_manifest_has_a_copy() {
    let (disk, batches, _) = filled();
    let disk = disk.after_kill();
    disk.damage("journal", 20, 1);
    let opened = open(&disk, 1);
    assert_eq!(opened.troubles[0].kind, TroubleKind::Copied);
    assert_eq!(read(&opened.journals[0]).0, batches);
    drop(opened);
    // It was made whole.
    let disk = disk.after_kill();
    assert_eq!(open(&disk, 1).troubles, []);
}

#[test]
fn segments_are_read_without_a_manifest() {
    let (disk, batches, _) = filled();
    let disk = disk.after_kill();
    for name in ["journal", "journal.copy"] {
        disk.remove(name).unwrap();
    }
    let mut opened = open(&disk, 1);
    assert_eq!(opened.troubles[0].kind, TroubleKind::Lost);
    assert_eq!(opened.journals[0].generation(), 1);
    assert_eq!(opened.folder.generation(), 2);
    assert_eq!(read(&opened.journals[0]).0, batches);
    // Numbers are not used twice.
    let mut journal = opened.folder.journal(0, super::support::SMALL);
    let last = batches[batches.len() - 1].0;
    assert!(journal.append(b"x").unwrap().file > last.file);
}

/// A reader that only looks finds what a start finds, and leaves it.
#[test]
fn a_look_changes_nothing() {
    let (disk, batches, _) = filled();
    let disk = disk.after_kill();
    let content = |disk: &SimulatedDisk| {
        let mut names = disk.names().unwrap();
        names.sort();
        names
            .into_iter()
            .map(|name| (disk.content(&name), name))
            .collect::<Vec<_>>()
    };
    let before = content(&disk);
    let found = peek(&disk, 1).unwrap();
    assert_eq!((found.generation, found.troubles.len()), (1, 0));
    assert!(!found.journals[0].has_lost_power());
    assert_eq!(read(&found.journals[0]).0, batches);
    assert!(peek(&disk, 2).unwrap().journals[0].has_lost_power());
    drop(found);
    assert_eq!(content(&disk), before);
    let nothing = peek(&SimulatedDisk::new(1), 1).unwrap();
    assert_eq!((nothing.generation, nothing.journals.len()), (0, 0));
}

#[test]
fn a_copy_that_rots_is_told_and_costs_nothing() {
    let (disk, batches, _) = filled();
    let disk = disk.after_kill();
    disk.damage("journal.copy", 20, 1);
    let found = peek(&disk, 1).unwrap();
    assert_eq!(found.troubles[0].kind, TroubleKind::Copy);
    assert_eq!(read(&found.journals[0]).0, batches);
    disk.remove("journal.copy").unwrap();
    assert_eq!(peek(&disk, 1).unwrap().troubles, []);
}

/// One byte is wrong, and the rest of the batch still says what it was about.
#[test]
fn what_is_left_of_a_damaged_batch_can_be_looked_at() {
    let (disk, batches, _) = filled();
    let disk = disk.after_kill();
    let (at, records) = &batches[5];
    let name = file_name(at.file);
    let place = at.offset as usize + 24;
    disk.damage(&name, place, 0x10);
    let found = peek(&disk, 1).unwrap();
    let journal = &found.journals[0];
    let gaps = journal.survey().gaps;
    assert_eq!(gaps[0].from, *at);
    let left = journal.remains(&gaps[0]);
    assert_eq!(left[1..records.len()], records[1..]);
    assert!(left.len() < records.len() + 8);
}

/// Whatever lies in a file, only what was appended is read.
#[test]
fn any_bytes_are_read_safely() {
    let mut random = Random(11);
    let (disk, batches, _) = filled();
    let names = disk.names().unwrap();
    for _ in 0..300 {
        let damaged = disk.after_kill();
        for _ in 0..random.below(5) {
            let name = &names[random.below(names.len())];
            let mut content = damaged.content(name);
            let (from, to) = (
                random.below(content.len() + 1),
                random.below(content.len() + 1),
            );
            match random.below(4) {
                0 => content.truncate(from),
                1 => content.extend_from_within(from.min(to)..),
                2 => content[from.min(to)..from.max(to)].fill(random.below(256) as u8),
                // What the disk has written to the wrong place.
                _ => {
                    let len = random.below(content.len() + 1);
                    let from = random.below(content.len() - len + 1) / 8 * 8;
                    let to = random.below(content.len() - len + 1) / 8 * 8;
                    content.copy_within(from..from + len, to);
                }
            }
            damaged.put(name, &content);
        }
        for journal in open(&damaged, random.below(2) as u64 + 1).journals {
            let (found, _) = read(&journal);
            assert!(found.iter().all(|it| batches.contains(it)));
            assert!(found.is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}
