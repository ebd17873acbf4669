//! `stentor why` about messages that are late, dropped, private, said in a room, or one's own.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use stentor_tests::raw::{connect_as, eventually, packet, publish, string};
use stentor_tests::{Raw, Version};

use crate::place::Place;
use crate::why::{check, says};

/// A client of MQTT 5 with properties in its CONNECT, whose password is its user's name.
fn login_with(place: &Place, user: &str, properties: &[u8]) -> Raw {
    let mut body = string("MQTT");
    body.extend([5, 0b1100_0010, 0, 0]);
    body.push(u8::try_from(properties.len()).expect("they are few"));
    body.extend_from_slice(properties);
    for text in [user; 3] {
        body.extend(string(text));
    }
    let mut client = place.server().dial();
    client.send(&packet(0x10, &body));
    client.speaks(Version::V5);
    assert_eq!(client.expect(2).body[1], 0, "{user} was not let in");
    client
}

/// A client that has a subscription, and is away.
fn away(place: &Place, user: &str, filter: &str) {
    let mut client = place.server().dial();
    client.send(&connect_as(Version::V4, user, false, Some((user, user))));
    client.speaks(Version::V4);
    client.expect(2);
    client.subscribe(filter, 1);
    client.send(&[0xE0, 0]);
    client.closed();
}

fn verdict(answer: &Value) -> &str {
    answer["verdict"].as_str().unwrap_or_default()
}

/// While a client is away, its full queue does what the policy of the topic says.
#[test]
fn a_full_queue_follows_its_policy() {
    let place = Place::with(
        "[limits]\nqueue_messages = 3\n\
         [[policy]]\nfilter = \"old/#\"\nqos1 = \"drop-oldest\"\n\
         [[policy]]\nfilter = \"tick/#\"\nqos1 = \"conflate\"\n",
    );
    for user in ["ann", "eve", "bob"] {
        place.add(user, &[]);
    }
    away(&place, "ann", "old/#");
    away(&place, "eve", "tick/#");
    let mut bob = place.login("bob");
    for number in 1..=4 {
        bob.publish_surely(&format!("old/{number}"), b"x");
    }
    let answer = place.why(&["ann", "old/5"]);
    assert_eq!(answer["gets"], "later", "{answer}");
    let kept = "the next one is kept, and the oldest is dropped for it (drop-oldest)";
    says(&answer, "subscriber", "waiting", ("note", kept));
    assert!(verdict(&answer).contains(kept), "{answer}");
    let policy = ("good", "the oldest messages are dropped");
    says(&answer, "subscriber", "policy", policy);
    let remedy = check(&answer, "subscriber", "waiting")["remedy"].to_string();
    assert!(
        remedy.contains("nothing, if it is to get the newest"),
        "{remedy}"
    );
    for number in 1..=3 {
        bob.publish_surely(&format!("tick/{number}"), b"x");
    }
    let answer = place.why(&["eve", "tick/1"]);
    assert_eq!(answer["gets"], "later", "{answer}");
    let replaced = "takes the place of the one that waits (conflate)";
    says(&answer, "subscriber", "waiting", ("note", replaced));
    // A topic of which none waits has no place.
    let answer = place.why(&["eve", "tick/4"]);
    assert_eq!(answer["gets"], "no", "{answer}");
    let dropped = "the next one is dropped (drop-newest)";
    says(&answer, "subscriber", "waiting", ("bad", dropped));
    // It is so.
    bob.publish_surely("tick/4", b"x");
    bob.publish_surely("tick/1", b"y");
    let shown = place.json(&["clients", "show", "eve"]);
    let counts = ["lost", "conflated"].map(|key| shown[key]["total"].as_u64());
    assert_eq!(counts, [Some(1), Some(1)], "{shown}");
}

