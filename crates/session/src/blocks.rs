//! A queue that grows without moving what is in it.

use alloc::boxed::Box;
use alloc::collections::{VecDeque, vec_deque};
use core::iter::FusedIterator;

/// Entries that are moved at once, at most, when there is more room needed.
const BLOCK: usize = 256;

/// A queue of blocks. While it is short it is a [`VecDeque`] and costs what one costs. A long one
/// gets one block after the other, so that no push moves more than [`BLOCK`] entries: many queues
/// may be as long as each other, and would all be moved on the same message.
#[derive(Debug)]
pub(crate) struct Blocks<T> {
    /// The oldest entries: none only if there are none at all.
    first: VecDeque<T>,
    rest: Option<Box<Rest<T>>>,
}

/// What stands behind the first block.
#[derive(Debug)]
struct Rest<T> {
    /// None of them is empty, and there is one at least.
    blocks: VecDeque<VecDeque<T>>,
    len: usize,
    /// The block that [`Blocks::retain_next`] looks at next: 0 is the first one of the queue.
    next: usize,
}

impl<T> Rest<T> {
    /// Keeps such entries of a block only. What is left joins the block before it where both fit
    /// into one: blocks with few entries would take more room than anybody is charged for.
    fn retain_in(
        &mut self,
        at: usize,
        first: &mut VecDeque<T>,
        keep: impl FnMut(&T) -> bool,
    ) -> usize {
        let Some(mut block) = self.blocks.get_mut(at).map(core::mem::take) else {
            return 0;
        };
        let looked = block.len();
        block.retain(keep);
        self.len -= looked - block.len();
        let before = at.checked_sub(1).and_then(|at| self.blocks.get_mut(at));
        let (before, moved) = match before {
            Some(before) => (before, 0),
            None => (first, block.len()),
        };
        if before.len() + block.len() <= BLOCK {
            before.append(&mut block);
            self.len -= moved;
            self.blocks.remove(at);
        } else {
            self.blocks[at] = block;
            self.next += 1;
        }
        looked
    }
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Blocks<T> {
    pub(crate) const fn new() -> Self {
        Self {
            first: VecDeque::new(),
            rest: None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.as_ref().map_or(0, |rest| rest.len)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, entry: T) {
        if self.rest.is_none() && self.first.len() < BLOCK {
            self.first.push_back(entry);
        } else {
            self.push_behind(entry);
        }
    }

    #[cold]
    fn push_behind(&mut self, entry: T) {
        let rest = self.rest.get_or_insert_with(|| {
            Box::new(Rest {
                blocks: VecDeque::new(),
                len: 0,
                next: 0,
            })
        });
        rest.len += 1;
        match rest.blocks.back_mut() {
            Some(last) if last.len() < BLOCK => last.push_back(entry),
            _ => {
                let mut last = VecDeque::with_capacity(BLOCK);
                last.push_back(entry);
                rest.blocks.push_back(last);
            }
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let entry = self.first.pop_front();
        if self.first.is_empty() && self.rest.is_some() {
            self.next_block();
        }
        entry
    }

    /// The first block is used up.
    #[cold]
    fn next_block(&mut self) {
        let Some(rest) = &mut self.rest else {
            return;
        };
        if let Some(next) = rest.blocks.pop_front() {
            rest.len -= next.len();
            rest.next = rest.next.saturating_sub(1);
            self.first = next;
        }
        if rest.blocks.is_empty() {
            self.rest = None;
        }
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.first.front()
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut T> {
        self.first.front_mut()
    }

    #[inline]
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        match &mut self.rest {
            None => self.first.back_mut(),
            Some(rest) => rest.blocks.back_mut()?.back_mut(),
        }
    }

    #[inline]
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        Iter {
            block: self.first.iter(),
            rest: self.rest.as_ref().map(|rest| rest.blocks.iter()),
        }
    }

    /// The entries from a place on. O(blocks).
    pub(crate) fn iter_from(&self, mut from: usize) -> Iter<'_, T> {
        let mut all = self.iter();
        while from > 0 {
            let here = all.block.len();
            if from < here || all.rest.as_ref().is_none_or(|rest| rest.len() == 0) {
                all.block.by_ref().take(from).for_each(drop);
                break;
            }
            from -= here;
            all.block = { all.rest.as_mut() }
                .and_then(Iterator::next)
                .map_or_else(Default::default, VecDeque::iter);
        }
        all
    }

    /// The entries behind the last one that was passed. `is_passed` says that of an entry, and
    /// nothing of some; those of which it says something come in this order: passed, then not.
    /// O(log blocks), and two blocks.
    pub(crate) fn iter_behind(&self, is_passed: impl Fn(&T) -> Option<bool>) -> Iter<'_, T> {
        let has_passed = |block: &VecDeque<T>| block.iter().find_map(&is_passed) == Some(true);
        let blocks = self.rest.as_ref().map(|rest| &rest.blocks);
        // The last block that begins with one that was passed.
        let passed = blocks.map_or(0, |blocks| blocks.partition_point(has_passed));
        let mut rest = blocks.map(VecDeque::iter);
        let block = match passed.checked_sub(1) {
            Some(at) => rest.as_mut().and_then(|rest| rest.nth(at)),
            None => None,
        };
        let block = block.unwrap_or(&self.first);
        let at = block.iter().rposition(|it| is_passed(it) == Some(true));
        Iter {
            block: block.range(at.map_or(0, |at| at + 1)..),
            rest,
        }
    }

