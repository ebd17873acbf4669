//! Rooms, seen from their users: what happens, who hears of it, and what is refused.

mod commands;
mod holds;
mod members;
mod overdue;
mod properties;
mod virtual_members;
mod work;

use core::time::Duration;

use crate::support::{Hall, admin, session, user};
use serde_json::{Map, Value, json};
use stentor_session::Tick;
use stentor_zone::{
    Actor, AllRights, Bounds, Change, Condition, Effect, Entry, HistoryBounds, Ran, Refusal, Role,
    RoomCommand, RoomOptions, RoomRights, Rooms, RoomsOptions, run_command,
};

/// Somebody who may enter and join rooms, and read the topics that this says.
struct Reader(fn(&str) -> bool);

impl RoomRights for Reader {
    fn role(&self, _room: &str) -> Role {
        Role::User
    }

    fn may_enter(&self, _room: &str) -> bool {
        true
    }

    fn may_join(&self, _room: &str) -> bool {
        true
    }

    fn may_read(&self, topic: &str) -> bool {
        (self.0)(topic)
    }
}

/// One command of a user; the answer, and what the zone was told.
fn command(hall: &mut Hall, name: &str, procedure: &str, words: &str) -> (Value, Vec<Effect>) {
    let mut out = Vec::new();
    let call = RoomCommand {
        procedure,
        payload: words.as_bytes(),
    };
    let Ran { answer, .. } = run_command(
        &mut hall.rooms,
        Tick::ZERO,
        name,
        &Reader(|_| true),
        call,
        &mut out,
    );
    (
        serde_json::from_slice(&answer).expect("the answer is JSON"),
        out,
    )
}
