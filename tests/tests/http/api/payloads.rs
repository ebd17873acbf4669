//! What messages contain needs the right to their topics.

use serde_json::json;
use stentor_tests::Version;

use super::{get, post, role, server, token};

#[test]
fn kept_messages_are_read_and_written_by_the_right_to_their_topics() {
    let server = server();
    role(
        &server,
        "operates",
        &["allow both $control/#", "deny publish $control/zones/#"],
    );
    role(
        &server,
        "plant",
        &["allow both plant/#", "deny both plant/secret/#"],
    );
    server.control(&["zone", "add", "game"]).success();
    let root = token(&server, "root", &["admin"]);
    let olga = token(&server, "olga", &["operates"]);
    let paul = token(&server, "paul", &["operates", "plant"]);
    let put = |token: &str, topic: &str, zone: Option<&str>| {
        let message = json!({ "topic": topic, "payload": "x" });
        let request = json!({ "messages": [message], "zone": zone });
        post(&server, "retained/put", token, &request)
    };
    let page = |token: &str, query: &str| get(&server, &format!("retained/page?{query}"), token);
    assert_eq!(put(&olga, "plant/a", None).0, 403);
    assert_eq!(put(&paul, "plant/a", None).0, 200);
    assert_eq!(put(&paul, "plant/secret/a", None).0, 403);
    assert_eq!(put(&paul, "plant/a", Some("game")).0, 403);
    assert_eq!(put(&root, "plant/a", Some("game")).0, 200);
    let hidden = json!({ "messages": [{ "topic": "plant/a", "payload": "x", "zone": "game" }] });
    assert_eq!(post(&server, "retained/put", &paul, &hidden).0, 403);
    let nameless = json!({ "messages": [{ "payload": "x" }] });
    assert_eq!(post(&server, "retained/put", &paul, &nameless).0, 403);
    assert_eq!(page(&olga, "filter=plant/a").0, 403);
    let (status, kept) = page(&paul, "filter=plant/a");
    assert_eq!(
        (status, &kept["messages"][0]["payload"]),
        (200, &json!("x")),
        "{kept}"
    );
    // A part of what the filter matches is not permitted.
    let (status, problem) = page(&paul, "filter=plant/%23");
    assert_eq!(status, 403);
    assert_eq!(
        problem["rule"], "role plant: deny both plant/secret/#",
        "{problem}"
    );
    assert_eq!(page(&paul, "filter=plant/a&zone=game").0, 403);
    assert_eq!(page(&root, "filter=plant/a&zone=game").0, 200);
    // Names and sizes are there for those who may look.
    let (_, topics) = get(&server, "topics?containing=plant", &olga);
    assert_eq!(
        topics["retained"][0],
        json!({ "topic": "plant/a", "bytes": 1 }),
        "{topics}"
    );
}

#[test]
fn one_request_writes_a_bounded_number_of_messages() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let put = |count: usize| {
        let messages: Vec<_> = (0..count)
            .map(|number| json!({ "topic": format!("t/{number}"), "payload": "x" }))
            .collect();
        post(
            &server,
            "retained/put",
            &root,
            &json!({ "messages": messages }),
        )
    };
    assert_eq!(put(1_000).0, 200);
    let (status, problem) = put(1_001);
    assert_eq!(
        (status, &problem["code"]),
        (413, &json!("too-large")),
        "{problem}"
    );
}

#[test]
fn traces_have_no_payloads_here() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let start = json!({ "topic": "a/#", "payload_bytes": 10 });
    assert_eq!(post(&server, "traces/start", &root, &start).0, 403);
    let (status, started) = post(&server, "traces/start", &root, &json!({ "topic": "a/#" }));
    assert_eq!(status, 200, "{started}");
    let mut client = server.client(Version::V5, "pump");
    client.publish("a/b", b"secret");
    let id = started["id"].as_u64().expect("a number");
    let (status, read) = get(&server, &format!("traces/read?id={id}&wait_ms=5000"), &root);
    assert_eq!(status, 200);
    assert_eq!(read["lines"][0]["topic"], "a/b", "{read}");
    assert_eq!(read["lines"][0]["payload"], json!(null), "{read}");
    assert_eq!(
        post(&server, "traces/stop", &root, &json!({ "id": id })).0,
        200
    );
}
