//! Histories of topics: over MQTT, by a call, by the command, and over kills.

use std::path::Path;

use serde_json::{Value, json};
use stentor_tests::raw::{connect_as, eventually, packet, string};
use stentor_tests::{Finished, Plan, Raw, Server, Version, process, server};

use crate::support::{number, property};

const POLICY: &str = "[[policy]]\nfilter = \"log/#\"\nkeep = \"all\"\nhistory = 100\n";

fn start(sync: &str) -> Server {
    let config = format!("[retained]\nsync = \"{sync}\"\n{POLICY}");
    let plan = Plan::new().tcp().anonymous().config(&config);
    plan.arg("--shards").arg("2").start()
}

/// A SUBSCRIBE of MQTT 5 that asks for a history.
fn subscribe(filter: &str, qos: u8, ask: &str) -> Vec<u8> {
    let pair = [&[0x26][..], &string("history"), &string(ask)].concat();
    let mut body = vec![0, 9, u8::try_from(pair.len()).expect("few properties")];
    body.extend(pair);
    body.extend(string(filter));
    body.push(qos);
    packet(0x82, &body)
}

/// A message of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    topic: String,
    payload: String,
    seq: u64,
    epoch: String,
}

/// What a history brings until its end, each with RETAIN.
#[track_caller]
fn ask(client: &mut Raw, filter: &str, value: &str) -> Vec<Told> {
    client.send(&subscribe(filter, 0, value));
    let suback = client.expect(9);
    assert_eq!(
        suback.body.last(),
        Some(&0),
        "{value} is refused: {suback:?}"
    );
    let mut all = Vec::new();
    loop {
        let packet = client.expect(3);
        let (topic, payload) = packet.message(Version::V5);
        if property(&packet.body, "history-end").as_deref() == Some(filter) {
            assert_eq!((packet.first & 1, payload.len()), (0, 0));
            return all;
        }
        assert_eq!(packet.first & 1, 1, "a message of a history has RETAIN set");
        all.push(Told {
            topic,
            payload: String::from_utf8(payload).expect("text"),
            seq: number(&packet.body, "seq"),
            epoch: property(&packet.body, "epoch").expect("an epoch"),
        });
    }
}

