//! A thread full of subscribers: reads much per wake-up, checks every message.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::event::Event;
use mio::{Events, Poll};

use super::crowd::Client;
use super::histogram;
use super::publisher::turn;
use super::shared::Shared;
use super::watermark::Watermark;
use crate::clock::{as_ns, now_ns};
use crate::link::Link;
use crate::sequence::{Arrival, Checker, Faults};
use crate::stamp::Stamp;
use crate::wire::{self, Frame, Publish, Version};

const READ_BYTES: usize = 256 * 1_024;

/// Where the window sets the pace, comparing every byte would be a good part of what a message
/// costs: 3 ns of 100 B, 14 ns of 1,000 B. So each subscriber compares one message in sixteen,
/// those of one topic different ones, and of the others the stamp and the length.
const WHOLE_MASK: u64 = 15;

/// The orders for a receiver thread.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) shared: Arc<Shared>,
    /// Index of this thread.
    pub(crate) receiver: usize,
    /// Index of its first subscriber among all: subscriber n listens to publisher n mod publishers.
    pub(crate) first: usize,
    pub(crate) publishers: usize,
    pub(crate) version: Version,
    /// The most messages that a publisher keeps outstanding; 0 if nobody needs to know how far
    /// the slowest subscriber is.
    pub(crate) window_max: u64,
    /// Bytes of each message.
    pub(crate) payload: usize,
    /// The quality of service that messages are published with and were subscribed to.
    pub(crate) qos: u8,
    /// Of each publisher, in turn.
    pub(crate) topics: Vec<Vec<String>>,
    /// Whether each subscriber listens to all publishers. Then nobody needs to know how far the
    /// slowest is.
    pub(crate) all: bool,
    /// What is still on its way is waited for as long as something arrives, and this long after.
    pub(crate) grace: Duration,
}

/// What a receiver thread has seen.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) latency: Histogram<u64>,
    pub(crate) faults: Faults,
    /// Connections that the server closed.
    pub(crate) disconnected: u64,
    /// Messages that were to leave while it was measured, and came later.
    pub(crate) after_end: u64,
}

struct Subscriber {
    /// `None` once the server has closed it.
    link: Option<Link>,
    checker: Checker,
    /// Those of the publishers behind the first, where it listens to all.
    others: Vec<Checker>,
    publisher: usize,
    /// The front of an unfinished packet.
    carry: Vec<u8>,
    /// Acknowledgements that the kernel did not take yet.
    unsent: Vec<u8>,
}

/// Receives until the publisher has finished and everything has come or nothing comes any more.
pub(crate) fn run(mut poll: Poll, clients: Vec<Client>, orders: Orders) -> Received {
    let mut receiver = Receiver::new(clients, orders);
    let mut events = Events::with_capacity(1_024);
    let mut last_ns = now_ns();
    let mut last_delivered = 0;
    receiver.take_leftovers();
    loop {
        match poll.poll(&mut events, Some(Duration::from_millis(20))) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            // Cannot happen with a valid poll; what is missing then counts as lost.
            Err(_) => break,
        }
        receiver.begin_turn();
        for event in &events {
            receiver.on_event(event);
        }
        receiver.end_turn();
        if receiver.tally.delivered != last_delivered {
            (last_delivered, last_ns) = (receiver.tally.delivered, now_ns());
        }
        if receiver.orders.shared.is_finished() {
            let waited = now_ns().saturating_sub(last_ns) > as_ns(receiver.orders.grace);
            if waited || (events.is_empty() && receiver.is_complete()) {
                break;
            }
        }
    }
    receiver.finish()
}

/// What is counted while receiving.
struct Tally {
    latency: Histogram<u64>,
    delivered: u64,
    faults: Faults,
    /// Messages that came before one that was missing then.
    ahead: u64,
    disconnected: u64,
    after_end: u64,
    /// Latency counts for messages meant to leave in this interval.
    from_ns: u64,
    to_ns: u64,
    /// Bytes of each message.
    payload: usize,
    /// Of each message.
    qos: u8,
    /// Messages are compared whole in whose turn these bits are 0.
    whole_mask: u64,
}

/// A receiver and its publishers.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// Of its publisher, or of all where it listens to all, in turn.
    topics: &'a [Vec<String>],
    /// The subscriber's number among those of its publisher.
    subscriber: usize,
    /// The first that it listens to.
    publisher: usize,
    /// Of each: higher numbers have not been published yet.
    published: &'a [u64],
}

/// What has come from each publisher that one subscriber listens to: from the first, and from the
/// others. Nearly all listen to one.
struct Seen<'a> {
    first: &'a mut Checker,
    others: &'a mut [Checker],
}

