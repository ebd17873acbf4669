//! How long the parts of a turn may take.
//!
//! A turn takes what other shards have sent, accepts, and reads; then it writes. Where more is
//! there than fits into [`DRAIN_TIME`], [`ACCEPT_TIME`] and [`READ_TIME`], the rest waits for the
//! next turn, in its order: so everybody is answered in between. The clock is looked at only when
//! enough was done since: a turn with little to do looks at it once.
//!
//! A connection that has more than its share of a turn gives way: it is no longer among those that
//! are read, but among those that go on, whose time comes after. While more connections wait to be
//! read than a few turns have time for, the share of each is smaller. The shares of those that go
//! on are not.

use std::time::Duration;

use stentor_hub::{Hub, OWN_PACKETS};
use stentor_session::Tick;

use crate::clock::Clock;

/// When a turn goes on with other things, from its beginning.
pub(super) const DRAIN_TIME: Duration = Duration::from_millis(1);
pub(super) const ACCEPT_TIME: Duration = Duration::from_micros(1_500);
pub(super) const READ_TIME: Duration = Duration::from_millis(2);

/// What each part gets in any case, from its first look at the clock.
const PART_TIME_MIN: Duration = Duration::from_micros(500);

/// Visits of one part, which take half a millisecond if they take what they should.
const PART_VISITS: u32 = 16_384;

/// The clock is looked at after so much work of the hub, or after this many steps: a read is a
/// step, and one item of another shard.
const WORK: u64 = 512;
const READ_STEPS: u32 = 16;
const DRAIN_STEPS: u32 = 256;

/// Subscribers that messages are handed to in a part that takes little.
const LITTLE_HANDED: u32 = 512;

/// Packets that a connection that is read may always have taken.
const PACKETS_MIN: u32 = 64;

/// In this many turns each connection that has something should have been read.
const ROUND_TURNS: u32 = 4;

/// A part of a turn.
#[derive(Debug)]
pub(super) struct Part {
    /// When it ends; known after the first look at the clock.
    until: Option<Tick>,
    /// When it ends at the earliest.
    earliest: Tick,
    visits_before: u32,
    /// The subscribers that messages were handed to when it ends.
    reached_max: u32,
    /// The work of the hub at the last look.
    work: u64,
    steps: u32,
    steps_max: u32,
}

impl Part {
    /// One of a turn that has begun at `turn`.
    pub(super) fn begin(hub: &Hub, turn: Tick, time: Duration) -> Self {
        Self {
            until: None,
            earliest: turn.after(time),
            visits_before: hub.turn_visits(),
            reached_max: u32::MAX,
            work: hub.turn_work(),
            steps: 0,
            steps_max: READ_STEPS,
        }
    }

    /// The one that takes what other shards have sent.
    pub(super) fn drain(hub: &Hub, turn: Tick) -> Self {
        Self {
            steps_max: DRAIN_STEPS,
            ..Self::begin(hub, turn, DRAIN_TIME)
        }
    }

    /// Output is left of an earlier turn: this part gets its least time, and ends when messages
    /// are handed to many.
    pub(super) fn take_little(&mut self, hub: &Hub) {
        self.earliest = Tick::ZERO;
        self.reached_max = hub.turn_reached().saturating_add(LITTLE_HANDED);
    }

    /// Whether it has to end, after another step.
    #[inline]
    pub(super) fn is_over(&mut self, hub: &Hub, clock: &Clock) -> bool {
        self.steps += 1;
        let work = hub.turn_work();
        if self.steps < self.steps_max && work - self.work < WORK {
            return false;
        }
        self.look(hub, clock, work)
    }

    #[cold]
    fn look(&mut self, hub: &Hub, clock: &Clock, work: u64) -> bool {
        (self.steps, self.work) = (0, work);
        let now = clock.now();
        let earliest = self.earliest;
        let until = self
            .until
            .get_or_insert_with(|| now.after(PART_TIME_MIN).max(earliest));
        now >= *until
            || hub.turn_reached() >= self.reached_max
            || hub.turn_visits() - self.visits_before >= PART_VISITS
    }
}

/// How many packets of a connection that is read are taken: fewer while many connections wait.
#[derive(Debug)]
pub(super) struct Crowd {
    packets: u32,
    /// Turns in a row that did not come to all connections.
    unfinished: u32,
}

impl Crowd {
    pub(super) const fn new() -> Self {
        Self {
            packets: OWN_PACKETS,
            unfinished: 0,
        }
    }

    /// A turn came to all connections, or not. Returns how many packets of each the next one takes.
    pub(super) fn note(&mut self, is_through: bool) -> u32 {
        if is_through {
            self.unfinished = 0;
            self.packets = (self.packets * 2).min(OWN_PACKETS);
        } else {
            self.unfinished += 1;
            if self.unfinished.is_multiple_of(ROUND_TURNS) {
                self.packets = (self.packets / 2).max(PACKETS_MIN);
            }
        }
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_shrinks_while_a_crowd_waits_and_grows_again() {
        let mut crowd = Crowd::new();
        for _ in 0..3 {
            assert_eq!(crowd.note(false), OWN_PACKETS);
        }
        assert_eq!(crowd.note(false), OWN_PACKETS / 2);
        for _ in 0..100 {
            crowd.note(false);
        }
        assert_eq!(crowd.note(false), PACKETS_MIN);
        assert_eq!(crowd.note(true), 2 * PACKETS_MIN);
        for _ in 0..100 {
            crowd.note(true);
        }
        assert_eq!(crowd.note(true), OWN_PACKETS);
    }
}
