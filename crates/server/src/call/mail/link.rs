//! A mail server's connection, whatever it came by.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv};

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

    /// How long it may say nothing, and take nothing.
    pub(super) fn set_patience(&self, reading: Duration, writing: Duration) -> io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(reading))?;
                stream.set_write_timeout(Some(writing))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(reading))?;
                stream.set_write_timeout(Some(writing))
            }
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
