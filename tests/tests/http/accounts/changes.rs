//! What each verb does, and what becomes of those who are connected.

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, subscribe};
use stentor_tests::{Raw, Server, Version};

use super::{done, is_noted, login, place, refused};
use crate::api::get;

/// A client that has logged in.
#[track_caller]
fn connected(server: &Server, user: &str, password: &str) -> Raw {
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, user, true, Some((user, password))));
    assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
    client.speaks(Version::V5);
    client
}

#[test]
fn users_come_change_and_go() {
    let (server, root) = place();
    let ann = json!({ "name": "ann", "password": "first one" });
    let added = done(&server, "users/add", &root, &ann);
    assert_eq!(added["login"], "ann", "{added}");
    assert_eq!(added["roles"], json!(["member"]), "{added}");
    assert_eq!(added["credentials"][0]["kind"], "argon2id", "{added}");
    is_noted(&server, "user.add", "ann", "done");
    assert_eq!(login(&server, "ann", "first one"), 0);
    let (status, shown) = get(&server, "users/show?name=ann", &root);
    assert_eq!((status, &shown), (200, &added));
    let same = ("users/add", &*root);
    let detail = refused(&server, same, &ann, (409, "exists"));
    assert!(detail.contains("ann"), "{detail}");
    is_noted(&server, "user.add", "ann", "refused");

    let other = json!({ "name": "ann", "password": "second one", "scram": true });
    let changed = done(&server, "users/set-password", &root, &other);
    let kinds = |user: &Value| -> Vec<Value> {
        let all = user["credentials"].as_array().expect("a list").iter();
        all.map(|one| one["kind"].clone()).collect()
    };
    let three = ["argon2id", "SCRAM-SHA-256", "SCRAM-SHA-512"];
    assert_eq!(json!(kinds(&changed)), json!(three));
    assert_ne!(login(&server, "ann", "first one"), 0);
    assert_eq!(login(&server, "ann", "second one"), 0);
    // A user who could prove the password by SCRAM still can.
    let third = json!({ "name": "ann", "password": "third one" });
    let changed = done(&server, "users/set-password", &root, &third);
    assert_eq!(json!(kinds(&changed)), json!(three));
    is_noted(&server, "user.set-password", "ann", "done");

    let name = json!({ "name": "ann" });
    let mut client = connected(&server, "ann", "third one");
    let disabled = done(&server, "users/disable", &root, &name);
    assert_eq!(disabled["disabled"], json!(true));
    client.expect(14);
    client.closed();
    assert_ne!(login(&server, "ann", "third one"), 0);
    is_noted(&server, "user.disable", "ann", "done");
    let enabled = done(&server, "users/enable", &root, &name);
    assert_eq!(enabled["disabled"], json!(false));
    let mut client = connected(&server, "ann", "third one");
    assert_eq!(done(&server, "users/rm", &root, &name), json!({}));
    client.expect(14);
    client.closed();
    is_noted(&server, "user.delete", "ann", "done");
    for path in ["users/rm", "users/disable", "users/enable"] {
        refused(&server, (path, &root), &name, (404, "not-found"));
    }
    is_noted(&server, "user.delete", "ann", "refused");
    assert_eq!(get(&server, "users/show?name=ann", &root).0, 404);
}

