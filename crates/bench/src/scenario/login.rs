//! The login storm of 2005 (A1): thousands of connections log in at once, each with an account
//! that nobody has used before.

use std::sync::Arc;
use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::{Scenario, count, run_id};
use crate::accounts::{Accounts, Proof, StoreKind};
use crate::args::Common;
use crate::clock::{SECOND_NS, now_ns};
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Entry, Plan};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::process::{self, CpuMeter};
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Published, Sheet, Workload, members};

const DURATION: Metric = Metric::new("duration_us", "all in", Unit::Micros).against_floor();
const RATE: Metric = Metric::new("logins_per_s", "logins/s", Unit::PerSecond);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
const MAX: Metric = Metric::new("latency_max_us", "slowest", Unit::Micros);
const DROPS: Metric = Metric::new("listen_drops", "backlog drops", Unit::Count);
const CPU: Metric = Metric::new("cpu_per_login_us", "CPU/login", Unit::Micros).against_floor();
const MEMORY: Metric = Metric::new("memory_bytes", "memory", Unit::Bytes);

/// Long enough for 19,000 slow hashes on one core.
const PATIENCE: Duration = Duration::from_secs(60);

/// All at once, all for the first time: nothing is cached (A1).
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// Connections, each with an account of its own; at most 19,000
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u16).range(1..=19_000))]
    connections: u16,
    /// What the clients prove themselves with; may be given several times
    #[arg(long, value_enum, default_values = ["token", "scram-sha256"])]
    proof: Vec<Proof>,
    /// Where the server keeps the accounts; may be given several times
    #[arg(long, value_enum, default_values = ["sqlite"])]
    store: Vec<StoreKind>,
    #[command(flatten)]
    common: Common,
}

impl Scenario for LoginArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for &store in &self.store {
            for &proof in &self.proof {
                let connections = usize::from(self.connections);
                workloads.push(Box::new(Storm {
                    connections,
                    proof,
                    store,
                    // AUTH packets are MQTT 5.
                    version: if proof.scram().is_some() {
                        Version::V5
                    } else {
                        self.common.version
                    },
                    accounts: Arc::new(Accounts::make(proof, store, connections)?),
                }));
            }
        }
        Ok(workloads)
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Storm {
    connections: usize,
    proof: Proof,
    store: StoreKind,
    version: Version,
    accounts: Arc<Accounts>,
}

fn published() -> Published {
    Published {
        source: "iPush V2.1, 2005 (P4 3 GHz, MySQL)",
        figures: vec![("duration_us", 8_041_000.0), ("logins_per_s", 373.0)],
        notes: vec!["3,000 different accounts, no cache; its database was the bottleneck"],
    }
}

impl Workload for Storm {
    fn sheet(&self) -> Sheet {
        let (connections, version) = (count(self.connections), self.version.as_str());
        let (proof, store) = (self.proof.as_str(), self.store);
        let store = match store {
            StoreKind::Sqlite => "sqlite",
            StoreKind::File => "file",
        };
        Sheet {
            name: "login",
            title: format!(
                "login: {connections} at once, {proof}, accounts in {store}, MQTT {version}"
            ),
            parameters: members(json!({
                "connections": self.connections,
                "proof": proof,
                "store": store,
                "version": version,
            })),
            floors: vec![match self.proof.scram() {
                Some(_) => FloorKind::Exchange,
                None => FloorKind::Acknowledge,
            }],
            needs: Needs {
                accounts: Some(Arc::clone(&self.accounts)),
                ..Needs::new(self.connections, 0, self.version)
            },
            pairs: 5,
            plan: vec![
                format!("write {connections} accounts into the server's books, and start it"),
                format!("begin {connections} TCP connections without waiting for any"),
                "each logs in with an account of its own, used for the first time".into(),
                "SCRAM: passwords are salted before the clock starts; the floor makes both round \
                 trips too"
                    .into(),
            ],
            published: Some(published()),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        progress.show("logging in");
        let (plan, run) = (self.clone(), run_id());
        let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
        let drops = process::listen_drops();
        let pid = running.pid();
        let ((logins, failed, first_failure), duration_ns, used_s) =
            load::run("storm", move || {
                let mut poll = Poll::new().doing("open a poll")?;
                let entry = |index| Entry {
                    login: plan.accounts.login(index),
                    scram: plan.accounts.scram(index),
                };
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
                        client_id: &|index| format!("l-{run}-{index}"),
                        entry: Some(&entry),
                        filter: &|_| None,
                    },
                )?;
                let duration_ns = now_ns() - begun_ns;
                let used_s = meter.used_s();
                let clients = crowd.clients.iter().flatten();
                let logins: Vec<u64> = clients.map(|client| client.login_ns).collect();
                Ok((
                    (logins, crowd.failed, crowd.first_failure),
                    duration_ns,
                    used_s,
                ))
            })?;
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
        let per_login = |used: f64| used * 1e6 / logins.len().max(1) as f64;
        leg.push(CPU, used_s.map(per_login));
        leg.push(MEMORY, running.usage().map(|usage| usage.rss as f64));
        Ok(leg)
    }
}
