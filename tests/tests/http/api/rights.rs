//! Who may have which verb done.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stentor_control::{Http, Need, Scope, Verb};
use stentor_tests::raw::eventually;
use stentor_tests::{Raw, Server, Version};

use super::{bearer, get, json_of, read, role, send, server, token};
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
    vec![
        ("nobody", String::new()),
        ("member", of("ann", "member")),
        ("viewer", of("vic", "viewer")),
        ("operator", of("olga", "operator")),
        ("zone", of("game/gus", "admin")),
        ("most", of("mo", "most")),
        ("admin", of("root", "admin")),
        ("link", link(server)),
    ]
}

/// Of a new session of the server's owner.
fn link(server: &Server) -> String {
    let cookie = sessions::owner(server);
    format!("Cookie: {cookie}\r\nSec-Fetch-Site: same-origin\r\n")
}

/// Every verb of the table, for everybody: `rights.golden` has a line for each verb. A new verb
/// needs a line, which says who may have it done. `WRITE_GOLDEN=1 cargo test -p stentor-tests
/// --test http rights` writes the file again.
#[test]
fn every_verb_is_for_those_who_have_its_right() {
    let server = server();
    let mut parties = parties(&server);
    let mut text = format!("{:<18}", "verb");
    for (name, _) in &parties {
        let _ = write!(text, " {name:<12}");
    }
    let mut lines = vec![text.trim_end().to_owned()];
    for (number, verb) in Verb::ALL.into_iter().enumerate() {
        // A session has a pace: it may ask 60 times at once.
        if number > 0 && number % 50 == 0 {
            let session = parties.iter_mut().find(|(name, _)| *name == "link");
            session.expect("there is one").1 = link(&server);
        }
        let mut line = format!("{:<18}", verb.name());
        for (name, headers) in &parties {
            let code = try_out(&server, verb, headers);
            let word = match code.as_str().unwrap_or_default() {
                "bad-request" => "may",
                "too-fast" => panic!("{name} asks too fast"),
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

/// A request that waits ends with the user: what happens then is not for him.
#[test]
fn a_user_who_is_removed_while_he_waits_hears_nothing() {
    let server = server();
    let vic = token(&server, "vic", &["viewer"]);
    let (_, told) = get(&server, "events?limit=1", &vic);
    let cursor = told["cursor"].as_u64().expect("a cursor");
    let path = format!("/api/v1/events?after={cursor}&event=connected&wait_ms=10000");
    let headers = bearer(&vic);
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    let mut waiting = Raw::tcp(&server.address("http"));
    waiting.send(request.as_bytes());
    server.control(&["user", "delete", "vic"]).success();
    let _pump = server.client(Version::V5, "pump");
    let answer = read(&mut waiting);
    assert_eq!(answer.status, 401, "{}", answer.body);
    assert!(!answer.body.contains("pump"), "{}", answer.body);
}
