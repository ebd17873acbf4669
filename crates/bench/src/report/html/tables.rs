//! The tables: an overview, and the figures of each workload beside those of others.

use serde_json::{Map, Value};

use super::escaped;
use super::plot::{FLOOR, OWN, rival};
use crate::measure::Unit;
use crate::report::number::{figure, lost, titled};
use crate::report::plain;

/// One row per workload, with the figures that were published about it.
pub(super) fn overview(objects: &[Value]) -> String {
    let mut rows = String::new();
    for (index, object) in objects.iter().enumerate() {
        let cells = headline(object);
        rows.push_str(&format!(
            "<tr><td><a href=\"#w{index}\">{}</a> {}{}</td>{cells}</tr>\n",
            escaped(&titled(object)),
            verdict(&object["verdict"]),
            plainly(object),
        ));
    }
    format!(
        "<div class=\"scroll\"><table class=\"overview long\">\n<thead><tr><th>workload</th><th>figure</th>\
         <th>measured</th><th>published</th><th>× floor</th><th>lost</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// The row's sentence for a stranger.
fn plainly(object: &Value) -> String {
    match plain::sentence(object) {
        text if text.is_empty() => text,
        text => format!("<span class=\"plain\">{}</span>", escaped(&text)),
    }
}

/// The figure that says most: the first that was published, else the one that tells most of the
/// floor.
fn headline(object: &Value) -> String {
    let metrics = object["metrics"].as_array().map_or(&[][..], Vec::as_slice);
    let published = |metric: &&Value| object["published"]["figures"][key(metric)].is_number();
    let floored = telling(metrics, |metric| metric["against_floor"] == true);
    let chosen = metrics.iter().find(published).or(floored);
    let Some(metric) = chosen.or_else(|| metrics.first()) else {
        return String::from("<td></td>").repeat(5);
    };
    let unit = unit(metric);
    let shown = |value: &Value| {
        value
            .as_f64()
            .map_or_else(|| "–".into(), |v| figure(v, unit))
    };
    format!(
        "<td data-label=\"figure\">{}</td><td data-label=\"measured\"><b>{}</b></td>\
         <td data-label=\"published\">{}</td><td data-label=\"× floor\">{}</td>\
         <td data-label=\"lost\">{}</td>",
        escaped(metric["label"].as_str().unwrap_or_default()),
        shown(&object["measured"][key(metric)]["median"]),
        shown(&object["published"]["figures"][key(metric)]),
        ratio(object, metrics, metric),
        lost(&object["loss"]),
    )
}

fn key(metric: &Value) -> &str {
    metric["key"].as_str().unwrap_or_default()
}

/// The first of those that is not a tail of a latency: how long the slowest took on a machine that
/// the generator shares is mostly chance, and below the floor as often as above.
fn telling(metrics: &[Value], suits: impl Fn(&Value) -> bool) -> Option<&Value> {
    let suiting = || metrics.iter().filter(|metric| suits(metric));
    let is_tail = |metric: &&Value| key(metric).contains("_p99") || key(metric).contains("_max");
    let steady = suiting().find(|metric| !is_tail(metric));
    steady.or_else(|| suiting().next())
}

/// The ratio of this figure to the floor with its spread; else that of another, which says whose it
/// is.
fn ratio(object: &Value, metrics: &[Value], of: &Value) -> String {
    let spread = |metric: &Value| &object["ratio"][key(metric)];
    let has = |metric: &Value| spread(metric)["median"].is_number();
    let (chosen, label) = match telling(metrics, has) {
        _ if has(of) => (of, String::new()),
        Some(other) => {
            let label = escaped(other["label"].as_str().unwrap_or_default());
            (other, format!("<small>of {label}</small>"))
        }
        None => return "–".into(),
    };
    let value = |part: &str| {
        let value = spread(chosen)[part].as_f64();
        value.map_or_else(String::new, |value| format!("{value:.2}"))
    };
    let range = range(&value("low"), &value("high"));
    format!("{}{range}{label}", value("median"))
}

fn unit(metric: &Value) -> Unit {
    let word = metric["unit"].as_str().unwrap_or_default();
    Unit::parse(word).unwrap_or(Unit::Count)
}

/// A coloured word.
pub(super) fn verdict(verdict: &Value) -> String {
    let (class, word) = match verdict["result"].as_str() {
        Some("sound") => ("sound", "sound"),
        Some("failed") => ("failed", "not sound"),
        Some("not-run") => ("limited", "not run"),
        Some(_) => ("limited", "generator was the limit"),
        None => return String::new(),
    };
    format!("<span class=\"chip {class}\">{word}</span>")
}

/// This many figures stand beside each other at most: what a sheet of paper has room for.
const FIGURES_MAX: usize = 7;

/// Published, floors, server and rivals, a row each, under one another where there are many
/// figures; nothing where nothing was measured.
pub(super) fn figures(object: &Value) -> String {
    let is_empty = object["measured"].as_object().is_none_or(Map::is_empty);
    if object["verdict"]["result"] == "not-run" && is_empty {
        return String::new();
    }
    let metrics = object["metrics"].as_array().map_or(&[][..], Vec::as_slice);
    let tables = metrics.len().div_ceil(FIGURES_MAX).max(1);
    let each = metrics.len().div_ceil(tables).max(1);
    let mut pieces = metrics.chunks(each).peekable();
    let mut shown = String::new();
    while let Some(piece) = pieces.next() {
        let columns = Columns {
            metrics: piece,
            has_loss: pieces.peek().is_none(),
        };
        shown.push_str(&table(object, &columns));
    }
    shown
}

/// What one table shows of each row.
struct Columns<'a> {
    metrics: &'a [Value],
    has_loss: bool,
}

impl Columns<'_> {
    fn heads(&self) -> String {
        let heads = self.metrics.iter().map(|metric| {
            let label = metric["label"].as_str().unwrap_or_default();
            format!("<th>{}</th>", escaped(label))
        });
        let loss = self.has_loss.then(|| "<th>lost</th>".to_owned());
        heads.chain(loss).collect()
    }

    /// The cells of a row; without `loss` where nothing can be lost.
    fn cells(&self, cell: impl Fn(&Value) -> String, loss: Option<&Value>) -> String {
        let lost = self.has_loss.then(|| {
            format!(
                "<td data-label=\"lost\">{}</td>",
                loss.map(lost).unwrap_or_default()
            )
        });
        let labelled = |metric: &Value| {
            let label = escaped(metric["label"].as_str().unwrap_or_default());
            format!("<td data-label=\"{label}\">{}</td>", cell(metric))
        };
        self.metrics.iter().map(labelled).chain(lost).collect()
    }
}

