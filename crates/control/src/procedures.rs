//! `procedure.…`: what is asked about mail and other messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `procedures.ls`: the procedures with their figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {}

impl Request for Ls {
    const VERB: Verb = Verb::ProceduresLs;
    type Answer = List;
}

/// `procedures.reload`: looks at their files now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {}

impl Request for Reload {
    const VERB: Verb = Verb::ProceduresReload;
    type Answer = Reloaded;
}

/// What `procedures.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// Each procedure, by name.
    pub procedures: Vec<Procedure>,
}

/// How often each of some words was said.
pub type Counts = Vec<(String, u64)>;

/// A procedure with its figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Procedure {
    /// Its name.
    pub procedure: String,
    /// The version that is loaded; empty if there is none.
    pub version: String,
    /// How it is run; `none` if it is not.
    pub kind: String,
    /// Whether its verdicts are only logged.
    pub observe: bool,
    /// Calls that wait for a thread now.
    pub waiting: u64,
    /// Calls that were answered, in whatever way.
    pub calls: u64,
    /// Calls that came to no verdict, by status.
    pub errors: Counts,
    /// Verdicts by name.
    pub verdicts: Counts,
    /// Those of them that were only logged.
    pub observed: Counts,
    /// Half of the calls took at most this long, in microseconds.
    pub p50_us: u64,
    /// 99 of 100 calls.
    pub p99_us: u64,
    /// The longest call.
    pub max_us: u64,
    /// Processor time of its threads and programs, in microseconds.
    pub cpu_us: u64,
    /// Why the newest version of its file is not loaded; empty if it is.
    pub problem: String,
}

/// What `procedures.reload` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reloaded {
    /// The folder of the files.
    pub folder: String,
    /// What became of each.
    pub procedures: Vec<Became>,
    /// Procedures whose file is gone.
    pub removed: Vec<String>,
}

/// What became of a procedure's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Became {
    /// The name of the procedure.
    pub procedure: String,
    /// How it is run; `none` if it is not.
    pub kind: String,
    /// The version that is in use.
    pub version: String,
    /// Whether its verdicts are only logged.
    pub observe: bool,
    /// Whether that version was loaded now.
    pub new: bool,
    /// Why the newest version of its file is not loaded; empty if it is.
    pub problem: String,
}
