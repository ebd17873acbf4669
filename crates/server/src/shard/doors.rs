//! When a shard lets clients in: not before all shards go on with their sessions, and know of the
//! shared subscriptions of the others.

use std::sync::Arc;

use stentor_hub::has_untold_shares;

use super::Shard;
use crate::sessions::{Gate, Heritage, Prior, Recorder};

/// Whether connections are accepted.
pub(super) enum Doors {
    /// No: this shard is not ready.
    Closed(Arc<Gate>),
    /// No: others are not ready.
    Waiting(Arc<Gate>),
    Open(Heard),
}

/// Whether all has come that other shards have said before the doors opened.
pub(super) enum Heard {
    /// Not yet.
    Part,
    /// It has when the present round of the mesh is over.
    Soon,
    All,
}

impl Doors {
    pub(super) const fn are_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Whether this shard waits for others.
    pub(super) const fn wait(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// Whether a round of the mesh is needed.
    pub(super) const fn hear(&self) -> bool {
        matches!(self, Self::Open(Heard::Part | Heard::Soon))
    }

    /// A round of the mesh begins.
    pub(super) const fn drain_begins(&mut self) {
        if let Self::Open(heard @ Heard::Part) = self {
            *heard = Heard::Soon;
        }
    }

    /// It is over. Returns whether all has come with it that was missing.
    pub(super) const fn drain_ends(&mut self) -> bool {
        let Self::Open(heard @ Heard::Soon) = self else {
            return false;
        };
        *heard = Heard::All;
        true
    }
}

/// Without a heritage, there is nothing to wait for.
pub(super) fn inherit(heritage: Option<Heritage>) -> (Option<Recorder>, Prior, Doors) {
    match heritage {
        Some(Heritage {
            writer,
            spooling,
            syncs_first,
            prior,
            gate,
        }) => {
            let recorder = Recorder::new(writer, syncs_first, Some(spooling));
            (Some(recorder), prior, Doors::Closed(gate))
        }
        None => (None, Prior::default(), Doors::Open(Heard::All)),
    }
}

impl Shard {
    /// Lets clients in as soon as all shards are ready.
    pub(super) fn open_doors(&mut self) {
        if let Doors::Closed(gate) = &self.doors
            && !has_untold_shares(&self.hub)
            && self.hub.effects().mesh.is_empty()
            && !self.mesh.has_overflow()
        {
            gate.arrive();
            self.doors = Doors::Waiting(Arc::clone(gate));
        }
        if let Doors::Waiting(gate) = &self.doors
            && gate.is_open()
        {
            self.doors = Doors::Open(Heard::Part);
        }
    }
}
