//! Users with all rights may change users, roles, tokens and zones.

use serde_json::{Value, json};
use stentor_control::{Need, Verb};
use stentor_tests::Server;

use super::{done, place, refused};
use crate::api::{get, post, role, token};

/// The verbs that give or take rights.
fn administering() -> impl Iterator<Item = Verb> {
    let all = Verb::ALL.into_iter();
    all.filter(|verb| verb.need() == Need::Administer)
}

/// Users who have most rights, and not all.
fn nearly(server: &Server) -> Vec<(&'static str, String)> {
    role(server, "control", &["allow both $control/#"]);
    role(server, "dollar", &["allow both $#"]);
    role(
        server,
        "reader",
        &[
            "allow subscribe #",
            "allow publish $#",
            "allow subscribe $#",
        ],
    );
    role(server, "locked", &["deny publish a/locked"]);
    vec![
        ("control", token(server, "cora", &["control"])),
        ("dollar", token(server, "dora", &["dollar"])),
        ("reader", token(server, "rea", &["reader"])),
        ("denied", token(server, "den", &["admin", "locked"])),
        ("operator", token(server, "olga", &["operator"])),
        ("viewer", token(server, "vic", &["viewer"])),
        ("member", token(server, "mia", &["member"])),
    ]
}

#[test]
fn who_has_not_all_rights_gives_none() {
    let (server, root) = place();
    done(&server, "users/add", &root, &json!({ "name": "ann" }));
    let before = get(&server, "users/ls", &root).1;
    for (name, token) in nearly(&server) {
        for verb in administering() {
            let (status, problem) = post(&server, &verb.path(), &token, &json!({ "name": "ann" }));
            assert_eq!(
                (status, &problem["code"]),
                (403, &json!("denied")),
                "{name} {verb:?}: {problem}"
            );
        }
        let grant = json!({ "name": "ann", "roles": ["admin"] });
        let detail = refused(&server, ("users/grant", &token), &grant, (403, "denied"));
        assert!(detail.contains("may not"), "{detail}");
    }
    let after = get(&server, "users/ls?containing=ann", &root).1;
    let of_ann = |page: &Value| {
        let users = page["users"].as_array().expect("a list").iter();
        users
            .filter(|user| user["name"] == "ann")
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of_ann(&before), of_ann(&after));
    assert_eq!(
        done(&server, "users/rm", &root, &json!({ "name": "ann" })),
        json!({})
    );
}

#[test]
fn who_looks_sees_no_secret() {
    let (server, root) = place();
    let ann = json!({ "name": "ann", "password": "p", "scram": true });
    done(&server, "users/add", &root, &ann);
    let made = done(&server, "tokens/create", &root, &json!({ "name": "ann" }));
    let viewer = token(&server, "vic", &["viewer"]);
    for path in [
        "users/ls",
        "users/show?name=ann",
        "tokens/ls?name=ann",
        "roles/ls",
        "zones/ls",
    ] {
        let (status, answer) = get(&server, path, &viewer);
        assert_eq!(status, 200, "{path}: {answer}");
        let text = answer.to_string();
        for secret in ["$argon2id$", "SCRAM-SHA-256$", "token:"] {
            assert!(!text.contains(secret), "{path}: {text}");
        }
        assert!(!text.contains(made["token"].as_str().expect("a token")));
    }
}

/// What would take away the rights by which it is asked for is refused: so an administrator is
/// left.
#[test]
fn nobody_takes_his_own_rights_away() {
    let (server, root) = place();
    for (path, body) in [
        ("users/rm", json!({ "name": "root" })),
        ("users/rm", json!({ "name": "root", "zone": "default" })),
        ("users/disable", json!({ "name": "default/root" })),
        (
            "users/revoke",
            json!({ "name": "root", "roles": ["admin"] }),
        ),
        (
            "users/grant",
            json!({ "name": "root", "roles": ["member"] }),
        ),
        ("roles/rm", json!({ "name": "admin", "force": true })),
        ("roles/add", json!({ "name": "admin", "replace": true })),
        ("roles/add", json!({ "name": "admin", "zone": "default" })),
        (
            "roles/change",
            json!({ "name": "admin", "add": ["deny publish a"] }),
        ),
    ] {
        let detail = refused(&server, (path, &root), &body, (409, "refused"));
        assert!(detail.contains("another administrator"), "{detail}");
    }
    // Another one may.
    let second = token(&server, "second", &["admin"]);
    done(
        &server,
        "users/disable",
        &second,
        &json!({ "name": "root" }),
    );
    assert_eq!(get(&server, "health", &second).0, 200);
}
