//! A server inside a test: shards and listeners, without signals and supervisor.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::doors::Doors;
use super::start::{self, Shards, Started};
use crate::backplane::Backplane;
use crate::config::Config;
use crate::fdtable::Table;
use crate::listener::Port;
use crate::shard::Letter;

/// How long shards may take to end.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server whose shards serve.
pub(crate) struct Running {
    backplane: Arc<Backplane>,
    doors: Doors,
    shards: Shards,
}

impl Running {
    /// Starts one.
    pub(crate) fn start(config: &Config) -> Self {
        let Started {
            backplane,
            doors,
            shards,
            ..
        } = start::start(config).unwrap();
        Self {
            backplane,
            doors,
            shards,
        }
    }

    pub(crate) fn backplane(&self) -> &Arc<Backplane> {
        &self.backplane
    }

    pub(crate) fn table(&self) -> Table {
        self.shards.table
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.doors.ports()
    }

    /// Stops it as the supervisor would.
    pub(crate) fn stop(self) {
        let deadline = self.backplane.clock.now().after(DEADLINE);
        for shard in 0..self.backplane.shards.len() {
            self.backplane.post(shard, Letter::Stop(deadline));
        }
        assert!(
            self.shards.join(Instant::now() + DEADLINE),
            "the shards end"
        );
        self.doors.remove_files();
    }
}
