//! `figures.history` and `figures.peaks`: what the figures of the server were, from an hour to two
//! years ago.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::Latency;
use crate::{Request, Verb};

/// The most points of a curve.
pub const POINTS_MAX: usize = 500;

/// `figures.history`: the figures over time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct History {
    /// The names of the figures that are wanted, separated by commas. Without it, all of them.
    pub figure: Option<String>,
    /// From when, in seconds since 1970. Without it, an hour before the end.
    pub from_secs: Option<u64>,
    /// The end, in seconds since 1970. Without it, the end is now.
    pub to_secs: Option<u64>,
    /// At most this many points, up to 500; 60 if it is not given.
    pub points: Option<usize>,
}

impl Request for History {
    const VERB: Verb = Verb::FiguresHistory;
    type Answer = Curves;
}

/// What `figures.history` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Curves {
    /// From when, in seconds since 1970: the beginning of the first period.
    pub from_secs: u64,
    /// The end, in seconds since 1970.
    pub to_secs: u64,
    /// The length of the period that each point stands for, in seconds.
    pub step_secs: u64,
    /// When the periods begin in which something was measured, in seconds since 1970. The lists
    /// below have a value for each of them.
    pub times: Vec<u64>,
    /// The figures.
    pub figures: Vec<Curve>,
    /// The time from a publish to the write that carries it to a subscriber, in each period. The
    /// percentiles are those of all values of the period.
    pub latency: Vec<Latency>,
    /// The same of all periods together.
    pub latency_whole: Latency,
    /// Why the history is not written to its file, if it is not.
    pub trouble: Option<String>,
}

/// What a figure counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A number of something at a moment.
    #[default]
    Level,
    /// Something in each second.
    PerSecond,
}

/// What a figure counts in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Things.
    #[default]
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// A figure over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Curve {
    /// Its name: that of the metric, without the beginning and the end that all metrics have.
    pub name: String,
    /// Whether it is a level, or counted per second.
    pub kind: Kind,
    /// What it counts in.
    pub unit: Unit,
    /// The least value of each period, if it is known.
    pub min: Vec<Option<f64>>,
    /// The mean of each period.
    pub mean: Vec<Option<f64>>,
    /// The highest value of each period.
    pub max: Vec<Option<f64>>,
    /// The same of all periods together.
    pub whole: Option<Extent>,
}

/// A figure in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Extent {
    /// The least value.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The highest value.
    pub max: f64,
}

/// `figures.peaks`: the highest value of each figure, and when that was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Peaks {
    /// The names of the figures that are wanted, separated by commas. Without it, all of them.
    pub figure: Option<String>,
    /// The peaks of this many of the last days, up to 732; 7 if it is not given.
    pub days: Option<u64>,
}

impl Request for Peaks {
    const VERB: Verb = Verb::FiguresPeaks;
    type Answer = Highest;
}

/// What `figures.peaks` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Highest {
    /// The peaks of all times.
    pub all: Vec<Peak>,
    /// The peaks of each day, the newest first.
    pub days: Vec<Day>,
    /// Why the history is not written to its file, if it is not.
    pub trouble: Option<String>,
}

/// The peaks of a day.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Day {
    /// When it began, in seconds since 1970: midnight in UTC.
    pub from_secs: u64,
    /// The peaks.
    pub peaks: Vec<Peak>,
}

/// The highest value of a figure: of a second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Peak {
    /// The name of the figure.
    pub name: String,
    /// Whether it is a level, or counted per second.
    pub kind: Kind,
    /// What it counts in.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// When it was reached first, in seconds since 1970.
    pub at_secs: u64,
}
