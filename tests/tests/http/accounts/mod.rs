//! Users, roles, tokens and zones by HTTP.

mod changes;
mod limits;
mod outage;
mod rights;
mod secrets;
mod zones;

use std::fs;

use serde_json::{Value, json};
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Server, Version};

use super::api::{post, token};

/// A server where everybody has to log in.
fn server() -> Server {
    Plan::new().tcp().http().start()
}

/// A server, and the token of an administrator.
fn place() -> (Server, String) {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    (server, root)
}

/// What a verb answers that is done.
#[track_caller]
fn done(server: &Server, path: &str, token: &str, body: &Value) -> Value {
    let (status, answer) = post(server, path, token, body);
    assert_eq!(status, 200, "{path} {body}: {answer}");
    answer
}

/// Checks that a verb is refused, and returns the sentence.
#[track_caller]
fn refused(
    server: &Server,
    (path, token): (&str, &str),
    body: &Value,
    (status, code): (u16, &str),
) -> String {
    let (answered, problem) = post(server, path, token, body);
    let start: String = body.to_string().chars().take(200).collect();
    assert_eq!(
        (answered, &problem["code"]),
        (status, &json!(code)),
        "{path} {start}: {problem}"
    );
    problem["detail"].as_str().unwrap_or_default().to_owned()
}

/// The code with which a login is answered.
fn login(server: &Server, user: &str, password: &str) -> u8 {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, "", true, Some((user, password))));
    client.expect(2).body[1]
}

/// The lines of the audit log.
fn audit(server: &Server) -> Vec<Value> {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let lines = log.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect()
}

/// Whether the audit log has a line of this kind about this target, by HTTP.
#[track_caller]
fn is_noted(server: &Server, what: &str, target: &str, outcome: &str) {
    let lines = audit(server);
    let is_it = |line: &&Value| {
        let who = line["who"].as_str().unwrap_or_default();
        line["what"] == what
            && line["target"] == target
            && line["outcome"] == outcome
            && who.ends_with(" by HTTP from 127.0.0.1")
    };
    assert!(
        lines.iter().rev().any(|line| is_it(&line)),
        "{what} {target} {outcome}: {lines:#?}"
    );
}
