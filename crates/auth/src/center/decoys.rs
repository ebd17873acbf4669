//! What is computed for users who do not exist.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::credential::scram::ITERATIONS_DEFAULT;
use crate::credential::{Cost, MakeError, ScramSecret, Sha, random};
use crate::model::UserKey;

/// How many costs of users who exist are remembered.
const COSTS_MAX: usize = 16;

/// Makes unknown users cost what known ones do. Where the users' hashes have different costs, an
/// unknown one gets the cost of some known one, always the same as long as those stay.
pub(super) struct Decoys {
    key: Zeroizing<[u8; 32]>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Of the last users who were compared, the latest last.
    costs: VecDeque<Cost>,
    scram_iterations: u32,
}

impl Decoys {
    pub(super) fn new(wanted: Cost) -> Result<Self, MakeError> {
        let seen = Seen {
            costs: VecDeque::from([wanted]),
            scram_iterations: ITERATIONS_DEFAULT,
        };
        Ok(Self {
            key: random::<32>()?,
            seen: Mutex::new(seen),
        })
    }

    /// A known user's password is compared at this cost.
    pub(super) fn saw(&self, cost: Cost) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.costs.len() == COSTS_MAX {
            seen.costs.pop_front();
        }
        seen.costs.push_back(cost);
    }

    /// A known user's SCRAM secret has so many rounds.
    pub(super) fn saw_scram(&self, iterations: u32) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.scram_iterations = iterations;
    }

    /// What the password of somebody unknown is compared at.
    pub(super) fn cost(&self, user: &UserKey) -> Cost {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pick = usize::from(self.digest(user)[0]) % seen.costs.len().max(1);
        seen.costs.get(pick).copied().unwrap_or(Cost::DEFAULT)
    }

    /// The SCRAM secret of somebody unknown.
    pub(super) fn scram(&self, sha: Sha, user: &UserKey) -> ScramSecret {
        let iterations = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.scram_iterations
        };
        ScramSecret::decoy(
            sha,
            &*self.key,
            &format!("{}/{}", user.zone, user.name),
            iterations,
        )
    }

    fn digest(&self, user: &UserKey) -> [u8; 32] {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&*self.key) else {
            // HMAC takes keys of every length.
            return [0; 32];
        };
        mac.update(user.zone.as_bytes());
        mac.update(b"/");
        mac.update(user.name.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_costs_what_somebody_does() {
        let decoys = Decoys::new(Cost::DEFAULT).unwrap();
        let nobody = UserKey::parse("nobody");
        assert_eq!(decoys.cost(&nobody), Cost::DEFAULT);
        for _ in 0..COSTS_MAX {
            decoys.saw(Cost::BCRYPT);
        }
        assert_eq!(decoys.cost(&nobody), Cost::BCRYPT);
        assert_eq!(decoys.cost(&nobody), decoys.cost(&nobody));
        decoys.saw_scram(5_000);
        let secret = decoys.scram(Sha::Sha256, &nobody);
        assert_eq!(secret.iterations(), 5_000);
        assert!(secret == decoys.scram(Sha::Sha256, &nobody));
        assert!(secret != decoys.scram(Sha::Sha256, &UserKey::parse("game/nobody")));
    }
}
