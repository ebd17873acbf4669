//! The commands of rooms: built-in procedures `$call/room.…` with JSON in and out.

mod blame;
mod matching;
mod rights;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Map, Value, json};
use stentor_session::Tick;

use crate::effect::Effect;
use crate::name::check_name;
use crate::room::{
    Actor, Change, Condition, Ending, Refusal, Role, Room, RoomOptions, Summary, VIRTUAL_MAX,
};
use crate::rooms::Rooms;
use crate::topic;
use crate::words::{BadWord, Words, below, quoted};
use crate::work::{Counted, Work};
pub use rights::{AllRights, RoomRights};

use blame::{blame_name, blame_property, is_ending, no_room};

/// How the names of these procedures begin.
pub const ROOM_COMMANDS: &str = "room.";

/// Bytes that the payload of a command has at most: a room's 64 properties of 4 KiB and some more.
/// Whatever is longer is not even read.
pub const COMMAND_BYTES_MAX: usize = 300 << 10;

/// Rooms that one `room.list` looks at; longer lists come in parts.
const LOOKED_AT_MAX: usize = 1_000;

/// How long it looks, about: it may have to weigh many rules for each.
const LISTED_TIME_MAX: Duration = Duration::from_millis(20);

/// Bytes of what it tells, about: the home of the zone does nothing else in the meantime.
const LISTED_BYTES_MAX: usize = 128 << 10;

/// The fields that a command has; `None` if there is no such command.
fn fields_of(procedure: &str) -> Option<&'static [&'static str]> {
    Some(match procedure {
        "room.create" => &[
            "room",
            "capacity",
            "locked",
            "history",
            "properties",
            "permanent",
        ],
        "room.match" => &[
            "properties",
            "ranges",
            "members",
            "places",
            "hold",
            "create",
            "create_properties",
            "capacity",
            "locked",
            "history",
            "permanent",
        ],
        "room.set" => &[
            "room",
            "name",
            "value",
            "if_version",
            "if_value",
            "if_absent",
        ],
        "room.lock" | "room.unlock" => &["room", "name"],
        "room.change" => &["room", "capacity", "locked", "history", "owner"],
        "room.kick" | "room.seat" => &["room", "user"],
        "room.close" | "room.info" => &["room"],
        "room.list" => &["after"],
        _ => return None,
    })
}

/// Why a command led to nothing.
enum Failed {
    Refused(Refusal),
    /// Because of one of its fields, with an explanation.
    Part(Refusal, BadWord),
    /// The room that it would make is ending, and is there for that long.
    Early(String, BadWord),
    /// It makes no sense.
    Bad(BadWord),
    NoSuchCommand,
}

