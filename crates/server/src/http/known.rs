//! Tokens that were accepted, as far as nothing has changed since for their users.
//!
//! Every change of users, roles and zones is held against them, as it is against sessions. A change
//! of somebody else leaves them known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stentor_auth::center::{Center, Renewals, as_of};
use stentor_hub::{Identity, Renewal, Renewed};

use super::meter::Meter;

/// Tokens that are remembered.
const KNOWN_MAX: usize = 1_000;

/// Somebody whose token was accepted.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) identity: Arc<Identity>,
    /// It counts on over changes of the user's rights.
    pub(super) meter: Arc<Meter>,
    /// The number of the last change that it was held against.
    as_of: u64,
}

impl Known {
    pub(super) fn new(identity: Arc<Identity>) -> Self {
        let as_of = as_of(&identity);
        Self {
            identity,
            meter: Arc::default(),
            as_of,
        }
    }
}

/// See the module. The key is the hash of a token.
#[derive(Default)]
pub(crate) struct KnownTokens(Mutex<HashMap<String, Known>>);

impl KnownTokens {
    /// Holds a change against all of them, before anybody else hears of it.
    pub(crate) fn renew(&self, change: &Renewals) {
        let number = change.number();
        self.lock().retain(|_, known| {
            if known.as_of >= number {
                return true;
            }
            // One that has missed a change, because it was being looked up, is asked for again.
            if known.as_of + 1 != number {
                return false;
            }
            known.as_of = number;
            match change.renew(&known.identity, "") {
                Renewed::Keep => true,
                Renewed::Replace(identity) => {
                    known.identity = identity;
                    true
                }
                Renewed::Close { .. } => false,
            }
        });
    }

    /// The bearer of a token, if it is known and no change is on its way.
    pub(super) fn find(&self, center: &Center, mark: &str) -> Option<Known> {
        let known = self.lock();
        let found = known.get(mark)?;
        let is_current = center.is_current_as_of(&found.identity, found.as_of);
        is_current.then(|| found.clone())
    }

    /// Remembers a token.
    pub(super) fn keep(&self, mark: String, bearer: Known) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(mark, bearer);
    }

    /// Each entry is put in, changed or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
