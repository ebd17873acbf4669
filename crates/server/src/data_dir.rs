//! The data folder and the lock that tells a running server from a stopped one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::ServerError;

/// The file in the data folder whose lock a running server holds.
const LOCK_FILE: &str = "lock";

/// The control socket's name in the data folder.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";

/// A data folder that this process alone serves, until this is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DataDir {
    /// Makes the folder if it is missing, and locks it.
    ///
    /// # Errors
    /// When it cannot be written, or another server runs on it.
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        let fail = |error| ServerError::DataDir {
            path: path.to_owned(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(fail)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK_FILE))
            .map_err(fail)?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(ServerError::DataDirInUse {
                    path: path.to_owned(),
                });
            }
            Err((_, errno)) => return Err(fail(errno.into())),
        };
        // For people; nothing reads it.
        lock.set_len(0)
            .and_then(|()| writeln!(&*lock, "{}", std::process::id()))
            .map_err(fail)?;
        // Absolute, so that log lines make sense wherever the server was started.
        let path = fs::canonicalize(path).map_err(fail)?;
        Ok(Self { path, _lock: lock })
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the control socket is.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.path.join(CONTROL_SOCKET)
    }
}

/// A failure to make something in the data folder.
pub(crate) fn failure(path: &Path, error: io::Error) -> ServerError {
    ServerError::DataDir {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/data");
        let held = DataDir::open(&path).unwrap();
        assert!(matches!(
            DataDir::open(&path),
            Err(ServerError::DataDirInUse { .. })
        ));
        drop(held);
        DataDir::open(&path).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_a_clear_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let error = DataDir::open(&path).unwrap_err();
        assert!(error.to_string().contains("--data-dir"), "{error}");
        assert_eq!(error.exit_code(), 73);
    }
}
