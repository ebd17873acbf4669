//! The plots of one workload, and the ratios of all of them.

use std::fmt::Write;

use serde_json::Value;

use super::escaped;
use super::plot::{Axis, Curve, FLOOR, OWN, figure, rival};
use crate::measure::Unit;
use crate::report::number;

/// Percentiles along the axis: every nine takes as much room as the one before.
const PERCENTS: [(f64, &str); 6] = [
    (0.0, "0 %"),
    (90.0, "90"),
    (99.0, "99"),
    (99.9, "99.9"),
    (99.99, "99.99"),
    (99.999, "99.999"),
];
/// Points of a percentile curve.
const STEPS: u32 = 200;

/// A label for an axis: short, with its unit.
fn short(value: f64, unit: Unit) -> String {
    if unit == Unit::PerSecond {
        return match value {
            value if value >= 1e6 => format!("{} M", trimmed(value / 1e6)),
            value if value >= 1e3 => format!("{} k", trimmed(value / 1e3)),
            value => trimmed(value),
        };
    }
    match unit {
        Unit::Micros if value >= 1e6 => format!("{} s", trimmed(value / 1e6)),
        Unit::Micros if value >= 1e3 => format!("{} ms", trimmed(value / 1e3)),
        Unit::Micros => format!("{} µs", trimmed(value)),
        Unit::Bytes => format!("{} MiB", trimmed(value / 1_048_576.0)),
        Unit::BytesPerSecond => format!("{} MiB/s", trimmed(value / 1_048_576.0)),
        Unit::Percent => format!("{} %", trimmed(value)),
        Unit::Ratio => format!("{} ×", trimmed(value)),
        Unit::Count | Unit::PerSecond => trimmed(value),
    }
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn numbers(array: &Value) -> Vec<f64> {
    let values = array.as_array().into_iter().flatten();
    values
        .map(|value| value.as_f64().unwrap_or(f64::NAN))
        .collect()
}

fn highest<'a>(curves: impl IntoIterator<Item = &'a Curve>) -> f64 {
    let points = curves.into_iter().flat_map(|curve| &curve.points);
    points
        .map(|(_, y)| *y)
        .filter(|y| !y.is_nan())
        .fold(0.0, f64::max)
}

/// The name of what was measured.
fn own_name(object: &Value) -> String {
    object["server"].as_str().unwrap_or("server").to_owned()
}

/// Deliveries, or whatever is counted, step by step.
pub(super) fn throughput(object: &Value) -> String {
    let step = object["series"]["step_seconds"].as_f64().unwrap_or(0.0);
    let counts = numbers(&object["series"]["counts"]);
    if counts.len() < 2 || step <= 0.0 {
        return String::new();
    }
    // Each count lasts for its step: a staircase.
    let points = counts.iter().enumerate().flat_map(|(index, count)| {
        let from = index as f64 * step;
        [(from, count / step), (from + step, count / step)]
    });
    let curves = [Curve {
        name: own_name(object),
        colour: OWN,
        points: points.collect(),
        filled: true,
    }];
    let y = Axis::linear(highest(&curves) * 1.05, |value| {
        short(value, Unit::PerSecond)
    });
    let x = seconds(counts.len() as f64 * step);
    figure("Throughput", "per second, over time", &x, &y, &curves)
}

/// Time from 0 on.
fn seconds(end: f64) -> Axis {
    let label = |value: f64| match end {
        end if end < 1.0 => format!("{} ms", (value * 1e3).round()),
        _ => format!("{} s", trimmed((value * 10.0).round() / 10.0)),
    };
    let ticks = (0..=4).map(|n| end * f64::from(n) / 4.0);
    Axis::of(0.0, end, ticks.map(|at| (at, label(at))).collect())
}

/// Where a percentile lies on its axis: 0 at 0 %, 1 at 90 %, 2 at 99 %, …
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).max(1e-6).log10()
}

