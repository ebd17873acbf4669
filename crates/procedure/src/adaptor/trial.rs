//! New versions of files, tried once for all who run them.
//!
//! An adaptor of all zones runs in each of them. When its file changes, one of them compiles and
//! tests the new version first; where that fails, the others take its word for it, so that a script
//! that loops at its beginning costs the time of one trial.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::SystemTime;

use super::{Options, Source};

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<SystemTime>, u64, u64);

impl Stamp {
    /// That of the file now; `None` if there is none: an adaptor that comes with the server never
    /// changes.
    pub(super) fn of(options: &Options) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(options.source.path()?).ok()?;
        let (bytes, inode) = (metadata.len(), metadata.ino());
        Some(Self(metadata.modified().ok(), bytes, inode))
    }
}

/// A version that failed its trial, and why.
type Failed = Option<(Option<Stamp>, String)>;

/// The trial of one file in so much memory. Held while a version is tried.
pub(super) type Trial = Arc<Mutex<Failed>>;

/// The versions that have been tried last, of each file.
#[derive(Debug, Default)]
pub struct Trials(Mutex<HashMap<(Source, usize), Trial>>);

impl Trials {
    /// Forgets what failed: it is tried again when somebody asks for it.
    pub fn forget(&self) {
        self.lock().clear();
    }

    pub(super) fn of(&self, options: &Options) -> Trial {
        let key = (options.source.clone(), options.memory);
        Arc::clone(self.lock().entry(key).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Source, usize), Trial>> {
        // Every step leaves the table whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether to wait for another one who tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    ComesAgain,
}

/// Begins a trial; `None` if another one is at it and nobody waits.
pub(super) fn begin(trial: &Mutex<Failed>, patience: Patience) -> Option<MutexGuard<'_, Failed>> {
    // What is in it is whole.
    match (patience, trial.try_lock()) {
        (_, Ok(held)) => Some(held),
        (_, Err(TryLockError::Poisoned(held))) => Some(held.into_inner()),
        (Patience::ComesAgain, Err(TryLockError::WouldBlock)) => None,
        (Patience::Waits, Err(TryLockError::WouldBlock)) => {
            Some(trial.lock().unwrap_or_else(PoisonError::into_inner))
        }
    }
}
