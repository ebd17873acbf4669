//! Sessions that survive a restart: what others may ask, and how shards begin together.
//!
//! ```text
//! mod       the beginning                        recorder  a shard's side of its journal
//! owners    whose they are                       spooling  a shard's side of the spool
//! offline   while no server runs
//! ```
//!
//! The files are opened and read by `lifecycle::sessions`.

mod offline;
mod owners;
mod recorder;
mod spooling;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use stentor_hub::PriorSession;
use stentor_session_log::RestoredRoom;
use stentor_session_store::Monitor;

use crate::context::ServerContext;

pub use offline::{
    DamagedPlace, Ended, Exported, HarmedSession, ImportOptions, Imported, Outcome, Refused,
    SessionsError, SessionsImport, SessionsReport, check_sessions, export_sessions,
    verify_sessions,
};
pub(crate) use owners::Owners;
pub(crate) use recorder::{MappedWriter, Recorder};
pub(crate) use spooling::{SpoolMessenger, Spooling};

/// A shard is to look at what the threads of its sessions have left for it, if the server is there
/// still.
pub(crate) fn wake(context: &Weak<ServerContext>, shard: u16) {
    if let Some(context) = context.upgrade()
        && let Some(way) = context.shards.get(usize::from(shard))
    {
        way.control_queue.wake();
    }
}

/// What was found at the start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Sessions that went on.
    pub(crate) restored: AtomicU64,
    /// Places of files that could not be read.
    pub(crate) damaged: u64,
}

/// The journals of sessions, as others see them.
pub(crate) struct Journals {
    /// Where they are.
    pub(crate) folder: PathBuf,
    pub(crate) found: Found,
    pub(crate) monitor: Monitor,
    /// The backlogs on the disk.
    pub(crate) spool: OnceLock<stentor_spool::Monitor>,
    /// Reads parts of them for operators.
    pub(crate) looker: OnceLock<stentor_spool::Looker>,
    /// Parts of these that could not be read.
    pub(crate) unreadable: AtomicU64,
}

impl Journals {
    /// What is wrong now, in sentences.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let mut troubles = self.monitor.troubles();
        let spool = self.spool.get().and_then(stentor_spool::Monitor::trouble);
        troubles.extend(spool.map(|why| format!("backlogs do not go to the disk: {why}")));
        let behind = self.monitor.behind();
        if behind > 0 {
            troubles.push(format!(
                "changes of sessions are not written down in {behind} of the journals: a restart \
                 would lose them"
            ));
        }
        troubles
    }
}

/// What was there before the start, of which a shard is the home.
#[derive(Default)]
pub(crate) struct Prior {
    pub(crate) sessions: Vec<PriorSession>,
    /// Rooms that stay when they are empty.
    pub(crate) rooms: Vec<RestoredRoom>,
}

/// What a shard begins with.
pub(crate) struct Heritage {
    /// Its journal.
    pub(crate) writer: MappedWriter,
    /// Its side of the spool.
    pub(crate) spooling: Spooling,
    /// Whether answers wait until the disk has what they belong to.
    pub(crate) syncs_first: bool,
    /// What it goes on with.
    pub(crate) prior: Prior,
    pub(crate) gate: Arc<Gate>,
}

/// Opens when all shards go on with their sessions. Before that, no shard accepts connections: a
/// message would not find the subscriptions of the others.
#[derive(Debug)]
pub(crate) struct Gate(AtomicUsize);

impl Gate {
    /// For this many shards.
    pub(crate) const fn new(shards: usize) -> Self {
        Self(AtomicUsize::new(shards))
    }

    /// A shard is ready.
    pub(crate) fn arrive(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether all are.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_opens_when_the_last_one_is_there() {
        let gate = Gate::new(2);
        gate.arrive();
        assert!(!gate.is_open());
        gate.arrive();
        assert!(gate.is_open());
    }
}
