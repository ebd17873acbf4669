//! `DATA_DIR/control.sock`: how every command reaches a running server.
//!
//! One JSON object per line in each direction. A request has the version and a verb, and what the
//! verb needs: `{"v":1,"verb":"clients.show","client_id":"a"}`. An answer is `{"v":1,"ok":…}` or
//! `{"v":1,"error":"a sentence with a remedy","code":"not-found"}`. The crate `control` has the
//! types of requests and answers, and `Failure` there lists the codes. A connection may ask any
//! number of times.
//!
//! | verb | takes | answers |
//! |---|---|---|
//! | `health` | | whether the server is `healthy` and `ready`, with `reasons` |
//! | `status` | `sample_ms`: time to measure rates | counters, latencies, losses, listeners |
//! | `clients.ls` | `containing`, `zone`, `limit`, `offset` | `clients`, `total`, `truncated` |
//! | `clients.show` | `client_id`, `zone` | one client with its `filters` |
//! | `clients.kick` | `client_id`, `zone`, `end_session` | nothing; the session may stay |
//! | `clients.heaviest` | `zone`, `by`, `limit` | the `clients` that publish most |
//! | `sessions.queue` | `client_id`, `limit`, `cursor`, … | what waits for it, in pages |
//! | `why` | `client_id`, `topic`, `to`, `zone` | what keeps a message from a client |
//! | `events` | `after`, filters, `limit`, `wait_ms` | `events`, and the `cursor` to go on |
//! | `figures.history` | `figure`, `from_secs`, `to_secs`, `points` | `figures` over `times` |
//! | `figures.peaks` | `figure`, `days` | the peaks of `all` times and of each day |
//! | `bans.add` | the target, `for_secs`, `reason`, `force` | the `ban`, how many were `closed` |
//! | `bans.ls` | | the `bans` that hold |
//! | `bans.rm` | the target | the `ban` that held |
//! | `traces.start` | client, user, address, topic, zone, bounds | the `id` of the trace |
//! | `traces.ls` | | the `traces` that run, with who began each |
//! | `traces.read` | `id`, `after`, `wait_ms` | `lines`, `suppressed`, `cursor`, whether `ended` |
//! | `traces.stop` | `id` | nothing |
//! | `subscriptions` | `topic`, `zone`, `limit`, `cursor` | the `subscriptions` that match it |
//! | `topics` | `containing`, `limit`, `offset`, `zone` | `filters`, `retained` topics |
//! | `topics.children` | `below`, `after`, `limit`, `zone` | `names` of retained topics |
//! | `topics.heaviest` | `zone`, `by`, `limit` | the `topics` with most messages |
//! | `rooms.ls` | `zone`, `prefix`, `after`, `limit` | `rooms` of a zone, and the `next` page |
//! | `rooms.show` | `room`, `zone`, `after`, `limit` | a room, its `members` and properties |
//! | `rooms.kick`, `rooms.close` | `room`, `user`; `zone` | nothing; whether the room `stays` |
//! | `zones` | | what there is of each zone: connections, users, rooms, retained messages |
//! | `users.ls` | `zone`, `containing`, `after`, `limit` | `users` and the `next`; `configured` |
//! | `users.show`, `users.disable`, `users.enable`, `users.rm` | `name`, `zone` | the user |
//! | `users.add`, `users.set-password` | `name`, `zone`, `password`, `scram`, … | the user |
//! | `users.grant`, `users.revoke` | `name`, `zone`, `roles` | the user |
//! | `roles.ls`, `roles.show` | `zone`, `name` | `roles` with rules and quotas; one of them |
//! | `roles.add`, `roles.change`, `roles.rm` | `name`, `zone`, rules, quotas | the role |
//! | `tokens.ls`, `tokens.revoke` | `name`, `zone`; `id` | `tokens`, without their secrets |
//! | `tokens.create` | `name`, `zone`, `label`, `days` | the `id`, and the `token` this once |
//! | `zones.ls`, `zones.add`, `zones.rm` | `name`, `connections` | `zones` with their bounds |
//! | `adaptors.ls` | `zone` | `adaptors`: files, scopes, hooks, figures, what is refused |
//! | `adaptors.reload` | `fresh`: without what was kept; `file`, `zone` | what became of each |
//! | `certificates.ls` | | `listeners` with certificates: names, days left, their files |
//! | `procedures.ls` | | `procedures`: versions, figures, and why a file is not in use |
//! | `procedures.reload` | | what became of each file in `folder`, and what was `removed` |
//! | `publish` | `topic`, `payload`, `qos`, `retain`, `properties`, … | whether it is `kept` |
//! | `retained.page` | `filter`, `zone`, `cursor` | `messages`, and a `cursor` if there are more |
//! | `retained.history` | `topic`, `zone`, `ask`, `limit` | `messages`, their `epoch`, and `more` |
//! | `retained.filters` | `zone` | `filters` that cover all that is kept |
//! | `retained.put` | `messages`, `dry_run`, `anew` | `new`, `changed`, the `same`, `refused` |
//! | `retained.clear` | `filter`, `zone`, `cursor` | `cleared`, `refused`; perhaps a `cursor` |
//! | `retained.verify` | `stripe` | `whole`, `damaged`, `losses`, the `next` stripe, reports |
//! | `retained.status`, `retained.compact` | | figures; files removed |
//! | `config.effective` | `containing` | `values` with their sources; the `file` |
//! | `config.diff` | | the `changes` that a reload would make |
//! | `log.level` | `level`, `target`, `for_secs` | what the log takes now, and for how long |
//! | `log.show` | | the same |
//! | `log.tail` | `lines` | the last `lines` of the log |
//! | `login.link` | | a `url` that logs a browser in as the owner, once |
//! | `metrics` | | the page of `/metrics`, as `text` |
//! | `reload` | | keys `changed`, `renewed` certificates and JWT keys, keys that are `waiting` |
//! | `stop` | | nothing; the socket's file is gone when the server has stopped |
//! | `user.…`, `role.…`, `grant`, … | what an `Order` of the Auth Center has | what it shows |
//! | `mqtt` | | nothing; then the connection speaks MQTT, as administrator |
//!
//! A process that may connect is an administrator: the socket has mode 0600, and the other end must
//! be the server's own user or root. The connections are served by threads of their own, which
//! share the main thread's descriptor table.

