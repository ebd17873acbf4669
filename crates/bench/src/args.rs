//! The command line of `stentor bench`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};
use stentor_client::Url;

use crate::affinity::Placement;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::scenario::connect::Connect;
use crate::scenario::fanout::{Fanout, Rate, published_ice};
use crate::scenario::idle::{CONNECTIONS_PER_WORKER, Idle};
use crate::scenario::pingpong::PingPong;
use crate::scenario::subscribe::Subscribe;
use crate::target::Subject;
use crate::wire::Version;
use crate::workload::Workload;

/// Measure this server, or any other MQTT server, against the bare cost of its system calls.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the workloads and their presets
    List,
    /// A few publishers, thousands of subscribers (A3)
    Fanout(FanoutArgs),
    /// Many users fire many subscriptions at once (A2)
    Subscribe(SubscribeArgs),
    /// Memory of connections that do nothing
    Idle(IdleArgs),
    /// A storm of connections against the listen backlog
    Connect(ConnectArgs),
    /// Round trips of two clients through the server
    Pingpong(PingPongArgs),
    /// The bare program that servers are compared with (started by the other commands)
    #[command(hide = true)]
    Floor {
        /// What it does
        kind: FloorKind,
    },
}

/// Whom to measure and how often.
#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// Measure a server that runs already, instead of starting one
    #[arg(long, value_name = "URL")]
    pub(crate) target: Option<Url>,
    /// Process of the --target server, to measure its CPU time and memory
    #[arg(long, requires = "target")]
    pub(crate) pid: Option<u32>,
    /// Measure this one as well: mosquitto, rumqttd or a URL (repeatable)
    #[arg(long, value_name = "RIVAL", value_parser = Subject::parse_rival)]
    pub(crate) against: Vec<Subject>,
    /// Measure only the floor and what --against names
    #[arg(long, conflicts_with = "target")]
    pub(crate) no_server: bool,
    /// Shards of the server that is started [default: its own; pingpong: 1, since messages between
    /// shards take another way]
    #[arg(long)]
    pub(crate) shards: Option<u16>,
    /// Program to start as the server [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// Repetitions, each of floor, server and rivals in turn [default: 3 to 9, by workload]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) pairs: Option<u32>,
    /// Leave the floor out
    #[arg(long)]
    pub(crate) no_floor: bool,
    /// MQTT version that the clients speak
    #[arg(long, value_enum, default_value = "3.1.1")]
    pub(crate) version: Version,
    /// Write one JSON object per workload, a line each, to this file ("-": standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Say what would run, and send nothing
    #[arg(long)]
    pub(crate) explain: bool,
}

impl Common {
    /// Fewer shards than the server's default, unless the user says how many.
    pub(crate) fn with_default_shards(mut self, shards: u16) -> Self {
        self.shards = self.shards.or(Some(shards));
        self
    }

    /// The measured server first.
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        let first = match &self.target {
            Some(url) => Some(Subject::Url {
                url: url.clone(),
                pid: self.pid,
            }),
            None if self.no_server => None,
            None => Some(Subject::Own {
                binary: self.server.clone(),
                shards: self.shards,
            }),
        };
        let rivals = self.against.iter().map(|rival| match rival {
            Subject::Own { .. } => Subject::Own {
                binary: self.server.clone(),
                shards: self.shards,
            },
            rival => rival.clone(),
        });
        first.into_iter().chain(rivals).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FanoutPreset {
    /// 5 publishers × 10 msg/s × 1,000 B, 3,000 subscribers
    #[value(name = "ice-1")]
    Ice1,
    /// 5 publishers × 35 msg/s × 100 B, 3,000 subscribers
    #[value(name = "ice-2")]
    Ice2,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct FanoutArgs {
    /// Published parameters; each can be changed by the options below [default: both in turn]
    #[arg(value_enum)]
    preset: Option<FanoutPreset>,
    /// Publishers, each on a topic of its own
    #[arg(long)]
    publishers: Option<usize>,
    /// Subscribers, one topic each
    #[arg(long)]
    subscribers: Option<usize>,
    /// Messages per second and publisher, or "max": as fast as lossless
    #[arg(long)]
    rate: Option<Rate>,
    /// Bytes per message
    #[arg(long)]
    payload: Option<usize>,
    /// Quality of service of publishers and subscribers
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Set RETAIN on every message
    #[arg(long)]
    retain: bool,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    warmup: f64,
    /// Messages outstanding per publisher at --rate max [default: found by ramping]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Threads that receive [default: one per 15,000 subscribers]
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SubscribeArgs {
    /// Users
    #[arg(long, default_value_t = 100)]
    users: usize,
    /// Subscriptions of each user
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..))]
    subscriptions: u16,
    /// Which topics the users name
    #[arg(long, value_enum, default_value = "distinct")]
    topics: Topics,
    /// Quality of service asked for
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Topics {
    /// All different
    Distinct,
    /// Every user names the same
    Shared,
    /// One after the other
    Both,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct IdleArgs {
    /// Connections
    #[arg(long, default_value_t = CONNECTIONS_PER_WORKER)]
    connections: usize,
    /// Connections on their way at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConnectArgs {
    /// Connections, all at once; at most 19,000
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u16).range(1..=19_000))]
    connections: u16,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PingPongArgs {
    /// Bytes per message
    #[arg(long, default_value_t = 100)]
    payload: usize,
    /// Where server and clients run [default: together and apart in turn; free with --target]
    #[arg(long, value_enum)]
    placement: Option<Placement>,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warmup: f64,
    #[command(flatten)]
    pub(crate) common: Common,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=86_400.0).contains(&value) => Ok(value),
        _ => Err("a number of seconds, at most a day".into()),
    }
}

