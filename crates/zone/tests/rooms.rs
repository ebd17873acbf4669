//! Rooms, seen from their users: what happens, who hears of it, and what is refused.

mod support;

use core::time::Duration;

use serde_json::{Map, Value, json};
use stentor_session::Tick;
use stentor_zone::{
    AllRights, Bounds, Change, Condition, Effect, Entry, HistoryBounds, Refusal, Role, RoomOptions,
    RoomRights, Rooms, RoomsOptions, Wish, run_command,
};
use support::{Hall, admin, seat, user};

#[test]
fn the_first_to_join_makes_the_room_and_owns_it() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    assert_eq!(hall.listed("tea")["owner"], "ann");
    assert_eq!(hall.listed("tea")["members"], 1);
    assert_eq!(
        hall.retained("$room/tea/member/ann"),
        Some(json!({"state": "here"}))
    );
    assert_eq!(
        hall.events("tea"),
        [json!({"event": "joined", "user": "ann", "members": 1})]
    );
}

#[test]
fn an_empty_room_dissolves_without_a_trace() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.set(
            user("ann"),
            "topic",
            Some(json!("oolong")),
            &Condition::Always,
            out,
        )
    })
    .unwrap();
    hall.leave("ann", 1, "tea");
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn a_permanent_room_stays() {
    let mut hall = Hall::default();
    let options = RoomOptions {
        permanent: true,
        ..RoomOptions::default()
    };
    let refused = hall.create(user("ann"), "lobby", options.clone());
    assert_eq!(refused, Err(Refusal::NotAllowed));
    hall.create(admin(), "lobby", options).unwrap();
    hall.join("ann", 1, "lobby").unwrap();
    assert_eq!(hall.listed("lobby").get("owner"), None);
    hall.leave("ann", 1, "lobby");
    assert_eq!(hall.topics(), ["$rooms/lobby"]);
    assert_eq!(
        hall.act("lobby", |room, out| room.close(user("ann"), out)),
        Err(Refusal::NotOwner)
    );
    let mut out = Vec::new();
    hall.rooms.close(admin(), "lobby", &mut out).unwrap();
    hall.apply(out);
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn who_may_come_in() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Capacity(Some(2)), out)
    })
    .unwrap();
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(hall.join("cat", 3, "tea"), Err(Refusal::Full));
    // A second session of a member takes no place; an observer neither.
    hall.join("bob", 4, "tea").unwrap();
    hall.observe("cat", 3, "tea").unwrap();
    assert_eq!(hall.listed("tea")["members"], 2);
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Capacity(None), out)?;
        room.change(user("ann"), Change::Locked(true), out)
    })
    .unwrap();
    assert_eq!(hall.join("dan", 5, "tea"), Err(Refusal::Locked));
    hall.act("tea", |room, out| {
        room.join(Tick::ZERO, admin(), seat(6), Entry::Member, out)
    })
    .unwrap();
    for name in ["", "a/b", "+", "#", "$x"] {
        assert_eq!(hall.join("ann", 1, name), Err(Refusal::Name), "{name}");
    }
}

#[test]
fn users_make_rooms_only_where_the_zone_allows_it() {
    let mut hall = Hall::new(RoomsOptions {
        user_rooms: false,
        rooms_max: 1,
        ..RoomsOptions::default()
    });
    assert_eq!(hall.join("ann", 1, "tea"), Err(Refusal::NotAllowed));
    assert_eq!(hall.observe("ann", 1, "tea"), Err(Refusal::Unknown));
    let options = RoomOptions::default;
    hall.create(admin(), "tea", options()).unwrap();
    assert_eq!(hall.create(admin(), "tea", options()), Err(Refusal::Exists));
    assert_eq!(
        hall.create(admin(), "two", options()),
        Err(Refusal::TooMany)
    );
    hall.join("ann", 1, "tea").unwrap();
}

#[test]
fn only_members_speak_and_everybody_hears_who() {
    let mut hall = Hall::default();
    hall.join("a/b", 1, "tea").unwrap();
    hall.observe("eve", 2, "tea").unwrap();
    hall.say("a/b", "tea", b"hello").unwrap();
    assert_eq!(
        hall.said,
        [("$room/tea/say/a%2fb".into(), b"hello".to_vec())]
    );
    assert_eq!(hall.say("eve", "tea", b"x"), Err(Refusal::NotMember));
    assert_eq!(hall.say("dan", "tea", b"x"), Err(Refusal::NotMember));
    let large = vec![0; Bounds::default().say_bytes + 1];
    assert_eq!(hall.say("a/b", "tea", &large), Err(Refusal::TooLarge));
    assert_eq!(hall.say("a/b", "no", b"x"), Err(Refusal::Unknown));
}

