//! `stentor bench` from outside: small loads against the real server, and against servers that
//! lose, repeat, swap, delay and die, each of which has to be found out.

#![allow(clippy::unwrap_used, reason = "a test fails where it breaks")]

mod ends;
mod faulty;
mod foreign;
mod mine;
mod private;
mod reports;
mod retained;
mod suite;
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

/// The JSON lines of measurements that all succeed.
fn measure_all(arguments: &[&str]) -> Vec<Value> {
    let (finished, results) = measure_each(arguments);
    finished.success();
    results
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
