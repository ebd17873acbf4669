//! From the start of the server to its end.
//!
//! The main thread makes everything that several threads name, starts the shards, and then
//! supervises: it waits for commands from signals, the control socket, the watch on the
//! configuration file, and shards that end unexpectedly.

mod announce;
mod check;
mod open_listeners;
mod reload;
mod retained;
mod sessions;
mod signals;
mod start;
mod systemd;
#[cfg(test)]
pub(crate) mod testing;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use stentor_admin::HttpServer;
use stentor_auth::store::{Directory, Who};
use stentor_session::Tick;
use tracing::{error, info, warn};

use crate::bans::Rule;
use crate::call::CallServer;
use crate::condition::Condition;
use crate::config::{Config, MemoryLimit, Sources};
use crate::context::ServerContext;
use crate::control::{Control, Entrance, Loaded, ban_flapping};
use crate::data_dir::DataDir;
use crate::error::ServerError;
use crate::exit::ServerExit;
use crate::http;
use crate::log::Logger;
use crate::shard::ShardCommand;
use crate::telemetry::{FigureRecorder, Metrics, sys};
use crate::warden;
pub use check::{check, hints};
use reload::Reloader;
pub(crate) use reload::{ReloadResult, Reloaded};
pub(crate) use retained::{boot, folder as retained_dir, quotas};
pub(crate) use sessions::{
    BOUNDS as SESSION_BOUNDS, SPOOL_FOLDER, folder as sessions_dir, keep_the_latest, sync_of,
};
use signals::Signals;
pub use signals::{block_signals, survive_long_files};
pub(crate) use start::random;
use start::{BackgroundThreads, Shards};
use systemd::Systemd;
use watch::{FILE_CHANGED, Watch};

