//! A journal against a list of batches, on a disk that fails, is killed and loses power.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use stentor_disk::simulated::{Operation, SimulatedDisk, SimulatedFlusher, SimulatedRegion};

use super::support::{Batches, Random, SMALL, Simulated, batch, open, read};
use crate::{Folder, GapKind, OldJournal, Position, Room, Round, Synced};

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Orderly,
    Kill,
    PowerLoss,
}

/// What a journal may hold after a restart.
#[derive(Clone, Debug)]
struct History {
    /// Everything that was appended.
    batches: Batches,
    /// The oldest file that counts.
    floor: u32,
    /// As many batches are on the disk for sure.
    promised: usize,
    /// As many were appended before the operation in which the process was killed.
    settled: usize,
    /// Files that the disk failed to sync, and whose content was appended again.
    given_up: BTreeSet<u32>,
    trust: Trust,
}

impl History {
    fn new() -> Self {
        Self {
            batches: Batches::new(),
            floor: 0,
            promised: 0,
            settled: 0,
            given_up: BTreeSet::new(),
            trust: Trust::Synced,
        }
    }

    /// Compares what was read with what may be there: a part from the front, in which only what
    /// was written again elsewhere is missing.
    fn check(&self, found: &Batches, required: usize, may_skip: &BTreeSet<u32>) {
        let first = found
            .first()
            .map_or(self.floor, |(position, _)| position.file);
        let floor = self.floor.min(first);
        let (mut rest, mut has_ended) = (found.iter().peekable(), false);
        for (index, batch) in self.batches.iter().enumerate() {
            if batch.0.file < floor {
                continue;
            }
            if rest.next_if(|found| *found == batch).is_some() {
                assert!(!has_ended, "{:?} follows a gap", batch.0);
                continue;
            }
            if may_skip.contains(&batch.0.file) || batch.0.file < self.floor {
                continue;
            }
            has_ended = true;
            assert!(index >= required, "batch {index}, {:?}, is lost", batch.0);
        }
        assert_eq!(rest.next(), None, "nobody appended that");
    }
}

/// What is known of the old generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    There,
    MayBeGone,
}

/// What an old journal holds.
#[derive(Clone, Debug)]
struct Expected {
    generation: u32,
    batches: Batches,
    /// Everything that was appended: a floor that is lost brings older batches back.
    ever: Batches,
    trust: Trust,
}

/// Whether the disk had everything of a journal at the start after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Synced,
    /// A sync failed before, so a later one proves nothing.
    Doubtful,
}

enum Committing {
    Idle,
    Begun(Round<SimulatedFlusher>, usize),
    Synced(Synced, usize),
}

