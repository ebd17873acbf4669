//! Queues keep messages while nobody is there to take them.

use std::collections::BTreeSet;

use stentor_tests::raw::{self, eventually, packet, string};
use stentor_tests::{Packet, Plan, Raw, Server, Version};

use crate::{acknowledge, acknowledged};

const JOBS: &str = "$queue/jobs/jobs/#";

/// A plan with a queue `jobs` of the topics below `jobs`, and more keys of it.
fn plan(more: &str) -> Plan {
    let queue = format!("[[queue]]\nname = \"jobs\"\nfilter = \"jobs/#\"\n{more}\n");
    Plan::new().tcp().anonymous().config(&queue)
}

/// A member that leaves no session behind.
#[track_caller]
fn member(server: &Server, client_id: &str, filter: &str) -> Raw {
    let mut member = server.client(Version::V5, client_id);
    member.subscribe(filter, 1);
    member
}

fn publish(server: &Server, payloads: impl Iterator<Item = usize>) {
    let mut publisher = server.client(Version::V4, "publisher");
    for payload in payloads {
        publisher.publish_surely("jobs/1", payload.to_string().as_bytes());
    }
}

/// The next messages of a member, which acknowledges them.
#[track_caller]
fn take(member: &mut Raw, count: usize) -> Vec<usize> {
    let mut one = || String::from_utf8(acknowledged(member)).expect("a text");
    (0..count)
        .map(|_| one().parse().expect("a number"))
        .collect()
}

#[test]
fn a_queue_keeps_messages_for_the_member_that_comes_first_also_over_a_kill() {
    for kills in [true, false] {
        let server = plan("").variable("STENTOR_SHARDS", "3").start();
        publish(&server, 0..5);
        let plan = match kills {
            true => server.kill(),
            false => server.stop_for_restart(),
        };
        let server = plan.variable("STENTOR_SHARDS", "2").start();
        publish(&server, 5..7);
        let mut first = member(&server, "first", JOBS);
        assert_eq!(take(&mut first, 7), [0, 1, 2, 3, 4, 5, 6]);
        first.ping();
        is_written(&server);
        // What was acknowledged does not come again.
        let server = server.kill().start();
        let mut second = member(&server, "second", JOBS);
        publish(&server, 7..8);
        assert_eq!(take(&mut second, 1), [7]);
        second.ping();
    }
}

#[test]
fn a_message_that_a_member_leaves_unacknowledged_waits_for_the_next_one() {
    let server = plan("").variable("STENTOR_SHARDS", "2").start();
    let mut first = member(&server, "first", JOBS);
    publish(&server, 0..3);
    for _ in 0..3 {
        first.expect(3);
    }
    drop(first);
    eventually("the queue has them again", || kept(&server) == 3);
    let mut second = member(&server, "second", "$share/jobs/jobs/#");
    assert_eq!(take(&mut second, 3), [0, 1, 2]);
    second.ping();
}

/// Members leave no session behind, so what they have is written down for the queue.
#[test]
fn a_message_that_a_member_has_not_acknowledged_waits_for_the_next_one_after_a_kill() {
    for (version, kills) in [
        (Version::V4, true),
        (Version::V5, true),
        (Version::V4, false),
        (Version::V5, false),
    ] {
        let server = plan("").variable("STENTOR_SHARDS", "3").start();
        publish(&server, 0..3);
        let mut first = server.client(version, "first");
        first.subscribe(JOBS, 1);
        // The others come while it is there.
        publish(&server, 3..6);
        let got: Vec<Packet> = (0..6).map(|_| first.expect(3)).collect();
        // One of each kind is done. They are of several shards, so either kind may come first.
        let is_done = |got: &&Packet| matches!(&got.message(version).1[..], b"0" | b"3");
        for done in got.iter().filter(is_done) {
            acknowledge(&mut first, done);
        }
        first.ping();
        let plan = match kills {
            true => server.kill(),
            false => server.stop_for_restart(),
        };
        let server = plan.variable("STENTOR_SHARDS", "2").start();
        eventually("the queue has them again", || kept(&server) >= 4);
        let mut second = member(&server, "second", JOBS);
        // A kill may come before the acknowledgements are written.
        let most = if kills { 6 } else { 4 };
        let mut all: BTreeSet<usize> = take(&mut second, 4).into_iter().collect();
        all.extend(take_all(&mut second));
        assert!(
            all.is_superset(&[1, 2, 4, 5].into()),
            "{version:?}: {all:?}"
        );
        assert!(all.len() <= most, "{version:?}: {all:?}");
        second.ping();
        is_written(&server);
        let server = server.kill().start();
        assert_eq!(kept(&server), 0);
    }
}

