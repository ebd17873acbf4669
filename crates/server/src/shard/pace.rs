//! How long the parts of a turn may take.
//!
//! A turn takes what other shards have sent, accepts, and reads; then it writes. Where more is
//! there than fits into the time of a part, the rest waits for the next turn, in its order: so
//! everybody is answered in between. The clock is looked at only when enough was done since: a turn
//! with little to do looks at it once.
//!
//! A connection that has more than its share of a turn gives way: it is no longer among those that
//! are read, but among those that go on, whose time comes after. The time for these and for other
//! shards is short where writing is: see [`Longer`]. While more connections wait to be read than a
//! few turns have time for, the share of each is smaller.

use std::time::Duration;

use stentor_hub::{Beside, HandedOver, Hub, OWN_PACKETS};
use stentor_session::Tick;

use crate::clock::Clock;

/// When a turn goes on with other things, from its beginning.
pub(super) const ACCEPT_TIME: Duration = Duration::from_micros(1_500);
pub(super) const READ_TIME: Duration = Duration::from_millis(2);

/// When a turn stops going on with what earlier turns have left, from its beginning.
pub(super) const ADVANCE_TIME: Duration = Duration::from_micros(2_500);

/// What each kind of that does before the clock is looked at, in visits.
pub(super) const ADVANCE_VISITS: u32 = 1_024;

/// What a turn has for connections that go on, at least and at most.
const LONGER_TIME: (Duration, Duration) = (Duration::from_micros(300), Duration::from_millis(2));

/// They get this many times the time that the turn before has written.
const LONGER_RATIO: u32 = 3;

/// The packets that are taken of each of them at once: about 0.1 ms.
pub(super) const LONGER_PACKETS: u32 = OWN_PACKETS / 4;

/// What each part gets in any case.
const PART_TIME_MIN: Duration = Duration::from_micros(500);

/// The same of a part that only tidies up.
const SHORT_TIME_MIN: Duration = Duration::from_micros(200);

/// Visits of one part, which take half a millisecond if they take what they should.
const PART_VISITS: u32 = 16_384;

/// Bytes that one part puts into the store, about. A long message takes new memory, and that takes
/// its time.
const PART_STORED_BYTES: usize = 128 * 1024;

/// The clock is looked at after so much work of the hub, or after this many steps: a read is a
/// step, and one item of another shard.
const WORK: u64 = 512;
const READ_STEPS: u32 = 16;
const DRAIN_STEPS: u32 = 256;

/// Packets that a connection that is read may always have taken.
const PACKETS_MIN: u32 = 64;

/// In this many turns each connection that has something should have been read.
const ROUND_TURNS: u32 = 4;

/// A part of a turn.
#[derive(Debug)]
pub(super) struct Part {
    /// When it ends.
    until: Tick,
    /// When it ends at the earliest, however late it began.
    earliest: Tick,
    extent: Extent,
    visits_before: u32,
    stored_before: usize,
    /// The work of the hub at the last look.
    work: u64,
    steps: u32,
    steps_max: u32,
}

/// How much a part takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Usual,
    /// Output is left of an earlier turn.
    Little,
}

impl Part {
    /// One that begins now, of a turn that has begun at `turn`.
    pub(super) fn begin(hub: &Hub, turn: Tick, now: Tick, time: Duration) -> Self {
        Self::lasting(hub, turn, now, time, PART_TIME_MIN)
    }

    /// The one that tidies up, and gets little time in any case.
    pub(super) fn short(hub: &Hub, turn: Tick, now: Tick, time: Duration) -> Self {
        Self::lasting(hub, turn, now, time, SHORT_TIME_MIN)
    }

    fn lasting(hub: &Hub, turn: Tick, now: Tick, time: Duration, least: Duration) -> Self {
        let earliest = now.after(least);
        Self {
            until: turn.after(time).max(earliest),
            earliest,
            extent: Extent::Usual,
            visits_before: hub.turn().visits(),
            stored_before: hub.turn().handed_over().stored_bytes,
            work: hub.turn().work(),
            steps: 0,
            steps_max: READ_STEPS,
        }
    }

    /// The same, if its steps take long: the clock is looked at after each.
    pub(super) const fn of_long_steps(self) -> Self {
        Self {
            steps_max: 1,
            ..self
        }
    }

