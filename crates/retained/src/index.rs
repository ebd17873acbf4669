//! Where the record of a topic lies: sixteen bytes for each topic.

use hashbrown::HashTable;

use crate::space::{Place, Slot};

/// Places of records by the hash of their topic.
#[derive(Debug, Default)]
pub(crate) struct Index {
    table: HashTable<Entry>,
}

/// One topic's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    packed: u64,
}

const SECOND: u64 = 1 << 48;
const TIMED: u64 = 1 << 49;

impl Entry {
    /// A record that no deadline is kept for.
    pub(crate) fn new(hash: u64, place: Place) -> Self {
        Self {
            hash,
            packed: pack(place),
        }
    }

    pub(crate) const fn place(self) -> Place {
        Place {
            slot: Slot {
                segment: self.packed as u16,
                block: (self.packed >> 16) as u32 & 0xFF_FFFF,
                index: (self.packed >> 40) as u8,
            },
            second: self.packed & SECOND != 0,
        }
    }

    /// The record is somewhere else now.
    pub(crate) fn set_place(&mut self, place: Place) {
        self.packed = pack(place) | (self.packed & TIMED);
    }

    /// Whether the queue of deadlines has the topic.
    pub(crate) const fn is_timed(self) -> bool {
        self.packed & TIMED != 0
    }

    pub(crate) fn set_timed(&mut self, timed: bool) {
        self.packed = if timed {
            self.packed | TIMED
        } else {
            self.packed & !TIMED
        };
    }
}

fn pack(place: Place) -> u64 {
    let Slot {
        segment,
        block,
        index,
    } = place.slot;
    debug_assert!(block < 1 << 24, "segments have fewer blocks");
    let second = if place.second { SECOND } else { 0 };
    u64::from(segment) | u64::from(block) << 16 | u64::from(index) << 40 | second
}

impl Index {
    /// The entry of that hash which `is_it` recognises.
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(Entry) -> bool) -> Option<Entry> {
        self.table
            .find(hash, |entry| entry.hash == hash && is_it(*entry))
            .copied()
    }

    /// The first entry of that hash, usually the only one.
    #[inline]
    pub(crate) fn first(&self, hash: u64) -> Option<Entry> {
        let found = self.table.find(hash, |entry| entry.hash == hash);
        found.copied()
    }

    /// All entries of that hash: usually one at most.
    pub(crate) fn all(&self, hash: u64) -> impl Iterator<Item = Entry> {
        let of_hash = self.table.iter_hash(hash).copied();
        of_hash.filter(move |entry| entry.hash == hash)
    }

    /// The entry that says `place`, to be changed.
    pub(crate) fn entry_mut(&mut self, hash: u64, place: Place) -> Option<&mut Entry> {
        let is_it = |entry: &Entry| entry.hash == hash && entry.place() == place;
        self.table.find_mut(hash, is_it)
    }

    /// Adds an entry; its topic has none.
    pub(crate) fn insert(&mut self, entry: Entry) {
        self.table
            .insert_unique(entry.hash, entry, |entry| entry.hash);
    }

    /// Removes the entry that says `place`.
    pub(crate) fn remove(&mut self, hash: u64, place: Place) {
        let is_it = |entry: &Entry| entry.hash == hash && entry.place() == place;
        if let Ok(occupied) = self.table.find_entry(hash, is_it) {
            occupied.remove();
        }
    }

    /// Makes room for this many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |entry| entry.hash);
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.table.iter().copied()
    }

    /// Keeps the entries that `keep` says.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Entry) -> bool) {
        self.table.retain(|entry| keep(*entry));
    }

    /// Bytes of memory that the table takes.
    pub(crate) fn memory(&self) -> usize {
        self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_packed_and_unpacked() {
        for segment in [0, 1, u16::MAX] {
            for block in [0, 1, 0xFF_FFFF] {
                for index in [0, u8::MAX] {
                    for second in [false, true] {
                        let slot = Slot {
                            segment,
                            block,
                            index,
                        };
                        let place = Place { slot, second };
                        let mut entry = Entry::new(9, place);
                        assert_eq!((entry.place(), entry.is_timed()), (place, false));
                        entry.set_timed(true);
                        assert_eq!((entry.place(), entry.is_timed()), (place, true));
                        entry.set_place(place.spare());
                        assert_eq!((entry.place(), entry.is_timed()), (place.spare(), true));
                    }
                }
            }
        }
    }
}
