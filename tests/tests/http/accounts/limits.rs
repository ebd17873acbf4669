//! Names, passwords and lists that are too long, empty, or hostile.

use serde_json::{Value, json};
use stentor_tests::Server;

use super::{audit, done, login, place, refused};
use crate::api::{get, post};

#[track_caller]
fn bad(server: &Server, root: &str, path: &str, body: &Value) -> String {
    refused(server, (path, root), body, (400, "bad-request"))
}

#[test]
fn names_that_nobody_can_have_are_refused() {
    let (server, root) = place();
    let long = "x".repeat(256);
    for name in [
        "", " ann", "a\u{7}b", "a+b", "a#", "$ann", "server", "game/a/b", &long,
    ] {
        bad(&server, &root, "users/add", &json!({ "name": name }));
        if name != "server" && name != "game/a/b" {
            bad(&server, &root, "roles/add", &json!({ "name": name }));
            bad(&server, &root, "zones/add", &json!({ "name": name }));
        }
    }
    let unknown = json!({ "name": "ann", "zone": "nowhere" });
    let path = ("users/add", &*root);
    refused(&server, path, &unknown, (404, "not-found"));
    let unknown = json!({ "name": "ann", "roles": ["nothing"] });
    refused(&server, path, &unknown, (404, "not-found"));
    let unknown = json!({ "name": "nobody", "password": "p" });
    let path = ("users/set-password", &*root);
    refused(&server, path, &unknown, (404, "not-found"));
    let path = ("tokens/create", &*root);
    refused(
        &server,
        path,
        &json!({ "name": "nobody" }),
        (404, "not-found"),
    );
}

#[test]
fn what_is_too_long_is_refused_in_few_words() {
    let (server, root) = place();
    done(&server, "users/add", &root, &json!({ "name": "ann" }));
    let huge = "y".repeat(64 << 10);
    let names = vec!["member"; 257];
    let rules = vec!["allow both a"; 10_001];
    for (path, body) in [
        ("users/ls", json!({ "containing": huge })),
        ("users/ls", json!({ "after": huge })),
        ("users/ls", json!({ "zone": huge })),
        ("users/show", json!({ "name": huge })),
        ("users/add", json!({ "name": huge })),
        ("users/add", json!({ "name": "bob", "zone": huge })),
        ("users/add", json!({ "name": "bob", "password": huge })),
        ("users/add", json!({ "name": "bob", "roles": [huge] })),
        ("users/add", json!({ "name": "bob", "roles": names })),
        (
            "users/set-password",
            json!({ "name": "ann", "password": huge }),
        ),
        ("users/disable", json!({ "name": huge })),
        ("users/enable", json!({ "name": huge })),
        ("users/rm", json!({ "name": huge })),
        ("users/grant", json!({ "name": "ann", "roles": [huge] })),
        ("users/revoke", json!({ "name": "ann", "roles": [huge] })),
        ("roles/ls", json!({ "zone": huge })),
        ("roles/show", json!({ "name": huge })),
        ("roles/add", json!({ "name": huge })),
        ("roles/add", json!({ "name": "r", "zone": huge })),
        ("roles/add", json!({ "name": "r", "rules": [huge] })),
        (
            "roles/add",
            json!({ "name": "r", "rules": [format!("allow both {huge}")] }),
        ),
        ("roles/add", json!({ "name": "r", "rules": rules })),
        (
            "roles/add",
            json!({ "name": "r", "quotas": { "connections": 0 } }),
        ),
        (
            "roles/change",
            json!({ "name": "member", "unbound": [huge] }),
        ),
        (
            "roles/change",
            json!({ "name": "member", "unbound": ["speed"] }),
        ),
        ("roles/rm", json!({ "name": huge })),
        ("tokens/ls", json!({ "name": huge })),
        ("tokens/create", json!({ "name": "ann", "label": huge })),
        ("tokens/create", json!({ "name": "ann", "label": "a\nb" })),
        ("tokens/create", json!({ "name": "ann", "days": 0 })),
        ("tokens/create", json!({ "name": "ann", "days": 36_501 })),
        ("tokens/revoke", json!({ "name": "ann", "id": huge })),
        ("zones/add", json!({ "name": huge })),
        ("zones/rm", json!({ "name": huge })),
        ("users/add", json!({ "name": "bob", "credentials": [] })),
        ("users/add", json!({ "name": ["bob"] })),
    ] {
        let detail = bad(&server, &root, path, &body);
        assert!(detail.len() < 600, "{path}: {detail}");
    }
    for line in audit(&server) {
        assert!(line.to_string().len() < 8_000, "{}", line["what"]);
    }
    let (_, listed) = get(&server, "users/ls?containing=bob", &root);
    assert_eq!(listed["users"], json!([]), "{listed}");
}

#[test]
fn passwords_that_nobody_could_use_are_refused() {
    let (server, root) = place();
    for password in [json!(""), json!("p".repeat(1_025))] {
        let add = json!({ "name": "ann", "password": password });
        let detail = bad(&server, &root, "users/add", &add);
        assert!(detail.contains("password"), "{detail}");
    }
    let bell = json!({ "name": "ann", "password": "bell\u{7}", "scram": true });
    let detail = bad(&server, &root, "users/add", &bell);
    assert!(detail.contains("SCRAM"), "{detail}");
    let nothing = json!({ "name": "ann", "scram": true });
    bad(&server, &root, "users/add", &nothing);
    // The longest one works, and so does one of other letters.
    for (name, password) in [
        ("long", "p".repeat(1_024)),
        ("other", "пароль ünï".to_owned()),
    ] {
        let add = json!({ "name": name, "password": password });
        done(&server, "users/add", &root, &add);
        assert_eq!(login(&server, name, &password), 0, "{name}");
    }
    bad(
        &server,
        &root,
        "users/set-password",
        &json!({ "name": "long", "password": "" }),
    );
    bad(
        &server,
        &root,
        "users/set-password",
        &json!({ "name": "long" }),
    );
}

/// Names come out as they went in, and as nothing but text.
#[test]
fn hostile_names_are_text() {
    let (server, root) = place();
    let names = [
        "<script>alert(1)<_script>",
        "<img src=x onerror=alert(1)>",
        "\u{202e}gpj.exe",
        "\"}],\"x\":\"",
        "=cmd|' _C calc'!A0",
        "..%2f..%2fetc",
        "'; DROP TABLE users; --",
    ];
    for name in names {
        let added = done(&server, "users/add", &root, &json!({ "name": name }));
        assert_eq!(added["name"], name);
        let (status, shown) = post(&server, "users/show", &root, &json!({ "name": name }));
        assert_eq!((status, &shown["login"]), (200, &json!(name)));
        let role = json!({ "name": name, "rules": [format!("allow both {{user}}/x")] });
        assert_eq!(done(&server, "roles/add", &root, &role)["name"], name);
        let grant = json!({ "name": name, "roles": [name] });
        done(&server, "users/grant", &root, &grant);
    }
    let (_, listed) = get(&server, "users/ls", &root);
    assert_eq!(listed["total"], json!(names.len() + 2), "{listed}");
    for name in names {
        done(&server, "users/rm", &root, &json!({ "name": name }));
    }
}
