//! `/api/v1`: the verbs of the control socket by HTTP.

mod answers;
mod changes;
mod heaviest;
mod kept;
mod lists;
mod names;
mod payloads;
mod publish;
mod requests;
mod rights;
mod rooms;
mod size;
mod tokens;
mod told;
mod traces;
mod walls;
mod zones;

use serde_json::{Value, json};
use stentor_tests::{Plan, Raw, Server};

use super::{Answer, read};

/// A server with one MQTT listener for everybody, and HTTP.
fn server() -> Server {
    Plan::new().tcp().http().anonymous().start()
}

/// Adds a user with roles, and makes a token for it.
#[track_caller]
pub(super) fn token(server: &Server, user: &str, roles: &[&str]) -> String {
    let mut add = vec!["user", "add", user, "--no-password"];
    for role in roles {
        add.extend(["--role", role]);
    }
    server.control(&add).success();
    let printed = server.control(&["token", "create", user]).success();
    printed.trim().to_owned()
}

/// Adds a role with these rules.
#[track_caller]
pub(super) fn role(server: &Server, name: &str, rules: &[&str]) {
    let mut add = vec!["role", "add", name];
    for rule in rules {
        add.extend(["--rule", rule]);
    }
    server.control(&add).success();
}

/// Sends a request with more header lines and a body.
#[track_caller]
pub(super) fn send(
    server: &Server,
    (method, path): (&str, &str),
    headers: &str,
    body: &str,
) -> Answer {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    );
    let mut client = Raw::tcp(&server.address("http"));
    client.send(request.as_bytes());
    read(&mut client)
}

pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// What a path answers to GET.
#[track_caller]
pub(super) fn get(server: &Server, path: &str, token: &str) -> (u16, Value) {
    let path = format!("/api/v1/{path}");
    json_of(send(server, ("GET", &path), &bearer(token), ""))
}

/// What a path answers to POST.
#[track_caller]
pub(super) fn post(server: &Server, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/v1/{path}");
    let headers = format!("{}Content-Type: application/json\r\n", bearer(token));
    json_of(send(server, ("POST", &path), &headers, &body.to_string()))
}

/// The status and the JSON of an answer, which is a whole problem if it is one.
#[track_caller]
pub(super) fn json_of(answer: Answer) -> (u16, Value) {
    let Answer {
        status, head, body, ..
    } = answer;
    assert!(!head.contains("access-control"), "{head}");
    assert!(!head.contains("set-cookie"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    let value: Value = serde_json::from_str(&body).expect("an answer is JSON");
    let is_problem = head.contains("content-type: application/problem+json");
    assert_eq!(is_problem, status >= 400, "{head}");
    if is_problem {
        assert_eq!(value["status"], json!(status), "{value}");
        for key in ["type", "title", "detail", "code", "remedy"] {
            let text = value[key].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{key}: {value}");
        }
    }
    (status, value)
}
