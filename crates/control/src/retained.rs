//! `retained.…`: the last messages of topics.
//!
//! A message has the form of `stentor retained export`: an object with the topic, the payload, and
//! what else belongs to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Request, Verb, ZoneWord};

/// How far a list has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// The part of the store.
    pub stripe: u16,
    /// The last topic there.
    pub after: Option<String>,
}

/// `retained.page`: messages whose topic matches a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Page {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
    /// The filter.
    pub filter: String,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
}

impl Request for Page {
    const VERB: Verb = Verb::RetainedPage;
    type Answer = Messages;
}

/// What `retained.page` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Messages {
    /// The page.
    pub messages: Vec<Value>,
    /// Where the next one begins, if there are more.
    pub cursor: Option<Cursor>,
}

/// `retained.history`: messages of a topic's history, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct History {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
    /// The topic.
    pub topic: String,
    /// `last:N`, `since:TIME` or `after:NUMBER`; all messages if it is not given.
    pub ask: Option<String>,
    /// At most this many messages, the oldest ones: from 1 to 1,000.
    pub limit: Option<u32>,
}

impl Request for History {
    const VERB: Verb = Verb::RetainedHistory;
    type Answer = Recalled;
}

/// What `retained.history` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Recalled {
    /// Changes when the numbers may have started again.
    pub epoch: String,
    /// The messages. Their `sequence` is their number.
    pub messages: Vec<Value>,
    /// Whether there are more: `after` the number of the last one.
    pub more: bool,
}

/// `retained.filters`: filters that cover together all that is kept of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filters {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
}

impl Request for Filters {
    const VERB: Verb = Verb::RetainedFilters;
    type Answer = Covering;
}

/// What `retained.filters` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Covering {
    /// The filters.
    pub filters: Vec<String>,
}

/// `retained.put`: keeps messages, and sends them to those who are subscribed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Put {
    /// The zone of messages that name none.
    pub zone: Option<ZoneWord>,
    /// The messages.
    pub messages: Vec<Value>,
    /// Whether they are only compared.
    pub dry_run: bool,
    /// Whether zones are created that do not exist yet.
    pub new_zones: bool,
    /// Whether a message is kept again that is there in the same form.
    pub anew: bool,
}

impl Request for Put {
    const VERB: Verb = Verb::RetainedPut;
    type Answer = Kept;
}

/// What `retained.put` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Kept {
    /// Topics that held no message.
    pub new: u64,
    /// Topics that held another one.
    pub changed: u64,
    /// Topics that held the same.
    pub same: u64,
    /// Messages that were not kept.
    pub refused: Vec<NotKept>,
}

/// A message that was not kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NotKept {
    /// Which of the request, from 0.
    pub at: usize,
    /// Its topic, as the request has it.
    pub topic: Value,
    /// Why.
    pub reason: String,
}

/// `retained.clear`: clears the topics of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Clear {
    /// The default zone if it is not given.
    pub zone: Option<ZoneWord>,
    /// The filter.
    pub filter: String,
    /// Where the last page ended.
    pub cursor: Option<Cursor>,
}

impl Request for Clear {
    const VERB: Verb = Verb::RetainedClear;
    type Answer = Cleared;
}

/// What `retained.clear` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cleared {
    /// How many topics were cleared.
    pub cleared: u64,
    /// How many messages of histories have gone, with the last page.
    pub forgotten: u64,
    /// Topics that were not.
    pub refused: Vec<NotCleared>,
    /// Where the next page begins, if there are more.
    pub cursor: Option<Cursor>,
}

/// A topic that was not cleared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NotCleared {
    /// The topic.
    pub topic: String,
    /// Why.
    pub reason: String,
}

/// `retained.verify`: checks one part of the store; behind the last one, lists what is damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verify {
    /// Which part.
    pub stripe: usize,
    /// From which damaged place on.
    pub from: usize,
}

impl Request for Verify {
    const VERB: Verb = Verb::RetainedVerify;
    type Answer = Verified;
}

/// What `retained.verify` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verified {
    /// Records of this part that are whole.
    pub whole: u64,
    /// Records of this part that are damaged.
    pub damaged: u64,
    /// The next part, if there is one.
    pub next: Option<usize>,
    /// Damaged places that were found in all.
    pub found: u64,
    /// Topics that have lost their message.
    pub losses: u64,
    /// Damaged places.
    pub reports: Vec<Damage>,
    /// From where on more are listed.
    pub more: Option<usize>,
}

/// A damaged place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The zone of the message, as far as it can be read.
    pub zone: Option<String>,
    /// Its topic.
    pub topic: Option<String>,
    /// What it came to.
    pub outcome: String,
    /// Whether somebody has published to the topic since.
    pub published_again: bool,
}

/// `retained.status`: figures of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {}

impl Request for Status {
    const VERB: Verb = Verb::RetainedStatus;
    type Answer = Figures;
}

/// What `retained.status` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Figures {
    /// Topics that hold a message.
    pub messages: u64,
    /// The size of all messages, those of histories included.
    pub bytes: u64,
    /// Topics that have a history.
    pub history_topics: u64,
    /// Messages of all histories.
    pub history_messages: u64,
    /// Their size.
    pub history_bytes: u64,
    /// Of each zone.
    pub zones: Vec<OfZone>,
    /// Files on the disk.
    pub files: u64,
    /// What they take there.
    pub file_bytes: u64,
    /// What of it is written.
    pub used_bytes: u64,
    /// What of that is still needed.
    pub live_bytes: u64,
    /// The index in memory.
    pub index_bytes: u64,
    /// Damaged places that were found.
    pub damaged: u64,
    /// Topics that have lost their message.
    pub losses: u64,
    /// What is wrong with the disk.
    pub troubles: Vec<String>,
}

/// What is kept of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OfZone {
    /// Its name.
    pub zone: String,
    /// Messages: the last ones of topics, and those of histories.
    pub messages: u64,
    /// Their size.
    pub bytes: u64,
}

/// `retained.compact`: gives back the room of what is not needed any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compact {}

impl Request for Compact {
    const VERB: Verb = Verb::RetainedCompact;
    type Answer = Compacted;
}

/// What `retained.compact` answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Compacted {
    /// Files that are gone.
    pub files_removed: u64,
}
