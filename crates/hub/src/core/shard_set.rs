//! Sets of shards.

use core::ops::{BitAnd, BitOr, BitOrAssign};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::core::ids::{SHARDS_MAX, ShardId};

const _: () = assert!(SHARDS_MAX as u32 <= u64::BITS, "a shard has a bit");

/// Some of the shards of a server. A copy of eight bytes; every operation takes a few instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardSet(u64);

impl ShardSet {
    pub(crate) const EMPTY: Self = Self(0);
    /// All that there can be.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// One shard.
    pub(crate) const fn one(shard: ShardId) -> Self {
        debug_assert!(shard.0 < SHARDS_MAX, "a server has fewer shards");
        Self(1 << shard.0)
    }

    /// A bit for each shard, the lowest for shard 0: for records on a disk.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) const fn has(self, shard: ShardId) -> bool {
        self.0 & Self::one(shard).0 != 0
    }

    pub(crate) const fn with(self, shard: ShardId) -> Self {
        Self(self.0 | Self::one(shard).0)
    }

    pub(crate) const fn without(self, shard: ShardId) -> Self {
        Self(self.0 & !Self::one(shard).0)
    }

    /// Whether a shard is in both.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The shards, the lowest number first.
    pub(crate) const fn iter(self) -> Shards {
        Shards(self)
    }
}

impl BitAnd for ShardSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for ShardSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for ShardSet {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl IntoIterator for ShardSet {
    type Item = ShardId;
    type IntoIter = Shards;

    fn into_iter(self) -> Shards {
        self.iter()
    }
}

impl FromIterator<ShardId> for ShardSet {
    fn from_iter<I: IntoIterator<Item = ShardId>>(shards: I) -> Self {
        shards.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// The shards of a set.
#[derive(Clone, Debug)]
pub(crate) struct Shards(ShardSet);

impl Iterator for Shards {
    type Item = ShardId;

    fn next(&mut self) -> Option<ShardId> {
        let ShardSet(left) = &mut self.0;
        // Less than 64.
        let shard = (*left != 0).then(|| ShardId(left.trailing_zeros() as u8))?;
        *left &= *left - 1;
        Some(shard)
    }
}

/// A set that shards change at the same time. What one has changed, all others see in one order.
#[derive(Debug, Default)]
pub(crate) struct AtomicShardSet(AtomicU64);

impl AtomicShardSet {
    pub(crate) fn get(&self) -> ShardSet {
        ShardSet(self.0.load(Ordering::SeqCst))
    }

    /// Whether it was empty some time ago: cheaper, for questions whose answer may be late.
    #[inline]
    pub(crate) fn was_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn set(&self, shard: ShardId, is_in: bool) {
        let ShardSet(bit) = ShardSet::one(shard);
        match is_in {
            true => self.0.fetch_or(bit, Ordering::SeqCst),
            false => self.0.fetch_and(!bit, Ordering::SeqCst),
        };
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let shards = [0, 5, 63].map(ShardId);
        let set: ShardSet = shards.into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), shards);
        assert_eq!(set.len(), 3);
        assert!(set.has(ShardId(63)) && !set.has(ShardId(62)));
        assert_eq!(
            set.without(ShardId(5)).without(ShardId(0)),
            ShardSet::one(ShardId(63))
        );
        assert_eq!(set.without(ShardId(1)), set);
        assert!(set.meets(ShardSet::one(ShardId(5))) && !set.meets(ShardSet::one(ShardId(6))));
        assert!(!set.meets(ShardSet::EMPTY) && ShardSet::EMPTY.is_empty());
        assert_eq!(set & ShardSet::ALL, set);
        assert_eq!(set.bits(), 1 | 1 << 5 | 1 << 63);
        assert_eq!(ShardSet::ALL.iter().count(), usize::from(SHARDS_MAX));
    }

    #[test]
    fn shards_enter_and_leave_a_common_set() {
        let set = AtomicShardSet::default();
        assert!(set.was_empty());
        set.set(ShardId(3), true);
        set.set(ShardId(63), true);
        set.set(ShardId(3), false);
        assert_eq!(set.get(), ShardSet::one(ShardId(63)));
        assert!(!set.was_empty());
    }
}
