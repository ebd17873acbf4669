//! A4, Last Tick Recovery: users subscribe at once to topics that hold a message, warm, and after
//! the server was killed and started again.

use std::sync::mpsc;
use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::retained::Retained;
use super::{Scenario, count, named, run_id, subscribe};
use crate::args::Common;
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Plan};
use crate::load::fill::Fill;
use crate::load::pulse::Pulse;
use crate::load::storm::{Ask, Goal, Outcome, Round, Storm};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Unit, Verdict, push_latency};
use crate::meter::{GeneratorMeter, GeneratorUse, push_link};
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::{Lasts, Version};
use crate::workload::{Sheet, Workload, members};

const WARM: Metric = Metric::new("recovered_us", "recovered", Unit::Micros).against_floor();
const RATE: Metric = Metric::new("recovered_per_s", "recovered/s", Unit::PerSecond);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
const PLAIN: Metric = Metric::new("subscribed_us", "subscribed", Unit::Micros);
const TIMES: Metric = Metric::new(
    "recovered_to_subscribed_percent",
    "recovered : subscribed",
    Unit::Percent,
);
const END: Metric = Metric::new("end_us", "ended", Unit::Micros);
const START: Metric = Metric::new("start_us", "serving again", Unit::Micros);
const COLD: Metric =
    Metric::new("restarted_recovered_us", "recovered after it", Unit::Micros).against_floor();
const PUBLISH: Metric = Metric::new("published_per_s", "published/s", Unit::PerSecond);
const CREATE: Metric = Metric::new("kept_new_per_s", "kept/s, new", Unit::PerSecond);
const UPDATE: Metric = Metric::new("kept_again_per_s", "kept/s, again", Unit::PerSecond);
const KEPT: Metric = Metric::new(
    "kept_to_published_percent",
    "kept : published",
    Unit::Percent,
);
const FILES: Metric = Metric::new("file_bytes", "files", Unit::Bytes);
const RSS: Metric = Metric::new("server_rss_bytes", "RSS", Unit::Bytes);

const QUIET: Metric = Metric::new("quiet_pause_us", "longest pause", Unit::Micros);
const SAVING: Metric = Metric::new("saving_pause_us", "while it saves", Unit::Micros);

const PATIENCE: Duration = Duration::from_secs(15);
/// How long deliveries are watched before and while the server saves.
const WATCHED: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// 100 users × 1,000 topics that hold 100 B each
    #[value(name = "ice-last-tick")]
    IceLastTick,
}

/// The subscribers and their filters.
#[derive(Debug, clap::Args)]
pub(crate) struct RecoverArgs {
    /// Published parameters; each can be changed by the options below
    #[arg(value_enum, default_value = "ice-last-tick")]
    preset: Preset,
    /// Users
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    users: u16,
    /// Topics of each user, each with a subscription of its own
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(1..))]
    subscriptions: u16,
    /// Bytes of each message
    #[arg(long, default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    payload: u32,
    /// Topics that have a message: those of the subscriptions, and more
    #[arg(long, value_name = "TOPICS",
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    stored: Option<u64>,
    /// Do not measure the restart
    #[arg(long)]
    no_restart: bool,
    #[command(flatten)]
    common: Common,
}

