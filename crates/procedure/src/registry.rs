//! All procedures: loading, replacing, calling.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::builtin::Builtin;
use crate::call::{Call, Caller, Reply};
use crate::client::Clients;
use crate::manifest::{Manifest, Mode, Need};
use crate::outside::Outside;
use crate::queue::{Job, Queue};
use crate::statistics::{Figures, Statistics};
use crate::store::Store;
use crate::watchdog::Watchdog;
use load::{Files, Stamp};

mod load;

/// Recipients that the log names.
const RECIPIENTS_SHOWN: usize = 10;

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
    /// Each is in use as soon as it is loaded, whatever the tests of others do.
    ///
    /// # Errors
    /// When the folder cannot be read; nothing changes then.
    pub fn refresh(&self) -> Result<Loaded, String> {
        let _one = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut result = Loaded::default();
        let Some(folder) = &self.settings.folder else {
            return Ok(result);
        };
        let found = load::scan(folder)?;
        result.removed = self.forget(&found);
        let fresh = self.fresh(found);
        load::each(
            fresh,
            |(name, file)| self.take(name, file),
            |(name, file), made| {
                let stamp = file.unwrap_or_else(|_| Stamp::none());
                self.settle(name, stamp, made, &mut result);
            },
        );
        // They came as they were done.
        result.loaded.sort();
        result.refused.sort();
        Ok(result)
    }

    /// Forgets procedures and refusals whose files are gone; returns which procedures.
    fn forget(&self, found: &Files) -> Vec<String> {
        self.refused().retain(|name, _| found.contains_key(name));
        let old = self.table.load();
        let is_gone = |(name, procedure): &(&String, &Arc<Procedure>)| {
            procedure.stamp.is_some() && !found.contains_key(*name)
        };
        let gone: Vec<String> = old
            .iter()
            .filter(is_gone)
            .map(|(name, _)| name.clone())
            .collect();
        if !gone.is_empty() {
            let mut table = BTreeMap::clone(&old);
            table.retain(|name, _| !gone.contains(name));
            self.table.store(Arc::new(table));
        }
        gone
    }

    /// The files that were not there at the last look, or have changed since.
    fn fresh(&self, mut found: Files) -> Vec<(String, Result<Stamp, String>)> {
        let (table, refused) = (self.table.load(), self.refused());
        found.retain(|name, file| {
            let known = table
                .get(name)
                .and_then(|procedure| procedure.stamp.as_ref());
            let was_refused = refused.get(name).map(|(stamp, _)| stamp);
            let Ok(stamp) = file else {
                return true;
            };
            was_refused.or(known) != Some(&*stamp)
        });
        found.into_iter().collect()
    }

    /// Loads what is in a file, in the place of the version that is in use.
    fn take(&self, name: &str, file: &Result<Stamp, String>) -> Result<Procedure, String> {
        let now = self.table.load().get(name).cloned();
        if now.as_ref().is_some_and(|now| now.stamp.is_none()) {
            return Err("a procedure of this name is built in; choose another name".to_owned());
        }
        let statistics = now.map(|procedure| Arc::clone(&procedure.statistics));
        self.make(name, file.clone()?, statistics)
    }

    /// A new version is in use from now on, or it is not and that is known; what else is to be
    /// loaded is not waited for.
    fn settle(
        &self,
        name: String,
        stamp: Stamp,
        made: Result<Procedure, String>,
        result: &mut Loaded,
    ) {
        match made {
            Ok(procedure) => {
                self.refused().remove(&name);
                let mut table = BTreeMap::clone(&self.table.load());
                table.insert(name.clone(), Arc::new(procedure));
                self.table.store(Arc::new(table));
                result.loaded.push(name);
            }
            Err(reason) => {
                let before = self.refused().insert(name.clone(), (stamp, reason.clone()));
                if before.is_none_or(|(_, before)| before != reason) {
                    result.refused.push((name, reason));
                }
            }
        }
    }

    /// The map is whole at any time.
    fn refused(&self) -> MutexGuard<'_, BTreeMap<String, (Stamp, String)>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The figures of all procedures, by name; those that were never loaded have a problem.
    #[must_use]
    pub fn figures(&self) -> Vec<Figures> {
        let refused = self.refused();
        let table = self.table.load();
        let absent = refused
            .iter()
            .filter(|(name, _)| !table.contains_key(*name))
            .map(|(name, (_, reason))| Figures::absent(name, reason));
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
        let mut figures: Vec<Figures> = figures.chain(absent).collect();
        figures.sort_by(|one, other| one.procedure.cmp(&other.procedure));
        figures
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
