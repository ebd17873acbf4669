//! Sessions that survive a restart.

use stentor_session::Tick;

use super::Hub;
use crate::core::routing::share;
use crate::core::sessions::log::{PriorSession, write_bases};

impl PriorSession {
    /// Has a hub go on with the session: the one of the home of its client id, by
    /// [`crate::home_shard`].
    ///
    /// The hub raises interest, and tells other shards of shared subscriptions. The shard appends
    /// and forwards its effects before anybody is let in.
    ///
    /// Its records are then those of its origin and those that follow here. The journals of earlier
    /// starts can go when [`rewrite_sessions`] has been round.
    pub fn restore(self, hub: &mut Hub, now: Tick) {
        self.go_on_in(&mut hub.core, now);
    }
}

/// Has a hub write down whole what some sessions are, from a number on: 0 at first, then what was
/// returned. `None` says that all are done: that was one round. It stops when it has looked at
/// `at_most` places for sessions and subscriptions, or has written much, and writes no part of a
/// session.
///
/// After a round on all shards, the journals of earlier starts are needed no longer. Where there
/// are none of these, a round on one shard makes its records from before that round superfluous.
pub fn rewrite_sessions(hub: &mut Hub, from: u32, at_most: usize) -> Option<u32> {
    write_bases(&mut hub.core, from, at_most)
}

/// Whether other shards have not heard of all changes of shared subscriptions.
#[must_use]
pub fn has_untold_shares(hub: &Hub) -> bool {
    share::has_untold_shares(&hub.core)
}
