//! Observers hear what happens in a room without being seen.

use crate::support::{Hall, session, user};
use serde_json::{Value, json};
use stentor_session::Tick;
use stentor_zone::{
    Actor, Change, Ran, Refusal, Role, RoomCommand, RoomRights, Rooms, run_command,
};

fn lock(hall: &mut Hall, locked: bool) {
    hall.act("tea", |room, out| {
        room.change(user("ann"), Change::Locked(locked), out)
    })
    .expect("the owner may");
}

fn kick(hall: &mut Hall, name: &str) -> Result<(), Refusal> {
    hall.act("tea", |room, out| room.kick(user("ann"), name, out))
}

#[test]
fn nobody_begins_to_observe_a_locked_room() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    hall.observe("eve", 2, "tea").unwrap();
    lock(&mut hall, true);
    assert_eq!(hall.observe("fay", 3, "tea"), Err(Refusal::Locked));
    // A user who observed before goes on, and so does one who observes from now on.
    hall.observe("eve", 2, "tea").unwrap();
    hall.act("tea", |room, out| {
        room.mute(Tick::ZERO, "ann", session(1), out);
        Ok(())
    })
    .unwrap();
    hall.observe("ann", 1, "tea").unwrap();
}

#[test]
fn an_observer_is_sent_out_by_its_sessions() {
    let mut hall = Hall::default();
    hall.join("ann", 1, "tea").unwrap();
    for number in [2, 3] {
        hall.observe("eve", number, "tea").unwrap();
    }
    hall.observe("", 4, "tea").unwrap();
    let bob = Actor {
        user: "bob",
        role: Role::User,
    };
    let by_another = hall.act("tea", |room, out| room.kick(bob, "eve", out));
    assert_eq!(by_another, Err(Refusal::NotOwner));
    let events = hall.events.len();
    kick(&mut hall, "eve").unwrap();
    assert_eq!(hall.cleared, [session(2), session(3)]);
    assert_eq!(hall.events.len(), events, "nobody saw it");
    for name in ["eve", "fay", ""] {
        assert_eq!(kick(&mut hall, name), Err(Refusal::Unknown), "{name}");
    }
    // A lock keeps it out, and it may come back without one.
    lock(&mut hall, true);
    assert_eq!(hall.observe("eve", 2, "tea"), Err(Refusal::Locked));
    lock(&mut hall, false);
    hall.observe("eve", 2, "tea").unwrap();
    // Member by one session, observer by another: both are out.
    hall.join("eve", 3, "tea").unwrap();
    hall.cleared.clear();
    kick(&mut hall, "eve").unwrap();
    assert_eq!(hall.cleared, [session(3), session(2)]);
}

/// Somebody who may observe every room, and join none.
struct Watcher;

impl RoomRights for Watcher {
    fn role(&self, _room: &str) -> Role {
        Role::User
    }

    fn may_enter(&self, _room: &str) -> bool {
        true
    }

    fn may_join(&self, _room: &str) -> bool {
        false
    }

    fn may_read(&self, _topic: &str) -> bool {
        true
    }
}

/// A name that no room can have is told as that, whatever the rights are.
#[test]
fn an_observer_makes_no_rooms() {
    let mut rooms = Rooms::default();
    for (procedure, words, error) in [
        ("room.create", r#"{"room":"tea"}"#, "not-allowed"),
        ("room.match", r#"{"create":"tea"}"#, "not-allowed"),
        ("room.create", r#"{"room":"tea/x"}"#, "bad-name"),
        ("room.match", r##"{"create":"#"}"##, "bad-name"),
    ] {
        let mut out = Vec::new();
        let command = RoomCommand {
            procedure,
            payload: words.as_bytes(),
        };
        let now = Tick::ZERO;
        let Ran { answer, .. } = run_command(&mut rooms, now, "eve", &Watcher, command, &mut out);
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["error"], json!(error), "{answer}");
        assert!(rooms.is_empty() && out.is_empty());
    }
}
