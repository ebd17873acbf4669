//! Procedures that connected MQTT clients serve.

use std::fs;
use std::process::Command;
use std::thread;

use serde_json::Value;
use stentor_tests::raw::{VERSIONS, connect_as, eventually, publish, subscribe};
use stentor_tests::{Finished, Raw, Version, tools};

use crate::{Calls, code, plan, word};

const CHECK: &str = "kind = \"client\"\nversion = \"7\"\nanonymous = true\ndeadline = \"60s\"\n";

/// A server where `worker` may serve /check and /one, and `alice` is an ordinary user.
fn start(files: &[(&str, &str)]) -> Calls {
    let calls = Calls {
        server: plan(files).tcp().start(),
    };
    let password = calls.file("password", b"secret\n");
    let run = |args: &[&str]| {
        calls.server.control(args).success();
    };
    let rules = [
        "--rule",
        "allow subscribe $serve/check/#",
        "--rule",
        "allow subscribe $serve/one/+",
    ];
    run(&[&["role", "add", "server"], &rules[..]].concat());
    run(&["zone", "add", "other"]);
    for (name, role) in [
        ("worker", "server"),
        ("alice", "member"),
        ("other/worker", "server"),
    ] {
        let file = word(&password);
        run(&["user", "add", name, "--password-file", file, "--role", role]);
    }
    calls
}

fn login(calls: &Calls, version: Version, user: &str) -> Raw {
    let mut client = calls.server.dial();
    let login = Some((user, "secret"));
    client.send(&connect_as(version, &user.replace('/', "-"), true, login));
    client.speaks(version);
    assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
    client
}

/// Runs a call on a thread of its own; what comes of it.
fn call<'s>(
    scope: &'s thread::Scope<'s, '_>,
    calls: &'s Calls,
    words: &'static [&'static str],
) -> thread::ScopedJoinHandle<'s, Finished> {
    let words = [&["--deadline", "60s", "--profile", "sysexits"], words].concat();
    scope.spawn(move || calls.by_unix(&words))
}

/// The number of the call that comes next, and its payload.
fn asked(server: &mut Raw, procedure: &str) -> (String, Vec<u8>) {
    let (topic, payload) = server.message();
    let number = topic.strip_prefix(&format!("$serve/{procedure}/"));
    (number.expect(&topic).to_owned(), payload)
}

/// Answers, and says the reason code of the acknowledgement.
fn answer(server: &mut Raw, version: Version, number: &str, json: &str) -> u8 {
    let topic = format!("$answer/{number}");
    server.send(&publish(version, &topic, json.as_bytes(), 1, false));
    let acknowledged = server.expect(4);
    acknowledged.body.get(2).copied().unwrap_or(0)
}

#[test]
fn a_client_serves_both_ways_in_and_mqtt() {
    let calls = start(&[("check.toml", CHECK)]);
    let file = calls.file("m", b"T: u\r\n\r\nbody");
    for version in VERSIONS {
        let mut worker = login(&calls, version, "worker");
        worker.subscribe("$serve/check/+", 0);
        for run in [Calls::by_unix, Calls::by_tcp] {
            thread::scope(|scope| {
                let words = ["--profile", "postfix-pipe", "--file", word(&file)];
                let words = [&words[..], &["--deadline", "60s", "/check", "-a", "b"]].concat();
                let calls = &calls;
                let call = scope.spawn(move || run(calls, &words));
                let (number, payload) = asked(&mut worker, "check");
                assert_eq!(payload, b"T: u\r\n\r\nbody");
                let json = r#"{"verdict":"reject","text":"not this","status":"5.7.9"}"#;
                assert_eq!(answer(&mut worker, version, &number, json), 0);
                let finished = call.join().expect("the call ends");
                assert_eq!(finished.stdout, "5.7.9 not this\n", "{finished}");
                assert_eq!(code(&finished), Some(69));
            });
        }
        // Over MQTT, by a client that is nobody special.
        let mut alice = login(&calls, version, "alice");
        alice.subscribe("$reply/+", 1);
        alice.publish_surely("$call/check/5", b"mail");
        let (number, payload) = asked(&mut worker, "check");
        assert_eq!(payload, b"mail");
        let json = r#"{"verdict":"accept","result":"42"}"#;
        assert_eq!(answer(&mut worker, version, &number, json), 0);
        let (topic, said) = alice.message();
        let said: Value = serde_json::from_slice(&said).expect("JSON");
        assert_eq!(topic, "$reply/5");
        assert_eq!(
            (&said["status"], &said["result"]),
            (&"done".into(), &"42".into())
        );
        assert_eq!(said["version"], "7");
    }
    let log = calls.server.wait_log(0, "procedure=\"check\"");
    let line = log
        .lines()
        .find(|line| line.contains("procedure=\"check\""));
    assert!(line.expect(&log).contains("verdict=\"reject\""), "{log}");
}

