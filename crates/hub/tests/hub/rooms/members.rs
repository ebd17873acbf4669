//! Members of a room: what is said, told and kept there, and who is not let in.

use stentor_mqtt::Version;

use super::{
    Q0, Q1, change, command, events, listener, meet, places, puback, received, said, told_of_joins,
    user,
};
use crate::world::{ConnectOptions, World};

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
            // A user who is not in the room is not heard, and hears nothing.
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

/// Somebody speaks and calls a command at once: the answer comes after the word, wherever the home
/// is.
#[test]
fn an_answer_comes_after_what_was_said_before() {
    for place in places() {
        let (mut w, ann, _) = meet(place, Version::V311, &user("bob"));
        w.subscribe(ann, "$room/tea/#", Q1);
        w.take_messages(ann);
        w.paused = true;
        w.publish(ann, "$room/tea/say", "hello", Q0, false);
        w.publish(ann, "$call/room.info/1", r#"{"room":"tea"}"#, Q0, false);
        // The home gets both in one turn.
        for pair in w.pairs_under_way() {
            while w.deliver_one(pair) {}
        }
        w.paused = false;
        w.settle();
        let heard = received(&mut w, ann);
        assert_eq!(heard.len(), 2, "{heard:?}");
        assert_eq!(heard[0], "$room/tea/say/ann hello");
        assert!(heard[1].starts_with("$reply/1 {"), "{heard:?}");
    }
}

/// What a command costs its home counts in the turn, so that a turn ends when many have come.
#[test]
fn a_command_counts_as_work_of_the_turn() {
    let mut w = World::new(1);
    let ann = w.connect(Version::V5, "a", &user("ann"));
    w.subscribe(ann, "$room/tea/#", Q1);
    let value = "1,".repeat(50_000);
    let words = format!(r#"{{"room":"tea","name":"p","value":[{value}1]}}"#);
    w.paused = true;
    let before = w.hubs[0].turn().visits();
    w.publish(ann, "$call/room.set/1", &words, Q0, false);
    let visits = w.hubs[0].turn().visits() - before;
    assert!(visits > 5_000, "{visits}");
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

/// A session that is put out of a room and has very many subscriptions has them counted, and owes
/// for the look at them; a session that is not in it costs nothing.
#[test]
fn being_put_out_of_a_room_is_counted() {
    let place = places().next().unwrap();
    let (mut w, ann, ben) = meet(place, Version::V5, &user("ben"));
    command(&mut w, ann, "create", r#"{"room":"tea"}"#);
    assert!(w.subscribe(ben, "$room/tea/#", Q1) <= 2);
    let filters: Vec<_> = (0..8_000).map(|n| format!("t/{n}")).collect();
    w.subscribe_all(ben, &filters);
    w.paused = true;
    let mut kick = || {
        let words = r#"{"room":"tea","user":"ben"}"#;
        w.hubs[0].begin_turn();
        w.publish(ann, "$call/room.kick", words, Q1, false);
        w.hubs[0].turn().visits()
    };
    let visits = kick();
    // The command itself counts by its estimated time.
    assert!((4_000..7_000).contains(&visits), "{visits}");
    assert!(kick() < 3_000);
}
