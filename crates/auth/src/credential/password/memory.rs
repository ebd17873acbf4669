//! The memory that argon2 fills.
//!
//! To get tens of megabytes from the system for each hash takes nearly as long as to fill them. A
//! thread that hashes one password after the other keeps them in between.

use std::cell::RefCell;

use argon2::Block;

thread_local! {
    /// Blocks of the last hash; `None` on threads that keep nothing.
    static KEPT: RefCell<Option<Vec<Block>>> = const { RefCell::new(None) };
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
        let mut own = Vec::new();
        let blocks = kept.as_mut().unwrap_or(&mut own);
        if blocks.len() < count {
            // Nothing of the old content is needed, so it is given back first.
            *blocks = Vec::new();
            *blocks = vec![Block::default(); count];
        }
        fill(&mut blocks[..count])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Option<usize> {
        KEPT.with_borrow_mut(|kept| kept.as_mut().map(|blocks| blocks.len()))
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
}
