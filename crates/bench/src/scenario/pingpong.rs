//! Two clients answer each other through the server: the shortest way that a message can take.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::Poll;
use serde_json::json;

use super::{Scenario, run_id};
use crate::affinity::Placement;
use crate::args::{Common, measured_seconds, payload_bytes, seconds};
use crate::clock::{as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Client, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::meter::{GeneratorMeter, push_link};
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::sequence::{Arrival, Checker, Faults};
use crate::stamp::Stamp;
use crate::target::{Needs, Running};
use crate::wire::{self, Frame, Lasts, PublishTemplate, Version};
use crate::workload::{Sheet, Workload, members};

const P50: Metric = Metric::new("round_trip_p50_us", "p50", Unit::Micros).against_floor();
pub(super) const P99: Metric =
    Metric::new("round_trip_p99_us", "p99", Unit::Micros).against_floor();
const P999: Metric = Metric::new("round_trip_p999_us", "p99.9", Unit::Micros);
const RATE: Metric = Metric::new("round_trips_per_s", "round trips/s", Unit::PerSecond);
const CPU: Metric = Metric::new("cpu_per_round_trip_us", "CPU/round trip", Unit::Micros);

/// With several shards, some clients are at home on the same shard and some are not, and nobody can
/// tell from outside. With this many partners the slowest one is on another, but for one run in
/// 256.
const PARTNERS: usize = 8;

const PATIENCE: Duration = Duration::from_secs(5);

/// The message, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct PingPongArgs {
    /// Bytes per message
    #[arg(long, default_value_t = 100, value_parser = payload_bytes)]
    payload: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0, value_parser = measured_seconds)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warmup: f64,
    #[command(flatten)]
    common: Common,
}

impl Scenario for PingPongArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let crosses = self
            .common
            .shards(Scenario::shards(self))
            .is_some_and(|shards| shards > 1);
        if crosses && self.common.version.is_v5() {
            return Err(BenchError::usage(
                "the floor of several shards speaks MQTT 3.1.1 only: leave --version out",
            ));
        }
        Ok(vec![Box::new(PingPong {
            partners: if crosses { PARTNERS } else { 1 },
            payload: self.payload,
            version: self.common.version,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
        })])
    }

    fn placements(&self) -> &'static [Placement] {
        &[Placement::Together, Placement::Apart]
    }

    /// One, since messages between shards take another way.
    fn shards(&self) -> Option<u16> {
        Some(1)
    }
}

/// The load.
#[derive(Clone, Debug)]
pub(super) struct PingPong {
    /// Clients that the first one plays with in turn.
    partners: usize,
    payload: usize,
    version: Version,
    warmup: Duration,
    seconds: Duration,
}

impl PingPong {
    /// One with messages of 100 B to partners on all shards, whose slowest counts.
    pub(super) const fn across(version: Version, warmup: Duration, seconds: Duration) -> Self {
        Self {
            partners: PARTNERS,
            payload: 100,
            version,
            warmup,
            seconds,
        }
    }

    /// Its connections.
    pub(super) const fn connections(&self) -> usize {
        1 + self.partners
    }
}

