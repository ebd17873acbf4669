//! Places that `room.match` holds.

use super::{command, *};

/// Ann has made a room for two by a match, and is to come in.
fn duel() -> Hall {
    let mut hall = Hall::default();
    let words = r#"{"create":"duel","capacity":2,"properties":{"kind":"x"},"hold":10}"#;
    let (answer, effects) = command(&mut hall, "ann", "room.match", words);
    hall.apply(effects);
    assert_eq!(
        answer["result"],
        json!({ "room": "duel", "created": true, "held_secs": 10 })
    );
    hall
}

fn find(hall: &mut Hall, name: &str, words: &str) -> Value {
    let (answer, effects) = command(hall, name, "room.match", words);
    hall.apply(effects);
    answer
}

const WISH: &str = r#"{"properties":{"kind":"x"},"hold":10}"#;

#[test]
fn a_held_place_is_taken_for_all_others() {
    let mut hall = duel();
    assert_eq!(find(&mut hall, "bob", WISH)["result"]["held_secs"], 10);
    // Both places are held, so nobody else finds the room or comes in.
    assert_eq!(find(&mut hall, "eve", WISH)["error"], "unknown");
    assert_eq!(hall.join("eve", 3, "duel"), Err(Refusal::Full));
    // Those for whom they are held find it again, and come in.
    assert_eq!(find(&mut hall, "bob", WISH)["result"]["room"], "duel");
    hall.join("bob", 2, "duel").unwrap();
    hall.join("ann", 1, "duel").unwrap();
    assert_eq!(hall.join("eve", 3, "duel"), Err(Refusal::Full));
}

#[test]
fn a_place_is_held_for_a_while() {
    let mut hall = duel();
    hall.join("bob", 2, "duel").unwrap();
    assert_eq!(hall.join("eve", 3, "duel"), Err(Refusal::Full));
    hall.now = hall.now.after(Duration::from_secs(10));
    hall.join("eve", 3, "duel").unwrap();
    assert_eq!(hall.join("ann", 1, "duel"), Err(Refusal::Full));
}

/// One user holds one place, so nobody keeps others out of many rooms.
#[test]
fn a_user_holds_one_place() {
    let mut hall = duel();
    hall.create(user("cy"), "other", room_for_one()).unwrap();
    let words = r#"{"members":{"max":0},"capacity":1,"places":1,"hold":5,"properties":{"one":1}}"#;
    let set = |room: &mut stentor_zone::Room, out: &mut Vec<Effect>| {
        room.set(user("cy"), "one", Some(json!(1)), &Condition::Always, out)
    };
    hall.act("other", set).unwrap();
    assert_eq!(find(&mut hall, "ann", words)["result"]["room"], "other");
    assert_eq!(hall.join("cy", 4, "other"), Err(Refusal::Full));
    // The place in the first room is free.
    hall.join("bob", 2, "duel").unwrap();
    hall.join("eve", 3, "duel").unwrap();
}

fn room_for_one() -> RoomOptions {
    RoomOptions {
        capacity: Some(1),
        ..RoomOptions::default()
    }
}

/// A room that everybody has left stays while somebody is expected, and ends after that.
#[test]
fn a_held_place_keeps_a_room() {
    let mut hall = duel();
    hall.join("ann", 1, "duel").unwrap();
    assert_eq!(find(&mut hall, "bob", WISH)["result"]["room"], "duel");
    hall.leave("ann", 1, "duel");
    assert!(hall.rooms.get("duel").is_some());
    assert_eq!(
        hall.rooms.take_deadline(),
        Some(Tick::ZERO.after(Duration::from_secs(10)))
    );
    let mut out = Vec::new();
    hall.rooms
        .advance(Tick::ZERO.after(Duration::from_secs(10)), &mut out);
    hall.apply(out);
    assert!(hall.rooms.get("duel").is_none());
    assert_eq!(hall.topics(), Vec::<String>::new());
}

/// The same where there is no bound.
#[test]
fn a_held_place_keeps_a_room_without_a_capacity() {
    let mut hall = Hall::default();
    let words = r#"{"create":"open","properties":{"kind":"x"}}"#;
    assert_eq!(find(&mut hall, "ann", words)["status"], "done");
    hall.join("ann", 1, "open").unwrap();
    assert_eq!(find(&mut hall, "bob", WISH)["result"]["held_secs"], 10);
    hall.leave("ann", 1, "open");
    hall.join("bob", 2, "open").unwrap();
    assert_eq!(hall.rooms.get("open").unwrap().properties().count(), 1);
    // It ends with the last one again.
    hall.leave("bob", 2, "open");
    assert!(hall.rooms.get("open").is_none());
}

/// The room becomes smaller than the places that are held.
#[test]
fn of_those_for_whom_places_are_held_the_first_come_first() {
    let mut hall = duel();
    assert_eq!(find(&mut hall, "bob", WISH)["result"]["held_secs"], 10);
    let smaller = |room: &mut stentor_zone::Room, out: &mut Vec<Effect>| {
        room.change(admin(), Change::Capacity(Some(1)), out)
    };
    hall.act("duel", smaller).unwrap();
    assert_eq!(hall.join("bob", 2, "duel"), Err(Refusal::Full));
    hall.join("ann", 1, "duel").unwrap();
    assert_eq!(hall.join("bob", 2, "duel"), Err(Refusal::Full));
}

#[test]
fn where_nothing_is_to_be_held() {
    let mut hall = Hall::default();
    // There is no bound.
    let words = r#"{"create":"open","hold":10}"#;
    assert_eq!(find(&mut hall, "ann", words)["result"]["held_secs"], 10);
    hall.join("ann", 1, "open").unwrap();
    for number in 2..9 {
        hall.join(&format!("u{number}"), number, "open").unwrap();
    }
    let too_long = find(&mut hall, "ann", r#"{"create":"x","hold":61}"#);
    assert_eq!(
        (&too_long["status"], &too_long["part"]),
        (&json!("bad-call"), &json!("hold"))
    );
    assert!(
        too_long["text"].as_str().unwrap().contains("0 to 60"),
        "{too_long}"
    );
    let nobody = find(&mut hall, "", r#"{"create":"x","hold":5}"#);
    assert_eq!(
        (&nobody["status"], &nobody["part"]),
        (&json!("bad-call"), &json!("hold"))
    );
    assert!(hall.rooms.get("x").is_none());
}
