//! How long turns take.
//!
//! The time of each turn is taken by one more look at the clock. What a turn did is put together
//! only when it was long, so that everything else costs nothing.

use std::fs::File;
use std::mem;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::time::ClockId;
use stentor_session::Tick;

use super::Shard;
use crate::telemetry::{Entry, LongTurn, TurnReport};

/// Lines about long turns that a shard writes: one in such a time, and with it how many more there
/// were.
const TELL_TIME: Duration = Duration::from_secs(1);

/// The last minute is remembered in this many parts.
const PARTS: usize = 6;
const PART_SECS: u64 = 10;

/// How long turns have taken together at most since the figures of the thread's times were read:
/// so much of the time on a processor may belong to turns before. And how old the figures are at
/// most: so much of the time that it waited may belong to what was before. To read them takes some
/// two microseconds, with which a shard that has little to do should not begin each turn.
const TIMES_TAKEN: Duration = Duration::from_millis(4);
const TIMES_AGE: Duration = Duration::from_millis(100);

/// What is known of the turns of a shard.
pub(super) struct Watch {
    long: u64,
    longest: LongTurn,
    busiest: LongTurn,
    visits_max: u32,
    /// The time on a processor that this turn has given to questions so far, and the most of any
    /// turn.
    asked: Duration,
    asked_max: Duration,
    last_took: Duration,
    /// The longest turn of each part of the last minute, with the number of the part.
    parts: [(u64, LongTurn); PARTS],
    times: Times,
    told_at: Tick,
    /// Long turns that the log has not told of.
    untold: u64,
    flushes_before: u64,
    accepted_before: u64,
}

/// How long this thread has run, and how long it has waited for a processor though it had something
/// to do.
struct Times {
    /// `None` where the system does not tell.
    file: Option<File>,
    read_at: Tick,
    /// How long turns have taken since, together.
    taken: Duration,
    waited: Duration,
    ran: Duration,
}

impl Times {
    /// Those of the thread that calls.
    fn new() -> Self {
        Self {
            file: File::open("/proc/thread-self/schedstat").ok(),
            read_at: Tick::ZERO,
            taken: Duration::ZERO,
            waited: Duration::ZERO,
            ran: Duration::ZERO,
        }
    }

    /// Reads them. Returns how much was added to each: waited, ran.
    fn read(&mut self, now: Tick) -> (Option<Duration>, Option<Duration>) {
        (self.read_at, self.taken) = (now, Duration::ZERO);
        let (waited, ran) = (self.read_waited(), ran());
        let waited = waited.map(|new| new.saturating_sub(mem::replace(&mut self.waited, new)));
        let ran = ran.map(|new| new.saturating_sub(mem::replace(&mut self.ran, new)));
        (waited, ran)
    }

    fn read_waited(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let len = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let nanos = waited_nanos(std::str::from_utf8(&text[..len]).ok()?)?;
        Some(Duration::from_nanos(nanos))
    }
}

/// How long this thread has been on a processor.
pub(super) fn ran() -> Option<Duration> {
    let time = ClockId::CLOCK_THREAD_CPUTIME_ID.now().ok()?;
    Some(time.into())
}

