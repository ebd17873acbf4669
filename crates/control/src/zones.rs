//! `zones`: what there is of each zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `zones`: what there is of each zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Zones {}

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
