//! A3, massive-connection messaging: a few publishers, thousands of subscribers.

pub(crate) mod group;
mod load;
pub(crate) mod mine;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::json;

use super::idle::CONNECTIONS_PER_WORKER;
use super::{Scenario, count, named};
use crate::args::{Common, clients, measured_seconds, payload_bytes, seconds, threads};
use crate::clock::SECOND_NS;
use crate::error::BenchError;
use crate::floor::FloorKind;
use crate::measure::{Leg, MACHINE_CPU, Metric, Unit, Verdict, push_cpu, push_latency};
use crate::meter::push_link;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::ramp::{Climb, Plan, RampArgs, Step};
use crate::report::number::grouped;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Published, Sheet, Workload, members};

use load::{Load, Outcome};

pub(super) const DELIVERIES: Metric =
    Metric::new("deliveries_per_s", "deliveries/s", Unit::PerSecond);
pub(super) const CPU: Metric =
    Metric::new("cpu_per_delivery_us", "CPU/delivery", Unit::Micros).against_floor();
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
pub(super) const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros).against_floor();
const P999: Metric = Metric::new("latency_p999_us", "p99.9", Unit::Micros);
const RSS: Metric = Metric::new("server_rss_bytes", "RSS", Unit::Bytes);
const GENERATOR: Metric = Metric::new(
    "generator_cpu_per_delivery_us",
    "generator/delivery",
    Unit::Micros,
);
const WINDOW: Metric = Metric::new("window_messages", "window", Unit::Count);

/// Bytes of all messages outstanding at the largest window: what the kernel's buffers hold.
const OUTSTANDING_BYTES_MAX: usize = 512 * 1_024 * 1_024;
/// Bytes outstanding per subscriber at the largest window.
const BACKLOG_BYTES_MAX: usize = 64 * 1_024;

/// How fast publishers publish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// Messages per second and publisher, by the clock.
    Paced(f64),
    /// As fast as the slowest subscriber follows without loss.
    Max,
}

impl Rate {
    /// The most messages of a publisher that are due in this time.
    fn most(self, length_ns: u64) -> u64 {
        match self {
            Self::Paced(rate) => (length_ns as f64 / SECOND_NS as f64 * rate).ceil() as u64 + 1,
            Self::Max => u64::MAX,
        }
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            _ => match text.parse::<f64>() {
                Ok(rate) if (0.001..=1e6).contains(&rate) => Ok(Self::Paced(rate)),
                _ => Err("a number of messages per second from 0.001 to 1000000, or max".into()),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// 5 publishers × 10 msg/s × 1,000 B, 3,000 subscribers
    #[value(name = "ice-1")]
    Ice1,
    /// 5 publishers × 35 msg/s × 100 B, 3,000 subscribers
    #[value(name = "ice-2")]
    Ice2,
}

/// How messages are sent, and for how long.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Manner {
    /// Quality of service of publishers and subscribers
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Set RETAIN on every message
    #[arg(long)]
    retain: bool,
    /// Seconds to measure
    #[arg(long, default_value_t = 10.0, value_parser = measured_seconds,
        allow_negative_numbers = true)]
    seconds: f64,
    /// Seconds to run before measuring
    #[arg(long, default_value_t = 2.0, value_parser = seconds, allow_negative_numbers = true)]
    warmup: f64,
}

/// A preset and what is changed of it.
#[derive(Debug, clap::Args)]
pub(crate) struct FanoutArgs {
    /// Published parameters; each can be changed by the options below [default: both in turn]
    #[arg(value_enum)]
    preset: Option<Preset>,
    /// Publishers, each on a topic of its own
    #[arg(long, value_parser = clients)]
    publishers: Option<usize>,
    /// Subscribers, one topic each
    #[arg(long, value_parser = clients)]
    subscribers: Option<usize>,
    /// Messages per second and publisher, or "max": as fast as lossless
    #[arg(long, allow_negative_numbers = true)]
    rate: Option<Rate>,
    /// Bytes per message
    #[arg(long, value_parser = payload_bytes, allow_negative_numbers = true)]
    payload: Option<usize>,
    #[command(flatten)]
    manner: Manner,
    /// Messages of a publisher that can be on their way, at --rate max [default: found by ramping]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Threads of this process that receive [default: two groups of subscribers in processes of
    /// their own, as on the published machines; one thread per 15,000 subscribers with --rate max,
    /// --ramp, or larger groups]
    #[arg(long, value_parser = threads)]
    workers: Option<usize>,
    #[command(flatten)]
    ramp: RampArgs,
    #[command(flatten)]
    common: Common,
}

