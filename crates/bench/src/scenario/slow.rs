//! How old what a slow client reads is, while its topics change faster than it reads.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::{Events, Poll};
use serde_json::json;
use socket2::SockRef;

use super::{Scenario, check_payload, count, run_id};
use crate::args::{Common, seconds};
use crate::clock::{SECOND_NS, as_ns, now_ns, sleep_exactly, sleep_until_ns};
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::load::crowd::{self, Client, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::meter::push_link;
use crate::progress::Progress;
use crate::stamp::Stamp;
use crate::target::{Needs, Running};
use crate::wire::{self, Frame, Login, PublishTemplate, Version};
use crate::workload::{Sheet, Workload, members};

const P50: Metric = Metric::new("age_p50_us", "age p50", Unit::Micros);
const P99: Metric = Metric::new("age_p99_us", "p99", Unit::Micros);
const MAX: Metric = Metric::new("age_max_us", "max", Unit::Micros);
const BACKLOG: Metric = Metric::new("age_at_end_us", "age at the end", Unit::Micros);
const READ: Metric = Metric::new("messages_read", "read", Unit::Count);
const SENT: Metric = Metric::new("messages_published", "published", Unit::Count);
const LEAST: Metric = Metric::new("turn_us", "one turn of all topics", Unit::Micros);

const PATIENCE: Duration = Duration::from_secs(15);
/// The reader looks this often.
const TICK: Duration = Duration::from_millis(5);
/// What the reader's own kernel may hold: little, as behind a slow line.
const RECEIVE_BUFFER_BYTES: usize = 8 * 1_024;
/// After the last publish, the rest is waited for until nothing has come for this long.
const SILENCE: Duration = Duration::from_secs(1);

/// Who publishes how much, and who reads how slowly.
#[derive(Debug, clap::Args)]
pub(crate) struct SlowArgs {
    /// Topics that take turns
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    topics: u32,
    /// Messages per second, of all topics together
    #[arg(long, default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Bytes per message
    #[arg(long, default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    payload: u32,
    /// Bytes per second that the client reads
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1_024..))]
    read: u32,
    /// Seconds to measure
    #[arg(long, default_value_t = 8.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds to run before measuring: until the buffers are full
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    warmup: f64,
    #[command(flatten)]
    common: Common,
}

