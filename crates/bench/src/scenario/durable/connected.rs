//! Connected subscribers whose sessions last, beside such whose sessions end with their
//! connections: on one server, in turn.

use std::io;

use hdrhistogram::Histogram;
use mio::{Events, Poll};
use serde_json::json;

use super::{Base, work, written_at};
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::load::histogram;
use crate::load::lasting::{Group, Heard, PATIENCE, Peer, Place, leave, push, until};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process::CpuMeter;
use crate::progress::{Gauge, Progress};
use crate::scenario::{count, run_id};
use crate::sequence::{Arrival, Checker, Faults};
use crate::stats::Spread;
use crate::target::Running;
use crate::wire::{Lasts, PublishTemplate};
use crate::workload::{Sheet, Workload, members};

const CPU: Metric = Metric::new("cpu_per_delivery_us", "CPU/delivery", Unit::Micros);
const CPU_CLEAN: Metric = Metric::new(
    "clean_cpu_per_delivery_us",
    "CPU/delivery, clean",
    Unit::Micros,
);
const CPU_RATIO: Metric = Metric::new("cpu_to_clean_percent", "CPU to clean", Unit::Percent);
const RATE: Metric = Metric::new("max_deliveries_per_s", "max deliveries/s", Unit::PerSecond);
const RATE_CLEAN: Metric = Metric::new("clean_max_deliveries_per_s", "max, clean", Unit::PerSecond);
const RATE_RATIO: Metric = Metric::new("max_to_clean_percent", "max to clean", Unit::Percent);
const WRITTEN: Metric = Metric::new(
    "journal_per_delivery_bytes",
    "journal/delivery",
    Unit::Bytes,
);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);

/// Measurements of each kind within one of the server, in turn.
const ROUNDS: usize = 3;
/// Messages that all subscribers are owed at once, where the window sets the pace: enough that the
/// server never waits, few enough that the kernel's buffers hold them.
const WINDOW: u64 = 64;

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Connected {
    pub(super) base: Base,
    /// Of each kind.
    pub(super) subscribers: usize,
    /// Messages per second, to all of a kind.
    pub(super) rate: u32,
    pub(super) seconds: f64,
}

/// What sets the pace of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The clock.
    Clock,
    /// Subscribers that have all but some of the messages.
    Window,
}

impl Workload for Connected {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.base.payload, self.base.version.as_str());
        let (subscribers, rate) = (count(self.subscribers as u64), self.rate);
        Sheet {
            name: "durable",
            title: format!(
                "durable: {subscribers} connected subscribers, {rate} messages of {payload} B a \
                 second to each, beside as many with clean sessions, QoS 1, MQTT {version}"
            ),
            parameters: members(json!({
                "what": "connected",
                "subscribers_of_each_kind": self.subscribers,
                "messages_per_s": self.rate,
                "payload_bytes": payload,
                "qos": 1,
                "rounds": ROUNDS,
                "seconds": self.seconds,
                "sync": self.base.sync(),
                "version": version,
            })),
            floors: Vec::new(),
            needs: self.base.needs(2 * self.subscribers + 2),
            pairs: 5,
            plan: vec![
                format!(
                    "{subscribers} clients with clean sessions and as many whose sessions last subscribe"
                ),
                format!(
                    "{ROUNDS} times, to the ones and then to the others: {rate} messages a second for {} s, and the server's CPU time for each delivery; ratios of neighbours",
                    self.seconds
                ),
                format!(
                    "the same where {WINDOW} messages are on their way all the time: the most deliveries in a second"
                ),
            ],
            published: None,
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let place = self.base.place(running, &run_id());
        let (this, pid) = (self.clone(), running.pid());
        let (doing, of) = ("measuring clean and lasting sessions", 4 * ROUNDS as u64);
        let status = running.status_at();
        let (measured, generator) = work(progress, doing, of, move |gauge| {
            let mut groups = [Lasts::Connection, Lasts::Forever]
                .map(|lasts| ClientGroup::open(&this, &place, lasts));
            let generator = GeneratorMeter::start();
            let before = written_at(status.as_ref());
            let mut measured = this.measure(&mut groups, pid, gauge)?;
            let written = written_at(status.as_ref()).zip(before);
            measured.written = written.map(|(now, then)| now - then);
            let generator = generator.stop();
            for group in groups {
                let mut group = group?;
                leave(&mut group.poll, group.peers)?;
            }
            Ok((measured, generator))
        })?;
        Ok(self.evaluate(measured, generator))
    }
}

