//! Taking a changed configuration over without dropping a connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use serde_json::{Map, Value, json};
use stentor_auth::center::{Center, CenterSettings};
use stentor_auth::credential::jwt::Issuer;
use stentor_auth::store::{Directory, Who};
use stentor_hub::ZoneSettings;
use tracing::{info, warn};

use super::announce;
use super::open_listeners::{self, OpenListener, OpenListeners};
use super::retained;
use super::watch::FILE_CHANGED;
use crate::accounts;
use crate::bans::Rule;
use crate::config::{self, Config, Diff, Jwt, ListenUrl, MemoryLimit, Reload, Sources, diff};
use crate::context::ServerContext;
use crate::error::ServerError;
use crate::http::{self, HttpTls};
use crate::listener::{Access, Opened, Port, Rules};
use crate::log::Logger;
use crate::logins;
use crate::shard::{Incoming, Policy, ShardCommand};
use crate::transport::Certificate;
use crate::zones;

/// What a reload came to, or why the old configuration stays.
pub(crate) type ReloadResult = Result<Reloaded, String>;

/// A reload that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Keys that hold now.
    pub(crate) changed: Vec<String>,
    /// Listeners whose certificate, key or authority was replaced in its file, and files with keys
    /// of web tokens that were.
    pub(crate) renewed: Vec<String>,
    /// Keys whose new value waits for a restart.
    pub(crate) waiting: Vec<String>,
}

impl Reloaded {
    /// Whether everything was as it is.
    pub(crate) fn is_nothing(&self) -> bool {
        self.changed.is_empty() && self.renewed.is_empty() && self.waiting.is_empty()
    }

    /// Says in the log what was done.
    pub(super) fn log(&self, who: &str) {
        if self.is_nothing() {
            info!("configuration reloaded ({who}): nothing has changed");
        }
        if !self.changed.is_empty() {
            info!(
                "configuration reloaded ({who}): {}",
                self.changed.join(", ")
            );
        }
        if !self.renewed.is_empty() {
            info!(
                "new certificates or keys were read ({who}), of {}: clients that connect from now \
                 on get them",
                self.renewed.join(", ")
            );
        }
        if !self.waiting.is_empty() {
            warn!(
                "these keys hold after a restart only: {}",
                self.waiting.join(", ")
            );
        }
    }
}

/// What a reload changes, and from what.
pub(super) struct Reloader {
    /// What the server was started with: what its keys of the class `restart` still hold.
    pub(super) started: Config,
    /// What was taken over last.
    pub(super) config: Config,
    pub(super) sources: Sources<'static>,
    pub(super) logger: Logger,
    pub(super) center: Arc<Center>,
    pub(super) directory: Arc<Directory>,
    pub(super) open_listeners: OpenListeners,
    /// To the thread that publishes `$SYS`.
    pub(super) intervals: Sender<Duration>,
    /// To the thread that looks at memory.
    pub(super) memory_limits: Sender<MemoryLimit>,
    /// The certificate of HTTP for operators.
    pub(super) http_tls: HttpTls,
    /// Whether the last reload was refused: the next one is noted, whatever it changes.
    pub(super) was_refused: bool,
}

/// Everything that can fail, done before anything is changed.
struct Prepared {
    /// New rules for the listeners that stay open.
    rules: Vec<Kept>,
    opened: Vec<(OpenListener, Vec<Opened>)>,
    closed: Vec<usize>,
    /// What the files of Unix sockets that stay open are given.
    access: Vec<(PathBuf, Access)>,
    /// The certificate of HTTP for operators, where it is encrypted.
    http: Option<Certificate>,
}

/// New rules for a listener that stays open.
struct Kept {
    /// The listener as the configuration names it.
    configured: ListenUrl,
    ports: Vec<(Arc<Port>, Rules)>,
}

impl Kept {
    /// Whether the certificate is another one than before.
    fn is_renewed(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|(port, new)| port.rules.load().certificate != new.certificate)
    }
}

impl Prepared {
    /// Undoes what was prepared: sockets close by themselves, but their files do not go.
    fn abandon(self) {
        for (open_listener, _) in self.opened {
            open_listener.remove_file();
        }
    }
}

