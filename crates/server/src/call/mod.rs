//! Calls of procedures: listeners, connections, and who calls.
//!
//! Over MQTT calls come from the shards, through [`CallQueue`].
//!
//! None of this runs on a shard. One thread owns the listeners and their connections; what is
//! built in runs there, everything else on the threads of its procedure. All of them share the
//! main thread's table of descriptors, which is what makes a received file usable: a descriptor is
//! valid only in the table that received it.

mod answers;
mod body;
mod callers;
mod clients;
mod closers;
mod connection;
mod crowd;
mod entrance;
mod groups;
mod identity;
mod mail;
mod mounts;
mod outlets;
mod queue;
mod serve;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stentor_auth::calendar::Utc;
use stentor_auth::center::Center;
use stentor_procedure::{Loaded, Outside, Registry, Settings, Since, Trust};
use tracing::{info, warn};

use crate::clock::Clock;
use crate::config::{ListenUrl, Listener, Procedures};
use crate::context::ServerContext;
use crate::data_dir::DataDir;
use crate::error::ServerError;
use crate::listener::Opened;
pub(crate) use answers::Reply;
use body::Bodies;
use clients::Switchboard;
use entrance::Entrance;
use identity::{Identities, Tokens};
use mail::MailServer;
use outlets::Outlets;
pub(crate) use queue::{CallQueue, json as answer_json};
use serve::Stopper;

/// How often the folder of procedures is looked at: a handful of `stat`s.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The procedures of a server and the listeners where they are called. Dropping it ends them;
/// the files of Unix sockets belong to whoever opened them.
pub(crate) struct CallServer {
    urls: Vec<ListenUrl>,
    stopper: Option<Stopper>,
    looking: Option<(Sender<()>, JoinHandle<()>)>,
    serving: Option<JoinHandle<()>>,
    /// Takes the calls that come by MQTT.
    queue: Arc<CallQueue>,
    handing: Option<JoinHandle<()>>,
    mail: Option<MailServer>,
}

impl CallServer {
    /// Loads the procedures, takes calls over MQTT, and serves the listeners, which are open.
    ///
    /// # Errors
    /// When the folder, or a file that says who may call cannot be used. A procedure
    /// that cannot be loaded is a warning.
    pub(crate) fn start(
        listeners: Vec<(Listener, Vec<Opened>)>,
        config: &Procedures,
        data_dir: &DataDir,
        context: &Arc<ServerContext>,
        center: &Arc<Center>,
    ) -> Result<Self, ServerError> {
        let mut server = Self {
            urls: Vec::new(),
            stopper: None,
            looking: None,
            serving: None,
            queue: Arc::clone(&context.call_queue),
            handing: None,
            mail: None,
        };
        let tokens = Tokens::read(config.tokens.as_deref()).map_err(ServerError::Procedures)?;
        let clients = Switchboard::new(context, center);
        let registry = open(config, data_dir, clients, context.clock)?;
        let system = |error| ServerError::system("starting the threads of procedures", error);
        context.adaptors.serve_calls(&registry);
        context.call_queue.serves(&registry);
        let (own, callees) = (Arc::clone(context), Arc::clone(&registry));
        let hand_over = move || queue::run(&own, &callees);
        server.handing = Some(spawn("mqtt-calls", hand_over).map_err(system)?);
        if listeners.is_empty() && config.folder.is_none() {
            return Ok(server);
        }
        let ledger = Arc::clone(&context.ledger);
        let bodies = Bodies::new(data_dir.path().to_owned(), config.bodies, ledger);
        let connections_max = config.connections as usize;
        let urls = listeners.iter().flat_map(|(_, places)| places);
        server.urls.extend(urls.map(|(port, _)| port.url.clone()));
        let (mail, clients): (Vec<_>, Vec<_>) = listeners
            .into_iter()
            .partition(|(listener, _)| listener.url.is_mail());
        if !mail.is_empty() {
            let started = MailServer::start(mail, &registry, &bodies, connections_max);
            server.mail = Some(started.map_err(system)?);
        }
        let (stopper, serve) = serve::prepare(
            entrances(clients)?,
            tokens,
            center,
            Outlets::new(context),
            &registry,
            bodies,
            connections_max,
        )
        .map_err(system)?;
        server.stopper = Some(stopper);
        server.serving = Some(spawn("call", serve).map_err(system)?);
        if config.folder.is_some() {
            let (stop, stopped) = channel();
            let look = move || look(&registry, &stopped);
            server.looking = Some((stop, spawn("proc-look", look).map_err(system)?));
        }
        Ok(server)
    }

    /// Closes the listeners, and waits until then for the calls and messages in flight, those over
    /// MQTT included.
    pub(crate) fn drain(&mut self, end: Instant) {
        if let Some(stopper) = &self.stopper {
            stopper.stop(end);
        }
        if let Some(mail) = &self.mail {
            mail.drain(end);
        }
        if self.handing.is_some() {
            self.queue.drain(end);
        }
        if let Some(thread) = self.serving.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }

