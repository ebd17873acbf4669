//! The workloads.

pub(crate) mod connect;
pub(crate) mod fanout;
pub(crate) mod idle;
pub(crate) mod login;
pub(crate) mod pingpong;
pub(crate) mod private;
pub(crate) mod recover;
pub(crate) mod slow;
mod storm;
pub(crate) mod subscribe;

use std::process;

use crate::affinity::Placement;
use crate::args::Common;
use crate::clock::now_ns;
use crate::error::BenchError;
use crate::report::number::grouped;
use crate::stamp::STAMP_LEN;
use crate::workload::Workload;

/// A command that measures: its options say which workloads, and where and how often.
pub(crate) trait Scenario {
    /// Whom to measure and how often.
    fn common(&self) -> &Common;

    /// The workloads that the options ask for.
    ///
    /// # Errors
    /// When the options make no sense together.
    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError>;

    /// Where server and generator run unless the user says so: each workload once in each place.
    fn placements(&self) -> &'static [Placement] {
        &[Placement::Apart]
    }

    /// Shards of the server unless the user says so; the server's own default if `None`.
    fn shards(&self) -> Option<u16> {
        None
    }
}

/// Refuses payloads that have no room for a stamp.
fn check_payload(payload: usize) -> Result<(), BenchError> {
    if payload < STAMP_LEN {
        let text = format!("--payload must be at least {STAMP_LEN}: each message is stamped");
        return Err(BenchError::usage(text));
    }
    Ok(())
}

/// A word that no earlier run used, so that runs against a lasting server do not meet.
pub(crate) fn run_id() -> String {
    format!("{:x}-{:x}", process::id(), now_ns() / 1_000_000)
}

/// A count as titles show it.
pub(crate) fn count(number: impl TryInto<u32>) -> String {
    grouped(f64::from(number.try_into().unwrap_or(u32::MAX)))
}
