//! Which shards want to hear of a topic.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use stentor_topic::{TopicHasher, Zone};

use crate::core::ids::{SHARDS_MAX, ShardId};
use crate::core::routing::atomic::AtomicU64;
use crate::core::routing::fence::Forwarding;
use crate::core::sessions::log::Journals;
use crate::core::shard_set::ShardSet;

/// Buckets of the table. More buckets mean fewer shards woken for nothing.
const BUCKETS: usize = 1 << 16;
/// Words of 64 buckets that one shard has.
const WORDS: usize = BUCKETS / 64;

/// The shared half: for each shard, the set of hash buckets into which the literal prefix of one
/// of its subscriptions falls. False positives are possible and harmless; a false negative is
/// not, once the subscriber's SUBACK is queued.
///
/// A shard alone writes its 8 KiB, so that shards which subscribe at once do not pass cache lines
/// to and fro; a publisher's shard looks into those of all others.
#[derive(Debug)]
pub struct InterestTable {
    words: Box<[AtomicU64]>,
    /// How far each shard is with telling the others.
    pub(crate) forwarding: Forwarding,
    /// What they write down of messages.
    pub(crate) journals: Arc<Journals>,
}

impl Default for InterestTable {
    fn default() -> Self {
        Self {
            words: (0..usize::from(SHARDS_MAX) * WORDS)
                .map(|_| AtomicU64::new(0))
                .collect(),
            forwarding: Forwarding::default(),
            journals: Arc::default(),
        }
    }
}

/// The bucket of a hash: its word among those of a shard, and its bit there.
const fn place(hash: u64) -> (usize, u64) {
    let bucket = hash as usize & (BUCKETS - 1);
    (bucket / 64, 1 << (bucket % 64))
}

impl InterestTable {
    /// A table without interest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a word at this place says who is interested.
    #[cfg(test)]
    pub(crate) fn is_interest(&self, place: usize) -> bool {
        let last = self.words.len() - 1;
        (self.words[0].place()..=self.words[last].place()).contains(&place)
    }

    fn words(&self, shard: u8) -> &[AtomicU64] {
        let from = usize::from(shard) * WORDS;
        &self.words[from..from + WORDS]
    }

    /// The shards, of this many, that may have a subscriber for a topic. The order matters:
    /// a publisher's shard takes the message first and asks then, a subscriber's shard
    /// raises first and acknowledges then; so every publish after a SUBACK is seen.
    ///
    /// O(shards × levels of the topic).
    fn shards(&self, count: u8, hasher: &TopicHasher, zone: Zone, topic: &str) -> ShardSet {
        let mut shards = ShardSet::EMPTY;
        let mut look = |hash| {
            let (word, bit) = place(hash);
            for shard in 0..count {
                let seen = self.words[usize::from(shard) * WORDS + word].load(Ordering::SeqCst);
                if seen & bit != 0 {
                    shards = shards.with(ShardId(shard));
                }
            }
        };
        let whole = hasher.for_each_prefix_hash(zone, topic, &mut look);
        look(whole);
        shards
    }
}

/// One shard's half: how many subscriptions hold each bit up.
#[derive(Debug)]
pub(crate) enum Interest {
    /// There is no other shard that could ask.
    Alone,
    /// Other shards publish too.
    Shared(Counts),
}

#[derive(Debug)]
pub(crate) struct Counts {
    table: Arc<InterestTable>,
    hasher: TopicHasher,
    shard: u8,
    shards: u8,
    /// One that has reached its maximum stays there, and its bit set: that is only a false
    /// positive, and small counts stay in the cache.
    counts: Box<[u16]>,
}

impl Counts {
    fn count(&mut self, hash: u64) -> &mut u16 {
        &mut self.counts[hash as usize & (BUCKETS - 1)]
    }

    /// Changes a word that nobody else writes.
    fn write(&self, hash: u64, change: impl FnOnce(u64, u64) -> u64) {
        let (word, bit) = place(hash);
        let word = &self.table.words(self.shard)[word];
        let changed = change(word.load(Ordering::Relaxed), bit);
        word.store(changed, Ordering::SeqCst);
    }
}

impl Interest {
    pub(crate) fn new(
        table: Arc<InterestTable>,
        hasher: TopicHasher,
        shard: u8,
        shards: u8,
    ) -> Self {
        if shards == 1 {
            return Self::Alone;
        }
        let counts = alloc::vec![0; BUCKETS].into();
        Self::Shared(Counts {
            table,
            hasher,
            shard,
            shards,
            counts,
        })
    }

    /// A subscription is about to be acknowledged. `whole` is the [`TopicHasher::hash`] of its
    /// filter if that has no wildcard, and so is its own literal prefix.
    #[inline]
    pub(crate) fn raise(&mut self, zone: Zone, filter: &str, whole: Option<u64>) {
        if let Self::Shared(counts) = self {
            let hash = whole.unwrap_or_else(|| counts.hasher.interest(zone, filter));
            let count = counts.count(hash);
            *count = count.saturating_add(1);
            if *count == 1 {
                counts.write(hash, |word, bit| word | bit);
            }
        }
    }

    /// A subscription is gone.
    pub(crate) fn lower(&mut self, zone: Zone, filter: &str) {
        if let Self::Shared(counts) = self {
            let hash = counts.hasher.interest(zone, filter);
            let count = counts.count(hash);
            debug_assert!(*count > 0, "interest lowered more often than raised");
            if *count == u16::MAX {
                return;
            }
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.write(hash, |word, bit| word & !bit);
            }
        }
    }

    /// The other shards that may have a subscriber.
    pub(crate) fn others(&self, zone: Zone, topic: &str) -> ShardSet {
        match self {
            Self::Alone => ShardSet::EMPTY,
            Self::Shared(counts) => {
                let all = counts
                    .table
                    .shards(counts.shards, &counts.hasher, zone, topic);
                all.without(ShardId(counts.shard))
            }
        }
    }
}