#[test]
fn a_lost_connection_keeps_its_place_for_the_grace_period() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.events.clear();
    hall.lost("bob", 2, "tea");
    assert_eq!(
        hall.retained("$room/tea/member/bob").unwrap()["state"],
        "away"
    );
    assert_eq!(hall.say("bob", "tea", b"x"), Err(Refusal::NotMember));
    hall.at(29);
    hall.join("bob", 7, "tea").unwrap();
    hall.lost("bob", 7, "tea");
    hall.at(58);
    assert_eq!(hall.listed("tea")["members"], 2);
    hall.at(59);
    assert_eq!(
        hall.events("tea"),
        [
            json!({"event": "away", "user": "bob"}),
            json!({"event": "back", "user": "bob"}),
            json!({"event": "away", "user": "bob"}),
            json!({"event": "left", "user": "bob", "reason": "lost", "members": 1}),
        ]
    );
    assert_eq!(hall.retained("$room/tea/member/bob"), None);
    // The last one does not come back either: the room ends.
    hall.lost("ann", 1, "tea");
    hall.at(89);
    assert!(hall.rooms.is_empty());
    assert_eq!(hall.rooms.next_deadline(), None);
    assert_eq!(hall.topics(), Vec::<String>::new());
}

#[test]
fn the_oldest_member_inherits_the_room() {
    let mut hall = Hall::default();
    for (number, name) in ["ann", "bob", "cat"].into_iter().enumerate() {
        hall.join(name, number as u64, "tea").unwrap();
    }
    hall.leave("ann", 0, "tea");
    assert_eq!(hall.listed("tea")["owner"], "bob");
    assert_eq!(
        hall.act("tea", |room, out| room.kick(user("cat"), "bob", out)),
        Err(Refusal::NotOwner)
    );
    hall.act("tea", |room, out| {
        room.change(user("bob"), Change::Owner("cat"), out)
    })
    .unwrap();
    assert_eq!(hall.listed("tea")["owner"], "cat");
    assert_eq!(
        hall.act("tea", |room, out| room.change(
            user("cat"),
            Change::Owner("ann"),
            out
        )),
        Err(Refusal::Unknown)
    );
}

#[test]
fn whoever_is_kicked_loses_every_seat() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.join("bob", 3, "tea").unwrap();
    hall.act("tea", |room, out| room.kick(user("ann"), "bob", out))
        .unwrap();
    assert_eq!(hall.cleared, [seat(2), seat(3)]);
    assert_eq!(hall.events("tea").last().unwrap()["reason"], "kicked");
    assert_eq!(
        hall.act("tea", |room, out| room.kick(user("ann"), "bob", out)),
        Err(Refusal::Unknown)
    );
}

#[test]
fn closing_sends_everybody_out() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.observe("eve", 3, "tea").unwrap();
    let mut out = Vec::new();
    hall.rooms.close(user("ann"), "tea", &mut out).unwrap();
    hall.apply(out);
    assert_eq!(hall.cleared, [seat(1), seat(2), seat(3)]);
    assert_eq!(hall.topics(), Vec::<String>::new());
    assert!(hall.rooms.is_empty());
}

#[test]
fn properties_are_compared_before_they_are_set() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let mut set = |value, condition| {
        hall.act("tea", |room, out| {
            room.set(user("ann"), "score", value, &condition, out)
        })
    };
    assert_eq!(
        set(Some(json!(1)), Condition::Version(1)),
        Err(Refusal::Conflict)
    );
    assert_eq!(set(Some(json!(1)), Condition::Absent), Ok(1));
    assert_eq!(
        set(Some(json!(2)), Condition::Absent),
        Err(Refusal::Conflict)
    );
    assert_eq!(set(Some(json!(2)), Condition::Value(json!(1))), Ok(2));
    assert_eq!(
        set(Some(json!(3)), Condition::Version(1)),
        Err(Refusal::Conflict)
    );
    assert_eq!(set(Some(json!(3)), Condition::Version(2)), Ok(3));
    assert_eq!(set(None, Condition::Always), Ok(4));
    assert_eq!(set(None, Condition::Always), Err(Refusal::Unknown));
    // A version is never used twice.
    assert_eq!(set(Some(json!(1)), Condition::Version(0)), Ok(5));
    assert_eq!(
        hall.retained("$room/tea/prop/score"),
        Some(json!({"value": 1, "version": 5, "by": "ann"}))
    );
}

