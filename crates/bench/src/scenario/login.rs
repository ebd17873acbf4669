//! The login storm of 2005 (A1): thousands of connections log in at once, each with an account
//! that nobody has used before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{Scenario, count, run_id, storm};
use crate::accounts::{Accounts, Proof, StoreKind};
use crate::args::Common;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load;
use crate::load::crowd::{Entry, Plan};
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Published, Sheet, Workload, members};

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
        let pid = running.pid();
        let outcome = load::run("storm", move || {
            let entry = |index| Entry {
                login: plan.accounts.login(index),
                scram: plan.accounts.scram(index),
            };
            storm::run(
                pid,
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
            )
        })?;
        let mut leg = outcome.leg();
        leg.push(MEMORY, running.usage().map(|usage| usage.rss as f64));
        Ok(leg)
    }
}
