//! Requests that are refused before anything is done.

use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{Raw, Server, Version};

use super::{bearer, get, json_of, post, read, send, server, token};

#[track_caller]
fn refused(answer: (u16, Value), status: u16, code: &str) {
    let (told, problem) = answer;
    assert_eq!(
        (told, &problem["code"]),
        (status, &json!(code)),
        "{problem}"
    );
}

#[test]
fn methods_and_content_types_have_to_fit() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let plain = bearer(&root);
    let with_json = format!("{plain}Content-Type: application/json\r\n");
    for (method, path) in [
        ("GET", "/api/v1/clients/kick"),
        ("DELETE", "/api/v1/clients/kick"),
        ("PUT", "/api/v1/clients/ls"),
        ("OPTIONS", "/api/v1/clients/ls"),
        ("PATCH", "/api/v1/stop"),
    ] {
        let answer = send(&server, (method, path), &with_json, "");
        let allow = match path {
            "/api/v1/clients/ls" => "allow: get, head, post",
            _ => "allow: post",
        };
        assert!(
            answer.head.contains(allow),
            "{method} {path}: {}",
            answer.head
        );
        refused(json_of(answer), 405, "method");
    }
    for content_type in [
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
    ] {
        let headers = format!("{plain}{content_type}");
        let answer = send(&server, ("POST", "/api/v1/stop"), &headers, "{}");
        refused(json_of(answer), 415, "content-type");
    }
    let answer = send(&server, ("HEAD", "/api/v1/health"), &plain, "");
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    refused(get(&server, "mqtt", &root), 404, "socket-only");
    for path in [
        "clients",
        "clients.ls",
        "clients/ls/",
        "Clients/ls",
        "fly",
        "",
        "user/list",
    ] {
        refused(get(&server, path, &root), 404, "not-found");
    }
    assert_eq!(get(&server, "health", &root).0, 200, "it has not stopped");
}

#[test]
fn what_is_not_a_request_is_refused_with_its_key() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let headers = format!("{}Content-Type: application/json\r\n", bearer(&root));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let control = "{\"client_id\":\"a\u{0}\"}";
    for body in ["{", "null", "[]", "\"x\"", "{\"a\":1}x", &deep, control] {
        let answer = send(&server, ("POST", "/api/v1/clients/kick"), &headers, body);
        refused(json_of(answer), 400, "bad-request");
    }
    for (body, field) in [
        (json!({ "client_id": "a", "fly": 1 }), "fly"),
        (json!({ "client_id": "a", "v": 1 }), "v"),
        (json!({ "client_id": "a", "verb": "stop" }), "verb"),
        (json!({ "client_id": 7 }), "client_id"),
        (json!({ "client_id": "a", "zone": 0 }), "zone"),
        (
            json!({ "client_id": "a", "end_session": "yes" }),
            "end_session",
        ),
        (json!({ "client_id": "a", "away_secs": -1 }), "away_secs"),
    ] {
        let (status, problem) = post(&server, "clients/kick", &root, &body);
        assert_eq!(
            (status, &problem["field"]),
            (400, &json!(field)),
            "{problem}"
        );
    }
    for query in [
        "fly=1",
        "limit=x",
        "limit=10001",
        "limit=1&limit=2",
        "by=size",
        "a=%zz",
        "%ff",
    ] {
        let (status, problem) = get(&server, &format!("clients/ls?{query}"), &root);
        assert_eq!(status, 400, "{query}: {problem}");
    }
    refused(
        post(&server, "clients/kick", &root, &json!({})),
        400,
        "bad-request",
    );
}

