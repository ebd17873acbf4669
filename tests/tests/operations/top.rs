//! `stentor top`: how the server is doing, again and again.

use serde_json::Value;
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
fn an_interval_that_the_server_does_not_measure_is_refused() {
    let server = Server::open();
    for wrong in ["0s", "99ms", "1m", "soon"] {
        let refused = server.control(&["top", "--interval", wrong]).refusal();
        assert!(refused.contains("--interval"), "{refused}");
    }
}