mod accounts;
mod audit;
mod bans;
mod certificates;
mod clerk;
mod clients;
mod config;
mod events;
mod figures;
mod heaviest;
mod list;
mod log;
mod noted;
mod procedures;
mod protocol;
mod publish;
mod queue;
mod retained;
mod rooms;
mod serve;
mod session;
mod status;
mod subscriptions;
#[cfg(test)]
mod tests;
mod topics;
mod traces;
mod why;
mod zones;

pub(crate) use accounts::login;
pub(crate) use audit::Subject;
pub(crate) use bans::ban_flapping;
pub(crate) use clerk::Clerk;
pub(crate) use config::Loaded;
pub(crate) use noted::{Noted, Reader as NotesReader};

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use stentor_auth::store::Directory;
use stentor_retained::Quota;

use crate::condition::Condition;
use crate::config::PasswordFunction;
use crate::context::ServerContext;
use crate::data_dir::{self, DataDir};
use crate::error::ServerError;
use crate::fdtable::Table;
use crate::http::{self, HttpTls};
use crate::lifecycle::{Command, ReloadResult};
use crate::listener::Port;
use crate::log::Logger;
use crate::telemetry::FigureHistory;

/// The control socket of a running server.
pub(crate) struct Control {
    _file: SocketFile,
    notes: Arc<Mutex<Notes>>,
    admin: Arc<Admin>,
}

/// The control socket of a server that starts: whoever connects waits until it is served.
pub(crate) struct Entrance {
    listener: UnixListener,
    file: SocketFile,
}

impl Entrance {
    /// Opens the socket.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn open(data_dir: &DataDir) -> Result<Self, ServerError> {
        let path = data_dir.control_socket();
        let fail = |error| data_dir::failure(&path, error);
        // The folder is locked, so whoever made this file is dead.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(fail)?;
        let file = SocketFile(path.clone());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(fail)?;
        Ok(Self { listener, file })
    }
}

/// Takes the socket away: the server has stopped, or does not start after all. The data folder is
/// locked in the meantime, so nobody else made it.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What the main thread tells for `status`.
struct Notes {
    /// The open listeners.
    ports: Vec<Arc<Port>>,
    /// Those for calls.
    call_ports: Vec<Arc<Port>>,
    /// The encrypted addresses of HTTP, and their certificate.
    http: (Vec<String>, HttpTls),
    /// What the last reload came to.
    last_reload: Option<ReloadNote>,
    /// What new passwords are stored as.
    password_hash: PasswordFunction,
    /// The configuration file, and when it had been saved as it was read.
    file: Option<(PathBuf, SystemTime)>,
    /// The limits of all retained messages.
    quota: Quota,
    /// When the configuration was read without an error.
    read_at: SystemTime,
    /// What the server runs with, once it runs.
    loaded: Option<Loaded>,
    /// The log, once the server runs.
    logger: Option<Logger>,
    /// The history of the figures, once the server runs.
    figures: Option<Arc<FigureHistory>>,
}

impl Notes {
    /// The configuration file, if it was saved since it was read, and whether it is empty.
    fn newer_file(&self) -> Option<(String, bool)> {
        let (path, read) = self.file.as_ref()?;
        let is_newer = saved_at(path).is_some_and(|saved| saved != *read);
        let is_empty = || fs::metadata(path).is_ok_and(|it| it.len() == 0);
        is_newer.then(|| (path.display().to_string(), is_empty()))
    }
}

/// When a file was saved last.
fn saved_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|it| it.modified()).ok()
}

/// A reload that was tried.
struct ReloadNote {
    /// What caused the reload.
    cause: &'static str,
    at: SystemTime,
    result: ReloadResult,
}

