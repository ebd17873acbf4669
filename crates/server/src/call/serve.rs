//! The thread that owns the call listeners and their connections.

use std::io;
use std::net::TcpListener as StdTcpListener;
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
use stentor_procedure::{Answer, Call, Caller, Registry};
use tracing::warn;

use super::connection::{Around, Connection, Next, Stream};
use super::identity::{Identities, Tokens};
use crate::config::ListenUrl;

/// The token of the waker; listeners follow, then connections.
const WAKER: Token = Token(0);
/// How often connections whose time is up are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
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
                let caller = self.identities.caller(uid, gid);
                Ok((Stream::Unix(stream), Peer::Known(caller)))
            }
            Listening::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                // The answer is one small write.
                stream.set_nodelay(true)?;
                let address = address.ip().to_canonical().to_string();
                Ok((Stream::Tcp(stream), Peer::Address(address)))
            }
        }
    }
}

/// What is known of a caller before its call.
enum Peer {
    Known(Caller),
    Address(String),
}

/// Where procedures put their answers.
struct Outbox {
    answers: Mutex<Vec<(usize, u64, Answer)>>,
    waker: Waker,
    is_over: AtomicBool,
}

impl Outbox {
    fn push(&self, key: usize, number: u64, answer: Answer, owner: ThreadId) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((key, number, answer));
        drop(answers);
        // What is built in answers on the thread that looks here right after.
        if std::thread::current().id() != owner {
            self.wake();
        }
    }

    fn wake(&self) {
        // It fails only when the poll is gone, and then nobody waits.
        let _ = self.waker.wake();
    }

    fn take(&self) -> Vec<(usize, u64, Answer)> {
        std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner))
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
    tokens: Tokens,
    registry: &Arc<Registry>,
    folder: PathBuf,
    connections_max: usize,
) -> io::Result<(Stopper, impl FnOnce() + Send + 'static)> {
    let poll = Poll::new()?;
    let outbox = Arc::new(Outbox {
        answers: Mutex::default(),
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
                Ok(_) if self.connections.len() >= self.connections_max => {}
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
            let caller = |token: &[u8]| match peer {
                Peer::Known(caller) if token.is_empty() => Some(caller.clone()),
                Peer::Known(_) => tokens.caller(token, String::new()),
                Peer::Address(address) => tokens.caller(token, address.clone()),
            };
            let around = Around {
                registry: &self.registry,
                caller: &caller,
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
            Next::Run(call) => self.call(key, number, *call),
        }
    }

    fn call(&self, key: usize, number: u64, call: Call) {
        let outbox = Arc::clone(&self.outbox);
        let owner = std::thread::current().id();
        self.registry
            .call(call, move |answer| outbox.push(key, number, answer, owner));
    }

    /// Gives answers to those who wait for them.
    fn hand_out(&mut self) {
        for (key, number, answer) in self.outbox.take() {
            let Some((current, connection, _)) = self.connections.get_mut(key) else {
                continue;
            };
            if *current == number {
                let next = connection.answer(&answer);
                self.follow(key, number, next);
            }
        }
    }
}