impl Reloader {
    /// Loads the configuration again and takes it over, all or nothing.
    pub(super) fn reload(
        &mut self,
        who: &Who,
        cause: &str,
        context: &ServerContext,
    ) -> ReloadResult {
        let new = Config::load(&self.sources).map_err(|error| error.to_string())?;
        let diff = diff(&self.config, &new);
        let prepared = self
            .prepare(&new, &diff, context.shard_count())
            .map_err(|error| error.at_reload())?;
        // All or nothing as well.
        let zones = zones::settings(&new, &self.center).map_err(|error| error.to_string());
        let settings = logins::settings(&new).map_err(|error| error.to_string());
        let configure = || context.adaptors.configure(&new, &self.directory);
        let renewed = self.renewed(&prepared);
        let keys = settings
            .as_ref()
            .map(|settings| self.new_keys(&new, settings));
        let keys = keys.unwrap_or_default();
        let zones = match (settings, zones) {
            // Adaptors come last: it is they who may refuse only when all else is well.
            (Ok(settings), Ok(zones)) => match configure() {
                Ok(()) => {
                    self.center.configure(settings);
                    zones
                }
                Err(error) => {
                    prepared.abandon();
                    return Err(error.to_string());
                }
            },
            (Err(error), _) | (_, Err(error)) => {
                prepared.abandon();
                return Err(error);
            }
        };
        self.directory.pin(accounts::pinned(&new));
        accounts::configure(&self.directory, &new);
        self.apply(&new, prepared, zones, context);
        let live = diff
            .changes
            .iter()
            .filter(|change| change.reload != Reload::Restart);
        let reloaded = Reloaded {
            changed: live.map(|change| change.path.clone()).collect(),
            renewed: renewed.into_iter().chain(keys).collect(),
            // Against what the process runs with, not what was read last.
            waiting: config::diff(&self.started, &new)
                .restart()
                .map(str::to_owned)
                .collect(),
        };
        let was_refused = std::mem::take(&mut self.was_refused);
        if was_refused
            || cause != FILE_CHANGED
            || !(reloaded.changed.is_empty() && reloaded.renewed.is_empty())
        {
            self.note(who, &reloaded, &new);
        }
        self.config = new;
        Ok(reloaded)
    }

    /// Writes down what holds now, for some of it is about rights, as certificates and keys are,
    /// and the roles of users of the configuration who are not as before.
    fn note(&self, who: &Who, reloaded: &Reloaded, new: &Config) {
        let [before, now] = [&self.config, new].map(accounts::pinned);
        let mut users = Map::new();
        for user in before.iter().filter(|user| !now.contains(user)) {
            users.insert(user.key().to_string(), Value::Null);
        }
        for user in now.iter().filter(|user| !before.contains(user)) {
            users.insert(user.key().to_string(), json!(user.roles));
        }
        let detail = json!({
            "changed": reloaded.changed,
            "renewed": reloaded.renewed,
            "users": users,
        });
        self.directory
            .note(who, "config.reload", "configuration", detail);
    }

    /// Writes down that somebody wanted other settings and did not get them.
    pub(super) fn note_failure(&mut self, who: &Who, reason: &str) {
        self.was_refused = true;
        let detail = json!({ "outcome": "refused", "reason": reason });
        self.directory
            .note(who, "config.reload", "configuration", detail);
    }

    fn prepare(&self, new: &Config, diff: &Diff, shards: u8) -> Result<Prepared, ServerError> {
        let mut prepared = Prepared {
            rules: Vec::new(),
            opened: Vec::new(),
            closed: Vec::new(),
            access: Vec::new(),
            http: http::certificate(&self.started.http)?,
        };
        // Certificates are read again even where no key has changed.
        for (from, to) in &diff.listeners_kept {
            let listener = &new.listeners[*to];
            if let Some(path) = listener.url.unix_path() {
                let access = Access::of(listener, path)?;
                prepared.access.push((path.to_owned(), access));
            }
            let certificate = open_listeners::certificate(listener)?;
            open_listeners::warn_of_slow(&listener.url, certificate.as_ref());
            let Some(open_listener) = self.open_listeners.find(&self.config.listeners, *from)
            else {
                continue;
            };
            let rules = |port: &Arc<Port>| {
                let rules = Rules::of(listener, &port.url, certificate.clone());
                (Arc::clone(port), rules)
            };
            prepared.rules.push(Kept {
                configured: open_listener.configured.clone(),
                ports: open_listener.ports.iter().map(rules).collect(),
            });
        }
        for index in &diff.listeners_removed {
            let place = self.open_listeners.place(&self.config.listeners, *index);
            prepared.closed.extend(place);
        }
        // Those of procedures wait for a restart.
        let added = diff.listeners_added.iter();
        for index in added.filter(|index| !new.listeners[**index].url.is_call()) {
            match open_listeners::open(&new.listeners[*index], shards) {
                Ok(opened) => prepared.opened.push(opened),
                Err(error) => {
                    prepared.abandon();
                    return Err(error);
                }
            }
        }
        Ok(prepared)
    }

