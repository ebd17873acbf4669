//! `log.…`: how much the log takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// The least important lines that the log takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// What looks wrong.
    Warn,
    /// Events of connections.
    #[default]
    Info,
    /// Details.
    Debug,
    /// Everything.
    Trace,
}

/// `log.level`: takes another level for a while, without a change of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Level {
    /// The level; that of the configuration again, at once, if it is not given.
    pub level: Option<LogLevel>,
    /// Only for lines of this part of the program, such as `stentor_auth`.
    pub target: Option<String>,
    /// For how many seconds: 600 if it is not given, 3,600 at most.
    pub for_secs: Option<u64>,
}

impl Request for Level {
    const VERB: Verb = Verb::LogLevel;
    type Answer = Now;
}

/// `log.show`: the level that holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Show {}

impl Request for Show {
    const VERB: Verb = Verb::LogShow;
    type Answer = Now;
}

/// What the log takes now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Now {
    /// The level of the configuration.
    pub configured: String,
    /// The level that holds, for all lines but those of `target`.
    pub level: String,
    /// A part of the program with a level of its own.
    pub target: Option<String>,
    /// That level.
    pub target_level: Option<String>,
    /// In how many seconds the level of the configuration holds again.
    pub left_secs: Option<u64>,
}

/// `log.tail`: the last lines of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tail {
    /// At most this many; all that are kept if it is not given. Up to 256 KiB are.
    pub lines: Option<usize>,
}

impl Request for Tail {
    const VERB: Verb = Verb::LogTail;
    type Answer = Lines;
}

/// What `log.tail` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Lines {
    /// The lines, the oldest first.
    pub lines: Vec<String>,
}
