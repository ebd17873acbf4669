//! Sessions of browsers: cookies, and what browsers do with them.

mod ends;
mod link;
mod login;
mod origin;
mod own;

use serde_json::{Value, json};
use stentor_tests::{Plan, Server};

use super::Answer;
use super::api::{json_of, send};

/// A server that everybody may reach from this machine, with HTTP.
fn server() -> Server {
    Plan::new().tcp().http().anonymous().start()
}

const JSON: &str = "Content-Type: application/json\r\n";

/// What a page of the server itself makes a browser say.
const OWN: &str = "Sec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\n";

/// Gives a user a password: a new user with these roles, or one that is there.
#[track_caller]
fn password(server: &Server, args: &[&str], password: &str) {
    let file = server.folder().join("password");
    std::fs::write(&file, format!("{password}\n")).expect("the folder can be written");
    let mut command = args.to_vec();
    command.extend(["--password-file", file.to_str().expect("plain names")]);
    server.control(&command).success();
}

/// Adds a user whose password is the name.
#[track_caller]
fn user(server: &Server, name: &str, role: &str) {
    password(server, &["user", "add", name, "--role", role], name);
}

/// Sends a login.
#[track_caller]
fn log_in(server: &Server, headers: &str, body: &Value) -> Answer {
    let path = ("POST", "/api/v1/login");
    send(server, path, headers, &body.to_string())
}

/// The cookie of an answer: name and value.
#[track_caller]
fn cookie(answer: &Answer) -> String {
    let set = answer.set_cookie.as_deref();
    let set = set.unwrap_or_else(|| panic!("no cookie: {} {}", answer.status, answer.body));
    set.split(';').next().unwrap_or_default().to_owned()
}

/// Logs a user in whose password is the name, and returns the cookie.
#[track_caller]
fn session(server: &Server, name: &str) -> String {
    let answer = log_in(server, JSON, &json!({ "user": name, "password": name }));
    assert_eq!(answer.status, 200, "{}", answer.body);
    cookie(&answer)
}

/// The cookie of the owner of the server, by a link.
#[track_caller]
pub(super) fn owner(server: &Server) -> String {
    let made = server.json(&["console"]);
    let path = made["path"].as_str().expect("a path");
    cookie(&send(server, ("GET", path), "", ""))
}

/// What a path answers to GET with a cookie.
#[track_caller]
fn get(server: &Server, path: &str, cookie: &str) -> (u16, Value) {
    let headers = format!("Cookie: {cookie}\r\n");
    let path = format!("/api/v1/{path}");
    json_of(send(server, ("GET", &path), &headers, ""))
}

/// What a path answers to POST with a cookie and more headers.
#[track_caller]
fn post(
    server: &Server,
    path: &str,
    cookie: &str,
    (headers, body): (&str, &Value),
) -> (u16, Value) {
    let headers = format!("Cookie: {cookie}\r\n{headers}");
    let path = format!("/api/v1/{path}");
    json_of(send(server, ("POST", &path), &headers, &body.to_string()))
}

/// Whether a cookie is one of a session that goes on.
#[track_caller]
fn goes_on(server: &Server, cookie: &str) -> bool {
    let (status, answer) = get(server, "me", cookie);
    let is_known = status == 200;
    assert!(is_known || answer["code"] == "no-session", "{answer}");
    is_known
}
