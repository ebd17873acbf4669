//! `ban.…`: who may not connect.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// The target of a ban. One of the first three is given, or the zone alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Target {
    /// A client id, in all zones or in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// A user, of the default zone unless another one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// An address or a network. A single IPv6 address means its /64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The name of a zone. Alone, it means all of its clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone.as_deref();
        match (&self.client_id, &self.user, &self.address) {
            (Some(client_id), ..) => write!(f, "the client id {client_id:?}")?,
            (_, Some(user), _) => write!(f, "the user {user:?}")?,
            (.., Some(address)) => return write!(f, "the address {address}"),
            (None, None, None) => return write!(f, "the zone {:?}", zone.unwrap_or_default()),
        }
        zone.map_or(Ok(()), |zone| write!(f, " in the zone {zone:?}"))
    }
}

/// `bans.add`: keeps somebody out, and closes the connections that there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Add {
    /// The target.
    #[serde(flatten)]
    pub target: Target,
    /// For how many seconds; until it is removed, if it is not given.
    pub for_secs: Option<u64>,
    /// Why, for people.
    pub reason: String,
    /// Whether it may concern this machine itself, or the whole default zone.
    pub force: bool,
}

impl Request for Add {
    const VERB: Verb = Verb::BansAdd;
    type Answer = Added;
}

/// What `bans.add` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Added {
    /// The ban as it holds.
    pub ban: Ban,
    /// Whether there was one for the same target, which this one replaces.
    pub replaced: bool,
    /// How many connections were closed.
    pub closed: u64,
}

/// `bans.ls`: the bans that hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {}

impl Request for Ls {
    const VERB: Verb = Verb::BansLs;
    type Answer = List;
}

/// What `bans.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The bans, the oldest first.
    pub bans: Vec<Ban>,
}

/// `bans.rm`: lets somebody in again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rm {
    /// The target, as `bans.ls` tells it.
    #[serde(flatten)]
    pub target: Target,
}

impl Request for Rm {
    const VERB: Verb = Verb::BansRm;
    type Answer = Removed;
}

/// What `bans.rm` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Removed {
    /// The ban that held.
    pub ban: Ban,
}

/// A ban.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ban {
    /// Its target.
    #[serde(flatten)]
    pub target: Target,
    /// When it ends, in seconds since 1970; nothing for never.
    pub until: Option<u64>,
    /// Since when it holds.
    pub since: u64,
    /// Why.
    pub reason: String,
    /// The maker of the ban: an administrator.
    pub by: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_in_words_and_kept_as_keys() {
        let user = Target {
            user: Some("ann".into()),
            zone: Some("game".into()),
            ..Target::default()
        };
        assert_eq!(user.to_string(), "the user \"ann\" in the zone \"game\"");
        let add = Add {
            target: user.clone(),
            ..Add::default()
        };
        let text = r#"{"user":"ann","zone":"game","for_secs":null,"reason":"","force":false}"#;
        assert_eq!(serde_json::to_string(&add).unwrap(), text);
        assert_eq!(serde_json::from_str::<Add>(text).unwrap(), add);
        let zone = Target { user: None, ..user };
        assert_eq!(zone.to_string(), "the zone \"game\"");
    }
}
