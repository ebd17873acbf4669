//! How long a shard is busy with one turn: what the operator sees of it.

use stentor_tests::raw::{eventually, packet, publish, string};
use stentor_tests::{Plan, Raw, Version};

/// With a bound that every turn meets.
#[test]
fn a_long_turn_is_in_the_log_and_in_status_with_what_it_did() {
    let plan = Plan::new()
        .tcp()
        .anonymous()
        .arg("--shards=1")
        .config("[log]\nslow_turn = \"1us\"");
    let server = plan.start();
    let mut client = server.client(Version::V5, "the-one");
    client.subscribe("a/#", 0);
    client.publish("a/b", b"x");
    assert_eq!(client.message().1, b"x");
    // A line a second; a turn between two of them is only counted.
    let is_told = || {
        client.ping();
        server.log().contains("client=\"the-one\" visits")
    };
    eventually("a line names the client", is_told);
    let log = server.log();
    let line = log
        .lines()
        .find(|line| line.contains("client=\"the-one\" visits"));
    let line = line.unwrap_or_default();
    for part in [
        "waited_ms=",
        "ran_ms=",
        "visits=",
        "packets=",
        "deliveries=",
        "flushes=",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let status = server.json(&["status", "--sample-ms", "0"]);
    for turns in [&status["long_turns"], &status["shards"][0]["long_turns"]] {
        assert!(turns["count"].as_u64() > Some(1), "{turns}");
        for which in ["longest", "longest_lately"] {
            assert!(turns[which]["micros"].as_u64() > Some(0), "{turns}");
            assert!(turns[which]["visits"].is_u64(), "{turns}");
        }
    }
    let text = server.control(&["status", "--sample-ms", "0"]).success();
    assert!(text.contains("LONG TURNS"), "{text}");
}

#[test]
fn with_a_bound_of_zero_no_turn_is_long() {
    let plan = Plan::new()
        .tcp()
        .anonymous()
        .config("[log]\nslow_turn = \"0s\"");
    let server = plan.start();
    let mut client = server.client(Version::V5, "c");
    client.ping();
    let status = server.json(&["status", "--sample-ms", "0"]);
    assert_eq!(status["long_turns"]["count"], 0);
    assert!(!server.log().contains("long turn"));
}

/// Messages of a few bytes, far more than one turn takes of a client.
fn many(count: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The topic once, and its alias from then on.
    let set = [&string("flood")[..], &[3, 0x23, 0, 1]].concat();
    bytes.extend(packet(0x30, &set));
    for number in 0..count {
        let body = [&[0, 0, 3, 0x23, 0, 1], &number.to_be_bytes()[..]].concat();
        bytes.extend(packet(0x30, &body));
    }
    bytes
}

fn numbers(subscriber: &mut Raw, count: u16) {
    assert_eq!(subscriber.message().1, b"");
    for number in 0..count {
        assert_eq!(subscriber.message().1, number.to_be_bytes());
    }
}

#[test]
fn what_takes_many_turns_arrives_whole_and_in_order() {
    let server = Plan::new().tcp().anonymous().start();
    let mut subscriber = server.client(Version::V5, "s");
    subscriber.subscribe("flood", 0);
    let mut flooder = server.client(Version::V5, "f");
    let mut bytes = many(20_000);
    bytes.extend(publish(Version::V5, "done", b"", 0, false));
    bytes.extend([0xC0, 0]);
    flooder.send(&bytes);
    numbers(&mut subscriber, 20_000);
    flooder.expect(13);
}

/// A connection that is taken over while it has more to be read than a turn takes.
#[test]
fn what_was_sent_before_a_take_over_is_read_to_its_end() {
    let server = Plan::new().tcp().anonymous().arg("--shards=1").start();
    let mut subscriber = server.client(Version::V5, "s");
    subscriber.subscribe("flood", 0);
    for _ in 0..5 {
        let mut flooder = server.client(Version::V5, "f");
        flooder.send(&many(9_000));
        server.client(Version::V5, "f").ping();
        numbers(&mut subscriber, 9_000);
    }
}

/// What a client has sent counts also where its DISCONNECT comes long after it, and its next
/// connection before that was read: its will is not published.
#[test]
fn a_disconnect_behind_a_flood_is_read_before_a_take_over() {
    let server = Plan::new().tcp().anonymous().arg("--shards=1").start();
    let mut subscriber = server.client(Version::V5, "s");
    subscriber.subscribe("#", 0);
    for _ in 0..5 {
        let mut flooder = server.dial();
        let head = [&string("MQTT")[..], &[5, 0b0000_0110, 0, 0, 0]].concat();
        let will = [&[0][..], &string("will"), &string("gone")].concat();
        flooder.send(&packet(0x10, &[&head[..], &string("f"), &will].concat()));
        assert_eq!(flooder.expect(2).body[1], 0, "it is let in");
        let mut bytes = many(9_000);
        bytes.extend(packet(0xE0, &[]));
        flooder.send(&bytes);
        let mut next = server.client(Version::V5, "f");
        next.publish("next", b"");
        numbers(&mut subscriber, 9_000);
        assert_eq!(subscriber.message().0, "next");
    }
}
