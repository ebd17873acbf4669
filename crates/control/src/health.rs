//! `health`: whether the server works, and whether new clients can connect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `health`: whether the server works, and whether new clients can connect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {}

impl Request for Health {
    const VERB: Verb = Verb::Health;
    type Answer = Told;
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// Whether the process works.
    pub healthy: bool,
    /// Whether new clients can connect.
    pub ready: bool,
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reason {
    /// A word for programs.
    pub name: String,
    /// A sentence.
    pub detail: String,
}
