//! Ranges of numbers, as somebody who looks for a room wishes for them.

use serde_json::Value;

/// A range of numbers, its ends included. Where an end is missing, there is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

impl Range {
    /// Whether no number is in it.
    pub(crate) fn is_empty(&self) -> bool {
        matches!((self.min, self.max), (Some(min), Some(max)) if min > max)
    }

    /// Whether a number is in it.
    pub(crate) fn has(&self, number: f64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }

    /// Whether a value is a number that is in it.
    pub(crate) fn has_value(&self, value: &Value) -> bool {
        value.as_f64().is_some_and(|number| self.has(number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ends_belong_to_a_range() {
        let range = |min, max| Range { min, max };
        let both = range(Some(10.0), Some(20.0));
        for (value, is_in) in [
            (json!(9.99), false),
            (json!(10), true),
            (json!(15.5), true),
            (json!(20.0), true),
            (json!(21), false),
            (json!("15"), false),
            (json!([15]), false),
            (json!(null), false),
        ] {
            assert_eq!(both.has_value(&value), is_in, "{value}");
        }
        assert!(range(None, Some(-1.5)).has(-2.0) && !range(None, Some(-1.5)).has(0.0));
        assert!(range(Some(3.0), None).has(1e300) && range(None, None).has(0.0));
        assert!(range(Some(2.0), Some(1.0)).is_empty() && !both.is_empty());
    }
}
