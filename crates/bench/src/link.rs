//! Non-blocking byte streams to a server.

mod layered;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::sockopt::IpBindAddressNoPort;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use stentor_client::{Scheme, TlsOptions, Url, tls_config};

use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use layered::{Layered, Layers, Place};

/// Connections from one source address at most.
const CONNECTIONS_PER_ADDRESS: usize = 10_000;

/// Where a server listens, resolved once.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// Plain TCP.
    Tcp(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
    /// TLS, WebSocket or both over TCP.
    Layered(SocketAddr, Arc<Layers>),
}

impl Endpoint {
    /// Resolves the host name of `url`. TLS trusts the certificates in `trusted`, else what the
    /// system trusts; sessions are not resumed, since every client is to be a new one.
    ///
    /// # Errors
    /// When the name has no address, or nothing is trusted.
    pub(crate) fn resolve(url: &Url, trusted: Option<&Path>) -> Result<Self, BenchError> {
        if url.scheme == Scheme::Unix {
            return Ok(Self::Unix(PathBuf::from(&url.path)));
        }
        let mut found = (url.host.as_str(), url.port)
            .to_socket_addrs()
            .doing(format!("resolve {}", url.host))?;
        let address = found
            .next()
            .ok_or_else(|| BenchError::server(format!("{} has no address", url.host)))?;
        if url.scheme == Scheme::Mqtt {
            return Ok(Self::Tcp(address));
        }
        let tls = match url.scheme.is_secure() {
            true => Some(trust(url, trusted)?),
            false => None,
        };
        let websocket = url.scheme.is_websocket().then(|| Place::of(url));
        Ok(Self::Layered(address, Arc::new(Layers { tls, websocket })))
    }

    /// Whether nothing lies between MQTT and the socket.
    pub(crate) const fn is_plain(&self) -> bool {
        !matches!(self, Self::Layered(..))
    }

    /// A source address for the `index`th connection. One address has some 28,000 ports; the
    /// loopback network has 16 million addresses, so a loopback server is reached from several, and
    /// from others each second, so that a run finds no ports that an earlier one has just left.
    pub(crate) fn source(&self, index: usize) -> Option<Ipv4Addr> {
        match self {
            Self::Tcp(SocketAddr::V4(address)) | Self::Layered(SocketAddr::V4(address), _)
                if address.ip().is_loopback() =>
            {
                let host = u8::try_from(1 + index / CONNECTIONS_PER_ADDRESS).ok()?;
                let seconds = now_ns() / SECOND_NS;
                let network = [seconds / 250 % 250, seconds % 250].map(|part| part as u8);
                Some(Ipv4Addr::new(127, 1 + network[0], network[1], host))
            }
            _ => None,
        }
    }
}

/// What TLS to this server needs.
fn trust(
    url: &Url,
    trusted: Option<&Path>,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), BenchError> {
    let options = TlsOptions {
        ca_file: trusted.map(Path::to_owned),
        ..TlsOptions::default()
    };
    let made = tls_config(&options);
    let mut config = made.map_err(|e| BenchError::server(e.to_string()))?;
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from(url.host.clone())
        .map_err(|_| BenchError::usage(format!("{:?} is not a host name", url.host)))?;
    Ok((Arc::new(config), name))
}

/// One connection.
#[derive(Debug)]
pub(crate) enum Link {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix stream socket.
    Unix(UnixStream),
    /// TLS, WebSocket or both over TCP.
    Layered(Box<Layered>),
}

impl Link {
    /// Begins to connect; the poll reports the link writable when it is through. Of a Unix socket
    /// it is the other end that says how much the kernel holds.
    pub(crate) fn connect(
        endpoint: &Endpoint,
        source: Option<Ipv4Addr>,
        receive_buffer: Option<usize>,
    ) -> io::Result<Self> {
        match (endpoint, source) {
            (Endpoint::Unix(path), _) => Ok(Self::Unix(UnixStream::connect(path)?)),
            (Endpoint::Tcp(address), source) => {
                Ok(Self::Tcp(connect(*address, source, receive_buffer)?))
            }
            (Endpoint::Layered(address, layers), source) => {
                let socket = connect(*address, source, receive_buffer)?;
                Ok(Self::Layered(Box::new(Layered::new(socket, layers)?)))
            }
        }
    }

    /// Whether the connection is through: the error of a failed one, `false` while it is under way.
    pub(crate) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Self::Tcp(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Self::Unix(stream) => (stream.take_error()?, stream.peer_addr().map(drop)),
            Self::Layered(link) => (
                link.socket().take_error()?,
                link.socket().peer_addr().map(drop),
            ),
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
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Layered(link) => link.socket(),
            Self::Unix(_) => return,
        };
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    }

    /// Lets what was sent arrive though the connection ends: as [`tune`](Self::tune) leaves it, the
    /// end throws away what the kernel still holds.
    pub(crate) fn linger(&self) {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Layered(link) => link.socket(),
            Self::Unix(_) => return,
        };
        let _ = SockRef::from(stream).set_linger(None);
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
            Self::Layered(link) => {
                let socket = link.socket_mut();
                socket.register(registry, Token(token), interest)
            }
        }
    }
}

/// Begins to connect by TCP, from a certain address or any.
fn connect(
    address: SocketAddr,
    source: Option<Ipv4Addr>,
    receive_buffer: Option<usize>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    if let Some(bytes) = receive_buffer {
        // Before the other end has seen a window: it sends no less than half of the largest at
        // once, and waits for a timer where a smaller one never has room for that.
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(source) = source {
        // The port is chosen with both ends known, which is quick and never collides.
        nix::sys::socket::setsockopt(&socket, IpBindAddressNoPort, &true)?;
        socket.bind(&SocketAddrV4::new(source, 0).into())?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        Err(e) => return Err(e),
    }
    Ok(TcpStream::from_std(socket.into()))
}

impl Read for Link {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Layered(link) => link.read(buffer),
        }
    }
}

impl Write for Link {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Layered(link) => link.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
