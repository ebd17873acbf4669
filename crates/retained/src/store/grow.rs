//! Growing a stripe by a segment.

use std::io;
use std::sync::atomic::Ordering;

use stentor_hub::NotKept;

use super::meta::NEW_SUFFIX;
use super::{STRIPES, Store, StoreEvent};
use crate::layout::{self, SegmentHead};
use crate::space::Segment;
use crate::stripe::Stripe;
use stentor_disk::{Disk, Flusher, Region};

const GROWING: &str = "making room for retained messages";
/// Blocks of the first segments of a stripe: 128 KiB.
const BLOCKS_MIN: usize = 8;
/// How much of a new segment is brought into memory ahead.
const LOAD_BYTES_MAX: usize = 64 << 20;
/// How much of that at once. The system locks the map of the process for so long, half a
/// millisecond: a shard that makes a file waits for that.
const LOAD_STEP_BYTES: usize = 1 << 20;

/// Whether a stripe should get a segment before it needs one: three quarters are used.
pub(super) fn is_filling<R: Region>(stripe: &Stripe<R>) -> bool {
    let space = stripe.space();
    space.free_blocks() < (space.blocks() / 4).max(BLOCKS_MIN / 2)
}

/// Whether a stripe will need a segment soon.
fn is_low<R: Region>(stripe: &Stripe<R>) -> bool {
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
    /// Asks the maintenance thread for a segment.
    pub(super) fn ask_for_room(&self, stripe: usize) {
        let bit = 1 << stripe;
        if self.low.fetch_or(bit, Ordering::SeqCst) & bit == 0 {
            self.wake_maintenance();
        }
    }

    /// Gives a stripe a segment with this many free blocks, for somebody who cannot wait for the
    /// maintenance thread: it was too late, or nobody could foresee this, as with the first segment
    /// of a stripe and with a message that is larger than what is free.
    ///
    /// Making a file takes less than a millisecond, as long as nothing is synced.
    pub(super) fn grow_now(&self, number: usize, blocks: usize) -> Result<(), NotKept> {
        self.grown_late.fetch_add(1, Ordering::Relaxed);
        self.grow(number, blocks)
    }

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

    /// Gives a stripe a segment of this many blocks, for what a larger one holds; whether it has
    /// it. Where there is no room for it, the larger one stays.
    pub(super) fn make_smaller(&self, number: usize, blocks: usize) -> bool {
        self.grow_quietly(number, |_| blocks)
    }

    /// Gives a stripe a segment that nobody needs yet: if that fails, it is not a trouble.
    fn grow_quietly(
        &self,
        number: usize,
        blocks: impl FnOnce(&Stripe<D::Region>) -> usize,
    ) -> bool {
        self.troubles.recent(GROWING).is_none() && self.add_segment(number, blocks).is_ok()
    }

    /// How many segments were made by somebody who could not wait for the maintenance thread.
    #[cfg(test)]
    pub(crate) fn grown_late(&self) -> u64 {
        self.grown_late.load(Ordering::Relaxed)
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
        let generation = self.meta().generation;
        for (at, part) in head.fresh(self.env.key, generation) {
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
        let segment = Segment::new(head.stripe, file, self.env.key, region);
        if self.lock(number).space_mut().attach(segment).is_err() {
            self.meta().segments.remove(&(head.stripe, file));
            // What is missing must not be in the list; an empty file does no harm.
            let _ = self
                .save_meta(|_| {})
                .and_then(|()| self.disk.remove(&name));
            return Err(io::Error::other(
                "a stripe has as many files as it can have",
            ));
        }
        Ok(())
    }

    /// Gives stripes room that are about to need it.
    pub(crate) fn grow_low(&self) {
        let low = self.low.swap(0, Ordering::SeqCst);
        for stripe in (0..STRIPES).filter(|stripe| low & (1 << stripe) != 0) {
            self.grow_ahead(stripe);
        }
    }

    /// Gives a stripe room ahead of need. For threads that may wait. A full disk is
    /// reported when the stripe is low: until then no message is refused.
    fn grow_ahead(&self, number: usize) {
        let (is_filling, is_low) = {
            let stripe = self.lock(number);
            (is_filling(&stripe), is_low(&stripe))
        };
        let has_grown = match (is_filling, is_low) {
            (_, true) => self.grow(number, 1).is_ok(),
            (true, false) => self.grow_quietly(number, |stripe| next_blocks(stripe, 1)),
            (false, false) => false,
        };
        if has_grown {
            self.load_newest(number);
        }
    }

    /// Brings the newest segment of a stripe into memory.
    fn load_newest(&self, number: usize) {
        let newest = {
            let stripe = self.lock(number);
            let segments = stripe.space().segments();
            segments
                .max_by_key(|(_, segment)| segment.number())
                .map(|(_, segment)| (segment.flusher(), segment.bytes().len()))
        };
        if let Some((flusher, len)) = newest {
            let len = len.min(LOAD_BYTES_MAX);
            for start in (0..len).step_by(LOAD_STEP_BYTES) {
                let end = len.min(start + LOAD_STEP_BYTES);
                if flusher.load(start..end, true).is_err() {
                    // The first write waits instead.
                    return;
                }
            }
        }
    }

    /// Where there was no room for a segment: tries again, so that it is known when there is.
    pub(super) fn retry_growing(&self) {
        if !self.troubles.has(GROWING) {
            return;
        }
        match (0..STRIPES).find(|number| is_low(&self.lock(*number))) {
            Some(number) => {
                if self.grow(number, 1).is_ok() {
                    self.load_newest(number);
                }
            }
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
