//! Why the server does not start.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use crate::config::ListenUrl;
use crate::exit::ServerExit;

/// Why the server did not start: one sentence with its remedy, and an exit code.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another program listens there.
    #[error(
        "{url} is taken: another program listens there; stop it, or choose another port with \
         --listen"
    )]
    PortTaken {
        /// The listener.
        url: ListenUrl,
    },
    /// A port below 1024 without the right to it.
    #[error(
        "{url} may not be opened: ports below 1024 need the capability CAP_NET_BIND_SERVICE; grant \
         it or choose a higher port"
    )]
    PortForbidden {
        /// The listener.
        url: ListenUrl,
    },
    /// No address of this machine.
    #[error("{url} cannot be opened: {error}; check that the host is an address of this machine")]
    Bind {
        /// The listener.
        url: ListenUrl,
        /// What the system says.
        error: io::Error,
    },
    /// Another program has an address of HTTP that the configuration names.
    #[error(
        "{url} is taken: another program listens there; stop it, or choose another address with \
         `http.listen` (--http)"
    )]
    HttpTaken {
        /// The address.
        url: String,
    },
    /// An address of HTTP that cannot be opened.
    #[error("{url} cannot be opened: {error}; choose another address with `http.listen` (--http)")]
    Http {
        /// The address.
        url: String,
        /// What the system says.
        error: io::Error,
    },
    /// A certificate or key for https that cannot be used.
    #[error("the certificate of {url} cannot be used: {reason}")]
    HttpCertificate {
        /// The address.
        url: String,
        /// What is wrong, with a remedy.
        reason: String,
    },
    /// Procedures, or who may call them.
    #[error("procedures: {0}")]
    Procedures(String),
    /// An adaptor.
    #[error("adaptor: {0}; `stentor adaptor check FILE` tells more")]
    Adaptor(String),
    /// A Unix socket that another server listens on.
    #[error("{url} is taken: a running program listens there; stop it, or choose another path")]
    SocketTaken {
        /// The listener.
        url: ListenUrl,
    },
    /// A path that cannot hold a Unix socket.
    #[error("{url} cannot be opened: {reason}")]
    SocketPath {
        /// The listener.
        url: ListenUrl,
        /// What is wrong, with a remedy.
        reason: String,
    },
    /// A folder in which this user may not make a Unix socket.
    #[error(
        "{url} may not be opened: this user may not write in {}; let it (chown, chmod), or choose \
         another path",
        folder.display()
    )]
    SocketForbidden {
        /// The listener.
        url: ListenUrl,
        /// The folder of its path.
        folder: PathBuf,
    },
    /// Something other than a socket at the path of a Unix socket.
    #[error("{} is there already and no socket; remove it, or choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// An owner or group of a Unix socket that this machine does not know.
    #[error("the owner or group of {} cannot be set: {reason}", path.display())]
    SocketAccount {
        /// The path.
        path: PathBuf,
        /// What is wrong, with a remedy.
        reason: String,
    },
    /// Owner, group or mode of a Unix socket.
    #[error("the owner or permissions of {} cannot be set: {reason}", path.display())]
    SocketOwner {
        /// The path.
        path: PathBuf,
        /// What is wrong, with a remedy.
        reason: String,
    },
    /// A certificate or key that cannot be used.
    #[error("the certificate of {url} cannot be used: {reason}")]
    Certificate {
        /// The listener.
        url: ListenUrl,
        /// What is wrong, with a remedy.
        reason: String,
    },
    /// The data folder cannot be made or written.
    #[error(
        "the data folder {} cannot be used: {error}; make it writable for this user, or choose \
         another with --data-dir",
        path.display()
    )]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The data folder lies too deep for the control socket in it.
    #[error(
        "the data folder {} cannot be used: its path has {bytes} bytes, and {bytes_max} at most \
         leave room for the control socket in it; choose another with --data-dir",
        path.display()
    )]
    DataDirTooDeep {
        /// The folder.
        path: PathBuf,
        /// The length of its path.
        bytes: usize,
        /// The longest path that is taken.
        bytes_max: usize,
    },
    /// A second server on the same folder.
    #[error(
        "a server is running on the data folder {path} already; stop it with `stentor stop \
         --data-dir {path}`, or choose another folder with --data-dir",
        path = path.display()
    )]
    DataDirInUse {
        /// The folder.
        path: PathBuf,
    },
    /// A command works on the folder.
    #[error(
        "another stentor command (process {process}) has the data folder {} open; try again when \
         it has ended",
        path.display()
    )]
    DataDirBusy {
        /// The folder.
        path: PathBuf,
        /// Its process, as the lock file names it.
        process: String,
    },
    /// Something else uses the folder of the retained messages.
    #[error(
        "another server, or a `stentor retained` command, uses the folder of retained messages {}; \
         end that, or give this server a folder of its own with `retained.dir`",
        path.display()
    )]
    RetainedDirInUse {
        /// The folder.
        path: PathBuf,
    },
    /// The retained messages cannot be read.
    #[error(
        "the retained messages in {} cannot be used: {reason}; correct that, choose another \
         folder with `retained.dir`, or move this one away to start without retained messages",
        path.display()
    )]
    RetainedDir {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Something else uses the folder of the sessions.
    #[error(
        "another server uses the folder of sessions {}; end that, or give this server a folder of \
         its own with `sessions.dir`",
        path.display()
    )]
    SessionsDirInUse {
        /// The folder.
        path: PathBuf,
    },
    /// The sessions cannot be read.
    #[error(
        "the sessions in {} cannot be used: {reason}; correct that, choose another folder with \
         `sessions.dir`, or move this one away to start without sessions",
        path.display()
    )]
    SessionsDir {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file with keys for tokens.
    #[error("[[jwt]]: {0}")]
    Keys(#[from] stentor_auth::credential::jwt::KeyError),
    /// The database of users.
    #[error("{0}; see [auth] in docs/configuration.md")]
    Store(#[from] stentor_auth::store::StoreError),
    /// The system gives no thread, descriptor or the like.
    #[error("{what} failed: {error}{}", remedy(error))]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

/// What to do about an error of the system, where that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE) => {
            "; raise the limit of open files (`ulimit -n`, or LimitNOFILE= of the service)"
        }
        _ => "",
    }
}