struct Run {
    random: Random,
    disk: SimulatedDisk,
    folder: Folder<SimulatedDisk>,
    journal: Simulated,
    now: History,
    old: Vec<OldJournal<SimulatedRegion>>,
    /// What they hold, exactly.
    expected: Vec<Expected>,
    old_state: Old,
    committing: Committing,
    boot: u64,
    count: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        let mut folder = open(&disk, 1).folder;
        let journal = folder.journal(0, SMALL);
        Self {
            random: Random(seed),
            disk,
            folder,
            journal,
            now: History::new(),
            old: Vec::new(),
            expected: Vec::new(),
            old_state: Old::There,
            committing: Committing::Idle,
            boot: 1,
            count: 0,
        }
    }

    fn run(mut self) {
        for _ in 0..self.random.below(6) + 2 {
            let end = self.live();
            self = self.restart(end);
        }
    }

    /// Works until the process ends.
    fn live(&mut self) -> End {
        let end = match self.random.below(4) {
            0 => End::Orderly,
            1 => End::PowerLoss,
            _ => End::Kill,
        };
        let steps = self.random.below(120);
        let killed_at = self.random.below(steps * 2 + 1);
        for step in 0..steps {
            if step == killed_at {
                let bytes = self.random.below(2000);
                self.disk.kill_after(bytes);
            }
            self.now.settled = self.now.batches.len();
            self.step();
            if self.disk.is_killed() {
                // The power may fail before anybody starts it again.
                return match self.random.one_in(3) {
                    true => End::PowerLoss,
                    false => End::Kill,
                };
            }
        }
        self.now.settled = self.now.batches.len();
        match end {
            End::Orderly if self.commit_all() && self.sync_all() => End::Orderly,
            End::Orderly => End::Kill,
            end => end,
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..8 => self.append(),
            8..11 => self.keep(),
            11..13 => self.release(),
            13..17 => self.commit(),
            17 => self.ask(),
            18 => self.carry(),
            _ => self.weather(),
        }
    }

    fn append(&mut self) {
        let len = match self.random.below(4) {
            0 => self.random.below(self.journal.largest() + 20),
            _ => self.random.below(200),
        };
        self.append_batch(len + 1);
    }

    fn append_batch(&mut self, len: usize) -> bool {
        self.count += 1;
        let records = batch(self.count, len);
        let largest = self.journal.largest();
        let appended = self.journal.append(&records);
        assert_eq!(appended.is_ok(), len <= largest, "{len} bytes of {largest}");
        if let Ok(position) = appended {
            let last = self.now.batches.last().map_or(Position::ORIGIN, |it| it.0);
            assert!(last < position);
            self.now.batches.push((position, records));
        }
        appended.is_ok()
    }

    /// The maintenance thread: on a disk that fails, it is asked again later.
    fn keep(&mut self) {
        let _ = self.folder.serve(&mut self.journal);
        let usage = self.journal.usage();
        assert!(usage.used + usage.ready + usage.released <= SMALL.segments_max);
    }

    fn release(&mut self) {
        let usage = self.journal.usage();
        if usage.used > 4 || self.journal.room() == Room::Low {
            self.now.floor = self.journal.release_oldest().unwrap_or(self.now.floor);
        }
    }

    fn commit(&mut self) {
        let before = std::mem::replace(&mut self.committing, Committing::Idle);
        self.committing = match before {
            Committing::Idle => match self.journal.begin_commit() {
                None => Committing::Idle,
                Some(round) => Committing::Begun(round, self.now.batches.len()),
            },
            Committing::Begun(round, count) => Committing::Synced(self.sync(round), count),
            Committing::Synced(synced, count) => {
                self.end_commit(synced, count);
                Committing::Idle
            }
        };
    }

    fn end_commit(&mut self, synced: Synced, count: usize) {
        let Err(error) = self.journal.end_commit(synced) else {
            if !self.disk.is_killed() {
                self.now.promised = count;
            }
            return;
        };
        let lost = |(position, _): &&(Position, Vec<u8>)| error.segments.contains(&position.file);
        let lens: Vec<_> = self
            .now
            .batches
            .iter()
            .filter(lost)
            .map(|it| it.1.len())
            .collect();
        // What finds no room was not promised again. The owner would have to wait for room.
        if lens.into_iter().all(|len| self.append_batch(len)) {
            self.now.given_up.extend(&error.segments);
            self.journal.rewritten();
        }
    }

    fn ask(&mut self) {
        let len = self.random.below(4000);
        self.journal.ask(len);
        self.keep();
    }

    /// Appends what earlier generations hold, and forgets these.
    fn carry(&mut self) {
        let lens: Vec<_> = self
            .expected
            .iter()
            .flat_map(|it| &it.batches)
            .map(|it| it.1.len())
            .collect();
        if self.old.is_empty() || !lens.into_iter().all(|len| self.append_batch(len)) {
            return;
        }
        if self.commit_all() && !self.disk.is_killed() {
            self.old_state = Old::MayBeGone;
            // What is killed meanwhile does not learn that it failed.
            if self.folder.forget(&mut self.old).is_ok() && !self.disk.is_killed() {
                self.expected.clear();
            }
        }
    }

    /// Commits everything; whether the disk has it.
    fn commit_all(&mut self) -> bool {
        for _ in 0..4 {
            self.commit();
        }
        (0..6).any(|_| {
            self.commit();
            let is_idle = matches!(self.committing, Committing::Idle);
            is_idle && self.now.promised == self.now.batches.len()
        })
    }

    /// Brings what says that everything is committed to the disk.
    fn sync_all(&mut self) -> bool {
        let round = self.journal.begin_last_commit();
        round.is_none_or(|round| self.sync(round).outcome.is_ok())
    }

    fn sync(&mut self, round: Round<SimulatedFlusher>) -> Synced {
        let synced = round.sync();
        if synced.outcome.is_err() {
            self.now.trust = Trust::Doubtful;
        }
        synced
    }

    /// The disk fails now and then, or is full.
    fn weather(&mut self) {
        let failing = self.random.below(3) as u32 * 4;
        self.disk.fail_one_in(failing);
        let broken = match self.random.below(6) {
            0 => Some((Operation::Grow, ErrorKind::StorageFull)),
            1 => Some((Operation::Flush, ErrorKind::Other)),
            2 => Some((Operation::Rename, ErrorKind::Other)),
            _ => None,
        };
        self.disk.break_down(broken);
    }

    fn restart(self, end: End) -> Self {
        let mut random = self.random;
        let is_closed = end == End::Orderly && self.folder.close().is_ok();
        let loses_power = end == End::PowerLoss || is_closed && random.one_in(2);
        let disk = match loses_power {
            true => self.disk.after_power_loss(),
            false => self.disk.after_kill(),
        };
        let boot = self.boot + u64::from(loses_power);
        let opened = open(&disk, boot);
        assert_eq!(opened.troubles, []);
        let before = opened.folder.generation() - 1;
        let is_last = |it: &&OldJournal<_>| it.generation() == before;
        let (last, older): (Vec<_>, Vec<_>) = opened.journals.iter().partition(is_last);
        check_old(&older, &self.expected, self.old_state);
        let (found, gaps) = last.first().map(|it| read(it)).unwrap_or_default();
        let (required, may_skip, allowed) = match (is_closed, loses_power) {
            (_, false) => (self.now.settled, BTreeSet::new(), &[][..]),
            (true, true) => (
                self.now.settled,
                self.now.given_up.clone(),
                &[GapKind::GivenUp][..],
            ),
            (false, true) => (
                self.now.promised,
                self.now.given_up.clone(),
                &[GapKind::GivenUp, GapKind::Unpromised][..],
            ),
        };
        assert!(
            gaps.iter().all(|gap| allowed.contains(&gap.kind)),
            "{gaps:?}"
        );
        self.now.check(&found, required, &may_skip);
        let mut expected: Vec<_> = opened.journals.iter().map(expect).collect();
        for expected in &mut expected {
            let mut old = self.expected.iter();
            let old = old.find(|it| it.generation == expected.generation);
            expected.trust = old.map_or(self.now.trust, |it| it.trust);
            let ever = old.map_or(&self.now.batches, |it| &it.ever);
            expected.ever.clone_from(ever);
        }
        let mut folder = opened.folder;
        let journal = folder.journal(0, SMALL);
        Self {
            random,
            disk,
            folder,
            journal,
            now: History::new(),
            old: opened.journals,
            expected,
            old_state: Old::There,
            committing: Committing::Idle,
            boot,
            count: self.count,
        }
    }
}

