//! `DATA_DIR/control.sock`: how every command reaches a running server.
//!
//! One JSON object per line in each direction. A request has the version and a verb, and what the
//! verb needs: `{"v":1,"verb":"clients.show","client_id":"a"}`. An answer has either
//! `{"v":1,"ok":…}` or `{"v":1,"error":{"code":"not-found","message":"…"}}`. After the answer to
//! the verb `mqtt`, the connection speaks MQTT, as administrator.
//!
//! Whoever may connect is administrator: the socket has mode 0600, and the other end must be the
//! server's own user or root. The connections are served by threads of their own, which share the
//! main thread's descriptor table.

mod clients;
mod protocol;
mod serve;
mod status;
mod topics;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backplane::Backplane;
use crate::data_dir::{self, DataDir};
use crate::error::ServerError;
use crate::lifecycle::{Command, ReloadResult};
use crate::listener::Port;

/// The control socket of a running server.
pub(crate) struct Control {
    path: PathBuf,
    last_reload: LastReload,
}

/// What the last reload came to: (who asked, how it went).
type LastReload = Arc<Mutex<Option<(&'static str, ReloadResult)>>>;

/// What the threads that serve the control socket share.
struct Desk {
    backplane: Arc<Backplane>,
    commands: Mutex<Sender<Command>>,
    last_reload: LastReload,
    /// What connections of the verb `mqtt` come through.
    port: Arc<Port>,
}

impl Control {
    /// Opens the socket and starts to serve it.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn start(
        data_dir: &DataDir,
        backplane: &Arc<Backplane>,
        commands: &Sender<Command>,
    ) -> Result<Self, ServerError> {
        let path = data_dir.control_socket();
        let fail = |error| data_dir::failure(&path, error);
        // The folder is locked, so whoever made this file is dead.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(fail)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(fail)?;
        let last_reload = LastReload::default();
        let desk = Desk {
            backplane: Arc::clone(backplane),
            commands: Mutex::new(commands.clone()),
            last_reload: Arc::clone(&last_reload),
            port: Arc::new(Port::control()),
        };
        serve::start(listener, Arc::new(desk))
            .map_err(|error| ServerError::system("starting the control thread", error))?;
        Ok(Self { path, last_reload })
    }

    /// Remembers what a reload came to, for `status`.
    pub(crate) fn note_reload(&self, who: &'static str, result: &ReloadResult) {
        let mut last = self
            .last_reload
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some((who, result.clone()));
    }

    /// Takes the socket away: the server has stopped.
    pub(crate) fn end(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
