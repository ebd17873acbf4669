//! All procedures: loading, replacing, calling.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use stentor_call_protocol::limits::{EDITS_MAX, INSERTED_BYTES_MAX, RESULT_BYTES_MAX};
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Change, Outcome};
use crate::blind::{self, Blind};
use crate::builtin::{Builtin, BuiltinRunner};
use crate::call::{Call, Caller, Reply};
use crate::client::Clients;
use crate::lacking::{self, Lack};
use crate::manifest::{Kind, Manifest, Mode, Need};
use crate::message::Message;
use crate::outside::Outside;
use crate::overview::{Overview, Since};
use crate::pace::Lines;
use crate::queue::{Job, Queue, Runner};
use crate::statistics::{Figures, Statistics};
use crate::store::Store;
use crate::watchdog::Watchdog;
use line::About;
pub use line::{Line, message_id};
use load::{Files, Stamp};

mod line;
mod load;

/// Calls of what is built in that are about files: at a time, and waiting.
const BUILTIN_THREADS: usize = 4;
const BUILTIN_WAITING: usize = 100;

/// Where procedures are, and where they keep things.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The folder with one file per procedure; without it there are only those that are built in.
    pub folder: Option<PathBuf>,
    /// The file for what scripts keep; without it none can be granted `store`.
    pub store: Option<PathBuf>,
    /// Without that file, whether what scripts keep is forgotten at the end, for trials.
    pub forgets: bool,
    /// The servers that scripts may turn to.
    pub outside: Outside,
    /// When the server was started.
    pub since: Since,
    /// Finds the clients that serve procedures; without it none can be of kind `client`.
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
    /// Lines about calls of procedures that are not there.
    missed: Mutex<Lines>,
}

/// One version of a procedure. A call that has it in its hands ends with it, whatever takes its
/// place in the meantime.
pub struct Procedure {
    name: String,
    manifest: Arc<Manifest>,
    how: How,
    statistics: Arc<Statistics>,
    /// None for those that are built in.
    stamp: Option<Stamp>,
}

enum How {
    /// With the threads for calls about files.
    Builtin(Builtin, Queue),
    Queue(Queue),
}

impl Procedure {
    fn builtin(builtin: Builtin, name: &str) -> Self {
        let statistics = Arc::new(Statistics::new());
        let make = Box::new(move || Ok(Box::new(BuiltinRunner(builtin)) as Box<dyn Runner>));
        let queue = Queue::new(name, BUILTIN_THREADS, BUILTIN_WAITING, &statistics, make);
        Self {
            name: name.to_owned(),
            manifest: Arc::new(builtin.manifest()),
            how: How::Builtin(builtin, queue),
            statistics,
            stamp: None,
        }
    }

    /// What it is called by, without a slash.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says about itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What its script uses without a grant, as far as that can be known without running it.
    #[must_use]
    pub fn lacks(&self) -> Vec<Lack> {
        lacking::lacking(&self.manifest)
    }

    /// What to write into its manifest so that it does not lack these.
    #[must_use]
    pub fn remedy(&self, lacks: &[Lack]) -> String {
        lacking::remedy(&self.manifest, lacks)
    }

    /// What its script asks of a call without having said that it needs it, as far as that can be
    /// known without running it.
    #[must_use]
    pub fn blind(&self) -> Vec<Blind> {
        blind::blind(&self.manifest)
    }

    /// What to write into its manifest so that it sees these.
    #[must_use]
    pub fn remedy_of_blind(&self, found: &[Blind]) -> String {
        blind::remedy(&self.manifest, found)
    }

    /// What it has to see.
    #[must_use]
    pub fn needs(&self) -> Need {
        self.manifest.needs
    }

    /// Whether it makes no sense without a message: it judges what one says. Programs, HTTP
    /// endpoints and clients get whole messages without asking for them, and may be for calls that
    /// have none.
    #[must_use]
    pub fn judges_messages(&self) -> bool {
        let is_judge = matches!(self.manifest.kind, Kind::Luau(_) | Kind::Spamd(_));
        is_judge && self.needs() >= Need::Headers
    }