impl Scenario for FanoutArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    /// One workload, or both presets if none is named.
    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let presets = match self.preset {
            Some(preset) => vec![preset],
            None => vec![Preset::Ice1, Preset::Ice2],
        };
        let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
        for preset in presets {
            let workload = self.workload(preset);
            workload.check()?;
            workloads.push(Box::new(workload));
        }
        Ok(workloads)
    }
}

impl FanoutArgs {
    fn workload(&self, preset: Preset) -> Fanout {
        let (name, scenario, rate, payload, parts) = match preset {
            Preset::Ice1 => ("ice-1", 1, 10.0, 1_000, [1_500, 1_500]),
            Preset::Ice2 => ("ice-2", 2, 35.0, 100, [500, 2_500]),
        };
        let original = (5, 3_000, Rate::Paced(rate), payload);
        let load = (
            self.publishers.unwrap_or(original.0),
            self.subscribers.unwrap_or(original.1),
            self.rate.unwrap_or(original.2),
            self.payload.unwrap_or(original.3),
        );
        let is_published = load == original && self.ramp.plan().is_none();
        let (publishers, subscribers, rate, payload) = load;
        let groups = match (rate, self.ramp.plan(), self.workers) {
            (Rate::Paced(_), None, None) => group::split(subscribers, parts),
            _ => None,
        };
        let is_small = |groups: &[usize; 2]| groups.iter().all(|it| *it <= CONNECTIONS_PER_WORKER);
        Fanout {
            preset: name,
            publishers,
            subscribers,
            rate,
            payload,
            qos: self.manner.qos,
            retain: self.manner.retain,
            topics: publishers,
            all: false,
            version: self.common.version,
            warmup: Duration::from_secs_f64(self.manner.warmup),
            seconds: Duration::from_secs_f64(self.manner.seconds),
            grace: Duration::from_secs(5),
            workers: self
                .workers
                .map(|workers| workers.min(subscribers))
                .unwrap_or_else(|| subscribers.div_ceil(CONNECTIONS_PER_WORKER))
                .max(1),
            groups: groups.filter(is_small),
            window: self.window,
            ramp: self.ramp.plan(),
            published: is_published.then(|| published_ice(scenario)),
            windows: HashMap::new(),
        }
    }
}

/// A fan-out as something that runs beside another load.
#[derive(Clone, Debug)]
pub(super) struct Beside(Fanout);

impl Beside {
    /// That of ice-2, 105,000 messages of 100 B a second to 3,000 subscribers, or as many fewer as
    /// there are fewer subscribers. It warms up, and is measured, for so long.
    pub(super) fn quick(
        subscribers: usize,
        version: Version,
        warmup: Duration,
        seconds: Duration,
    ) -> Self {
        Self(Fanout {
            payload: 100,
            warmup,
            seconds,
            ..Fanout::bare(5, subscribers, Rate::Paced(35.0), version)
        })
    }

    /// That of 30,000 messages of 1,000 B a second.
    pub(super) fn new(version: Version, seconds: Duration) -> Self {
        Self(Fanout {
            seconds,
            ..Fanout::bare(5, 3_000, Rate::Paced(10.0), version)
        })
    }

    /// Its connections.
    pub(super) const fn connections(&self) -> usize {
        self.0.publishers + self.0.subscribers
    }

