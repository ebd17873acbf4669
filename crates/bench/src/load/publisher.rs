//! The thread that publishes, by the clock or as fast as the slowest subscriber follows.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::crowd::Client;
use super::histogram;
use super::shared::Shared;
use crate::clock::{SECOND_NS, now_ns, sleep_exactly, sleep_until_ns};
use crate::link::Link;
use crate::stamp::Stamp;
use crate::wire::{self, Frame, PublishTemplate};

/// Bytes that wait for one socket at most before no more messages are added.
const UNSENT_BYTES_MAX: usize = 256 * 1_024;

/// How long acknowledgements of the last messages are waited for.
const GRACE_NS: u64 = 5 * SECOND_NS;

/// What the publisher thread reports.
#[derive(Debug)]
pub(crate) struct Published {
    /// How much later than intended messages were handed to the kernel, the time apart for which
    /// the server took none.
    pub(crate) lateness: Histogram<u64>,
    /// Connections that the server closed.
    pub(crate) disconnected: u64,
    /// QoS 1 and 2: never acknowledged.
    pub(crate) unacknowledged: u64,
    /// Due, but the server took no more until the end.
    pub(crate) unsent: u64,
}

/// A schedule of intended send times: publishers take turns, evenly spread over the period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When the first message is due.
    pub(crate) start_ns: u64,
    /// Nothing is due from here on.
    pub(crate) end_ns: u64,
    /// Messages per second and publisher.
    pub(crate) rate: f64,
}

impl Schedule {
    /// Messages of a publisher that are due before the end.
    fn total(&self, publisher: usize, publishers: usize) -> u64 {
        let seconds = self.end_ns.saturating_sub(self.start_ns) as f64 / SECOND_NS as f64;
        let turns = seconds * self.rate - publisher as f64 / publishers as f64;
        turns.ceil().max(0.0) as u64
    }

    /// When the `sequence`th message of a publisher is due.
    fn due_ns(&self, publisher: usize, publishers: usize, sequence: u64) -> u64 {
        let turns = sequence as f64 + publisher as f64 / publishers as f64;
        let after_ns = (turns * SECOND_NS as f64 / self.rate) as u64;
        self.start_ns.saturating_add(after_ns)
    }
}

/// Which of its topics a publisher's message goes to.
#[inline]
pub(crate) fn turn(sequence: u64, topics: usize) -> usize {
    match topics {
        // Most have one, and a division costs.
        0 | 1 => 0,
        topics => (sequence % topics as u64) as usize,
    }
}

struct Publisher {
    /// `None` once the server has closed it.
    link: Option<Link>,
    /// Of its topics, which take turns.
    templates: Vec<PublishTemplate>,
    /// Number of the next message.
    sequence: u64,
    /// Sent and not yet acknowledged (QoS 1 and 2).
    in_flight: u64,
    receive_maximum: u64,
    packet_id: u16,
    unsent: Vec<u8>,
    carry: Vec<u8>,
    /// When the server was last seen to take no more.
    held_ns: u64,
}

/// All publishers.
pub(crate) struct Press {
    shared: Arc<Shared>,
    publishers: Vec<Publisher>,
    qos: u8,
    lateness: Histogram<u64>,
    disconnected: u64,
}

impl Press {
    /// One publisher per client.
    pub(crate) fn new(
        shared: Arc<Shared>,
        clients: Vec<Client>,
        qos: u8,
        templates: impl Fn(usize) -> Vec<PublishTemplate>,
    ) -> Self {
        shared.register_publisher();
        let publishers = clients
            .into_iter()
            .enumerate()
            .map(|(index, client)| Publisher {
                link: Some(client.link),
                templates: templates(index),
                sequence: 0,
                in_flight: 0,
                receive_maximum: u64::from(client.receive_maximum),
                packet_id: 0,
                unsent: Vec::new(),
                carry: client.carry,
                held_ns: 0,
            })
            .collect();
        Self {
            shared,
            publishers,
            qos,
            lateness: histogram(),
            disconnected: 0,
        }
    }

