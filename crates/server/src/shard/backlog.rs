//! Output that a turn had no time for.
//!
//! A turn writes for [`WRITE_TIME`]. What is left is written in the next turns. They take little
//! from connections and from other shards in the meantime, and nothing from those that gave way, or
//! that have just sent to hundreds: so messages do not come faster than they go. That holds until
//! all is written that was left at the beginning, which is a **round**: then comes a turn that
//! reads as usual, whatever is left.
//!
//! If more messages for a crowd wait only for the next turn, the crowd is not written to: each
//! session gets several messages by one write then. The backlog **fills** until nothing more comes
//! at once, or each session has enough.
//!
//! Sessions that got their messages with hundreds of others are written to after the others. A
//! client that only talks to few is answered in each turn.
//!
//! A session for which more than 16 KiB are to be written is **bulk**, and comes last of all, in a
//! line of its own: nobody else waits for the bytes of a crowd. One write takes at most 256 KiB of
//! a long packet. The session stays at the head of its line until the packet is through, over as
//! many turns as that takes. So a round is as long as if the packet had gone at once. A turn that
//! has written to others writes less bulk, but some in any case.

use std::collections::VecDeque;
use std::time::Duration;

use stentor_hub::SessionKey;
use stentor_session::Tick;

/// When a turn stops writing, from its beginning.
pub(super) const WRITE_TIME: Duration = Duration::from_micros(2_500);

/// What writing gets in any case, and writing to crowds beside others.
pub(super) const WRITE_TIME_MIN: Duration = Duration::from_millis(1);
pub(super) const CROWD_TIME_MIN: Duration = Duration::from_micros(500);

/// What bulk gets in any case: in a turn that has written to others, and in one that has not.
pub(super) const BULK_TIME_MIN: (Duration, Duration) =
    (Duration::from_micros(250), Duration::from_millis(1));

/// How long a backlog fills at most, and what its sessions get in the meantime: messages on the
/// average, and bytes.
const FILL_TIME: Duration = Duration::from_millis(100);
const FILL_MESSAGES: u64 = 32;
const FILL_BYTES: usize = 64 * 1024;

/// The sessions that have output which was not written yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    sessions: VecDeque<SessionKey>,
    /// Those for which much is to be written.
    bulk: VecDeque<SessionKey>,
    stage: Stage,
}

/// What becomes of it.
#[derive(Debug, Default)]
enum Stage {
    /// It is written to.
    #[default]
    Open,
    /// More is to come.
    Filling(Fill),
    /// This many of its sessions are of the round.
    Round { sessions: usize, bulk: usize },
}

/// What has come since a backlog fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    /// When it began.
    pub(super) since: Tick,
    /// Subscribers that messages were handed to.
    pub(super) reached: u64,
    /// Bytes of these messages.
    pub(super) bytes: usize,
}

