//! What one figure was in a period.

/// The least, mean and highest value of a figure, and how long it was known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The least value.
    pub min: f32,
    /// The highest one.
    pub max: f32,
    /// The mean, each value weighted with the time that it stood for.
    pub mean: f64,
    /// The time that the values stood for, in seconds.
    pub secs: f64,
}

impl Span {
    /// One value that stood for some seconds. A value that is not finite counts as 0.
    #[must_use]
    pub fn of(value: f64, secs: f64) -> Self {
        let value = if value.is_finite() { value } else { 0.0 };
        let narrow = (value as f32).clamp(f32::MIN, f32::MAX);
        Self {
            min: narrow,
            max: narrow,
            mean: f64::from(narrow),
            secs,
        }
    }

    /// Both together.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let secs = self.secs + other.secs;
        let share = if secs > 0.0 { other.secs / secs } else { 0.5 };
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            mean: self.mean + (other.mean - self.mean) * share,
            secs,
        }
    }

    /// Adds it to what is known of the figure.
    pub(crate) fn add_to(self, known: &mut Option<Self>) {
        *known = Some(known.map_or(self, |known| known.merged(self)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_weighted_with_time() {
        let both = Span::of(10.0, 1.0).merged(Span::of(40.0, 2.0));
        assert_eq!((both.min, both.max), (10.0, 40.0));
        assert!((both.mean - 30.0).abs() < 1e-9, "{both:?}");
        assert!((both.secs - 3.0).abs() < 1e-9);
        let none = Span::of(2.0, 0.0).merged(Span::of(4.0, 0.0));
        assert!((none.mean - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_a_number_counts_as_zero() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Span::of(odd, 1.0), Span::of(0.0, 1.0));
        }
        assert!(Span::of(f64::MAX, 1.0).max.is_finite());
    }
}
