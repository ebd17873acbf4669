//! The packets that wait to be written to one connection.

mod batch;
mod queue;
mod run;
mod wire;

pub use batch::Batch;
pub use queue::{Flush, Output};
pub use run::Run;
pub use wire::{Outgoing, Wire};
