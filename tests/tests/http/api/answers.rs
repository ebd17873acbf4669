//! What verbs answer: the same as by the control socket, in the form of the description.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};
use stentor_control::{Http, Need, Verb};
use stentor_tests::{Server, Version};

use super::{get, json_of, post, send, server, token};

/// What the control socket answers.
fn by_socket(server: &Server, verb: &str) -> Value {
    let path = server.data_dir().join("control.sock");
    let mut stream = UnixStream::connect(path).expect("the control socket is there");
    writeln!(stream, "{{\"v\":1,\"verb\":\"{verb}\"}}").expect("the server reads");
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("it answers");
    let mut answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
    answer["ok"].take()
}

#[test]
fn answers_are_those_of_the_control_socket() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut client = server.client(Version::V5, "pump");
    client.subscribe("a/#", 1);
    client.publish("a/b", b"x");
    let _ = client.message();
    let ban = json!({ "client_id": "late", "reason": "why" });
    assert_eq!(post(&server, "bans/add", &root, &ban).0, 200);
    let verbs = [
        "bans.ls",
        "topics",
        "retained.filters",
        "procedures.ls",
        "adaptors.ls",
    ];
    for verb in verbs {
        let (status, answer) = get(&server, &verb.replace('.', "/"), &root);
        assert_eq!((status, answer), (200, by_socket(&server, verb)), "{verb}");
    }
    let (_, listed) = get(&server, "clients/ls?containing=um&limit=1", &root);
    assert_eq!(listed["clients"][0]["client_id"], "pump", "{listed}");
    let (_, shown) = post(
        &server,
        "clients/show",
        &root,
        &json!({ "client_id": "pump" }),
    );
    assert_eq!(shown["filters"], json!(["a/#"]), "{shown}");
    let (status, why) = get(&server, "why?client_id=pump&topic=a/b", &root);
    assert_eq!((status, &why["gets"]), (200, &json!("yes")), "{why}");
    let missing = get(&server, "clients/show?client_id=pumb", &root);
    assert_eq!((missing.0, &missing.1["code"]), (404, &json!("not-found")));
    assert!(
        missing.1["detail"].to_string().contains("did you mean"),
        "{}",
        missing.1
    );
}

/// Requests that a reading verb takes, where it needs something.
fn query(verb: Verb) -> Option<&'static str> {
    Some(match verb {
        Verb::ClientsShow | Verb::SessionsQueue => "?client_id=pump",
        Verb::Why => "?client_id=pump&topic=a/b&to=pump",
        Verb::RoomsShow => "?room=lobby",
        Verb::UsersShow | Verb::TokensLs => "?name=root",
        Verb::RolesShow => "?name=admin",
        Verb::RetainedPage => "?filter=%23",
        Verb::RetainedHistory => "?topic=a/b",
        Verb::Subscriptions => "?topic=a/b&limit=1",
        // There is no trace.
        Verb::TracesRead => return None,
        _ => "",
    })
}

#[test]
fn answers_have_the_form_of_the_description() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let mut client = server.client(Version::V5, "pump");
    client.subscribe("a/#", 1);
    let kept = json!({ "messages": [{ "topic": "a/b", "payload": "x" }] });
    assert_eq!(post(&server, "retained/put", &root, &kept).0, 200);
    let (status, document) = json_of(send(&server, ("GET", "/api/v1/openapi.json"), "", ""));
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let mut compiler = Compiler::new();
    compiler
        .add_resource("openapi.json", document.clone())
        .expect("the document is JSON");
    let mut schemas = Schemas::new();
    for verb in Verb::ALL {
        if verb.http() == Http::Never || verb.need() != Need::Read {
            continue;
        }
        let Some(query) = query(verb) else {
            continue;
        };
        let path = format!("/api/v1/{}", verb.path());
        let operation = &document["paths"][&path]["get"];
        let answered = &operation["responses"]["200"]["content"]["application/json"];
        let place = answered["schema"]["$ref"]
            .as_str()
            .expect("it has a schema");
        let schema = compiler
            .compile(&format!("openapi.json{place}"), &mut schemas)
            .unwrap_or_else(|error| panic!("{verb:?}: {error}"));
        let (status, answer) = get(&server, &format!("{}{query}", verb.path()), &root);
        assert_eq!(status, 200, "{verb:?}: {answer}");
        if let Err(error) = schemas.validate(&answer, schema) {
            panic!("{verb:?}: {error}\n{answer}");
        }
    }
}

/// Names that clients choose come out as they are, and as nothing but text.
#[test]
fn hostile_names_are_text() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let names = [
        "<script>alert(1)</script>",
        "\u{202e}gpj.exe",
        "\"}],\"x\":\"",
        "=cmd|' /C calc'!A0",
        "a\r\nSet-Cookie: a=b",
        "../../etc/passwd",
    ];
    let mut clients = Vec::new();
    for name in names {
        let mut client = server.client(Version::V5, name);
        client.subscribe(&format!("t/{name}"), 0);
        client.ping();
        clients.push(client);
    }
    let (status, listed) = get(&server, "clients/ls", &root);
    assert_eq!(status, 200);
    let listed: Vec<&str> = listed["clients"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|client| client["client_id"].as_str())
        .collect();
    for name in names {
        assert!(listed.contains(&name), "{name:?}: {listed:?}");
        let (status, shown) = post(
            &server,
            "clients/show",
            &root,
            &json!({ "client_id": name }),
        );
        assert_eq!((status, &shown["client_id"]), (200, &json!(name)));
        let missing = format!("{name}x");
        let (status, problem) = post(
            &server,
            "why",
            &root,
            &json!({ "client_id": missing, "topic": "a" }),
        );
        assert!(status == 200 || status == 404, "{problem}");
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, shown) = get(&server, &format!("clients/show?client_id={escaped}"), &root);
        assert_eq!((status, &shown["client_id"]), (200, &json!(name)));
    }
}

#[test]
fn kinds_of_problems_are_listed() {
    let server = server();
    let (status, list) = json_of(send(&server, ("GET", "/api/v1/problems"), "", ""));
    assert_eq!(status, 200);
    let (_, problem) = get(&server, "health", "nonsense");
    let list = list["problems"].as_array().expect("a list");
    assert!(
        list.iter().any(|kind| kind["type"] == problem["type"]),
        "{problem}"
    );
}