fn table(object: &Value, columns: &Columns<'_>) -> String {
    let mut rows = String::new();
    if let Some(source) = object["published"]["source"].as_str() {
        let cell = |metric: &Value| {
            let key = metric["key"].as_str().unwrap_or_default();
            let value = object["published"]["figures"][key].as_f64();
            value.map_or_else(|| "–".into(), |value| figure(value, unit(metric)))
        };
        rows.push_str(&format!(
            "<tr class=\"published\"><td>{}</td>{}</tr>\n",
            escaped(source),
            columns.cells(cell, None)
        ));
    }
    for (name, floor) in object["floors"].as_object().into_iter().flatten() {
        rows.push_str(&row(name, FLOOR, "", columns, floor, None, None));
    }
    if let Some(name) = object["server"].as_str() {
        let (measured, ratio) = (&object["measured"], &object["ratio"]);
        let loss = Some(&object["loss"]);
        rows.push_str(&row(name, OWN, "own", columns, measured, Some(ratio), loss));
    }
    let rivals = object["rivals"].as_array().into_iter().flatten();
    for (index, other) in rivals.enumerate() {
        let name = other["name"].as_str().unwrap_or_default();
        let (measured, ratio) = (&other["measured"], Some(&other["ratio"]));
        rows.push_str(&row(
            name,
            rival(index),
            "",
            columns,
            measured,
            ratio,
            Some(&other["loss"]),
        ));
    }
    format!(
        "<div class=\"scroll\"><table class=\"figures\">\n<thead><tr><th></th>{}</tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n",
        columns.heads()
    )
}

