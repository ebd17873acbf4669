//! `config.…`: what the server runs with, and what a reload would change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `config.effective`: all keys with their values, and where each comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Effective {
    /// Only keys that contain this text.
    pub containing: String,
}

impl Request for Effective {
    const VERB: Verb = Verb::ConfigEffective;
    type Answer = Values;
}

/// What `config.effective` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Values {
    /// The configuration file, if there is one.
    pub file: Option<String>,
    /// The keys in the order of the documentation. Of entries of a list such as `listener`, those
    /// that are given.
    pub values: Vec<Value>,
}

/// A key with its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Value {
    /// The key: `limits.packet_bytes`, or `listener[mqtt://127.0.0.1:1883].anonymous`.
    pub key: String,
    /// The value as it was given; nothing if it is not set, and for a secret.
    pub value: Option<String>,
    /// Whether it is a secret that was given, and so is not shown.
    pub secret: bool,
    /// Where it comes from.
    pub source: Source,
    /// The file with its line, the variable, or the flag.
    pub place: Option<String>,
    /// Whether the value waits for a restart: the server runs with another one.
    pub waiting: bool,
}

/// Where a value comes from. One further down takes precedence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Nothing was said.
    #[default]
    Default,
    /// The configuration file.
    File,
    /// A variable of the environment.
    Environment,
    /// A flag of the command line.
    Flag,
}

/// `config.diff`: what a reload would change now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {}

impl Request for Diff {
    const VERB: Verb = Verb::ConfigDiff;
    type Answer = Changes;
}

/// What `config.diff` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Changes {
    /// The keys whose value is another one.
    pub changes: Vec<Change>,
}

/// A key whose value is another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Change {
    /// The key, or the entry of a list that comes or goes.
    pub key: String,
    /// The value that the server runs with; nothing if it is not set, not given, or a secret.
    pub from: Option<String>,
    /// The value that the file, the environment and the flags have now.
    pub to: Option<String>,
    /// When the new value takes effect: `live`, `new connections` or `restart`.
    pub takes_effect: String,
}
