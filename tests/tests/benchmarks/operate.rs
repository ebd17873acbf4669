//! `stentor bench operate`: each figure has a value, a bar and what the same twice comes to.

use serde_json::Value;
use stentor_tests::process::run;
use stentor_tests::server::stentor;

use super::measure_all;

/// Small and short.
const SMALL: [&str; 14] = [
    "--clients",
    "150",
    "--subscribers",
    "10",
    "--topics",
    "300",
    "--rounds",
    "2",
    "--seconds",
    "1",
    "--warmup",
    "0.2",
    "--pairs",
    "1",
];

/// A result of one of the figures.
fn measured(what: &str) -> Value {
    let mut results = measure_all(&[&["operate", what][..], &SMALL].concat());
    assert_eq!(results.len(), 1, "{results:?}");
    let result = results.swap_remove(0);
    assert_eq!(result["workload"], "operate", "{result}");
    assert_eq!(result["parameters"]["what"], what, "{result}");
    result
}

/// A figure within bounds that hold on any machine.
fn within(result: &Value, key: &str, low: f64, high: f64) -> f64 {
    let value = result["measured"][key]["median"].as_f64();
    let value = value.unwrap_or_else(|| panic!("no {key}: {result}"));
    assert!((low..=high).contains(&value), "{key} {value}: {result}");
    value
}

/// The bars of a result are these, each with a value that decides whether it is met. `controls`
/// says which have something that was measured twice.
fn has_bars(result: &Value, bars: &[(&str, &str, f64)], controls: &[bool]) {
    let told = result["bars"].as_array();
    let told = told.unwrap_or_else(|| panic!("no bars: {result}"));
    assert_eq!(told.len(), bars.len(), "{result}");
    for ((bar, (key, side, limit)), has_control) in told.iter().zip(bars).zip(controls) {
        assert_eq!(bar["key"], *key, "{bar}");
        assert_eq!(bar[side], *limit, "{bar}");
        let value = bar["value"]["median"].as_f64();
        let value = value.unwrap_or_else(|| panic!("not measured: {bar}"));
        assert_eq!(bar["value"], result["measured"][*key], "{bar}");
        let is_met = match *side {
            "at_most" => value <= *limit,
            _ => value >= *limit,
        };
        assert_eq!(bar["is_met"], is_met, "{bar}");
        assert!(bar["is_within_noise"].is_boolean(), "{bar}");
        let control = &bar["control"]["median"];
        assert_eq!(control.is_number(), *has_control, "{bar}");
    }
}

#[test]
fn a_fan_out_is_measured_watched_and_quiet() {
    let result = measured("watched");
    let bars = [
        ("cpu_watched_ratio", "at_most", 1.02),
        ("latency_p99_watched_ratio", "at_most", 1.1),
    ];
    has_bars(&result, &bars, &[true, true]);
    for key in ["cpu_quiet_us", "cpu_watched_us"] {
        within(&result, key, 0.1, 100_000.0);
    }
    let quiet = within(&result, "latency_p99_quiet_us", 1.0, 60e6);
    let watched = within(&result, "latency_p99_watched_us", 1.0, 60e6);
    let ratio = within(&result, "latency_p99_watched_ratio", 1e-6, 1e6);
    assert!((watched / quiet / ratio - 1.0).abs() < 1e-6, "{result}");
    // One at the beginning, and one in the second that follows; five streams tell something each.
    within(&result, "scrapes_count", 1.0, 100.0);
    within(&result, "events_count", 5.0, 1_000.0);
}

#[test]
fn a_ping_pong_is_measured_beside_lists_of_all_kinds() {
    let result = measured("asked");
    let bars = [
        ("round_trip_p99_ratio", "at_most", 1.2),
        ("turn_asked_max_us", "at_most", 250.0),
    ];
    has_bars(&result, &bars, &[true, false]);
    // Each kind of list was asked for, and none was refused.
    assert_eq!(result["loss"]["failed"], 0, "{result}");
    within(&result, "answers_per_s", 1.0, 1e6);
    within(&result, "turn_asked_max_us", 1.0, 10e6);
    assert_eq!(result["parameters"]["callers"], 8, "{result}");
}

