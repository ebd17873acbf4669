//! The thread that owns the call listeners and their connections.

use std::io;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use slab::Slab;
use stentor_auth::center::Center;
use stentor_auth::{Decision, Refusal};
use stentor_call_protocol::Status;
use stentor_hub::Identity;
use stentor_procedure::{Answer, Call, Caller, Registry};
use stentor_zone::topic;
use tracing::warn;

use super::callers::Callers;
use super::connection::{Around, Called, Connection, Next, Stream};
use super::identity::{Claim, Identities, Tokens};
use crate::config::ListenUrl;

/// The token of the waker; listeners follow, then connections.
const WAKER: Token = Token(0);
/// How often connections whose time is up are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Connections beyond those that are served, which are told so; what is beyond them is closed.
const TURNED_AWAY_MAX: usize = 256;
/// How long nothing is accepted after the system had no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// A listener of calls.
pub(super) struct Entrance {
    socket: Listening,
    identities: Arc<Identities>,
}

enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Entrance {
    /// A bound socket that does not block.
    pub(super) fn new(url: &ListenUrl, socket: OwnedFd, identities: Arc<Identities>) -> Self {
        let socket = match url {
            ListenUrl::Net { .. } => {
                Listening::Tcp(TcpListener::from_std(StdTcpListener::from(socket)))
            }
            ListenUrl::Unix(_) | ListenUrl::AskUnix(..) => {
                Listening::Unix(UnixListener::from_std(StdUnixListener::from(socket)))
            }
        };
        Self { socket, identities }
    }

    fn source(&mut self) -> &mut dyn mio::event::Source {
        match &mut self.socket {
            Listening::Unix(socket) => socket,
            Listening::Tcp(socket) => socket,
        }
    }

    /// Takes the next connection, with who calls as far as the system knows.
    fn accept(&self) -> io::Result<(Stream, Peer)> {
        match &self.socket {
            Listening::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                let peer = getsockopt(&stream.as_fd(), PeerCredentials)?;
                let uid = nix::unistd::Uid::from_raw(peer.uid());
                let gid = nix::unistd::Gid::from_raw(peer.gid());
                let claim = self.identities.claim(uid, gid);
                Ok((Stream::Unix(stream), Peer::Local(claim)))
            }
            Listening::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                // The answer is one small write.
                stream.set_nodelay(true)?;
                let address = address.ip().to_canonical();
                Ok((Stream::Tcp(stream), Peer::Remote(address)))
            }
        }
    }
}

/// What is known of a caller before its call.
enum Peer {
    Local(Claim),
    Remote(IpAddr),
}

impl Peer {
    /// Who it is with this token; `None` if nobody has it.
    fn claim(&self, tokens: &Tokens, token: &[u8]) -> Option<Claim> {
        match self {
            Self::Local(claim) if token.is_empty() => Some(claim.clone()),
            Self::Local(_) => tokens.claim(token, None),
            Self::Remote(address) if token.is_empty() => Some(Claim::Nobody(address.to_string())),
            Self::Remote(address) => tokens.claim(token, Some(*address)),
        }
    }
}

/// What other threads say about a call: its connection's key and number, and what.
type Posted = (usize, u64, News);

enum News {
    /// The procedure has answered.
    Answer(Answer),
    /// The Auth Center has decided who calls.
    Identified(Box<Called>, Decision),
}

/// Where procedures and the Auth Center put what they say.
struct Outbox {
    posted: Mutex<Vec<Posted>>,
    waker: Waker,
    is_over: AtomicBool,
}