    /// Publishes by the clock (open loop: a late message keeps its intended time).
    pub(crate) fn run_paced(mut self, schedule: &Schedule) -> Published {
        sleep_exactly();
        let count = self.publishers.len();
        loop {
            let now = now_ns();
            let mut next_ns = u64::MAX;
            for index in 0..count {
                let due = |sequence| schedule.due_ns(index, count, sequence);
                self.pump(index, |sequence| {
                    let due = due(sequence);
                    (due <= now && due < schedule.end_ns).then_some(due)
                });
                self.settle(index);
                let publisher = &self.publishers[index];
                if publisher.link.is_none() {
                    continue;
                }
                let due_ns = due(publisher.sequence);
                if due_ns < schedule.end_ns {
                    // A publisher that waits for the server looks again every millisecond.
                    next_ns = next_ns.min(due_ns.max(now + publisher.pause_ns(due_ns <= now)));
                }
            }
            if next_ns == u64::MAX || self.shared.is_stopped() {
                let unsent = self.unsent(schedule);
                return Published {
                    unsent,
                    ..self.finish()
                };
            }
            sleep_until_ns(next_ns);
        }
    }

    /// Publishes so that the slowest subscriber always has a window of messages outstanding.
    pub(crate) fn run_windowed(mut self) -> Published {
        while !self.shared.is_stopped() {
            let window = self.shared.window();
            let mut sent = false;
            for index in 0..self.publishers.len() {
                // Nobody left to listen: the mark is at the end of all numbers.
                let low = self.shared.low(index);
                let end = if low == u64::MAX { 0 } else { low + window };
                let now = now_ns();
                sent |= self.pump(index, |sequence| (sequence < end).then_some(now));
                self.settle(index);
            }
            if sent {
                continue;
            }
            // Half a window at a time: fewer wake-ups, larger writes.
            let marks = self.publishers.iter().map(|p| {
                if p.link.is_some() {
                    p.sequence.saturating_sub(window / 2)
                } else {
                    u64::MAX
                }
            });
            self.shared.fall_asleep(marks);
            if !self.shared.is_due() || window == 0 {
                // Sockets are looked at every millisecond, which a full window hides.
                std::thread::park_timeout(Duration::from_millis(1));
            }
            self.shared.awake();
        }
        self.finish()
    }

    /// Sends messages as long as `due` gives them a time; whether any was sent.
    fn pump(&mut self, index: usize, due: impl Fn(u64) -> Option<u64>) -> bool {
        let publisher = &mut self.publishers[index];
        let before = publisher.sequence;
        if publisher.link.is_none() {
            return false;
        }
        while publisher.has_room(self.qos) {
            let Some(intended_ns) = due(publisher.sequence) else {
                break;
            };
            publisher.push(index, intended_ns, self.qos);
            let late = now_ns().saturating_sub(intended_ns.max(publisher.held_ns));
            self.lateness.saturating_record(late);
        }
        if !publisher.has_room(self.qos) {
            publisher.held_ns = now_ns();
        }
        let sent = publisher.sequence != before;
        if sent {
            // Before the bytes leave: a receiver takes higher numbers for corrupt ones.
            self.shared.set_published(index, publisher.sequence);
        }
        sent
    }

    /// Hands bytes to the kernel and reads acknowledgements.
    fn settle(&mut self, index: usize) {
        let publisher = &mut self.publishers[index];
        let sound = publisher.flush() && (self.qos == 0 || publisher.read_acks());
        if !sound && publisher.link.take().is_some() {
            self.disconnected += 1;
        }
    }

    /// Messages that were due, and wait for a server that is there.
    fn unsent(&self, schedule: &Schedule) -> u64 {
        let count = self.publishers.len();
        let open = self.publishers.iter().enumerate();
        let open = open.filter(|(_, publisher)| publisher.link.is_some());
        let due = |index| schedule.total(index, count);
        open.map(|(index, publisher)| due(index).saturating_sub(publisher.sequence))
            .sum()
    }

