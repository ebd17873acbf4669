//! How a session ends, and its bounds.

use serde_json::json;
use stentor_tests::raw::eventually;
use stentor_tests::{Plan, Raw, Server};

use super::{JSON, OWN, get, goes_on, log_in, password, send, server, session, user};
use crate::api::json_of;

#[test]
fn a_logout_ends_the_session() {
    let server = server();
    user(&server, "vic", "viewer");
    let (one, other) = (session(&server, "vic"), session(&server, "vic"));
    let headers = format!("Cookie: {one}\r\n{OWN}");
    let answer = send(&server, ("POST", "/api/v1/logout"), &headers, "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let set = answer.set_cookie.expect("the cookie is taken away");
    assert!(
        set.starts_with("stentor=;") && set.contains("Max-Age=0"),
        "{set}"
    );
    assert!(!goes_on(&server, &one), "whoever has kept it has nothing");
    assert!(goes_on(&server, &other));
    // Once more, it changes nothing.
    let answer = send(&server, ("POST", "/api/v1/logout"), &headers, "");
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn a_cookie_that_nobody_gave_is_none() {
    let server = server();
    user(&server, "vic", "viewer");
    let cookie = session(&server, "vic");
    let cut = &cookie[..cookie.len() - 1];
    for other in [cut, "stentor=x", "stentor=stentor_x"] {
        assert!(!goes_on(&server, other), "{other}");
    }
    // With two of one name, somebody else has set one of them.
    for twice in [
        format!("{cookie}; {cookie}"),
        format!("{cookie}; stentor=x"),
    ] {
        let (status, problem) = get(&server, "me", &twice);
        assert_eq!((status, &problem["code"]), (401, &json!("no-token")));
    }
    // A session is not a token, nor a token a session.
    let value = cookie.split_once('=').expect("a value").1;
    let headers = format!("Authorization: Bearer {value}\r\n");
    let (status, problem) = json_of(send(&server, ("GET", "/api/v1/me"), &headers, ""));
    assert_eq!((status, &problem["code"]), (401, &json!("no-token")));
    let token = crate::api::token(&server, "root", &["admin"]);
    assert!(!goes_on(&server, &format!("stentor={token}")));
}

#[test]
fn changes_of_the_user_end_the_session() {
    let server = server();
    for name in ["vic", "ben", "dora", "rita", "bea"] {
        user(&server, name, "viewer");
    }
    let sessions = ["vic", "ben", "dora", "rita", "bea"].map(|name| session(&server, name));
    let [vic, ben, dora, rita, bea] = &sessions;
    let other = session(&server, "vic");
    password(&server, &["user", "set-password", "vic"], "another");
    assert!(!goes_on(&server, vic) && !goes_on(&server, &other));
    let again = json!({ "user": "vic", "password": "another" });
    assert_eq!(log_in(&server, JSON, &again).status, 200);
    server.control(&["user", "disable", "dora"]).success();
    assert!(!goes_on(&server, dora));
    server.control(&["user", "delete", "ben"]).success();
    assert!(!goes_on(&server, ben));
    server.control(&["revoke", "rita", "viewer"]).success();
    assert!(goes_on(&server, rita), "it has no rights any more");
    assert_eq!(get(&server, "status", rita).0, 403);
    server.control(&["ban", "add", "--user", "bea"]).success();
    let (status, problem) = get(&server, "me", bea);
    assert_eq!((status, &problem["code"]), (403, &json!("banned")));
    server.control(&["ban", "rm", "--user", "bea"]).success();
    assert!(goes_on(&server, bea));
}

/// A hash of another function is replaced as its user logs in. That is no other password.
#[test]
fn a_better_hash_ends_no_session() {
    let config = "[auth]\npassword_hash = \"scrypt\"\n";
    let plan = Plan::new().config(config).tcp().http();
    let server = plan.start();
    user(&server, "vic", "viewer");
    server.reconfigure("[auth]\npassword_hash = \"argon2id\"\n");
    server.control(&["reload"]).success();
    let cookie = session(&server, "vic");
    let kind = || server.json(&["user", "show", "vic"]).to_string();
    eventually("the hash is replaced", || kind().contains("argon2id"));
    assert!(goes_on(&server, &cookie));
    password(&server, &["user", "set-password", "vic"], "another");
    assert!(!goes_on(&server, &cookie));
}

#[test]
fn a_user_has_ten_sessions() {
    let server = server();
    user(&server, "vic", "viewer");
    user(&server, "ben", "viewer");
    let other = session(&server, "ben");
    let sessions: Vec<String> = (0..11).map(|_| session(&server, "vic")).collect();
    let go_on: Vec<bool> = sessions.iter().map(|one| goes_on(&server, one)).collect();
    let expected: Vec<bool> = (0..11).map(|at| at > 0).collect();
    assert_eq!(go_on, expected, "the oldest one has made room");
    assert!(goes_on(&server, &other));
}

#[test]
fn requests_of_a_session_have_a_pace() {
    let server = server();
    user(&server, "vic", "viewer");
    let cookie = session(&server, "vic");
    let request = format!("GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n");
    let mut client = Raw::tcp(&server.address("http"));
    let last = format!("{request}Connection: close\r\n\r\n");
    // Sent in one piece, they come within less than a second.
    client.send((format!("{request}\r\n").repeat(99) + &last).as_bytes());
    let text = String::from_utf8(client.rest()).expect("the answers are text");
    let count = |words: &str| text.matches(words).count();
    assert_eq!(count("HTTP/1.1 200") + count("HTTP/1.1 429"), 100, "{text}");
    assert!(count("HTTP/1.1 200") >= 60, "{}", count("HTTP/1.1 200"));
    assert!(count("HTTP/1.1 429") > 0, "none was too fast");
    assert_eq!(count("\"code\":\"too-fast\""), count("retry-after: 1\r\n"));
    eventually("it may go on", || get(&server, "me", &cookie).0 == 200);
}

/// Opens an event stream with a cookie; the status of the answer.
fn stream(server: &Server, cookie: &str) -> (Raw, String) {
    let mut client = Raw::tcp(&server.address("http"));
    let request = format!(
        "GET /api/v1/events/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
    );
    client.send(request.as_bytes());
    let head = String::from_utf8(client.until(b"\r\n\r\n")).expect("the answer is text");
    let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
    (client, status)
}

#[test]
fn a_session_has_four_streams_and_they_end_with_it() {
    let server = server();
    user(&server, "vic", "viewer");
    let (one, other) = (session(&server, "vic"), session(&server, "vic"));
    let mut streams: Vec<(Raw, String)> = (0..4).map(|_| stream(&server, &one)).collect();
    assert!(streams.iter().all(|(_, status)| status == "200"));
    assert_eq!(stream(&server, &one).1, "429");
    let (_other, status) = stream(&server, &other);
    assert_eq!(status, "200");
    let headers = format!("Cookie: {one}\r\n{OWN}");
    let answer = send(&server, ("POST", "/api/v1/logout"), &headers, "");
    assert_eq!(answer.status, 200);
    for (reader, _) in &mut streams {
        let rest = String::from_utf8(reader.rest()).expect("events are text");
        assert!(rest.contains("no-session"), "{rest}");
    }
    assert!(goes_on(&server, &other));
}

#[test]
fn streams_end_with_their_session() {
    let server = server();
    user(&server, "vic", "viewer");
    let cookie = session(&server, "vic");
    let (mut reader, status) = stream(&server, &cookie);
    assert_eq!(status, "200");
    server.control(&["user", "disable", "vic"]).success();
    let rest = String::from_utf8(reader.rest()).expect("events are text");
    assert!(
        rest.contains("event: end") && rest.contains("no-session"),
        "{rest}"
    );
}
