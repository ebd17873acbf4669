//! A2, subscription handling: users log in, then each fires its subscriptions at once.

use std::time::Duration;

use mio::Poll;
use serde_json::json;

use super::{Scenario, count, named, run_id};
use crate::args::{Common, users};
use crate::clock::SECOND_NS;
use crate::error::{BenchError, Doing};
use crate::floor::FloorKind;
use crate::load::crowd::{self, Plan};
use crate::load::storm::{Ask, Goal, Outcome, Storm};
use crate::load::{self, histogram};
use crate::measure::{Leg, Metric, Series, Unit, push_latency};
use crate::meter::{GeneratorMeter, GeneratorUse};
use crate::process::{self, CpuMeter, Usage};
use crate::progress::Progress;
use crate::target::{Needs, Running};
use crate::wire::{Lasts, Version};
use crate::workload::{Published, Sheet, Workload, members};

const RATE: Metric =
    Metric::new("subscriptions_per_s", "subscriptions/s", Unit::PerSecond).against_floor();
const TOTAL: Metric = Metric::new("duration_us", "all in", Unit::Micros);
const P50: Metric = Metric::new("latency_p50_us", "p50", Unit::Micros);
const P99: Metric = Metric::new("latency_p99_us", "p99", Unit::Micros);
const CPU: Metric =
    Metric::new("cpu_per_subscription_us", "CPU/subscription", Unit::Micros).against_floor();
const RSS: Metric = Metric::new("server_rss_bytes", "RSS", Unit::Bytes);

/// Users, and subscriptions of each, whose figures were published.
const PUBLISHED: (usize, u16) = (100, 1_000);
/// Subscriptions at once: what there is memory for.
const TOTAL_MAX: u64 = 10_000_000;
/// Waits this long for connections.
const PATIENCE: Duration = Duration::from_secs(15);
/// The published table has seconds; this machine needs a finer one.
const BINS_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// 100 users × 1,000 subscriptions
    #[value(name = "ice-subscribe")]
    IceSubscribe,
}

/// The subscribers and their filters.
#[derive(Debug, clap::Args)]
pub(crate) struct SubscribeArgs {
    /// Published parameters; each can be changed by the options below
    #[arg(value_enum, default_value = "ice-subscribe")]
    preset: Preset,
    /// Users; at most 19,000
    #[arg(long, default_value_t = PUBLISHED.0, value_parser = users)]
    users: usize,
    /// Subscriptions of each user
    #[arg(long, default_value_t = PUBLISHED.1, value_parser = clap::value_parser!(u16).range(1..))]
    subscriptions: u16,
    /// Which topics the users name
    #[arg(long, value_enum, default_value = "distinct")]
    topics: Topics,
    /// Quality of service asked for
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Topics {
    /// All different
    Distinct,
    /// Every user names the same
    Shared,
    /// One after the other
    Both,
}

impl Scenario for SubscribeArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        let Preset::IceSubscribe = self.preset;
        let total = self.users as u64 * u64::from(self.subscriptions);
        if total > TOTAL_MAX {
            return Err(BenchError::usage(format!(
                "{} users with {} subscriptions each are {total} at once, of which every packet is \
                 made before; at most {TOTAL_MAX}",
                self.users, self.subscriptions
            )));
        }
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
        Ok(variants.iter().map(workload).collect())
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Subscribe {
    users: usize,
    /// Subscriptions of each user; at most 65,535, so that every packet id is used once.
    subscriptions: u16,
    /// All users subscribe to the same topics instead of different ones.
    shared_topics: bool,
    qos: u8,
    version: Version,
}

impl Subscribe {
    fn total(&self) -> u64 {
        self.users as u64 * u64::from(self.subscriptions)
    }

    fn is_published(&self) -> bool {
        (self.users, self.subscriptions) == PUBLISHED
    }

