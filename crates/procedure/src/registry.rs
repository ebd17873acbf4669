//! All procedures: loading, replacing, calling.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use rustix::fs::{Access, Mode as FileMode, OFlags};
use stentor_call_protocol::limits::PROCEDURE_BYTES_MAX;
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::builtin::Builtin;
use crate::call::{Call, Caller, Reply};
use crate::client::{ClientRunner, Clients};
use crate::endpoint::EndpointRunner;
use crate::luau::Script;
use crate::manifest::{FILE_BYTES_MAX, Grant, Kind, Manifest, Mode, Need};
use crate::outside::Outside;
use crate::program::ProgramRunner;
use crate::queue::{Job, MakeRunner, Queue, Runner};
use crate::script::{Program, ScriptRunner};
use crate::spamd::SpamdRunner;
use crate::statistics::{Figures, Statistics};
use crate::store::Store;
use crate::watchdog::Watchdog;

/// Recipients that the log names.
const RECIPIENTS_SHOWN: usize = 10;
/// Procedures of one folder.
const PROCEDURES_MAX: usize = 256;

/// Where procedures are, and where they keep things.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The folder with one file per procedure; without it there are only those that are built in.
    pub folder: Option<PathBuf>,
    /// The file for what scripts keep; without it none can be granted `store`.
    pub store: Option<PathBuf>,
    /// The servers that scripts may turn to.
    pub outside: Outside,
    /// Who finds clients that serve procedures; without it none can be of kind `client`.
    pub clients: Option<Arc<dyn Clients>>,
}

/// What a look at the folder changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Procedures whose new version is in use.
    pub loaded: Vec<String>,
    /// Procedures whose file is gone.
    pub removed: Vec<String>,
    /// Files that were not taken, and why; an older version stays in use.
    pub refused: Vec<(String, String)>,
}

/// All procedures.
pub struct Registry {
    settings: Settings,
    table: ArcSwap<BTreeMap<String, Arc<Procedure>>>,
    watchdog: Watchdog,
    store: Option<Store>,
    /// One look at the folder at a time; it takes long when tests of scripts do.
    looking: Mutex<()>,
    /// What was refused stays refused until its file changes. Never locked for long.
    refused: Mutex<BTreeMap<String, (Stamp, String)>>,
}

/// One version of a procedure.
struct Procedure {
    name: String,
    manifest: Arc<Manifest>,
    how: How,
    statistics: Arc<Statistics>,
    /// None for those that are built in.
    stamp: Option<Stamp>,
}

enum How {
    Builtin(Builtin),
    Queue(Queue),
}

