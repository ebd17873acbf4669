//! Hash tables from a 64-bit hash to a four-byte number whose key lives elsewhere.

use alloc::vec::Vec;

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

/// Elements of a part before it is divided: seven eighths of 2^15 places. To divide or enlarge one
/// takes some tenths of a millisecond, and that is the most that one element costs.
const PART_MAX: usize = 28_672;

/// The bits of a tag that name a part. They are neither those of a place in a part nor those that
/// are compared. With 2^9 parts of that size there are 2^23 elements; then parts grow.
const PART_SHIFT: u32 = 16;
const DEPTH_MAX: u32 = 9;

type Part = HashTable<Tagged>;

/// A table from 64-bit hashes to numbers of four bytes, whose keys lie elsewhere; equality is the
/// caller's. Growing it reads no key. Hashes of names that clients choose should be keyed
/// ([`crate::TopicHasher`]).
///
/// It consists of parts, and a part that is full is divided in two (extendible hashing). So no
/// element has to wait until millions of others have moved.
#[derive(Debug, Default)]
pub struct TagTable {
    /// Each with the number of bits that all of its elements have in common.
    parts: Vec<(Part, u32)>,
    /// The part of each value of the lowest `depth` of these bits.
    places: Vec<u16>,
    depth: u32,
}

const fn rehash(moved: &Tagged) -> u64 {
    spread(moved.tag)
}

const fn part_bits(tag: u32) -> usize {
    (tag >> PART_SHIFT) as usize
}