#[test]
fn where_nobody_serves_the_call_is_answered_at_once() {
    let calls = start(&[("check.toml", CHECK)]);
    let nobody = |calls: &Calls| {
        let words = ["--profile", "sysexits", "--deadline", "60s", "/check"];
        let finished = calls.by_tcp(&words);
        assert_eq!(code(&finished), Some(75), "{finished}");
        let text = "unavailable: no connected client serves this procedure";
        assert!(finished.stderr.contains(text), "{finished}");
    };
    nobody(&calls);
    // A client that serves another zone's calls does not serve this one's.
    let mut other = login(&calls, Version::V5, "other/worker");
    other.subscribe("$serve/check/+", 0);
    nobody(&calls);
    // Nor one that has unsubscribed, or gone.
    let mut worker = login(&calls, Version::V4, "worker");
    worker.subscribe("$serve/check/+", 0);
    worker.send(&[&[0xA2, 18, 0, 2, 0, 14][..], b"$serve/check/+"].concat());
    worker.expect(11);
    nobody(&calls);
    worker.subscribe("$serve/check/+", 0);
    worker.send(&[0xE0, 0]);
    worker.closed();
    nobody(&calls);
    let status: Value =
        serde_json::from_str(&calls.by_unix(&["/status", "-format", "json"]).stdout).expect("JSON");
    let figures = status["procedures"].as_array().expect("a list").iter();
    let check = figures.into_iter().find(|one| one["procedure"] == "check");
    let check = check.expect("its figures");
    assert_eq!(check["kind"], "client");
    assert_eq!(check["errors"][0], serde_json::json!(["unavailable", 4]));
}

#[test]
fn a_client_that_fails_fails_its_own_calls_only() {
    let hasty = CHECK.replace("60s", "300ms");
    let calls = start(&[("check.toml", CHECK), ("one.toml", &hasty)]);
    let mut worker = login(&calls, Version::V5, "worker");
    worker.subscribe("$serve/#", 0);
    for lie in [
        "",
        "yes",
        "[1]",
        r#"{"verdict":"modified"}"#,
        r#"{"verdict":1}"#,
    ] {
        thread::scope(|scope| {
            let call = call(scope, &calls, &["/check"]);
            let (number, _) = asked(&mut worker, "check");
            assert_eq!(answer(&mut worker, Version::V5, &number, lie), 0);
            let finished = call.join().expect("the call ends");
            assert_eq!(code(&finished), Some(75), "{finished}");
            assert!(
                finished.stderr.contains("failed: the client's answer"),
                "{finished}"
            );
        });
    }
    // One that says nothing.
    let late = calls.by_unix(&["--profile", "sysexits", "--deadline", "60s", "/one"]);
    assert!(late.stderr.contains("timed-out: "), "{late}");
    let (number, _) = asked(&mut worker, "one");
    let json = r#"{"verdict":"accept"}"#;
    // The caller may hear of it a moment before the shard.
    eventually("an answer that is too late is refused", || {
        answer(&mut worker, Version::V5, &number, json) == 0x10
    });
    // One that goes in the middle of a call: it is not waited for.
    thread::scope(|scope| {
        let call = call(scope, &calls, &["/check"]);
        asked(&mut worker, "check");
        drop(worker);
        let finished = call.join().expect("the call ends");
        assert_eq!(code(&finished), Some(75), "{finished}");
        let text = "failed: the connection of the client that served this call has ended";
        assert!(finished.stderr.contains(text), "{finished}");
    });
    assert_eq!(code(&calls.by_unix(&["/noop"])), Some(0));
}

