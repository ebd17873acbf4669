//! What answers say to those who got something wrong, and what the audit log says of changes.

use std::fs;

use serde_json::{Value, json};
use stentor_tests::Server;

use super::{get, post, server, token};

/// What the audit log has of this kind.
#[track_caller]
fn noted(server: &Server, what: &str) -> Vec<Value> {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let lines = log.lines().map(serde_json::from_str::<Value>);
    let lines = lines.map(|line| line.expect("a line is JSON"));
    lines.filter(|line| line["what"] == what).collect()
}

#[test]
fn a_wrong_value_is_named_by_its_key() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    for (path, field) in [
        ("clients/ls?by=colour", "by"),
        ("clients/ls?address=pump", "address"),
        ("clients/ls?zone=nowhere", "zone"),
        ("clients/ls?cursor=x", "cursor"),
        ("clients/show", "client_id"),
        ("events?address=pump", "address"),
        ("events?event=dance", "event"),
        ("subscriptions?topic=a/%23", "topic"),
        ("topics/children?below=%23", "below"),
    ] {
        let (status, problem) = get(&server, path, &root);
        assert!([400, 404].contains(&status), "{path}: {problem}");
        assert_eq!(problem["field"], field, "{path}: {problem}");
    }
    for (path, body, field) in [
        ("users/add", json!({}), "name"),
        (
            "users/add",
            json!({ "name": "ann", "scram": true }),
            "scram",
        ),
        (
            "users/add",
            json!({ "name": "ann", "password": "" }),
            "password",
        ),
        (
            "tokens/create",
            json!({ "name": "root", "days": 0 }),
            "days",
        ),
        ("traces/start", json!({ "topic": "a/#/b" }), "topic"),
        (
            "bans/add",
            json!({ "client_id": "a", "for_secs": 0 }),
            "for_secs",
        ),
        (
            "publish",
            json!({ "topic": "a/+", "payload": "x" }),
            "topic",
        ),
        (
            "publish",
            json!({ "topic": "$SYS/a", "payload": "x" }),
            "topic",
        ),
        (
            "publish",
            json!({ "topic": "a", "payload_base64": "?" }),
            "payload_base64",
        ),
        ("publish", json!({ "topic": "a", "qos": 3 }), "qos"),
    ] {
        let (status, problem) = post(&server, path, &root, &body);
        assert_eq!(status, 400, "{path} {body}: {problem}");
        assert_eq!(problem["field"], field, "{path} {body}: {problem}");
    }
}

#[test]
fn a_long_topic_is_not_quoted_whole() {
    let server = server();
    let (root, vic) = (
        token(&server, "root", &["admin"]),
        token(&server, "vic", &["viewer"]),
    );
    let long = "x".repeat(60_000);
    let message = json!({ "topic": long, "payload": "x" });
    let (status, problem) = post(&server, "publish", &vic, &message);
    assert_eq!(status, 403, "{problem}");
    assert!(
        problem.to_string().len() < 2_000,
        "{}",
        problem.to_string().len()
    );
    for (path, body) in [
        ("subscriptions", json!({ "topic": format!("{long}/#") })),
        ("topics/children", json!({ "below": format!("{long}/#") })),
        ("traces/start", json!({ "topic": format!("#/{long}") })),
    ] {
        let (status, problem) = post(&server, path, &root, &body);
        assert_eq!(status, 400, "{path}");
        assert!(
            problem.to_string().len() < 2_000,
            "{path}: {}",
            problem.to_string().len()
        );
    }
}

#[test]
fn an_empty_payload_clears_and_keeps_nothing() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    for (payload, expected) in [
        ("x", json!({ "topic": "a", "kept": true })),
        ("", json!({ "topic": "a", "kept": false, "cleared": true })),
    ] {
        let message = json!({ "topic": "a", "payload": payload, "retain": true });
        assert_eq!(post(&server, "publish", &ann, &message), (200, expected));
    }
}

#[test]
fn everybody_hears_of_the_verbs_that_he_can_use() {
    let server = server();
    for (role, may) in [
        ("viewer", false),
        ("operator", false),
        ("member", true),
        ("admin", true),
    ] {
        let (_, me) = get(
            &server,
            "me",
            &token(&server, &format!("a-{role}"), &[role]),
        );
        let verbs = me["may"].as_array().expect("a list");
        assert_eq!(verbs.contains(&json!("publish")), may, "{role}: {me}");
    }
}

#[test]
fn the_end_of_a_trace_and_a_reload_without_a_change_are_audited() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let (_, begun) = post(
        &server,
        "traces/start",
        &root,
        &json!({ "client_id": "pump" }),
    );
    let id = begun["id"].as_u64().expect("a number");
    assert_eq!(
        post(&server, "traces/stop", &root, &json!({ "id": id })).0,
        200
    );
    let stopped = noted(&server, "traces.stop");
    assert_eq!(stopped[0]["target"], format!("trace {id}"), "{stopped:?}");
    assert_eq!(post(&server, "reload", &root, &json!({})).0, 200);
    let reloaded = noted(&server, "config.reload");
    assert_eq!(reloaded[0]["changed"], json!([]), "{reloaded:?}");
    assert_eq!(
        reloaded[0]["who"], "root by HTTP from 127.0.0.1",
        "{reloaded:?}"
    );
}
