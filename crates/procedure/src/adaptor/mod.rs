//! Adaptors: the operator's own code in Luau that sees, rewrites and refuses what clients do.
//!
//! An [`Adaptor`] is one script, one thread and one virtual machine ([`crate::luau::Resident`]).
//! It is [asked](Adaptor::ask) about an [`Event`] and answers with a [`Verdict`], or is
//! [told](Adaptor::tell). What it does besides goes to its [`Host`]. A hook that waits (for an
//! HTTP answer, a command, a procedure) is put aside, and others run in the meantime.
//!
//! Each run has a bound on its time, the machine one on its memory; a hook that breaks one is
//! stopped, logged, and its question answered by [`Options::on_error`]. When the file changes, the
//! new version is compiled and tested first, and `save` and `restore` carry over what it kept; a
//! bad file changes nothing and says why.

mod check;
mod http;
mod interface;
mod machine;
mod source;
mod trial;
mod values;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

pub use check::{Outcome, TEMPLATE, TEMPLATE_TEST, TYPES, check, test};
pub use source::{Builtin, Source};
pub use trial::Trials;
use worker::{Input, Worker};

use crate::Trust;

/// The names of the hooks, in the order of their bits in [`Adaptor::hooks`].
pub const HOOKS: [&str; 12] = [
    "publish",
    "say",
    "private",
    "subscribe",
    "join",
    "leave",
    "disconnect",
    "created",
    "closed",
    "login",
    "timer",
    "call",
];

/// Questions that may wait for one adaptor.
const QUESTIONS_MAX: usize = 10_000;
/// Bytes of questions that may wait, and as many of news.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What a question comes to when the hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It is denied.
    #[default]
    Deny,
    /// It is allowed.
    Allow,
}

/// How an adaptor is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its number among all adaptors.
    pub id: u16,
    /// Where its text comes from.
    pub source: Source,
    /// The zone of what it does in its `timer`, and of nothing else.
    pub zone: Arc<str>,
    /// Whether its `timer` runs.
    pub has_timer: bool,
    /// Bytes of memory that its machine may use.
    pub memory: usize,
    /// How long one run of a hook may take, waiting aside.
    pub time: Duration,
    /// How long a hook may take in all.
    pub deadline: Duration,
    /// `HOST` or `HOST:PORT` that it may call by HTTP or HTTPS.
    pub hosts: Vec<String>,
    /// The authorities whose certificates are trusted at `https://`; does not change while it runs.
    pub trust: Trust,
    /// Messages, commands, calls and requests in one second, all its hooks together.
    pub rate: u32,
    /// The longest payload that a hook makes, in bytes; may change at any time.
    pub payload_max: Arc<AtomicUsize>,
    /// Shared by all who run the same file.
    pub trials: Arc<Trials>,
    /// What a question comes to when its hook fails.
    pub on_error: OnError,
}

impl Options {
    /// Whether something else is asked for, but for the number and what changes by itself.
    #[must_use]
    pub fn differ(&self, other: &Self) -> bool {
        let how = |one: &Self| {
            let bounds = (one.memory, one.time, one.deadline, one.rate);
            (one.source.clone(), bounds, one.hosts.clone(), one.on_error)
        };
        how(self) != how(other)
    }
}

/// What an adaptor has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Runs of hooks.
    pub runs: u64,
    /// Runs that failed.
    pub failures: u64,
    /// What hooks asked of the server beyond what they may.
    pub refused: u64,
    /// Lines that the log does not have since there were too many.
    pub suppressed: u64,
}

/// The newest version of a file, where it is not the one that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When this version was first refused.
    pub since: SystemTime,
    /// What is wrong with it, with file and line.
    pub reason: String,
}

#[derive(Debug, Default)]
struct Counters {
    runs: AtomicU64,
    failures: AtomicU64,
    refused: AtomicU64,
    suppressed: AtomicU64,
}

/// A value of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// Text or bytes.
    Bytes(Box<[u8]>),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Texts by name; of several with one name, the last.
    Texts(Vec<(Box<str>, Box<str>)>),
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().into())
    }
}

impl From<&[u8]> for Field {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// Something that a hook sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The hook: one of [`HOOKS`].
    pub hook: &'static str,
    /// The zone in which it happens.
    pub zone: Arc<str>,
    /// What there is to see.
    pub fields: Vec<(&'static str, Field)>,
}

impl Event {
    /// Bytes of memory that it takes, about.
    fn bytes(&self) -> usize {
        let bytes = |field: &(&str, Field)| {
            size_of_val(field)
                + match &field.1 {
                    Field::Bytes(bytes) => bytes.len(),
                    Field::Texts(texts) => texts
                        .iter()
                        .map(|(name, text)| name.len() + text.len())
                        .sum(),
                    Field::Number(_) | Field::Flag(_) => 0,
                }
        };
        size_of::<Self>() + self.fields.iter().map(bytes).sum::<usize>()
    }
}

/// What a hook says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done, as it is or changed.
    Allow(Allowed),
    /// It is not done.
    Deny {
        /// The reason code of MQTT 5, if the script gives one.
        code: Option<u8>,
        /// The reason, for people.
        text: String,
    },
    /// It is not done, for too much waits already. The caller may try again.
    Busy,
}

