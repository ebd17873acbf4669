//! `subscribe`: messages, for programs without an MQTT client.

use std::io::Read;
use std::net::TcpStream;

use serde_json::{Value, json};
use stentor_tests::raw::{eventually, publish as packet};
use stentor_tests::{Plan, Raw, Server, Version};

use super::super::api::{bearer, json_of, post, send};
use super::super::probe;
use super::{Event, Stream, get, open, role, token};
use crate::server;

#[track_caller]
fn publish(server: &Server, token: &str, message: &Value) {
    let (status, answer) = post(server, "publish", token, message);
    assert_eq!(status, 200, "{answer}");
}

/// Opens a stream, and waits until it has subscribed.
#[track_caller]
fn subscribe(server: &Server, query: &str, token: &str) -> (Stream, Event) {
    let mut stream = open(server, &format!("subscribe?{query}"), token);
    let first = stream.next();
    assert_eq!(first.name.as_deref(), Some("subscribed"), "{first:?}");
    (stream, first)
}

#[test]
fn stored_messages_come_first_and_then_what_is_published() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    publish(
        &server,
        &ann,
        &json!({ "topic": "a/b", "payload": "old", "retain": true }),
    );
    let (mut stream, first) = subscribe(&server, "topic=a/%2B&topic=c&qos=1", &ann);
    let filters = json!([{ "topic": "a/+", "qos": 1 }, { "topic": "c", "qos": 1 }]);
    assert_eq!(first.data["filters"], filters);
    let stored = json!({ "topic": "a/b", "qos": 0, "retain": true, "payload": "old" });
    assert_eq!(stream.next().data, stored);
    let properties = json!({
        "content_type": "text/plain",
        "correlation_data_base64": "AQI=",
        "user_properties": [["one", "1"], ["one", "2"]],
    });
    publish(
        &server,
        &ann,
        &json!({ "topic": "c", "payload": "x\ny", "qos": 2, "properties": properties }),
    );
    let live = json!({
        "topic": "c", "qos": 1, "retain": false, "payload": "x\ny", "properties": properties,
    });
    assert_eq!(stream.next().data, live);
    publish(
        &server,
        &ann,
        &json!({ "topic": "c", "payload_base64": "AP8=" }),
    );
    let live = json!({ "topic": "c", "qos": 0, "retain": false, "payload_base64": "AP8=" });
    assert_eq!(stream.next().data, live);
    // More than may be on their way without an acknowledgement.
    for number in 0..1_000 {
        let payload = number.to_string();
        publish(
            &server,
            &ann,
            &json!({ "topic": "a/c", "qos": 1, "payload": payload }),
        );
    }
    for number in 0..1_000 {
        assert_eq!(stream.next().data["payload"], json!(number.to_string()));
    }
    // It is a session as any other, and ends with the stream.
    let id = first.data["client_id"].as_str().expect("an id").to_owned();
    let shown = server.json(&["clients", "show", &id]);
    assert_eq!(shown["user"], "ann", "{shown}");
    assert!(
        shown["connection"]["peer"]
            .to_string()
            .contains("127.0.0.1"),
        "{shown}"
    );
    drop(stream);
    eventually("the session has ended", || {
        server.control(&["clients", "show", &id]).status.code() != Some(0)
    });
}

#[test]
fn the_rights_to_the_topics_decide() {
    let server = server();
    role(
        &server,
        "plant",
        &["allow subscribe plant/#", "deny subscribe plant/secret"],
    );
    let paul = token(&server, "paul", &["plant"]);
    let root = token(&server, "root", &["admin"]);
    let viewer = token(&server, "vic", &["viewer"]);
    let nobody = send(&server, ("GET", "/api/v1/subscribe?topic=a"), "", "");
    assert_eq!(json_of(nobody).0, 401);
    for (token, query) in [
        (&paul, "topic=plant/secret"),
        (&paul, "topic=other"),
        (&paul, "topic=plant/a&topic=other"),
        (&viewer, "topic=plant/a"),
    ] {
        let (status, problem) = get(&server, &format!("subscribe?{query}"), token);
        assert_eq!(
            (status, &problem["code"]),
            (403, &json!("denied")),
            "{query}: {problem}"
        );
    }
    for query in [
        "",
        "topic=a/%23/b",
        "topic=",
        "topic=a&qos=2",
        "topic=a&fly=1",
    ] {
        let (status, problem) = get(&server, &format!("subscribe?{query}"), &root);
        assert_eq!(status, 400, "{query}: {problem}");
    }
    // What of a filter is denied does not come.
    let (mut stream, _) = subscribe(&server, "topic=plant/%23", &paul);
    for topic in ["plant/secret", "plant/a"] {
        publish(&server, &root, &json!({ "topic": topic, "payload": "x" }));
    }
    assert_eq!(stream.next().data["topic"], "plant/a");
    // A right that is taken away holds from then on.
    let (mut witness, _) = subscribe(&server, "topic=plant/%23", &root);
    server
        .control(&["role", "change", "plant", "--add", "deny subscribe plant/a"])
        .success();
    for topic in ["plant/a", "plant/b"] {
        publish(&server, &root, &json!({ "topic": topic, "payload": "y" }));
    }
    assert_eq!(witness.next().data["topic"], "plant/a");
    assert_eq!(stream.next().data["topic"], "plant/b");
}

