//! C, the private message test: each client writes to itself, so that each message in makes two
//! out, the response to the sender and the message to the receiver. The same with an adaptor on the
//! way, and a room in which all of them hear each other.

mod published;
mod ramp;
mod scene;
mod worker_pool;

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde_json::json;

use super::{Scenario, count, named, run_id};
use crate::accounts::{Accounts, Home, Proof, StoreKind};
use crate::args::{Common, measured_seconds, payload_bytes, seconds};
use crate::clock::{as_ns, now_ns};
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::load::echo::Schedule;
use crate::measure::{Leg, Metric, Unit, push_cpu, push_latency};
use crate::meter::{GeneratorMeter, push_link};
use crate::pace::Pace;
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::ramp::{Plan, RampArgs};
use crate::report::number::grouped;
use crate::target::{Needs, Running, Subject};
use crate::wire::Version;
use crate::workload::{Published, Sheet, Workload, members};

use scene::Scene;
use worker_pool::{Way, WorkerPool};

const IN: Metric = Metric::new("in_per_s", "in/s", Unit::PerSecond);
const OUT: Metric = Metric::new("out_per_s", "out/s", Unit::PerSecond);
const RESPONSE: Metric = Metric::new("response_p50_us", "response p50", Unit::Micros);
const RESPONSE_P99: Metric = Metric::new("response_p99_us", "p99", Unit::Micros);
const LATENCY: Metric = Metric::new("latency_p50_us", "message p50", Unit::Micros);
const LATENCY_P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros).against_floor();
const LATENCY_MAX: Metric = Metric::new("latency_max_us", "max", Unit::Micros);
const CPU: Metric =
    Metric::new("cpu_per_message_us", "CPU/message in", Unit::Micros).against_floor();
const RSS_EACH: Metric = Metric::new("rss_per_client_bytes", "RSS/client", Unit::Bytes);
const CPU_OUT: Metric = Metric::new("cpu_per_out_us", "CPU/message out", Unit::Micros);
const CPU_JOIN: Metric = Metric::new("cpu_per_join_us", "CPU/client that comes", Unit::Micros);
const CONNECTS: Metric = Metric::new("connections_per_s", "connections/s", Unit::PerSecond);

/// What the descriptors of the floor's one thread allow.
const FLOOR_CLIENTS_MAX: usize = 19_900;

/// Published loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Preset {
    /// Each client writes every 10 s; 10,000 to 80,000 clients
    #[value(name = "appwarp-light")]
    Light,
    /// Every 2 s; 5,000 to 30,000 clients
    #[value(name = "appwarp-medium")]
    Medium,
    /// Every second; 5,000 to 20,000 clients
    #[value(name = "appwarp-heavy")]
    Heavy,
}

/// How many clients write how often.
#[derive(Debug, clap::Args)]
pub(crate) struct PrivateArgs {
    /// Published parameters; each can be changed by the options below [default: all in turn]
    #[arg(value_enum)]
    preset: Option<Preset>,
    /// Clients, each with an account of its own; can be repeated [default: each row that was
    /// published]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=500_000))]
    clients: Vec<u32>,
    /// Seconds between two messages of one client [default: as published]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    every: Option<u16>,
    /// Bytes per message
    #[arg(long, default_value_t = 100, value_parser = payload_bytes)]
    payload: usize,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0, value_parser = measured_seconds)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    warmup: f64,
    /// New connections a second [default: 100 for appwarp-medium and appwarp-heavy, as published;
    /// else, and with --ramp or --room, as fast as the server accepts them]
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connect_rate: Option<u32>,
    /// Write to a topic of its own, which any MQTT server carries, instead of private messages
    #[arg(long)]
    own_topic: bool,
    /// Measure each row again with an adaptor that allows every private message
    #[arg(long, conflicts_with = "own_topic")]
    adaptor: bool,
    /// Put all clients into one room, where each in turn says something to all; then do the same
    /// over an ordinary topic [default: 3000 clients, every 100 s]
    #[arg(long, conflicts_with_all = ["own_topic", "adaptor", "preset"])]
    room: bool,
    /// With --clients: no further than this many [default: twice the last published row]
    #[command(flatten)]
    ramp: RampArgs,
    #[command(flatten)]
    common: Common,
}

