//! Two clients answer each other through the server: the shortest way that a message can take.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::{Scenario, check_payload, run_id};
use crate::affinity::Placement;
use crate::args::{Common, seconds};
use crate::clock::{as_ns, now_ns};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Client, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::sequence::{Arrival, Checker, Faults};
use crate::stamp::Stamp;
use crate::target::{Needs, Running};
use crate::wire::{self, Frame, PublishTemplate, Version};
use crate::workload::{Sheet, Workload, members};

const P50: Metric = Metric::new("round_trip_p50_us", "p50", Unit::Micros).against_floor();
const P99: Metric = Metric::new("round_trip_p99_us", "p99", Unit::Micros).against_floor();
const P999: Metric = Metric::new("round_trip_p999_us", "p99.9", Unit::Micros);
const RATE: Metric = Metric::new("round_trips_per_s", "round trips/s", Unit::PerSecond);
const CPU: Metric = Metric::new("cpu_per_round_trip_us", "CPU/round trip", Unit::Micros);

const PATIENCE: Duration = Duration::from_secs(5);

/// The message, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct PingPongArgs {
    /// Bytes per message
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
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
        check_payload(self.payload)?;
        Ok(vec![Box::new(PingPong {
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
struct PingPong {
    payload: usize,
    version: Version,
    warmup: Duration,
    seconds: Duration,
}

impl Workload for PingPong {
    fn sheet(&self) -> Sheet {
        let (payload, version) = (self.payload, self.version.as_str());
        let (warmup, seconds) = (self.warmup.as_secs_f64(), self.seconds.as_secs_f64());
        Sheet {
            name: "pingpong",
            title: format!(
                "pingpong: two clients, {payload} B there and back, QoS 0, MQTT {version}"
            ),
            parameters: members(json!({
                "payload_bytes": payload,
                "version": version,
                "warmup_seconds": warmup,
                "seconds": seconds,
            })),
            floors: vec![FloorKind::Send],
            needs: Needs {
                connections: 2,
                payload,
                version: self.version,
            },
            pairs: 5,
            plan: vec![
                "client A subscribes to topic 2, client B to topic 1".into(),
                "A publishes to topic 1; B answers on topic 2; then the next round begins".into(),
                format!(
                    "warm up {warmup:.0} s, measure {seconds:.0} s, one thread that blocks on \
                     each receive"
                ),
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
        progress.show("playing");
        let (plan, run) = (self.clone(), run_id());
        let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
        let meter = CpuMeter::start(running.pid());
        let match_ = load::run("players", move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let crowd = crowd::open(
                &mut poll,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: plan.version,
                    count: 2,
                    first: 0,
                    at_once: 2,
                    patience: PATIENCE,
                    client_id: &|index| format!("g-{run}-{index}"),
                    // Player 0 hears topic 1, player 1 hears topic 0.
                    filter: &|index| Some((format!("bench/{run}/{}", 1 - index), 0)),
                },
            )?;
            let players = crowd
                .complete()?
                .into_iter()
                .enumerate()
                .map(|(index, client)| Player::new(client, &plan, &run, index))
                .collect::<Result<Vec<_>, _>>()?;
            play(players, &plan)
        })?;
        let mut leg = Leg {
            faults: match_.faults,
            ..Leg::default()
        };
        let rounds = match_.rounds.max(1) as f64;
        let quantiles = [(P50, 0.5), (P99, 0.99), (P999, 0.999)];
        leg.push(
            RATE,
            match_.latency.len() as f64 / self.seconds.as_secs_f64(),
        );
        push_latency(&mut leg, match_.latency, &quantiles);
        leg.push(CPU, meter.used_s().map(|cpu| cpu * 1e6 / rounds));
        Ok(leg)
    }
}

struct Match {
    latency: hdrhistogram::Histogram<u64>,
    faults: Faults,
    rounds: u64,
}

fn play(mut players: Vec<Player>, plan: &PingPong) -> Result<Match, BenchError> {
    let from_ns = now_ns() + as_ns(plan.warmup);
    let to_ns = from_ns + as_ns(plan.seconds);
    let (mut latency, mut faults) = (histogram(), Faults::default());
    for round in 0.. {
        let sent_ns = now_ns();
        if sent_ns >= to_ns {
            return Ok(Match {
                latency,
                faults,
                rounds: round,
            });
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let stamp = Stamp {
                publisher: from as u32,
                sequence: round,
                intended_ns: sent_ns,
            };
            players[from].publish(stamp)?;
            players[to].receive(stamp, &mut faults)?;
        }
        if sent_ns >= from_ns {
            latency.saturating_record(now_ns() - sent_ns);
        }
    }
    unreachable!("the rounds have no end")
}

struct Player {
    client: Client,
    version: Version,
    template: PublishTemplate,
    checker: Checker,
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
        let topic = format!("bench/{run}/{index}");
        let mut buffer = std::mem::take(&mut client.carry);
        let filled = buffer.len();
        buffer.resize(filled + plan.payload + 1_024, 0);
        Ok(Self {
            client,
            version: plan.version,
            template: PublishTemplate::new(plan.version, &topic, 0, false, plan.payload),
            checker: Checker::default(),
            packet: Vec::new(),
            buffer,
            filled,
        })
    }

    fn publish(&mut self, stamp: Stamp) -> Result<(), BenchError> {
        self.packet.clear();
        self.template
            .push(&mut self.packet, 0, |payload| stamp.write(payload));
        self.client
            .link
            .write_all(&self.packet)
            .doing("send a message")
    }

    /// Waits for the message that carries `stamp`'s number.
    fn receive(&mut self, expected: Stamp, faults: &mut Faults) -> Result<(), BenchError> {
        loop {
            if let Frame::Whole { first, body, end } = wire::frame(&self.buffer[..self.filled]) {
                let publish = (first >> 4 == wire::PUBLISH)
                    .then(|| wire::publish(first, &self.buffer[body..end], self.version))
                    .flatten();
                let stamp = publish.and_then(|publish| Stamp::read(publish.payload));
                self.buffer.copy_within(end..self.filled, 0);
                self.filled -= end;
                match stamp {
                    Some(stamp) if stamp.publisher == expected.publisher => {
                        match self.checker.arrive(stamp.sequence) {
                            Arrival::InOrder => return Ok(()),
                            Arrival::Duplicate => faults.duplicated += 1,
                            Arrival::Late | Arrival::Ahead => faults.reordered += 1,
                        }
                    }
                    _ => faults.corrupt += 1,
                }
                continue;
            }
            match self.client.link.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(BenchError::server("the server closed a connection")),
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let seconds = PATIENCE.as_secs();
                    return Err(BenchError::server(format!(
                        "a message was lost: no answer for {seconds} s"
                    )));
                }
                result => drop(result.doing("receive a message")?),
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
        }
    }
}
