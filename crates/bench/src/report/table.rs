//! The table for people.

use std::fmt::Write;

use super::number::{figure, grouped};
use crate::measure::{Metric, Series, Verdict};
use crate::runner::{Outcome, Results};
use crate::scenario::fanout::mine;
use crate::stats::Spread;
use crate::workload::Sheet;

/// Everything about one workload as text that ends with a newline.
pub(crate) fn render(sheet: &Sheet, results: &Results, pairs: u32) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let sentences = mine::sentences(sheet, results);
    for sentence in &sentences {
        let _ = writeln!(text, "\n{sentence}");
    }
    let _ = writeln!(text, "\n{}", sheet.title);
    let _ = writeln!(text, "{}\n", repetitions(results, pairs));
    let rows = rows(sheet, results);
    // Readers who ask with their own load read down, and compare few servers.
    text.push_str(&fitted(&rows, !sentences.is_empty()));
    text.push_str(&super::bars::table(sheet, results));
    text.push_str(&ratios(results));
    text.push_str(&left_out(results));
    if let Some(published) = &sheet.published {
        for note in &published.notes {
            let _ = writeln!(text, "  {note}");
        }
    }
    if let Some(leg) = results
        .servers
        .first()
        .and_then(|server| server.sound_legs().last())
    {
        text.push_str(&series(&leg.series));
    }
    for server in &results.servers {
        let climb = server
            .sound_legs()
            .last()
            .and_then(|leg| leg.climb.as_ref());
        if let Some(climb) = climb {
            let _ = writeln!(text, "\n  {}, step by step", server.name);
            text.push_str(&climb.table());
        }
    }
    for outcome in results.floors.iter().chain(&results.servers) {
        for note in outcome.notes() {
            let _ = writeln!(text, "  {}: note: {note}", outcome.name);
        }
        match outcome.verdict() {
            Verdict::Sound => {}
            Verdict::GeneratorLimited(why) => {
                let _ = writeln!(
                    text,
                    "  {}: the generator was the limit: {why}",
                    outcome.name
                );
            }
            Verdict::NotRun(why) => {
                let _ = writeln!(text, "  {}: NOT RUN: {why}", outcome.name);
            }
            Verdict::Failed(why) => {
                let _ = writeln!(text, "  {}: NOT SOUND: {why}", outcome.name);
            }
        }
    }
    text
}

/// How often the server (of none, the floor) was measured. One that dies leaves no figures of its
/// pair, and may have no other.
fn repetitions(results: &Results, pairs: u32) -> String {
    let first = results.servers.first().or_else(|| results.floors.first());
    let measured = first.map_or(0, Outcome::measured);
    match (measured, pairs) {
        (1, 1) => "measured once".into(),
        (0, 1) => "not measured to the end".into(),
        (0, pairs) => format!("measured to the end in none of {pairs} interleaved pairs"),
        (1, pairs) => format!("measured in 1 of {pairs} interleaved pairs"),
        (measured, pairs) if measured == pairs as usize => {
            format!("medians of {pairs} interleaved pairs")
        }
        (measured, pairs) => format!("medians of {measured} of {pairs} interleaved pairs"),
    }
}

/// What is in the place of the table of a workload that could not be run.
pub(crate) fn not_run(title: &str, why: &str) -> String {
    format!("\n{title}\n  NOT RUN: {why}\n")
}

/// The figures that any server has, in the order of the first that has some.
pub(crate) fn metrics(results: &Results) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = Vec::new();
    for outcome in results.servers.iter().chain(&results.floors) {
        for (metric, _) in outcome.sound_legs().flat_map(|leg| &leg.figures) {
            if !metrics.iter().any(|known| known.key == metric.key) {
                metrics.push(*metric);
            }
        }
    }
    metrics
}

