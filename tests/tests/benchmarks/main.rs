//! `stentor bench` from outside: small loads against the real server, and against servers that
//! lose, repeat, swap, delay and die, each of which has to be found out.

#![allow(clippy::unwrap_used, reason = "a test fails where it breaks")]

mod durable;
mod ends;
mod faulty;
mod foreign;
mod mine;
mod operate;
mod private;
mod program;
mod reports;
mod retained;
mod suite;
mod tables;
mod transports;
mod verdicts;

use std::path::Path;

use serde_json::Value;
use stentor_tests::process::{Finished, run};
use stentor_tests::server::stentor;

/// The exit code and the one JSON line of a measurement.
fn measure(arguments: &[&str]) -> (i32, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let finished = run(stentor()
        .arg("bench")
        .args(arguments)
        .arg("--json")
        .arg(&file));
    let code = finished.status.code();
    let result = read(&file);
    let code = code.unwrap_or_else(|| panic!("ended by a signal: {finished}"));
    (
        code,
        result.unwrap_or_else(|| panic!("no result: {finished}")),
    )
}

/// The JSON line of a measurement that succeeds: see [`measure_all`].
fn measure_sound(arguments: &[&str]) -> Value {
    measure_all(arguments).swap_remove(0)
}

/// The JSON lines of measurements that all succeed. A busy machine may be too slow for a load that
/// goes by the clock, which is no fault of the server: then the whole is measured again.
fn measure_all(arguments: &[&str]) -> Vec<Value> {
    for _ in 1..TRIES {
        let (finished, results) = measure_each(arguments);
        if finished.status.success() || !results.iter().any(was_slow) {
            finished.success();
            return results;
        }
    }
    let (finished, results) = measure_each(arguments);
    finished.success();
    results
}

/// Measurements until a machine that is busy counts as one that is always too slow.
const TRIES: usize = 5;

/// Whether a load lost nothing, but was offered or carried too late.
fn was_slow(result: &Value) -> bool {
    let verdict = &result["verdict"];
    let why = verdict["why"].as_str().unwrap_or_default();
    let lost_nothing = ["lost", "duplicated", "reordered", "corrupt"]
        .iter()
        .all(|kind| result["loss"][kind] == 0);
    let came_late = why.contains("% of what was due came out in time");
    lost_nothing && (verdict["result"] == "generator-limited" || came_late)
}

/// The JSON lines of measurements, whatever the machine had to do beside them, and how they ended.
fn measure_each(arguments: &[&str]) -> (Finished, Vec<Value>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let finished = run(stentor()
        .arg("bench")
        .args(arguments)
        .arg("--json")
        .arg(&file));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("no result: {finished}"));
    let line = |line| serde_json::from_str(line).unwrap();
    (finished, text.lines().map(line).collect())
}

fn read(file: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(file).ok()?;
    serde_json::from_str(text.lines().next()?).ok()
}
