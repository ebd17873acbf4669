//! Connections that all come at once, measured until the last is in: what the workloads `connect`
//! and `login` have in common.

use std::sync::mpsc;
use std::time::Duration;

use mio::Poll;

use super::fanout::Beside;
use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use crate::link::Endpoint;
use crate::load::crowd::{self, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_cpu, push_latency};
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process::{self, CpuMeter};
use crate::progress::Progress;
use crate::target::Running;
use crate::wire::Login;

pub(super) const DURATION: Metric =
    Metric::new("duration_us", "all in", Unit::Micros).against_floor();
pub(super) const RATE: Metric = Metric::new("logins_per_s", "logins/s", Unit::PerSecond);
pub(super) const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
pub(super) const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
pub(super) const MAX: Metric = Metric::new("latency_max_us", "slowest", Unit::Micros);
pub(super) const DROPS: Metric = Metric::new("listen_drops", "backlog drops", Unit::Count);
pub(super) const CPU: Metric =
    Metric::new("cpu_per_login_us", "CPU/login", Unit::Micros).against_floor();
const QUIET: Metric = Metric::new("fanout_quiet_p99_us", "fan-out p99 quiet", Unit::Micros);
const BESIDE: Metric = Metric::new("fanout_p99_us", "fan-out p99", Unit::Micros);
const OF_QUIET: Metric = Metric::new("fanout_p99_percent", "of quiet", Unit::Percent);

/// How long a fan-out is measured, quiet and beside a storm.
pub(super) const BESIDE_TIME: Duration = Duration::from_secs(10);

/// Where the server is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) pid: Option<u32>,
    pub(super) endpoint: Endpoint,
    pub(super) login: Login,
}

impl Place {
    pub(super) fn of(running: &Running) -> Self {
        Self {
            pid: running.pid(),
            endpoint: running.endpoint.clone(),
            login: running.login.clone(),
        }
    }
}

/// What a storm came to.
pub(super) struct Outcome {
    /// Of each connection that got in, the nanoseconds it took.
    logins: Vec<u64>,
    failed: usize,
    first_failure: Option<String>,
    duration_ns: u64,
    server_cpu_s: Option<f64>,
    /// Resident bytes of the server while all connections were open.
    server_rss: Option<u64>,
    generator: GeneratorUse,
    /// Connections that the kernel dropped, before.
    drops_before: Option<u64>,
}

/// Lets the storm happen, on the calling thread. The sockets are closed before it returns, in the
/// descriptor table that they belong to.
///
/// # Errors
/// When the connections cannot be made.
pub(super) fn run(pid: Option<u32>, plan: &Plan<'_>) -> Result<Outcome, BenchError> {
    let mut poll = Poll::new().doing("open a poll")?;
    let drops_before = process::listen_drops();
    let meter = CpuMeter::start(pid);
    let generator = GeneratorMeter::start();
    let begun_ns = now_ns();
    let crowd = crowd::open(&mut poll, plan)?;
    let duration_ns = now_ns() - begun_ns;
    let server_cpu_s = meter.used_s();
    let generator = generator.stop();
    let server_rss = pid.and_then(process::usage).map(|usage| usage.rss);
    let clients = crowd.clients.iter().flatten();
    Ok(Outcome {
        logins: clients.map(|client| client.login_ns).collect(),
        failed: crowd.failed,
        first_failure: crowd.first_failure,
        duration_ns,
        server_cpu_s,
        server_rss,
        generator,
        drops_before,
    })
}

/// Runs a fan-out alone, then one with a storm that begins as the fan-out is measured. Returns what
/// came of the storm, and of both fan-outs.
///
/// # Errors
/// When one of them cannot run.
pub(super) fn run_beside(
    fanout: &Beside,
    running: &mut Running,
    progress: &Progress,
    storm: impl FnOnce(&Place) -> Result<Outcome, BenchError> + Send,
) -> Result<(Outcome, [Leg; 2]), BenchError> {
    let quiet = fanout.run(running, progress, &|| ())?;
    let (start, started) = mpsc::channel();
    let place = Place::of(running);
    let (storming, has_ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let storm = scope.spawn(move || {
            let _storming = storming;
            match started.recv() {
                Ok(()) => storm(&place),
                Err(_) => Err(BenchError::server("the fan-out did not begin")),
            }
        });
        let loud = fanout.run(running, progress, &move || {
            // A thread that does not listen any more has failed, and is asked below.
            let _ = start.send(());
        });
        progress.receive(|| "waiting for the last logins".into(), &has_ended);
        let outcome = load::join_scoped(storm)?;
        Ok((outcome?, [quiet, loud?]))
    })
}

/// Adds what fan-outs came to, alone and beside a storm, to the storm's figures.
pub(super) fn push_beside(leg: &mut Leg, [quiet, loud]: [Leg; 2]) {
    let [alone, beside] = [&quiet, &loud].map(|leg| leg.figure("latency_p99_us"));
    leg.push(QUIET, alone);
    leg.push(BESIDE, beside);
    let of_quiet = beside.zip(alone.filter(|alone| *alone > 0.0));
    leg.push(
        OF_QUIET,
        of_quiet.map(|(beside, alone)| beside / alone * 100.0),
    );
    leg.faults += quiet.faults;
    leg.faults += loud.faults;
    leg.behind = leg.behind.take().or(quiet.behind).or(loud.behind);
    leg.limited = leg.limited.take().or(quiet.limited).or(loud.limited);
}

impl Outcome {
    /// Resident bytes of the server while all connections were open, if its process is known.
    pub(super) const fn server_rss(&self) -> Option<u64> {
        self.server_rss
    }

    /// Connections that got in.
    pub(super) const fn connections(&self) -> usize {
        self.logins.len()
    }

    /// The figures of this module's metrics.
    pub(super) fn leg(self) -> Leg {
        // What some took says nothing of all.
        let is_whole = self.failed == 0 && self.duration_ns > 0;
        let seconds = is_whole.then(|| self.duration_ns as f64 / SECOND_NS as f64);
        let count = self.logins.len();
        let mut leg = Leg {
            failed: self.failed as u64,
            behind: self.first_failure,
            ..Leg::default()
        };
        let mut latency = histogram();
        for login_ns in self.logins {
            latency.saturating_record(login_ns);
        }
        leg.push(DURATION, seconds.map(|seconds| seconds * 1e6));
        leg.push(RATE, seconds.map(|seconds| count as f64 / seconds));
        push_latency(&mut leg, latency, &[(P50, 0.5), (P99, 0.99), (MAX, 1.0)]);
        let dropped = process::listen_drops()
            .zip(self.drops_before)
            .map(|(after, before)| after - before);
        leg.push(DROPS, dropped.map(|count| count as f64));
        // Beyond all numbers where nobody is in, which is left out.
        let per_login = |used: f64| used * 1e6 / count as f64;
        leg.push(CPU, self.server_cpu_s.map(per_login));
        let used_s = self.server_cpu_s.filter(|_| is_whole);
        push_cpu(&mut leg, used_s, seconds.unwrap_or(1.0));
        self.generator.push(&mut leg, self.server_cpu_s);
        leg
    }
}