/// A user of another zone has the messages of that zone.
#[test]
fn a_stream_has_the_messages_of_its_users_zone() {
    let config = "[[zone]]\nname = \"game\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
                  anonymous = true\n";
    let plan = Plan::new().config(config);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.opens(1).start();
    let gus = token(&server, "game/gus", &["member"]);
    let ann = token(&server, "ann", &["member"]);
    let (mut own, _) = subscribe(&server, "topic=%23", &gus);
    let (mut other, _) = subscribe(&server, "topic=%23", &ann);
    publish(
        &server,
        &ann,
        &json!({ "topic": "a", "payload": "default" }),
    );
    publish(&server, &gus, &json!({ "topic": "a", "payload": "game" }));
    assert_eq!(own.next().data["payload"], "game");
    assert_eq!(other.next().data["payload"], "default");
}

/// A token that is revoked, and a user who is disabled or kicked.
#[test]
fn a_stream_ends_with_its_session() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let ben = token(&server, "ben", &["member"]);
    let cat = token(&server, "cat", &["member"]);
    let (mut of_ann, _) = subscribe(&server, "topic=%23", &ann);
    let (mut of_ben, _) = subscribe(&server, "topic=%23", &ben);
    let (mut of_cat, begun) = subscribe(&server, "topic=%23", &cat);
    server.control(&["user", "disable", "ann"]).success();
    assert_eq!(of_ann.end()["code"], "closed");
    let listed = server.control(&["token", "list", "ben"]).success();
    let line = listed.lines().nth(1).expect("there is a token");
    let word = line.split_whitespace().next().expect("it has an id");
    server.control(&["token", "revoke", "ben", word]).success();
    assert_eq!(of_ben.end()["code"], "closed");
    let id = begun.data["client_id"].as_str().expect("an id");
    server.control(&["clients", "kick", id]).success();
    let end = of_cat.end();
    assert_eq!(end["code"], "closed");
    assert!(
        end["detail"].to_string().contains("administrative"),
        "{end}"
    );
}

/// A stream that nobody reads loses messages, and is told how many as soon as it reads. It takes
/// a bounded part of the memory, and holds up nobody: neither publishers nor other streams.
#[test]
fn a_slow_reader_is_told_what_it_has_lost() {
    const MESSAGES: usize = 4_000;
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let headers = bearer(&ann);
    let request =
        format!("GET /api/v1/subscribe?topic=a HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let mut slow = Raw::tcp(&server.address("http"));
    slow.send(request.as_bytes());
    let _ = slow.until(b"event: subscribed");
    let _ = slow.until(b"\n\n");
    let (mut live, _) = subscribe(&server, "topic=b", &ann);
    let mut pump = server.client(Version::V5, "pump");
    let payload = vec![b'x'; 10_000];
    for _ in 0..MESSAGES {
        pump.send(&packet(Version::V5, "a", &payload, 0, false));
    }
    pump.publish("b", b"still here");
    pump.ping();
    assert_eq!(live.next().data["payload"], "still here");
    assert_eq!(probe(&server, "/healthz").0, 200);
    let (mut came, mut lost) = (0, 0);
    while came + lost < MESSAGES {
        let text = String::from_utf8(slow.until(b"\n\n")).expect("it is text");
        if let Some((_, data)) = text.split_once("event: missed\ndata: ") {
            let missed: Value = serde_json::from_str(data.trim()).expect("it is JSON");
            lost += missed["messages"].as_u64().expect("a number") as usize;
        } else if text.contains("\"topic\"") {
            came += 1;
        }
    }
    assert_eq!(came + lost, MESSAGES, "{came} came, {lost} were lost");
    // It has read all, so there is room again.
    pump.publish("a", b"again");
    let _ = slow.until(b"\"again\"");
    assert!(lost > 0);
}

/// Readers that are dead end neither a publisher nor the server.
#[test]
fn dead_readers_hold_up_nobody() {
    let mut server = server();
    let ann = token(&server, "ann", &["member"]);
    let headers = bearer(&ann);
    let request =
        format!("GET /api/v1/subscribe?topic=%23 HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let mut dead: Vec<Raw> = (0..7)
        .map(|_| {
            let mut client = Raw::tcp(&server.address("http"));
            client.send(request.as_bytes());
            client
        })
        .collect();
    for client in &mut dead {
        let _ = client.until(b"event: subscribed");
    }
    let (mut live, _) = subscribe(&server, "topic=b", &ann);
    let mut pump = server.client(Version::V5, "pump");
    let payload = vec![b'x'; 10_000];
    for _ in 0..3_000 {
        pump.send(&packet(Version::V5, "a", &payload, 0, false));
    }
    pump.publish("b", b"x");
    assert_eq!(live.next().data["payload"], "x");
    live.ends_with(&mut server);
}

/// A client that takes nothing for half a minute loses its stream, its session and its place.
#[test]
fn a_client_that_takes_nothing_loses_its_place() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let headers = bearer(&ann);
    let request =
        format!("GET /api/v1/subscribe?topic=a HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let mut dead = TcpStream::connect(server.address("http")).expect("it listens");
    std::io::Write::write_all(&mut dead, request.as_bytes()).expect("it reads");
    let mut first = [0; 64];
    let _ = dead.read(&mut first).expect("it answers");
    let sessions = || server.json(&["status"])["sessions"].as_u64();
    eventually("it has subscribed", || sessions() == Some(1));
    let mut pump = server.client(Version::V5, "pump");
    let payload = vec![b'x'; 10_000];
    for _ in 0..3_000 {
        pump.send(&packet(Version::V5, "a", &payload, 0, false));
    }
    pump.ping();
    eventually("its session has ended", || sessions() == Some(1));
}
