//! A storm of connections: all SYNs at once, until every CONNACK is there. What a listen backlog
//! cannot hold comes a second later or not at all.

use std::time::Duration;

use mio::Poll;
use serde_json::{Map, Value, json};

use super::{count, run_id};
use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Plan};
use crate::load::{histogram, join, spawn};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::process;
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::Workload;

const DURATION: Metric = Metric::new("duration_us", "all in", Unit::Micros).against_floor();
const RATE: Metric = Metric::new("logins_per_s", "logins/s", Unit::PerSecond);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
const MAX: Metric = Metric::new("latency_max_us", "slowest", Unit::Micros);
const DROPS: Metric = Metric::new("listen_drops", "backlog drops", Unit::Count);
const CPU: Metric = Metric::new("cpu_per_login_us", "CPU/login", Unit::Micros).against_floor();

const PATIENCE: Duration = Duration::from_secs(20);

/// The load.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) connections: usize,
    pub(crate) version: Version,
}

impl Workload for Connect {
    fn name(&self) -> &'static str {
        "connect"
    }

    fn title(&self) -> String {
        format!(
            "connect: {} connections at once, MQTT {}",
            count(self.connections),
            self.version.as_str()
        )
    }

    fn parameters(&self) -> Map<String, Value> {
        let value = json!({ "connections": self.connections, "version": self.version.as_str() });
        value.as_object().cloned().unwrap_or_default()
    }

    fn floors(&self) -> Vec<FloorKind> {
        vec![FloorKind::Acknowledge]
    }

    fn needs(&self) -> Needs {
        Needs {
            connections: self.connections,
            payload: 0,
            version: self.version,
        }
    }

    fn pairs(&self) -> u32 {
        5
    }

    fn plan(&self) -> Vec<String> {
        vec![
            format!(
                "begin {} TCP connections without waiting for any",
                count(self.connections)
            ),
            "each sends CONNECT when it is through, and is in when its CONNACK arrives".into(),
            "count what the kernel dropped because the listen backlog was full".into(),
        ]
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
        let (crowd, duration_ns, used_s) = join(spawn("storm", move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let cpu_s = pid.and_then(process::fine_cpu_s);
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
                    filter: &|_| None,
                },
            )?;
            let duration_ns = now_ns() - begun_ns;
            let used_s = pid
                .and_then(process::fine_cpu_s)
                .zip(cpu_s)
                .map(|(a, b)| a - b);
            let logins: Vec<u64> = crowd.clients.iter().flatten().map(|c| c.login_ns).collect();
            // The sockets are closed here, in the table that they belong to.
            let outcome = (logins, crowd.failed, crowd.first_failure);
            Ok::<_, BenchError>((outcome, duration_ns, used_s))
        })?)??;
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
