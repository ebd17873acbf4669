//! One byte stream, whatever carries it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use stentor_trust::Flaw;

use crate::error::ClientError;
use crate::interrupt::{Handle, Interrupter};
use crate::options::Options;
use crate::tls::{self, TlsStream};
use crate::url::{Scheme, Url};
use crate::websocket::WebSocket;

/// A connected byte stream with time limits.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Socket),
    WebSocket(Box<WebSocket>),
}

impl Transport {
    /// Connects, and negotiates TLS and WebSocket where the scheme asks for them.
    pub(crate) fn connect(options: &Options) -> Result<Self, ClientError> {
        let url = &options.url;
        let socket = Socket::connect(url, options)?;
        // A server that reads nothing for this long is not coming back.
        socket
            .set_write_timeout(options.timeout)
            .map_err(ClientError::Io)?;
        if !url.scheme.is_websocket() {
            return Ok(Self::Plain(socket));
        }
        WebSocket::open(socket, url, options.timeout).map(|ws| Self::WebSocket(Box::new(ws)))
    }

    /// Takes over a connection that is ready for MQTT.
    pub(crate) fn over_unix(stream: UnixStream, options: &Options) -> Result<Self, ClientError> {
        let socket = Socket::Unix(stream);
        socket
            .set_write_timeout(options.timeout)
            .map_err(ClientError::Io)?;
        Ok(Self::Plain(socket))
    }

    /// Reads what there is, waiting at most `timeout`. 0 at the end; `None` when time is up.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, ClientError> {
        match self {
            Self::Plain(socket) => socket.read_within(buffer, timeout),
            Self::WebSocket(websocket) => websocket.read(buffer, timeout),
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn write_all(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        match self {
            Self::Plain(socket) => socket.send_all(bytes),
            Self::WebSocket(websocket) => websocket.write_all(bytes),
        }
    }

    /// A second handle on the socket.
    pub(crate) fn interrupter(&self) -> Result<Interrupter, ClientError> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::WebSocket(websocket) => websocket.socket(),
        };
        let handle = match socket {
            Socket::Tcp(socket) => socket.try_clone().map(Handle::Tcp),
            Socket::Unix(socket) => socket.try_clone().map(Handle::Unix),
            Socket::Tls(stream) => stream.sock.try_clone().map(Handle::Tcp),
        };
        handle.map(Interrupter).map_err(ClientError::Io)
    }

    /// Says that nothing more will be sent, as far as the carrier has words for it.
    pub(crate) fn close(&mut self) {
        // The other side may be gone already: then there is nobody to tell.
        match self {
            Self::Plain(socket) => socket.close(),
            Self::WebSocket(websocket) => websocket.close(),
        }
    }
}

/// What is below WebSocket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Socket {
    fn connect(url: &Url, options: &Options) -> Result<Self, ClientError> {
        let failed = |source| ClientError::Connect {
            address: url.to_string(),
            source,
        };
        if url.scheme == Scheme::Unix {
            return UnixStream::connect(&url.path)
                .map(Self::Unix)
                .map_err(failed);
        }
        let socket = connect_tcp(url, options).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        if url.scheme.is_secure() {
            let stream = tls::wrap(socket, &url.host, &options.tls)?;
            return Ok(Self::Tls(Box::new(stream)));
        }
        Ok(Self::Tcp(socket))
    }

    fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout).filter(|t| !t.is_zero());
        match self {
            Self::Tcp(socket) => socket.set_write_timeout(timeout),
            Self::Unix(socket) => socket.set_write_timeout(timeout),
            Self::Tls(stream) => stream.sock.set_write_timeout(timeout),
        }
    }

    /// Reads what there is, waiting at most `timeout`. 0 at the end; `None` when time is up.
    pub(crate) fn read_within(
        &mut self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<Option<usize>, ClientError> {
        // Zero would mean for ever.
        let timeout = timeout.map(|t| t.max(Duration::from_micros(1)));
        let read = match self {
            Self::Tcp(socket) => socket
                .set_read_timeout(timeout)
                .and_then(|()| socket.read(buffer)),
            Self::Unix(socket) => socket
                .set_read_timeout(timeout)
                .and_then(|()| socket.read(buffer)),
            Self::Tls(stream) => stream
                .sock
                .set_read_timeout(timeout)
                .and_then(|()| stream.read(buffer)),
        };
        match read {
            Ok(read) => Ok(Some(read)),
            Err(e) if is_timeout(&e) || e.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(e) if self.is_cut_off(&e) => Err(ClientError::SpeaksNoTls),
            // Without close_notify: as an end without DISCONNECT, which MQTT allows for.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(e) => Err(broken(e)),
        }
    }

    pub(crate) fn send_all(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        let sent = match self {
            Self::Tcp(socket) => socket.write_all(bytes),
            Self::Unix(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        sent.map_err(|e| {
            if self.is_cut_off(&e) {
                ClientError::SpeaksNoTls
            } else if is_timeout(&e) {
                ClientError::Timeout("reading")
            } else {
                broken(e)
            }
        })
    }

    /// Whether the other end has gone, or says something else, where TLS begins.
    fn is_cut_off(&self, error: &io::Error) -> bool {
        let Self::Tls(stream) = self else {
            return false;
        };
        use rustls::{Error, InvalidMessage};
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        let is_other = matches!(
            inner,
            Some(Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion
            ))
        );
        let is_gone = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
        );
        stream.conn.is_handshaking() && (is_other || is_gone)
    }

    pub(crate) fn close(&mut self) {
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            Self::Unix(socket) => socket.shutdown(Shutdown::Write),
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()
            }
        };
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tcp(_) => "Tcp",
            Self::Unix(_) => "Unix",
            Self::Tls(_) => "Tls",
        })
    }
}

fn connect_tcp(url: &Url, options: &Options) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match connect_address(address, options) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Connects, from an address of this machine if one is asked for.
fn connect_address(address: SocketAddr, options: &Options) -> io::Result<TcpStream> {
    let Some(from) = options.bind_address else {
        return TcpStream::connect_timeout(&address, options.timeout);
    };
    let kind = socket2::Type::STREAM.cloexec();
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), kind, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&address.into(), options.timeout)?;
    Ok(socket.into())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// A TLS failure comes wrapped into an I/O error; people want to read what is inside.
fn broken(error: io::Error) -> ClientError {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidCertificate(error)) => {
            let flaw = Flaw::from(error);
            let remedy = match flaw {
                Flaw::Unsigned => {
                    "; --cafile FILE names the file of its authority, or its own file"
                }
                Flaw::Early => "; compare the clocks",
                Flaw::OtherName(_)
                | Flaw::Nameless
                | Flaw::Expired
                | Flaw::Authority
                | Flaw::Old
                | Flaw::OtherPurpose
                | Flaw::Other(_) => "",
            };
            ClientError::Tls(format!("the server's certificate {flaw}{remedy}"))
        }
        Some(tls) => ClientError::Tls(tls.to_string()),
        None => ClientError::Io(error),
    }
}
