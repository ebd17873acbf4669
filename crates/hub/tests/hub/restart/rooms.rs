//! Rooms that stay when they are empty.

use super::{restart, world};
use crate::world::{ConnectOptions, Disk, World};
use stentor_mqtt::{Property, PropertyBuf, QoS, Version};

const Q1: QoS = QoS::AtLeastOnce;

/// An administrator of rooms: nothing is denied.
fn boss() -> ConnectOptions<'static> {
    ConnectOptions {
        user: Some("boss"),
        ..ConnectOptions::default()
    }
}

fn player(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        denied: &["$rooms/"],
        ..ConnectOptions::persistent()
    }
}

/// Calls a command; gives back the answer.
fn command(w: &mut World, client: usize, name: &str, words: &str) -> String {
    let mut properties = PropertyBuf::new();
    properties.push(Property::ResponseTopic("$reply/cmd"));
    let topic = format!("$call/room.{name}");
    w.publish_with(client, &topic, words, Q1, false, properties.as_properties());
    let messages = w.take_messages(client);
    let answer = messages.into_iter().find(|m| m.topic == "$reply/cmd");
    String::from_utf8(answer.expect("an answer").payload).unwrap()
}

fn enter(w: &mut World, id: &str) -> usize {
    let boss = w.connect(Version::V5, id, &boss());
    w.subscribe(boss, "$reply/+", Q1);
    boss
}