impl Scenario for PrivateArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        if self.room && self.ramp.plan().is_some() {
            return Err(BenchError::usage("--ramp does not go with --room"));
        }
        if self.room {
            return self.rooms();
        }
        let presets = match self.preset {
            Some(preset) => vec![preset],
            None => Preset::value_variants().to_vec(),
        };
        if let Some(plan) = self.ramp.plan() {
            return self.ramps(&presets, plan);
        }
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for preset in presets {
            let rows = if self.clients.is_empty() {
                published::clients(preset)
            } else {
                self.clients.clone()
            };
            let usual = self.usual_scene();
            for clients in rows {
                let scenes = [Some(usual), self.adaptor.then_some(Scene::Adaptor)];
                for scene in scenes.into_iter().flatten() {
                    let clients = clients as usize;
                    workloads.push(Box::new(self.workload(preset, clients, scene)?));
                }
            }
        }
        Ok(workloads)
    }
}

/// Members of a room, unless the command says otherwise.
const ROOM_CLIENTS: u32 = 3_000;
/// Seconds between two things that one of them says.
const ROOM_EVERY: u16 = 100;

impl PrivateArgs {
    /// Private messages, unless no measured server is one that is started here, with users for
    /// them.
    fn usual_scene(&self) -> Scene {
        let subjects = self.common.subjects(None);
        let is_foreign = !subjects.is_empty() && !subjects.iter().any(Subject::is_own);
        if self.own_topic || is_foreign {
            Scene::OwnTopic
        } else {
            Scene::Private
        }
    }

    /// A room, and beside it an ordinary topic that everybody subscribes to.
    fn rooms(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        let rows = match self.clients.as_slice() {
            [] => &[ROOM_CLIENTS],
            rows => rows,
        };
        for clients in rows {
            for scene in [Scene::Room, Scene::Topic] {
                let load = self.workload(Preset::Light, *clients as usize, scene)?;
                workloads.push(Box::new(load));
            }
        }
        Ok(workloads)
    }

    fn workload(
        &self,
        preset: Preset,
        clients: usize,
        scene: Scene,
    ) -> Result<Private, BenchError> {
        let usual = match scene.is_shared() {
            true => Duration::from_secs(ROOM_EVERY.into()),
            false => published::period(preset),
        };
        let period = self
            .every
            .map_or(usual, |secs| Duration::from_secs(secs.into()));
        if clients as f64 * self.seconds < period.as_secs_f64() {
            return Err(BenchError::usage(format!(
                "{clients} clients that write every {} s write nothing in --seconds {}: more of \
                 either, or a smaller --every",
                period.as_secs(),
                self.seconds
            )));
        }
        let accounts = match scene {
            Scene::OwnTopic => None,
            Scene::Private | Scene::Adaptor | Scene::Room | Scene::Topic => {
                let home = Home::Own(StoreKind::Sqlite);
                Some(Arc::new(Accounts::make(Proof::Token, home, clients)?))
            }
        };
        let subjects = self.common.subjects(None);
        let has_strangers = subjects.iter().any(|subject| !subject.is_own());
        Ok(Private {
            scene,
            elsewhere: (scene == Scene::Private && has_strangers).then_some(Scene::OwnTopic),
            preset,
            clients,
            period,
            payload: self.payload,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
            connect_rate: self.connect_rate.or_else(|| {
                let is_alone = matches!(scene, Scene::Private | Scene::Adaptor | Scene::OwnTopic);
                published::connect_rate(preset).filter(|_| is_alone)
            }),
            version: self.common.version,
            ramp: None,
            accounts,
        })
    }

