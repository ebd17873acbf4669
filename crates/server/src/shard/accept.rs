//! New connections.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Token};
use nix::sys::socket::{getsockopt, sockopt};
use stentor_session::{CloseReason, Limit};

use super::leave::STOP_TIME;
use super::link::{Entrance, Link, LinkBytes, LinkKey, Phase, Reading, Stream};
use super::pace::{ACCEPT_TIME, Part};
use super::tail::Tail;
use super::{FIRST_LISTENER, Patience, Shard};
use crate::admission::Permit;
use crate::listener::{Port, is_shortage};
use crate::peer::Peer;
use crate::telemetry::Entry;
use crate::transport::Transport;

/// Connections accepted from one listener in a turn.
const ACCEPTS: usize = 128;

/// The same when the server stops, as often as this.
const LAST_ROUNDS: usize = 512;

/// How long somebody who is going to be refused may take to say what protocol to refuse him in.
const REFUSAL_TIME: Duration = Duration::from_secs(2);

/// A listener of this shard.
pub(super) struct Listening {
    port: Arc<Port>,
    socket: ListeningSocket,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What accepting came to.
enum Accepted {
    Connection(OwnedFd, Peer),
    /// Nobody is waiting.
    Nobody,
    /// Somebody gave up waiting.
    Aborted,
    /// No descriptor or memory is left.
    NoRoom,
}

impl ListeningSocket {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            Self::Unix(listener) => listener,
        }
    }

    fn accept(&self) -> Accepted {
        let result = match self {
            Self::Tcp(listener) => listener
                .accept()
                .map(|(stream, peer)| (OwnedFd::from(stream), Peer::from(peer))),
            Self::Unix(listener) => listener.accept().map(|(stream, _)| {
                let peer = unix_peer(&stream);
                (OwnedFd::from(stream), peer)
            }),
        };
        match result {
            Ok((fd, peer)) => Accepted::Connection(fd, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nobody,
            Err(error) if is_shortage(&error) => Accepted::NoRoom,
            Err(_) => Accepted::Aborted,
        }
    }
}

/// The user and process at the other end of a Unix socket.
pub(crate) fn unix_peer(stream: &impl std::os::fd::AsFd) -> Peer {
    match getsockopt(stream, sockopt::PeerCredentials) {
        Ok(credentials) => Peer::Unix {
            uid: credentials.uid(),
            pid: u32::try_from(credentials.pid()).unwrap_or(0),
        },
        Err(_) => Peer::Unix {
            uid: u32::MAX,
            pid: 0,
        },
    }
}

impl Shard {
    /// Watches a listener.
    pub(super) fn listen(&mut self, port: Arc<Port>, socket: OwnedFd) -> io::Result<()> {
        let mut socket = match port.scheme() {
            Some(_) => ListeningSocket::Tcp(TcpListener::from(socket)),
            None => ListeningSocket::Unix(UnixListener::from(socket)),
        };
        let entry = self.listeners.vacant_entry();
        let index = entry.key();
        let token = Token(FIRST_LISTENER + index);
        socket
            .source()
            .register(self.poller.registry(), token, Interest::READABLE)?;
        entry.insert(Listening { port, socket });
        // A client that connected before the registration may not be announced again.
        self.accepting.push(index);
        Ok(())
    }

    /// Closes a listener; connections that came through it stay.
    pub(super) fn unlisten(&mut self, port: &Arc<Port>) {
        self.listeners
            .retain(|_, listening| !Arc::ptr_eq(&listening.port, port));
    }

    /// Keeps a descriptor back for when there is no other.
    pub(super) fn keep_spare(&mut self) {
        if self.spare.is_none() {
            // Any descriptor will do; nobody uses it.
            self.spare = nix::unistd::dup(&*self.waker).ok();
        }
    }

    /// Accepts from each listener that has somebody waiting, a budget each.
    pub(super) fn accept_all(&mut self) {
        self.patience = Patience::None;
        if self.accepting.is_empty() {
            return;
        }
        let mut accepting = std::mem::take(&mut self.accepting);
        accepting.sort_unstable();
        accepting.dedup();
        let mut part = self.begin_part(ACCEPT_TIME);
        accepting.retain(|index| self.accept_some(*index, ACCEPTS, &mut part) == More::Maybe);
        accepting.append(&mut self.accepting);
        self.accepting = accepting;
    }

    fn accept_some(&mut self, index: usize, budget: usize, part: &mut Part) -> More {
        for _ in 0..budget {
            let Some(listening) = self.listeners.get(index) else {
                return More::No;
            };
            match listening.socket.accept() {
                Accepted::Connection(fd, peer) => {
                    let port = Arc::clone(&listening.port);
                    self.figures.accepted += 1;
                    self.greet(port, fd, peer);
                    if part.is_over(&self.hub, &self.context.clock) {
                        return More::Maybe;
                    }
                }
                Accepted::Nobody => return More::No,
                Accepted::Aborted => {}
                Accepted::NoRoom => {
                    self.patience = Patience::Moment;
                    self.shed(index);
                    return More::Maybe;
                }
            }
        }
        More::Maybe
    }

    /// With no descriptor left, closes one waiting connection at once: it learns that it is not
    /// served instead of hanging.
    fn shed(&mut self, index: usize) {
        drop(self.spare.take());
        if let Some(listening) = self.listeners.get(index)
            && let Accepted::Connection(fd, _) = listening.socket.accept()
        {
            drop(fd);
            self.figures.refused += 1;
        }
        self.keep_spare();
        let what = "a connection was closed: no file descriptor is left; raise the limit on open \
                    files (LimitNOFILE) or --shards";
        self.context.journal.note(Entry::Shed { what });
        self.context.journal.wake();
    }

