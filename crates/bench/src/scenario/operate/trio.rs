//! The same load measured three times on one server: quiet, with something beside it, and quiet
//! again.

use crate::error::BenchError;
use crate::measure::{Leg, Metric};

/// What came of it.
#[derive(Debug)]
pub(super) struct Trio {
    before: Leg,
    with: Leg,
    after: Leg,
}

/// The names of one figure of the load, and of what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// The figure.
    pub(super) of: Metric,
    /// In the quiet, the mean of both times; and with something beside it.
    pub(super) quiet: Metric,
    pub(super) with: Metric,
    /// The second of these to the first.
    pub(super) ratio: Metric,
    /// The second quiet time to the first one.
    pub(super) control: Metric,
}

impl Trio {
    /// Measures. `begin` begins what is beside the load the second time, and `end` ends it.
    ///
    /// # Errors
    /// When the load cannot run, or what is beside it.
    pub(super) fn measure<T, U>(
        mut load: impl FnMut() -> Result<Leg, BenchError>,
        begin: impl FnOnce() -> Result<T, BenchError>,
        end: impl FnOnce(T) -> Result<U, BenchError>,
    ) -> Result<(Self, U), BenchError> {
        let before = load()?;
        let beside = begin()?;
        let with = load()?;
        let came = end(beside)?;
        let after = load()?;
        let trio = Self {
            before,
            with,
            after,
        };
        Ok((trio, came))
    }

    /// Adds a figure.
    pub(super) fn tell(&self, leg: &mut Leg, told: &Told) {
        let figure = |leg: &Leg| leg.figure(told.of.key).filter(|value| *value > 0.0);
        let (before, with) = (figure(&self.before), figure(&self.with));
        let after = figure(&self.after);
        let quiet = before.zip(after).map(|(one, other)| one.midpoint(other));
        leg.push(told.quiet, quiet);
        leg.push(told.with, with);
        leg.push(
            told.ratio,
            with.zip(quiet).map(|(with, quiet)| with / quiet),
        );
        let control = before.zip(after).map(|(before, after)| after / before);
        leg.push(told.control, control);
    }

    /// Adds what went wrong in any of the three.
    pub(super) fn end(self, leg: &mut Leg) {
        for part in [self.before, self.with, self.after] {
            leg.faults += part.faults;
            leg.failed += part.failed;
            leg.behind = leg.behind.take().or(part.behind);
            leg.limited = leg.limited.take().or(part.limited);
            for note in part.notes {
                if !leg.notes.contains(&note) {
                    leg.notes.push(note);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Unit, Verdict};

    const OF: Metric = Metric::new("each_us", "each", Unit::Micros);
    const TOLD: Told = Told {
        of: OF,
        quiet: Metric::new("quiet_us", "quiet", Unit::Micros),
        with: Metric::new("with_us", "with", Unit::Micros),
        ratio: Metric::new("each_ratio", "ratio", Unit::Ratio),
        control: Metric::new("each_control_ratio", "control", Unit::Ratio),
    };

    fn measured(values: [f64; 3], lost: [u64; 3]) -> Leg {
        let mut each = values.into_iter().zip(lost);
        let load = || {
            let (value, lost) = each.next().expect("three of them");
            let mut leg = Leg::default();
            leg.push(OF, value);
            leg.faults.lost = lost;
            Ok(leg)
        };
        let (trio, came) = Trio::measure(load, || Ok(1), |one| Ok(one + 1)).expect("it runs");
        assert_eq!(came, 2);
        let mut leg = Leg::default();
        trio.tell(&mut leg, &TOLD);
        trio.end(&mut leg);
        leg
    }

    #[test]
    fn a_machine_that_gets_slower_evenly_changes_nothing() {
        let leg = measured([10.0, 15.0, 20.0], [0, 0, 0]);
        let figure = |key| leg.figure(key);
        assert_eq!(figure("each_ratio"), Some(1.0));
        assert_eq!(figure("each_control_ratio"), Some(2.0));
        assert_eq!(
            (figure("quiet_us"), figure("with_us")),
            (Some(15.0), Some(15.0))
        );
        assert_eq!(leg.verdict(), Verdict::Sound);
    }

    #[test]
    fn what_was_lost_in_any_of_them_is_told() {
        let leg = measured([10.0, 0.0, 20.0], [1, 0, 2]);
        assert_eq!(leg.figure("each_ratio"), None, "one was not measured");
        assert_eq!(leg.verdict(), Verdict::Failed("3 lost".into()));
    }
}
