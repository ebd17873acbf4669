//! Thousands of calls at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use stentor_tests::raw::{connect_as, eventually, packet, publish, string};
use stentor_tests::{DEADLINE, Raw, Version};

use crate::held::Held;
use crate::{Calls, code, plan, word};

/// Calls in flight by each way in.
const EACH: usize = 1_500;
/// Calls that the client which serves them has at a time.
const SERVED: usize = 32;
/// How long callers wait, in seconds: far more than it takes.
const PATIENCE_SECS: u32 = 300;

/// A caller's connection, on which an answer is to come.
enum Line {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Line {
    fn send(&mut self, bytes: &[u8]) {
        let sent = match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        };
        sent.expect("the server takes a call");
    }

    /// Status, verdict and text of the answer.
    fn answer(mut self) -> (u8, u8, String) {
        let mut bytes = Vec::new();
        let read = match &mut self {
            Self::Unix(stream) => {
                stream
                    .set_read_timeout(Some(DEADLINE))
                    .expect("a time limit");
                stream.read_to_end(&mut bytes)
            }
            Self::Tcp(stream) => {
                stream
                    .set_read_timeout(Some(DEADLINE))
                    .expect("a time limit");
                stream.read_to_end(&mut bytes)
            }
        };
        read.expect("an answer comes, and the connection ends");
        assert_eq!(bytes.first(), Some(&0x83), "an ANSWER: {bytes:02x?}");
        let body = &bytes[5..];
        let at = 5 + usize::from(body[4]);
        let len = usize::from(u16::from_be_bytes([body[at], body[at + 1]]));
        let text = String::from_utf8(body[at + 2..at + 2 + len].to_vec());
        (body[0], body[1], text.expect("text"))
    }
}

