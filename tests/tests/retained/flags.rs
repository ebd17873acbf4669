//! What subscribers see of a kept message: flags, numbers, and the end of a snapshot.

use stentor_tests::raw::{self, Packet, packet, string};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::support::{keep, number, property};

const V5: Version = Version::V5;

fn start(policy: &str) -> Server {
    let config = format!("[[policy]]\nfilter = \"tick/#\"\nkeep = \"last\"\n{policy}\n");
    Plan::new().tcp().anonymous().config(&config).start()
}

/// Subscribes with options as on the wire, and user properties of the SUBSCRIBE.
fn subscribe(client: &mut Raw, filter: &str, options: u8, pairs: &[(&str, &str)]) {
    let mut properties = Vec::new();
    for (name, value) in pairs {
        properties.push(0x26);
        properties.extend(string(name));
        properties.extend(string(value));
    }
    let mut body = vec![
        0,
        1,
        u8::try_from(properties.len()).expect("few properties"),
    ];
    body.extend(properties);
    body.extend(string(filter));
    body.push(options);
    client.send(&packet(0x82, &body));
    let suback = client.expect(9);
    assert!(
        suback.body.last().is_some_and(|code| *code < 0x80),
        "{suback:?}"
    );
}

fn is_retained(message: &Packet) -> bool {
    message.first & 1 == 1
}

#[test]
fn a_stored_message_has_retain_and_a_live_one_has_not() {
    let server = start("");
    let mut publisher = server.client(V5, "p");
    let mut plain = server.client(V5, "plain");
    plain.subscribe("#", 0);
    let mut as_published = server.client(V5, "as published");
    // Retain as published.
    subscribe(&mut as_published, "#", 0x08, &[]);
    // Kept without the flag, and kept with it.
    for (topic, retain) in [("tick/a", false), ("other/b", true)] {
        publisher.send(&raw::publish(V5, topic, b"1", 1, retain));
        publisher.expect(4);
        assert!(!is_retained(&plain.expect(3)), "{topic} is live");
        assert_eq!(is_retained(&as_published.expect(3)), retain, "{topic}");
        let mut late = server.client(V5, "late");
        subscribe(&mut late, topic, 0, &[]);
        assert!(is_retained(&late.expect(3)), "{topic} was stored");
        let mut late = server.client(V5, "late");
        subscribe(&mut late, topic, 0x08, &[]);
        assert!(is_retained(&late.expect(3)), "{topic} was stored");
    }
    // Neither flag nor policy: nothing is kept.
    publisher.publish_surely("other/c", b"1");
    let mut late = server.client(V5, "late");
    late.subscribe("other/c", 0);
    late.ping();
    // An empty message clears, whichever way it was kept.
    publisher.publish_surely("tick/a", b"");
    let mut late = server.client(V5, "late");
    late.subscribe("tick/a", 0);
    late.ping();
}

#[test]
fn numbers_go_on_over_a_kill_in_the_same_epoch() {
    let mut server = start("sequence = true");
    let mut last = 0;
    let mut epoch = None;
    for round in 0..3 {
        let mut publisher = server.client(V5, "p");
        let mut subscriber = server.client(V5, "s");
        subscriber.subscribe("tick/a", 0);
        if round > 0 {
            let stored = subscriber.expect(3);
            assert_eq!(number(&stored.body, "seq"), last, "the stored one again");
            assert_eq!(property(&stored.body, "epoch"), epoch);
        }
        for _ in 0..5 {
            publisher.publish_surely("tick/a", b"x");
            let message = subscriber.expect(3);
            let seq = number(&message.body, "seq");
            assert!(last == 0 || seq == last + 1, "{seq} follows {last}");
            last = seq;
            epoch = property(&message.body, "epoch");
            assert_eq!(epoch.as_ref().map(String::len), Some(16));
        }
        drop((publisher, subscriber));
        server = server.kill().start();
    }
    // Older versions are told nothing.
    let mut old = server.client(Version::V4, "old");
    old.subscribe("tick/a", 0);
    assert_eq!(old.message().1, b"x");
}

#[test]
fn a_slow_client_can_tell_a_conflation_from_a_gap() {
    let server = start("sequence = true\nqos0 = \"conflate\"");
    let mut slow = server.client(V5, "slow");
    slow.subscribe("tick/#", 0);
    let mut publisher = server.client(V5, "p");
    let payload = vec![b'x'; 10_000];
    // Far more than sockets hold.
    for _ in 0..3_000 {
        publisher.send(&raw::publish(V5, "tick/a", &payload, 0, false));
    }
    publisher.publish_surely("tick/b", b"end");
    publisher.publish_surely("tick/a", b"last");
    let (mut last, mut conflated, mut received) = (None, 0, 0);
    loop {
        let message = slow.expect(3);
        let (topic, payload) = message.message(V5);
        if topic == "tick/b" {
            continue;
        }
        received += 1;
        let seq = number(&message.body, "seq");
        let skipped = property(&message.body, "conflated").map_or(0, |n| n.parse().unwrap_or(0));
        if let Some(last) = last {
            assert_eq!(
                seq - last - skipped,
                1,
                "after {last} came {seq}, {skipped} skipped"
            );
        }
        (last, conflated) = (Some(seq), conflated + skipped);
        if payload == b"last" {
            break;
        }
    }
    assert!(
        conflated > 1_000,
        "{received} received, {conflated} conflated"
    );
}

