//! Places that are held for users who are about to come in.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

/// Places of a room that are held. Each counts as taken for all others than its user.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// For whom, and until when.
    all: Vec<(Arc<str>, Tick)>,
    /// The earliest of these times: it is asked for whenever something happens in the room.
    next: Option<Tick>,
}

impl Holds {
    /// A place is held for a user until then, and not until another time.
    pub(super) fn hold(&mut self, user: &str, until: Tick) {
        self.release(user);
        self.all.push((user.into(), until));
        self.note_next();
    }

    /// No place is held for a user any more. O(holds).
    pub(super) fn release(&mut self, user: &str) {
        self.all.retain(|(holder, _)| **holder != *user);
        self.note_next();
    }

    /// Places that are held for others. Of those for whom places are held, the first come first:
    /// a room that has become smaller must have a place for some of them.
    pub(super) fn of_others(&self, now: Tick, user: &str) -> usize {
        let is_others = |(holder, _): &&(Arc<str>, Tick)| **holder != *user;
        let earlier = self.all.iter().filter(|(_, until)| *until > now);
        match self.has(now, user) {
            true => earlier.take_while(is_others).count(),
            false => earlier.count(),
        }
    }

    /// All that are remembered.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a place is held for a user.
    pub(super) fn has(&self, now: Tick, user: &str) -> bool {
        let is_its = |(holder, until): &(Arc<str>, Tick)| **holder == *user && *until > now;
        self.all.iter().any(is_its)
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Tick) {
        self.all.retain(|(_, until)| *until > now);
        self.note_next();
    }

    fn note_next(&mut self) {
        self.next = self.all.iter().map(|(_, until)| *until).min();
    }

    /// When the next one is over.
    pub(super) const fn next(&self) -> Option<Tick> {
        self.next
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