/// A session that lasted when it became a member, and does not any more.
#[test]
fn a_member_that_comes_back_for_one_connection_is_still_one() {
    let server = plan("").start();
    let lasting = |server: &Server, secs: u8| {
        let mut member = server.dial();
        let head = [&string("MQTT")[..], &[5, 0, 0, 0, 5, 17, 0, 0, 0, secs]].concat();
        member.send(&packet(0x10, &[head, string("first")].concat()));
        let answer = member.expect(2);
        (member, answer.body[0])
    };
    let (mut first, _) = lasting(&server, 30);
    first.send(&raw::subscribe(Version::V5, 1, JOBS, 1));
    first.expect(9);
    drop(first);
    let (mut first, is_present) = lasting(&server, 0);
    assert_eq!(is_present, 1);
    publish(&server, 0..3);
    for _ in 0..3 {
        first.expect(3);
    }
    let server = server.kill().start();
    eventually("the queue has them", || kept(&server) == 3);
}

/// However a member's session ends, each message comes back once.
#[test]
fn what_members_leave_comes_once() {
    for way in [
        "take-over",
        "expiry",
        "drop",
        "stop",
        "will and stop",
        "will and kill",
    ] {
        let server = plan("").variable("STENTOR_SHARDS", "1").start();
        let mut first = server.dial();
        first.send(&match way.starts_with("will") {
            true => raw::connect_with_will("first", "gone"),
            false => raw::connect(Version::V5, "first", true),
        });
        first.expect(2);
        first.send(&raw::subscribe(Version::V5, 1, JOBS, 1));
        first.expect(9);
        publish(&server, 0..10);
        for _ in 0..10 {
            first.expect(3);
        }
        match way {
            "take-over" => drop(server.client(Version::V5, "first")),
            // DISCONNECT with a session expiry interval of 0.
            "expiry" => first.send(&[0xE0, 7, 0, 5, 17, 0, 0, 0, 0]),
            "drop" => drop(first),
            _ => {}
        }
        let server = match way {
            "will and kill" => server.kill().start(),
            "stop" | "will and stop" => server.stop_for_restart().start(),
            _ => server,
        };
        eventually("the queue has them again", || kept(&server) == 10);
        let mut second = member(&server, "second", JOBS);
        take(&mut second, 10);
        second.ping();
        is_written(&server);
        // What was acknowledged does not come again.
        let server = server.kill().start();
        let mut third = member(&server, "third", JOBS);
        publish(&server, 10..11);
        assert_eq!(take(&mut third, 1), [10], "{way}");
    }
}

/// The same of one whose server is killed again before anybody else is there.
#[test]
fn what_goes_back_to_a_queue_survives_the_next_kill_too() {
    let mut server = plan("").variable("STENTOR_SHARDS", "2").start();
    let mut first = server.client(Version::V4, "first");
    first.subscribe(JOBS, 1);
    publish(&server, 0..200);
    first.expect(3);
    for _ in 0..3 {
        server = server.kill().start();
    }
    eventually("the queue has them again", || kept(&server) == 200);
    // It is a member again, and its earlier session is over.
    let mut first = member(&server, "first", JOBS);
    let all: BTreeSet<usize> = take(&mut first, 200).into_iter().collect();
    assert_eq!(all.len(), 200);
}

/// What a member gets until the answer to a ping, and acknowledges.
fn take_all(member: &mut Raw) -> Vec<usize> {
    member.send(&[0xC0, 0]);
    let mut all = Vec::new();
    loop {
        let packet = member.receive();
        if packet.kind() == 13 {
            return all;
        }
        acknowledge(member, &packet);
        let message = String::from_utf8(packet.message(Version::V5).1).expect("a text");
        all.push(message.parse().expect("a number"));
    }
}

/// The queue has heard of all acknowledgements, and they are written: that is done at the end of a
/// turn, and another answer is of a later one.
fn is_written(server: &Server) {
    eventually("the queue has heard of it", || kept(server) == 0);
    assert_eq!((kept(server), kept(server)), (0, 0));
}

/// The messages that `stentor sessions` shows of the queue.
fn kept(server: &Server) -> u64 {
    let all = server.json(&["sessions", "ls"]);
    let all = all["clients"].as_array().expect("a list").clone();
    let of_queue = |it: &&serde_json::Value| it["client_id"] == "$queue/jobs/jobs/#";
    let queue = all.iter().find(of_queue).expect("the queue is there");
    queue["waiting"].as_u64().expect("a number")
}