/// What tells one version of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Registry {
    /// Opens the store and loads what is in the folder.
    ///
    /// # Errors
    /// When the folder or the store cannot be used. A procedure that cannot be loaded is no
    /// error: it is in the second value.
    pub fn open(settings: Settings) -> Result<(Self, Loaded), String> {
        let store = match &settings.store {
            Some(path) => Some(Store::open(path).map_err(|error| error.to_string())?),
            None => None,
        };
        let builtins = Builtin::ALL.map(|(builtin, name)| {
            let procedure = Procedure {
                name: name.to_owned(),
                manifest: Arc::new(builtin.manifest()),
                how: How::Builtin(builtin),
                statistics: Arc::new(Statistics::new()),
                stamp: None,
            };
            (name.to_owned(), Arc::new(procedure))
        });
        let watchdog =
            Watchdog::start().map_err(|error| format!("start the watchdog of calls: {error}"))?;
        let registry = Self {
            settings,
            table: ArcSwap::from_pointee(builtins.into()),
            watchdog,
            store,
            looking: Mutex::default(),
            refused: Mutex::default(),
        };
        let loaded = registry.refresh()?;
        Ok((registry, loaded))
    }

    /// Looks at the folder: loads what is new or has changed, and forgets what is gone. A version
    /// that cannot be used changes nothing. Calls that run go on with the version they began with.
    ///
    /// # Errors
    /// When the folder cannot be read; nothing changes then.
    pub fn refresh(&self) -> Result<Loaded, String> {
        let _one = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = self.refused().clone();
        let mut result = Loaded::default();
        let Some(folder) = &self.settings.folder else {
            return Ok(result);
        };
        let found = scan(folder)?;
        let old = self.table.load_full();
        let mut table = BTreeMap::clone(&old);
        table.retain(|name, procedure| {
            let stays = procedure.stamp.is_none() || found.contains_key(name);
            if !stays {
                result.removed.push(name.clone());
            }
            stays
        });
        refused.retain(|name, _| found.contains_key(name));
        for (name, file) in found {
            let now = table.get(&name);
            let known = now.and_then(|procedure| procedure.stamp.as_ref());
            let was_refused = refused.get(&name).map(|(stamp, _)| stamp);
            if let Ok(stamp) = &file
                && (was_refused == Some(stamp) || was_refused.is_none() && known == Some(stamp))
            {
                continue;
            }
            let statistics = now.map(|procedure| Arc::clone(&procedure.statistics));
            let stamp = file.clone().unwrap_or_else(|_| Stamp::none());
            let made = match now {
                Some(procedure) if procedure.stamp.is_none() => {
                    Err("a procedure of this name is built in; choose another name".to_owned())
                }
                _ => file.and_then(|stamp| self.make(&name, stamp, statistics)),
            };
            match made {
                Ok(procedure) => {
                    refused.remove(&name);
                    result.loaded.push(name.clone());
                    table.insert(name, Arc::new(procedure));
                }
                Err(reason) => {
                    let before = refused.insert(name.clone(), (stamp, reason.clone()));
                    if before.is_none_or(|(_, before)| before != reason) {
                        result.refused.push((name, reason));
                    }
                }
            }
        }
        *self.refused() = refused;
        if !result.loaded.is_empty() || !result.removed.is_empty() {
            self.table.store(Arc::new(table));
        }
        Ok(result)
    }

    /// The map is whole at any time.
    fn refused(&self) -> MutexGuard<'_, BTreeMap<String, (Stamp, String)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads one file: reads, compiles and tests it.
    fn make(
        &self,
        name: &str,
        stamp: Stamp,
        statistics: Option<Arc<Statistics>>,
    ) -> Result<Procedure, String> {
        let file = stamp
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let explain = |reason: &dyn std::fmt::Display| format!("{file}: {reason}");
        let text = read(&stamp.path).map_err(|error| explain(&error))?;
        let is_script = stamp
            .path
            .extension()
            .is_some_and(|extension| extension == "luau");
        let manifest = if is_script {
            Manifest::of_script(&text)
        } else {
            Manifest::of_file(&text)
        };
        let manifest = Arc::new(manifest.map_err(|error| explain(&error))?);
        let make = self.runner(name, &file, &manifest)?;
        let statistics = statistics.unwrap_or_else(|| Arc::new(Statistics::new()));
        let bounds = (manifest.concurrency, manifest.queue);
        Ok(Procedure {
            name: name.to_owned(),
            how: How::Queue(Queue::new(name, bounds, &statistics, make)),
            manifest,
            statistics,
            stamp: Some(stamp),
        })
    }

    /// What makes a runner on each thread. A script is compiled, and tested in a machine of its
    /// own, before anything is replaced.
    fn runner(
        &self,
        name: &str,
        file: &str,
        manifest: &Arc<Manifest>,
    ) -> Result<Box<MakeRunner>, String> {
        match manifest.kind.clone() {
            Kind::Luau(text) => self.script(name, (file, &text), manifest),
            Kind::Program(command) => {
                let manifest = Arc::clone(manifest);
                if let Err(reason) = check_program(Path::new(&command[0])) {
                    return Err(format!("{file}: command: {}: {reason}", command[0]));
                }
                Ok(Box::new(move || {
                    Ok(Box::new(ProgramRunner {
                        command: command.clone(),
                        manifest: Arc::clone(&manifest),
                    }))
                }))
            }
            Kind::Spamd(options) => {
                let manifest = Arc::clone(manifest);
                Ok(Box::new(move || {
                    Ok(Box::new(SpamdRunner {
                        options: options.clone(),
                        manifest: Arc::clone(&manifest),
                    }))
                }))
            }
            Kind::Http(url) => {
                let (manifest, outside) = (Arc::clone(manifest), self.settings.outside.clone());
                Ok(Box::new(move || {
                    Ok(Box::new(EndpointRunner {
                        url: url.clone(),
                        manifest: Arc::clone(&manifest),
                        outside: outside.clone(),
                    }))
                }))
            }
            Kind::Client(zone) => {
                let Some(clients) = self.settings.clients.clone() else {
                    return Err(format!("{file}: this server has no clients to serve it"));
                };
                let manifest = Arc::clone(manifest);
                Ok(Box::new(move || {
                    Ok(Box::new(ClientRunner {
                        clients: Arc::clone(&clients),
                        zone: zone.clone(),
                        manifest: Arc::clone(&manifest),
                    }))
                }))
            }
            Kind::Builtin => Err(format!("{file}: what is built in has no file")),
        }
    }

    /// [`Registry::runner`] of a script.
    fn script(
        &self,
        name: &str,
        (file, text): (&str, &str),
        manifest: &Arc<Manifest>,
    ) -> Result<Box<MakeRunner>, String> {
        let wants_store = manifest.grants.contains(&Grant::Store);
        let shelf = match (&self.store, wants_store) {
            (_, false) => None,
            (Some(store), true) => Some(store.shelf(name, manifest.store_bytes)),
            (None, true) => {
                return Err(format!("{file}: this server has no store to grant"));
            }
        };
        let program = Arc::new(Program {
            name: name.to_owned(),
            script: Script::compile(file, text)?,
            manifest: Arc::clone(manifest),
            time: Arc::clone(self.watchdog.time()),
            shelf: shelf.map(Arc::new),
            outside: Arc::new(self.settings.outside.clone()),
        });
        self.test(&program)?;
        Ok(Box::new(move || {
            let runner = ScriptRunner::new(&program)?;
            Ok(Box::new(runner) as Box<dyn Runner>)
        }))
    }

    /// Tests a script. The clock of scripts runs only while something is watched.
    fn test(&self, program: &Arc<Program>) -> Result<(), String> {
        let reply = Arc::new(Reply::new(|_| {}));
        let end = Instant::now() + std::time::Duration::from_secs(60);
        self.watchdog.watch(end, &reply, || {});
        ScriptRunner::new(program)?.test()
    }

    /// What a procedure has to see, if there is one of that name.
    #[must_use]
    pub fn needs(&self, procedure: &str) -> Option<Need> {
        let table = self.table.load();
        table
            .get(procedure)
            .map(|procedure| procedure.manifest.needs)
    }

    /// The largest message that a procedure looks at, in bytes, if there is one of that name.
    #[must_use]
    pub fn max_body(&self, procedure: &str) -> Option<u64> {
        let table = self.table.load();
        table
            .get(procedure)
            .map(|procedure| procedure.manifest.max_body)
    }

    /// Whether everybody who reaches the server may call a procedure of that name.
    #[must_use]
    pub fn is_open(&self, procedure: &str) -> bool {
        let table = self.table.load();
        let known = table.get(procedure);
        known.is_some_and(|procedure| procedure.manifest.anonymous)
    }

    /// Runs a procedure. `then` gets the answer: exactly once, on any thread, by the deadline of
    /// the call (a few milliseconds later at most), and must not block.
    pub fn call(&self, mut call: Call, then: impl FnOnce(Answer) + Send + 'static) {
        let start = Instant::now();
        let Some(procedure) = self.table.load().get(&call.procedure).cloned() else {
            return then(not_found(&call));
        };
        let finish = finish(&procedure, &call, start, then);
        let manifest = &procedure.manifest;
        if !is_allowed(manifest, &call.caller) {
            let reason = "this caller may not call this procedure";
            return finish(Answer::failed(Status::NotAllowed, reason));
        }
        if call.message.size() > manifest.max_body && manifest.needs >= Need::Headers {
            let text = format!("not looked at: more than {} bytes", manifest.max_body);
            return finish(Answer::done(Outcome::of(manifest.on_large, &text)));
        }
        match &procedure.how {
            How::Builtin(builtin) => finish(builtin.run(&call, || self.figures())),
            How::Queue(queue) => {
                call.deadline = call.deadline.min(start + manifest.deadline);
                let (deadline, reply) = (call.deadline, Arc::new(Reply::new(finish)));
                self.watchdog.watch(deadline, &reply, queue.note_late());
                queue.push(Job { call, reply });
            }
        }
    }

    /// Answers a call that is not run, for somebody else has decided about it: with the advice of
    /// its procedure, counted and logged like any other.
    pub fn refuse(&self, call: &Call, (status, reason): (Status, &str), then: impl FnOnce(Answer)) {
        match self.table.load().get(&call.procedure) {
            Some(procedure) => {
                let answer = Answer::failed(status, reason);
                finish(procedure, call, Instant::now(), then)(answer);
            }
            None => then(not_found(call)),
        }
    }

    /// The figures of all procedures, by name.
    #[must_use]
    pub fn figures(&self) -> Vec<Figures> {
        let refused = self.refused();
        let table = self.table.load();
        let figures = table.iter().map(|(name, procedure)| Figures {
            procedure: name.clone(),
            version: procedure.manifest.version.clone(),
            kind: procedure.manifest.kind.name(),
            observe: procedure.manifest.mode == Mode::Observe,
            waiting: match &procedure.how {
                How::Builtin(_) => 0,
                How::Queue(queue) => queue.waiting(),
            },
            problem: refused
                .get(name)
                .map(|(_, reason)| reason.clone())
                .unwrap_or_default(),
            ..procedure.statistics.figures()
        });
        figures.collect()
    }
}