#[test]
fn beyond_what_a_client_may_be_asked_the_call_is_overload() {
    let one = format!("{CHECK}concurrency = 1\nqueue = 0\n");
    let calls = start(&[("one.toml", &one)]);
    let mut worker = login(&calls, Version::V4, "worker");
    worker.subscribe("$serve/one/+", 0);
    thread::scope(|scope| {
        let first = call(scope, &calls, &["/one"]);
        let (number, _) = asked(&mut worker, "one");
        let second = calls.by_tcp(&["--profile", "sysexits", "--deadline", "60s", "/one"]);
        assert!(second.stderr.contains("overloaded: "), "{second}");
        let json = r#"{"verdict":"discard"}"#;
        assert_eq!(answer(&mut worker, Version::V4, &number, json), 0);
        let finished = first.join().expect("the call ends");
        assert_eq!(code(&finished), Some(99), "{finished}");
    });
}

#[test]
fn who_may_serve_is_a_right_that_can_be_taken_away() {
    let calls = start(&[("check.toml", CHECK)]);
    let mut alice = login(&calls, Version::V5, "alice");
    for filter in ["$serve/check/+", "$serve/#"] {
        alice.send(&subscribe(Version::V5, 3, filter, 0));
        assert_eq!(alice.expect(9).body.last(), Some(&0x87), "{filter}");
    }
    let mut worker = login(&calls, Version::V5, "worker");
    worker.subscribe("$serve/check/+", 0);
    // Nobody calls it past the server, and nobody answers for somebody else.
    alice.send(&publish(Version::V5, "$serve/check/1", b"x", 1, false));
    assert_eq!(alice.expect(4).body.get(2), Some(&0x87));
    thread::scope(|scope| {
        let call = call(scope, &calls, &["/check"]);
        let (number, _) = asked(&mut worker, "check");
        let accept = r#"{"verdict":"accept"}"#;
        assert_eq!(answer(&mut alice, Version::V5, &number, accept), 0x10);
        let reject = r#"{"verdict":"reject"}"#;
        assert_eq!(answer(&mut worker, Version::V5, &number, reject), 0);
        assert_eq!(code(&call.join().expect("the call ends")), Some(69));
    });
    // Without the right it is not asked any more, though it is subscribed.
    let rule = "deny subscribe $serve/check/#";
    let change = ["role", "change", "server", "--add", rule];
    calls.server.control(&change).success();
    eventually("the right is gone", || {
        let words = ["--profile", "sysexits", "--deadline", "2s", "/check"];
        calls.by_unix(&words).stderr.contains("unavailable")
    });
    worker.ping_among_messages();
}

/// Ends a program with the test.
pub(crate) struct Ends(pub(crate) std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_of_the_documents_works() {
    let calls = start(&[("check.toml", CHECK)]);
    let page = tools::project().join("docs/procedures.md");
    let page = fs::read_to_string(page).expect("the page can be read");
    let (_, block) = page.split_once("```python\n").expect("an example");
    let (block, _) = block.split_once("\n```").expect("its end");
    let block = block.replace("1883", &calls.server.port("mqtt"));
    let script = calls.file("example.py", block.as_bytes());
    let mut python = Command::new(tools::python("").get_program());
    let child = python.arg(script).spawn().expect("python starts");
    let _ends = Ends(child);
    let (good, bad) = (
        calls.file("g", b"T: u\n\nhi\n"),
        calls.file("b", b"T: u\n\nlottery\n"),
    );
    let ask = |file| calls.by_unix(&["--deadline", "60s", "--file", word(file), "/check"]);
    eventually("the example serves", || {
        !ask(&good).stderr.contains("unavailable")
    });
    assert_eq!(ask(&good).success(), "9 bytes are fine\n");
    let refused = ask(&bad);
    assert_eq!(code(&refused), Some(1), "{refused}");
    assert_eq!(refused.stdout, "no lotteries, please\n");
}
