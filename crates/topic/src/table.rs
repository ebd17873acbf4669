//! Hash tables from a 64-bit hash to a four-byte number whose key lives elsewhere.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// An element: half of its hash, and the number.
///
/// With the half hash here, growing touches no key, and a probe that meets a stranger hardly ever
/// does. It is the whole element that makes a table of exact filters small.
#[derive(Clone, Copy)]
pub(crate) struct Tagged {
    tag: u32,
    pub(crate) number: u32,
}

impl Tagged {
    pub(crate) const fn new(hash: u64, number: u32) -> Self {
        Self {
            tag: tag_of(hash),
            number,
        }
    }
}

/// The half of a hash that is kept.
const fn tag_of(hash: u64) -> u32 {
    hash as u32
}

/// The hash that the table works with: it takes the place from the low bits and seven bits to
/// compare from the high ones, which stay independent up to 2^25 elements.
const fn spread(tag: u32) -> u64 {
    ((tag as u64) << 32) | tag as u64
}

/// Below this many places a table is not worth shrinking.
const SHRINK_FLOOR: usize = 64;

/// A table from hashes to numbers; equality is the caller's.
pub(crate) struct TagTable {
    table: HashTable<Tagged>,
}

impl TagTable {
    pub(crate) const fn new() -> Self {
        Self {
            table: HashTable::new(),
        }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.table
            .find(spread(tag), is_equal)
            .map(|found| found.number)
    }

    /// The place of a key, found or to be filled with [`Tagged::new`]: one probe for both.
    #[inline]
    pub(crate) fn entry(&mut self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Entry<'_, Tagged> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.table
            .entry(spread(tag), is_equal, |moved| spread(moved.tag))
    }

    /// Adds an element that is known to be absent.
    pub(crate) fn insert_unique(&mut self, hash: u64, number: u32) {
        let tagged = Tagged::new(hash, number);
        self.table
            .insert_unique(spread(tagged.tag), tagged, |moved| spread(moved.tag));
    }

    /// Takes an element out; shrinks the table once it is mostly empty.
    pub(crate) fn remove(&mut self, hash: u64, number: u32) {
        let tag = tag_of(hash);
        if let Ok(found) = self
            .table
            .find_entry(spread(tag), |other| other.number == number)
        {
            found.remove();
        }
        let (len, capacity) = (self.table.len(), self.table.capacity());
        if capacity > SHRINK_FLOOR && len < capacity / 8 {
            // To twice the need, so that shrinking and growing stay amortised.
            self.table.shrink_to(2 * len, |moved| spread(moved.tag));
        }
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.table.reserve(additional, |moved| spread(moved.tag));
    }

    /// Bytes of heap that the table occupies.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.allocation_size()
    }
}
