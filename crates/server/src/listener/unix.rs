//! Unix socket listeners.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, chown};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::config::{ListenUrl, Listener};
use crate::error::ServerError;

/// Opens a Unix socket with its owner, group and mode. A socket file that a dead server left is
/// replaced; that of a running one is not.
///
/// # Errors
/// When the path is taken or cannot be used.
pub(super) fn bind(listener: &Listener, path: &Path) -> Result<OwnedFd, ServerError> {
    let access = || Access::of(listener, path);
    open(&listener.url, path, access)
}

/// The same for one of the server's own group, whose members may connect.
///
/// # Errors
/// When the path is taken or cannot be used.
pub(crate) fn bind_plain(path: &Path) -> Result<OwnedFd, ServerError> {
    let url = ListenUrl::Unix(path.to_owned());
    open(&url, path, || Ok(Access::PLAIN))
}

fn open(
    url: &ListenUrl,
    path: &Path,
    access: impl FnOnce() -> Result<Access, ServerError>,
) -> Result<OwnedFd, ServerError> {
    let fail = |error| refused(url, path, &error);
    check(url, path)?;
    clear(path, url)?;
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::UNIX, kind, None).map_err(fail)?;
    let address = SockAddr::unix(path).map_err(fail)?;
    socket.bind(&address).map_err(fail)?;
    // Nobody can connect before `listen`, so the permissions are in place in time.
    if let Err(error) = access().and_then(|access| access.set(path)) {
        remove(path);
        return Err(error);
    }
    socket.listen(super::bind::BACKLOG).map_err(fail)?;
    Ok(socket.into())
}

/// The bytes that a Unix socket's path may have: what the system's address holds, without the NUL
/// at its end.
pub(crate) const PATH_BYTES_MAX: usize =
    size_of::<libc::sockaddr_un>() - std::mem::offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Whether a socket can stand at this path at all. Changes nothing.
///
/// # Errors
/// When the path is too long, or there is no folder to hold it.
pub(crate) fn check(url: &ListenUrl, path: &Path) -> Result<(), ServerError> {
    let fail = |reason| ServerError::SocketPath {
        url: url.clone(),
        reason,
    };
    let bytes = path.as_os_str().len();
    if bytes > PATH_BYTES_MAX {
        return Err(fail(format!(
            "its path has {bytes} bytes, and that of a Unix socket {PATH_BYTES_MAX} at most; \
             choose a shorter one"
        )));
    }
    let folder = folder_of(path);
    if folder.is_dir() {
        return Ok(());
    }
    let folder = folder.display();
    Err(fail(format!(
        "there is no folder {folder}; make it (mkdir -p {folder}), or choose another path"
    )))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// What the system's refusal means.
fn refused(url: &ListenUrl, path: &Path, error: &io::Error) -> ServerError {
    let url = url.clone();
    if error.kind() == io::ErrorKind::PermissionDenied {
        let folder = folder_of(path).to_owned();
        return ServerError::SocketForbidden { url, folder };
    }
    let reason = format!("{error}; choose another path");
    ServerError::SocketPath { url, reason }
}

/// Removes a socket file that nobody listens on.
fn clear(path: &Path, url: &ListenUrl) -> Result<(), ServerError> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !metadata.file_type().is_socket() {
        return Err(ServerError::NotASocket {
            path: path.to_owned(),
        });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| refused(url, path, &error))
        }
        _ => Err(ServerError::SocketTaken { url: url.clone() }),
    }
}

/// The owner, group and permissions of a Unix socket, which decide what may connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    owner: Option<Uid>,
    group: Option<Gid>,
    mode: u32,
}

impl Access {
    /// The server's own user and group.
    const PLAIN: Self = Self {
        owner: None,
        group: None,
        mode: 0o660,
    };

    /// What a listener is configured with.
    ///
    /// # Errors
    /// When this machine has no such user or group.
    pub(crate) fn of(listener: &Listener, path: &Path) -> Result<Self, ServerError> {
        let fail = |reason| ServerError::SocketAccount {
            path: path.to_owned(),
            reason,
        };
        Ok(Self {
            owner: listener
                .owner
                .as_deref()
                .map(find_user)
                .transpose()
                .map_err(fail)?,
            group: listener
                .group
                .as_deref()
                .map(find_group)
                .transpose()
                .map_err(fail)?,
            mode: listener.mode,
        })
    }