    /// Runs once; `at_start` is called when the measured interval begins.
    ///
    /// # Errors
    /// When it cannot run.
    pub(super) fn run(
        &self,
        running: &mut Running,
        progress: &Progress,
        at_start: &dyn Fn(),
    ) -> Result<Leg, BenchError> {
        let outcome = self.0.load_telling(at_start).run(running, 0, progress)?;
        Ok(self.0.evaluate(outcome))
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Fanout {
    preset: &'static str,
    publishers: usize,
    subscribers: usize,
    rate: Rate,
    payload: usize,
    qos: u8,
    retain: bool,
    /// Topics, which take turns; see [`Fanout::topics_of`].
    topics: usize,
    /// Whether each subscriber gets everything, and not one publisher's messages.
    all: bool,
    version: Version,
    warmup: Duration,
    seconds: Duration,
    /// How long to wait for what is still on its way after the last arrival.
    grace: Duration,
    /// Receiver threads.
    workers: usize,
    /// Subscribers of each process that receives in their place.
    groups: Option<[usize; 2]>,
    /// Messages outstanding per publisher at rate max; found by ramping if `None`.
    window: Option<u64>,
    /// Then the rate grows to the breaking point.
    ramp: Option<Plan>,
    published: Option<Published>,
    /// Best windows found so far, by subject.
    windows: HashMap<usize, u64>,
}

impl Fanout {
    /// One that is measured for a second after two, with 1,000 B and QoS 0, by threads of this
    /// process.
    fn bare(publishers: usize, subscribers: usize, rate: Rate, version: Version) -> Self {
        Self {
            preset: "ice-1",
            publishers,
            subscribers,
            rate,
            payload: 1_000,
            qos: 0,
            retain: false,
            topics: publishers,
            all: false,
            version,
            warmup: Duration::from_secs(2),
            seconds: Duration::from_secs(1),
            grace: Duration::from_secs(5),
            workers: 1,
            groups: None,
            window: None,
            ramp: None,
            published: None,
            windows: HashMap::new(),
        }
    }

    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), BenchError> {
        if self.publishers == 0 || self.subscribers < self.publishers {
            return Err(BenchError::usage(
                "each publisher needs at least one subscriber",
            ));
        }
        match (self.rate, self.window) {
            (Rate::Max, _) if self.ramp.is_some() => {
                Err(BenchError::usage("--ramp does not go with --rate max"))
            }
            (Rate::Max, Some(window)) if window > self.window_max() => {
                Err(BenchError::usage(format!(
                    "--window {window} is more than {}, the limit: the kernel's buffers hold no \
                     more messages of this size to this number of subscribers",
                    self.window_max()
                )))
            }
            (Rate::Paced(_), Some(_)) => Err(BenchError::usage(
                "--window goes with --rate max: the clock sets the pace otherwise",
            )),
            (Rate::Paced(rate), _) if rate < 1.0 && self.ramp.is_some() => Err(BenchError::usage(
                "--ramp begins at one message per second and publisher or more: a larger --rate",
            )),
            (Rate::Paced(rate), _) if rate * self.seconds.as_secs_f64() < 1.0 => {
                Err(BenchError::usage(format!(
                    "--rate {rate} is less than one message of each publisher in the {} s that \
                     are measured: a larger --rate, or more --seconds",
                    self.seconds.as_secs_f64()
                )))
            }
            (Rate::Max | Rate::Paced(_), _) => Ok(()),
        }
    }

    fn window_max(&self) -> u64 {
        let each = BACKLOG_BYTES_MAX / self.payload;
        let all = OUTSTANDING_BYTES_MAX / self.payload / self.subscribers;
        each.min(all).clamp(1, 8_192) as u64
    }

    /// The topics of a publisher: every this many-th one; if there are fewer topics than
    /// publishers, several publishers share one.
    fn topics_of(&self, publisher: usize) -> Vec<usize> {
        if self.topics < self.publishers {
            return vec![publisher % self.topics];
        }
        (publisher..self.topics).step_by(self.publishers).collect()
    }

    fn load(&self) -> Load<'_> {
        self.load_telling(&|| ())
    }

    fn load_telling<'a>(&'a self, at_start: &'a dyn Fn()) -> Load<'a> {
        Load {
            plan: self,
            at_start,
            window_max: if self.rate == Rate::Max {
                self.window_max()
            } else {
                0
            },
        }
    }

    fn subscribers_per_topic(&self) -> f64 {
        match self.all {
            true => self.subscribers as f64,
            false => self.subscribers as f64 / self.publishers as f64,
        }
    }

    /// Publishers that each subscriber hears.
    fn heard(&self) -> f64 {
        if self.all {
            self.publishers as f64
        } else {
            1.0
        }
    }

    /// Deliveries per second that the schedule demands.
    fn offered(&self) -> Option<f64> {
        match self.rate {
            Rate::Paced(rate) => Some(rate * self.subscribers as f64 * self.heard()),
            Rate::Max => None,
        }
    }

