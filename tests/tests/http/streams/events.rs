//! `events/stream`: what happens to connections, as it happens.

use serde_json::{Value, json};
use stentor_tests::{Server, Version};

use super::{open, open_with, token};
use crate::server;

fn what(event: &Value) -> (Value, Value) {
    (event["event"].clone(), event["client_id"].clone())
}

/// The connection of a client comes and goes.
fn visit(server: &Server, client_id: &str) {
    let mut client = server.client(Version::V5, client_id);
    client.send(&[0xE0, 0]);
    client.closed();
}

/// Waits until the last event of the list is this one.
fn wait_for(server: &Server, client_id: &str, event: &str) {
    stentor_tests::raw::eventually("the event is in the list", || {
        let told = server.control(&["events", "--client", client_id]);
        told.success().contains(event)
    });
}

#[test]
fn events_come_as_they_happen_and_go_on_where_the_client_has_stopped() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    visit(&server, "before");
    wait_for(&server, "before", "disconnected");
    let mut stream = open(&server, "events/stream", &vic);
    visit(&server, "pump");
    let first = stream.next();
    assert_eq!(what(&first.data), (json!("connected"), json!("pump")));
    assert_eq!(first.name, None);
    let id = first.id.expect("it has an id");
    let second = stream.next();
    assert_eq!(what(&second.data), (json!("disconnected"), json!("pump")));
    drop(stream);
    visit(&server, "lamp");
    let mut again = open_with(
        &server,
        "events/stream",
        &vic,
        &["-H", &format!("Last-Event-ID: {id}")],
    );
    let told: Vec<_> = (0..3).map(|_| again.next()).collect();
    assert_eq!(told[0], second);
    assert_eq!(what(&told[1].data), (json!("connected"), json!("lamp")));
    assert_eq!(what(&told[2].data), (json!("disconnected"), json!("lamp")));
}

#[test]
fn a_stream_has_the_filters_of_the_verb_and_begins_with_earlier_events() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    for client_id in ["pump", "lamp", "pump"] {
        visit(&server, client_id);
        wait_for(&server, client_id, "disconnected");
    }
    visit(&server, "last");
    wait_for(&server, "last", "disconnected");
    let path = "events/stream?client_id=pump&event=connected&limit=10";
    let mut stream = open(&server, path, &vic);
    for _ in 0..2 {
        assert_eq!(
            what(&stream.next().data),
            (json!("connected"), json!("pump"))
        );
    }
    visit(&server, "lamp");
    visit(&server, "pump");
    assert_eq!(
        what(&stream.next().data),
        (json!("connected"), json!("pump"))
    );
}

/// The list keeps the newest 10,000 events. Whoever has read less far is told that some are gone;
/// also after a restart, where the list begins anew.
#[test]
fn what_is_left_out_is_told() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    let mut stream = open(&server, "events/stream", &vic);
    visit(&server, "first");
    let id = stream.next().id.expect("it has an id");
    drop(stream);
    for _ in 0..5_100 {
        visit(&server, "pump");
    }
    let last = ["-H", &format!("Last-Event-ID: {id}")];
    let mut stream = open_with(&server, "events/stream", &vic, &last);
    let first = stream.next();
    assert_eq!(first.name.as_deref(), Some("missed"), "{first:?}");
    assert!(
        first.data["detail"].to_string().contains("left out"),
        "{first:?}"
    );
    for _ in 0..9_000 {
        assert_eq!(stream.next().data["client_id"], "pump");
    }
    drop(stream);
    let server = server.kill().start();
    visit(&server, "new");
    let mut stream = open_with(&server, "events/stream", &vic, &last);
    let first = stream.next();
    assert_eq!(first.name.as_deref(), Some("missed"), "{first:?}");
    assert!(
        first.data["detail"].to_string().contains("started again"),
        "{first:?}"
    );
    assert_eq!(stream.next().data["client_id"], "new");
}
