//! One client that sends itself a message every millisecond: how long deliveries pause.

use std::io::{self, Read};
use std::time::Duration;

use mio::{Events, Poll};

use super::crowd::{self, Client, Plan};
use crate::clock::{as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::wire::{self, Frame, Lasts, Login, PublishTemplate, Version};

/// Between two messages.
const STEP: Duration = Duration::from_millis(1);
/// Gives up when nothing has come for this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// A message carries its intended time.
const STAMP_BYTES: usize = 8;

/// Where the messages go.
pub(crate) struct Pulse {
    pub(crate) endpoint: Endpoint,
    pub(crate) login: Login,
    pub(crate) version: Version,
    /// The client id, and the topic.
    pub(crate) name: String,
    /// How long messages are sent.
    pub(crate) lasts: Duration,
}

/// How far it has come.
struct Beating {
    client: Client,
    template: PublishTemplate,
    version: Version,
    unsent: Vec<u8>,
    scratch: Vec<u8>,
    received: u64,
    longest_ns: u64,
}

impl Pulse {
    /// Sends the messages, calling `begun` before the first, and waits for them. Returns the
    /// longest time, in nanoseconds, from when one was to be sent until it came back.
    pub(crate) fn run(&self, begun: impl FnOnce()) -> Result<u64, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let crowd = crowd::open(
            &mut poll,
            &Plan {
                endpoint: &self.endpoint,
                login: &self.login,
                version: self.version,
                count: 1,
                first: 0,
                at_once: 1,
                pace: None,
                patience: PATIENCE,
                client_id: &|_| self.name.clone(),
                entry: None,
                filter: &|_| Some((self.name.clone(), 0)),
                lasts: Lasts::Connection,
                gauge: None,
                receive_buffer: None,
            },
        )?;
        let client = crowd.complete()?.pop();
        let client = client.ok_or_else(|| BenchError::server("no connection"))?;
        let mut beating = Beating {
            client,
            template: PublishTemplate::new(self.version, &self.name, 0, false, STAMP_BYTES),
            version: self.version,
            unsent: Vec::new(),
            scratch: vec![0; 16 * 1_024],
            received: 0,
            longest_ns: 0,
        };
        begun();
        beating.run(&mut poll, as_ns(self.lasts) / as_ns(STEP))?;
        Ok(beating.longest_ns)
    }
}

impl Beating {
    fn run(&mut self, poll: &mut Poll, count: u64) -> Result<(), BenchError> {
        let start_ns = now_ns();
        let due_ns = |number: u64| start_ns + number * as_ns(STEP);
        let mut last_ns = start_ns;
        let mut events = Events::with_capacity(8);
        let mut sent = 0;
        while self.received < count {
            while sent < count && due_ns(sent) <= now_ns() {
                let stamp = due_ns(sent).to_le_bytes();
                let fill = |payload: &mut [u8]| payload.copy_from_slice(&stamp);
                self.template.push(&mut self.unsent, 0, fill);
                sent += 1;
            }
            self.send()?;
            let before = self.received;
            self.receive()?;
            if self.received > before {
                last_ns = now_ns();
            } else if now_ns() - last_ns > as_ns(PATIENCE) {
                let text = format!("only {before} of {count} messages came back");
                return Err(BenchError::broken(text));
            }
            let wait = Duration::from_nanos(due_ns(sent).saturating_sub(now_ns()));
            let wait = if sent < count { wait } else { STEP };
            match poll.poll(&mut events, Some(wait)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.doing("wait for messages")?,
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        self.client.link.send(&mut self.unsent).over_link("publish")
    }

    fn receive(&mut self) -> Result<(), BenchError> {
        loop {
            let read = match self.client.link.read(&mut self.scratch) {
                Ok(0) => return Err(BenchError::broken("the server closed the connection")),
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).over_link("read messages"),
            };
            let arrived_ns = now_ns();
            let carry = &mut self.client.carry;
            carry.extend_from_slice(&self.scratch[..read]);
            let mut at = 0;
            while let Frame::Whole { first, body, end } = wire::frame(&carry[at..]) {
                let publish = wire::publish(first, &carry[at + body..at + end], self.version);
                let stamp = publish.and_then(|publish| publish.payload.first_chunk().copied());
                if let (true, Some(stamp)) = (first >> 4 == wire::PUBLISH, stamp) {
                    let due_ns = u64::from_le_bytes(stamp);
                    self.longest_ns = self.longest_ns.max(arrived_ns.saturating_sub(due_ns));
                    self.received += 1;
                }
                at += end;
            }
            carry.drain(..at);
        }
    }
}
