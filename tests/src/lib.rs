//! The harness of the black-box tests: the built `stentor` binary, other people's clients, and a
//! raw client that can misbehave.
//!
//! Nothing here sleeps, and nothing uses a fixed port: a server picks its own ports and says which,
//! and every wait ends with what it waits for or fails at its [`DEADLINE`] with the server's log.

pub mod certificates;
pub mod database;
pub mod disk;
pub mod log;
pub mod postfix;
pub mod process;
pub mod raw;
pub mod server;
pub mod tools;

use std::time::Duration;

pub use certificates::Certificates;
pub use process::Finished;
pub use raw::{Packet, Raw, Version};
pub use server::{Plan, Server};

/// How long anything may take before its test fails: far more than any of it needs on an idle
/// machine, so that a busy one does not fail tests.
pub const DEADLINE: Duration = Duration::from_secs(60);