impl From<BadWord> for Failed {
    fn from(word: BadWord) -> Self {
        Self::Bad(word)
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A command about rooms, as its caller writes it.
#[derive(Clone, Copy, Debug)]
pub struct RoomCommand<'a> {
    /// Which one, such as `room.create`.
    pub procedure: &'a str,
    /// What it says, which is JSON.
    pub payload: &'a [u8],
}

/// What became of a command.
#[derive(Debug)]
pub struct Ran {
    /// The room that the effects are about.
    pub room: String,
    /// The answer, which is JSON.
    pub answer: Vec<u8>,
    /// What an administrator has done to others, or tried to.
    pub deed: Option<Deed>,
    /// The room that it would make, if that [is ending](Rooms::is_ending): the command has done
    /// nothing, and is refused unless it is run again when that is over.
    pub waits_for: Option<String>,
    /// How long it keeps who runs it busy, about, and the sending of its effects with it: estimated
    /// from what it did, not measured.
    pub work: Duration,
    /// The part of it that comes later: a room of very many that it closes lets them go over turns.
    pub later: Duration,
}

/// What an administrator did to others in a room: for the audit log. The owner of a room is
/// not one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// The command.
    pub what: &'static str,
    /// The member whom it names.
    pub user: Option<String>,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

impl Deed {
    /// The deed in a command; none where it is not one of an administrator.
    fn of(
        command: RoomCommand<'_>,
        is_administrator: impl FnOnce() -> bool,
        answer: &Value,
    ) -> Option<Self> {
        let what = ["room.kick", "room.close"];
        let what = what.into_iter().find(|what| *what == command.procedure)?;
        is_administrator().then(|| {
            let words: Value = serde_json::from_slice(command.payload).unwrap_or_default();
            let text = |value: &Value| value.as_str().map(String::from);
            let refused = match answer["status"] == "done" {
                true => None,
                false => Some(text(&answer["text"]).unwrap_or_default()),
            };
            Self {
                what,
                user: text(&words["user"]),
                refused,
            }
        })
    }
}

/// Runs a command of a user: `room.create`, `.match`, `.set`, `.lock`, `.unlock`, `.change`,
/// `.kick`, `.seat`, `.close`, `.info` or `.list`.
pub fn run_command(
    rooms: &mut Rooms,
    now: Tick,
    user: &str,
    rights: &impl RoomRights,
    command: RoomCommand<'_>,
    out: &mut Vec<Effect>,
) -> Ran {
    if let Some(ran) = refuse_unread(command.procedure, command.payload) {
        return ran;
    }
    let mut room = String::new();
    let work = Work::new(command.payload.len());
    let begin = out.len();
    let rights = &Counted::new(rights, &work);
    let caller = Caller {
        user,
        rights,
        work: &work,
    };
    let result = run(rooms, now, caller, command, &mut room, out);
    let waits_for = match &result {
        Err(Failed::Early(name, _)) => Some(name.clone()),
        _ => None,
    };
    let answer = answer(result);
    let is_administrator = || rights.role(&room) == Role::Administrator;
    let deed = Deed::of(command, is_administrator, &answer);
    let answer = answer.to_string().into_bytes();
    work.told(answer.len());
    let inside = match (rooms.get(&room), rooms.ending(&room)) {
        (Some(room), _) => room.member_count(),
        (None, ending) => ending.map_or(0, Ending::inside),
    };
    work.caused(out.get(begin..).unwrap_or_default(), inside);
    Ran {
        room,
        answer,
        deed,
        waits_for,
        work: work.time(),
        later: work.later(),
    }
}

/// What becomes of a command that is refused without its payload being read, if that is so: it is
/// too long, or there is no such command. Nobody has to carry it to where the rooms are.
#[must_use]
pub fn refuse_unread(procedure: &str, payload: &[u8]) -> Option<Ran> {
    let failed = if fields_of(procedure).is_none() {
        Failed::NoSuchCommand
    } else if payload.len() > COMMAND_BYTES_MAX {
        let len = payload.len();
        let text = format!("the payload has {len} bytes: it may have {COMMAND_BYTES_MAX}");
        BadWord::other("", text).into()
    } else {
        return None;
    };
    let answer = answer(Err(failed)).to_string().into_bytes();
    let work = Work::new(payload.len());
    work.told(answer.len());
    Some(Ran {
        room: String::new(),
        answer,
        deed: None,
        waits_for: None,
        work: work.time(),
        later: work.later(),
    })
}

/// The user that runs a command.
struct Caller<'a, R> {
    user: &'a str,
    rights: &'a Counted<'a, R>,
    /// What that costs.
    work: &'a Work,
}

fn run<R: RoomRights>(
    rooms: &mut Rooms,
    now: Tick,
    caller: Caller<'_, R>,
    command: RoomCommand<'_>,
    room: &mut String,
    out: &mut Vec<Effect>,
) -> Result<Value, Failed> {
    let Caller { user, rights, work } = caller;
    let RoomCommand { procedure, payload } = command;
    let fields = fields_of(procedure).ok_or(Failed::NoSuchCommand)?;
    work.read(payload.len());
    let mut words = Words::read(payload, fields)?;
    *room = words.text("room")?.unwrap_or_default();
    let actor = Actor {
        user,
        role: rights.role(room),
    };
    let command = Command {
        rooms,
        now,
        actor,
        rights,
        work,
        room,
        words,
        out,
    };
    command.run(procedure)
}

