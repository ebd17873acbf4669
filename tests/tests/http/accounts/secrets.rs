//! Passwords and tokens are in no log, no file and no error.

use std::fs;
use std::path::Path;

use serde_json::json;
use stentor_tests::{Plan, Server};

use super::{done, refused};
use crate::api::{bearer, send, token};

/// Every file below a folder that has one of these texts.
fn files_with(folder: &Path, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, texts));
            continue;
        }
        let Ok(bytes) = fs::read(&path) else {
            continue;
        };
        let has = |text: &&&str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        let texts = texts.iter().filter(has);
        found.extend(texts.map(|text| format!("{}: {text}", path.display())));
    }
    found
}

fn talkative() -> Server {
    Plan::new()
        .tcp()
        .http()
        .arg("--log-level")
        .arg("trace")
        .start()
}

#[test]
fn no_secret_is_written_anywhere() {
    let server = talkative();
    let root = token(&server, "root", &["admin"]);
    let ann = json!({ "name": "ann", "password": "hunter2-add" });
    done(&server, "users/add", &root, &ann);
    refused(&server, ("users/add", &root), &ann, (409, "exists"));
    let other = json!({ "name": "ann", "password": "hunter2-set", "scram": true });
    done(&server, "users/set-password", &root, &other);
    let nobody = json!({ "name": "bob", "password": "hunter2-bob" });
    let path = ("users/set-password", &*root);
    refused(&server, path, &nobody, (404, "not-found"));
    let bell = json!({ "name": "cat", "password": "hunter2-\u{7}", "scram": true });
    refused(&server, ("users/add", &root), &bell, (400, "bad-request"));
    let made = done(&server, "tokens/create", &root, &json!({ "name": "ann" }));
    let secret = made["token"].as_str().expect("a token");
    let random = secret.split('.').next().expect("there is a part");
    let secrets = ["hunter2", random];
    assert_eq!(files_with(&server.data_dir(), &secrets), [""; 0]);
    let log = server.log();
    for secret in secrets {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn errors_show_no_password() {
    let server = talkative();
    let root = token(&server, "root", &["admin"]);
    let headers = format!("{}Content-Type: application/json\r\n", bearer(&root));
    for body in [
        r#"{"name":"ann","password":72617261}"#,
        r#"{"name":"ann","password":["72617261"]}"#,
        r#"{"name":"ann","password":{"is":"72617261"}}"#,
        r#"{"name":7,"password":"72617261"}"#,
        r#"{"name":"ann","password":"72617261","fly":1}"#,
        r#"{"name":"ann","password":"72617261"#,
        r#"{"name":"nowhere/ann","password":"72617261"}"#,
    ] {
        for path in ["/api/v1/users/add", "/api/v1/users/set-password"] {
            let answer = send(&server, ("POST", path), &headers, body);
            assert!(answer.status >= 400, "{body}: {}", answer.body);
            assert!(!answer.body.contains("72617261"), "{body}: {}", answer.body);
        }
    }
    // A password in a URL would be in the logs of proxies.
    let path = "/api/v1/users/add?name=ann&password=72617261";
    let answer = send(&server, ("GET", path), &bearer(&root), "");
    assert_eq!(answer.status, 405, "{}", answer.body);
    assert!(!server.log().contains("72617261"));
    assert_eq!(files_with(&server.data_dir(), &["72617261"]), [""; 0]);
}