#[test]
fn properties_are_bounded() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let bounds = Bounds::default();
    let mut set = |name: &str, value| {
        hall.act("tea", |room, out| {
            room.set(user("ann"), name, Some(value), &Condition::Always, out)
        })
    };
    for name in ["", "a/b", "#"] {
        assert_eq!(set(name, json!(1)), Err(Refusal::Name));
    }
    let fits = "x".repeat(bounds.property_bytes - 2);
    assert_eq!(set("p", json!(fits)), Ok(1));
    assert_eq!(set("p", json!(fits + "x")), Err(Refusal::TooLarge));
    for number in 1..bounds.properties {
        set(&number.to_string(), Value::Null).unwrap();
    }
    assert_eq!(set("more", Value::Null), Err(Refusal::TooMany));
    assert_eq!(
        hall.act("tea", |room, out| room.set(
            user("bob"),
            "p",
            None,
            &Condition::Always,
            out
        )),
        Err(Refusal::NotMember)
    );
}

#[test]
fn a_lock_goes_with_its_holder() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.join("bob", 2, "tea").unwrap();
    hall.join("cat", 3, "tea").unwrap();
    let set = |hall: &mut Hall, name| {
        hall.act("tea", |room, out| {
            room.set(user(name), "dice", Some(json!(6)), &Condition::Always, out)
        })
    };
    hall.act("tea", |room, out| room.lock(user("bob"), "dice", out))
        .unwrap();
    assert_eq!(
        hall.act("tea", |room, out| room.lock(user("cat"), "dice", out)),
        Err(Refusal::PropertyLocked)
    );
    assert_eq!(set(&mut hall, "ann"), Err(Refusal::PropertyLocked));
    assert_eq!(set(&mut hall, "bob"), Ok(1));
    assert_eq!(
        hall.act("tea", |room, out| room.unlock(user("cat"), "dice", out)),
        Err(Refusal::PropertyLocked)
    );
    // Away is not gone: the lock waits with the place.
    hall.lost("bob", 2, "tea");
    assert_eq!(set(&mut hall, "cat"), Err(Refusal::PropertyLocked));
    hall.at(31);
    assert_eq!(set(&mut hall, "cat"), Ok(2));
    hall.act("tea", |room, out| room.lock(user("cat"), "dice", out))
        .unwrap();
    // The owner may break it.
    hall.act("tea", |room, out| room.unlock(user("ann"), "dice", out))
        .unwrap();
    assert_eq!(
        hall.act("tea", |room, out| room.unlock(user("ann"), "dice", out)),
        Err(Refusal::Unknown)
    );
}

#[test]
fn history_is_within_bounds() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.say("ann", "tea", b"not kept").unwrap();
    let history = |count, bytes, age: Option<u64>| HistoryBounds {
        count,
        bytes,
        age: age.map(Duration::from_secs),
    };
    let keep = |hall: &mut Hall, bounds| {
        hall.act("tea", |room, out| {
            room.change(user("ann"), Change::History(bounds), out)
        })
        .unwrap();
    };
    keep(&mut hall, history(2, 1_000, Some(60)));
    for text in ["1", "2", "3"] {
        hall.say("ann", "tea", text.as_bytes()).unwrap();
    }
    hall.at(10);
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(
        hall.recalled(2),
        [("2".into(), 10_000), ("3".into(), 10_000)]
    );
    // A second filter of the same session recalls nothing again.
    hall.join("bob", 2, "tea").unwrap();
    assert_eq!(hall.recalled(2), []);
    hall.say("ann", "tea", b"4").unwrap();
    hall.at(61);
    hall.observe("eve", 3, "tea").unwrap();
    assert_eq!(hall.recalled(3), [("4".into(), 51_000)]);
    // Fewer bytes than one message: nothing is kept.
    keep(&mut hall, history(100, 10, None));
    hall.say("ann", "tea", b"5").unwrap();
    hall.join("cat", 4, "tea").unwrap();
    assert_eq!(hall.recalled(4), []);
}