    /// Takes everything out.
    pub(crate) fn take(&mut self) -> Drain<T> {
        Drain(core::mem::take(self))
    }

    /// Keeps such entries only, in the next block of at most [`BLOCK`] entries. Returns how many
    /// entries it looked at, and whether that was the last block: the next call begins with the
    /// first one then. Entries that are pushed in the meantime are looked at as well. O([`BLOCK`]).
    pub(crate) fn retain_next(&mut self, keep: impl FnMut(&T) -> bool) -> (usize, bool) {
        let Some(rest) = &mut self.rest else {
            let looked = self.first.len();
            self.first.retain(keep);
            return (looked, true);
        };
        let Some(at) = rest.next.checked_sub(1) else {
            let looked = self.first.len();
            self.first.retain(keep);
            rest.next = 1;
            if self.first.is_empty() {
                self.next_block();
            }
            return (looked, false);
        };
        let looked = rest.retain_in(at, &mut self.first, keep);
        let is_last = rest.next > rest.blocks.len();
        if is_last {
            rest.next = 0;
        }
        if rest.blocks.is_empty() {
            self.rest = None;
        }
        (looked, is_last)
    }

    /// Empties it, and gives back the room for more than this many entries.
    pub(crate) fn reset(&mut self, keep: usize) {
        self.rest = None;
        self.first.clear();
        self.first.shrink_to(keep);
    }
}

/// The entries, one after the other.
pub(crate) struct Iter<'q, T> {
    /// The rest of the present block.
    block: vec_deque::Iter<'q, T>,
    /// The blocks behind it.
    rest: Option<vec_deque::Iter<'q, VecDeque<T>>>,
}

impl<'q, T> Iterator for Iter<'q, T> {
    type Item = &'q T;

    #[inline]
    fn next(&mut self) -> Option<&'q T> {
        match self.block.next() {
            None if self.rest.is_some() => self.next_of_rest(),
            next => next,
        }
    }
}

impl<'q, T> Iter<'q, T> {
    #[cold]
    fn next_of_rest(&mut self) -> Option<&'q T> {
        // No block is empty.
        self.block = self.rest.as_mut()?.next()?.iter();
        self.block.next()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}

/// The entries, taken out of their queue. Dropping it drops the rest.
#[derive(Debug)]
pub(crate) struct Drain<T>(Blocks<T>);

impl<T> Iterator for Drain<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}

impl<T> FusedIterator for Drain<T> {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::random::random;

    /// Whether two blocks that follow each other never fit into one. The first may have been used
    /// since.
    fn is_dense<T>(blocks: &Blocks<T>) -> bool {
        let rest = blocks.rest.iter().flat_map(|rest| &rest.blocks);
        let lens: Vec<usize> = rest.map(VecDeque::len).collect();
        lens.windows(2).all(|two| two[0] + two[1] > BLOCK)
    }

