//! `status/stream`: the figures, at an interval.

use std::time::{Duration, Instant};

use serde_json::json;
use stentor_tests::Version;

use super::{get, open, token};
use crate::server;

#[test]
fn figures_come_at_an_interval_with_rates() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    let mut client = server.client(Version::V5, "pump");
    let mut stream = open(&server, "status/stream?interval_ms=1000", &vic);
    let mut other = open(&server, "status/stream?interval_ms=1000", &vic);
    let first = stream.next().data;
    assert_eq!(first["clients_connected"], json!(1), "{first}");
    assert_eq!(first["rates"], json!(null));
    let begun = Instant::now();
    for _ in 0..50 {
        client.publish("a", b"x");
    }
    client.ping();
    let second = stream.next().data;
    assert!(begun.elapsed() > Duration::from_millis(500));
    assert_eq!(second["messages_in"], json!(50), "{second}");
    let rates = &second["rates"];
    let rate = rates["messages_in"].as_f64().expect("a rate");
    let counted = rate * rates["secs"].as_f64().expect("a time");
    assert!((49.0..51.0).contains(&counted), "{rates}");
    let _ = (other.next(), other.next());
}

#[test]
fn an_interval_is_bounded() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    for query in [
        "interval_ms=0",
        "interval_ms=999",
        "interval_ms=60001",
        "interval_ms=x",
    ] {
        let (status, problem) = get(&server, &format!("status/stream?{query}"), &vic);
        assert_eq!(status, 400, "{query}: {problem}");
        assert_eq!(problem["field"], "interval_ms", "{problem}");
    }
}