    /// Gives it to the socket's file.
    ///
    /// # Errors
    /// When this process may not.
    pub(crate) fn set(self, path: &Path) -> Result<(), ServerError> {
        if self.owner.is_some() || self.group.is_some() {
            chown(path, self.owner, self.group).map_err(|errno| {
                let reason = format!(
                    "{}; only root can give a file away, and a group must be one of this user's",
                    errno.desc()
                );
                failure(path, reason)
            })?;
        }
        // After the owner: a change of owner may take permissions away.
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))
            .map_err(|error| failure(path, error.to_string()))
    }
}

fn failure(path: &Path, reason: String) -> ServerError {
    let path = path.to_owned();
    ServerError::SocketOwner { path, reason }
}

/// A user by name or number.
fn find_user(name: &str) -> Result<Uid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Uid::from_raw(number));
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid),
        _ => Err(format!(
            "there is no user {name} on this machine; correct `owner`"
        )),
    }
}

/// A group by name or number.
fn find_group(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(format!(
            "there is no group {name} on this machine; correct `group`"
        )),
    }
}

/// Removes the file of a listener that is closed.
pub(crate) fn remove(path: &Path) {
    // If it is gone already, that is what was wanted.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    fn listener(path: &Path) -> Listener {
        Listener {
            url: ListenUrl::Unix(path.to_owned()),
            ..crate::listener::configured()
        }
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_named() {
        let path = Path::new("/run/mqtt/stentor.sock");
        let url = ListenUrl::Unix(path.to_owned());
        let denied = refused(&url, path, &io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.exit_code(), 77);
        assert!(denied.to_string().contains("may not write in /run/mqtt;"));
        let other = refused(&url, path, &io::ErrorKind::ReadOnlyFilesystem.into());
        assert_eq!(other.exit_code(), 78);
        assert!(other.to_string().contains("choose another path"), "{other}");
    }

    #[test]
    fn a_dead_servers_file_is_replaced_and_a_live_ones_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stentor.sock");
        let listener = Listener {
            mode: 0o600,
            ..listener(&path)
        };
        drop(UnixListener::bind(&path).unwrap());
        let live = bind(&listener, &path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(matches!(
            bind(&listener, &path),
            Err(ServerError::SocketTaken { .. })
        ));
        drop(live);
        bind(&listener, &path).unwrap();
    }

    #[test]
    fn other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(
            bind(&listener(&path), &path),
            Err(ServerError::NotASocket { .. })
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_path_that_cannot_hold_a_socket_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/stentor.sock");
        let error = bind(&listener(&missing), &missing).unwrap_err();
        assert!(error.to_string().contains("mkdir -p"), "{error}");
        let long = Path::new("/").join("x".repeat(PATH_BYTES_MAX));
        let error = bind(&listener(&long), &long).unwrap_err();
        assert!(error.to_string().contains("shorter"), "{error}");
        let fits = folder.path().join("x");
        let padding = PATH_BYTES_MAX - fits.as_os_str().len();
        let fits = folder.path().join("x".repeat(padding + 1));
        bind(&listener(&fits), &fits).unwrap();
    }

    /// No restart would correct it: the unit of systemd does not try.
    #[test]
    fn an_unknown_group_is_an_error_of_the_configuration() {
        let path = Path::new("/x/s.sock");
        let mut listener = listener(path);
        listener.group = Some("no such group".to_owned());
        let error = Access::of(&listener, path).unwrap_err();
        assert_eq!(error.exit_code(), 78, "{error}");
    }

    #[test]
    fn owners_are_names_or_numbers() {
        assert_eq!(find_user("root").unwrap().as_raw(), 0);
        assert_eq!(find_user("4711").unwrap().as_raw(), 4711);
        assert!(
            find_group("no such group")
                .unwrap_err()
                .contains("correct `group`")
        );
    }
}
