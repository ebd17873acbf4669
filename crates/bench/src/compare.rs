//! What got better or worse between two files of results, with the noise taken into account.

use std::cmp::Ordering;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::Value;

use crate::error::BenchError;
use crate::measure::{Unit, Verdict};
use crate::output::print;
use crate::report::number::{figure, grouped};
use crate::report::table::align;
use crate::report::visible::visible;
use crate::saved;
use crate::stats::Spread;

/// Smaller changes are none, however steady the figures are.
const CHANGE_MIN: f64 = 0.03;
/// With so few repetitions the spread says little, and a wider one is assumed.
const FEW_PAIRS: u64 = 3;
/// That wider spread, as a share of the median to both sides.
const FEW_PAIRS_NOISE: f64 = 0.15;
/// What makes a machine another one.
const MACHINE: [&str; 5] = [
    "processor",
    "processors",
    "architecture",
    "system",
    "kernel",
];
/// What else may explain a difference, `limits` apart.
const CIRCUMSTANCES: [&str; 3] = ["memory_bytes", "descriptors_max", "build"];

/// Two files of `--json`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Figures that have a sound floor are compared by their ratio to it, which holds while the machine's
mood changes; the others by themselves. A figure got better or worse if the spreads of old and new
do not overlap and the medians differ by 3 % or more. Fewer than 3 pairs count as a spread of 15 %.
Of a load that grew (--ramp) only how far the server carried it is compared, by two steps or more:
its figures are those of the last step that was sound, which is another load in each file.
More messages or connections lost, repeated, out of order, damaged or failed are worse.
Where processor, number of processors, kernel or system differ, of the figures only the ratios are
compared, and it says so; loss and verdict are compared always. Differences of
limits, builds and placements are printed. Files of another schema are refused. A figure that is not
a number is refused too, with its line and field.

Exit code: 0 nothing got worse, 1 something did, 3 the files could not be compared.")]
pub(crate) struct CompareArgs {
    /// Before
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// After
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// Show also the figures that did not change
    #[arg(long)]
    all: bool,
}

/// What became of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    None,
    /// Not comparable: it was measured on another machine.
    Apart,
}

impl Change {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::None => "same",
            Self::Apart => "other machine",
        }
    }
}

/// Compares, and prints what changed.
///
/// # Errors
/// When a file cannot be read, or there is nothing in both that can be compared.
pub(crate) fn run(args: &CompareArgs) -> Result<Verdict, BenchError> {
    let (old, new) = (saved::read(&args.old)?, saved::read(&args.new)?);
    let comparison = Comparison::of(&old, &new, args.all);
    comparison.check(&old, &new)?;
    print(&visible(&comparison.text(&old, &new)))?;
    Ok(match comparison.count(Change::Worse) {
        0 => Verdict::Sound,
        worse => Verdict::Failed(format!("{worse} figures got worse")),
    })
}

