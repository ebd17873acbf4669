//! Rooms over one shard and over several: the home of the zone is shard 0.

mod away;
mod ending;
mod members;
mod rights;

use crate::world::{ConnectOptions, World};
use stentor_mqtt::{Property, PropertyBuf, QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        denied: &["secret/", "$rooms/tea", "$rooms/den", "$rooms/g"],
        ..ConnectOptions::default()
    }
}

/// Whose session outlives its connection.
fn lasting(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        denied: &["$rooms/"],
        ..ConnectOptions::persistent()
    }
}

/// A listener, who may not speak in the room.
fn listener(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        denied: &["$room/tea/say/x", "$room/tea/say", "$rooms/"],
        ..user(name)
    }
}

/// One shard; or four, and client ids whose sessions are at home or elsewhere.
fn places() -> impl Iterator<Item = (u8, [&'static str; 3])> {
    let ids = [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g", "h", "i"],
        ["j", "k", "l"],
    ];
    ids.into_iter().flat_map(|ids| [(1, ids), (4, ids)])
}

fn received(w: &mut World, client: usize) -> Vec<String> {
    let messages = w.take_messages(client).into_iter();
    let text =
        |m: crate::world::Message| format!("{} {}", m.topic, String::from_utf8_lossy(&m.payload));
    messages.map(text).collect()
}

/// What was said, and nothing else.
fn said(w: &mut World, client: usize) -> Vec<String> {
    let all = received(w, client).into_iter();
    all.filter(|text| text.contains("/say/")).collect()
}

/// The events of a room.
fn events(w: &mut World, client: usize) -> Vec<String> {
    let all = received(w, client).into_iter();
    let event = |text: String| Some(text.split_once("/event ")?.1.to_owned());
    all.filter_map(event).collect()
}

fn puback(w: &mut World, client: usize) -> u8 {
    let packet = w.take_packet(client, 0x40).expect("a PUBACK");
    packet.get(4).copied().unwrap_or(0)
}

/// What is told about the client's being in rooms.
fn told_of_joins(w: &mut World, client: usize) -> Vec<String> {
    let all = received(w, client).into_iter();
    all.filter(|text| text.starts_with("$reply/join")).collect()
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

/// Ann, and somebody else in that version: both hear the answers to their commands.
fn meet(
    (shards, ids): (u8, [&str; 3]),
    version: Version,
    other: &ConnectOptions<'_>,
) -> (World, usize, usize) {
    let mut w = World::new(shards);
    let ann = w.connect(Version::V5, ids[0], &user("ann"));
    let other = w.connect(version, ids[1], other);
    for client in [ann, other] {
        w.subscribe(client, "$reply/+", Q1);
    }
    (w, ann, other)
}

/// The owner of the room `tea` changes it.
fn change(w: &mut World, owner: usize, fields: &str) {
    let words = format!(r#"{{"room":"tea",{fields}}}"#);
    let done = command(w, owner, "change", &words);
    assert!(done.contains(r#""status":"done""#), "{done}");
}

/// What a member is told of the room `tea`.
fn tea(w: &mut World, client: usize) -> String {
    command(w, client, "info", r#"{"room":"tea"}"#)
}