    /// Takes a connection in, to be served or to be refused.
    fn greet(&mut self, port: Arc<Port>, fd: OwnedFd, peer: Peer) {
        let capacity = self.context.capacity;
        let is_full = self.is_full() && !self.make_room(peer.network());
        let is_proxy = |address| {
            let rules = port.rules.load();
            rules.proxies.iter().any(|proxy| proxy.contains(address))
        };
        if self.is_serving() && !is_full && peer.address().is_some_and(is_proxy) {
            // The client's address is known only after the PROXY header.
            let phase = Phase::ExpectConnect(Entrance::Proxied);
            if let Ok(transport) = Transport::accept(&port) {
                let link = Link::new(fd, phase, transport, peer, port, None);
                self.add(link, self.policy.login_timeout);
            }
            return;
        }
        let admitted = if is_full {
            Err(Entrance::Refused(Limit::ConnectionsPerShard))
        } else {
            self.admitted(&port, peer)
        };
        let (entrance, permit, time) = match admitted {
            Ok(permit) if self.is_serving() => {
                (Entrance::Login, Some(permit), self.policy.login_timeout)
            }
            Ok(_) => (Entrance::Stopping, None, REFUSAL_TIME),
            Err(entrance) => (entrance, None, REFUSAL_TIME),
        };
        if permit.is_none() && self.links.len() >= capacity.total() {
            // Too many already to be polite.
            self.figures.refused += 1;
            return;
        }
        let Ok(transport) = Transport::accept(&port) else {
            return;
        };
        let phase = Phase::ExpectConnect(entrance);
        self.add(Link::new(fd, phase, transport, peer, port, permit), time);
    }

    /// Whether the shard has no descriptor for another connection that is served.
    fn is_full(&self) -> bool {
        let capacity = self.context.capacity;
        // Those that are over have theirs until the end of the turn.
        let served = self.links.len() - self.gone.len();
        served >= capacity.connections || self.links.len() >= capacity.total()
    }

    /// The place of a connection, or how it is refused.
    fn admitted(&mut self, port: &Arc<Port>, peer: Peer) -> Result<Permit, Entrance> {
        // It uses up nothing that others share.
        if self.is_address_banned(peer) {
            return Err(Entrance::Banned);
        }
        let (context, now) = (Arc::clone(&self.context), self.now);
        let make_room = || self.make_room(peer.network());
        let admitted = context.admission.admit(now, port, peer, make_room);
        admitted.map_err(Entrance::Refused)
    }

    /// Admits a connection, or not, whose proxy has said who it is.
    pub(super) fn greet_again(&mut self, index: u32) {
        let link = &self.links[index];
        let (port, peer) = (Arc::clone(&link.port), link.peer);
        let admitted = self.admitted(&port, peer);
        let link = &mut self.links[index];
        let entrance = match admitted {
            Ok(permit) => {
                link.permit = Some(permit);
                Entrance::Login
            }
            Err(entrance) => entrance,
        };
        link.phase = Phase::ExpectConnect(entrance);
    }

    /// Adds a connection that has a time to get on.
    pub(super) fn add(&mut self, link: Link, time: Duration) -> Option<u32> {
        let index = self.insert(link)?;
        let serial = self.links[index].serial;
        self.timers
            .insert(self.now.after(time), LinkKey { index, serial });
        Some(index)
    }

    const fn is_serving(&self) -> bool {
        matches!(self.stage, super::Stage::Serving)
    }

    /// Accepts everybody who is waiting, to be told that the server stops, and closes the
    /// listeners.
    pub(super) fn accept_last(&mut self) {
        let indexes: Vec<usize> = self.listeners.iter().map(|(index, _)| index).collect();
        for index in indexes {
            self.patience = Patience::None;
            for _ in 0..LAST_ROUNDS {
                let mut part = self.begin_part(ACCEPT_TIME);
                let more = self.accept_some(index, ACCEPTS, &mut part);
                if more == More::No || self.patience == Patience::Moment {
                    break;
                }
            }
        }
        self.listeners.clear();
        self.accepting.clear();
    }

    /// Refuses everybody who has not logged in yet, and hurries those who are leaving.
    pub(super) fn turn_away_unfinished(&mut self) {
        let mut waiting = Vec::new();
        let mut leaving = Vec::new();
        for (index, link) in self.links.iter_mut() {
            let key = LinkKey {
                index,
                serial: link.serial,
            };
            match &mut link.phase {
                Phase::ExpectConnect(entrance) => {
                    *entrance = Entrance::Stopping;
                    self.timers.insert(self.now.after(STOP_TIME), key);
                }
                Phase::Authenticating(_) | Phase::ExpectAuth(_) => waiting.push(key.index),
                Phase::Draining(rest) if rest.final_output.is_none() => leaving.push(key.index),
                Phase::Live(_) | Phase::Draining(_) | Phase::Gone => {}
            }
        }
        for index in leaving {
            self.hurry(index);
        }
        for index in waiting {
            self.refuse_waiting(
                index,
                CloseReason::Local(stentor_session::Local::ShuttingDown),
            );
        }
    }
}

/// Whether somebody else may be waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Maybe,
    No,
}

impl Link {
    /// A connection that nothing was read from.
    pub(super) fn new(
        fd: OwnedFd,
        phase: Phase,
        transport: Transport,
        peer: Peer,
        port: Arc<Port>,
        permit: Option<Permit>,
    ) -> Self {
        debug_assert!(fd.as_raw_fd() >= 0);
        Self {
            fd,
            serial: 0,
            phase,
            reading: Reading::Waiting,
            stream: Stream::Open,
            serves_crowd: false,
            light_reads: 0,
            transport,
            tail: Tail::default(),
            bytes: LinkBytes::default(),
            weighed: 0,
            long: 0,
            peer,
            port,
            permit,
        }
    }
}