/// A pause that is over is told for a minute, with the quota and its role.
#[test]
fn a_pause_that_is_over_is_told() {
    let place = Place::running();
    let rule = ["role", "add", "sensor", "--rule", "allow both #"];
    place
        .run(&[&rule[..], &["--messages-per-sec", "2"]].concat())
        .success();
    place.add("ann", &["sensor"]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    bob.subscribe("t", 0);
    ann.send(&publish(Version::V5, "t", b"x", 0, false).repeat(4));
    // Read when the pause is over.
    ann.ping();
    let mut answer = Value::Null;
    eventually("the pause is over", || {
        answer = place.why(&["ann", "t", "--to", "bob"]);
        let is_read = check(&answer, "publisher", "is read");
        is_read["text"].as_str().is_some_and(|text| {
            text.starts_with("yes, but it was paused ") && text.contains("in the last minute")
        })
    });
    let quota = ("note", "by the quota messages_per_sec of role sensor (2/s)");
    says(&answer, "publisher", "is read", quota);
    assert!(
        verdict(&answer).contains("but late (is read): yes, but it was paused "),
        "{answer}"
    );
    let remedy = check(&answer, "publisher", "is read")["remedy"].to_string();
    let raise = "`stentor role change sensor --messages-per-sec 4`";
    assert!(remedy.contains(raise), "{remedy}");
}

/// A client that acknowledges, one message at a time.
#[test]
fn a_full_receive_maximum_is_named() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let mut ann = login_with(&place, "ann", &[0x21, 0, 1]);
    let mut bob = place.login("bob");
    ann.subscribe("q", 1);
    for _ in 0..3 {
        bob.publish_surely("q", b"x");
    }
    let is_done = AtomicBool::new(false);
    let answer = thread::scope(|scope| {
        // It is heard from all the time.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                ann.ping_among_messages();
            }
        });
        let answer = place.why(&["ann", "q"]);
        is_done.store(true, Ordering::Relaxed);
        answer
    });
    assert_eq!(answer["gets"], "yes", "{answer}");
    let full = "its receive maximum is 1: one message at a time waits for its acknowledgement; 2 \
                wait";
    says(&answer, "subscriber", "waiting", ("note", full));
    let late = format!("but late (waiting): {full}");
    assert!(verdict(&answer).contains(&late), "{answer}");
    // Both commands count the same.
    let shown = place.json(&["clients", "show", "ann"]);
    assert_eq!(shown["waiting"], 2, "{shown}");
}

/// The user who gets a private message, and those who do not.
#[test]
fn a_private_message_goes_to_the_sessions_of_its_user() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (_al, mut al2) = (place.login_as("ann", "al"), place.login_as("ann", "al2"));
    let (mut bo, _bo2) = (place.login_as("bob", "bo"), place.login_as("bob", "bo2"));
    bo.subscribe("$private/#", 0);
    al2.subscribe("$private/from/+", 1);
    let to = "$private/to/bob";
    for words in [&["al", to, "--to", "bo"][..], &["bo", to]] {
        let answer = place.why(words);
        assert_eq!(answer["gets"], "yes", "{answer}");
        let whom = ("good", "go to the sessions of this user");
        says(&answer, "subscriber", "recipient", whom);
        let by = ("good", "by $private/# with QoS 0");
        says(&answer, "subscriber", "subscribed", by);
    }
    let answer = place.why(&["al", to, "--to", "bo"]);
    let arrives = ("good", "arrive as $private/from/ann");
    says(&answer, "subscriber", "subscribed", arrives);
    let other = place.why(&["al", to, "--to", "al2"]);
    let of = ("bad", "\"al2\" is a session of the user \"ann\"");
    says(&other, "subscriber", "recipient", of);
    let deaf = place.why(&["al", to, "--to", "bo2"]);
    assert_eq!(deaf["gets"], "no", "{deaf}");
    let remedy = check(&deaf, "subscriber", "subscribed")["remedy"].to_string();
    assert!(remedy.contains("subscribe to $private/from/+;"), "{remedy}");
}

