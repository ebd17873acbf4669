//! `stentor trace`: the packets of some clients, while it runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;
use stentor_tests::raw::eventually;
use stentor_tests::{Server, Version, server};

/// A trace that has begun, and its lines.
struct Trace {
    child: Child,
    lines: Box<dyn Iterator<Item = Value>>,
}

impl Trace {
    /// The next packet: whose, which way, its type, its topic.
    fn next(&mut self) -> Option<[String; 4]> {
        let line = self.lines.next()?;
        let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
        Some(["client_id", "way", "packet", "topic"].map(word))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begun(server: &Server) -> usize {
    let log = fs::read_to_string(server.data_dir().join("audit.log")).unwrap_or_default();
    log.matches("\"what\":\"traces.start\"").count()
}

fn trace(server: &Server, options: &[&str]) -> Trace {
    let before = begun(server);
    let mut command = server::stentor();
    command.args(["trace", "--json"]).args(options);
    command.arg("--data-dir").arg(server.data_dir());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let out = child.stdout.take().expect("it is piped");
    let lines = BufReader::new(out).lines().map(|line| {
        let line = line.expect("it can be read");
        serde_json::from_str::<Value>(&line).expect("it is JSON")
    });
    eventually("the trace has begun", || begun(server) > before);
    let lines = Box::new(lines);
    Trace { child, lines }
}

/// Packets in both directions, also of a connection that was there before, and of nobody else.
#[test]
fn the_packets_of_a_client_are_shown_in_both_directions() {
    let server = Server::open();
    let mut pump = server.client(Version::V5, "pump");
    let mut lamp = server.client(Version::V5, "lamp");
    let mut trace = trace(&server, &["--client", "pump", "--payload", "5"]);
    lamp.publish_surely("x", b"hello world");
    pump.publish_surely("a/b", b"hello world");
    let first = trace.lines.next().expect("a packet");
    assert_eq!(first["packet"], "PUBLISH", "{first}");
    assert_eq!(first["payload"], "hello", "{first}");
    let text = first["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("qos=1 id=1") && text.contains("payload=11 bytes"),
        "{text}"
    );
    assert_eq!(
        trace.next().expect("another"),
        ["pump", "sent", "PUBACK", "-"]
    );
    drop(pump);
    let mut pump = server.client(Version::V4, "pump");
    assert_eq!(
        trace.next().expect("another"),
        ["pump", "sent", "CONNACK", "-"]
    );
    pump.subscribe("c/#", 0);
    assert_eq!(
        trace.next().expect("another"),
        ["pump", "received", "SUBSCRIBE", "-"]
    );
    assert_eq!(
        trace.next().expect("another"),
        ["pump", "sent", "SUBACK", "-"]
    );
    lamp.publish_surely("c/d", b"hello world");
    assert_eq!(
        trace.next().expect("another"),
        ["pump", "sent", "PUBLISH", "c/d"]
    );
}

#[test]
fn a_topic_is_followed_from_its_publisher_to_its_readers_until_the_last_line() {
    let server = Server::open();
    let mut reader = server.client(Version::V5, "reader");
    reader.subscribe("#", 0);
    let mut writer = server.client(Version::V5, "writer");
    let mut trace = trace(&server, &["--topic", "a/+", "--lines", "2"]);
    for topic in ["b", "a/b/c", "a/b"] {
        writer.publish_surely(topic, b"hello world");
    }
    let both = [
        trace.next().expect("a packet"),
        trace.next().expect("another"),
    ];
    assert!(both.contains(&["writer", "received", "PUBLISH", "a/b"].map(str::to_owned)));
    assert!(both.contains(&["reader", "sent", "PUBLISH", "a/b"].map(str::to_owned)));
    assert_eq!(trace.next(), None, "it had two lines");
    assert!(trace.child.wait().expect("it has ended").success());
    for (options, says) in [
        (&[][..], "--client ID"),
        (&["--topic", "a/#/b"], "is not a topic filter"),
        (&["--address", "pump"], "names no address"),
        (&["--zone", "nowhere"], "there is no zone"),
    ] {
        let refused = server.control(&[&["trace"], options].concat()).refusal();
        assert!(refused.contains(says), "{options:?}: {refused}");
    }
}

/// Traces are listed with who began them, and can be ended by others.
#[test]
fn traces_are_listed_and_ended() {
    let server = Server::open();
    let list = || server.json(&["trace", "ls"])["traces"].clone();
    assert_eq!(list(), serde_json::json!([]));
    let mut pump = server.client(Version::V5, "pump");
    let mut trace = trace(
        &server,
        &["--client", "pump", "--zone", "default", "--for", "1m"],
    );
    eventually("a packet is noted", || {
        pump.ping();
        list()[0]["packets"].as_u64() > Some(1)
    });
    let running = list()[0].clone();
    let uid = nix::unistd::getuid();
    assert_eq!(
        running["by"],
        format!("uid {uid} by the control socket"),
        "{running}"
    );
    assert_eq!(
        (&running["client_id"], &running["zone"]),
        (&"pump".into(), &"default".into())
    );
    assert_eq!(
        (&running["user"], &running["topic"]),
        (&Value::Null, &Value::Null)
    );
    assert!(running["ends_in_secs"].as_u64() <= Some(60), "{running}");
    let text = server.control(&["trace", "ls"]).success();
    assert!(text.contains("--client pump --zone default"), "{text}");
    let id = running["id"].to_string();
    server.control(&["trace", "stop", &id]).success();
    while trace.next().is_some() {}
    assert_eq!(list(), serde_json::json!([]));
    let refused = server.control(&["trace", "stop", "99"]).refusal();
    assert!(refused.contains("ended"), "{refused}");
    // Options of a trace are none of its list.
    assert_eq!(
        server
            .control(&["trace", "--client", "a", "ls"])
            .status
            .code(),
        Some(2)
    );
}