fn answer(result: Result<Value, Failed>) -> Value {
    let refused = |why: Refusal, text: &str| {
        json!({
            "status": "refused",
            "error": why.word(),
            "code": why.code(),
            "text": text,
        })
    };
    let with_part = |mut answer: Value, part: String| {
        if !part.is_empty() {
            answer["part"] = part.into();
        }
        answer
    };
    match result {
        Ok(result) => json!({ "status": "done", "result": result }),
        Err(Failed::Refused(why)) => refused(why, why.text()),
        Err(Failed::Part(why, word)) => with_part(refused(why, &word.text), word.part),
        Err(Failed::Early(_, word)) => with_part(refused(Refusal::Exists, &word.text), word.part),
        Err(Failed::Bad(word)) => {
            let answer = json!({ "status": "bad-call", "text": word.text });
            with_part(answer, word.part)
        }
        Err(Failed::NoSuchCommand) => json!({
            "status": "not-found",
            "text": "there is create, match, set, lock, unlock, change, kick, seat, close, info, list",
        }),
    }
}

struct Command<'a, R> {
    rooms: &'a mut Rooms,
    now: Tick,
    actor: Actor<'a>,
    rights: &'a R,
    work: &'a Work,
    /// As it was named; empty if it was not.
    room: &'a str,
    words: Words,
    out: &'a mut Vec<Effect>,
}

