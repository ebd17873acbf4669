//! Talking to other servers with a deadline: nothing here waits beyond the moment it is given,
//! however slowly the other side drips.

pub(crate) mod dns;
pub(crate) mod http;
mod names;
pub(crate) mod smtp;
mod tls;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustls::{ClientConnection, StreamOwned};

pub use tls::Trust;

/// How long to wait before a Unix socket with a full queue is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// A connection that ends at a moment.
pub(crate) enum Stream {
    Plain(Raw),
    Tls(Box<StreamOwned<ClientConnection, Raw>>),
}

/// A socket with the moment at which it is of no use any more.
pub(crate) struct Raw {
    socket: Socket,
    end: Instant,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The time until `end`.
///
/// # Errors
/// When there is none.
pub(crate) fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Whether an error means that the time is over.
pub(crate) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Stream {
    /// Connects to `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// When nobody listens there, or not in time.
    pub(crate) fn connect(server: &str, end: Instant) -> io::Result<Self> {
        if let Some(path) = server.strip_prefix("unix:") {
            let socket = Socket::Unix(connect_unix(path, end)?);
            return Ok(Self::Plain(Raw { socket, end }));
        }
        let mut last = io::Error::other("it has no address");
        for address in names::addresses(server, end)? {
            match TcpStream::connect_timeout(&address, left(end)?) {
                Ok(stream) => {
                    let socket = Socket::Tcp(stream);
                    return Ok(Self::Plain(Raw { socket, end }));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The same with TLS, to the host that is meant.
    ///
    /// # Errors
    /// When nobody is trusted, or the host can have no certificate.
    pub(crate) fn encrypted(self, trust: &Trust, host: &str) -> io::Result<Self> {
        match self {
            Self::Plain(raw) => Ok(Self::Tls(Box::new(trust.wrap(raw, host)?))),
            Self::Tls(_) => Ok(self),
        }
    }

    /// It is of no use after that moment, if it is earlier than the one known before.
    pub(crate) fn hurry(&mut self, end: Instant) {
        let raw = match self {
            Self::Plain(raw) => raw,
            Self::Tls(stream) => &mut stream.sock,
        };
        raw.end = raw.end.min(end);
    }

    /// Nothing more will be sent.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(Raw { socket, .. }) => match socket {
                Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
                Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
            },
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()
            }
        }
    }

    /// Reads until the other side ends, `max` bytes at most.
    ///
    /// # Errors
    /// When it says more, or does not end in time.
    pub(crate) fn read_all(&mut self, max: usize) -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        while answer.len() <= max {
            if !self.read_more(&mut answer)? {
                return Ok(answer);
            }
        }
        Err(io::Error::other("its answer is too long"))
    }

    /// Appends what comes next; whether there was something before the end.
    ///
    /// # Errors
    /// When nothing comes in time.
    pub(crate) fn read_more(&mut self, answer: &mut Vec<u8>) -> io::Result<bool> {
        let mut piece = [0; 4096];
        loop {
            match self.read(&mut piece) {
                Ok(read) => {
                    answer.extend_from_slice(&piece[..read]);
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects to a Unix socket. With a full queue the kernel does not say when there is room, and to
/// wait for it there would have no end.
fn connect_unix(path: &str, end: Instant) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => std::thread::sleep(left(end)?.min(RETRY)),
            Err(errno) => return Err(errno.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.read(buffer),
            Self::Tls(stream) => stream.read(buffer).map_err(tls::explain),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(raw) => raw.write(bytes),
            Self::Tls(stream) => stream.write(bytes).map_err(tls::explain),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(raw) => raw.flush(),
            Self::Tls(stream) => stream.flush().map_err(tls::explain),
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = Some(left(self.end)?);
        match &mut self.socket {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(buffer)
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(buffer)
            }
        }
    }
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = Some(left(self.end)?);
        match &mut self.socket {
            Socket::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(bytes)
            }
            Socket::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One server of a test: hands each connection to `serve`, until the test ends.
#[cfg(test)]
pub(crate) fn serve(serve: impl Fn(TcpStream) + Send + 'static) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that lets nobody in keeps nobody beyond the end.
    #[test]
    fn a_full_unix_socket_ends_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let address = SocketAddrUnix::new(&path).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::listen(&socket, 0).unwrap();
        let server = format!("unix:{}", path.display());
        let mut held = Vec::new();
        let error = loop {
            match Stream::connect(&server, Instant::now() + Duration::from_millis(50)) {
                Ok(stream) => held.push(stream),
                Err(error) => break error,
            }
            assert!(held.len() < 10, "its queue is short");
        };
        assert!(is_late(&error), "{error}");
        // Once there is room, one comes in and is served.
        let listener = std::os::unix::net::UnixListener::from(socket);
        let end = Instant::now() + Duration::from_secs(60);
        let serving = std::thread::spawn(move || {
            let mut served = 0;
            while let Ok((mut stream, _)) = listener.accept() {
                let mut answer = [0; 2];
                if matches!(stream.read(&mut answer), Ok(2)) {
                    stream.write_all(&answer).expect("somebody waits");
                    return served;
                }
                served += 1;
            }
            served
        });
        drop(held);
        let mut stream = Stream::connect(&server, end).unwrap();
        stream.write_all(b"hi").unwrap();
        assert_eq!(stream.read_all(2).unwrap(), b"hi");
        assert!(serving.join().unwrap() > 0);
    }
}