/// What is said in a room arrives by another topic, if the adaptors let it.
#[test]
fn the_adaptor_of_a_room_is_named() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("judge.luau");
    let text = "local adaptor = {}\n\
                function adaptor.say(event) return deny(\"not here\") end\n\
                return adaptor\n";
    fs::write(&file, text).expect("a file can be written");
    let place = Place::with(&format!("[[adaptor]]\nfile = {file:?}\n"));
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (mut al, mut bo) = (place.login_as("ann", "al"), place.login_as("bob", "bo"));
    place
        .run(&["room", "create", "tea", "--permanent"])
        .success();
    bo.subscribe("$room/tea/say/+", 0);
    let say = ["al", "$room/tea/say", "--to", "bo"];
    let answer = place.why(&say);
    let outside = ("note", "no subscription below $room/tea/");
    says(&answer, "publisher", "in the room", outside);
    al.subscribe("$room/tea/event", 0);
    let answer = place.why(&say);
    assert_eq!(answer["gets"], "yes", "{answer}");
    let by = ("good", "by $room/tea/say/+ with QoS 0");
    says(&answer, "subscriber", "subscribed", by);
    let arrives = ("good", "arrive as $room/tea/say/ann");
    says(&answer, "subscriber", "subscribed", arrives);
    let judge = "judge.luau decides about each message that is said in this room";
    says(&answer, "subscriber", "adaptors", ("note", judge));
    let named = format!(
        "unless an adaptor refuses it: the adaptor {}",
        file.display()
    );
    assert!(verdict(&answer).contains(&named), "{answer}");
    // It is not asked about other messages.
    bo.subscribe("t", 0);
    let other = place.why(&["al", "t", "--to", "bo"]);
    assert!(!other.to_string().contains("judge.luau"), "{other}");
}

/// Options of a subscription that keep messages from its client, or make them late.
#[test]
fn no_local_and_a_maximum_rate_are_shown() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (mut ann, _bob) = (place.login("ann"), place.login("bob"));
    let rate = [&[0x26][..], &string("max-rate"), &string("2")].concat();
    let no_local = 0b0000_0101;
    for (filter, properties, options) in [("own/#", &[][..], no_local), ("tick", &rate, 1)] {
        let mut body = vec![0, 1, u8::try_from(properties.len()).expect("they are few")];
        body.extend_from_slice(properties);
        body.extend(string(filter));
        body.push(options);
        ann.send(&packet(0x82, &body));
        assert_eq!(ann.expect(9).body.last(), Some(&1), "{filter}");
    }
    let own = place.why(&["ann", "own/x", "--to", "ann"]);
    assert_eq!(own["gets"], "no", "{own}");
    let kept = "no-local keeps from it what it publishes itself";
    says(&own, "subscriber", "subscribed", ("bad", kept));
    assert_eq!(own["subscriber"]["matching"][0]["no_local"], true, "{own}");
    let others = place.why(&["bob", "own/x", "--to", "ann"]);
    assert_eq!(others["gets"], "yes", "{others}");
    let by = ("good", "by own/# with QoS 1, no-local");
    says(&others, "subscriber", "subscribed", by);
    let slow = place.why(&["ann", "tick"]);
    let by = ("good", "max-rate: at most one message of a topic in 500ms");
    says(&slow, "subscriber", "subscribed", by);
    let shown = place.run(&["clients", "show", "ann"]).success();
    let has = |filter: &str, option: &str| {
        let mut lines = shown.lines();
        lines.any(|line| line.starts_with(filter) && line.ends_with(option))
    };
    assert!(
        has("own/#", "no-local") && has("tick", "max-rate 2"),
        "{shown}"
    );
    // A person who asks about one side learns that there are two.
    let text = place.run(&["why", "ann", "tick"]).success();
    let hint = "\nFor one publisher: `stentor why PUBLISHER tick --to ann`\n";
    assert!(text.ends_with(hint), "{text}");
    let text = place.run(&["why", "bob", "tick", "--to", "ann"]).success();
    assert!(!text.contains("For one publisher"), "{text}");
}