impl<'a, R: RoomRights> Command<'a, R> {
    fn run(mut self, procedure: &str) -> Result<Value, Failed> {
        // Neither does it learn whether there is such a room.
        if !self.room.is_empty() && !self.may_see(self.room) {
            return Err(Refusal::NoRight.into());
        }
        if matches!(procedure, "room.set" | "room.lock" | "room.change")
            && self.rooms.is_frozen(self.room)
        {
            return Err(Refusal::Disk.into());
        }
        match procedure {
            "room.create" => self.create(),
            "room.match" => self.find(),
            "room.set" => self.set(),
            "room.lock" => self.lock(true),
            "room.unlock" => self.lock(false),
            "room.change" => self.change(),
            "room.kick" => self.kick(),
            "room.seat" => self.seat(),
            "room.close" => self.close(),
            "room.info" => self.info(),
            "room.list" => self.list(),
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
    fn shown(&self, room: &Room, is_listed: bool) -> Summary {
        room.summary_of(|property| self.is_told(room.name(), property, is_listed))
    }

    fn is_told(&self, room: &str, property: &str, is_listed: bool) -> bool {
        is_listed || self.may_read_inside(room, property)
    }

    /// Whether one of the topics that tell of a property is permitted.
    fn may_read_property(&self, room: &str, property: &str) -> bool {
        self.is_told(room, property, self.is_listed(room))
    }

    /// Whether the topic in the room with a property is permitted.
    fn may_read_inside(&self, room: &str, property: &str) -> bool {
        self.rights.may_read(&topic::property(room, property))
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
        let room = self.rooms.get(room).ok_or_else(|| no_room(room))?;
        let is_listed = self.is_listed(room.name());
        let mut told = json!({
            "room": self.shown(room, is_listed),
            "locks": room.locks(|property| self.is_told(room.name(), property, is_listed)),
        });
        if let Some(members) = self.members(room) {
            let away = members.iter().filter(|user| room.is_away(user));
            told["away"] = json!(away.collect::<Vec<_>>());
            told["members"] = json!(members);
        }
        Ok(told)
    }

    /// A part of the list: this many rooms are looked at and told of, no more, and `next` tells
    /// what to go on after.
    fn list(&mut self) -> Result<Value, Failed> {
        let after = self.words.text("after")?;
        let mut rooms = Vec::new();
        let (mut bytes, mut last, mut next) = (0, None, None);
        for (looked_at, room) in self.rooms.after(after.as_deref()).enumerate() {
            self.work.looked_at(1);
            let is_listed = self.is_listed(room.name());
            let is_seen = is_listed || self.rights.may_enter(room.name());
            bytes += usize::from(is_seen) * room.listed_bytes();
            let is_much = bytes > LISTED_BYTES_MAX && !rooms.is_empty();
            let is_long = self.work.time() > LISTED_TIME_MAX && last.is_some();
            if looked_at >= LOOKED_AT_MAX || is_much || is_long {
                next = last;
                break;
            }
            last = Some(room.name());
            if is_seen {
                rooms.push(self.shown(room, is_listed));
            }
        }
        let mut told = json!({ "rooms": rooms });
        if let Some(next) = next {
            told["next"] = json!(next);
        } else if after.is_none() {
            told["total"] = json!(rooms.len());
        }
        Ok(told)
    }

    fn room(&self) -> Result<&'a str, Failed> {
        match self.room {
            "" => Err(BadWord::missing("room", "the name of a room").into()),
            room => Ok(room),
        }
    }

    fn name(&mut self) -> Result<String, Failed> {
        let name = self.words.text("name")?;
        Ok(name.ok_or_else(|| BadWord::missing("name", "the name of a property"))?)
    }

    /// Does something in the room.
    fn act<A>(
        &mut self,
        f: impl FnOnce(&mut Room, &mut Vec<Effect>) -> Result<A, Refusal>,
    ) -> Result<A, Failed> {
        let room = self.room()?;
        if self.rooms.get(room).is_none() {
            return Err(no_room(room));
        }
        Ok(self.rooms.act(room, self.out, f)?)
    }

    fn close(&mut self) -> Result<Value, Failed> {
        let room = self.room()?;
        let closed = self.rooms.close(self.actor, room, self.out);
        let stays = closed.map_err(|why| match why {
            Refusal::Unknown => no_room(room),
            why => why.into(),
        })?;
        let ending = self.rooms.ending(room);
        self.work.ends_in(ending.map_or(0, Ending::steps));
        Ok(json!({ "stays": stays }))
    }

    fn kick(&mut self) -> Result<Value, Failed> {
        let user = self.words.text("user")?;
        let user = user.ok_or_else(|| BadWord::missing("user", "the one to send out"))?;
        let actor = self.actor;
        let kicked = self.act(|room, out| room.kick(actor, &user, out));
        kicked.map_err(|failed| self.blame_member(failed, "user", &user))?;
        Ok(json!({}))
    }

    /// Makes a virtual member.
    fn seat(&mut self) -> Result<Value, Failed> {
        let user = self.words.text("user")?;
        let user = user.ok_or_else(|| BadWord::missing("user", "the one to give a place"))?;
        if self.actor.role != Role::Administrator {
            return Err(Refusal::NoRight.into());
        }
        let now = self.now;
        let seated = self.act(|room, out| room.seat(now, &user, out));
        seated.map_err(|failed| match failed {
            Failed::Refused(why @ Refusal::Name) => {
                let text = "user: a user name has 1 to 255 bytes and no control characters";
                Failed::Part(why, BadWord::other("user", text))
            }
            Failed::Refused(why @ Refusal::TooMany) => {
                let text = format!("user: a room has at most {VIRTUAL_MAX} virtual members");
                Failed::Part(why, BadWord::other("user", text))
            }
            failed => failed,
        })?;
        Ok(json!({}))
    }

    /// What a new room is made with.
    fn options(&mut self) -> Result<(RoomOptions, Map<String, Value>), Failed> {
        let defaults = self.rooms.defaults().clone();
        let words = &mut self.words;
        let capacity = words.count("capacity")?;
        let options = RoomOptions {
            permanent: words.flag("permanent")?.unwrap_or_default(),
            capacity: capacity.map_or(defaults.capacity, bound),
            locked: words.flag("locked")?.unwrap_or(defaults.locked),
            history: match words.history()? {
                Some(history) => defaults.bounds.limit_history(history),
                None => defaults.history,
            },
            ..defaults
        };
        Ok((options, words.properties("properties")?))
    }

    fn create(&mut self) -> Result<Value, Failed> {
        let room = self.room()?.to_string();
        let asks = self.words.has("history");
        let (options, properties) = self.options()?;
        self.make("room", &room, options, properties)?;
        Ok(self.with_history(asks, &room, json!({ "room": room })))
    }

    /// The answer to somebody who asked for a history: with what was granted of it.
    fn with_history(&self, asks: bool, room: &str, mut answer: Value) -> Value {
        if let Some(room) = self.rooms.get(room).filter(|_| asks) {
            let granted = room.history_bounds();
            answer["history"] = json!({
                "count": granted.count,
                "bytes": granted.bytes,
                "age_secs": granted.age.map(|age| age.as_secs()),
            });
        }
        answer
    }

    /// Makes a room, which a field has named.
    fn make(
        &mut self,
        field: &str,
        room: &str,
        options: RoomOptions,
        properties: Map<String, Value>,
    ) -> Result<(), Failed> {
        let blame = |why: Refusal| blame_name(why, field, room);
        // No right gives a room a name that none can have.
        check_name(room).map_err(|_| blame(Refusal::Name))?;
        // By joining it observers make no room either.
        if !self.is_administrator(room) && !self.rights.may_join(room) {
            return Err(Refusal::NoRight.into());
        }
        if self.rooms.is_ending(room) {
            return Err(is_ending(field, room));
        }
        let (now, actor) = (self.now, self.actor);
        let values = properties.clone();
        let made = self
            .rooms
            .create_with(now, actor, room, options, properties, self.out);
        made.map_err(|unmade| match unmade.property {
            None if matches!(unmade.why, Refusal::Name | Refusal::Exists) => blame(unmade.why),
            None if unmade.why == Refusal::Permanent => {
                let text = format!("permanent is true: {}", unmade.why.text());
                Failed::Part(unmade.why, BadWord::other("permanent", text))
            }
            None if unmade.why == Refusal::TooMany => self.blame_number(field),
            None => unmade.why.into(),
            Some(property) => {
                let part = below("properties", &property);
                let bounds = &self.rooms.defaults().bounds;
                let value = values.get(&property).unwrap_or(&Value::Null);
                blame_property(unmade.why, part, &property, value, bounds)
            }
        })
    }

    /// There are as many rooms as there may be, of the zone or of the user.
    fn blame_number(&self, field: &str) -> Failed {
        let (zone_max, own_max) = (self.rooms.rooms_max(), self.rooms.owned_max());
        let text = match self.rooms.len() >= zone_max {
            true => format!("{field}: the zone has {zone_max} rooms, which is the most (`rooms`)"),
            false => format!(
                "{field}: you own {own_max} rooms, which is the most (`rooms_per_user`): close one"
            ),
        };
        Failed::Part(Refusal::TooMany, BadWord::other(field, text))
    }

    /// When a property is to be set.
    fn condition(&mut self) -> Result<Condition, Failed> {
        let words = &mut self.words;
        let version = words.number("if_version")?.map(Condition::Version);
        let value = words.any("if_value").map(|value| match value {
            Value::Null => Condition::Absent,
            value => Condition::Value(value),
        });
        let absent = words.flag("if_absent")?.filter(|absent| *absent);
        let absent = absent.map(|_| Condition::Absent);
        let mut given = [version, value, absent].into_iter().flatten();
        let condition = given.next().unwrap_or(Condition::Always);
        if given.next().is_some() {
            let text = "there are several conditions: give one of if_version, if_value, if_absent";
            return Err(BadWord::other("", text).into());
        }
        Ok(condition)
    }

    fn set(&mut self) -> Result<Value, Failed> {
        let name = self.name()?;
        let what = "the value of the property, or null to take it away";
        let value = self.words.any("value");
        let value = value.ok_or_else(|| BadWord::missing("value", what))?;
        let condition = self.condition()?;
        let (room, actor) = (self.room()?, self.actor);
        if matches!(condition, Condition::Value(_)) && !self.may_read_property(room, &name) {
            return Err(Refusal::NoRight.into());
        }
        let wanted = Some(value.clone()).filter(|value| !value.is_null());
        let set = self.act(|room, out| room.set(actor, &name, wanted, &condition, out));
        let version = set.map_err(|failed| self.blame_set(failed, &name, &value))?;
        Ok(json!({ "version": version }))
    }

    fn lock(&mut self, locks: bool) -> Result<Value, Failed> {
        let name = self.name()?;
        let actor = self.actor;
        let done = self.act(|room, out| {
            if locks {
                room.lock(actor, &name, out)
            } else {
                room.unlock(actor, &name, out)
            }
        });
        done.map_err(|failed| self.blame_set(failed, &name, &Value::Null))?;
        Ok(json!({}))
    }

    fn change(&mut self) -> Result<Value, Failed> {
        let capacity = self.words.count("capacity")?;
        let locked = self.words.flag("locked")?;
        let history = self.words.history()?;
        let owner = self.words.text("owner")?;
        let changes: Vec<Change<'_>> = [
            capacity.map(|capacity| Change::Capacity(bound(capacity))),
            locked.map(Change::Locked),
            history.map(Change::History),
            owner.as_deref().map(Change::Owner),
        ]
        .into_iter()
        .flatten()
        .collect();
        if changes.is_empty() {
            let text = "it changes nothing: give capacity, locked, history or owner";
            return Err(BadWord::other("", text).into());
        }
        let actor = self.actor;
        let changed = self.act(|room, out| room.change_all(actor, &changes, out));
        changed.map_err(|failed| match &owner {
            Some(owner) => self.blame_member(failed, "owner", owner),
            None => failed,
        })?;
        Ok(self.with_history(history.is_some(), self.room, json!({})))
    }