#[test]
fn users_are_listed_by_pages() {
    let (server, root) = place();
    for name in ["u1", "u2", "u3", "u4", "other"] {
        done(&server, "users/add", &root, &json!({ "name": name }));
    }
    let mut after = String::new();
    let mut seen = Vec::new();
    for _ in 0..10 {
        let path = format!("users/ls?containing=u&limit=2{after}");
        let (status, page) = get(&server, &path, &root);
        assert_eq!(status, 200, "{page}");
        let users = page["users"].as_array().expect("a list");
        assert!(users.len() <= 2, "{page}");
        seen.extend(users.iter().map(|user| user["login"].clone()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(json!(seen), json!(["u1", "u2", "u3", "u4"]));
    let (status, problem) = get(&server, "users/ls?limit=10001", &root);
    assert_eq!((status, &problem["field"]), (400, &json!("limit")));
}

#[test]
fn roles_give_rights_and_take_them() {
    let (server, root) = place();
    let ann = json!({ "name": "ann", "password": "p", "roles": [] });
    done(&server, "users/add", &root, &ann);
    let mut client = connected(&server, "ann", "p");
    let plant = json!({
        "name": "plant", "rules": ["allow both plant/#"], "quotas": { "subscriptions": 5 },
    });
    let added = done(&server, "roles/add", &root, &plant);
    assert_eq!(added["rules"], json!(["allow both plant/#"]), "{added}");
    assert_eq!(added["quotas"], json!({ "subscriptions": 5 }), "{added}");
    is_noted(&server, "role.add", "plant", "done");
    refused(&server, ("roles/add", &root), &plant, (409, "exists"));
    let grant = json!({ "name": "ann", "roles": ["plant"] });
    let granted = done(&server, "users/grant", &root, &grant);
    assert_eq!(granted["roles"], json!(["plant"]));
    is_noted(&server, "grant", "ann", "done");
    eventually("the right is there", || {
        client.send(&subscribe(Version::V5, 1, "plant/#", 0));
        client.expect(9).body.last() == Some(&0)
    });
    let change = json!({
        "name": "plant", "add": ["allow publish a"], "remove": ["allow both plant/#"],
        "unbound": ["subscriptions"],
    });
    let changed = done(&server, "roles/change", &root, &change);
    assert_eq!(
        changed,
        json!({ "name": "plant", "zone": null, "rules": ["allow publish a"], "quotas": {} })
    );
    is_noted(&server, "role.change", "plant", "done");
    assert_eq!(get(&server, "roles/show?name=plant", &root).1, changed);
    let (_, listed) = get(&server, "roles/ls", &root);
    let all = listed["roles"].as_array().expect("a list");
    assert!(all.contains(&changed), "{listed}");
    refused(
        &server,
        ("roles/change", &root),
        &change,
        (404, "not-found"),
    );
    let remove = json!({ "name": "plant" });
    let detail = refused(&server, ("roles/rm", &root), &remove, (409, "conflict"));
    assert!(detail.contains("ann"), "{detail}");
    let revoked = done(&server, "users/revoke", &root, &grant);
    assert_eq!(revoked["roles"], json!([]));
    is_noted(&server, "revoke", "ann", "done");
    refused(&server, ("users/revoke", &root), &grant, (404, "not-found"));
    let removed = done(&server, "roles/rm", &root, &remove);
    assert_eq!(removed["taken_from"], json!(0));
    is_noted(&server, "role.delete", "plant", "done");
    refused(&server, ("users/grant", &root), &grant, (404, "not-found"));
}

#[test]
fn tokens_are_made_once_and_end_at_once() {
    let (server, root) = place();
    done(&server, "users/add", &root, &json!({ "name": "ann" }));
    let make = json!({ "name": "ann", "label": "pump", "days": 2 });
    let made = done(&server, "tokens/create", &root, &make);
    let secret = made["token"].as_str().expect("a token").to_owned();
    assert!(secret.starts_with("stentor_"), "{secret}");
    is_noted(&server, "token.create", "ann", "done");
    let (status, listed) = get(&server, "tokens/ls?name=ann", &root);
    assert_eq!(status, 200);
    let one = &listed["tokens"][0];
    assert_eq!((&one["id"], &one["label"]), (&made["id"], &json!("pump")));
    assert!(one["expires_at"].is_string(), "{listed}");
    assert!(!listed.to_string().contains(&secret), "{listed}");
    refused(&server, ("tokens/create", &root), &make, (409, "exists"));
    // The token opens a connection, and requests by HTTP.
    let mut client = connected(&server, "", &secret);
    assert_eq!(get(&server, "health", &secret).0, 403);
    let revoke = json!({ "name": "ann", "id": made["id"] });
    assert_eq!(done(&server, "tokens/revoke", &root, &revoke), json!({}));
    client.expect(14);
    client.closed();
    eventually("the token has ended", || {
        get(&server, "health", &secret).0 == 401
    });
    is_noted(&server, "token.revoke", "ann", "done");
    let again = ("tokens/revoke", &*root);
    refused(&server, again, &revoke, (404, "not-found"));
}

/// The command line sees what HTTP has made, and the other way round: there is one database.
#[test]
fn commands_and_verbs_have_one_database() {
    let (server, root) = place();
    done(&server, "users/add", &root, &json!({ "name": "ann" }));
    let shown = server.json(&["user", "show", "ann"]);
    assert_eq!(shown["roles"], json!(["member"]), "{shown}");
    server.control(&["user", "disable", "ann"]).success();
    let (_, shown) = get(&server, "users/show?name=ann", &root);
    assert_eq!(shown["disabled"], json!(true), "{shown}");
}
