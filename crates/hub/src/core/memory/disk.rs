//! How the owners of sessions share the disk for what waits for their clients.
//!
//! What one owner has there may be [`TIMES`] as much as what is free. So an owner who is alone gets
//! most of it, two get nearly half each, and something is always left for an owner who has nothing
//! there yet. Nobody has to count the owners for that.
//!
//! The last part of all, one in [`RESERVE`], is not free in this sense. Of that, each owner may
//! have one part in [`FLOOR`], and less when little of it is left. So owners with much leave
//! something for owners with little.
//!
//! An owner who has reached its part is **full**: what it publishes itself to its own sessions is
//! refused, if their clients are away or far behind. So an owner that sends to its own sessions
//! hears of it before anything is lost. Nobody else is refused for its sake. What others publish,
//! and what was under way, may fill the disk to [`TIMES_AT_MOST`], and take half of the reserve.
//! Then the owner's sessions are **barred**: their messages wait in memory, as far as they may.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An owner may have this many times as much as is free before it is refused, and before its
/// sessions are barred.
const TIMES: u64 = 8;
const TIMES_AT_MOST: u64 = 12;
/// Such a part of all is the reserve, and such a part of the reserve is one owner's at most.
const RESERVE: u64 = 8;
const FLOOR: u64 = 64;

/// Places of owners that are full, and are refused. Each owner may have one of a few that follow
/// its number. One that finds none is not refused, and loses messages when its memory is full too.
const PLACES: usize = 4_096;
const PLACES_OF_ONE: usize = 8;

/// What one owner may have on the disk, in bytes: before it is full, and before its sessions are
/// barred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    full_at: u64,
    barred_at: u64,
}

impl Part {
    /// The share of an owner without a bound.
    pub(crate) const ALL: Self = Self {
        full_at: u64::MAX,
        barred_at: u64::MAX,
    };

    /// While so much is free, of so much in all.
    pub(crate) fn of(free: u64, all: u64) -> Self {
        let reserve = all / RESERVE;
        let beyond = |reserve| free.saturating_sub(reserve);
        let floor = (reserve / FLOOR).min(free / TIMES);
        // Messages under way when the owner became full were acknowledged: they need room.
        let at_most = beyond(reserve / 2).saturating_mul(TIMES_AT_MOST);
        Self {
            full_at: beyond(reserve).saturating_mul(TIMES).max(floor),
            barred_at: at_most.max(floor + floor / 2),
        }
    }

    /// What two things allow that have to have room.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            full_at: self.full_at.min(other.full_at),
            barred_at: self.barred_at.min(other.barred_at),
        }
    }
}

/// The owners that are full, for all shards.
#[derive(Debug)]
pub(crate) struct FullOwners {
    count: AtomicU32,
    /// Each is an owner's number, or 0.
    places: Box<[AtomicU32]>,
}

impl Default for FullOwners {
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            places: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl FullOwners {
    /// Whether there are any.
    #[inline]
    pub(crate) fn are_some(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The places that an owner may have, with their indices.
    fn of(&self, owner: u32) -> impl Iterator<Item = (usize, &AtomicU32)> {
        let first = owner as usize;
        let indices = (first..first + PLACES_OF_ONE).map(|index| index % PLACES);
        indices.filter_map(|index| Some((index, self.places.get(index)?)))
    }

    /// Whether this owner is one of them. O(1).
    pub(crate) fn have(&self, owner: u32) -> bool {
        let is_it = |(_, place): (usize, &AtomicU32)| place.load(Ordering::Relaxed) == owner;
        owner != 0 && self.of(owner).any(is_it)
    }

    /// Takes a place for an owner. Returns its number, from 1 on, or 0 if there is none.
    fn add(&self, owner: u32) -> u32 {
        let is_free = |(_, place): &(usize, &AtomicU32)| {
            let taken = place.compare_exchange(0, owner, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        match self.of(owner).find(is_free) {
            Some((index, _)) => {
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

    /// Notes whether the owner of this number is full while it may have so much. Returns whether
    /// its sessions are barred.
    pub(crate) fn note(&self, owner: u32, part: Part, all: &FullOwners) -> bool {
        let bytes = self.bytes();
        let exceeds = |most| bytes > 0 && bytes >= most;
        let is_full = exceeds(part.full_at);
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
        exceeds(part.barred_at)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn an_owner_may_have_several_times_what_is_free() {
        let all = FullOwners::default();
        let of = |free| Part::of(free, 0);
        let (ann, bob) = (OnDisk::default(), OnDisk::default());
        assert!(
            !ann.note(1, of(0), &all),
            "an owner that has nothing there is not full"
        );
        ann.change(0, 960);
        assert!(!ann.note(1, of(121), &all) && !all.are_some());
        assert!(
            !ann.note(1, of(120), &all) && all.have(1),
            "it is refused first"
        );
        assert!(ann.note(1, of(80), &all) && ann.note(1, of(80), &all));
        assert!(all.are_some() && all.have(1) && !all.have(2) && !all.have(0));
        bob.change(0, 10);
        assert!(!bob.note(2, of(100), &all) && bob.note(2, of(0), &all));
        assert!(all.have(1) && all.have(2));
        ann.change(960, 100);
        assert!(!ann.note(1, of(100), &all));
        assert!(!all.have(1) && all.have(2));
        assert!(!bob.note(2, of(100), &all) && !all.are_some());
    }

    #[test]
    fn those_without_a_place_are_barred_all_the_same() {
        let all = FullOwners::default();
        let of = |free| Part::of(free, 0);
        let owners: [OnDisk; PLACES_OF_ONE + 1] = core::array::from_fn(|_| OnDisk::default());
        // All of them may have the same places.
        let numbers = || (1..).map(|number| number * PLACES as u32).zip(&owners);
        for (number, owner) in numbers() {
            owner.change(0, 1);
            assert!(owner.note(number, of(0), &all));
        }
        let (first, last) = (PLACES as u32, owners.len() as u32 * PLACES as u32);
        assert!(all.have(first) && all.have(last - first) && !all.have(last));
        assert!(!owners[0].note(first, of(1), &all) && !all.have(first));
        assert!(owners[PLACES_OF_ONE].note(last, of(0), &all) && all.have(last));
    }

    /// Owners come one after the other, and each takes what it may.
    #[test]
    fn whoever_comes_last_has_a_part_too() {
        const ALL: u64 = 1 << 30;
        let mut used = 0;
        let mut parts = Vec::new();
        for _ in 0..100 {
            let mut own = 0;
            while own < Part::of(ALL - used - own, ALL).full_at {
                own += 64;
            }
            used += own;
            parts.push(own);
        }
        assert!(parts[0] > ALL * 3 / 4 && parts[0] < ALL * 7 / 8);
        assert!(used < ALL && parts.is_sorted_by(|a, b| a >= b));
        let floor = ALL / RESERVE / FLOOR;
        let have_it = parts.iter().take_while(|part| **part >= floor).count();
        assert!((50..64).contains(&have_it), "{have_it}");
        assert!(parts.iter().all(|part| *part > 0));
    }
}