    /// A user who is unknown in a room that is there, or who may not own it.
    fn blame_member(&self, failed: Failed, part: &str, user: &str) -> Failed {
        match failed {
            Failed::Refused(why @ Refusal::Unknown) if self.rooms.get(self.room).is_some() => {
                let text = match part {
                    "owner" => "no member has this name, or a virtual one, which owns no room",
                    _ => "nobody of this name is in the room",
                };
                let text = format!("{part} is {}: {text}", quoted(user));
                Failed::Part(why, BadWord::other(part, text))
            }
            Failed::Refused(why @ Refusal::TooMany) => {
                let (user, max) = (quoted(user), self.rooms.owned_max());
                let text = format!("{part} is {user}: a user owns {max} rooms at most");
                Failed::Part(why, BadWord::other(part, text))
            }
            failed => failed,
        }
    }

    /// The property that is the reason of a refusal.
    fn blame_set(&self, failed: Failed, name: &str, value: &Value) -> Failed {
        match (failed, self.rooms.get(self.room)) {
            (Failed::Refused(why), Some(room)) => {
                let part = match why {
                    Refusal::TooLarge => "value",
                    Refusal::NotMember | Refusal::NotOwner => return why.into(),
                    _ => "name",
                };
                blame_property(why, part.into(), name, value, room.bounds())
            }
            (failed, _) => failed,
        }
    }
}

/// A capacity as it is asked for: 0 is none.
fn bound(capacity: u32) -> Option<u32> {
    Some(capacity).filter(|capacity| *capacity > 0)
}
