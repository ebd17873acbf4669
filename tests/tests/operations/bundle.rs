//! `stentor support-bundle`: what it has, and what it has not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use stentor_tests::{Plan, Version, process, server};

/// The contents of a file of a bundle.
fn part(bundle: &Path, name: &str) -> String {
    let all = process::run(Command::new("tar").arg("tzf").arg(bundle)).success();
    let found = all.lines().find(|line| line.ends_with(&format!("/{name}")));
    let found = found.unwrap_or_else(|| panic!("{name}: {all}")).to_owned();
    let mut extract = Command::new("tar");
    extract.arg("xzOf").arg(bundle).arg(found);
    process::run(&mut extract).success()
}

#[test]
fn a_bundle_has_what_helps_and_no_secret() {
    let hash = server::hash_password("correct horse");
    let config = format!(
        "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n\
         [[user]]\nname = \"ann\"\npassword_hash = \"{hash}\"\n"
    );
    let server = Plan::new().config(&config).start();
    server
        .control(&["user", "add", "bob", "--no-password"])
        .success();
    let token = server.control(&["token", "create", "bob"]).success();
    let mut client = server.client(Version::V5, "pump");
    client.publish_surely("plant/secret", b"the payload");
    server.wait_log(0, "connected client=\"pump\"");
    let file = server.folder().join("bundle.tar.gz");
    let place = file.to_str().expect("plain names");
    let said = server
        .control(&["support-bundle", "--output", place])
        .success();
    assert!(
        said.contains("config.json") && said.contains("log.txt"),
        "{said}"
    );
    let mode = fs::metadata(&file)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    for (name, holds) in [
        ("about.json", "\"stentor\""),
        ("status.json", "\"clients_connected\""),
        ("health.json", "\"healthy\": true"),
        ("config.json", "user[ann].password_hash"),
        ("config-diff.json", "\"changes\""),
        ("zones.json", "\"default\""),
        ("retained.json", "\"messages\""),
        ("adaptors.json", "\"adaptors\""),
        ("procedures.json", "\"procedures\""),
        ("events.json", "\"pump\""),
        ("metrics.txt", "stentor_connections"),
        ("log.txt", "connected client=\"pump\""),
    ] {
        let text = part(&file, name);
        assert!(text.contains(holds), "{name}: {text}");
    }
    let bytes = fs::read(&file).expect("it can be read");
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|some| some == text.as_bytes())
    };
    let password = server.data_dir().join("admin-password");
    let password = fs::read_to_string(password).expect("the first start has made it");
    for secret in [
        &*hash,
        "correct horse",
        token.trim(),
        "the payload",
        password.trim(),
    ] {
        assert!(
            !secret.is_empty() && !has(secret),
            "{secret} is in the bundle"
        );
    }
    // One that is there stays as it is.
    let refused = server
        .control(&["support-bundle", "--output", place])
        .refusal();
    assert!(refused.contains("choose a new file"), "{refused}");
    assert_eq!(fs::read(&file).expect("it can be read"), bytes);
    let json = server.folder().join("other.tar.gz");
    let told = server.json(&["support-bundle", "--output", json.to_str().expect("plain")]);
    let size = fs::metadata(&json).expect("it is there").len();
    assert_eq!(told["bytes"], size, "{told}");
    let tail = server.control(&["log", "tail", "--lines", "1"]).success();
    assert_eq!(tail.lines().count(), 1, "{tail}");
}