/// What one measurement of one kind yields.
struct Span {
    deliveries: u64,
    seconds: f64,
    server_cpu_s: Option<f64>,
}

impl Span {
    fn cpu_us(&self) -> Option<f64> {
        Some(self.server_cpu_s? * 1e6 / self.deliveries as f64)
    }

    fn rate(&self) -> Option<f64> {
        Some(self.deliveries as f64 / self.seconds)
    }
}

/// Clean and lasting, in turn.
type Turn = [Span; 2];

struct Measured {
    paced: Vec<Turn>,
    max: Vec<Turn>,
    faults: Faults,
    latency: Histogram<u64>,
    /// Deliveries to sessions that last.
    lasting: u64,
    /// Bytes of the journal in the meantime.
    written: Option<f64>,
}

impl Connected {
    fn measure(
        &self,
        groups: &mut [Result<ClientGroup, BenchError>; 2],
        pid: Option<u32>,
        gauge: &Gauge,
    ) -> Result<Measured, BenchError> {
        let [clean, lasting] = groups;
        let broken = |error: &mut BenchError| BenchError::server(error.to_string());
        let clean = clean.as_mut().map_err(broken)?;
        let lasting = lasting.as_mut().map_err(broken)?;
        let mut done = 0;
        let mut run = |pace| {
            let mut turns = Vec::new();
            for _ in 0..ROUNDS {
                let turn = [&mut *clean, &mut *lasting].map(|group| {
                    done += 1;
                    gauge.set(done);
                    group.run(self, pace, pid)
                });
                let [clean, lasting] = turn;
                turns.push([clean?, lasting?]);
            }
            Ok::<_, BenchError>(turns)
        };
        let (paced, max) = (run(Pace::Clock)?, run(Pace::Window)?);
        let mut faults = clean.faults();
        faults += lasting.faults();
        Ok(Measured {
            paced,
            max,
            faults,
            latency: lasting.latency.clone(),
            lasting: lasting.deliveries,
            written: None,
        })
    }

    fn evaluate(&self, measured: Measured, generator: GeneratorUse) -> Leg {
        let mut leg = Leg {
            faults: measured.faults,
            ..Leg::default()
        };
        let median = |turns: &[Turn], figure: &dyn Fn(&Turn) -> Option<f64>| {
            Spread::of(turns.iter().filter_map(figure)).map(|spread| spread.median)
        };
        let [cpu, rate] = [Span::cpu_us, Span::rate];
        let ratio = |figure: fn(&Span) -> Option<f64>| {
            move |turn: &Turn| Some(figure(&turn[1])? / figure(&turn[0])? * 100.0)
        };
        let (paced, max) = (&measured.paced, &measured.max);
        leg.push(CPU, median(paced, &|turn| cpu(&turn[1])));
        leg.push(CPU_CLEAN, median(paced, &|turn| cpu(&turn[0])));
        leg.push(CPU_RATIO, median(paced, &ratio(cpu)));
        leg.push(RATE, median(max, &|turn| rate(&turn[1])));
        leg.push(RATE_CLEAN, median(max, &|turn| rate(&turn[0])));
        leg.push(RATE_RATIO, median(max, &ratio(rate)));
        let each = measured.lasting as f64;
        leg.push(WRITTEN, measured.written.map(|written| written / each));
        push_latency(&mut leg, measured.latency, &[(P50, 0.5), (P99, 0.99)]);
        generator.push(&mut leg, None);
        leg
    }
}

/// A publisher, and subscribers of one kind.
struct ClientGroup {
    poll: Poll,
    /// The publisher is the last one.
    peers: Vec<Peer>,
    checkers: Vec<Checker>,
    template: PublishTemplate,
    sent: u64,
    deliveries: u64,
    wrong: Faults,
    latency: Histogram<u64>,
}

