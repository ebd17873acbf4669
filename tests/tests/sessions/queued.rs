//! `stentor sessions queue`: what waits for one client.

use serde_json::{Value, json};
use stentor_tests::raw::{eventually, packet, publish, string};
use stentor_tests::{Plan, Server, Version};

use crate::backlog::{MESSAGES, plan, publish_all};
use crate::{come_back, status};

#[track_caller]
fn queue(server: &Server, options: &[&str]) -> Value {
    server.json(&[&["sessions", "queue"], options].concat())
}

/// All pages of a queue, with the states of its messages and the numbers that payloads begin with.
#[track_caller]
fn pages(server: &Server, client_id: &str, limit: usize) -> (Vec<String>, Vec<usize>) {
    let (mut states, mut numbers) = (Vec::new(), Vec::new());
    let limit = limit.to_string();
    let mut cursor: Option<String> = None;
    loop {
        let mut options = vec![client_id, "--payloads", "--limit", &limit];
        options.extend(cursor.iter().flat_map(|it| ["--cursor", it]));
        let page = queue(server, &options);
        let messages = page["messages"].as_array().expect("a list");
        for message in messages {
            let payload = message["payload"].as_str().expect("it is text");
            let word = payload.split(' ').next().unwrap_or_default();
            numbers.push(word.parse().expect("a number"));
            states.push(message["state"].as_str().expect("a state").to_owned());
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return (states, numbers),
        }
    }
}

/// Most of what waits for who is away lies on the disk: lists count it, and pages show it in its
/// order, whatever their size.
#[test]
fn a_queue_beyond_the_memory_is_counted_and_shown_with_what_lies_on_the_disk() {
    let server = plan("").variable("STENTOR_SHARDS", "2").start();
    let (mut client, _) = come_back(&server, Version::V5, "absent");
    client.subscribe("log", 2);
    client.send(&[0xE0, 0]);
    client.closed();
    let mut publisher = server.client(Version::V5, "publisher");
    assert!(publish_all(&mut publisher, 0..MESSAGES).is_empty());
    eventually("most of it is on the disk", || {
        status(&server)["session_store"]["backlog_bytes"].as_u64() >= Some(3 << 20)
    });
    for list in [["sessions", "ls"], ["clients", "ls"]] {
        let list = server.json(&[&list[..], &["absent"]].concat());
        assert_eq!(list["clients"][0]["waiting"], MESSAGES, "{list}");
    }
    let shown = server.json(&["clients", "show", "absent"]);
    assert_eq!(shown["waiting"], MESSAGES, "{shown}");

    let page = queue(&server, &["absent", "--limit", "1"]);
    assert_eq!(
        (&page["connected"], &page["in_flight"]),
        (&json!(false), &json!(0)),
        "{page}"
    );
    let (here, there) = (page["waiting"].as_u64(), page["on_disk"].as_u64());
    assert_eq!(
        here.zip(there).map(|(a, b)| a + b),
        Some(MESSAGES as u64),
        "{page}"
    );
    assert!(there > Some(3_000), "{page}");
    let first = &page["messages"][0];
    let expected = json!({
        "state": "on-disk", "topic": "log", "payload_bytes": 1_002, "qos": 2, "retain": false,
        "conflated": 0, "payload_cut": false, "withheld": false,
    });
    assert_eq!(first, &expected, "its payload was not asked for");
    for limit in [1_000, 97] {
        let (states, numbers) = pages(&server, "absent", limit);
        assert!(
            numbers.iter().copied().eq(0..MESSAGES),
            "pages of {limit}: {}",
            numbers.len()
        );
        let on_the_disk = states.iter().filter(|state| *state == "on-disk").count();
        assert_eq!(on_the_disk as u64, there.unwrap_or(0), "pages of {limit}");
        assert!(states.iter().rev().take(10).all(|state| state == "waiting"));
    }
    let text = server
        .control(&["sessions", "queue", "absent", "--limit", "2"])
        .success();
    assert!(
        text.starts_with("absent is away; 4000 messages: "),
        "{text}"
    );
    assert!(
        text.contains(" on the disk\n") && text.contains("--cursor w2.0"),
        "{text}"
    );
}

