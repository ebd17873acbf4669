//! The JSON that scripts rely on: one object per workload.
//!
//! Keys: `workload`, `title`, `parameters`, `pairs`, `machine`, `server`, `floor` and `floors`
//! (figures by name of the floor), `measured`, `ratio` and `ratios` (to the principal floor, to
//! each), `loss`, `verdict`, `series`, `percentiles`, `published` and `rivals`. Every figure is
//! `{"median", "low", "high"}` over the pairs; the unit is the last word of its key.

use serde_json::{Map, Value, json};

use super::table::metrics;
use crate::load::histogram;
use crate::measure::{Metric, Verdict};
use crate::runner::{Outcome, Results};
use crate::sequence::Faults;
use crate::stats::Spread;
use crate::workload::Sheet;

/// One workload's object.
pub(crate) fn object(sheet: &Sheet, results: &Results, pairs: u32, machine: &Value) -> Value {
    let metrics = metrics(results);
    let principal = results.floors.first();
    let own = results.servers.first();
    let floors: Map<String, Value> = results
        .floors
        .iter()
        .map(|f| (f.name.clone(), figures(f, &metrics)))
        .collect();
    let rivals: Vec<Value> = results
        .servers
        .iter()
        .skip(1)
        .map(|rival| {
            json!({
                "name": rival.name,
                "measured": figures(rival, &metrics),
                "ratio": principal.map(|floor| ratio(rival, floor, &metrics)),
                "server_to_rival": own.map(|own| ratio(own, rival, &metrics)),
                "loss": loss(rival),
                "verdict": verdict(&rival.verdict()),
                "errors": errors(rival),
            })
        })
        .collect();
    json!({
        "workload": sheet.name,
        "title": sheet.title,
        "parameters": sheet.parameters,
        "pairs": pairs,
        "machine": machine,
        "server": own.map(|own| own.name.clone()),
        "floor": principal.map(|floor| figures(floor, &metrics)),
        "floors": floors,
        "measured": own.map(|own| figures(own, &metrics)),
        "ratio": principal.zip(own).map(|(floor, own)| ratio(own, floor, &metrics)),
        "ratios": own.map(|own| {
            let each = results.floors.iter().map(|f| (f.name.clone(), ratio(own, f, &metrics)));
            each.collect::<Map<String, Value>>()
        }),
        "loss": own.map(loss),
        "verdict": own.map(|own| verdict(&own.verdict())),
        "series": own.and_then(|own| own.sound_legs().last()).map(|leg| {
            json!({ "step_seconds": leg.series.step_s, "counts": leg.series.counts })
        }),
        "percentiles_us": own.map(percentiles),
        "published": sheet.published.as_ref().map(|published| {
            let figures = published.figures.iter().map(|(key, v)| ((*key).into(), json!(v)));
            json!({
                "source": published.source,
                "figures": figures.collect::<Map<String, Value>>(),
                "notes": published.notes,
            })
        }),
        "rivals": rivals,
    })
}

fn spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "low": spread.low, "high": spread.high })
}

fn figures(outcome: &Outcome, metrics: &[Metric]) -> Value {
    let each = metrics
        .iter()
        .filter_map(|metric| Some((metric.key.into(), spread(outcome.spread(metric.key)?))));
    Value::Object(each.collect())
}

fn ratio(outcome: &Outcome, floor: &Outcome, metrics: &[Metric]) -> Value {
    let each = metrics
        .iter()
        .filter(|metric| metric.against_floor)
        .filter_map(|metric| Some((metric.key.into(), spread(outcome.ratio(floor, metric.key)?))));
    Value::Object(each.collect())
}

fn loss(outcome: &Outcome) -> Value {
    let mut faults = Faults::default();
    let mut failed = 0;
    for leg in outcome.sound_legs() {
        faults += leg.faults;
        failed += leg.failed;
    }
    json!({
        "lost": faults.lost,
        "duplicated": faults.duplicated,
        "reordered": faults.reordered,
        "corrupt": faults.corrupt,
        "failed": failed,
    })
}

fn verdict(verdict: &Verdict) -> Value {
    let (word, why) = match verdict {
        Verdict::Sound => ("sound", None),
        Verdict::GeneratorLimited(why) => ("generator-limited", Some(why)),
        Verdict::Failed(why) => ("failed", Some(why)),
    };
    json!({ "result": word, "why": why })
}

fn errors(outcome: &Outcome) -> Vec<&str> {
    outcome
        .legs
        .iter()
        .filter_map(|leg| leg.as_ref().err())
        .map(String::as_str)
        .collect()
}

/// The merged distribution of all pairs.
fn percentiles(outcome: &Outcome) -> Value {
    let mut merged = histogram();
    for latency in outcome.sound_legs().filter_map(|leg| leg.latency.as_ref()) {
        // All histograms have the same bounds.
        let _ = merged.add(latency);
    }
    if merged.is_empty() {
        return Value::Null;
    }
    let points = [
        0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0,
    ];
    let each = points.map(|percent| {
        let value = merged.value_at_quantile(percent / 100.0) as f64 / 1_000.0;
        (percent.to_string(), json!(value))
    });
    Value::Object(each.into_iter().collect())
}