/// What the main thread is asked to do.
pub(crate) enum Command {
    /// Stop; the text says what asked, and who if that is known.
    Stop(&'static str, Option<Who>),
    /// Read the configuration again; the answer goes to whoever waits for it.
    Reload(&'static str, Option<Asker>),
    /// A shard has ended by a panic.
    ShardFailed(usize),
}

/// Somebody who waits for what comes of a reload.
pub(crate) struct Asker {
    /// The name for the audit log.
    pub(crate) who: Who,
    /// Where the answer goes.
    pub(crate) answer: Sender<ReloadResult>,
}

/// What calls in flight leave of the time for clients.
const CLIENTS_TIME: Duration = Duration::from_secs(1);

/// How much longer than the clients' time the shards get to end.
const END_TIME: Duration = Duration::from_secs(2);

/// How long the last lines of the log may take.
const LOG_TIME: Duration = Duration::from_secs(1);

/// How long the main thread waits for commands without a watchdog.
const LONG: Duration = Duration::from_secs(3600);

/// Runs a server until it is asked to stop. Prints a line `listening URL` for each listener once
/// all are open. `sources` are where `config` came from, for reloads.
///
/// # Errors
/// When the server cannot start; nothing is left half started.
pub fn run(
    config: Config,
    sources: Sources<'static>,
    logger: Logger,
) -> Result<ExitCode, ServerError> {
    crate::memory::prefer_small_pages();
    crate::memory::keep_out_of_core_dumps();
    let signals =
        signals::block().map_err(|error| ServerError::system("blocking signals", error))?;
    let log = logger.clone();
    log.start()
        .map_err(|error| ServerError::system("starting a thread", error))?;
    let result = serve(config, sources, logger, signals);
    log.settle(LOG_TIME);
    result
}

/// [`run`], with the signals blocked and the log going.
fn serve(
    config: Config,
    sources: Sources<'static>,
    logger: Logger,
    signals: Signals,
) -> Result<ExitCode, ServerError> {
    if let Some(refusal) = check(&config).into_iter().next() {
        return Err(refusal);
    }
    let data_dir = DataDir::open(&config.general.data_dir)?;
    match begin(config, sources, logger, signals, &data_dir) {
        Ok(begun) => Ok(begun.run()),
        Err(error) => {
            data_dir.abandon();
            Err(error)
        }
    }
}

/// A server that serves, and what its main thread works with.
struct Begun {
    supervisor: Supervisor,
    shards: Shards,
    inbox: Receiver<Command>,
}

impl Begun {
    /// Runs until it is asked to stop.
    fn run(mut self) -> ExitCode {
        self.supervisor.systemd.ready();
        let end = self.supervisor.supervise(&self.inbox);
        self.supervisor.end(self.shards, end)
    }
}

/// Starts everything. What fails takes away the sockets that were made by then.
fn begin(
    config: Config,
    sources: Sources<'static>,
    logger: Logger,
    signals: Signals,
    data_dir: &DataDir,
) -> Result<Begun, ServerError> {
    // Before anything that leaves traces; and a command that comes now waits for its answer.
    let entrance = Entrance::open(data_dir)?;
    let http = http::HttpListeners::open(&config.http)?;
    let start::Started {
        context,
        center,
        directory,
        open_listeners,
        shards,
        background,
        calls,
    } = start::start(&config, data_dir)?;
    context.journal.audit_by(&directory);
    let (commands, inbox) = channel();
    shards.watch(&commands);
    let table = shards.table;
    let condition = Arc::new(Condition::new(&context, &directory));
    let control = Control::start(entrance, &context, &directory, table, &condition, &commands)?;
    note_listeners(&control, &open_listeners, &http);
    note_config(&control, &config, &config, &sources, &logger);
    let (intervals, memory_limits) = start_background_threads(&config, &context)?;
    let figures = watch_all(&config, data_dir, &context, &directory, &control)?;
    signals.start(commands.clone())?;
    // Before the announcement: a script may change the file as soon as it reads that.
    let watch = watch::of(&config, &commands);
    let calls = CallServer::start(calls, &config.procedures, data_dir, &context, &center)?;
    announce::started(&config, data_dir, &open_listeners, &shards, &directory);
    announce::calls(&calls);
    let http_tls = http.tls();
    let metrics = Metrics::new(&context, &directory, table);
    let supervisor = Supervisor {
        http_server: http.serve(&config.http, &condition, metrics, &control, &center)?,
        reloader: Reloader {
            was_refused: false,
            started: config.clone(),
            config,
            sources,
            logger,
            center,
            directory,
            open_listeners,
            intervals,
            memory_limits,
            http_tls,
        },
        condition,
        context,
        systemd: Systemd::from_environment(),
        control,
        background,
        figures,
        calls,
        commands,
        watch,
    };
    Ok(Begun {
        supervisor,
        shards,
        inbox,
    })
}

/// Tells those who ask what is open.
fn note_listeners(
    control: &Control,
    open_listeners: &open_listeners::OpenListeners,
    http: &http::HttpListeners,
) {
    control.note_ports(open_listeners.ports());
    control.note_others(open_listeners.call_ports(), http);
}

/// Notes what others show of a configuration that was read.
fn note_config(
    control: &Control,
    started: &Config,
    config: &Config,
    sources: &Sources<'_>,
    logger: &Logger,
) {
    control.note_log(logger);
    control.note_loaded(Loaded {
        started: Arc::new(started.clone()),
        config: Arc::new(config.clone()),
        file: sources.file.clone(),
        flags: sources.flags.clone(),
    });
    control.note_password_hash(config.auth.password_hash);
    control.note_file(config.file.as_deref());
    control.note_quota(quotas(config).0);
}

/// Starts the threads that publish `$SYS` and look at memory; the senders bring them other
/// settings.
fn start_background_threads(
    config: &Config,
    context: &Arc<ServerContext>,
) -> Result<(Sender<Duration>, Sender<MemoryLimit>), ServerError> {
    let (intervals, new_intervals) = channel();
    let (own, interval) = (Arc::clone(context), config.sys.interval);
    spawn("sys", move || sys::run(&own, interval, &new_intervals))?;
    let (memory_limits, new_memory_limits) = channel();
    let (own, limit) = (Arc::clone(context), config.limits.memory);
    spawn("memory", move || {
        warden::run(&own, limit, &new_memory_limits)
    })?;
    Ok((intervals, memory_limits))
}

/// Bans clients that connect too often, and keeps the history of the figures, from now on.
fn watch_all(
    config: &Config,
    data_dir: &DataDir,
    context: &Arc<ServerContext>,
    directory: &Arc<Directory>,
    control: &Control,
) -> Result<FigureRecorder, ServerError> {
    watch_connections(config, context, directory)?;
    let commit = config.figures.commit;
    let figures = FigureRecorder::start(context, directory, data_dir.path(), commit)?;
    control.note_figures(figures.history());
    Ok(figures)
}

/// Bans clients that connect too often, from now on.
fn watch_connections(
    config: &Config,
    context: &Arc<ServerContext>,
    directory: &Arc<Directory>,
) -> Result<(), ServerError> {
    let flapping = context.journal.flapping();
    flapping.set(Rule::of(&config.limits));
    let found = flapping.found();
    let (context, directory) = (Arc::clone(context), Arc::clone(directory));
    spawn("flapping", move || {
        ban_flapping(&context, &directory, &found)
    })
}

/// Starts a named thread.
fn spawn(name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<(), ServerError> {
    match std::thread::Builder::new().name(name.into()).spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => Err(ServerError::system("starting a thread", error)),
    }
}

/// The main thread, while the server runs.
struct Supervisor {
    reloader: Reloader,
    condition: Arc<Condition>,
    /// HTTP for operators, if it is spoken.
    http_server: Option<HttpServer>,
    context: Arc<ServerContext>,
    systemd: Systemd,
    control: Control,
    background: BackgroundThreads,
    figures: FigureRecorder,
    calls: CallServer,
    /// To this thread, for a watch that begins.
    commands: Sender<Command>,
    /// On the configuration file, where it is wanted.
    watch: Option<Watch>,
}

/// Why the server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was asked to.
    Asked,
    /// A part of it failed.
    Failed,
}

impl Supervisor {
    fn supervise(&mut self, commands: &Receiver<Command>) -> End {
        let interval = self.systemd.watchdog_interval().unwrap_or(LONG);
        let mut fed_at = Instant::now();
        loop {
            // Commands that keep coming must not keep the watchdog hungry.
            if fed_at.elapsed() >= interval {
                self.systemd.feed_watchdog(&self.context);
                fed_at = Instant::now();
            }
            match commands.recv_timeout(interval.saturating_sub(fed_at.elapsed())) {
                Ok(Command::Stop(cause, who)) => {
                    info!("stopping: {cause}");
                    let who = who.unwrap_or_else(|| Who::new(cause));
                    let directory = &self.reloader.directory;
                    directory.note(&who, "stop", "server", serde_json::Value::Null);
                    return End::Asked;
                }
                Ok(Command::Reload(cause, asker)) => self.reload(cause, asker),
                Ok(Command::ShardFailed(shard)) => {
                    error!(
                        shard,
                        "a shard failed; this is a bug of the server, which ends now"
                    );
                    return End::Failed;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // This thread holds a sending end itself.
                Err(RecvTimeoutError::Disconnected) => return End::Failed,
            }
        }
    }

    fn reload(&mut self, cause: &'static str, asker: Option<Asker>) {
        self.systemd.reloading();
        let who = asker.as_ref().map(|asker| asker.who.clone());
        let who = who.unwrap_or_else(|| Who::new(cause));
        let result = self.reloader.reload(&who, cause, &self.context);
        match &result {
            Ok(reloaded) => reloaded.log(cause),
            Err(reason) => {
                warn!("the configuration was not reloaded ({cause}); the old one stays: {reason}");
                self.reloader.note_failure(&who, reason);
            }
        }
        self.watch_file();
        self.control
            .note_ports(self.reloader.open_listeners.ports());
        if result.is_ok() {
            let Reloader {
                started,
                config,
                sources,
                logger,
                ..
            } = &self.reloader;
            note_config(&self.control, started, config, sources, logger);
        }
        // After an edit and a requested reload, the watch finds nothing left to do. The note keeps
        // the requested reload, unless it failed and this one shows that the mistake is corrected.
        let found_nothing = result.as_ref().is_ok_and(Reloaded::is_nothing);
        if cause != FILE_CHANGED || !found_nothing || self.control.last_reload_failed() {
            self.control.note_reload(cause, &result);
        }
        if let Some(asker) = asker {
            // The asker may have gone.
            let _ = asker.answer.send(result);
        }
        self.systemd.ready();
    }

    /// Begins or ends the watch on the file, as the configuration says now.
    fn watch_file(&mut self) {
        let config = &self.reloader.config;
        if config.general.apply_on_save != self.watch.is_some() {
            self.watch = watch::of(config, &self.commands);
        }
    }

    /// Tells the clients, gives them a moment, and ends.
    fn end(mut self, shards: Shards, end: End) -> ExitCode {
        self.systemd.stopping();
        self.condition.stop();
        self.watch = None;
        announce::forgotten(&self.context);
        let time = self.reloader.config.general.shutdown_timeout;
        let begin = Instant::now();
        // Clients may serve the calls in flight, so their shards go on until these are answered.
        self.calls.drain(begin + time);
        let time = time
            .saturating_sub(begin.elapsed())
            .max(time.min(CLIENTS_TIME));
        // Before the shards, which it asks.
        self.figures.end();
        let deadline: Tick = self.context.clock.now().after(time);
        for shard in 0..self.context.shards.len() {
            self.context.post(shard, ShardCommand::Stop(deadline));
        }
        let in_time = shards.join(Instant::now() + time + END_TIME);
        if !in_time {
            warn!("a shard did not end in time");
        }
        drop(self.calls);
        self.reloader.open_listeners.remove_files();
        drop(self.http_server.take());
        drop(self.background.spool);
        // After the shards, whose last messages it commits.
        self.background.retained.end();
        let sessions = self
            .background
            .sessions
            .map(stentor_session_store::JournalMaintenance::end);
        if let Some(Err(error)) = sessions {
            warn!("the sessions were not brought to the disk: {error}");
        }
        drop(self.control);
        if in_time {
            // Not by the end of the process, which waits for files whose closing hangs.
            self.context.retained.release();
        }
        self.context.journal.flush();
        info!("stopped");
        match end {
            End::Asked => ExitCode::SUCCESS,
            End::Failed => ExitCode::from(ServerExit::Bug as u8),
        }
    }
}
