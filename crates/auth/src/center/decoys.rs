//! What is computed for users who do not exist.

use std::collections::VecDeque;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::credential::scram::ITERATIONS_DEFAULT;
use crate::credential::{Cost, ScramSecret, Sha, random};
use crate::model::UserKey;

/// How many costs of users who exist are remembered.
const COSTS_MAX: usize = 16;

/// What decoys are made from: the same after a restart, since a name whose salt changes with every
/// restart would be known to be nobody's.
pub struct DecoyKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for DecoyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DecoyKey")
    }
}

impl DecoyKey {
    /// A key that nobody remembers.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn forgetful() -> io::Result<Self> {
        let key = random::<32>().map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(key))
    }

    /// The key in a file, which is made if it is missing and which only its owner may read. One
    /// that was cut off is made anew.
    ///
    /// # Errors
    /// When the file cannot be read or written, or there are no random bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(path)?;
        let mut key = Zeroizing::new([0; 32]);
        match file.read_exact(&mut *key) {
            Ok(()) => return Ok(Self(key)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
        let new = Self::forgetful()?;
        file.rewind()?;
        file.write_all(&*new.0)?;
        Ok(new)
    }
}

/// Makes unknown users cost what known ones do. Where the users' hashes have different costs, an
/// unknown one gets the cost of some known one, always the same as long as those stay.
pub(super) struct Decoys {
    key: DecoyKey,
    seen: Mutex<Seen>,
}

struct Seen {
    /// Of the last users who were compared, the latest last: of each all comparisons that a wrong
    /// password took.
    costs: VecDeque<Vec<Cost>>,
    scram_iterations: u32,
}

impl Decoys {
    pub(super) fn new(wanted: Cost, key: DecoyKey) -> Self {
        let seen = Seen {
            costs: VecDeque::from([vec![wanted]]),
            scram_iterations: ITERATIONS_DEFAULT,
        };
        Self {
            key,
            seen: Mutex::new(seen),
        }
    }

    /// A wrong password of a known user is compared at these costs, one after the other.
    pub(super) fn saw(&self, costs: Vec<Cost>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.costs.len() == COSTS_MAX {
            seen.costs.pop_front();
        }
        seen.costs.push_back(costs);
    }

    /// A known user's SCRAM secret has so many rounds.
    pub(super) fn saw_scram(&self, iterations: u32) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.scram_iterations = iterations;
    }

    /// What the password of somebody unknown is compared at.
    pub(super) fn costs(&self, user: &UserKey) -> Vec<Cost> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pick = usize::from(self.digest(user)[0]) % seen.costs.len().max(1);
        seen.costs.get(pick).cloned().unwrap_or_default()
    }

    /// The SCRAM secret of somebody unknown.
    pub(super) fn scram(&self, sha: Sha, user: &UserKey) -> ScramSecret {
        let iterations = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.scram_iterations
        };
        ScramSecret::decoy(
            sha,
            &*self.key.0,
            &format!("{}/{}", user.zone, user.name),
            iterations,
        )
    }

    fn digest(&self, user: &UserKey) -> [u8; 32] {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&*self.key.0) else {
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
        let decoys = Decoys::new(Cost::DEFAULT, DecoyKey::forgetful().unwrap());
        let nobody = UserKey::parse("nobody");
        assert_eq!(decoys.costs(&nobody), [Cost::DEFAULT]);
        for _ in 0..COSTS_MAX {
            decoys.saw(vec![Cost::BCRYPT; 2]);
        }
        assert_eq!(decoys.costs(&nobody), [Cost::BCRYPT; 2]);
        assert_eq!(decoys.costs(&nobody), decoys.costs(&nobody));
        decoys.saw_scram(5_000);
        let secret = decoys.scram(Sha::Sha256, &nobody);
        assert_eq!(secret.iterations(), 5_000);
        assert!(secret == decoys.scram(Sha::Sha256, &nobody));
        assert!(secret != decoys.scram(Sha::Sha256, &UserKey::parse("game/nobody")));
    }

    #[test]
    fn nobody_has_the_same_salt_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decoy-key");
        let secret = || {
            let decoys = Decoys::new(Cost::DEFAULT, DecoyKey::open(&path).unwrap());
            decoys
                .scram(Sha::Sha256, &UserKey::parse("nobody"))
                .to_string()
        };
        let first = secret();
        assert_eq!(first, secret());
        std::fs::write(&path, b"cut off").unwrap();
        let next = secret();
        assert_ne!(first, next);
        assert_eq!(next, secret());
    }
}
