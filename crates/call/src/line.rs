//! The line to a server: a link, and TLS over it where the server's URL says so.

use std::fs::File;
use std::path::Path;

use crate::args::{Options, Server};
use crate::fault::Fault;
use crate::platform::{Deadline, Link};

/// Room for one reading of what is encrypted.
const READ_BYTES: usize = 4096;

/// What is known of an encrypted line before it begins.
#[derive(Debug)]
pub struct Secret<'a> {
    /// The name that the server's certificate has to have.
    pub name: &'a str,
    /// The authorities that are trusted about it; `None`: the system's.
    pub ca_file: Option<&'a Path>,
}

/// What encrypts a line. It does no I/O.
pub trait Cipher {
    /// Whether the server has still to show who it is.
    fn is_handshaking(&self) -> bool;

    /// Takes what is to be sent.
    ///
    /// # Errors
    /// When it cannot.
    fn encrypt(&mut self, plain: &[u8]) -> Result<(), Fault>;

    /// Hands out the bytes that have to be sent.
    ///
    /// # Errors
    /// When it cannot.
    fn take_pending(&mut self) -> Result<Vec<u8>, Fault>;

    /// Takes what the server has sent, and appends what it says. Something may be pending
    /// afterwards, also when it fails.
    ///
    /// # Errors
    /// When the server is not who it should be, or sends something else.
    fn decrypt(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<(), Fault>;
}

/// How encrypted lines begin.
pub type Begin<'a> = &'a dyn Fn(&Secret<'_>) -> Result<Box<dyn Cipher>, Fault>;

/// What encrypts the line to a server, where that is asked for.
///
/// # Errors
/// When it cannot begin.
pub(crate) fn cipher(
    options: &Options,
    begin: Begin<'_>,
) -> Result<Option<Box<dyn Cipher>>, Fault> {
    let Server::Tls { name, .. } = &options.server else {
        return Ok(None);
    };
    let secret = Secret {
        name,
        ca_file: options.ca_file.as_deref(),
    };
    begin(&secret).map(Some)
}

pub(crate) struct Line {
    link: Link,
    cipher: Option<Box<dyn Cipher>>,
    /// What the server has said by the cipher and nobody has taken.
    plain: Vec<u8>,
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// When nobody answers there before the deadline.
    pub(crate) fn connect(
        server: &Server,
        cipher: Option<Box<dyn Cipher>>,
        deadline: &Deadline,
    ) -> Result<Self, Fault> {
        let link = Link::connect(server, deadline)?;
        if cipher.is_some() {
            link.hurry();
        }
        Ok(Self {
            link,
            cipher,
            plain: Vec::new(),
        })
    }

    /// Whether a file can be passed along.
    pub(crate) const fn passes_files(&self) -> bool {
        self.link.passes_files()
    }

    /// What is sent from here on is not held back to be sent in larger pieces.
    pub(crate) fn hurry(&self) {
        self.link.hurry();
    }

    /// Sends everything; a file goes with the first byte, where files can be passed.
    ///
    /// # Errors
    /// When the connection breaks, the deadline passes, or the server is not who it should be.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        file: Option<&File>,
        deadline: &Deadline,
    ) -> Result<(), Fault> {
        let Some(cipher) = &mut self.cipher else {
            return self.link.send(bytes, file, deadline);
        };
        cipher.encrypt(bytes)?;
        let (link, plain) = (&self.link, &mut self.plain);
        write(cipher.as_mut(), link, deadline)?;
        while cipher.is_handshaking() {
            take(cipher.as_mut(), plain, link, deadline)?;
        }
        Ok(())
    }

    /// Waits for more bytes and puts them into `buffer`; returns how many.
    ///
    /// # Errors
    /// When the connection ends or breaks, or the deadline passes.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        deadline: &Deadline,
    ) -> Result<usize, Fault> {
        let Some(cipher) = &mut self.cipher else {
            return self.link.receive(buffer, deadline);
        };
        let plain = &mut self.plain;
        while plain.is_empty() {
            take(cipher.as_mut(), plain, &self.link, deadline)?;
        }
        let len = plain.len().min(buffer.len());
        buffer[..len].copy_from_slice(&plain[..len]);
        plain.drain(..len);
        Ok(len)
    }
}

/// Takes what comes next, and answers it where a handshake wants that.
fn take(
    cipher: &mut dyn Cipher,
    plain: &mut Vec<u8>,
    link: &Link,
    deadline: &Deadline,
) -> Result<(), Fault> {
    let mut input = [0; READ_BYTES];
    let received = link.receive(&mut input, deadline)?;
    let taken = cipher.decrypt(&input[..received], plain);
    let written = write(cipher, link, deadline);
    // After a fault this was the alert: without it, the server's log does not say what is wrong.
    taken.and(written)
}

fn write(cipher: &mut dyn Cipher, link: &Link, deadline: &Deadline) -> Result<(), Fault> {
    let pending = cipher.take_pending()?;
    link.send(&pending, None, deadline)
}
