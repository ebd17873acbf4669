//! `rooms.…`: the rooms of a zone, for operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Request, Verb, ZoneWord};

/// `rooms.ls`: the rooms of a zone, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
    /// Only rooms whose names begin with this.
    pub prefix: Option<String>,
    /// Only rooms behind this one: the `next` of the page before.
    pub after: Option<String>,
    /// At most this many; 100 if it is not given, 1,000 at most.
    pub limit: Option<usize>,
}

impl Request for Ls {
    const VERB: Verb = Verb::RoomsLs;
    type Answer = List;
}

/// What `rooms.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The name of the zone.
    pub zone: String,
    /// The page.
    pub rooms: Vec<Room>,
    /// How many rooms the zone has.
    pub total: usize,
    /// Behind which room the next page begins, if there may be more.
    pub next: Option<String>,
}

/// A room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Room {
    /// Its name.
    pub room: String,
    /// How many members it has, those included who are away for a moment.
    pub member_count: usize,
    /// How many it may have; nothing without a bound.
    pub capacity: Option<u32>,
    /// Its owner.
    pub owner: Option<String>,
    /// Whether nobody may come in.
    pub locked: bool,
    /// Whether it stays when it is empty.
    pub permanent: bool,
    /// How many properties it has.
    pub property_count: usize,
    /// Bytes of these, and of what it keeps of what was said.
    pub bytes: usize,
}

/// `rooms.show`: one room with its members and properties.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// The room.
    pub room: String,
    /// The default zone if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
    /// Only members behind this one: the `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// At most this many members; 100 if it is not given, 1,000 at most.
    #[serde(default)]
    pub limit: Option<usize>,
}

impl Request for Show {
    const VERB: Verb = Verb::RoomsShow;
    type Answer = Shown;
}

/// What `rooms.show` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Shown {
    /// The name of the zone.
    pub zone: String,
    /// The room.
    #[serde(flatten)]
    pub room: Room,
    /// Its properties.
    pub properties: Map<String, Value>,
    /// The holder of the lock of each property; an empty name is that of the server.
    pub locks: Map<String, Value>,
    /// How much it keeps of what is said.
    pub history: History,
    /// Some of its members, by name.
    pub members: Vec<Member>,
    /// Behind which member the next page begins, if there are more.
    pub next: Option<String>,
}

/// How much a room keeps of what is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct History {
    /// Messages.
    pub count: usize,
    /// Bytes.
    pub bytes: usize,
    /// For how long; nothing without a bound.
    pub age_secs: Option<u64>,
}

/// A member of a room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Member {
    /// The user.
    pub user: String,
    /// Whether all its connections are lost, and its place is kept for a moment.
    pub away: bool,
    /// Whether it is there without a connection.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
}

/// `rooms.kick`: removes a member from a room, or somebody who observes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kick {
    /// The room.
    pub room: String,
    /// The user.
    pub user: String,
    /// The default zone if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
}

impl Request for Kick {
    const VERB: Verb = Verb::RoomsKick;
    type Answer = crate::Done;
}

/// `rooms.close`: removes a room. The lobby and the rooms of the configuration lose their members,
/// properties and history, and stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Close {
    /// The room.
    pub room: String,
    /// The default zone if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
}

impl Request for Close {
    const VERB: Verb = Verb::RoomsClose;
    type Answer = Closed;
}

/// What `rooms.close` answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Closed {
    /// Whether the room is only emptied, since the zone always has it.
    pub stays: bool,
}
