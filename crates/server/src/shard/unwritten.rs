//! Clients, and outcomes for other shards, that wait until the journal, or the disk, has what they
//! belong to.

use std::collections::HashSet;

use stentor_hub::{SessionKey, ShardId, ShardItem};

/// An outcome, and the shard that hears of it.
pub(super) type Outcome = (ShardId, ShardItem);

/// What may leave of the output of a client when a commit has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    All,
    /// What waited when the commit began: the rest waits for the next one.
    Covered,
}

/// In two groups, since one commit covers what was there when it began.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// They wait for the commit under way.
    committing: HashSet<SessionKey>,
    /// They wait for room in the journal, or for the next commit.
    open: HashSet<SessionKey>,
    /// What other shards hear when the commit under way has ended, and when the next one has.
    committing_outcomes: Vec<Outcome>,
    open_outcomes: Vec<Outcome>,
    /// Links of theirs that are not read in the meantime, and those of them that had paused or
    /// given way.
    held: Vec<u32>,
    paused: Vec<u32>,
}

impl Unwritten {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.committing.is_empty()
    }

    /// Whether no client and no outcome waits. O(1).
    pub(super) fn is_idle(&self) -> bool {
        self.is_empty() && self.open_outcomes.is_empty() && self.committing_outcomes.is_empty()
    }

    /// Whether a client waits. O(1).
    pub(super) fn contains(&self, key: SessionKey) -> bool {
        !self.is_empty() && (self.open.contains(&key) || self.committing.contains(&key))
    }

    /// Bytes of memory that it takes. O(1).
    pub(super) fn bytes(&self) -> usize {
        let clients = self.open.capacity() + self.committing.capacity();
        let outcomes = self.open_outcomes.capacity() + self.committing_outcomes.capacity();
        clients * size_of::<SessionKey>()
            + outcomes * size_of::<Outcome>()
            + (self.held.capacity() + self.paused.capacity()) * size_of::<u32>()
    }

    /// A link is to be read when answers may leave.
    pub(super) fn hold(&mut self, link: u32) {
        self.held.push(link);
    }

    /// A link is to go on when answers may leave.
    pub(super) fn hold_paused(&mut self, link: u32) {
        self.paused.push(link);
    }

    /// Takes out the links that are to go on. Those whose answers still wait are held again.
    pub(super) fn paused(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.paused)
    }

    /// Takes out the links that were held. Those whose answers still wait are held again.
    pub(super) fn held(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.held)
    }

    /// Another shard is to hear of something when the next commit has ended.
    pub(super) fn hold_outcome(&mut self, outcome: Outcome) {
        self.open_outcomes.push(outcome);
    }

    /// Takes out what other shards may hear now: what the last commit covered, or `all` of it.
    pub(super) fn outcomes(&mut self, all: bool) -> Vec<Outcome> {
        let mut outcomes = std::mem::take(&mut self.committing_outcomes);
        if all {
            outcomes.append(&mut self.open_outcomes);
        }
        outcomes
    }

    /// A commit begins for all that wait, and covers what waits for them now.
    pub(super) fn commit_begins(&mut self) -> impl Iterator<Item = SessionKey> {
        self.committing_outcomes.append(&mut self.open_outcomes);
        self.committing.extend(self.open.drain());
        self.committing.iter().copied()
    }

    /// It has ended. Takes out those that it was for, with what may leave.
    pub(super) fn commit_ends(&mut self) -> impl Iterator<Item = (SessionKey, Leaves)> {
        let Self {
            committing, open, ..
        } = self;
        let leaves = |key: &SessionKey| match open.contains(key) {
            true => Leaves::Covered,
            false => Leaves::All,
        };
        committing.drain().map(move |key| (key, leaves(&key)))
    }

    /// Nothing waits any more. Takes all of them out.
    pub(super) fn all(&mut self) -> impl Iterator<Item = SessionKey> {
        self.committing.drain().chain(self.open.drain())
    }
}

impl Extend<SessionKey> for Unwritten {
    fn extend<I: IntoIterator<Item = SessionKey>>(&mut self, keys: I) {
        self.open.extend(keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(slot: u32) -> SessionKey {
        SessionKey {
            slot,
            generation: 1,
        }
    }

    #[test]
    fn a_commit_covers_those_that_waited_when_it_began() {
        let mut unwritten = Unwritten::default();
        unwritten.extend([key(1), key(2)]);
        assert_eq!(unwritten.commit_begins().count(), 2);
        unwritten.extend([key(2), key(3)]);
        assert!([1, 2, 3].iter().all(|slot| unwritten.contains(key(*slot))));
        let mut covered: Vec<_> = unwritten.commit_ends().collect();
        covered.sort_unstable_by_key(|(key, _)| key.slot);
        assert_eq!(covered, [(key(1), Leaves::All), (key(2), Leaves::Covered)]);
        assert!(!unwritten.contains(key(1)) && unwritten.contains(key(2)));
        assert_eq!(unwritten.commit_begins().count(), 2);
        let mut rest: Vec<_> = unwritten.commit_ends().collect();
        rest.sort_unstable_by_key(|(key, _)| key.slot);
        assert_eq!(rest, [(key(2), Leaves::All), (key(3), Leaves::All)]);
        assert!(unwritten.is_empty());
    }

    #[test]
    fn what_waits_takes_memory() {
        let mut unwritten = Unwritten::default();
        assert_eq!(unwritten.bytes(), 0);
        unwritten.extend((0..100).map(key));
        let clients = unwritten.bytes();
        assert!(clients >= 100 * size_of::<SessionKey>());
        for _ in 0..100 {
            unwritten.hold_outcome((ShardId(1), ShardItem::MakeRoom));
        }
        assert!(unwritten.bytes() - clients >= 100 * size_of::<Outcome>());
    }

    #[test]
    fn all_may_leave_when_nothing_waits() {
        let mut unwritten = Unwritten::default();
        unwritten.extend([key(1)]);
        assert_eq!(unwritten.commit_begins().count(), 1);
        unwritten.extend([key(2)]);
        assert_eq!(unwritten.all().count(), 2);
        assert!(unwritten.is_empty());
    }
}
