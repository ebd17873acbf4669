//! `events`: what has happened to connections lately.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// What can happen to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A client has connected.
    Connected,
    /// The connection of a client has ended.
    Disconnected,
    /// A connection was refused.
    Refused,
    /// A publish or subscription was refused for want of rights.
    Denied,
    /// A client begins to lose messages.
    Losing,
    /// Somebody was banned.
    Banned,
    /// Somebody has logged in by HTTP.
    LoggedIn,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Connected,
        Self::Disconnected,
        Self::Refused,
        Self::Denied,
        Self::Losing,
        Self::Banned,
        Self::LoggedIn,
    ];

    /// Its word.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Losing => "losing",
            Self::Banned => "banned",
            Self::LoggedIn => "logged-in",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn labelled(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }
}

/// `events`: what has happened to connections lately.
///
/// What is given has to be so of each event that is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Events {
    /// Only those behind this cursor, the oldest first. Without it, the newest that fit the limit.
    pub after: Option<u64>,
    /// Its client id.
    pub client_id: Option<String>,
    /// Its user, as at a login: `zone/name` outside the default zone.
    pub user: Option<String>,
    /// The address of the other end, or a network such as `10.0.0.0/8`.
    pub address: Option<String>,
    /// What has happened.
    pub event: Option<Kind>,
    /// The name of its zone.
    pub zone: Option<String>,
    /// When at the earliest, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// At most this many; 1,000 if it is not given.
    pub limit: Option<usize>,
    /// How long to wait for the first one, in milliseconds.
    pub wait_ms: u64,
}

impl Request for Events {
    const VERB: Verb = Verb::Events;
    type Answer = Told;
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// The events, the oldest first.
    pub events: Vec<Event>,
    /// Where to go on.
    pub cursor: u64,
    /// Whether events behind the cursor of the request are gone already.
    pub missed: bool,
}

/// Something that has happened to a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Event {
    /// Its place in the list since the start.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What: the word of a [`Kind`].
    pub event: String,
    /// The client id, if there is one. A long one is shortened.
    pub client_id: Option<String>,
    /// The user, as at a login.
    pub user: Option<String>,
    /// The zone, as far as it is known.
    pub zone: Option<String>,
    /// The other end.
    pub peer: Option<String>,
    /// The URL of the listener.
    pub listener: Option<String>,
    /// Why, as a word for programs.
    pub reason: Option<String>,
    /// What else there is to say, with a remedy where there is one.
    pub text: Option<String>,
    /// How many of this kind and reason were left out before it: more happened than is kept.
    pub held_back: u64,
}
