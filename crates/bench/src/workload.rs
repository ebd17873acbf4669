//! What every workload provides to the runner and the reports.

use serde_json::{Map, Value};

use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::measure::Leg;
use crate::progress::Progress;
use crate::target::{Needs, Running};

/// Figures that somebody published about this workload.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The publisher and the date, as shown in the table.
    pub(crate) source: &'static str,
    /// By metric key.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// What else was said.
    pub(crate) notes: Vec<&'static str>,
}

/// A limit that a figure is to keep, for a reader: it does not decide the verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The figure.
    pub(crate) key: &'static str,
    pub(crate) limit: Limit,
    /// The figure that is 1 where the same was measured twice: by how much it is not tells how
    /// little the first one means. Without one, the spread of the pairs tells that.
    pub(crate) control: Option<&'static str>,
}

/// Where a bar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// Everything about a workload but how it is done.
#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    /// The command's name.
    pub(crate) name: &'static str,
    /// One line for people: what is done how often.
    pub(crate) title: String,
    /// Everything that defines the load.
    pub(crate) parameters: Map<String, Value>,
    /// The floors to compare with, the principal one first.
    pub(crate) floors: Vec<FloorKind>,
    /// What the server must be configured for.
    pub(crate) needs: Needs,
    /// How often to measure unless the user says so: the shorter and the noisier, the more.
    pub(crate) pairs: u32,
    /// What happens, step by step, for `--explain`.
    pub(crate) plan: Vec<String>,
    /// What was published about it.
    pub(crate) published: Option<Published>,
    /// What some of its figures are to keep.
    pub(crate) bars: Vec<Bar>,
}

/// One workload with its parameters.
pub(crate) trait Workload {
    /// What it is.
    fn sheet(&self) -> Sheet;

    /// Measures one running server once. `subject` tells servers apart, for what is to be found
    /// out only once about each.
    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError>;
}

/// The members of a JSON object.
pub(crate) fn members(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