impl TagTable {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            parts: Vec::new(),
            places: Vec::new(),
            depth: 0,
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Parts that are all empty are dropped.
        self.parts.first().is_none_or(|(part, _)| part.is_empty()) && self.parts.len() < 2
    }

    #[inline]
    fn index(&self, tag: u32) -> Option<usize> {
        let place = part_bits(tag) & ((1 << self.depth) - 1);
        self.places.get(place).map(|index| usize::from(*index))
    }

    #[inline]
    fn part(&self, tag: u32) -> Option<&Part> {
        self.parts.get(self.index(tag)?).map(|(part, _)| part)
    }

    /// The part of a tag, which has room for one more.
    fn part_with_room(&mut self, tag: u32) -> &mut Part {
        let mut index = self.index(tag).unwrap_or_else(|| self.begin());
        while let Some((part, bits)) = self.parts.get(index)
            && part.len() >= PART_MAX
            && *bits < DEPTH_MAX
        {
            self.divide(index);
            index = self.index(tag).unwrap_or(index);
        }
        &mut self.parts[index].0
    }

    /// Makes the first part.
    #[cold]
    fn begin(&mut self) -> usize {
        self.parts.push((Part::new(), 0));
        self.places.push(0);
        0
    }

    /// Moves about half of a part into a new one.
    #[cold]
    fn divide(&mut self, index: usize) {
        let (full, bits) = core::mem::take(&mut self.parts[index]);
        if bits == self.depth {
            self.places.extend_from_within(..);
            self.depth += 1;
        }
        let mut halves = [(); 2].map(|()| Part::with_capacity(PART_MAX));
        for tagged in full {
            let half = part_bits(tagged.tag) >> bits & 1;
            halves[half].insert_unique(spread(tagged.tag), tagged, rehash);
        }
        // At most 2^9.
        let new = self.parts.len() as u16;
        for (place, part) in self.places.iter_mut().enumerate() {
            if usize::from(*part) == index && place >> bits & 1 == 1 {
                *part = new;
            }
        }
        let [low, high] = halves;
        self.parts[index] = (low, bits + 1);
        self.parts.push((high, bits + 1));
    }

    /// The number of a key. O(1).
    #[inline]
    pub fn find(&self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.part(tag)?
            .find(spread(tag), is_equal)
            .map(|found| found.number)
    }

    /// The numbers of all keys with this hash, and perhaps of a few others. O(their number).
    pub fn with_hash(&self, hash: u64) -> impl Iterator<Item = u32> {
        let tag = tag_of(hash);
        let all = self.part(tag).into_iter();
        let all = all.flat_map(move |part| part.iter_hash(spread(tag)));
        all.filter(move |other| other.tag == tag)
            .map(|other| other.number)
    }

    /// The place of a key, found or to be filled with [`Tagged::new`]: one probe for both.
    #[inline]
    pub(crate) fn entry(&mut self, hash: u64, is_equal: impl Fn(u32) -> bool) -> Entry<'_, Tagged> {
        let tag = tag_of(hash);
        let is_equal = |other: &Tagged| other.tag == tag && is_equal(other.number);
        self.part_with_room(tag)
            .entry(spread(tag), is_equal, rehash)
    }

    /// Adds an element that is known to be absent. O(1): at most one part moves.
    pub fn insert_unique(&mut self, hash: u64, number: u32) {
        let tagged = Tagged::new(hash, number);
        self.part_with_room(tagged.tag)
            .insert_unique(spread(tagged.tag), tagged, rehash);
    }

    /// Takes an element out; shrinks its part once that is mostly empty. O(1), amortised.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let tag = tag_of(hash);
        let part = self.index(tag).and_then(|index| self.parts.get_mut(index));
        let Some((part, _)) = part else { return };
        if let Ok(found) = part.find_entry(spread(tag), |other| other.number == number) {
            found.remove();
        }
        let (len, capacity) = (part.len(), part.capacity());
        if capacity > SHRINK_FLOOR && len < capacity / 8 {
            // To twice the need, so that shrinking and growing stay amortised.
            part.shrink_to(2 * len, rehash);
        }
        if len == 0 && self.parts.iter().all(|(part, _)| part.is_empty()) {
            *self = Self::new();
        }
    }

    /// An element gets another number. O(1).
    pub(crate) fn renumber(&mut self, hash: u64, from: u32, to: u32) {
        let tag = tag_of(hash);
        let part = self.index(tag).and_then(|index| self.parts.get_mut(index));
        let found = part.and_then(|(part, _)| part.find_mut(spread(tag), |it| it.number == from));
        if let Some(found) = found {
            found.number = to;
        }
    }

    /// Makes room for more elements: for all of them if nothing is there yet, and otherwise as far
    /// as that takes little time.
    pub(crate) fn reserve(&mut self, additional: usize) {
        if !self.is_empty() || additional <= PART_MAX {
            if self.parts.is_empty() && additional > 0 {
                self.begin();
            }
            if let [(part, _)] = &mut self.parts[..]
                && part.len() + additional <= PART_MAX
            {
                part.reserve(additional, rehash);
            }
            return;
        }
        // Parts are hardly ever equal: a quarter of each stays free.
        let parts = additional.div_ceil(PART_MAX / 4 * 3);
        self.depth = parts.next_power_of_two().ilog2().min(DEPTH_MAX);
        self.places = (0..1 << self.depth).collect();
        let part = |_: &u16| (Part::with_capacity(PART_MAX), self.depth);
        self.parts = self.places.iter().map(part).collect();
    }

    /// Bytes of heap that the table occupies. O(parts).
    pub(crate) fn heap_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|(part, _)| part.allocation_size());
        parts.sum::<usize>()
            + self.parts.capacity() * size_of::<(Part, u32)>()
            + self.places.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::{TopicHasher, Zone};

    fn hash(number: u32) -> u64 {
        TopicHasher::new(7).hash(Zone::DEFAULT, &format!("topic/{number}"))
    }

    /// What is in the table, compared with what should be.
    fn check(table: &TagTable, numbers: impl Iterator<Item = u32>, is_there: bool) {
        for number in numbers {
            let found = table.find(hash(number), |other| other == number);
            assert_eq!(found.is_some(), is_there, "{number}");
            let all = table.with_hash(hash(number));
            assert_eq!(
                all.filter(|other| *other == number).count(),
                found.iter().count()
            );
        }
    }

    #[test]
    fn no_element_waits_until_many_others_have_moved() {
        const ALL: u32 = 400_000;
        let mut table = TagTable::new();
        assert!(table.is_empty());
        for number in 0..ALL {
            let before = (table.parts.len(), table.heap_bytes());
            if number % 2 == 0 {
                table.insert_unique(hash(number), number);
            } else if let Entry::Vacant(place) = table.entry(hash(number), |_| false) {
                place.insert(Tagged::new(hash(number), number));
            }
            assert!(table.parts.len() <= before.0 + 1);
            assert!(table.heap_bytes() <= before.1 + (600 << 10), "at {number}");
        }
        assert!(table.parts.iter().all(|(part, _)| part.len() <= PART_MAX));
        assert!(table.parts.len() > ALL as usize / PART_MAX && table.parts.len() < 40);
        check(&table, 0..ALL, true);
        check(&table, ALL..ALL + 1_000, false);
        for number in 0..ALL - 10 {
            table.remove(hash(number), number);
        }
        check(&table, 0..ALL - 10, false);
        check(&table, ALL - 10..ALL, true);
        assert!(!table.is_empty() && table.heap_bytes() < 64 << 10);
        for number in ALL - 10..ALL {
            table.remove(hash(number), number);
        }
        assert!(table.is_empty() && table.parts.is_empty());
        table.remove(hash(1), 1);
        table.insert_unique(hash(1), 1);
        check(&table, 1..2, true);
    }

    #[test]
    fn room_is_made_in_parts() {
        for (additional, parts) in [(0, 0), (100, 1), (PART_MAX + 1, 2), (1_000_000, 64)] {
            let mut table = TagTable::new();
            table.reserve(additional);
            assert_eq!(table.parts.len(), parts, "{additional}");
            let count = additional.min(100_000) as u32;
            for number in 0..count {
                table.insert_unique(hash(number), number);
            }
            check(&table, 0..count, true);
        }
        let mut table = TagTable::new();
        table.insert_unique(hash(1), 2);
        table.renumber(hash(1), 2, 1);
        table.renumber(hash(1), 2, 3);
        table.reserve(1_000);
        table.reserve(1_000_000);
        check(&table, 1..2, true);
    }
}
