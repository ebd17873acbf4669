//! Rows become points of a curve.

use crate::{Recorder, Ring, Row};

/// Which points are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// From when, in seconds since 1970.
    pub from: u64,
    /// The end; that second is not in it.
    pub to: u64,
    /// At most this many points.
    pub points: usize,
}

impl Range {
    /// The finest ring that reaches so far back at this time. The ring of seconds is used as far as
    /// the recorder has them.
    #[must_use]
    pub fn ring(&self, now: u64, recorder: &Recorder) -> Ring {
        let back = now.saturating_sub(self.from);
        let has_seconds = recorder
            .seconds_since()
            .is_some_and(|since| since <= self.from);
        let reaches = |ring: &Ring| match ring {
            Ring::Seconds => has_seconds && back <= ring.reach(),
            _ => back <= ring.reach(),
        };
        let found = Ring::ALL.into_iter().find(reaches);
        found.unwrap_or(Ring::Shifts)
    }
}

/// A point of a curve: what was measured in a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The figures. It starts when the period does.
    pub row: Row,
}

/// What was measured in some periods of the same length, the oldest first. Periods in which nothing
/// was measured are missing.
#[derive(Debug, Clone)]
pub struct Curve {
    range: Range,
    /// The length of a period, in seconds.
    step: u64,
    points: Vec<Point>,
    whole: Row,
}

impl Curve {
    /// No points yet. The beginning goes back to that of a period, and the length of the periods is
    /// a multiple of those of the ring.
    #[must_use]
    pub fn new(mut range: Range, ring: Ring) -> Self {
        range.to = range.to.max(range.from);
        let periods = (range.to - range.from).div_ceil(ring.step()).max(1);
        let periods = periods.div_ceil(range.points.max(1) as u64);
        let step = ring.step().saturating_mul(periods);
        range.from -= range.from % step;
        Self {
            range,
            step,
            points: Vec::new(),
            whole: Row::new(range.from),
        }
    }

    /// Adds a row, if it begins in the range. Rows may come in any order.
    pub fn add(&mut self, row: &Row) {
        if !(self.range.from..self.range.to).contains(&row.start) {
            return;
        }
        self.whole.merge(row);
        let start = row.start - row.start % self.step;
        let found = self.points.binary_search_by_key(&start, |it| it.row.start);
        let at = found.unwrap_or_else(|at| {
            let row = Row::new(start);
            self.points.insert(at, Point { row });
            at
        });
        self.points[at].row.merge(row);
    }

    /// From when until when, in seconds since 1970.
    #[must_use]
    pub const fn range(&self) -> (u64, u64) {
        (self.range.from, self.range.to)
    }

    /// The length of the period of a point, in seconds.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// The points, the oldest first.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// All of them together.
    #[must_use]
    pub const fn whole(&self) -> &Row {
        &self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::recorder::tests::sample;

    #[test]
    fn points_are_as_many_as_asked_for_and_merge_in_any_order() {
        let range = Range {
            from: 1_234,
            to: 4_834,
            points: 10,
        };
        let mut curve = Curve::new(range, Ring::Tens);
        assert_eq!((curve.step(), curve.range()), (360, (1_080, 4_834)));
        for start in (0..1_000_u64).map(|it| 9_990 - 10 * it) {
            let mut row = Row::new(start);
            row.secs = 10.0;
            row.spans[2] = Some(Span::of(start as f64, 10.0));
            row.latency.record(start);
            curve.add(&row);
        }
        assert_eq!(curve.points().len(), 11, "the first one has begun before");
        let first = &curve.points()[0].row;
        assert_eq!(first.start, 1_080);
        let span = first.spans[2].unwrap();
        assert_eq!((span.min, span.max), (1_080.0, 1_430.0));
        assert!((span.mean - 1_255.0).abs() < 1e-6);
        assert_eq!(curve.whole().latency.count_and_secs().0, 376);
    }

    #[test]
    fn the_finest_ring_that_reaches_back_is_taken() {
        let now = 100_000_000;
        let mut recorder = Recorder::new(0);
        let ring = |recorder: &Recorder, back: u64| {
            let range = Range {
                from: now - back,
                to: now,
                points: 50,
            };
            range.ring(now, recorder)
        };
        assert_eq!(ring(&recorder, 60), Ring::Tens);
        recorder.sample(&sample(now - 120, 1.0));
        let expected = [
            (60, Ring::Seconds),
            (121, Ring::Tens),
            (21_600, Ring::Tens),
            (21_601, Ring::Minutes),
            (3 * 86_400, Ring::Minutes),
            (35 * 86_400, Ring::Quarters),
            (36 * 86_400, Ring::Shifts),
            (now, Ring::Shifts),
        ];
        for (back, expected) in expected {
            assert_eq!(ring(&recorder, back), expected, "{back}");
        }
    }

    #[test]
    fn odd_ranges_have_a_step() {
        for (from, to, points) in [(5, 5, 0), (9, 3, 1), (0, u64::MAX, 1), (u64::MAX, 0, 7)] {
            let curve = Curve::new(Range { from, to, points }, Ring::Shifts);
            assert!(curve.step() >= Ring::Shifts.step());
        }
    }
}