#[test]
fn members_get_each_message_once_however_many_wait() {
    const COUNT: usize = 1_000;
    let server = plan("").variable("STENTOR_SHARDS", "3").start();
    publish(&server, 0..COUNT);
    assert_eq!(kept(&server), COUNT as u64);
    let members = ["a", "b", "c"].map(|id| member(&server, id, JOBS));
    let threads = members.map(|mut member| {
        std::thread::spawn(move || {
            let mut got = Vec::new();
            loop {
                let message = String::from_utf8(acknowledged(&mut member)).expect("a text");
                match message.parse::<usize>() {
                    Ok(number) => got.push(number),
                    Err(_) => return got,
                }
            }
        })
    });
    eventually("the queue is empty", || kept(&server) == 0);
    let mut publisher = server.client(Version::V4, "ends");
    for id in ["a", "b", "c"] {
        // One at a time: each goes to another one.
        publisher.publish_surely("jobs/end", id.as_bytes());
    }
    let mut all = Vec::new();
    for thread in threads {
        all.extend(thread.join().expect("a member"));
    }
    let different: BTreeSet<usize> = all.iter().copied().collect();
    assert_eq!((all.len(), different.len()), (COUNT, COUNT));
}

#[test]
fn a_full_queue_drops_what_its_key_says_and_counts_it() {
    for (full, expected) in [("drop-newest", [0, 1, 2]), ("drop-oldest", [2, 3, 4])] {
        let server = plan(&format!("messages = 3\nfull = \"{full}\"")).start();
        publish(&server, 0..5);
        assert_eq!(kept(&server), 3);
        let dropped = server.json(&["status", "--sample-ms", "0"]);
        let dropped = dropped["messages_dropped"].as_u64();
        assert_eq!(dropped, Some(2), "{full}");
        server.wait_log(0, "the queue is full: 3 messages");
        let mut first = member(&server, "first", JOBS);
        assert_eq!(take(&mut first, 3), expected, "{full}");
        first.ping();
    }
    // 2,000 bytes each, and no more than 4 KiB.
    let server = plan("bytes = \"4KiB\"").start();
    let mut publisher = server.client(Version::V4, "publisher");
    for _ in 0..3 {
        publisher.publish_surely("jobs/1", &[b'x'; 2_000]);
    }
    assert_eq!(kept(&server), 1);
}

#[test]
fn a_queue_that_nobody_declares_is_refused() {
    let server = plan("").variable("STENTOR_SHARDS", "2").start();
    for filter in ["$queue/jobs/other", "$queue/other/jobs/#", "$queue/jobs"] {
        let mut client = server.client(Version::V5, "client");
        client.send(&raw::subscribe(Version::V5, 1, filter, 1));
        let suback = client.expect(9);
        assert_eq!(suback.body.last(), Some(&0x8F), "{filter}");
    }
    // QoS 0 waits for nobody, as everywhere.
    let mut publisher = server.client(Version::V4, "publisher");
    publisher.publish("jobs/1", b"lost");
    publisher.ping();
    assert_eq!(kept(&server), 0);
}

#[test]
fn nobody_takes_or_ends_the_session_of_a_queue() {
    let server = plan("").start();
    publish(&server, 0..2);
    for command in [&["sessions", "end"][..], &["clients", "kick"]] {
        let words = [command, &["$queue/jobs/jobs/#"]].concat();
        let refused = server.control(&words).refusal();
        assert!(refused.contains("ends at a restart for which"), "{refused}");
    }
    // It has no client that could be away, and so it never ends with those that are.
    let ended = server.json(&["sessions", "end", "--away", "0s", "--yes"]);
    assert_eq!(ended["ended"], 0);
    let mut client = server.dial();
    let connack = client.login(Version::V5, "$queue/jobs/jobs/#", false);
    assert_eq!(connack.body[..2], [0, 0]);
    drop(client);
    let mut first = member(&server, "first", JOBS);
    assert_eq!(take(&mut first, 2), [0, 1]);
}

#[test]
fn a_queue_that_is_not_declared_any_more_ends_and_the_log_says_so() {
    let server = plan("").start();
    publish(&server, 0..2);
    server.reconfigure("[log]\nlevel = \"info\"");
    let server = server.stop_for_restart().start();
    let line = server.wait_log(0, "queues end with what they have kept");
    assert!(line.contains("messages=2"), "{line}");
}

#[test]
fn a_queue_that_cannot_be_kept_is_refused() {
    for (config, expected) in [
        ("[sessions]\nenabled = false", "sessions.enabled"),
        ("[[queue]]\nname = \"jobs\"\nfilter = \"jobs/#\"", "queue"),
        ("[[queue]]\nname = \"sys\"\nfilter = \"$SYS/#\"", "$SYS/#"),
        (
            "[[queue]]\nname = \"sys\"\nfilter = \"a\"\nmessages = 0",
            "queue.messages",
        ),
    ] {
        let refused = plan(config).refused();
        let said = refused.stderr;
        assert!(said.contains(expected), "{config}: {said}");
    }
}
