//! What commands find and change, and what they refuse.

use super::*;

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
    let find = |hall: &mut Hall, game: &str, places: u32| {
        let words = json!({"properties": {"game": game}, "places": places});
        let (told, _) = command(hall, "eve", "room.match", &words.to_string());
        told["result"]["room"].as_str().map(str::to_owned)
    };
    assert_eq!(find(&mut hall, "chess", 1).as_deref(), Some("b"));
    assert_eq!(find(&mut hall, "chess", 2).as_deref(), Some("a"));
    assert_eq!(find(&mut hall, "go", 1), None);
    assert_eq!(find(&mut hall, "poker", 1), None);
    hall.act("b", |room, out| {
        room.change(user("b0"), Change::Locked(true), out)
    })
    .unwrap();
    assert_eq!(find(&mut hall, "chess", 1).as_deref(), Some("d"));
}

/// A room with a level, and members.
fn level(hall: &mut Hall, room: &str, level: Value, members: u64) {
    for number in 0..members {
        let joined = hall.join(&format!("{room}{number}"), number, room);
        joined.expect("the room lets everybody in");
    }
    let first = format!("{room}0");
    let set = hall.act(room, |held, out| {
        held.set(user(&first), "level", Some(level), &Condition::Always, out)
    });
    set.expect("a member sets it");
}

#[test]
fn a_wish_may_be_a_range_of_a_number_and_of_members() {
    let mut hall = Hall::default();
    level(&mut hall, "low", json!(5), 3);
    level(&mut hall, "mid", json!(15.5), 2);
    level(&mut hall, "top", json!(20), 1);
    level(&mut hall, "odd", json!("15"), 4);
    let mut find = |words: Value| {
        let (told, _) = command(&mut hall, "eve", "room.match", &words.to_string());
        told["result"]["room"].as_str().map(str::to_owned)
    };
    for (words, room) in [
        (
            json!({"ranges": {"level": {"min": 10, "max": 20}}}),
            Some("mid"),
        ),
        (json!({"ranges": {"level": {"min": 16}}}), Some("top")),
        (json!({"ranges": {"level": {"max": 5}}}), Some("low")),
        (json!({"ranges": {"level": {"min": 6, "max": 15}}}), None),
        (json!({"ranges": {"rank": {"min": 0}}}), None),
        (json!({"members": {"max": 1}}), Some("top")),
        (json!({"members": {"min": 2, "max": 3}}), Some("low")),
        (json!({"members": {"min": 5}}), None),
        (
            json!({"members": {"max": 2}, "ranges": {"level": {"min": 1}}, "places": 2}),
            Some("mid"),
        ),
    ] {
        assert_eq!(find(words.clone()).as_deref(), room, "{words}");
    }
    // A new room has what it is made with, so that others find it.
    let words = json!({
        "ranges": {"level": {"min": 30, "max": 40}}, "properties": {"game": "chess"},
        "create": "new", "create_properties": {"level": 33, "game": "go"},
    });
    assert_eq!(find(words.clone()).as_deref(), Some("new"));
    let (told, _) = command(&mut hall, "zoe", "room.match", &words.to_string());
    assert_eq!(told["result"], json!({"room": "new", "created": false}));
    let (told, _) = command(&mut hall, "eve", "room.info", r#"{"room":"new"}"#);
    let expected = json!({"game": "chess", "level": 33});
    assert_eq!(told["result"]["room"]["properties"], expected, "{told}");
}

/// What matches tells what is there.
#[test]
fn nobody_guesses_a_property_that_it_may_not_read() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for (name, value) in [
        ("open", json!("pin")),
        ("secret", json!("pin")),
        ("age", json!(7)),
    ] {
        hall.act("tea", |room, out| {
            room.set(user("ann"), name, Some(value), &Condition::Always, out)
        })
        .unwrap();
    }
    let mut ask = |procedure: &str, words: Value| -> Value {
        let (call, mut out) = (words.to_string(), Vec::new());
        let call = RoomCommand {
            procedure,
            payload: call.as_bytes(),
        };
        let Ran { answer, .. } = run_command(
            &mut hall.rooms,
            Tick::ZERO,
            "eve",
            &Reader(|topic| topic.ends_with("/prop/open")),
            call,
            &mut out,
        );
        serde_json::from_slice(&answer).unwrap()
    };
    let found = ask("room.match", json!({"properties": {"open": "pin"}}));
    assert_eq!(found["result"]["room"], "tea", "{found}");
    let found = ask("room.match", json!({"ranges": {"age": {"min": 7}}}));
    assert_eq!(found["error"], "unknown", "{found}");
    for value in ["pin", "pun"] {
        let found = ask("room.match", json!({"properties": {"secret": value}}));
        assert_eq!(found["error"], "unknown", "{found}");
        let words = json!({"room": "tea", "name": "secret", "value": 1, "if_value": value});
        let set = ask("room.set", words);
        assert_eq!(set["code"], 0x87, "{set}");
    }
}

