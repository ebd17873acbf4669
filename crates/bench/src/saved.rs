//! Files of `--json`, read back. Nothing in them is believed before it was looked at: a figure that
//! is none would compare as well as any other.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::error::{BenchError, Doing};
use crate::measure::{Unit, Verdict};
use crate::report::json::SCHEMA;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1_024 * 1_024;
/// No figure is larger: 31 years in microseconds, a petabyte.
const FIGURE_MAX: f64 = 1e15;
/// So much of a value that is wrong is shown.
const SHOWN_MAX: usize = 40;

/// Reads a file of `--json`, one object a line.
///
/// # Errors
/// When it cannot be read, or an object in it is none of this version; the error names the line and
/// the field.
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
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.is_empty());
    let objects: Vec<Value> = lines
        .map(|(line, number)| {
            parse(line).map_err(|why| {
                BenchError::usage(format!(
                    "{} line {number} is not a result of stentor bench … --json: {why}",
                    file.display()
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    if objects.is_empty() {
        return Err(BenchError::usage(format!(
            "{} has no results; make some by stentor bench … --json FILE",
            file.display()
        )));
    }
    Ok(objects)
}

fn parse(line: &str) -> Result<Value, String> {
    let object: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    check(&Field {
        path: String::new(),
        value: &object,
    })?;
    Ok(object)
}

/// A value of an object, and where it stands.
struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    fn at(&self, key: &str) -> Self {
        self.below(key, &self.value[key])
    }

    fn below(&self, key: &str, value: &'a Value) -> Self {
        let path = match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        Self { path, value }
    }

    fn refuse(&self, wanted: &str) -> String {
        let path = match self.path.as_str() {
            "" => "it",
            path => path,
        };
        if self.value.is_null() {
            return format!("{path} is missing, and should be {wanted}");
        }
        let shown: String = self.value.to_string().chars().take(SHOWN_MAX).collect();
        format!("{path} is {shown}, and should be {wanted}")
    }

    /// A text that may be shown on a terminal.
    fn text(&self) -> Result<&'a str, String> {
        let text = self.value.as_str();
        text.filter(|text| !text.chars().any(char::is_control))
            .ok_or_else(|| self.refuse("a line of text"))
    }

    fn count(&self) -> Result<u64, String> {
        let count = self.value.as_u64();
        count.ok_or_else(|| self.refuse("a whole number from 0 on"))
    }

    fn number(&self) -> Result<f64, String> {
        let number = self.value.as_f64();
        number
            .filter(|number| (0.0..=FIGURE_MAX).contains(number))
            .ok_or_else(|| self.refuse("a number from 0 to 10^15"))
    }

    fn members(&self) -> Result<Vec<Self>, String> {
        let members = self.value.as_object();
        let members = members.ok_or_else(|| self.refuse("an object"))?;
        Ok(members
            .iter()
            .map(|(key, value)| self.below(key, value))
            .collect())
    }

    fn items(&self) -> Result<Vec<Self>, String> {
        let items = self.value.as_array();
        let items = items.ok_or_else(|| self.refuse("a list"))?;
        let each = items.iter().enumerate();
        Ok(each
            .map(|(index, value)| self.below(&index.to_string(), value))
            .collect())
    }

    /// What stands for something that could not be had is left alone.
    fn unless_null(&self, check: impl Fn(&Self) -> Result<(), String>) -> Result<(), String> {
        match self.value {
            Value::Null => Ok(()),
            _ => check(self),
        }
    }
}

fn check(object: &Field<'_>) -> Result<(), String> {
    object.members()?;
    let schema = object.at("schema");
    if schema.count()? != u64::from(SCHEMA) {
        return Err(schema.refuse(&format!(
            "{SCHEMA}: results of another version are read by the program of that version"
        )));
    }
    object.at("workload").text()?;
    object.at("title").text()?;
    object.at("parameters").members()?;
    object.at("pairs").count()?;
    // Files from before it was written have none.
    object.at("measured_at").unless_null(check_second)?;
    object.at("machine").members()?;
    for metric in object.at("metrics").items()? {
        metric.at("key").text()?;
        metric.at("label").text()?;
        let unit = metric.at("unit");
        if Unit::parse(unit.text()?).is_none() {
            return Err(unit.refuse("a unit"));
        }
    }
    check_server(object)?;
    object.at("floor").unless_null(check_figures)?;
    for part in ["floors", "ratios"] {
        object.at(part).unless_null(|each| {
            let mut each = each.members()?.into_iter();
            each.try_for_each(|figures| check_figures(&figures))
        })?;
    }
    object.at("rivals").unless_null(|rivals| {
        rivals.items()?.into_iter().try_for_each(|rival| {
            rival.at("name").text()?;
            rival.at("server_to_rival").unless_null(check_figures)?;
            check_server(&rival)
        })
    })?;
    object.at("published").unless_null(|published| {
        let figures = published.at("figures").members()?;
        figures
            .iter()
            .try_for_each(|figure| figure.number().map(drop))
    })?;
    for part in ["series", "floor_percentiles_us", "floor_histogram"] {
        check_numbers(&object.at(part))?;
    }
    Ok(())
}

/// A second in UTC, as `2026-11-21T08:15:30Z`.
fn check_second(field: &Field<'_>) -> Result<(), String> {
    let shape = "0000-00-00T00:00:00Z";
    let text = field.text()?;
    let digits_are_zeros = |c: char| if c.is_ascii_digit() { '0' } else { c };
    match text.chars().map(digits_are_zeros).eq(shape.chars()) {
        true => Ok(()),
        false => Err(field.refuse("a second in UTC, as 2026-11-21T08:15:30Z")),
    }
}

/// What there is of each server: the one that was measured, and its rivals.
fn check_server(server: &Field<'_>) -> Result<(), String> {
    for part in ["measured", "ratio"] {
        server.at(part).unless_null(check_figures)?;
    }
    server.at("loss").unless_null(|loss| {
        let counts = loss.members()?;
        counts.iter().try_for_each(|count| count.count().map(drop))
    })?;
    server.at("verdict").unless_null(|verdict| {
        let result = verdict.at("result");
        match Verdict::is_word(result.text()?) {
            true => Ok(()),
            false => Err(result.refuse("a verdict")),
        }
    })?;
    for part in ["course", "percentiles_us", "histogram"] {
        check_numbers(&server.at(part))?;
    }
    let ramp = server.at("ramp");
    for part in ["sound_up_to", "broke_at"] {
        check_numbers(&ramp.at(part))?;
    }
    let steps = ramp.at("steps");
    steps.unless_null(|steps| {
        let mut steps = steps.items()?.into_iter();
        steps.try_for_each(|step| {
            step.at("size").number()?;
            check_numbers(&step.at("figures"))
        })
    })
}

/// Medians with their spreads, by key.
fn check_figures(figures: &Field<'_>) -> Result<(), String> {
    for figure in figures.members()? {
        figure.members()?;
        let (low, median) = (figure.at("low"), figure.at("median"));
        let high = figure.at("high").number()?;
        let middle = median.number()?;
        if low.number()? > middle {
            return Err(low.refuse("no more than the median"));
        }
        if middle > high {
            return Err(median.refuse("no more than the highest"));
        }
    }
    Ok(())
}

/// Whatever numbers there are somewhere below.
fn check_numbers(field: &Field<'_>) -> Result<(), String> {
    match field.value {
        Value::Number(_) => field.number().map(drop),
        Value::Array(_) => field.items()?.iter().try_for_each(check_numbers),
        Value::Object(_) => field.members()?.iter().try_for_each(check_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        let figures = json!({ "p99_us": { "low": 1.0, "median": 2.0, "high": 3.5 } });
        json!({
            "schema": SCHEMA,
            "workload": "fanout",
            "title": "ice-1: a load",
            "parameters": { "qos": 0 },
            "pairs": 3,
            "measured_at": "2026-11-21T08:15:30Z",
            "machine": { "kernel": "6.1" },
            "metrics": [{ "key": "p99_us", "label": "p99", "unit": "us", "against_floor": true }],
            "measured": figures,
            "floor": figures,
            "floors": { "floor (send)": figures },
            "ratio": figures,
            "loss": { "lost": 0 },
            "verdict": { "result": "sound", "why": null },
            "series": { "step_seconds": 1.0, "counts": [1, 2] },
            "histogram": { "unit": "ns", "buckets": [[100, 1]] },
            "ramp": { "steps": [{ "size": 5, "figures": { "p99_us": null } }] },
            "rivals": [{
                "name": "another", "measured": figures, "verdict": { "result": "failed" },
            }],
        })
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse(&object().to_string()), Ok(object()));
        let mut before = object();
        let fields = before.as_object_mut().expect("an object");
        fields
            .remove("measured_at")
            .expect("the key that was added");
        assert_eq!(parse(&before.to_string()), Ok(before));
        for (pointer, wrong, told) in [
            ("/schema", json!(2), "schema is 2, and should be 1:"),
            ("/schema", json!("1"), "schema is \"1\""),
            ("/schema", json!(null), "schema is missing"),
            ("/workload", json!(7), "workload is 7"),
            ("/title", json!("a\u{1b}[2J"), "title is"),
            ("/parameters", json!([]), "parameters is []"),
            ("/pairs", json!(-1), "pairs is -1"),
            ("/pairs", json!(2.5), "pairs is 2.5"),
            ("/measured_at", json!(5), "measured_at is 5"),
            ("/measured_at", json!("today"), "measured_at is \"today\""),
            ("/machine", json!("mine"), "machine is"),
            ("/metrics", json!({}), "metrics is {}"),
            (
                "/metrics/0/unit",
                json!("miles"),
                "metrics.0.unit is \"miles\"",
            ),
            ("/measured", json!("fast"), "measured is \"fast\""),
            ("/measured/p99_us", json!(5), "measured.p99_us is 5"),
            (
                "/measured/p99_us/median",
                json!("2"),
                "measured.p99_us.median is \"2\"",
            ),
            (
                "/measured/p99_us/median",
                json!(-2),
                "measured.p99_us.median is -2",
            ),
            (
                "/measured/p99_us/median",
                json!(1e300),
                "measured.p99_us.median is 1e+300",
            ),
            (
                "/measured/p99_us/median",
                json!(null),
                "measured.p99_us.median is missing",
            ),
            (
                "/measured/p99_us/median",
                json!(4),
                "no more than the highest",
            ),
            ("/measured/p99_us/low", json!(3), "no more than the median"),
            (
                "/ratio/p99_us/low",
                json!(null),
                "ratio.p99_us.low is missing",
            ),
            (
                "/floors/floor (send)/p99_us/high",
                json!({}),
                "floors.floor (send).p99_us.high",
            ),
            ("/loss/lost", json!(-3), "loss.lost is -3"),
            (
                "/verdict/result",
                json!("fine"),
                "verdict.result is \"fine\"",
            ),
            ("/series/counts/1", json!(-1), "series.counts.1 is -1"),
            (
                "/histogram/buckets/0/1",
                json!(-1),
                "histogram.buckets.0.1 is -1",
            ),
            (
                "/ramp/steps/0/size",
                json!("big"),
                "ramp.steps.0.size is \"big\"",
            ),
            (
                "/rivals/0/verdict/result",
                json!(1),
                "rivals.0.verdict.result is 1",
            ),
        ] {
            let mut damaged = object();
            *damaged.pointer_mut(pointer).expect("a field") = wrong;
            let refused = parse(&damaged.to_string()).expect_err(pointer);
            assert!(refused.contains(told), "{pointer}: {refused}");
        }
        for text in ["", "5", "[]", "{", "{\"schema\":NaN}", "{\"schema\":1e999}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
