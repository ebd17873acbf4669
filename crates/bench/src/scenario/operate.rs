//! What it costs to look after a server: metrics, event streams, lists, traces, publishes by HTTP.
//!
//! Where something is to disturb nobody, the same load is measured three times on one server:
//! quiet, with it, and quiet again. The figure is the ratio of the second to the mean of the
//! others. The ratio of the third to the first, where nothing has changed, tells what such a ratio
//! is worth.

mod asked;
mod beside;
mod memory;
mod pages;
mod publish;
mod scrape;
mod traced;
mod trio;
mod watched;

use std::time::Duration;

use clap::ValueEnum;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Map, Value, json};

use super::fanout::Beside;
use super::idle::{Held, Idle};
use super::{Scenario, count};
use crate::args::{Common, clients, measured_seconds, seconds};
use crate::error::BenchError;
use crate::load::{join, spawn};
use crate::measure::Leg;
use crate::process;
use crate::progress::Progress;
use crate::target::{Needs, Running, Transport};
use crate::wire::Version;
use crate::workload::{Bar, Sheet, Workload, members};

/// The command.
const NAME: &str = "operate";
/// Clients that do nothing, where nobody says how many.
const CLIENTS: usize = 80_000;
/// Descriptors with which the threads of this program and the shards have enough for all of them.
const DESCRIPTORS: u64 = 20_000;
/// Descriptors that are left for everything but clients that do nothing, where all threads share
/// them.
const DESCRIPTORS_LEFT: u64 = 5_000;
/// Seconds in which all three measurements have to end: clients that do nothing send nothing.
const SILENCE_S_MAX: f64 = 3_000.0;

/// What is done for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// A scrape and five event streams each second, beside a fan-out
    Watched,
    /// Lists in a loop by several callers, beside a ping-pong
    Asked,
    /// A trace of one client, beside a fan-out
    Traced,
    /// A page of 100 clients in any order
    Pages,
    /// A scrape of the metrics
    Scrape,
    /// Memory of a client that does nothing
    Memory,
    /// Publishes by HTTP on kept connections
    Publish,
}

const ALL: [What; 7] = [
    What::Watched,
    What::Asked,
    What::Traced,
    What::Pages,
    What::Scrape,
    What::Memory,
    What::Publish,
];

/// Which figures, and beside what.
#[derive(Debug, clap::Args)]
pub(crate) struct OperateArgs {
    /// Figures, in turn [default: all]
    #[arg(value_enum)]
    what: Vec<What>,
    /// Clients that are connected and do nothing [default: 80000, or as many as descriptors allow;
    /// publish: none]
    #[arg(long, value_parser = clients)]
    clients: Option<usize>,
    /// Subscribers of the fan-out, 35 messages a second each (watched, traced)
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u16).range(5..=15_000))]
    subscribers: u16,
    /// Topics that hold a message (asked)
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    topics: u32,
    /// Callers at once, each with a connection [default: asked: 8; publish: 16]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=20))]
    callers: Option<u8>,
    /// Times that all clients are looked through again (pages) [default: once for each order]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: Option<u16>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10.0, value_parser = measured_seconds,
        allow_negative_numbers = true)]
    seconds: f64,
    /// Seconds to run before each measurement
    #[arg(long, default_value_t = 2.0, value_parser = seconds, allow_negative_numbers = true)]
    warmup: f64,
    #[command(flatten)]
    common: Common,
}

impl Scenario for OperateArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        self.check()?;
        let what: &[What] = match self.what.as_slice() {
            [] => &ALL,
            some => some,
        };
        Ok(what.iter().map(|what| self.workload(*what)).collect())
    }
}

