//! A storm of connections: all SYNs at once, until every CONNACK is there. What a listen backlog
//! cannot hold comes a second later or not at all.

use std::time::Duration;

use serde_json::json;

use super::{Scenario, count, run_id, storm};
use crate::args::Common;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load;
use crate::load::crowd::Plan;
use crate::measure::Leg;
use crate::progress::{Gauge, Progress};
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Sheet, Workload, members};

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
        let (plan, run) = (self.clone(), run_id());
        let (login, endpoint) = (running.login.clone(), running.endpoint.clone());
        let pid = running.pid();
        let gauge = Gauge::default();
        let seen = gauge.clone();
        let total = count(self.connections);
        let now = || format!("connecting: {} of {total}", count(seen.get()));
        let outcome = load::run("storm", (progress, &now), move || {
            storm::run(
                pid,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: plan.version,
                    count: plan.connections,
                    first: 0,
                    at_once: plan.connections,
                    pace: None,
                    patience: PATIENCE,
                    client_id: &|index| format!("c-{run}-{index}"),
                    entry: None,
                    filter: &|_| None,
                    gauge: Some(&gauge),
                    receive_buffer: None,
                },
            )
        })?;
        Ok(outcome.leg())
    }
}
