//! Loss, duplicates and order, from the sequence numbers that one subscriber sees of one publisher.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What one arrival means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The expected number.
    InOrder,
    /// Numbers before it are missing so far.
    Ahead,
    /// A number that was missing: it came after a later one.
    Late,
    /// Seen before.
    Duplicate,
}

/// What was wrong with a stream, or with many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// Published and never received.
    pub(crate) lost: u64,
    /// Received more than once (each extra copy).
    pub(crate) duplicated: u64,
    /// Received after a later one.
    pub(crate) reordered: u64,
    /// Not ours, of another publisher, numbered beyond what was published, not what was written
    /// behind the stamp, or on another topic or with another quality of service than it should be.
    pub(crate) corrupt: u64,
}

impl Faults {
    /// All faults together.
    pub(crate) fn total(&self) -> u64 {
        self.lost + self.duplicated + self.reordered + self.corrupt
    }

    /// What there is of each kind, in words.
    pub(crate) fn told(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let kinds = [
            (self.lost, "lost"),
            (self.duplicated, "duplicated"),
            (self.reordered, "out of order"),
            (self.corrupt, "corrupt or foreign"),
        ];
        kinds.into_iter().filter(|(count, _)| *count > 0)
    }
}

impl AddAssign for Faults {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupt += other.corrupt;
    }
}

/// Follows the numbers of one publisher at one subscriber. Sixteen bytes as long as nothing is
/// missing, so that thousands of them stay in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    next: u64,
    /// Missing numbers below `next`.
    gaps: Option<Box<Gaps>>,
}

/// Missing numbers, as first → end (exclusive).
#[derive(Debug, Default)]
struct Gaps(BTreeMap<u64, u64>);

impl Checker {
    /// The lowest number above all that arrived.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes note of an arrival.
    #[inline]
    pub(crate) fn arrive(&mut self, sequence: u64) -> Arrival {
        if sequence == self.next {
            self.next += 1;
            return Arrival::InOrder;
        }
        self.arrive_unexpected(sequence)
    }

    #[cold]
    fn arrive_unexpected(&mut self, sequence: u64) -> Arrival {
        if sequence > self.next {
            self.gaps
                .get_or_insert_default()
                .0
                .insert(self.next, sequence);
            self.next = sequence + 1;
            return Arrival::Ahead;
        }
        let Some(Gaps(gaps)) = self.gaps.as_deref_mut() else {
            return Arrival::Duplicate;
        };
        let hit = gaps
            .range(..=sequence)
            .next_back()
            .map(|(&first, &end)| (first, end));
        let Some((first, end)) = hit.filter(|&(_, end)| sequence < end) else {
            return Arrival::Duplicate;
        };
        gaps.remove(&first);
        if first < sequence {
            gaps.insert(first, sequence);
        }
        if sequence + 1 < end {
            gaps.insert(sequence + 1, end);
        }
        Arrival::Late
    }

    /// How many of the first `published` numbers never arrived.
    pub(crate) fn missing(&self, published: u64) -> u64 {
        let holes: u64 = self
            .gaps
            .iter()
            .flat_map(|gaps| gaps.0.iter())
            .map(|(first, end)| end - first)
            .sum();
        holes + published.saturating_sub(self.next)
    }

    /// Whether some number below [`next`](Self::next) is missing.
    pub(crate) fn has_gaps(&self) -> bool {
        self.gaps.as_ref().is_some_and(|gaps| !gaps.0.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(numbers: &[u64], published: u64) -> Faults {
        let mut checker = Checker::default();
        let mut faults = Faults::default();
        for &number in numbers {
            match checker.arrive(number) {
                Arrival::InOrder | Arrival::Ahead => {}
                Arrival::Late => faults.reordered += 1,
                Arrival::Duplicate => faults.duplicated += 1,
            }
        }
        faults.lost = checker.missing(published);
        faults
    }

    #[test]
    fn a_sound_stream_has_no_faults() {
        assert_eq!(feed(&[0, 1, 2, 3], 4).total(), 0);
        assert_eq!(feed(&[], 0).total(), 0);
    }

    #[test]
    fn bad_streams_are_detected() {
        let fault = |lost, duplicated, reordered| Faults {
            lost,
            duplicated,
            reordered,
            corrupt: 0,
        };
        let cases: [(&[u64], u64, Faults); 10] = [
            (&[0, 1, 3], 4, fault(1, 0, 0)),
            (&[2, 3], 4, fault(2, 0, 0)),
            (&[0, 1], 4, fault(2, 0, 0)),
            (&[], 3, fault(3, 0, 0)),
            (&[0, 1, 1, 2], 3, fault(0, 1, 0)),
            (&[0, 2, 1, 3], 4, fault(0, 0, 1)),
            (&[0, 5, 2, 2], 6, fault(3, 1, 1)),
            (&[0, 5, 1, 4, 3, 2], 6, fault(0, 0, 4)),
            (&[3, 0, 1, 2, 0], 4, fault(0, 1, 3)),
            (&[9, 4, 6, 5, 9], 10, fault(6, 1, 3)),
        ];
        for (numbers, published, expected) in cases {
            assert_eq!(
                feed(numbers, published),
                expected,
                "{numbers:?} of {published}"
            );
        }
    }

    #[test]
    fn a_checker_agrees_with_a_set_on_shuffled_streams() {
        // A small linear congruential generator: the seed is fixed, so a failure repeats itself.
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let published = 1 + random(60);
            let numbers: Vec<u64> = (0..random(120)).map(|_| random(published)).collect();
            let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
            let faults = feed(&numbers, published);
            assert_eq!(
                faults.lost,
                published - distinct.len() as u64,
                "{numbers:?}"
            );
            assert_eq!(
                faults.duplicated,
                (numbers.len() - distinct.len()) as u64,
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn gaps_close_when_everything_came() {
        let mut checker = Checker::default();
        for number in [0, 3, 2, 1] {
            checker.arrive(number);
        }
        assert!(!checker.has_gaps());
        assert_eq!((checker.next(), checker.missing(4)), (4, 0));
    }
}