/// One server's row, in this colour and of this class.
fn row(
    name: &str,
    colour: &str,
    class: &str,
    columns: &Columns<'_>,
    measured: &Value,
    ratio: Option<&Value>,
    loss: Option<&Value>,
) -> String {
    let cell = |metric: &Value| {
        let key = metric["key"].as_str().unwrap_or_default();
        let spread = &measured[key];
        let Some(median) = spread["median"].as_f64() else {
            return "–".to_owned();
        };
        let unit = unit(metric);
        let shown = |value: &Value| value.as_f64().map_or_else(String::new, |v| figure(v, unit));
        let range = range(&shown(&spread["low"]), &shown(&spread["high"]));
        let ratio = ratio.and_then(|ratio| ratio[key]["median"].as_f64());
        let ratio = ratio.map_or_else(String::new, |r| format!("<small>{r:.2} × floor</small>"));
        format!("<span>{}{range}{ratio}</span>", figure(median, unit))
    };
    format!(
        "<tr class=\"{class}\"><td><i class=\"dot {colour}\"></i>{}</td>{}</tr>\n",
        escaped(name),
        columns.cells(cell, loss)
    )
}

/// From the lowest to the highest, the unit written once; nothing where both look the same.
fn range(low: &str, high: &str) -> String {
    if low == high {
        return String::new();
    }
    let low = match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number,
        _ => low,
    };
    format!("<small>{low}–{high}</small>")
}