#[test]
fn what_a_verb_refuses_has_the_key_that_is_wrong() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    for (path, body, field) in [
        ("bans/add", json!({ "client_id": "" }), "client_id"),
        ("bans/add", json!({ "address": "nowhere" }), "address"),
        (
            "bans/add",
            json!({ "user": "x", "reason": "r".repeat(5_000) }),
            "reason",
        ),
        ("clients/show", json!({ "client_id": "none" }), "client_id"),
        ("figures/peaks", json!({ "figure": "speed" }), "figure"),
        ("retained/clear", json!({ "filter": "$SYS/#" }), "filter"),
        ("retained/history", json!({ "topic": "a/#" }), "topic"),
        (
            "retained/history",
            json!({ "topic": "a", "ask": "all" }),
            "ask",
        ),
        (
            "retained/history",
            json!({ "topic": "a", "limit": 1_001 }),
            "limit",
        ),
        ("retained/page", json!({ "filter": "a/#/b" }), "filter"),
        (
            "retained/page",
            json!({ "filter": "a", "zone": "none" }),
            "zone",
        ),
        ("rooms/close", json!({ "room": "a/b" }), "room"),
        (
            "rooms/kick",
            json!({ "room": "lobby", "user": "none" }),
            "user",
        ),
        ("rooms/ls", json!({ "limit": 1_001 }), "limit"),
        (
            "sessions/queue",
            json!({ "client_id": "a", "cursor": "x" }),
            "cursor",
        ),
        ("why", json!({ "client_id": "a", "topic": "a/#" }), "topic"),
        (
            "why",
            json!({ "client_id": "a", "topic": "a", "to": "" }),
            "to",
        ),
        ("zones", json!({ "zone": "none" }), "zone"),
    ] {
        let (status, problem) = post(&server, path, &root, &body);
        assert!(status == 400 || status == 404, "{path} {body}: {status}");
        assert_eq!(problem["field"], field, "{path} {body}: {problem}");
    }
}

#[test]
fn bodies_are_bounded_and_read_from_those_who_may_send_them() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let member = token(&server, "ann", &["member"]);
    let post = |token: &str, more: &str| {
        let mut client = Raw::tcp(&server.address("http"));
        let request = format!(
            "POST /api/v1/retained/put HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\n{}{more}",
            bearer(token)
        );
        client.send(request.as_bytes());
        json_of(read(&mut client))
    };
    refused(
        post(&root, "Content-Length: 1048577\r\n\r\n"),
        413,
        "too-large",
    );
    // Nobody waits for the body of somebody who may not send one.
    refused(
        post("nonsense", "Content-Length: 1000000\r\n\r\n"),
        401,
        "no-token",
    );
    refused(
        post(&member, "Content-Length: 1000000\r\n\r\n"),
        403,
        "denied",
    );
    let piece = format!("{:x}\r\n{}\r\n", 600_000, "x".repeat(600_000));
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{piece}{piece}0\r\n\r\n");
    refused(post(&root, &chunked), 413, "too-large");
    let small = "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    assert_eq!(post(&root, small).0, 200);
    let payload = "x".repeat(900_000);
    let body = json!({ "messages": [{ "topic": "a", "payload": payload }] }).to_string();
    let large = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let (status, kept) = post(&root, &large);
    assert_eq!((status, &kept["new"]), (200, &json!(1)), "{kept}");
}

/// A body that stops half-way is not waited for.
#[test]
fn slow_bodies_are_given_up() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut client = Raw::tcp(&server.address("http"));
    let request = format!(
        "POST /api/v1/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{}Content-Length: 10\r\n\r\n{{",
        bearer(&root)
    );
    client.send(request.as_bytes());
    refused(json_of(read(&mut client)), 408, "slow-body");
}

/// The rights of a caller are looked up again when the body has come: it may take ten seconds.
#[test]
fn a_caller_that_is_removed_before_the_body_has_come_does_nothing() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let thief = token(&server, "thief", &["admin"]);
    let body = json!({ "user": "backdoor", "password": "x" }).to_string();
    let (first, rest) = body.split_at(5);
    let mut client = Raw::tcp(&server.address("http"));
    let head = format!(
        "POST /api/v1/users/add HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{}Expect: 100-continue\r\n\
         Content-Length: {}\r\n\r\n",
        bearer(&thief),
        body.len()
    );
    client.send(head.as_bytes());
    // The server asks for the body when it knows whose it is.
    let _ = client.until(b"100 Continue\r\n\r\n");
    client.send(first.as_bytes());
    server.control(&["user", "delete", "thief"]).success();
    client.send(rest.as_bytes());
    let (status, problem) = json_of(read(&mut client));
    assert_eq!(status, 401, "{problem}");
    let (_, users) = get(&server, "users/ls", &root);
    assert!(!users.to_string().contains("backdoor"), "{users}");
}

