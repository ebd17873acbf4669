//! `topics`: subscribed filters, and topics with a retained message; `topics.children`: the names
//! of such topics, level by level.

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
    /// Only filters that are subscribed to now: the server looks again. Otherwise they may be 2
    /// seconds old.
    pub fresh: bool,
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
    /// Whether there are more. A page ends earlier than asked for where names are very long: then
    /// go on behind the longer one of its lists.
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

/// `topics.children`: the names at one level of topics that hold a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Children {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
    /// The levels above, such as `plant/17`; the first level if it is not given.
    pub below: Option<String>,
    /// Only names behind this one: the last of the page before.
    pub after: Option<String>,
    /// At most this many; 1,000 if it is not given, 10,000 at most.
    pub limit: Option<usize>,
}

impl Request for Children {
    const VERB: Verb = Verb::TopicsChildren;
    type Answer = Names;
}

/// What `topics.children` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Names {
    /// The names, in order.
    pub names: Vec<Name>,
    /// Whether there are more behind the last one.
    pub more: bool,
    /// Whether the level has more names than a server looks at: then some are missing.
    pub truncated: bool,
}

/// A name at a level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Name {
    /// The name.
    pub name: String,
    /// Whether a topic that holds a message ends with it.
    pub topic: bool,
    /// Whether there are such topics below it.
    pub below: bool,
}