/// What the threads that serve the control socket share.
struct Admin {
    context: Arc<ServerContext>,
    directory: Arc<Directory>,
    table: Table,
    commands: Mutex<Sender<Command>>,
    notes: Arc<Mutex<Notes>>,
    /// What connections of the verb `mqtt` come through.
    port: Arc<Port>,
    /// What sessions of callers by HTTP come through.
    http_port: Arc<Port>,
    condition: Arc<Condition>,
}

impl Control {
    /// Starts to serve the socket. To be called when the shards have their own descriptor tables;
    /// `table` says whether they do.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn start(
        entrance: Entrance,
        context: &Arc<ServerContext>,
        directory: &Arc<Directory>,
        table: Table,
        condition: &Arc<Condition>,
        commands: &Sender<Command>,
    ) -> Result<Self, ServerError> {
        let notes = Arc::new(Mutex::new(Notes {
            ports: Vec::new(),
            call_ports: Vec::new(),
            http: (Vec::new(), HttpTls::default()),
            last_reload: None,
            password_hash: PasswordFunction::default(),
            file: None,
            quota: Quota::UNLIMITED,
            read_at: SystemTime::now(),
            loaded: None,
            logger: None,
            figures: None,
        }));
        let admin = Admin {
            context: Arc::clone(context),
            directory: Arc::clone(directory),
            table,
            commands: Mutex::new(commands.clone()),
            notes: Arc::clone(&notes),
            port: Arc::new(Port::control()),
            http_port: Arc::new(Port::http()),
            condition: Arc::clone(condition),
        };
        let admin = Arc::new(admin);
        serve::start(entrance.listener, Arc::clone(&admin))
            .map_err(|error| ServerError::system("starting the control thread", error))?;
        Ok(Self {
            _file: entrance.file,
            notes,
            admin,
        })
    }

    /// Remembers which listeners are open, for `status`.
    pub(crate) fn note_ports<'a>(&self, ports: impl Iterator<Item = &'a Arc<Port>>) {
        lock(&self.notes).ports = ports.cloned().collect();
    }

    /// Remembers what else is open that may be encrypted: listeners for calls, and HTTP.
    pub(crate) fn note_others<'a>(
        &self,
        calls: impl Iterator<Item = &'a Arc<Port>>,
        http: &http::HttpListeners,
    ) {
        let mut notes = lock(&self.notes);
        notes.call_ports = calls.cloned().collect();
        notes.http = (http.encrypted(), http.tls());
    }

    /// Remembers the log, whose level can be changed for a while.
    pub(crate) fn note_log(&self, logger: &Logger) {
        lock(&self.notes).logger = Some(logger.clone());
    }

    /// Remembers where the history of the figures is.
    pub(crate) fn note_figures(&self, figures: &Arc<FigureHistory>) {
        lock(&self.notes).figures = Some(Arc::clone(figures));
    }

    /// Remembers what the server runs with.
    pub(crate) fn note_loaded(&self, loaded: Loaded) {
        lock(&self.notes).loaded = Some(loaded);
    }

    /// Remembers the limits of all retained messages, for the metrics.
    pub(crate) fn note_quota(&self, quota: Quota) {
        lock(&self.notes).quota = quota;
    }

    /// What the main thread notes from now on, for others to read.
    pub(crate) fn reader(&self) -> NotesReader {
        NotesReader::of(&self.notes)
    }

    /// Carries out the same verbs for others.
    pub(crate) fn clerk(&self) -> Clerk {
        Clerk::new(Arc::clone(&self.admin))
    }

    /// Remembers what new passwords are stored as, for the commands that make them.
    pub(crate) fn note_password_hash(&self, function: PasswordFunction) {
        lock(&self.notes).password_hash = function;
    }

    /// Remembers the configuration file that is applied, for `status`.
    pub(crate) fn note_file(&self, file: Option<&Path>) {
        let saved = |path: &Path| Some((path.to_owned(), saved_at(path)?));
        lock(&self.notes).file = file.and_then(saved);
    }

    /// Whether the last reload that was noted has failed.
    pub(crate) fn last_reload_failed(&self) -> bool {
        let notes = lock(&self.notes);
        let last = notes.last_reload.as_ref();
        last.is_some_and(|note| note.result.is_err())
    }

    /// Remembers what a reload came to, for `status`.
    pub(crate) fn note_reload(&self, cause: &'static str, result: &ReloadResult) {
        let note = ReloadNote {
            cause,
            at: SystemTime::now(),
            result: result.clone(),
        };
        let mut notes = lock(&self.notes);
        if note.result.is_ok() {
            notes.read_at = note.at;
        }
        notes.last_reload = Some(note);
        // A file that was tried counts as read, also if it was not taken.
        if let Some((path, seen)) = &mut notes.file
            && let Some(saved) = saved_at(path)
        {
            *seen = saved;
        }
    }
}

/// Every note is written in one piece, so it is whole after any panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
