//! How far sessions have come, written down for many of them together.
//!
//! That a delivery is done is promised to nobody. So it is written at the end of a turn: a session
//! that has acknowledged several messages in the turn takes a few bytes, and all sessions share one
//! record. A crash forgets what was not written, and these messages come again, with DUP.

use alloc::vec::Vec;

use stentor_session::{Chunk, Progress};
use stentor_session_log::{Front, List, Record};

use super::{Number, SessionLog, free, write_unpromised};

/// Sessions of one record.
const FRONTS_MAX: usize = 4_096;

/// What is to be written of them.
#[derive(Debug, Default)]
pub(crate) struct Together {
    fronts: Vec<Front>,
    chunks: Vec<Chunk>,
}

impl Together {
    /// A session has come so far. What does not follow from that is written at once.
    pub(crate) fn add(&mut self, number: Number, log: &mut SessionLog, progress: &Progress) {
        let fronts = &mut self.fronts;
        write_unpromised(log, |log| fronts.push(number.write_odd_ones(log, progress)));
    }

    /// These chunks are free when that is written.
    pub(crate) fn free_later(&mut self, chunks: &[Chunk]) {
        self.chunks.extend_from_slice(chunks);
    }

    /// Writes it, and is empty again. O(n log n) of the sessions.
    pub(crate) fn write(&mut self, log: &mut SessionLog) {
        // Numbers that follow each other take a byte each.
        self.fronts.sort_unstable_by_key(|front| front.number);
        for fronts in self.fronts.chunks(FRONTS_MAX) {
            let record = Record::Acked(List::new(fronts));
            write_unpromised(log, |log| log.write(&record));
        }
        free(log, &self.chunks);
        self.fronts.clear();
        self.fronts.shrink_to(FRONTS_MAX);
        self.chunks = Vec::new();
    }
}
