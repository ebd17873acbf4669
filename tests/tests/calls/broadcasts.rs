//! `/broadcast`: one message to many, by the rights of the caller.

use serde_json::Value;
use stentor_tests::raw::{connect_as, eventually};
use stentor_tests::{Finished, Raw, Version, process, server};

use crate::{Calls, code, plan, word};

/// A server over two shards, where alice may write to bob, carol and news/#, and bob listens.
fn start() -> Calls {
    let calls = Calls {
        server: plan(&[]).tcp().arg("--shards").arg("2").start(),
    };
    let password = calls.file("password", b"secret\n");
    let run = |args: &[&str]| {
        calls.server.control(args).success();
    };
    let rules = [
        "--rule",
        "allow publish $call/#",
        "--rule",
        "allow publish $private/to/bob",
        "--rule",
        "allow publish $private/to/carol",
        "--rule",
        "allow publish news/#",
        "--rule",
        "allow subscribe $reply/#",
    ];
    run(&[&["role", "add", "writer"], &rules[..]].concat());
    for (name, role) in [("alice", "writer"), ("bob", "member")] {
        let file = word(&password);
        run(&["user", "add", name, "--password-file", file, "--role", role]);
    }
    calls
}

fn login(calls: &Calls, version: Version, user: &str) -> Raw {
    let mut client = calls.server.dial();
    client.send(&connect_as(version, user, true, Some((user, "secret"))));
    client.speaks(version);
    assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
    client
}

/// Bob, who hears everything that he may.
fn bob(calls: &Calls) -> Raw {
    let mut bob = login(calls, Version::V4, "bob");
    bob.subscribe("$private/from/+", 1);
    bob.subscribe("#", 1);
    bob
}

/// What bob hears until his own message.
fn heard(bob: &mut Raw) -> Vec<(String, String)> {
    bob.publish("end", b"");
    let mut heard = Vec::new();
    loop {
        let (topic, payload) = bob.message();
        if topic == "end" {
            return heard;
        }
        heard.push((topic, String::from_utf8(payload).expect("text")));
    }
}

fn pair(topic: &str, payload: &str) -> (String, String) {
    (topic.to_owned(), payload.to_owned())
}

/// `stentor call broadcast` as alice.
fn call(calls: &Calls, args: &[&str]) -> Finished {
    let mut command = server::stentor();
    let url = calls.server.url("mqtt");
    command.args(["call", "-L", url, "-u", "alice", "broadcast"]);
    command.env("STENTOR_PASSWORD", "secret");
    process::run(command.args(args))
}

/// What is printed where all of so many have it.
fn sent(count: usize) -> String {
    format!("{{\"sent\":{count},\"unheard\":0,\"refused\":0,\"missed\":[]}}\n")
}