    /// The load that grows to the breaking point, for each preset.
    fn ramps(&self, presets: &[Preset], plan: Plan) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let scene = match self.adaptor {
            true => Scene::Adaptor,
            false => self.usual_scene(),
        };
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for preset in presets {
            let last = published::clients(*preset).into_iter().max().unwrap_or(0);
            let ends = match self.clients.as_slice() {
                [] => &[2 * last],
                ends => ends,
            };
            for end in ends {
                let load = self.workload(*preset, *end as usize, scene)?;
                workloads.push(Box::new(Private {
                    ramp: Some(plan),
                    connect_rate: self.connect_rate,
                    ..load
                }));
            }
        }
        Ok(workloads)
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Private {
    scene: Scene,
    /// What they do on servers that are not started here, if that is something else.
    elsewhere: Option<Scene>,
    preset: Preset,
    clients: usize,
    period: Duration,
    payload: usize,
    warmup: Duration,
    seconds: Duration,
    connect_rate: Option<u32>,
    version: Version,
    /// Then it begins with one step, and `clients` is where it ends.
    ramp: Option<Plan>,
    /// None where each writes to a topic of its own.
    accounts: Option<Arc<Accounts>>,
}

impl Private {
    /// How long a client may have nothing to say: each writes once in its period, and nobody
    /// before all are there. Where the load grows, those who are there write on.
    fn silence(&self) -> Duration {
        let opening = self.connect_rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(self.clients as f64 / f64::from(rate))
        });
        opening
            + match self.ramp {
                Some(_) => self.period,
                None => self.period.min(self.warmup + self.seconds),
            }
    }

    fn title(&self) -> String {
        let name = self.preset.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name());
        let name = match self.scene.is_shared() {
            true => self.scene.name().to_owned(),
            false => named(name, self.published().is_some()),
        };
        let grows = self.ramp.map_or_else(String::new, |plan| {
            format!("{} more again and again, up to ", count(plan.step))
        });
        let elsewhere = self.elsewhere.map_or_else(String::new, |scene| {
            format!(" ({} on servers that are not started here)", scene.what())
        });
        format!(
            "{name}: {grows}{} clients, each with {}{elsewhere} every {} s, {} B, QoS 1 in, 0 \
             out, MQTT {}",
            count(self.clients),
            self.scene.what(),
            self.period.as_secs(),
            self.payload,
            self.version.as_str(),
        )
    }

    /// What was published about this very load.
    fn published(&self) -> Option<Published> {
        let is_original = self.period == published::period(self.preset)
            && self.scene == Scene::Private
            && self.ramp.is_none();
        published::row(self.preset, self.clients).filter(|_| is_original)
    }

    /// What the server is made for: of a load that grows, what was published, so that there is
    /// something beyond.
    fn connections(&self) -> usize {
        let last = published::clients(self.preset).into_iter().max();
        match self.ramp {
            Some(_) => self.clients.min(last.unwrap_or(0) as usize),
            None => self.clients,
        }
    }

    /// Messages in per second.
    fn rate(&self) -> f64 {
        self.clients as f64 / self.period.as_secs_f64()
    }

    /// Messages out for each in: the response, and those who hear it.
    const fn copies(&self) -> usize {
        match self.scene.is_shared() {
            true => 1 + self.clients,
            false => 2,
        }
    }

    /// How what this many clients have done in this many seconds is to be judged.
    fn pace<'a>(
        &self,
        clients: f64,
        seconds: f64,
        received: u64,
        after_end: u64,
        lateness: &'a Histogram<u64>,
    ) -> Pace<'a> {
        let copies = self.copies() as f64;
        Pace {
            lateness,
            due: clients / self.period.as_secs_f64() * seconds * copies,
            came: received as f64,
            edge: copies,
            after_end: after_end as f64,
            unsent: 0,
        }
    }

    /// How its clients write to this server.
    fn way(&self, running: &Running) -> Result<Way, BenchError> {
        let accounts = self.accounts.clone();
        Ok(
            match accounts.filter(|_| running.is_floor() || running.has_accounts()) {
                Some(accounts) => match self.scene {
                    Scene::Room => Way::Room(accounts),
                    Scene::Topic => Way::Topic(accounts),
                    Scene::Private | Scene::Adaptor | Scene::OwnTopic => Way::Private(accounts),
                },
                None if self.scene.is_shared() => {
                    let text = "only a server that is started here has users who can be in a room";
                    return Err(BenchError::usage(text));
                }
                None if self.scene == Scene::Adaptor => {
                    let text = "only a server that is started here has the adaptor";
                    return Err(BenchError::usage(text));
                }
                None => Way::OwnTopic(run_id()),
            },
        )
    }

    fn plan(&self) -> Vec<String> {
        let pace = self.connect_rate.map_or_else(String::new, |rate| {
            format!(", {} new ones a second", count(rate))
        });
        if let Some(plan) = self.ramp {
            return ramp::explain(self, plan);
        }
        vec![
            format!(
                "open {} connections{pace}, from as many loopback addresses as ports demand; each \
                 subscribes to what it will receive",
                count(self.clients)
            ),
            format!(
                "each writes every {} s, evenly spread: {} in/s, {} out/s (PUBACK and messages)",
                self.period.as_secs(),
                grouped(self.rate()),
                grouped(self.copies() as f64 * self.rate())
            ),
            format!(
                "warm up {:.0} s, measure {:.0} s, wait for what is still on its way",
                self.warmup.as_secs_f64(),
                self.seconds.as_secs_f64()
            ),
            "check loss, duplicates and order by sequence numbers; latency from the intended send \
             time"
                .into(),
        ]
    }
}