#[test]
fn a_fan_out_is_measured_with_one_client_traced() {
    let result = measured("traced");
    has_bars(&result, &[("cpu_traced_ratio", "at_most", 1.01)], &[true]);
    // 35 messages a second, for a second at least.
    within(&result, "traced_lines_count", 10.0, 10_000.0);
}

#[test]
fn pages_of_clients_come_in_all_orders() {
    let result = measured("pages");
    let bars = [
        ("page_warm_p99_us", "at_most", 20_000.0),
        ("page_new_max_us", "at_most", 500_000.0),
    ];
    has_bars(&result, &bars, &[true, false]);
    within(&result, "page_warm_p50_us", 10.0, 60e6);
    // Two rounds of two pages at least.
    within(&result, "pages_count", 4.0, 1e6);
}

#[test]
fn a_scrape_has_its_price() {
    let result = measured("scrape");
    let bars = [
        ("scrape_cpu_us", "at_most", 5_000.0),
        ("scrape_bytes", "at_most", 204_800.0),
        ("series_count", "at_most", 2_000.0),
    ];
    has_bars(&result, &bars, &[true, false, false]);
    within(&result, "scrape_bytes", 5_000.0, 204_800.0);
    within(&result, "series_count", 100.0, 2_000.0);
    within(&result, "scrape_us", 10.0, 60e6);
}

#[test]
fn an_idle_client_takes_memory() {
    let result = measured("memory");
    let key = "rss_per_connection_bytes";
    has_bars(&result, &[(key, "at_most", 921.6)], &[false]);
    within(&result, key, 100.0, 1e6);
}

#[test]
fn all_that_is_published_by_http_comes() {
    let result = measured("publish");
    has_bars(
        &result,
        &[("publishes_per_s", "at_least", 20_000.0)],
        &[true],
    );
    within(&result, "publishes_per_s", 1.0, 1e6);
    within(&result, "cpu_per_publish_us", 1.0, 1e6);
    assert_eq!(result["loss"]["lost"], 0, "{result}");
    assert_eq!(result["loss"]["duplicated"], 0, "{result}");
}

/// A reader sees value, bar and verdict of each figure.
#[test]
fn bars_are_shown_beside_what_was_measured() {
    let arguments = [
        "scrape",
        "--clients",
        "5",
        "--seconds",
        "0.2",
        "--pairs",
        "2",
    ];
    let finished = run(stentor().args(["bench", "operate"]).args(arguments));
    let shown = finished.success();
    let line = |label: &str| {
        let mut lines = shown.lines().filter(|line| line.contains('≤'));
        let found = lines.find(|line| line.trim_start().starts_with(label));
        found
            .unwrap_or_else(|| panic!("no line for {label}: {shown}"))
            .to_owned()
    };
    let bytes = line("bytes/scrape");
    assert!(
        bytes.contains("≤ 200 KiB") && bytes.contains("met"),
        "{bytes}"
    );
    let cpu = line("CPU/scrape");
    assert!(cpu.contains(" – ") && cpu.contains('×'), "{cpu}");
}

#[test]
fn what_operate_cannot_measure_is_refused_with_a_reason() {
    for (options, reason) in [
        (&["--target", "mqtt://127.0.0.1:1"][..], "leave --target"),
        (&["--against", "mosquitto"], "--against out"),
        (&["--no-server"], "leave --target, --no-server"),
        (&["--transport", "ws"], "leave --transport out"),
        (&["--seconds", "1000"], "at most 3000 s"),
        (&["--clients", "0"], "a number from 1 to 1000000"),
        (&["--subscribers", "4"], "'--subscribers <SUBSCRIBERS>'"),
        (&["--callers", "21"], "'--callers <CALLERS>'"),
        (&["--topics", "0"], "'--topics <TOPICS>'"),
        (&["--rounds", "0"], "'--rounds <ROUNDS>'"),
        (
            &["everything"],
            "watched, asked, traced, pages, scrape, memory, publish",
        ),
    ] {
        let refusal = run(stentor().args(["bench", "operate"]).args(options)).refusal();
        assert!(refusal.contains(reason), "{options:?}: {refusal}");
    }
}
