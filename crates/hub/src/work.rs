//! How much one turn of a shard may do.
//!
//! All work that a client can make dear is counted in **visits**. One visit takes about 30 ns: a
//! node of the topic index, a filter of a SUBSCRIBE, a name of the retained store, or
//! [`VISIT_BYTES`] bytes that are copied or compared. What costs more than a turn may do goes on in
//! later turns, and between two turns every connection is served.

/// Visits of one turn. About 0.15 ms: no longer than what a turn does anyway.
pub(crate) const TURN_VISITS: u32 = 4_096;

/// So many bytes that are copied or compared count as one visit.
pub(crate) const VISIT_BYTES: usize = 64;

/// What the present turn of a shard has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    spent: u32,
}

impl Turn {
    /// A new turn begins.
    pub(crate) const fn begin(&mut self) {
        self.spent = 0;
    }

    /// Counts work.
    #[inline]
    pub(crate) const fn spend(&mut self, visits: u32) {
        self.spent = self.spent.saturating_add(visits);
    }

    /// What the turn has done, in visits.
    pub(crate) const fn spent(&self) -> u32 {
        self.spent
    }

    /// What it may still do.
    #[inline]
    pub(crate) const fn left(&self) -> u32 {
        TURN_VISITS.saturating_sub(self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_spent_and_begins_again() {
        let mut turn = Turn::default();
        turn.spend(TURN_VISITS - 1);
        assert_eq!(turn.left(), 1);
        turn.spend(u32::MAX);
        assert_eq!((turn.left(), turn.spent()), (0, u32::MAX));
        turn.begin();
        assert_eq!(turn.left(), TURN_VISITS);
    }
}
