//! A caller's socket, and what lies between it and the call protocol.

use std::io::{self, Read, Write};

use mio::net::{TcpStream, UnixStream};

use super::connection::READ_BYTES;
use crate::transport::{Fault, Tls};

/// The first byte of whoever speaks TLS: a record of a handshake.
const HANDSHAKE: u8 = 22;

/// The answer to callers who do not speak TLS where it has to be spoken.
const PLAIN: &str = "this listener speaks TLS; give stentor-call --server calls://ADDRESS";

/// A caller's socket.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(Tcp),
}

/// A socket of the network.
pub(super) struct Tcp {
    socket: TcpStream,
    /// `None` where none is spoken, or not by this caller.
    tls: Option<Box<Tls>>,
    /// Something was read.
    has_begun: bool,
}

impl Stream {
    pub(super) fn source(&mut self) -> &mut dyn mio::event::Source {
        match self {
            Self::Unix(stream) => stream,
            Self::Tcp(stream) => &mut stream.socket,
        }
    }

    /// Takes some of these bytes; returns how many.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    /// Hands over what waits for the socket.
    ///
    /// # Errors
    /// When not all of it fits now, or the connection is broken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) => Ok(()),
            Self::Tcp(stream) => stream.flush(),
        }
    }

    /// The same when nothing more will be written. It may be called again.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let Self::Tcp(Tcp { tls: Some(tls), .. }) = self {
            tls.close();
        }
        self.flush()
    }
}

impl Tcp {
    pub(super) const fn new(socket: TcpStream, tls: Option<Box<Tls>>) -> Self {
        Self {
            socket,
            tls,
            has_begun: false,
        }
    }

    /// Reads by way of a buffer, and appends to `input` what the caller says. Returns how many
    /// bytes came, which may say nothing yet; none at the end.
    ///
    /// # Errors
    /// Of the kind [`io::ErrorKind::InvalidData`] when TLS fails: the text says why.
    pub(super) fn read(&mut self, buffer: &mut [u8], input: &mut Vec<u8>) -> io::Result<usize> {
        let read = self.socket.read(buffer)?;
        let bytes = &buffer[..read];
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if self.tls.is_some() && is_first && bytes.first().is_some_and(|it| *it != HANDSHAKE) {
            // The answer must be one that this caller can read.
            self.tls = None;
            return Err(io::Error::new(io::ErrorKind::InvalidData, PLAIN));
        }
        let Some(tls) = &mut self.tls else {
            input.extend_from_slice(bytes);
            return Ok(read);
        };
        let received = tls.receive(bytes, input);
        let why = match tls.fault() {
            Some(Fault::Said(text)) => text.clone().into_owned(),
            _ => "TLS failed".to_owned(),
        };
        // What does not fit now goes when the socket takes more.
        let flushed = self.flush();
        if received.is_err() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        match flushed {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(read),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let Some(tls) = &mut self.tls else {
            return self.socket.write(bytes);
        };
        let piece = &bytes[..bytes.len().min(READ_BYTES)];
        tls.send([piece]);
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(piece.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while !tls.pending().is_empty() {
            match self.socket.write(tls.pending()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => tls.forget(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
