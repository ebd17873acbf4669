//! Which shards want to hear of a topic.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use stentor_topic::{TopicHasher, Zone};

/// Buckets of the table. More buckets mean fewer shards woken for nothing.
const BUCKETS: usize = 1 << 16;

/// The shared half: for each hash bucket, the set of shards with a subscription whose literal
/// prefix falls into it. False positives are possible and harmless; a false negative is not,
/// once the subscriber's SUBACK is queued.
#[derive(Debug)]
pub struct InterestTable {
    masks: Box<[AtomicU64]>,
}

impl Default for InterestTable {
    fn default() -> Self {
        Self {
            masks: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl InterestTable {
    /// A table without interest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn mask(&self, hash: u64) -> &AtomicU64 {
        // The length is a power of two, so the index is always inside.
        &self.masks[hash as usize & (BUCKETS - 1)]
    }

    /// The shards that may have a subscriber for a topic, as a bit mask. The order matters: a
    /// publisher's shard takes the message first and asks then, a subscriber's shard raises
    /// first and acknowledges then; so every publish after a SUBACK is seen.
    #[must_use]
    pub fn shards(&self, hasher: &TopicHasher, zone: Zone, topic: &str) -> u64 {
        let mut shards = 0;
        let whole = hasher.for_each_prefix_hash(zone, topic, |hash| {
            shards |= self.mask(hash).load(Ordering::SeqCst);
        });
        shards | self.mask(whole).load(Ordering::SeqCst)
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
    bit: u64,
    counts: Box<[u32]>,
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
            bit: 1 << shard,
            counts,
        })
    }

    /// A subscription is about to be acknowledged.
    pub(crate) fn raise(&mut self, zone: Zone, filter: &str) {
        if let Self::Shared(counts) = self {
            let hash = counts.hasher.interest(zone, filter);
            let count = &mut counts.counts[hash as usize & (BUCKETS - 1)];
            *count += 1;
            if *count == 1 {
                counts
                    .table
                    .mask(hash)
                    .fetch_or(counts.bit, Ordering::SeqCst);
            }
        }
    }

    /// A subscription is gone.
    pub(crate) fn lower(&mut self, zone: Zone, filter: &str) {
        if let Self::Shared(counts) = self {
            let hash = counts.hasher.interest(zone, filter);
            let count = &mut counts.counts[hash as usize & (BUCKETS - 1)];
            debug_assert!(*count > 0, "interest lowered more often than raised");
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts
                    .table
                    .mask(hash)
                    .fetch_and(!counts.bit, Ordering::SeqCst);
            }
        }
    }

    /// The other shards that may have a subscriber.
    pub(crate) fn others(&self, zone: Zone, topic: &str) -> u64 {
        match self {
            Self::Alone => 0,
            Self::Shared(counts) => counts.table.shards(&counts.hasher, zone, topic) & !counts.bit,
        }
    }
}