/// Everything about two files.
#[derive(Default)]
struct Comparison {
    /// Workloads in both.
    common: usize,
    changes: Vec<Change>,
    /// Figures of them that could be compared.
    figures: usize,
    /// What the reader has to know first, each once.
    warnings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Comparison {
    fn of(old: &[Value], new: &[Value], all: bool) -> Self {
        let header = ["", "old", "new", "change", ""].map(str::to_owned);
        let mut it = Self {
            rows: vec![header.to_vec()],
            ..Self::default()
        };
        for now in new {
            let before = old.iter().find(|before| is_same_load(before, now));
            if let Some(before) = before {
                it.common += 1;
                it.add(before, now, all);
            }
        }
        it
    }

    fn add(&mut self, before: &Value, now: &Value, all: bool) {
        let reservations = reservations(before, now);
        for warning in circumstances(before, now).into_iter().chain(reservations) {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        let mut lines = Vec::new();
        let figures = figure_changes(before, now);
        let is_compared = |(change, _): &&(Change, Vec<String>)| *change != Change::Apart;
        self.figures += figures.iter().filter(is_compared).count();
        for (change, line) in outcome_changes(before, now).into_iter().chain(figures) {
            self.changes.push(change);
            if matches!(change, Change::Better | Change::Worse) || all {
                lines.push(line);
            }
        }
        if !lines.is_empty() {
            let title = now["title"].as_str().unwrap_or_default();
            self.rows.push(vec![title.to_owned()]);
            self.rows.append(&mut lines);
        }
    }

    fn count(&self, of: Change) -> usize {
        self.changes.iter().filter(|change| **change == of).count()
    }

    /// Refuses files of which nothing can be compared.
    fn check(&self, old: &[Value], new: &[Value]) -> Result<(), BenchError> {
        if self.common == 0 {
            return Err(BenchError::usage(format!(
                "the files have no workload with the same parameters in common{}",
                unmatched(old, new)
            )));
        }
        let has_news = |change: &Change| matches!(change, Change::Better | Change::Worse);
        let is_apart = self.count(Change::Apart) > 0 && self.figures == 0;
        if is_apart && !self.changes.iter().any(has_news) {
            return Err(BenchError::usage(format!(
                "nothing can be compared: only ratios to the floor can be where machines differ, \
                 and there are none in both files\n{}",
                self.warnings.concat()
            )));
        }
        Ok(())
    }

    fn text(&self, old: &[Value], new: &[Value]) -> String {
        let table = match self.rows.len() {
            1 => String::new(),
            _ => align(&self.rows),
        };
        let apart = match self.count(Change::Apart) {
            0 => String::new(),
            apart => format!(", {apart} not compared since the machines differ"),
        };
        let is_left =
            |one: &Value, others: &[Value]| !others.iter().any(|it| is_same_load(it, one));
        let left_out = old.iter().filter(|one| is_left(one, new)).count()
            + new.iter().filter(|one| is_left(one, old)).count();
        let left = match left_out {
            0 => String::new(),
            _ => unmatched(old, new),
        };
        format!(
            "{}{table}{} workloads in both: {} figures worse, {} better, {} the same within the \
             noise{apart}; {left_out} workloads in one file only{left}\n",
            self.warnings.concat(),
            self.common,
            self.count(Change::Worse),
            self.count(Change::Better),
            self.count(Change::None),
        )
    }
}

/// The same work, whatever came of it.
fn is_same_load(one: &Value, other: &Value) -> bool {
    one["workload"] == other["workload"] && one["parameters"] == other["parameters"]
}

/// Workloads that have no counterpart, a line each: of two of one name, the parameters by which
/// they differ.
fn unmatched(old: &[Value], new: &[Value]) -> String {
    let only = |these: &[Value], others: &[Value], whose: &str| -> String {
        let alone = these
            .iter()
            .filter(|one| !others.iter().any(|it| is_same_load(it, one)));
        alone
            .map(|one| {
                let name = one["workload"].as_str().unwrap_or_default();
                let near = others.iter().filter(|it| it["workload"] == one["workload"]);
                let near = near.map(|it| differences(&one["parameters"], &it["parameters"]));
                let why = match near.min_by_key(Vec::len) {
                    Some(differing) => format!("the other has {}", differing.join(", ")),
                    None => "the other has none".to_owned(),
                };
                format!("\n  {name}, in the {whose} file only: {why}")
            })
            .collect()
    };
    only(old, new, "old") + &only(new, old, "new")
}

/// Members of two objects that are not the same: name, one's, the other's.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (one, other) = (members(one), members(other));
    let names = one
        .keys()
        .chain(other.keys().filter(|name| !one.contains_key(*name)));
    names
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| {
            let shown = |value: Option<&Value>| value.map_or_else(|| "–".into(), plain);
            let (from, to) = (shown(one.get(name)), shown(other.get(name)));
            format!("{} {from} → {to}", name.replace(char::is_control, "?"))
        })
        .collect()
}

/// A value as people read it, on one line.
fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    text.replace(char::is_control, "?")
}

/// Some members of an object.
fn part(object: &Value, names: &[&str]) -> Value {
    let each = names.iter();
    each.map(|name| ((*name).to_owned(), object[*name].clone()))
        .collect()
}

/// By what the machines of two results differ; nothing if they are the same.
fn other_machine(old: &Value, new: &Value) -> Vec<String> {
    let machine = |object: &Value| part(&object["machine"], &MACHINE);
    differences(&machine(old), &machine(new))
}