/// A CALL of /held about a message that is all there, as docs/call-protocol.md has it.
fn call(message: &str) -> Vec<u8> {
    let message = message.as_bytes();
    let mut body = b"STCL\x01\x00\x02\x00".to_vec();
    body.extend((PATIENCE_SECS * 1000).to_be_bytes());
    body.extend((message.len() as u64).to_be_bytes());
    body.extend(b"\x04held\0\0\0\0");
    body.extend((message.len() as u32).to_be_bytes());
    body.extend(message);
    let mut frame = vec![0x01];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

/// The same over MQTT 5, with the time that the caller waits.
fn publish_call(number: usize, message: &str) -> Vec<u8> {
    let mut body = string(&format!("$call/held/{number}"));
    body.extend([5, 2]);
    body.extend(PATIENCE_SECS.to_be_bytes());
    body.extend(message.as_bytes());
    packet(0x30, &body)
}

pub(crate) fn login(calls: &Calls, version: Version, user: &str) -> Raw {
    let mut client = calls.server.dial();
    client.send(&connect_as(version, user, true, Some((user, "secret"))));
    client.speaks(version);
    assert_eq!(client.expect(2).body[1], 0, "{user} is let in");
    client
}

/// Answers calls with their own text, for as long as there are some.
fn serve(mut worker: Raw, count: usize) {
    for _ in 0..count {
        let (topic, payload) = worker.message();
        let number = topic.strip_prefix("$serve/held/").expect(&topic);
        let text = String::from_utf8(payload).expect("text");
        let json = serde_json::json!({ "verdict": "discard", "text": text }).to_string();
        let topic = format!("$answer/{number}");
        worker.send(&publish(Version::V4, &topic, json.as_bytes(), 0, false));
    }
}

#[test]
fn each_of_thousands_gets_its_own_answer() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("it can be raised");
    let total = 3 * EACH;
    let manifest = format!(
        "kind = \"client\"\nanonymous = true\ndeadline = \"300s\"\nconcurrency = {SERVED}\n\
         queue = {}\n",
        total - SERVED
    );
    let calls = Calls {
        server: plan(&[("held.toml", &manifest)]).tcp().start(),
    };
    let password = calls.file("password", b"secret\n");
    let file = word(&password);
    let run = |args: &[&str]| {
        calls.server.control(args).success();
    };
    let rule = "allow both $#";
    run(&["role", "add", "server", "--rule", rule]);
    run(&[
        "user",
        "add",
        "worker",
        "--password-file",
        file,
        "--role",
        "server",
    ]);
    run(&["user", "add", "alice", "--password-file", file]);
    let mut worker = login(&calls, Version::V4, "worker");
    worker.subscribe("$serve/held/+", 0);
    let mut alice = login(&calls, Version::V5, "alice");
    alice.subscribe("$reply/+", 0);

    let socket = calls.server.folder().join("call.sock");
    let mut lines = Vec::new();
    let waiting = |what: &str, count: usize| {
        eventually(what, || {
            let status = calls.by_unix(&["/status", "-format", "json"]).success();
            let status: Value = serde_json::from_str(&status).expect("JSON");
            let mut figures = status["procedures"].as_array().expect("a list").iter();
            let held = figures.find(|one| one["procedure"] == "held");
            held.expect("its figures")["waiting"] == count
        });
    };
    // A user does not get the last places of the queue.
    for number in 0..EACH {
        alice.send(&publish_call(number, &format!("mqtt {number}")));
    }
    waiting("those of a user are in flight", EACH - SERVED);
    for number in 0..EACH {
        let unix = UnixStream::connect(&socket).expect("a caller is taken");
        let tcp = TcpStream::connect(calls.server.address("call")).expect("a caller is taken");
        for (mut line, way) in [(Line::Unix(unix), "unix"), (Line::Tcp(tcp), "tcp")] {
            let text = format!("{way} {number}");
            line.send(&call(&text));
            lines.push((line, text));
        }
    }
    waiting("all are in flight", total - SERVED);
    // One more is too many.
    let words = ["--profile", "sysexits", "--deadline", "60s", "/held"];
    let one = calls.by_unix(&words);
    assert_eq!(code(&one), Some(75), "{one}");
    let text = "overloaded: too many calls are waiting";
    assert!(one.stderr.contains(text), "{one}");
    // A flood of them does not fill the log.
    for _ in 0..4 {
        assert_eq!(code(&calls.by_unix(&words)), Some(75));
    }
    let parts = ["WARN", "procedure=\"held\"", "too many calls are waiting"];
    let log = calls.server.wait_lines(1, &parts);
    let told = log.lines().filter(|line| line.contains(parts[2]));
    assert_eq!(told.count(), 1, "{log}");
    // Other procedures go on.
    assert_eq!(code(&calls.by_tcp(&["/noop"])), Some(0));

    std::thread::scope(|scope| {
        scope.spawn(|| serve(worker, total));
        for (line, text) in lines {
            assert_eq!(line.answer(), (0, 4, text));
        }
        let mut left: Vec<bool> = vec![true; EACH];
        for _ in 0..EACH {
            let (topic, said) = alice.message();
            let said: Value = serde_json::from_slice(&said).expect("JSON");
            let number: usize = topic["$reply/".len()..].parse().expect("a number");
            assert_eq!(said["text"], format!("mqtt {number}"), "{said}");
            assert_eq!(said["verdict"], "discard");
            assert!(std::mem::take(&mut left[number]), "{topic} came twice");
        }
    });
}

/// Callers beyond `procedures.connections` of their listener are told so, and find their server
/// later; other listeners have places of their own.
#[test]
fn too_many_callers_are_told_so() {
    let plan = plan(&[]);
    let held = Held::new(plan.folder(), 4);
    let config = "[procedures]\nconnections = 4\n";
    let calls = Calls {
        server: plan.config(config).start(),
    };
    let socket = calls.server.folder().join("call.sock");
    let lines: Vec<_> = (0..4)
        .map(|_| {
            let mut line = Line::Unix(UnixStream::connect(&socket).expect("it is taken"));
            line.send(&call("one"));
            held.wait();
            line
        })
        .collect();
    let finished = calls.by_unix(&["--profile", "sysexits", "/noop"]);
    assert_eq!(code(&finished), Some(75), "{finished}");
    let text = "overloaded: too many callers are connected";
    assert!(finished.stderr.contains(text), "{finished}");
    assert_eq!(code(&calls.by_tcp(&["/noop"])), Some(0));
    lines.iter().for_each(|_| held.release());
    for line in lines {
        assert_eq!(line.answer().1, 2, "they are rejected");
    }
    eventually("there is room again", || {
        code(&calls.by_unix(&["/noop"])) == Some(0)
    });
}