/// Latency by percentile, from the histograms.
pub(super) fn percentiles(object: &Value) -> String {
    let mut curves = Vec::new();
    curves.extend(curve(own_name(object), OWN, &object["histogram"]));
    curves.extend(curve("floor".into(), FLOOR, &object["floor_histogram"]));
    for (index, other) in rivals(object).enumerate() {
        let name = other["name"].as_str().unwrap_or_default().to_owned();
        curves.extend(curve(name, rival(index), &other["histogram"]));
    }
    if curves.is_empty() {
        return String::new();
    }
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let low = all().map(|(_, y)| *y).fold(f64::MAX, f64::min);
    let y = Axis::log(low.max(1.0), highest(&curves), |value| {
        short(value, Unit::Micros)
    });
    let end = all().map(|(x, _)| *x).fold(1.0, f64::max);
    let ticks = PERCENTS
        .iter()
        .map(|(percent, label)| (nines(*percent), (*label).to_owned()));
    let x = Axis::of(
        0.0,
        end,
        ticks.filter(|(at, _)| *at <= end + 1e-9).collect(),
    );
    figure(
        "Latency",
        "by percentile, both axes logarithmic",
        &x,
        &y,
        &curves,
    )
}

fn rivals(object: &Value) -> impl Iterator<Item = &Value> {
    object["rivals"].as_array().into_iter().flatten()
}

/// As many points as fit a line: a histogram has thousands of buckets.
fn curve(name: String, colour: &'static str, histogram: &Value) -> Option<Curve> {
    let buckets = histogram["buckets"].as_array()?;
    let total = histogram["count"].as_f64().filter(|count| *count > 0.0)?;
    let end = nines(100.0 * (1.0 - 1.0 / total)).min(6.0);
    let mut points = Vec::new();
    let (mut passed, mut next) = (0.0, 0_u32);
    for bucket in buckets {
        passed += bucket[1].as_f64().unwrap_or(0.0);
        let value = bucket[0].as_f64().unwrap_or(0.0) / 1_000.0;
        let at = nines(100.0 * passed / total).min(end);
        while next <= STEPS && end * f64::from(next) / f64::from(STEPS) <= at + 1e-9 {
            points.push((end * f64::from(next) / f64::from(STEPS), value));
            next += 1;
        }
    }
    Some(Curve {
        name,
        colour,
        points,
        filled: false,
    })
}

/// CPU of server and generator over time.
pub(super) fn processor(object: &Value) -> String {
    course(
        object,
        "cpu_percent",
        "CPU",
        "of one processor, over time",
        Unit::Percent,
    )
}

/// Memory of server and generator over time.
pub(super) fn memory(object: &Value) -> String {
    course(
        object,
        "rss_bytes",
        "Memory",
        "resident, over time",
        Unit::Bytes,
    )
}

fn course(object: &Value, key: &str, caption: &str, words: &str, unit: Unit) -> String {
    let line = |name: String, colour, of: &Value, part: &str| Curve {
        name,
        colour,
        points: numbers(&of["at_seconds"])
            .into_iter()
            .zip(numbers(&of[part][key]))
            .collect(),
        filled: part == "server" && colour == OWN,
    };
    let mut curves = vec![
        line(own_name(object), OWN, &object["course"], "server"),
        line("generator".into(), FLOOR, &object["course"], "generator"),
    ];
    for (index, other) in rivals(object).enumerate() {
        let name = other["name"].as_str().unwrap_or_default().to_owned();
        curves.push(line(name, rival(index), &other["course"], "server"));
    }
    curves.retain(|curve| curve.points.iter().any(|(_, y)| !y.is_nan()));
    let ends = curves.iter().filter_map(|curve| curve.points.last());
    let end = ends.map(|(x, _)| *x).fold(0.0, f64::max);
    let y = highest(&curves) * 1.05;
    let y = if unit == Unit::Bytes {
        // Round in MiB, not in millions.
        let mib = 1_048_576.0;
        let axis = Axis::linear(y / mib, |value| short(value * mib, unit));
        curves.iter_mut().for_each(|curve| {
            curve.points.iter_mut().for_each(|(_, y)| *y /= mib);
        });
        axis
    } else {
        Axis::linear(y, |value| short(value, unit))
    };
    figure(caption, words, &seconds(end.max(1e-3)), &y, &curves)
}

/// Larger ratios lie at the end of the axis; the number beside them is right.
const RATIO_SHOWN_MAX: f64 = 12.0;

/// A ratio: what it is of, its lowest value, its median, its highest value.
type Ratio = (String, [f64; 3]);

