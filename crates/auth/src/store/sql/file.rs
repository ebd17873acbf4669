//! The file of an SQLite database, which somebody may take away while it is open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::store::StoreError;
use crate::store::inode::Inode;

/// The file that was opened, and whether its path still leads to it. A process may go on reading a
/// file that was removed, and writing to it, but nobody ever finds what it wrote.
pub(super) struct DatabaseFile {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The file that was opened; `None` before.
    opened: Option<Inode>,
    /// What was logged, so that it is logged once.
    told: Option<String>,
}

impl DatabaseFile {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            state: Mutex::default(),
        }
    }

    /// Refuses if the path leads to another file than the one that was opened, or to none.
    ///
    /// # Errors
    /// [`StoreError::File`] with the remedy, which is in the log too, once.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let mut state = self.lock();
        let Some(how) = self.moved(&state) else {
            state.told = None;
            return Ok(());
        };
        let reason = format!(
            "it {how} while it was open, and what is changed now would be lost; put the file \
             back, or restart the server to begin with what is there"
        );
        if state.told.as_ref() != Some(&reason) {
            warn!(
                "{}: {reason}; users of the old file still log in, and nothing is changed",
                self.path.display()
            );
            state.told = Some(reason.clone());
        }
        Err(StoreError::File {
            path: self.path.clone(),
            reason,
        })
    }

    /// Whether the path leads elsewhere than when it was opened. Then the next one that is opened
    /// counts.
    pub(super) fn has_moved(&self) -> bool {
        let mut state = self.lock();
        let has_moved = self.moved(&state).is_some();
        if has_moved {
            state.opened = None;
        }
        has_moved
    }

    /// The file was opened. What counts is the first one.
    pub(super) fn note_opened(&self) {
        let mut state = self.lock();
        if state.opened.is_none() {
            state.opened = Inode::at(&self.path).ok();
        }
    }

    /// What became of the file that was opened; `None` if it is where it was.
    fn moved(&self, state: &State) -> Option<String> {
        let opened = state.opened?;
        match Inode::at(&self.path) {
            Ok(now) if now == opened => None,
            Ok(_) => Some("was replaced".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("was removed".to_owned()),
            Err(error) => Some(format!("was taken away ({error})")),
        }
    }

    /// Nothing panics between two changes of the state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_taken_away_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, away] = ["auth.db", "away"].map(|name| folder.path().join(name));
        let file = DatabaseFile::new(&path);
        let refusal = || file.check().map_err(|error| error.to_string());
        // Before it is opened, nothing is expected of it.
        assert_eq!(refusal(), Ok(()));
        fs::write(&path, "one").unwrap();
        file.note_opened();
        assert_eq!(refusal(), Ok(()));
        fs::rename(&path, &away).unwrap();
        assert!(refusal().unwrap_err().contains("was removed"));
        fs::write(&path, "another").unwrap();
        file.note_opened();
        assert!(refusal().unwrap_err().contains("was replaced"));
        fs::rename(&away, &path).unwrap();
        assert_eq!(refusal(), Ok(()));
        fs::remove_file(&path).unwrap();
        assert!(file.has_moved() && !file.has_moved());
        fs::write(&path, "another").unwrap();
        file.note_opened();
        assert_eq!(refusal(), Ok(()));
    }
}
