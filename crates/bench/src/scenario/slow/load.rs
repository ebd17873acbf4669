//! Drives it: one thread publishes by the clock, another reads slowly.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::{Events, Poll};

use super::Slow;
use crate::clock::{SECOND_NS, as_ns, now_ns, sleep_exactly, sleep_until_ns};
use crate::error::{BenchError, Doing};
use crate::link::{Endpoint, Link};
use crate::load::crowd::{self, Client, Plan};
use crate::load::histogram;
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process::CpuMeter;
use crate::sequence::{Arrival, Checker};
use crate::stamp::Stamp;
use crate::wire::{self, Frame, Lasts, Login, PublishTemplate};

const PATIENCE: Duration = Duration::from_secs(15);
/// Bytes that wait for the publisher's socket at most before no more messages are added.
const UNSENT_BYTES_MAX: usize = 256 * 1_024;
/// The publisher looks this often at most.
const PAUSE_NS: u64 = SECOND_NS / 1_000;
/// The reader looks this often.
const TICK: Duration = Duration::from_millis(5);
/// What the reader's own kernel may hold: little, as behind a slow line, but two ticks at least.
const RECEIVE_BUFFER_BYTES: usize = 8 * 1_024;
/// The reader reads this much at once when it reads everything.
const READ_BYTES: usize = 64 * 1_024;
/// After the last publish, the rest is waited for until nothing has come for this long.
const SILENCE: Duration = Duration::from_secs(1);

/// What both threads need.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) load: Slow,
    pub(super) endpoint: Endpoint,
    pub(super) login: Login,
    /// What the topics are called after.
    pub(super) run: String,
    /// The server's process, if it is known.
    pub(super) pid: Option<u32>,
    /// When the first message is due.
    pub(super) start_ns: u64,
    pub(super) measured_ns: Range<u64>,
}

/// What the publisher has done.
pub(super) struct Sent {
    /// By topic: the number of the last message.
    pub(super) last: Vec<Option<u64>>,
    pub(super) messages: u64,
    /// How much later than intended messages left, the time apart for which the server took none.
    pub(super) lateness: Histogram<u64>,
    /// Messages that were due while it was measured, those of them that left in that time, and
    /// those that never left since the server took no more.
    pub(super) due: u64,
    pub(super) in_time: u64,
    pub(super) unsent: u64,
    pub(super) server_cpu_s: Option<f64>,
    pub(super) generator: GeneratorUse,
    /// How its connection broke before the end, if it did.
    pub(super) broken: Option<String>,
}

/// What the reader has seen.
pub(super) struct Seen {
    pub(super) ages: Histogram<u64>,
    /// Of the last message before the publisher fell silent.
    pub(super) age_at_end_ns: u64,
    pub(super) messages: u64,
    /// Those of them that were read in the seconds measured.
    pub(super) measured: u64,
    /// Bytes that were read in the same time.
    pub(super) bytes: u64,
    /// By topic: the number of the last message.
    pub(super) last: Vec<Option<u64>>,
    /// By topic: which of its messages have come.
    pub(super) checkers: Vec<Checker>,
    pub(super) older_after_newer: u64,
    pub(super) duplicated: u64,
    pub(super) foreign: u64,
    /// How its connection broke before the end, if it did.
    pub(super) broken: Option<String>,
}

/// A connection that breaks in the middle is a result; other errors stay errors.
fn breaking(result: Result<(), BenchError>) -> Result<Option<String>, BenchError> {
    match result {
        Ok(()) => Ok(None),
        Err(BenchError::Broken(why)) => Ok(Some(why)),
        Err(other) => Err(other),
    }
}

impl Slow {
    /// Bytes that the slow client reads at once.
    fn each_tick(&self) -> usize {
        let each = u64::from(self.read) * as_ns(TICK) / SECOND_NS;
        usize::try_from(each).unwrap_or(usize::MAX).max(1)
    }

    fn buffer_bytes(&self) -> usize {
        RECEIVE_BUFFER_BYTES.max(2 * self.each_tick())
    }
}

impl Job {
    fn topic(&self, number: usize) -> String {
        format!("bench/{}/{number}", self.run)
    }

    fn open(&self, poll: &mut Poll, filter: Option<&str>) -> Result<Client, BenchError> {
        let role = u8::from(filter.is_some());
        let crowd = crowd::open(
            poll,
            &Plan {
                endpoint: &self.endpoint,
                login: &self.login,
                version: self.load.version,
                count: 1,
                first: 0,
                at_once: 1,
                pace: None,
                patience: PATIENCE,
                client_id: &|_| format!("slow-{role}-{}", self.run),
                entry: None,
                filter: &|_| filter.map(|filter| (filter.to_owned(), 0)),
                lasts: Lasts::Connection,
                gauge: None,
                receive_buffer: filter.map(|_| self.load.buffer_bytes()),
            },
        )?;
        let client = crowd.complete()?.pop();
        client.ok_or_else(|| BenchError::server("no connection"))
    }