    /// Where procedures are called, with the real ports.
    pub(crate) fn urls(&self) -> impl Iterator<Item = &ListenUrl> {
        self.urls.iter()
    }
}

impl Drop for CallServer {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.looking.take() {
            drop(stop);
            // A panic was reported when it happened.
            let _ = thread.join();
        }
        self.drain(Instant::now());
        drop(self.mail.take());
        self.queue.close();
        if let Some(thread) = self.handing.take() {
            let _ = thread.join();
        }
    }
}

/// Takes over changes in the folder of procedures, until it receives the order to stop.
fn look(registry: &Registry, stopped: &Receiver<()>) {
    let mut trouble = None;
    while stopped.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        match registry.refresh() {
            Ok(loaded) => {
                if trouble.take().is_some() {
                    info!("the folder of procedures can be read again");
                }
                report(&loaded);
            }
            // Said once, and not at each look.
            Err(reason) if trouble.as_ref() == Some(&reason) => {}
            Err(reason) => {
                warn!("{reason}; the procedures stay as they are");
                trouble = Some(reason);
            }
        }
    }
}

/// Loads the procedures.
///
/// # Errors
/// When the folder or the store cannot be used.
fn open(
    config: &Procedures,
    data_dir: &DataDir,
    clients: Switchboard,
    clock: Clock,
) -> Result<Arc<Registry>, ServerError> {
    let settings = Settings {
        folder: config.folder.clone(),
        // What is built in keeps nothing.
        store: config
            .folder
            .is_some()
            .then(|| data_dir.path().join("procedures.redb")),
        outside: outside(config)?,
        since: since(clock),
        clients: Some(Arc::new(clients)),
        forgets: false,
    };
    let (registry, loaded) = Registry::open(settings).map_err(ServerError::Procedures)?;
    report(&loaded);
    Ok(Arc::new(registry))
}

/// When the server was started, for `/status`.
fn since(clock: Clock) -> Since {
    let secs = clock.started_at_secs();
    Since {
        text: Utc::new(secs).to_string(),
        secs,
        origin: clock.origin(),
    }
}

/// The open places of listeners for `stentor-call`, with who may call there.
fn entrances(listeners: Vec<(Listener, Vec<Opened>)>) -> Result<Vec<Entrance>, ServerError> {
    let mut entrances = Vec::new();
    for (number, (listener, places)) in listeners.into_iter().enumerate() {
        let identities = Identities::of(&listener).map_err(ServerError::Procedures)?;
        let identities = Arc::new(identities);
        for (port, sockets) in places {
            for socket in sockets {
                entrances.push(Entrance::new(number, &port, socket, &identities));
            }
        }
    }
    Ok(entrances)
}

/// Whether this machine knows the users and groups who may call on a listener.
///
/// # Errors
/// When it does not know one of them.
pub(crate) fn check_callers(listener: &Listener) -> Result<(), ServerError> {
    if !listener.url.is_call() {
        return Ok(());
    }
    let identities = Identities::of(listener).map_err(ServerError::Procedures)?;
    drop(identities);
    Ok(())
}

/// Whether the files and the folder of procedures can be read. Loads none of them.
///
/// # Errors
/// When one of them cannot be read.
pub(crate) fn check_files(config: &Procedures) -> Result<(), ServerError> {
    let tokens = Tokens::read(config.tokens.as_deref()).map_err(ServerError::Procedures)?;
    drop(tokens);
    outside(config)?;
    if let Some(folder) = &config.folder {
        std::fs::read_dir(folder).map_err(|error| {
            let shown = folder.display();
            ServerError::Procedures(format!(
                "cannot read the folder {shown}: {error}; make it, or correct procedures.folder"
            ))
        })?;
    }
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

/// The servers that scripts may turn to.
fn outside(config: &Procedures) -> Result<Outside, ServerError> {
    let resolver = config.resolver.as_deref().map(|text| {
        let address = text.parse::<SocketAddr>();
        let address = address.or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, 53)));
        address.map_err(|_| {
            ServerError::Procedures(format!(
                "procedures.resolver = \"{text}\": it is an address, as in 127.0.0.1:53"
            ))
        })
    });
    Ok(Outside {
        relay: config.relay.clone(),
        resolver: resolver.transpose()?,
        trust: trust(config)?,
    })
}

/// The certificate authorities that scripts and endpoints trust at `https://`.
///
/// # Errors
/// When their file cannot be used.
pub(crate) fn trust(config: &Procedures) -> Result<Trust, ServerError> {
    let trust = config.ca_file.as_deref().map(Trust::of_file).transpose();
    Ok(trust.map_err(ServerError::Procedures)?.unwrap_or_default())
}

/// Says in the log what a look at the folder changed.
fn report(loaded: &Loaded) {
    for name in &loaded.loaded {
        info!("procedure /{name} loaded");
    }
    for name in &loaded.removed {
        info!("procedure /{name} removed");
    }
    for (name, reason) in &loaded.refused {
        warn!(
            "procedure /{name} not loaded, an older version stays in use if there is one: {reason}"
        );
    }
}