    fn evaluate(&self, outcome: Outcome) -> Leg {
        let mut leg = Leg {
            faults: outcome.faults,
            failed: outcome.disconnected + outcome.unacknowledged,
            series: outcome.series,
            ..Leg::default()
        };
        let rate = outcome.deliveries as f64 / outcome.seconds;
        let each = |cpu_s: f64| cpu_s * 1e6 / (outcome.deliveries.max(1)) as f64;
        leg.push(DELIVERIES, rate);
        if self.rate == Rate::Max {
            leg.figures[0].0.against_floor = true;
            leg.push(WINDOW, outcome.window as f64);
        }
        leg.push(CPU, outcome.server_cpu_s.map(each));
        push_latency(
            &mut leg,
            outcome.latency,
            &[(P50, 0.5), (P99, 0.99), (P999, 0.999)],
        );
        push_cpu(&mut leg, outcome.server_cpu_s, outcome.seconds);
        leg.push(RSS, outcome.usage.map(|usage| usage.rss as f64));
        push_link(&mut leg, rate, self.payload);
        leg.push(GENERATOR, each(outcome.generator_cpu_s));
        outcome.generator.push(&mut leg, outcome.server_cpu_s);
        for (number, came) in outcome.groups.iter().enumerate() {
            came.push(&mut leg, number, self.payload);
        }
        if let Some(offered) = self.offered() {
            let unsent = outcome.unsent as f64 * self.subscribers_per_topic();
            let pace = Pace {
                lateness: &outcome.lateness,
                due: offered * outcome.seconds,
                came: outcome.deliveries as f64,
                edge: self.subscribers as f64 * self.heard(),
                after_end: outcome.after_end as f64 + unsent,
                unsent: outcome.unsent,
            };
            pace.judge(&mut leg);
        }
        leg.behind = leg.behind.take().or(outcome.uncleared);
        leg
    }
}

impl Fanout {
    fn title(&self) -> String {
        let rate = match (self.rate, self.ramp) {
            (Rate::Paced(rate), None) => format!("{rate} msg/s"),
            (Rate::Paced(rate), Some(plan)) => {
                format!("{rate} msg/s and {} more again and again", plan.step)
            }
            (Rate::Max, _) => "as fast as lossless".into(),
        };
        format!(
            "{}: {} publishers × {rate} × {} B to {} subscribers ({:.0} per topic), QoS {}{}, MQTT {}",
            named(self.preset, self.published.is_some()),
            self.publishers,
            count(self.payload),
            count(self.subscribers),
            self.subscribers_per_topic(),
            self.qos,
            if self.retain { ", RETAIN" } else { "" },
            self.version.as_str(),
        )
    }

    fn plan(&self) -> Vec<String> {
        let publish = match self.rate {
            Rate::Paced(rate) if self.ramp.is_some() => format!(
                "publish {rate} messages/s per publisher by the clock, then more, step by step, \
                 until the server does not carry it or p99 is beyond the bound"
            ),
            Rate::Paced(rate) => format!(
                "publish {rate} messages/s per publisher by the clock: {} deliveries/s",
                grouped(rate * self.subscribers as f64)
            ),
            Rate::Max => format!(
                "keep a window of messages outstanding per publisher until the slowest subscriber \
                 has them; {}",
                self.window.map_or_else(
                    || format!("find the best window by ramping 1…{}", self.window_max()),
                    |window| format!("window {window}")
                )
            ),
        };
        let processes = self.groups.map_or_else(String::new, |[b, c]| {
            format!(" in two processes, {} and {}", count(b), count(c))
        });
        vec![
            format!(
                "open {} subscribers{processes}, one topic each, and wait for every SUBACK",
                count(self.subscribers)
            ),
            format!(
                "open {} publishers, each on a topic of its own",
                self.publishers
            ),
            publish,
            format!(
                "warm up {:.0} s, measure {:.0} s, wait for what is still on its way",
                self.warmup.as_secs_f64(),
                self.seconds.as_secs_f64()
            ),
            "check loss, duplicates and order by sequence numbers; latency from the intended \
             send time"
                .into(),
        ]
    }
}

