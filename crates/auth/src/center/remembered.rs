//! Passwords that were verified a while ago.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::credential::{MakeError, random};
use crate::model::UserKey;

/// Passwords remembered at a time, in each of two generations.
const REMEMBERED_MAX: usize = 500_000;

/// Which passwords were verified, as keyed hashes: without the key, which dies with the process,
/// they say nothing. A password is remembered together with the stored hash that it was compared
/// with, so a changed password is another one.
pub(super) struct Remembered {
    key: Zeroizing<[u8; 32]>,
    generations: Mutex<Generations>,
}

/// What was verified during this span of time, and during the one before.
#[derive(Default)]
struct Generations {
    now: HashSet<Mark>,
    before: HashSet<Mark>,
    began: Option<Instant>,
}

/// Half of a keyed hash: as good as all of it against guesses without the key.
type Mark = [u8; 16];

impl Remembered {
    pub(super) fn new() -> Result<Self, MakeError> {
        Ok(Self {
            key: random::<32>()?,
            generations: Mutex::default(),
        })
    }

    /// Whether this password was found to fit this stored hash, within `lifetime`.
    pub(super) fn knows(
        &self,
        now: Instant,
        lifetime: Duration,
        user: &UserKey,
        stored: &str,
        password: &[u8],
    ) -> bool {
        if lifetime.is_zero() {
            return false;
        }
        let mark = self.mark(user, stored, password);
        let mut generations = self.lock();
        generations.turn(now, lifetime);
        generations.now.contains(&mark) || generations.before.contains(&mark)
    }

    /// This password fits this stored hash. It is remembered for half of `lifetime` at least and
    /// for all of it at most.
    pub(super) fn learn(
        &self,
        now: Instant,
        lifetime: Duration,
        user: &UserKey,
        stored: &str,
        password: &[u8],
    ) {
        if lifetime.is_zero() {
            return;
        }
        let mark = self.mark(user, stored, password);
        let mut generations = self.lock();
        generations.turn(now, lifetime);
        if generations.now.len() < REMEMBERED_MAX {
            generations.now.insert(mark);
        }
    }

    pub(super) fn clear(&self) {
        *self.lock() = Generations::default();
    }

    fn mark(&self, user: &UserKey, stored: &str, password: &[u8]) -> Mark {
        let mut mark = [0; 16];
        if let Ok(mut mac) = <Hmac<Sha256> as KeyInit>::new_from_slice(&*self.key) {
            // Each length stands before its text, so that no two lists are the same bytes.
            for part in [
                user.zone.as_bytes(),
                user.name.as_bytes(),
                stored.as_bytes(),
                password,
            ] {
                mac.update(&(part.len() as u64).to_le_bytes());
                mac.update(part);
            }
            let digest = mac.finalize().into_bytes();
            mark.copy_from_slice(&digest[..16]);
        }
        mark
    }

    /// Nothing panics between two changes of the sets.
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    /// Begins a new generation when the present one has lasted half a lifetime.
    fn turn(&mut self, now: Instant, lifetime: Duration) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age < lifetime / 2 {
            return;
        }
        // A client that was away for longer finds nothing.
        let last = std::mem::take(&mut self.now);
        self.before = if age < lifetime { last } else { HashSet::new() };
        self.began = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(100);

    #[test]
    fn a_verified_password_is_known_until_its_time_is_over() {
        let remembered = Remembered::new().unwrap();
        let (start, ann) = (Instant::now(), UserKey::parse("ann"));
        let at = |secs| start + Duration::from_secs(secs);
        let knows = |secs, user: &UserKey, stored: &str, password: &[u8]| {
            remembered.knows(at(secs), LIFETIME, user, stored, password)
        };
        assert!(!knows(0, &ann, "$x", b"pencil"));
        remembered.learn(at(0), LIFETIME, &ann, "$x", b"pencil");
        assert!(knows(0, &ann, "$x", b"pencil"));
        assert!(!knows(0, &ann, "$x", b"pencils"));
        assert!(!knows(0, &ann, "$y", b"pencil"));
        assert!(!knows(0, &ann, "$xp", b"encil"));
        assert!(!knows(0, &UserKey::parse("game/ann"), "$x", b"pencil"));
        assert!(knows(49, &ann, "$x", b"pencil"));
        assert!(knows(60, &ann, "$x", b"pencil"));
        assert!(!knows(111, &ann, "$x", b"pencil"));
    }

    #[test]
    fn nothing_is_remembered_when_it_is_off_or_was_cleared() {
        let remembered = Remembered::new().unwrap();
        let (now, ann) = (Instant::now(), UserKey::parse("ann"));
        remembered.learn(now, Duration::ZERO, &ann, "$x", b"pencil");
        assert!(!remembered.knows(now, LIFETIME, &ann, "$x", b"pencil"));
        remembered.learn(now, LIFETIME, &ann, "$x", b"pencil");
        assert!(!remembered.knows(now, Duration::ZERO, &ann, "$x", b"pencil"));
        assert!(remembered.knows(now, LIFETIME, &ann, "$x", b"pencil"));
        remembered.clear();
        assert!(!remembered.knows(now, LIFETIME, &ann, "$x", b"pencil"));
    }

    #[test]
    fn everything_is_forgotten_after_a_long_silence() {
        let remembered = Remembered::new().unwrap();
        let (now, ann) = (Instant::now(), UserKey::parse("ann"));
        remembered.learn(now, LIFETIME, &ann, "$x", b"pencil");
        let later = now + Duration::from_secs(1_000);
        assert!(!remembered.knows(later, LIFETIME, &ann, "$x", b"pencil"));
    }
}