#[test]
fn a_wish_finds_the_fullest_room_that_suits() {
    let mut hall = Hall::default();
    let sets = [
        ("a", "chess", 1),
        ("b", "chess", 2),
        ("c", "go", 3),
        ("d", "chess", 2),
    ];
    for (room, game, members) in sets {
        for number in 0..members {
            hall.join(&format!("{room}{number}"), number, room).unwrap();
        }
        let first = format!("{room}0");
        hall.act(room, |held, out| {
            held.set(
                user(&first),
                "game",
                Some(json!(game)),
                &Condition::Always,
                out,
            )?;
            held.change(user(&first), Change::Capacity(Some(3)), out)
        })
        .unwrap();
    }
    let wish = |game: &str, places| {
        let mut properties = Map::new();
        properties.insert("game".into(), json!(game));
        Wish { properties, places }
    };
    let find = |hall: &Hall, wish| {
        hall.rooms
            .find(&wish, |_| true)
            .as_deref()
            .map(str::to_owned)
    };
    assert_eq!(find(&hall, wish("chess", 1)).as_deref(), Some("b"));
    assert_eq!(find(&hall, wish("chess", 2)).as_deref(), Some("a"));
    assert_eq!(find(&hall, wish("go", 1)), None);
    assert_eq!(find(&hall, wish("poker", 1)), None);
    hall.act("b", |room, out| {
        room.change(user("b0"), Change::Locked(true), out)
    })
    .unwrap();
    assert_eq!(find(&hall, wish("chess", 1)).as_deref(), Some("d"));
}

#[test]
fn a_room_of_ten_thousand() {
    let mut rooms = Rooms::default();
    let mut out = Vec::new();
    for number in 0..10_000 {
        let name = format!("user{number}");
        rooms
            .join(
                Tick::ZERO,
                user(&name),
                "hall",
                (seat(number), Entry::Member),
                &mut out,
            )
            .unwrap();
        out.clear();
    }
    assert_eq!(rooms.get("hall").unwrap().members().len(), 10_000);
    for number in 0..10_000 {
        let name = format!("user{number}");
        rooms
            .act("hall", &mut out, |room, out| {
                room.leave(&name, seat(number), out);
                Ok(())
            })
            .unwrap();
    }
    assert!(rooms.is_empty());
    // One joins and leaves without a word to anybody who is not there.
    assert!(
        !out.iter()
            .any(|effect| matches!(effect, Effect::Clear { .. }))
    );
}

/// What all rooms hold together is bounded: nothing more is taken, a room's own oldest words make
/// room for its newest, and what goes gives its bytes back.
#[test]
fn the_rooms_of_a_zone_hold_so_much() {
    let room = RoomOptions {
        history: HistoryBounds {
            count: 100,
            bytes: 10_000,
            age: None,
        },
        ..RoomOptions::default()
    };
    let mut hall = Hall::new(RoomsOptions {
        bytes_max: 1_000,
        room,
        ..RoomsOptions::default()
    });
    let set = |hall: &mut Hall, room: &str, name: &str, bytes: usize| {
        let value = Some(json!("x".repeat(bytes)));
        hall.act(room, |room, out| {
            room.set(user("ann"), name, value, &Condition::Always, out)
        })
    };
    for room in ["tea", "den"] {
        hall.join("ann", 1, room).unwrap();
    }
    set(&mut hall, "tea", "p", 500).unwrap();
    assert_eq!(hall.rooms.bytes(), 1 + 502);
    assert_eq!(set(&mut hall, "den", "q", 500), Err(Refusal::TooMany));
    // The same place may be used again, and what is taken away is free.
    set(&mut hall, "tea", "p", 900).unwrap();
    set(&mut hall, "tea", "p", 10).unwrap();
    set(&mut hall, "den", "q", 500).unwrap();
    for number in 0..50 {
        let word = format!("{number:030}");
        hall.say("ann", "tea", word.as_bytes()).unwrap();
        assert!(hall.rooms.bytes() <= 1_000, "{}", hall.rooms.bytes());
    }
    hall.join("bob", 2, "tea").unwrap();
    let recalled = hall.recalled(2);
    let last = recalled.last().map(|(word, _)| word.as_str());
    assert_eq!(last, Some(format!("{:030}", 49).as_str()));
    assert!((5..50).contains(&recalled.len()), "{}", recalled.len());
    hall.leave("ann", 1, "tea");
    hall.leave("bob", 2, "tea");
    assert_eq!(hall.rooms.bytes(), 1 + 502);
    hall.leave("ann", 1, "den");
    assert_eq!(hall.rooms.bytes(), 0);
}

