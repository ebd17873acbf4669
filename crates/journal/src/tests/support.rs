//! What the tests share.

pub(super) use stentor_disk::simulated::Random;
use stentor_disk::simulated::{SimulatedDisk, SimulatedRegion};

use crate::{Bounds, Folder, Gap, Journal, OldJournal, OpenOptions, Opened, Position};

pub(super) type Simulated = Journal<SimulatedRegion>;

/// A ring of small segments.
pub(super) const SMALL: Bounds = Bounds {
    segment_bytes: 1024,
    ahead: 2,
    reserve: 1,
    segments_max: 8,
};

/// Opens a folder in a start of the machine.
pub(super) fn open(disk: &SimulatedDisk, boot: u64) -> Opened<SimulatedDisk> {
    let options = OpenOptions {
        boot,
        random: 0x5EED_5EED_5EED_5EED,
        spares_max: 4,
    };
    Folder::open(disk.clone(), options).unwrap()
}

/// A new folder and the journal of its first shard.
pub(super) fn begin(disk: &SimulatedDisk) -> (Folder<SimulatedDisk>, Simulated) {
    let mut folder = open(disk, 1).folder;
    let journal = folder.journal(0, SMALL);
    (folder, journal)
}

/// Commits everything.
pub(super) fn commit(journal: &mut Simulated) {
    let round = journal.begin_commit().unwrap();
    journal.end_commit(round.sync()).unwrap();
}

/// A batch that is told from all others.
pub(super) fn batch(number: usize, len: usize) -> Vec<u8> {
    let bytes = (0..len).map(|i| (number * 31 + i) as u8);
    bytes.collect()
}

pub(super) type Batches = Vec<(Position, Vec<u8>)>;

/// What a journal holds, and what is missing.
pub(super) fn read(journal: &OldJournal<SimulatedRegion>) -> (Batches, Vec<Gap>) {
    let survey = journal.survey();
    let batches = journal.batches(&survey);
    let batches = batches
        .map(|it| (it.position, it.records.to_vec()))
        .collect();
    (batches, survey.gaps)
}

/// Opens a folder with one journal, and reads that.
pub(super) fn reread(disk: &SimulatedDisk, boot: u64) -> (Batches, Vec<Gap>) {
    let opened = open(disk, boot);
    assert_eq!(opened.troubles, []);
    match opened.journals.as_slice() {
        [] => (Vec::new(), Vec::new()),
        [journal] => read(journal),
        more => panic!("{} journals", more.len()),
    }
}