/// What becomes of something that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The topic instead, or for a private message the user.
    pub to: Option<String>,
    /// The payload instead.
    pub payload: Option<Vec<u8>>,
    /// `response = false`: no response.
    pub hides_response: bool,
    /// `notification = false`: nobody hears of it.
    pub hides_notification: bool,
    /// Of a call: its answer, and nobody else is asked.
    pub result: Option<Vec<u8>>,
    /// Of a login: it is let in with these roles, and nobody else is asked.
    pub roles: Option<Vec<String>>,
}

/// Something that an adaptor does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Publishes, as the server.
    Publish {
        /// The topic.
        topic: String,
        /// The payload.
        payload: Vec<u8>,
        /// The RETAIN flag.
        retain: bool,
    },
    /// Sends a private message.
    Send {
        /// To whom.
        to: String,
        /// From whom.
        from: String,
        /// What.
        payload: Vec<u8>,
    },
    /// Gives a command about rooms; to be [answered](Adaptor::answered).
    Command {
        /// Which one, like `room.set`.
        procedure: String,
        /// JSON.
        payload: Vec<u8>,
        /// What the answer is known by.
        number: u64,
    },
    /// Calls a procedure; to be [answered](Adaptor::answered).
    Call {
        /// Which one.
        procedure: String,
        /// Arguments by name.
        arguments: Vec<(String, String)>,
        /// What it is about.
        payload: Vec<u8>,
        /// What the answer is known by.
        number: u64,
    },
}

/// The server that carries out the actions of adaptors.
pub trait Host: Send + Sync {
    /// Does something in a zone. Must not block.
    fn act(&self, zone: &str, action: Action);
}

/// Receives a verdict; called once.
pub type Answer = Box<dyn FnOnce(Verdict) + Send>;

/// A question that somebody waits for. One that is dropped, by a thread that fails, is answered.
struct Asked {
    answer: Option<Answer>,
    on_error: OnError,
}

impl Asked {
    fn give(mut self, verdict: Verdict) {
        if let Some(answer) = self.answer.take() {
            answer(verdict);
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(self.on_error.verdict("the adaptor has ended"));
        }
    }
}

/// A line of events that wait, as their number and bytes.
#[derive(Debug, Default)]
struct Line {
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Line {
    /// Whether one more may wait, which does then.
    fn enter(&self, event: &Event, count_max: usize) -> bool {
        let bytes = event.bytes();
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let may = count < count_max && before + bytes <= WAITING_BYTES_MAX;
        if !may {
            self.leave(event);
        }
        may
    }

    /// It waits no more.
    fn leave(&self, event: &Event) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(event.bytes(), Ordering::Relaxed);
    }
}

/// What an adaptor and its thread share.
#[derive(Debug, Default)]
struct Common {
    /// A bit for each of [`HOOKS`].
    hooks: AtomicU16,
    /// The questions that wait for the thread.
    questions: Line,
    news: Line,
    /// News that was forgotten, and that the log does not have yet.
    forgotten: AtomicU64,
    /// [`OnError::Deny`].
    denies: AtomicBool,
    counters: Arc<Counters>,
    /// The version of the file that was looked at last, if it was refused.
    refused: Mutex<Option<Refused>>,
}

impl Common {
    fn on_error(&self) -> OnError {
        OnError::new(self.denies.load(Ordering::Relaxed))
    }

