//! `metrics`: what `/metrics` says, for those who have no HTTP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `metrics`: all figures, as Prometheus reads them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {}

impl Request for Metrics {
    const VERB: Verb = Verb::Metrics;
    type Answer = Page;
}

/// What `metrics` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Page {
    /// The page, in the text format of Prometheus.
    pub text: String,
}
