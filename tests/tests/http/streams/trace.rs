//! `traces/stream`: the packets of some clients. The trace ends with the stream.

use serde_json::json;
use stentor_tests::Version;
use stentor_tests::raw::eventually;

use super::{get, open, token};
use crate::server;

#[test]
fn packets_come_as_they_are_noted_and_the_trace_ends_with_the_stream() {
    let server = server();
    let olga = token(&server, "olga", &["operator"]);
    let mut pump = server.client(Version::V5, "pump");
    let mut stream = open(&server, "traces/stream?client_id=pump", &olga);
    let started = stream.next();
    assert_eq!(started.name.as_deref(), Some("started"));
    let id = started.data["id"].as_u64().expect("a number");
    let line = loop {
        pump.publish("a/b", b"secret");
        pump.ping();
        let line = stream.next();
        if line.data["packet"] == "PUBLISH" {
            break line;
        }
    };
    assert_eq!(line.data["topic"], "a/b", "{line:?}");
    assert_eq!(line.data["payload"], json!(null), "{line:?}");
    drop(stream);
    eventually("the trace has ended", || {
        let (status, read) = get(&server, &format!("traces/read?id={id}"), &olga);
        status == 404 || read["ended"] == json!(true)
    });
    let log = std::fs::read_to_string(server.data_dir().join("audit.log")).expect("it is there");
    for what in ["traces.start", "traces.stop"] {
        let line = log.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("{what} is not in the audit log: {log}"));
        assert!(line.contains("olga by HTTP from 127.0.0.1"), "{line}");
    }
}

/// A trace of at most 8 at a time runs: those of clients that have gone make room at once.
#[test]
fn streams_that_are_closed_leave_no_traces() {
    let server = server();
    let olga = token(&server, "olga", &["operator"]);
    for _ in 0..3 {
        let streams: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = open(&server, "traces/stream?client_id=a", &olga);
                assert_eq!(stream.next().name.as_deref(), Some("started"));
                stream
            })
            .collect();
        drop(streams);
        eventually("there is room for another trace", || {
            let body = json!({ "client_id": "a" });
            let (status, begun) = super::super::api::post(&server, "traces/start", &olga, &body);
            let stop = json!({ "id": begun["id"] });
            status == 200 && super::super::api::post(&server, "traces/stop", &olga, &stop).0 == 200
        });
    }
}

#[test]
fn a_trace_that_is_over_ends_its_stream() {
    let server = server();
    let olga = token(&server, "olga", &["operator"]);
    let mut stream = open(&server, "traces/stream?client_id=a&for_secs=1", &olga);
    assert_eq!(stream.end()["code"], "ended");
    let (status, problem) = get(&server, "traces/stream", &olga);
    assert_eq!(status, 400, "a trace is about something: {problem}");
    let (status, problem) = get(&server, "traces/stream?client_id=a&payload_bytes=9", &olga);
    assert_eq!(
        (status, &problem["field"]),
        (400, &json!("payload_bytes")),
        "{problem}"
    );
}
