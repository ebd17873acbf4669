//! What other shards have kept and not yet told.
//!
//! A message is kept first and forwarded then, a little later and perhaps with others. Whoever
//! subscribes on another shard in the meantime may find the last of several in the store, and the
//! ones before it would follow live. So a snapshot waits for a fence: until every message that was
//! kept before it has come, or never will. Nobody else waits, neither publishers nor live messages,
//! and while other shards keep nothing, nor does the snapshot. What has come may be expensive to
//! route: see [routing](crate::core::routing::route).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use crate::core::ids::SHARDS_MAX;
use crate::core::routing::atomic::AtomicU64;
use crate::core::routing::interest::InterestTable;

/// How far each shard is with forwarding what it kept: odd while it may have kept a message that
/// is in no ring yet.
#[derive(Debug)]
pub(crate) struct Forwarding {
    rounds: Box<[Round]>,
}

/// On a cache line of its own, since one shard writes it and the others read it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Round(AtomicU64);

impl Default for Forwarding {
    fn default() -> Self {
        Self {
            rounds: (0..SHARDS_MAX).map(|_| Round::default()).collect(),
        }
    }
}

/// The rounds that a snapshot waits for, by shard.
#[derive(Debug)]
pub(crate) struct Fence(Box<[u64]>);

/// One shard's half.
#[derive(Debug)]
pub(crate) enum Fences {
    /// There is no other shard.
    Alone,
    /// Other shards keep messages too.
    Shared(Heard),
}

#[derive(Debug)]
pub(crate) struct Heard {
    table: Arc<InterestTable>,
    shard: usize,
    shards: usize,
    /// The own round.
    own: u64,
    /// The rounds of all when the rings were last looked at.
    looked: Vec<u64>,
    /// Everything forwarded before these rounds has been applied here.
    heard: Vec<u64>,
}

impl Heard {
    fn round(&self, shard: usize) -> &AtomicU64 {
        &self.table.forwarding.rounds[shard].0
    }

    fn write(&mut self, round: u64) {
        self.own = round;
        self.round(self.shard).store(round, Ordering::SeqCst);
    }

    /// The round of a shard, and the one after which it has forwarded all it has kept until now.
    fn due(&self, shard: usize) -> u64 {
        if shard == self.shard {
            // It routes what it kept before it takes a subscription.
            return 0;
        }
        self.round(shard).load(Ordering::SeqCst).next_multiple_of(2)
    }
}

impl Fences {
    pub(crate) fn new(table: Arc<InterestTable>, shard: u8, shards: u8) -> Self {
        if shards == 1 {
            return Self::Alone;
        }
        let shards = usize::from(shards);
        Self::Shared(Heard {
            table,
            shard: usize::from(shard),
            shards,
            own: 0,
            looked: alloc::vec![0; shards],
            heard: alloc::vec![0; shards],
        })
    }

    /// A message is about to be kept.
    #[inline]
    pub(crate) fn begin_put(&mut self) {
        if let Self::Shared(heard) = self
            && heard.own % 2 == 0
        {
            heard.write(heard.own + 1);
        }
    }

    /// All that was kept is in the rings of those who want to hear of it.
    #[inline]
    pub(crate) fn forwarded(&mut self) {
        if let Self::Shared(heard) = self
            && heard.own % 2 == 1
        {
            heard.write(heard.own + 1);
        }
    }

    /// What lies in the rings is about to be taken.
    pub(crate) fn begin_drain(&mut self) {
        if let Self::Shared(heard) = self {
            for shard in 0..heard.shards {
                heard.looked[shard] = heard.round(shard).load(Ordering::SeqCst);
            }
        }
    }

    /// It has been routed.
    pub(crate) fn end_drain(&mut self) {
        if let Self::Shared(heard) = self {
            heard.heard.clone_from(&heard.looked);
        }
    }

    /// What a snapshot has to wait for whose mark has been taken; `None` for nothing.
    pub(crate) fn raise(&self) -> Option<Fence> {
        let Self::Shared(heard) = self else {
            return None;
        };
        let is_behind = |shard| heard.heard[shard] < heard.due(shard);
        (0..heard.shards)
            .any(is_behind)
            .then(|| Fence((0..heard.shards).map(|shard| heard.due(shard)).collect()))
    }

    /// Whether everything that a fence stands for has come.
    pub(crate) fn is_passed(&self, fence: &Fence) -> bool {
        match self {
            Self::Alone => true,
            Self::Shared(heard) => fence
                .0
                .iter()
                .zip(&heard.heard)
                .all(|(due, heard)| heard >= due),
        }
    }
}
