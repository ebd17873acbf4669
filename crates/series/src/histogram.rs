//! Latency histograms that cost a few instructions per value.

/// Each power of two is divided into this many buckets, so a value is off by at most 1/16.
const SUB_BITS: u32 = 4;
const SUBS: usize = 1 << SUB_BITS;
/// Values up to 2^36 µs, 19 hours; what is above counts as that.
const POWERS: usize = 36 - SUB_BITS as usize + 1;

/// The bounds of a histogram for programs: powers of two from 32 µs to 16.8 s, in seconds, as the
/// text forms of metrics write them.
const BOUNDS: [&str; 20] = [
    "3.2e-05",
    "6.4e-05",
    "0.000128",
    "0.000256",
    "0.000512",
    "0.001024",
    "0.002048",
    "0.004096",
    "0.008192",
    "0.016384",
    "0.032768",
    "0.065536",
    "0.131072",
    "0.262144",
    "0.524288",
    "1.048576",
    "2.097152",
    "4.194304",
    "8.388608",
    "16.777216",
];

/// The first bound is this power of two, in microseconds.
const FIRST_BOUND_BITS: u32 = 5;

/// How many buckets a histogram has.
pub(crate) const BUCKETS: usize = POWERS * SUBS;

/// A log-linear histogram of microseconds. A value in it is at most 1/16 too high.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Of all values.
    sum: u64,
    buckets: Box<[u64; POWERS * SUBS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            sum: 0,
            buckets: Box::new([0; POWERS * SUBS]),
        }
    }
}

/// The bucket of a value: linear below 16, then 16 per power of two.
fn bucket_of(micros: u64) -> usize {
    let bits = u64::BITS - micros.leading_zeros();
    if bits <= SUB_BITS {
        return micros as usize;
    }
    let shift = bits - SUB_BITS - 1;
    let power = shift as usize + 1;
    let sub = (micros >> shift) as usize & (SUBS - 1);
    (power * SUBS + sub).min(POWERS * SUBS - 1)
}

/// The largest value that falls into a bucket.
const fn upper_of(bucket: usize) -> u64 {
    let (power, sub) = (bucket / SUBS, (bucket % SUBS) as u64);
    if power == 0 {
        return sub;
    }
    let shift = power as u32 - 1;
    ((SUBS as u64 + sub + 1) << shift) - 1
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, micros: u64) {
        self.buckets[bucket_of(micros)] += 1;
        self.sum = self.sum.wrapping_add(micros);
    }

    /// Counts `count` values in a bucket, or in the last one if its number is too high.
    pub(crate) fn count_in(&mut self, bucket: usize, count: u64) {
        let at = &mut self.buckets[bucket.min(BUCKETS - 1)];
        *at = at.saturating_add(count);
        let micros = count.wrapping_mul(upper_of(bucket.min(BUCKETS - 1)));
        self.sum = self.sum.wrapping_add(micros);
    }

    /// The buckets that have values, with their counts, the lowest first.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (usize, u64)> {
        let buckets = self.buckets.iter().copied().enumerate();
        buckets.filter(|(_, count)| *count > 0)
    }

    /// What was counted since an earlier state. A count that has become smaller counts as 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut rest = self.clone();
        for (count, less) in rest.buckets.iter_mut().zip(earlier.buckets.iter()) {
            *count = count.saturating_sub(*less);
        }
        rest.sum = rest.sum.wrapping_sub(earlier.sum);
        rest
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *count = count.saturating_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// How many values are below each of `BOUNDS`, which are given in seconds.
    pub fn powers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut below = 0;
        let mut buckets = self.buckets.iter().enumerate().peekable();
        BOUNDS
            .iter()
            .zip(FIRST_BOUND_BITS..)
            .map(move |(bound, bits)| {
                // A value is rounded down to microseconds, so it is below a bound or not.
                while let Some((_, count)) = buckets.next_if(|(at, _)| upper_of(*at) < 1 << bits) {
                    below += count;
                }
                (*bound, below)
            })
    }

    /// How many values there are, and their sum in seconds.
    #[must_use]
    pub fn count_and_secs(&self) -> (u64, f64) {
        let count = self
            .buckets
            .iter()
            .fold(0, |sum: u64, it| sum.saturating_add(*it));
        (count, self.sum as f64 / 1e6)
    }

    /// The values below which that many per mille lie; 0 without values.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let total = self.count_and_secs().0;
        let rank = total.saturating_mul(per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_of(bucket);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_close() {
        let mut last = 0;
        for micros in (0..5_000).chain((13..36).map(|bits| (1 << bits) + 12_345)) {
            let bucket = bucket_of(micros);
            assert!(bucket >= last, "{micros}");
            last = bucket;
            let upper = upper_of(bucket);
            assert!(
                upper >= micros && upper - micros <= micros / 16 + 1,
                "{micros}: {upper}"
            );
        }
        assert_eq!(bucket_of(u64::MAX), POWERS * SUBS - 1);
    }

    #[test]
    fn bounds_count_what_is_below_them() {
        let mut histogram = Histogram::default();
        for micros in [0, 31, 32, 127, 128, 1 << 24, u64::from(u32::MAX)] {
            histogram.record(micros);
        }
        let powers: Vec<_> = histogram.powers().collect();
        assert_eq!(
            powers[..3],
            [("3.2e-05", 2), ("6.4e-05", 3), ("0.000128", 4)]
        );
        assert_eq!(powers[3], ("0.000256", 5));
        assert_eq!(powers[19], ("16.777216", 5));
        for ((bound, _), bits) in powers.iter().zip(FIRST_BOUND_BITS..) {
            let secs: f64 = bound.parse().unwrap();
            assert!((secs * 1e6 - f64::from(1 << bits)).abs() < 1e-6, "{bound}");
        }
        let (count, secs) = histogram.count_and_secs();
        assert_eq!(count, 7);
        assert!((4311.0..4313.0).contains(&secs), "{secs}");
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(1000), 0);
        for micros in 1..=10 {
            histogram.record(micros);
        }
        assert_eq!(histogram.quantile(500), 5);
        assert_eq!(histogram.quantile(1000), 10);
        let mut other = Histogram::default();
        other.record(1_000_000);
        histogram.add(&other);
        assert_eq!(histogram.count_and_secs().0, 11);
        assert!((1_000_000..1_070_000).contains(&histogram.quantile(1000)));
        let since = histogram.since(&other);
        assert_eq!((since.count_and_secs().0, since.quantile(1000)), (10, 10));
    }
}
