//! A mail server's connection, whatever it came by.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::sys::socket::{MsgFlags, recv};

use super::Ending;
use crate::config::ListenUrl;

/// A listening socket that does not block.
pub(super) enum Listening {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listening {
    pub(super) fn new(url: &ListenUrl, socket: OwnedFd) -> Self {
        match url {
            ListenUrl::Net { .. } => Self::Tcp(socket.into()),
            ListenUrl::Unix(_) | ListenUrl::AskUnix(..) => Self::Unix(socket.into()),
        }
    }

    /// Takes the next connection, which blocks, and its address if it has one.
    pub(super) fn accept(&self) -> io::Result<(Link, Option<String>)> {
        match self {
            Self::Unix(listener) => Ok((Link::Unix(listener.accept()?.0), None)),
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                // Replies are small, and the mail server waits for each.
                stream.set_nodelay(true)?;
                let address = address.ip().to_canonical().to_string();
                Ok((Link::Tcp(stream), Some(address)))
            }
        }
    }
}

impl AsRawFd for Listening {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Unix(listener) => listener.as_raw_fd(),
            Self::Tcp(listener) => listener.as_raw_fd(),
        }
    }
}

/// A connection.
pub(super) enum Link {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Link {
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// How long it may say nothing.
    pub(super) fn set_reading(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_read_timeout(Some(time)),
        }
    }

    /// How long it may take nothing.
    pub(super) fn set_writing(&self, time: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(Some(time)),
            Self::Tcp(stream) => stream.set_write_timeout(Some(time)),
        }
    }

    /// Whether something has come that was not read yet.
    pub(super) fn has_input(&self) -> bool {
        let descriptor = match self {
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tcp(stream) => stream.as_raw_fd(),
        };
        let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        matches!(recv(descriptor, &mut [0], look), Ok(1))
    }

    /// Ends it, whatever its thread waits for.
    pub(super) fn shut_down(&self) {
        // One that is closed already is what was wanted.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.write_all(bytes),
            Self::Tcp(stream) => stream.write_all(bytes),
        }
    }

    /// Appends what comes next; an error at the end.
    pub(super) fn read_more(&mut self, input: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        loop {
            let read = match self {
                Self::Unix(stream) => stream.read(&mut piece),
                Self::Tcp(stream) => stream.read(&mut piece),
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    input.extend_from_slice(&piece[..read]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// How long the next bytes of a connection may take: whoever has begun something has little time
/// for all of it, however often something comes.
pub(super) struct Patience {
    /// Between commands.
    idle: Duration,
    /// When the command that is not whole began.
    began: Option<Instant>,
    /// How long a command or request that has begun may take to be whole: whoever sends the half
    /// of one keeps a place, which the idle make room for.
    half: Duration,
    /// What the connection was last told.
    told: Option<Duration>,
}

impl Patience {
    /// For a connection on which nothing was said.
    pub(super) const fn new(idle: Duration, half: Duration) -> Self {
        Self {
            idle,
            half,
            began: None,
            told: None,
        }
    }

    /// Waits for more. What there is of the input is not whole; `is_another` says that others were
    /// in the meantime. An error at the end, and when it takes too long.
    pub(super) fn read(
        &mut self,
        link: &mut Link,
        input: &mut Vec<u8>,
        is_another: bool,
    ) -> Result<(), Ending> {
        let is_half = !input.is_empty();
        let time = self.left(is_half, is_another, Instant::now());
        let time = time.ok_or(Ending::Slow)?;
        if self.told != Some(time) {
            link.set_reading(time)?;
            self.told = Some(time);
        }
        match link.read_more(input) {
            // What a time limit comes to depends on the system.
            Err(error)
                if is_half
                    && matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
            {
                Err(Ending::Slow)
            }
            read => Ok(read?),
        }
    }

    /// The time that is left, if there is some.
    fn left(&mut self, is_half: bool, is_another: bool, now: Instant) -> Option<Duration> {
        if is_another || !is_half {
            self.began = None;
        }
        if !is_half {
            return Some(self.idle);
        }
        let began = *self.began.get_or_insert(now);
        let left = self.half.checked_sub(now.saturating_duration_since(began));
        left.filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_begun_has_little_time() {
        let (idle, start) = (Duration::from_secs(7210), Instant::now());
        let mut patience = Patience::new(idle, Duration::from_secs(30));
        let mut left = |is_half, is_another, secs| {
            let now = start + Duration::from_secs(secs);
            let left = patience.left(is_half, is_another, now);
            left.map(|left| left.as_secs())
        };
        assert_eq!(left(false, false, 0), Some(7210));
        assert_eq!(left(true, false, 5), Some(30));
        // A byte now and then gives no more of it.
        assert_eq!(left(true, false, 34), Some(1));
        assert_eq!(left(true, false, 35), None);
        // Each command has its own.
        assert_eq!(left(true, true, 40), Some(30));
        assert_eq!(left(true, false, 50), Some(20));
        assert_eq!(left(false, true, 60), Some(7210));
        assert_eq!(left(true, false, 99), Some(30));
    }
}
