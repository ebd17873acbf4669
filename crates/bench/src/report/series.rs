//! Distributions and courses in the JSON.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::load::histogram;
use crate::runner::Outcome;
use crate::sampler::{Load, Sample};

/// Percentiles that are written out; the histogram beside them has all the others.
const PERCENTS: [f64; 11] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0,
];

/// The distribution of all pairs together; `None` if nothing was timed.
pub(crate) fn merged(outcome: &Outcome) -> Option<Histogram<u64>> {
    let mut merged = histogram();
    for latency in outcome.sound_legs().filter_map(|leg| leg.latency.as_ref()) {
        // All histograms have the same bounds.
        let _ = merged.add(latency);
    }
    (!merged.is_empty()).then_some(merged)
}

/// Microseconds by percentile.
pub(crate) fn percentiles(histogram: &Histogram<u64>) -> Value {
    let each = PERCENTS.map(|percent| {
        let value = histogram.value_at_quantile(percent / 100.0) as f64 / 1_000.0;
        (percent.to_string(), json!(value))
    });
    Value::Object(each.into_iter().collect::<Map<_, _>>())
}

/// The whole histogram: the highest value of each bucket that is not empty, and its count.
pub(crate) fn buckets(histogram: &Histogram<u64>) -> Value {
    let each = histogram.iter_recorded().map(|bucket| {
        let value = bucket.value_iterated_to();
        json!([value, bucket.count_since_last_iteration()])
    });
    json!({
        "unit": "ns",
        "significant_digits": histogram.sigfig(),
        "count": histogram.len(),
        "buckets": each.collect::<Vec<_>>(),
    })
}

/// CPU and memory over time, in the last pair that was measured.
pub(crate) fn course(outcome: &Outcome) -> Value {
    let Some(leg) = outcome.sound_legs().last() else {
        return Value::Null;
    };
    let samples = &leg.samples;
    let load = |pick: fn(&Sample) -> Option<Load>| {
        let cpu = samples
            .iter()
            .map(|sample| pick(sample).map(|l| l.cpu_percent));
        let rss = samples.iter().map(|sample| pick(sample).map(|l| l.rss));
        json!({
            "cpu_percent": cpu.collect::<Vec<_>>(),
            "rss_bytes": rss.collect::<Vec<_>>(),
        })
    };
    json!({
        "at_seconds": samples.iter().map(|sample| sample.at_s).collect::<Vec<_>>(),
        "server": load(|sample| sample.server),
        "generator": load(|sample| sample.generator),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_hold_every_count() {
        let mut latency = histogram();
        for value in [1_000_000, 1_000_000, 2_000_000] {
            latency.saturating_record(value);
        }
        let written = buckets(&latency);
        assert_eq!(written["count"], 3);
        let counts: Vec<u64> = written["buckets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| bucket[1].as_u64().unwrap())
            .collect();
        assert_eq!(counts, [2, 1]);
        // Within three digits.
        let highest = written["buckets"][1][0].as_f64().unwrap();
        assert!((highest / 2e6 - 1.0).abs() < 2e-3, "{highest}");
        let median_us = percentiles(&latency)["50"].as_f64().unwrap();
        assert!((median_us / 1e3 - 1.0).abs() < 2e-3, "{median_us}");
    }
}
