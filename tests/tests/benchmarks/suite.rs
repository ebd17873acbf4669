//! `stentor bench suite`, and the presets that it is made of.

use std::fs;

use serde_json::Value;
use stentor_tests::process::run;
use stentor_tests::server::stentor;

/// Every published workload, as `bench list` names it, and its command.
const PRESETS: [(&str, &str); 9] = [
    ("login", "ice-login"),
    ("subscribe", "ice-subscribe"),
    ("fanout", "ice-1"),
    ("fanout", "ice-2"),
    ("recover", "ice-last-tick"),
    ("call", "scope-2002"),
    ("private", "appwarp-light"),
    ("private", "appwarp-medium"),
    ("private", "appwarp-heavy"),
];

#[test]
fn every_preset_is_listed_and_explained() {
    let listed = run(stentor().args(["bench", "list"])).success();
    for (workload, preset) in PRESETS {
        assert!(listed.contains(preset), "{preset}: {listed}");
        let arguments = ["bench", workload, preset, "--explain"];
        let told = run(stentor().args(arguments)).success();
        assert!(told.contains("1. "), "{preset}: {told}");
    }
}

#[test]
fn a_suite_explains_all_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let mut command = stentor();
    command
        .args(["bench", "suite", "--explain", "--json"])
        .arg(&file);
    let told = run(&mut command).success();
    for (_, preset) in PRESETS {
        let name = preset
            .trim_end_matches("-light")
            .trim_end_matches("-medium");
        assert!(told.contains(name), "{name}: {told}");
    }
    assert!(told.contains("pingpong") && told.contains("idle"), "{told}");
    assert!(!file.exists());
}

#[test]
fn a_suite_measures_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let mut command = stentor();
    command.args(["bench", "suite", "--quick", "--only", "pingpong"]);
    command.arg("--json").arg(&json).arg("--html").arg(&html);
    let shown = run(&mut command).success();
    let (_, summary) = shown
        .split_once("all workloads")
        .expect("a table at the end");
    assert!(summary.contains("pingpong, together"), "{shown}");
    assert!(
        shown.contains("again: stentor bench pingpong --pairs 1"),
        "{shown}"
    );
    for place in ["\n1 of 2, about ", "\n2 of 2, about "] {
        assert!(shown.contains(place), "{place:?}: {shown}");
    }
    let found = shown.trim_end().lines().last().unwrap_or_default();
    assert!(
        found.contains("2 workloads are") && found.contains("measured with --quick"),
        "{found}"
    );
    let text = fs::read_to_string(&json).unwrap();
    let results: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(results.len(), 2, "{text}");
    for result in &results {
        for key in ["parameters", "floor", "measured", "ratio", "loss"] {
            assert!(result[key].is_object(), "{key}: {result}");
        }
        let machine = &result["machine"];
        assert!(machine["kernel"].is_string() && machine["limits"].is_object());
        let system = &result["system"];
        assert!(system["version"].as_str().unwrap().starts_with("stentor "));
        // Every round trip is in the histogram.
        let histogram = &result["histogram"];
        let buckets = histogram["buckets"].as_array().unwrap();
        let counted: u64 = buckets.iter().map(|b| b[1].as_u64().unwrap()).sum();
        assert_eq!(Some(counted), histogram["count"].as_u64(), "{histogram}");
        assert!(counted > 100, "{histogram}");
    }
    let page = fs::read_to_string(&html).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg"),
        "{page}"
    );
    let (header, _) = page.split_once("<main>").unwrap();
    assert!(
        header.contains("<p class=\"found\">") && header.contains("noisy"),
        "{header}"
    );
    assert!(page.contains("how long does a round trip take?"), "{page}");
    // One file: nothing is fetched.
    for foreign in ["<script", "src=", "url(", "@import", "<link", "http:"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_suite_of_nothing_names_what_there_is() {
    let refusal = run(stentor().args(["bench", "suite", "--only", "fanuot"])).refusal();
    assert!(
        refusal.contains("fanuot") && refusal.contains("fanout ice-1"),
        "{refusal}"
    );
}

#[test]
fn calls_have_an_object_like_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.json");
    let mut command = stentor();
    command
        .args(["bench", "call", "--calls", "10", "--json"])
        .arg(&file);
    run(&mut command).success();
    let text = fs::read_to_string(&file).unwrap();
    let result: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(result["workload"], "call");
    for part in ["measured", "floor", "ratio"] {
        let median = result[part]["call_us"]["median"].as_f64();
        assert!(
            median.is_some_and(|median| median > 0.0),
            "{part}: {result}"
        );
    }
    assert_eq!(result["loss"]["failed"], 0, "{result}");
    let programs = result["programs"].as_array().unwrap();
    assert!(
        programs.iter().any(|p| p["program"] == "stentor-call, TCP"),
        "{result}"
    );
}
