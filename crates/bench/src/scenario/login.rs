//! The login storm of 2005 (A1): thousands of connections log in at once, each with an account
//! that nobody has used before.

mod memory;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::fanout::Beside;
use super::storm::{BESIDE_TIME, Place};
use super::{Scenario, count, named, run_id, storm};
use crate::accounts::{Accounts, Home, Proof, StoreKind, check_database};
use crate::affinity::Stay;
use crate::args::Common;
use crate::detour;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load;
use crate::load::crowd::{Entry, Plan};
use crate::mariadb::MariaDb;
use crate::measure::{Leg, MACHINE_CPU, Metric, Unit};
use crate::process::{CpuMeter, is_alive};
use crate::progress::{Gauge, Progress};
use crate::target::{Needs, Running, Subject};
use crate::wire::{Lasts, Version};
use crate::workload::{Published, Sheet, Workload, members};

const MEMORY: Metric = Metric::new("memory_bytes", "memory after", Unit::Bytes);
const QUERIES: Metric = Metric::new("queries", "queries", Unit::Count);
const DATABASE_CPU: Metric = Metric::new(
    "database_cpu_per_login_us",
    "database CPU/login",
    Unit::Micros,
);
const HASH_SHARE: Metric = Metric::new("cpu_of_hashes_percent", "CPU of the hashes", Unit::Percent);

/// So long nobody may hear anything: a slow hash on a busy machine takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// 3,000 connections at once, each with an account of its own
    #[value(name = "ice-login")]
    IceLogin,
}

/// What keeps the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Store {
    /// The embedded database
    Sqlite,
    /// A text file
    File,
    /// A MariaDB server that is started for the purpose, with a temporary folder
    Mariadb,
}

/// All at once, all for the first time: nothing is cached (A1).
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// Published parameters; each can be changed by the options below
    #[arg(value_enum, default_value = "ice-login")]
    preset: Preset,
    /// Connections, each with an account of its own; at most 19,000
    #[arg(long, default_value_t = PUBLISHED,
        value_parser = clap::value_parser!(u16).range(1..=19_000))]
    connections: u16,
    /// How the clients log in; can be repeated
    #[arg(long, value_enum, default_values = ["token", "scram-sha256"])]
    proof: Vec<Proof>,
    /// Where the server keeps the accounts; can be repeated
    #[arg(long, value_enum, default_values = ["sqlite"])]
    store: Vec<Store>,
    /// A database server that keeps the accounts: postgres://… or mysql://…, as auth.database has
    /// it. Tables are made, and users called user-0, user-1, … and crowd are replaced.
    /// The URL has no password: its user needs none, or PostgreSQL's is in PGPASSWORD
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    database: Option<String>,
    /// Process of the database server, to measure its CPU time and memory
    #[arg(long, value_name = "PID", requires = "database")]
    database_pid: Option<u32>,
    /// Milliseconds by which each answer of the database is delayed
    #[arg(long, value_name = "MS", requires = "database",
        value_parser = clap::value_parser!(u64).range(1..=10_000))]
    delay: Option<u64>,
    /// Run the fan-out ice-1 (30,000 messages of 1,000 B a second) as well, first alone and then
    /// beside the storm, which has to last longer than 10 s
    #[arg(long)]
    beside_fanout: bool,
    #[command(flatten)]
    common: Common,
}

impl LoginArgs {
    /// Refuses servers that would not know the accounts, or would let anybody in.
    fn check_servers(&self) -> Result<(), BenchError> {
        let subjects = self.common.subjects(None);
        let stranger = subjects
            .iter()
            .find(|subject| !matches!(subject, Subject::Own { .. }));
        match stranger {
            None => Ok(()),
            Some(stranger) => Err(BenchError::usage(format!(
                "{} has not the accounts that log in: only servers of this project that are \
                 started here can be measured; bench connect takes any",
                stranger.name()
            ))),
        }
    }

    fn homes(&self) -> Result<Vec<Home>, BenchError> {
        let Some(url) = &self.database else {
            let home = |store: &Store| {
                Ok(match store {
                    Store::Sqlite => Home::Own(StoreKind::Sqlite),
                    Store::File => Home::Own(StoreKind::File),
                    Store::Mariadb => Home::Started(mariadb()?),
                })
            };
            return self.store.iter().map(home).collect();
        };
        check_database(url)?;
        if let Some(pid) = self.database_pid.filter(|pid| !is_alive(*pid)) {
            return Err(BenchError::usage(format!(
                "--database-pid {pid}: there is no such process"
            )));
        }
        let told = match self.delay {
            Some(millis) => detour::open(url, Duration::from_millis(millis))?,
            None => url.clone(),
        };
        let url = url.clone();
        Ok(vec![Home::Url { url, told }])
    }
}

