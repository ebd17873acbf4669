//! A user gives himself another password.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};
use stentor_tests::{Plan, Server};

use super::{JSON, OWN, goes_on, log_in, owner, post, server, session, user};
use crate::api;

fn change(old: &str, new: &str) -> Value {
    json!({ "password": old, "new_password": new })
}

/// What the user hears who asks by a session.
#[track_caller]
fn ask(server: &Server, cookie: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = post(server, "me/password", cookie, (OWN, body));
    (status, answer["code"].clone())
}

/// The status of a login.
#[track_caller]
fn logs_in(server: &Server, name: &str, password: &str) -> u16 {
    let login = json!({ "user": name, "password": password });
    log_in(server, JSON, &login).status
}

#[test]
fn another_password_ends_the_other_sessions_of_the_user() {
    let server = server();
    user(&server, "ann", "member");
    user(&server, "ben", "member");
    let (own, other, bens) = (
        session(&server, "ann"),
        session(&server, "ann"),
        session(&server, "ben"),
    );
    let changed = ask(&server, &own, &change("ann", "tea and biscuits"));
    assert_eq!(changed, (200, Value::Null));
    assert!(goes_on(&server, &own), "the session that asked goes on");
    assert!(!goes_on(&server, &other));
    assert!(goes_on(&server, &bens));
    assert_eq!(logs_in(&server, "ann", "ann"), 401);
    assert_eq!(logs_in(&server, "ann", "tea and biscuits"), 200);
    // A later change of somebody else's hand ends it as any other.
    server.control(&["grant", "ann", "viewer"]).success();
    assert!(goes_on(&server, &own), "other roles are no other password");
    super::password(&server, &["user", "set-password", "ann"], "third");
    assert!(!goes_on(&server, &own));
    let audit = fs::read_to_string(server.data_dir().join("audit.log"));
    let audit = audit.expect("there is a log of changes");
    let of = |line: &&str| line.contains("user.set-password") && line.contains("ann by HTTP");
    let line = audit.lines().find(of).expect("the change is noted");
    assert!(line.contains("\"outcome\":\"done\""), "{line}");
    assert!(!audit.contains("biscuits"), "{audit}");
}

#[test]
fn it_takes_the_present_password() {
    let server = server();
    user(&server, "ann", "member");
    let own = session(&server, "ann");
    let token = server.control(&["token", "create", "ann"]).success();
    for (old, new, expected) in [
        ("wrong", "new", (403, "wrong-password")),
        (token.trim(), "new", (403, "wrong-password")),
        ("", "new", (400, "bad-request")),
        ("ann", "", (400, "bad-request")),
        ("ann", &"x".repeat(1_025), (400, "bad-request")),
    ] {
        let (status, code) = ask(&server, &own, &change(old, new));
        assert_eq!(
            (status, code.as_str()),
            (expected.0, Some(expected.1)),
            "{old} {new}"
        );
    }
    for body in [
        json!({}),
        json!(["ann", "new"]),
        json!({ "password": "ann" }),
        json!({ "password": "ann", "new_password": 7 }),
        json!({ "password": "ann", "new_password": "new", "name": "ben" }),
    ] {
        let (status, problem) = post(&server, "me/password", &own, (OWN, &body));
        assert_eq!(status, 400, "{body}");
        assert!(!problem.to_string().contains("\"ann\""), "{problem}");
    }
    assert_eq!(logs_in(&server, "ann", "ann"), 200, "nothing has changed");
    // A page of another site cannot ask.
    let (status, problem) = post(&server, "me/password", &own, (JSON, &change("ann", "new")));
    assert_eq!((status, &problem["code"]), (403, &json!("cross-site")));
    // Nor can the owner, who has no password, or nobody.
    let link = owner(&server);
    let (status, code) = ask(&server, &link, &change("ann", "new"));
    assert_eq!((status, code), (409, json!("refused")));
    let (status, code) = ask(&server, "stentor=x", &change("ann", "new"));
    assert_eq!((status, code), (401, json!("no-session")));
    // A program may, by a token.
    let (status, _) = api::post(&server, "me/password", token.trim(), &change("ann", "new"));
    assert_eq!(status, 200);
    assert!(!goes_on(&server, &own));
    assert_eq!(api::get(&server, "me", token.trim()).0, 200, "tokens stay");
}

/// A stranger who has found an open browser tries passwords as slowly as at a login.
#[test]
fn wrong_passwords_are_slowed_down() {
    let server = server();
    user(&server, "ann", "member");
    let own = session(&server, "ann");
    let began = Instant::now();
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(ask(&server, &own, &change("wrong", "new")).1);
    }
    let slowed = codes.iter().any(|code| code == "slowed");
    assert!(
        slowed || began.elapsed().as_secs() >= 3,
        "{codes:?} {:?}",
        began.elapsed()
    );
}

#[test]
fn a_user_of_a_zone_changes_the_own_password() {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";
    let plan = Plan::new().config(config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let add = ["user", "add", "game/ann", "--role", "member"];
    super::password(&server, &add, "game");
    user(&server, "ann", "member");
    let login = json!({ "user": "game/ann", "password": "game" });
    let own = super::cookie(&log_in(&server, JSON, &login));
    assert_eq!(ask(&server, &own, &change("ann", "new")).0, 403);
    assert_eq!(ask(&server, &own, &change("game", "new")).0, 200);
    assert!(goes_on(&server, &own));
    assert_eq!(logs_in(&server, "game/ann", "new"), 200);
    assert_eq!(logs_in(&server, "ann", "ann"), 200, "it is another user");
}
