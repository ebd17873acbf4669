//! What is remembered of failures and of good logins.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Counts remembered at a time, in each of two generations.
pub(super) const COUNTS_MAX: usize = 200_000;

/// Good pairs and devices remembered at a time, in each of two generations.
const GOOD_MAX: usize = 400_000;

/// How long failures are remembered, at least; twice as long at most.
pub(super) const FAILURES: Duration = Duration::from_secs(600);

/// How long a good address is remembered, at least; twice as long at most.
const GOOD: Duration = Duration::from_secs(24 * 3600);

/// What is counted, by its keyed hash: names of any length take the same memory, and two that
/// share a hash share a delay.
pub(super) type Key = u64;

/// Failures of one kind, and who waits because of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) failures: u32,
    /// Attempts of a pair that have a place in its line, and most likely fail as well.
    pub(super) waiting: u32,
    /// When the next attempt may be made by one that has failed before.
    pub(super) next: Instant,
    /// When the next attempt may be made by one that has not; of a pair, when the last one was.
    pub(super) next_new: Instant,
}

/// Everything that is remembered.
pub(super) struct Memory {
    pub(super) failures: Generations<Count>,
    pub(super) good: Generations<()>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            failures: Generations::new(FAILURES, COUNTS_MAX),
            good: Generations::new(GOOD, GOOD_MAX),
        }
    }
}

/// A table that forgets: what was not written during two generations is gone. A generation ends
/// after its time, or when it is full.
pub(super) struct Generations<T> {
    now: HashMap<Key, T>,
    before: HashMap<Key, T>,
    began: Option<Instant>,
    lasts: Duration,
    entries_max: usize,
}

impl<T: Copy> Generations<T> {
    fn new(lasts: Duration, entries_max: usize) -> Self {
        Self {
            now: HashMap::new(),
            before: HashMap::new(),
            began: None,
            lasts,
            entries_max,
        }
    }

    /// Ends the generation if it is over.
    pub(super) fn turn(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let is_full = self.now.len() >= self.entries_max;
        if is_full || now.saturating_duration_since(began) >= self.lasts {
            self.before = std::mem::take(&mut self.now);
            self.began = Some(now);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty() && self.before.is_empty()
    }

    pub(super) fn get(&self, key: Key) -> Option<T> {
        let found = self.now.get(&key).or_else(|| self.before.get(&key));
        found.copied()
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn put(&mut self, key: Key, value: T) {
        self.now.insert(key, value);
    }

    pub(super) fn forget(&mut self, key: Key) {
        self.now.remove(&key);
        self.before.remove(&key);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.now.len().max(self.before.len())
    }
}