impl Workload for PingPong {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.payload, self.version.as_str());
        let (warmup, seconds) = (self.warmup.as_secs_f64(), self.seconds.as_secs_f64());
        let (floor, way) = if self.partners > 1 {
            (FloorKind::HandOver, "two clients on different shards")
        } else {
            (FloorKind::Send, "two clients")
        };
        Sheet {
            name: "pingpong",
            title: format!("pingpong: {way}, {payload} B there and back, QoS 0, MQTT {version}"),
            parameters: members(json!({
                "payload_bytes": payload,
                "partners": self.partners,
                "version": version,
                "warmup_seconds": warmup,
                "seconds": seconds,
            })),
            floors: vec![floor],
            needs: Needs::new(1 + self.partners, payload, self.version),
            pairs: 5,
            plan: vec![
                "client A subscribes to topic 0, client B to topic 1".into(),
                "A publishes to topic 1; B answers on topic 0; then the next round begins".into(),
                format!(
                    "A plays with {} client(s) in turn; the slowest of them counts",
                    self.partners
                ),
                format!(
                    "warm up {warmup:.0} s, measure {seconds:.0} s, one thread that blocks on \
                     each receive"
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
        if !running.endpoint.is_plain() {
            return Err(BenchError::usage(
                "pingpong waits in the socket, so it is measured over TCP or a Unix socket only",
            ));
        }
        let (plan, run) = (self.clone(), run_id());
        let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
        let pid = running.pid();
        let now = || "playing".to_owned();
        let (match_, used_s, generator) = load::run("players", progress, &now, move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let crowd = crowd::open(
                &mut poll,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: plan.version,
                    count: 1 + plan.partners,
                    first: 0,
                    // One after the other: the floor gives them to its threads in turn.
                    at_once: 1,
                    pace: None,
                    patience: PATIENCE,
                    client_id: &|index| format!("g-{run}-{index}"),
                    entry: None,
                    filter: &|index| Some((topic(&run, index), 0)),
                    lasts: Lasts::Connection,
                    gauge: None,
                    receive_buffer: None,
                },
            )?;
            let players = crowd
                .complete()?
                .into_iter()
                .enumerate()
                .map(|(index, client)| Player::new(client, &plan, &run, index))
                .collect::<Result<Vec<_>, _>>()?;
            let meter = CpuMeter::start(pid);
            let generator = GeneratorMeter::start();
            let match_ = play(players, &plan)?;
            Ok((match_, meter.used_s(), generator.stop()))
        })?;
        let mut leg = Leg {
            faults: match_.faults,
            failed: match_.broken.is_some().into(),
            behind: match_.broken,
            ..Leg::default()
        };
        let rounds = match_.rounds.max(1) as f64;
        let quantiles = [(P50, 0.5), (P99, 0.99), (P999, 0.999)];
        let seconds = (self.warmup + self.seconds).as_secs_f64();
        leg.push(RATE, rounds / seconds);
        push_latency(&mut leg, match_.latency, &quantiles);
        leg.push(CPU, used_s.map(|cpu| cpu * 1e6 / rounds));
        // There and back.
        push_link(&mut leg, 2.0 * rounds / seconds, self.payload);
        generator.push(&mut leg, used_s);
        Ok(leg)
    }
}

/// Where the player with this index listens.
fn topic(run: &str, index: usize) -> String {
    format!("bench/{run}/{index}")
}

struct Match {
    /// With the slowest partner.
    latency: Histogram<u64>,
    faults: Faults,
    /// With all partners.
    rounds: u64,
    /// Why it ended early.
    broken: Option<String>,
}

/// What waiting for a message came to.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    Over,
    Lost,
    Closed,
}

fn play(mut players: Vec<Player>, plan: &PingPong) -> Result<Match, BenchError> {
    let from_ns = now_ns() + as_ns(plan.warmup);
    let to_ns = from_ns + as_ns(plan.seconds);
    let mut latencies = vec![histogram(); plan.partners];
    let mut faults = Faults::default();
    let (mut rounds, mut broken) = (0, None);
    'play: while now_ns() < to_ns {
        for (latency, partner) in latencies.iter_mut().zip(1..) {
            let sent_ns = now_ns();
            for (from, to) in [(0, partner), (partner, 0)] {
                let stamp = Stamp {
                    publisher: from as u32,
                    sequence: players[to].checker.next(),
                    intended_ns: sent_ns,
                };
                let wait = match players[from].publish(to, stamp) {
                    Ok(()) => players[to].receive(stamp, &mut faults),
                    Err(error) => Err(error),
                };
                broken = match wait.or_else(closed).over_link("exchange messages")? {
                    Wait::Over => continue,
                    Wait::Lost => {
                        faults.lost += 1;
                        Some(format!("no answer for {} s", PATIENCE.as_secs()))
                    }
                    Wait::Closed => Some("the server closed a connection".to_owned()),
                };
                break 'play;
            }
            rounds += 1;
            if sent_ns >= from_ns {
                latency.saturating_record(now_ns() - sent_ns);
            }
        }
    }
    let median = |latency: &Histogram<u64>| latency.value_at_quantile(0.5);
    let slowest = latencies.into_iter().max_by_key(median);
    Ok(Match {
        latency: slowest.unwrap_or_else(histogram),
        faults,
        rounds,
        broken,
    })
}