    /// What the filters of a user begin with.
    fn prefix(&self, run: &str, user: usize) -> String {
        match self.shared_topics {
            true => format!("bench/{run}/"),
            false => format!("bench/{run}/{user}/"),
        }
    }
}

impl Workload for Subscribe {
    fn sheet(&self) -> Sheet {
        let (users, each) = (self.users, count(self.subscriptions));
        let (version, total) = (self.version.as_str(), count(self.total()));
        let (topics, whose) = if self.shared_topics {
            ("shared", "shared by all users")
        } else {
            ("distinct", "all different")
        };
        Sheet {
            name: "subscribe",
            title: format!(
                "{}: {users} users × {each} subscriptions at once, topics {whose}, \
                 MQTT {version}",
                named("ice-subscribe", self.is_published())
            ),
            parameters: members(json!({
                "users": users,
                "subscriptions_per_user": self.subscriptions,
                "topics": topics,
                "qos": self.qos,
                "version": version,
            })),
            floors: vec![FloorKind::Keep, FloorKind::Acknowledge],
            needs: Needs::new(users, 0, self.version),
            pairs: 9,
            plan: vec![
                format!("log {users} users in and wait until all are"),
                format!(
                    "each sends {each} SUBSCRIBE packets of one filter at once: {total} in all"
                ),
                "one is complete when its own SUBACK has arrived and grants what was asked for; \
                 latency from the common start"
                    .into(),
            ],
            published: self.is_published().then(|| Published {
                source: "iPush V2 (ICE, 2005)",
                figures: vec![("subscriptions_per_s", 28_377.0), ("duration_us", 3.75e6)],
                notes: vec![
                    "published, second by second: 590 | 24,683 | 31,542 | 28,905 | 14,280; \
                     100,000 in 3.5–4 s, none failed",
                ],
            }),
            bars: Vec::new(),
        }
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let (plan, login, endpoint) = (
            self.clone(),
            running.login.clone(),
            running.endpoint.clone(),
        );
        let run = run_id();
        let pid = running.pid();
        let now = || "logging in and subscribing".to_owned();
        let (storm, cost, generator) = load::run("subscribers", progress, &now, move || {
            let mut poll = Poll::new().doing("open a poll")?;
            let crowd = crowd::open(
                &mut poll,
                &Plan {
                    endpoint: &endpoint,
                    login: &login,
                    version: plan.version,
                    count: plan.users,
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
            let prefix = |user| plan.prefix(&run, user);
            let ask = Ask {
                version: plan.version,
                subscriptions: plan.subscriptions,
                qos: plan.qos,
                prefix: &prefix,
                goal: Goal::Acknowledged,
            };
            let mut storm = Storm::new(crowd.complete()?, &ask);
            let meter = CpuMeter::start(pid);
            let generator = GeneratorMeter::start();
            let outcome = storm.run(&mut poll)?;
            let generator = generator.stop();
            // While the connections are still open: the server clears up when they end.
            let cost = (meter.used_s(), pid.and_then(process::usage));
            Ok((outcome, cost, generator))
        })?;
        let (server_cpu_s, usage) = cost;
        Ok(self.evaluate(storm, server_cpu_s, usage, generator))
    }
}

impl Subscribe {
    fn evaluate(
        &self,
        storm: Outcome,
        server_cpu_s: Option<f64>,
        usage: Option<Usage>,
        generator: GeneratorUse,
    ) -> Leg {
        let total = self.total();
        let seconds = storm.whole_s(total);
        let mut leg = Leg {
            failed: total - storm.completed,
            behind: storm.first_failure.clone(),
            ..Leg::default()
        };
        leg.push(RATE, seconds.map(|seconds| total as f64 / seconds));
        leg.push(TOTAL, seconds.map(|seconds| seconds * 1e6));
        let mut latency = histogram();
        for &at_ns in &storm.completed_ns {
            latency.saturating_record(at_ns);
        }
        push_latency(&mut leg, latency, &[(P50, 0.5), (P99, 0.99)]);
        let cpu_s = server_cpu_s.filter(|_| seconds.is_some());
        leg.push(CPU, cpu_s.map(|cpu| cpu * 1e6 / total as f64));
        leg.push(RSS, usage.map(|usage| usage.rss as f64));
        generator.push(&mut leg, server_cpu_s);
        leg.series = series(&storm);
        leg
    }
}

/// The published table, with steps of whole seconds or, if it is all over by then, of a round
/// fraction.
pub(crate) fn series(storm: &Outcome) -> Series {
    let mut step_ns = 1_000_000;
    for factor in [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000] {
        step_ns = factor * 1_000_000;
        if storm.duration_ns.div_ceil(step_ns) <= BINS_MAX as u64 {
            break;
        }
    }
    let bins = storm.duration_ns / step_ns + 1;
    let mut counts = vec![0; usize::try_from(bins).unwrap_or(0)];
    for at_ns in &storm.completed_ns {
        let bin = usize::try_from(at_ns / step_ns).unwrap_or(usize::MAX);
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    Series {
        step_s: step_ns as f64 / SECOND_NS as f64,
        counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_has_round_steps_and_holds_everything() {
        let storm = Outcome {
            completed: 3,
            completed_ns: vec![1, 29_999_999, 30_000_000],
            wrong: 0,
            first_failure: None,
            duration_ns: 30_000_000,
        };
        let series = series(&storm);
        assert!((series.step_s - 0.005).abs() < 1e-9);
        assert_eq!(series.counts.iter().sum::<u64>(), 3);
        assert_eq!(series.counts.len(), 7);
    }
}