impl Backlog {
    /// Whether nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.bulk.is_empty()
    }

    /// Whether a turn reads little, because a round is not over.
    pub(super) const fn is_behind(&self) -> bool {
        matches!(self.stage, Stage::Round { .. })
    }

    /// Whether it was not written to in the last turn, because more was to come.
    pub(super) const fn is_filling(&self) -> bool {
        matches!(self.stage, Stage::Filling(_))
    }

    /// How many sessions are not bulk, as far as is known, and how many are.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.sessions.len(), self.bulk.len())
    }

    /// A session is written to after all others, except bulk.
    pub(super) fn push(&mut self, session: SessionKey) {
        self.sessions.push_back(session);
    }

    /// A session that is bulk is written to after all others.
    pub(super) fn push_bulk(&mut self, session: SessionKey) {
        self.bulk.push_back(session);
    }

    /// The session that bulk was written to last has more of the same packet.
    pub(super) fn go_on_with(&mut self, session: SessionKey) {
        if let Stage::Round { bulk, .. } = &mut self.stage {
            *bulk += 1;
        }
        self.bulk.push_front(session);
    }

    /// Whether it is not written to in this turn, which has brought this, because more is to come
    /// in the next one.
    pub(super) fn fills(&mut self, goes_on: bool, turn: Fill) -> bool {
        let fill = match self.stage {
            Stage::Round { .. } => return false,
            Stage::Open => turn,
            Stage::Filling(fill) => Fill {
                since: fill.since,
                reached: fill.reached + turn.reached,
                bytes: fill.bytes.saturating_add(turn.bytes),
            },
        };
        let fills = goes_on
            && !self.sessions.is_empty()
            && turn.since.since(fill.since) < FILL_TIME
            && fill.reached < FILL_MESSAGES * self.sessions.len() as u64
            && fill.bytes < FILL_BYTES;
        self.stage = if fills {
            Stage::Filling(fill)
        } else {
            Stage::Open
        };
        fills
    }

    /// The next session that is written to before bulk.
    pub(super) fn pop(&mut self) -> Option<SessionKey> {
        let session = self.sessions.pop_front()?;
        if let Stage::Round { sessions, .. } = &mut self.stage {
            *sessions = sessions.saturating_sub(1);
        }
        Some(session)
    }

    /// The next session that bulk is written to.
    pub(super) fn pop_bulk(&mut self) -> Option<SessionKey> {
        let session = self.bulk.pop_front()?;
        if let Stage::Round { bulk, .. } = &mut self.stage {
            *bulk = bulk.saturating_sub(1);
        }
        Some(session)
    }

    /// A turn has written what it had time for. The next round begins with what is left, if none
    /// was under way; when one is over, the next turn reads as usual.
    pub(super) fn end_turn(&mut self) {
        /// Places that are kept when nothing is left.
        const KEPT: usize = 4_096;
        match self.stage {
            Stage::Round {
                sessions: 0,
                bulk: 0,
            } => self.stage = Stage::Open,
            Stage::Open if !self.is_empty() => {
                let (sessions, bulk) = self.len();
                self.stage = Stage::Round { sessions, bulk };
            }
            _ => {}
        }
        for line in [&mut self.sessions, &mut self.bulk] {
            if line.is_empty() && line.capacity() > KEPT {
                *line = VecDeque::new();
            }
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
        backlog.end_turn();
        let mut turns = 0;
        let mut slots = Vec::new();
        while backlog.is_behind() {
            backlog.push(session(9));
            slots.extend(backlog.pop().map(|session| session.slot));
            backlog.end_turn();
            turns += 1;
        }
        assert_eq!((turns, slots), (3, vec![0, 1, 2]));
        assert_eq!(backlog.len(), (3, 0));
        // A turn that reads as usual.
        backlog.end_turn();
        assert!(backlog.is_behind());
    }

    /// A long packet goes on where it was cut, and does not end the round early; a round ends when
    /// both lines are through.
    #[test]
    fn bulk_has_its_own_line() {
        let mut backlog = Backlog::default();
        (0..2).for_each(|slot| backlog.push_bulk(session(slot)));
        backlog.push(session(5));
        backlog.end_turn();
        assert_eq!(backlog.pop().map(|session| session.slot), Some(5));
        assert!(backlog.pop().is_none());
        let mut slots = Vec::new();
        for pieces_left in [2, 1, 0, 0] {
            backlog.end_turn();
            assert_eq!(backlog.is_behind(), slots.len() < 4);
            let next = backlog.pop_bulk().unwrap();
            slots.push(next.slot);
            match pieces_left {
                0 => backlog.push_bulk(next),
                _ => backlog.go_on_with(next),
            }
        }
        assert_eq!(slots, [0, 0, 0, 1]);
        backlog.end_turn();
        assert!(!backlog.is_behind() && !backlog.is_empty());
        // Sessions that are not bulk and come during a round do not end it.
        backlog.end_turn();
        backlog.push(session(6));
        backlog.pop();
        backlog.end_turn();
        assert!(backlog.is_behind());
    }

    /// It fills as long as more comes, but not for ever.
    #[test]
    fn a_backlog_fills_within_its_bounds() {
        let turn = |millis: u64, reached, bytes| Fill {
            since: Tick::from_micros(millis * 1_000),
            reached,
            bytes,
        };
        let mut backlog = Backlog::default();
        assert!(!backlog.fills(true, turn(1, 0, 0)), "nothing is there");
        backlog.push(session(1));
        assert!(!backlog.fills(false, turn(2, 1, 10)), "nothing more comes");
        assert!(backlog.fills(true, turn(3, 1, 10)));
        assert!(backlog.fills(true, turn(102, 30, 10)));
        assert!(!backlog.fills(true, turn(103, 0, 0)), "too long");
        assert!(backlog.fills(true, turn(104, 31, 10)));
        assert!(!backlog.fills(true, turn(104, 1, 10)), "enough messages");
        assert!(backlog.fills(true, turn(105, 1, 65_000)));
        assert!(!backlog.fills(true, turn(105, 1, 1_000)), "enough bytes");
        // What was left at the end of a turn is written first.
        backlog.end_turn();
        assert!(backlog.is_behind() && !backlog.fills(true, turn(106, 1, 1)));
    }
}