/// Somebody who may enter rooms, and read everything but one property.
struct AllButSecret;

impl RoomRights for AllButSecret {
    fn role(&self, _room: &str) -> Role {
        Role::User
    }

    fn may_enter(&self, _room: &str) -> bool {
        true
    }

    fn may_read(&self, topic: &str) -> bool {
        topic.ends_with("/prop/open")
    }
}

/// What matches tells what is there.
#[test]
fn nobody_guesses_a_property_that_it_may_not_read() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for name in ["open", "secret"] {
        hall.act("tea", |room, out| {
            room.set(
                user("ann"),
                name,
                Some(json!("pin")),
                &Condition::Always,
                out,
            )
        })
        .unwrap();
    }
    let mut ask = |procedure: &str, words: Value| -> Value {
        let (call, mut out) = (words.to_string(), Vec::new());
        let who = (Tick::ZERO, "eve");
        let call = (procedure, call.as_bytes());
        let (_, answer) = run_command(&mut hall.rooms, who, &AllButSecret, call, &mut out);
        serde_json::from_slice(&answer).unwrap()
    };
    let found = ask("room.match", json!({"properties": {"open": "pin"}}));
    assert_eq!(found["result"]["room"], "tea", "{found}");
    for value in ["pin", "pun"] {
        let found = ask("room.match", json!({"properties": {"secret": value}}));
        assert_eq!(found["error"], "unknown", "{found}");
        let words = json!({"room": "tea", "name": "secret", "value": 1, "if_value": value});
        let set = ask("room.set", words);
        assert_eq!(set["code"], 0x87, "{set}");
    }
}

/// Those who come back are told by their session's shard, which has to hear of it.
#[test]
fn lost_connections_hear_of_being_sent_out() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for number in 2..40 {
        hall.join("bob", number, "tea").unwrap();
        hall.lost("bob", number, "tea");
    }
    // One of them is back, and only the last ones are remembered.
    hall.join("bob", 39, "tea").unwrap();
    hall.act("tea", |room, out| room.kick(admin(), "bob", out))
        .unwrap();
    let expected: Vec<_> = [39].into_iter().chain(24..39).map(seat).collect();
    assert_eq!(hall.cleared, expected);
    // Nobody has a place by coming back.
    let mut out = Vec::new();
    let place = (seat(38), Entry::Kept);
    let back = hall
        .rooms
        .join(Tick::ZERO, user("bob"), "tea", place, &mut out);
    assert_eq!(back, Err(Refusal::NotMember));
    let nowhere = hall
        .rooms
        .join(Tick::ZERO, user("bob"), "den", place, &mut out);
    assert_eq!(nowhere, Err(Refusal::Unknown));
    assert_eq!(out, []);
}

/// One command of a user; the answer, and what the zone was told.
fn command(hall: &mut Hall, name: &str, procedure: &str, words: &str) -> (Value, Vec<Effect>) {
    struct Own;

    impl RoomRights for Own {
        fn role(&self, _room: &str) -> Role {
            Role::User
        }

        fn may_enter(&self, _room: &str) -> bool {
            true
        }

        fn may_read(&self, _topic: &str) -> bool {
            true
        }
    }
    let mut out = Vec::new();
    let call = (procedure, words.as_bytes());
    let (_, answer) = run_command(&mut hall.rooms, (Tick::ZERO, name), &Own, call, &mut out);
    (
        serde_json::from_slice(&answer).expect("the answer is JSON"),
        out,
    )
}

