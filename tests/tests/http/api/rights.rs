//! Who may have which verb done.

use serde_json::{Value, json};
use stentor_control::{Http, Need, Scope, Verb};
use stentor_tests::Server;
use stentor_tests::raw::eventually;

use super::{bearer, get, json_of, post, role, send, server, token};

/// The verbs that HTTP has.
fn verbs() -> impl Iterator<Item = Verb> {
    let all = Verb::ALL.into_iter();
    all.filter(|verb| verb.http() != Http::Never)
}

/// What a user is answered to a request that no verb takes: 400 shows that the right is there, and
/// nothing is done.
#[track_caller]
fn try_out(server: &Server, verb: Verb, token: &str) -> (u16, Value) {
    post(server, &verb.path(), token, &json!({ "fly": 1 }))
}

/// A user of the matrix, and whether it may have a verb done.
type Party = (&'static str, String, fn(Verb) -> bool);

fn parties(server: &Server) -> Vec<Party> {
    let but = [
        "allow both $control/#",
        "deny both $control/clients/#",
        "deny publish $control/stop",
    ];
    role(server, "most", &but);
    server.control(&["zone", "add", "game"]).success();
    vec![
        ("member", token(server, "ann", &["member"]), |_| false),
        ("viewer", token(server, "vic", &["viewer"]), |verb| {
            verb.need() == Need::Read
        }),
        ("operator", token(server, "olga", &["operator"]), |verb| {
            let area = verb.name().split('.').next();
            let is_operated = matches!(
                area,
                Some("clients" | "ban" | "retained" | "trace" | "adaptor" | "procedure" | "reload")
            );
            verb.need() == Need::Read || is_operated
        }),
        ("most", token(server, "mo", &["most"]), |verb| {
            let is_client = verb.name().starts_with("clients.");
            !is_client && verb != Verb::Stop
        }),
        ("admin", token(server, "root", &["admin"]), |_| true),
        (
            "administrator of a zone",
            token(server, "game/gus", &["admin"]),
            |verb| verb.scope() == Scope::Zone,
        ),
    ]
}

/// Every verb of the table, for everybody.
#[test]
fn every_verb_is_for_those_who_have_its_right() {
    let server = server();
    let parties = parties(&server);
    for verb in verbs() {
        let path = format!("/api/v1/{}", verb.path());
        for headers in ["", "Authorization: Basic YTpi\r\n"] {
            let headers = format!("{headers}Content-Type: application/json\r\n");
            let (status, problem) = json_of(send(&server, ("POST", &path), &headers, "{}"));
            assert_eq!(
                (status, &problem["code"]),
                (401, &json!("no-token")),
                "{verb:?}"
            );
        }
        for (name, token, may) in &parties {
            let (status, problem) = try_out(&server, verb, token);
            // The right to publish is one to a topic, which only the request names.
            let may = verb.need() == Need::Topic || may(verb);
            let expected = if may { 400 } else { 403 };
            assert_eq!(status, expected, "{name} {verb:?}: {problem}");
        }
    }
}

#[test]
fn a_denial_names_the_rule_and_the_right() {
    let server = server();
    let parties = parties(&server);
    let of = |wanted: &str| {
        let party = parties.iter().find(|(name, ..)| *name == wanted);
        party.expect("there is one").1.clone()
    };
    let (_, problem) = get(&server, "clients/ls", &of("most"));
    assert_eq!(
        problem["rule"], "role most: deny both $control/clients/#",
        "{problem}"
    );
    let detail = problem["detail"].as_str().unwrap_or_default();
    for part in [
        "\"mo\"",
        "$control/clients/ls",
        "stentor user test mo subscribe",
    ] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    let (_, problem) = get(&server, "status", &of("member"));
    assert_eq!(problem["rule"], Value::Null, "{problem}");
    assert!(
        problem["detail"]
            .to_string()
            .contains("no rule of its roles"),
        "{problem}"
    );
    let (_, problem) = get(&server, "status", &of("administrator of a zone"));
    assert_eq!(problem["code"], "other-zone", "{problem}");
    assert!(problem["detail"].to_string().contains("game"), "{problem}");
}

/// What is taken away is gone with the next request.
#[test]
fn rights_and_tokens_end_at_once() {
    let server = server();
    let viewer = token(&server, "vic", &["viewer"]);
    let status = || get(&server, "health", &viewer).0;
    assert_eq!(status(), 200);
    server.control(&["revoke", "vic", "viewer"]).success();
    eventually("the right has ended", || status() == 403);
    server.control(&["grant", "vic", "viewer"]).success();
    eventually("it is back", || status() == 200);
    server.control(&["ban", "add", "--user", "vic"]).success();
    let (code, problem) = get(&server, "health", &viewer);
    assert_eq!((code, &problem["code"]), (403, &json!("banned")));
    server.control(&["ban", "rm", "--user", "vic"]).success();
    assert_eq!(status(), 200);
    server.control(&["user", "disable", "vic"]).success();
    eventually("the token has ended", || status() == 401);
    let nonsense = send(&server, ("GET", "/api/v1/health"), &bearer("nonsense"), "");
    let (code, problem) = json_of(nonsense);
    assert_eq!((code, &problem["code"]), (401, &json!("no-token")));
}