impl Seen<'_> {
    #[inline]
    fn of(&mut self, index: usize) -> &mut Checker {
        match index {
            0 => self.first,
            // There are as many as there are bounds of what was published.
            index => &mut self.others[index - 1],
        }
    }
}

struct Receiver {
    orders: Orders,
    subscribers: Vec<Subscriber>,
    /// Per publisher, when the window needs them.
    marks: Vec<Watermark>,
    /// Publishers whose mark moved in this turn.
    moved: Vec<bool>,
    tally: Tally,
    scratch: Vec<u8>,
    answers: Vec<u8>,
    /// What the publishers of the subscriber that is read have published.
    published: Vec<u64>,
}

impl Receiver {
    fn new(clients: Vec<Client>, orders: Orders) -> Self {
        let publishers = orders.publishers;
        let mut listeners = vec![0_u32; publishers];
        let subscribers: Vec<Subscriber> = clients
            .into_iter()
            .enumerate()
            .map(|(index, client)| {
                let publisher = match orders.all {
                    true => 0,
                    false => (orders.first + index) % publishers,
                };
                listeners[publisher] += 1;
                let others = if orders.all { publishers - 1 } else { 0 };
                Subscriber {
                    link: Some(client.link),
                    checker: Checker::default(),
                    others: std::iter::repeat_with(Checker::default)
                        .take(others)
                        .collect(),
                    publisher,
                    carry: client.carry,
                    unsent: Vec::new(),
                }
            })
            .collect();
        let watched = if orders.window_max > 0 {
            &listeners[..]
        } else {
            &[]
        };
        let marks: Vec<Watermark> = watched
            .iter()
            .map(|&count| Watermark::new(count, orders.window_max))
            .collect();
        for (publisher, mark) in marks.iter().enumerate() {
            orders
                .shared
                .set_low(orders.receiver, publisher, mark.low());
        }
        Self {
            subscribers,
            moved: vec![false; marks.len()],
            marks,
            tally: Tally::new(
                orders.payload,
                orders.qos,
                match orders.window_max {
                    0 => 0,
                    _ => WHOLE_MASK,
                },
            ),
            scratch: vec![0; READ_BYTES],
            answers: Vec::new(),
            published: Vec::new(),
            orders,
        }
    }

    /// Messages that came together with the SUBACK are not announced by the poll again.
    fn take_leftovers(&mut self) {
        self.begin_turn();
        for index in 0..self.subscribers.len() {
            if !self.subscribers[index].carry.is_empty() {
                self.read(index, false);
            }
        }
        self.end_turn();
    }

    fn begin_turn(&mut self) {
        (self.tally.from_ns, self.tally.to_ns) = self.orders.shared.interval();
    }

    fn end_turn(&mut self) {
        let shared = &self.orders.shared;
        shared.set_delivered(self.orders.receiver, self.tally.delivered, self.tally.bad());
        if !self.moved.contains(&true) {
            return;
        }
        for (publisher, moved) in self.moved.iter_mut().enumerate() {
            if std::mem::take(moved) {
                shared.set_low(self.orders.receiver, publisher, self.marks[publisher].low());
            }
        }
        shared.nudge_publisher();
    }

    fn on_event(&mut self, event: &Event) {
        let index = event.token().0;
        if event.is_writable() && !self.subscribers[index].unsent.is_empty() {
            self.subscribers[index].send(&[]);
        }
        if event.is_readable() {
            self.read(index, event.is_read_closed());
        }
    }

    /// Reads until the socket is drained: after a short read nothing is left but, if `closed`, the
    /// end, which comes with the same event as the last bytes.
    fn read(&mut self, index: usize, closed: bool) {
        let subscriber = &mut self.subscribers[index];
        let before = subscriber.checker.next();
        loop {
            let Some(link) = &mut subscriber.link else {
                return;
            };
            let kept = subscriber.carry.len();
            if kept >= self.scratch.len() / 2 {
                self.scratch.resize(kept * 4, 0);
            }
            self.scratch[..kept].copy_from_slice(&subscriber.carry);
            let read = match link.read(&mut self.scratch[kept..]) {
                Ok(0) => return self.hang_up(index, before),
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.hang_up(index, before),
            };
            let filled = kept + read;
            let input = &self.scratch[..filled];
            // Fresh for each read: nothing that is in `input` was sent later than this bound.
            let heard = subscriber.publishers();
            let bounds = heard.clone().map(|one| self.orders.shared.published(one));
            self.published.clear();
            self.published.extend(bounds);
            let line = Line {
                topics: &self.orders.topics[heard],
                subscriber: (self.orders.first + index) / self.orders.publishers,
                publisher: subscriber.publisher,
                published: &self.published,
            };
            let seen = Seen {
                first: &mut subscriber.checker,
                others: &mut subscriber.others,
            };
            let (version, answers) = (self.orders.version, &mut self.answers);
            let used = self.tally.apply(input, line, seen, version, answers);
            let Some(used) = used else {
                return self.hang_up(index, before);
            };
            subscriber.carry.clear();
            subscriber.carry.extend_from_slice(&input[used..]);
            if !self.answers.is_empty() {
                subscriber.send(&self.answers);
                self.answers.clear();
            }
            if filled < self.scratch.len() && !closed {
                break;
            }
        }
        let after = subscriber.checker.next();
        if after != before && !self.marks.is_empty() {
            self.marks[subscriber.publisher].advance(before, after);
            self.moved[subscriber.publisher] = true;
        }
    }

