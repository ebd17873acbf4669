//! The workloads.

pub(crate) mod connect;
pub(crate) mod fanout;
pub(crate) mod idle;
pub(crate) mod pingpong;
pub(crate) mod subscribe;

use std::process;

use crate::clock::now_ns;

/// A word that no earlier run used, so that runs against a lasting server do not meet.
pub(crate) fn run_id() -> String {
    format!("{:x}-{:x}", process::id(), now_ns() / 1_000_000)
}
