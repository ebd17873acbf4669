//! What an operator hears of requests that are refused: in the log, the events, the metrics and the
//! audit log.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use stentor_tests::Server;
use stentor_tests::raw::eventually;

use super::api::{bearer, get, post, send, token};
use super::{metrics, server, value};

/// The events of a kind, the oldest first.
#[track_caller]
fn events(server: &Server, kind: &str) -> Vec<Value> {
    let told = server.control(&["events", "--json", "--event", kind]);
    let text = told.success();
    let lines = text.lines().map(serde_json::from_str);
    lines.map(|event| event.expect("a line is JSON")).collect()
}

/// The newest event of a kind has this reason and user, came by HTTP from this machine, and says
/// this.
#[track_caller]
fn newest(server: &Server, kind: &str, reason: &Value, user: &Value, says: &str) {
    let mut event = Value::Null;
    eventually(&format!("{kind} {reason} {says}"), || {
        event = events(server, kind).pop().unwrap_or_default();
        event["reason"] == *reason && event["user"] == *user
    });
    let text = event["text"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("by HTTP: ") && text.contains(says),
        "{event}"
    );
    let peer = event["peer"].as_str().unwrap_or_default();
    let port = peer.strip_prefix("127.0.0.1:").unwrap_or_default();
    assert!(port.parse().is_ok_and(|port: u16| port > 0), "{event}");
    let listener = event["listener"].as_str().unwrap_or_default();
    assert!(listener.contains("http"), "{event}");
}

/// How often requests were refused for a reason.
#[track_caller]
fn refused(server: &Server, reason: &str) -> f64 {
    let series = format!("stentor_http_refusals_total{{reason=\"{reason}\"}}");
    value(&metrics(server), &series)
}

#[track_caller]
fn log_in(server: &Server, user: &str, password: &str) -> u16 {
    let body = json!({ "user": user, "password": password }).to_string();
    let path = ("POST", "/api/v1/login");
    send(server, path, "Content-Type: application/json\r\n", &body).status
}

#[test]
fn wrong_logins_are_logged_kept_as_events_and_counted() {
    let server = server();
    let file = server.folder().join("password");
    fs::write(&file, "correct horse\n").expect("the folder can be written");
    let file = file.to_str().expect("plain names");
    let add = [
        "user",
        "add",
        "ann",
        "--role",
        "viewer",
        "--password-file",
        file,
    ];
    server.control(&add).success();
    for reason in [
        "wrong-login",
        "wrong-token",
        "no-token",
        "no-session",
        "denied",
    ] {
        assert_eq!(refused(&server, reason), 0.0, "{reason}");
    }
    assert_eq!(log_in(&server, "ann", "wrong"), 401);
    let wrong = json!("wrong-login");
    newest(
        &server,
        "refused",
        &wrong,
        &json!("ann"),
        "stentor user set-password ann",
    );
    let line = server.wait_lines(1, &["refused by HTTP", "reason=\"wrong-login\""]);
    assert!(
        line.contains("user=\"ann\"") && line.contains("127.0.0.1:"),
        "{line}"
    );
    assert!(
        line.contains("WARN") && line.contains("stentor user set-password ann"),
        "{line}"
    );

    server.control(&["user", "disable", "ann"]).success();
    assert_eq!(log_in(&server, "ann", "correct horse"), 401);
    server.wait_lines(1, &["refused by HTTP", "stentor user enable ann"]);
    server.control(&["user", "enable", "ann"]).success();

    let tea = token(&server, "tea", &["viewer"]);
    assert_eq!(get(&server, "me", "nonsense").0, 401);
    let wrong = json!("wrong-token");
    newest(
        &server,
        "refused",
        &wrong,
        &Value::Null,
        "stentor token create",
    );
    assert_eq!(get(&server, "me", &tea).0, 200);
    newest(
        &server,
        "logged-in",
        &Value::Null,
        &json!("tea"),
        "by a token",
    );
    server.control(&["user", "delete", "tea"]).success();
    assert_eq!(get(&server, "me", &tea).0, 401);
    let path = ("GET", "/api/v1/me");
    assert_eq!(send(&server, path, "", "").status, 401);
    newest(
        &server,
        "refused",
        &json!("no-token"),
        &Value::Null,
        "stentor token create",
    );
    let cookie = format!("Cookie: stentor={tea}\r\n");
    assert_eq!(send(&server, path, &cookie, "").status, 401);
    newest(
        &server,
        "refused",
        &json!("no-session"),
        &Value::Null,
        "log in again",
    );
    let link = ("GET", "/login?once=nonsense");
    assert_eq!(send(&server, link, "", "").status, 401);
    newest(
        &server,
        "refused",
        &json!("no-link"),
        &Value::Null,
        "stentor console",
    );

    for (reason, count) in [
        ("wrong-login", 2.0),
        ("wrong-token", 2.0),
        ("no-token", 1.0),
    ] {
        assert_eq!(refused(&server, reason), count, "{reason}");
    }
    assert_eq!(log_in(&server, "ann", "correct horse"), 200);
    let how = "a session begins by a password";
    newest(&server, "logged-in", &Value::Null, &json!("ann"), how);
    assert_eq!(value(&metrics(&server), "stentor_http_logins_total"), 2.0);
    server.wait_lines(1, &["logged in by HTTP", "user=\"ann\""]);
    // The page that says what there is refuses nobody.
    assert_eq!(send(&server, ("GET", "/"), "", "").status, 200);
    assert_eq!(refused(&server, "no-token"), 1.0);
}