    /// Publishes by the clock, then what is still due for a while.
    pub(super) fn publish(&self) -> Result<Sent, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let client = self.open(&mut poll, None)?;
        let template = |topic| {
            let (version, topic) = (self.load.version, self.topic(topic));
            PublishTemplate::new(version, &topic, 0, false, self.load.payload)
        };
        let topics = self.load.topics;
        let mut press = Press {
            job: self,
            link: client.link,
            templates: (0..topics).map(template).collect(),
            number: 0,
            last: vec![None; topics],
            unsent: Vec::new(),
            packet_bytes: 1,
            lateness: histogram(),
            held_ns: 0,
        };
        let Range { start, end } = self.measured_ns;
        sleep_exactly();
        let mut broken = breaking(press.run_until(start))?;
        let (meter, generator) = (CpuMeter::start(self.pid), GeneratorMeter::start());
        if broken.is_none() {
            broken = breaking(press.run_until(end))?;
        }
        let (generator, server_cpu_s) = (generator.stop(), meter.used_s());
        let in_time = press.left();
        let total = self.due_before(end);
        while broken.is_none()
            && (press.number < total || !press.unsent.is_empty())
            && now_ns() < end + as_ns(PATIENCE)
        {
            broken = breaking(press.step())?;
            sleep_until_ns(now_ns() + PAUSE_NS);
        }
        press.link.linger();
        let (before, left) = (self.due_before(start), press.left());
        Ok(Sent {
            last: press.last,
            messages: press.number,
            lateness: press.lateness,
            due: total - before,
            in_time: in_time.saturating_sub(before),
            unsent: total - left,
            server_cpu_s,
            generator,
            broken,
        })
    }

    /// When a message is due.
    fn due_ns(&self, number: u64) -> u64 {
        self.start_ns + number * SECOND_NS / u64::from(self.load.rate)
    }

    /// How many messages are due before that time.
    fn due_before(&self, at_ns: u64) -> u64 {
        let passed_ns = u128::from(at_ns.saturating_sub(self.start_ns));
        let due = (passed_ns * u128::from(self.load.rate)).div_ceil(u128::from(SECOND_NS));
        u64::try_from(due).unwrap_or(u64::MAX)
    }

    /// Reads this many bytes a second, and everything once the publisher is silent.
    pub(super) fn read_slowly(&self, is_silent: &AtomicBool) -> Result<Seen, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let filter = format!("bench/{}/#", self.run);
        let mut client = self.open(&mut poll, Some(&filter))?;
        let mut seen = Seen {
            ages: histogram(),
            age_at_end_ns: 0,
            messages: 0,
            measured: 0,
            bytes: 0,
            last: vec![None; self.load.topics],
            checkers: (0..self.load.topics).map(|_| Checker::default()).collect(),
            older_after_newer: 0,
            duplicated: 0,
            foreign: 0,
            broken: None,
        };
        seen.broken = breaking(self.read_all(&mut client, &mut poll, is_silent, &mut seen))?;
        Ok(seen)
    }

    fn read_all(
        &self,
        client: &mut Client,
        poll: &mut Poll,
        is_silent: &AtomicBool,
        seen: &mut Seen,
    ) -> Result<(), BenchError> {
        let each = self.load.each_tick();
        let mut events = Events::with_capacity(8);
        let mut scratch = vec![0; READ_BYTES.max(each)];
        let mut due_ns = now_ns();
        sleep_exactly();
        while !is_silent.load(Ordering::SeqCst) {
            due_ns += as_ns(TICK);
            sleep_until_ns(due_ns);
            let mut left = each;
            while left > 0 {
                match self.take(client, &mut scratch[..left], seen, true)? {
                    0 => break,
                    read => left -= read,
                }
            }
        }
        // A client that reads everything now finds the last message of each topic.
        let mut last_ns = now_ns();
        while now_ns() - last_ns < as_ns(SILENCE) {
            if self.take(client, &mut scratch, seen, false)? > 0 {
                last_ns = now_ns();
                continue;
            }
            match poll.poll(&mut events, Some(Duration::from_millis(50))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.doing("wait for messages")?,
            }
        }
        Ok(())
    }

    /// Reads once, and looks at the messages that are complete; how many bytes there were. If they
    /// are read `slowly`, their ages count from the beginning of the interval on, they themselves
    /// within it.
    fn take(
        &self,
        client: &mut Client,
        scratch: &mut [u8],
        seen: &mut Seen,
        slowly: bool,
    ) -> Result<usize, BenchError> {
        let read = match client.link.read(scratch) {
            Ok(0) => return Err(BenchError::broken("the slow client was disconnected")),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(e) => return Err(e).over_link("read messages"),
        };
        let now = now_ns();
        let is_measured = slowly && self.measured_ns.contains(&now);
        seen.bytes += if is_measured { read as u64 } else { 0 };
        client.carry.extend_from_slice(&scratch[..read]);
        let mut at = 0;
        while let Frame::Whole { first, body, end } = wire::frame(&client.carry[at..]) {
            let packet = &client.carry[at..at + end];
            at += end;
            if first >> 4 != wire::PUBLISH {
                continue;
            }
            let Some(stamp) = self.stamp(first, &packet[body..]) else {
                seen.foreign += 1;
                continue;
            };
            let topic = stamp.publisher as usize;
            seen.messages += 1;
            // The topics take turns. What is missing between may have been conflated.
            let number = stamp.sequence / self.load.topics as u64;
            match seen.checkers[topic].arrive(number) {
                Arrival::InOrder | Arrival::Ahead => {}
                Arrival::Late => seen.older_after_newer += 1,
                Arrival::Duplicate => seen.duplicated += 1,
            }
            seen.last[topic] = Some(stamp.sequence);
            seen.measured += u64::from(is_measured);
            if slowly && now >= self.measured_ns.start {
                let age = now.saturating_sub(stamp.intended_ns);
                seen.ages.saturating_record(age);
                seen.age_at_end_ns = age;
            }
        }
        client.carry.drain(..at);
        Ok(read)
    }

    /// The stamp of a message that is one of these, whole, and on the topic of its number.
    fn stamp(&self, first: u8, body: &[u8]) -> Option<Stamp> {
        let publish = wire::publish(first, body, self.load.version)?;
        let stamp = Stamp::read(publish.payload)?;
        let topic = stamp.publisher as usize;
        let is_one = topic < self.load.topics
            && publish.qos == 0
            && publish.topic == self.topic(topic).as_bytes()
            && stamp.fits(publish.payload, self.load.payload);
        is_one.then_some(stamp)
    }
}