fn payloads(told: &[Told]) -> Vec<u64> {
    let number = |one: &Told| one.payload.parse().expect("a number");
    told.iter().map(number).collect()
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[test]
fn the_newest_hundred_of_many_survive_kills_with_their_numbers() {
    for sync in ["never", "interval", "always"] {
        let mut server = start(sync);
        let mut client = server.client(Version::V4, "p");
        for number in 1..=300 {
            client.publish_surely("log/a", number.to_string().as_bytes());
        }
        drop(client);
        let mut reader = server.client(Version::V5, "r");
        let before = ask(&mut reader, "log/a", "after:0");
        assert_eq!(payloads(&before), range(201, 300), "{sync}");
        for kills in 1..=2 {
            server = match kills {
                1 => server.kill().start(),
                _ => server.stop_for_restart().start(),
            };
            let mut reader = server.client(Version::V5, "r");
            let after = ask(&mut reader, "log/a", "after:0");
            assert_eq!(after, before, "{sync}");
            let ten = ask(&mut reader, "log/a", "last:10");
            assert_eq!(ten, before[90..]);
            let since = format!("after:{}", before[97].seq);
            assert_eq!(ask(&mut reader, "log/+", &since), before[98..]);
            assert_eq!(
                ask(&mut reader, "log/a", "since:2020-01-01T00:00:00Z"),
                before
            );
            assert_eq!(ask(&mut reader, "log/a", "since:4000000000"), []);
        }
        let mut client = server.client(Version::V4, "p");
        client.publish_surely("log/a", b"301");
        let mut reader = server.client(Version::V5, "r");
        let last = ask(&mut reader, "log/a", "last:2");
        assert_eq!(payloads(&last), [300, 301]);
        assert_eq!(last[1].seq, before[99].seq + 1);
        assert_eq!(last[1].epoch, before[0].epoch);
        // A plain subscriber gets the last message, and nothing else.
        let mut plain = server.client(Version::V4, "plain");
        plain.subscribe("log/#", 0);
        assert_eq!(plain.message(), ("log/a".into(), b"301".to_vec()));
        plain.ping();
    }
}

/// Acknowledged, and then the process is killed: nothing is missing, and no number is there twice.
#[test]
fn what_was_acknowledged_before_a_kill_is_in_the_history() {
    let mut server = start("interval");
    let mut next = 1;
    for _ in 0..3 {
        let mut client = server.client(Version::V4, "p");
        let from = next;
        for _ in 0..40 {
            client.publish_surely("log/k", next.to_string().as_bytes());
            next += 1;
        }
        // These are on their way when the kill comes.
        for _ in 0..20 {
            let text = next.to_string();
            let body = [&string("log/k")[..], &[0, 1], text.as_bytes()].concat();
            client.send(&packet(0x32, &body));
            next += 1;
        }
        server = server.kill().start();
        let mut reader = server.client(Version::V5, "r");
        let told = ask(&mut reader, "log/k", "after:0");
        let found = payloads(&told);
        let acknowledged = range(from, from + 39);
        assert!(
            acknowledged.iter().all(|it| found.contains(it)),
            "{found:?}"
        );
        assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
        assert!(told.is_sorted_by(|a, b| a.seq < b.seq));
        let last = told.last().expect("there are messages");
        let mut plain = server.client(Version::V5, "plain");
        plain.subscribe("log/k", 0);
        assert_eq!(plain.message().1, last.payload.as_bytes());
    }
}

#[test]
fn a_lost_folder_is_told_by_another_epoch() {
    let server = start("interval");
    let mut client = server.client(Version::V4, "p");
    client.publish_surely("log/a", b"1");
    let mut reader = server.client(Version::V5, "r");
    let before = ask(&mut reader, "log/a", "last:1");
    let plan = server.stop_for_restart();
    std::fs::remove_dir_all(plan.data_dir().join("retained")).expect("the folder goes");
    let server = plan.start();
    let mut reader = server.client(Version::V5, "r");
    assert_eq!(ask(&mut reader, "log/a", "last:1"), []);
    let mut client = server.client(Version::V4, "p");
    client.publish_surely("log/a", b"1");
    let mut reader = server.client(Version::V5, "later");
    let after = ask(&mut reader, "log/a", "last:1");
    assert_ne!(after[0].epoch, before[0].epoch);
}

#[test]
fn a_question_that_makes_no_sense_is_refused_with_the_reason() {
    let server = start("never");
    for value in ["last:0", "last:", "ten", "since:monday", "after:x"] {
        let mut client = server.client(Version::V5, "c");
        client.send(&subscribe("log/a", 0, value));
        let suback = client.expect(9);
        assert_eq!(suback.body.last(), Some(&0x83), "{value}");
        let text = String::from_utf8_lossy(&suback.body).into_owned();
        assert!(text.contains("history is last:N"), "{text}");
        client.ping();
    }
}

#[test]
fn a_configuration_without_a_history_has_no_bounds_of_one() {
    let config = "[[policy]]\nfilter = \"a\"\nkeep = \"last\"\nhistory = 10\n";
    let refused = Plan::new().tcp().anonymous().config(config).refused();
    let text = refused.refusal();
    assert!(
        text.contains("keep = \"all\"") && text.contains("history"),
        "{text}"
    );
    let config = "[[policy]]\nfilter = \"a\"\nkeep = \"all\"\nhistory = 0\n";
    let text = Plan::new()
        .tcp()
        .anonymous()
        .config(config)
        .refused()
        .refusal();
    assert!(
        text.contains("policy.history") && text.contains("from 1"),
        "{text}"
    );
}

/// `stentor history` on a data folder.
#[track_caller]
fn history(folder: &Path, args: &[&str]) -> Finished {
    let mut command = server::stentor();
    command
        .arg("history")
        .args(args)
        .arg("--data-dir")
        .arg(folder);
    process::run(&mut command)
}

#[test]
fn the_command_prints_a_history_of_a_running_and_of_a_stopped_server() {
    let config = format!("{POLICY}history_age = \"1h\"\n");
    let config = config.replace("history = 100", "history = 5000");
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let folder = server.data_dir();
    let mut client = server.client(Version::V4, "p");
    for number in 1..=2_500 {
        client.publish("log/a", format!("n{number}").as_bytes());
    }
    client.publish_surely("log/a", b"\xFF\x00");
    let check = || {
        let all = history(&folder, &["log/a", "--json"]).success();
        let all: Vec<Value> = all
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(all.len(), 2_501);
        assert_eq!(all[0]["payload"], "n1");
        assert_eq!(all[2_500]["payload_base64"], "/wA=");
        let number = |at: usize| all[at]["sequence"].as_u64().expect("a number");
        assert!((1..2_501).all(|at| number(at) == number(at - 1) + 1));
        let two = history(&folder, &["log/a", "--last", "3"]).success();
        let lines: Vec<&str> = two.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].ends_with("n2499"), "{two}");
        let after = number(2_498).to_string();
        let after = history(&folder, &["log/a", "--after", &after]).success();
        assert_eq!(after.lines().count(), 2);
        let ms = all[2_500]["received_ms"].as_u64().expect("a time");
        let late = (ms / 1_000 + 60).to_string();
        assert_eq!(history(&folder, &["log/a", "--since", &late]).success(), "");
        let early = history(&folder, &["log/a", "--since", "2020-01-01T00:00:00Z"]);
        assert_eq!(early.success().lines().count(), 2_501);
        assert_eq!(history(&folder, &["log/none"]).success(), "");
    };
    check();
    let wrong = history(&folder, &["log/a", "--last", "0"]).refusal();
    assert!(wrong.contains("last:N"), "{wrong}");
    let wrong = history(&folder, &["log/#"]).refusal();
    assert!(wrong.contains("not a topic"), "{wrong}");
    let wrong = history(&folder, &["log/a", "--last", "1", "--after", "1"]).refusal();
    assert!(wrong.contains("cannot be used with"), "{wrong}");
    let counted = server.json(&["retained", "count"]);
    assert_eq!(
        (&counted["history_topics"], &counted["history_messages"]),
        (&json!(1), &json!(2_501))
    );
    let plan = server.kill();
    check();
    let server = plan.start();
    check();
    // Clearing takes the history along.
    let told = server.json(&["retained", "clear", "log/#"]);
    assert_eq!(
        told,
        json!({ "cleared": 1, "refused": 0, "forgotten": 2_502 })
    );
    assert_eq!(history(&folder, &["log/a"]).success(), "");
    let server = server.kill().start();
    assert_eq!(history(&folder, &["log/a"]).success(), "");
    drop(server);
}

