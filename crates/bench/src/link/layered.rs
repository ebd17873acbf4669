//! TLS and WebSocket over TCP, without blocking, behind the same `Read` and `Write` as plain links.

mod websocket;

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

pub(crate) use websocket::Place;
use websocket::WebSocket;

/// Bytes that one call hands to the layers at most.
const CHUNK_BYTES: usize = 64 * 1_024;

/// What lies between MQTT and TCP; the same for all connections to a server.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// TLS: what to trust, and the server's name.
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// WebSocket: what the upgrade asks for.
    pub(crate) websocket: Option<Place>,
}

/// A connection with layers.
///
/// Bytes count as written once the kernel has all that became of them: a caller that has to
/// wait presents the same bytes again, as it would for a plain socket.
#[derive(Debug)]
pub(crate) struct Layered {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
    websocket: Option<Box<WebSocket>>,
    /// Frames that no layer below has taken yet.
    unsent: Vec<u8>,
    /// Bytes of the caller that were taken, and that it was not told of yet.
    owed: usize,
    /// What was received and not asked for yet.
    inbox: Vec<u8>,
    has_ended: bool,
}

thread_local! {
    /// Where sockets are read to; thousands of connections share it.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK_BYTES]);
}

impl Layered {
    /// Layers over a connection that may still be under way.
    ///
    /// # Errors
    /// When TLS does not take the server's name.
    pub(crate) fn new(socket: TcpStream, layers: &Layers) -> io::Result<Self> {
        let tls = match &layers.tls {
            None => None,
            Some((config, name)) => {
                let made = ClientConnection::new(Arc::clone(config), name.clone());
                let mut connection = made.map_err(io::Error::other)?;
                // What is written before the handshake is over waits inside.
                connection.set_buffer_limit(None);
                Some(Box::new(connection))
            }
        };
        let mut unsent = Vec::new();
        let websocket = match &layers.websocket {
            None => None,
            Some(place) => Some(Box::new(WebSocket::begin(place, &mut unsent)?)),
        };
        Ok(Self {
            socket,
            tls,
            websocket,
            unsent,
            owed: 0,
            inbox: Vec::new(),
            has_ended: false,
        })
    }

    /// The TCP connection below.
    pub(crate) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// The TCP connection below, for a poll.
    pub(crate) const fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Hands on what waits; an error of the kind `WouldBlock` while something still does.
    fn pass_on(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            while !self.unsent.is_empty() {
                let sent = self.socket.write(&self.unsent)?;
                self.unsent.drain(..sent);
            }
            return Ok(());
        };
        tls.writer().write_all(&self.unsent)?;
        self.unsent.clear();
        while tls.wants_write() {
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads once from the layers below into the inbox.
    fn fill(&mut self) -> io::Result<()> {
        SCRATCH.with_borrow_mut(|scratch| {
            let read = match &mut self.tls {
                None => self.socket.read(scratch)?,
                Some(tls) => read_tls(tls, &mut self.socket, scratch)?,
            };
            if read == 0 {
                self.has_ended = true;
                return Ok(());
            }
            let input = &mut scratch[..read];
            match &mut self.websocket {
                None => self.inbox.extend_from_slice(input),
                Some(websocket) => {
                    let is_open = websocket.take(input, &mut self.inbox, &mut self.unsent)?;
                    self.has_ended |= !is_open;
                }
            }
            Ok(())
        })
    }
}

/// Plaintext, as soon as there is some; 0 at the end.
fn read_tls(
    tls: &mut ClientConnection,
    socket: &mut TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    loop {
        match tls.reader().read(buffer) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            // An end without close_notify is an end as well.
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
            result => return result,
        }
        if tls.read_tls(socket)? == 0 {
            return Ok(0);
        }
        tls.process_new_packets().map_err(io::Error::other)?;
        // The handshake answers; what does not fit now goes with the next write.
        while tls.wants_write() {
            match tls.write_tls(socket) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                result => drop(result?),
            }
        }
    }
}

impl Read for Layered {
    /// Reads until the buffer is full or nothing is left: a short read means that the socket was
    /// drained, as an edge-triggered poll demands.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let blocked = loop {
            if self.inbox.len() >= buffer.len() || self.has_ended {
                break None;
            }
            match self.fill() {
                Ok(()) => {}
                Err(e) if self.inbox.is_empty() => break Some(e),
                Err(_) => break None,
            }
        };
        // A pong, or the first CONNECT behind the upgrade.
        match self.pass_on() {
            Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
            _ => {}
        }
        if let Some(error) = blocked {
            return Err(error);
        }
        let taken = self.inbox.len().min(buffer.len());
        buffer[..taken].copy_from_slice(&self.inbox[..taken]);
        self.inbox.drain(..taken);
        Ok(taken)
    }
}

impl Write for Layered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass_on()?;
        if self.owed > 0 {
            return Ok(std::mem::take(&mut self.owed));
        }
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES)];
        match &mut self.websocket {
            None => self.unsent.extend_from_slice(chunk),
            Some(websocket) if websocket.is_open() => websocket.frame(chunk, &mut self.unsent),
            Some(_) => return Err(ErrorKind::WouldBlock.into()),
        }
        match self.pass_on() {
            Ok(()) => Ok(chunk.len()),
            Err(e) => {
                self.owed = chunk.len();
                Err(e)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
