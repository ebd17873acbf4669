//! What is computed for users who do not exist.
//!
//! An unknown name is answered as its *neighbour* would be: every name has a place on a ring, by a
//! keyed hash, and the next known user on it lends what its own wrong password takes. So kinds of
//! hashes are as frequent among unknown names as among known ones, and one name always gets the
//! same answer, until its neighbour's hash is changed or a nearer one logs in for the first time.
//! The ring is written down, so that a restart changes nothing either.

mod ring;

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::credential::scram::ITERATIONS_DEFAULT;
use crate::credential::{Cost, SALT_BYTES, ScramSecret, Sha, random};
use crate::model::UserKey;
use ring::{Neighbours, ScramKind};

/// Where the neighbours are written down, beside the key.
const NEIGHBOURS: &str = "decoy-neighbours";

/// What decoys are made from: the same after a restart, since a name whose salt changes with every
/// restart would be known to be nobody's.
pub struct DecoyKey {
    key: Zeroizing<[u8; 32]>,
    /// Where the neighbours are written down; `None` where nothing is.
    neighbours: Option<PathBuf>,
}

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
        Ok(Self {
            key,
            neighbours: None,
        })
    }

    /// The key in a file, which is made if it is missing and which only its owner may read. One
    /// that was cut off is made again. What unknown names are answered is written down beside it.
    ///
    /// # Errors
    /// When the file cannot be read or written, or there are no random bytes.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(path)?;
        let neighbours = Some(path.with_file_name(NEIGHBOURS));
        let mut key = Zeroizing::new([0; 32]);
        match file.read_exact(&mut *key) {
            Ok(()) => return Ok(Self { key, neighbours }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
        let Self { key, .. } = Self::forgetful()?;
        file.rewind()?;
        file.write_all(&*key)?;
        Ok(Self { key, neighbours })
    }
}

/// Makes unknown users cost what known ones do.
pub(super) struct Decoys {
    key: DecoyKey,
    /// What is computed where no neighbour is known.
    wanted: Cost,
    neighbours: Mutex<Neighbours>,
}

impl Decoys {
    pub(super) fn new(wanted: Cost, key: DecoyKey) -> Self {
        let neighbours = key.neighbours.as_deref().map(Neighbours::read);
        Self {
            key,
            wanted,
            neighbours: Mutex::new(neighbours.unwrap_or_default()),
        }
    }

    /// A wrong password of a known user is compared at these costs, one after the other.
    pub(super) fn saw(&self, user: &UserKey, costs: Vec<Cost>) {
        let place = self.place(user);
        self.learn(|neighbours| neighbours.passwords.learn(place, costs));
    }

    /// A known user's SCRAM secret is of this kind.
    pub(super) fn saw_scram(&self, user: &UserKey, secret: &ScramSecret) {
        let place = self.place(user);
        let kind = ScramKind {
            iterations: secret.iterations(),
            salt_bytes: secret.salt_bytes(),
        };
        self.learn(|neighbours| neighbours.scram(secret.sha()).learn(place, kind));
    }

    /// Learns something, and writes everything down when there is twice as much.
    fn learn(&self, learn: impl FnOnce(&mut Neighbours) -> ring::News) {
        let is_worth_it = learn(&mut self.lock()) == ring::News::Doubled;
        if is_worth_it {
            self.write_down();
        }
    }

    /// Nobody waits for the disk: the lock is held for the text only.
    fn write_down(&self) {
        let Some(path) = &self.key.neighbours else {
            return;
        };
        let text = self.lock().text();
        // Whatever is not written down is learned again.
        let _ = text.and_then(|text| ring::write(path, &text));
    }

    /// What the password of somebody unknown is compared at.
    pub(super) fn costs(&self, user: &UserKey) -> Vec<Cost> {
        let place = self.place(user);
        let neighbours = self.lock();
        let costs = neighbours.passwords.next(place).cloned();
        costs.unwrap_or_else(|| vec![self.wanted])
    }

    /// The SCRAM secret of somebody unknown.
    pub(super) fn scram(&self, sha: Sha, user: &UserKey) -> ScramSecret {
        let place = self.place(user);
        let kind = self.lock().scram(sha).next(place).copied();
        let kind = kind.unwrap_or(ScramKind {
            iterations: ITERATIONS_DEFAULT,
            salt_bytes: SALT_BYTES,
        });
        let name = format!("{}/{}", user.zone, user.name);
        let key = &*self.key.key;
        ScramSecret::decoy(sha, key, &name, kind.iterations, kind.salt_bytes)
    }