/// All ratios to the floor with their spreads.
pub(super) fn floors(objects: &[Value]) -> String {
    let of = |object: &Value| ratios(object, &object["ratio"], &number::titled(object));
    let rows: Vec<Ratio> = objects.iter().flat_map(of).collect();
    let words = "median and spread of the ratio to a bare program that makes the same system calls";
    forest("Against the floor", words, "1 × floor", &rows)
}

/// All ratios of the server to its rivals with their spreads. What `call` starts beside it are
/// other ways to ask a server, and no brokers.
pub(super) fn against_rivals(objects: &[Value]) -> String {
    let (mut brokers, mut programs) = (Vec::new(), Vec::new());
    for object in objects {
        let rows = match object["workload"] == "call" {
            true => &mut programs,
            false => &mut brokers,
        };
        for rival in rivals(object) {
            let name = rival["name"].as_str().unwrap_or_default();
            let name = format!("{} to {name}", number::titled(object));
            rows.extend(ratios(object, &rival["server_to_rival"], &name));
        }
    }
    let words = "median and spread of the ratio to another broker in the same run";
    let brokers = forest("Against others", words, "1 × the other", &brokers);
    let words = "median and spread of the ratio of stentor-call by Unix socket to another program, \
                 or to itself by TCP, in the same run";
    let programs = forest(
        "Calls, against other programs",
        words,
        "1 × the other",
        &programs,
    );
    brokers + &programs
}

/// One line per ratio; nothing without any.
fn forest(caption: &str, words: &str, one: &str, rows: &[Ratio]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let highest = rows
        .iter()
        .map(|(_, [_, _, high])| *high)
        .fold(1.0, f64::max);
    let axis_end = highest.min(RATIO_SHOWN_MAX) * 1.05;
    let percent = |value: f64| (value / axis_end).clamp(0.0, 1.0) * 100.0;
    let mut lines = String::new();
    for (name, [low, median, high]) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "<li><span class=\"name\">{}</span><span class=\"track\">\
             <i class=\"one\" style=\"left:{:.1}%\"></i>\
             <i class=\"spread\" style=\"left:{:.1}%;width:{:.1}%\"></i>\
             <i class=\"point\" style=\"left:{:.1}%\"></i></span>\
             <b>{median:.2}</b></li>",
            escaped(name),
            percent(1.0),
            percent(*low),
            percent(*high) - percent(*low),
            percent(*median),
        );
    }
    format!(
        "<figure class=\"wide\">\n<figcaption>{caption} <span>{words}; the dashed line is {one}; \
         less is better, but more where ↑ stands</span></figcaption>\n\
         <ul class=\"ratios\">\n{lines}</ul></figure>\n",
        one = escaped(one)
    )
}

fn ratios(object: &Value, ratios: &Value, title: &str) -> Vec<Ratio> {
    let metrics = object["metrics"].as_array().into_iter().flatten();
    metrics
        .filter_map(|metric| {
            let spread = &ratios[metric["key"].as_str()?];
            let value = |key: &str| spread[key].as_f64();
            let more = if metric["unit"] == "per_s" || metric["unit"] == "bytes_per_s" {
                " ↑"
            } else {
                ""
            };
            let name = format!("{title}: {}{more}", metric["label"].as_str()?);
            Some((name, [value("low")?, value("median")?, value("high")?]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_that_call_are_no_brokers() {
        let object = |workload: &str, rival: &str| {
            let spread = json!({ "low": 0.9, "median": 1.0, "high": 1.1 });
            json!({
                "workload": workload,
                "title": format!("{workload}: a load"),
                "metrics": [{ "key": "a_us", "label": "a", "unit": "us" }],
                "rivals": [{ "name": rival, "server_to_rival": { "a_us": spread } }],
            })
        };
        let (call, fanout) = (object("call", "spamc"), object("fanout", "mosquitto"));
        let alone = against_rivals(std::slice::from_ref(&call));
        assert!(alone.contains("call to spamc"), "{alone}");
        assert!(!alone.contains("broker"), "{alone}");
        let both = against_rivals(&[call, fanout]);
        let (brokers, programs) = both.split_once("</figure>").expect("two");
        assert!(
            brokers.contains("broker") && brokers.contains("to mosquitto"),
            "{both}"
        );
        assert!(!brokers.contains("spamc"), "{both}");
        assert!(
            programs.contains("spamc") && !programs.contains("mosquitto"),
            "{both}"
        );
    }
}
