//! `subscriptions`: who gets the messages of a topic, and by which subscription.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `subscriptions`: the subscriptions that match a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subscriptions {
    /// The topic, without wildcards.
    pub topic: String,
    /// The default zone if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
    /// At most this many; 1,000 if it is not given, 10,000 at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Where the last page ended.
    #[serde(default)]
    pub cursor: Option<Cursor>,
}

impl Request for Subscriptions {
    const VERB: Verb = Verb::Subscriptions;
    type Answer = Told;
}

/// How far a list has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cursor {
    /// The shard.
    pub shard: usize,
    /// The filter there.
    pub filter: String,
    /// The place among its subscribers.
    pub subscriber: u32,
    /// The place among the members of a shared subscription.
    pub member: u32,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// The page, in no particular order. A client with several subscriptions that match comes with
    /// each of them.
    pub subscriptions: Vec<Matching>,
    /// Where the next page begins, if there may be more.
    pub cursor: Option<Cursor>,
    /// Whether some are missing, because more filters match than one answer looks at.
    pub truncated: bool,
}

/// A subscription that matches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Matching {
    /// The client.
    pub client_id: String,
    /// Its user.
    pub user: Option<String>,
    /// The name of its zone.
    pub zone: String,
    /// Whether it is connected.
    pub connected: bool,
    /// The filter, as the client wrote it.
    pub filter: String,
    /// The group of a shared subscription: each message goes to one of its members.
    pub group: Option<String>,
    /// The QoS of the subscription.
    pub qos: u8,
    /// Whether it leaves out what the client publishes itself.
    pub no_local: bool,
    /// Messages a second for each topic at most.
    pub max_rate: Option<f64>,
    /// Whether the client does not get the messages, because it has no right to the topic.
    pub withheld: bool,
    /// The rule of a role that decides that.
    pub rule: Option<String>,
}
