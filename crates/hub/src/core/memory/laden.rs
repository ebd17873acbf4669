//! The connected sessions for which much waits or is in flight, by owner. Where memory is short,
//! they give way before others lose a session for what they hold.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use hashbrown::HashMap;
use stentor_session::Tick;

use crate::core::ids::SessionKey;

/// More than this is much, in bytes.
pub(super) const LADEN_BYTES: usize = 64 * 1024;

/// A client for which so much has waited all that time does not read fast enough.
const SLOW_TIME: Duration = Duration::from_secs(2);

/// What one of them holds.
#[derive(Clone, Copy, Debug)]
struct Load {
    key: SessionKey,
    owner: u32,
    bytes: u64,
    /// When it was seen first while memory was short.
    since: Option<Tick>,
}

/// The connected sessions of one shard for which more than [`LADEN_BYTES`] wait.
#[derive(Debug, Default)]
pub(crate) struct Laden {
    loads: HashMap<u32, Load, foldhash::fast::FixedState>,
}

impl Laden {
    /// This many bytes wait for the session of an owner, or are in flight.
    #[cold]
    pub(crate) fn note(&mut self, key: SessionKey, owner: u32, bytes: u64) {
        let known = self.loads.get(&key.slot);
        let since = known.filter(|it| it.key == key).and_then(|it| it.since);
        let load = Load {
            key,
            owner,
            bytes,
            since,
        };
        self.loads.insert(key.slot, load);
    }

    /// No longer so much waits for the session in a slot, or its client has gone.
    #[cold]
    pub(crate) fn forget(&mut self, slot: u32) {
        self.loads.remove(&slot);
        if self.loads.is_empty() {
            *self = Self::default();
        }
    }

    /// Memory is short now: it counts how long that holds for each of them.
    pub(super) fn look(&mut self, now: Tick) {
        for load in self.loads.values_mut() {
            load.since.get_or_insert(now);
        }
    }

    /// Memory is no longer short.
    pub(super) fn rest(&mut self) {
        self.loads.values_mut().for_each(|load| load.since = None);
    }

    /// Those whose clients have been too slow.
    pub(super) fn slow(&self, now: Tick) -> Slow {
        let is_slow = |since: Tick| since.after(SLOW_TIME) <= now;
        let mut slow = Slow::default();
        for load in self.loads.values() {
            if load.since.is_some_and(is_slow) {
                let (sum, theirs) = slow.owners.entry(load.owner).or_default();
                *sum += load.bytes;
                theirs.push((load.bytes, load.key));
            }
        }
        slow
    }
}

/// Sessions whose clients have been too slow: by owner, what they hold, and each of them.
#[derive(Debug, Default)]
pub(super) struct Slow {
    owners: BTreeMap<u32, (u64, Vec<(u64, SessionKey)>)>,
}

impl Slow {
    /// What the owner holds who holds most.
    pub(super) fn most(&self) -> u64 {
        self.sums().max().unwrap_or(0)
    }

    /// What owners hold who hold at least so much.
    pub(super) fn bytes(&self, least: u64) -> u64 {
        self.sums().filter(|sum| *sum >= least).sum()
    }

    fn sums(&self) -> impl Iterator<Item = u64> {
        self.owners.values().map(|(sum, _)| *sum)
    }

    /// Those that give this many bytes: each time the largest of the owner who holds most, as long
    /// as that one holds at least so much.
    pub(super) fn first(self, mut bytes: u64, least: u64) -> Vec<SessionKey> {
        let mut by_sum = BTreeMap::new();
        for (owner, (sum, mut theirs)) in self.owners {
            theirs.sort_unstable();
            by_sum.insert((sum, Reverse(owner)), theirs);
        }
        let mut first = Vec::new();
        while bytes > 0
            && let Some(((sum, owner), mut theirs)) = by_sum.pop_last()
            && sum >= least
        {
            if let Some((largest, key)) = theirs.pop() {
                bytes = bytes.saturating_sub(largest);
                first.push(key);
                by_sum.insert((sum - largest, owner), theirs);
            }
        }
        first
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

    fn slots(keys: &[SessionKey]) -> Vec<u32> {
        keys.iter().map(|key| key.slot).collect()
    }

    #[test]
    fn of_the_owner_who_holds_most_the_largest_goes_first() {
        let mut laden = Laden::default();
        for (slot, owner, bytes) in [(1, 7, 500), (2, 7, 600), (3, 8, 800), (4, 7, 100)] {
            laden.note(key(slot), owner, bytes);
        }
        let (start, later) = (Tick::from_secs(5), Tick::from_secs(7));
        laden.look(start);
        laden.note(key(5), 9, 9_000);
        assert_eq!(
            (laden.slow(start).most(), laden.slow(start).bytes(0)),
            (0, 0)
        );
        assert!(laden.slow(start).first(1, 0).is_empty());
        assert_eq!(
            (laden.slow(later).most(), laden.slow(later).bytes(0)),
            (1_200, 2_000)
        );
        assert_eq!(slots(&laden.slow(later).first(600, 0)), [2]);
        // Then the other one holds more.
        assert_eq!(slots(&laden.slow(later).first(601, 0)), [2, 3]);
        assert_eq!(slots(&laden.slow(later).first(u64::MAX, 0)), [2, 3, 1, 4]);
        // An owner who holds little gives nothing.
        assert_eq!(laden.slow(later).bytes(801), 1_200);
        assert_eq!(slots(&laden.slow(later).first(u64::MAX, 801)), [2]);
    }

    #[test]
    fn who_has_read_in_the_meantime_begins_anew() {
        let mut laden = Laden::default();
        let (start, later) = (Tick::from_secs(5), Tick::from_secs(7));
        laden.note(key(1), 7, 500);
        laden.note(key(2), 7, 500);
        laden.look(start);
        // It holds more than before.
        laden.note(key(1), 7, 600);
        laden.forget(2);
        laden.note(key(2), 7, 500);
        assert_eq!(slots(&laden.slow(later).first(u64::MAX, 0)), [1]);
        laden.rest();
        assert_eq!(laden.slow(later).bytes(0), 0);
        laden.forget(1);
        laden.forget(2);
        assert_eq!((laden.slow(later).most(), laden.loads.len()), (0, 0));
    }
}
