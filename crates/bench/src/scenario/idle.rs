//! What a connection costs that does nothing: resident memory of the server, before and after.

use std::io::{self, Read};
use std::sync::mpsc;
use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::{Scenario, count, run_id};
use crate::args::{Common, clients};
use crate::clock::now_ns;
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Client, Plan};
use crate::load::{join, spawn};
use crate::measure::{Leg, Metric, Unit};
use crate::meter::GeneratorMeter;
use crate::process::{CpuMeter, Usage};
use crate::progress::{Gauge, Progress};
use crate::target::{Needs, Running};
use crate::wire::{Lasts, Version};
use crate::workload::{Sheet, Workload, members};

pub(super) const RSS_EACH: Metric =
    Metric::new("rss_per_connection_bytes", "RSS/connection", Unit::Bytes).against_floor();
const PSS_EACH: Metric = Metric::new("pss_per_connection_bytes", "PSS/connection", Unit::Bytes);
const BEFORE: Metric = Metric::new("rss_before_bytes", "RSS before", Unit::Bytes);
const AFTER: Metric = Metric::new("rss_after_bytes", "RSS after", Unit::Bytes);
const CONNECTS: Metric = Metric::new("connections_per_s", "connections/s", Unit::PerSecond);
const CPU: Metric =
    Metric::new("cpu_per_connection_us", "CPU/connection", Unit::Micros).against_floor();

/// Connections per generator thread: below the descriptor limit of 20,000 with room to spare.
pub(crate) const CONNECTIONS_PER_WORKER: usize = 15_000;
/// What the descriptors of one thread allow.
const FLOOR_CONNECTIONS_MAX: usize = 19_900;
/// Connections on their way at once unless the user says so.
const AT_ONCE: u16 = 200;
const PATIENCE: Duration = Duration::from_secs(20);
/// Until the server has settled: freed its login buffers, run its timers.
const SETTLE: Duration = Duration::from_secs(2);

/// How many, and how fast they come.
#[derive(Debug, clap::Args)]
pub(crate) struct IdleArgs {
    /// Connections
    #[arg(long, default_value_t = CONNECTIONS_PER_WORKER, value_parser = clients)]
    connections: usize,
    /// Connections on their way at once
    #[arg(long, default_value_t = AT_ONCE, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,
    /// Quality of service of the subscriptions
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    #[command(flatten)]
    common: Common,
}

