//! What messages contain needs the right to their topics.

use serde_json::{Value, json};
use stentor_tests::raw::connect_as;
use stentor_tests::{Plan, Version};

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

/// A queue is shown to those who may look; what is in its messages only to those who may read their
/// topics, and that of another zone only to its administrators.
#[test]
fn messages_of_a_queue_are_read_by_the_right_to_their_topics() {
    let server = server();
    role(
        &server,
        "plant",
        &["allow both plant/#", "deny both plant/secret/#"],
    );
    server.control(&["zone", "add", "game"]).success();
    let root = token(&server, "root", &["admin"]);
    let vic = token(&server, "vic", &["viewer"]);
    let paul = token(&server, "paul", &["viewer", "plant"]);
    let gus = token(&server, "game/gus", &["admin"]);
    let mut client = server.dial();
    client.login(Version::V5, "pump", false);
    client.subscribe("plant/#", 1);
    client.send(&[0xE0, 0]);
    client.closed();
    let mut publisher = server.client(Version::V5, "publisher");
    for topic in ["plant/a", "plant/secret/b"] {
        publisher.publish_surely(topic, b"\xFF!");
    }
    let queue = |token: &str, query: &str| {
        let path = format!("sessions/queue?client_id=pump{query}");
        get(&server, &path, token)
    };
    let payloads = |token: &str, query: &str| {
        let (status, page) = queue(token, query);
        assert_eq!(status, 200, "{page}");
        let topics = page["messages"].as_array().expect("a list");
        assert_eq!(topics[0]["topic"], "plant/a", "{page}");
        let one = |it: &Value| (it["payload_base64"] == "/yE=", it["withheld"] == true);
        topics.iter().map(one).collect::<Vec<_>>()
    };
    let (shown, withheld, not_asked) = ((true, false), (false, true), (false, false));
    assert_eq!(payloads(&root, "&payloads=true"), [shown, shown]);
    assert_eq!(payloads(&vic, "&payloads=true"), [withheld, withheld]);
    assert_eq!(payloads(&paul, "&payloads=true"), [shown, withheld]);
    assert_eq!(payloads(&paul, ""), [not_asked, not_asked]);
    // A user of another zone sees nothing of this one.
    assert_eq!(queue(&gus, "").0, 404);
    assert_eq!(queue(&gus, "&zone=default").0, 403);
    assert_eq!(queue(&root, "&zone=game").0, 404);
    // A place behind all others has nothing in its part of the queue.
    for cursor in [
        "f18446744073709551615",
        "w18446744073709551615.18446744073709551615",
        "h0.18446744073709551615",
        "h18446744073709551615.0",
    ] {
        let (status, page) = queue(&root, &format!("&cursor={cursor}"));
        assert_eq!(status, 200, "{cursor}: {page}");
    }
    let (status, problem) = queue(&root, "&cursor=x");
    assert_eq!(
        (status, &problem["code"]),
        (400, &json!("bad-request")),
        "{problem}"
    );
}

/// By MQTT, each client has its own messages there, so the right to subscribe does not tell.
#[test]
fn messages_of_services_are_read_by_those_with_all_rights() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let vera = token(&server, "vera", &["viewer", "member"]);
    token(&server, "mel", &["member"]);
    let secret = "hush";
    let file = server.folder().join("password");
    std::fs::write(&file, "secret\n").expect("a file can be written");
    let file = file.to_str().expect("temporary paths are text");
    server
        .control(&["user", "set-password", "mel", "--password-file", file])
        .success();
    let login = |client_id: &str| {
        let mut client = server.dial();
        let who = Some(("mel", "secret"));
        client.speaks(Version::V5);
        client.send(&connect_as(Version::V5, client_id, false, who));
        assert_eq!(client.expect(2).body[1], 0, "{client_id}");
        client
    };
    let mut mel = login("inbox");
    mel.subscribe("$private/from/+", 1);
    mel.send(&[0xE0, 0]);
    mel.closed();
    login("writer").publish_surely("$private/to/mel", secret.as_bytes());
    let payloads = |token: &str| {
        let path = "sessions/queue?client_id=inbox&payloads=true";
        let (status, page) = get(&server, path, token);
        assert_eq!(status, 200, "{page}");
        page["messages"][0]["payload"].clone()
    };
    assert_eq!(payloads(&root), secret);
    assert_eq!(payloads(&vera), Value::Null);
    let page = "retained/page?filter=$room/%2B/%23";
    assert_eq!(get(&server, page, &vera).0, 403);
    assert_eq!(get(&server, page, &root).0, 200);
}

#[test]
fn a_history_is_read_by_the_right_to_its_topic() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let vera = token(&server, "vera", &["viewer"]);
    let history = |token: &str| get(&server, "retained/history?topic=a", token).0;
    assert_eq!((history(&root), history(&vera)), (200, 403));
}

/// An administrator of all zones does not read the messages of another zone by that.
#[test]
fn messages_of_a_queue_in_another_zone_need_the_right_to_administer_it() {
    let config = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";
    let plan = Plan::new().config(config);
    let server = plan
        .variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0")
        .opens(1)
        .start();
    server.control(&["zone", "add", "game"]).success();
    role(
        &server,
        "reads",
        &["allow subscribe #", "allow subscribe $control/#"],
    );
    let rita = token(&server, "rita", &["reads"]);
    let root = token(&server, "root", &["admin"]);
    let gus = token(&server, "game/gus", &["admin"]);
    let mut client = server.dial();
    client.send(&connect_as(Version::V5, "hero", false, Some(("", &gus))));
    assert_eq!(client.expect(2).body[1], 0);
    client.speaks(Version::V5);
    client.subscribe("a", 1);
    client.send(&[0xE0, 0]);
    client.closed();
    let message = json!({ "topic": "a", "payload": "x", "qos": 1 });
    assert_eq!(post(&server, "publish", &gus, &message).0, 200);
    // The zone is not named: it is the only one with such a client.
    for (token, is_shown) in [(&rita, false), (&root, true), (&gus, true)] {
        let (status, page) = get(
            &server,
            "sessions/queue?client_id=hero&payloads=true",
            token,
        );
        assert_eq!((status, &page["zone"]), (200, &json!("game")), "{page}");
        let message = &page["messages"][0];
        assert_eq!(message["payload"] == "x", is_shown, "{page}");
        assert_eq!(message["withheld"], !is_shown, "{page}");
    }
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
