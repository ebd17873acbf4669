//! A storm of connections: all SYNs at once, until every CONNACK is there. What a listen backlog
//! cannot hold comes a second later or not at all. Or this many a second, beside a fan-out: what
//! handshakes cost others.

use std::time::Duration;

use serde_json::json;

use super::fanout::Beside;
use super::storm::{BESIDE_TIME, Place};
use super::{Scenario, count, run_id, storm};
use crate::args::Common;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load;
use crate::load::crowd::Plan;
use crate::measure::Leg;
use crate::progress::{Gauge, Progress};
use crate::target::{Needs, Running};
use crate::wire::{Lasts, Version};
use crate::workload::{Sheet, Workload, members};

const PATIENCE: Duration = Duration::from_secs(20);

/// All at once, as after a server's restart.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectArgs {
    /// Connections, all at once; at most 19,000
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..=19_000))]
    connections: u16,
    /// Connections that begin in a second [default: all at once]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pace: Option<u32>,
    /// Run the fan-out ice-1 (30,000 messages of 1,000 B a second) as well, over the same
    /// transport, first alone and then beside the connections; it is measured for 10 s
    #[arg(long)]
    beside_fanout: bool,
    #[command(flatten)]
    common: Common,
}

impl Scenario for ConnectArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        if self.beside_fanout && !self.common.no_floor {
            return Err(BenchError::usage(
                "--beside-fanout has no floor; give --no-floor too",
            ));
        }
        let version = self.common.version;
        Ok(vec![Box::new(Connect {
            connections: usize::from(self.connections),
            pace: self.pace,
            version,
            beside: self
                .beside_fanout
                .then(|| Beside::new(version, BESIDE_TIME)),
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Connect {
    connections: usize,
    /// Connections that begin in a second, if not all do at once.
    pace: Option<u32>,
    version: Version,
    beside: Option<Beside>,
}

impl Connect {
    fn title(&self) -> String {
        let (connections, version) = (count(self.connections), self.version.as_str());
        let pace = match self.pace {
            Some(pace) => format!("{} a second", count(pace)),
            None => "at once".into(),
        };
        let beside = match &self.beside {
            Some(_) => ", beside a fan-out of 30,000 messages/s",
            None => "",
        };
        format!("connect: {connections} connections {pace}, MQTT {version}{beside}")
    }

    /// The storm, on a thread of its own.
    fn run(&self, place: &Place, progress: &Progress) -> Result<storm::Outcome, BenchError> {
        let (plan, place, run) = (self.clone(), place.clone(), run_id());
        let gauge = Gauge::default();
        let seen = gauge.clone();
        let total = count(self.connections);
        let now = || format!("connecting: {} of {total}", count(seen.get()));
        load::run("storm", progress, &now, move || {
            storm::run(
                place.pid,
                &Plan {
                    endpoint: &place.endpoint,
                    login: &place.login,
                    version: plan.version,
                    count: plan.connections,
                    first: 0,
                    at_once: plan.connections,
                    pace: plan.pace,
                    patience: PATIENCE,
                    client_id: &|index| format!("c-{run}-{index}"),
                    entry: None,
                    filter: &|_| None,
                    lasts: Lasts::Connection,
                    gauge: Some(&gauge),
                    receive_buffer: None,
                },
            )
        })
    }
}

impl Workload for Connect {
    fn sheet(&self) -> Sheet {
        let connections = count(self.connections);
        let more = self.beside.as_ref().map_or(0, Beside::connections);
        Sheet {
            name: "connect",
            title: self.title(),
            parameters: members(json!({
                "connections": self.connections,
                "pace": self.pace,
                "beside_fanout": self.beside.is_some(),
                "version": self.version.as_str(),
            })),
            floors: vec![FloorKind::Acknowledge],
            needs: Needs::new(self.connections + more, 0, self.version),
            pairs: if self.beside.is_some() { 1 } else { 5 },
            plan: vec![
                match self.pace {
                    Some(pace) => format!(
                        "begin {} of {connections} TCP connections a second",
                        count(pace)
                    ),
                    None => {
                        format!("begin {connections} TCP connections without waiting for any")
                    }
                },
                "each sends CONNECT when it is through, and is in when its CONNACK arrives".into(),
                "count what the kernel dropped because the listen backlog was full".into(),
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
        let Some(fanout) = &self.beside else {
            return Ok(self.run(&Place::of(running), progress)?.leg());
        };
        let storm = |place: &Place| self.run(place, &Progress::silent());
        let (outcome, fanouts) = storm::run_beside(fanout, running, progress, storm)?;
        let mut leg = outcome.leg();
        storm::push_beside(&mut leg, fanouts);
        Ok(leg)
    }
}