/// Bodies that stop half-way give way to one another, and hold up no other user.
#[test]
fn slow_bodies_of_a_user_hold_up_nobody_else() {
    let server = server();
    let [root, other] = ["root", "other"].map(|name| token(&server, name, &["admin"]));
    let request = format!(
        "POST /api/v1/publish HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{}Content-Length: 10\r\n\r\n{{",
        bearer(&other)
    );
    let mut slow: Vec<Raw> = (0..20)
        .map(|_| {
            let mut client = Raw::tcp(&server.address("http"));
            client.send(request.as_bytes());
            client
        })
        .collect();
    for _ in 0..20 {
        let (status, answer) = post(&server, "clients/ls", &root, &json!({}));
        assert_eq!(status, 200, "{answer}");
    }
    let ends = slow.iter_mut().map(|client| json_of(read(client)).0);
    let busy = ends.filter(|status| *status == 503).count();
    assert!(busy >= 4, "{busy} of 20 gave way: 16 have a place");
}

/// A page of the web whose name resolves to this machine.
#[test]
fn other_hosts_are_refused_whatever_the_token() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let ask = |host: &str| {
        let mut client = Raw::tcp(&server.address("http"));
        let request = format!(
            "POST /api/v1/stop HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: 2\r\n\
             Content-Type: application/json\r\n{}\r\n{{}}",
            bearer(&root)
        );
        client.send(request.as_bytes());
        json_of(read(&mut client))
    };
    refused(ask("Host: evil.example\r\n"), 421, "other-host");
    refused(ask("Host: 127.0.0.1.evil.example:1\r\n"), 421, "other-host");
    refused(ask(""), 400, "no-host");
    refused(
        ask("Host: localhost\r\nHost: evil.example\r\n"),
        400,
        "no-host",
    );
    assert_eq!(get(&server, "health", &root).0, 200, "it has not stopped");
}

/// Requests that wait take no place of others, and are bounded.
#[test]
fn those_who_wait_keep_nobody_waiting() {
    const WAITS: usize = 8;
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let (_, events) = get(&server, "events", &root);
    let cursor = events["cursor"].as_u64().expect("a cursor");
    let (told, answers) = channel();
    for _ in 0..=WAITS {
        let mut waiting = wait(&server, &root, cursor);
        let told = told.clone();
        thread::spawn(move || {
            // The test may have failed already.
            let _ = told.send(read(&mut waiting));
        });
    }
    // One is too many, and is told at once: so the others are there.
    let first = answers.recv().expect("an answer");
    assert!(first.head.contains("retry-after: "), "{}", first.head);
    refused(json_of(first), 503, "busy");
    assert_eq!(get(&server, "clients/ls", &root).0, 200);
    assert_eq!(super::super::probe(&server, "/healthz").0, 200);
    // What they have waited for.
    let _client = server.client(Version::V5, "pump");
    for _ in 0..WAITS {
        let (status, events) = json_of(answers.recv().expect("an answer"));
        assert_eq!(status, 200);
        assert_eq!(events["events"][0]["client_id"], "pump", "{events}");
    }
    assert_eq!(get(&server, "events", &root).0, 200);
}

/// A client that hangs up makes no room for others before its request is done, and keeps nobody
/// from the rest.
#[test]
fn those_who_hang_up_keep_nobody_waiting() {
    const WAITS: usize = 8;
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let (_, events) = get(&server, "events", &root);
    let cursor = events["cursor"].as_u64().expect("a cursor");
    let clients: Vec<Raw> = (0..WAITS).map(|_| wait(&server, &root, cursor)).collect();
    let is_refused = || {
        let (status, _) = json_of(read(&mut wait(&server, &root, cursor)));
        status == 503
    };
    eventually("all places are taken", is_refused);
    drop(clients);
    assert!(is_refused(), "their requests are not done");
    assert_eq!(get(&server, "clients/ls", &root).0, 200);
    assert_eq!(super::super::probe(&server, "/healthz").0, 200);
    let _client = server.client(Version::V5, "pump");
    eventually("their requests are done", || {
        get(&server, "events", &root).0 == 200
    });
}

fn wait(server: &Server, token: &str, cursor: u64) -> Raw {
    let mut client = Raw::tcp(&server.address("http"));
    let request = format!(
        "GET /api/v1/events?after={cursor}&wait_ms=10000 HTTP/1.1\r\nHost: localhost\r\n\
         Connection: close\r\n{}\r\n",
        bearer(token)
    );
    client.send(request.as_bytes());
    client
}
