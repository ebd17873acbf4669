//! Where calls come in, and who brings them.

use std::fmt;
use std::io;
use std::net::{IpAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::crowd::Origin;
use super::groups;
use super::identity::{Claim, Identities, Tokens};
use super::stream::{Stream, Tcp};
use crate::config::ListenUrl;
use crate::listener::Port;
use crate::transport::{Tls, Transport};

/// A listener of calls.
pub(super) struct Entrance {
    socket: Listening,
    identities: Arc<Identities>,
    port: Arc<Port>,
    /// The number of its listener, which may have several sockets.
    pub(super) listener: usize,
    /// How the log names it.
    pub(super) url: String,
}

enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Entrance {
    /// A bound socket that does not block.
    pub(super) fn new(
        listener: usize,
        port: &Arc<Port>,
        socket: OwnedFd,
        identities: &Arc<Identities>,
    ) -> Self {
        let socket = match &port.url {
            ListenUrl::Net { .. } => {
                Listening::Tcp(TcpListener::from_std(StdTcpListener::from(socket)))
            }
            ListenUrl::Unix(_) | ListenUrl::AskUnix(..) => {
                Listening::Unix(UnixListener::from_std(StdUnixListener::from(socket)))
            }
        };
        Self {
            socket,
            identities: Arc::clone(identities),
            listener,
            url: port.url.to_string(),
            port: Arc::clone(port),
        }
    }

    /// Does what the first caller would wait for, on the thread that accepts.
    pub(super) fn prepare(&self) {
        Transport::prepare(&self.port);
    }

    pub(super) fn source(&mut self) -> &mut dyn mio::event::Source {
        match &mut self.socket {
            Listening::Unix(socket) => socket,
            Listening::Tcp(socket) => socket,
        }
    }

    /// Takes the next connection, with who calls as far as the system knows.
    pub(super) fn accept(&self) -> io::Result<(Stream, Peer)> {
        match &self.socket {
            Listening::Unix(socket) => {
                let (stream, _) = socket.accept()?;
                let peer = getsockopt(&stream.as_fd(), PeerCredentials)?;
                let uid = nix::unistd::Uid::from_raw(peer.uid());
                let groups = || {
                    let others = groups::supplementary(stream.as_fd());
                    [vec![peer.gid()], others].concat()
                };
                let claim = self.identities.claim(uid, groups);
                Ok((Stream::Unix(stream), Peer::Local(claim, peer.uid())))
            }
            Listening::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                // The answer is one small write.
                stream.set_nodelay(true)?;
                let address = address.ip().to_canonical();
                let rules = self.port.rules.load();
                let tls = rules.certificate.as_ref().map(Tls::accept).transpose();
                let tls = tls.map_err(|_| io::Error::other("TLS configuration refused"))?;
                let stream = Tcp::new(stream, tls.map(Box::new));
                Ok((Stream::Tcp(stream), Peer::Remote(address)))
            }
        }
    }
}

/// What is known of a caller before its call.
pub(super) enum Peer {
    /// A program of this machine, and the number of its user.
    Local(Claim, u32),
    Remote(IpAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(_, uid) => write!(f, "uid {uid}"),
            Self::Remote(address) => address.fmt(f),
        }
    }
}

impl Peer {
    /// Where it calls from, if nobody knows who it is.
    pub(super) const fn origin(&self) -> Option<Origin> {
        match self {
            Self::Local(Claim::Nobody(_), uid) => Some(Origin::User(*uid)),
            Self::Local(..) => None,
            Self::Remote(address) => Some(Origin::Address(*address)),
        }
    }

    /// How long it may take to make its call, which is one write.
    pub(super) const fn arrival_time(&self) -> Duration {
        match self {
            Self::Local(..) => Duration::from_secs(10),
            Self::Remote(_) => Duration::from_secs(3),
        }
    }

    /// The claim that belongs to this token; `None` if nobody has it.
    pub(super) fn claim(&self, tokens: &Tokens, token: &[u8]) -> Option<Claim> {
        match self {
            Self::Local(claim, _) if token.is_empty() => Some(claim.clone()),
            Self::Local(..) => tokens.claim(token, None),
            Self::Remote(address) if token.is_empty() => Some(Claim::Nobody(address.to_string())),
            Self::Remote(address) => tokens.claim(token, Some(*address)),
        }
    }
}
