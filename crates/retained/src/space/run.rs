//! A run: blocks that one size class shares out as slots.

use crate::class::{Class, ClassId, RUN_SLOTS_MAX};

const WORDS: usize = RUN_SLOTS_MAX / 64;

/// Which slots of a run are free.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) class: ClassId,
    /// Position in the list of runs with free slots, while it is there.
    pub(crate) position: usize,
    /// A bit for each free slot: all that is known of them, so that nothing can contradict it. A
    /// count beside it, raised by the bit that was cleared, came out wrong where rustc 1.95
    /// optimised it.
    free: [u64; WORDS],
    slots: u16,
}

impl Run {
    /// A run without a slot in use.
    pub(crate) fn new(id: ClassId, class: &Class) -> Self {
        let mut free = [0; WORDS];
        for index in 0..class.run_slots {
            free[index / 64] |= 1 << (index % 64);
        }
        Self {
            class: id,
            position: 0,
            free,
            // At most `RUN_SLOTS_MAX`.
            slots: class.run_slots as u16,
        }
    }

    /// Takes the first free slot: its index, and whether it was the last one.
    pub(crate) fn take(&mut self) -> Option<(u8, bool)> {
        let word = self.free.iter().position(|word| *word != 0)?;
        let bit = self.free[word].trailing_zeros() as usize;
        // Below `RUN_SLOTS_MAX`.
        let index = (word * 64 + bit) as u8;
        self.take_that(index);
        Some((index, self.is_full()))
    }

    /// Takes one slot; whether it was free.
    pub(crate) fn take_that(&mut self, index: u8) -> bool {
        let (word, bit) = (usize::from(index) / 64, 1 << (index % 64));
        let was_free = self.free[word] & bit != 0;
        self.free[word] &= !bit;
        was_free
    }

    /// Frees a slot.
    pub(crate) fn give_back(&mut self, index: u8) {
        let (word, bit) = (usize::from(index) / 64, 1 << (index % 64));
        debug_assert!(self.free[word] & bit == 0, "a slot is freed once");
        self.free[word] |= bit;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free == [0; WORDS]
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.live() == 0
    }

    /// Slots in use.
    pub(crate) fn live(&self) -> usize {
        let free: u32 = self.free.iter().map(|word| word.count_ones()).sum();
        usize::from(self.slots) - free as usize
    }

    /// The slots in use.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u8> + '_ {
        let all = (0..=u8::MAX).take(usize::from(self.slots));
        all.filter(|index| self.free[usize::from(*index) / 64] & (1 << (index % 64)) == 0)
    }
}
