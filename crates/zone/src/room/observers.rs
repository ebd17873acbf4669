//! Sessions that hear what happens in a room without being seen.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::effect::Seat;

#[derive(Debug, Default)]
pub(super) struct Observers {
    by_seat: BTreeMap<Seat, Arc<str>>,
}

impl Observers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_seat.is_empty()
    }

    pub(super) fn contains(&self, seat: Seat) -> bool {
        self.by_seat.contains_key(&seat)
    }

    pub(super) fn add(&mut self, user: &str, seat: Seat) {
        self.by_seat.insert(seat, user.into());
    }

    /// False if it is none.
    pub(super) fn remove(&mut self, seat: Seat) -> bool {
        self.by_seat.remove(&seat).is_some()
    }

    /// The sessions by which a user observes are out; where they sat. O(observers).
    pub(super) fn send_out(&mut self, user: &str) -> Vec<Seat> {
        let is_own = |_: &Seat, of: &mut Arc<str>| **of == *user;
        let gone = self.by_seat.extract_if(.., is_own);
        gone.map(|(seat, _)| seat).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_seat.len()
    }

    /// Sends somebody away; returns where it sat.
    pub(super) fn pop(&mut self) -> Option<Seat> {
        self.by_seat.pop_first().map(|(seat, _)| seat)
    }
}
