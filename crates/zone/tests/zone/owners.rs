//! The owners of rooms, and how many rooms they own.

use crate::support::{Hall, admin, user};
use serde_json::json;
use stentor_zone::{
    AllRights, Change, Ran, Refusal, RoomCommand, RoomOptions, RoomsOptions, run_command,
};

/// A zone whose users own two rooms each, with as many that bob has made.
fn bob_is_full() -> Hall {
    let mut hall = Hall::new(RoomsOptions {
        owned_max: 2,
        ..RoomsOptions::default()
    });
    for room in ["one", "two"] {
        hall.join("bob", 1, room).expect("a room that may be made");
    }
    hall
}

fn owner(hall: &Hall, room: &str) -> serde_json::Value {
    hall.listed(room)["owner"].clone()
}

#[test]
fn nobody_is_given_more_rooms_than_it_may_own() {
    let mut hall = bob_is_full();
    hall.join("ann", 2, "gift").unwrap();
    hall.join("bob", 1, "gift").unwrap();
    let give = |hall: &mut Hall, room: &str| {
        hall.act(room, |room, out| {
            room.change(user("ann"), Change::Owner("bob"), out)
        })
    };
    assert_eq!(give(&mut hall, "gift"), Err(Refusal::TooMany));
    assert_eq!(owner(&hall, "gift"), "ann");
    let words = br#"{"room":"gift","owner":"bob"}"#;
    let mut out = Vec::new();
    let command = RoomCommand {
        procedure: "room.change",
        payload: words,
    };
    let now = hall.now;
    let Ran { answer, .. } =
        run_command(&mut hall.rooms, now, "ann", &AllRights, command, &mut out);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&answer).unwrap(),
        json!({
            "status": "refused", "error": "too-many", "code": 151, "part": "owner",
            "text": "owner is \"bob\": a user owns 2 rooms at most",
        })
    );
    assert!(out.is_empty());
    // What it owns already it may be given again; what it has left makes place.
    hall.act("one", |room, out| {
        room.change(user("bob"), Change::Owner("bob"), out)
    })
    .unwrap();
    hall.leave("bob", 1, "two");
    give(&mut hall, "gift").unwrap();
    assert_eq!(owner(&hall, "gift"), "bob");
    assert_eq!(hall.join("bob", 1, "three"), Err(Refusal::TooMany));
}

#[test]
fn an_heir_who_owns_enough_is_passed_over() {
    let mut hall = bob_is_full();
    for (name, number) in [("ann", 2), ("bob", 1), ("cat", 3)] {
        hall.join(name, number, "tea").unwrap();
    }
    hall.leave("ann", 2, "tea");
    assert_eq!(owner(&hall, "tea"), "cat");
    // Nobody else is there who may own it: nobody does, until somebody comes in who may.
    hall.leave("cat", 3, "tea");
    assert_eq!(owner(&hall, "tea"), json!(null));
    hall.join("dan", 4, "tea").unwrap();
    assert_eq!(owner(&hall, "tea"), "dan");
}

#[test]
fn a_room_without_an_owner_is_not_for_who_owns_enough() {
    let mut hall = bob_is_full();
    let options = hall.rooms.defaults().clone();
    hall.create(admin(), "tea", options).unwrap();
    hall.join("bob", 1, "tea").unwrap();
    assert_eq!(owner(&hall, "tea"), json!(null));
    // The bound may change.
    hall.rooms.configure(RoomsOptions {
        owned_max: 3,
        ..RoomsOptions::default()
    });
    hall.at(601);
    assert_eq!(owner(&hall, "tea"), "bob");
}

/// A user who made a room by command finds it as it was made, whoever has looked into it meanwhile.
#[test]
fn a_room_waits_for_its_owner_whoever_comes_and_goes() {
    let mut hall = Hall::default();
    hall.create(user("ann"), "castle", RoomOptions::default())
        .expect("a room that may be made");
    hall.join("bob", 2, "castle").expect("it is open");
    hall.leave("bob", 2, "castle");
    assert_eq!(owner(&hall, "castle"), "ann");
    hall.at(599);
    assert!(hall.rooms.get("castle").is_some());
    hall.at(600);
    assert!(hall.rooms.get("castle").is_none(), "she did not come");
    // Once she has come it ends like any other.
    hall.create(user("ann"), "castle", RoomOptions::default())
        .expect("a room that may be made");
    hall.join("ann", 1, "castle").expect("it is hers");
    hall.leave("ann", 1, "castle");
    assert!(hall.rooms.get("castle").is_none());
}