/// A client that acknowledges nothing has its window full of messages, and others wait behind.
#[test]
fn what_is_in_flight_comes_first_and_says_since_when() {
    let server = Plan::new()
        .tcp()
        .anonymous()
        .config("[limits]\ninflight = 2\n")
        .start();
    let (mut client, _) = come_back(&server, Version::V5, "slow");
    client.subscribe("a/#", 1);
    let mut publisher = server.client(Version::V5, "publisher");
    for number in 0..5 {
        publisher.publish_surely("a/b", format!("{number} x").as_bytes());
    }
    let sent = [client.expect(3), client.expect(3)];
    let page = queue(&server, &["slow"]);
    let counts = ["connected", "in_flight", "waiting", "on_disk", "held_back"];
    let counts = counts.map(|key| page[key].clone());
    assert_eq!(
        counts,
        [json!(true), json!(2), json!(3), json!(0), json!(0)],
        "{page}"
    );
    let (states, numbers) = pages(&server, "slow", 1);
    assert_eq!(
        states,
        ["in-flight", "in-flight", "waiting", "waiting", "waiting"]
    );
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    let first = &page["messages"][0];
    let packet_id = u16::from_be_bytes([sent[0].body[5], sent[0].body[6]]);
    assert_eq!(first["packet_id"], packet_id, "{page}");
    assert!(first["in_flight_secs"].as_u64() < Some(60), "{page}");
    assert!(first["age_secs"].as_u64() < Some(60), "{page}");
    let text = server.control(&["sessions", "queue", "slow"]).success();
    assert!(text.contains("in flight for 0s"), "{text}");
    // While the client is away, they are to be sent again.
    drop(client);
    eventually("it is away", || {
        queue(&server, &["slow"])["connected"] == false
    });
    let page = queue(&server, &["slow"]);
    let again = &page["messages"][0];
    assert_eq!(
        (&again["state"], &again["in_flight_secs"]),
        (&json!("in-flight"), &Value::Null)
    );
    let text = server.control(&["sessions", "queue", "slow"]).success();
    assert!(text.contains("to be sent again when it is back"), "{text}");
}

/// Of a topic that goes to a client only so often, the newest message is held back.
#[test]
fn what_is_held_back_comes_last() {
    let server = Plan::new().tcp().anonymous().start();
    let mut client = server.client(Version::V5, "slow");
    let rate = [&[0x26][..], &string("max-rate"), &string("0.001")].concat();
    let head = [0, 1, u8::try_from(rate.len()).expect("it is short")];
    let body = [&head[..], &rate, &string("tick/#"), &[0]].concat();
    client.send(&packet(0x82, &body));
    client.expect(9);
    let mut publisher = server.client(Version::V5, "publisher");
    for number in 0..3 {
        publisher.send(&publish(
            Version::V5,
            "tick/a",
            format!("{number} x").as_bytes(),
            0,
            false,
        ));
    }
    assert_eq!(client.message().1, b"0 x");
    publisher.ping();
    eventually("the last one is held back", || {
        let page = queue(&server, &["slow", "--payloads"]);
        let shown = &page["messages"][0];
        (
            &page["held_back"],
            &shown["state"],
            &shown["payload"],
            &shown["conflated"],
        ) == (&json!(1), &json!("held-back"), &json!("2 x"), &json!(1))
    });
}

#[test]
fn what_is_no_page_of_a_queue_is_refused() {
    let server = Plan::new().tcp().anonymous().start();
    let (_client, _) = come_back(&server, Version::V5, "one");
    let page = queue(&server, &["one"]);
    assert_eq!(
        (&page["messages"], &page["cursor"]),
        (&json!([]), &Value::Null)
    );
    let text = server.control(&["sessions", "queue", "one"]).success();
    assert_eq!(text, "one is connected; nothing waits for it\n");
    let refusal = server.control(&["sessions", "queue", "on"]).refusal();
    assert!(refusal.contains("did you mean \"one\""), "{refusal}");
    let refusal = server
        .control(&["sessions", "queue", "one", "--cursor", "x"])
        .refusal();
    assert!(refusal.contains("\"x\" is not a cursor"), "{refusal}");
    for limit in ["0", "1001"] {
        server
            .control(&["sessions", "queue", "one", "--limit", limit])
            .refusal();
    }
    // A place behind the end is none to go on from.
    for cursor in ["f99999", "w18446744073709551615.7", "h99.7"] {
        let page = queue(&server, &["one", "--cursor", cursor]);
        assert_eq!(
            (&page["messages"], &page["cursor"]),
            (&json!([]), &Value::Null),
            "{cursor}"
        );
    }
}
