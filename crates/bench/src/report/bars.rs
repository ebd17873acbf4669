//! Whether figures keep their bars, and how sure that is.

use serde_json::{Value, json};

use super::number::figure;
use super::table::{align, metrics};
use crate::measure::Metric;
use crate::runner::Results;
use crate::stats::Spread;
use crate::workload::{Bar, Limit, Sheet};

/// What became of a bar.
#[derive(Clone, Debug, PartialEq)]
struct Judged {
    bar: Bar,
    metric: Metric,
    value: Option<Spread>,
    /// Of what was measured twice.
    control: Option<Spread>,
}

impl Judged {
    /// Whether the median keeps the bar; `None` where there is none.
    fn is_met(&self) -> Option<bool> {
        self.value.map(|value| self.bar.is_kept_by(value.median))
    }

    /// By which factor the same differs from itself.
    fn noise(&self) -> Option<f64> {
        let beyond = |low: f64, middle: f64, high: f64| {
            let up = high / middle;
            let down = middle / low;
            up.max(down)
        };
        let value = self.value?;
        let noise = match self.control {
            Some(control) => beyond(control.low, 1.0, control.high),
            None => beyond(value.low, value.median, value.high),
        };
        noise.is_finite().then_some(noise.max(1.0))
    }

    /// Whether the same, measured again, might have come out on the other side of the bar. `None`
    /// where nobody knows.
    fn is_within_noise(&self) -> Option<bool> {
        let (value, noise) = (self.value?, self.noise()?);
        let sides = [value.median * noise, value.median / noise];
        let [above, below] = sides.map(|side| self.bar.is_kept_by(side));
        Some(above != below)
    }

    fn word(&self) -> &'static str {
        match (self.is_met(), self.is_within_noise()) {
            (None, _) => "not measured",
            (Some(true), Some(true)) => "met, within the noise",
            (Some(true), _) => "met",
            (Some(false), Some(true)) => "missed, within the noise",
            (Some(false), _) => "missed",
        }
    }
}

impl Bar {
    fn is_kept_by(&self, value: f64) -> bool {
        match self.limit {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }
}

/// Each bar of the workload, for the measured server.
fn judge(sheet: &Sheet, results: &Results) -> Vec<Judged> {
    let Some(own) = results.servers.first() else {
        return Vec::new();
    };
    let metrics = metrics(results);
    let judged = |bar: &Bar| {
        let metric = metrics.iter().find(|metric| metric.key == bar.key)?;
        Some(Judged {
            bar: *bar,
            metric: *metric,
            value: own.spread(bar.key),
            control: bar.control.and_then(|key| own.spread(key)),
        })
    };
    sheet.bars.iter().filter_map(judged).collect()
}

/// A line for each bar; empty where there are none.
pub(super) fn table(sheet: &Sheet, results: &Results) -> String {
    let judged = judge(sheet, results);
    if judged.is_empty() {
        return String::new();
    }
    let header = ["", "measured", "bar", "", "the same twice"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for it in judged {
        let shown = |value: f64| figure(value, it.metric.unit);
        let measured = it.value.map(|value| {
            let Spread { median, low, high } = value;
            match low < high {
                true => format!("{} ({} – {})", shown(median), shown(low), shown(high)),
                false => shown(median),
            }
        });
        let limit = match it.bar.limit {
            Limit::AtMost(limit) => format!("≤ {}", shown(limit)),
            Limit::AtLeast(limit) => format!("≥ {}", shown(limit)),
        };
        let twice = it.control.map(|control| {
            let Spread { median, low, high } = control;
            match low < high {
                true => format!("{median:.2} × ({low:.2} – {high:.2})"),
                false => format!("{median:.2} ×"),
            }
        });
        let unknown = || "–".to_owned();
        rows.push(vec![
            it.metric.label.to_owned(),
            measured.unwrap_or_else(unknown),
            limit,
            it.word().to_owned(),
            twice.unwrap_or_else(unknown),
        ]);
    }
    format!("\n{}", align(&rows))
}

/// The same for programs.
pub(super) fn object(sheet: &Sheet, results: &Results) -> Value {
    let spread = |spread: Spread| {
        let Spread { median, low, high } = spread;
        json!({ "median": median, "low": low, "high": high })
    };
    let each = judge(sheet, results).into_iter().map(|it| {
        let (at_most, at_least) = match it.bar.limit {
            Limit::AtMost(limit) => (Some(limit), None),
            Limit::AtLeast(limit) => (None, Some(limit)),
        };
        json!({
            "key": it.metric.key,
            "label": it.metric.label,
            "value": it.value.map(spread),
            "at_most": at_most,
            "at_least": at_least,
            "is_met": it.is_met(),
            "is_within_noise": it.is_within_noise(),
            "control": it.control.map(spread),
        })
    });
    Value::Array(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Unit;

    fn judged(limit: Limit, value: (f64, f64, f64), control: Option<(f64, f64)>) -> Judged {
        let (low, median, high) = value;
        let control = control.map(|(low, high)| Spread {
            median: f64::midpoint(low, high),
            low,
            high,
        });
        Judged {
            bar: Bar {
                key: "a_ratio",
                limit,
                control: control.map(|_| "a_control_ratio"),
            },
            metric: Metric::new("a_ratio", "a", Unit::Ratio),
            value: Some(Spread { median, low, high }),
            control,
        }
    }

    #[test]
    fn a_bar_is_met_by_the_median_and_sure_beyond_the_noise() {
        let most = Limit::AtMost(1.02);
        for (value, control, expected) in [
            (1.01, (0.995, 1.005), "met"),
            (1.01, (0.97, 1.005), "met, within the noise"),
            (1.01, (1.0, 1.02), "met, within the noise"),
            (1.05, (0.99, 1.01), "missed"),
            (1.05, (0.99, 1.04), "missed, within the noise"),
        ] {
            let it = judged(most, (value, value, value), Some(control));
            assert_eq!(it.word(), expected, "{value} {control:?}");
        }
        let least = Limit::AtLeast(20_000.0);
        for (value, expected) in [
            ((24_000.0, 25_000.0, 26_000.0), "met"),
            ((19_000.0, 21_000.0, 22_000.0), "met, within the noise"),
            ((9_000.0, 10_000.0, 11_000.0), "missed"),
        ] {
            assert_eq!(judged(least, value, None).word(), expected, "{value:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_said_to_be_met() {
        let nothing = Judged {
            value: None,
            ..judged(Limit::AtMost(1.0), (1.0, 1.0, 1.0), None)
        };
        assert_eq!((nothing.is_met(), nothing.word()), (None, "not measured"));
        let zero = judged(Limit::AtMost(1.0), (0.0, 0.0, 0.0), None);
        assert_eq!(zero.word(), "met");
    }
}
