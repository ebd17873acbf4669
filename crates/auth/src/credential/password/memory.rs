//! The memory that argon2 fills.
//!
//! To get tens of megabytes from the system for each hash, page by page, takes nearly as long as
//! to fill them. A thread that hashes one password after the other keeps them in between. They are
//! read in no order, so that nearly every step is a look-up in the page table: in pages of 2 MiB a
//! hash takes 2 to 3 % less time than in those of 4 KiB.
#![expect(
    unsafe_code,
    reason = "mapped bytes are the blocks of argon2, which has no safe way to say so"
)]

use std::cell::RefCell;

use argon2::Block;
use memmap2::MmapMut;

/// From this size on, memory comes from the system and goes back to it: 2 MiB, a huge page.
const MAPPED_BYTES_MIN: usize = 2 * 1024 * 1024;

thread_local! {
    /// `None` on threads that keep nothing.
    static KEPT: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

/// Blocks for hashes, whose content is anything.
enum Memory {
    /// From the allocator.
    Small(Vec<Block>),
    /// From the system.
    Mapped(MmapMut),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl Memory {
    fn new(count: usize) -> Self {
        let bytes = count * Block::SIZE;
        if bytes >= MAPPED_BYTES_MIN
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            // Where the system has none, small ones do.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Self::Mapped(map);
        }
        Self::Small(vec![Block::default(); count])
    }

    fn blocks(&mut self) -> &mut [Block] {
        match self {
            Self::Small(blocks) => blocks,
            Self::Mapped(map) => {
                // SAFETY: a block is 128 numbers of 64 bits, for which all bytes are good; a page
                // begins where a block may begin, and what is cut off otherwise is in neither part.
                let (_, blocks, _) = unsafe { map.align_to_mut::<Block>() };
                blocks
            }
        }
    }
}

/// From now on this thread keeps the memory of a hash for the next one.
pub fn keep_memory() {
    KEPT.with_borrow_mut(|kept| {
        kept.get_or_insert_default();
    });
}

/// Gives back what this thread has kept, and keeps nothing from now on.
pub fn release_memory() {
    KEPT.set(None);
}

/// Calls `fill` with this many blocks, whose content is anything.
pub(super) fn with_blocks<R>(count: usize, fill: impl FnOnce(&mut [Block]) -> R) -> R {
    KEPT.with_borrow_mut(|kept| {
        let mut own = Memory::default();
        let memory = kept.as_mut().unwrap_or(&mut own);
        if memory.blocks().len() < count {
            // Nothing of the old content is needed, so it is given back first.
            *memory = Memory::default();
            *memory = Memory::new(count);
        }
        fill(&mut memory.blocks()[..count])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Option<usize> {
        KEPT.with_borrow_mut(|kept| kept.as_mut().map(|memory| memory.blocks().len()))
    }

    #[test]
    fn memory_is_kept_only_where_that_was_asked_for() {
        assert_eq!(with_blocks(8, |blocks| blocks.len()), 8);
        assert_eq!(kept(), None);
        keep_memory();
        for count in [8, 16, 4] {
            assert_eq!(with_blocks(count, |blocks| blocks.len()), count);
        }
        assert_eq!(kept(), Some(16));
        release_memory();
        assert_eq!(kept(), None);
    }

    /// On both sides of where memory is mapped, each block is there whole and can be written.
    #[test]
    fn all_blocks_are_there() {
        let least = MAPPED_BYTES_MIN / Block::SIZE;
        for count in [least - 1, least, 19_456] {
            let used = with_blocks(count, |blocks| {
                blocks.fill(Block::default());
                blocks.len()
            });
            assert_eq!(used, count);
            let is_mapped = matches!(Memory::new(count), Memory::Mapped(_));
            assert_eq!(is_mapped, count >= least, "{count}");
        }
    }
}
