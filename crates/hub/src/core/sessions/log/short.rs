//! For which topics shards have sessions that the disk has no more room for.
//!
//! A message is refused before anybody gets it. So the publisher's shard cannot ask those of the
//! subscribers, and each shard tells the others beforehand. As in the table of subscriptions, the
//! hash of its literal prefix stands for a filter: false positives are possible, and then a message
//! is refused that need not be.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use stentor_topic::{TopicHasher, Zone};

use crate::core::ids::{SHARDS_MAX, ShardId};
use crate::core::shard_set::{AtomicShardSet, ShardSet};

/// Words of 64 buckets that one shard has for what it has told lately, and as many for what it told
/// before that.
const WORDS: usize = 16;
const BUCKETS: usize = 64 * WORDS;

/// See the module.
#[derive(Debug)]
pub(crate) struct Topics {
    /// The shards that have told of any.
    some: AtomicShardSet,
    /// Each shard writes its own.
    words: Box<[AtomicU64]>,
}

impl Default for Topics {
    fn default() -> Self {
        let words = usize::from(SHARDS_MAX) * 2 * WORDS;
        Self {
            some: AtomicShardSet::default(),
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Topics {
    fn of(&self, shard: u8) -> (&[AtomicU64], &[AtomicU64]) {
        let from = usize::from(shard) * 2 * WORDS;
        self.words[from..from + 2 * WORDS].split_at(WORDS)
    }

    /// Whether a shard has told of any.
    #[inline]
    pub(crate) fn are_some(&self) -> bool {
        !self.some.was_empty()
    }

    /// A session of this shard has subscribed by a filter with this [`TopicHasher::interest`];
    /// without one, to whatever there is.
    pub(crate) fn tell(&self, shard: u8, filter: Option<u64>) {
        let (lately, _) = self.of(shard);
        match filter {
            Some(hash) => {
                let (word, bit) = place(hash);
                lately[word].fetch_or(bit, Ordering::SeqCst);
            }
            None => lately
                .iter()
                .for_each(|word| word.store(u64::MAX, Ordering::SeqCst)),
        }
        self.some.set(ShardId(shard), true);
    }

    /// What this shard has told before the last call, and not since, is so no longer.
    pub(crate) fn turn_over(&self, shard: u8) {
        let (lately, before) = self.of(shard);
        let mut all = 0;
        for (lately, before) in lately.iter().zip(before) {
            let told = lately.load(Ordering::Relaxed);
            all |= told;
            // A reader that does not find it there finds it here.
            before.store(told, Ordering::SeqCst);
            lately.store(0, Ordering::SeqCst);
        }
        if all == 0 {
            self.some.set(ShardId(shard), false);
        }
    }

    /// Nothing that this shard has told is so any longer.
    pub(crate) fn forget(&self, shard: u8) {
        self.turn_over(shard);
        self.turn_over(shard);
    }

    /// The shards that may have such a session for a topic. What was told has this
    /// salt, by exclusive or. O(shards that have any × levels of the topic).
    pub(crate) fn shards(
        &self,
        hasher: &TopicHasher,
        zone: Zone,
        topic: &str,
        salt: u64,
    ) -> ShardSet {
        let mut found = ShardSet::EMPTY;
        if self.are_some() {
            let mut look = |hash: u64| found |= self.having(hash ^ salt);
            let whole = hasher.for_each_prefix_hash(zone, topic, &mut look);
            look(whole);
        }
        found
    }

    /// The shards that may have told this.
    pub(crate) fn having(&self, hash: u64) -> ShardSet {
        let (word, bit) = place(hash);
        let has_told = |shard: &ShardId| {
            let (lately, before) = self.of(shard.0);
            let told = lately[word].load(Ordering::SeqCst) | before[word].load(Ordering::SeqCst);
            told & bit != 0
        };
        self.some.get().iter().filter(has_told).collect()
    }
}

/// The bucket of a hash: its word among those of a shard, and its bit there.
const fn place(hash: u64) -> (usize, u64) {
    let bucket = hash as usize & (BUCKETS - 1);
    (bucket / 64, 1 << (bucket % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_found_until_it_was_not_told_for_a_while() {
        let (topics, hasher) = (Topics::default(), TopicHasher::new(3));
        let zone = Zone(1);
        let shards = |topic| topics.shards(&hasher, zone, topic, 0).bits();
        assert!(!topics.are_some() && shards("a/b") == 0);
        topics.tell(2, Some(hasher.interest(zone, "a/+")));
        topics.tell(5, Some(hasher.interest(zone, "a/b")));
        assert_eq!((shards("a/b"), shards("a/c"), shards("b")), (36, 4, 0));
        assert_eq!(topics.shards(&hasher, Zone(2), "a/b", 0).bits(), 0);
        topics.turn_over(2);
        topics.tell(2, Some(hasher.interest(zone, "b")));
        assert_eq!((shards("a/b"), shards("b")), (36, 4));
        topics.turn_over(2);
        assert_eq!((shards("a/b"), shards("b")), (32, 4));
        topics.forget(2);
        topics.tell(5, None);
        assert_eq!((shards("a/b"), shards("b")), (32, 32));
        topics.forget(5);
        assert!(!topics.are_some());
    }
}
