//! Hashes that have taken the place of others of the same password.
//!
//! A login by HTTP ends with the password that it came by. A hash that is replaced by a better one
//! is not another password, and only who replaces it can tell.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many are remembered, the newest ones. A login whose hash is forgotten ends with the next
/// change of its user, as if the password were another one.
const REMEMBERED_MAX: usize = 256;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Successors(Mutex<VecDeque<(Arc<str>, Arc<str>)>>);

impl Successors {
    /// One hash takes the place of another one.
    pub(super) fn note(&self, outdated: Arc<str>, better: Arc<str>) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.pop_front();
        }
        known.push_back((outdated, better));
    }

    /// Whether one of these hashes is of the password that this one was of.
    pub(super) fn stands<'t>(
        &self,
        hash: &Arc<str>,
        mut texts: impl Iterator<Item = &'t Arc<str>>,
    ) -> bool {
        let known = self.lock();
        // Each replaces one of before.
        let mut same: Vec<&Arc<str>> = vec![hash];
        for (outdated, better) in known.iter() {
            if same.contains(&outdated) {
                same.push(better);
            }
        }
        texts.any(|text| same.contains(&text))
    }

    /// A pair is put in, or taken out, in one step.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Arc<str>, Arc<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<str> {
        text.into()
    }

    #[test]
    fn a_better_hash_is_of_the_same_password() {
        let known = Successors::default();
        let (first, second, third) = (text("1"), text("2"), text("3"));
        let stands = |known: &Successors, now: &Arc<str>| known.stands(&first, [now].into_iter());
        assert!(stands(&known, &first));
        assert!(!stands(&known, &second));
        known.note(first.clone(), second.clone());
        known.note(second.clone(), third.clone());
        assert!(stands(&known, &second) && stands(&known, &third));
        assert!(!stands(&known, &text("4")));
        assert!(!known.stands(&first, [].into_iter()));
        for number in 0..REMEMBERED_MAX {
            known.note(text(&format!("a{number}")), text(&format!("b{number}")));
        }
        assert!(!stands(&known, &second), "it is forgotten");
        assert_eq!(known.lock().len(), REMEMBERED_MAX);
    }
}