    /// The listeners whose certificate is another one than before, under the name of their key.
    fn renewed(&self, prepared: &Prepared) -> Vec<String> {
        let renewed = prepared.rules.iter().filter(|kept| kept.is_renewed());
        let renewed = renewed.map(|kept| kept.configured.to_string());
        let is_http = self.http_tls.load().as_deref() != prepared.http.as_ref();
        let http = is_http.then(|| "http.listen".to_owned());
        renewed.chain(http).collect()
    }

    /// The files that hold other keys of web tokens than before, though no key of the configuration
    /// says so.
    fn new_keys(&self, new: &Config, settings: &CenterSettings) -> Vec<String> {
        let issuers = new.jwts.iter().zip(&settings.issuers).enumerate();
        let is_new = |place: usize, jwt: &Jwt, issuer: &Issuer| {
            self.config.jwts.get(place) == Some(jwt) && self.center.has_other_keys(place, issuer)
        };
        let renewed = issuers.filter(|(place, (jwt, issuer))| is_new(*place, jwt, issuer));
        let files =
            renewed.filter_map(|(_, (jwt, _))| jwt.key_file.as_ref().or(jwt.jwks_file.as_ref()));
        files.map(|file| file.display().to_string()).collect()
    }

    fn apply(
        &mut self,
        new: &Config,
        prepared: Prepared,
        zones: Vec<ZoneSettings>,
        context: &ServerContext,
    ) {
        for (port, rules) in prepared.rules.into_iter().flat_map(|kept| kept.ports) {
            port.rules.store(Arc::new(rules));
        }
        self.http_tls.store(prepared.http.map(Arc::new));
        for (path, access) in prepared.access {
            // Where this process may not, the file stays as it was.
            if let Err(error) = access.set(&path) {
                warn!("{error}");
            }
        }
        context.admission.reconfigure(&new.limits);
        context.journal.flapping().set(Rule::of(&new.limits));
        let (total, zone) = retained::quotas(new);
        context.retained.set_quotas(total, zone);
        context.topic_bounds.set(&new.limits);
        let policy = Arc::new(Policy::of(new, zones, context.shard_count()));
        for shard in 0..context.shards.len() {
            context.post(shard, ShardCommand::Configure(Arc::clone(&policy)));
            context.post(shard, ShardCommand::Adaptors(context.adaptors.if_any()));
        }
        self.close(prepared.closed, context);
        for (open_listener, opened) in prepared.opened {
            for (port, sockets) in opened {
                hand_over(context, &port, sockets);
                announce::opened(&port);
            }
            announce::print(open_listener.ports.iter().map(|port| &**port));
            self.open_listeners.mqtt.push(open_listener);
        }
        self.logger.set_level(new.log.level);
        // The thread lives as long as this sender.
        let _ = self.intervals.send(new.sys.interval);
        let _ = self.memory_limits.send(new.limits.memory);
        context.alarm.ring();
    }

    fn close(&mut self, mut indexes: Vec<usize>, context: &ServerContext) {
        indexes.sort_unstable();
        for index in indexes.into_iter().rev() {
            let open_listener = self.open_listeners.mqtt.remove(index);
            open_listener.remove_file();
            for port in open_listener.ports {
                for shard in 0..context.shards.len() {
                    context.post(shard, ShardCommand::Unlisten(Arc::clone(&port)));
                }
                info!("closed {}", port.url);
            }
        }
    }
}

/// Gives each shard its socket of a new listener.
fn hand_over(context: &ServerContext, port: &Arc<Port>, sockets: Vec<std::os::fd::OwnedFd>) {
    for (shard, socket) in sockets.into_iter().enumerate() {
        let incoming = Incoming::Listener(Arc::clone(port));
        if let Err(errno) = context.send(shard, incoming, socket) {
            warn!(
                "shard {shard} did not take the new listener {}: {errno}",
                port.url
            );
        }
    }
}