/// MariaDB, which starts with the first measurement.
fn mariadb() -> Result<MariaDb, BenchError> {
    let found = MariaDb::find();
    found.map_err(|error| BenchError::usage(format!("--store mariadb: {error}")))
}

impl Scenario for LoginArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let Preset::IceLogin = self.preset;
        self.check_servers()?;
        if self.beside_fanout && !self.common.no_floor {
            return Err(BenchError::usage(
                "--beside-fanout has no floor; give --no-floor too",
            ));
        }
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for home in self.homes()? {
            for &proof in &self.proof {
                let connections = usize::from(self.connections);
                // AUTH packets are MQTT 5.
                let version = match proof.scram() {
                    Some(_) => Version::V5,
                    None => self.common.version,
                };
                workloads.push(Box::new(Storm {
                    connections,
                    proof,
                    version,
                    home: home.clone(),
                    delay: self.delay,
                    database_pid: self.database_pid,
                    beside: self
                        .beside_fanout
                        .then(|| Beside::new(version, BESIDE_TIME)),
                    accounts: Arc::new(Accounts::make(proof, home.clone(), connections)?),
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
    version: Version,
    home: Home,
    /// In milliseconds.
    delay: Option<u64>,
    database_pid: Option<u32>,
    beside: Option<Beside>,
    accounts: Arc<Accounts>,
}

/// Connections at once whose figures were published.
const PUBLISHED: u16 = 3_000;

/// How often the published storm was repeated: 7 or 8 times.
const PUBLISHED_TIMES: u32 = 8;

fn published() -> Published {
    let mut figures = vec![
        ("duration_us", 8_041_000.0),
        ("logins_per_s", 373.0),
        // The upper end of a range, which the notes have.
        (MACHINE_CPU.key, 75.0),
    ];
    figures.extend(memory::published());
    Published {
        source: "iPush V2.1, 2005 (P4 3 GHz, MySQL)",
        figures,
        notes: vec![
            "3,000 different accounts, no cache; its database was the bottleneck",
            "published: averages of 7 or 8 runs; ours are medians",
            "published CPU: 65 to 75 % of the whole machine",
            "published memory of Auth. Center / kernel / both: before 5,380 / 17,048 / 23,428 KB \
             (the parts add up to 22,428), during 29,038 / 118,598 / 147,636 KB",
            "our server answers logins in its own process, so \"server\" stands beside their \
             kernel; \"Auth. Center\" is the database's process, where that is known",
        ],
    }
}

impl Storm {
    /// What was published is a storm alone.
    fn is_published(&self) -> bool {
        let is_alone = self.beside.is_none() && self.delay.is_none();
        is_alone && self.connections == usize::from(PUBLISHED)
    }

    fn title(&self) -> String {
        let (connections, version) = (count(self.connections), self.version.as_str());
        let (proof, home) = (self.proof.as_str(), self.home.name());
        let delay = match self.delay {
            Some(millis) => format!(", each answer {millis} ms later"),
            None => String::new(),
        };
        let beside = match &self.beside {
            Some(_) => ", beside a fan-out of 30,000 messages/s",
            None => "",
        };
        format!(
            "{}: {connections} at once, {proof}, accounts in {home}{delay}, MQTT \
             {version}{beside}",
            named("ice-login", self.is_published())
        )
    }

    /// Says which user database the run writes to. The owner of a database has to know that.
    fn books(&self) -> String {
        let connections = count(self.connections);
        match &self.home {
            Home::Own(_) => {
                format!("write {connections} accounts into the server's books, and start it")
            }
            Home::Started(_) => format!(
                "start MariaDB in a temporary folder, write {connections} accounts into it, and \
                 start the server"
            ),
            Home::Url { .. } => format!(
                "write {connections} accounts into the {} database, and start the server: tables are \
                 made, and users called user-0, user-1, … and crowd are replaced",
                self.home.name()
            ),
        }
    }

    /// The storm, on a thread of its own.
    fn run(self, running: &Place, progress: &Progress) -> Result<storm::Outcome, BenchError> {
        let (run, place) = (run_id(), running.clone());
        let gauge = Gauge::default();
        let seen = gauge.clone();
        let total = count(self.connections);
        let now = || format!("logging in: {} of {total}", count(seen.get()));
        load::run("storm", progress, &now, move || {
            let entry = |index| Entry {
                login: self.accounts.login(index),
                scram: self.accounts.scram(index),
            };
            storm::run(
                place.pid,
                &Plan {
                    endpoint: &place.endpoint,
                    login: &place.login,
                    version: self.version,
                    count: self.connections,
                    first: 0,
                    at_once: self.connections,
                    pace: None,
                    patience: PATIENCE,
                    client_id: &|index| format!("l-{run}-{index}"),
                    entry: Some(&entry),
                    filter: &|_| None,
                    lasts: Lasts::Connection,
                    gauge: Some(&gauge),
                    receive_buffer: None,
                },
            )
        })
    }

    /// The fan-out alone, then beside the storm; both figures, and the storm's.
    fn run_beside(
        &self,
        fanout: &Beside,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<(storm::Outcome, [Leg; 2]), BenchError> {
        running.login = self.accounts.crowd().clone();
        let storm = self.clone();
        storm::run_beside(fanout, running, progress, move |place| {
            storm.run(place, &Progress::silent())
        })
    }

    /// The process that keeps the accounts, if it is another one and known.
    fn books_pid(&self) -> Option<u32> {
        match &self.home {
            Home::Own(_) => None,
            Home::Url { .. } => self.database_pid,
            Home::Started(database) => database.pid(),
        }
    }

    /// The CPU seconds of one hash alone, where it is to be told: on the server's processors, which
    /// are as quick as others at other times only.
    fn hash_cpu_s(&self, running: &Running) -> Result<Option<f64>, BenchError> {
        if running.is_floor() || self.beside.is_some() {
            return Ok(None);
        }
        let _stay = Stay::with(running.pid())?;
        Ok(self.accounts.hash_cpu_s())
    }
}

/// How many queries the server has made for logins.
fn queries(running: &Running) -> Option<f64> {
    running.status()?["user_queries"].as_f64()
}

impl Workload for Storm {
    fn sheet(&self) -> Sheet {
        let connections = count(self.connections);
        let more = self.beside.as_ref().map_or(0, Beside::connections);
        Sheet {
            name: "login",
            title: self.title(),
            parameters: members(json!({
                "connections": self.connections,
                "proof": self.proof.as_str(),
                "store": self.home.name(),
                "delay_ms": self.delay,
                "beside_fanout": self.beside.is_some(),
                "version": self.version.as_str(),
            })),
            floors: vec![match self.proof.scram() {
                Some(_) => FloorKind::Exchange,
                None => FloorKind::Acknowledge,
            }],
            needs: Needs {
                accounts: Some(Arc::clone(&self.accounts)),
                ..Needs::new(self.connections + more, 0, self.version)
            },
            pairs: if self.beside.is_some() {
                1
            } else {
                PUBLISHED_TIMES
            },
            plan: vec![
                self.books(),
                format!("begin {connections} TCP connections without waiting for any"),
                "each logs in with an account of its own, used for the first time".into(),
                "SCRAM: passwords are salted before the clock starts; the floor makes both round \
                 trips too"
                    .into(),
            ],
            published: self.is_published().then(published),
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        // Before the storm and after it: how quick a processor is changes.
        let mut hash_cpu_s = Vec::from_iter(self.hash_cpu_s(running)?);
        running.settle();
        let asked = queries(running);
        let books = self.books_pid().filter(|_| !running.is_floor());
        let memory = memory::Before::read(running.pid(), books);
        let database = CpuMeter::start(books);
        let (outcome, fanouts) = match &self.beside {
            None => {
                let outcome = self.clone().run(&Place::of(running), progress)?;
                (outcome, None)
            }
            Some(beside) => {
                let (outcome, fanouts) = self.run_beside(&beside.clone(), running, progress)?;
                (outcome, Some(fanouts))
            }
        };
        let database_cpu_s = database.used_s();
        hash_cpu_s.extend(self.hash_cpu_s(running)?);
        let (during, connections) = (outcome.server_rss(), outcome.connections());
        let mut leg = outcome.leg();
        memory.push(&mut leg, during, connections);
        leg.push(MEMORY, running.usage().map(|usage| usage.rss as f64));
        if fanouts.is_none() {
            // The crowd of the fan-out asks as well.
            let queries = queries(running).zip(asked);
            leg.push(QUERIES, queries.map(|(now, before)| now - before));
        }
        if self.books_pid().is_some() {
            let each = |cpu_s: f64| cpu_s * 1e6 / self.connections as f64;
            leg.push(DATABASE_CPU, database_cpu_s.map(each));
        }
        if !hash_cpu_s.is_empty() {
            let hash_cpu_us = hash_cpu_s.iter().sum::<f64>() / hash_cpu_s.len() as f64 * 1e6;
            let all = leg.figure("cpu_per_login_us");
            leg.push(HASH_SHARE, all.map(|all| all / hash_cpu_us * 100.0));
        }
        if let Some(fanouts) = fanouts {
            storm::push_beside(&mut leg, fanouts);
        }
        Ok(leg)
    }
}
