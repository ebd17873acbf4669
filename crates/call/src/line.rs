//! The line to a server: a link, and TLS over it where the server's URL says so.

use std::fs::File;

use crate::args::{Options, Server};
use crate::fault::Fault;
use crate::platform::{Deadline, Link};
use crate::tls::Tls;

pub(crate) struct Line {
    link: Link,
    tls: Option<Box<Tls>>,
}

impl Line {
    /// Connects.
    ///
    /// # Errors
    /// When nobody answers there before the deadline, or what is to be trusted cannot be read.
    pub(crate) fn connect(options: &Options, deadline: &Deadline) -> Result<Self, Fault> {
        let tls = match &options.server {
            Server::Tls { name, .. } => {
                let tls = Tls::new(name, options.ca_file.as_deref())?;
                Some(Box::new(tls))
            }
            Server::Unix(_) | Server::Tcp(..) => None,
        };
        let link = Link::connect(&options.server, deadline)?;
        if tls.is_some() {
            link.hurry();
        }
        Ok(Self { link, tls })
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
        match &mut self.tls {
            None => self.link.send(bytes, file, deadline),
            Some(tls) => tls.send(bytes, &self.link, deadline),
        }
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
        match &mut self.tls {
            None => self.link.receive(buffer, deadline),
            Some(tls) => tls.receive(buffer, &self.link, deadline),
        }
    }
}