impl FanoutArgs {
    /// One workload, or both presets if none is named and nothing changed.
    pub(crate) fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let presets = match self.preset {
            Some(preset) => vec![preset],
            None => vec![FanoutPreset::Ice1, FanoutPreset::Ice2],
        };
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for preset in presets {
            let workload = self.workload(preset);
            workload.check()?;
            workloads.push(Box::new(workload));
        }
        Ok(workloads)
    }

    fn workload(&self, preset: FanoutPreset) -> Fanout {
        let (name, scenario, rate, payload) = match preset {
            FanoutPreset::Ice1 => ("ice-1", 1, 10.0, 1_000),
            FanoutPreset::Ice2 => ("ice-2", 2, 35.0, 100),
        };
        let subscribers = self.subscribers.unwrap_or(3_000);
        let unchanged = self.publishers.is_none()
            && self.subscribers.is_none()
            && self.rate.is_none()
            && self.payload.is_none();
        Fanout {
            preset: name,
            publishers: self.publishers.unwrap_or(5),
            subscribers,
            rate: self.rate.unwrap_or(Rate::Paced(rate)),
            payload: self.payload.unwrap_or(payload),
            qos: self.qos,
            retain: self.retain,
            version: self.common.version,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
            grace: Duration::from_secs(5),
            workers: self
                .workers
                .unwrap_or_else(|| subscribers.div_ceil(CONNECTIONS_PER_WORKER))
                .max(1),
            window: self.window,
            published: unchanged.then(|| published_ice(scenario)),
            windows: HashMap::new(),
        }
    }
}

impl SubscribeArgs {
    pub(crate) fn workloads(&self) -> Vec<Box<dyn Workload>> {
        let variants: &[bool] = match self.topics {
            Topics::Distinct => &[false],
            Topics::Shared => &[true],
            Topics::Both => &[false, true],
        };
        let workload = |&shared_topics: &bool| -> Box<dyn Workload> {
            Box::new(Subscribe {
                users: self.users,
                subscriptions: self.subscriptions,
                shared_topics,
                qos: self.qos,
                version: self.common.version,
            })
        };
        variants.iter().map(workload).collect()
    }
}

impl IdleArgs {
    pub(crate) fn workload(&self) -> Box<dyn Workload> {
        Box::new(Idle {
            connections: self.connections,
            at_once: usize::from(self.at_once),
            version: self.common.version,
        })
    }
}

impl ConnectArgs {
    pub(crate) fn workload(&self) -> Box<dyn Workload> {
        Box::new(Connect {
            connections: usize::from(self.connections),
            version: self.common.version,
        })
    }
}

impl PingPongArgs {
    pub(crate) fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let placements = match self.placement {
            Some(placement) => vec![placement],
            None if self.common.target.is_some() => vec![Placement::Free],
            None => vec![Placement::Together, Placement::Apart],
        };
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for placement in placements {
            let workload = PingPong {
                payload: self.payload,
                version: self.common.version,
                placement,
                warmup: Duration::from_secs_f64(self.warmup),
                seconds: Duration::from_secs_f64(self.seconds),
            };
            workload.check()?;
            workloads.push(Box::new(workload));
        }
        Ok(workloads)
    }
}

/// What `bench list` shows.
pub(crate) const LIST: &str = "\
fanout      a few publishers, thousands of subscribers
              ice-1  5 publishers × 10 msg/s × 1,000 B, 3,000 subscribers: 30,000 deliveries/s
              ice-2  5 publishers × 35 msg/s ×   100 B, 3,000 subscribers: 105,000 deliveries/s
              --rate max  the most that is delivered without loss
subscribe   100 users fire 1,000 subscriptions each at once (ice-subscribe)
              --topics distinct|shared|both
idle        resident memory of 15,000 connections with one subscription each
connect     5,000 connections at once: does the listen backlog hold?
pingpong    round trips of two clients through the server

Each runs against its floor, a bare program that makes the same system calls. Examples:
  stentor bench fanout ice-2
  stentor bench fanout ice-2 --rate max --against mosquitto --against rumqttd
  stentor bench idle --target mqtt://localhost:1883 --pid 4711
  stentor bench subscribe --explain
";