/// Brings an old journal to the disk, so that it stays as it is.
fn expect(journal: &OldJournal<SimulatedRegion>) -> Expected {
    journal.sync().unwrap();
    Expected {
        generation: journal.generation(),
        batches: read(journal).0,
        ever: Batches::new(),
        trust: Trust::Synced,
    }
}

/// Each old journal is as it was, unless all are forgotten.
fn check_old(found: &[&OldJournal<SimulatedRegion>], expected: &[Expected], state: Old) {
    if state == Old::MayBeGone && found.is_empty() {
        return;
    }
    for journal in found {
        let mut expected = expected.iter();
        let expected = expected.find(|it| it.generation == journal.generation());
        let ever = &expected.expect("it was not forgotten").ever;
        assert!(read(journal).0.iter().all(|it| ever.contains(it)));
    }
    for expected in expected.iter().filter(|it| it.trust == Trust::Synced) {
        let mut found = found.iter();
        let found = found.find(|it| it.generation() == expected.generation);
        let batches = found.map(|journal| read(journal).0).unwrap_or_default();
        assert_eq!(batches, expected.batches);
    }
}

#[test]
fn a_journal_holds_what_it_promised() {
    let only = std::env::var("STENTOR_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    if let Some(seed) = only {
        Run::new(seed).run();
        return;
    }
    let seeds = match std::env::var_os("STENTOR_SOAK") {
        Some(_) => 20_000,
        None => 400,
    };
    for seed in 0..seeds {
        let outcome = std::panic::catch_unwind(|| Run::new(seed).run());
        if let Err(panic) = outcome {
            eprintln!("STENTOR_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