impl OperateArgs {
    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), BenchError> {
        let common = &self.common;
        if common.target.is_some() || common.no_server || !common.against.is_empty() {
            return Err(BenchError::usage(
                "operate measures the HTTP side of a server of ours that it starts: leave \
                 --target, --no-server and --against out",
            ));
        }
        if common.transports() != [Transport::Mqtt] {
            return Err(BenchError::usage(
                "operate has clients of plain TCP: leave --transport out",
            ));
        }
        let silence_s = 3.0 * (self.warmup + self.seconds);
        if silence_s > SILENCE_S_MAX {
            return Err(BenchError::usage(format!(
                "--warmup {} and --seconds {} are needed three times, {silence_s} s in all: at \
                 most {SILENCE_S_MAX} s, in which clients that send nothing stay connected",
                self.warmup, self.seconds
            )));
        }
        match self.clients {
            Some(wanted) => self.descriptors().check(wanted),
            None => Ok(()),
        }
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors {
            limit: process::raise_descriptor_limit(),
            has_own_tables: has_own_tables(),
            shards: self.common.shards(None),
        }
    }

    fn workload(&self, what: What) -> Box<dyn Workload> {
        let base = self.base();
        let callers = |usual: u8| usize::from(self.callers.unwrap_or(usual));
        let subscribers = usize::from(self.subscribers);
        match what {
            What::Watched => Box::new(watched::Watched { base, subscribers }),
            What::Traced => Box::new(traced::Traced { base, subscribers }),
            What::Asked => Box::new(asked::Asked {
                base,
                callers: callers(8),
                topics: u64::from(self.topics),
            }),
            What::Pages => Box::new(pages::Pages {
                base,
                rounds: self.rounds.map(usize::from),
            }),
            What::Scrape => Box::new(scrape::Scrape { base }),
            What::Memory => Box::new(memory::Memory { base }),
            What::Publish => Box::new(publish::Publish {
                base: Base {
                    clients: self.clients.unwrap_or(0),
                    few: None,
                    ..base
                },
                callers: callers(16),
            }),
        }
    }

    fn base(&self) -> Base {
        let (clients, few) = match self.clients {
            Some(clients) => (clients, None),
            None => self.descriptors().clients(),
        };
        Base {
            clients,
            few,
            version: self.common.version,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
        }
    }
}

/// The descriptors that this machine gives the generator and the server.
#[derive(Clone, Copy, Debug)]
struct Descriptors {
    /// Of a process, or of each thread that has a table of its own.
    limit: u64,
    has_own_tables: bool,
    /// Of the server, if somebody has said how many.
    shards: Option<u16>,
}

impl Descriptors {
    /// How many clients that do nothing they are enough for, and why not for more; without a reason
    /// for any number. The threads of this program have 15,000 each, and the server takes as many
    /// shards as it needs, with 19,000 each, unless `--shards` says how many.
    fn possible(self) -> (usize, Option<String>) {
        let limit = self.limit;
        let is_enough = limit >= DESCRIPTORS && self.has_own_tables;
        let (holders, why) = match self.shards {
            None if is_enough => return (usize::MAX, None),
            Some(1) if is_enough => (1, format!("the server's one shard has {limit}")),
            Some(shards) if is_enough => {
                let why = format!("the server's {shards} shards have {limit} each");
                (u64::from(shards), why)
            }
            _ if self.has_own_tables => (1, format!("each process may have {limit}")),
            _ => (1, format!("all threads of a process share {limit}")),
        };
        let left = limit.saturating_sub(DESCRIPTORS_LEFT).max(limit / 4);
        let possible = usize::try_from(left.saturating_mul(holders)).unwrap_or(usize::MAX);
        (
            possible,
            Some(format!("{why} descriptors here (ulimit -n)")),
        )
    }

    /// How many clients that do nothing there are if nobody says how many, and why if they are
    /// fewer than usual.
    fn clients(self) -> (usize, Option<String>) {
        let (possible, why) = self.possible();
        let clients = possible.min(CLIENTS);
        let why = why.filter(|_| clients < CLIENTS);
        let told = |why| {
            let (clients, usual) = (count(clients), count(CLIENTS));
            format!("{clients} idle clients, not {usual}: {why}")
        };
        (clients, why.map(told))
    }

