//! Records of which a shard makes batches.
//!
//! A kill leaves all of a batch or nothing. Batches are cut here, between records, so that none is
//! large without need.

use alloc::vec::Vec;

/// A batch is about as large, unless it has one record that is larger, or one session.
const BATCH_BYTES: usize = 256 << 10;
/// A round of bases writes so much at once.
const ROUND_BYTES: usize = 128 << 10;

/// The records that the shard has not taken, and how they are cut.
#[derive(Debug, Default)]
pub(super) struct Batches {
    records: Vec<u8>,
    /// Bytes that have left `records`, and that the shard has not taken yet.
    moved: usize,
    /// How many of these, and of the records, are before the present batch.
    start: usize,
    /// Where batches begin that the shard has not been told of.
    cuts: Vec<usize>,
    /// The number of the present batch, of the first one that was not taken, and of the first one
    /// that was not told of.
    present: u32,
    untaken: u32,
    untold: u32,
    /// Whether all that follows has to be in one batch.
    pub(super) is_whole: bool,
    /// Bytes of `records` that no answer promises.
    unpromised: usize,
}

impl Batches {
    /// Where the next record goes.
    pub(super) const fn records(&mut self) -> &mut Vec<u8> {
        &mut self.records
    }

    /// Whether there are records that were not moved.
    #[inline]
    pub(super) const fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Moves the records to the end of `log`, and where they may be cut to the end of `cuts`.
    /// Returns whether an answer promises some of them.
    #[inline]
    pub(super) fn take(&mut self, log: &mut Vec<u8>, cuts: &mut Vec<usize>) -> bool {
        if self.records.is_empty() {
            return false;
        }
        debug_assert_eq!(log.len(), self.moved, "the shard says what it takes");
        let unpromised = core::mem::take(&mut self.unpromised);
        let is_promised = self.records.len() > unpromised;
        log.append(&mut self.records);
        self.moved = log.len();
        cuts.append(&mut self.cuts);
        is_promised
    }

    /// No answer promises the records that were added since there were this many bytes.
    pub(super) const fn promise_nothing_since(&mut self, bytes: usize) {
        self.unpromised += self.records.len() - bytes;
    }

    /// The shard has taken all batches.
    pub(super) const fn were_taken(&mut self) {
        (self.moved, self.start) = (0, 0);
        self.present = self.present.wrapping_add(1);
        self.untaken = self.present;
    }

    /// The shard reports on the first batch that it has taken. Returns its number.
    pub(super) fn tell(&mut self) -> u32 {
        debug_assert!(!self.is_told(), "the shard reports once on a batch");
        let batch = self.untold;
        self.untold = batch.wrapping_add(1);
        batch
    }

    /// Whether the shard has told of all that it has taken.
    pub(super) const fn is_told(&self) -> bool {
        self.untold == self.untaken
    }

    /// The number of the present batch.
    pub(super) const fn present(&self) -> u32 {
        self.present
    }

    /// The offset of the next record in its batch.
    pub(super) fn offset(&self) -> u32 {
        let bytes = self.moved + self.records.len() - self.start;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// What follows may be in another batch than what was before, as there are `bytes` of it.
    pub(super) fn part_for(&mut self, bytes: usize) {
        let before = self.offset() as usize;
        if !self.is_whole && before > 0 && before + bytes >= BATCH_BYTES {
            self.start = self.moved + self.records.len();
            self.cuts.push(self.start);
            self.present = self.present.wrapping_add(1);
        }
    }

    /// Bytes that the shard has not taken.
    pub(super) const fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Whether a round has written enough at once.
    pub(super) const fn is_large(&self) -> bool {
        self.records.len() >= ROUND_BYTES
    }
}
