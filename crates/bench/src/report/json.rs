//! The JSON that scripts rely on: one object per workload. docs/benchmarks-method.md has the
//! schema.

use serde_json::{Map, Value, json};

use super::series::{buckets, course, merged, percentiles};
use super::table::metrics;
use super::{bars, machine};
use crate::measure::{Metric, Verdict};
use crate::runner::{Outcome, Results};
use crate::scenario::fanout::mine;
use crate::sequence::Faults;
use crate::stats::Spread;
use crate::workload::Sheet;

/// Counts up whenever a key changes its meaning or goes.
pub(crate) const SCHEMA: u32 = 1;

/// What is the same for all workloads of a run.
#[derive(Debug)]
pub(crate) struct Context {
    /// Where it was measured.
    pub(crate) machine: Value,
    /// What makes the result again.
    pub(crate) command: String,
}

/// One workload's object.
pub(crate) fn object(sheet: &Sheet, results: &Results, pairs: u32, context: &Context) -> Value {
    let metrics = metrics(results);
    let principal = results.floors.first();
    let own = results.servers.first();
    let floors: Map<String, Value> = results
        .floors
        .iter()
        .map(|f| (f.name.clone(), figures(f, &metrics)))
        .collect();
    let floor_verdicts = results.floors.iter();
    let floor_verdicts: Map<String, Value> = floor_verdicts
        .map(|f| (f.name.clone(), f.verdict().object()))
        .collect();
    let rivals = results.servers.iter().skip(1);
    let rivals: Vec<Value> = rivals
        .map(|rival| self::rival(rival, results.floor_of(rival), own, &metrics))
        .collect();
    let latency = own.and_then(merged);
    let floor_latency = principal.and_then(merged);
    json!({
        "schema": SCHEMA,
        "workload": sheet.name,
        "title": sheet.title,
        "command": context.command,
        "parameters": sheet.parameters,
        "pairs": pairs,
        "measured_at": machine::now(),
        "machine": context.machine,
        "server": own.map(|own| own.name.clone()),
        "system": own.map(|own| own.identity.clone()),
        "metrics": metrics.iter().map(metric).collect::<Vec<_>>(),
        "floor": principal.map(|floor| figures(floor, &metrics)),
        "floors": floors,
        "floor_verdicts": floor_verdicts,
        "measured": own.map(|own| figures(own, &metrics)),
        "ratio": principal.zip(own).map(|(floor, own)| ratio(own, floor, &metrics)),
        "ratios": own.map(|own| {
            let each = results.floors.iter().map(|f| (f.name.clone(), ratio(own, f, &metrics)));
            each.collect::<Map<String, Value>>()
        }),
        "loss": own.map(loss),
        "verdict": own.map(|own| own.verdict().object()),
        "sentences": mine::sentences(sheet, results),
        "bars": bars::object(sheet, results),
        "notes": own.map(Outcome::notes).unwrap_or_default(),
        "series": own.and_then(|own| own.sound_legs().last()).map(|leg| {
            json!({ "step_seconds": leg.series.step_s, "counts": leg.series.counts })
        }),
        "ramp": own.and_then(climb),
        "course": own.map(course),
        "percentiles_us": latency.as_ref().map(percentiles),
        "histogram": latency.as_ref().map(buckets),
        "floor_percentiles_us": floor_latency.as_ref().map(percentiles),
        "floor_histogram": floor_latency.as_ref().map(buckets),
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

fn rival(
    rival: &Outcome,
    floor: Option<&Outcome>,
    own: Option<&Outcome>,
    metrics: &[Metric],
) -> Value {
    let latency = merged(rival);
    json!({
        "name": rival.name,
        "system": rival.identity,
        "measured": figures(rival, metrics),
        "ratio": floor.map(|floor| ratio(rival, floor, metrics)),
        "server_to_rival": own.map(|own| ratio(own, rival, metrics)),
        "loss": loss(rival),
        "verdict": rival.verdict().object(),
        "notes": rival.notes(),
        "ramp": climb(rival),
        "course": course(rival),
        "percentiles_us": latency.as_ref().map(percentiles),
        "histogram": latency.as_ref().map(buckets),
        "errors": errors(rival),
    })
}

fn metric(metric: &Metric) -> Value {
    json!({
        "key": metric.key,
        "label": metric.label,
        "unit": metric.unit.as_str(),
        "against_floor": metric.against_floor,
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

/// Null where it is not known.
fn loss(outcome: &Outcome) -> Value {
    let told = |(faults, failed): (Faults, u64)| {
        json!({
            "lost": faults.lost,
            "duplicated": faults.duplicated,
            "reordered": faults.reordered,
            "corrupt": faults.corrupt,
            "failed": failed,
        })
    };
    outcome.loss().map_or(Value::Null, told)
}

/// The steps of the last pair.
fn climb(outcome: &Outcome) -> Option<Value> {
    let climb = outcome.sound_legs().last()?.climb.as_ref()?;
    Some(climb.object())
}

fn errors(outcome: &Outcome) -> Vec<Value> {
    let legs = outcome.legs.iter();
    let errors = legs.filter_map(|leg| leg.as_ref().err());
    errors.map(|error| error.object()["why"].take()).collect()
}

/// The object of a workload that could not be run, and why: everything that was to be measured is
/// null.
pub(crate) fn not_run(sheet: &Sheet, pairs: u32, context: &Context, why: &str) -> Value {
    let results = Results {
        floors: Vec::new(),
        servers: Vec::new(),
    };
    let mut object = object(sheet, &results, pairs, context);
    object["verdict"] = Verdict::NotRun(why.to_owned()).object();
    object
}
