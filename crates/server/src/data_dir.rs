//! The data folder and the lock that tells a running server from a stopped one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::ServerError;
use crate::listener::PATH_BYTES_MAX;
use crate::logins::{DECOY_KEY, ZONES};

/// The file in the data folder whose lock a running server holds.
const LOCK_FILE: &str = "lock";

/// The control socket's name in the data folder.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";

/// How long a command waits for others, which take milliseconds, but for large imports.
const COMMAND_PATIENCE: Duration = Duration::from_secs(10);

/// How long a server waits for commands.
const SERVER_PATIENCE: Duration = Duration::from_secs(2);

/// How often it is tried in the meantime.
const RETRY: Duration = Duration::from_millis(20);

/// The program that has locked a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Server,
    Command,
}

impl Holder {
    /// How the lock file says it.
    const fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Command => "command",
        }
    }

    /// The process that the lock file of a folder names, and what it is. One that has not written
    /// it yet passes for a command.
    fn of(path: &Path) -> (String, Self) {
        let mut text = String::new();
        // What cannot be read says nothing.
        let _ = File::open(path.join(LOCK_FILE))
            .and_then(|file| file.take(64).read_to_string(&mut text));
        let mut words = text.split_whitespace();
        let process = words.next().unwrap_or("?").to_owned();
        let is_command = process == "?" || words.next() == Some(Self::Command.word());
        match is_command {
            true => (process, Self::Command),
            false => (process, Self::Server),
        }
    }
}

/// A data folder that this process alone serves, until this is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// The folder, or the highest one above it, that was made for it.
    made: Option<PathBuf>,
    _lock: Flock<File>,
}

impl DataDir {
    /// Makes the folder if it is missing, and locks it for a server.
    ///
    /// # Errors
    /// When it cannot be written, another server runs on it, or a command has it for long.
    pub(crate) fn open(path: &Path) -> Result<Self, ServerError> {
        Self::open_as(Holder::Server, path, SERVER_PATIENCE)
    }

    /// Makes the folder if it is missing, and locks it for a command, which waits for others.
    ///
    /// # Errors
    /// When it cannot be written, a server runs on it, or another command has it for long.
    pub(crate) fn open_for_command(path: &Path) -> Result<Self, ServerError> {
        Self::open_as(Holder::Command, path, COMMAND_PATIENCE)
    }

    fn open_as(holder: Holder, path: &Path, patience: Duration) -> Result<Self, ServerError> {
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
        let lock = wait_for_lock(path, patience)?;
        // For people, and for whoever waits.
        lock.set_len(0)
            .and_then(|()| writeln!(&*lock, "{} {}", std::process::id(), holder.word()))
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
            // Somebody may have put something there in the meantime.
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

/// Locks a folder, which is made if it is missing; waits that long for commands.
fn wait_for_lock(path: &Path, patience: Duration) -> Result<Flock<File>, ServerError> {
    let give_up = Instant::now() + patience;
    let mut seen = Holder::Command;
    loop {
        let fail = |error| ServerError::DataDir {
            path: path.to_owned(),
            error,
        };
        if let Some(lock) = try_lock(path).map_err(fail)? {
            return Ok(lock);
        }
        let (process, holder) = Holder::of(path);
        let is_late = Instant::now() >= give_up;
        let path = || path.to_owned();
        match holder {
            // A command that has just come may not have put its own words there yet.
            Holder::Server if is_late || seen == Holder::Server => {
                return Err(ServerError::DataDirInUse { path: path() });
            }
            Holder::Command if is_late => {
                return Err(ServerError::DataDirBusy {
                    path: path(),
                    process,
                });
            }
            Holder::Server | Holder::Command => {}
        }
        seen = holder;
        thread::sleep(RETRY);
    }
}

/// The lock of a folder, which is made if it is missing; `None` if somebody else has it.
fn try_lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path.join(LOCK_FILE))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// Whether a folder can become a data folder without anybody's files being in it: it is not there,
/// is empty, or has been one before.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn is_free(path: &Path) -> io::Result<bool> {
    /// What every data folder has in it.
    const OURS: [&str; 3] = [LOCK_FILE, ZONES, DECOY_KEY];
    /// What a new file system has in it.
    const NOBODYS: &str = "lost+found";
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    let mut is_empty = true;
    for entry in entries {
        let name = entry?.file_name();
        if OURS.iter().any(|ours| name == *ours) {
            return Ok(true);
        }
        is_empty &= name == NOBODYS;
    }
    Ok(is_empty)
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
    fn whoever_has_the_folder_is_told_for_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for (holder, is_server) in [(Holder::Server, true), (Holder::Command, false)] {
            let held = DataDir::open_as(holder, path, Duration::ZERO).unwrap();
            for other in [Holder::Server, Holder::Command] {
                let error = DataDir::open_as(other, path, Duration::ZERO).unwrap_err();
                let text = error.to_string();
                assert_eq!(text.contains("a server is running"), is_server, "{text}");
                let own = format!("stentor command (process {})", std::process::id());
                assert_eq!(text.contains(&own), !is_server, "{text}");
                assert_eq!(error.exit_code(), 75);
            }
            drop(held);
        }
        // As an older server has it, and as it is for a moment.
        for (text, expected) in [("17\n", Holder::Server), ("", Holder::Command)] {
            fs::write(path.join(LOCK_FILE), text).unwrap();
            assert_eq!(Holder::of(path).1, expected);
        }
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