/// Each changes nothing, and says which part is to blame.
#[test]
fn a_command_is_done_as_a_whole_or_not_at_all() {
    let large = format!(
        r#"{{"room":"new","properties":{{"good":1,"bad":"{}"}}}}"#,
        "x".repeat(5_000)
    );
    let many: Map<String, Value> = (0..65).map(|n| (format!("p{n:02}"), json!(n))).collect();
    let many = json!({"room": "new", "properties": many}).to_string();
    let cases = [
        ("create", large.as_str(), "properties.bad", "5002 bytes"),
        ("create", &many, "properties.p64", "at most 64"),
        (
            "create",
            r#"{"room":"new","properties":{"a/b":1,"c":2}}"#,
            "properties.a/b",
            "a/b",
        ),
        (
            "create",
            r#"{"room":"new","properties":{"a":null}}"#,
            "properties.a",
            "null",
        ),
        (
            "create",
            r#"{"room":"new","properties":[1]}"#,
            "properties",
            "[1]",
        ),
        (
            "create",
            r#"{"room":"new","capacity":-1}"#,
            "capacity",
            "from 0 to 4294967295",
        ),
        (
            "create",
            r#"{"room":"new","capacity":1.5}"#,
            "capacity",
            "1.5",
        ),
        (
            "create",
            r#"{"room":"new","capacity":4294967296}"#,
            "capacity",
            "4294967296",
        ),
        (
            "create",
            r#"{"room":"new","locked":"yes"}"#,
            "locked",
            "true or false",
        ),
        (
            "create",
            r#"{"room":"new","history":20}"#,
            "history",
            "an object",
        ),
        (
            "create",
            r#"{"room":"new","history":{"count":"20"}}"#,
            "history.count",
            "\"20\"",
        ),
        (
            "create",
            r#"{"room":"new","history":{"size":1}}"#,
            "history.size",
            "age_secs",
        ),
        (
            "create",
            r#"{"room":"new","colour":"red"}"#,
            "colour",
            "capacity, locked",
        ),
        ("create", r#"{"room":7}"#, "room", "a text"),
        ("create", r#"{"room":"tea"}"#, "room", "already"),
        ("create", r#"{"room":"a/b"}"#, "room", "a/b"),
        ("create", r#"{"room":"new","room":"newer"}"#, "", "twice"),
        (
            "create",
            r#"{"room":"new","properties":{"a":[1,,2]}}"#,
            "",
            "line 1 column",
        ),
        ("create", r#"["new"]"#, "", "JSON object"),
        ("create", "{}", "room", "it needs room"),
        (
            "match",
            r#"{"properties":{"k":1,"a#":2},"create":"new"}"#,
            "properties.a#",
            "a#",
        ),
        (
            "match",
            r#"{"properties":{"k":1},"create":"tea"}"#,
            "create",
            "already",
        ),
        (
            "match",
            r#"{"places":3,"capacity":2,"create":"new"}"#,
            "capacity",
            "which is more",
        ),
        ("match", r#"{"places":"3"}"#, "places", "whole number"),
        (
            "set",
            r#"{"room":"tea","name":"a"}"#,
            "value",
            "null to take it away",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a/b","value":1}"#,
            "name",
            "a/b",
        ),
        (
            "set",
            r#"{"room":"tea","value":1}"#,
            "name",
            "it needs name",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":1,"if_version":-1}"#,
            "if_version",
            "-1",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":1,"if_version":7}"#,
            "name",
            "changed",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":null}"#,
            "name",
            "nothing to take away",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":1,"if_version":0,"if_absent":true}"#,
            "",
            "give one of",
        ),
        (
            "change",
            r#"{"room":"tea","capacity":1,"owner":"dan"}"#,
            "owner",
            "dan",
        ),
        (
            "change",
            r#"{"room":"tea","locked":true,"capacity":"1"}"#,
            "capacity",
            "\"1\"",
        ),
        ("change", r#"{"room":"tea"}"#, "", "changes nothing"),
        ("kick", r#"{"room":"tea","user":"dan"}"#, "user", "dan"),
        ("kick", r#"{"room":"tea"}"#, "user", "it needs user"),
        ("lock", r#"{"room":"tea","name":"$"}"#, "name", "contains"),
        ("list", r#"{"room":"tea"}"#, "room", "nor any other"),
    ];
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let before = hall.listed("tea");
    for (procedure, words, part, text) in cases {
        let procedure = format!("room.{procedure}");
        let (answer, effects) = command(&mut hall, "ann", &procedure, words);
        assert_ne!(answer["status"], "done", "{procedure} {words}: {answer}");
        let named = answer["part"].as_str().unwrap_or_default();
        assert_eq!(named, part, "{procedure} {words}: {answer}");
        let said = answer["text"].as_str().unwrap_or_default();
        assert!(said.contains(text), "{procedure} {words}: {said}");
        assert_eq!(effects, [], "{procedure} {words}");
        assert_eq!(hall.rooms.len(), 1, "{procedure} {words}");
        assert_eq!(hall.rooms.bytes(), 0, "{procedure} {words}");
    }
    let summary = hall.rooms.get("tea").unwrap().summary();
    assert_eq!(serde_json::to_value(summary).unwrap(), before);
}

#[test]
fn a_room_has_its_properties_from_the_beginning() {
    let mut hall = Hall::default();
    let words = r#"{"room":"new","capacity":0,"properties":{"a":1,"b":[2]}}"#;
    let (answer, effects) = command(&mut hall, "ann", "room.create", words);
    assert_eq!(answer["status"], "done", "{answer}");
    hall.apply(effects);
    assert_eq!(hall.listed("new")["properties"], json!({"a": 1, "b": [2]}));
    assert_eq!(hall.listed("new")["capacity"], Value::Null);
    assert_eq!(
        hall.retained("$room/new/prop/b").unwrap()["value"],
        json!([2])
    );
    assert_eq!(hall.rooms.bytes(), "a1b[2]".len());
    let words = r#"{"room":"new","capacity":2,"locked":true}"#;
    let (answer, effects) = command(&mut hall, "ann", "room.change", words);
    assert_eq!(answer["status"], "done", "{answer}");
    hall.events.clear();
    hall.apply(effects);
    assert_eq!(
        hall.events("new"),
        [json!({"event": "changed", "by": "ann"})]
    );
    for (value, done) in [("null", true), ("null", false), ("1", true)] {
        let words = format!(r#"{{"room":"new","name":"c","value":1,"if_value":{value}}}"#);
        let (answer, _) = command(&mut hall, "ann", "room.set", &words);
        assert_eq!(answer["status"] == "done", done, "{value}: {answer}");
    }
}

#[test]
fn what_the_server_sets_is_by_nobody() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let mut out = Vec::new();
    let words = br#"{"room":"tea","name":"turn","value":1}"#;
    let call = ("room.set", &words[..]);
    run_command(
        &mut hall.rooms,
        (Tick::ZERO, ""),
        &AllRights,
        call,
        &mut out,
    );
    hall.apply(out);
    let told = hall.retained("$room/tea/prop/turn");
    assert_eq!(told, Some(json!({"value": 1, "version": 1})));
}

/// Whoever goes by itself may come back to the permanent room that it owns.
#[test]
fn who_loses_the_right_to_a_room_owns_it_no_more() {
    for (is_revoked, owner) in [(false, json!("ann")), (true, json!("bob"))] {
        let mut hall = Hall::default();
        let options = RoomOptions {
            permanent: true,
            ..RoomOptions::default()
        };
        hall.create(admin(), "tea", options).unwrap();
        hall.join("ann", 1, "tea").unwrap();
        hall.join("bob", 2, "tea").unwrap();
        hall.act("tea", |room, out| {
            room.change(admin(), Change::Owner("ann"), out)?;
            if is_revoked {
                room.revoke("ann", seat(1), out);
            } else {
                room.leave("ann", seat(1), out);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(hall.listed("tea")["owner"], owner);
    }
}

/// What a client in Python sets as 1.0 is 1 to one in JavaScript.
#[test]
fn numbers_are_compared_by_what_they_mean() {
    let mut hall = Hall::default();
    let words = r#"{"room":"new","properties":{"a":{"x":[1.0,2]}}}"#;
    let (answer, _) = command(&mut hall, "ann", "room.create", words);
    assert_eq!(answer["status"], "done", "{answer}");
    for (value, is_it) in [
        (r#"{"x":[1,2]}"#, true),
        (r#"{"x":[1.5,2]}"#, false),
        (r#"{"x":[1,2,3]}"#, false),
        (r#"{"x":[1,2],"y":1}"#, false),
        (r#"{"x":["1",2]}"#, false),
    ] {
        let words = format!(r#"{{"properties":{{"a":{value}}}}}"#);
        let (answer, _) = command(&mut hall, "ann", "room.match", &words);
        assert_eq!(
            answer["result"]["room"] == "new",
            is_it,
            "{value}: {answer}"
        );
        let words = format!(r#"{{"room":"new","name":"a","value":{value},"if_value":{value}}}"#);
        let (answer, _) = command(&mut hall, "ann", "room.set", &words);
        assert_eq!(answer["status"] == "done", is_it, "{value}: {answer}");
    }
}
