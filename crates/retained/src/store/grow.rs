//! Growing a stripe by a segment.

use std::io;
use std::sync::atomic::Ordering;

use stentor_hub::NotKept;

use super::meta::NEW_SUFFIX;
use super::{STRIPES, Store, StoreEvent};
use crate::disk::{Disk, Flusher, Region};
use crate::layout::{self, SegmentHead};
use crate::space::Segment;
use crate::stripe::Stripe;

const GROWING: &str = "making room for retained messages";
/// Blocks of the first segments of a stripe: 128 KiB.
const BLOCKS_MIN: usize = 8;
/// How much of a new segment is brought into memory ahead.
const LOAD_BYTES_MAX: usize = 64 << 20;

/// Whether a stripe should get a segment before it needs one.
pub(crate) fn is_low<R: Region>(stripe: &Stripe<R>) -> bool {
    let space = stripe.space();
    space.free_blocks() < (space.blocks() / 8).max(2)
}

/// How many blocks the next segment of a stripe gets: half of what it has, so that there are few
/// segments and little room is wasted.
fn next_blocks<R: Region>(stripe: &Stripe<R>, at_least: usize) -> usize {
    let half = stripe.space().blocks() / 2;
    half.clamp(BLOCKS_MIN, layout::BLOCKS_MAX).max(at_least)
}

impl<D: Disk> Store<D> {
    /// Asks the keeper for a segment.
    pub(super) fn ask_for_room(&self, stripe: usize) {
        let bit = 1 << stripe;
        if self.low.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            self.wake_keeper();
        }
    }

    /// Gives a stripe a segment with so many free blocks, unless it has that by now.
    ///
    /// Shards do this themselves if they are faster than the keeper: making a file takes less
    /// than a millisecond, as long as nothing is synced.
    pub(super) fn grow(&self, number: usize, blocks: usize) -> Result<(), NotKept> {
        if let Some(refusal) = self.troubles.recent(GROWING) {
            return Err(refusal);
        }
        let grown = self.add_segment(number, |stripe| next_blocks(stripe, blocks));
        match grown {
            Ok(()) => {
                self.well(GROWING);
                Ok(())
            }
            Err(error) => Err(self.trouble(GROWING, &error)),
        }
    }

    /// Gives a stripe a segment of so many blocks, for what a larger one holds; whether it has it.
    /// Where there is no room for it, the larger one stays: that is no trouble for anybody.
    pub(super) fn make_smaller(&self, number: usize, blocks: usize) -> bool {
        self.troubles.recent(GROWING).is_none() && self.add_segment(number, |_| blocks).is_ok()
    }

    /// Makes a segment: the file has its name only when it is complete.
    fn add_segment(
        &self,
        number: usize,
        blocks: impl FnOnce(&Stripe<D::Region>) -> usize,
    ) -> io::Result<()> {
        let (file, blocks) = {
            let mut stripe = self.lock(number);
            (stripe.take_segment_number(), blocks(&stripe))
        };
        let head = SegmentHead {
            seed: self.seed(),
            // There are `STRIPES`.
            stripe: number as u16,
            number: file,
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        };
        let name = layout::file_name(head.stripe, file);
        let temporary = format!("{name}{NEW_SUFFIX}");
        let mut region = self.disk.grow(&temporary, layout::file_len(blocks))?;
        for (at, part) in head.fresh(self.env.key, self.meta().generation) {
            region.write(at, &part);
        }
        if let Err(error) = self.disk.rename(&temporary, &name) {
            // The first error is the one to tell.
            let _ = self.disk.remove(&temporary);
            return Err(error);
        }
        self.has_new_names.store(true, Ordering::SeqCst);
        self.meta().segments.insert((head.stripe, file));
        self.has_new_segments.store(true, Ordering::SeqCst);
        let segment = Segment::new((head.stripe, file), self.env.key, region);
        if self.lock(number).space_mut().attach(segment).is_err() {
            let _ = self.disk.remove(&name);
            return Err(io::Error::other(
                "a stripe has as many files as it can have",
            ));
        }
        Ok(())
    }

    /// Gives a stripe room ahead of need, in memory too. For threads that may wait.
    pub(super) fn grow_ahead(&self, number: usize) {
        if !is_low(&self.lock(number)) {
            return;
        }
        if self.grow(number, 1).is_err() {
            return;
        }
        let newest = {
            let stripe = self.lock(number);
            let segments = stripe.space().segments();
            segments
                .max_by_key(|(_, segment)| segment.number())
                .map(|(_, segment)| (segment.flusher(), segment.bytes().len()))
        };
        if let Some((flusher, len)) = newest {
            // If it fails, the first write waits instead.
            let _ = flusher.load(0..len.min(LOAD_BYTES_MAX), true);
        }
    }

    /// Where there was no room for a segment: tries again, so that it is known when there is.
    pub(super) fn retry_growing(&self) {
        if !self.troubles.has(GROWING) {
            return;
        }
        match (0..STRIPES).find(|number| is_low(&self.lock(*number))) {
            Some(number) => self.grow_ahead(number),
            None => self.well(GROWING),
        }
    }

    /// Takes note of a failure of the disk: what to tell the publisher.
    pub(super) fn trouble(&self, doing: &'static str, error: &io::Error) -> NotKept {
        let (refusal, news) = self.troubles.failed(doing, error);
        if let Some(text) = news {
            self.tell(StoreEvent::Trouble(text));
        }
        refusal
    }

    /// Takes note that something works.
    pub(super) fn well(&self, doing: &'static str) {
        if self.troubles.succeeded(doing) {
            self.tell(StoreEvent::Recovered);
        }
    }
}
