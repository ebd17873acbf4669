//! The readers of the metrics beyond this machine.

use stentor_tests::{Plan, Server};

use super::{ask, probe};

/// A server whose HTTP other machines can reach.
fn open(more: &str) -> Server {
    let config = format!(
        "[http]\nlisten = [\"http://0.0.0.0:0\"]\ninsecure = true\n{more}\
         [[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n"
    );
    // The variable that the harness sets goes before the file.
    let plan = Plan::new().variable("STENTOR_HTTP__LISTEN", "http://0.0.0.0:0");
    plan.config(&config).opens(1).start()
}

fn token(server: &Server, user: &str, role: &str) -> String {
    let add = ["user", "add", user, "--no-password", "--role", role];
    server.control(&add).success();
    let printed = server.control(&["token", "create", user]).success();
    printed.trim().to_owned()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn the_metrics_need_a_token_with_the_right() {
    let server = open("");
    assert_eq!(probe(&server, "/healthz").0, 200);
    assert_eq!(probe(&server, "/readyz").0, 200);
    let answer = ask(&server, "/metrics", "");
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains("www-authenticate: bearer"));
    let rule = "allow subscribe $control/metrics";
    server
        .control(&["role", "add", "scraper", "--rule", rule])
        .success();
    let scraper = token(&server, "prometheus", "scraper");
    let member = token(&server, "ann", "member");
    let admin = token(&server, "root", "admin");
    let with = |token: &str| ask(&server, "/metrics", &bearer(token)).status;
    for (name, token, code) in [
        ("scraper", scraper.as_str(), 200),
        ("again", scraper.as_str(), 200),
        ("admin", admin.as_str(), 200),
        ("member", member.as_str(), 403),
        ("nonsense", "nonsense", 401),
        ("cut", &scraper[..scraper.len() - 1], 401),
    ] {
        assert_eq!(with(token), code, "{name}");
    }
    let basic = ask(&server, "/metrics", "Authorization: Basic YTpi\r\n");
    assert_eq!(basic.status, 401);
    // What was remembered ends with the right.
    server.control(&["user", "disable", "prometheus"]).success();
    stentor_tests::raw::eventually("the token ends", || with(&scraper) == 401);
}

#[test]
fn details_of_reasons_stay_on_this_machine() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("users.toml");
    let more = format!("[auth]\ndatabase = \"file:{}\"\n", file.display());
    let server = open(&more);
    std::fs::remove_file(&file).expect("the file can be removed");
    server.control(&["auth", "refresh"]).refusal();
    stentor_tests::raw::eventually("it is not ready", || probe(&server, "/readyz").0 == 503);
    let (_, answer) = probe(&server, "/readyz");
    let expected = serde_json::json!([{ "name": "user-database" }]);
    assert_eq!(answer["reasons"], expected);
    let told = server.control(&["health"]).stdout;
    assert!(told.contains("the user database"), "{told}");
}

#[test]
fn the_metrics_can_be_opened_to_everybody() {
    let server = open("open_metrics = true\n");
    assert_eq!(ask(&server, "/metrics", "").status, 200);
}