    /// `before` is what the watermark holds for this subscriber.
    fn hang_up(&mut self, index: usize, before: u64) {
        let subscriber = &mut self.subscribers[index];
        if subscriber.link.take().is_none() {
            return;
        }
        self.tally.disconnected += 1;
        if let Some(mark) = self.marks.get_mut(subscriber.publisher) {
            mark.remove(before);
            self.moved[subscriber.publisher] = true;
        }
    }

    fn is_complete(&self) -> bool {
        let shared = &self.orders.shared;
        self.subscribers.iter().all(|subscriber| {
            let mut heard = subscriber.heard();
            let is_whole = |(publisher, checker): (usize, &Checker)| {
                checker.next() >= shared.published(publisher) && !checker.has_gaps()
            };
            subscriber.link.is_none() || heard.all(is_whole)
        })
    }

    fn finish(mut self) -> Received {
        for subscriber in &self.subscribers {
            for (publisher, checker) in subscriber.heard() {
                let published = self.orders.shared.published(publisher);
                self.tally.faults.lost += checker.missing(published);
            }
        }
        Received {
            latency: self.tally.latency,
            faults: self.tally.faults,
            disconnected: self.tally.disconnected,
            after_end: self.tally.after_end,
        }
    }
}

impl Tally {
    fn new(payload: usize, qos: u8, whole_mask: u64) -> Self {
        Self {
            latency: histogram(),
            delivered: 0,
            faults: Faults::default(),
            ahead: 0,
            disconnected: 0,
            after_end: 0,
            from_ns: u64::MAX,
            to_ns: u64::MAX,
            payload,
            qos,
            whole_mask,
        }
    }

    /// Faults and lost connections so far. What is lost for good shows at the end alone, which is
    /// too late for whoever looks for a window: there, a gap is a fault.
    fn bad(&self) -> u64 {
        let gaps = match self.whole_mask {
            0 => 0,
            _ => self.ahead,
        };
        self.faults.total() + self.disconnected + gaps
    }

    /// Applies the whole packets of `input`; returns the bytes used, `None` if it is malformed.
    fn apply(
        &mut self,
        input: &[u8],
        line: Line<'_>,
        mut seen: Seen<'_>,
        version: Version,
        answers: &mut Vec<u8>,
    ) -> Option<usize> {
        let now = now_ns();
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let (first, body) = match wire::frame(rest) {
                Frame::Partial => return Some(at),
                Frame::Malformed => return None,
                Frame::Whole { first, body, end } => {
                    at += end;
                    (first, &rest[body..end])
                }
            };
            match first >> 4 {
                wire::PUBLISH => {
                    let publish = wire::publish(first, body, version)?;
                    match publish.qos {
                        0 => {}
                        1 => wire::push_ack(answers, wire::PUBACK, publish.packet_id),
                        _ => wire::push_ack(answers, wire::PUBREC, publish.packet_id),
                    }
                    self.delivered += 1;
                    self.check(&publish, line, &mut seen, now);
                }
                wire::PUBREL => {
                    wire::push_ack(answers, wire::PUBCOMP, wire::u16_at(body, 0)?);
                }
                _ => {}
            }
        }
    }

    #[inline]
    fn check(&mut self, publish: &Publish<'_>, line: Line<'_>, seen: &mut Seen<'_>, now: u64) {
        let payload = publish.payload;
        let stamp = Stamp::read(payload).and_then(|stamp| {
            let index = (stamp.publisher as usize).checked_sub(line.publisher)?;
            let is_out = stamp.sequence < *line.published.get(index)?;
            is_out.then_some((stamp, index))
        });
        let Some((stamp, index)) = stamp else {
            self.faults.corrupt += 1;
            return;
        };
        let number = stamp.sequence + line.subscriber as u64;
        let is_intact = match number & self.whole_mask {
            0 => {
                let topics = &line.topics[index];
                let topic = &topics[turn(stamp.sequence, topics.len())];
                stamp.fits(payload, self.payload) && publish.topic == topic.as_bytes()
            }
            _ => payload.len() == self.payload,
        };
        if !is_intact || publish.qos != self.qos {
            // It has arrived all the same, once and in its place or not.
            self.faults.corrupt += 1;
        }
        match seen.of(index).arrive(stamp.sequence) {
            Arrival::InOrder => {}
            Arrival::Ahead => self.ahead += 1,
            Arrival::Late => self.faults.reordered += 1,
            Arrival::Duplicate => self.faults.duplicated += 1,
        }
        if stamp.intended_ns >= self.from_ns && stamp.intended_ns < self.to_ns {
            self.after_end += u64::from(now >= self.to_ns);
            self.latency
                .saturating_record(now.saturating_sub(stamp.intended_ns));
        }
    }
}

