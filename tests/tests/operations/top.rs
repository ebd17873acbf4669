//! `stentor top`: how the server is doing, again and again.

use serde_json::{Value, json};
use stentor_tests::{Server, Version};

#[test]
fn each_interval_is_a_line_with_what_happened_in_it() {
    let server = Server::open();
    let _client = server.client(Version::V4, "pump");
    let every = ["--interval", "100ms", "--count", "2"];
    let told = server.control(&[&["top"][..], &every].concat()).success();
    let lines: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines.len(), 3, "a head and two lines: {told}");
    assert_eq!(lines[0][..3], ["TIME", "CLIENTS", "SESSIONS"]);
    for line in &lines[1..] {
        assert_eq!(line[1..3], ["1", "1"], "{told}");
    }
    let told = server.control(&[&["top", "--json"][..], &every].concat());
    for line in told.success().lines() {
        let status: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(status["clients_connected"], 1, "{status}");
        let secs = status["rates"]["secs"].as_f64().expect("rates");
        assert!(secs >= 0.1, "{status}");
    }
}

#[test]
fn zones_are_shown_with_what_happens_in_them() {
    let server = Server::open();
    let mut pump = server.client(Version::V4, "pump");
    pump.subscribe("a", 0);
    let every = ["--zones", "--interval", "100ms", "--count", "2"];
    let told = server.control(&[&["top"][..], &every].concat()).success();
    let lines: Vec<Vec<&str>> = told
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|line: &Vec<&str>| !line.is_empty())
        .collect();
    assert_eq!(lines.len(), 4, "two heads with a zone each: {told}");
    assert_eq!(lines[2][..3], ["ZONE", "CONNECTIONS", "SESSIONS"]);
    assert_eq!(lines[3][..5], ["default", "1", "1", "0", "0"], "{told}");
    let told = server.control(&[&["top", "--json"][..], &every].concat());
    for line in told.success().lines() {
        let zones: Value = serde_json::from_str(line).expect("a line is JSON");
        let zone = &zones["zones"][0];
        assert_eq!(
            (&zone["name"], &zone["subscriptions"]),
            (&json!("default"), &json!(1))
        );
        assert!(zone["held_bytes"].as_u64() > Some(0), "{zone}");
    }
}

#[test]
fn an_interval_that_the_server_does_not_measure_is_refused() {
    let server = Server::open();
    for wrong in ["0s", "99ms", "1m", "soon"] {
        let refused = server.control(&["top", "--interval", wrong]).refusal();
        assert!(refused.contains("--interval"), "{refused}");
    }
}
