//! Medians, spreads and ratios of repeated measurements.

/// Median and extremes of some repetitions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The middle value; the mean of the two middle ones of an even number.
    pub(crate) median: f64,
    /// The smallest value.
    pub(crate) low: f64,
    /// The largest value.
    pub(crate) high: f64,
}

impl Spread {
    /// `None` if there are no values or one of them is not a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() || values.iter().any(|v| v.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self {
            median,
            low: values[0],
            high: values[values.len() - 1],
        })
    }

    /// Ratios taken pair by pair, so that what disturbed both of a pair cancels out. Pairs that
    /// miss a side, or whose `below` is zero, are left out.
    pub(crate) fn of_ratios(
        pairs: impl IntoIterator<Item = (Option<f64>, Option<f64>)>,
    ) -> Option<Self> {
        Self::of(
            pairs
                .into_iter()
                .filter_map(|(above, below)| match (above, below) {
                    (Some(above), Some(below)) if below != 0.0 => Some(above / below),
                    _ => None,
                }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
        assert_eq!(
            spread(&[5.0]),
            Some(Spread {
                median: 5.0,
                low: 5.0,
                high: 5.0
            })
        );
        assert_eq!(
            spread(&[3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                low: 1.0,
                high: 3.0
            })
        );
        assert_eq!(
            spread(&[4.0, 1.0]),
            Some(Spread {
                median: 2.5,
                low: 1.0,
                high: 4.0
            })
        );
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        // The machine got slower by half in the third pair: the ratio must not notice.
        let pairs = [(11.0, 10.0), (12.0, 10.0), (22.0, 20.0), (5.0, 0.0)];
        let spread = Spread::of_ratios(pairs.map(|(a, b)| (Some(a), Some(b)))).unwrap();
        assert!((spread.median - 1.1).abs() < 1e-9);
        assert!((spread.high - 1.2).abs() < 1e-9);
        assert_eq!(Spread::of_ratios([(Some(1.0), None)]), None);
    }
}