    /// The one that takes what other shards have sent. The turn has just begun.
    pub(super) fn drain(hub: &Hub, turn: Tick, longer: &Longer) -> Self {
        let until = turn.after(longer.time() / 2);
        Self {
            until,
            earliest: until,
            steps_max: DRAIN_STEPS,
            ..Self::begin(hub, turn, turn, Duration::ZERO)
        }
    }

    /// The one that goes on with connections that have had their share, from now on. A turn that
    /// has read for long already has little time for them.
    pub(super) fn go_on(hub: &Hub, turn: Tick, now: Tick, longer: &Longer) -> Self {
        let (least, _) = LONGER_TIME;
        let end = turn.after(READ_TIME).max(now.after(least));
        Self {
            until: now.after(longer.time()).min(end),
            ..Self::begin(hub, turn, now, Duration::ZERO)
        }
    }

    /// What was read is not work of the hub, or not yet: the clock says what it took.
    #[inline]
    pub(super) const fn look_next(&mut self) {
        self.steps = self.steps_max;
    }

    /// Output is left of an earlier turn: this part gets its least time, and ends when too many
    /// messages are handed to many.
    pub(super) fn take_little(&mut self, hub: &mut Hub) {
        self.until = self.earliest;
        self.extent = Extent::Little;
        hub.turn_mut().count_beside(Beside::OutputLeft);
    }

    /// Whether it has to end, after another step.
    #[inline]
    pub(super) fn is_over(&mut self, hub: &Hub, clock: &Clock) -> bool {
        self.steps += 1;
        let work = hub.turn().work();
        if self.steps < self.steps_max && work - self.work < WORK {
            return false;
        }
        (self.steps, self.work) = (0, work);
        self.has_enough(clock.now(), hub.turn().visits(), &hub.turn().handed_over())
    }

    /// Whether it has had its time, or all that a part takes of what the turn has done.
    fn has_enough(&self, now: Tick, visits: u32, handed: &HandedOver) -> bool {
        now >= self.until
            || self.extent == Extent::Little && handed.is_too_much
            || handed.stored_bytes - self.stored_before >= PART_STORED_BYTES
            || visits - self.visits_before >= PART_VISITS
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

/// How long a turn goes on with connections that have had their share. It takes what other shards
/// have sent for half of this time.
///
/// Everybody waits for the end of a turn, so it should be short. But each turn writes to each
/// client once, and a short turn writes little to many clients. So the time grows with the time
/// that writing takes.
#[derive(Debug)]
pub(super) struct Longer {
    time: Duration,
}

impl Longer {
    pub(super) const fn new() -> Self {
        Self {
            time: LONGER_TIME.0,
        }
    }

    /// What the next turn has for it.
    pub(super) const fn time(&self) -> Duration {
        self.time
    }

    /// A turn that went on with some has written for so long.
    pub(super) fn note(&mut self, wrote: Duration) {
        let (least, most) = LONGER_TIME;
        self.time = (wrote * LONGER_RATIO).clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_by_its_time_its_visits_or_what_it_has_stored() {
        let until = Tick::from_secs(2);
        let part = Part {
            until,
            earliest: until,
            extent: Extent::Usual,
            visits_before: 100,
            stored_before: 1_000,
            work: 0,
            steps: 0,
            steps_max: READ_STEPS,
        };
        let handed = |stored_bytes, is_too_much| HandedOver {
            stored_bytes,
            is_too_much,
            ..HandedOver::default()
        };
        let soon = Tick::from_secs(1);
        let stored = 1_000 + PART_STORED_BYTES;
        let visits = 100 + PART_VISITS;
        assert!(!part.has_enough(soon, visits - 1, &handed(stored - 1, true)));
        assert!(part.has_enough(until, visits - 1, &handed(stored - 1, false)));
        assert!(part.has_enough(soon, visits, &handed(stored - 1, false)));
        assert!(part.has_enough(soon, visits - 1, &handed(stored, false)));
        let part = Part {
            extent: Extent::Little,
            ..part
        };
        assert!(part.has_enough(soon, visits - 1, &handed(stored - 1, true)));
    }

    #[test]
    fn what_goes_on_has_longer_when_writing_takes_longer() {
        let mut longer = Longer::new();
        assert_eq!(longer.time(), LONGER_TIME.0);
        longer.note(Duration::from_micros(300));
        assert_eq!(longer.time(), Duration::from_micros(900));
        longer.note(Duration::from_millis(5));
        assert_eq!(longer.time(), LONGER_TIME.1);
        longer.note(Duration::ZERO);
        assert_eq!(longer.time(), LONGER_TIME.0);
    }

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