impl Subscriber {
    /// Those that it listens to.
    fn publishers(&self) -> Range<usize> {
        self.publisher..self.publisher + 1 + self.others.len()
    }

    /// The same, with what has come from each.
    fn heard(&self) -> impl Iterator<Item = (usize, &Checker)> {
        let checkers = std::iter::once(&self.checker).chain(&self.others);
        self.publishers().zip(checkers)
    }

    /// Sends what is waiting, then `bytes`; keeps what the kernel does not take.
    fn send(&mut self, bytes: &[u8]) {
        let Some(link) = &mut self.link else { return };
        self.unsent.extend_from_slice(bytes);
        // An error shows at the next read.
        let _ = link.send(&mut self.unsent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_fault_where_a_window_is_looked_for() {
        for (whole_mask, expected) in [(WHOLE_MASK, 1), (0, 0)] {
            let mut tally = Tally::new(64, 0, whole_mask);
            let line = Line {
                topics: &[vec!["t".into()]],
                subscriber: 0,
                publisher: 0,
                published: &[4],
            };
            let mut seen = Seen {
                first: &mut Checker::default(),
                others: &mut [],
            };
            for sequence in [0, 1, 3] {
                let payload = payload(0, sequence);
                tally.check(&message(0, b"t", &payload), line, &mut seen, 2);
            }
            assert_eq!(tally.bad(), expected);
        }
    }

    fn payload(publisher: u32, sequence: u64) -> Vec<u8> {
        let mut payload = vec![0; 64];
        let stamp = Stamp {
            publisher,
            sequence,
            intended_ns: 1,
        };
        stamp.write(&mut payload);
        payload
    }

    fn message<'a>(qos: u8, topic: &'a [u8], payload: &'a [u8]) -> Publish<'a> {
        Publish {
            qos,
            topic,
            packet_id: 0,
            payload,
        }
    }

    /// As many bytes as were published are not enough.
    #[test]
    fn another_quality_or_topic_is_a_fault() {
        for (qos, topic, expected) in [(1, &b"t"[..], 0), (0, b"t", 1), (2, b"t", 1), (1, b"u", 1)]
        {
            let mut tally = Tally::new(64, 1, 0);
            let line = Line {
                topics: &[vec!["t".into()]],
                subscriber: 0,
                publisher: 0,
                published: &[1],
            };
            let payload = payload(0, 0);
            let mut seen = Seen {
                first: &mut Checker::default(),
                others: &mut [],
            };
            tally.check(&message(qos, topic, &payload), line, &mut seen, 2);
            let faults = tally.faults;
            assert_eq!(
                (faults.corrupt, faults.lost),
                (expected, 0),
                "{qos} {topic:?}"
            );
        }
    }

    /// Two publishers with two topics each, both heard by one subscriber.
    #[test]
    fn who_listens_to_all_checks_each_publisher_and_topic() {
        let topics = ["a", "b"].map(|one| ["0", "1"].map(|turn| format!("{one}{turn}")).to_vec());
        let mut tally = Tally::new(64, 0, 0);
        let line = Line {
            topics: &topics,
            subscriber: 0,
            publisher: 0,
            published: &[2, 1],
        };
        let mut seen = Seen {
            first: &mut Checker::default(),
            others: &mut [Checker::default()],
        };
        for (publisher, sequence, topic, corrupt) in [
            (0, 0, &b"a0"[..], 0),
            (1, 0, b"b0", 0),
            (0, 1, b"a0", 1),
            // Not published yet, and of nobody.
            (1, 1, b"b1", 2),
            (2, 0, b"c0", 3),
        ] {
            let payload = payload(publisher, sequence);
            tally.check(&message(0, topic, &payload), line, &mut seen, 2);
            assert_eq!(tally.faults.corrupt, corrupt, "{publisher} {sequence}");
        }
        assert_eq!((seen.of(0).next(), seen.of(1).next()), (2, 1));
    }
}