fn rows(sheet: &Sheet, results: &Results) -> Vec<Vec<String>> {
    let metrics = metrics(results);
    let mut header = vec![String::new()];
    header.extend(metrics.iter().map(|metric| metric.label.to_owned()));
    header.push("lost".into());
    let mut rows = vec![header];
    if let Some(published) = &sheet.published {
        let mut row = vec![published.source.to_owned()];
        row.extend(metrics.iter().map(|metric| {
            let found = published.figures.iter().find(|(key, _)| *key == metric.key);
            found.map_or_else(|| "–".into(), |(_, value)| figure(*value, metric.unit))
        }));
        row.push("0".into());
        rows.push(row);
    }
    for outcome in results.floors.iter().chain(&results.servers) {
        let mut row = vec![outcome.name.clone()];
        row.extend(metrics.iter().map(|metric| {
            let spread = outcome.spread(metric.key);
            spread.map_or_else(|| "–".into(), |spread| figure(spread.median, metric.unit))
        }));
        let lost = outcome.loss().map(|(faults, failed)| faults.lost + failed);
        row.push(lost.map_or_else(|| "–".into(), |lost| grouped(lost as f64)));
        rows.push(row);
    }
    rows
}

/// Rows as columns.
fn turned(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let columns = rows.first().map_or(0, Vec::len);
    let column = |at: usize| {
        let cells = rows.iter().map(|row| row.get(at).cloned());
        cells.map(Option::unwrap_or_default).collect()
    };
    (0..columns).map(column).collect()
}

/// This many characters beside each other are easily read.
const WIDTH_MAX: usize = 120;

/// The rows as they are, or as columns where that is wanted, or where they are too wide and
/// columns are less so.
fn fitted(rows: &[Vec<String>], is_turned: bool) -> String {
    let width = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let (across, down) = (align(rows), align(&turned(rows)));
    let is_wide = width(&across) > Some(WIDTH_MAX) && width(&down) < width(&across);
    match is_turned || is_wide {
        true => down,
        false => across,
    }
}

