//! `stentor sessions`: who is away, what waits for whom, and the end of forgotten sessions.

use serde_json::Value;
use stentor_tests::{Plan, Server, Version, raw};

use crate::come_back;

/// The client ids that a list has, in its order.
#[track_caller]
fn ids(server: &Server, options: &[&str]) -> Vec<String> {
    let list = server.json(&[&["sessions", "ls"], options].concat());
    let sessions = list["clients"].as_array().expect("a list");
    let id = |session: &Value| session["client_id"].as_str().expect("an id").to_owned();
    sessions.iter().map(id).collect()
}

/// A session that lasts, whose client has gone and left it a subscription.
#[track_caller]
fn absent(server: &Server, id: &str, filter: &str) {
    let (mut client, _) = come_back(server, Version::V4, id);
    client.subscribe(filter, 1);
    client.send(&[0xE0, 0]);
    client.closed();
}

#[test]
fn sessions_are_listed_in_any_order_and_ended_when_they_are_forgotten() {
    let server = Plan::new().tcp().anonymous().start();
    absent(&server, "first", "few");
    absent(&server, "second", "many");
    let (mut present, _) = come_back(&server, Version::V4, "present");
    let mut publisher = server.client(Version::V4, "clean");
    (0..3).for_each(|_| publisher.publish_surely("many", b"a longer message"));
    publisher.publish_surely("few", b"one");
    let server = server.kill().start();
    drop((present, publisher));
    raw::eventually("all are away", || ids(&server, &["--away", "0"]).len() == 3);
    (present, _) = come_back(&server, Version::V4, "present");
    assert_eq!(ids(&server, &[]), ["first", "present", "second"]);
    assert_eq!(
        ids(&server, &["--by", "messages", "--limit", "1"]),
        ["second"]
    );
    assert_eq!(ids(&server, &["--by", "bytes", "--limit", "1"]), ["second"]);
    assert_eq!(
        ids(&server, &["--away", "0", "--by", "away"]),
        ["first", "second"]
    );
    assert!(ids(&server, &["--away", "1h"]).is_empty());
    let text = server.control(&["sessions", "ls", "sec"]).success();
    let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(heads[..4], ["SESSION", "ZONE", "USER", "AWAY"]);
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|line| line.contains("6d 23h")),
        "{text}"
    );
    let shown = server.json(&["sessions", "show", "second"]);
    assert_eq!(shown["filters"], serde_json::json!(["many"]));

    let text = server.control(&["sessions", "end", "first"]).success();
    assert_eq!(text, "first was not connected; its session has ended\n");
    let text = server
        .control(&["sessions", "end", "--away", "0"])
        .success();
    assert_eq!(text, "1 session would end; add --yes to end them\n");
    let text = server
        .control(&["sessions", "end", "--away", "1d", "--yes"])
        .success();
    assert_eq!(text, "0 sessions ended\n");
    let ended = server.json(&["sessions", "end", "--away", "0", "--yes"]);
    assert_eq!(ended["ended"], 1);
    assert_eq!(ids(&server, &[]), ["present"]);
    present.ping();
    let refused = server.control(&["sessions", "end"]).refusal();
    assert!(refused.contains("--away"), "{refused}");
}