/// The publisher.
struct Press<'a> {
    job: &'a Job,
    link: Link,
    /// By topic.
    templates: Vec<PublishTemplate>,
    /// Of the next message.
    number: u64,
    last: Vec<Option<u64>>,
    unsent: Vec<u8>,
    /// Of the newest message; the others differ by the digits of their topics.
    packet_bytes: usize,
    lateness: Histogram<u64>,
    /// When the server was last seen to take no more.
    held_ns: u64,
}

impl Press<'_> {
    fn run_until(&mut self, until_ns: u64) -> Result<(), BenchError> {
        loop {
            let now = now_ns();
            if now >= until_ns {
                return Ok(());
            }
            self.step()?;
            let next_ns = self.job.due_ns(self.number).max(now + PAUSE_NS);
            sleep_until_ns(next_ns.min(until_ns));
        }
    }

    /// How many messages the kernel has taken, to one or two.
    const fn left(&self) -> u64 {
        let waiting = self.unsent.len().div_ceil(self.packet_bytes);
        self.number.saturating_sub(waiting as u64)
    }

    /// Publishes what is due, as far as the server takes it.
    fn step(&mut self) -> Result<(), BenchError> {
        let end_ns = self.job.measured_ns.end;
        loop {
            let (now, due_ns) = (now_ns(), self.job.due_ns(self.number));
            if due_ns > now || due_ns >= end_ns {
                break;
            }
            if self.unsent.len() >= UNSENT_BYTES_MAX {
                self.held_ns = now;
                break;
            }
            let topic = (self.number % self.job.load.topics as u64) as usize;
            let stamp = Stamp {
                publisher: topic as u32,
                sequence: self.number,
                intended_ns: due_ns,
            };
            let waiting = self.unsent.len();
            self.templates[topic].push(&mut self.unsent, 0, |payload| stamp.write(payload));
            self.packet_bytes = self.unsent.len() - waiting;
            let late_ns = now.saturating_sub(due_ns.max(self.held_ns));
            self.lateness.saturating_record(late_ns);
            self.last[topic] = Some(self.number);
            self.number += 1;
        }
        self.link.send(&mut self.unsent).over_link("publish")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Version;

    #[test]
    fn messages_are_due_by_the_clock() {
        let job = Job {
            load: Slow {
                topics: 2,
                rate: 10,
                payload: 100,
                read: 1_024,
                warmup: Duration::ZERO,
                seconds: Duration::from_secs(1),
                version: Version::V311,
            },
            endpoint: Endpoint::Unix("none".into()),
            login: Login::default(),
            run: "1".into(),
            pid: None,
            start_ns: 1_000,
            measured_ns: 0..0,
        };
        assert_eq!(job.due_ns(3), 300_001_000);
        for (at_ns, expected) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (300_001_000, 3),
            (300_001_001, 4),
        ] {
            assert_eq!(job.due_before(at_ns), expected, "{at_ns}");
        }
        let message = |topic: &str, qos, number| {
            let template = PublishTemplate::new(Version::V311, topic, qos, false, 100);
            let stamp = Stamp {
                publisher: number,
                sequence: 5,
                intended_ns: 7,
            };
            let mut packet = Vec::new();
            template.push(&mut packet, 1, |payload| stamp.write(payload));
            job.stamp(packet[0], &packet[2..]).is_some()
        };
        assert!(message("bench/1/1", 0, 1));
        assert!(!message("bench/1/1", 1, 1), "another quality");
        assert!(!message("bench/1/0", 0, 1), "another topic");
        assert!(!message("bench/1/2", 0, 2), "none of the topics");
    }
}