/// First column to the left, the others to the right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            if column == 0 {
                line.push_str(&format!("{cell}{pad}"));
            } else {
                line.push_str(&format!("  {pad}{cell}"));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn ratios(results: &Results) -> String {
    let metrics: Vec<Metric> = metrics(results)
        .into_iter()
        .filter(|metric| metric.against_floor)
        .collect();
    let mut lines = Vec::new();
    for server in &results.servers {
        for floor in &results.floors {
            for metric in &metrics {
                if let Some(ratio) = server.ratio(floor, metric.key) {
                    lines.push(vec![
                        server.name.clone(),
                        metric.label.to_owned(),
                        times(&ratio),
                        floor.name.clone(),
                    ]);
                }
            }
        }
    }
    lines.extend(rivals(results, &metrics));
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n");
    for line in lines {
        let _ = writeln!(
            text,
            "  {:<24} {:<16} {} {}",
            line[0], line[1], line[2], line[3]
        );
    }
    text
}

/// A note that floors that failed are not compared with.
fn left_out(results: &Results) -> String {
    let failed = results.floors.iter().filter(|floor| floor.failures() > 0);
    let lines = failed.map(|floor| {
        format!(
            "  no ratio to {} of the {} of {} pairs in which it was not sound\n",
            floor.name,
            floor.failures(),
            floor.legs.len()
        )
    });
    lines.collect()
}

/// The measured server against each rival.
fn rivals(results: &Results, metrics: &[Metric]) -> Vec<Vec<String>> {
    let Some((own, rivals)) = results.servers.split_first() else {
        return Vec::new();
    };
    let line = |rival: &Outcome, metric: &Metric| {
        let ratio = own.ratio(rival, metric.key)?;
        Some(vec![
            own.name.clone(),
            metric.label.to_owned(),
            times(&ratio),
            rival.name.clone(),
        ])
    };
    rivals
        .iter()
        .flat_map(|rival| metrics.iter().filter_map(move |metric| line(rival, metric)))
        .collect()
}

fn times(ratio: &Spread) -> String {
    format!("{:.2} × ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high)
}

/// The table that the originals printed.
fn series(series: &Series) -> String {
    if series.counts.len() < 2 {
        return String::new();
    }
    let mut rows = vec![vec!["second".into(), "completed".into(), "total".into()]];
    let mut total = 0;
    for (index, count) in series.counts.iter().enumerate() {
        total += count;
        let from = index as f64 * series.step_s;
        let digits = if series.step_s < 1.0 { 3 } else { 0 };
        let name = format!("{from:.digits$}–{:.digits$}", from + series.step_s);
        rows.push(vec![name, grouped(*count as f64), grouped(total as f64)]);
    }
    format!("\n{}", align(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Leg, Unit};
    use crate::target::Needs;
    use crate::wire::Version;

    /// Medians are of what was measured, not of what was asked for.
    #[test]
    fn the_pairs_that_were_measured_are_told() {
        let measured = || {
            let mut leg = Leg::default();
            leg.push(Metric::new("each_us", "each", Unit::Micros), 1.0);
            Ok(leg)
        };
        let died = || Ok(Leg::default());
        let gone = || Err(Verdict::Failed("gone".into()));
        for (legs, expected) in [
            (vec![measured()], "measured once"),
            (vec![died()], "not measured to the end"),
            (
                vec![measured(), measured()],
                "medians of 2 interleaved pairs",
            ),
            (
                vec![died(), gone()],
                "measured to the end in none of 2 interleaved pairs",
            ),
            (
                vec![measured(), died()],
                "measured in 1 of 2 interleaved pairs",
            ),
            (
                vec![measured(), measured(), gone()],
                "medians of 2 of 3 interleaved pairs",
            ),
        ] {
            let pairs = legs.len() as u32;
            let results = Results {
                floors: Vec::new(),
                servers: vec![Outcome {
                    name: "one".into(),
                    identity: serde_json::Value::Null,
                    floor: None,
                    legs,
                }],
            };
            assert_eq!(repetitions(&results, pairs), expected);
        }
    }

    /// Nobody has counted what a server lost that was killed.
    #[test]
    fn what_is_not_known_to_be_lost_is_not_told_as_nothing() {
        let measured = |lost| {
            let mut leg = Leg::default();
            leg.push(Metric::new("each_us", "each", Unit::Micros), 1.0);
            leg.faults.lost = lost;
            Ok(leg)
        };
        let gone = || Err(Verdict::Failed("the server is gone".into()));
        for (legs, expected) in [
            (vec![measured(0), measured(0)], "0"),
            (vec![measured(0), measured(3)], "3"),
            (vec![measured(0), gone()], "–"),
            (vec![gone(), measured(3)], "3"),
            (vec![gone()], "–"),
            (vec![Ok(Leg::default())], "–"),
        ] {
            let outcome = Outcome {
                name: "one".into(),
                identity: serde_json::Value::Null,
                floor: None,
                legs,
            };
            let results = Results {
                floors: Vec::new(),
                servers: vec![outcome],
            };
            let sheet = Sheet {
                name: "one",
                title: "one".into(),
                parameters: serde_json::Map::new(),
                floors: Vec::new(),
                needs: Needs::new(1, 1, Version::V311),
                pairs: 1,
                plan: Vec::new(),
                published: None,
                bars: Vec::new(),
            };
            let rows = rows(&sheet, &results);
            assert_eq!(rows[1].last().unwrap(), expected);
        }
    }

    #[test]
    fn a_table_can_be_turned() {
        let rows = [
            vec!["".into(), "CPU".into(), "lost".into()],
            vec!["one".into(), "5 %".into(), "0".into()],
        ];
        let text = align(&turned(&rows));
        assert_eq!(text, "        one\n  CPU   5 %\n  lost    0\n");
    }

    #[test]
    fn a_wide_table_is_turned() {
        let row = |name: &str, cells: usize| {
            let cells = (0..cells).map(|cell| format!("{name} {cell}"));
            [name.to_owned()]
                .into_iter()
                .chain(cells)
                .collect::<Vec<_>>()
        };
        let few = [row("", 3), row("one", 3)];
        assert_eq!(fitted(&few, false), align(&few));
        let many = [row("", 30), row("one", 30)];
        assert_eq!(fitted(&many, false), align(&turned(&many)));
        // Many rows are no better as columns.
        let long = ["of a long name"; 40].map(|name| row(name, 20));
        assert_eq!(fitted(&long, false), align(&long));
    }

    #[test]
    fn columns_line_up_with_wide_letters() {
        let rows = [
            vec!["".into(), "µs".into()],
            vec!["floor".into(), "1,000".into()],
        ];
        assert_eq!(align(&rows), "            µs\n  floor  1,000\n");
    }

    #[test]
    fn the_series_adds_up() {
        let text = series(&Series {
            step_s: 1.0,
            counts: vec![590, 24_683],
        });
        assert!(text.contains("1–2        24,683  25,273"), "{text}");
        assert_eq!(series(&Series::default()), "");
    }
}
