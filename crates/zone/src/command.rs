//! The commands of rooms: built-in procedures `$call/room.…` with JSON in and out.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use core::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use stentor_session::Tick;

use crate::effect::Effect;
use crate::room::{
    Actor, Change, Condition, HistoryBounds, Refusal, Role, Room, RoomOptions, Summary,
};
use crate::rooms::{Rooms, Wish};
use crate::topic;

/// How the names of these procedures begin.
pub const ROOM_COMMANDS: &str = "room.";

/// What a command may say. Each command reads its own part.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Words {
    room: Option<String>,
    user: Option<String>,
    name: Option<String>,
    value: Value,
    if_version: Option<u64>,
    if_value: Option<Value>,
    if_absent: bool,
    capacity: Option<u32>,
    locked: Option<bool>,
    permanent: bool,
    owner: Option<String>,
    history: Option<Past>,
    properties: Map<String, Value>,
    places: Option<u32>,
    create: Option<String>,
}

/// How much is kept of what is said.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Past {
    count: usize,
    bytes: Option<usize>,
    age_secs: Option<u64>,
}

impl Past {
    fn bounds(self) -> HistoryBounds {
        HistoryBounds {
            count: self.count,
            bytes: self.bytes.unwrap_or(usize::MAX),
            age: self.age_secs.map(Duration::from_secs),
        }
    }
}

/// Why a command led to nothing.
enum Failed {
    Refused(Refusal),
    /// It makes no sense, and why.
    Bad(&'static str),
    NoSuchCommand,
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What a user may do with the rooms of its zone. A command tells no more than the topics below
/// `$room/` and `$rooms/` do.
pub trait RoomRights {
    /// What the user is to a room.
    fn role(&self, room: &str) -> Role;
    /// Whether it may subscribe to something below a room.
    fn may_enter(&self, room: &str) -> bool;
    /// Whether it may receive a topic.
    fn may_read(&self, topic: &str) -> bool;
}

/// The rights of the server itself.
#[derive(Clone, Copy, Debug)]
pub struct AllRights;

impl RoomRights for AllRights {
    fn role(&self, _room: &str) -> Role {
        Role::Administrator
    }

    fn may_enter(&self, _room: &str) -> bool {
        true
    }

    fn may_read(&self, _topic: &str) -> bool {
        true
    }
}

/// Runs a command of a user: `room.create`, `.match`, `.set`, `.lock`, `.unlock`, `.change`,
/// `.kick`, `.close`, `.info` or `.list`. Returns the room that the effects are about, and the
/// answer, which is JSON.
pub fn run_command(
    rooms: &mut Rooms,
    (now, user): (Tick, &str),
    rights: &impl RoomRights,
    (procedure, payload): (&str, &[u8]),
    out: &mut Vec<Effect>,
) -> (String, Vec<u8>) {
    let words = if payload.is_empty() {
        Ok(Words::default())
    } else {
        serde_json::from_slice(payload)
    };
    let Ok(words) = words else {
        let text = "the payload is no JSON object with the fields of this command";
        let answer = json!({ "status": "bad-call", "text": text });
        return (String::new(), answer.to_string().into_bytes());
    };
    let room = words.room.clone().unwrap_or_default();
    let command = Command {
        rooms,
        now,
        actor: Actor {
            user,
            role: rights.role(&room),
        },
        rights,
        words,
        out,
    };
    let answer = match command.run(procedure) {
        Ok(result) => json!({ "status": "done", "result": result }),
        Err(Failed::Refused(why)) => json!({
            "status": "refused", "error": why.word(), "code": why.code(),
            "text": why.text(),
        }),
        Err(Failed::Bad(text)) => json!({ "status": "bad-call", "text": text }),
        Err(Failed::NoSuchCommand) => json!({
            "status": "not-found",
            "text": "there is create, match, set, lock, unlock, change, kick, close, info, list",
        }),
    };
    (room, answer.to_string().into_bytes())
}

struct Command<'a, R> {
    rooms: &'a mut Rooms,
    now: Tick,
    actor: Actor<'a>,
    rights: &'a R,
    words: Words,
    out: &'a mut Vec<Effect>,
}

impl<R: RoomRights> Command<'_, R> {
    fn run(mut self, procedure: &str) -> Result<Value, Failed> {
        // Neither does it learn whether there is such a room.
        if let Some(room) = &self.words.room
            && !self.may_see(room)
        {
            return Err(Refusal::NoRight.into());
        }
        match procedure {
            "room.create" => self.create(),
            "room.match" => self.find(),
            "room.set" => self.set(),
            "room.lock" => self.lock(true),
            "room.unlock" => self.lock(false),
            "room.change" => self.change(),
            "room.kick" => {
                let user = self.words.user.take();
                let user = user.ok_or(Failed::Bad("it needs user"))?;
                let actor = self.actor;
                self.act(|room, out| room.kick(actor, &user, out))
            }
            "room.close" => {
                let room = self.room()?;
                let stays = self.rooms.close(self.actor, &room, self.out)?;
                Ok(json!({ "stays": stays }))
            }
            "room.info" => self.info(),
            "room.list" => Ok(self.list()),
            _ => Err(Failed::NoSuchCommand),
        }
    }