/// What may explain a difference besides the program that was measured, a line each.
fn circumstances(old: &Value, new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let machine = other_machine(old, new);
    if !machine.is_empty() {
        warnings.push(format!(
            "warning: measured on different machines ({}): only ratios to the floor are compared\n",
            machine.join(", ")
        ));
    }
    let circumstance = |object: &Value| part(&object["machine"], &CIRCUMSTANCES);
    let mut others = differences(&circumstance(old), &circumstance(new));
    others.extend(differences(
        &old["machine"]["limits"],
        &new["machine"]["limits"],
    ));
    others.extend(differences(
        &part(old, &["processors"]),
        &part(new, &["processors"]),
    ));
    others.extend(differences(
        &part(old, &["server"]),
        &part(new, &["server"]),
    ));
    if !others.is_empty() {
        warnings.push(format!(
            "warning: {}: this may be what made the difference\n",
            others.join(", ")
        ));
    }
    warnings
}

/// What one workload's figures do not say, a line each.
fn reservations(old: &Value, new: &Value) -> Vec<String> {
    let title = plain(&new["title"]);
    let mut warnings = Vec::new();
    for (object, which) in [(old, "old"), (new, "new")] {
        if object["verdict"]["result"] == "generator-limited" {
            warnings.push(format!(
                "warning: {title}: the generator was the limit of the {which} result, so that its \
                 figures are lower bounds\n"
            ));
        }
        if has_failed(object) {
            warnings.push(format!(
                "warning: {title}: the {which} run has failed: its figures are not compared\n"
            ));
        }
        if let Some(floor) = unsound_floor(object) {
            warnings.push(format!(
                "warning: {title}: {floor} was not sound in the {which} result: ratios to it are \
                 not compared\n"
            ));
        }
    }
    warnings.extend(without_outcome(old, new, &title));
    let keys = |object: &Value| -> Vec<String> {
        let measured = object["measured"].as_object();
        measured.map_or_else(Vec::new, |figures| figures.keys().cloned().collect())
    };
    let (before, now) = (keys(old), keys(new));
    for (these, others, which) in [(&before, &now, "old"), (&now, &before, "new")] {
        let alone = these.iter().filter(|key| !others.contains(key));
        let alone: Vec<String> = alone
            .map(|key| key.replace(char::is_control, "?"))
            .collect();
        if !alone.is_empty() && !others.is_empty() {
            warnings.push(format!(
                "warning: {title}: in the {which} file only: {}\n",
                alone.join(", ")
            ));
        }
    }
    warnings
}

/// What is in one of the files or in neither, so that nobody can say whether it got worse: a line
/// for the verdict, and one for what was lost.
fn without_outcome(old: &Value, new: &Value, title: &str) -> Vec<String> {
    let line = |what: &str, has: [bool; 2]| {
        let which = match has {
            [true, true] => return None,
            [false, true] => "the old file",
            [true, false] => "the new file",
            [false, false] => "both files",
        };
        Some(format!(
            "warning: {title}: no {what} in {which}: whether it got worse cannot be told\n"
        ))
    };
    let verdict = [old, new].map(|object| object["verdict"]["result"].is_string());
    let loss = [old, new].map(|object| losses(object).is_some());
    let lines = [line("verdict", verdict), line("loss", loss)];
    lines.into_iter().flatten().collect()
}

/// The floor that ratios are taken to, if it has failed: ratios to it mean nothing.
fn unsound_floor(object: &Value) -> Option<String> {
    // The principal floor comes first.
    let (name, verdict) = object["floor_verdicts"].as_object()?.iter().next()?;
    let name = || name.replace(char::is_control, "?");
    (verdict["result"] == "failed").then(name)
}

/// Messages and connections that were lost, repeated, out of order, damaged or failed; `None` where
/// nobody has counted them.
fn losses(object: &Value) -> Option<u64> {
    let counts = object["loss"].as_object()?.values();
    counts
        .filter_map(Value::as_u64)
        .reduce(|sum, count| sum.saturating_add(count))
}

fn loss_change(old: &Value, new: &Value) -> Option<(Change, Vec<String>)> {
    let (before, now) = (losses(old)?, losses(new)?);
    let change = match now.cmp(&before) {
        Ordering::Greater => Change::Worse,
        Ordering::Less => Change::Better,
        Ordering::Equal => Change::None,
    };
    let (before, now) = (before.to_string(), now.to_string());
    let words = ["  lost or wrong", &before, &now, "", change.as_str()];
    Some((change, words.map(str::to_owned).to_vec()))
}

/// Whether what was measured, if anything, is of a part: a server that loses half is not quicker.
fn has_failed(object: &Value) -> bool {
    ["failed", "not-run"].contains(&object["verdict"]["result"].as_str().unwrap_or_default())
}

