//! `topics`: subscribed filters, and topics with a retained message.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `topics`: subscribed filters, and topics with a retained message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topics {
    /// Without it: filters of all zones, retained topics of the default one.
    pub zone: Option<ZoneWord>,
    /// Only what contains this text.
    pub containing: String,
    /// At most this many; 1,000 if it is not given.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: usize,
}

impl Request for Topics {
    const VERB: Verb = Verb::Topics;
    type Answer = Told;
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// Filters that somebody is subscribed to.
    pub filters: Vec<Filter>,
    /// Topics that hold a message.
    pub retained: Vec<Held>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A filter that somebody is subscribed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filter {
    /// The name of its zone.
    pub zone: String,
    /// The filter.
    pub filter: String,
    /// By how many.
    pub subscribers: usize,
}

/// A topic that holds a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Held {
    /// The topic.
    pub topic: String,
    /// The size of the payload.
    pub bytes: usize,
}
