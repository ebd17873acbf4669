//! What orders have changed while look-ups were under way.
//!
//! A look-up may have read a user's record when an order changes it, and still wait for what
//! somebody else says of the user. So it asks here at its end what it has to read again.

use std::collections::{HashSet, VecDeque};

use crate::model::UserKey;

/// Changes that are remembered: those of a few imports.
const REMEMBERED_MAX: usize = 4_096;

/// The users whose records orders have changed lately.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// How many there were.
    count: u64,
    /// The last ones, in their order.
    latest: VecDeque<UserKey>,
}

impl Edits {
    /// How many changes there were so far.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// A record was changed.
    pub(super) fn add(&mut self, key: UserKey) {
        if self.latest.len() == REMEMBERED_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(key);
        self.count += 1;
    }

    /// Those among some users whose records may have been changed after the first `count`
    /// changes.
    pub(super) fn after(&self, count: u64, keys: &[UserKey]) -> Vec<UserKey> {
        let new = usize::try_from(self.count - count).unwrap_or(usize::MAX);
        if new > self.latest.len() {
            return keys.to_vec();
        }
        let latest = self.latest.range(self.latest.len() - new..);
        let changed: HashSet<&UserKey> = latest.collect();
        if changed.is_empty() {
            return Vec::new();
        }
        let keys = keys.iter().filter(|key| changed.contains(key));
        keys.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_since_is_told_and_all_of_it_after_too_many_changes() {
        let keys = ["ann", "bob", "cat"].map(UserKey::parse);
        let mut edits = Edits::default();
        edits.add(keys[0].clone());
        let before = edits.count();
        assert!(edits.after(before, &keys).is_empty());
        edits.add(keys[1].clone());
        edits.add(UserKey::parse("game/ann"));
        assert_eq!(edits.after(before, &keys), keys[1..2]);
        assert_eq!(edits.after(0, &keys), keys[..2]);
        for _ in 0..REMEMBERED_MAX {
            edits.add(keys[2].clone());
        }
        assert_eq!(edits.after(before, &keys), keys);
        assert_eq!(edits.after(edits.count() - 1, &keys), keys[2..]);
    }
}
