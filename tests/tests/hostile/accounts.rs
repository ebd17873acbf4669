//! What clients make the server hold stands in its accounts, whatever they hold it by.

use serde_json::Value;
use stentor_tests::raw::{eventually, string};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::Healthy;

const CLIENTS: u64 = 40;

/// Bytes that each of them sends of a packet.
const SENT: usize = 100_000;

/// Bytes of a kind, of all there are.
fn held(memory: &Value, kind: &str) -> u64 {
    let held = memory["by_kind"][kind].as_u64();
    held.unwrap_or_else(|| panic!("{kind} of {memory}"))
}

fn memory(server: &Server) -> Value {
    server.json(&["status", "--sample-ms", "0"])["memory"].take()
}

/// Has clients send the beginning of something long, and looks for it.
fn part_of_packets(server: &Server, mut begin: impl FnMut(u64) -> Raw) {
    let mut healthy = Healthy::new(server);
    let before = memory(server);
    let clients: Vec<Raw> = (0..CLIENTS).map(&mut begin).collect();
    let least = CLIENTS * SENT as u64;
    eventually("what has come so far is counted", || {
        held(&memory(server), "connections") >= held(&before, "connections") + least
    });
    let memory_now = memory(server);
    let sum = |memory: &Value| memory["held_bytes"].as_u64();
    let resident = |memory: &Value| memory["resident_bytes"].as_u64();
    assert!(sum(&memory_now) >= sum(&before).map(|sum| sum + least));
    // The process has them, and was told to have had nothing of that by itself.
    assert!(resident(&memory_now) >= Some(least), "{memory_now}");
    assert!(memory_now["own_bytes"].as_u64() > Some(0), "{memory_now}");
    assert_eq!(memory_now["overgrown"], false);
    // No more than twice that: a buffer that grows has room for as much again.
    let connections = held(&memory_now, "connections");
    assert!(connections <= held(&before, "connections") + 2 * least + 64 * 1_024);
    healthy.check();
    drop(clients);
    eventually("nothing is left of it", || {
        held(&memory(server), "connections") <= held(&before, "connections")
    });
    healthy.check();
}

#[test]
fn packets_that_have_not_come_whole_are_counted() {
    let server = Plan::new().tcp().anonymous().start();
    part_of_packets(&server, |number| {
        let mut client = server.client(Version::V4, &format!("slow{number}"));
        // It is to have 131,071 bytes.
        client.send(&[&[0x30, 0xFF, 0xFF, 0x07][..], &vec![b'x'; SENT]].concat());
        client
    });
}

/// Nobody knows yet who they are.
#[test]
fn log_ins_that_have_not_come_whole_are_counted() {
    let config = "[limits]\nlogin_timeout = \"300s\"\n";
    let server = Plan::new().config(config).tcp().anonymous().start();
    part_of_packets(&server, |_| {
        let mut client = server.dial();
        // With a will, a user name and a password that is not there yet.
        let head = [&string("MQTT")[..], &[4, 0b1100_0110, 0, 0]].concat();
        let texts = ["c", "will", &"x".repeat(65_535), &"x".repeat(SENT - 65_535)];
        let body = [head, texts.map(string).concat()].concat();
        client.send(&[&[0x10, 0xFF, 0xFF, 0x07][..], &body].concat());
        client
    });
}
