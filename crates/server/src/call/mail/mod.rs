//! Mail servers that ask about messages: listeners for milter and policy delegation.
//!
//! A mail server keeps a connection for each of its SMTP conversations, a few hundred at most, and
//! waits on it for each verdict. So each connection has a thread, which reads, asks the procedure
//! and waits as well; one more thread waits for connections. All of them live in the main thread's
//! table of descriptors and end with [`MailServer`].

mod link;
mod milter;
mod places;
mod policy;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use stentor_call_protocol::{Refusal, Status, Verdict};
use stentor_mail::Violation;
use stentor_procedure::{Answer, Call, Caller, Envelope, Message, Need, Procedure, Registry};
use tracing::{debug, warn};

use crate::call::body::Bodies;
use crate::config::{Asker, ListenUrl, Listener, Question};
use crate::listener::{Opened, is_shortage};
use crate::log::{Admission, RateLimit};
use link::{Link, Listening};
use places::Places;

/// The token of the waker; listeners follow.
const WAKER: Token = Token(0);
/// How long nothing is accepted after the system had no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the end waits for calls that run.
const FAREWELL: Duration = Duration::from_secs(5);
/// Lines in each [`COMPLAINTS_PERIOD`] about mail servers that break the protocol, and about who
/// may not ask.
const COMPLAINTS_MAX: u32 = 10;
/// The time that [`COMPLAINTS_MAX`] holds for.
const COMPLAINTS_PERIOD: Duration = Duration::from_secs(60);
/// The zone of mail servers, as of other callers.
const ZONE: &str = "default";

/// The listeners for mail servers. Dropping it closes them and all connections.
pub(super) struct MailServer {
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    accepting: Option<JoinHandle<()>>,
}

/// What all connections share.
struct Shared {
    registry: Arc<Registry>,
    bodies: Arc<Bodies>,
    places: Mutex<Places>,
    complaints: Mutex<RateLimit>,
    refusals: Mutex<RateLimit>,
    /// A connection has ended.
    ended: Condvar,
    is_over: AtomicBool,
}

/// A listener for mail servers.
struct Entrance {
    listening: Listening,
    endpoint: Arc<MailEndpoint>,
}

/// What holds for all connections of a listener.
struct MailEndpoint {
    url: ListenUrl,
    asker: Asker,
    question: Question,
    /// The number of its listener.
    listener: usize,
}