/// The second of three numbers: time on a processor, time waiting for one, and time slices.
fn waited_nanos(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Watch {
    /// To be called on the shard's thread.
    pub(super) fn new() -> Self {
        Self {
            long: 0,
            longest: LongTurn::default(),
            busiest: LongTurn::default(),
            visits_max: 0,
            asked: Duration::ZERO,
            asked_max: Duration::ZERO,
            last_took: Duration::ZERO,
            parts: Default::default(),
            times: Times::new(),
            told_at: Tick::ZERO,
            untold: 0,
            flushes_before: 0,
            accepted_before: 0,
        }
    }

    /// How many flushes there had been when the turn began.
    pub(super) const fn flushes_before(&self) -> u64 {
        self.flushes_before
    }

    /// How many connections had been accepted when the turn began.
    pub(super) const fn accepted_before(&self) -> u64 {
        self.accepted_before
    }

    /// How long this turn has answered questions.
    pub(super) const fn asked(&self) -> Duration {
        self.asked
    }

    /// How long the last turn took.
    pub(super) const fn last_took(&self) -> Duration {
        self.last_took
    }

    /// Counts the time on a processor since some time as given to questions.
    pub(super) fn asked_since(&mut self, begun: Option<Duration>) {
        let taken = ran().zip(begun);
        let taken = taken.map(|(now, begun)| now.saturating_sub(begun));
        self.asked += taken.unwrap_or_default();
    }

    /// Whether something is to be noted of a turn that took so long.
    fn is_notable(&self, now: Tick, took: Duration) -> bool {
        let part = now.as_secs() / PART_SECS;
        let (of, longest) = &self.parts[part as usize % PARTS];
        *of != part || took > longest.took
    }

    fn note(&mut self, now: Tick, turn: &LongTurn) {
        let part = now.as_secs() / PART_SECS;
        let place = &mut self.parts[part as usize % PARTS];
        if place.0 != part || turn.took > place.1.took {
            *place = (part, turn.clone());
        }
        if turn.took > self.longest.took {
            self.longest = turn.clone();
        }
    }

    /// As [`Self::note`], of a long turn.
    fn note_long(&mut self, turn: &LongTurn) {
        self.long += 1;
        self.untold += 1;
        if turn.busy() > self.busiest.busy() {
            self.busiest = turn.clone();
        }
    }

    /// What is known at a time.
    pub(super) fn report(&self, now: Tick) -> TurnReport {
        let part = now.as_secs() / PART_SECS;
        let is_recent = |(of, _): &&(u64, LongTurn)| of + PARTS as u64 > part;
        let recent = self.parts.iter().filter(is_recent);
        let lately = recent.map(|(_, turn)| turn).max_by_key(|turn| turn.took);
        TurnReport {
            long: self.long,
            longest: self.longest.clone(),
            lately: lately.cloned().unwrap_or_default(),
            busiest: self.busiest.clone(),
            visits_max: self.visits_max,
            asked_max: self.asked_max,
        }
    }
}

impl Shard {
    /// A turn begins.
    pub(super) fn begin_turn(&mut self) {
        self.hub.begin_turn();
        self.watch.flushes_before = self.figures.flushes;
        self.watch.accepted_before = self.figures.accepted;
        let times = &mut self.watch.times;
        if times.taken >= TIMES_TAKEN || self.now.since(times.read_at) >= TIMES_AGE {
            times.read(self.now);
        }
    }

    /// Answers a question, and counts the time on a processor that it takes: to wait for one is not
    /// the fault of who asks.
    pub(super) fn answer_timed(&mut self, answer: impl FnOnce(&mut Self)) {
        let begun = ran();
        answer(self);
        self.watch.asked_since(begun);
    }

    /// A turn is over, except that its slots are not free.
    pub(super) fn end_turn(&mut self) {
        let now = self.context.clock.now();
        let took = now.since(self.now).saturating_sub(self.napped_for());
        self.watch.last_took = took;
        self.watch.times.taken += took;
        self.watch.visits_max = self.watch.visits_max.max(self.hub.turn().visits());
        let asked = mem::take(&mut self.watch.asked);
        self.watch.asked_max = self.watch.asked_max.max(asked);
        let bound = self.policy.slow_turn;
        let is_long = !bound.is_zero() && took >= bound;
        if is_long || self.watch.is_notable(now, took) {
            self.note_turn(now, took, is_long);
        }
    }

    #[cold]
    fn note_turn(&mut self, now: Tick, took: Duration, is_long: bool) {
        let mut turn = LongTurn {
            shard: self.id,
            took,
            ..LongTurn::default()
        };
        if is_long {
            let before = self.watch.times.taken.saturating_sub(took);
            let (waited, ran) = self.watch.times.read(now);
            // What was on a processor in this turn did not wait.
            let ran_least = ran.unwrap_or_default().saturating_sub(before);
            let waited_most = took.saturating_sub(ran_least);
            let done = self.hub.turn().figures();
            turn = LongTurn {
                waited: waited.map(|waited| waited.min(waited_most)),
                ran: ran.map(|ran| ran.min(took)),
                visits: done.visits,
                packets: done.packets,
                deliveries: done.deliveries,
                flushes: self.figures.flushes - self.watch.flushes_before,
                accepted: self.figures.accepted - self.watch.accepted_before,
                client_id: done.client_id.into(),
                ..turn
            };
            self.watch.note_long(&turn);
        }
        self.watch.note(now, &turn);
        if is_long && now.since(self.watch.told_at) >= TELL_TIME {
            self.watch.told_at = now;
            let more = mem::take(&mut self.watch.untold) - 1;
            self.context.journal.note(Entry::LongTurn(turn, more));
            self.context.journal.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(millis: u64) -> LongTurn {
        LongTurn {
            took: Duration::from_millis(millis),
            ..LongTurn::default()
        }
    }

    #[test]
    fn the_longest_turn_is_remembered_and_that_of_the_last_minute() {
        let mut watch = Watch::new();
        for (secs, millis) in [(100, 7), (101, 30), (102, 8), (130, 9), (131, 6)] {
            let now = Tick::from_secs(secs);
            assert_eq!(
                watch.is_notable(now, turn(millis).took),
                !matches!(millis, 6 | 8)
            );
            watch.note(now, &turn(millis));
        }
        let longest = |secs| {
            let report = watch.report(Tick::from_secs(secs));
            (
                report.longest.took.as_millis(),
                report.lately.took.as_millis(),
            )
        };
        assert_eq!(longest(131), (30, 30));
        assert_eq!(longest(159), (30, 30));
        assert_eq!(longest(160), (30, 9));
        assert_eq!(longest(190), (30, 0));
    }

    /// A turn that waited for a processor does not hide a shorter one that did not.
    #[test]
    fn the_busiest_turn_is_the_longest_without_its_waits() {
        let mut watch = Watch::new();
        for (millis, waited) in [(90, Some(80)), (30, Some(2)), (20, None), (40, Some(40))] {
            watch.note_long(&LongTurn {
                waited: waited.map(Duration::from_millis),
                ..turn(millis)
            });
        }
        let report = watch.report(Tick::ZERO);
        assert_eq!((report.long, report.busiest.took.as_millis()), (4, 30));
    }

    #[test]
    fn the_time_in_the_run_queue_is_the_second_number() {
        assert_eq!(waited_nanos("2053 1700 4\n"), Some(1_700));
        assert_eq!(waited_nanos(""), None);
        assert_eq!(waited_nanos("1"), None);
    }
}
