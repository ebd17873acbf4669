//! Output that a turn had no time for.
//!
//! A turn writes for [`WRITE_TIME`]. What is left is written in the next turns, which take little
//! from connections and from other shards in the meantime, and nothing from those that gave way:
//! so messages do not come faster than they go. That holds until all is written that was left at
//! the beginning, which is a **round**: then comes a turn that reads as usual, whatever is left.
//!
//! Sessions that got their messages with hundreds of others are written to last. A client that only
//! talks to few is answered in each turn.

use std::collections::VecDeque;
use std::time::Duration;

use stentor_hub::SessionKey;

/// When a turn stops writing, from its beginning.
pub(super) const WRITE_TIME: Duration = Duration::from_micros(2_500);

/// What writing gets in any case, and writing to crowds beside others.
pub(super) const WRITE_TIME_MIN: Duration = Duration::from_millis(1);
pub(super) const CROWD_TIME_MIN: Duration = Duration::from_micros(500);

/// The sessions that have output which was not written yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    sessions: VecDeque<SessionKey>,
    /// How many of them are of the round.
    round: usize,
}

impl Backlog {
    /// Whether nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether a turn reads little, because a round is not over.
    pub(super) const fn is_behind(&self) -> bool {
        self.round > 0
    }

    /// How many sessions have output.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// A session is written to after all others.
    pub(super) fn push(&mut self, session: SessionKey) {
        self.sessions.push_back(session);
    }

    /// The next session that is written to.
    pub(super) fn pop(&mut self) -> Option<SessionKey> {
        let session = self.sessions.pop_front()?;
        self.round = self.round.saturating_sub(1);
        Some(session)
    }

    /// A turn has written what it had time for: the next round begins if the last one is over.
    pub(super) fn end_turn(&mut self, had_round: bool) {
        /// Places that are kept when nothing is left.
        const KEPT: usize = 4_096;
        if !had_round {
            self.round = self.sessions.len();
        }
        if self.sessions.is_empty() && self.sessions.capacity() > KEPT {
            self.sessions = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32) -> SessionKey {
        SessionKey {
            slot,
            generation: 1,
        }
    }

    /// What comes during a round does not make it longer, and the turn after it reads as usual.
    #[test]
    fn a_round_ends_whatever_comes() {
        let mut backlog = Backlog::default();
        (0..3).for_each(|slot| backlog.push(session(slot)));
        assert!(!backlog.is_behind());
        backlog.end_turn(false);
        let mut turns = 0;
        let mut slots = Vec::new();
        while backlog.is_behind() {
            backlog.push(session(9));
            slots.extend(backlog.pop().map(|session| session.slot));
            backlog.end_turn(true);
            turns += 1;
        }
        assert_eq!((turns, slots), (3, vec![0, 1, 2]));
        assert_eq!(backlog.len(), 3);
        // A turn that reads as usual.
        backlog.end_turn(false);
        assert!(backlog.is_behind());
    }
}