/// Verdict and loss of one workload: whatever the machine is, they are the server's.
fn outcome_changes(old: &Value, new: &Value) -> Vec<(Change, Vec<String>)> {
    let mut lines = Vec::new();
    let verdict = |object: &Value| object["verdict"]["result"].as_str().map(str::to_owned);
    if let (Some(before), Some(now)) = (verdict(old), verdict(new)) {
        let change = match (has_failed(old), has_failed(new)) {
            (false, true) => Change::Worse,
            (true, false) => Change::Better,
            _ => Change::None,
        };
        let words = ["  verdict", &before, &now, "", change.as_str()];
        lines.push((change, words.map(str::to_owned).to_vec()));
    }
    lines.extend(loss_change(old, new));
    lines
}

/// How far a server carried a load that grew.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reach {
    /// The last step that was sound, 0 if there was none.
    sound: f64,
    /// The first that the server did not carry; none was found where it carried all of them, or
    /// the generator was the limit.
    broke: Option<f64>,
}

impl Reach {
    /// None where the load did not grow.
    fn of(object: &Value) -> Option<Self> {
        let ramp = object["ramp"].as_object()?;
        let last = ramp["steps"].as_array().and_then(|steps| steps.last());
        let has_failed = last.is_some_and(|step| step["verdict"]["result"] == "failed");
        Some(Self {
            sound: ramp["sound_up_to"].as_f64().unwrap_or(0.0),
            broke: ramp["broke_at"].as_f64().filter(|_| has_failed),
        })
    }

    /// The breaking point lies between two steps, so that is how well it is known.
    fn change(self, now: &Self, is_apart: bool) -> (Change, Vec<String>) {
        let is_beyond = |one: &Self, other: &Self| other.broke.is_some_and(|at| one.sound > at);
        let change = match (is_beyond(now, &self), is_beyond(&self, now)) {
            _ if is_apart => Change::Apart,
            (true, _) => Change::Better,
            (_, true) => Change::Worse,
            (false, false) => Change::None,
        };
        let shown = |reach: &Self| match reach.broke {
            Some(at) => format!("{} (broke at {})", grouped(reach.sound), grouped(at)),
            None => format!("{} (did not break)", grouped(reach.sound)),
        };
        let word = change.as_str().to_owned();
        let line = vec![
            "  sound up to".into(),
            shown(&self),
            shown(now),
            String::new(),
            word,
        ];
        (change, line)
    }
}

/// Every figure of one workload, if it was carried both times.
fn figure_changes(old: &Value, new: &Value) -> Vec<(Change, Vec<String>)> {
    if has_failed(old) || has_failed(new) {
        return Vec::new();
    }
    let is_apart = !other_machine(old, new).is_empty();
    if let Some((before, now)) = Reach::of(old).zip(Reach::of(new)) {
        return vec![before.change(&now, is_apart)];
    }
    let metrics = new["metrics"].as_array().into_iter().flatten();
    let changes = metrics.filter_map(|metric| figure_change(old, new, metric, is_apart));
    changes.collect()
}

fn figure_change(
    old: &Value,
    new: &Value,
    metric: &Value,
    is_apart: bool,
) -> Option<(Change, Vec<String>)> {
    let key = metric["key"].as_str()?;
    let unit = Unit::parse(metric["unit"].as_str()?)?;
    let higher_is_better = direction(key, unit)?;
    let is_measure = unsound_floor(old).is_none() && unsound_floor(new).is_none();
    let ratios = spread(old, "ratio", key).zip(spread(new, "ratio", key));
    let ratios = ratios.filter(|_| is_measure);
    let (before, now, by) = match ratios {
        Some((before, now)) => (before, now, " × floor"),
        None => (
            spread(old, "measured", key)?,
            spread(new, "measured", key)?,
            "",
        ),
    };
    let change = match ratios {
        None if is_apart => Change::Apart,
        _ => judge(before, now, higher_is_better),
    };
    let shown = |spread: Spread| {
        let each = |value: f64| match ratios {
            Some(_) => format!("{value:.2}"),
            None => figure(value, unit),
        };
        let range = format!("({}–{})", each(spread.low), each(spread.high));
        format!("{} {range}", each(spread.median))
    };
    let percent = match before.median {
        0.0 => "–".to_owned(),
        median => format!("{:+.1} %", (now.median / median - 1.0) * 100.0),
    };
    let line = vec![
        format!("  {}{by}", metric["label"].as_str()?),
        shown(before),
        shown(now),
        percent,
        change.as_str().to_owned(),
    ];
    Some((change, line))
}

