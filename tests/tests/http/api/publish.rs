//! `publish`: a message of somebody who has no connection.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use stentor_tests::{Plan, Server, Version};

use super::{get, post, role, server, token};

#[track_caller]
fn publish(server: &Server, token: &str, message: &Value) -> (u16, Value) {
    post(server, "publish", token, message)
}

#[test]
fn a_message_reaches_those_who_are_subscribed() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut clients: Vec<_> = (0..8)
        .map(|number| {
            let mut client = server.client(Version::V5, &format!("c{number}"));
            client.subscribe("a/#", 1);
            client
        })
        .collect();
    for (message, payload) in [
        (json!({ "topic": "a/b", "payload": "plain" }), &b"plain"[..]),
        (
            json!({ "topic": "a/b", "payload": "\u{e4}", "qos": 1 }),
            "\u{e4}".as_bytes(),
        ),
        (
            json!({ "topic": "a/b", "payload_base64": "AP8=", "qos": 2 }),
            &[0, 255],
        ),
        (json!({ "topic": "a/b" }), b""),
    ] {
        let (status, answer) = publish(&server, &ann, &message);
        assert_eq!(
            (status, &answer),
            (200, &json!({ "topic": "a/b", "kept": false }))
        );
        for client in &mut clients {
            assert_eq!(client.message(), ("a/b".to_owned(), payload.to_vec()));
        }
    }
    let root = token(&server, "root", &["admin"]);
    let (_, zones) = get(&server, "zones", &root);
    assert_eq!(zones["zones"][0]["messages_in"], 4, "{zones}");
}

#[test]
fn a_message_is_kept_with_its_properties() {
    let server = server();
    let root = token(&server, "root", &["admin"]);
    let ann = token(&server, "ann", &["member"]);
    let properties = json!({
        "payload_format_indicator": true,
        "content_type": "text/plain",
        "response_topic": "a/answers",
        "correlation_data_base64": "AQI=",
        "user_properties": [["one", "1"], ["one", "2"]],
    });
    let message = json!({
        "topic": "a/b", "payload": "x", "qos": 1, "retain": true, "expiry_secs": 1000,
        "properties": properties,
    });
    let (status, answer) = publish(&server, &ann, &message);
    assert_eq!((status, &answer["kept"]), (200, &json!(true)), "{answer}");
    let (_, page) = get(&server, "retained/page?filter=a/b", &root);
    let kept = &page["messages"][0];
    assert_eq!(kept["properties"], properties, "{kept}");
    assert_eq!((&kept["payload"], &kept["qos"]), (&json!("x"), &json!(1)));
    let left = kept["expiry_secs"].as_u64().expect("it ends");
    assert!((900..=1000).contains(&left), "{left}");
    let log = fs::read_to_string(server.data_dir().join("audit.log")).expect("there is a log");
    let line = log.lines().find(|line| line.contains("publish.retained"));
    let line = line.expect("it is noted");
    assert!(
        line.contains("ann by HTTP from 127.0.0.1") && line.contains("a/b"),
        "{line}"
    );
    let clear = json!({ "topic": "a/b", "retain": true });
    assert_eq!(publish(&server, &ann, &clear).0, 200);
    assert_eq!(
        get(&server, "retained/page?filter=a/b", &root).1["messages"],
        json!([])
    );
}

/// A message for a session whose client is away is written down before the answer.
#[test]
fn a_message_that_waits_survives_a_kill() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let mut client = server.dial();
    client.login(Version::V4, "away", false);
    client.subscribe("a/#", 1);
    client.send(&[0xE0, 0]);
    client.closed();
    for number in 0..10 {
        let message = json!({ "topic": format!("a/{number}"), "payload": "x", "qos": 1 });
        assert_eq!(publish(&server, &ann, &message).0, 200);
    }
    let server = server.kill().start();
    let mut client = server.dial();
    client.login(Version::V4, "away", false);
    let mut topics: Vec<String> = (0..10).map(|_| client.message().0).collect();
    topics.sort_unstable();
    let expected: Vec<String> = (0..10).map(|number| format!("a/{number}")).collect();
    assert_eq!(topics, expected);
}

#[test]
fn the_right_to_the_topic_decides() {
    let server = server();
    role(
        &server,
        "plant",
        &["allow publish plant/#", "deny publish plant/secret"],
    );
    server.control(&["zone", "add", "game"]).success();
    let paul = token(&server, "paul", &["plant"]);
    let root = token(&server, "root", &["admin"]);
    let to = |token: &str, topic: &str| publish(&server, token, &json!({ "topic": topic }));
    assert_eq!(to(&paul, "plant/a").0, 200);
    let (status, problem) = to(&paul, "plant/secret");
    let rule = "role plant: deny publish plant/secret";
    assert_eq!((status, &problem["rule"]), (403, &json!(rule)), "{problem}");
    for topic in ["other", "$SYS/x", "$control/stop", "$private/to/root/1", ""] {
        assert_eq!(to(&paul, topic).0, 403, "{topic}");
    }
    // Rights do not make a topic of the server's own one of somebody else's.
    for topic in [
        "$SYS/x",
        "$private/to/paul/1",
        "$rooms/x",
        "$share/g/a",
        "a/#",
        "+",
        "",
        "a\0",
    ] {
        let (status, problem) = to(&root, topic);
        assert_eq!(
            (status, &problem["code"]),
            (400, &json!("bad-request")),
            "{topic}"
        );
    }
    let elsewhere = json!({ "topic": "plant/a", "zone": "game" });
    assert_eq!(publish(&server, &paul, &elsewhere).0, 403);
    assert_eq!(publish(&server, &root, &elsewhere).0, 200);
}