impl Workload for Private {
    fn sheet(&self) -> Sheet {
        let preset = self.preset.to_possible_value();
        let mut parameters = members(json!({
            "preset": preset.map(|value| value.get_name().to_owned()),
            "clients": self.clients,
            "period_seconds": self.period.as_secs(),
            "payload_bytes": self.payload,
            "connect_rate": self.connect_rate,
            "own_topic": self.scene == Scene::OwnTopic,
            "scene": self.scene.name(),
            "version": self.version.as_str(),
            "warmup_seconds": self.warmup.as_secs_f64(),
            "seconds": self.seconds.as_secs_f64(),
            "ramp_step": self.ramp.map(|plan| plan.step),
            "bound_ms": self.ramp.map(|plan| plan.bound.as_millis() as u64),
        }));
        if let Some(scene) = self.elsewhere {
            parameters.insert("scene_elsewhere".into(), scene.name().into());
        }
        Sheet {
            name: "private",
            title: self.title(),
            parameters,
            floors: match self.clients <= FLOOR_CLIENTS_MAX
                && !self.scene.is_shared()
                && self.ramp.is_none()
            {
                true => vec![FloorKind::Echo],
                false => Vec::new(),
            },
            needs: Needs {
                accounts: self.accounts.clone(),
                config: self.scene.config().into(),
                files: self.scene.files(),
                silence: self.silence(),
                ..Needs::new(self.connections(), self.payload, self.version)
            },
            pairs: 1,
            plan: self.plan(),
            published: self.published(),
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let way = self.way(running)?;
        if let Some(plan) = self.ramp {
            return ramp::climb(self, plan, &way, running, progress);
        }
        running.settle();
        let (before, begun_ns) = (running.usage().map(|usage| usage.rss), now_ns());
        let coming = CpuMeter::start(running.pid());
        let pool = WorkerPool::gather(self, &way, running, progress, 0)?;
        let used_coming_s = coming.used_s();
        let opened_s = (now_ns() - begun_ns) as f64 / 1e9;
        let start_ns = now_ns() + as_ns(Duration::from_millis(100));
        let from_ns = start_ns + as_ns(self.warmup);
        let schedule = Schedule {
            start_ns,
            from_ns,
            end_ns: from_ns + as_ns(self.seconds),
            period_ns: as_ns(self.period),
            first: 0,
            clients: self.clients,
        };
        pool.begin(schedule);
        progress.wait("warming up", schedule.from_ns);
        let meter = CpuMeter::start(running.pid());
        let generator = GeneratorMeter::start();
        progress.wait("writing", schedule.end_ns);
        let generator = generator.stop();
        let used_s = meter.used_s();
        let after = running.usage().map(|usage| usage.rss);
        let missing = pool.missing.clone();
        let tally = pool.dismiss()?;
        let seconds = self.seconds.as_secs_f64();
        let sent = tally.sent.max(1) as f64;
        let mut leg = Leg {
            faults: tally.faults,
            failed: missing.count + tally.broken + tally.unanswered,
            behind: missing.first_failure,
            ..Leg::default()
        };
        leg.push(IN, tally.sent as f64 / seconds);
        leg.push(OUT, tally.received as f64 / seconds);
        let quantiles = [(RESPONSE, 0.5), (RESPONSE_P99, 0.99)];
        push_latency(&mut leg, tally.response, &quantiles);
        let quantiles = [(LATENCY, 0.5), (LATENCY_P99, 0.99), (LATENCY_MAX, 1.0)];
        push_latency(&mut leg, tally.latency, &quantiles);
        leg.push(CPU, used_s.map(|used| used * 1e6 / sent));
        push_cpu(&mut leg, used_s, seconds);
        let opened = (self.clients as u64).saturating_sub(missing.count).max(1) as f64;
        let grown = running.grown(before, after);
        leg.push(RSS_EACH, grown.map(|grown| grown / opened));
        leg.push(CONNECTS, opened / opened_s);
        // All but the responses.
        let heard = tally.received as f64 * (self.copies() - 1) as f64 / self.copies() as f64;
        push_link(&mut leg, heard / seconds, self.payload);
        generator.push(&mut leg, used_s);
        let (clients, received) = (self.clients as f64, tally.received);
        self.pace(clients, seconds, received, tally.after_end, &tally.lateness)
            .judge(&mut leg);
        if self.scene.is_shared() {
            let received = tally.received.max(1) as f64;
            leg.push(CPU_OUT, used_s.map(|used| used * 1e6 / received));
            leg.push(CPU_JOIN, used_coming_s.map(|used| used * 1e6 / opened));
        }
        Ok(leg)
    }
}
