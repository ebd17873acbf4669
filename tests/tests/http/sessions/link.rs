//! `stentor console`: a link that works once.

use serde_json::json;
use stentor_tests::{Plan, Server};

use super::{OWN, cookie, get, post, send, server};
use crate::api::json_of;
use crate::{Answer, ask};

/// The path of a new link.
#[track_caller]
fn link(server: &Server) -> String {
    let made = server.json(&["console"]);
    assert_eq!(made["expires_secs"], 60);
    let (path, url) = (made["path"].as_str(), made["url"].as_str());
    let (path, url) = (path.expect("a path"), url.expect("a url"));
    assert_eq!(url, format!("{}{path}", server.url("http")));
    path.to_owned()
}

fn open(server: &Server, path: &str) -> Answer {
    send(server, ("GET", path), "", "")
}

#[test]
fn a_link_logs_the_owner_in_once() {
    let server = server();
    let path = link(&server);
    // To look at it opens nothing.
    assert_eq!(send(&server, ("HEAD", &path), "", "").status, 405);
    let answer = open(&server, &path);
    assert_eq!(answer.status, 303, "{}", answer.body);
    assert!(
        answer.head.contains("\r\nlocation: /\r\n"),
        "{}",
        answer.head
    );
    assert!(
        answer.head.contains("referrer-policy: no-referrer"),
        "{}",
        answer.head
    );
    assert!(
        answer.head.contains("cache-control: no-store"),
        "{}",
        answer.head
    );
    let cookie = cookie(&answer);
    let (status, me) = get(&server, "me", &cookie);
    assert_eq!((status, &me["user"]), (200, &json!(null)));
    let name = me["name"].as_str().unwrap_or_default().to_owned();
    assert!(
        name.starts_with("uid ") && name.ends_with("(console)"),
        "{name}"
    );
    let may = me["may"].as_array().expect("a list");
    assert!(may.contains(&json!("stop")) && may.contains(&json!("config.effective")));
    let page = ask(&server, "/", &format!("Cookie: {cookie}\r\n"));
    assert!(
        page.body.contains(&format!("Logged in: {name}")),
        "{}",
        page.body
    );
    assert!(ask(&server, "/", "").body.contains("Not logged in"));
    let answer = open(&server, &path);
    assert_eq!(answer.set_cookie, None);
    let (status, problem) = json_of(answer);
    assert_eq!((status, &problem["code"]), (401, &json!("no-link")));
    // What is done in its session has a name.
    let body = json!({ "topic": "a", "payload": "b", "retain": true });
    let (status, answer) = post(&server, "publish", &cookie, (OWN, &body));
    assert_eq!(status, 200, "{answer}");
    let audit = std::fs::read_to_string(server.data_dir().join("audit.log"));
    let audit = audit.expect("there is an audit log");
    assert!(audit.contains("\"what\":\"login.link\""), "{audit}");
    let by = format!("\"who\":\"{name} by HTTP from 127.0.0.1\",\"what\":\"publish.retained\"");
    assert!(audit.contains(&by), "{audit}");
    let secret = path.split_once("once=").expect("a secret").1;
    assert!(!audit.contains(secret) && !server.log().contains(secret));
}

#[test]
fn wrong_links_open_nothing_and_do_not_lock_the_right_one() {
    let server = server();
    let right = link(&server);
    for (path, code) in [
        ("/login", "bad-request"),
        ("/login?once", "no-link"),
        ("/login?twice=x", "bad-request"),
        ("/login?once=x&once=y", "bad-request"),
        ("/login?once=%", "bad-request"),
    ] {
        let answer = open(&server, path);
        assert_eq!(answer.set_cookie, None);
        assert_eq!(json_of(answer).1["code"], code, "{path}");
    }
    let cut = &right[..right.len() - 1];
    let guesses: Vec<u16> = (0..20).map(|_| open(&server, cut).status).collect();
    assert_eq!(guesses[0], 401);
    assert_eq!(guesses[19], 429, "guessing is slowed down: {guesses:?}");
    assert_eq!(open(&server, &right).status, 303);
}

/// The verb is one of the control socket: nobody makes himself the owner by HTTP.
#[test]
fn no_link_is_made_by_http() {
    let server = server();
    let token = crate::api::token(&server, "root", &["admin"]);
    let (status, problem) = crate::api::post(&server, "login/link", &token, &json!({}));
    assert_eq!((status, &problem["code"]), (404, &json!("socket-only")));
}

#[test]
fn without_http_there_is_no_link() {
    let server = Plan::new().tcp().anonymous().start();
    let refusal = server.control(&["console"]).refusal();
    assert!(refusal.contains("http.listen"), "{refusal}");
    let plan = Plan::new().tcp().anonymous();
    let socket = plan.folder().join("http.sock");
    let server = plan
        .arg("--http")
        .arg(format!("http+unix:{}", socket.display()))
        .start();
    let refusal = server.control(&["console"]).refusal();
    assert!(refusal.contains("a browser can open"), "{refusal}");
}

#[test]
fn the_command_prints_the_link_alone_in_a_line() {
    let server = server();
    let out = server.control(&["console"]).success();
    let first = out.lines().next().unwrap_or_default();
    let begin = format!("{}/login?once=stentor_", server.url("http"));
    assert!(first.starts_with(&begin), "{out}");
    assert!(out.contains("60 seconds"), "{out}");
    let plan = Plan::new();
    let mut command = stentor_tests::server::stentor();
    command.args(["console", "--data-dir"]).arg(plan.data_dir());
    let refusal = stentor_tests::process::run(&mut command).refusal();
    assert!(refusal.contains("no server runs"), "{refusal}");
}