    fn finish(mut self) -> Published {
        let give_up_ns = now_ns() + GRACE_NS;
        loop {
            for index in 0..self.publishers.len() {
                self.settle(index);
            }
            let idle = self
                .publishers
                .iter()
                .all(|p| p.link.is_none() || (p.unsent.is_empty() && p.in_flight == 0));
            if idle || now_ns() > give_up_ns {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.finish();
        let links = self.publishers.iter().flat_map(|p| &p.link);
        links.for_each(Link::linger);
        Published {
            unsent: 0,
            lateness: self.lateness,
            disconnected: self.disconnected,
            unacknowledged: self.publishers.iter().map(|p| p.in_flight).sum(),
        }
    }
}

impl Publisher {
    fn has_room(&self, qos: u8) -> bool {
        self.unsent.len() < UNSENT_BYTES_MAX && (qos == 0 || self.in_flight < self.receive_maximum)
    }

    /// How long to wait before looking again.
    fn pause_ns(&self, is_late: bool) -> u64 {
        if is_late || !self.unsent.is_empty() {
            SECOND_NS / 1_000
        } else {
            0
        }
    }

    fn push(&mut self, index: usize, intended_ns: u64, qos: u8) {
        // Identifiers are never 0 [MQTT-2.2.1-3], and long free when their turn comes again.
        self.packet_id = self.packet_id.checked_add(1).unwrap_or(1);
        let stamp = Stamp {
            publisher: index as u32,
            sequence: self.sequence,
            intended_ns,
        };
        let turn = turn(self.sequence, self.templates.len());
        self.templates[turn].push(&mut self.unsent, self.packet_id, |payload| {
            stamp.write(payload)
        });
        self.sequence += 1;
        self.in_flight += u64::from(qos > 0);
    }

    /// `false` if the connection is broken.
    fn flush(&mut self) -> bool {
        let link = self.link.as_mut();
        link.is_none_or(|link| link.send(&mut self.unsent).is_ok())
    }

    /// `false` if the connection is broken.
    fn read_acks(&mut self) -> bool {
        let mut chunk = [0; 4_096];
        loop {
            let Some(link) = &mut self.link else {
                return true;
            };
            match link.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => self.carry.extend_from_slice(&chunk[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            }
            if !self.apply_acks() {
                return false;
            }
        }
    }

    fn apply_acks(&mut self) -> bool {
        let mut at = 0;
        loop {
            let rest = &self.carry[at..];
            let (kind, body, end) = match wire::frame(rest) {
                Frame::Whole { first, body, end } => (first >> 4, &rest[body..end], end),
                Frame::Partial => break,
                Frame::Malformed => return false,
            };
            match kind {
                wire::PUBACK | wire::PUBCOMP => self.in_flight = self.in_flight.saturating_sub(1),
                wire::PUBREC => match wire::u16_at(body, 0) {
                    // A PUBREC with an error ends the exchange [MQTT-4.3.3-4].
                    Some(_) if body.get(2).is_some_and(|&code| code >= 0x80) => {
                        self.in_flight = self.in_flight.saturating_sub(1);
                    }
                    Some(id) => wire::push_ack(&mut self.unsent, wire::PUBREL, id),
                    None => return false,
                },
                _ => {}
            }
            at += end;
        }
        self.carry.drain(..at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_take_turns_within_each_period() {
        let schedule = Schedule {
            start_ns: 1_000,
            end_ns: u64::MAX,
            rate: 10.0,
        };
        assert_eq!(schedule.due_ns(0, 4, 0), 1_000);
        assert_eq!(schedule.due_ns(1, 4, 0), 25_001_000);
        assert_eq!(schedule.due_ns(0, 4, 1), 100_001_000);
        assert_eq!(schedule.due_ns(3, 4, 10), 1_075_001_000);
        let end_ns = 1_075_001_000;
        let schedule = Schedule { end_ns, ..schedule };
        let totals = [0, 1, 2, 3].map(|publisher| schedule.total(publisher, 4));
        assert_eq!(totals, [11, 11, 11, 10]);
    }
}
