//! One client that publishes a message to each of many topics, as fast as it is acknowledged.

use std::io::{self, Read};
use std::time::Duration;

use mio::{Events, Poll};

use super::crowd::{self, Client, Plan};
use super::storm::{Round, fill_payload};
use crate::clock::{as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::wire::{self, Frame, Lasts, Login, PublishTemplate, Version};

/// Messages on their way at most; a server may grant fewer.
const WINDOW_MAX: u64 = 1_000;
/// Bytes that wait for the socket at most before no more messages are added.
const UNSENT_BYTES_MAX: usize = 256 * 1_024;
/// Gives up when nothing is acknowledged for this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to publish, with QoS 1.
pub(crate) struct Fill<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) login: &'a Login,
    pub(crate) version: Version,
    pub(crate) client_id: String,
    pub(crate) retain: bool,
    pub(crate) round: Round,
    /// Bytes of each message.
    pub(crate) payload: usize,
    /// How many topics, and the name of each.
    pub(crate) count: u64,
    pub(crate) topic: &'a dyn Fn(u64) -> String,
}

/// How far it has come.
struct Filling<'a> {
    fill: &'a Fill<'a>,
    client: Client,
    sent: u64,
    acknowledged: u64,
    refused: u64,
    unsent: Vec<u8>,
    scratch: Vec<u8>,
}

impl Fill<'_> {
    /// Publishes everything; messages per second.
    pub(crate) fn run(&self) -> Result<f64, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let crowd = crowd::open(
            &mut poll,
            &Plan {
                endpoint: self.endpoint,
                login: self.login,
                version: self.version,
                count: 1,
                first: 0,
                at_once: 1,
                pace: None,
                patience: PATIENCE,
                client_id: &|_| self.client_id.clone(),
                entry: None,
                filter: &|_| None,
                lasts: Lasts::Connection,
                gauge: None,
                receive_buffer: None,
            },
        )?;
        let client = crowd.complete()?.pop();
        let client = client.ok_or_else(|| BenchError::server("no connection"))?;
        let mut filling = Filling {
            fill: self,
            client,
            sent: 0,
            acknowledged: 0,
            refused: 0,
            unsent: Vec::new(),
            scratch: vec![0; 64 * 1_024],
        };
        filling.run(&mut poll)
    }
}

impl Filling<'_> {
    fn run(&mut self, poll: &mut Poll) -> Result<f64, BenchError> {
        let begun_ns = now_ns();
        let mut last_ns = begun_ns;
        let mut events = Events::with_capacity(8);
        while self.acknowledged < self.fill.count {
            let before = self.acknowledged;
            self.send()?;
            self.receive()?;
            if self.acknowledged > before {
                last_ns = now_ns();
                continue;
            }
            if now_ns() - last_ns > as_ns(PATIENCE) {
                return Err(BenchError::broken(format!(
                    "only {before} of {} messages were acknowledged",
                    self.fill.count
                )));
            }
            match poll.poll(&mut events, Some(Duration::from_millis(100))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.doing("wait for acknowledgements")?,
            }
        }
        if self.refused > 0 {
            return Err(BenchError::server(format!(
                "{} of {} messages were refused: is its quota of retained messages too small?",
                self.refused, self.fill.count
            )));
        }
        Ok(self.fill.count as f64 / ((now_ns() - begun_ns) as f64 / 1e9))
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let window = WINDOW_MAX.min(u64::from(self.client.receive_maximum));
        while self.sent < self.fill.count
            && self.sent - self.acknowledged < window
            && self.unsent.len() < UNSENT_BYTES_MAX
        {
            let topic = (self.fill.topic)(self.sent);
            let (version, retain) = (self.fill.version, self.fill.retain);
            let template = PublishTemplate::new(version, &topic, 1, retain, self.fill.payload);
            // Unique within the window.
            let packet_id = (self.sent % (2 * WINDOW_MAX)) as u16 + 1;
            let round = self.fill.round;
            let fill = |payload: &mut [u8]| fill_payload(round, topic.as_bytes(), payload);
            template.push(&mut self.unsent, packet_id, fill);
            self.sent += 1;
        }
        self.client.link.send(&mut self.unsent).over_link("publish")
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            let read = match self.client.link.read(&mut self.scratch) {
                Ok(0) => {
                    let text = "the server closed the publisher's connection: does it take \
                                retained messages?";
                    return Err(BenchError::broken(text));
                }
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).over_link("read acknowledgements"),
            };
            let carry = &mut self.client.carry;
            carry.extend_from_slice(&self.scratch[..read]);
            let mut at = 0;
            while let Frame::Whole { first, body, end } = wire::frame(&carry[at..]) {
                if first >> 4 == wire::PUBACK {
                    self.acknowledged += 1;
                    // MQTT 5 may add a reason.
                    let reason = carry[at..at + end].get(body + 2);
                    self.refused += u64::from(reason.is_some_and(|reason| *reason >= 0x80));
                }
                at += end;
            }
            carry.drain(..at);
        }
    }
}