fn not_found(call: &Call) -> Answer {
    let reason = format!("there is no procedure /{}", call.procedure);
    Answer::failed(Status::NotFound, &reason)
}

/// What ends a call: the answer is completed, counted, logged and given to `then`.
fn finish<T: FnOnce(Answer)>(
    procedure: &Procedure,
    call: &Call,
    start: Instant,
    then: T,
) -> impl FnOnce(Answer) + use<T> {
    let manifest = Arc::clone(&procedure.manifest);
    let about = About::of(call, &manifest);
    let statistics = Arc::clone(&procedure.statistics);
    let name = procedure.name.clone();
    move |mut answer: Answer| {
        let took = start.elapsed();
        answer.version.clone_from(&manifest.version);
        if answer.outcome.is_none() {
            answer.advice = Some(manifest.on_error);
        }
        statistics.count(&answer, took);
        about.log(&name, &manifest, &answer, took);
        if manifest.mode == Mode::Observe {
            answer = observed(answer);
        }
        then(answer);
    }
}

/// The files of a folder by the names of their procedures; two of one name are an error.
fn scan(folder: &Path) -> Result<BTreeMap<String, Result<Stamp, String>>, String> {
    let fail =
        |error: std::io::Error| format!("the folder of procedures {}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let is_kind = |kind: &str| path.extension().is_some_and(|extension| extension == kind);
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        // Editors leave hidden files.
        if name.starts_with('.') || !(is_kind("luau") || is_kind("toml")) {
            continue;
        }
        let stamp = if is_name(name) {
            Stamp::of(&path)
        } else {
            let file = path.display();
            Err(format!(
                "{file}: a name is 1 to 64 letters, digits, -, _ and ."
            ))
        };
        let two = format!("{name}.luau and {name}.toml are one name; remove one of them");
        found
            .entry(name.to_owned())
            .and_modify(|entry| *entry = Err(two))
            .or_insert(stamp);
        if found.len() > PROCEDURES_MAX {
            return Err(format!(
                "the folder of procedures {} has more than {PROCEDURES_MAX} of them",
                folder.display()
            ));
        }
    }
    Ok(found)
}

