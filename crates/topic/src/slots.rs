//! A slab whose ids are four bytes.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Places that are allocated together, a power of two. Growing moves no value: a shard with a
/// million filters does not stand still to copy them.
const CHUNK: usize = 1024;

/// One place of a [`Slots`].
#[derive(Debug)]
enum Slot<T> {
    /// Unused; the number is that of the next unused place, or [`END`].
    Free(u32),
    /// In use.
    Used(T),
}

/// Ends the list of unused places.
const END: u32 = u32::MAX;

/// Values under small reusable numbers. Adding one moves no other.
#[derive(Debug)]
pub struct Slots<T> {
    /// Each of [`CHUNK`] places at most, and all but the last full.
    chunks: Vec<Vec<Slot<T>>>,
    /// Head of the list of unused places, or [`END`].
    free: u32,
    /// Number of used places.
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    /// No value.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            free: END,
            used: 0,
        }
    }

    /// Whether there is no value.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Number of values held.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.used
    }

    /// Number of places, used or not.
    #[must_use]
    pub fn places(&self) -> usize {
        let Some((last, full)) = self.chunks.split_last() else {
            return 0;
        };
        full.len() * CHUNK + last.len()
    }

    fn slot(&self, at: u32) -> Option<&Slot<T>> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    fn slot_mut(&mut self, at: u32) -> Option<&mut Slot<T>> {
        let at = at as usize;
        self.chunks.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// Adds a place.
    fn push(&mut self, slot: Slot<T>) {
        if let Some(last) = self.chunks.last_mut()
            && last.len() < CHUNK
        {
            last.push(slot);
            return;
        }
        // The first chunk grows as needed, for an index may be small.
        let is_first = self.chunks.is_empty();
        let mut chunk = Vec::with_capacity(if is_first { 4 } else { CHUNK });
        chunk.push(slot);
        self.chunks.push(chunk);
    }

    /// Keeps a value and gives its number: the one freed last, else the next new one.
    ///
    /// # Panics
    /// With 2^32 - 1 values, which no memory holds.
    pub fn insert(&mut self, value: T) -> u32 {
        self.used += 1;
        let slot = Slot::Used(value);
        if self.free == END {
            let at = self.places();
            assert!(at < END as usize, "more values than numbers for them");
            self.push(slot);
            return at as u32;
        }
        let at = self.free;
        if let Some(place) = self.slot_mut(at)
            && let Slot::Free(next) = core::mem::replace(place, slot)
        {
            self.free = next;
        }
        at
    }

    /// Takes a value out; its number may be given out again at once.
    pub fn remove(&mut self, at: u32) -> Option<T> {
        let free = self.free;
        let slot = self.slot_mut(at)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = core::mem::replace(slot, Slot::Free(free)) else {
            return None;
        };
        self.free = at;
        self.used -= 1;
        if self.used == 0 {
            // Numbers are stable, so this is the moment when memory can be given back.
            *self = Self::new();
        }
        Some(value)
    }

    /// The value with a number, if there is one. O(1).
    #[inline]
    #[must_use]
    pub fn get(&self, at: u32) -> Option<&T> {
        match self.slot(at) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// The same, to be changed. O(1).
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.slot_mut(at) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// All values with their numbers, in order of numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks
            .iter()
            .flatten()
            .zip(0u32..)
            .filter_map(|(slot, at)| match slot {
                Slot::Used(value) => Some((at, value)),
                Slot::Free(_) => None,
            })
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.chunks
            .iter_mut()
            .flatten()
            .zip(0u32..)
            .filter_map(|(slot, at)| match slot {
                Slot::Used(value) => Some((at, value)),
                Slot::Free(_) => None,
            })
    }

    /// Bytes of heap that the places occupy. O(places / 1024).
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let places: usize = self.chunks.iter().map(Vec::capacity).sum();
        places * size_of::<Slot<T>>() + self.chunks.capacity() * size_of::<Vec<Slot<T>>>()
    }
}

/// # Panics
/// If no value has that number.
impl<T> Index<u32> for Slots<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        match self.get(at) {
            Some(value) => value,
            None => panic!("nothing has the number {at}"),
        }
    }
}

impl<T> IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match self.get_mut(at) {
            Some(value) => value,
            None => panic!("nothing has the number {at}"),
        }
    }
}