/// A call of /noop, of which nobody has to show who they are.
fn call_of_nothing() -> Vec<u8> {
    let mut body = b"STCL\x01\x00\x00\x00".to_vec();
    body.extend((PATIENCE_SECS * 1000).to_be_bytes());
    body.extend([0; 8]);
    body.extend(b"\x04noop\0\0\0\0\0\0\0\0");
    let mut frame = vec![0x01];
    frame.extend((body.len() as u32).to_be_bytes());
    frame.extend(body);
    frame
}

/// A crowd that calls again and again by one listener keeps nobody from another one, nor from those
/// who came before it, and the server ends.
#[test]
fn a_crowd_leaves_turns_to_others() {
    let calls = Calls::start(&[]);
    let address = calls.server.address("call");
    let is_over = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // Until the server ends.
                    let Ok(mut stream) = TcpStream::connect(&address) else {
                        break;
                    };
                    let sent = stream.write_all(&call_of_nothing());
                    let read = sent.and_then(|()| stream.read_to_end(&mut Vec::new()));
                    if read.is_ok_and(|read| read > 0) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        eventually("the crowd is there", || {
            answered.load(Ordering::Relaxed) > 100
        });
        for _ in 0..20 {
            let finished = calls.by_unix(&["--deadline", "60s", "/noop"]);
            assert_eq!(code(&finished), Some(0), "{finished}");
        }
        let Calls { mut server } = calls;
        server.stop();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Those who say nothing keep nobody out, neither here nor on another listener.
#[test]
fn the_silent_make_room() {
    let config = "[procedures]\nconnections = 4\n";
    let calls = Calls {
        server: plan(&[]).config(config).start(),
    };
    let socket = calls.server.folder().join("call.sock");
    let address = calls.server.address("call");
    let silent: Vec<_> = (0..300)
        .map(|_| {
            let unix = UnixStream::connect(&socket).expect("it is taken");
            (unix, TcpStream::connect(&address).expect("it is taken"))
        })
        .collect();
    for run in [Calls::by_unix, Calls::by_tcp] {
        for _ in 0..10 {
            let finished = run(&calls, &["--profile", "sysexits", "/noop"]);
            assert_eq!(code(&finished), Some(0), "{finished}");
        }
    }
    // The first ones were told why they had to go.
    let mut lines = silent.into_iter();
    let (unix, tcp) = lines.next().expect("there are some");
    for (line, reason) in [
        (Line::Unix(unix), "too many callers are connected"),
        (Line::Tcp(tcp), "too many callers without a token"),
    ] {
        let (status, _, text) = line.answer();
        assert_eq!(status, 3, "overloaded");
        assert!(text.contains(reason), "{text}");
    }
}

/// A caller that announces a message and never sends it is told that its time is over, by its
/// deadline.
#[test]
fn a_message_that_never_comes_times_out() {
    let script = "--[[ procedure\nneeds = \"body\"\nanonymous = true\n]]
        return function() return accept() end";
    let calls = Calls::start(&[("held.luau", script)]);
    let stream = TcpStream::connect(calls.server.address("call")).expect("it is taken");
    let mut line = Line::Tcp(stream);
    let mut frame = call("head");
    // 300 ms, and more bytes than come.
    frame[13..17].copy_from_slice(&300_u32.to_be_bytes());
    frame[17..25].copy_from_slice(&100_u64.to_be_bytes());
    line.send(&frame);
    let Line::Tcp(mut stream) = line else {
        unreachable!("it is this kind");
    };
    let mut ask = [0; 5];
    stream
        .read_exact(&mut ask)
        .expect("the message is asked for");
    assert_eq!(ask, *b"\x81\0\0\0\0");
    let (status, _, text) = Line::Tcp(stream).answer();
    assert_eq!(status, 4, "timed out");
    assert!(text.contains("did not come"), "{text}");
    let status = calls.by_unix(&["/status", "-format", "json"]).success();
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let mut figures = status["procedures"].as_array().expect("a list").iter();
    let held = figures.find(|one| one["procedure"] == "held");
    assert_eq!(held.expect("its figures")["calls"], 1);
}
