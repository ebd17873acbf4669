//! One client that acknowledges whatever comes.

use std::io::{self, Read};

use crate::error::{BenchError, Doing};
use crate::load::crowd::Client;
use crate::stamp::Stamp;
use crate::wire::{self, Frame, Version};

/// What a client hears of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heard<'a> {
    /// A message, which has been answered. It has no stamp if the generator did not write it.
    Message {
        stamp: Option<Stamp>,
        payload: &'a [u8],
    },
    /// The packet id of an acknowledged message, and whether it was refused.
    Acknowledged { packet_id: u16, is_refused: bool },
}

impl<'a> Heard<'a> {
    /// Of a message; empty otherwise.
    pub(crate) const fn payload(&self) -> &'a [u8] {
        match self {
            Self::Message { payload, .. } => payload,
            Self::Acknowledged { .. } => &[],
        }
    }
}

/// A client with what it has still to send.
#[derive(Debug)]
pub(crate) struct Peer {
    client: Client,
    unsent: Vec<u8>,
    has_ended: bool,
}

impl Peer {
    pub(crate) const fn new(client: Client) -> Self {
        Self {
            client,
            unsent: Vec::new(),
            has_ended: false,
        }
    }

    /// Whether the server had its session.
    pub(crate) const fn was_present(&self) -> bool {
        self.client.is_present
    }

    /// QoS 1 and 2 messages that the server takes at once.
    pub(crate) const fn receive_maximum(&self) -> u16 {
        self.client.receive_maximum
    }

    /// Whether the server has closed the connection.
    pub(crate) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What is to be sent next; [`flush`](Self::flush) sends it.
    pub(crate) const fn unsent(&mut self) -> &mut Vec<u8> {
        &mut self.unsent
    }

    /// Sends what the kernel takes.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn flush(&mut self) -> Result<(), BenchError> {
        let sent = self.client.link.send(&mut self.unsent);
        sent.over_link("send to the server")
    }

    /// Reads all that has come, hands it over, and acknowledges the messages.
    ///
    /// # Errors
    /// If the connection is broken, or closed.
    pub(crate) fn receive(
        &mut self,
        scratch: &mut [u8],
        version: Version,
        hear: &mut dyn FnMut(Heard<'_>),
    ) -> Result<(), BenchError> {
        let result = loop {
            self.take(version, hear)?;
            match self.client.link.read(scratch) {
                Ok(0) => break Err(BenchError::broken("the server closed a connection")),
                Ok(read) => self.client.carry.extend_from_slice(&scratch[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break Err(e).over_link("read from the server"),
            }
        };
        self.has_ended |= result.is_err();
        result?;
        self.flush()
    }

    /// Applies the whole packets that were read.
    fn take(
        &mut self,
        version: Version,
        hear: &mut dyn FnMut(Heard<'_>),
    ) -> Result<(), BenchError> {
        let (carry, mut at) = (&mut self.client.carry, 0);
        loop {
            let (first, body) = match wire::frame(&carry[at..]) {
                Frame::Whole { first, body, end } => {
                    let body = &carry[at + body..at + end];
                    at += end;
                    (first, body)
                }
                Frame::Partial => break,
                Frame::Malformed => {
                    return Err(BenchError::broken("the server sent a malformed packet"));
                }
            };
            match first >> 4 {
                wire::PUBLISH => {
                    let publish = wire::publish(first, body, version);
                    let publish =
                        publish.ok_or_else(|| BenchError::broken("a malformed PUBLISH came"))?;
                    hear(Heard::Message {
                        stamp: Stamp::read(publish.payload),
                        payload: publish.payload,
                    });
                    if publish.qos == 1 {
                        wire::push_ack(&mut self.unsent, wire::PUBACK, publish.packet_id);
                    }
                }
                wire::PUBACK => hear(Heard::Acknowledged {
                    packet_id: wire::u16_at(body, 0).unwrap_or(0),
                    is_refused: body.get(2).is_some_and(|reason| *reason >= 0x80),
                }),
                _ => {}
            }
        }
        carry.drain(..at);
        Ok(())
    }

    /// Sends DISCONNECT behind all that waits.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn disconnect(&mut self) -> Result<(), BenchError> {
        self.unsent.extend_from_slice(&[wire::DISCONNECT << 4, 0]);
        self.flush()
    }

    /// Whether the server has closed the connection; what comes before that is thrown away.
    pub(crate) fn is_closed(&mut self, scratch: &mut [u8]) -> bool {
        // What the socket did not take before.
        let _ = self.flush();
        loop {
            match self.client.link.read(scratch) {
                Ok(0) => break self.has_ended = true,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break self.has_ended = true,
            }
        }
        self.has_ended
    }
}