impl Scenario for RecoverArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let Preset::IceLastTick = self.preset;
        let subscribed = u64::from(self.users) * u64::from(self.subscriptions);
        let stored = self.stored.unwrap_or(subscribed);
        if stored < subscribed {
            let text = format!("--stored must be at least the {subscribed} that are subscribed to");
            return Err(BenchError::usage(text));
        }
        Ok(vec![Box::new(Recover {
            users: usize::from(self.users),
            subscriptions: self.subscriptions,
            payload: self.payload as usize,
            stored,
            restarts: !self.no_restart,
            version: self.common.version,
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Recover {
    users: usize,
    /// At most 65,535, so that every packet id is used once.
    subscriptions: u16,
    payload: usize,
    /// Topics that hold a message, subscribed to or not.
    stored: u64,
    restarts: bool,
    version: Version,
}

impl Workload for Recover {
    fn sheet(&self) -> Sheet {
        let (users, each) = (self.users, count(self.subscriptions));
        let (payload, version) = (self.payload, self.version.as_str());
        let mut needs = Needs::new(users, payload, self.version);
        needs.stored = self.stored;
        let stored = count(self.stored);
        Sheet {
            name: "recover",
            title: format!(
                "{}: {users} users × {each} subscriptions at once to topics that hold \
                 {payload} B each, of {stored}, MQTT {version}",
                named("ice-last-tick", self.is_described())
            ),
            parameters: members(json!({
                "users": users,
                "subscriptions_per_user": self.subscriptions,
                "payload_bytes": payload,
                "stored_topics": self.stored,
                "restart": self.restarts,
                "version": version,
            })),
            floors: vec![FloorKind::Recover],
            needs,
            pairs: 5,
            plan: vec![
                format!(
                    "publish to {stored} topics with QoS 1: without RETAIN, with it, with it again"
                ),
                format!("{users} users subscribe to {each} other topics each: workload A2"),
                "others subscribe to theirs at once; one is complete when its own SUBACK and then \
                 its message have arrived, whole; latency from the common start"
                    .into(),
                "one more client sends itself a message every millisecond, and again while the \
                 server saves all topics (asked to, a rival): the longest time until one is back"
                    .into(),
                "kill the server (ask a rival to end, so that it saves), start it again, and once \
                 more"
                    .into(),
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
        let run = run_id();
        let mut leg = Leg::default();
        if running.is_floor() {
            // Canned answers need no messages.
            self.recover(running, progress, &run, &mut leg)?;
            return Ok(leg);
        }
        // The same topics as later, so that the rates can be compared.
        let live = Message::Of(Round::Live);
        let plain = self.publish(running, progress, &run, live, self.total())?;
        leg.push(PUBLISH, plain);
        let retained = Retained::keep(running, &run);
        let measured = self.measure(running, progress, &run, plain, &mut leg);
        let cleared = retained.clear(progress, || {
            self.publish(running, progress, &run, Message::Empty, self.stored)?;
            Ok(())
        });
        measured?;
        // What was lost before says more than that nobody is there to clear anything.
        if leg.verdict() == Verdict::Sound {
            cleared?;
        }
        Ok(leg)
    }
}

impl Recover {
    /// What needs messages, from the filling of the topics on.
    fn measure(
        &self,
        running: &mut Running,
        progress: &Progress,
        run: &str,
        plain: f64,
        leg: &mut Leg,
    ) -> Result<(), BenchError> {
        self.fill(running, progress, run, plain, leg)?;
        let none = format!("{run}-none");
        let plain = self.storm(running, progress, &none, Goal::Acknowledged);
        let (plain, _) = plain.map_err(BenchError::midway)?;
        leg.push(PLAIN, self.whole_us(&plain));
        self.judge(&plain, leg);
        self.recover(running, progress, run, leg)?;
        if !self.restarts {
            push_files(leg, running);
            return Ok(());
        }
        progress.show("saving");
        self.save(running, progress, run, leg)
            .map_err(BenchError::midway)?;
        push_files(leg, running);
        progress.show("restarting");
        self.restart(running, progress, run, leg)
            .map_err(BenchError::midway)
    }

    /// The storm while everything is warm.
    fn recover(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        leg: &mut Leg,
    ) -> Result<(), BenchError> {
        let is_floor = running.is_floor();
        let round = match is_floor {
            true => Round::Canned,
            false => Round::Again,
        };
        let warm = self.storm(running, progress, run, self.goal(round));
        let (warm, used) = warm.map_err(BenchError::midway)?;
        self.judge(&warm, leg);
        let warm_us = self.whole_us(&warm);
        leg.push(WARM, warm_us);
        let rate = warm_us.map(|warm_us| self.total() as f64 * 1e6 / warm_us);
        leg.push(RATE, rate);
        push_link(leg, rate, self.payload);
        used.push(leg);
        if let Some(plain_us) = leg.figure(PLAIN.key) {
            leg.push(TIMES, warm_us.map(|warm_us| warm_us / plain_us * 100.0));
        }
        if is_floor {
            // The floor is the same before and after.
            leg.push(COLD, warm_us);
        } else {
            leg.push(RSS, running.usage().map(|usage| usage.rss as f64));
        }
        let mut latency = histogram();
        for &at_ns in &warm.completed_ns {
            latency.saturating_record(at_ns);
        }
        push_latency(leg, latency, &[(P50, 0.5), (P99, 0.99)]);
        leg.series = subscribe::series(&warm);
        Ok(())
    }
}

/// What a storm took.
struct Used {
    generator: GeneratorUse,
    server_cpu_s: Option<f64>,
}

impl Used {
    fn push(self, leg: &mut Leg) {
        self.generator.push(leg, self.server_cpu_s);
    }
}

/// What is published to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// With RETAIN but in [`Round::Live`].
    Of(Round),
    /// Empty and retained: it clears the topic.
    Empty,
}

/// How long the files of a server that was started here are, once it has saved.
fn push_files(leg: &mut Leg, running: &Running) {
    let length = running.file_bytes().map(|(length, _)| length as f64);
    leg.push(FILES, length);
}

impl Recover {
    fn total(&self) -> u64 {
        self.users as u64 * u64::from(self.subscriptions)
    }

    /// How long a storm took, if all of it was completed.
    fn whole_us(&self, storm: &Outcome) -> Option<f64> {
        storm.whole_s(self.total()).map(|seconds| seconds * 1e6)
    }

    /// Whether it is the load that was described.
    fn is_described(&self) -> bool {
        (self.users, self.subscriptions, self.payload) == (100, 1_000, 100)
    }

    /// The messages of a round.
    fn goal(&self, round: Round) -> Goal {
        Goal::Recovered {
            payload: self.payload,
            round,
        }
    }

    fn judge(&self, storm: &Outcome, leg: &mut Leg) {
        leg.failed += self.total() - storm.completed;
        leg.behind = leg.behind.take().or_else(|| storm.first_failure.clone());
        leg.faults.corrupt += storm.wrong;
    }

    /// The topic of a number: the first are those that users subscribe to.
    fn topic(&self, run: &str, number: u64) -> String {
        let each = u64::from(self.subscriptions);
        if number < self.total() {
            format!("bench/{run}/{}/{}", number / each, number % each + 1)
        } else {
            format!("bench/{run}/more/{number}")
        }
    }

    /// Publishes to the first this many topics; messages per second.
    fn publish(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        message: Message,
        count: u64,
    ) -> Result<f64, BenchError> {
        let (round, payload) = match message {
            Message::Of(round) => (round, self.payload),
            Message::Empty => (Round::New, 0),
        };
        let (this, run) = (self.clone(), run.to_owned());
        let (endpoint, login) = (running.endpoint.clone(), running.login.clone());
        let now = || format!("publishing to {} topics", super::count(count));
        load::run("publisher", progress, &now, move || {
            let topic = |number| this.topic(&run, number);
            let fill = Fill {
                endpoint: &endpoint,
                login: &login,
                version: this.version,
                client_id: format!("p-{run}"),
                retain: round != Round::Live,
                round,
                payload,
                count,
                topic: &topic,
            };
            fill.run()
        })
    }

    /// Retains a message in each topic, and another one in its place; `plain` is the rate without
    /// RETAIN.
    fn fill(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        plain: f64,
        leg: &mut Leg,
    ) -> Result<(), BenchError> {
        let create = self.publish(running, progress, run, Message::Of(Round::New), self.stored)?;
        let update = self.publish(
            running,
            progress,
            run,
            Message::Of(Round::Again),
            self.total(),
        )?;
        leg.push(CREATE, create);
        leg.push(UPDATE, update);
        leg.push(KEPT, update / plain * 100.0);
        Ok(())
    }

    /// Watches deliveries while nothing else happens, and while everything is saved.
    fn save(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        leg: &mut Leg,
    ) -> Result<(), BenchError> {
        let pulse = |name: &str| {
            let pulse = Pulse {
                endpoint: running.endpoint.clone(),
                login: running.login.clone(),
                version: self.version,
                name: format!("{name}-{run}"),
                lasts: WATCHED,
            };
            let (begins, begun) = mpsc::channel();
            let begin = move || {
                // Nobody waits any more once this has ended with an error.
                let _ = begins.send(());
            };
            let thread = load::spawn("pulse", move || pulse.run(begin))?;
            // Where it does not begin, joining tells why.
            let _ = begun.recv();
            Ok::<_, BenchError>(thread)
        };
        let quiet_ns = load::join(pulse("quiet")?)??;
        leg.push(QUIET, quiet_ns as f64 / 1e3);
        // Every message is new, so that there is something to save.
        let message = Message::Of(Round::Saved);
        self.publish(running, progress, run, message, self.stored)?;
        let saving = pulse("saving")?;
        running.save()?;
        let saving_ns = load::join(saving)??;
        leg.push(SAVING, saving_ns as f64 / 1e3);
        Ok(())
    }

    /// Ends the server and starts it again, if that can be done, and recovers once more.
    fn restart(
        &self,
        running: &mut Running,
        progress: &Progress,
        run: &str,
        leg: &mut Leg,
    ) -> Result<(), BenchError> {
        if let Some(restarted) = running.restart()? {
            leg.push(END, restarted.ending.as_secs_f64() * 1e6);
            leg.push(START, restarted.starting.as_secs_f64() * 1e6);
            let (cold, _) = self.storm(running, progress, run, self.goal(Round::Saved))?;
            self.judge(&cold, leg);
            leg.push(COLD, self.whole_us(&cold));
        }
        Ok(())
    }

    /// All users log in, subscribe at once, and leave.
    fn storm(
        &self,
        running: &Running,
        progress: &Progress,
        run: &str,
        goal: Goal,
    ) -> Result<(Outcome, Used), BenchError> {
        let pid = running.pid();
        let (this, run) = (self.clone(), run.to_owned());
        let (endpoint, login) = (running.endpoint.clone(), running.login.clone());
        let now = || match goal {
            Goal::Acknowledged => "subscribing".to_owned(),
            Goal::Recovered { .. } => "recovering".to_owned(),
        };
        load::run("subscribers", progress, &now, move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let crowd = crowd::open(
                &mut poll,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: this.version,
                    count: this.users,
                    first: 0,
                    at_once: 100,
                    pace: None,
                    patience: PATIENCE,
                    client_id: &|index| format!("u-{run}-{index}"),
                    entry: None,
                    filter: &|_| None,
                    lasts: Lasts::Connection,
                    gauge: None,
                    receive_buffer: None,
                },
            )?;
            let ask = Ask {
                version: this.version,
                subscriptions: this.subscriptions,
                qos: 0,
                prefix: &|user| format!("bench/{run}/{user}/"),
                goal,
            };
            let mut storm = Storm::new(crowd.complete()?, &ask);
            let meter = CpuMeter::start(pid);
            let generator = GeneratorMeter::start();
            let outcome = storm.run(&mut poll)?;
            let generator = generator.stop();
            let server_cpu_s = meter.used_s();
            Ok((
                outcome,
                Used {
                    generator,
                    server_cpu_s,
                },
            ))
        })
    }
}