impl Scenario for IdleArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        Ok(vec![Box::new(Idle {
            connections: self.connections,
            at_once: usize::from(self.at_once),
            qos: self.qos,
            version: self.common.version,
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Idle {
    connections: usize,
    at_once: usize,
    qos: u8,
    version: Version,
}

impl Workload for Idle {
    fn sheet(&self) -> Sheet {
        let (connections, version) = (count(self.connections), self.version.as_str());
        Sheet {
            name: "idle",
            title: format!(
                "idle: {connections} connections, each with a subscription of its own, QoS {}, \
                 MQTT {version}",
                self.qos
            ),
            parameters: members(json!({
                "connections": self.connections,
                "at_once": self.at_once,
                "qos": self.qos,
                "version": version,
                "settle_seconds": SETTLE.as_secs_f64(),
            })),
            // The floor is one thread, and has the descriptors of one.
            floors: if self.connections <= FLOOR_CONNECTIONS_MAX {
                vec![FloorKind::Send]
            } else {
                Vec::new()
            },
            needs: Needs::new(self.connections, 0, self.version),
            pairs: 3,
            plan: vec![
                "read the resident memory of the server that has just started".into(),
                format!(
                    "open {connections} connections, {} on their way at once, each subscribed to \
                     one topic of its own, from as many loopback addresses as ports demand",
                    self.at_once
                ),
                format!("wait {} s, read the memory again, divide", SETTLE.as_secs()),
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
        running.settle();
        let before = running.usage();
        let meter = CpuMeter::start(running.pid());
        let generator = GeneratorMeter::start();
        let begun_ns = now_ns();
        let crowds = self.open(running, progress)?;
        let opened_s = (now_ns() - begun_ns) as f64 / 1e9;
        progress.show("settling");
        std::thread::sleep(SETTLE);
        let (after, used_s) = (running.usage(), meter.used_s());
        let generator = generator.stop();
        let mut leg = Leg::default();
        // The connections end here, after the memory was read.
        crowds.end(&mut leg)?;
        let opened = (self.connections as u64 - leg.failed).max(1) as f64;
        let each = |bytes: fn(Usage) -> u64| {
            let grown = running.grown(before.map(bytes), after.map(bytes));
            grown.map(|grown| grown / opened)
        };
        leg.push(RSS_EACH, each(|usage| usage.rss));
        leg.push(PSS_EACH, each(|usage| usage.pss));
        leg.push(BEFORE, before.map(|b| b.rss as f64));
        leg.push(AFTER, after.map(|a| a.rss as f64));
        leg.push(CONNECTS, opened / opened_s);
        leg.push(CPU, used_s.map(|used| used * 1e6 / opened));
        generator.push(&mut leg, used_s);
        Ok(leg)
    }
}

/// How many connections the server has closed since they were ready.
fn closed(clients: Vec<Option<Client>>) -> u64 {
    let mut chunk = [0; 4_096];
    let is_closed = |client: &mut Client| {
        loop {
            match client.link.read(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return e.kind() != io::ErrorKind::WouldBlock,
            }
        }
    };
    let mut clients: Vec<Client> = clients.into_iter().flatten().collect();
    let closed = clients.iter_mut().map(is_closed);
    closed.filter(|is_closed| *is_closed).count() as u64
}

/// Connections that are held open.
pub(super) struct Held(Vec<Holder>);

impl Held {
    /// Ends them, and adds to a result how many could not be opened or were closed, and why.
    ///
    /// # Errors
    /// When they could not be opened for a reason that is not the server's.
    pub(super) fn end(self, leg: &mut Leg) -> Result<(), BenchError> {
        let mut failed = 0;
        let mut reasons = Vec::new();
        for (release, handle) in self.0 {
            drop(release);
            let (missing, reason) = join(handle)??;
            failed += missing;
            reasons.extend(reason);
        }
        leg.failed += failed;
        if failed > 0 {
            leg.behind = leg.behind.take().or_else(|| reasons.into_iter().next());
        }
        Ok(())
    }
}

/// A thread that holds connections open until its sender is dropped, and then says how many could
/// not be opened or were closed, and why.
type Holder = (
    mpsc::Sender<()>,
    std::thread::JoinHandle<Result<(u64, Option<String>), BenchError>>,
);

impl Idle {
    /// This number of connections, with QoS 0.
    pub(super) const fn of(connections: usize, version: Version) -> Self {
        Self {
            connections,
            at_once: AT_ONCE as usize,
            qos: 0,
            version,
        }
    }

    /// Opens all connections, several threads one after another so that `at_once` holds for all.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn open(&self, running: &Running, progress: &Progress) -> Result<Held, BenchError> {
        let (run, total) = (run_id(), count(self.connections));
        let mut holders = Vec::new();
        let mut first = 0;
        while first < self.connections {
            let share = (self.connections - first).min(CONNECTIONS_PER_WORKER);
            let (plan, run) = (self.clone(), run.clone());
            let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
            let (release, released) = mpsc::channel::<()>();
            let (ready, is_ready) = mpsc::channel();
            let gauge = Gauge::default();
            let seen = gauge.clone();
            let handle = spawn("holder", move || {
                let mut poll = Poll::new().doing("open a poll")?;
                let crowd = crowd::open(
                    &mut poll,
                    &Plan {
                        endpoint: &endpoint,
                        login: &login,
                        version: plan.version,
                        count: share,
                        first,
                        at_once: plan.at_once,
                        pace: None,
                        patience: PATIENCE,
                        client_id: &|index| format!("i-{run}-{}", first + index),
                        entry: None,
                        filter: &|index| Some((format!("bench/{run}/{}", first + index), plan.qos)),
                        lasts: Lasts::Connection,
                        gauge: Some(&gauge),
                        receive_buffer: None,
                    },
                );
                let _ = ready.send(());
                let crowd = crowd?;
                // An error means: released.
                let _ = released.recv();
                let closed = closed(crowd.clients);
                let told = || format!("the server closed {closed} connections that were idle");
                let reason = crowd.first_failure.or_else(|| (closed > 0).then(told));
                Ok((crowd.failed as u64 + closed, reason))
            })?;
            let now = || format!("connecting: {} of {total}", count(first + seen.get()));
            progress.receive(now, &is_ready);
            holders.push((release, handle));
            first += share;
        }
        Ok(Held(holders))
    }
}
