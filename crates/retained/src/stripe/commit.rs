//! Group commit: bringing what was put to the disk, and freeing what that replaced.

use std::sync::atomic::Ordering;

use super::{Env, Held, Stripe};
use stentor_disk::{Flusher, Region};

/// What one commit brings to the disk. It must go to [`Stripe::finish_commit`].
#[derive(Debug)]
pub(crate) struct Batch<F> {
    upto: u64,
    flushers: Vec<F>,
    segments: Vec<u16>,
    held: Vec<Held>,
}

impl<F: Flusher> Batch<F> {
    /// Waits for the disk. Not to be called under the stripe's lock, nor on a shard.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        self.flushers.iter().try_for_each(Flusher::flush)
    }
}

impl<R: Region> Stripe<R> {
    /// Begins a commit of everything that was put until now; `None` if the disk has it all. There
    /// is one at a time.
    pub(crate) fn begin_commit(&mut self) -> Option<Batch<R::Flusher>> {
        debug_assert!(self.committing.is_none(), "one commit at a time");
        let (mut flushers, mut segments) = (Vec::new(), Vec::new());
        for (position, segment) in self.space.segments_mut() {
            if segment.take_dirty() {
                flushers.push(segment.flusher());
                segments.push(position);
            }
        }
        if segments.is_empty() && self.held.is_empty() {
            return None;
        }
        self.committing = Some(self.newest);
        Some(Batch {
            upto: self.newest,
            flushers,
            segments,
            held: std::mem::take(&mut self.held),
        })
    }

    /// Ends a commit, with what [`Batch::flush`] came to: frees what is not needed any more, or
    /// makes ready for another try.
    pub(crate) fn finish_commit(&mut self, env: &Env, batch: Batch<R::Flusher>, is_flushed: bool) {
        self.committing = None;
        if !is_flushed {
            for position in batch.segments {
                if let Some(segment) = self.space.segment_mut(position) {
                    segment.touch();
                }
            }
            self.held.extend(batch.held);
            return;
        }
        self.durable = batch.upto;
        self.needed = batch.upto;
        for held in batch.held {
            match held {
                Held::Moved(slot) | Held::Emptied(slot) => {
                    let bytes = self.held_bytes(held);
                    env.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    self.space.free(slot);
                }
                Held::Cleared(place) => {
                    // The note goes last: as long as anything older may turn up after a power
                    // loss, it says that the topic is clear.
                    self.space.wipe(place.spare());
                    self.held.push(Held::Emptied(place.slot));
                }
            }
        }
    }

    /// Whether slots wait for a commit to be freed: a later one, or the one that is under way and
    /// has taken them with it.
    pub(crate) fn is_holding(&self) -> bool {
        self.committing.is_some() || !self.held.is_empty()
    }

    /// Frees what a store that promises nothing about power losses need not hold.
    pub(crate) fn release_all(&mut self, env: &Env) {
        if env.careful {
            return;
        }
        for held in std::mem::take(&mut self.held) {
            match held {
                Held::Moved(slot) | Held::Emptied(slot) => self.space.free(slot),
                Held::Cleared(place) => {
                    self.space.wipe(place.spare());
                    self.space.free(place.slot);
                }
            }
        }
    }
}