impl MailServer {
    /// Serves listeners, which are open.
    ///
    /// # Errors
    /// When the system has no descriptor or thread left, or a listener has no question.
    pub(super) fn start(
        listeners: Vec<(Listener, Vec<Opened>)>,
        registry: &Arc<Registry>,
        bodies: &Arc<Bodies>,
        connections_max: usize,
    ) -> io::Result<Self> {
        let mut entrances = Vec::new();
        for (number, (listener, places)) in listeners.into_iter().enumerate() {
            // The configuration was checked when it was read.
            let text = listener.procedure.unwrap_or_default();
            let question = Question::parse(&text).map_err(io::Error::other)?;
            advise(registry, &listener.url, &question);
            for (port, sockets) in places {
                let url = port.url.clone();
                let asker = url.asker().unwrap_or(Asker::Milter);
                let question = question.clone();
                let endpoint = Arc::new(MailEndpoint {
                    url,
                    asker,
                    question,
                    listener: number,
                });
                for socket in sockets {
                    entrances.push(Entrance::new(&endpoint, socket));
                }
            }
        }
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        for (index, entrance) in entrances.iter().enumerate() {
            let descriptor = entrance.listening.as_raw_fd();
            let token = Token(1 + index);
            let mut source = SourceFd(&descriptor);
            poll.registry()
                .register(&mut source, token, Interest::READABLE)?;
        }
        let shared = Arc::new(Shared {
            registry: Arc::clone(registry),
            bodies: Arc::clone(bodies),
            places: Mutex::new(Places::new(connections_max)),
            complaints: Mutex::new(RateLimit::new(COMPLAINTS_MAX, COMPLAINTS_PERIOD)),
            refusals: Mutex::new(RateLimit::new(COMPLAINTS_MAX, COMPLAINTS_PERIOD)),
            ended: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let accepting = super::spawn("mail", move || own.accept_all(poll, &entrances))?;
        Ok(Self {
            shared,
            waker,
            accepting: Some(accepting),
        })
    }
}

impl MailServer {
    /// Lets nobody in any more, ends connections without a message, and waits until then for
    /// those in the middle of one.
    pub(super) fn drain(&self, end: Instant) {
        self.shared.is_over.store(true, Ordering::Release);
        // It fails only when the poll is gone, and then nobody waits.
        let _ = self.waker.wake();
        let places = self.shared.lock();
        places.end_idle();
        drop(self.shared.wait_for_all(places, end));
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        let _ = self.waker.wake();
        if let Some(thread) = self.accepting.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
        let places = self.shared.lock();
        places.end_all();
        drop(self.shared.wait_for_all(places, Instant::now() + FAREWELL));
    }
}

/// Says at the start what will not work as it is.
fn advise(registry: &Registry, url: &ListenUrl, question: &Question) {
    let name = &question.procedure;
    match registry.find(name).map(|procedure| procedure.needs()) {
        None => warn!(
            "{url} asks /{name}, and there is no such procedure: until there is, mail is deferred"
        ),
        Some(need) if need > Need::Envelope && url.asker() == Some(Asker::Policy) => warn!(
            "{url} asks /{name}, which needs more of a message than policy requests have; ask it \
             on a milter listener"
        ),
        Some(_) => {}
    }
}

impl Entrance {
    /// A bound socket that does not block.
    fn new(endpoint: &Arc<MailEndpoint>, socket: OwnedFd) -> Self {
        Self {
            listening: Listening::new(&endpoint.url, socket),
            endpoint: Arc::clone(endpoint),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no connection is left, or until then.
    fn wait_for_all<'a>(
        &self,
        mut places: MutexGuard<'a, Places>,
        end: Instant,
    ) -> MutexGuard<'a, Places> {
        while !places.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.ended.wait_timeout(places, left);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        places
    }

    fn accept_all(self: &Arc<Self>, mut poll: Poll, entrances: &[Entrance]) {
        let mut events = Events::with_capacity(64);
        let mut wait = None;
        while !self.is_over.load(Ordering::Acquire) {
            if let Err(error) = poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                warn!("waiting for mail servers failed: {error}");
                return;
            }
            // After a pause all of them are tried: what was left waiting gives no new event.
            let ready = entrances.iter().enumerate().filter(|(index, _)| {
                wait.is_some() || events.iter().any(|event| event.token().0 == 1 + index)
            });
            let is_short = ready.map(|(_, entrance)| self.accept(entrance)).max();
            wait = is_short.unwrap_or(false).then_some(PAUSE);
        }
    }

    /// Takes all that wait; whether the system was short of something.
    fn accept(self: &Arc<Self>, entrance: &Entrance) -> bool {
        loop {
            match entrance.listening.accept() {
                Ok((link, caller)) => self.open(link, caller, &entrance.endpoint),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_shortage(&error) => {
                    warn!("no mail server can connect for a moment: {error}");
                    return true;
                }
                // That one is gone already.
                Err(_) => {}
            }
        }
    }

    /// Starts the thread of a connection. Where all places are taken, who has been idle for longest
    /// makes room. One that cannot be served is closed: the mail server does what it does without
    /// the filter. So is one that may not ask, before it takes a place.
    fn open(self: &Arc<Self>, link: Link, address: Option<String>, endpoint: &Arc<MailEndpoint>) {
        let caller = caller(endpoint, address);
        if let Caller::Anonymous(address) = &caller
            && !self.admits(endpoint, &caller)
        {
            return self.turn_away(endpoint, address);
        }
        let kept = match link.try_clone() {
            Ok(kept) => kept,
            Err(error) => {
                return self.sorry(endpoint, &format!("no connection is served: {error}"));
            }
        };
        let Some(key) = self.lock().enter(endpoint.listener, kept, Instant::now()) else {
            let why = "all connections are in the middle of a message, and the limit \
                       procedures.connections is reached";
            return self.sorry(endpoint, why);
        };
        let visit = Visit {
            shared: Arc::clone(self),
            endpoint: Arc::clone(endpoint),
            caller,
            key,
        };
        let name = endpoint.asker.scheme().name();
        if let Err(error) = super::spawn(name, move || visit.run(link)) {
            // The visit was dropped with the thread that never was.
            self.sorry(endpoint, &format!("no thread for a mail server: {error}"));
        }
    }

    /// Tells the operator why a connection is closed unserved, though not of each one in a flood.
    fn sorry(&self, endpoint: &MailEndpoint, why: &str) {
        if let Some(held_back) = line(&self.complaints) {
            warn!(held_back, "{}: {why}", endpoint.url);
        }
    }

    /// Whether the procedure may be asked from there. One that is not there refuses nobody: all
    /// mail is deferred, until it is.
    fn admits(&self, endpoint: &MailEndpoint, caller: &Caller) -> bool {
        let procedure = self.registry.find(&endpoint.question.procedure);
        procedure.is_none_or(|procedure| procedure.admits(caller))
    }

    /// Tells the operator who it was, which may be a mail server that the manifest forgot.
    fn turn_away(&self, endpoint: &MailEndpoint, address: &str) {
        if let Some(held_back) = line(&self.refusals) {
            let (url, name) = (&endpoint.url, &endpoint.question.procedure);
            warn!(
                held_back,
                "{url}: a connection from {address} is closed: it is not in `allow_addresses` of \
                 /{name}"
            );
        }
    }
}

/// How many lines were held back before this one; nothing if it is itself.
fn line(limit: &Mutex<RateLimit>) -> Option<u64> {
    let mut limit = limit.lock().unwrap_or_else(PoisonError::into_inner);
    match limit.admit(Instant::now()) {
        Admission::Write { held_back } => Some(held_back),
        Admission::HoldBack => None,
    }
}

/// The caller. On this machine, it is any process that reaches the listener: the operator has
/// bound the procedure to it, and guards a Unix socket by its mode. From the network, it is the
/// user that the manifest names.
fn caller(endpoint: &MailEndpoint, address: Option<String>) -> Caller {
    match address {
        Some(address) if !endpoint.url.is_local() => Caller::Anonymous(address),
        _ => Caller::User {
            zone: ZONE.to_owned(),
            name: endpoint.asker.scheme().name().to_owned(),
        },
    }
}

/// Why a connection ended before its time.
#[derive(Debug)]
enum Ending {
    /// The mail server broke the protocol. It now does without the filter, or defers its mail.
    Wrong(Violation),
    /// The mail server began to say something, and did not end it.
    Slow,
    /// The connection broke.
    Broken(io::Error),
}

impl Ending {
    /// The mail server has closed the connection.
    fn is_end(&self) -> bool {
        matches!(self, Self::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof)
    }
}

impl From<Violation> for Ending {
    fn from(violation: Violation) -> Self {
        Self::Wrong(violation)
    }
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// One connection.
struct Visit {
    shared: Arc<Shared>,
    endpoint: Arc<MailEndpoint>,
    caller: Caller,
    key: usize,
}

impl Visit {
    fn run(&self, link: Link) {
        let served = match self.endpoint.asker {
            Asker::Policy => policy::serve(self, link),
            Asker::Milter | Asker::Client => milter::serve(self, link),
        };
        let url = &self.endpoint.url;
        match served {
            Err(Ending::Wrong(violation)) => {
                self.complain(&format!("it breaks the protocol: {violation}"));
            }
            Err(Ending::Slow) => {
                self.complain("a command or request was not complete in time");
            }
            Err(Ending::Broken(error)) if !self.shared.is_over.load(Ordering::Acquire) => {
                debug!("{url}: a mail server's connection ended: {error}");
            }
            _ => {}
        }
    }

