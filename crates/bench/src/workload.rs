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
    /// Who and when, as shown in the table.
    pub(crate) source: &'static str,
    /// By metric key.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// What else was said.
    pub(crate) notes: Vec<&'static str>,
}

/// One workload with its parameters.
pub(crate) trait Workload {
    /// The command's name.
    fn name(&self) -> &'static str;

    /// One line for people: what is done how often.
    fn title(&self) -> String;

    /// Everything that defines the load.
    fn parameters(&self) -> Map<String, Value>;

    /// The floors to compare with, the principal one first.
    fn floors(&self) -> Vec<FloorKind>;

    /// What the server must be configured for.
    fn needs(&self) -> Needs;

    /// How often to measure unless the user says so: the shorter and the noisier, the more.
    fn pairs(&self) -> u32;

    /// What happens, step by step, for `--explain`.
    fn plan(&self) -> Vec<String>;

    /// What was published about it.
    fn published(&self) -> Option<Published> {
        None
    }

    /// Measures one running server once. `subject` tells servers apart, for what is to be found
    /// out only once about each.
    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError>;
}
