//! `stentor top`: how the server is doing, again and again.

use serde_json::{Value, json};
use stentor_tests::raw::publish;
use stentor_tests::{Plan, Raw, Server, Version};

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

/// Publishes so many that the server looks at some of them, and waits until it has read them.
fn flood(client: &mut Raw, topic: &str, payload: &[u8], times: usize) {
    client.send(&publish(Version::V5, topic, payload, 0, false).repeat(times));
    client.ping();
}

/// The words of the first row below the first head.
fn first_row(told: &str) -> Vec<&str> {
    let row = told.lines().nth(1).unwrap_or_default();
    row.split_whitespace().collect()
}

#[test]
fn the_heaviest_topics_and_clients_come_first() {
    let server = Server::open();
    let mut flooder = server.client(Version::V5, "flooder");
    flood(&mut flooder, "much/ado", b"x", 64 * 100);
    let mut bulky = server.client(Version::V5, "bulky");
    flood(&mut bulky, "large/thing", &[0; 20_000], 300);
    for (args, first, other) in [
        (&["top", "--topics"][..], "much/ado", "flooder"),
        (
            &["top", "--topics", "--by", "bytes"],
            "large/thing",
            "bulky",
        ),
        (&["top", "--clients"], "flooder", "much/ado"),
        (
            &["top", "--clients", "--by", "bytes"],
            "bulky",
            "large/thing",
        ),
        (&["topics", "--heaviest"], "much/ado", "flooder"),
        (
            &["topics", "--heaviest", "--by", "bytes"],
            "large/thing",
            "bulky",
        ),
        (&["clients", "heaviest"], "flooder", "much/ado"),
        (
            &["clients", "heaviest", "--by", "bytes"],
            "bulky",
            "large/thing",
        ),
    ] {
        let twice: &[&str] = match args[0] {
            "top" => &["--interval", "100ms", "--count", "2"],
            _ => &[],
        };
        let told = server.control(&[args, twice].concat()).success();
        let row = first_row(&told);
        assert!(row[0] == first && row[1] == "default", "{args:?}: {told}");
        assert!(row.contains(&other), "{args:?}: {told}");
        let pages = told.matches("estimates from 1 publish in 64").count();
        assert_eq!(pages, if twice.is_empty() { 1 } else { 2 }, "{told}");
        let told = server.control(&[args, &["--json", "--limit", "1"], twice].concat());
        for line in told.success().lines() {
            let answer: Value = serde_json::from_str(line).expect("a line is JSON");
            let list = answer["topics"]
                .as_array()
                .or_else(|| answer["clients"].as_array());
            assert_eq!(list.map(Vec::len), Some(1), "{answer}");
            assert!(answer.to_string().contains(first), "{answer}");
            assert_eq!(answer["truncated"], true, "{answer}");
        }
    }
    let of = [
        "top", "--topics", "--zone", "default", "-n", "1", "--limit", "1",
    ];
    let told = server.control(&of).success();
    assert_eq!(first_row(&told)[0], "much/ado", "{told}");
    assert!(told.contains("--limit shows others"), "{told}");
}

/// By what waits, is lost and is sent, `top` has the order of `stentor clients ls`.
#[test]
fn clients_are_ranked_by_what_waits_and_what_they_are_sent() {
    let server = Server::open();
    let mut pump = server.client(Version::V5, "pump");
    let mut reader = server.client(Version::V5, "reader");
    reader.subscribe("a", 0);
    for _ in 0..3 {
        pump.publish("a", b"x");
        assert_eq!(reader.message().0, "a");
    }
    let every = ["--interval", "100ms", "--count", "2"];
    for by in ["sent", "sent-bytes", "queue", "lost"] {
        let args = [&["top", "--clients", "--by", by][..], &every].concat();
        let told = server.control(&args).success();
        let heads = told.lines().filter(|line| line.starts_with("CLIENT"));
        assert_eq!(heads.count(), 2, "{told}");
        let row = first_row(&told);
        let expected = if by.starts_with("sent") {
            "reader"
        } else {
            "pump"
        };
        assert_eq!(row[..2], [expected, "default"], "{by}: {told}");
    }
    let told = server.control(&["top", "--clients", "--by", "sent", "--json", "-n", "1"]);
    let answer: Value = serde_json::from_str(&told.success()).expect("it is JSON");
    assert_eq!(answer["clients"][0]["connection"]["sent"], 3, "{answer}");
}

#[test]
fn hostile_names_of_heavy_topics_are_harmless() {
    let config = "[limits]\ntopic_bytes = 65535\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    let evil = "\u{1b}]0;gone\u{7}\u{202e}<b onload=x>\u{85}";
    let mut client = server.client(Version::V5, evil);
    flood(&mut client, &format!("t/{evil}"), b"x", 2 * 127);
    let long = "é".repeat(32_767);
    let mut other = server.client(Version::V5, &"x".repeat(60_000));
    flood(&mut other, &long, b"x", 2 * 127);
    for args in [
        &["top", "--topics", "-n", "1"][..],
        &["top", "--clients", "-n", "1"],
        &["topics", "--heaviest"],
        &["clients", "heaviest"],
    ] {
        let told = server.control(args).success();
        let is_harmless = |char: char| char == '\n' || !(char.is_control() || char == '\u{202e}');
        assert!(told.chars().all(is_harmless), "{told:?}");
        assert!(told.contains("\\u{1b}]0;gone\\u{7}\\u{202e}"), "{told}");
        assert!(
            told.contains(&"é".repeat(60)) && told.contains('…'),
            "{told}"
        );
        assert!(
            told.lines().all(|line| line.chars().count() < 400),
            "{told}"
        );
    }
    let told = server.json(&["topics", "--heaviest", "--limit", "2"]);
    let rows = told["topics"].as_array().expect("a list");
    let cut = rows
        .iter()
        .find(|row| row["cut"] == true)
        .expect("the long one");
    assert_eq!(cut["topic"], "é".repeat(128), "{cut}");
    assert_eq!(cut["mostly_by"]["client_id"], "x".repeat(256), "{cut}");
    let whole = rows
        .iter()
        .find(|row| row["cut"] == false)
        .expect("the other one");
    assert_eq!(whole["topic"], format!("t/{evil}"), "{whole}");
}

#[test]
fn what_top_cannot_rank_is_refused_with_a_remedy() {
    let server = Server::open();
    for (args, parts) in [
        (
            &["--topics", "--by", "queue"][..],
            &["--by queue", "--clients"][..],
        ),
        (&["--by", "bytes"], &["--topics", "--clients"]),
        (&["--zone", "a"], &["--topics", "--clients"]),
        (&["--topics", "--clients"], &["--topics", "--clients"]),
        (
            &["--clients", "--by", "weight"],
            &["weight", "messages", "queue"],
        ),
        (
            &["--clients", "--zone", "none"],
            &["none", "stentor zone list"],
        ),
    ] {
        let once = ["--count", "1"];
        let refused = server
            .control(&[&["top"][..], args, &once].concat())
            .refusal();
        for part in parts {
            assert!(refused.contains(part), "{args:?}: {refused}");
        }
    }
    let refused = server.control(&["topics", "--by", "bytes"]).refusal();
    assert!(refused.contains("--heaviest"), "{refused}");
}

#[test]
fn an_interval_that_the_server_does_not_measure_is_refused() {
    let server = Server::open();
    for wrong in ["0s", "99ms", "1m", "soon"] {
        let refused = server.control(&["top", "--interval", wrong]).refusal();
        assert!(refused.contains("--interval"), "{refused}");
    }
}
