//! `reload`: reads the configuration again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `reload`: reads the configuration again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {}

impl Request for Reload {
    const VERB: Verb = Verb::Reload;
    type Answer = Reloaded;
}

/// What a reload did, and the one before if this one did nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reloaded {
    /// What it did.
    #[serde(flatten)]
    pub done: Done,
    /// The last reload before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Last>,
}

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Done {
    /// Keys whose new value holds.
    pub changed: Vec<String>,
    /// Listeners with other certificates, and other keys of tokens.
    pub renewed: Vec<String>,
    /// Keys whose new value waits for a restart.
    pub waiting: Vec<String>,
}

/// A reload that was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Last {
    /// What caused it.
    pub cause: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Whether the configuration was taken.
    pub ok: bool,
    /// What it did, if it was.
    #[serde(flatten)]
    pub done: Option<Done>,
    /// Why not, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