    fn is_administrator(&self, room: &str) -> bool {
        self.rights.role(room) == Role::Administrator
    }

    fn is_listed(&self, room: &str) -> bool {
        self.is_administrator(room) || self.rights.may_read(&topic::listed(room))
    }

    /// Whether the user may know of a room.
    fn may_see(&self, room: &str) -> bool {
        self.is_listed(room) || self.rights.may_enter(room)
    }

    /// What the list of rooms tells, without what the user may not read.
    fn shown(&self, room: &Room) -> Summary {
        let mut summary = room.summary();
        let may_read = |property: &str| self.may_read_property(room.name(), property);
        summary.properties.retain(|property, _| may_read(property));
        summary
    }

    /// Whether one of the topics that tell of a property is permitted.
    fn may_read_property(&self, room: &str, property: &str) -> bool {
        self.is_listed(room) || self.rights.may_read(&topic::property(room, property))
    }

    /// The members, for who could see them in the room.
    fn members(&self, room: &Room) -> Option<Vec<Arc<str>>> {
        let name = room.name();
        let is_privileged = self.is_administrator(name) || room.is_owned_by(self.actor.user);
        let is_open = !room.is_locked() || room.is_member(self.actor.user);
        if is_privileged {
            return Some(room.members());
        }
        if !is_open || !self.rights.may_enter(name) {
            return None;
        }
        let mut members = room.members();
        members.retain(|user| self.rights.may_read(&topic::member(name, user)));
        Some(members)
    }

    fn info(&self) -> Result<Value, Failed> {
        let room = self.room()?;
        let room = self.rooms.get(&room).ok_or(Refusal::Unknown)?;
        let mut told = json!({ "room": self.shown(room) });
        if let Some(members) = self.members(room) {
            told["members"] = json!(members);
        }
        Ok(told)
    }

    fn list(&self) -> Value {
        /// Longer lists are read from `$rooms/+`.
        const LISTED_MAX: usize = 1_000;
        let seen = || self.rooms.iter().filter(|room| self.may_see(room.name()));
        let rooms: Vec<_> = seen()
            .take(LISTED_MAX)
            .map(|room| self.shown(room))
            .collect();
        json!({ "rooms": rooms, "total": seen().count() })
    }

    fn room(&self) -> Result<String, Failed> {
        let room = self.words.room.clone();
        room.filter(|room| !room.is_empty())
            .ok_or(Failed::Bad("it needs room"))
    }

    /// Does something in the room.
    fn act(
        &mut self,
        f: impl FnOnce(&mut Room, &mut Vec<Effect>) -> Result<(), Refusal>,
    ) -> Result<Value, Failed> {
        let room = self.room()?;
        self.rooms.act(&room, self.out, f)?;
        Ok(json!({}))
    }

    /// What a new room is made with.
    fn options(&self) -> RoomOptions {
        let defaults = self.rooms.defaults().clone();
        let history = self.words.history.map(Past::bounds);
        RoomOptions {
            permanent: self.words.permanent,
            capacity: self.words.capacity.or(defaults.capacity),
            locked: self.words.locked.unwrap_or(defaults.locked),
            history: history.map_or(defaults.history, |h| defaults.bounds.limit_history(h)),
            ..defaults
        }
    }

    fn create(&mut self) -> Result<Value, Failed> {
        let room = self.room()?;
        self.make(&room)?;
        Ok(self.with_history(&room, json!({ "room": room })))
    }

