//! Whether a load that goes by the clock was offered, and carried: one rule for all workloads that
//! have intended send times.

use hdrhistogram::Histogram;

use crate::measure::{Leg, Metric, Unit};
use crate::report::number::grouped;

const AFTER_END: Metric = Metric::new("after_end_percent", "after the end", Unit::Percent);

/// Later than this, the generator did not offer the load.
const LATE_MS_MAX: f64 = 50.0;
/// A smaller share of what is due has not been carried.
const SHARE_MIN: f64 = 0.98;
/// The verdict mentions a larger share of due messages that came after the end.
const AFTER_END_MAX: f64 = 0.001;

/// What a load by the clock came to, as far as its verdict goes.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// How much later than intended its messages left, the time apart for which the server took
    /// none.
    pub(crate) lateness: &'a Histogram<u64>,
    /// Messages that should have come out while it was measured, and those that did.
    pub(crate) due: f64,
    pub(crate) came: f64,
    /// This many may be on their way at either end: one message with all of its copies, or one of
    /// each publisher.
    pub(crate) edge: f64,
    /// Of those that were due, those that came when it was no longer measured, or never left.
    pub(crate) after_end: f64,
    /// Messages that never left, since the server took no more.
    pub(crate) unsent: u64,
}

impl Pace<'_> {
    /// That the generator was the limit, if its messages left too late.
    pub(crate) fn limited(&self) -> Option<String> {
        let late_ms = self.lateness.value_at_quantile(0.99) as f64 / 1e6;
        (late_ms > LATE_MS_MAX)
            .then(|| format!("1 % of messages left {late_ms:.0} ms late or more"))
    }

    /// That too little came out in time: more is missing than the edges of the interval explain.
    /// What left late comes late: who was late is asked first.
    pub(crate) fn behind(&self) -> Option<String> {
        let edges = (self.due * (1.0 - SHARE_MIN)).max(self.edge);
        let is_behind = self.due - self.came > edges && self.limited().is_none();
        is_behind.then(|| self.in_time())
    }

    /// How much came out in time, in words.
    pub(crate) fn in_time(&self) -> String {
        let share = self.came / self.due * 100.0;
        let unsent = self.never_left();
        format!("{share:.0} % of what was due came out in time{unsent}")
    }

    fn never_left(&self) -> String {
        match self.unsent {
            0 => String::new(),
            unsent => format!(
                ", {} messages that were due never left since the server took no more",
                grouped(unsent as f64)
            ),
        }
    }

    /// The share of what was due that came after the end.
    fn after_end(&self) -> f64 {
        self.after_end / self.due.max(1.0)
    }

    /// What a sound verdict does not say.
    fn note(&self) -> Option<String> {
        let share = self.after_end();
        (share > AFTER_END_MAX || self.unsent > 0).then(|| {
            let unsent = self.never_left();
            let percent = share * 100.0;
            format!(
                "{percent:.2} % of what was due came after the end of the time measured{unsent}"
            )
        })
    }

    /// Adds the share that came after the end, and what the rule says.
    pub(crate) fn judge(&self, leg: &mut Leg) {
        leg.push(AFTER_END, self.after_end() * 100.0);
        leg.notes.extend(self.note());
        leg.limited = leg.limited.take().or_else(|| self.limited());
        // What left too late cannot have come in time.
        if leg.limited.is_none() {
            leg.behind = leg.behind.take().or_else(|| self.behind());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::histogram;
    use crate::measure::Verdict;

    /// The verdict on a load of which so much came, and left so late, and what is noted.
    fn judged((due, came, edge): (f64, f64, f64), late_ms: u64, after_end: f64) -> Leg {
        let mut lateness = histogram();
        lateness.saturating_record(late_ms * 1_000_000);
        let mut leg = Leg::default();
        let pace = Pace {
            lateness: &lateness,
            due,
            came,
            edge,
            after_end,
            unsent: 0,
        };
        pace.judge(&mut leg);
        leg
    }

    #[test]
    fn what_comes_too_late_was_not_carried() {
        for (load, late_ms, expected) in [
            ((20_000.0, 20_000.0, 2.0), 1, "sound"),
            // More than was due: of the warm-up.
            ((20_000.0, 21_000.0, 2.0), 1, "sound"),
            ((20_000.0, 19_601.0, 2.0), 1, "sound"),
            // The last message of a few is on its way at the end.
            ((10.0, 8.0, 2.0), 1, "sound"),
            ((20_000.0, 19_000.0, 2.0), 1, "failed"),
            // What left late comes late.
            ((20_000.0, 19_000.0, 2.0), 60, "generator-limited"),
            ((20_000.0, 20_000.0, 2.0), 60, "generator-limited"),
        ] {
            let leg = judged(load, late_ms, 0.0);
            assert_eq!(leg.verdict().word(), expected, "{load:?} {late_ms}");
        }
        let why = "4 % of what was due came out in time";
        let leg = judged((20_000.0, 900.0, 2.0), 1, 0.0);
        assert_eq!(leg.verdict(), Verdict::Failed(why.into()));
    }

    #[test]
    fn what_came_after_the_end_is_told() {
        let leg = judged((20_000.0, 19_900.0, 2.0), 1, 100.0);
        assert_eq!(leg.verdict(), Verdict::Sound);
        assert_eq!(leg.figure("after_end_percent"), Some(0.5));
        assert!(leg.notes[0].starts_with("0.50 %"), "{:?}", leg.notes);
        let leg = judged((20_000.0, 19_990.0, 2.0), 1, 10.0);
        assert_eq!(leg.figure("after_end_percent"), Some(0.05));
        assert!(leg.notes.is_empty(), "{:?}", leg.notes);
        let mut leg = Leg::default();
        let pace = Pace {
            lateness: &histogram(),
            due: 20_000.0,
            came: 20_000.0,
            edge: 2.0,
            after_end: 1.0,
            unsent: 1,
        };
        pace.judge(&mut leg);
        assert!(leg.notes[0].contains("1 messages that were due never left"));
    }
}
