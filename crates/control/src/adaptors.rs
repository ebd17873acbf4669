//! `adaptor.…`: scripts that are asked about what clients do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `adaptors.ls`: the adaptors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {
    /// Only those that are asked about this zone.
    pub zone: Option<ZoneWord>,
}

impl Request for Ls {
    const VERB: Verb = Verb::AdaptorsLs;
    type Answer = List;
}

/// `adaptors.reload`: reads their files again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reload {
    /// Whether what the running versions have kept is left behind.
    pub fresh: bool,
    /// The file that is meant; all if it is not given.
    pub file: Option<String>,
    /// Only those that are asked about this zone.
    pub zone: Option<ZoneWord>,
}

impl Request for Reload {
    const VERB: Verb = Verb::AdaptorsReload;
    type Answer = Reloaded;
}

/// What `adaptors.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The adaptors, in the order of the configuration.
    pub adaptors: Vec<Adaptor>,
}

/// What `adaptors.reload` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reloaded {
    /// What became of each.
    pub adaptors: Vec<Became>,
}

/// An adaptor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adaptor {
    /// Its file.
    pub file: String,
    /// The zone that it is for; nothing for all others.
    pub zone: Option<String>,
    /// The room that it is for; nothing for all.
    pub room: Option<String>,
    /// What it is asked about.
    pub hooks: Vec<String>,
    /// How often it has run.
    pub runs: u64,
    /// How often it has failed.
    pub failures: u64,
    /// Questions that it could not take.
    pub refused: u64,
    /// Lines of its log that were left out.
    pub suppressed_lines: u64,
    /// What is wrong with its file on disk, while an older version runs.
    pub file_refused: Option<Refused>,
}

/// A file that was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Refused {
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Why.
    pub reason: String,
}

/// What became of an adaptor's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Became {
    /// The adaptor as it is now.
    #[serde(flatten)]
    pub adaptor: Adaptor,
    /// Whether it runs another version than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<bool>,
    /// Why its file was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
