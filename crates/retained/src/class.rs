//! Size classes: how large slots are, and how they share a run of blocks.

use std::sync::LazyLock;

/// The unit in which a segment is handed out to classes.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Slots of one run: what its bitmap of free slots can tell apart.
pub(crate) const RUN_SLOTS_MAX: usize = 256;
/// The largest record: a packet of 256 MiB, and what stands around it.
const RECORD_BYTES_MAX: usize = (256 << 20) + (128 << 10);
/// Blocks in which several slots lie, at most.
const SHARED_RUN_BLOCKS_MAX: usize = 8;

/// The number of a class, as the files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u16);

/// Slots of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// Bytes of each of the two places of a slot.
    pub(crate) place_bytes: usize,
    /// Blocks that are taken at once.
    pub(crate) run_blocks: usize,
    /// Slots that fit in there.
    pub(crate) run_slots: usize,
}

impl Class {
    fn new(place_bytes: usize) -> Self {
        let slot_bytes = 2 * place_bytes;
        let candidates = 1..=SHARED_RUN_BLOCKS_MAX;
        let fit = |blocks: usize| (blocks * BLOCK_BYTES / slot_bytes).min(RUN_SLOTS_MAX);
        let waste = |blocks: usize| blocks * BLOCK_BYTES - fit(blocks) * slot_bytes;
        let good_enough = |blocks: &usize| waste(*blocks) * 50 <= blocks * BLOCK_BYTES;
        // The fewest blocks that waste at most 2 %, else those that waste the smallest part.
        let shared = candidates.clone().find(good_enough).or_else(|| {
            candidates
                .filter(|blocks| fit(*blocks) > 0)
                .min_by_key(|blocks| waste(*blocks) * SHARED_RUN_BLOCKS_MAX * 1_024 / blocks)
        });
        let run_blocks = shared
            .filter(|blocks| fit(*blocks) > 0)
            .unwrap_or_else(|| slot_bytes.div_ceil(BLOCK_BYTES));
        let run_slots = fit(run_blocks);
        Self {
            place_bytes,
            run_blocks,
            run_slots,
        }
    }

    /// Bytes of a slot.
    pub(crate) const fn slot_bytes(&self) -> usize {
        2 * self.place_bytes
    }
}

/// All classes, from the smallest to the largest: the table is part of the file format.
static CLASSES: LazyLock<Vec<Class>> = LazyLock::new(|| {
    let mut classes = Vec::new();
    let mut place_bytes = 64;
    while place_bytes < RECORD_BYTES_MAX {
        classes.push(Class::new(place_bytes));
        place_bytes += match place_bytes {
            0..256 => 8,
            256..512 => 16,
            // An eighth of the power of two below.
            _ => (1 << place_bytes.ilog2()) / 8,
        };
    }
    classes.push(Class::new(place_bytes));
    classes
});

/// All classes, from the smallest to the largest.
pub(crate) fn all() -> &'static [Class] {
    &CLASSES
}

/// How many classes there are.
pub(crate) fn count() -> usize {
    CLASSES.len()
}

/// The class of that number.
pub(crate) fn get(id: ClassId) -> Option<&'static Class> {
    CLASSES.get(usize::from(id.0))
}

/// The smallest class whose places hold this many bytes; `None` if none does.
pub(crate) fn for_record(bytes: usize) -> Option<(ClassId, &'static Class)> {
    let at = CLASSES.partition_point(|class| class.place_bytes < bytes);
    let class = CLASSES.get(at)?;
    Some((ClassId(u16::try_from(at).ok()?), class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_a_class_that_wastes_little() {
        for bytes in (1..70_000).chain([1 << 20, 3 << 20, 256 << 20, RECORD_BYTES_MAX]) {
            let (id, class) = for_record(bytes).unwrap();
            assert_eq!(get(id), Some(class));
            assert!(class.place_bytes >= bytes);
            let slack = class.place_bytes - bytes;
            assert!(bytes < 64 || slack < 8 || slack < bytes / 8 + 16, "{bytes}");
            assert!((1..=RUN_SLOTS_MAX).contains(&class.run_slots));
            assert!(class.run_slots * class.slot_bytes() <= class.run_blocks * BLOCK_BYTES);
        }
        assert!(for_record(RECORD_BYTES_MAX * 2).is_none());
    }

    /// The goal: files of at most twice the content, and 128 bytes for each message.
    #[test]
    fn small_messages_cost_what_was_promised() {
        for content in 1..=208 {
            let (_, class) = for_record(crate::record::HEAD_BYTES + content).unwrap();
            let share = (class.run_blocks * BLOCK_BYTES).div_ceil(class.run_slots);
            let promised = 2 * content.max(16) + 128;
            assert!(share <= promised, "{content} bytes take {share}");
        }
    }

    /// The table is part of the format: a change needs a new format version.
    #[test]
    fn the_table_stays_as_it_is() {
        let sum = CLASSES.iter().fold(0_u64, |sum, class| {
            [class.place_bytes, class.run_blocks, class.run_slots]
                .iter()
                .fold(sum, |sum, n| {
                    sum.wrapping_mul(1_000_003).wrapping_add(*n as u64)
                })
        });
        assert_eq!((count(), sum), (194, 17_556_772_521_589_491_633));
    }
}
