//! `/healthz`, `/readyz` and `stentor health`.

use stentor_tests::raw::eventually;
use stentor_tests::{Plan, process, server as program};

use super::{ask, metrics, probe, server, value};

#[test]
fn a_server_in_good_order_is_healthy_and_ready() {
    let server = server();
    let (status, answer) = probe(&server, "/healthz");
    assert_eq!((status, &answer["healthy"]), (200, &true.into()));
    let (status, answer) = probe(&server, "/readyz");
    assert_eq!((status, &answer["ready"]), (200, &true.into()));
    assert_eq!(server.control(&["health"]).success(), "ready\n");
    let answer = server.json(&["health"]);
    assert_eq!(answer["reasons"], serde_json::json!([]));
    let head = ask(&server, "/healthz", "").head;
    assert!(head.contains("content-type: application/json"), "{head}");
}

/// Connected clients stay while the user database is away, so the process is healthy; nobody else
/// can log in, so it is not ready.
#[test]
fn a_user_database_that_is_away_is_a_reason() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("users.toml");
    let config = format!("[auth]\ndatabase = \"file:{}\"\n", file.display());
    let server = Plan::new().config(&config).tcp().http().start();
    server
        .control(&["user", "add", "ann", "--no-password"])
        .success();
    let text = std::fs::read_to_string(&file).expect("the file is there");
    std::fs::remove_file(&file).expect("the file can be removed");
    server.control(&["auth", "refresh"]).refusal();
    eventually("it is not ready", || probe(&server, "/readyz").0 == 503);
    let (_, answer) = probe(&server, "/readyz");
    assert_eq!(answer["ready"], false);
    assert_eq!(answer["reasons"][0]["name"], "user-database");
    assert_eq!(probe(&server, "/healthz").0, 200);
    assert_eq!(value(&metrics(&server), "stentor_user_database_up"), 0.0);
    let told = server.control(&["health"]);
    assert_eq!(told.status.code(), Some(1), "{told}");
    assert!(told.stdout.contains("user-database: "), "{told}");
    server.control(&["health", "--live"]).success();
    std::fs::write(&file, text).expect("the file can be written");
    eventually("it is ready again", || probe(&server, "/readyz").0 == 200);
    server.control(&["health"]).success();
}

#[test]
fn a_server_that_does_not_run_has_a_code_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut health = program::stentor();
    health.args(["health", "--data-dir"]).arg(folder.path());
    let finished = process::run(&mut health);
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stderr.contains("stentor serve"), "{finished}");
}
