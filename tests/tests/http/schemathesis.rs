//! The whole of `docs/openapi.json` by schemathesis, as each role: requests that fit the document
//! and requests that do not. `STENTOR_SOAK=1` goes on to random ones and to sequences of them.
//!
//! A failure prints the seed; `STENTOR_SEED=n` runs that one. What is left out, and why, is in
//! `tests/schemathesis/schemathesis.toml`.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stentor_tests::{Plan, Server, Version, process, tools};

use super::api::{get, post, token};

/// For how long one role has random requests, in `make soak`.
const SOAK_SECS: u64 = 240;

/// A server with something in every list.
fn place() -> Server {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  anonymous = true\n";
    let plan = Plan::new().config(config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    plan.opens(1).start()
}

/// Paths where wrong passwords are slowed down: two roles are enough for them, but in soak.
const SLOW: [&str; 2] = ["login", "me.password"];

/// A run as somebody whose requests have this header, with the paths that slow down or without.
#[track_caller]
fn run(server: &Server, header: Option<&str>, with_slow: bool) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let config = tools::folder().join("schemathesis/schemathesis.toml");
    let given = std::env::var("STENTOR_SEED").ok();
    let is_soak = std::env::var_os("STENTOR_SOAK").is_some();
    let seed = match (given, is_soak) {
        (Some(seed), _) => seed,
        (None, false) => "1".to_owned(),
        (None, true) => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(1, |since| since.as_secs()).to_string()
        }
    };
    let mut program: Command = tools::schemathesis();
    program.current_dir(folder.path());
    program.arg("--config-file").arg(&config);
    program.args(["--no-color", "run", "--seed", &seed, "--no-shrink"]);
    program.args(["--generation-database", "none", "--warnings", "off"]);
    if let Some(header) = header {
        program.args(["--header", header]);
    }
    let deadline = match is_soak {
        true => {
            program.args(["--max-time", &SOAK_SECS.to_string()]);
            Duration::from_secs(3 * SOAK_SECS)
        }
        false => {
            program.args(["--phases", "examples,coverage"]);
            for operation in SLOW.into_iter().filter(|_| !with_slow) {
                program.args(["--exclude-operation-id", operation]);
            }
            Duration::from_secs(300)
        }
    };
    let url = server.url("http");
    program.arg(format!("{url}/api/v1/openapi.json"));
    let output = process::run_within(&mut program, deadline).success();
    let tested = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("Tested: "));
    let tested: usize = tested.and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(tested > 90, "few paths were asked: {output}");
}

/// The server as it was: it answers, and has told of nothing that is its own fault.
#[track_caller]
fn is_well(server: &Server, root: &str) {
    let (status, health) = get(server, "health", root);
    assert_eq!(status, 200, "{health}");
    let mut client = server.client(Version::V5, "bystander");
    client.ping();
    let log = server.log();
    for word in ["panicked", " ERROR ", "this is a bug"] {
        let line = log.lines().find(|line| line.contains(word));
        assert_eq!(line, None);
    }
    let audit = fs::read_to_string(server.data_dir().join("audit.log"));
    let audit = audit.expect("there is a log of changes");
    let whole = |line: &str| serde_json::from_str::<Value>(line).is_ok();
    assert!(
        audit.lines().all(whole),
        "a line of the audit log is not JSON"
    );
}

/// Runs as a user with this role.
#[track_caller]
fn check(user: &str, role: &str) {
    let server = place();
    let root = token(&server, "root", &["admin"]);
    let _clients = furnish(&server, &root);
    let own = match user {
        "root" => root.clone(),
        _ => token(&server, user, &[role]),
    };
    let header = format!("Authorization: Bearer {own}");
    run(&server, Some(&header), role == "member");
    is_well(&server, &root);
}

/// Gives the lists something to show.
#[track_caller]
fn furnish(server: &Server, root: &str) -> Vec<stentor_tests::Raw> {
    let names = ["pump", "<b>\u{202e}"];
    let clients = names.map(|name| {
        let mut client = server.client(Version::V5, name);
        client.subscribe("a/#", 1);
        client
    });
    let kept = json!({ "messages": [
        { "topic": "a/b", "payload": "x" },
        { "topic": "a/\u{202e}", "payload_base64": "/w==" },
    ] });
    let (status, answer) = post(server, "retained/put", root, &kept);
    assert_eq!(status, 200, "{answer}");
    Vec::from(clients)
}

#[test]
fn answers_to_nobody_conform_to_the_document() {
    let server = place();
    let root = token(&server, "root", &["admin"]);
    run(&server, None, true);
    is_well(&server, &root);
}

#[test]
fn answers_to_a_member_conform_to_the_document() {
    check("ann", "member");
}

#[test]
fn answers_to_a_viewer_conform_to_the_document() {
    check("vic", "viewer");
}

#[test]
fn answers_to_an_operator_conform_to_the_document() {
    check("olga", "operator");
}

#[test]
fn answers_to_an_administrator_of_a_zone_conform_to_the_document() {
    check("game/gus", "admin");
}

#[test]
fn answers_to_an_administrator_conform_to_the_document() {
    check("root", "admin");
}

/// The program notices what the document does not allow: one that is made wrong at one place, of a
/// server that is right.
#[test]
fn a_wrong_document_is_noticed() {
    let server = place();
    let root = token(&server, "root", &["admin"]);
    let _clients = furnish(&server, &root);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let place = folder.path().join("openapi.json");
    let url = server.url("http");
    let right = fs::read_to_string(tools::folder().join("../docs/openapi.json"));
    let right: Value = serde_json::from_str(&right.expect("it is in the project")).expect("JSON");
    let run = |document: &Value| {
        fs::write(&place, document.to_string()).expect("a file can be written");
        let mut program: Command = tools::schemathesis();
        program.current_dir(folder.path()).arg("--no-color");
        program.args(["run", "--seed", "1", "--no-shrink", "--warnings", "off"]);
        program.args([
            "--generation-database",
            "none",
            "--phases",
            "examples,coverage",
        ]);
        program.args(["--include-operation-id", "zones.ls.get", "--url", url]);
        program.args(["--header", &format!("Authorization: Bearer {root}")]);
        process::run_within(program.arg(&place), Duration::from_secs(120))
    };
    run(&right).success();
    let mut undocumented = right.clone();
    let responses = undocumented.pointer_mut("/paths/~1api~1v1~1zones~1ls/get/responses");
    let responses = responses.and_then(Value::as_object_mut);
    let answer = responses.expect("it has answers").remove("200");
    assert!(answer.is_some(), "the answer has a schema");
    let refused = run(&undocumented).to_string();
    assert!(refused.contains("Undocumented status code"), "{refused}");
    let mut other = right;
    let schema = other.pointer_mut("/components/schemas/ZonesLsAnswer/properties/zones");
    *schema.expect("it has a schema") = json!({ "type": "string" });
    let refused = run(&other).to_string();
    assert!(refused.contains("violates schema"), "{refused}");
}