/// A connection that the server closed while something was on its way.
fn closed(error: io::Error) -> io::Result<Wait> {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(Wait::Closed),
        _ => Err(error),
    }
}

struct Player {
    client: Client,
    /// Where it listens.
    topic: String,
    version: Version,
    /// By the player that listens.
    templates: Vec<PublishTemplate>,
    checker: Checker,
    /// Bytes of each message.
    payload: usize,
    packet: Vec<u8>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Player {
    fn new(
        mut client: Client,
        plan: &PingPong,
        run: &str,
        index: usize,
    ) -> Result<Self, BenchError> {
        block(&mut client)?;
        let listeners = if index == 0 {
            0..1 + plan.partners
        } else {
            0..1
        };
        let template =
            |to| PublishTemplate::new(plan.version, &topic(run, to), 0, false, plan.payload);
        let mut buffer = std::mem::take(&mut client.carry);
        let filled = buffer.len();
        buffer.resize(filled + plan.payload + 1_024, 0);
        Ok(Self {
            client,
            topic: topic(run, index),
            version: plan.version,
            templates: listeners.map(template).collect(),
            checker: Checker::default(),
            payload: plan.payload,
            packet: Vec::new(),
            buffer,
            filled,
        })
    }

    fn publish(&mut self, to: usize, stamp: Stamp) -> io::Result<()> {
        self.packet.clear();
        self.templates[to].push(&mut self.packet, 0, |payload| stamp.write(payload));
        self.client.link.write_all(&self.packet)
    }

    /// Waits for the message that carries `stamp`'s number.
    fn receive(&mut self, expected: Stamp, faults: &mut Faults) -> io::Result<Wait> {
        loop {
            if let Frame::Whole { first, body, end } = wire::frame(&self.buffer[..self.filled]) {
                let publish = (first >> 4 == wire::PUBLISH)
                    .then(|| wire::publish(first, &self.buffer[body..end], self.version))
                    .flatten();
                let stamp = publish.and_then(|publish| {
                    let stamp = Stamp::read(publish.payload)?;
                    let is_whole = stamp.fits(publish.payload, self.payload);
                    let is_asked_for = publish.qos == 0 && publish.topic == self.topic.as_bytes();
                    Some((stamp, is_whole && is_asked_for))
                });
                self.buffer.copy_within(end..self.filled, 0);
                self.filled -= end;
                match stamp {
                    Some((stamp, is_whole)) if stamp.publisher == expected.publisher => {
                        faults.corrupt += u64::from(!is_whole);
                        match self.checker.arrive(stamp.sequence) {
                            Arrival::InOrder => return Ok(Wait::Over),
                            Arrival::Duplicate => faults.duplicated += 1,
                            Arrival::Late | Arrival::Ahead => faults.reordered += 1,
                        }
                    }
                    _ => faults.corrupt += 1,
                }
                continue;
            }
            match self.client.link.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Ok(Wait::Closed),
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(Wait::Lost),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Makes reads wait, for [`PATIENCE`] at most: a poll would cost a system call more.
fn block(client: &mut Client) -> Result<(), BenchError> {
    let socket = socket2::SockRef::from(&client.link);
    socket
        .set_nonblocking(false)
        .doing("make a socket blocking")?;
    socket
        .set_read_timeout(Some(PATIENCE))
        .doing("set a time limit")
}

impl AsFd for crate::link::Link {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Layered(link) => link.socket().as_fd(),
        }
    }
}
