//! A kill at every byte that is written.

use stentor_disk::simulated::SimulatedDisk;

use super::support::{SMALL, Simulated, batch, begin, commit, open, reread};
use crate::Folder;

/// Bytes of more than any of the operations below writes.
const BYTES_MAX: usize = 8 << 10;

/// Kills the process after each number of bytes of an operation. It is prepared by another one,
/// which returns how many batches there are then. What is read afterwards is what was there, and
/// at most this many batches more.
fn check(
    more: usize,
    prepare: impl Fn(&mut Folder<SimulatedDisk>, &mut Simulated) -> Vec<Vec<u8>>,
    operation: impl Fn(&mut Folder<SimulatedDisk>, &mut Simulated),
) {
    for bytes in 0..BYTES_MAX {
        let disk = SimulatedDisk::new(bytes as u64);
        let (mut folder, mut journal) = begin(&disk);
        let before = prepare(&mut folder, &mut journal);
        disk.kill_after(bytes);
        operation(&mut folder, &mut journal);
        let is_complete = !disk.is_killed();
        let (found, gaps) = reread(&disk.after_kill(), 1);
        assert_eq!(gaps, [], "after {bytes} bytes");
        let found: Vec<_> = found.into_iter().map(|(_, records)| records).collect();
        assert!(found.len() <= before.len() + more, "after {bytes} bytes");
        assert!(found.starts_with(&before), "after {bytes} bytes");
        if is_complete {
            assert_eq!(found.len(), before.len() + more, "after {bytes} bytes");
            return;
        }
    }
    panic!("an operation has more than {BYTES_MAX} bytes");
}

fn append(journal: &mut Simulated, lens: &[usize]) -> Vec<Vec<u8>> {
    let batches: Vec<_> = lens
        .iter()
        .enumerate()
        .map(|(i, len)| batch(i, *len))
        .collect();
    for batch in &batches {
        journal.append(batch).unwrap();
    }
    batches
}

#[test]
fn a_batch_is_kept_whole_or_not_at_all() {
    for len in [1, 8, 100, 101] {
        check(
            1,
            |_, journal| append(journal, &[30, 7]),
            |_, journal| {
                journal.append(&batch(9, len)).unwrap();
            },
        );
    }
}

#[test]
fn so_is_the_first_one_of_a_segment() {
    check(
        1,
        |_, journal| append(journal, &[400, 400]),
        |_, journal| {
            journal.append(&batch(9, 300)).unwrap();
        },
    );
}

#[test]
fn making_recycling_and_committing_lose_nothing() {
    let prepare = |folder: &mut Folder<SimulatedDisk>, journal: &mut Simulated| {
        append(journal, &[700, 700]);
        folder.serve(journal).unwrap();
        let kept = append(journal, &[701, 30]);
        journal.release_oldest().unwrap();
        journal.release_oldest().unwrap();
        kept
    };
    check(0, prepare, |folder, journal| {
        commit(journal);
        folder.serve(journal).unwrap();
    });
}

#[test]
fn a_start_that_is_killed_is_begun_again() {
    check(
        0,
        |_, journal| append(journal, &[700, 700]),
        |folder, _| {
            let mut opened = open(&folder.disk, 1);
            assert_eq!(opened.journals.len(), 1);
            opened.folder.journal(0, SMALL);
        },
    );
}

#[test]
fn old_generations_are_there_until_they_are_forgotten() {
    let records = batch(1, 700);
    for bytes in 0..BYTES_MAX {
        let disk = SimulatedDisk::new(bytes as u64);
        let (_, mut journal) = begin(&disk);
        journal.append(&records).unwrap();
        let disk = disk.after_kill();
        let mut opened = open(&disk, 1);
        let mut journal = opened.folder.journal(0, SMALL);
        journal.append(&records).unwrap();
        commit(&mut journal);
        disk.kill_after(bytes);
        opened.folder.forget(&mut opened.journals).unwrap();
        opened.folder.serve(&mut journal).unwrap();
        let is_complete = !disk.is_killed();
        let journals = open(&disk.after_kill(), 1).journals;
        let generations: Vec<_> = journals.iter().map(|it| it.generation()).collect();
        match generations.as_slice() {
            [1, 2] => assert!(!is_complete),
            [2] => {}
            others => panic!("{others:?} after {bytes} bytes"),
        }
        for journal in &journals {
            let survey = journal.survey();
            let batches: Vec<_> = journal.batches(&survey).map(|it| it.records).collect();
            assert_eq!(batches, [&records], "after {bytes} bytes");
            assert_eq!(survey.gaps, []);
        }
        if is_complete {
            return;
        }
    }
    panic!("it has more than {BYTES_MAX} bytes");
}
