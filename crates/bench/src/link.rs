//! Non-blocking byte streams to a server.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use stentor_client::{Scheme, Url};

use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};

/// Connections from one source address at most.
const CONNECTIONS_PER_ADDRESS: usize = 10_000;

/// Where a server listens, resolved once.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// Plain TCP.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// Resolves the host name of `url`.
    pub(crate) fn resolve(url: &Url) -> Result<Self, BenchError> {
        match url.scheme {
            Scheme::Unix => Ok(Self::Unix(PathBuf::from(&url.path))),
            Scheme::Mqtt => {
                let mut found = (url.host.as_str(), url.port)
                    .to_socket_addrs()
                    .doing(format!("resolve {}", url.host))?;
                let address = found
                    .next()
                    .ok_or_else(|| BenchError::server(format!("{} has no address", url.host)))?;
                Ok(Self::Tcp(address))
            }
            Scheme::Mqtts | Scheme::Ws | Scheme::Wss => Err(BenchError::usage(format!(
                "the generator speaks mqtt:// and unix: so far, not {}://",
                url.scheme.as_str()
            ))),
        }
    }

    /// A source address for the `index`th connection. One address has some 28,000 ports; the
    /// loopback network has 16 million addresses, so a loopback server is reached from several, and
    /// from others each second, so that a run finds no ports that an earlier one has just left.
    pub(crate) fn source(&self, index: usize) -> Option<Ipv4Addr> {
        match self {
            Self::Tcp(SocketAddr::V4(address)) if address.ip().is_loopback() => {
                let host = u8::try_from(1 + index / CONNECTIONS_PER_ADDRESS).ok()?;
                let seconds = now_ns() / SECOND_NS;
                let network = [seconds / 250 % 250, seconds % 250].map(|part| part as u8);
                Some(Ipv4Addr::new(127, 1 + network[0], network[1], host))
            }
            _ => None,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) enum Link {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix stream socket.
    Unix(UnixStream),
}

impl Link {
    /// Begins to connect; the poll reports the link writable when it is through.
    pub(crate) fn connect(endpoint: &Endpoint, source: Option<Ipv4Addr>) -> io::Result<Self> {
        match (endpoint, source) {
            (Endpoint::Unix(path), _) => Ok(Self::Unix(UnixStream::connect(path)?)),
            (Endpoint::Tcp(address), None) => Ok(Self::Tcp(TcpStream::connect(*address)?)),
            (Endpoint::Tcp(address), Some(source)) => {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                socket.set_nonblocking(true)?;
                // The port is chosen with both ends known, which is quick and never collides.
                nix::sys::socket::setsockopt(&socket, IpBindAddressNoPort, &true)?;
                socket.bind(&SocketAddrV4::new(source, 0).into())?;
                match socket.connect(&(*address).into()) {
                    Ok(()) => {}
                    Err(e) if e.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
                    Err(e) => return Err(e),
                }
                Ok(Self::Tcp(TcpStream::from_std(socket.into())))
            }
        }
    }

    /// Whether the connection is through: the error of a failed one, `false` while it is under way.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Self::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
        };
        if let Some(error) = error {
            return Err(error);
        }
        match peer {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Sends each write at once, and leaves no port behind at the end: thousands of them would wait
    /// for a minute and be missing in the next run. A failure of either shows in the figures.
    pub(crate) fn tune(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }

    /// Writes what the kernel takes of what is waiting; the rest waits on.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn send(&mut self, unsent: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == unsent.len() {
                break Ok(());
            }
            match self.write(&unsent[sent..]) {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e),
            }
        };
        unsent.drain(..sent);
        result
    }

    /// Reports this link under `token`, edge-triggered.
    pub(crate) fn register(&mut self, registry: &Registry, token: usize) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => stream.register(registry, Token(token), interest),
            Self::Unix(stream) => stream.register(registry, Token(token), interest),
        }
    }
}

impl Read for Link {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Link {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