#[test]
fn the_end_of_a_snapshot_is_told() {
    let server = start("");
    let mut publisher = server.client(V5, "p");
    for i in 0..1_000 {
        keep(&mut publisher, V5, &format!("many/{i}"), b"x");
    }
    for (filter, count, topic) in [
        ("many/#", 1_000, "many/snapshot-end"),
        ("many/7", 1, "many/7"),
        ("none/+", 0, "none/snapshot-end"),
    ] {
        let mut reader = server.client(V5, "r");
        subscribe(&mut reader, filter, 1, &[("snapshot-end", "yes")]);
        for _ in 0..count {
            let message = reader.expect(3);
            assert!(is_retained(&message), "{message:?}");
            let id_at = 2 + usize::from(u16::from_be_bytes([message.body[0], message.body[1]]));
            reader.send(&packet(0x40, &message.body[id_at..id_at + 2]));
        }
        let end = reader.expect(3);
        assert!(!is_retained(&end));
        assert_eq!(property(&end.body, "snapshot-end").as_deref(), Some(filter));
        assert_eq!(end.message(V5), (topic.to_owned(), Vec::new()));
        reader.ping();
    }
}

/// Nobody hears what became of a message with QoS 0: who is there gets it, and who comes later
/// finds nothing rather than an older one.
#[test]
fn a_full_store_delivers_what_it_cannot_keep() {
    let config = "[retained]\nbytes = \"100B\"\n[sys]\ninterval = \"0s\"\n\
                  [[policy]]\nfilter = \"last/#\"\nkeep = \"last\"\n";
    let plan = Plan::new().tcp().anonymous().config(config);
    let server = plan.arg("--shards").arg("3").start();
    for (number, topic) in ["a/t", "last/t", "last/u", "last/v"].iter().enumerate() {
        let mut reader = server.client(Version::V4, "reader");
        reader.subscribe(topic, 0);
        let id = format!("publisher-{number}");
        let mut publisher = server.client(V5, &id);
        keep(&mut publisher, V5, topic, b"small");
        assert_eq!(reader.message().1, b"small");
        let large = [b'x'; 200];
        publisher.send(&raw::publish(V5, topic, &large, 0, true));
        assert_eq!(reader.message().1, large);
        // What is acknowledged is kept, so this one is refused and reaches nobody.
        publisher.send(&raw::publish(V5, topic, &large, 1, true));
        assert_eq!(publisher.expect(4).body.get(2), Some(&0x97));
        let mut late = server.client(Version::V4, "late");
        late.subscribe(topic, 0);
        late.ping();
        reader.ping();
    }
    let losses = &server.json(&["status"])["losses"];
    assert_eq!(losses["by_cause"]["not-kept"], 4, "{losses}");
    let log = server.wait_log(0, "not kept for late subscribers");
    assert!(log.contains("retained.bytes"), "{log}");
    let log = server.wait_log(0, "a message was refused: a bound of the retained store");
    assert!(log.contains("publisher-0"), "{log}");
}

#[test]
fn quotas_refuse_with_a_reason_and_keep_what_is_there() {
    for quota in [
        "messages = 3",
        "zone_messages = 3",
        "bytes = \"45B\"",
        "zone_bytes = \"45B\"",
    ] {
        let config = format!("[retained]\n{quota}\n[sys]\ninterval = \"0s\"\n");
        let server = Plan::new().tcp().anonymous().config(&config).start();
        let mut client = server.client(V5, "p");
        for i in 0..3 {
            keep(&mut client, V5, &format!("t/{i}"), b"0123456789");
        }
        client.send(&raw::publish(V5, "t/3", b"0123456789", 1, true));
        let refused = client.expect(4);
        assert_eq!(refused.body.get(2), Some(&0x97), "{quota}: {refused:?}");
        // Another of the same size in the place of one of them is no more.
        keep(&mut client, V5, "t/0", b"9876543210");
        let mut reader = server.client(V5, "r");
        reader.subscribe("t/0", 0);
        assert_eq!(reader.message().1, b"9876543210");
        // MQTT 3.1.1 has no reasons: the connection is closed.
        let mut old = server.client(Version::V4, "old");
        old.send(&raw::publish(Version::V4, "t/3", b"0123456789", 1, true));
        old.closed();
    }
}