    /// The place of a name on the ring.
    fn place(&self, user: &UserKey) -> u64 {
        let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&*self.key.key) else {
            // HMAC takes keys of every length.
            return 0;
        };
        mac.update(user.zone.as_bytes());
        mac.update(b"/");
        mac.update(user.name.as_bytes());
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let [a, b, c, d, e, f, g, h, ..] = digest;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// Nothing panics between two changes of the rings.
    fn lock(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was learned since the last time is written down.
impl Drop for Decoys {
    fn drop(&mut self) {
        self.write_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoys() -> Decoys {
        Decoys::new(Cost::DEFAULT, DecoyKey::forgetful().unwrap())
    }

    fn key(number: usize, what: &str) -> UserKey {
        UserKey::parse(&format!("{what}{number}"))
    }

    fn secret(iterations: u32) -> ScramSecret {
        ScramSecret::make(Sha::Sha256, b"pencil", iterations).unwrap()
    }

    #[test]
    fn nobody_costs_what_somebody_does() {
        let decoys = decoys();
        let (nobody, ann) = (UserKey::parse("nobody"), UserKey::parse("ann"));
        assert_eq!(decoys.costs(&nobody), [Cost::DEFAULT]);
        decoys.saw(&ann, vec![Cost::BCRYPT; 2]);
        assert_eq!(decoys.costs(&nobody), [Cost::BCRYPT; 2]);
        // Her hash was upgraded.
        decoys.saw(&ann, vec![Cost::DEFAULT]);
        assert_eq!(decoys.costs(&nobody), [Cost::DEFAULT]);
        decoys.saw_scram(&ann, &secret(5_000));
        let secret = decoys.scram(Sha::Sha256, &nobody);
        assert_eq!(secret.iterations(), 5_000);
        assert_eq!(
            decoys.scram(Sha::Sha512, &nobody).iterations(),
            ITERATIONS_DEFAULT
        );
        assert!(secret == decoys.scram(Sha::Sha256, &nobody));
        assert!(secret != decoys.scram(Sha::Sha256, &UserKey::parse("game/nobody")));
    }

    /// Where a third of the users has another kind of hash, so has a third of the unknown names;
    /// and each of them keeps its kind, whoever logs in and however often.
    #[test]
    fn unknown_names_have_the_users_kinds_and_keep_them() {
        let decoys = decoys();
        let cost = |number| match number % 3 {
            0 => Cost::BCRYPT,
            _ => Cost::DEFAULT,
        };
        let (few, many) = (secret(4_096), secret(9_000));
        for number in 0..1_000 {
            let user = key(number, "user");
            decoys.saw(&user, vec![cost(number)]);
            let secret = if number % 3 == 0 { &few } else { &many };
            decoys.saw_scram(&user, secret);
        }
        let answers = || -> Vec<(Vec<Cost>, u32)> {
            let names = (0..1_000).map(|number| key(number, "nobody"));
            let answer = |name| {
                let secret = decoys.scram(Sha::Sha256, &name);
                (decoys.costs(&name), secret.iterations())
            };
            names.map(answer).collect()
        };
        let before = answers();
        let rare = before.iter().filter(|(costs, _)| *costs == [Cost::BCRYPT]);
        assert!((200..470).contains(&rare.count()));
        let rare = before.iter().filter(|(_, iterations)| *iterations == 4_096);
        assert!((200..470).contains(&rare.count()));
        // A storm of users of one kind.
        for number in (0..999).step_by(3).cycle().take(10_000) {
            decoys.saw(&key(number, "user"), vec![Cost::BCRYPT]);
            decoys.saw_scram(&key(number, "user"), &few);
        }
        assert_eq!(before, answers());
    }

    #[test]
    fn nobody_is_answered_the_same_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decoy-key");
        let open = || Decoys::new(Cost::DEFAULT, DecoyKey::open(&path).unwrap());
        let answer = |decoys: &Decoys| {
            let nobody = UserKey::parse("nobody");
            let secret = decoys.scram(Sha::Sha256, &nobody);
            (secret.to_string(), decoys.costs(&nobody))
        };
        let decoys = open();
        decoys.saw(&UserKey::parse("ann"), vec![Cost::BCRYPT]);
        decoys.saw_scram(&UserKey::parse("ann"), &secret(5_000));
        let first = answer(&decoys);
        drop(decoys);
        assert_eq!(first, answer(&open()));
        assert_eq!(first.1, [Cost::BCRYPT]);
        // What cannot be read is forgotten, and a key that was cut off is made again.
        let too_dear = r#"{"passwords":{"1":[{"bcrypt":{"log_rounds":60}}]}}"#;
        for text in ["", "{}", "[1", too_dear] {
            std::fs::write(folder.path().join(NEIGHBOURS), text).unwrap();
            assert_eq!(answer(&open()).1, [Cost::DEFAULT], "{text}");
        }
        std::fs::write(&path, b"cut off").unwrap();
        let next = answer(&open());
        assert_ne!(first, next);
        assert_eq!(next, answer(&open()));
    }
}