impl Scenario for SlowArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        check_payload(self.payload as usize)?;
        Ok(vec![Box::new(Slow {
            topics: self.topics as usize,
            rate: self.rate,
            payload: self.payload as usize,
            read: self.read,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
            version: self.common.version,
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Slow {
    topics: usize,
    rate: u32,
    payload: usize,
    /// Bytes per second.
    read: u32,
    warmup: Duration,
    seconds: Duration,
    version: Version,
}

impl Slow {
    /// Bytes of one message on the wire, about.
    fn message_bytes(&self) -> usize {
        self.payload + 40
    }

    /// The time in which a client that reads so slowly gets each topic once: newer is impossible
    /// for topics that take turns.
    fn turn_us(&self) -> f64 {
        (self.topics * self.message_bytes()) as f64 / f64::from(self.read) * 1e6
    }
}

impl Workload for Slow {
    fn sheet(&self) -> Sheet {
        let (topics, rate, read) = (count(self.topics), count(self.rate), count(self.read));
        let (payload, version) = (self.payload, self.version.as_str());
        let mut needs = Needs::new(2, payload, self.version);
        needs.config = "[[policy]]\nfilter = \"bench/#\"\nqos0 = \"conflate\"\n";
        Sheet {
            name: "slow",
            title: format!(
                "slow: {topics} topics, {rate} msg/s × {payload} B, a client that reads {read} \
                 B/s, MQTT {version}"
            ),
            parameters: members(json!({
                "topics": self.topics,
                "messages_per_s": self.rate,
                "payload_bytes": payload,
                "read_bytes_per_s": self.read,
                "warmup_seconds": self.warmup.as_secs_f64(),
                "seconds": self.seconds.as_secs_f64(),
                "version": version,
            })),
            floors: Vec::new(),
            needs,
            pairs: 3,
            plan: vec![
                "a client subscribes and reads so many bytes a second, through a small buffer of \
                 its own"
                    .into(),
                "one publisher goes round all topics; this server conflates them, a rival does \
                 what it does"
                    .into(),
                "age: from the time a message should have left to the time it is read; then, with \
                 the publisher silent, the last message of each topic has to come, and never an \
                 older one after a newer one"
                    .into(),
            ],
            published: None,
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let run = run_id();
        let start_ns = now_ns() + SECOND_NS / 2;
        let silent = Arc::new(AtomicBool::new(false));
        let (this, endpoint, login) = (
            self.clone(),
            running.endpoint.clone(),
            running.login.clone(),
        );
        let (topic, is_silent) = (format!("bench/{run}/#"), Arc::clone(&silent));
        let reader = load::spawn("reader", move || {
            this.read_slowly(&endpoint, &login, &topic, start_ns, &is_silent)
        })?;
        let (this, endpoint, login) = (
            self.clone(),
            running.endpoint.clone(),
            running.login.clone(),
        );
        let now = || "reading slowly".to_owned();
        let sent = load::run("publisher", (progress, &now), move || {
            this.publish(&endpoint, &login, &run, start_ns)
        });
        silent.store(true, Ordering::SeqCst);
        let seen = load::join(reader)??;
        let last = sent?;
        Ok(self.evaluate(seen, &last))
    }
}

/// What the reader has seen.
struct Seen {
    ages: Histogram<u64>,
    /// Of the last message before the publisher fell silent.
    age_at_end_ns: u64,
    messages: u64,
    /// Those of them that were read in the seconds measured.
    measured: u64,
    /// By topic: the number of the last message.
    last: Vec<Option<u64>>,
    older_after_newer: u64,
    foreign: u64,
}

fn open(
    poll: &mut Poll,
    endpoint: &Endpoint,
    (login, version): (&Login, Version),
    filter: Option<&str>,
) -> Result<Client, BenchError> {
    let crowd = crowd::open(
        poll,
        &Plan {
            endpoint,
            login,
            version,
            count: 1,
            first: 0,
            at_once: 1,
            pace: None,
            patience: PATIENCE,
            client_id: &|_| format!("slow-{}-{}", u8::from(filter.is_some()), run_id()),
            entry: None,
            filter: &|_| filter.map(|filter| (filter.to_owned(), 0)),
            gauge: None,
        },
    )?;
    let client = crowd.complete()?.pop();
    client.ok_or_else(|| BenchError::server("no connection"))
}

impl Slow {
    fn evaluate(&self, seen: Seen, last: &[Option<u64>]) -> Leg {
        let mut leg = Leg::default();
        leg.faults.reordered = seen.older_after_newer;
        leg.faults.corrupt = seen.foreign;
        let missing = last
            .iter()
            .zip(&seen.last)
            .filter(|(sent, seen)| sent != seen);
        leg.faults.lost = missing.count() as u64;
        let max = (!seen.ages.is_empty()).then(|| seen.ages.max() as f64 / 1e3);
        push_latency(&mut leg, seen.ages, &[(P50, 0.5), (P99, 0.99)]);
        leg.push(MAX, max);
        leg.push(BACKLOG, seen.age_at_end_ns as f64 / 1e3);
        leg.push(LEAST, self.turn_us());
        leg.push(READ, seen.messages as f64);
        let seconds = self.seconds.as_secs_f64();
        push_link(&mut leg, seen.measured as f64 / seconds, self.payload);
        let sent: u64 = last.iter().flatten().count() as u64;
        leg.push(
            SENT,
            last.iter()
                .flatten()
                .max()
                .map_or(sent as f64, |n| *n as f64 + 1.0),
        );
        leg
    }

    /// Publishes by the clock; by topic, the number of its last message.
    fn publish(
        &self,
        endpoint: &Endpoint,
        login: &Login,
        run: &str,
        start_ns: u64,
    ) -> Result<Vec<Option<u64>>, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let mut client = open(&mut poll, endpoint, (login, self.version), None)?;
        let templates: Vec<PublishTemplate> = (0..self.topics)
            .map(|topic| {
                let topic = format!("bench/{run}/{topic}");
                PublishTemplate::new(self.version, &topic, 0, false, self.payload)
            })
            .collect();
        let end_ns = start_ns + as_ns(self.warmup) + as_ns(self.seconds);
        let (mut last, mut number, mut unsent) = (vec![None; self.topics], 0_u64, Vec::new());
        sleep_exactly();
        loop {
            let now = now_ns();
            let due = |number: u64| start_ns + number * SECOND_NS / u64::from(self.rate);
            while due(number) <= now.min(end_ns) && unsent.len() < 256 * 1_024 {
                let topic = (number % self.topics as u64) as usize;
                let stamp = Stamp {
                    publisher: topic as u32,
                    sequence: number,
                    intended_ns: due(number),
                };
                templates[topic].push(&mut unsent, 0, |payload| stamp.write(payload));
                last[topic] = Some(number);
                number += 1;
            }
            match client.link.write(&unsent) {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e).over_link("publish"),
            }
            if now >= end_ns && unsent.is_empty() {
                return Ok(last);
            }
            if now > end_ns + as_ns(PATIENCE) {
                return Err(BenchError::broken("it does not take what is published"));
            }
            sleep_until_ns(due(number).max(now + 1_000_000));
        }
    }

    /// Reads so many bytes a second, and everything once the publisher is silent.
    fn read_slowly(
        &self,
        endpoint: &Endpoint,
        login: &Login,
        filter: &str,
        start_ns: u64,
        is_silent: &AtomicBool,
    ) -> Result<Seen, BenchError> {
        let mut poll = Poll::new().doing("open a poll")?;
        let mut client = open(&mut poll, endpoint, (login, self.version), Some(filter))?;
        SockRef::from(&client.link)
            .set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
            .doing("set the receive buffer")?;
        let mut seen = Seen {
            ages: histogram(),
            age_at_end_ns: 0,
            messages: 0,
            measured: 0,
            last: vec![None; self.topics],
            older_after_newer: 0,
            foreign: 0,
        };
        let from_ns = start_ns + as_ns(self.warmup);
        let measured_ns = from_ns..from_ns + as_ns(self.seconds);
        let mut events = Events::with_capacity(8);
        let mut scratch = vec![0; 64 * 1_024];
        let mut due_ns = now_ns();
        sleep_exactly();
        while !is_silent.load(Ordering::SeqCst) {
            due_ns += as_ns(TICK);
            sleep_until_ns(due_ns);
            let bytes = u64::from(self.read) * as_ns(TICK) / SECOND_NS;
            let budget = scratch.len().min(bytes as usize).max(1);
            self.take(
                &mut client,
                &mut scratch[..budget],
                &mut seen,
                Some(&measured_ns),
            )?;
        }
        // Whoever reads everything now finds the last of each topic.
        let mut last_ns = now_ns();
        while now_ns() - last_ns < as_ns(SILENCE) {
            if self.take(&mut client, &mut scratch, &mut seen, None)? {
                last_ns = now_ns();
                continue;
            }
            match poll.poll(&mut events, Some(Duration::from_millis(50))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => result.doing("wait for messages")?,
            }
        }
        Ok(seen)
    }

    /// Reads once, and looks at the messages that are complete; whether there was anything.
    /// Their ages count from the beginning of an interval on, if at all, they themselves within it.
    fn take(
        &self,
        client: &mut Client,
        scratch: &mut [u8],
        seen: &mut Seen,
        measured_ns: Option<&Range<u64>>,
    ) -> Result<bool, BenchError> {
        let read = match client.link.read(scratch) {
            Ok(0) => return Err(BenchError::broken("the slow client was disconnected")),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e).over_link("read messages"),
        };
        let now = now_ns();
        client.carry.extend_from_slice(&scratch[..read]);
        let mut at = 0;
        while let Frame::Whole { first, body, end } = wire::frame(&client.carry[at..]) {
            let packet = &client.carry[at..at + end];
            at += end;
            if first >> 4 != wire::PUBLISH {
                continue;
            }
            let publish = wire::publish(first, &packet[body..], self.version);
            let stamp = publish.and_then(|publish| {
                let stamp = Stamp::read(publish.payload);
                stamp.filter(|stamp| stamp.fits(publish.payload, self.payload))
            });
            let Some((stamp, last)) =
                stamp.and_then(|stamp| Some((stamp, seen.last.get_mut(stamp.publisher as usize)?)))
            else {
                seen.foreign += 1;
                continue;
            };
            seen.messages += 1;
            if last.is_some_and(|last| last >= stamp.sequence) {
                seen.older_after_newer += 1;
            }
            *last = Some(stamp.sequence);
            seen.measured += u64::from(measured_ns.is_some_and(|it| it.contains(&now)));
            if measured_ns.is_some_and(|it| now >= it.start) {
                let age = now.saturating_sub(stamp.intended_ns);
                seen.ages.saturating_record(age);
                seen.age_at_end_ns = age;
            }
        }
        client.carry.drain(..at);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_seconds_measured_count() {
        let slow = Slow {
            topics: 1,
            rate: 10,
            payload: 100,
            read: 1_024,
            warmup: Duration::from_secs(4),
            seconds: Duration::from_secs(2),
            version: Version::V311,
        };
        assert_eq!(slow.sheet().parameters["warmup_seconds"], 4.0);
        let seen = Seen {
            ages: histogram(),
            age_at_end_ns: 0,
            messages: 1_000,
            measured: 20,
            last: vec![Some(7)],
            older_after_newer: 0,
            foreign: 0,
        };
        let leg = slow.evaluate(seen, &[Some(7)]);
        assert_eq!(leg.figure("payload_bytes_per_s"), Some(1_000.0));
    }
}
