//! Finds the neighbour of an unknown name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::credential::{Cost, ITERATIONS_MAX, SALT_BYTES_MAX, Sha};

/// Users on a ring: enough for kinds that a thousandth of them has.
const USERS_MAX: usize = 4_096;

/// Comparisons that one password may take on a ring.
const COSTS_MAX: usize = 16;

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// What came of learning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Little.
    Little,
    /// There are twice as many users as at some time before.
    Doubled,
}

/// Users by their places, with what their wrong passwords take.
#[derive(Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Ring<K>(BTreeMap<u64, K>);

impl<K> Default for Ring<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K> Ring<K> {
    /// A user is of this kind. Those who come when the ring is full are not needed.
    pub(super) fn learn(&mut self, place: u64, kind: K) -> News {
        let is_full = self.0.len() >= USERS_MAX;
        match self.0.entry(place) {
            Entry::Occupied(mut known) => {
                known.insert(kind);
                News::Little
            }
            Entry::Vacant(_) if is_full => News::Little,
            Entry::Vacant(free) => {
                free.insert(kind);
                match self.0.len().is_power_of_two() {
                    true => News::Doubled,
                    false => News::Little,
                }
            }
        }
    }

    /// The kind of the next user.
    pub(super) fn next(&self, place: u64) -> Option<&K> {
        let after = self.0.range(place..).next();
        let (_, kind) = after.or_else(|| self.0.first_key_value())?;
        Some(kind)
    }
}

/// The shape of a SCRAM secret.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ScramKind {
    pub(super) iterations: u32,
    pub(super) salt_bytes: usize,
}

/// Everybody whose neighbour somebody may be.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Neighbours {
    /// Of each all comparisons that a wrong password takes.
    pub(super) passwords: Ring<Vec<Cost>>,
    scram_sha_256: Ring<ScramKind>,
    scram_sha_512: Ring<ScramKind>,
}

impl Neighbours {
    /// The users with secrets for one mechanism.
    pub(super) const fn scram(&mut self, sha: Sha) -> &mut Ring<ScramKind> {
        match sha {
            Sha::Sha256 => &mut self.scram_sha_256,
            Sha::Sha512 => &mut self.scram_sha_512,
        }
    }

    /// Those who were written down; nobody if that cannot be read.
    pub(super) fn read(path: &Path) -> Self {
        let read = || -> Option<Self> {
            let mut text = String::new();
            let file = File::open(path).ok()?;
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
            serde_json::from_str(&text).ok()
        };
        read().filter(Self::is_sound).unwrap_or_default()
    }

    /// Whether nothing asks for more than its bounds.
    fn is_sound(&self) -> bool {
        let is_costs = |costs: &Vec<Cost>| {
            (1..=COSTS_MAX).contains(&costs.len()) && costs.iter().all(|cost| cost.check().is_ok())
        };
        let is_kind = |kind: &ScramKind| {
            (1..=ITERATIONS_MAX).contains(&kind.iterations.into())
                && (1..=SALT_BYTES_MAX).contains(&kind.salt_bytes)
        };
        let rings = [&self.scram_sha_256, &self.scram_sha_512];
        let lens = rings.map(|ring| ring.0.len());
        self.passwords.0.len() <= USERS_MAX
            && lens.iter().all(|len| *len <= USERS_MAX)
            && self.passwords.0.values().all(is_costs)
            && rings.iter().all(|ring| ring.0.values().all(is_kind))
    }

    /// What is written down of them.
    pub(super) fn text(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

/// Writes a text down, as a whole or not at all, for its owner alone.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}
