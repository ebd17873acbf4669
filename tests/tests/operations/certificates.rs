//! `stentor certificates`: what is in use, and how long it holds.

use std::fs;

use serde_json::{Value, json};
use stentor_tests::{Plan, Server};

/// The listener with this scheme.
#[track_caller]
fn of(server: &Server, scheme: &str) -> Value {
    let list = server.json(&["certificates"]);
    let all = list["listeners"].as_array().expect("a list");
    let is_its = |it: &&Value| {
        it["url"]
            .as_str()
            .is_some_and(|url| url.starts_with(scheme))
    };
    all.iter()
        .find(is_its)
        .cloned()
        .unwrap_or_else(|| panic!("no {scheme}: {list}"))
}

#[test]
fn certificates_are_those_in_use_and_files_say_what_a_reload_takes() {
    let (plan, certificates) = Plan::new().certificates();
    let path = |path: std::path::PathBuf| path.display().to_string();
    let (crt, key, ca) = (
        path(certificates.certificate()),
        path(certificates.key()),
        path(certificates.authority()),
    );
    let config = format!(
        "[[listener]]\nurl = \"mqtts://127.0.0.1:0\"\nclient_certificates = \"required\"\n\
         client_ca = \"{ca}\"\ncertificate_user = \"cn\"\n[[listener]]\n\
         url = \"mqtt://127.0.0.1:0\"\n"
    );
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "https://127.0.0.1:0");
    let server = plan.config(&config).opens(1).start();
    let list = server.json(&["certificates"]);
    assert_eq!(
        list["listeners"].as_array().map(Vec::len),
        Some(2),
        "{list}"
    );
    let secure = of(&server, "mqtts:");
    let files = ["certificate_file", "key_file", "client_ca_file", "files"];
    let files = files.map(|name| secure[name].clone());
    assert_eq!(files, [json!(crt), json!(key), json!(ca), json!("in-use")]);
    assert_eq!(secure["client_certificate_required"], true);
    let all = secure["certificates"].as_array().expect("a list");
    let purposes: Vec<&Value> = all.iter().map(|it| &it["purpose"]).collect();
    assert_eq!(purposes, ["server", "client-authority"]);
    assert_eq!(all[0]["names"], json!(["DNS:localhost", "IP:127.0.0.1"]));
    assert_eq!(all[0]["issuer"], "CN=Stentor test authority");
    assert_eq!(all[1]["subject"], "CN=Stentor test authority");
    assert!(all[0]["days_left"].as_i64() > Some(365), "{secure}");
    let web = of(&server, "https:");
    assert_eq!(web["client_ca_file"], Value::Null, "{web}");
    assert_eq!(web["certificates"][0]["serial"], all[0]["serial"]);
    let text = server.control(&["certificates"]).success();
    assert!(
        text.contains("client authority") && !text.contains("reload"),
        "{text}"
    );

    let before = all[0]["serial"].clone();
    certificates.renew();
    let newer = of(&server, "mqtts:");
    assert_eq!(
        (&newer["files"], &newer["certificates"][0]["serial"]),
        (&json!("newer"), &before)
    );
    let text = server.control(&["certificates"]).success();
    assert!(text.contains("`stentor reload` takes them"), "{text}");
    server.control(&["reload"]).success();
    let renewed = of(&server, "mqtts:");
    assert_eq!(renewed["files"], "in-use");
    assert_ne!(renewed["certificates"][0]["serial"], before);
    assert_eq!(of(&server, "https:")["files"], "in-use");

    fs::write(certificates.key(), "no key").expect("a file can be written");
    let broken = of(&server, "mqtts:");
    assert_eq!(broken["files"], "unusable");
    let problem = broken["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("holds no private key"), "{broken}");
    assert_eq!(
        broken["certificates"], renewed["certificates"],
        "what is in use stays"
    );
    let text = server.control(&["certificates"]).success();
    assert!(
        text.contains("a reload would fail, and what is in use stays"),
        "{text}"
    );
    server.control(&["reload"]).refusal();
}

#[test]
fn without_encryption_there_is_none() {
    let server = Plan::new().tcp().anonymous().start();
    let list = server.json(&["certificates"]);
    assert_eq!(list, json!({ "listeners": [], "truncated": false }));
    let text = server.control(&["certificates"]).success();
    assert_eq!(text, "no listener is encrypted\n");
}
