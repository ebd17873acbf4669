//! How long a shard is busy with one turn: what the operator sees of it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stentor_tests::raw::{
    connect, connect_with_will, eventually, packet, publish, remaining_length, string,
};
use stentor_tests::{Plan, Raw, Server, Version};

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
    assert!(text.contains("turns that took too long: "), "{text}");
    assert!(!text.contains("MESH QUEUE"), "no inner words: {text}");
    let more = ["status", "--sample-ms", "0", "--verbose"];
    let text = server.control(&more).success();
    assert!(
        text.contains("LONG TURNS") && text.contains("MESH QUEUE"),
        "{text}"
    );
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
        flooder.send(&connect_with_will("f", "will"));
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

/// Has the server find all at once what is done meanwhile.
fn while_it_stands_still(server: &Server, act: impl FnOnce()) {
    let pid = Pid::from_raw(server.pid());
    kill(pid, Signal::SIGSTOP).expect("a server can be stopped");
    act();
    kill(pid, Signal::SIGCONT).expect("a server goes on");
}

/// The connections of a client that come at once are let in one after the other, whatever it has
/// sent by an earlier one, and however that ends.
#[test]
fn all_connections_of_a_client_get_an_answer() {
    const CLIENTS: usize = 60;
    let server = Plan::new().tcp().anonymous().arg("--shards=1").start();
    let mut subscriber = server.client(Version::V5, "s");
    subscriber.subscribe("load/#", 0);
    for round in 1..=2 {
        let id = |number: usize| format!("client-{number}");
        let mut first: Vec<_> = (0..CLIENTS)
            .map(|number| server.client(Version::V5, &id(number)))
            .collect();
        let mut next: Vec<Vec<_>> = first
            .iter()
            .map(|_| (0..4).map(|_| server.dial()).collect())
            .collect();
        while_it_stands_still(&server, || {
            for (number, client) in first.iter_mut().enumerate() {
                let one = publish(Version::V5, &format!("load/{number}"), b"1", 0, false);
                let two = publish(Version::V5, "load/2", b"2", 0, false);
                client.send(&[one, two].concat().repeat(100 + 20 * number));
                client.send(&packet(0xE0, &[]));
            }
            for (number, connections) in next.iter_mut().enumerate() {
                for connection in connections {
                    connection.send(&connect(Version::V5, &id(number), true));
                }
            }
        });
        for connection in next.iter_mut().flatten() {
            assert_eq!(connection.expect(2).body[1], 0, "round {round}");
        }
        for number in 0..CLIENTS {
            server.client(Version::V5, &id(number)).ping();
        }
    }
}

/// A CONNECT with thousands of properties waits for its turn: a client that logs in by a short one
/// does not wait for all that came before.
#[test]
fn long_connects_stand_in_line() {
    const LONG: usize = 40;
    let server = Plan::new().tcp().anonymous().arg("--shards=1").start();
    let mut long: Vec<_> = (0..LONG).map(|_| server.dial()).collect();
    let mut short = server.dial();
    let property = [&[0x26][..], &string("k"), &string("v")].concat();
    let properties = property.repeat(4_000);
    while_it_stands_still(&server, || {
        for (number, client) in long.iter_mut().enumerate() {
            let head = [&string("MQTT")[..], &[5, 2, 0, 0]].concat();
            let length = remaining_length(properties.len());
            let id = string(&format!("long-{number}"));
            client.send(&packet(
                0x10,
                &[&head[..], &length, &properties, &id].concat(),
            ));
        }
        short.send(&connect(Version::V5, "short", true));
    });
    for client in long.iter_mut().chain([&mut short]) {
        assert_eq!(client.expect(2).body[1], 0);
    }
    let log = server.wait_lines(LONG + 1, &[" connected "]);
    let mut lines = log.lines().filter(|line| line.contains(" connected "));
    let before = lines.position(|line| line.contains("\"short\""));
    let is_early = before.is_some_and(|before| before < LONG / 2);
    assert!(is_early, "{before:?}: {log}");
}

/// Many connections end while others come in their places.
#[test]
fn nobody_gets_what_another_was_told_at_the_end() {
    const CLIENTS: usize = 600;
    let server = Plan::new().tcp().anonymous().arg("--shards=1").start();
    let all = |what: &str| -> Vec<_> {
        (0..CLIENTS)
            .map(|number| server.client(Version::V5, &format!("{what}-{number}")))
            .collect()
    };
    let (taken_over, mut broken) = (all("taken"), all("broken"));
    let mut successors: Vec<_> = taken_over.iter().map(|_| server.dial()).collect();
    let mut strangers = Vec::new();
    while_it_stands_still(&server, || {
        for (number, successor) in successors.iter_mut().enumerate() {
            let id = format!("taken-{number}");
            successor.send(&connect(Version::V5, &id, true));
        }
        for client in &mut broken {
            client.send(&[0, 0]);
            client.half_close();
        }
        drop(taken_over);
        for number in 0..2 * CLIENTS {
            let mut stranger = server.dial();
            stranger.send(&connect(Version::V5, &format!("stranger-{number}"), true));
            strangers.push(stranger);
        }
    });
    for connection in successors.iter_mut().chain(&mut strangers) {
        assert_eq!(connection.expect(2).body[1], 0);
    }
    for stranger in &mut strangers {
        stranger.ping();
    }
}
