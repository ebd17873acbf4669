//! Certificates of clients, by https.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use stentor_tests::{Certificates, Finished, Plan, Server, process};

use super::api::token;

/// A server whose clients may or must show certificates, with the users `vic` and `dora`.
fn listening(demand: &str) -> (Server, Certificates) {
    let (plan, certificates) = Plan::new().certificates();
    let config = format!(
        "[http]\nclient_certificates = \"{demand}\"\nclient_ca = \"{}\"\n\
         certificate_user = \"cn\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n",
        certificates.authority().display()
    );
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "https://localhost:0");
    let server = plan.config(&config).opens(1).start();
    for name in ["vic", "dora"] {
        let add = ["user", "add", name, "--no-password", "--role", "viewer"];
        server.control(&add).success();
    }
    (server, certificates)
}

/// Asks by curl, with a certificate or without.
fn ask(
    (server, certificates): (&Server, &Certificates),
    shown: Option<&(PathBuf, PathBuf)>,
    path: &str,
    more: &[&str],
) -> Finished {
    let url = server.url("https").replace("127.0.0.1", "localhost");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--cacert"]);
    curl.arg(certificates.authority());
    if let Some((certificate, key)) = shown {
        curl.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    curl.args(more).arg(format!("{url}{path}"));
    process::run(&mut curl)
}

#[track_caller]
fn json_of(answer: Finished) -> Value {
    serde_json::from_str(&answer.success()).expect("the answer is JSON")
}

const JSON: [&str; 2] = ["--header", "Content-Type: application/json"];

#[test]
fn a_certificate_names_the_user() {
    let (server, certificates) = listening("optional");
    let place = (&server, &certificates);
    let vic = certificates.client("vic");
    let me = json_of(ask(place, Some(&vic), "/api/v1/me", &[]));
    assert_eq!((&me["name"], &me["session"]), (&json!("vic"), &json!(null)));
    let status = json_of(ask(place, Some(&vic), "/api/v1/status", &[]));
    assert!(status["version"].is_string(), "{status}");
    let mut stop = JSON.to_vec();
    stop.extend(["--request", "POST"]);
    let denied = json_of(ask(place, Some(&vic), "/api/v1/stop", &stop));
    assert_eq!(denied["code"], "denied");
    // A token goes before it.
    let token = token(&server, "root", &["admin"]);
    let bearer = format!("Authorization: Bearer {token}");
    let me = json_of(ask(place, Some(&vic), "/api/v1/me", &["--header", &bearer]));
    assert_eq!(me["name"], "root");
    // Nobody is known without one.
    let nobody = json_of(ask(place, None, "/api/v1/me", &[]));
    assert_eq!(nobody["code"], "no-token");
    let healthy = json_of(ask(place, None, "/healthz", &[]));
    assert_eq!(healthy["healthy"], true);
}

#[test]
fn certificates_of_others_let_nobody_in() {
    let (server, certificates) = listening("optional");
    let place = (&server, &certificates);
    let stranger = certificates.client("nobody");
    let unknown = json_of(ask(place, Some(&stranger), "/api/v1/me", &[]));
    assert_eq!(unknown["code"], "no-user", "{unknown}");
    let nameless = certificates.client("");
    let unnamed = json_of(ask(place, Some(&nameless), "/api/v1/me", &[]));
    assert_eq!(unnamed["code"], "no-token", "{unnamed}");
    let dora = certificates.client("dora");
    let known = || json_of(ask(place, Some(&dora), "/api/v1/me", &[]));
    assert_eq!(known()["name"], "dora");
    server.control(&["user", "disable", "dora"]).success();
    assert_eq!(known()["code"], "no-user");
    let folder = tempfile::tempdir().expect("a folder can be made");
    let others = Certificates::new(folder.path());
    let forged = others.client("vic");
    let refused = ask(place, Some(&forged), "/healthz", &[]);
    assert!(!refused.status.success(), "{refused}");
}

/// A cookie of a session that has ended hides no certificate; one of a session that goes on does.
#[test]
fn a_cookie_that_does_not_hold_leaves_the_certificate() {
    let (server, certificates) = listening("optional");
    let place = (&server, &certificates);
    let vic = certificates.client("vic");
    let made = server.json(&["console"]);
    let link = made["path"].as_str().expect("a path");
    let jar = server.folder().join("cookies").display().to_string();
    let opened = ask(place, None, link, &["--cookie-jar", &jar]).success();
    assert_eq!(opened, "", "it leads on");
    let with_jar = ["--cookie", &jar];
    let me = json_of(ask(place, Some(&vic), "/api/v1/me", &with_jar));
    assert!(me["session"].is_object(), "the session goes before: {me}");
    let mut logout = JSON.to_vec();
    logout.extend(["--header", "Sec-Fetch-Site: same-origin", "--data", "{}"]);
    logout.extend(with_jar);
    assert_eq!(
        json_of(ask(place, None, "/api/v1/logout", &logout)),
        json!({})
    );
    // The jar has the cookie as it was.
    let ended = json_of(ask(place, None, "/api/v1/me", &with_jar));
    assert_eq!(ended["code"], "no-session");
    let me = json_of(ask(place, Some(&vic), "/api/v1/me", &with_jar));
    assert_eq!((&me["name"], &me["session"]), (&json!("vic"), &json!(null)));
    let mut post = JSON.to_vec();
    post.extend(["--header", "Sec-Fetch-Site: same-origin", "--data", "{}"]);
    post.extend(with_jar);
    let health = json_of(ask(place, Some(&vic), "/api/v1/health", &post));
    assert_eq!(health["healthy"], true);
    // A page of others is refused as before, and a certificate of nobody lets nobody in.
    let mut other = with_jar.to_vec();
    other.extend(["--header", "Sec-Fetch-Site: cross-site"]);
    let answer = json_of(ask(place, Some(&vic), "/api/v1/me", &other));
    assert_eq!(answer["code"], "cross-site");
    let stranger = certificates.client("nobody");
    let unknown = json_of(ask(place, Some(&stranger), "/api/v1/me", &with_jar));
    assert_eq!(unknown["code"], "no-user", "{unknown}");
}

/// A browser shows its certificate for pages of others too.
#[test]
fn pages_of_others_do_not_use_a_certificate() {
    let (server, certificates) = listening("optional");
    let place = (&server, &certificates);
    let vic = certificates.client("vic");
    for header in ["Sec-Fetch-Site: cross-site", "Origin: https://evil.example"] {
        let answer = json_of(ask(place, Some(&vic), "/api/v1/me", &["--header", header]));
        assert_eq!(answer["code"], "cross-site", "{header}");
        let mut post = JSON.to_vec();
        post.extend(["--header", header, "--data", "{}"]);
        let answer = json_of(ask(place, Some(&vic), "/api/v1/health", &post));
        assert_eq!(answer["code"], "cross-site", "{header}");
    }
    let mut post = JSON.to_vec();
    post.extend(["--data", "{}"]);
    let answer = json_of(ask(place, Some(&vic), "/api/v1/health", &post));
    assert_eq!(
        answer["healthy"], true,
        "a program says nothing of an origin"
    );
}

#[test]
fn a_certificate_may_be_required() {
    let (server, certificates) = listening("required");
    let place = (&server, &certificates);
    let refused = ask(place, None, "/healthz", &[]);
    assert!(!refused.status.success(), "{refused}");
    let vic = certificates.client("vic");
    let me = json_of(ask(place, Some(&vic), "/api/v1/me", &[]));
    assert_eq!(me["name"], "vic");
}
