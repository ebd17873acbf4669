//! Properties, their bounds and locks.

use super::*;

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

/// Nobody but administrators takes it away, the room's owner neither, nor who has no name.
#[test]
fn the_server_locks_for_itself() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").expect("she is let in");
    let server = Actor {
        user: "",
        role: Role::Administrator,
    };
    let lock = |hall: &mut Hall, who| hall.act("tea", |room, out| room.lock(who, "turn", out));
    let unlock = |hall: &mut Hall, who| hall.act("tea", |room, out| room.unlock(who, "turn", out));
    assert_eq!(lock(&mut hall, admin()), Err(Refusal::NotMember));
    assert_eq!(lock(&mut hall, user("")), Err(Refusal::NotMember));
    assert_eq!(lock(&mut hall, server), Ok(()));
    let set = |hall: &mut Hall, who| {
        hall.act("tea", |room, out| {
            room.set(who, "turn", Some(json!(1)), &Condition::Always, out)
        })
    };
    assert_eq!(set(&mut hall, user("ann")), Err(Refusal::PropertyLocked));
    assert_eq!(unlock(&mut hall, user("ann")), Err(Refusal::PropertyLocked));
    assert_eq!(unlock(&mut hall, user("")), Err(Refusal::PropertyLocked));
    assert_eq!(set(&mut hall, server), Ok(1));
    assert_eq!(unlock(&mut hall, admin()), Ok(()));
    assert_eq!(set(&mut hall, user("ann")), Ok(2));
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
    // Each counts with what it takes beside its text.
    assert!((2..5).contains(&recalled.len()), "{}", recalled.len());
    hall.leave("ann", 1, "tea");
    hall.leave("bob", 2, "tea");
    assert_eq!(hall.rooms.bytes(), 1 + 502);
    hall.leave("ann", 1, "den");
    assert_eq!(hall.rooms.bytes(), 0);
}

#[test]
fn what_the_server_sets_is_by_nobody() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    let mut out = Vec::new();
    let words = br#"{"room":"tea","name":"turn","value":1}"#;
    let call = RoomCommand {
        procedure: "room.set",
        payload: words,
    };
    run_command(&mut hall.rooms, Tick::ZERO, "", &AllRights, call, &mut out);
    hall.apply(out);
    let told = hall.retained("$room/tea/prop/turn");
    assert_eq!(told, Some(json!({"value": 1, "version": 1})));
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
