//! One client that publishes with QoS 1, as fast as it is acknowledged or by the clock.

use std::io;
use std::time::Duration;

use mio::{Events, Poll};

use super::{Group, Heard, LOOK, PATIENCE, Peer, Place};
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::progress::Gauge;
use crate::stamp::Stamp;
use crate::wire::{Lasts, PublishTemplate};

/// Messages on their way at most; a server may grant fewer.
const WINDOW_MAX: u64 = 1_000;
/// Bytes that wait for the socket at most before no more messages are added.
const UNSENT_BYTES_MAX: usize = 256 * 1_024;

/// What to publish: message n goes to topic n modulo their number.
pub(crate) struct Publishing<'a> {
    pub(crate) place: &'a Place,
    pub(crate) topics: &'a [String],
    /// The number of the first message, and how many.
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Bytes of each.
    pub(crate) payload: usize,
    pub(crate) gauge: &'a Gauge,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    /// From the first until all were acknowledged.
    pub(crate) seconds: f64,
    /// Messages that the server acknowledged with an error.
    pub(crate) refused: u64,
}

/// How far it is.
struct Going<'a> {
    what: &'a Publishing<'a>,
    templates: Vec<PublishTemplate>,
    peer: Peer,
    sent: u64,
    acknowledged: u64,
    refused: u64,
}

impl Publishing<'_> {
    /// Publishes all of it.
    ///
    /// # Errors
    /// If the server closes the connection, or does not acknowledge all.
    pub(crate) fn run(&self) -> Result<Published, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let group = Group {
            name: "publisher",
            first: 0,
            count: 1,
            lasts: Lasts::Connection,
            filter: &|_| None,
        };
        let peer = self.place.open(&mut poll, &group)?.pop();
        let peer = peer.ok_or_else(|| BenchError::server("no connection"))?;
        let template = |topic: &String| {
            PublishTemplate::new(self.place.version(), topic, 1, false, self.payload)
        };
        let mut going = Going {
            what: self,
            templates: self.topics.iter().map(template).collect(),
            peer,
            sent: 0,
            acknowledged: 0,
            refused: 0,
        };
        going.run(&mut poll)
    }
}

impl Going<'_> {
    fn run(&mut self, poll: &mut Poll) -> Result<Published, BenchError> {
        let mut scratch = vec![0; 64 * 1_024];
        let mut events = Events::with_capacity(8);
        let begun_ns = now_ns();
        let mut last_ns = begun_ns;
        while self.acknowledged < self.what.count {
            let before = self.acknowledged;
            self.fill();
            self.peer.flush()?;
            let (acknowledged, refused) = (&mut self.acknowledged, &mut self.refused);
            self.peer
                .receive(&mut scratch, self.what.place.version(), &mut |heard| {
                    if let Heard::Acknowledged { is_refused, .. } = heard {
                        *acknowledged += 1;
                        *refused += u64::from(is_refused);
                    }
                })?;
            if self.acknowledged > before {
                self.what.gauge.set(self.acknowledged as usize);
                last_ns = now_ns();
                continue;
            }
            if now_ns() - last_ns > as_ns(PATIENCE) {
                return Err(BenchError::broken(format!(
                    "only {before} of {} messages were acknowledged",
                    self.what.count
                )));
            }
            match poll.poll(&mut events, Some(LOOK)) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.doing("wait for acknowledgements")?,
            }
        }
        Ok(Published {
            seconds: (now_ns() - begun_ns) as f64 / SECOND_NS as f64,
            refused: self.refused,
        })
    }

    fn fill(&mut self) {
        let window = WINDOW_MAX.min(u64::from(self.peer.receive_maximum()));
        while self.sent < self.what.count
            && self.sent - self.acknowledged < window
            && self.peer.unsent().len() < UNSENT_BYTES_MAX
        {
            let number = self.what.first + self.sent;
            let topic = (number % self.templates.len() as u64) as usize;
            push(&self.templates[topic], number, now_ns(), self.peer.unsent());
            self.sent += 1;
        }
    }
}

/// Appends message `number`, whose packet id is unique within any window.
pub(crate) fn push(template: &PublishTemplate, number: u64, due_ns: u64, out: &mut Vec<u8>) {
    let stamp = Stamp {
        publisher: 0,
        sequence: number,
        intended_ns: due_ns,
    };
    template.push(out, packet_id(number), |payload| stamp.write(payload));
}

/// The packet id of a message.
pub(crate) const fn packet_id(number: u64) -> u16 {
    // Below 60,001.
    (number % 60_000) as u16 + 1
}

/// Until something is due, or somebody has to look.
pub(crate) fn until(due_ns: u64) -> Duration {
    Duration::from_nanos(due_ns.saturating_sub(now_ns())).min(LOOK)
}