#[track_caller]
fn does(w: &mut World, client: usize, name: &str, words: &str) {
    let done = command(w, client, name, words);
    assert!(done.contains(r#""status":"done""#), "{done}");
}

fn hall(w: &mut World, client: usize) -> String {
    command(w, client, "info", r#"{"room":"hall"}"#)
}

/// Each start has another number of shards; in some of them all is written again, so that what was
/// written before is given up.
#[test]
fn a_permanent_room_survives_starts_and_rounds() {
    let mut w = world();
    let b = enter(&mut w, "boss");
    let words = r#"{"room":"hall","permanent":true,"capacity":2,"properties":{"a":1,"b":"x"}}"#;
    does(&mut w, b, "create", words);
    does(&mut w, b, "create", r#"{"room":"gone","permanent":true}"#);
    does(&mut w, b, "create", r#"{"room":"short"}"#);
    does(
        &mut w,
        b,
        "set",
        r#"{"room":"hall","name":"a","value":null}"#,
    );
    does(&mut w, b, "close", r#"{"room":"gone"}"#);
    let ann = w.connect(Version::V5, "ann", &player("ann"));
    w.subscribe(ann, "$room/hall/#", Q1);
    w.subscribe(ann, "$reply/+", Q1);
    w.take_messages(ann);
    does(&mut w, ann, "lock", r#"{"room":"hall","name":"b"}"#);
    does(&mut w, b, "change", r#"{"room":"hall","owner":"ann"}"#);
    w.drop_link(ann);
    let before = hall(&mut w, b);
    assert!(before.contains(r#""away":["ann"]"#), "{before}");
    assert!(
        before.contains(r#""members":1"#) && before.contains(r#""owner":"ann""#),
        "{before}"
    );
    for (round, shards) in [3, 1, 2, 4].into_iter().enumerate() {
        restart(&mut w, shards);
        if round % 2 == 1 {
            assert!(w.rewrite_all(), "nothing of the earlier starts is needed");
        }
        let b = enter(&mut w, "boss");
        assert_eq!(hall(&mut w, b), before, "{shards} shards");
        let list = command(&mut w, b, "list", "{}");
        assert!(!list.contains("gone") && !list.contains("short"), "{list}");
        // The lock is ann's, who is away.
        let set = command(&mut w, b, "set", r#"{"room":"hall","name":"b","value":1}"#);
        assert!(set.contains("property-locked"), "{set}");
    }
    // Versions go on behind that of a property that was removed.
    let b = enter(&mut w, "boss");
    let set = command(&mut w, b, "set", r#"{"room":"hall","name":"c","value":1}"#);
    assert!(set.contains(r#""version":4"#), "{set}");
}

/// Somebody who was in the room keeps the place for a while, and comes back to it.
#[test]
fn places_are_kept_after_a_start() {
    let mut w = world();
    let b = enter(&mut w, "boss");
    does(
        &mut w,
        b,
        "create",
        r#"{"room":"hall","permanent":true,"capacity":2}"#,
    );
    for name in ["ann", "bob"] {
        let client = w.connect(Version::V5, name, &player(name));
        w.subscribe(client, "$room/hall/#", Q1);
    }
    restart(&mut w, 3);
    let eve = w.connect(Version::V5, "eve", &player("eve"));
    assert_eq!(
        w.subscribe(eve, "$room/hall/#", Q1),
        0x97,
        "both places are kept"
    );
    let ann = w.connect(Version::V5, "ann", &player("ann"));
    w.publish(ann, "$room/hall/say", "back", Q1, false);
    let heard = w.take_messages(ann);
    assert!(
        heard.iter().any(|m| m.topic == "$room/hall/say/ann"),
        "{heard:?}"
    );
    // Bob does not come back.
    w.pass_secs(40);
    assert!(w.subscribe(eve, "$room/hall/#", Q1) < 3);
    let b = enter(&mut w, "boss");
    let shown = hall(&mut w, b);
    assert!(shown.contains(r#"["ann","eve"]"#), "{shown}");
}

/// A room of very many ends over turns. A server that ends in the meantime does not bring it back.
#[test]
fn a_large_room_that_was_being_closed_does_not_come_back() {
    let mut w = world();
    let b = enter(&mut w, "boss");
    does(&mut w, b, "create", r#"{"room":"hall","permanent":true}"#);
    for number in 0..300 {
        let name = format!("user-{number}");
        let client = w.connect(Version::V5, &name, &player(&name));
        w.subscribe(client, "$room/hall/say/+", Q1);
    }
    w.paused = true;
    w.publish(b, "$call/room.close/1", r#"{"room":"hall"}"#, Q1, false);
    for pair in w.pairs_under_way() {
        while w.deliver_one(pair) {}
    }
    assert!(!w.stored("$room/hall/member/+").is_empty(), "it is ending");
    restart(&mut w, 1);
    w.paused = false;
    let b = enter(&mut w, "boss");
    let shown = hall(&mut w, b);
    assert!(shown.contains("there is no such room"), "{shown}");
    does(&mut w, b, "create", r#"{"room":"hall","permanent":true}"#);
}

/// A zone's rooms that could not be written down are refused.
#[test]
fn a_full_disk_takes_no_permanent_room() {
    let mut w = world();
    let b = enter(&mut w, "boss");
    does(&mut w, b, "create", r#"{"room":"hall","permanent":true}"#);
    stentor_hub::journal::set_journal_full(&w.hubs[1], true);
    for (name, words) in [
        ("create", r#"{"room":"new","permanent":true}"#),
        ("set", r#"{"room":"hall","name":"a","value":1}"#),
        ("change", r#"{"room":"hall","capacity":7}"#),
    ] {
        let refused = command(&mut w, b, name, words);
        assert!(refused.contains(r#""error":"disk-full""#), "{refused}");
        assert!(refused.contains(r#""code":151"#), "{refused}");
    }
    does(&mut w, b, "create", r#"{"room":"short"}"#);
    does(&mut w, b, "set", r#"{"room":"short","name":"a","value":1}"#);
    does(&mut w, b, "close", r#"{"room":"hall"}"#);
    stentor_hub::journal::set_journal_full(&w.hubs[1], false);
    does(&mut w, b, "create", r#"{"room":"new","permanent":true}"#);
}

/// What a full disk has dropped is written when there is room again, and what has ended does not
/// come back, whether the other shards have written theirs again or not.
#[test]
fn a_journal_that_catches_up_has_all_rooms() {
    for shards in [0..2, 0..1] {
        let mut w = world();
        let b = enter(&mut w, "boss");
        for name in ["hall", "gone"] {
            let words = format!(r#"{{"room":"{name}","permanent":true}}"#);
            does(&mut w, b, "create", &words);
        }
        shards.clone().for_each(|it| w.set_disk(it, Disk::IsFull));
        does(&mut w, b, "set", r#"{"room":"hall","name":"a","value":1}"#);
        does(&mut w, b, "close", r#"{"room":"gone"}"#);
        for shard in shards {
            w.set_disk(shard, Disk::CatchesUp);
            w.rewrite(shard, usize::MAX);
        }
        assert!(w.is_sound());
        let before = hall(&mut w, b);
        assert!(before.contains(r#""a":1"#), "{before}");
        restart(&mut w, 1);
        let b = enter(&mut w, "boss");
        assert_eq!(hall(&mut w, b), before);
        let list = command(&mut w, b, "list", "{}");
        assert!(!list.contains("gone"), "{list}");
    }
}
