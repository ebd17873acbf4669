//! The data folder and the lock that tells a running server from a stopped one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::ServerError;
use crate::listener::PATH_BYTES_MAX;

/// The file in the data folder whose lock a running server holds.
const LOCK_FILE: &str = "lock";

/// The control socket's name in the data folder.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";

/// A data folder that this process alone serves, until this is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// The folder, or the highest one above it, that was made for it.
    made: Option<PathBuf>,
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
        let (resolved, made) = resolve(path).map_err(fail)?;
        let bytes_max = PATH_BYTES_MAX - CONTROL_SOCKET.len() - 1;
        if resolved.as_os_str().len() > bytes_max {
            return Err(ServerError::DataDirTooDeep {
                bytes: resolved.as_os_str().len(),
                path: resolved,
                bytes_max,
            });
        }
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
        Ok(Self {
            path,
            made,
            _lock: lock,
        })
    }

    /// Takes a folder away again that was made for this server, which does not start. One that was
    /// there before stays, with what is in it.
    pub(crate) fn abandon(self) {
        let Some(made) = &self.made else { return };
        // Nobody else uses it: it is younger than this process, and locked. Where it cannot be
        // removed it is what a start would have made.
        let _ = fs::remove_dir_all(&self.path);
        let mut folder = self.path.as_path();
        while folder != made {
            let Some(parent) = folder.parent() else {
                return;
            };
            folder = parent;
            // Somebody may have put something there meanwhile.
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
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

/// The absolute path that a folder has or will have, without links in what exists of it; and the
/// highest folder in it that does not exist.
fn resolve(path: &Path) -> io::Result<(PathBuf, Option<PathBuf>)> {
    let path = std::path::absolute(path)?;
    let missing = path.ancestors().take_while(|folder| !folder.exists());
    let Some(made) = missing.last() else {
        return Ok((fs::canonicalize(path)?, None));
    };
    let there = made
        .parent()
        .map_or_else(|| Ok(PathBuf::from("/")), fs::canonicalize)?;
    let name = made.file_name().unwrap_or_default();
    let rest = path.strip_prefix(made).unwrap_or_else(|_| Path::new(""));
    let made = there.join(name);
    Ok((made.join(rest), Some(made)))
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
    fn a_start_that_fails_takes_away_what_it_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/data");
        let opened = DataDir::open(&path).unwrap();
        fs::create_dir_all(path.join("retained")).unwrap();
        fs::write(path.join("retained/file"), "x").unwrap();
        opened.abandon();
        assert!(!folder.path().join("deep").exists());
        assert!(folder.path().exists());
        fs::create_dir_all(path.join("mine")).unwrap();
        DataDir::open(&path).unwrap().abandon();
        assert!(path.join("mine").exists());
    }

    #[test]
    fn a_folder_too_deep_for_its_socket_is_refused_before_it_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x".repeat(100));
        let error = DataDir::open(&path).unwrap_err();
        assert!(
            matches!(error, ServerError::DataDirTooDeep { .. }),
            "{error}"
        );
        assert_eq!(error.exit_code(), 73);
        assert!(!path.exists());
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
