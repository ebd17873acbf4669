//! Bringing what is to be read into memory, so that no shard waits for a disk.
//!
//! The system takes pages away when memory is scarce. As long as it does not, nothing is asked: the
//! maintenance thread takes samples now and then. Once a sample was not in memory, everything that
//! a snapshot is about to read is looked at first, and what is missing is read by a thread of the
//! store.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};

use stentor_hub::{Cursor, STRIPE_VISITS};
use stentor_topic::{Zone, has_wildcard};

use super::maintenance::Flush;
use super::{STEP_BYTES, STRIPES, Store, is_volatile};
use crate::stripe::{Budget, ZoneFilter};
use stentor_disk::{Disk, Flusher};

/// Rounds of the maintenance thread for which a sample is believed that was not in memory.
const WARY_ROUNDS: u32 = 120;
/// Parts that wait to be read. A caller that finds no room asks again.
const WAITING_MAX: usize = 4_096;

/// The parts that wait to be read, and the time for which memory is taken to be scarce.
#[derive(Debug)]
pub(super) struct Reader<F> {
    wary_rounds: AtomicU32,
    queue: Mutex<Queue<F>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Queue<F> {
    parts: Vec<(F, Range<usize>)>,
    ends: bool,
}

impl<F> Reader<F> {
    pub(super) fn new() -> Self {
        let queue = Queue {
            parts: Vec::new(),
            ends: false,
        };
        Self {
            wary_rounds: AtomicU32::new(0),
            queue: Mutex::new(queue),
            wake: Condvar::new(),
        }
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.ends = true;
        drop(queue);
        self.wake.notify_all();
    }

    /// Has parts read; whether there are any.
    pub(super) fn ask(&self, cold: Vec<(F, Range<usize>)>) -> bool {
        if cold.is_empty() {
            return false;
        }
        let queue = self.queue.lock();
        let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
        let room = WAITING_MAX.saturating_sub(queue.parts.len());
        queue.parts.extend(cold.into_iter().take(room));
        drop(queue);
        self.wake.notify_one();
        true
    }

    pub(super) fn is_wary(&self) -> bool {
        self.wary_rounds.load(Ordering::Relaxed) > 0
    }
}

impl<D: Disk> Store<D> {
    /// Takes samples: whether the system has taken pages away.
    pub(crate) fn sample(&self, random: usize) {
        let is_cold = (0..STRIPES).any(|stripe| self.lock(stripe).has_cold_page(random));
        let rounds = &self.reader.wary_rounds;
        let before = rounds.load(Ordering::Relaxed);
        let after = if is_cold {
            WARY_ROUNDS
        } else {
            before.saturating_sub(1)
        };
        rounds.store(after, Ordering::Relaxed);
    }

    /// See [`Retained::is_fetching`](stentor_hub::Retained::is_fetching).
    pub(super) fn fetch(&self, zone: Zone, filter: &str, cursor: &Cursor, visits: usize) -> bool {
        if !self.reader.is_wary() || is_volatile(filter) {
            return false;
        }
        let mut budget = Budget::new(visits, STEP_BYTES);
        let mut cold = Vec::new();
        let stripes = if has_wildcard(filter) {
            usize::from(cursor.stripe)..STRIPES
        } else {
            let (_, stripe) = self.place_of(zone, filter);
            stripe..stripe + 1
        };
        let first = stripes.start;
        for stripe in stripes {
            let after = cursor.after.as_deref().filter(|_| stripe == first);
            let wanted = ZoneFilter { zone, filter };
            self.lock(stripe)
                .cold_parts(&self.env, wanted, after, &mut budget, &mut cold);
            budget.spend(STRIPE_VISITS);
            if budget.is_spent() {
                break;
            }
        }
        self.reader.ask(cold)
    }

    /// Reads what waits to be read, until the end.
    pub(super) fn read_until_end(&self) {
        loop {
            let queue = self.reader.queue.lock();
            let mut queue = queue.unwrap_or_else(PoisonError::into_inner);
            while queue.parts.is_empty() && !queue.ends {
                let waited = self.reader.wake.wait(queue);
                queue = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if queue.ends {
                return;
            }
            let parts: Vec<(Flush<D>, Range<usize>)> = std::mem::take(&mut queue.parts);
            drop(queue);
            for (flusher, part) in parts {
                // What cannot be read is asked for again, and then not waited for.
                let _ = flusher.load(part, false);
            }
        }
    }

    /// Reads at once what waits to be read.
    #[cfg(test)]
    pub(crate) fn read_now(&self) {
        let queue = self.reader.queue.lock();
        let parts = std::mem::take(&mut queue.unwrap_or_else(PoisonError::into_inner).parts);
        for (flusher, part) in parts {
            flusher.load(part, false).expect("a simulated disk reads");
        }
    }
}