/// The text of a procedure's file. What is no regular file is not waited for.
fn read(path: &Path) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fail = |error: std::io::Error| error.to_string();
    let file =
        rustix::fs::open(path, flags, FileMode::empty()).map_err(|error| fail(error.into()))?;
    let file = fs::File::from(file);
    if !file.metadata().map_err(fail)?.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut text = String::new();
    let mut file = file.take(FILE_BYTES_MAX + 1);
    file.read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("the file has more than 1 MiB".to_owned());
    }
    Ok(text)
}

/// Whether there is a program that this server may start.
fn check_program(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let may = rustix::fs::access(path, Access::EXEC_OK);
    may.map_err(|_| "this server may not run it (chmod a+x)".to_owned())
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=PROCEDURE_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, String> {
        use std::os::unix::fs::MetadataExt;
        let metadata =
            fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            modified: metadata.modified().ok(),
            size: metadata.len(),
            inode: metadata.ino(),
        })
    }

    const fn none() -> Self {
        Self {
            path: PathBuf::new(),
            modified: None,
            size: 0,
            inode: 0,
        }
    }
}

/// Users may call what does not name others; others what is open to all, or to their address.
fn is_allowed(manifest: &Manifest, caller: &Caller) -> bool {
    match caller {
        Caller::User { .. } => match &manifest.allow_users {
            Some(users) => {
                let name = caller.name();
                manifest.anonymous || users.iter().any(|user| **user == *name)
            }
            None => true,
        },
        Caller::Anonymous(address) => {
            let is_listed = |address: &str| {
                let address = address.parse();
                address.is_ok_and(|address| manifest.allow_addresses.contains(&address))
            };
            manifest.anonymous || is_listed(address)
        }
    }
}

