//! A storm of connections: all SYNs at once, until every CONNACK is there. What a listen backlog
//! cannot hold comes a second later or not at all.

use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::{Scenario, count, run_id};
use crate::args::Common;
use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::process::{self, CpuMeter};
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Sheet, Workload, members};

const DURATION: Metric = Metric::new("duration_us", "all in", Unit::Micros).against_floor();
const RATE: Metric = Metric::new("logins_per_s", "logins/s", Unit::PerSecond);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
const MAX: Metric = Metric::new("latency_max_us", "slowest", Unit::Micros);
const DROPS: Metric = Metric::new("listen_drops", "backlog drops", Unit::Count);
const CPU: Metric = Metric::new("cpu_per_login_us", "CPU/login", Unit::Micros).against_floor();

const PATIENCE: Duration = Duration::from_secs(20);

/// All at once, as after a server's restart.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// Connections, all at once; at most 19,000
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..=19_000))]
    connections: u16,
    #[command(flatten)]
    common: Common,
}

impl Scenario for ConnectArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        Ok(vec![Box::new(Connect {
            connections: usize::from(self.connections),
            version: self.common.version,
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Connect {
    connections: usize,
    version: Version,
}

impl Workload for Connect {
    fn sheet(&self) -> Sheet {
        let (connections, version) = (count(self.connections), self.version.as_str());
        Sheet {
            name: "connect",
            title: format!("connect: {connections} connections at once, MQTT {version}"),
            parameters: members(json!({ "connections": self.connections, "version": version })),
            floors: vec![FloorKind::Acknowledge],
            needs: Needs::new(self.connections, 0, self.version),
            pairs: 5,
            plan: vec![
                format!("begin {connections} TCP connections without waiting for any"),
                "each sends CONNECT when it is through, and is in when its CONNACK arrives".into(),
                "count what the kernel dropped because the listen backlog was full".into(),
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
        progress.show("connecting");
        let (plan, run) = (self.clone(), run_id());
        let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
        let drops = process::listen_drops();
        let pid = running.pid();
        let (crowd, duration_ns, used_s) = load::run("storm", move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let meter = CpuMeter::start(pid);
            let begun_ns = now_ns();
            let crowd = crowd::open(
                &mut poll,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: plan.version,
                    count: plan.connections,
                    first: 0,
                    at_once: plan.connections,
                    patience: PATIENCE,
                    client_id: &|index| format!("c-{run}-{index}"),
                    entry: None,
                    filter: &|_| None,
                },
            )?;
            let duration_ns = now_ns() - begun_ns;
            let used_s = meter.used_s();
            let logins: Vec<u64> = crowd.clients.iter().flatten().map(|c| c.login_ns).collect();
            // The sockets are closed here, in the table that they belong to.
            Ok((
                (logins, crowd.failed, crowd.first_failure),
                duration_ns,
                used_s,
            ))
        })?;
        let (logins, failed, first_failure) = crowd;
        let seconds = duration_ns as f64 / SECOND_NS as f64;
        let mut leg = Leg {
            failed: failed as u64,
            behind: first_failure,
            ..Leg::default()
        };
        let mut latency = histogram();
        for &login_ns in &logins {
            latency.saturating_record(login_ns);
        }
        leg.push(DURATION, seconds * 1e6);
        leg.push(RATE, logins.len() as f64 / seconds);
        push_latency(&mut leg, latency, &[(P50, 0.5), (P99, 0.99), (MAX, 1.0)]);
        let dropped = process::listen_drops()
            .zip(drops)
            .map(|(after, before)| after - before);
        leg.push(DROPS, dropped.map(|count| count as f64));
        leg.push(
            CPU,
            used_s.map(|used| used * 1e6 / logins.len().max(1) as f64),
        );
        Ok(leg)
    }
}