    /// What a [`VecDeque`] does, this does.
    #[test]
    fn it_is_a_queue() {
        let mut random = random(5);
        for round in 0..60 {
            let (mut blocks, mut plain) = (Blocks::new(), VecDeque::new());
            let mut number = 0;
            // Sometimes it grows, sometimes it shrinks.
            for _ in 0..60 {
                match random(8) {
                    0..=2 => {
                        for _ in 0..random(500) {
                            number += 1;
                            blocks.push_back(number);
                            plain.push_back(number);
                        }
                    }
                    3 | 4 => {
                        for _ in 0..random(600) {
                            assert_eq!(blocks.pop_front(), plain.pop_front());
                        }
                    }
                    5 => {
                        let modulus = [2 + random(5), 2 + random(300)][random(2)];
                        let (mut looked, mut is_last) = (0, false);
                        while !is_last {
                            let (some, last) = blocks.retain_next(|number| number % modulus == 0);
                            assert!(some <= BLOCK, "it looks at one block");
                            (looked, is_last) = (looked + some, last);
                        }
                        assert!(looked >= plain.len(), "it looks at all of them");
                        plain.retain(|number| number % modulus == 0);
                        assert!(is_dense(&blocks), "no two blocks fit into one");
                    }
                    6 => {
                        if let Some(last) = blocks.back_mut() {
                            *last += 1_000_000;
                        }
                        if let Some(last) = plain.back_mut() {
                            *last += 1_000_000;
                        }
                        assert_eq!(blocks.front_mut(), plain.front_mut());
                    }
                    _ if random(4) == 0 => {
                        assert!(blocks.take().eq(core::mem::take(&mut plain)));
                    }
                    _ => {}
                }
                assert_eq!(blocks.front(), plain.front());
                let len = (blocks.len(), blocks.is_empty());
                assert_eq!(len, (plain.len(), plain.is_empty()));
                assert!(blocks.iter().eq(&plain), "round {round}");
                let at = random(plain.len() + 9);
                assert!(blocks.iter_from(at).eq(plain.iter().skip(at)), "from {at}");
                // Of some nothing is known.
                let last = plain.get(at).copied().unwrap_or(0);
                let known = |it: &usize| (it % 7 != 3).then_some(*it <= last);
                let passed = plain.iter().rposition(|it| known(it) == Some(true));
                let behind = plain.iter().skip(passed.map_or(0, |at| at + 1));
                assert!(blocks.iter_behind(known).eq(behind), "behind {last}");
            }
        }
    }

    /// A short one costs what a [`VecDeque`] costs, and no push moves a long one.
    #[test]
    fn it_grows_without_moving_what_is_there() {
        let (mut blocks, mut plain) = (Blocks::new(), VecDeque::new());
        for number in 0..BLOCK {
            blocks.push_back(number);
            plain.push_back(number);
            assert_eq!(blocks.first.capacity(), plain.capacity());
        }
        assert!(blocks.rest.is_none());
        let mut places: Vec<*const usize> = Vec::new();
        for number in BLOCK..100 * BLOCK {
            blocks.push_back(number);
            places.extend(
                blocks
                    .back_mut()
                    .map(core::ptr::from_mut)
                    .map(<*mut usize>::cast_const),
            );
        }
        let behind = blocks.iter().skip(BLOCK).map(core::ptr::from_ref);
        assert!(behind.eq(places), "they stand where they were put");
        let capacity = |block: &VecDeque<usize>| block.capacity();
        let rest = blocks
            .rest
            .as_ref()
            .map_or(0, |rest| rest.blocks.iter().map(capacity).sum());
        assert_eq!(rest, 99 * BLOCK, "there is no room for more");
        while !blocks.retain_next(|number| number % 50 == 0).1 {}
        assert_eq!(
            (blocks.len(), blocks.iter().count()),
            (2 * BLOCK, 2 * BLOCK)
        );
        let blocks_left = blocks.rest.as_ref().map_or(0, |rest| rest.blocks.len());
        assert_eq!(blocks_left, 1);
        blocks.reset(64);
        assert!(blocks.is_empty() && blocks.first.capacity() <= 64);
    }
}
