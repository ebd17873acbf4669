//! The workloads.

pub(crate) mod connect;
pub(crate) mod fanout;
pub(crate) mod idle;
pub(crate) mod pingpong;
pub(crate) mod subscribe;

use std::process;

use crate::clock::now_ns;
use crate::report::number::grouped;

/// A word that no earlier run used, so that runs against a lasting server do not meet.
pub(crate) fn run_id() -> String {
    format!("{:x}-{:x}", process::id(), now_ns() / 1_000_000)
}

/// A count as titles show it.
pub(crate) fn count(number: impl TryInto<u32>) -> String {
    grouped(f64::from(number.try_into().unwrap_or(u32::MAX)))
}