fn result(said: &Value) -> Value {
    let text = said["result"].as_str().expect("a result");
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn over_mqtt_each_recipient_is_checked() {
    let calls = start();
    let mut bob = bob(&calls);
    let said = call(
        &calls,
        &["-a", "to=bob", "-a", "topic=news/today", "-m", "hi"],
    );
    let all = format!("accept: sent to 2 of 2\n{}", sent(2));
    assert_eq!(said.success(), all);
    let expected = [pair("$private/from/alice", "hi"), pair("news/today", "hi")];
    assert_eq!(heard(&mut bob), expected);
    // What she may not, and who is not there.
    let args = ["to=bob", "to=carol", "to=eve", "topic=olds", "topic=$SYS/x"];
    let args: Vec<&str> = args.iter().flat_map(|arg| ["-a", arg]).collect();
    let said = call(&calls, &[&args[..], &["-m", "ho", "--json"]].concat());
    let said: Value = serde_json::from_str(&said.success()).expect("JSON");
    assert_eq!(said["verdict"], "reject");
    assert_eq!(said["text"], "sent to 1 of 5, 3 refused, 1 unheard");
    let missed = &result(&said)["missed"];
    let status = |at: usize| (&missed[at]["status"], &missed[at]["text"]);
    assert_eq!(missed[0]["to"], "carol");
    assert_eq!(*status(0).0, "nobody-listening");
    assert_eq!(missed[1]["to"], "eve");
    assert_eq!(*status(1).0, "not-allowed");
    assert_eq!(missed[2]["topic"], "olds");
    assert_eq!(*status(2).0, "not-allowed");
    assert_eq!(*status(3).0, "invalid");
    assert_eq!(heard(&mut bob), [pair("$private/from/alice", "ho")]);
    // It needs the right to call, like every procedure, and words that make sense.
    let said = call(&calls, &["-a", "to=bob"]);
    assert!(said.stderr.contains("bad-call"), "{said}");
    let rule = "deny publish $call/broadcast";
    let change = ["role", "change", "writer", "--add", rule];
    calls.server.control(&change).success();
    eventually("the right is gone", || {
        let said = call(&calls, &["-a", "to=bob", "-m", "x"]);
        said.stderr.contains("not-allowed")
    });
}

#[test]
fn a_thousand_recipients_are_reached_and_one_more_is_refused() {
    let calls = start();
    let mut bob = login(&calls, Version::V5, "bob");
    bob.subscribe("news/+", 1);
    let topics: Vec<String> = (0..1_001).map(|n| format!("topic=news/{n}")).collect();
    let args = |count: usize| -> Vec<&str> {
        let each = topics[..count].iter().flat_map(|arg| ["-a", arg.as_str()]);
        each.chain(["-m", "hi"]).collect()
    };
    let said = call(&calls, &args(1_001));
    assert!(said.stderr.contains("the limit is 1000"), "{said}");
    let said = call(&calls, &args(1_000)).success();
    assert!(said.starts_with("accept: sent to 1000 of 1000\n"), "{said}");
    for number in 0..1_000 {
        let (topic, _) = bob.message();
        assert_eq!(topic, format!("news/{number}"), "in their order");
    }
}

#[test]
fn stentor_call_sends_too() {
    let calls = start();
    let mut bob = bob(&calls);
    // The server's owner, who may do everything.
    let words = [
        "/broadcast",
        "-to",
        "bob",
        "-topic",
        "any/thing",
        "-text",
        "hi",
    ];
    assert_eq!(calls.by_unix(&words).success(), sent(2));
    let expected = [pair("$private/from/server", "hi"), pair("any/thing", "hi")];
    assert_eq!(heard(&mut bob), expected);
    // A file is the message, from another machine too. It is refused to those without a name.
    let file = calls.file("message", b"Subject: x\r\n\r\nbody");
    let token = calls
        .server
        .control(&["token", "create", "alice"])
        .success();
    let token = calls.file("token", format!("alice:{token}").as_bytes());
    let words = ["--file", word(&file), "/broadcast", "-to", "bob"];
    assert_eq!(code(&calls.by_tcp(&words)), Some(2));
    let words = [&["--token-file", word(&token)], &words[..]].concat();
    calls.by_tcp(&words).success();
    let expected = pair("$private/from/alice", "Subject: x\r\n\r\nbody");
    assert_eq!(heard(&mut bob), [expected]);
    // Somebody's rights are theirs, whichever way they call.
    let words = [&words[..], &["-to", "eve", "-topic", "olds"]].concat();
    let said = calls.by_tcp(&words);
    assert_eq!(code(&said), Some(1), "{said}");
    let (text, json) = said.stdout.split_once('\n').expect("two lines");
    assert_eq!(text, "sent to 1 of 3, 2 refused");
    let json: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(json["missed"][1]["topic"], "olds");
    heard(&mut bob);
    // What is too long is not sent.
    let file = calls.file("long", &vec![b'x'; 256 * 1024 + 1]);
    let words = ["--file", word(&file), "/broadcast", "-to", "bob"];
    let said = calls.by_unix(&words);
    assert_eq!(code(&said), Some(1), "{said}");
    assert!(said.stdout.contains("more than 262144 bytes"), "{said}");
    assert_eq!(heard(&mut bob), []);
    let log = calls.server.log();
    let line = "procedure=\"broadcast\"";
    assert!(log.contains(line), "each call has a line: {log}");
}

/// Messages wait for those who are away, and a killed server has them when it starts again.
#[test]
fn what_was_sent_survives_a_kill() {
    let calls = start();
    let connect = |calls: &Calls| {
        let mut bob = calls.server.dial();
        bob.send(&connect_as(
            Version::V4,
            "bob",
            false,
            Some(("bob", "secret")),
        ));
        bob.speaks(Version::V4);
        bob.expect(2);
        bob
    };
    let mut bob = connect(&calls);
    bob.subscribe("$private/from/+", 1);
    bob.subscribe("news/#", 1);
    bob.send(&[0xE0, 0]);
    bob.closed();
    let words = [
        "/broadcast",
        "-to",
        "bob",
        "-topic",
        "news/a",
        "-text",
        "hi",
    ];
    assert_eq!(calls.by_unix(&words).success(), sent(2));
    let calls = Calls {
        server: calls.server.kill().start(),
    };
    let mut bob = connect(&calls);
    let mut heard = [bob.message(), bob.message()];
    heard.sort();
    let expected = [("$private/from/server", b"hi"), ("news/a", b"hi")];
    assert_eq!(
        heard,
        expected.map(|(topic, text)| (topic.into(), text.to_vec()))
    );
}

#[test]
fn the_rate_of_the_roles_holds_for_broadcasts() {
    let calls = start();
    let change = ["role", "change", "writer", "--messages-per-sec", "1"];
    calls.server.control(&change).success();
    let args = ["topic=news/1", "topic=news/2", "topic=news/3"];
    let args: Vec<&str> = args.iter().flat_map(|arg| ["-a", arg]).collect();
    let args = [&args[..], &["-m", "x"]].concat();
    eventually(
        "the first one is sent, and the next one has to wait",
        || {
            let said = call(&calls, &args);
            said.stderr.contains("overloaded") && said.stderr.contains("messages_per_sec")
        },
    );
    // Others do not wait for alice.
    let words = ["/broadcast", "-topic", "news/1", "-text", "x"];
    assert_eq!(calls.by_unix(&words).success(), sent(1));
}