#[test]
fn old_messages_go_by_themselves() {
    let config = format!("{POLICY}history_age = \"1s\"\n");
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let mut client = server.client(Version::V4, "p");
    client.publish_surely("log/a", b"1");
    let count = || server.json(&["retained", "count"])["history_messages"].as_u64();
    eventually("the message is too old", || count() == Some(0));
    let mut reader = server.client(Version::V5, "r");
    assert_eq!(ask(&mut reader, "log/a", "last:9"), []);
    // The last message stays, for those who do not ask for a history.
    let mut plain = server.client(Version::V4, "plain");
    plain.subscribe("log/a", 0);
    assert_eq!(plain.message().1, b"1");
}

/// Neither the history nor the last message has it, and nobody gets it.
#[test]
fn a_message_without_room_is_refused_before_anybody_gets_it() {
    let config = format!("[retained]\nmessages = 1000\nbytes = \"1MiB\"\n{POLICY}");
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let mut watcher = server.client(Version::V4, "w");
    watcher.subscribe("log/#", 0);
    let mut client = server.client(Version::V5, "p");
    let payload = vec![b'x'; 100_000];
    let mut taken = 0;
    loop {
        client.send(&stentor_tests::raw::publish(
            Version::V5,
            "log/a",
            &payload,
            1,
            false,
        ));
        let answer = client.expect(4);
        match answer.body.get(2) {
            None | Some(0) => taken += 1,
            Some(reason) => {
                assert_eq!(*reason, 0x97);
                break;
            }
        }
        assert!(taken < 20, "the bound of bytes holds");
    }
    for _ in 0..taken {
        assert_eq!(watcher.message().1.len(), 100_000);
    }
    watcher.ping();
    let mut reader = server.client(Version::V5, "r");
    assert_eq!(ask(&mut reader, "log/a", "after:0").len(), taken);
}

/// A server on which ann may read one of two topics.
fn with_ann() -> Server {
    let server = Plan::new().tcp().config(POLICY).start();
    let password = server.folder().join("password");
    std::fs::write(&password, "secret\n").expect("the folder can be written");
    let file = password.to_str().expect("a plain name");
    let rules = [
        "allow publish $call/#",
        "allow subscribe $reply/#",
        "allow both log/open",
        "allow publish log/closed",
    ];
    let mut role = vec!["role", "add", "reader"];
    rules.iter().for_each(|rule| role.extend(["--rule", rule]));
    server.control(&role).success();
    let user = [
        "user",
        "add",
        "ann",
        "--password-file",
        file,
        "--role",
        "reader",
    ];
    server.control(&user).success();
    server
}