    /// The answer to somebody who asked for a history: with what was granted of it.
    fn with_history(&self, room: &str, mut answer: Value) -> Value {
        let room = self.rooms.get(room);
        if let Some(room) = room.filter(|_| self.words.history.is_some()) {
            let granted = room.history_bounds();
            answer["history"] = json!({
                "count": granted.count,
                "bytes": granted.bytes,
                "age_secs": granted.age.map(|age| age.as_secs()),
            });
        }
        answer
    }

    fn make(&mut self, room: &str) -> Result<(), Failed> {
        if !self.is_administrator(room) && !self.rights.may_enter(room) {
            return Err(Refusal::NoRight.into());
        }
        let options = self.options();
        let (now, actor) = (self.now, self.actor);
        self.rooms.create(now, actor, room, options, self.out)?;
        let properties = core::mem::take(&mut self.words.properties);
        for (name, value) in properties {
            let (actor, always) = (self.actor, Condition::Always);
            let set = |room: &mut Room, out: &mut Vec<Effect>| {
                room.set(actor, &name, Some(value), &always, out)
            };
            self.rooms.act(room, self.out, set)?;
        }
        Ok(())
    }

    fn find(&mut self) -> Result<Value, Failed> {
        let wish = Wish {
            properties: self.words.properties.clone(),
            places: self.words.places.unwrap_or(1),
        };
        // That a room matches tells its properties.
        let may_find = |room: &str| {
            let may_read = |property: &String| self.may_read_property(room, property);
            self.rights.may_enter(room) && wish.properties.keys().all(may_read)
        };
        if let Some(room) = self.rooms.find(&wish, may_find) {
            return Ok(json!({ "room": room, "created": false }));
        }
        let room = self.words.create.take().ok_or(Refusal::Unknown)?;
        self.make(&room)?;
        Ok(self.with_history(&room, json!({ "room": room, "created": true })))
    }

    fn set(&mut self) -> Result<Value, Failed> {
        let name = self.words.name.take();
        let name = name.ok_or(Failed::Bad("it needs name"))?;
        let value = Some(core::mem::take(&mut self.words.value));
        let value = value.filter(|value| !value.is_null());
        let words = &mut self.words;
        let condition = match (words.if_version, words.if_value.take(), words.if_absent) {
            (None, None, false) => Condition::Always,
            (Some(version), None, false) => Condition::Version(version),
            (None, Some(value), false) => Condition::Value(value),
            (None, None, true) => Condition::Absent,
            _ => {
                return Err(Failed::Bad(
                    "there is one condition: if_version, if_value, if_absent",
                ));
            }
        };
        let (room, actor) = (self.room()?, self.actor);
        if matches!(condition, Condition::Value(_)) && !self.may_read_property(&room, &name) {
            return Err(Refusal::NoRight.into());
        }
        let set =
            |room: &mut Room, out: &mut Vec<Effect>| room.set(actor, &name, value, &condition, out);
        let version = self.rooms.act(&room, self.out, set)?;
        Ok(json!({ "version": version }))
    }

    fn lock(&mut self, locks: bool) -> Result<Value, Failed> {
        let name = self.words.name.take();
        let name = name.ok_or(Failed::Bad("it needs name"))?;
        let actor = self.actor;
        self.act(|room, out| {
            if locks {
                room.lock(actor, &name, out)
            } else {
                room.unlock(actor, &name, out)
            }
        })
    }

    fn change(&mut self) -> Result<Value, Failed> {
        let words = core::mem::take(&mut self.words);
        let actor = self.actor;
        self.words.room.clone_from(&words.room);
        self.words.history = words.history;
        let answer = self.act(|room, out| {
            if let Some(capacity) = words.capacity {
                // 0 takes the bound away.
                let capacity = Some(capacity).filter(|capacity| *capacity > 0);
                room.change(actor, Change::Capacity(capacity), out)?;
            }
            if let Some(locked) = words.locked {
                room.change(actor, Change::Locked(locked), out)?;
            }
            if let Some(history) = words.history {
                room.change(actor, Change::History(history.bounds()), out)?;
            }
            if let Some(owner) = &words.owner {
                room.change(actor, Change::Owner(owner), out)?;
            }
            Ok(())
        })?;
        Ok(self.with_history(&words.room.unwrap_or_default(), answer))
    }
}
