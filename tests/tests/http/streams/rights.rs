//! The rights to streams, and what becomes of a stream when they change.

use std::time::{Duration, Instant};

use serde_json::json;
use stentor_tests::{Plan, Version};

use super::super::api::{bearer, json_of, send};
use super::{get, open, role, token};
use crate::server;

const STREAMS: [&str; 3] = [
    "events/stream",
    "status/stream",
    "traces/stream?client_id=a",
];

#[test]
fn the_right_to_the_verb_decides() {
    let server = server();
    let member = token(&server, "mem", &["member"]);
    let viewer = token(&server, "vic", &["viewer"]);
    role(
        &server,
        "starts",
        &[
            "allow publish $control/traces/start",
            "allow subscribe $control/#",
        ],
    );
    let starts = token(&server, "sam", &["starts"]);
    for path in STREAMS {
        let nobody = send(&server, ("GET", &format!("/api/v1/{path}")), "", "");
        assert_eq!(json_of(nobody).0, 401, "{path}");
        assert_eq!(get(&server, path, "x").0, 401, "{path}");
        let (status, problem) = get(&server, path, &member);
        assert_eq!(
            (status, &problem["code"]),
            (403, &json!("denied")),
            "{path}"
        );
    }
    // A trace that its reader could not end is not begun.
    for token in [&viewer, &starts] {
        let (status, problem) = get(&server, STREAMS[2], token);
        assert_eq!(status, 403, "{problem}");
    }
    for path in &STREAMS[..2] {
        let _ = open(&server, path, &viewer);
    }
    let post = send(
        &server,
        ("POST", "/api/v1/events/stream"),
        &bearer(&viewer),
        "",
    );
    assert_eq!(json_of(post).0, 405);
}

/// A user of another zone has the events of that zone, and nothing of the whole server.
#[test]
fn a_user_of_another_zone_has_that_zone_alone() {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  anonymous = true\n";
    let plan = Plan::new().config(config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let gus = token(&server, "game/gus", &["admin"]);
    for path in [
        "status/stream",
        "traces/stream?client_id=a",
        "events/stream?zone=default",
    ] {
        let (status, problem) = get(&server, path, &gus);
        assert_eq!(
            (status, &problem["code"]),
            (403, &json!("other-zone")),
            "{path}"
        );
    }
    let mut stream = open(&server, "events/stream", &gus);
    let _other = server.client(Version::V5, "pump");
    let mut own = server.dial();
    own.send(&stentor_tests::raw::connect_as(
        Version::V5,
        "hero",
        true,
        Some(("", &gus)),
    ));
    assert_eq!(own.expect(2).body[1], 0);
    let first = stream.next().data;
    assert_eq!(
        (&first["client_id"], &first["zone"]),
        (&json!("hero"), &json!("game"))
    );
}

/// A right, a token and a user that are taken away end the stream.
#[test]
fn a_stream_ends_with_its_right() {
    let server = server();
    let changes: [(&str, &[&str], &str); 2] = [
        ("ann", &["revoke", "ann", "viewer"], "denied"),
        ("ben", &["user", "disable", "ben"], "no-token"),
    ];
    for (user, change, code) in changes {
        let token = token(&server, user, &["viewer"]);
        let mut events = open(&server, "events/stream", &token);
        let mut figures = open(&server, "status/stream?interval_ms=1000", &token);
        server.control(change).success();
        for stream in [&mut events, &mut figures] {
            let end = stream.end();
            assert_eq!(end["code"], code, "{end}");
        }
    }
}

/// A token that was revoked counts as one wrong token, however many streams it had: a new token of
/// the same user is let in at once.
#[test]
fn a_revoked_token_with_many_streams_slows_nobody_down() {
    let server = server();
    let old = token(&server, "ann", &["viewer"]);
    let mut streams: Vec<_> = (0..8)
        .map(|_| open(&server, "events/stream", &old))
        .collect();
    let listed = server.control(&["token", "list", "ann"]).success();
    let line = listed.lines().nth(1).expect("there is a token");
    let id = line.split_whitespace().next().expect("it has an id");
    let new = server.control(&["token", "create", "ann"]).success();
    let begun = Instant::now();
    server.control(&["token", "revoke", "ann", id]).success();
    for stream in &mut streams {
        assert_eq!(stream.end()["code"], "no-token");
    }
    let (status, answer) = get(&server, "health", new.trim());
    assert_eq!(status, 200, "{answer}");
    // The delays of eight wrong tokens add up to more than that.
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}
