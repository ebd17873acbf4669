//! When the messages of a stripe expire.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Entries that are not worth a look at which of them still count.
const SLACK: usize = 1_024;

/// Of every timed topic a moment at which its message may have expired: not later than that of the
/// message which it holds now, and mostly of an earlier one, so that a topic which is published
/// again and again with the same interval stands here once.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// Moments, and hashes of topics.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    /// Topics whose message expires earlier than the one before it would have: what is queued for
    /// them besides.
    earlier: HashMap<u64, u64>,
    /// Above this many entries, those are taken out that another one makes needless.
    tidy_above: usize,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self {
            queue: BinaryHeap::new(),
            earlier: HashMap::new(),
            tidy_above: SLACK,
        }
    }

    /// A topic's message expires at `at`. `is_timed` says that the topic is queued; `before` is
    /// when the message would have expired that it replaces, and after which nothing was queued.
    pub(super) fn note(&mut self, hash: u64, at: u64, is_timed: bool, before: Option<u64>) {
        if is_timed && before.is_some_and(|before| before <= at) {
            return;
        }
        let queued = self.earlier.get(&hash);
        if queued.is_some_and(|queued| *queued <= at) {
            return;
        }
        if is_timed || queued.is_some() {
            self.earlier.insert(hash, at);
        }
        self.queue.push(Reverse((at, hash)));
        if self.queue.len() > self.tidy_above {
            self.tidy();
        }
    }

    /// The hash of a topic whose message may have expired by now.
    pub(super) fn pop(&mut self, now_ms: u64) -> Option<u64> {
        let Reverse((at, _)) = *self.queue.peek()?;
        if at > now_ms {
            return None;
        }
        let Reverse((at, hash)) = self.queue.pop()?;
        if self.earlier.get(&hash) == Some(&at) {
            self.earlier.remove(&hash);
        }
        Some(hash)
    }

    /// Leaves the first entry of each topic.
    fn tidy(&mut self) {
        let mut all = std::mem::take(&mut self.queue).into_vec();
        all.sort_unstable_by_key(|Reverse((at, hash))| (*hash, *at));
        all.dedup_by_key(|Reverse((_, hash))| *hash);
        self.tidy_above = 2 * all.len() + SLACK;
        self.queue = all.into();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_moment_counts_and_a_topic_takes_little() {
        let mut deadlines = Deadlines::new();
        deadlines.note(7, 1_000_000, false, None);
        let mut before = 1_000_000;
        // Each earlier than the one before it.
        for at in (500_000..900_000).rev() {
            deadlines.note(7, at, true, Some(before));
            before = at;
        }
        assert!(deadlines.len() <= 2 * SLACK + 2, "{}", deadlines.len());
        assert_eq!(deadlines.pop(499_999), None);
        assert_eq!(deadlines.pop(500_000), Some(7));
    }

    #[test]
    fn what_is_published_again_with_the_same_interval_stands_here_once() {
        let mut deadlines = Deadlines::new();
        deadlines.note(7, 10, false, None);
        for at in 11..100 {
            deadlines.note(7, at, true, Some(at - 1));
        }
        // One of a message that replaced another one without a moment.
        deadlines.note(7, 100, true, None);
        deadlines.note(7, 101, true, None);
        assert_eq!(deadlines.len(), 2);
    }
}
