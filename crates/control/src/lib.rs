//! What operators can ask of a running server, and what it answers.
//!
//! Each verb has a line in the table ([`Verb`]), a type of request and a type of answer. The
//! server, the command line and HTTP share them. [`schema`] describes them for others. The crate
//! does no I/O. Orders of the Auth Center (`user.…`, `role.…`, `zone.…`), which the command line
//! sends with hashes that it made, have a type of their own there. The verbs `users.…`, `roles.…`,
//! `tokens.…` and `zones.…` give these orders for others: the server makes hashes and tokens.
//!
//! On the wire, a request is one JSON object in a line, `{"v":1,"verb":"clients.show",…}`. So is an
//! answer: `{"v":1,"ok":{…}}` or `{"v":1,"error":"a sentence with a remedy","code":"not-found"}`.
//! Keys that a receiver does not know are ignored, and keys that are missing have their default
//! value. So a server and a command of different releases understand each other.

#![forbid(unsafe_code)]

pub mod adaptors;
pub mod bans;
pub mod certificates;
pub mod clients;
pub mod config;
pub mod events;
pub mod figures;
pub mod health;
pub mod heaviest;
mod limit;
pub mod log;
pub mod login;
pub mod metrics;
mod network;
pub mod procedures;
pub mod publish;
pub mod reload;
pub mod retained;
pub mod roles;
pub mod rooms;
pub mod schema;
mod secret;
pub mod sessions;
pub mod status;
pub mod subscriptions;
pub mod tokens;
pub mod topics;
pub mod trace;
mod types;
pub mod users;
mod verb;
mod wire;
pub mod zones;

pub use limit::{Limit, page};
pub use network::{Network, NetworkError};
pub use secret::Secret;
pub use types::Visit;
pub use verb::{Audit, Http, Need, Request, Scope, Verb};
pub use wire::{Failure, Head, VERSION, ZoneWord, asked, told};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An answer that says no more than that it is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// `mqtt`: the connection speaks MQTT after the answer, as the administrator of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mqtt {
    /// The default zone if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneWord>,
}

impl Request for Mqtt {
    const VERB: Verb = Verb::Mqtt;
    type Answer = Done;
}

/// `stop`: the server ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {}

impl Request for Stop {
    const VERB: Verb = Verb::Stop;
    type Answer = Done;
}
