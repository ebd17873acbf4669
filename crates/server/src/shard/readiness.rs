//! When a shard lets clients in: not before all shards go on with their sessions, and know of the
//! shared subscriptions of the others.

use std::sync::Arc;

use stentor_hub::has_untold_shares;

use super::Shard;
use crate::sessions::{Gate, Heritage, Prior, Recorder};

/// Whether connections are accepted.
pub(super) enum Readiness {
    /// No: this shard is not ready.
    Closed(Arc<Gate>),
    /// No: others are not ready.
    Waiting(Arc<Gate>),
    Open(Heard),
}

/// Whether all has come that other shards have said before clients were let in.
pub(super) enum Heard {
    /// Not yet.
    Part,
    /// It has when the present round of the mesh is over.
    Soon,
    All,
}

impl Readiness {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    /// Whether this shard waits for others.
    pub(super) const fn waits_for_others(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// Whether a round of the mesh is needed.
    pub(super) const fn needs_round(&self) -> bool {
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
pub(super) fn inherit(heritage: Option<Heritage>) -> (Option<Recorder>, Prior, Readiness) {
    match heritage {
        Some(Heritage {
            writer,
            spooling,
            syncs_first,
            prior,
            gate,
        }) => {
            let recorder = Recorder::new(writer, syncs_first, Some(spooling));
            (Some(recorder), prior, Readiness::Closed(gate))
        }
        None => (None, Prior::default(), Readiness::Open(Heard::All)),
    }
}

impl Shard {
    /// Lets clients in as soon as all shards are ready.
    pub(super) fn open_when_ready(&mut self) {
        if let Readiness::Closed(gate) = &self.readiness
            && !has_untold_shares(&self.hub)
            && self.hub.effects().mesh.is_empty()
            && !self.mesh.has_overflow()
        {
            gate.arrive();
            self.readiness = Readiness::Waiting(Arc::clone(gate));
        }
        if let Readiness::Waiting(gate) = &self.readiness
            && gate.is_open()
        {
            self.readiness = Readiness::Open(Heard::Part);
        }
    }
}
