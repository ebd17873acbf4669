//! The first of many items.

use std::cmp::Ordering;

/// Keeps the first items of an order, of all that it is offered. O(1) an item on average, and the
/// room for twice as many as are kept.
pub(super) struct First<T, C> {
    at_most: usize,
    compare: C,
    kept: Vec<T>,
    /// Whether the item at the place `at_most - 1` is the last of those that were the first.
    has_last: bool,
}

impl<T, C: Fn(&T, &T) -> Ordering> First<T, C> {
    pub(super) const fn new(at_most: usize, compare: C) -> Self {
        Self {
            at_most,
            compare,
            kept: Vec::new(),
            has_last: false,
        }
    }

    pub(super) fn offer(&mut self, item: T) {
        let last = self.at_most.checked_sub(1);
        let last = last.and_then(|last| self.kept.get(last).filter(|_| self.has_last));
        let is_behind = last.is_some_and(|last| (self.compare)(&item, last).is_ge());
        if is_behind {
            return;
        }
        self.kept.push(item);
        if self.kept.len() >= self.at_most.saturating_mul(2) {
            self.drop_others();
        }
    }

    /// Those that are kept.
    pub(super) fn in_order(mut self) -> Vec<T> {
        self.drop_others();
        self.kept.sort_unstable_by(&self.compare);
        self.kept
    }

    fn drop_others(&mut self) {
        if let Some(last) = self.at_most.checked_sub(1)
            && last < self.kept.len()
        {
            self.kept.select_nth_unstable_by(last, &self.compare);
            self.has_last = true;
        }
        self.kept.truncate(self.at_most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_items_are_kept_in_order() {
        let items = [13, 1, 4, 12, 0, 3, 11, 2, 5, 10, 9, 6, 8, 7];
        for at_most in [0, 1, 2, 3, 6, 7, 13, 14, 15, usize::MAX] {
            let mut first = First::new(at_most, i32::cmp);
            items.into_iter().for_each(|item| first.offer(item));
            let expected: Vec<i32> = (0..14).take(at_most).collect();
            assert_eq!(first.in_order(), expected, "{at_most}");
        }
    }

    /// What comes later and is no better is not kept for a moment.
    #[test]
    fn few_more_are_held_than_are_wanted() {
        for reverse in [false, true] {
            let mut first = First::new(10, i32::cmp);
            for item in 0..1_000 {
                first.offer(if reverse { -item } else { item });
                assert!(first.kept.len() < 20);
            }
            assert_eq!(first.in_order().len(), 10);
        }
    }
}
