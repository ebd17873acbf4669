//! What `/metrics` shows.

use std::io::Write;
use std::process::Stdio;

use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{DEADLINE, Plan, Version, process, tools};

use super::{ask, metrics, server, value};

#[test]
fn promtool_finds_nothing_wrong() {
    let server = server();
    let mut child = tools::prometheus("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool starts");
    let mut input = child.stdin.take().expect("standard input is piped");
    let text = metrics(&server);
    input
        .write_all(text.as_bytes())
        .expect("promtool reads its input");
    drop(input);
    let finished = process::finish(child, DEADLINE);
    assert_eq!(finished.stderr, "", "{finished}");
    finished.success();
}

#[test]
fn both_forms_come_as_they_are_asked_for() {
    let server = server();
    let plain = ask(&server, "/metrics", "");
    assert!(
        plain
            .head
            .contains("content-type: text/plain; version=0.0.4")
    );
    assert!(plain.body.contains("# TYPE stentor_refusals_total counter"));
    let open = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
    let open = ask(&server, "/metrics", open);
    assert!(
        open.head
            .contains("content-type: application/openmetrics-text; version=1.0.0")
    );
    assert!(open.body.contains("# TYPE stentor_refusals counter"));
    assert!(open.body.ends_with("# EOF\n"));
    for answer in [plain, open] {
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
        assert!(answer.head.contains("cache-control: no-store"));
        assert!(answer.head.contains("x-content-type-options: nosniff"));
    }
}

#[test]
fn reasons_are_zero_from_the_start_and_move_with_what_happens() {
    let server = Plan::new().tcp().http().start();
    let file = server.folder().join("password");
    std::fs::write(&file, "secret").expect("a file can be written");
    let file = file.to_str().expect("plain names");
    let add = ["user", "add", "ann", "--password-file", file];
    server.control(&add).success();
    let before = metrics(&server);
    let zeros = [
        "stentor_connects_total",
        "stentor_clients_connected",
        "stentor_messages_received_total",
        "stentor_refusals_total{reason=\"login-required\"}",
        "stentor_refusals_total{reason=\"malformed\"}",
        "stentor_refusals_total{reason=\"bad-credentials\"}",
        "stentor_disconnects_total{reason=\"disconnect\"}",
        "stentor_disconnects_total{reason=\"kicked\"}",
        "stentor_messages_lost_total{cause=\"drop-newest\"}",
        "stentor_publish_to_socket_seconds_count",
        "stentor_retained_refused_total{cause=\"bound\"}",
    ];
    for series in zeros {
        assert_eq!(value(&before, series), 0.0, "{series}");
    }
    let mut nobody = server.dial();
    nobody.send(&connect_as(Version::V5, "n", true, None));
    nobody.expect(2);
    nobody.closed();
    let mut ann = server.dial();
    ann.send(&connect_as(Version::V5, "a", true, Some(("ann", "secret"))));
    assert_eq!(ann.expect(2).body[1], 0);
    ann.speaks(Version::V5);
    ann.subscribe("a/#", 0);
    ann.publish("a/b", b"12345");
    let _ = ann.message();
    let now = metrics(&server);
    for (series, expected) in [
        ("stentor_connects_total", 1.0),
        ("stentor_clients_connected", 1.0),
        ("stentor_connections", 1.0),
        ("stentor_subscriptions", 1.0),
        ("stentor_messages_received_total", 1.0),
        ("stentor_messages_sent_total", 1.0),
        ("stentor_received_payload_bytes_total", 5.0),
        ("stentor_refusals_total{reason=\"login-required\"}", 1.0),
        ("stentor_refusals_total{reason=\"bad-credentials\"}", 0.0),
        ("stentor_disconnects_total{reason=\"disconnect\"}", 0.0),
    ] {
        assert_eq!(value(&now, series), expected, "{series}");
    }
    eventually("a message is in the sample", || {
        ann.publish("a/b", b"12345");
        let _ = ann.message();
        value(&metrics(&server), "stentor_publish_to_socket_seconds_count") >= 1.0
    });
    assert!(value(&now, "process_cpu_seconds_total") > 0.0);
    ann.send(&[0xE0, 0]);
    ann.closed();
    let left = "stentor_disconnects_total{reason=\"disconnect\"}";
    eventually("the end is counted", || {
        value(&metrics(&server), left) == 1.0
    });
    assert_eq!(value(&metrics(&server), "stentor_clients_connected"), 0.0);
}

/// Names that clients choose are in no label, so there are as many series with many of them.
#[test]
fn clients_and_topics_add_no_series() {
    let server = server();
    let series = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
    let before = series(&metrics(&server));
    let mut clients: Vec<_> = (0..100)
        .map(|number| server.client(Version::V5, &format!("hidden-{number}")))
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let topic = format!("hidden/{number}");
        client.subscribe(&topic, 0);
        client.publish(&topic, b"x");
        let _ = client.message();
    }
    let text = metrics(&server);
    assert_eq!(series(&text), before);
    assert!(!text.contains("hidden"), "{text}");
    assert!(before < 2_000 && text.len() < 200 << 10);
    assert_eq!(value(&text, "stentor_clients_connected"), 100.0);
}
