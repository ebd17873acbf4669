//! The threads that look after a store: one commits, one does everything else that takes time.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use stentor_session::{Tick, Ticket};

use super::meta::Meta;
use super::{STRIPES, Store, StoreEvent, Sync, Watcher};
use crate::layout;
use crate::space::Segment;
use crate::stripe::{Batch, Compaction};
use stentor_disk::{Disk, Flusher, Region, give_way};

pub(crate) type Flush<D> = <<D as Disk>::Region as Region>::Flusher;

const COMMITTING: &str = "writing retained messages to the disk";
const RESERVING: &str = "writing the file `store`";
const REMOVING: &str = "removing an empty file";

/// How often the maintenance thread looks round without being asked.
const ROUND: Duration = Duration::from_millis(500);
/// Messages that are removed or moved under one lock.
const STEP: usize = 64;
/// Versions that are reserved at a time.
const VERSIONS_AT_ONCE: u64 = 1 << 26;

/// One group commit on its way.
#[derive(Debug)]
pub(crate) struct Round<F> {
    number: u64,
    /// Somebody waits for it.
    is_wanted: bool,
    batches: Vec<(usize, Batch<F>)>,
}

/// The threads of a store. Ending them commits what the store promises.
pub struct StoreMaintenance {
    threads: Vec<JoinHandle<()>>,
    end: Box<dyn Fn() + Send + std::marker::Sync>,
}

impl std::fmt::Debug for StoreMaintenance {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StoreMaintenance").finish_non_exhaustive()
    }
}