impl ClientGroup {
    fn open(load: &Connected, place: &Place, lasts: Lasts) -> Result<Self, BenchError> {
        let (name, topic) = match lasts {
            Lasts::Connection => ("clean", place.topic("clean")),
            Lasts::Forever => ("lasting", place.topic("lasting")),
        };
        let mut poll = Poll::new().doing("open a poll")?;
        let subscribes = |number| number < load.subscribers;
        let group = Group {
            name,
            first: 0,
            count: load.subscribers + 1,
            lasts,
            filter: &|number| subscribes(number).then(|| (topic.clone(), 1)),
        };
        let peers = place.open(&mut poll, &group)?;
        let (version, payload) = (load.base.version, load.base.payload);
        Ok(Self {
            poll,
            peers,
            checkers: (0..load.subscribers).map(|_| Checker::default()).collect(),
            template: PublishTemplate::new(version, &topic, 1, false, payload),
            sent: 0,
            deliveries: 0,
            wrong: Faults::default(),
            latency: histogram(),
        })
    }

    /// Publishes for a while, until all subscribers have everything.
    fn run(&mut self, load: &Connected, pace: Pace, pid: Option<u32>) -> Result<Span, BenchError> {
        let all = load.subscribers as u64;
        let (before, meter, begun_ns) = (self.deliveries, CpuMeter::start(pid), now_ns());
        let end_ns = begun_ns + (load.seconds * SECOND_NS as f64) as u64;
        let step_ns = SECOND_NS / u64::from(load.rate);
        let mut due_ns = begun_ns;
        let mut scratch = vec![0; 64 * 1_024];
        let mut events = Events::with_capacity(1_024);
        let mut last_ns = begun_ns;
        loop {
            let now = now_ns();
            let is_over = now >= end_ns;
            let under_way = self.sent * all - self.deliveries;
            let may_send = match pace {
                Pace::Clock => due_ns <= now,
                Pace::Window => under_way + all <= WINDOW * all,
            };
            if may_send && !is_over {
                let stamped_ns = if pace == Pace::Clock { due_ns } else { now };
                self.publish(stamped_ns)?;
                due_ns += step_ns;
                continue;
            }
            if is_over && under_way == 0 {
                break;
            }
            let wait = if pace == Pace::Clock && !is_over {
                due_ns
            } else {
                u64::MAX
            };
            match self.poll.poll(&mut events, Some(until(wait))) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                result => result.doing("wait for messages")?,
            }
            if self.receive(&events, load, pace, &mut scratch)? {
                last_ns = now_ns();
            } else if now_ns() - last_ns.max(end_ns.min(now)) > as_ns(PATIENCE) {
                break;
            }
        }
        let seconds = (last_ns - begun_ns) as f64 / SECOND_NS as f64;
        Ok(Span {
            deliveries: self.deliveries - before,
            seconds,
            server_cpu_s: meter.used_s(),
        })
    }

    fn publish(&mut self, due_ns: u64) -> Result<(), BenchError> {
        let (number, publisher) = (self.sent, self.peers.last_mut());
        self.sent += 1;
        let publisher = publisher.ok_or_else(|| BenchError::server("no connection"))?;
        push(&self.template, number, due_ns, publisher.unsent());
        publisher.flush()
    }

    /// Whether anything has come.
    fn receive(
        &mut self,
        events: &Events,
        load: &Connected,
        pace: Pace,
        scratch: &mut [u8],
    ) -> Result<bool, BenchError> {
        let (before, now) = (self.deliveries, now_ns());
        for event in events {
            let index = event.token().0;
            let (deliveries, wrong, latency) =
                (&mut self.deliveries, &mut self.wrong, &mut self.latency);
            let mut checker = self.checkers.get_mut(index);
            self.peers[index].receive(scratch, load.base.version, &mut |heard| match heard {
                Heard::Message { stamp, payload } => {
                    *deliveries += 1;
                    let stamp = stamp.filter(|stamp| stamp.fits(payload, load.base.payload));
                    let (Some(stamp), Some(checker)) = (stamp, &mut checker) else {
                        wrong.corrupt += 1;
                        return;
                    };
                    match checker.arrive(stamp.sequence) {
                        Arrival::InOrder | Arrival::Ahead => {}
                        Arrival::Late => wrong.reordered += 1,
                        Arrival::Duplicate => wrong.duplicated += 1,
                    }
                    if pace == Pace::Clock {
                        latency.saturating_record(now.saturating_sub(stamp.intended_ns));
                    }
                }
                Heard::Acknowledged { is_refused, .. } => wrong.lost += u64::from(is_refused),
            })?;
        }
        Ok(self.deliveries > before)
    }

    fn faults(&self) -> Faults {
        let mut faults = self.wrong;
        let missing = self
            .checkers
            .iter()
            .map(|checker| checker.missing(self.sent));
        faults.lost += missing.sum::<u64>();
        faults
    }
}
