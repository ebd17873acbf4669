//! `stentor bench durable`: sessions that outlive their connections, in small.

use serde_json::Value;
use stentor_tests::process::run;
use stentor_tests::server::stentor;

use super::{measure, measure_all};

fn figure(result: &Value, key: &str) -> f64 {
    let median = result["measured"][key]["median"].as_f64();
    median.unwrap_or_else(|| panic!("no {key}: {result}"))
}

/// Each is sound: what was acknowledged was received once, also after kills and stops.
#[test]
fn small_loads_lose_nothing() {
    let small = [
        "--sessions",
        "40",
        "--messages",
        "30",
        "--kills",
        "2",
        "--seconds",
        "0.3",
    ];
    let results = measure_all(&[&["durable", "--pairs", "1"][..], &small].concat());
    let what = |result: &Value| result["parameters"]["what"].as_str().unwrap().to_owned();
    let names: Vec<String> = results.iter().map(what).collect();
    let all = [
        "one-topic",
        "own-topics",
        "connected",
        "kills",
        "backlog",
        "start",
    ];
    assert_eq!(names, all);
    for result in &results {
        assert_eq!(result["workload"], "durable");
        assert_eq!(result["verdict"]["result"], "sound", "{result}");
        assert_eq!(result["loss"]["lost"], 0, "{result}");
    }
    let of = |name: &str| &results[all.iter().position(|it| *it == name).unwrap()];
    for name in ["one-topic", "own-topics"] {
        let restarts = [
            "first_after_kill_us",
            "first_after_stop_us",
            "start_after_kill_us",
        ];
        for key in [
            &restarts[..],
            &["queued_per_s", "written_bytes", "file_bytes"],
        ]
        .concat()
        {
            assert!(figure(of(name), key) > 0.0, "{name} {key}");
        }
    }
    let ratio = &of("own-topics")["ratio"]["published_per_s"]["median"];
    assert!(ratio.as_f64().is_some_and(|ratio| ratio > 0.0), "{ratio}");
    // 4 bytes with 2,000 subscribers: few of them share what is written of a message.
    let written = figure(of("connected"), "journal_per_delivery_bytes");
    assert!((1.0..60.0).contains(&written), "{written}");
    assert!(figure(of("kills"), "acknowledged_count") > 100.0);
    assert_eq!(figure(of("kills"), "lost_count"), 0.0);
    assert!(figure(of("start"), "all_after_kill_us") > 0.0);
    assert!(figure(of("backlog"), "drained_per_s") > 0.0);
}

/// Messages go to the disk before they are acknowledged, and so does what the floor takes.
#[test]
fn acknowledgements_may_wait_for_the_disk() {
    let small = ["--sessions", "10", "--messages", "20", "--pairs", "1"];
    for version in ["3.1.1", "5"] {
        let more = ["--sync", "always", "--version", version];
        let (code, result) = measure(&[&["durable", "own-topics"], &small[..], &more].concat());
        assert_eq!(code, 0, "{result}");
        assert_eq!(result["parameters"]["sync"], "always");
        assert!(result["floors"]["floor (sync)"].is_object(), "{result}");
    }
}

/// One that writes nothing down of sessions is measured as far as it goes.
#[test]
fn a_server_that_forgets_is_not_restarted() {
    let small = [
        "--sessions",
        "10",
        "--messages",
        "5",
        "--pairs",
        "1",
        "--no-server",
    ];
    let rival = ["--against", "stentor-forgetful"];
    let (code, result) = measure(&[&["durable", "own-topics"], &small[..], &rival].concat());
    assert_eq!(code, 0, "{result}");
    assert_eq!(result["server"], "stentor-forgetful");
    let measured = &result["measured"];
    assert!(measured["queued_per_s"]["median"].is_number(), "{measured}");
    for key in ["start_after_kill_us", "written_bytes"] {
        assert!(!measured[key]["median"].is_number(), "{key}: {measured}");
    }
}

#[test]
fn bounds_are_told() {
    for (options, reason) in [
        (
            &["connected", "--sessions", "9001"][..],
            "give at most 9000",
        ),
        (&["kills", "--sessions", "1001"], "give at most 1000"),
        (
            &["start", "--sessions", "1000000", "--messages", "101"],
            "at most 100000000",
        ),
        (&["--sessions", "0"], "1..=1000000"),
        (&["--payload", "23"], "a number of bytes from 24 to 1000000"),
        (&["--sync", "perhaps"], "never, interval, always"),
        (&["--kills", "0"], "1..=1000"),
    ] {
        let refusal = run(stentor().args(["bench", "durable"]).args(options)).refusal();
        assert!(refusal.contains(reason), "{refusal}");
    }
}
