//! What streams may take, readers that are slow or dead, and the end of the server.

use serde_json::json;
use stentor_tests::raw::eventually;
use stentor_tests::{Raw, Server, Version};

use super::super::api::bearer;
use super::super::probe;
use super::{Stream, get, open, token};
use crate::server;

/// A stream that nobody reads.
fn unread(server: &Server, path: &str, token: &str) -> Raw {
    let headers = bearer(token);
    let mut client = Raw::tcp(&server.address("http"));
    let request = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    client.send(request.as_bytes());
    client
}

#[test]
fn a_user_and_all_users_have_so_many_streams() {
    let server = server();
    let users: Vec<String> = (0..9)
        .map(|number| token(&server, &format!("u{number}"), &["viewer"]))
        .collect();
    let mut streams: Vec<Vec<Stream>> = Vec::new();
    for user in &users[..8] {
        let own = (0..8).map(|_| open(&server, "events/stream?event=connected", user));
        streams.push(own.collect());
        let (status, problem) = get(&server, "events/stream", user);
        assert_eq!(
            (status, &problem["code"]),
            (429, &json!("too-many")),
            "{problem}"
        );
        assert!(
            problem["detail"].to_string().contains("of this user"),
            "{problem}"
        );
    }
    let (status, problem) = get(&server, "events/stream", &users[8]);
    assert_eq!(status, 429, "{problem}");
    assert!(
        problem["detail"].to_string().contains("of all users"),
        "{problem}"
    );
    // They keep nothing else out, and get what happens.
    for _ in 0..5 {
        assert_eq!(probe(&server, "/healthz").0, 200);
        assert_eq!(get(&server, "clients/ls", &users[8]).0, 200);
    }
    let _pump = server.client(Version::V5, "pump");
    for stream in streams.iter_mut().flatten() {
        assert_eq!(stream.next().data["client_id"], "pump");
    }
    // A client that goes leaves its place.
    streams.pop();
    let mut last = None;
    eventually("there is a place", || {
        let is_free = get_head(&server, &users[8]);
        if is_free {
            last = Some(open(&server, "events/stream", &users[8]));
        }
        is_free
    });
    assert!(last.is_some());
}

/// Whether a stream can be opened now.
fn get_head(server: &Server, token: &str) -> bool {
    let mut client = unread(server, "events/stream", token);
    let head = String::from_utf8(client.until(b"\r\n\r\n")).expect("a head");
    head.starts_with("HTTP/1.1 200")
}

/// Clients that read nothing hold up neither others nor the end of the server.
#[test]
fn dead_readers_hold_up_nobody() {
    let mut server = server();
    let root = token(&server, "root", &["admin"]);
    let dead: Vec<Raw> = (0..8)
        .map(|number| {
            let path = match number % 2 {
                0 => "events/stream?limit=1000",
                _ => "traces/stream?zone=default",
            };
            unread(&server, path, &root)
        })
        .collect();
    let vic = token(&server, "vic", &["viewer"]);
    let mut live = open(&server, "events/stream", &vic);
    for number in 0..500 {
        let mut client = server.client(Version::V5, &format!("c{number}"));
        client.ping();
        client.send(&[0xE0, 0]);
        client.closed();
    }
    // Those of different shards may change places.
    let mut told: Vec<String> = (0..1_000)
        .map(|_| live.next().data)
        .map(|event| format!("{} {}", event["client_id"], event["event"]))
        .collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 1_000);
    live.ends_with(&mut server);
    drop(dead);
}

#[test]
fn a_stop_of_the_server_ends_all_streams() {
    let mut server = server();
    let root = token(&server, "root", &["admin"]);
    let mut streams: Vec<Stream> = [
        "events/stream",
        "status/stream",
        "traces/stream?client_id=a",
    ]
    .into_iter()
    .map(|path| open(&server, path, &root))
    .collect();
    assert!(server.stop().success());
    for stream in &mut streams {
        assert_eq!(stream.end()["code"], "stopping");
    }
}

/// Everybody on the way sees that a quiet stream lives.
#[test]
fn a_quiet_stream_sends_comments() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let paths = ["events/stream?client_id=none", "subscribe?topic=none"];
    let mut quiet: Vec<Raw> = paths
        .into_iter()
        .map(|path| unread(&server, path, &root))
        .collect();
    for stream in &mut quiet {
        let _ = stream.until(b"\n: the stream goes on\n\n");
    }
}
