//! What verbs change, and who is noted for it.

use std::fs;

use serde_json::{Value, json};
use stentor_tests::raw::eventually;
use stentor_tests::{Server, Version};

use super::{get, post, role, server, token};

/// The last line of the audit log of this kind.
#[track_caller]
fn noted(server: &Server, what: &str) -> Value {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let mut lines = log.lines().rev().map(|line| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        line
    });
    let last = lines.find(|line| line["what"] == what);
    last.unwrap_or_else(|| panic!("nothing of {what}: {log}"))
}

#[test]
fn what_is_changed_is_done_and_noted_with_its_user() {
    let server = server();
    let operates = ["allow subscribe $control/#", "allow publish $control/#"];
    role(&server, "operates", &operates);
    let olga = token(&server, "olga", &["operates"]);
    let mut client = server.client(Version::V5, "pump");
    let kick = json!({ "client_id": "pump", "end_session": true });
    let (status, kicked) = post(&server, "clients/kick", &olga, &kick);
    assert_eq!(
        (status, &kicked["was_connected"]),
        (200, &json!(true)),
        "{kicked}"
    );
    client.expect(14);
    client.closed();
    let line = noted(&server, "clients.kick");
    assert_eq!(line["who"], "olga by HTTP from 127.0.0.1", "{line}");
    eventually("its session is gone", || {
        post(&server, "clients/kick", &olga, &kick).0 == 404
    });
    assert_eq!(noted(&server, "clients.kick")["outcome"], "refused");
    let ban = json!({ "client_id": "pump", "reason": "noise", "for_secs": 60 });
    let (status, added) = post(&server, "bans/add", &olga, &ban);
    assert_eq!(
        (status, &added["replaced"]),
        (200, &json!(false)),
        "{added}"
    );
    let (_, bans) = get(&server, "bans/ls", &olga);
    assert_eq!(
        bans["bans"][0]["by"], "olga by HTTP from 127.0.0.1",
        "{bans}"
    );
    assert_eq!(
        post(&server, "bans/rm", &olga, &json!({ "client_id": "pump" })).0,
        200
    );
    let (status, problem) = post(&server, "bans/rm", &olga, &json!({ "client_id": "pump" }));
    assert_eq!((status, &problem["code"]), (404, &json!("not-found")));
    let (status, problem) = post(&server, "reload", &olga, &json!({}));
    assert_eq!(status, 200, "{problem}");
}

#[test]
fn nobody_bans_himself() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    for ban in [
        json!({ "user": "root" }),
        json!({ "user": "root", "zone": "default" }),
        json!({ "user": "default/root" }),
        json!({ "address": "127.0.0.1", "force": true }),
        json!({ "address": "127.0.0.0/8", "force": true }),
        json!({ "zone": "default", "force": true }),
    ] {
        let (status, problem) = post(&server, "bans/add", &root, &ban);
        assert_eq!(
            (status, &problem["code"]),
            (409, &json!("refused")),
            "{ban}"
        );
    }
    assert_eq!(get(&server, "bans/ls", &root).1["bans"], json!([]));
}

#[test]
fn the_server_can_be_stopped() {
    let mut server = server();
    let root = token(&server, "root", &["admin"]);
    assert_eq!(post(&server, "stop", &root, &json!({})).0, 200);
    assert!(server.ended().success());
}
