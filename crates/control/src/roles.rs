//! `roles.…`: named lists of rules, and of quotas.
//!
//! A role is one of a zone, or one for all zones. A zone's own role hides one for all zones of the
//! same name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `roles.ls`: all roles, or those that there are for a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {
    /// The name of a zone: only its own roles and those for all zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Ls {
    const VERB: Verb = Verb::RolesLs;
    type Answer = List;
}

/// What `roles.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The roles.
    pub roles: Vec<Role>,
}

/// `roles.show`: one role, as the users of a zone have it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// The name of the role.
    pub name: String,
    /// The name of a zone: its own role, or else the one for all zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl Request for Show {
    const VERB: Verb = Verb::RolesShow;
    type Answer = Role;
}

/// `roles.add`: adds a role, or replaces it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Add {
    /// The name of the role.
    pub name: String,
    /// The name of the role's zone; for all zones if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Rules as sentences, such as `allow publish sensors/#`: up to 10,000.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The quotas.
    #[serde(default)]
    pub quotas: Quotas,
    /// Whether a role of this name is replaced.
    #[serde(default)]
    pub replace: bool,
}

impl Request for Add {
    const VERB: Verb = Verb::RolesAdd;
    type Answer = Role;
}

/// `roles.change`: changes rules and quotas of a role, for all who have it, at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The name of the role.
    pub name: String,
    /// The name of the role's zone; the one for all zones if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Rules to add.
    #[serde(default)]
    pub add: Vec<String>,
    /// Rules to remove.
    #[serde(default)]
    pub remove: Vec<String>,
    /// Quotas to set; the others stay.
    #[serde(default)]
    pub quotas: Quotas,
    /// The names of the quotas to take away.
    #[serde(default)]
    pub unbound: Vec<String>,
}

impl Request for Change {
    const VERB: Verb = Verb::RolesChange;
    type Answer = Role;
}

/// `roles.rm`: deletes a role that no user has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rm {
    /// The name of the role.
    pub name: String,
    /// The name of the role's zone; the one for all zones if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Whether the role is taken from users who have it.
    #[serde(default)]
    pub force: bool,
}

impl Request for Rm {
    const VERB: Verb = Verb::RolesRm;
    type Answer = Removed;
}

/// What `roles.rm` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Removed {
    /// From how many users the role was taken.
    pub taken_from: u64,
    /// What goes with a role that is there from the start.
    pub note: Option<String>,
}

/// A role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// The name of its zone; nothing for all zones.
    pub zone: Option<String>,
    /// Its rules as sentences.
    pub rules: Vec<String>,
    /// Its quotas.
    pub quotas: Quotas,
}

/// How much each user with a role may take. What is not given has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Quotas {
    /// Connections of a user at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Messages that a client publishes, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_sec: Option<u32>,
    /// Bytes that a client publishes, per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_sec: Option<u64>,
    /// Subscriptions of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscriptions: Option<u32>,
    /// Bytes that wait for a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_bytes: Option<u64>,
}