    /// The largest message that it looks at, in bytes.
    #[must_use]
    pub fn max_body(&self) -> u64 {
        self.manifest.max_body
    }

    /// How long it may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.manifest.deadline
    }

    /// Whether this caller may call it. Users may call what does not name others; others what is
    /// open to all, or to their address.
    #[must_use]
    pub fn admits(&self, caller: &Caller) -> bool {
        let manifest = &self.manifest;
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
}

/// Why a caller may not call a procedure, with the key that decides. On a Unix socket, a caller is
/// known by the number of its user.
fn not_admitted(caller: &Caller) -> String {
    let refusal = "may not call this procedure";
    match caller {
        Caller::User { .. } => {
            format!(
                "{} {refusal}: its `allow_users` names others",
                caller.name()
            )
        }
        Caller::Anonymous(address) if address.starts_with("uid ") => format!(
            "this caller ({address}) {refusal}: add it to `allow_uid` or `allow_gid` of the [[listener]]"
        ),
        Caller::Anonymous(_) => format!(
            "this caller {refusal}: log in, or have its `allow_addresses` or `anonymous` let it"
        ),
    }
}

impl std::fmt::Debug for Procedure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Procedure").field(&self.name).finish()
    }
}

impl Registry {
    /// Opens the store and loads what is in the folder.
    ///
    /// # Errors
    /// When the folder or the store cannot be used. A procedure that cannot be loaded is not an
    /// error: it is in the second value.
    pub fn open(settings: Settings) -> Result<(Self, Loaded), String> {
        let store = match &settings.store {
            Some(path) => Some(Store::open(path).map_err(|error| error.to_string())?),
            None => None,
        };
        let builtins = Builtin::ALL
            .map(|(builtin, name)| (name.to_owned(), Arc::new(Procedure::builtin(builtin, name))));
        let watchdog =
            Watchdog::start().map_err(|error| format!("start the watchdog of calls: {error}"))?;
        let registry = Self {
            settings,
            table: ArcSwap::from_pointee(builtins.into()),
            watchdog,
            store,
            looking: Mutex::default(),
            refused: Mutex::default(),
            missed: Mutex::new(Lines::new()),
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

    /// The folder that it looks at; `None` if it has only what is built in.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.settings.folder.as_deref()
    }

    /// Loads one file, wherever it is, under the name that it has without its ending.
    ///
    /// # Errors
    /// What is wrong with it, with file and line.
    pub fn load_file(&self, path: &Path) -> Result<Arc<Procedure>, String> {
        let name = load::name_of(path)?;
        let procedure = Arc::new(self.take(&name, &Stamp::of(path))?);
        let mut table = BTreeMap::clone(&self.table.load());
        table.insert(name, Arc::clone(&procedure));
        self.table.store(Arc::new(table));
        Ok(procedure)
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

    /// The procedure of that name, as it is now.
    #[must_use]
    pub fn find(&self, procedure: &str) -> Option<Arc<Procedure>> {
        self.table.load().get(procedure).cloned()
    }

    /// Whether everybody who reaches the server may call a procedure of that name.
    #[must_use]
    pub fn is_open(&self, procedure: &str) -> bool {
        let table = self.table.load();
        let known = table.get(procedure);
        known.is_some_and(|procedure| procedure.manifest.anonymous)
    }

    /// Runs a procedure. `then` gets the answer: exactly once, on any thread, by the deadline of
    /// the call (a few milliseconds later at most), and must not block. The line that it gets
    /// along goes into the log when it is dropped.
    pub fn call(&self, call: Call, then: impl FnOnce(Answer, Line) + Send + 'static) {
        match self.find(&call.procedure) {
            Some(procedure) => self.run(&procedure, call, then),
            None => then(self.not_found(&call), Line::none()),
        }
    }

    /// The same for a version that was found before, when the call began.
    pub fn run(
        &self,
        procedure: &Procedure,
        mut call: Call,
        then: impl FnOnce(Answer, Line) + Send + 'static,
    ) {
        let start = Instant::now();
        let (finish, seen) = finish(procedure, &call, start, then);
        let manifest = &procedure.manifest;
        if !procedure.admits(&call.caller) {
            let reason = not_admitted(&call.caller);
            return finish(Answer::failed(Status::NotAllowed, &reason));
        }
        if let Some(answer) = without(manifest, &call.message) {
            return finish(answer);
        }
        if matches!(&procedure.how, How::Builtin(..))
            && let Some(answer) = prepare_at_once(manifest, &mut call, &seen)
        {
            return finish(answer);
        }
        let queue = match &procedure.how {
            How::Builtin(Builtin::Status, _) => {
                return finish(Builtin::Status.run(&call, || self.overview()));
            }
            How::Builtin(builtin, _) if !builtin.waits() && !call.message.is_unopened() => {
                return finish(builtin.run(&call, Overview::default));
            }
            How::Builtin(_, queue) | How::Queue(queue) => queue,
        };
        call.deadline = call.deadline.min(start + manifest.deadline);
        let (deadline, reply) = (call.deadline, Arc::new(Reply::new(finish)));
        self.watchdog.watch(deadline, &reply, queue.note_late());
        let manifest = Arc::clone(manifest);
        queue.push(Job {
            call,
            prepare: Box::new(move |call| prepare(&manifest, call, &seen)),
            reply,
        });
    }

    /// The answer to a call of a procedure that is not there. Its line in the log is often all that
    /// the operator gets to see of a misspelt name.
    fn not_found(&self, call: &Call) -> Answer {
        let name = &call.procedure;
        let problem = self.refused().get(name).map(|(_, reason)| reason.clone());
        let reason = match &problem {
            None => format!("there is no procedure /{name}"),
            Some(problem) => format!(
                "the procedure /{name} is not in use, because its file was not taken: {problem}; \
                 `stentor procedure ls` shows what became of each file"
            ),
        };
        let mut lines = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suppressed) = lines.admit(Instant::now()) {
            let about = About::of(call, false);
            tracing::warn!(
                target: "call",
                procedure = call.procedure,
                status = Status::NotFound.name(),
                queue_id = about.queue_id,
                caller = about.caller,
                suppressed,
                "{reason}",
            );
        }
        match (&problem, &call.caller) {
            // What is in a file is nothing for strangers.
            (Some(_), Caller::Anonymous(_)) => Answer::failed(
                Status::NotFound,
                &format!("the procedure /{name} is not in use, because its file was not taken"),
            ),
            _ => Answer::failed(Status::NotFound, &reason),
        }
    }

    /// Answers a call that is not run, for somebody else has decided about it: with the advice of
    /// its procedure, counted and logged like any other.
    pub fn refuse(
        &self,
        call: &Call,
        status: Status,
        reason: &str,
        then: impl FnOnce(Answer, Line),
    ) {
        match self.table.load().get(&call.procedure) {
            Some(procedure) => {
                let answer = Answer::failed(status, reason);
                let (finish, _) = finish(procedure, call, Instant::now(), then);
                finish(answer);
            }
            None => then(self.not_found(call), Line::none()),
        }
    }

    /// Answers the calls that are under way with a failure, for this reason: with the advice of
    /// their procedures, counted and logged like any other.
    pub fn cut_off(&self, reason: &str) {
        self.watchdog
            .answer_all(&Answer::failed(Status::Failed, reason));
    }

    fn overview(&self) -> Overview {
        Overview::new(&self.settings.since, self.figures())
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
                How::Builtin(_, queue) | How::Queue(queue) => queue.waiting(),
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

/// What a message gets that the procedure does not look at.
fn without(manifest: &Manifest, message: &Message) -> Option<Answer> {
    if message.size() > manifest.max_body && manifest.needs >= Need::Headers {
        let text = format!("not looked at: more than {} bytes", manifest.max_body);
        return Some(Answer::done(Outcome::of(manifest.on_large, &text)));
    }
    if manifest.needs == Need::Body && !message.is_whole() {
        // Half of a message looks harmless.
        let reason = "the message is not whole";
        return Some(Answer::failed(Status::Failed, reason));
    }
    None
}

/// Opens a call's message where that was put off, and reads what the log is to say of it. Only the
/// procedure's own threads wait for files.
fn prepare(manifest: &Manifest, call: &mut Call, seen: &OnceLock<About>) -> Option<Answer> {
    let opened = call.open();
    prepared(manifest, call, seen, opened)
}

/// The same for what is built in, if it waits for nothing: changing threads costs more.
fn prepare_at_once(manifest: &Manifest, call: &mut Call, seen: &OnceLock<About>) -> Option<Answer> {
    if manifest.needs >= Need::Headers {
        return None;
    }
    let opened = call.try_open()?;
    prepared(manifest, call, seen, opened)
}

fn prepared(
    manifest: &Manifest,
    call: &Call,
    seen: &OnceLock<About>,
    opened: std::io::Result<()>,
) -> Option<Answer> {
    if let Err(error) = opened {
        return Some(Answer::failed(Status::BadCall, &error.to_string()));
    }
    if seen.get().is_none() {
        // Not within the cell: this may wait for a file, and others would wait for this.
        let about = About::of(call, manifest.needs >= Need::Headers);
        let _ = seen.set(about);
    }
    without(manifest, &call.message)
}

/// What ends a call: the answer is completed, counted, and given to `then` with its line. Whoever
/// reads the message puts what the log says of it into the second value.
fn finish<T: FnOnce(Answer, Line)>(
    procedure: &Procedure,
    call: &Call,
    start: Instant,
    then: T,
) -> (impl FnOnce(Answer) + use<T>, Arc<OnceLock<About>>) {
    let manifest = Arc::clone(&procedure.manifest);
    let is_here = manifest.needs >= Need::Headers && !call.message.is_file();
    let about = About::of(call, is_here);
    let seen: Arc<OnceLock<About>> = Arc::default();
    let read = Arc::clone(&seen);
    let statistics = Arc::clone(&procedure.statistics);
    let name = procedure.name.clone();
    let finish = move |answer: Answer| {
        let mut answer = sendable(answer);
        let took = start.elapsed();
        answer.version.clone_from(&manifest.version);
        if answer.outcome.is_none() {
            answer.advice = Some(manifest.on_error);
        }
        let is_observed = manifest.mode == Mode::Observe;
        statistics.count(&answer, took, is_observed);
        // What was read of the message says more.
        let _ = read.set(about);
        let mut line = Line::of(name, manifest, read, &answer, took);
        if answer.status == Status::Overloaded {
            // The figures count all; a flood of calls does not fill the log.
            line = match statistics.admit_overload(Instant::now()) {
                Some(suppressed) => line.after(suppressed),
                None => line.held_back(),
            };
        }
        if is_observed {
            answer = observed(answer);
        }
        then(answer, line);
    };
    (finish, seen)
}

/// An answer that the protocols can carry: another one becomes a failure, so that the log, the
/// figures and the caller agree.
fn sendable(answer: Answer) -> Answer {
    let is_short = answer.outcome.as_ref().is_none_or(|outcome| {
        let pieces = |change: &Change| change.inserted.len().div_ceil(INSERTED_BYTES_MAX).max(1);
        let edits: usize = outcome.changes.iter().map(pieces).sum();
        edits <= EDITS_MAX && outcome.result.len() <= RESULT_BYTES_MAX
    });
    if is_short {
        return answer;
    }
    let reason = "the procedure's answer cannot be sent: it has too many changes, or its result is \
                  too long";
    Answer::failed(Status::Failed, reason)
}

/// What a caller gets of a procedure that is only observed: its verdict and the reason, as text.
fn observed(answer: Answer) -> Answer {
    let verdict = answer.verdict().map(Verdict::name);
    let parts = ["observed", verdict.unwrap_or_default(), answer.text()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let text = parts.join(": ");
    Answer {
        version: answer.version,
        ..Answer::done(Outcome::of(Verdict::Accept, &text))
    }
}

#[cfg(test)]
mod tests;
