//! `zones`: what there is of each zone. `zones.…`: which zones there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `zones`: what there is of each zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Zones {
    /// What there is now: the server looks again. Otherwise the answer may be 2 seconds old.
    pub fresh: bool,
    /// The name of a zone: only what there is of that one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Zones {
    const VERB: Verb = Verb::Zones;
    type Answer = Told;
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// Each zone, by name.
    pub zones: Vec<Zone>,
}

/// What there is of a zone, and what went through it since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its number, which one that nobody has used has not.
    pub number: Option<u32>,
    /// Clients that are connected.
    pub connections: u64,
    /// Users that are connected.
    pub users: u64,
    /// Sessions, connected or away.
    pub sessions: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Rooms.
    pub rooms: u64,
    /// Members of rooms.
    pub members: u64,
    /// What rooms hold.
    pub room_bytes: u64,
    /// What sessions and rooms make the server hold, in bytes of memory.
    pub held_bytes: u64,
    /// Messages from clients.
    pub messages_in: u64,
    /// Their payloads.
    pub messages_in_bytes: u64,
    /// Messages to clients.
    pub messages_out: u64,
    /// Their payloads.
    pub messages_out_bytes: u64,
    /// Messages that were lost.
    pub messages_dropped: u64,
    /// Topics that hold a message.
    pub retained_messages: u64,
    /// Their size.
    pub retained_bytes: u64,
}

/// `zones.ls`: the zones, with their bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {}

impl Request for Ls {
    const VERB: Verb = Verb::ZonesLs;
    type Answer = List;
}

/// What `zones.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The zones.
    pub zones: Vec<Listed>,
}

/// A zone as the user database and the configuration have it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Connections of all its users at the same time, as the zone was added; nothing for no limit.
    pub connections: Option<u32>,
    /// How many users the user database has of it.
    pub users: u64,
    /// Whether the configuration names it.
    pub configured: bool,
    /// Why nobody can be of this zone, if so.
    pub left_out: Option<String>,
}

/// `zones.add`: adds a zone, or changes its bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// The name of the zone.
    pub name: String,
    /// Connections of all its users at the same time, at least 1; no limit if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

impl Request for Add {
    const VERB: Verb = Verb::ZonesAdd;
    type Answer = Added;
}

/// What `zones.add` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Added {
    /// The name of the zone.
    pub name: String,
    /// Connections of all its users at the same time; nothing for no limit.
    pub connections: Option<u32>,
}

/// `zones.rm`: removes a zone that has no users, with its connections, rooms and retained
/// messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rm {
    /// The name of the zone.
    pub name: String,
}

impl Request for Rm {
    const VERB: Verb = Verb::ZonesRm;
    type Answer = Removed;
}

/// What `zones.rm` answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Removed {
    /// How many sessions have ended.
    pub sessions: u64,
    /// How many retained messages are gone.
    pub retained_messages: u64,
}
