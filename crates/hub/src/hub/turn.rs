//! The present turn of the shard: what it has done, and what it may still do.

use stentor_session::Tick;

use super::Hub;
use crate::core::ids::SessionKey;
use crate::core::routing::share::tell;
use crate::core::work::{Beside, HandedOver, TurnFigures};
use crate::core::{Core, work};

impl Hub {
    /// What the present turn has done, and what waits for the next ones.
    #[inline]
    #[must_use]
    pub const fn turn(&self) -> TurnView<'_> {
        TurnView { core: &self.core }
    }

    /// Has the present turn do more or less.
    #[inline]
    pub const fn turn_mut(&mut self) -> TurnControl<'_> {
        TurnControl {
            core: &mut self.core,
        }
    }
}

/// What the present turn of a shard has done: see [`Hub::turn`].
#[derive(Clone, Copy)]
pub struct TurnView<'a> {
    core: &'a Core,
}

/// The present turn of a shard: see [`Hub::turn_mut`].
pub struct TurnControl<'a> {
    core: &'a mut Core,
}

impl<'a> TurnView<'a> {
    /// What the present turn has done so far, in visits of about 30 ns.
    #[inline]
    #[must_use]
    pub const fn visits(&self) -> u32 {
        self.core.turn().spent()
    }

    /// What the present turn has done so far.
    #[inline]
    #[must_use]
    pub fn figures(&self) -> TurnFigures<'a> {
        work::turn_figures(self.core)
    }

    /// What the present turn has handed over so far.
    #[inline]
    #[must_use]
    pub const fn handed_over(&self) -> HandedOver {
        self.core.turn().handed_over()
    }

    /// Whether more messages are there that go to a crowd, and wait only for the next turn: so
    /// that the crowd is better written to when it has them too.
    #[inline]
    #[must_use]
    pub const fn crowd_goes_on(&self) -> bool {
        work::crowd_goes_on(self.core)
    }

    /// Whether messages that were expensive to route go on in later turns.
    #[inline]
    #[must_use]
    pub fn has_jobs(&self) -> bool {
        work::has_jobs(self.core)
    }

    /// Whether what came by the last connection went to a crowd: see [`crate::Effects::crowd`].
    #[inline]
    #[must_use]
    pub const fn has_served_crowd(&self) -> bool {
        self.core.turn().serves_crowd()
    }

    /// Whether the present turn has done what it may.
    #[inline]
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        work::turn_is_spent(self.core)
    }

    /// A figure that grows with all that the present turn does.
    #[inline]
    #[must_use]
    pub const fn work(&self) -> u64 {
        work::turn_work(self.core)
    }

    /// Whether a connection waits for the next turn: this one is spent, and it owes for work. O(1).
    #[inline]
    #[must_use]
    pub fn waits(&self, now: Tick, key: SessionKey) -> bool {
        work::waits(self.core, now, key)
    }

    /// Whether something waits for room, and for nothing else.
    #[inline]
    #[must_use]
    pub fn waits_for_share_room(&self) -> bool {
        tell::waits_for_room(self.core)
    }

    /// Bytes of memory of shared subscriptions that have ended, and of which others have not heard
    /// that yet.
    #[inline]
    #[must_use]
    pub const fn untold_bytes(&self) -> u64 {
        tell::untold_bytes(self.core)
    }
}

impl TurnControl<'_> {
    /// How many packets of one connection are taken in a turn, at most: [`crate::OWN_PACKETS`], or
    /// fewer while many connections wait for their turn. Holds until the next call.
    #[inline]
    pub const fn set_packets_at_once(&mut self, packets: u32) {
        self.core.turn_mut().set_packets_at_once(packets);
    }

    /// Counts what the shard does in the present turn beside the hub.
    #[inline]
    pub fn count_beside(&mut self, what: Beside) {
        self.core.turn_mut().count(what);
    }

    /// The turns of the other shards have room for changes of shared subscriptions that cost this
    /// many of their visits. Holds until the next call; without one there is no bound. Part of what
    /// waits goes out now, so [`Hub::effects`] has control items.
    #[inline]
    pub fn set_share_room(&mut self, visits: u32) {
        tell::set_room(self.core, visits);
    }
}
