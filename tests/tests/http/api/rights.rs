//! The rights to verbs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stentor_control::{Http, Need, Scope, Verb};
use stentor_tests::Server;
use stentor_tests::raw::eventually;

use super::{bearer, get, json_of, role, send, server, token};
use crate::sessions;

/// What a user is answered to a request that no verb takes: 400 shows that the right is there, and
/// nothing is done.
#[track_caller]
fn try_out(server: &Server, verb: Verb, headers: &str) -> Value {
    let path = format!("/api/v1/{}", verb.path());
    let headers = format!("{headers}Content-Type: application/json\r\n");
    let (_, problem) = json_of(send(server, ("POST", &path), &headers, "{\"fly\":1}"));
    problem["code"].clone()
}

/// A user of the matrix, with what its requests show.
type Party = (&'static str, String);

/// Everybody whom the matrix asks about.
fn parties(server: &Server) -> Vec<Party> {
    let but = [
        "allow both $control/#",
        "deny both $control/clients/#",
        "deny publish $control/stop",
    ];
    role(server, "most", &but);
    server.control(&["zone", "add", "game"]).success();
    let of = |user: &str, role: &str| bearer(&token(server, user, &[role]));
    let link = sessions::owner(server);
    let own = "Sec-Fetch-Site: same-origin\r\n";
    vec![
        ("nobody", String::new()),
        ("member", of("ann", "member")),
        ("viewer", of("vic", "viewer")),
        ("operator", of("olga", "operator")),
        ("zone", of("game/gus", "admin")),
        ("most", of("mo", "most")),
        ("admin", of("root", "admin")),
        ("link", format!("Cookie: {link}\r\n{own}")),
    ]
}

/// Every verb of the table, for everybody: `rights.golden` has a line for each verb. A new verb
/// needs a line, which says who may have it done. `WRITE_GOLDEN=1 cargo test -p stentor-tests
/// --test http rights` writes the file again.
#[test]
fn every_verb_is_for_those_who_have_its_right() {
    let server = server();
    let parties = parties(&server);
    let mut text = format!("{:<18}", "verb");
    for (name, _) in &parties {
        let _ = write!(text, " {name:<12}");
    }
    let mut lines = vec![text.trim_end().to_owned()];
    for verb in Verb::ALL {
        let mut line = format!("{:<18}", verb.name());
        for (_, headers) in &parties {
            let mut code = Value::Null;
            // A session has a pace.
            eventually("it is not too fast", || {
                code = try_out(&server, verb, headers);
                code != "too-fast"
            });
            let word = match code.as_str().unwrap_or_default() {
                "bad-request" => "may",
                code => code,
            };
            let _ = write!(line, " {word:<12}");
        }
        lines.push(line.trim_end().to_owned());
    }
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/api/rights.golden");
    if std::env::var_os("WRITE_GOLDEN").is_some() {
        let text = lines.join("\n") + "\n";
        fs::write(&place, text).expect("the project can be written");
    }
    let golden = fs::read_to_string(&place).expect("the file is in the project");
    let golden: Vec<&str> = golden.lines().collect();
    for line in &lines {
        assert!(
            golden.contains(&line.as_str()),
            "rights.golden lacks: {line}"
        );
    }
    assert_eq!(golden.len(), lines.len(), "rights.golden has more lines");
}

/// The rights of a role are those of its rules, whatever the verb.
#[test]
fn verbs_follow_the_rules_of_roles() {
    let server = server();
    let viewer = bearer(&token(&server, "vic", &["viewer"]));
    let zone = {
        server.control(&["zone", "add", "game"]).success();
        bearer(&token(&server, "game/gus", &["admin"]))
    };
    let verbs = Verb::ALL.into_iter();
    for verb in verbs.filter(|verb| verb.http() != Http::Never && verb.need() != Need::Topic) {
        let may = |headers: &str| try_out(&server, verb, headers) == "bad-request";
        assert_eq!(may(&viewer), verb.need() == Need::Read, "{verb:?}");
        assert_eq!(may(&zone), verb.scope() == Scope::Zone, "{verb:?}");
    }
}

#[test]
fn a_denial_names_the_rule_and_the_right() {
    let server = server();
    let parties = parties(&server);
    let of = |wanted: &str| {
        let party = parties.iter().find(|(name, ..)| *name == wanted);
        let headers = &party.expect("there is one").1;
        let token = headers.trim_end().rsplit_once(' ').expect("a header").1;
        token.to_owned()
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
    let (_, problem) = get(&server, "status", &of("zone"));
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