impl Outbox {
    fn push(&self, key: usize, number: u64, news: News, owner: ThreadId) {
        let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
        posted.push((key, number, news));
        drop(posted);
        // What is built in answers on the thread that looks here right after.
        if std::thread::current().id() != owner {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when the poll is gone, and then nobody waits.
        let _ = self.waker.wake();
    }

    fn take(&self) -> Vec<Posted> {
        std::mem::take(&mut *self.posted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends the thread.
pub(super) struct Stopper(Arc<Outbox>);

impl Stopper {
    pub(super) fn stop(self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.wake();
    }
}

struct Server {
    poll: Poll,
    entrances: Vec<Entrance>,
    tokens: Tokens,
    callers: Callers,
    registry: Arc<Registry>,
    folder: PathBuf,
    outbox: Arc<Outbox>,
    connections: Slab<(u64, Connection, Peer)>,
    connections_max: usize,
    /// Of the next connection: a key may be taken again before an answer for its last one comes.
    number: u64,
    /// Nothing is accepted before.
    paused_until: Option<Instant>,
}

/// Makes everything that can fail; the second value is the thread's work.
///
/// # Errors
/// When the system has no descriptor left.
pub(super) fn prepare(
    mut entrances: Vec<Entrance>,
    (tokens, center): (Tokens, &Arc<Center>),
    registry: &Arc<Registry>,
    folder: PathBuf,
    connections_max: usize,
) -> io::Result<(Stopper, impl FnOnce() + Send + 'static)> {
    let poll = Poll::new()?;
    let outbox = Arc::new(Outbox {
        posted: Mutex::default(),
        waker: Waker::new(poll.registry(), WAKER)?,
        is_over: AtomicBool::new(false),
    });
    for (index, entrance) in entrances.iter_mut().enumerate() {
        let token = Token(1 + index);
        poll.registry()
            .register(entrance.source(), token, Interest::READABLE)?;
    }
    let mut server = Server {
        poll,
        entrances,
        tokens,
        callers: Callers::new(center),
        registry: Arc::clone(registry),
        folder,
        outbox: Arc::clone(&outbox),
        connections: Slab::new(),
        connections_max,
        number: 0,
        paused_until: None,
    };
    Ok((Stopper(outbox), move || server.run()))
}

impl Server {
    fn run(&mut self) {
        let mut events = Events::with_capacity(256);
        let mut swept = Instant::now();
        while !self.outbox.is_over.load(Ordering::Acquire) {
            let wait = match (self.paused_until, self.connections.is_empty()) {
                (Some(_), _) => Some(PAUSE),
                (None, false) => Some(SWEEP_INTERVAL),
                (None, true) => None,
            };
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                warn!("waiting for calls failed: {error}");
                return;
            }
            for event in &events {
                let token = event.token().0;
                if token == WAKER.0 {
                    continue;
                }
                match token - 1 {
                    index if index < self.entrances.len() => self.accept(index),
                    index => self.ready(index - self.entrances.len(), event.is_writable()),
                }
            }
            self.hand_out();
            let now = Instant::now();
            if self.paused_until.is_some_and(|until| until <= now) {
                self.paused_until = None;
                (0..self.entrances.len()).for_each(|index| self.accept(index));
                self.hand_out();
            }
            if now.duration_since(swept) >= SWEEP_INTERVAL {
                swept = now;
                self.connections
                    .retain(|_, (_, connection, _)| connection.until > now);
            }
        }
    }

    fn accept(&mut self, index: usize) {
        while self.paused_until.is_none() {
            match self.entrances[index].accept() {
                // Closing it at once is the answer: the caller does what it does without one.
                Ok(_) if self.connections.len() >= self.connections_max + TURNED_AWAY_MAX => {}
                Ok((stream, peer)) => self.open(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
                    ) =>
                {
                    warn!("no call can be taken for a moment: {error}");
                    self.paused_until = Some(Instant::now() + PAUSE);
                }
                // That caller is gone already.
                Err(_) => {}
            }
        }
    }

    fn open(&mut self, stream: Stream, peer: Peer) {
        let mut connection = Connection::new(stream);
        let key = self.connections.vacant_key();
        let token = Token(1 + self.entrances.len() + key);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let source = connection.stream.source();
        if self
            .poll
            .registry()
            .register(source, token, interest)
            .is_err()
        {
            return;
        }
        self.number += 1;
        self.connections.insert((self.number, connection, peer));
        // The call is most often there already.
        self.ready(key, false);
    }

    fn ready(&mut self, key: usize, is_writable: bool) {
        let Some((number, connection, peer)) = self.connections.get_mut(key) else {
            return;
        };
        let mut next = if is_writable {
            connection.writable()
        } else {
            Next::Wait
        };
        if matches!(next, Next::Wait) {
            let (tokens, peer) = (&self.tokens, &*peer);
            let claim = |token: &[u8]| peer.claim(tokens, token);
            let around = Around {
                registry: &self.registry,
                claim: &claim,
                folder: &self.folder,
            };
            next = connection.readable(&around);
        }
        let number = *number;
        self.follow(key, number, next);
    }

    fn follow(&mut self, key: usize, number: u64, next: Next) {
        match next {
            Next::Wait => {}
            Next::Close => {
                self.connections.try_remove(key);
            }
            Next::Run(called) => self.identify(key, number, called),
        }
    }

    /// Finds out who calls. Most are known from before.
    fn identify(&mut self, key: usize, number: u64, called: Box<Called>) {
        if self.connections.len() > self.connections_max {
            let reason = "too many callers are connected (procedures.connections)";
            return self.refuse(key, number, &called.call, (Status::Overloaded, reason));
        }
        if matches!(called.claim, Claim::Nobody(_) | Claim::Owner(_)) {
            return self.call(key, number, called.call);
        }
        if let Some(identity) = self.callers.find(&called.claim) {
            return self.admit(key, number, called.call, &identity);
        }
        let outbox = Arc::clone(&self.outbox);
        let owner = std::thread::current().id();
        let claim = called.claim.clone();
        self.callers.ask(&claim, move |decision| {
            let news = News::Identified(called, decision);
            outbox.push(key, number, news, owner);
        });
    }

    /// The Auth Center has said who calls.
    fn identified(&mut self, key: usize, number: u64, called: Box<Called>, decision: Decision) {
        let Called { call, claim } = *called;
        let why = match (decision, &claim) {
            (Decision::Accepted(identity, _), _) => {
                self.callers.keep(&claim, &identity);
                return self.admit(key, number, call, &identity);
            }
            (Decision::Refused(Refusal::Unavailable), _) => {
                (Status::Failed, "the user database does not answer")
            }
            (Decision::Refused(Refusal::Busy | Refusal::Slowed), _) => {
                (Status::Overloaded, "too many callers have to be identified")
            }
            (_, Claim::Shown { .. }) => (Status::NotAllowed, "nobody has this token"),
            _ => return self.bar(key, number, call, "this user is disabled"),
        };
        self.refuse(key, number, &call, why);
    }

    /// Runs a call if its caller has the right to make it.
    fn admit(&self, key: usize, number: u64, call: Call, identity: &Identity) {
        if identity.rights.may_publish(&topic::call(&call.procedure)) {
            self.call(key, number, call);
        } else {
            self.bar(
                key,
                number,
                call,
                "the right to call this procedure is missing",
            );
        }
    }

    /// A caller who may call only what everybody may.
    fn bar(&self, key: usize, number: u64, mut call: Call, reason: &str) {
        if self.registry.is_open(&call.procedure) {
            call.caller = Caller::Anonymous(call.caller.name().into_owned());
            return self.call(key, number, call);
        }
        self.refuse(key, number, &call, (Status::NotAllowed, reason));
    }

    fn call(&self, key: usize, number: u64, call: Call) {
        self.registry.call(call, self.reply(key, number));
    }

    fn refuse(&self, key: usize, number: u64, call: &Call, why: (Status, &str)) {
        self.registry.refuse(call, why, self.reply(key, number));
    }

    /// Brings an answer back to its connection.
    fn reply(&self, key: usize, number: u64) -> impl FnOnce(Answer) + Send + use<> {
        let outbox = Arc::clone(&self.outbox);
        let owner = std::thread::current().id();
        move |answer| outbox.push(key, number, News::Answer(answer), owner)
    }

    /// Goes on with calls that others have said something about. What is built in, and whoever is
    /// refused, is answered at once, so there may be more.
    fn hand_out(&mut self) {
        loop {
            let posted = self.outbox.take();
            if posted.is_empty() {
                return;
            }
            for (key, number, news) in posted {
                let Some((current, connection, _)) = self.connections.get_mut(key) else {
                    continue;
                };
                if *current != number {
                    continue;
                }
                match news {
                    News::Answer(answer) => {
                        let next = connection.answer(&answer);
                        self.follow(key, number, next);
                    }
                    News::Identified(called, decision) => {
                        self.identified(key, number, called, decision);
                    }
                }
            }
        }
    }
}