/// Whether more of it is better; `None` for what is neither, or is the generator's.
fn direction(key: &str, unit: Unit) -> Option<bool> {
    match unit {
        _ if key.starts_with("generator") => None,
        Unit::PerSecond | Unit::BytesPerSecond => Some(true),
        Unit::Micros | Unit::Bytes => Some(false),
        // What a ratio is to say is for the bar of its workload.
        Unit::Percent | Unit::Ratio | Unit::Count => None,
    }
}

fn judge(old: Spread, new: Spread, higher_is_better: bool) -> Change {
    if old.median <= 0.0 || (new.median / old.median - 1.0).abs() < CHANGE_MIN {
        return Change::None;
    }
    let (rose, fell) = (new.low > old.high, new.high < old.low);
    match (rose, fell) {
        (true, _) if higher_is_better => Change::Better,
        (true, _) => Change::Worse,
        (_, true) if higher_is_better => Change::Worse,
        (_, true) => Change::Better,
        _ => Change::None,
    }
}

/// The spread of a figure, widened where few pairs made it.
fn spread(object: &Value, part: &str, key: &str) -> Option<Spread> {
    let figure = &object[part][key];
    let value = |name: &str| figure[name].as_f64();
    let (median, low, high) = (value("median")?, value("low")?, value("high")?);
    let noise = match object["pairs"].as_u64() {
        Some(pairs) if pairs >= FEW_PAIRS => 0.0,
        _ => FEW_PAIRS_NOISE * median.abs(),
    };
    Some(Spread {
        median,
        low: low.min(median - noise),
        high: high.max(median + noise),
    })
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::json;

    use super::*;

    fn spread(low: f64, median: f64, high: f64) -> Spread {
        Spread { median, low, high }
    }

    #[test]
    fn only_changes_beyond_the_noise_count() {
        let old = spread(95.0, 100.0, 105.0);
        for (new, more_is_better, expected) in [
            (spread(106.0, 110.0, 115.0), true, Change::Better),
            (spread(106.0, 110.0, 115.0), false, Change::Worse),
            (spread(80.0, 90.0, 94.0), true, Change::Worse),
            (spread(80.0, 90.0, 94.0), false, Change::Better),
            // The spreads overlap.
            (spread(104.0, 110.0, 115.0), true, Change::None),
        ] {
            assert_eq!(judge(old, new, more_is_better), expected, "{new:?}");
        }
        let steady = spread(100.0, 100.0, 100.0);
        assert_eq!(
            judge(steady, spread(102.0, 102.0, 102.0), false),
            Change::None
        );
        assert_eq!(judge(spread(0.0, 0.0, 0.0), old, true), Change::None);
    }

    /// A result of that figure and of that ratio to a floor.
    fn result(measured: f64, ratio: f64) -> Value {
        let spread = |value: f64| json!({ "median": value, "low": value, "high": value });
        json!({
            "workload": "fanout",
            "title": "ice-1",
            "pairs": 3,
            "machine": { "kernel": "6.18.1" },
            "metrics": [{ "key": "cpu_us", "label": "CPU", "unit": "us" }],
            "measured": { "cpu_us": spread(measured) },
            "ratio": { "cpu_us": spread(ratio) },
            "floor_verdicts": { "relay": { "result": "sound", "why": null } },
            "loss": { "lost": 0 },
            "verdict": { "result": "sound", "why": null },
        })
    }

    #[test]
    fn loss_is_worse_on_any_machine() {
        let (old, mut new) = (result(10.0, 1.0), result(10.0, 1.0));
        new["machine"]["kernel"] = "6.18.2".into();
        new["ratio"] = Value::Null;
        let compared = |new: &Value| {
            let (old, new) = (slice::from_ref(&old), slice::from_ref(new));
            let comparison = Comparison::of(old, new, false);
            (
                comparison.check(old, new).is_ok(),
                comparison.count(Change::Worse),
            )
        };
        // Nothing is left but that neither lost anything.
        assert_eq!(compared(&new), (false, 0));
        new["loss"]["lost"] = 7.into();
        new["verdict"]["result"] = "failed".into();
        assert_eq!(compared(&new), (true, 2));
    }

    /// The figures of two ramps are of two loads; how far they came can be compared.
    #[test]
    fn ramps_are_compared_by_how_far_they_came() {
        let ramp = |sound: u64, last: &str| {
            let mut object = result(10.0 * sound as f64, 1.0);
            let broke = (last != "sound").then_some(sound + 10);
            object["ramp"] = json!({
                "steps": [{ "size": sound, "verdict": { "result": last } }],
                "sound_up_to": (sound > 0).then_some(sound),
                "broke_at": broke,
            });
            object
        };
        for (old, new, expected) in [
            ((50, "failed"), (50, "failed"), Change::None),
            // The breaking point may be the same.
            ((50, "failed"), (60, "failed"), Change::None),
            ((50, "failed"), (70, "failed"), Change::Better),
            ((50, "failed"), (30, "failed"), Change::Worse),
            ((50, "failed"), (0, "failed"), Change::Worse),
            ((50, "failed"), (90, "sound"), Change::Better),
            ((90, "sound"), (50, "failed"), Change::Worse),
            ((90, "sound"), (90, "sound"), Change::None),
            // Nobody knows what the server would have carried.
            ((50, "failed"), (30, "generator-limited"), Change::None),
            ((30, "generator-limited"), (70, "failed"), Change::None),
        ] {
            let (before, now) = (ramp(old.0, old.1), ramp(new.0, new.1));
            let changes = figure_changes(&before, &now);
            assert_eq!(changes.len(), 1, "{changes:?}");
            assert_eq!(changes[0].0, expected, "{old:?} {new:?}");
        }
    }

    /// What is not there did not stay the same.
    #[test]
    fn a_missing_verdict_or_loss_is_told() {
        let whole = || result(10.0, 1.0);
        let without = |part: &str, value: Value| {
            let mut object = whole();
            object[part] = value;
            object
        };
        for (old, new, told) in [
            (whole(), whole(), None),
            (
                whole(),
                without("loss", Value::Null),
                Some("no loss in the new file"),
            ),
            (
                without("loss", json!({})),
                whole(),
                Some("no loss in the old file"),
            ),
            (
                without("verdict", Value::Null),
                whole(),
                Some("no verdict in the old file"),
            ),
            (
                without("verdict", Value::Null),
                without("verdict", Value::Null),
                Some("no verdict in both files"),
            ),
        ] {
            let comparison = Comparison::of(&[old], &[new], false);
            let warnings = comparison.warnings.concat();
            match told {
                None => assert_eq!(warnings, ""),
                Some(told) => {
                    let line = format!("ice-1: {told}");
                    assert!(warnings.contains(&line), "{told}: {warnings}");
                }
            }
            assert_eq!(comparison.count(Change::Worse), 0);
        }
    }

    /// A storm that broke off was quick for those who got through.
    #[test]
    fn figures_of_a_run_that_failed_are_not_compared() {
        let sound = result(10.0, 2.0);
        for word in ["failed", "not-run"] {
            let mut failed = result(5.0, 1.0);
            failed["verdict"]["result"] = word.into();
            for (old, new, which, change) in [
                (&failed, &sound, "old", Change::Better),
                (&sound, &failed, "new", Change::Worse),
            ] {
                let comparison = Comparison::of(slice::from_ref(old), slice::from_ref(new), false);
                let told = format!("the {which} run has failed");
                assert!(comparison.warnings.concat().contains(&told), "{told}");
                let news = [Change::Better, Change::Worse].map(|it| comparison.count(it));
                let expected = [Change::Better, Change::Worse].map(|it| usize::from(it == change));
                assert_eq!(news, expected, "{word}");
            }
        }
    }

    #[test]
    fn ratios_to_a_floor_that_failed_are_not_compared() {
        let (old, mut new) = (result(10.0, 1.0), result(10.0, 2.0));
        let worse =
            |new: &Value| Comparison::of(slice::from_ref(&old), slice::from_ref(new), false);
        assert_eq!(worse(&new).count(Change::Worse), 1);
        new["floor_verdicts"]["relay"]["result"] = "failed".into();
        let comparison = worse(&new);
        assert_eq!(comparison.count(Change::Worse), 0);
        let warning = comparison.warnings.concat();
        assert!(
            warning.contains("relay was not sound in the new result"),
            "{warning}"
        );
    }
}
