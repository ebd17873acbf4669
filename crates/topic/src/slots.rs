//! A slab whose ids are four bytes.

use alloc::vec::Vec;

/// One place of a [`Slots`].
enum Slot<T> {
    /// Unused; the number is that of the next unused place, or [`END`].
    Free(u32),
    /// In use.
    Used(T),
}

/// Ends the list of unused places.
const END: u32 = u32::MAX;

/// Values under small reusable numbers.
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// Head of the list of unused places, or [`END`].
    free: u32,
    /// Number of used places.
    used: usize,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: END,
            used: 0,
        }
    }

    /// Number of values held.
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// Makes room for `additional` more values.
    pub(crate) fn reserve(&mut self, additional: usize) {
        let unused = self.slots.len() - self.used;
        self.slots.reserve(additional.saturating_sub(unused));
    }

    /// Keeps a value and gives its number: the one freed last, else the next new one.
    ///
    /// # Panics
    /// With 2^32 - 1 values, which no memory holds.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.used += 1;
        let slot = Slot::Used(value);
        if self.free == END {
            assert!(
                self.slots.len() < END as usize,
                "more values than numbers for them"
            );
            let at = self.slots.len() as u32;
            self.slots.push(slot);
            return at;
        }
        let at = self.free;
        if let Slot::Free(next) = core::mem::replace(&mut self.slots[at as usize], slot) {
            self.free = next;
        }
        at
    }

    /// Takes a value out; its number may be given out again at once.
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let slot = self.slots.get_mut(at as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = core::mem::replace(slot, Slot::Free(self.free)) else {
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

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        match self.slots.get(at as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        match self.slots.get_mut(at as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }

    /// All values with their numbers, in order of numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .zip(0u32..)
            .filter_map(|(slot, at)| match slot {
                Slot::Used(value) => Some((at, value)),
                Slot::Free(_) => None,
            })
    }

    /// Bytes of heap that the places occupy.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }
}