/// Messages that are larger than a client takes.
#[test]
fn what_is_too_large_is_told() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let mut ann = login_with(&place, "ann", &[0x27, 0, 0, 0, 100]);
    let mut bob = place.login("bob");
    ann.subscribe("big", 1);
    bob.publish_surely("big", &[b'x'; 200]);
    bob.publish_surely("big", &[b'x'; 200]);
    let answer = place.why(&["ann", "big"]);
    let lost = "the message was larger than it takes (packet-too-large): its maximum packet size \
                is 100 bytes";
    says(&answer, "subscriber", "lost", ("note", lost));
    says(
        &answer,
        "subscriber",
        "lost",
        ("note", "2 of them in the last minute"),
    );
    assert!(
        verdict(&answer).contains("but not all (lost): 2, 2 of them in the last minute"),
        "{answer}"
    );
}

/// Output that waits for a socket is counted as waiting by all commands.
#[test]
fn all_commands_count_what_waits_alike() {
    let place = Place::running();
    place.add("ann", &[]);
    place.add("bob", &[]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    ann.subscribe("q", 0);
    let large = vec![b'x'; 60_000];
    let waits = |shown: &Value| shown["waiting"].as_u64().unwrap_or_default();
    eventually("messages wait for the socket of who reads nothing", || {
        for _ in 0..50 {
            bob.publish("q", &large);
        }
        bob.ping();
        waits(&place.json(&["clients", "show", "ann"])) > 0
    });
    let waiting = waits(&place.json(&["clients", "show", "ann"]));
    let answer = place.why(&["ann", "q"]);
    let text = check(&answer, "subscriber", "waiting")["text"].to_string();
    assert!(
        text.contains(&format!("{waiting} of ")),
        "{waiting}: {text}"
    );
    assert_eq!(
        answer["subscriber"]["client"]["waiting"], waiting,
        "{answer}"
    );
}

/// The server remembers for a while whose connection it has ended, and why.
#[test]
fn a_connection_that_the_server_ended_is_told() {
    let place = Place::with("[limits]\nqueue_messages = 1\n");
    place.add("ann", &[]);
    place.add("bob", &[]);
    let one_at_a_time = [0x21, 0, 1];
    let mut ann = login_with(&place, "ann", &one_at_a_time);
    let mut bob = place.login("bob");
    ann.subscribe("q", 1);
    for _ in 0..3 {
        bob.publish_surely("q", b"x");
    }
    eventually("its session is gone", || {
        place.why(&["ann", "q"])["subscriber"]["client"].is_null()
    });
    let answer = place.why(&["ann", "q"]);
    let ended = "s ago (slow-client): its queue was full, since it read too slowly";
    says(&answer, "subscriber", "connected", ("bad", ended));
    let answer = place.why(&["ann", "q", "--to", "bob"]);
    says(&answer, "publisher", "publisher", ("bad", ended));
}

/// A topic above a limit is no want of rights, and each has a count of its own.
#[test]
fn a_topic_above_a_limit_is_told_apart_from_missing_rights() {
    let place = Place::with("[limits]\ntopic_levels = 3\n");
    let rules = ["role", "add", "some", "--rule", "allow both a/#"];
    place.run(&rules).success();
    place.add("ann", &["some"]);
    place.add("bob", &["some"]);
    let (mut ann, mut bob) = (place.login("ann"), place.login("bob"));
    bob.subscribe("a/#", 0);
    ann.send(&publish(Version::V5, "a/b/c/d", b"x", 0, false).repeat(3));
    ann.send(&publish(Version::V5, "secret", b"x", 0, false));
    ann.ping();
    let shown = place.json(&["clients", "show", "ann"]);
    let counts = ["topics_refused", "publishes_refused"];
    let counts = counts.map(|key| shown[key]["total"].as_u64());
    assert_eq!(counts, [Some(3), Some(1)], "{shown}");
    let answer = place.why(&["ann", "a/b/c/d", "--to", "bob"]);
    let limit = ("bad", "limits.topic_levels is 3");
    says(&answer, "publisher", "topic", limit);
    let refused = "3 of its messages were refused, because their topics were above";
    assert!(answer.to_string().contains(refused), "{answer}");
    let status = place.run(&["status"]).success();
    for told in [
        "refused, because their clients may not publish them: 1",
        "refused, because their topics are above limits.topic_bytes or limits.topic_levels: 3",
    ] {
        assert!(status.contains(told), "{status}");
    }
}
