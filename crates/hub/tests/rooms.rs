//! Rooms over one shard and over several: the home of the zone is shard 0.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::sync::Arc;

use stentor_hub::{ControlItem, Identity, Renewal, Renewed};
use stentor_mqtt::{Property, PropertyBuf, QoS, Version};
use stentor_session::{CloseReason, Remote};
use world::{ConnectOptions, TestRights, World};

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

/// Who only listens: may not speak in the room.
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
    let text = |m: world::Message| format!("{} {}", m.topic, String::from_utf8_lossy(&m.payload));
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

#[test]
fn members_hear_each_other_with_the_speakers_name() {
    for (shards, ids) in places() {
        for version in [Version::V311, Version::V5] {
            let mut w = World::new(shards);
            let [ann, bob, eve] = [("ann", 0), ("bob", 1), ("eve", 2)]
                .map(|(n, i)| w.connect(version, ids[i], &user(n)));
            assert_eq!(w.subscribe(ann, "$room/tea/#", Q1), 1);
            assert_eq!(w.subscribe(bob, "$room/tea/say/+", Q1), 1);
            w.take_messages(ann);
            w.publish(ann, "$room/tea/say", "hello", Q1, false);
            assert_eq!(puback(&mut w, ann), 0);
            for client in [ann, bob] {
                assert_eq!(
                    said(&mut w, client),
                    ["$room/tea/say/ann hello"],
                    "{shards} {ids:?}"
                );
            }
            // Who is not in the room is not heard, and hears nothing.
            w.publish(eve, "$room/tea/say", "psst", Q1, false);
            let expected = if version.is_v5() { 0x87 } else { 0 };
            assert_eq!(puback(&mut w, eve), expected);
            for client in [ann, bob, eve] {
                assert!(said(&mut w, client).is_empty());
            }
            // Nobody speaks for somebody else, or for the room.
            for topic in [
                "$room/tea/say/bob",
                "$room/tea/event",
                "$room/tea/member/eve",
            ] {
                w.publish(ann, topic, "forged", Q1, true);
                assert_eq!(puback(&mut w, ann), expected, "{topic}");
            }
            assert!(said(&mut w, bob).is_empty());
        }
    }
}

