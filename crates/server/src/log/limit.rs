//! Lines that would repeat without end: written this many times per period, or once per subject.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It is written. `held_back` lines of its kind were not, since the last one that was; the
    /// line should say so unless it is 0.
    Write {
        /// The number of lines that were held back.
        held_back: u64,
    },
    /// It is held back, and counted.
    HoldBack,
}

/// Lets a kind of line through at most this many times per period, and counts the others. It holds
/// no clock: the caller says what time it is.
#[derive(Debug, Clone)]
pub struct RateLimit {
    lines_max: u32,
    period: Duration,
    began: Option<Instant>,
    lines: u32,
    held_back: u64,
}

impl RateLimit {
    /// At most `lines_max` lines in each `period`, which begins with a line.
    #[must_use]
    pub const fn new(lines_max: u32, period: Duration) -> Self {
        Self {
            lines_max,
            period,
            began: None,
            lines: 0,
            held_back: 0,
        }
    }

    /// Asks to write a line.
    pub fn admit(&mut self, now: Instant) -> Admission {
        let within = self
            .began
            .is_some_and(|began| now.duration_since(began) < self.period);
        if !within {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines < self.lines_max {
            self.lines += 1;
            Admission::Write {
                held_back: std::mem::take(&mut self.held_back),
            }
        } else {
            self.held_back += 1;
            Admission::HoldBack
        }
    }
}

/// Tells the first time of each subject from the later ones, for lines that are written once per
/// client and topic, for example.
///
/// It remembers a bounded number of subjects; when more come, it forgets all and begins again, so
/// that a flood of subjects costs a repeated line now and then, not memory.
#[derive(Debug, Clone)]
pub struct FirstTimes<K> {
    seen: HashSet<K>,
    subjects_max: usize,
}

impl<K: Eq + Hash> FirstTimes<K> {
    /// Remembers up to `subjects_max` subjects.
    #[must_use]
    pub fn new(subjects_max: usize) -> Self {
        Self {
            seen: HashSet::new(),
            subjects_max,
        }
    }

    /// Whether this is the first time of `subject`.
    pub fn is_first(&mut self, subject: K) -> bool {
        if self.seen.contains(&subject) {
            return false;
        }
        if self.seen.len() >= self.subjects_max {
            self.seen.clear();
        }
        self.seen.insert(subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_held_back_and_counted() {
        let mut limit = RateLimit::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let mut at = |secs| limit.admit(start + Duration::from_secs(secs));
        assert_eq!(at(0), Admission::Write { held_back: 0 });
        assert_eq!(at(1), Admission::Write { held_back: 0 });
        assert_eq!(at(2), Admission::HoldBack);
        assert_eq!(at(9), Admission::HoldBack);
        assert_eq!(at(10), Admission::Write { held_back: 2 });
        assert_eq!(at(11), Admission::Write { held_back: 0 });
        assert_eq!(at(12), Admission::HoldBack);
        assert_eq!(at(100), Admission::Write { held_back: 1 });
    }

    #[test]
    fn a_subject_is_new_once_while_it_is_remembered() {
        let mut first = FirstTimes::new(2);
        assert!(first.is_first("a") && first.is_first("b"));
        assert!(!first.is_first("a") && !first.is_first("b"));
        assert!(first.is_first("c"), "the third subject makes room");
        assert!(first.is_first("a") && !first.is_first("c"));
    }
}