impl Workload for Fanout {
    fn sheet(&self) -> Sheet {
        let (rate, floor, pairs) = match self.rate {
            Rate::Paced(rate) if self.ramp.is_some() => (json!(rate), FloorKind::Send, 1),
            Rate::Paced(rate) => (json!(rate), FloorKind::Send, 5),
            Rate::Max => (json!("max"), FloorKind::Batch, 3),
        };
        Sheet {
            name: "fanout",
            title: self.title(),
            parameters: members(json!({
                "preset": self.preset,
                "publishers": self.publishers,
                "subscribers": self.subscribers,
                "rate_per_publisher": rate,
                "payload_bytes": self.payload,
                "qos": self.qos,
                "retain": self.retain,
                "version": self.version.as_str(),
                "warmup_seconds": self.warmup.as_secs_f64(),
                "seconds": self.seconds.as_secs_f64(),
                "workers": self.workers,
                "groups": self.groups,
                "window": self.window,
                "ramp_step": self.ramp.map(|plan| plan.step),
                "bound_ms": self.ramp.map(|plan| plan.bound.as_millis() as u64),
            })),
            floors: vec![floor],
            needs: Needs {
                silence: self.warmup + self.seconds,
                ..Needs::new(
                    self.publishers + self.subscribers,
                    self.payload,
                    self.version,
                )
            },
            pairs,
            plan: self.plan(),
            published: self.published.clone(),
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        if let (Rate::Paced(rate), Some(plan)) = (self.rate, self.ramp) {
            return self.climb(rate, plan, running, progress);
        }
        if self.rate == Rate::Max && !self.windows.contains_key(&subject) {
            let window = match self.window {
                Some(window) => window.min(self.window_max()),
                None => self.load().ramp(running, progress)?,
            };
            self.windows.insert(subject, window);
        }
        let window = self.windows.get(&subject).copied().unwrap_or(0);
        let outcome = self.load().run(running, window, progress)?;
        Ok(self.evaluate(outcome))
    }
}

impl Fanout {
    /// Grows the rate to the breaking point, each step with subscribers of its own.
    fn climb(
        &self,
        first: f64,
        plan: Plan,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let mut climb = Climb::new("msg/s per publisher");
        let mut leg = Leg::default();
        for number in 0.. {
            let rate = first + f64::from(number) * plan.step as f64;
            let load = Self {
                rate: Rate::Paced(rate),
                ..self.clone()
            };
            let outcome = match load.load().run(running, 0, progress) {
                // It was there in the step before.
                Err(BenchError::Server(why) | BenchError::Broken(why)) if number > 0 => {
                    climb.take(Step {
                        size: rate as usize,
                        figures: Vec::new(),
                        verdict: Verdict::Failed(why),
                    });
                    climb.harm.push("live connections were lost".into());
                    leg.is_uncounted = true;
                    break;
                }
                outcome => outcome?,
            };
            if outcome.disconnected > 0 {
                let closed = grouped(outcome.disconnected as f64);
                climb.harm.push(format!("{closed} live connections broke"));
            }
            let step = load.evaluate(outcome);
            let p99_us = step.figure(P99.key);
            let verdict = match (step.verdict(), plan.too_late(p99_us)) {
                (Verdict::Sound, Some(why)) => Verdict::Failed(why),
                (verdict, _) => verdict,
            };
            let goes_on = climb.take(Step {
                size: rate as usize,
                figures: step.figures.clone(),
                verdict,
            });
            if !goes_on {
                leg.faults += step.faults;
                leg.failed += step.failed;
                break;
            }
            // What is shown is the last step that was carried; what was lost, of all.
            let (faults, failed) = (leg.faults, leg.failed);
            leg = step;
            leg.faults += faults;
            leg.failed += failed;
        }
        leg.climb = Some(climb);
        Ok(leg)
    }
}

/// What ICE Technology published in 2005 for the two scenarios.
fn published_ice(scenario: u8) -> Published {
    let source = "iPush V2 (ICE, 2005)";
    let mut notes = vec![
        "published: one Pentium 4 at 3.0 GHz for the server, two more machines for the clients",
        "published CPU is a share of the whole machine: compare it with \"CPU of machine\"",
    ];
    notes.push(if scenario == 1 {
        "published, clients' machines B / C: 1,500 / 1,500 subscribers, CPU 70 / 70 %, memory \
         45,720 / 45,720 KB, network 13 / 13 %; here they are processes"
    } else {
        "published, clients' machines B / C: 500 / 2,500 subscribers, CPU 40 / 80 %, memory \
         15,240 / 76,200 KB, network 2 / 11 %; here they are processes"
    });
    let mut figures = if scenario == 1 {
        vec![
            ("deliveries_per_s", 30_000.0),
            (MACHINE_CPU.key, 50.0),
            ("server_rss_bytes", 287_960.0 * 1_024.0),
            ("gigabit_share_percent", 26.0),
        ]
    } else {
        vec![
            ("deliveries_per_s", 105_000.0),
            (MACHINE_CPU.key, 45.0),
            ("server_rss_bytes", 342_172.0 * 1_024.0),
            ("gigabit_share_percent", 13.0),
        ]
    };
    figures.extend(match scenario {
        1 => group::published([70.0, 70.0], [45_720.0, 45_720.0]),
        _ => group::published([40.0, 80.0], [15_240.0, 76_200.0]),
    });
    Published {
        source,
        figures,
        notes,
    }
}