impl ServerError {
    /// The same for a reload: the file names its listeners.
    pub(crate) fn at_reload(&self) -> String {
        match self {
            Self::PortTaken { url } => format!(
                "{url} is taken: another program listens there; stop it, or choose another port in \
                 the file"
            ),
            _ => self.to_string(),
        }
    }

    /// The exit code of the process.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        self.exit() as u8
    }

    const fn exit(&self) -> ServerExit {
        match self {
            Self::PortTaken { .. } | Self::SocketTaken { .. } | Self::HttpTaken { .. } => {
                ServerExit::Taken
            }
            Self::System { .. } => ServerExit::System,
            Self::DataDir { .. }
            | Self::DataDirTooDeep { .. }
            | Self::RetainedDir { .. }
            | Self::SessionsDir { .. } => ServerExit::Folder,
            Self::DataDirInUse { .. }
            | Self::DataDirBusy { .. }
            | Self::RetainedDirInUse { .. }
            | Self::SessionsDirInUse { .. } => ServerExit::Busy,
            Self::PortForbidden { .. }
            | Self::SocketForbidden { .. }
            | Self::SocketOwner { .. } => ServerExit::Permission,
            Self::Bind { .. }
            | Self::SocketPath { .. }
            | Self::NotASocket { .. }
            | Self::SocketAccount { .. }
            | Self::Certificate { .. }
            | Self::Http { .. }
            | Self::HttpCertificate { .. }
            | Self::Procedures(_)
            | Self::Adaptor(_)
            | Self::Keys(_)
            | Self::Store(_) => ServerExit::Configuration,
        }
    }

    /// A failure of the system itself.
    pub(crate) fn system(what: &'static str, error: impl Into<io::Error>) -> Self {
        Self::System {
            what,
            error: error.into(),
        }
    }
}