#[test]
fn messages_that_cannot_be_are_refused() {
    let server = server();
    let ann = token(&server, "ann", &["member"]);
    let long = "x/".repeat(1_000);
    for message in [
        json!({ "payload": "x" }),
        json!({ "topic": "a", "payload": "x", "payload_base64": "eA==" }),
        json!({ "topic": "a", "payload_base64": "!" }),
        json!({ "topic": "a", "payload": 7 }),
        json!({ "topic": "a", "qos": 3 }),
        json!({ "topic": "a", "qos": 300 }),
        json!({ "topic": "a", "expiry_secs": 1u64 << 40 }),
        json!({ "topic": "a", "properties": { "fly": 1 } }),
        json!({ "topic": "a", "properties": { "response_topic": "a/#" } }),
        json!({ "topic": "a", "properties": { "user_properties": [["a"]] } }),
        json!({ "topic": "a", "properties": { "content_type": "a\0" } }),
        json!({ "topic": long }),
    ] {
        let (status, problem) = publish(&server, &ann, &message);
        assert_eq!(
            (status, &problem["code"]),
            (400, &json!("bad-request")),
            "{message}"
        );
    }
}

#[test]
fn quotas_of_a_connection_hold_for_a_token() {
    let server = server();
    let add = [
        "role",
        "add",
        "slow",
        "--rule",
        "allow publish a",
        "--messages-per-sec",
        "5",
    ];
    server.control(&add).success();
    let sam = token(&server, "sam", &["slow"]);
    let codes: Vec<u16> = (0..20)
        .map(|_| publish(&server, &sam, &json!({ "topic": "a" })).0)
        .collect();
    assert_eq!(codes[..5], [200; 5], "{codes:?}");
    assert!(codes.contains(&429), "{codes:?}");
}

#[test]
fn a_message_that_is_larger_than_a_packet_may_be_is_refused() {
    let limits = "[limits]\npacket_bytes = \"1KiB\"\n";
    let plan = Plan::new().tcp().anonymous().config(limits);
    let server = plan.http().start();
    let ann = token(&server, "ann", &["member"]);
    let of = |bytes: usize| json!({ "topic": "a", "payload": "x".repeat(bytes) });
    assert_eq!(publish(&server, &ann, &of(1_000)).0, 200);
    let (status, problem) = publish(&server, &ann, &of(1_024));
    assert_eq!(status, 400, "{problem}");
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(
        detail.contains("limits.packet_bytes allows 1024"),
        "{detail}"
    );
}

const JUDGE: &str = r#"
local judge = {}
function judge.publish(event)
    if event.topic == "t/secret" then return deny("not there") end
    if event.topic == "t/change" then return allow({ payload = event.user .. " changed" }) end
    if event.topic == "t/move" then return allow({ to = "t/moved" }) end
    if event.topic == "t/away" then return allow({ to = "other" }) end
    if event.topic == "t/hide" then return allow({ notification = false }) end
    if event.topic == "t/private" then return allow({ to = "$private/to/tom" }) end
    return nil
end
return judge
"#;

/// Adaptors are asked as about the publish of a client.
#[test]
fn adaptors_judge_it() {
    let plan = Plan::new();
    let file = plan.folder().join("judge.luau");
    fs::write(&file, JUDGE).expect("a file can be written");
    let config = format!(
        "[[adaptor]]\nfile = \"{}\"\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n\
         anonymous = true\n",
        file.display()
    );
    let plan = plan.config(&config).opens(1);
    let plan = plan.variable("STENTOR_HTTP__LISTEN", "http://127.0.0.1:0");
    let server = plan.start();
    role(&server, "t", &["allow publish t/#"]);
    let tom = token(&server, "tom", &["t"]);
    let mut client = server.client(Version::V5, "c");
    client.subscribe("#", 0);
    let to = |topic: &str| publish(&server, &tom, &json!({ "topic": topic, "payload": "x" }));
    let (status, problem) = to("t/secret");
    assert_eq!(
        (status, &problem["code"]),
        (409, &json!("refused")),
        "{problem}"
    );
    assert!(
        problem["detail"].to_string().contains("not there"),
        "{problem}"
    );
    assert_eq!(to("t/change").0, 200);
    assert_eq!(
        client.message(),
        ("t/change".to_owned(), b"tom changed".to_vec())
    );
    let (_, answer) = to("t/move");
    assert_eq!(answer["topic"], "t/moved", "{answer}");
    assert_eq!(client.message(), ("t/moved".to_owned(), b"x".to_vec()));
    // The user has no right to that topic.
    assert_eq!(to("t/away").0, 409);
    let (status, problem) = to("t/private");
    assert_eq!((status, &problem["code"]), (409, &json!("refused")));
    // It counts as done, and nobody gets it.
    let hidden = json!({ "topic": "t/hide", "kept": false });
    assert_eq!(to("t/hide"), (200, hidden));
    assert_eq!(to("t/plain").0, 200);
    assert_eq!(client.message(), ("t/plain".to_owned(), b"x".to_vec()));
}

/// The owner of the server may publish anything by the control socket.
#[test]
fn the_control_socket_publishes_too() {
    let server = server();
    let mut client = server.client(Version::V5, "c");
    client.subscribe("a/#", 1);
    let path = server.data_dir().join("control.sock");
    let mut stream = UnixStream::connect(path).expect("the control socket is there");
    let request = json!({ "v": 1, "verb": "publish", "topic": "a/b", "payload": "x", "qos": 1 });
    writeln!(stream, "{request}").expect("the server reads");
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("it answers");
    let answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
    assert_eq!(
        answer["ok"],
        json!({ "topic": "a/b", "kept": false }),
        "{answer}"
    );
    assert_eq!(client.message(), ("a/b".to_owned(), b"x".to_vec()));
}
