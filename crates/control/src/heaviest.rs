//! `topics.heaviest` and `clients.heaviest`: what most is published to, and who publishes most.
//!
//! A server looks at one publish in 64 and counts those in 256 places on each shard. So all figures
//! are estimates. Counts are halved each minute: a rate is that of the last minute or two, with the
//! most recent messages counting most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `topics.heaviest`: the topics that most is published to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topics {
    /// Topics of this zone only.
    pub zone: Option<ZoneWord>,
    /// By which rate they are ranked.
    pub by: By,
    /// At most this many; 20 if it is not given, 1,000 at most.
    pub limit: Option<usize>,
}

/// `clients.heaviest`: the clients that publish most, and users that publish without a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Clients {
    /// Clients of this zone only.
    pub zone: Option<ZoneWord>,
    /// By which rate they are ranked.
    pub by: By,
    /// At most this many; 20 if it is not given, 1,000 at most.
    pub limit: Option<usize>,
}

/// A rate that heavy topics and clients are ranked by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Messages.
    #[default]
    Messages,
    /// The bytes of their payloads.
    Bytes,
}

impl Request for Topics {
    const VERB: Verb = Verb::TopicsHeaviest;
    type Answer = HeaviestTopics;
}

impl Request for Clients {
    const VERB: Verb = Verb::ClientsHeaviest;
    type Answer = HeaviestClients;
}

/// What `topics.heaviest` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeaviestTopics {
    /// The heaviest first.
    pub topics: Vec<HeavyTopic>,
    /// What the figures are worth.
    #[serde(flatten)]
    pub sample: Sample,
}

/// What `clients.heaviest` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeaviestClients {
    /// The heaviest first.
    pub clients: Vec<HeavyClient>,
    /// What the figures are worth.
    #[serde(flatten)]
    pub sample: Sample,
}

/// What estimated rates are worth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Sample {
    /// By which rate the rows are ranked.
    pub by: By,
    /// The server looks at one publish in this many, on average.
    pub one_in: u64,
    /// The seconds that the rates are means over: up to 120. What happened before the last full
    /// minute counts half, before the one before it a quarter, and so on.
    pub window_secs: f64,
    /// The highest rate, in the unit of `by`, of something that may be missing: the server counts
    /// in 256 places on each shard. 0: nothing is. By as much, the rate of a topic may be too low
    /// that is published to on several shards.
    pub missing_below: f64,
    /// All that is published, in messages a second; nothing if a zone was named.
    pub messages_per_sec: Option<f64>,
    /// The same in bytes of payload; nothing if a zone was named.
    pub bytes_per_sec: Option<f64>,
    /// Whether there are more rows than asked for.
    pub truncated: bool,
    /// Shards that have not answered in time; their messages are missing.
    pub silent_shards: usize,
}

/// A topic, and what is published to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeavyTopic {
    /// The name of its zone.
    pub zone: String,
    /// Its name; the first 256 bytes of a longer one. Private messages count as `$private` and
    /// answers to calls as `$answer`; calls count without the id of the reply.
    pub topic: String,
    /// Whether its name is longer.
    pub cut: bool,
    /// What is published to it.
    #[serde(flatten)]
    pub rates: Rates,
    /// The client that publishes much of it: more than a quarter. Nothing if none does, or if that
    /// is not certain.
    pub mostly_by: Option<Publisher>,
}

/// A client, and what it publishes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HeavyClient {
    /// The name of its zone.
    pub zone: String,
    /// Its names.
    #[serde(flatten)]
    pub publisher: Publisher,
    /// What it publishes.
    #[serde(flatten)]
    pub rates: Rates,
    /// To which topic it publishes much: more than a quarter. Nothing if it does to none, or if
    /// that is not certain.
    pub mostly_to: Option<String>,
}

/// Somebody who publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Publisher {
    /// The client id; the first 256 bytes of a longer one. Nothing for a user that publishes
    /// without a connection: by HTTP.
    pub client_id: Option<String>,
    /// The user, in the same way; nothing for anonymous.
    pub user: Option<String>,
    /// Whether one of these names is longer.
    pub cut: bool,
}

/// Estimated rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rates {
    /// Messages a second.
    pub messages_per_sec: f64,
    /// Bytes of payload a second.
    pub bytes_per_sec: f64,
    /// By how much the rate that the rows are ranked by may be too high, beside chance.
    pub error: f64,
}
