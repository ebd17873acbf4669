//! What one connection may use of a turn.

use super::{
    FILTER_VISITS, OWN_VISITS, OWN_VISITS_LATE, PACKET_VISITS_FREE, PUBLISH_VISITS_FREE, Turn,
};

/// What a connection has done in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(super) visits: u32,
    visits_max: u32,
    packets: u32,
    packets_max: u32,
    /// What the turn had counted as packets when the last packet was counted.
    extra_before: u32,
    /// Subscribers that the turn had handed messages to when it began.
    pub(super) handed_before: u32,
    /// Visits that it owes for.
    pub(super) owed: u32,
}

impl Share {
    /// A connection's share of a turn, of which others have used theirs.
    pub(crate) const fn of(turn: &mut Turn) -> Self {
        turn.reached_before = turn.reached;
        let visits_max = if turn.left() == 0 {
            OWN_VISITS_LATE
        } else {
            OWN_VISITS
        };
        Self {
            visits: 0,
            visits_max,
            packets: 0,
            packets_max: turn.terms.packets_at_once,
            extra_before: turn.extra,
            handed_before: turn.handed,
            owed: 0,
        }
    }

    /// Whether nothing more is taken from the connection in this turn.
    #[inline]
    pub(crate) const fn is_used_up(&self) -> bool {
        self.packets >= self.packets_max || self.visits >= self.visits_max
    }

    const fn is_late(&self) -> bool {
        self.visits_max == OWN_VISITS_LATE
    }

    /// How many packets are taken at most: PUBLISH, or of those that count by their visits.
    pub(crate) fn packets_left(&self, is_publish: bool) -> usize {
        let left = if is_publish {
            self.packets_max.saturating_sub(self.packets)
        } else {
            self.visits_max.saturating_sub(self.visits)
        };
        left as usize
    }

    /// Counts a packet that cost this many visits, and what a service did for it.
    ///
    /// A packet with filters counts by its visits alone. So a client that comes back with a
    /// thousand of them is answered by one write, also while many wait and each may send few
    /// packets.
    #[inline]
    pub(crate) const fn count(&mut self, turn: &Turn, is_publish: bool, visits: u32) {
        let extra = turn.extra - self.extra_before;
        self.extra_before = turn.extra;
        let own = (is_publish || visits < FILTER_VISITS) as u32;
        self.packets = self.packets.saturating_add(own + extra);
        if is_publish {
            let beyond = visits.saturating_sub(PUBLISH_VISITS_FREE);
            // In a turn that is spent nothing is free.
            let counted = if self.is_late() { visits } else { beyond };
            self.visits = self.visits.saturating_add(counted);
            self.owed = self.owed.saturating_add(beyond);
        } else {
            let beyond = visits.saturating_sub(PACKET_VISITS_FREE);
            self.visits = self.visits.saturating_add(visits / FILTER_VISITS);
            self.owed = self.owed.saturating_add(beyond);
        }
    }

    /// What it weighs beside those of others.
    pub(super) const fn weight(&self) -> u32 {
        self.visits.saturating_add(self.packets)
    }
}
