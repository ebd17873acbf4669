//! Living with a file that fails.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{Snapshot, guarded};
use crate::{Batch, Store, StoreError};

/// The file, as far as it can be used.
///
/// - A damaged file, or one of another kind, gets the ending `.damaged`, and a new one is made.
/// - A file that was deleted or replaced is opened or made again.
/// - A file that cannot be written is tried again at the next commit.
///
/// The log hears of each trouble once, and of its end.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    store: Option<Arc<Store>>,
    trouble: Option<String>,
    /// Whether it was tried to open the file.
    is_begun: bool,
}

impl Archive {
    /// Nothing is opened before the first commit, or [`Archive::open`].
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            state: Mutex::default(),
        }
    }

    /// What is wrong with the file, if anything is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let state = self.state();
        let opening = || (!state.is_begun).then(|| "it is being opened".to_owned());
        state.trouble.clone().or_else(opening)
    }

    /// The file as it is now; `None` if it cannot be read.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let store = self.state().store.clone()?;
        guarded(|| store.snapshot()).ok()
    }

    /// Opens the file, if it is not open.
    pub fn open(&self) {
        let opened = self.opened();
        if let Err(error) = &opened {
            self.note(error);
        }
        self.state().is_begun = true;
    }

    /// Writes a batch. Returns whether it is in the file.
    pub fn commit(&self, batch: &Batch) -> bool {
        let written = self.opened().and_then(|store| {
            let written = guarded(|| store.commit(batch));
            if written.is_err() {
                drop(store);
                self.close();
            }
            written
        });
        self.state().is_begun = true;
        match written {
            Ok(()) => self.note_end(),
            Err(error) => self.note(&error),
        }
        self.state().trouble.is_none()
    }

    /// Every state is whole after any panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, opened again if somebody has put another one in its place.
    fn opened(&self) -> Result<Arc<Store>, StoreError> {
        if let Some(store) = &self.state().store
            && store.is_at(&self.path)
        {
            return Ok(Arc::clone(store));
        }
        self.close();
        if self.state().store.is_some() {
            return Err(StoreError::Broken("somebody still reads it".to_owned()));
        }
        let store = match guarded(|| Store::open(&self.path)) {
            Err(StoreError::Damaged(reason)) => {
                self.set_aside(&reason)?;
                guarded(|| Store::open(&self.path))?
            }
            other => other?,
        };
        let store = Arc::new(store);
        self.state().store = Some(Arc::clone(&store));
        Ok(store)
    }

    /// Closes the file, unless somebody reads it: one file must not be open twice.
    fn close(&self) {
        let mut state = self.state();
        let Some(store) = state.store.take() else {
            return;
        };
        match Arc::try_unwrap(store) {
            Ok(store) => {
                drop(state);
                // A file that fails may fail in this, too.
                let _ = guarded(|| {
                    drop(store);
                    Ok(())
                });
            }
            Err(store) if store.is_at(&self.path) => state.store = Some(store),
            // The file is gone from its place, so nobody opens it again.
            Err(_) => {}
        }
    }

    /// Makes room for a new file.
    fn set_aside(&self, reason: &str) -> Result<(), StoreError> {
        let mut aside = self.path.clone().into_os_string();
        aside.push(".damaged");
        let aside = PathBuf::from(aside);
        let moved = std::fs::rename(&self.path, &aside);
        moved.map_err(|error| {
            StoreError::Broken(format!("{reason}; it cannot be renamed either: {error}"))
        })?;
        tracing::warn!(
            file = %self.path.display(),
            "the history of the figures could not be read and begins again: {reason}; the file is \
             kept as {}",
            aside.display()
        );
        Ok(())
    }

    fn note(&self, error: &StoreError) {
        let is_new = self.state().trouble.replace(error.to_string()).is_none();
        if is_new {
            tracing::warn!(
                file = %self.path.display(),
                "the history of the figures cannot be written: {error}; it goes on in memory, and \
                 the server tries again each time"
            );
        }
    }

    fn note_end(&self) {
        if self.state().trouble.take().is_some() {
            tracing::info!(
                file = %self.path.display(),
                "the history of the figures is written again"
            );
        }
    }
}

#[cfg(test)]
mod tests;