    /// It is whole at any time.
    fn refused(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running adaptor. Dropping it ends its thread after what it has been asked by then; nobody
/// waits for that, for it may be dropped by a thread that must not.
#[derive(Debug)]
pub struct Adaptor {
    id: u16,
    source: Source,
    common: Arc<Common>,
    inputs: Mutex<Sender<Input>>,
}

impl Adaptor {
    /// Compiles and tests a script and starts its thread.
    ///
    /// # Errors
    /// What is wrong with it, with file and line.
    pub fn start(options: Options, host: Arc<dyn Host>) -> Result<Self, String> {
        let (sender, inputs) = channel();
        let common = Arc::<Common>::default();
        let (id, source) = (options.id, options.source.clone());
        let (started, result) = channel();
        let (shared, own) = (Arc::clone(&common), sender.clone());
        let run = move || match Worker::start(options, host, shared, own) {
            Ok(worker) => {
                // The thread that starts it waits for this.
                let _ = started.send(Ok(()));
                worker.run(&inputs);
            }
            Err(reason) => {
                let _ = started.send(Err(reason));
            }
        };
        let thread = thread::Builder::new().name(format!("adaptor-{id}"));
        let spawned = thread.spawn(run);
        spawned.map_err(|error| format!("starting a thread: {error}"))?;
        match result.recv() {
            Ok(Ok(())) => Ok(Self {
                id,
                source,
                common,
                inputs: Mutex::new(sender),
            }),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err("its thread ended before it began".to_owned()),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// Where its text comes from.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// The hooks that it has: a bit for each of [`HOOKS`].
    #[must_use]
    pub fn hooks(&self) -> u16 {
        self.common.hooks.load(Ordering::Relaxed)
    }

    /// Whether it has a hook of this name.
    #[must_use]
    pub fn has(&self, hook: &str) -> bool {
        HOOKS
            .iter()
            .position(|name| *name == hook)
            .is_some_and(|bit| self.hooks() & (1 << bit) != 0)
    }

    /// What it has done.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let counters = &self.common.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            runs: read(&counters.runs),
            failures: read(&counters.failures),
            refused: read(&counters.refused),
            suppressed: read(&counters.suppressed),
        }
    }

    /// What is on disk, if that was refused and an older version goes on.
    #[must_use]
    pub fn refused(&self) -> Option<Refused> {
        self.common.refused().clone()
    }

    /// Asks a hook; the answer is given later, from the adaptor's thread, or at once if too many
    /// wait: then it is what [`Options::on_error`] says.
    pub fn ask(&self, event: Event, answer: Answer) {
        let on_error = self.common.on_error();
        if !self.common.questions.enter(&event, QUESTIONS_MAX) {
            return answer(on_error.busy());
        }
        let answer = Some(answer);
        self.send(Input::Event(event, Some(Asked { answer, on_error })));
    }

    /// Tells a hook; forgotten, which is logged, if 64 MiB of news wait.
    pub fn tell(&self, event: Event) {
        if self.common.news.enter(&event, usize::MAX) {
            self.send(Input::Event(event, None));
        } else {
            self.common.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer of a command or a procedure.
    pub fn answered(&self, number: u64, json: Vec<u8>) {
        self.send(Input::Answered(number, json));
    }

    /// Looks at the file now. `Ok(true)` if there was a new version, which runs from now on. One
    /// that begins afresh runs from now on even if the file has not changed, and knows nothing of
    /// what the version before it kept.
    ///
    /// # Errors
    /// What is wrong with the new version; the old one goes on.
    pub fn reload(&self, start: Start) -> Result<bool, String> {
        self.order(|answer| Input::Look(start, answer))
    }

    /// Goes on with other options; what it has kept is carried over as to a new version. Its
    /// number, zone and timer stay.
    ///
    /// # Errors
    /// Why not; then it goes on as it was.
    pub fn change(&self, options: Options) -> Result<(), String> {
        self.prepare(options).map(Change::take)
    }

    /// The same, but for the last step: it runs nothing until the change is taken, or given up by
    /// being dropped.
    ///
    /// # Errors
    /// Why not; then it goes on as it was.
    pub fn prepare(&self, options: Options) -> Result<Change, String> {
        let (sender, decided) = channel();
        self.order(|answer| Input::Change(Box::new(options), answer, decided))?;
        Ok(Change(sender))
    }

    fn order(
        &self,
        input: impl FnOnce(Sender<Result<bool, String>>) -> Input,
    ) -> Result<bool, String> {
        let (sender, result) = channel();
        self.send(input(sender));
        let patience = Duration::from_secs(30);
        let busy = |_| Err("the adaptor is busy; it looks at its file by itself".to_owned());
        result.recv_timeout(patience).unwrap_or_else(busy)
    }

    fn send(&self, input: Input) {
        // A sender is whole whatever happened in the meantime.
        let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = inputs.send(input);
        // A question that does not arrive is answered as it is dropped.
        drop(inputs);
        drop(sent);
    }
}

/// Other options that an adaptor can go on with, and waits to be told whether it does.
#[derive(Debug)]
pub struct Change(Sender<()>);

impl Change {
    /// It does.
    pub fn take(self) {
        // It has ended if it does not listen.
        let _ = self.0.send(());
    }
}

impl Drop for Adaptor {
    fn drop(&mut self) {
        self.send(Input::Stop);
    }
}

/// With what a new version begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what the old version's `save` hands on.
    CarryOver,
    /// With nothing.
    Afresh,
}

impl OnError {
    const fn new(denies: bool) -> Self {
        if denies { Self::Deny } else { Self::Allow }
    }

    /// What a question comes to for which there is no room.
    #[must_use]
    pub fn busy(self) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow(Allowed::default()),
            Self::Deny => Verdict::Busy,
        }
    }

    /// What a question comes to that no hook has answered.
    #[must_use]
    pub fn verdict(self, text: &str) -> Verdict {
        match self {
            Self::Allow => Verdict::Allow(Allowed::default()),
            Self::Deny => Verdict::Deny {
                code: None,
                text: text.to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
