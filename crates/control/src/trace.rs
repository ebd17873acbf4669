//! `trace.…`: the packets of some clients, for a while.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `traces.start`: notes packets from now on. What is given has to be so of each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Start {
    /// Its client id.
    pub client_id: Option<String>,
    /// Its user, as at a login: `zone/name` outside the default zone.
    pub user: Option<String>,
    /// The address of the other end, or a network such as `10.0.0.0/8`.
    pub address: Option<String>,
    /// A topic filter: then only PUBLISH packets are noted.
    pub topic: Option<String>,
    /// The name of its zone.
    pub zone: Option<String>,
    /// For how many seconds: 300 if it is not given, 900 at most.
    pub for_secs: Option<u64>,
    /// Up to how many lines: 10,000 if it is not given, which is the most.
    pub lines: Option<u64>,
    /// How many bytes of each payload are noted, 1,024 at most.
    pub payload_bytes: usize,
}

impl Request for Start {
    const VERB: Verb = Verb::TracesStart;
    type Answer = Started;
}

/// What `traces.start` answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Started {
    /// The number of the trace.
    pub id: u64,
    /// For how many seconds it runs.
    pub for_secs: u64,
    /// Up to how many lines it has.
    pub lines: u64,
}

/// `traces.read`: the lines of a trace. It takes nothing away, so several may read one trace. A
/// trace that nobody reads for 30 seconds ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Read {
    /// Which trace.
    pub id: u64,
    /// Only lines behind the `cursor` of an earlier answer; from the first one that is left without
    /// it.
    pub after: u64,
    /// How long to wait for the first line, in milliseconds.
    pub wait_ms: u64,
}

impl Request for Read {
    const VERB: Verb = Verb::TracesRead;
    type Answer = Lines;
}

/// What `traces.read` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Lines {
    /// The lines, the oldest first.
    pub lines: Vec<Line>,
    /// Packets behind `after` that have no line: there were too many in a second, or they were read
    /// too late.
    pub suppressed: u64,
    /// Where the next answer goes on.
    pub cursor: u64,
    /// Whether the trace has ended.
    pub ended: bool,
}

/// `traces.stop`: ends a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stop {
    /// Which trace.
    pub id: u64,
}

impl Request for Stop {
    const VERB: Verb = Verb::TracesStop;
    type Answer = crate::Done;
}

/// `traces.ls`: the traces that run, and who began them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {}

impl Request for Ls {
    const VERB: Verb = Verb::TracesLs;
    type Answer = List;
}

/// What `traces.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The traces, the oldest first.
    pub traces: Vec<Running>,
}

/// A trace that runs. What it does not say of a packet is not asked of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Running {
    /// The number of the trace.
    pub id: u64,
    /// The person or program that began it, as the audit log has it.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub begun_at_ms: u64,
    /// In how many seconds it ends. If nobody reads it, it ends earlier.
    pub ends_in_secs: u64,
    /// Packets that it was about so far, with a line or without.
    pub packets: u64,
    /// Lines that may still come.
    pub lines_left: u64,
    /// The client id.
    pub client_id: Option<String>,
    /// The user, by the name in the zone.
    pub user: Option<String>,
    /// The address or network of the other end.
    pub address: Option<String>,
    /// The topic filter.
    pub topic: Option<String>,
    /// The name of the zone.
    pub zone: Option<String>,
    /// How many bytes of each payload are noted.
    pub payload_bytes: usize,
}

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the client.
    #[default]
    Received,
    /// To the client.
    Sent,
}

/// A packet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Line {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The client id.
    pub client_id: String,
    /// Which way it goes.
    pub way: Way,
    /// The type of the packet.
    pub packet: String,
    /// The topic of a PUBLISH, as far as it is known.
    pub topic: Option<String>,
    /// What else the packet says.
    pub text: String,
    /// Bytes of the whole packet.
    pub bytes: u64,
    /// The beginning of the payload, if it is wanted.
    pub payload: Option<String>,
}
