//! Hash tables from a 64-bit hash to a four-byte number whose key lives elsewhere.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// An element: half of its hash, and the number.
///
/// With the half hash here, growing touches no key, and a probe that meets a stranger hardly ever
/// does. It is the whole element that makes a table of exact filters small.
#[derive(Clone, Copy, Debug)]
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

/// A table from 64-bit hashes to numbers of four bytes, whose keys lie elsewhere; equality is the
/// caller's. Growing it reads no key. Hashes of names that clients choose should be keyed
/// ([`crate::TopicHasher`]).
#[derive(Debug, Default)]
pub struct TagTable {
    table: HashTable<Tagged>,
}

impl TagTable {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            table: HashTable::new(),
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The number of a key. O(1).
    #[inline]
    pub fn find(&self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.table
            .find(spread(tag), is_equal)
            .map(|found| found.number)
    }

    /// The numbers of all keys with this hash, and perhaps of a few others. O(their number).
    pub fn with_hash(&self, hash: u64) -> impl Iterator<Item = u32> {
        let tag = tag_of(hash);
        let all = self.table.iter_hash(spread(tag));
        all.filter(move |other| other.tag == tag)
            .map(|other| other.number)
    }

    /// The place of a key, found or to be filled with [`Tagged::new`]: one probe for both.
    #[inline]
    pub(crate) fn entry(&mut self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Entry<'_, Tagged> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.table
            .entry(spread(tag), is_equal, |moved| spread(moved.tag))
    }

    /// Adds an element that is known to be absent. O(1), amortised.
    pub fn insert_unique(&mut self, hash: u64, number: u32) {
        let tagged = Tagged::new(hash, number);
        self.table
            .insert_unique(spread(tagged.tag), tagged, |moved| spread(moved.tag));
    }

    /// Takes an element out; shrinks the table once it is mostly empty. O(1), amortised.
    pub fn remove(&mut self, hash: u64, number: u32) {
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
