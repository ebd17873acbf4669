//! What got better or worse between two files of results, with the noise taken into account.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::Value;

use crate::error::{BenchError, Doing};
use crate::measure::{Unit, Verdict};
use crate::output::print;
use crate::report::number::figure;
use crate::report::table::align;
use crate::stats::Spread;

/// Smaller changes are none, however steady the figures are.
const CHANGE_MIN: f64 = 0.03;
/// With so few repetitions the spread says little, and a wider one is assumed.
const FEW_PAIRS: u64 = 3;
/// That wider spread, as a share of the median to both sides.
const FEW_PAIRS_NOISE: f64 = 0.15;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1_024 * 1_024;

/// Two files of `--json`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Figures that have a floor are compared by their ratio to it, which holds while the machine's mood
changes; the others by themselves. A figure got better or worse if the spreads of old and new do
not overlap and the medians differ by 3 % or more. Fewer than 3 pairs count as a spread of 15 %.

Exit code: 0 nothing got worse, 1 something did, 3 the files could not be compared.")]
pub(crate) struct CompareArgs {
    /// Before
    #[arg(value_name = "OLD.json")]
    old: PathBuf,
    /// After
    #[arg(value_name = "NEW.json")]
    new: PathBuf,
    /// Show also what did not change
    #[arg(long)]
    all: bool,
}

/// What became of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Better,
    Worse,
    None,
}

impl Change {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::None => "same",
        }
    }
}

/// Reads a file of `--json`, one object a line.
///
/// # Errors
/// When it cannot be read or is no such file.
pub(crate) fn read(file: &Path) -> Result<Vec<Value>, BenchError> {
    let doing = format!("read {}", file.display());
    let mut text = String::new();
    let opened = File::open(file).doing(doing.clone())?;
    // Pipes and devices do not say how long they are.
    let read = opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    if read.doing(doing)? as u64 > FILE_BYTES_MAX {
        return Err(BenchError::usage(format!(
            "{} has more than {FILE_BYTES_MAX} bytes, which is the most for a file of results",
            file.display()
        )));
    }
    let mut objects = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
    {
        let object: Value = serde_json::from_str(line).map_err(|e| refusal(file, index, &e))?;
        if !object["workload"].is_string() || !object["parameters"].is_object() {
            return Err(refusal(file, index, &"there is no workload in it"));
        }
        objects.push(object);
    }
    if objects.is_empty() {
        return Err(BenchError::usage(format!(
            "{} has no results; make some by stentor bench … --json FILE",
            file.display()
        )));
    }
    Ok(objects)
}

fn refusal(file: &Path, index: usize, why: &dyn std::fmt::Display) -> BenchError {
    BenchError::usage(format!(
        "{} line {} is no result of stentor bench … --json: {why}",
        file.display(),
        index + 1
    ))
}

/// Compares, and prints what changed.
///
/// # Errors
/// When a file cannot be read, or they have no workload in common.
pub(crate) fn run(args: &CompareArgs) -> Result<Verdict, BenchError> {
    let (old, new) = (read(&args.old)?, read(&args.new)?);
    let mut rows = vec![["", "old", "new", "change", ""].map(str::to_owned).to_vec()];
    let (mut common, mut worse, mut better, mut same) = (0, 0, 0, 0);
    for now in &new {
        let Some(before) = old.iter().find(|before| is_same_load(before, now)) else {
            continue;
        };
        common += 1;
        let mut lines = Vec::new();
        for (change, line) in changes(before, now) {
            match change {
                Change::Better => better += 1,
                Change::Worse => worse += 1,
                Change::None => same += 1,
            }
            if change != Change::None || args.all {
                lines.push(line);
            }
        }
        if !lines.is_empty() {
            rows.push(vec![now["title"].as_str().unwrap_or_default().to_owned()]);
            rows.append(&mut lines);
        }
    }
    if common == 0 {
        return Err(BenchError::usage(
            "the files have no workload with the same parameters in common",
        ));
    }
    let text = if rows.len() > 1 {
        align(&rows)
    } else {
        String::new()
    };
    let is_left = |one: &Value, others: &[Value]| !others.iter().any(|it| is_same_load(it, one));
    let left_out = old.iter().filter(|one| is_left(one, &new)).count()
        + new.iter().filter(|one| is_left(one, &old)).count();
    print(&format!(
        "{text}{common} workloads in both: {worse} figures worse, {better} better, {same} the \
         same within the noise; {left_out} workloads in one file only\n"
    ))?;
    if worse > 0 {
        return Ok(Verdict::Failed(format!("{worse} figures got worse")));
    }
    Ok(Verdict::Sound)
}

/// The same work, whatever came of it.
fn is_same_load(one: &Value, other: &Value) -> bool {
    one["workload"] == other["workload"] && one["parameters"] == other["parameters"]
}

/// Every figure of one workload, and the verdict.
fn changes(old: &Value, new: &Value) -> Vec<(Change, Vec<String>)> {
    let mut lines = Vec::new();
    let verdict = |object: &Value| object["verdict"]["result"].as_str().map(str::to_owned);
    if let (Some(before), Some(now)) = (verdict(old), verdict(new)) {
        let is_bad = |word: &str| word == "failed" || word == "not-run";
        let change = match (is_bad(&before), is_bad(&now)) {
            (false, true) => Change::Worse,
            (true, false) => Change::Better,
            _ => Change::None,
        };
        let words = ["  verdict", &before, &now, "", change.as_str()];
        lines.push((change, words.map(str::to_owned).to_vec()));
    }
    let metrics = new["metrics"].as_array().into_iter().flatten();
    lines.extend(metrics.filter_map(|metric| figure_change(old, new, metric)));
    lines
}

fn figure_change(old: &Value, new: &Value, metric: &Value) -> Option<(Change, Vec<String>)> {
    let key = metric["key"].as_str()?;
    let unit = Unit::parse(metric["unit"].as_str()?)?;
    let higher_is_better = direction(key, unit)?;
    let ratios = spread(old, "ratio", key).zip(spread(new, "ratio", key));
    let (before, now, by) = match ratios {
        Some((before, now)) => (before, now, " × floor"),
        None => (
            spread(old, "measured", key)?,
            spread(new, "measured", key)?,
            "",
        ),
    };
    let change = judge(before, now, higher_is_better);
    let shown = |spread: Spread| {
        let each = |value: f64| match ratios {
            Some(_) => format!("{value:.2}"),
            None => figure(value, unit),
        };
        let range = format!("({}–{})", each(spread.low), each(spread.high));
        format!("{} {range}", each(spread.median))
    };
    let percent = (now.median / before.median - 1.0) * 100.0;
    let line = vec![
        format!("  {}{by}", metric["label"].as_str()?),
        shown(before),
        shown(now),
        format!("{percent:+.1} %"),
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
        Unit::Percent | Unit::Count => None,
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
}