    /// Refuses a number of clients that they are not enough for.
    fn check(self, wanted: usize) -> Result<(), BenchError> {
        match self.possible() {
            (possible, Some(why)) if wanted > possible => Err(BenchError::usage(format!(
                "--clients {wanted}: {why}, enough for {}; give fewer clients, or raise the hard \
                 limit (ulimit -Hn)",
                count(possible)
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether a thread may have a table of descriptors of its own.
fn has_own_tables() -> bool {
    let tried = spawn("table", || unshare(CloneFlags::CLONE_FILES).is_ok());
    tried.and_then(join).unwrap_or(false)
}

/// What all of these workloads have.
#[derive(Clone, Debug)]
struct Base {
    /// That are connected and do nothing.
    clients: usize,
    /// Why they are fewer than usual.
    few: Option<String>,
    version: Version,
    warmup: Duration,
    seconds: Duration,
}

impl Base {
    /// Opens the clients that do nothing.
    fn crowd(&self, running: &Running, progress: &Progress) -> Result<Held, BenchError> {
        Idle::of(self.clients, self.version).open(running, progress)
    }

    /// A fan-out to this many subscribers, as ice-2 has it.
    fn fanout(&self, subscribers: usize) -> Beside {
        Beside::quick(subscribers, self.version, self.warmup, self.seconds)
    }

    /// An empty result, with what a reader has to know.
    fn leg(&self) -> Leg {
        Leg {
            notes: self.few.clone().into_iter().collect(),
            ..Leg::default()
        }
    }

    /// The sheet of a workload with this many other connections.
    fn sheet(&self, what: &str, does: &str, others: usize, more: Value) -> Sheet {
        let mut parameters: Map<String, Value> = members(json!({
            "what": what,
            "clients": self.clients,
            "version": self.version.as_str(),
            "warmup_seconds": self.warmup.as_secs_f64(),
            "seconds": self.seconds.as_secs_f64(),
        }));
        parameters.extend(members(more));
        let beside = match self.clients {
            0 => String::new(),
            clients => format!("; {} idle clients", count(clients)),
        };
        let mut needs = Needs::new(self.clients + others, 100, self.version);
        needs.config = "[http]\nlisten = [\"http://127.0.0.1:0\"]\n".into();
        needs.silence = 3 * (self.warmup + self.seconds);
        Sheet {
            name: NAME,
            title: format!("{NAME} {what}: {does}{beside}"),
            parameters,
            floors: Vec::new(),
            needs,
            pairs: 5,
            plan: Vec::new(),
            published: None,
            bars: Vec::new(),
        }
    }
}

impl Sheet {
    fn with(self, plan: &[&str], bars: &[Bar]) -> Self {
        Self {
            plan: plan.iter().map(|step| (*step).to_owned()).collect(),
            bars: bars.to_vec(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors(limit: u64, has_own_tables: bool, shards: Option<u16>) -> Descriptors {
        Descriptors {
            limit,
            has_own_tables,
            shards,
        }
    }

    #[test]
    fn clients_are_as_many_as_descriptors_allow() {
        let shared = "all threads of a process share 20000 descriptors";
        for (limit, has_own_tables, shards, expected, told) in [
            (20_000, true, None, 80_000, None),
            (1_048_576, false, None, 80_000, None),
            (1_048_576, true, Some(1), 80_000, None),
            (20_000, false, None, 15_000, Some(shared)),
            (20_000, false, Some(8), 15_000, Some(shared)),
            (20_000, true, Some(6), 80_000, None),
            (
                20_000,
                true,
                Some(2),
                30_000,
                Some("2 shards have 20000 each"),
            ),
            (20_000, true, Some(1), 15_000, Some("one shard has 20000")),
            (8_000, true, None, 3_000, Some("each process may have 8000")),
            (
                8_000,
                true,
                Some(4),
                3_000,
                Some("each process may have 8000"),
            ),
            (1_024, true, None, 256, Some("256 idle clients, not 80,000")),
        ] {
            let (clients, why) = descriptors(limit, has_own_tables, shards).clients();
            assert_eq!(clients, expected, "{limit} {has_own_tables} {shards:?}");
            assert_eq!(why.is_some(), told.is_some(), "{why:?}");
            let has = |why: &String| why.contains(told.unwrap_or_default());
            assert!(why.as_ref().is_none_or(has), "{why:?}");
        }
    }

    #[test]
    fn more_clients_than_that_are_refused() {
        for (limit, has_own_tables, shards, wanted, is_enough) in [
            (20_000, true, None, 200_000, true),
            (20_000, true, Some(1), 15_000, true),
            (20_000, true, Some(1), 15_001, false),
            (20_000, false, None, 80_000, false),
            (1_048_576, false, None, 1_000_000, true),
            (1_024, true, None, 257, false),
        ] {
            let checked = descriptors(limit, has_own_tables, shards).check(wanted);
            assert_eq!(checked.is_ok(), is_enough, "{limit} {shards:?} {wanted}");
            let Err(refused) = checked else {
                continue;
            };
            let refused = refused.to_string();
            let named = refused.contains(&format!("--clients {wanted}: "));
            assert!(named && refused.contains("ulimit -n"), "{refused}");
        }
    }
}
