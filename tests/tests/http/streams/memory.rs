//! What streams hold for readers that are slow.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::{Value, json};
use stentor_tests::raw::{eventually, publish as packet};
use stentor_tests::{Plan, Server, Version};

use super::super::api::bearer;
use super::token;

const MIB: u64 = 1 << 20;

/// Streams of one user.
const READERS: usize = 8;

/// A stream whose reader has little room, so that the server has to hold what it does not read.
fn slow(server: &Server, path: &str, token: &str) -> BufReader<TcpStream> {
    let reader = open(server, path, token);
    setsockopt(reader.get_ref(), sockopt::RcvBuf, &4_096).expect("a socket has a size");
    reader
}

/// A stream that has begun.
fn open(server: &Server, path: &str, token: &str) -> BufReader<TcpStream> {
    let headers = bearer(token);
    let mut stream = TcpStream::connect(server.address("http")).expect("it listens");
    let request = format!("GET /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut reader = BufReader::with_capacity(1_024, stream);
    let mut line = String::new();
    while !line.starts_with("data: ") {
        line.clear();
        let read = reader.read_line(&mut line).expect("it answers");
        assert!(read > 0, "the stream goes on");
    }
    reader
}

/// What `stentor status` says of the memory.
fn memory(server: &Server) -> Value {
    server.json(&["status"])["memory"].take()
}

/// The data of the one event that comes: its chunks without the lines of their sizes.
fn next_data(reader: &mut BufReader<TcpStream>) -> Value {
    let mut text = Vec::new();
    while !text.ends_with(b"\n\n") {
        let mut size = String::new();
        let read = reader.read_line(&mut size).expect("it goes on");
        assert!(read > 0, "the stream goes on");
        // The line behind a chunk is empty.
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or_default();
        let before = text.len();
        text.resize(before + size, 0);
        reader.read_exact(&mut text[before..]).expect("it goes on");
    }
    let data = text.strip_prefix(b"data: ").expect("it is data");
    serde_json::from_slice(data).expect("data is JSON")
}

/// In JSON, a message can be six times as long. The server holds it once for each stream, and
/// counts it; others lose nothing for it.
#[test]
fn slow_readers_of_long_messages_hold_little() {
    let limits = "[limits]\nmemory = \"96MiB\"\nqueue_bytes = \"2MiB\"\n";
    let server = Plan::new().tcp().http().anonymous().config(limits).start();
    let ann = token(&server, "ann", &["member"]);
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| slow(&server, "subscribe?topic=long", &ann))
        .collect();
    let payload = vec![1; 1_000_000];
    let mut pump = server.client(Version::V5, "pump");
    let mut most = 0;
    for _ in 0..12 {
        pump.send(&packet(Version::V5, "long", &payload, 0, false));
        pump.ping();
        for reader in &mut readers {
            reader.consume(reader.buffer().len());
            assert!(!reader.fill_buf().expect("it goes on").is_empty());
        }
        let now = memory(&server);
        let of = |key: &str| now[key].as_u64().expect("a number");
        most = most.max(of("resident_bytes").saturating_sub(of("own_bytes")));
    }
    // A message for each stream, those in the queues of the sessions, and pieces.
    assert!(most < 40 * MIB, "{} MiB", most / MIB);
    eventually("each stream counts its message", || {
        let held = memory(&server)["by_kind"]["connections"].as_u64();
        held >= Some(READERS as u64 * 1_000_000)
    });
    let status = server.json(&["status"]);
    assert_eq!(status["sessions_evicted_by_memory"], 0, "{status}");
    assert_eq!(status["memory"]["state"], "none", "{status}");
    // Without a reader, nothing is held.
    drop(readers);
    eventually("nothing is held for streams", || {
        memory(&server)["by_kind"]["connections"].as_u64() < Some(MIB)
    });
}

/// All streams together hold an eighth of the limit, and little for each. Some of those whose
/// clients do not read end for the others, and then there is room again.
#[test]
fn streams_hold_a_share_of_the_memory() {
    const SLOW: usize = 16;
    let limits = "[limits]\nmemory = \"96MiB\"\nqueue_bytes = \"2MiB\"\n";
    let server = Plan::new().tcp().http().anonymous().config(limits).start();
    let users = ["ann", "bob", "cem"].map(|name| token(&server, name, &["member"]));
    let slow = (0..SLOW).map(|n| slow(&server, "subscribe?topic=long", &users[n % users.len()]));
    let slow: Vec<_> = slow.collect();
    let payload = vec![b'x'; 1_000_000];
    let mut pump = server.client(Version::V5, "pump");
    pump.send(&packet(Version::V5, "long", &payload, 0, false));
    pump.ping();
    let connections = |status: &Value| {
        let held = status["memory"]["by_kind"]["connections"].as_u64();
        held.expect("a number")
    };
    // At most twelve of them hold a message. Another one waits for room, until one has ended.
    eventually("a slow stream has ended", || {
        let status = server.json(&["status"]);
        // An eighth, and what is on its way to each.
        let most = 12 * MIB + SLOW as u64 * MIB / 8;
        let held = connections(&status);
        assert!(held <= most, "{held} of {most}");
        status["clients_connected"].as_u64() < Some(SLOW as u64 + 1)
    });
    // The log says which one, and from where.
    let log = server.wait_lines(1, &["disconnected", "reason=\"memory\""]);
    let line = log.lines().find(|line| line.contains("reason=\"memory\""));
    let line = line.expect("there is one");
    let ports = slow.iter().map(|it| it.get_ref().local_addr());
    let mut peers = ports.map(|it| format!("peer=\"{}\"", it.expect("it has an address")));
    assert!(peers.any(|peer| line.contains(&peer)), "{line}");
    let status = server.json(&["status"]);
    assert_eq!(status["sessions_evicted_by_memory"], 0, "{status}");
    drop(slow);
    eventually("nothing is held for streams", || {
        connections(&server.json(&["status"])) < MIB
    });
    let mut quick = open(&server, "subscribe?topic=long", &users[0]);
    let mut line = String::new();
    quick.read_line(&mut line).expect("it goes on");
    quick.read_line(&mut line).expect("it goes on");
    pump.send(&packet(Version::V5, "long", &payload, 0, false));
    let message = next_data(&mut quick);
    let length = message["payload"].as_str().map(str::len);
    assert_eq!(length, Some(payload.len()));
}

/// However a message is cut on its way, it arrives whole.
#[test]
fn a_long_message_arrives_whole() {
    let server = crate::server();
    let ann = token(&server, "ann", &["member"]);
    let mut reader = open(&server, "subscribe?topic=%23", &ann);
    let mut pump = server.client(Version::V5, "pump");
    let text: String = "\u{1}\"ä\\\u{1F600}\n".repeat(60_000);
    let binary: Vec<u8> = (0..=255).cycle().take(1_000_000).collect();
    // The end of the first event, and of its chunk.
    let mut line = String::new();
    reader.read_line(&mut line).expect("it goes on");
    reader.read_line(&mut line).expect("it goes on");
    for _ in 0..2 {
        pump.publish("text", text.as_bytes());
        let message = next_data(&mut reader);
        assert!(message["payload"] == json!(text));
        pump.publish("binary", &binary);
        let message = next_data(&mut reader);
        assert!(message["payload_base64"] == json!(STANDARD.encode(&binary)));
        pump.publish("short", b"x");
        assert_eq!(next_data(&mut reader)["payload"], "x");
    }
}
