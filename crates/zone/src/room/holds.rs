//! Places that are held for users who are about to come in.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::Tick;

/// For whom places of a room are held, and until when. Each counts as taken for all others.
#[derive(Debug, Default)]
pub(super) struct Holds(Vec<(Arc<str>, Tick)>);

impl Holds {
    /// A place is held for a user until then, and not until another time.
    pub(super) fn hold(&mut self, user: &str, until: Tick) {
        self.release(user);
        self.0.push((user.into(), until));
    }

    /// No place is held for a user any more. O(holds).
    pub(super) fn release(&mut self, user: &str) {
        self.0.retain(|(holder, _)| **holder != *user);
    }

    /// Places that are held for others. Of those for whom places are held, the first come first:
    /// a room that has become smaller must have a place for some of them.
    pub(super) fn of_others(&self, now: Tick, user: &str) -> usize {
        let is_others = |(holder, _): &&(Arc<str>, Tick)| **holder != *user;
        let earlier = self.0.iter().filter(|(_, until)| *until > now);
        match self.has(now, user) {
            true => earlier.take_while(is_others).count(),
            false => earlier.count(),
        }
    }

    /// All that are remembered.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a place is held for a user.
    pub(super) fn has(&self, now: Tick, user: &str) -> bool {
        let is_its = |(holder, until): &(Arc<str>, Tick)| **holder == *user && *until > now;
        self.0.iter().any(is_its)
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Tick) {
        self.0.retain(|(_, until)| *until > now);
    }

    /// When the next one is over.
    pub(super) fn next(&self) -> Option<Tick> {
        self.0.iter().map(|(_, until)| *until).min()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