/// The steps of a load that grew, and what came of them; nothing where none did.
pub(super) fn ramp(object: &Value) -> String {
    let ramp = &object["ramp"];
    let steps = ramp["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = steps.first() else {
        return String::new();
    };
    let has = |metric: &&Value| {
        let key = metric["key"].as_str().unwrap_or_default();
        first["figures"].get(key).is_some()
    };
    let metrics: Vec<&Value> = object["metrics"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(has)
        .collect();
    let heads = metrics.iter().map(|metric| {
        let label = metric["label"].as_str().unwrap_or_default();
        format!("<th>{}</th>", escaped(label))
    });
    let rows = steps.iter().map(|step| {
        let cells = metrics.iter().map(|metric| {
            let key = metric["key"].as_str().unwrap_or_default();
            let value = step["figures"][key].as_f64();
            let shown = value.map_or_else(|| "–".into(), |value| figure(value, unit(metric)));
            format!("<td>{shown}</td>")
        });
        let size = figure(step["size"].as_f64().unwrap_or(0.0), Unit::Count);
        let cells: String = cells.collect();
        format!(
            "<tr><td>{size} {}</td>{cells}</tr>\n",
            verdict(&step["verdict"])
        )
    });
    format!(
        "<div class=\"scroll\"><table class=\"long\">\n<thead><tr><th>{}</th>{}</tr></thead>\n<tbody>\n{}\
         </tbody></table></div>\n<p class=\"what\">Breaking point: {}.</p>\n",
        escaped(ramp["what"].as_str().unwrap_or_default()),
        heads.collect::<String>(),
        rows.collect::<String>(),
        escaped(ramp["sentence"].as_str().unwrap_or_default()),
    )
}

/// Why a verdict is what it is, and whose fault that was.
fn reason(verdict: &Value) -> Option<String> {
    let why = verdict["why"].as_str()?;
    Some(match verdict["result"].as_str() {
        Some("generator-limited") => format!("the generator was the limit: {why}"),
        _ => why.to_owned(),
    })
}

/// What stands beside a verdict.
fn remarks(server: &Value) -> impl Iterator<Item = &str> {
    let notes = server["notes"].as_array().into_iter().flatten();
    notes.filter_map(Value::as_str)
}

/// What was said with the published figures, and what was wrong.
pub(super) fn notes(object: &Value) -> String {
    let published = object["published"]["notes"]
        .as_array()
        .into_iter()
        .flatten();
    let mut notes: Vec<String> = published
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    for (name, verdict) in object["floor_verdicts"].as_object().into_iter().flatten() {
        notes.extend(reason(verdict).map(|why| format!("{name}: {why}")));
        if verdict["result"] == "failed" {
            notes.push(format!(
                "ratios to {name} are of the pairs in which it was sound, if there are any"
            ));
        }
    }
    let name = object["server"].as_str().unwrap_or("server");
    notes.extend(reason(&object["verdict"]).map(|why| format!("{name}: {why}")));
    notes.extend(remarks(object).map(|note| format!("{name}: {note}")));
    for other in object["rivals"].as_array().into_iter().flatten() {
        let name = other["name"].as_str().unwrap_or_default();
        let errors = other["errors"].as_array().into_iter().flatten();
        let errors = errors.filter_map(|why| why.as_str().map(str::to_owned));
        let wrong = reason(&other["verdict"]).into_iter().chain(errors);
        notes.extend(wrong.take(1).map(|why| format!("{name}: {why}")));
        notes.extend(remarks(other).map(|note| format!("{name}: {note}")));
    }
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>", escaped(note)))
        .collect();
    format!("<ul class=\"notes\">{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tail is below the floor by chance, and the more so the flatter it looks.
    #[test]
    fn the_overview_takes_no_ratio_of_a_tail_where_there_is_another() {
        let mut object = json!({
            "title": "appwarp-heavy: clients",
            "parameters": {},
            "metrics": [
                { "key": "in_per_s", "label": "in/s", "unit": "per_s", "against_floor": false },
                { "key": "latency_p99_us", "label": "p99", "unit": "us", "against_floor": true },
                { "key": "cpu_us", "label": "CPU/message in", "unit": "us", "against_floor": true },
            ],
            "measured": { "in_per_s": { "median": 10_000.0 }, "cpu_us": { "median": 12.0 } },
            "ratio": {
                "latency_p99_us": { "low": 0.2, "median": 0.84, "high": 1.66 },
                "cpu_us": { "low": 1.19, "median": 1.23, "high": 1.31 },
            },
            "published": { "figures": { "in_per_s": 10_000.0 } },
        });
        let cpu = ">1.23<small>1.19–1.31</small><small>of CPU/message in</small></td>";
        let page = overview(&[object.clone()]);
        assert!(
            page.contains(">in/s</td><td data-label=\"measured\"><b>10,000</b></td>"),
            "{page}"
        );
        assert!(page.contains(cpu), "{page}");
        object["published"] = Value::Null;
        let page = overview(&[object.clone()]);
        assert!(
            page.contains(">CPU/message in</td><td data-label=\"measured\"><b>12.0 µs</b></td>"),
            "{page}"
        );
        assert!(
            page.contains(">1.23<small>1.19–1.31</small></td>"),
            "{page}"
        );
        // A tail is better than nothing.
        object["ratio"]["cpu_us"] = Value::Null;
        object["published"] = json!({ "figures": { "in_per_s": 10_000.0 } });
        let page = overview(&[object]);
        assert!(
            page.contains("0.84<small>0.20–1.66</small><small>of p99</small>"),
            "{page}"
        );
    }

    #[test]
    fn a_range_has_one_unit() {
        assert_eq!(range("1.0 ms", "2.0 ms"), "<small>1.0–2.0 ms</small>");
        assert_eq!(range("999 µs", "2.0 ms"), "<small>999 µs–2.0 ms</small>");
        assert_eq!(range("1 %", "1 %"), "");
    }
}