fn login(server: &Server, version: Version) -> Raw {
    let mut client = server.dial();
    client.speaks(version);
    client.send(&connect_as(version, "ann", true, Some(("ann", "secret"))));
    assert_eq!(client.expect(2).body[1], 0);
    client
}

#[test]
fn rights_decide_when_a_history_is_read() {
    let server = with_ann();
    let mut client = login(&server, Version::V5);
    for topic in ["log/open", "log/closed"] {
        client.publish_surely(topic, b"1");
    }
    // The wide subscription brings what is permitted.
    let told = ask(&mut client, "log/+", "last:5");
    let topics: Vec<&str> = told.iter().map(|one| one.topic.as_str()).collect();
    assert_eq!(topics, ["log/open"]);
    client.send(&subscribe("log/closed", 0, "last:5"));
    assert_eq!(client.expect(9).body.last(), Some(&0x87));
    // A right that was taken away counts at once.
    server
        .control(&[
            "role",
            "change",
            "reader",
            "--remove",
            "allow both log/open",
        ])
        .success();
    let mut again = login(&server, Version::V5);
    again.send(&subscribe("log/open", 0, "last:5"));
    assert_eq!(again.expect(9).body.last(), Some(&0x87));
}

/// Calls `/history` by MQTT 3.1.1, which has no user properties.
fn call(client: &mut Raw, arguments: &Value) -> Value {
    client.publish("$call/history/7", arguments.to_string().as_bytes());
    let (topic, payload) = client.message();
    assert_eq!(topic, "$reply/7");
    serde_json::from_slice(&payload).expect("JSON")
}

#[test]
fn a_client_of_mqtt_3_asks_by_a_call() {
    let server = with_ann();
    let mut client = login(&server, Version::V4);
    client.subscribe("$reply/#", 1);
    for number in 1..=150 {
        client.publish_surely("log/open", format!("n{number}").as_bytes());
    }
    let answer = call(&mut client, &json!({ "topic": "log/open", "last": 3 }));
    assert_eq!(answer["status"], "done", "{answer}");
    let result = |answer: &Value| -> Value {
        serde_json::from_str(answer["result"].as_str().expect("a result")).expect("JSON")
    };
    let told = result(&answer);
    let payloads: Vec<&str> = told["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|message| message["payload"].as_str())
        .collect();
    assert_eq!(
        (payloads, &told["more"]),
        (vec!["n148", "n149", "n150"], &json!(false))
    );
    assert_eq!(told["epoch"].as_str().map(str::len), Some(16));
    // Page by page.
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let question = json!({ "topic": "log/open", "after": after, "limit": 40 });
        let told = result(&call(&mut client, &question));
        let messages = told["messages"].as_array().expect("messages").clone();
        after = messages
            .last()
            .and_then(|it| it["sequence"].as_u64())
            .expect("a number");
        all.extend(messages);
        if told["more"] == json!(false) {
            break;
        }
    }
    assert_eq!(all.len(), 100);
    assert_eq!(all[0]["payload"], "n51");
    for (question, status, word) in [
        (json!({ "topic": "log/closed" }), "not-allowed", "no right"),
        (json!({ "topic": "log/+" }), "bad-call", "not a topic"),
        (
            json!({ "topic": "log/open", "last": 0 }),
            "bad-call",
            "last:N",
        ),
        (json!({ "last": 1 }), "bad-call", "-topic TOPIC"),
        (
            json!({ "topic": "log/open", "limit": 5000 }),
            "bad-call",
            "1 to 1000",
        ),
    ] {
        let answer = call(&mut client, &question);
        assert_eq!(answer["status"], status, "{answer}");
        let text = answer["text"].as_str().unwrap_or_default();
        assert!(text.contains(word), "{answer}");
    }
    // The command line has another way to say it.
    let mut command = server::stentor();
    let url = server.url("mqtt");
    command.args([
        "call",
        "-L",
        url,
        "-u",
        "ann",
        "history",
        "-a",
        "topic=log/open",
    ]);
    command
        .args(["-a", "last=1"])
        .env("STENTOR_PASSWORD", "secret");
    let printed = process::run(&mut command).success();
    assert!(printed.contains("n150"), "{printed}");
}