#[test]
fn coming_and_going_is_told_and_can_be_read_later() {
    for place @ (_, ids) in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        let seen = received(&mut w, ann);
        assert!(
            seen.contains(&r#"$room/tea/member/ann {"state":"here"}"#.to_owned()),
            "{seen:?}"
        );
        w.subscribe(bob, "$room/tea/member/+", Q1);
        let members = received(&mut w, bob);
        assert_eq!(members.len(), 2, "{members:?}");
        assert_eq!(
            events(&mut w, ann),
            [r#"{"event":"joined","user":"bob","members":2}"#]
        );
        // A second subscription is no second arrival, and leaving one of two is no departure.
        w.subscribe(bob, "$room/tea/say/+", Q1);
        w.unsubscribe(bob, "$room/tea/member/+");
        assert!(events(&mut w, ann).is_empty());
        w.unsubscribe(bob, "$room/tea/say/+");
        assert_eq!(
            events(&mut w, ann),
            [r#"{"event":"left","user":"bob","reason":"left","members":1}"#]
        );
        w.publish(bob, "$room/tea/say", "still here?", Q1, false);
        assert_eq!(puback(&mut w, bob), 0x87);
        // A room that dissolves leaves nothing behind.
        w.unsubscribe(ann, "$room/tea/#");
        let late = w.connect(Version::V5, ids[2], &user("cid"));
        w.subscribe(late, "$rooms/#", Q1);
        let listed = received(&mut w, late);
        assert_eq!(listed.len(), 1, "only the lobby: {listed:?}");
        assert!(listed[0].starts_with("$rooms/lobby "), "{listed:?}");
    }
}

#[test]
fn a_wildcard_never_joins_and_rooms_are_not_shared() {
    let mut w = World::new(2);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    for filter in [
        "$room/+/#",
        "$room/#",
        "$room/+/say/+",
        "$room/tea",
        "$share/g/$room/tea/#",
    ] {
        assert_eq!(w.subscribe(ann, filter, Q1), 0x8F, "{filter}");
    }
    let bob = w.connect(Version::V5, "b", &user("bob"));
    w.subscribe(bob, "$room/tea/#", Q1);
    w.subscribe(ann, "#", Q1);
    w.publish(bob, "$room/tea/say", "x", Q1, false);
    assert!(received(&mut w, ann).is_empty());
}

#[test]
fn refusals_say_why() {
    for place @ (_, ids) in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        let old = w.connect(Version::V311, ids[2], &user("cid"));
        w.subscribe(old, "$reply/+", Q1);
        let made = command(&mut w, ann, "create", r#"{"room":"tea","capacity":1}"#);
        assert!(made.contains(r#""status":"done""#), "{made}");
        assert!(made.contains(r#""result":{"room":"tea"}"#), "{made}");
        assert_eq!(w.subscribe(ann, "$room/tea/#", Q1), 1);
        assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 0x97);
        assert_eq!(w.subscribe(old, "$room/tea/#", Q1), 0x80);
        let why = received(&mut w, old);
        assert!(
            why[0].starts_with(r#"$reply/join {"code":151,"error":"full","room":"tea""#),
            "{why:?}"
        );
        change(&mut w, ann, r#""capacity":0,"locked":true"#);
        assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 0x83);
        change(&mut w, ann, r#""locked":false"#);
        assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 1);
        assert_eq!(w.subscribe(old, "$room/tea/#", Q1), 1);
        // Only the owner may.
        let refused = command(&mut w, bob, "close", r#"{"room":"tea"}"#);
        assert!(refused.contains(r#""error":"not-owner""#), "{refused}");
        let nobody = w.connect(Version::V5, "n", &ConnectOptions::default());
        assert_eq!(
            w.subscribe(nobody, "$room/nowhere/#", Q1),
            0x8F,
            "who has no name observes"
        );
    }
}

#[test]
fn who_may_not_speak_observes() {
    for place in places() {
        let (mut w, ann, eve) = meet(place, Version::V5, &listener("eve"));
        assert_eq!(
            w.subscribe(eve, "$room/tea/event", Q1),
            0x8F,
            "there is nothing to observe"
        );
        w.subscribe(ann, "$room/tea/event", Q1);
        assert_eq!(w.subscribe(eve, "$room/tea/event", Q1), 1);
        assert!(events(&mut w, ann).is_empty(), "nobody sees an observer");
        w.unsubscribe(ann, "$room/tea/event");
        assert_eq!(
            events(&mut w, eve),
            [r#"{"event":"left","user":"ann","reason":"left","members":0}"#]
        );
        w.unsubscribe(eve, "$room/tea/event");
        let refused = command(&mut w, eve, "create", r#"{"room":"tea"}"#);
        assert!(refused.contains(r#""error":"not-allowed""#), "{refused}");
    }
}

#[test]
fn an_observer_is_sent_out_and_kept_out() {
    for place in places() {
        let (mut w, ann, eve) = meet(place, Version::V5, &listener("eve"));
        w.subscribe(ann, "$room/tea/event", Q1);
        w.subscribe(eve, "$room/tea/event", Q1);
        change(&mut w, ann, r#""locked":true"#);
        let kicked = command(&mut w, ann, "kick", r#"{"room":"tea","user":"eve"}"#);
        assert!(kicked.contains("done"), "{kicked}");
        assert!(told_of_joins(&mut w, eve)[0].contains(r#""error":"kicked""#));
        received(&mut w, eve);
        change(&mut w, ann, r#""capacity":9"#);
        assert!(events(&mut w, eve).is_empty());
        assert_eq!(w.subscribe(eve, "$room/tea/event", Q1), 0x83);
    }
}

#[test]
fn a_lost_connection_keeps_its_place_for_a_while() {
    for place @ (_, ids) in places() {
        for persistent in [false, true] {
            let base = if persistent {
                ConnectOptions::persistent()
            } else {
                ConnectOptions::default()
            };
            let options = ConnectOptions {
                user: Some("bob"),
                ..base
            };
            let (mut w, ann, bob) = meet(place, Version::V5, &options);
            w.subscribe(ann, "$room/tea/#", Q1);
            w.subscribe(bob, "$room/tea/#", Q1);
            received(&mut w, ann);
            w.drop_link(bob);
            assert_eq!(events(&mut w, ann), [r#"{"event":"away","user":"bob"}"#]);
            w.publish(ann, "$room/tea/say", "missed", Q1, false);
            w.pass_secs(20);
            let bob = w.connect(Version::V5, ids[1], &options);
            if !persistent {
                w.subscribe(bob, "$room/tea/#", Q1);
            }
            assert_eq!(events(&mut w, ann), [r#"{"event":"back","user":"bob"}"#]);
            w.publish(ann, "$room/tea/say", "heard", Q1, false);
            assert_eq!(said(&mut w, bob), ["$room/tea/say/ann heard"]);
            received(&mut w, ann);
            w.drop_link(bob);
            w.pass_secs(31);
            let told = events(&mut w, ann);
            assert_eq!(told.len(), 2, "{told:?}");
            assert_eq!(
                told[1],
                r#"{"event":"left","user":"bob","reason":"lost","members":1}"#
            );
            // A goodbye is a departure.
            let bob = w.connect(Version::V5, ids[1], &options);
            if !persistent {
                w.subscribe(bob, "$room/tea/#", Q1);
            }
            events(&mut w, ann);
            w.disconnect(bob, CloseReason::Remote(Remote::Disconnect));
            let told = events(&mut w, ann);
            assert!(told[0].contains(r#""reason":"left""#), "{told:?}");
        }
    }
}

#[test]
fn who_is_sent_out_hears_nothing_more() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        for client in [ann, bob] {
            w.subscribe(client, "$room/tea/#", Q1);
        }
        let kicked = command(&mut w, ann, "kick", r#"{"room":"tea","user":"bob"}"#);
        assert!(kicked.contains(r#""status":"done""#), "{kicked}");
        received(&mut w, bob);
        w.publish(ann, "$room/tea/say", "he is gone", Q1, false);
        assert!(received(&mut w, bob).is_empty());
        w.publish(bob, "$room/tea/say", "am I?", Q1, false);
        assert_eq!(w.take_packet(bob, 0x40).unwrap().get(4), Some(&0x87));
        let closed = command(&mut w, ann, "close", r#"{"room":"tea"}"#);
        assert!(closed.contains(r#""status":"done""#), "{closed}");
        w.publish(ann, "$room/tea/say", "anybody?", Q1, false);
        assert!(said(&mut w, ann).is_empty());
    }
}

#[test]
fn history_follows_the_suback_and_precedes_what_is_live() {
    for place @ (shards, ids) in places() {
        let (mut w, ann, bob) = meet(place, Version::V311, &user("bob"));
        command(
            &mut w,
            ann,
            "create",
            r#"{"room":"tea","history":{"count":2}}"#,
        );
        w.subscribe(ann, "$room/tea/say/+", Q1);
        for text in ["one", "two", "three"] {
            w.publish(ann, "$room/tea/say", text, Q1, false);
        }
        received(&mut w, ann);
        // Bob asks while more is said.
        w.paused = true;
        w.subscribe(bob, "$room/tea/say/+", Q1);
        w.publish(ann, "$room/tea/say", "four", Q1, false);
        w.paused = false;
        w.settle();
        let kinds: Vec<u8> = w.clients[bob]
            .received
            .iter()
            .map(|p| p[0] & 0xF0)
            .collect();
        assert_eq!(kinds[0], 0x90, "SUBACK first");
        let heard = w.take_messages(bob);
        let texts: Vec<_> = heard
            .iter()
            .map(|m| (String::from_utf8_lossy(&m.payload).into_owned(), m.retain))
            .collect();
        let live = ("four".to_owned(), false);
        let past = ["two", "three"].map(|text| (text.to_owned(), true));
        let by_history = [past[1].clone(), ("four".to_owned(), true)];
        assert!(
            texts == [&past[..], &[live]].concat() || texts == by_history,
            "{shards} {ids:?} {texts:?}"
        );
    }
}

#[test]
fn properties_are_told_compared_and_locked() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        for client in [ann, bob] {
            w.subscribe(client, "$room/g/prop/+", Q1);
        }
        let set = command(
            &mut w,
            ann,
            "set",
            r#"{"room":"g","name":"map","value":"desert"}"#,
        );
        assert!(set.contains(r#""status":"done""#), "{set}");
        assert!(set.contains(r#""result":{"version":1}"#), "{set}");
        let told = received(&mut w, bob);
        assert_eq!(
            told,
            [r#"$room/g/prop/map {"value":"desert","version":1,"by":"ann"}"#]
        );
        for (words, expected) in [
            (
                r#"{"room":"g","name":"map","value":1,"if_version":7}"#,
                "conflict",
            ),
            (
                r#"{"room":"g","name":"map","value":1,"if_absent":true}"#,
                "conflict",
            ),
            (
                r#"{"room":"g","name":"map","value":1,"if_value":"desert"}"#,
                "\"version\":2",
            ),
            (r#"{"room":"none","name":"map","value":1}"#, "unknown"),
            (r#"{"room":"g","value":1}"#, "bad-call"),
            ("nonsense", "bad-call"),
        ] {
            let answer = command(&mut w, bob, "set", words);
            assert!(answer.contains(expected), "{words}: {answer}");
        }
        let locked = command(&mut w, bob, "lock", r#"{"room":"g","name":"map"}"#);
        assert!(locked.contains("done"), "{locked}");
        let refused = command(&mut w, ann, "set", r#"{"room":"g","name":"map","value":2}"#);
        assert!(refused.contains("property-locked"), "{refused}");
        // Released when that user goes.
        w.unsubscribe(bob, "$room/g/prop/+");
        let set = command(&mut w, ann, "set", r#"{"room":"g","name":"map","value":2}"#);
        assert!(set.contains("done"), "{set}");
        let found = command(&mut w, bob, "match", r#"{"properties":{"map":2}}"#);
        assert!(
            found.contains(r#""room":"g""#) && found.contains("false"),
            "{found}"
        );
        let words = r#"{"properties":{"map":3},"create":"den"}"#;
        let made = command(&mut w, bob, "match", words);
        assert!(
            made.contains(r#""room":"den""#) && made.contains("true"),
            "{made}"
        );
        let info = command(&mut w, bob, "info", r#"{"room":"g"}"#);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
        let list = command(&mut w, bob, "list", "");
        assert!(list.contains(r#""total":3"#), "lobby, g and den: {list}");
        let unknown = command(&mut w, bob, "dance", "{}");
        assert!(unknown.contains("not-found"), "{unknown}");
    }
}

/// A connection that ends while its SUBSCRIBE is under way leaves no seat behind.
#[test]
fn a_join_that_nobody_waits_for_is_undone() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        w.paused = true;
        w.subscribe(bob, "$room/tea/#", Q1);
        w.drop_link(bob);
        w.paused = false;
        w.settle();
        w.pass_secs(31);
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
    }
}

/// Who comes back is told what has become of its place; a room that has ended is not made again.
#[test]
fn who_was_sent_out_while_away_is_told_and_stays_out() {
    for place @ (_, ids) in places() {
        for (version, command_name, error) in [
            (Version::V311, "kick", "kicked"),
            (Version::V5, "kick", "kicked"),
            (Version::V5, "close", "closed"),
        ] {
            let (mut w, ann, bob) = meet(place, version, &lasting("bob"));
            w.subscribe(ann, "$room/tea/#", Q1);
            w.subscribe(bob, "$room/tea/event", Q1);
            w.subscribe(bob, "$room/tea/say/+", Q1);
            w.drop_link(bob);
            let words = match command_name {
                "kick" => r#"{"room":"tea","user":"bob"}"#,
                _ => r#"{"room":"tea"}"#,
            };
            let done = command(&mut w, ann, command_name, words);
            assert!(done.contains(r#""status":"done""#), "{done}");
            received(&mut w, ann);
            let bob = w.connect(version, ids[1], &lasting("bob"));
            let told = received(&mut w, bob);
            assert_eq!(told.len(), 1, "{told:?}");
            let expected = format!(r#"$reply/join {{"code":152,"error":"{error}","room":"tea""#);
            assert!(told[0].starts_with(&expected), "{told:?}");
            assert!(events(&mut w, ann).is_empty());
            let info = tea(&mut w, ann);
            assert!(!info.contains("bob"), "{info}");
            let is_there = command_name == "kick";
            assert_eq!(info.contains(r#""status":"done""#), is_there, "{info}");
            // It may join again, by itself.
            assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 1);
        }
    }
}

/// After the grace period coming back is joining, which may be refused.
#[test]
fn who_comes_back_too_late_is_told_why_it_is_not_let_in() {
    for place @ (_, ids) in places() {
        for version in [Version::V311, Version::V5] {
            for (fields, code) in [(r#""locked":true"#, 0x83), (r#""capacity":1"#, 0x97)] {
                let (mut w, ann, bob) = meet(place, version, &lasting("bob"));
                w.subscribe(ann, "$room/tea/#", Q1);
                w.subscribe(bob, "$room/tea/#", Q1);
                received(&mut w, bob);
                w.drop_link(bob);
                change(&mut w, ann, fields);
                w.pass_secs(31);
                let bob = w.connect(version, ids[1], &lasting("bob"));
                let told = told_of_joins(&mut w, bob);
                assert_eq!(told.len(), 1, "{told:?}");
                let expected = format!(r#"$reply/join {{"code":{code},"#);
                assert!(told[0].starts_with(&expected), "{told:?}");
                let info = tea(&mut w, ann);
                assert!(info.contains(r#""members":["ann"]"#), "{info}");
            }
        }
    }
}

/// A client that is sent out while it comes back, or goes again while it does, loses nothing else.
#[test]
fn who_comes_back_in_between_is_told_or_comes_again() {
    for place @ (_, ids) in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &lasting("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        w.subscribe(bob, "$room/tea/#", Q1);
        w.drop_link(bob);
        // It goes before the home has answered, and comes again at once.
        w.paused = true;
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.drop_link(bob);
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.paused = false;
        w.settle();
        received(&mut w, bob);
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann","bob"]"#), "{info}");
        w.pass_secs(31);
        w.publish(bob, "$room/tea/say", "still here", Q1, false);
        assert_eq!(said(&mut w, bob), ["$room/tea/say/bob still here"]);
        if w.clients[ann].shard != 0 || w.clients[bob].shard == 0 {
            continue;
        }
        // It is sent out while its question is on the way.
        w.drop_link(bob);
        w.paused = true;
        let bob = w.connect_only(Version::V5, ids[1], &lasting("bob"));
        w.publish(
            ann,
            "$call/room.kick/x",
            r#"{"room":"tea","user":"bob"}"#,
            Q1,
            false,
        );
        w.paused = false;
        w.settle();
        let told = told_of_joins(&mut w, bob);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("kicked"), "{told:?}");
        let info = tea(&mut w, ann);
        assert!(info.contains(r#""members":["ann"]"#), "{info}");
        w.publish(ann, "$room/tea/say", "he is out", Q1, false);
        assert!(said(&mut w, bob).is_empty());
    }
}

/// No SUBACK of 3.1.1 tells that a room has no name.
#[test]
fn a_room_without_a_name_is_told() {
    let mut w = World::new(1);
    let ann = w.connect(Version::V311, "a", &user("ann"));
    w.subscribe(ann, "$reply/+", Q1);
    for filter in ["$room", "$room/", "$room/+/say/+"] {
        assert_eq!(w.subscribe(ann, filter, Q1), 0x80);
        let told = received(&mut w, ann);
        assert_eq!(told.len(), 1, "{filter}: {told:?}");
        assert!(told[0].contains(r#""error":"no-room""#), "{told:?}");
    }
}

/// What bob may do from now on; nothing at all if he may not be here.
#[derive(Debug)]
struct Bobs(Option<&'static [&'static str]>);

impl Renewal for Bobs {
    fn subject(&self) -> &str {
        "bob"
    }

    fn renew(&self, identity: &Arc<Identity>, _client_id: &str) -> Renewed {
        match self.0 {
            _ if identity.user.as_deref() != Some("bob") => Renewed::Keep,
            None => Renewed::Close { end_session: true },
            Some(denied) => Renewed::Replace(Arc::new(Identity {
                rights: TestRights::denying(denied),
                ..(**identity).clone()
            })),
        }
    }
}

fn renew_bob(w: &mut World, denied: Option<&'static [&'static str]>) {
    w.control_all(&ControlItem::Renew(Arc::new(Bobs(denied))));
}

const REVOKED: &str = r#"{"event":"left","user":"bob","reason":"revoked","members":1}"#;

/// Be he there, away for a moment, or put out of the server.
#[test]
fn who_loses_the_right_to_a_room_is_out_of_it() {
    for place @ (shards, ids) in places() {
        for (stays, denied, expiry_secs) in [
            (true, Some(&["$room/tea", "$rooms/"][..]), u32::MAX),
            (false, Some(&["$room/tea", "$rooms/"][..]), u32::MAX),
            (false, Some(&["$room/tea", "$rooms/"][..]), 0),
            (true, None, u32::MAX),
            (false, None, 0),
        ] {
            let options = ConnectOptions {
                expiry_secs,
                ..lasting("bob")
            };
            let (mut w, ann, bob) = meet(place, Version::V5, &options);
            w.subscribe(ann, "$room/tea/#", Q1);
            change(&mut w, ann, r#""capacity":2"#);
            w.subscribe(bob, "$room/tea/#", Q1);
            command(&mut w, bob, "lock", r#"{"room":"tea","name":"cake"}"#);
            if !stays {
                w.drop_link(bob);
            }
            received(&mut w, ann);
            renew_bob(&mut w, denied);
            let told = received(&mut w, ann);
            let context = format!("{shards} {ids:?} {stays} {denied:?}: {told:?}");
            assert!(
                told.contains(&format!("$room/tea/event {REVOKED}")),
                "{context}"
            );
            assert!(told.contains(&"$room/tea/member/bob ".into()), "{context}");
            assert!(told.contains(&"$room/tea/prop/cake ".into()), "{context}");
            let cat = w.connect(Version::V5, ids[2], &user("cat"));
            assert_eq!(
                w.subscribe(cat, "$room/tea/event", Q1),
                1,
                "his place is free"
            );
            if denied.is_none() || expiry_secs == 0 {
                continue;
            }
            let bob = if stays {
                bob
            } else {
                // He came with the rights that he has now.
                let options = ConnectOptions {
                    clean_start: false,
                    denied: &["$room/tea", "$rooms/"],
                    ..lasting("bob")
                };
                w.connect(Version::V5, ids[1], &options)
            };
            let told = received(&mut w, bob).join("\n");
            assert!(
                told.contains(r#""error":"not-allowed""#),
                "{context} {told}"
            );
            w.publish(ann, "$room/tea/say", "secret", Q1, false);
            assert!(received(&mut w, bob).is_empty(), "{context}");
            assert_eq!(w.subscribe(bob, "$room/tea/#", Q1), 0x87);
        }
    }
}

/// However many rooms they are, each is told once, and the others stay.
#[test]
fn who_loses_the_right_to_many_rooms_is_out_of_them_at_once() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &lasting("bob"));
        for room in 0..20 {
            for below in ["event", "say/+"] {
                w.subscribe(bob, &format!("$room/tea{room}/{below}"), Q1);
            }
        }
        w.subscribe(bob, "$room/den/#", Q1);
        w.subscribe(ann, "$room/den/#", Q1);
        received(&mut w, bob);
        renew_bob(&mut w, Some(&["$room/tea", "$rooms/"]));
        let told = told_of_joins(&mut w, bob);
        let refused = told.iter().filter(|told| told.contains("not-allowed"));
        assert_eq!(refused.count(), 20, "{told:?}");
        w.publish(ann, "$room/den/say", "hi", Q1, false);
        let heard = received(&mut w, bob);
        assert!(
            heard.iter().any(|heard| heard.ends_with(" hi")),
            "{heard:?}"
        );
    }
}

/// He goes on as whoever may not speak from the beginning, and comes back to his place.
#[test]
fn who_loses_the_right_to_speak_observes() {
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        w.subscribe(ann, "$room/tea/event", Q1);
        w.subscribe(bob, "$room/tea/event", Q1);
        events(&mut w, ann);
        renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
        assert_eq!(events(&mut w, ann), [REVOKED]);
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        assert_eq!(puback(&mut w, bob), 0x87);
        events(&mut w, bob);
        change(&mut w, ann, r#""locked":true"#);
        assert_eq!(events(&mut w, bob), [r#"{"event":"changed","by":"ann"}"#]);
        // Not into a locked room.
        renew_bob(&mut w, Some(&["$rooms/"]));
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        assert_eq!(puback(&mut w, bob), 0x87);
        renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
        change(&mut w, ann, r#""locked":false"#);
        events(&mut w, ann);
        renew_bob(&mut w, Some(&["$rooms/"]));
        assert_eq!(
            events(&mut w, ann),
            [r#"{"event":"joined","user":"bob","members":2}"#]
        );
        w.publish(bob, "$room/tea/say", "hello", Q1, false);
        assert_eq!(puback(&mut w, bob), 0);
    }
}

/// It is asked for anew by whoever subscribes once more.
#[test]
fn who_may_speak_again_waits_for_a_place() {
    for place @ (_, ids) in places() {
        for version in [Version::V311, Version::V5] {
            let (mut w, ann, bob) = meet(place, version, &user("bob"));
            w.subscribe(ann, "$room/tea/event", Q1);
            change(&mut w, ann, r#""capacity":2"#);
            w.subscribe(bob, "$room/tea/event", Q1);
            renew_bob(&mut w, Some(&["$room/tea/say", "$rooms/"]));
            let cat = w.connect(Version::V5, ids[2], &user("cat"));
            assert_eq!(w.subscribe(cat, "$room/tea/event", Q1), 1);
            renew_bob(&mut w, Some(&["$rooms/"]));
            received(&mut w, bob);
            assert_eq!(w.subscribe(bob, "$room/tea/say/+", Q1), 1);
            let told = received(&mut w, bob);
            assert!(told.is_empty(), "he observes as before: {told:?}");
            assert!(!tea(&mut w, ann).contains("bob"));
            w.unsubscribe(cat, "$room/tea/event");
            events(&mut w, ann);
            assert_eq!(w.subscribe(bob, "$room/tea/say/+", Q1), 1);
            assert_eq!(
                events(&mut w, ann),
                [r#"{"event":"joined","user":"bob","members":2}"#]
            );
            w.publish(bob, "$room/tea/say", "hello", Q1, false);
            assert_eq!(said(&mut w, bob), ["$room/tea/say/bob hello"]);
        }
    }
}

/// The session's own shard does not know yet that it was sent out.
#[test]
fn who_subscribes_once_more_while_sent_out_stays_out() {
    let mut tried = 0;
    for place in places() {
        let (mut w, ann, bob) = meet(place, Version::V5, &user("bob"));
        if w.clients[bob].shard == 0 {
            // The home of the room is his own shard.
            continue;
        }
        tried += 1;
        w.subscribe(ann, "$room/tea/event", Q1);
        w.subscribe(bob, "$room/tea/event", Q1);
        w.paused = true;
        let words = r#"{"room":"tea","user":"bob"}"#;
        w.publish(ann, "$call/room.kick", words, Q1, false);
        w.subscribe(bob, "$room/tea/say/+", Q1);
        w.paused = false;
        w.settle();
        let info = tea(&mut w, ann);
        assert!(!info.contains("bob"), "{info}");
        w.publish(ann, "$room/tea/say", "he has gone", Q1, false);
        assert!(said(&mut w, bob).is_empty());
    }
    assert!(tried > 0);
}
