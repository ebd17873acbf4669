//! Several shards behave like one.

use stentor_tests::{Plan, Raw, Server, Version, raw};

fn three_shards() -> Server {
    Plan::new()
        .tcp()
        .anonymous()
        .arg("--shards")
        .arg("3")
        .start()
}

#[test]
fn messages_cross_shards_in_order() {
    let server = three_shards();
    // A keyed hash of the client id decides the shard. That sixty of them leave one of three shards
    // empty has a probability of 3 · (2/3)^60 < 10^-10.
    let mut receivers: Vec<Raw> = (0..60)
        .map(|number| {
            let mut client = server.client(Version::V4, &format!("receiver-{number}"));
            client.subscribe("all/#", 0);
            client
        })
        .collect();
    let status = server.json(&["status"]);
    let shards = status["shards"].as_array().expect("shards are listed");
    assert!(
        shards
            .iter()
            .all(|shard| shard["sessions"].as_u64() >= Some(1)),
        "{status}"
    );
    for sender in 0..6 {
        let mut client = server.client(Version::V4, &format!("sender-{sender}"));
        for number in 0..50 {
            client.publish_surely(&format!("all/{sender}"), format!("{number}").as_bytes());
        }
    }
    for receiver in &mut receivers {
        let mut next = [0; 6];
        for _ in 0..300 {
            let (topic, payload) = receiver.message();
            let sender: usize = topic[4..].parse().expect("the topic names its sender");
            assert_eq!(
                payload,
                next[sender].to_string().into_bytes(),
                "order on {topic}"
            );
            next[sender] += 1;
        }
    }
}

/// Every publish after a SUBACK reaches the subscriber, whichever shards are involved.
#[test]
fn a_publish_after_the_suback_always_arrives() {
    let server = three_shards();
    let mut sender = server.client(Version::V5, "sender");
    for round in 0..200 {
        let mut receiver = server.client(Version::V5, &format!("r{round}"));
        let topic = format!("round/{round}");
        receiver.subscribe(&topic, 0);
        sender.publish(&topic, b"x");
        assert_eq!(receiver.message().0, topic);
    }
}

#[test]
fn a_take_over_keeps_the_session_whichever_shard_accepts() {
    let server = three_shards();
    let mut sender = server.client(Version::V5, "sender");
    let mut holder = server.dial();
    let first = holder.login(Version::V5, "wanderer", false);
    assert_eq!(first.body[0], 0);
    holder.subscribe("w", 1);
    // The kernel spreads connections over the shards, so some of these come from another one.
    for round in 0..30 {
        let mut newer = server.dial();
        let connack = newer.login(Version::V5, "wanderer", false);
        assert_eq!(connack.body[0], 1, "round {round}: the session is gone");
        // 0x8E "session taken over".
        let packet = holder.receive();
        assert_eq!(
            (packet.kind(), packet.body.first()),
            (14, Some(&0x8E)),
            "{packet:?}"
        );
        holder.closed();
        sender.publish_surely("w", format!("{round}").as_bytes());
        let message = newer.expect(3);
        assert_eq!(
            message.message(Version::V5).1,
            format!("{round}").into_bytes()
        );
        // The packet id follows the topic.
        newer.send(&raw::packet(0x40, &message.body[3..5]));
        newer.ping();
        holder = newer;
    }
    assert_eq!(server.json(&["status"])["sessions"], 2);
}

/// What a client has sent arrives, and its goodbye counts, even if it is back before the server has
/// read them: the newer connection may come through another shard, which is quicker.
#[test]
fn what_came_before_a_take_over_is_not_lost() {
    let server = three_shards();
    let mut watcher = server.client(Version::V5, "watcher");
    watcher.subscribe("hasty/#", 0);
    for version in raw::VERSIONS {
        let mut older = server.client(version, "hasty");
        for round in 0..300 {
            let mut newer = server.dial();
            let payload = format!("{round}").into_bytes();
            let mut bytes = raw::publish(version, "hasty/said", &payload, 0, false);
            if round % 2 == 0 {
                bytes.extend([0xE0, 0]);
            }
            older.send(&bytes);
            newer.login(version, "hasty", true);
            assert_eq!(watcher.message(), ("hasty/said".to_owned(), payload));
            older = newer;
        }
    }
    let goodbyes = |log: String| {
        let is_goodbye = |line: &&str| {
            line.contains("disconnected client=\"hasty\"") && line.contains("reason=\"disconnect\"")
        };
        log.lines().filter(is_goodbye).count()
    };
    raw::eventually("every goodbye", || goodbyes(server.log()) == 300);
}

#[test]
fn retained_messages_are_seen_from_every_shard() {
    let server = three_shards();
    let mut sender = server.client(Version::V4, "sender");
    sender.send(&raw::publish(Version::V4, "kept", b"value", 1, true));
    sender.expect(4);
    for number in 0..12 {
        let mut client = server.client(Version::V4, &format!("c{number}"));
        client.subscribe("kept", 0);
        assert_eq!(client.message(), ("kept".to_owned(), b"value".to_vec()));
    }
}

#[test]
fn shared_subscriptions_span_shards() {
    let server = three_shards();
    let mut members: Vec<Raw> = (0..6)
        .map(|number| {
            let mut client = server.client(Version::V5, &format!("member-{number}"));
            client.subscribe("$share/crew/work", 0);
            client.subscribe("fence", 0);
            client
        })
        .collect();
    let mut sender = server.client(Version::V5, "sender");
    for number in 0..300 {
        sender.publish_surely("work", format!("{number}").as_bytes());
    }
    sender.publish_surely("fence", b"");
    let mut all: Vec<u32> = Vec::new();
    for member in &mut members {
        let mut share = 0;
        loop {
            let (topic, payload) = member.message();
            if topic == "fence" {
                break;
            }
            all.push(
                String::from_utf8(payload)
                    .expect("ASCII")
                    .parse()
                    .expect("a number"),
            );
            share += 1;
        }
        assert!(share >= 10, "a member got {share} of 300");
    }
    all.sort_unstable();
    assert_eq!(
        all,
        (0..300).collect::<Vec<_>>(),
        "each message goes to one member"
    );
}