/// What a caller gets of a procedure that is only observed.
fn observed(answer: Answer) -> Answer {
    let text = match answer.verdict() {
        Some(verdict) => format!("observed: {}", verdict.name()),
        None => "observed".to_owned(),
    };
    Answer {
        version: answer.version,
        ..Answer::done(Outcome::of(Verdict::Accept, &text))
    }
}

/// What the log says about a call, kept while it runs.
struct About {
    queue_id: String,
    message_id: String,
    from: String,
    rcpt: String,
    size: u64,
    caller: String,
}

impl About {
    fn of(call: &Call, manifest: &Manifest) -> Self {
        let envelope = &call.envelope;
        let message_id = match manifest.needs {
            _ if envelope.message_id.is_some() => envelope.message_id.clone(),
            Need::Headers | Need::Body => call.message.headers().ok().and_then(|h| message_id(&h)),
            Need::Size | Need::Envelope => None,
        };
        let shown = envelope.recipients.len().min(RECIPIENTS_SHOWN);
        let mut rcpt = envelope.recipients[..shown].join(", ");
        if envelope.recipients.len() > shown {
            // Writing into a string does not fail.
            let _ = write!(rcpt, " and {} others", envelope.recipients.len() - shown);
        }
        Self {
            queue_id: envelope.queue_id.clone().unwrap_or_default(),
            message_id: message_id.unwrap_or_default(),
            from: envelope.from.clone().unwrap_or_default(),
            rcpt,
            size: call.message.size(),
            caller: match &call.caller {
                Caller::Anonymous(address) => address.clone(),
                Caller::User { .. } => call.caller.name().into_owned(),
            },
        }
    }

    /// One line per verdict.
    fn log(&self, name: &str, manifest: &Manifest, answer: &Answer, took: std::time::Duration) {
        tracing::info!(
            target: "call",
            procedure = name,
            version = manifest.version,
            status = answer.status.name(),
            verdict = answer.verdict().map_or("none", Verdict::name),
            observe = manifest.mode == Mode::Observe,
            queue_id = self.queue_id,
            message_id = self.message_id,
            from = self.from,
            rcpt = self.rcpt,
            size = self.size,
            caller = self.caller,
            ms = took.as_micros() as f64 / 1000.0,
            "{}",
            answer.text(),
        );
    }
}

/// The value of the Message-ID header in a block of headers, as one line.
#[must_use]
pub fn message_id(headers: &[u8]) -> Option<String> {
    let name = b"message-id:";
    let mut lines = headers.split(|byte| *byte == b'\n');
    let first = lines.find_map(|line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some(rest)
    })?;
    // A long one stands on a line of its own.
    let folded = lines.take_while(|line| matches!(line.first(), Some(b' ' | b'\t')));
    let pieces: Vec<_> = std::iter::once(first)
        .chain(folded)
        .map(|piece| String::from_utf8_lossy(piece.trim_ascii()))
        .collect();
    Some(crate::answer::line(&pieces.join(" "), 250))
}

#[cfg(test)]
mod tests;
