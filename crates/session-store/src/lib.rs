//! The journals of a server's sessions: opening, reading, writing and committing them.
//!
//! [`open`] begins a generation. It gives what earlier ones have left, which makes sessions again,
//! a [`Writer`] for each shard, and the [`JournalMaintenance`], whose thread does all that waits
//! for the disk.
//!
//! ```text
//! open      a folder, and what lies there     channels     between shards and the thread
//! writer    a shard's side                    maintenance  the thread
//! add       sessions for a stopped server
//! ```
//!
//! # Order at the start
//!
//! 1. [`open`], then [`Earlier::replay`].
//! 2. [`JournalMaintenance::start`]. Each shard appends what it has restored, and calls
//!    [`Writer::took_over`].
//! 3. When the disk has that of all shards, the earlier generations go. Until then a crash finds
//!    both, and the later one goes on where the earlier one stands.
//!
//! At the end, each shard calls [`Writer::finish`], and [`JournalMaintenance::end`] commits
//! everything.

#![forbid(unsafe_code)]

mod add;
mod channels;
mod maintenance;
mod open;
#[cfg(test)]
mod tests;
mod writer;

pub use add::Adder;
pub use maintenance::{JournalMaintenance, Monitor, StoreEvent, Sync, Watcher};
pub use open::{Earlier, Found, JournalFigures, Opened, Options, open, read};
pub use stentor_journal::{OpenError, Position, Room, Trouble, TroubleKind, Usage};
pub use writer::{Needs, Writer};
