//! How the owners of sessions share the disk for what waits for their clients.
//!
//! What one owner has there may be [`TIMES`] as much as what is free. So an owner who is alone gets
//! nearly all of it, two get nearly half each, and something is always left for an owner who has
//! nothing there yet. Nobody has to count the owners for that.
//!
//! An owner who has reached that is **full**: what it publishes itself is refused, if sessions that
//! last would be owed it. So an owner that sends to its own sessions hears of it before anything is
//! lost. Nobody else is refused for its sake. What others publish, and what was under way, may fill
//! the disk to [`TIMES_AT_MOST`]. Then the owner's sessions are **barred**: their messages wait in
//! memory, as far as they may.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An owner may have this many times as much as is free before it is refused, and before its
/// sessions are barred.
const TIMES: u64 = 8;
const TIMES_AT_MOST: u64 = 12;

/// Owners that are full, and are refused. More than these are not refused, and lose messages when
/// their memory is full too.
const OWNERS_MAX: usize = 64;

/// The owners that are full, for all shards.
#[derive(Debug)]
pub(crate) struct FullOwners {
    count: AtomicU32,
    /// Each is an owner's number, or 0.
    places: [AtomicU32; OWNERS_MAX],
}

impl Default for FullOwners {
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            places: [const { AtomicU32::new(0) }; OWNERS_MAX],
        }
    }
}

impl FullOwners {
    /// Whether there are any.
    #[inline]
    pub(crate) fn are_some(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether this owner is one of them. O([`OWNERS_MAX`]).
    pub(crate) fn have(&self, owner: u32) -> bool {
        let is_it = |place: &AtomicU32| place.load(Ordering::Relaxed) == owner;
        owner != 0 && self.places.iter().any(is_it)
    }

    /// Takes a place for an owner. Returns its number, from 1 on, or 0 if there is none.
    fn add(&self, owner: u32) -> u32 {
        let is_free = |place: &AtomicU32| {
            let taken = place.compare_exchange(0, owner, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        match self.places.iter().position(is_free) {
            Some(index) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                index as u32 + 1
            }
            None => 0,
        }
    }

    fn remove(&self, place: u32) {
        let index = place.checked_sub(1);
        let place = index.and_then(|index| self.places.get(index as usize));
        if let Some(place) = place {
            place.store(0, Ordering::Relaxed);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What somebody has on the disk.
#[derive(Debug, Default)]
pub(crate) struct OnDisk {
    bytes: AtomicU64,
    /// Its place among those that are full; 0 if it has none.
    place: AtomicU32,
}

impl OnDisk {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// One of its sessions had so much there, and has so much now.
    pub(crate) fn change(&self, before: u64, now: u64) {
        if now >= before {
            self.bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Whether its owner was full when that was last noted. One without a place is not.
    pub(crate) fn is_full(&self) -> bool {
        self.place.load(Ordering::Relaxed) != 0
    }

    /// Notes whether the owner of this number is full while so much is free. Returns whether its
    /// sessions are barred.
    pub(crate) fn note(&self, owner: u32, free: u64, all: &FullOwners) -> bool {
        let bytes = self.bytes();
        let exceeds = |times| bytes > 0 && bytes >= free.saturating_mul(times);
        let is_full = exceeds(TIMES);
        let place = self.place.load(Ordering::Relaxed);
        if is_full && place == 0 && owner != 0 {
            let new = all.add(owner);
            let noted = self
                .place
                .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed);
            if noted.is_err() {
                // Another shard was faster.
                all.remove(new);
            }
        } else if !is_full && place != 0 {
            all.remove(self.place.swap(0, Ordering::Relaxed));
        }
        exceeds(TIMES_AT_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_may_have_several_times_what_is_free() {
        let all = FullOwners::default();
        let (ann, bob) = (OnDisk::default(), OnDisk::default());
        assert!(!ann.note(1, 0, &all), "who has nothing there is not full");
        ann.change(0, 960);
        assert!(!ann.note(1, 121, &all) && !all.are_some());
        assert!(
            !ann.note(1, 120, &all) && all.have(1),
            "it is refused first"
        );
        assert!(ann.note(1, 80, &all) && ann.note(1, 80, &all));
        assert!(all.are_some() && all.have(1) && !all.have(2) && !all.have(0));
        bob.change(0, 10);
        assert!(!bob.note(2, 100, &all) && bob.note(2, 0, &all));
        assert!(all.have(1) && all.have(2));
        ann.change(960, 100);
        assert!(!ann.note(1, 100, &all));
        assert!(!all.have(1) && all.have(2));
        assert!(!bob.note(2, 100, &all) && !all.are_some());
    }

    #[test]
    fn those_without_a_place_are_barred_all_the_same() {
        let all = FullOwners::default();
        let owners: [OnDisk; OWNERS_MAX + 1] = core::array::from_fn(|_| OnDisk::default());
        for (number, owner) in (1..).zip(&owners) {
            owner.change(0, 1);
            assert!(owner.note(number, 0, &all));
        }
        let last = OWNERS_MAX as u32 + 1;
        assert!(all.have(last - 1) && !all.have(last));
        assert!(!owners[0].note(1, 1, &all));
        assert!(owners[OWNERS_MAX].note(last, 0, &all) && all.have(last));
    }
}
