//! How often scripts do what costs others something: this many times a second, and what is beyond
//! is counted.

use std::time::Instant;

/// Lines that a script writes to the log in one second, and in one run.
const LINES_PER_SECOND: u32 = 10;
pub(crate) const LINES_PER_RUN: u32 = 100;

/// A bucket that fills by so much a second and holds what one second brings.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    left: f64,
    at: Option<Instant>,
}

impl Pace {
    /// A full bucket.
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            left: f64::from(per_second),
            at: None,
        }
    }

    /// Takes one out; `false` if there is none.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let since = self
            .at
            .map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.left = (self.left + since * self.per_second).min(self.per_second);
        let is_there = self.left >= 1.0;
        if is_there {
            self.left -= 1.0;
        }
        is_there
    }
}

/// The lines that a script writes to the log.
#[derive(Debug)]
pub(crate) struct Lines {
    pace: Pace,
    suppressed: u64,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            pace: Pace::new(LINES_PER_SECOND),
            suppressed: 0,
        }
    }

    /// Asks to write a line. `Some` if it may be written: the number of lines before it that were
    /// not, which the log has to tell unless it is 0.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.pace.take(now) {
            return Some(self.take_suppressed());
        }
        self.suppressed += 1;
        None
    }

    /// The number of lines that were not written and not told of yet.
    pub(crate) fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_holds_one_second() {
        let (mut pace, start) = (Pace::new(2), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let mut taken = |millis, times| (0..times).filter(|_| pace.take(at(millis))).count();
        assert_eq!(taken(0, 5), 2);
        assert_eq!(taken(499, 5), 0);
        assert_eq!(taken(1_000, 5), 2);
        assert_eq!(taken(100_000, 5), 2, "no more than one second's");
        assert_eq!(taken(99_000, 5), 0, "a clock that went back");
    }

    #[test]
    fn what_is_not_written_is_told() {
        let (mut lines, start) = (Lines::new(), Instant::now());
        let written = (0..1_000).filter(|_| lines.admit(start).is_some()).count();
        assert_eq!(written, LINES_PER_SECOND as usize);
        let later = start + Duration::from_secs(1);
        assert_eq!(lines.admit(later), Some(990));
        assert_eq!(lines.admit(later), Some(0));
        assert_eq!(lines.take_suppressed(), 0);
    }
}