    /// Tells the operator, who otherwise sees no more than mail which is deferred or not filtered.
    fn complain(&self, why: &str) {
        if let Some(held_back) = line(&self.shared.complaints) {
            let url = &self.endpoint.url;
            warn!(
                held_back,
                "{url}: a mail server's connection is closed, since {why}"
            );
        }
    }

    fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Says whether the connection is in the middle of a message; whether it goes on: when it has
    /// made room for another one, or at the end of the server without a message, it does not.
    fn set_busy(&self, is_busy: bool) -> bool {
        let mut places = self.shared.lock();
        let goes_on = places.set_busy(self.key, is_busy, Instant::now());
        goes_on && (is_busy || !self.shared.is_over.load(Ordering::Acquire))
    }

    /// The procedure as it is now, if there is one.
    fn find(&self) -> Option<Arc<Procedure>> {
        self.registry().find(&self.endpoint.question.procedure)
    }

    /// A call about a message.
    fn about(&self, envelope: Envelope, message: Message) -> Call {
        Call {
            procedure: self.endpoint.question.procedure.clone(),
            arguments: self.endpoint.question.arguments.clone(),
            envelope,
            caller: self.caller.clone(),
            message,
            deadline: Instant::now(),
            can_edit: false,
            is_clients: false,
            outlet: None,
        }
    }

    /// Answers a call that is not made, as the operator wants it then.
    fn refuse(&self, call: &Call, status: Status, reason: &str) -> Answer {
        let mut answer = Answer::failed(status, reason);
        self.registry()
            .refuse(call, status, reason, |said, _| answer = said);
        answer
    }

    /// Makes a call of the version that was found when the message began, and waits for its answer.
    fn ask(&self, version: Option<&Procedure>, mut call: Call, patience: Duration) -> Answer {
        let (send, receive) = channel();
        call.deadline = Instant::now() + patience;
        let then = move |answer, line| {
            // The end of the server waits for the answer, and not for its line.
            drop(line);
            // The receiver waits for it.
            drop(send.send(answer));
        };
        match version {
            Some(version) => self.registry().run(version, call, then),
            None => self.registry().call(call, then),
        }
        let answer = receive.recv();
        answer.unwrap_or_else(|_| Answer::failed(Status::Failed, "there is no answer"))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.shared.lock().leave(self.key);
        self.shared.ended.notify_all();
    }
}

/// What is done with a message. Where there is no verdict and nobody has said what holds then, it
/// is refused for now.
fn verdict(answer: &Answer) -> Verdict {
    answer.verdict().unwrap_or(Verdict::Tempfail)
}

/// The answer to the SMTP client for a message that does not pass. Reasons that concern the
/// operator are only in the log, because strangers read this answer.
fn refusal(answer: &Answer) -> Refusal<'_> {
    let verdict = verdict(answer);
    match &answer.outcome {
        Some(outcome) => Refusal::of(
            verdict,
            outcome.reply_code,
            &outcome.enhanced,
            &outcome.text,
        ),
        None => Refusal::of(verdict, 0, "", "the message cannot be checked now"),
    }
}
