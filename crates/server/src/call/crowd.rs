//! The callers that are connected to a call listener, and which of them is disconnected when it is
//! full.
//!
//! Each listener has places of its own, so that a crowd on one does not keep callers from another.
//! A caller that has a place and sends nothing is disconnected first.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Where somebody calls from whom nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The network.
    Address(IpAddr),
    /// This machine: the number of its user.
    User(u32),
}

/// Connections beyond those that are served. Each may send its call and receives the reason why it
/// is not served.
const TURNED_AWAY_MAX: usize = 256;

/// A connection: its key, and its number, since a key may be taken again.
pub(super) type Name = (usize, u64);

/// The connections of one listener.
pub(super) struct Crowd {
    served_max: usize,
    connected: usize,
    /// Those who had not made their call right after they came, and strangers whose messages are
    /// waited for, in that order; some of them may have gone or done it since.
    silent: VecDeque<Name>,
    /// Connections by those who have not shown who they are.
    strangers: HashMap<Origin, usize>,
}

impl Crowd {
    pub(super) fn new(served_max: usize) -> Self {
        Self {
            served_max,
            connected: 0,
            silent: VecDeque::new(),
            strangers: HashMap::new(),
        }
    }

    /// A connection, with its origin if nobody knows who it is.
    pub(super) fn enter(&mut self, origin: Option<Origin>) {
        self.connected += 1;
        if let Some(origin) = origin {
            *self.strangers.entry(origin).or_default() += 1;
        }
    }

    /// One is closed; its origin if nobody knows who it was.
    pub(super) fn leave(&mut self, origin: Option<Origin>) {
        self.connected -= 1;
        self.known(origin);
    }

    /// Somebody from there is no stranger any more, or has gone.
    pub(super) fn known(&mut self, origin: Option<Origin>) {
        let Some(origin) = origin else { return };
        if let Some(count) = self.strangers.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&origin);
            }
        }
    }

    /// More are connected than are served.
    pub(super) const fn is_full(&self) -> bool {
        self.connected > self.served_max
    }

    /// There is no place even for those who are turned away.
    pub(super) const fn is_packed(&self) -> bool {
        self.connected > self.served_max + TURNED_AWAY_MAX
    }

    /// Strangers from one origin have more than half of the places.
    pub(super) fn is_besieged(&self, origin: Option<Origin>) -> bool {
        let count = origin.and_then(|origin| self.strangers.get(&origin));
        count.is_some_and(|count| *count > self.served_max.div_ceil(2))
    }

    /// Somebody has come and says nothing yet, or a stranger's message is waited for.
    pub(super) fn wait(&mut self, name: Name) {
        self.silent.push_back(name);
    }

    /// The caller that has been silent for longest, among those for which this is true.
    pub(super) fn most_silent(&mut self, is_meant: impl FnMut(&Name) -> bool) -> Option<Name> {
        let at = self.silent.iter().position(is_meant)?;
        self.silent.remove(at)
    }

    /// Forgets those who are waited for no more.
    pub(super) fn tidy(&mut self, is_waited_for: impl FnMut(&Name) -> bool) {
        self.silent.retain(is_waited_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_one_goes_first() {
        let mut crowd = Crowd::new(2);
        for number in 0..3 {
            assert!(!crowd.is_full());
            crowd.enter(None);
            crowd.wait((number, 7));
        }
        assert!(crowd.is_full() && !crowd.is_packed());
        // The first one has made its call.
        assert_eq!(crowd.most_silent(|(key, _)| *key != 0), Some((1, 7)));
        crowd.leave(None);
        assert!(!crowd.is_full());
        crowd.tidy(|_| false);
        assert_eq!(crowd.most_silent(|_| true), None);
    }

    #[test]
    fn strangers_of_one_origin_leave_room_for_others() {
        let here = Origin::Address(IpAddr::from([192, 0, 2, 1]));
        let there = Origin::User(2);
        let mut crowd = Crowd::new(4);
        for _ in 0..3 {
            assert!(!crowd.is_besieged(Some(here)));
            crowd.enter(Some(here));
        }
        crowd.enter(Some(there));
        assert!(crowd.is_besieged(Some(here)));
        assert!(!crowd.is_besieged(Some(there)) && !crowd.is_besieged(None));
        // A caller that shows a token is not a stranger.
        crowd.known(Some(here));
        assert!(!crowd.is_besieged(Some(here)));
        for address in [None, Some(here), Some(here), Some(there)] {
            crowd.leave(address);
        }
        assert_eq!((crowd.connected, crowd.strangers.len()), (0, 0));
    }
}