#[test]
fn the_holders_of_locks_are_told_to_those_who_may_read_the_properties() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for name in ["open", "secret"] {
        hall.act("tea", |room, out| room.lock(user("ann"), name, out))
            .unwrap();
    }
    let all: fn(&str) -> bool = |_| true;
    let cases = [
        (all, json!({"open": "ann", "secret": "ann"})),
        (
            |topic| topic.ends_with("/prop/open"),
            json!({"open": "ann"}),
        ),
    ];
    for (reads, locks) in cases {
        let Ran { answer, .. } = run_command(
            &mut hall.rooms,
            Tick::ZERO,
            "eve",
            &Reader(reads),
            RoomCommand {
                procedure: "room.info",
                payload: br#"{"room":"tea"}"#,
            },
            &mut Vec::new(),
        );
        let told: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(told["result"]["locks"], locks, "{told}");
    }
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
        (
            "create",
            r#"{"room":"new","permanent":true}"#,
            "permanent",
            "permanent rooms",
        ),
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
            r#"{"room":"new","properties":{"a":1,"b":2,"a":3}}"#,
            "",
            "a is given twice",
        ),
        (
            "create",
            r#"{"room":"new","properties":{"a":[18446744073709551616]}}"#,
            "",
            "the number 18446744073709551616",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":{"b":1,"b":2}}"#,
            "",
            "b is given twice",
        ),
        (
            "set",
            r#"{"room":"tea","name":"a","value":-9223372036854775809}"#,
            "",
            "write a larger one as a text",
        ),
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
        ("match", r#"{"members":3}"#, "members", "a range"),
        (
            "match",
            r#"{"members":{"min":1.5}}"#,
            "members.min",
            "whole number",
        ),
        ("match", r#"{"members":{}}"#, "members", "no bound"),
        (
            "match",
            r#"{"members":{"min":3,"max":2}}"#,
            "members",
            "min is larger",
        ),
        ("match", r#"{"ranges":[1]}"#, "ranges", "an object"),
        (
            "match",
            r#"{"ranges":{"k":{"least":1}}}"#,
            "ranges.k.least",
            "min, max",
        ),
        (
            "match",
            r#"{"ranges":{"k":{"min":"1"}}}"#,
            "ranges.k.min",
            "a number",
        ),
        (
            "match",
            r#"{"properties":{"k":1},"ranges":{"k":{"min":1}}}"#,
            "ranges.k",
            "leave one of them out",
        ),
        (
            "match",
            r#"{"create_properties":{"k":1}}"#,
            "create_properties",
            "a name by create",
        ),
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
        ("lock", r#"{"room":"tea","name":"$"}"#, "name", "none of"),
        (
            "set",
            r#"{"room":"coffee","name":"a","value":1}"#,
            "room",
            "no such room",
        ),
        ("match", r#"{"create":"a/b"}"#, "create", "none of"),
        (
            "match",
            r#"{"create":"x","create_properties":{"a/b":1}}"#,
            "create_properties.a/b",
            "none of",
        ),
        ("match", r#"{"properties":{"a":1}}"#, "", "give create"),
        ("list", r#"{"room":"tea"}"#, "room", "but after"),
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
        assert!(effects.is_empty(), "{procedure} {words}");
        assert_eq!(hall.rooms.len(), 1, "{procedure} {words}");
        assert_eq!(hall.rooms.bytes(), 0, "{procedure} {words}");
    }
    let summary = hall.rooms.get("tea").unwrap().summary();
    assert_eq!(serde_json::to_value(summary).unwrap(), before);
}

/// A long list is told in parts, each of which is bounded by rooms and by bytes.
#[test]
fn a_long_list_is_told_in_parts() {
    let mut hall = Hall::new(RoomsOptions {
        owned_max: usize::MAX,
        ..RoomsOptions::default()
    });
    let list = |hall: &mut Hall, words: &str| {
        let (answer, _) = command(hall, "ann", "room.list", words);
        let told = answer["result"].clone();
        let rooms = told["rooms"].as_array().expect("a list").len();
        (rooms, told, answer.to_string().len())
    };
    for number in 0..1_500 {
        hall.join("ann", 1, &format!("r{number:04}"))
            .expect("a room");
    }
    let (rooms, told, bytes) = list(&mut hall, "{}");
    assert_eq!((rooms, &told["next"]), (1_000, &json!("r0999")));
    assert!(told.get("total").is_none() && bytes < 200_000, "{bytes}");
    let (rooms, told, _) = list(&mut hall, r#"{"after":"r0999"}"#);
    assert_eq!((rooms, &told["rooms"][0]["room"]), (500, &json!("r1000")));
    assert!(told.get("next").is_none() && told.get("total").is_none());
    // Large ones are fewer, and one is told of in any case.
    for room in ["a", "b", "c"] {
        hall.join("ann", 1, room).expect("a room");
        for property in 0..64 {
            let value = Some(json!("x".repeat(4_000)));
            hall.act(room, |room, out| {
                let name = format!("p{property}");
                room.set(user("ann"), &name, value, &Condition::Always, out)
            })
            .expect("a property");
        }
    }
    let mut after = String::from("{}");
    for room in ["a", "b", "c"] {
        let (rooms, told, bytes) = list(&mut hall, &after);
        assert_eq!((rooms, &told["next"]), (1, &json!(room)));
        assert!(bytes < 300_000, "{bytes}");
        after = format!(r#"{{"after":"{room}"}}"#);
    }
}
