//! HTTP for operators: metrics, probes, verbs as JSON, and what the listener makes of strangers.

mod access;
mod accounts;
mod address;
mod api;
mod certificates;
mod metrics;
mod probes;
mod prometheus;
mod refusals;
mod schemathesis;
mod sessions;
mod strangers;
mod streams;

use stentor_tests::{Plan, Raw, Server};

/// A server with one MQTT listener for everybody, and HTTP.
fn server() -> Server {
    Plan::new().tcp().http().anonymous().start()
}

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: String,
    /// What the header Set-Cookie has, as it came.
    set_cookie: Option<String>,
}

/// Asks for a path, with more header lines.
#[track_caller]
fn ask(server: &Server, path: &str, more: &str) -> Answer {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n");
    let mut client = Raw::tcp(&server.address("http"));
    client.send(request.as_bytes());
    read(&mut client)
}

/// Reads an answer, after which the server closes.
#[track_caller]
fn read(client: &mut Raw) -> Answer {
    let text = String::from_utf8(client.rest()).expect("the answer is text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let cookies = head.lines().filter_map(|line| line.split_once(": "));
    let mut cookies = cookies.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let set_cookie = cookies.next().map(|(_, value)| value.to_owned());
    assert_eq!(cookies.next(), None, "there is one cookie at most");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("this is no answer: {text:?}")),
        head: head.to_lowercase(),
        body: body.to_owned(),
        set_cookie,
    }
}

/// The metrics as they are now.
#[track_caller]
fn metrics(server: &Server) -> String {
    let answer = ask(server, "/metrics", "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// The value of a series.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("there is no {series}: {text}"));
    value.trim().parse().expect("a number")
}

/// The probe's answer.
#[track_caller]
fn probe(server: &Server, path: &str) -> (u16, serde_json::Value) {
    let answer = ask(server, path, "");
    let value = serde_json::from_str(&answer.body);
    (answer.status, value.expect("the answer is JSON"))
}