#[test]
fn what_a_user_may_not_do_is_logged_kept_as_an_event_and_audited() {
    let server = server();
    let ann = token(&server, "ann", &["viewer"]);
    assert_eq!(
        post(&server, "clients/kick", &ann, &json!({ "client_id": "a" })).0,
        403
    );
    let denied = json!("denied");
    newest(
        &server,
        "denied",
        &denied,
        &json!("ann"),
        "$control/clients/kick",
    );
    server.wait_lines(
        1,
        &[
            "not permitted by HTTP",
            "user=\"ann\"",
            "user test ann publish",
        ],
    );
    let message = json!({ "topic": "a/b", "payload": "x" });
    assert_eq!(post(&server, "publish", &ann, &message).0, 403);
    newest(
        &server,
        "denied",
        &denied,
        &json!("ann"),
        "may not publish to \"a/b\"",
    );
    assert_eq!(refused(&server, "denied"), 2.0);
    // A user who only asks, or publishes, is not in the audit log; and it has few lines of one
    // user.
    for _ in 0..30 {
        assert_eq!(post(&server, "stop", &ann, &json!({})).0, 403);
    }
    assert_eq!(refused(&server, "denied"), 32.0);
    let mut noted = Vec::new();
    eventually("denied changes are audited", || {
        let log = fs::read_to_string(server.data_dir().join("audit.log")).unwrap_or_default();
        let lines = log
            .lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"));
        noted = lines
            .filter(|line: &Value| line["outcome"] == "denied")
            .collect();
        noted.len() >= 10
    });
    assert_eq!(noted[0]["what"], "clients.kick", "{noted:?}");
    assert_eq!(noted[0]["who"], "ann by HTTP from 127.0.0.1", "{noted:?}");
    assert_eq!(noted[0]["target"], "$control/clients/kick", "{noted:?}");
    assert!(
        noted[1..].iter().all(|line| line["what"] == "stop"),
        "{noted:?}"
    );
    assert!(noted.len() <= 20, "{}", noted.len());
}

/// A guesser fills neither the log nor the events.
#[test]
fn many_wrong_tokens_leave_few_lines() {
    let (server, begun) = (server(), Instant::now());
    for _ in 0..150 {
        assert_eq!(
            send(&server, ("GET", "/api/v1/me"), &bearer("x"), "").status,
            401
        );
    }
    assert_eq!(refused(&server, "wrong-token"), 150.0);
    let lines = server.log().matches("refused by HTTP").count();
    // Ten in ten seconds, and a machine that is busy takes longer than that.
    let periods = 1 + begun.elapsed().as_secs() as usize / 10;
    assert!((1..=10 * (periods + 1)).contains(&lines), "{lines}");
    assert!(events(&server, "refused").len() <= 150);
}