impl StoreMaintenance {
    /// Ends the threads and waits for them.
    pub fn end(self) {
        (self.end)();
        for thread in self.threads {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl<D: Disk> Store<D> {
    /// Starts the threads. Without them a store neither syncs nor cleans up. The clock is the one
    /// that puts and reads go by.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        self: &Arc<Self>,
        watcher: Arc<dyn Watcher>,
        clock: impl Fn() -> Tick + Send + 'static,
    ) -> io::Result<StoreMaintenance> {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
        let mut threads = Vec::new();
        let store = Arc::clone(self);
        let keep = move || store.keep_until_end(&clock);
        let maintenance = thread::Builder::new()
            .name("store-upkeep".into())
            .spawn(keep)?;
        *self
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(maintenance.thread().clone());
        threads.push(maintenance);
        if self.sync != Sync::Never {
            let store = Arc::clone(self);
            let commit = move || store.commit_until_end();
            threads.push(
                thread::Builder::new()
                    .name("store-sync".into())
                    .spawn(commit)?,
            );
        }
        let store = Arc::clone(self);
        let read = move || store.read_until_end();
        let reader = thread::Builder::new().name("store-reader".into());
        threads.push(reader.spawn(read)?);
        let store = Arc::clone(self);
        let end = Box::new(move || {
            store.reader.end();
            *store
                .rounds
                .ends
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = true;
            store.rounds.wake.notify_all();
            store.wake_maintenance();
        });
        Ok(StoreMaintenance { threads, end })
    }

    pub(super) fn wake_maintenance(&self) {
        let maintenance = self
            .maintenance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*maintenance {
            thread.unpark();
        }
    }

    /// Tells the watcher.
    pub(super) fn tell(&self, event: StoreEvent) {
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watcher) = watcher.clone() {
            watcher.event(event);
        }
    }

    fn has_to_end(&self) -> bool {
        *self
            .rounds
            .ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows what is low at once, and cleans up now and then.
    fn keep_until_end(&self, clock: &dyn Fn() -> Tick) {
        let mut cleaned_at = Instant::now();
        while !self.has_to_end() {
            self.grow_low();
            if cleaned_at.elapsed() >= ROUND {
                self.clean_up(clock());
                cleaned_at = Instant::now();
            }
            if self.low.load(Ordering::SeqCst) == 0 {
                thread::park_timeout(ROUND);
            }
        }
    }

    /// Removes what has expired, compacts, reserves versions.
    pub(crate) fn clean_up(&self, now: Tick) {
        self.expire(now);
        self.compact();
        self.retry_growing();
        // Another block each time, all over a segment.
        self.sample((self.wall_ms(now) as usize).wrapping_mul(0x9E37_79B1) >> 7);
        self.reserve_versions();
    }

    /// Removes what has expired by then; a running server does it by itself.
    pub fn expire(&self, now: Tick) {
        let now_ms = self.wall_ms(now);
        for stripe in 0..STRIPES {
            while self.lock(stripe).sweep(&self.env, now_ms, STEP) {}
        }
    }

    /// Moves messages together, so that segments can go.
    ///
    /// Returns how many went.
    pub fn compact(&self) -> usize {
        (0..STRIPES).map(|stripe| self.compact_stripe(stripe)).sum()
    }

    fn compact_stripe(&self, stripe: usize) -> usize {
        let (mut removed, mut has_grown) = (0, false);
        loop {
            let step = self.lock(stripe).compact(&self.env, STEP);
            match step {
                Compaction::Idle => return removed,
                Compaction::Busy => {}
                Compaction::Cramped(blocks) => {
                    // Once: who publishes in the meantime could make it go on.
                    if has_grown || !self.make_smaller(stripe, blocks) {
                        return removed;
                    }
                    has_grown = true;
                }
                Compaction::Emptied(segment) => {
                    removed += usize::from(self.remove_segment(stripe, segment));
                }
            }
        }
    }

    /// Removes the file of an empty segment; whether it has gone.
    fn remove_segment(&self, stripe: usize, segment: Segment<D::Region>) -> bool {
        // There are `STRIPES`.
        let name = layout::file_name(stripe as u16, segment.number());
        let key = (stripe as u16, segment.number());
        drop(segment);
        self.meta().segments.remove(&key);
        // What is missing must not be in the list.
        let removed_from_list = self.save_meta(|_| {});
        let removed = removed_from_list.and_then(|()| self.disk.remove(&name));
        self.has_new_names.store(true, Ordering::SeqCst);
        match removed {
            Ok(()) => {
                self.well(REMOVING);
                true
            }
            // An empty file does no harm; the next start takes it up again.
            Err(error) => {
                self.trouble(REMOVING, &error);
                false
            }
        }
    }

    /// Sees to it that the next start knows that versions above all that are used are free, and
    /// which segments there are.
    pub(crate) fn reserve_versions(&self) {
        let used = self.env.versions.load(Ordering::SeqCst);
        let is_enough = used + VERSIONS_AT_ONCE / 2 < self.meta().versions_below;
        if is_enough && !self.has_new_segments.swap(false, Ordering::SeqCst) {
            return;
        }
        let saved = self.save_meta(|meta| {
            if !is_enough {
                meta.versions_below = used + VERSIONS_AT_ONCE;
            }
        });
        match saved {
            Ok(()) => self.well(RESERVING),
            Err(error) => {
                self.has_new_segments.store(true, Ordering::SeqCst);
                self.trouble(RESERVING, &error);
            }
        }
    }

    /// Changes the file `store`. Nobody who asks about it in the meantime waits for the disk.
    pub(super) fn save_meta(&self, change: impl FnOnce(&mut Meta)) -> io::Result<()> {
        let _one_at_a_time = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.meta().clone();
        change(&mut next);
        next.save(&self.disk)?;
        // Segments may have been added since, by whoever needed room.
        let mut meta = self.meta();
        next.segments.clone_from(&meta.segments);
        *meta = next;
        Ok(())
    }

    /// Commits when somebody waits, or when the interval has passed; once more at the end.
    fn commit_until_end(&self) {
        loop {
            let ends = self.wait_for_work();
            let is_kept = self.commit();
            if ends {
                if is_kept {
                    self.close();
                }
                return;
            }
        }
    }

    /// Waits for the next commit; whether it is the last.
    fn wait_for_work(&self) -> bool {
        let mut ends = self
            .rounds
            .ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let patience = match self.sync {
            Sync::Interval(interval) => interval,
            Sync::Never | Sync::Always => ROUND,
        };
        let until = Instant::now() + patience;
        while !*ends {
            let open = self.rounds.open.load(Ordering::SeqCst);
            if self.rounds.wanted_below.load(Ordering::SeqCst) > open {
                break;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            ends = self
                .rounds
                .wake
                .wait_timeout(ends, left)
                .map_or_else(|error| error.into_inner().0, |(ends, _)| ends);
        }
        *ends
    }

    /// Notes that the disk has everything, after a commit that has brought it there and with
    /// nothing put since.
    pub fn close(&self) {
        // Without the note the next start is more careful than it had to be.
        let _ = self.save_meta(|meta| meta.is_closed = true);
    }

    /// Lets others open the store while this process still has it: what ends a process may be held
    /// up by the system. Its threads have ended, and nobody puts any more.
    pub fn release(&self) {
        self.disk.release();
    }

    /// Brings everything that was put until now to the disk, and says so to those who wait.
    ///
    /// Returns whether the disk has it.
    pub fn commit(&self) -> bool {
        let round = self.begin_round();
        let flushed = self.flush_round(&round);
        self.end_round(round, flushed)
    }

    /// Begins a round with everything that was put until now.
    pub(crate) fn begin_round(&self) -> Round<Flush<D>> {
        // A put before its stripe's commit begins waits for this round or the next; one that waits
        // for this round has put by then, since a put is stamped with its round under the lock.
        let number = self.rounds.open.fetch_add(1, Ordering::SeqCst);
        let mut batches = Vec::new();
        for stripe in 0..STRIPES {
            batches.extend(
                self.lock(stripe)
                    .begin_commit()
                    .map(|batch| (stripe, batch)),
            );
        }
        let is_wanted = self.rounds.wanted_below.load(Ordering::SeqCst) > number;
        Round {
            number,
            is_wanted,
            batches,
        }
    }

    /// Waits for the disk: names first, since a file without one holds nothing for sure.
    pub(crate) fn flush_round(&self, round: &Round<Flush<D>>) -> io::Result<()> {
        self.sync_names()?;
        flush_together(&round.batches, round.is_wanted)
    }

    /// Ends a round; whether the disk has it all.
    pub(crate) fn end_round(&self, round: Round<Flush<D>>, flushed: io::Result<()>) -> bool {
        let (is_flushed, had_work) = (flushed.is_ok(), !round.batches.is_empty());
        for (stripe, batch) in round.batches {
            self.lock(stripe)
                .finish_commit(&self.env, batch, is_flushed);
        }
        match flushed {
            Ok(()) if had_work => self.well(COMMITTING),
            Ok(()) => {}
            Err(error) => {
                self.trouble(COMMITTING, &error);
            }
        }
        let mut ended = self
            .rounds
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *ended = (round.number, is_flushed);
        drop(ended);
        self.rounds.has_ended.notify_all();
        if round.is_wanted {
            let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(watcher) = watcher.clone() {
                watcher.resolved(Ticket(round.number), is_flushed);
            }
        }
        is_flushed
    }

    /// Asks the disk again at once, however recent its last failure is.
    #[cfg(test)]
    pub(crate) fn forget_troubles(&self) {
        self.troubles.forget();
    }

    fn sync_names(&self) -> io::Result<()> {
        if !self.has_new_names.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        self.disk.sync_names().inspect_err(|_| {
            self.has_new_names.store(true, Ordering::SeqCst);
        })
    }
}

/// Flushes the batches of several stripes at once: the file system writes its journal once for
/// those that come together. If nobody waits for them, they leave the processors to the shards.
fn flush_together<F: Flusher>(batches: &[(usize, Batch<F>)], is_wanted: bool) -> io::Result<()> {
    const AT_ONCE: usize = 8;
    let flush = |part: &[(usize, Batch<F>)]| part.iter().try_for_each(|(_, batch)| batch.flush());
    if batches.len() <= 1 {
        return flush(batches);
    }
    let share = batches.len().div_ceil(AT_ONCE);
    thread::scope(|scope| {
        let parts = batches.chunks(share);
        let flush_part = |part| {
            if !is_wanted {
                give_way();
            }
            flush(part)
        };
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || flush_part(part)))
            .collect();
        let outcomes = threads.into_iter().map(|thread| {
            let panicked = |_| Err(io::Error::other("a flush panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        // All are waited for, whatever the first says.
        let outcomes: Vec<_> = outcomes.collect();
        outcomes.into_iter().collect()
    })
}
