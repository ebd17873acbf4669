//! How old what a slow client reads is, while its topics change faster than it reads.

mod load;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{Scenario, count, run_id};
use crate::args::{Common, measured_seconds, payload_bytes, seconds};
use crate::clock::{SECOND_NS, as_ns, now_ns};
use crate::error::BenchError;
use crate::load::{join, run, spawn};
use crate::measure::{Leg, Metric, Unit, push_latency};
use crate::meter::push_link;
use crate::pace::Pace;
use crate::progress::Progress;
use crate::report::number::grouped;
use crate::target::{Needs, Running};
use crate::wire::Version;
use crate::workload::{Sheet, Workload, members};

use load::{Job, Seen, Sent};

const P50: Metric = Metric::new("age_p50_us", "age p50", Unit::Micros);
const P99: Metric = Metric::new("age_p99_us", "p99", Unit::Micros);
const MAX: Metric = Metric::new("age_max_us", "max", Unit::Micros);
const BACKLOG: Metric = Metric::new("age_at_end_us", "age at the end", Unit::Micros);
const READ: Metric = Metric::new("messages_read", "read", Unit::Count);
const SENT: Metric = Metric::new("messages_published", "published", Unit::Count);
const IN_TIME: Metric = Metric::new("in_time_percent", "of what was due", Unit::Percent);
const LEAST: Metric = Metric::new("turn_us", "one turn of all topics", Unit::Micros);

/// The result mentions a client that reads a smaller share of what it may.
const READ_MIN: f64 = 0.9;

/// The rate of the publisher, and that of the slow reader.
#[derive(Debug, clap::Args)]
pub(crate) struct SlowArgs {
    /// Topics that take turns
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    topics: u32,
    /// Messages per second, of all topics together
    #[arg(long, default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Bytes per message
    #[arg(long, default_value_t = 100, value_parser = payload_bytes)]
    payload: usize,
    /// Bytes per second that the client reads
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1_024..))]
    read: u32,
    /// Seconds to measure
    #[arg(long, default_value_t = 8.0, value_parser = measured_seconds)]
    seconds: f64,
    /// Seconds to run before measuring: until the buffers are full
    #[arg(long, default_value_t = 4.0, value_parser = seconds)]
    warmup: f64,
    #[command(flatten)]
    common: Common,
}

impl Scenario for SlowArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        Ok(vec![Box::new(Slow {
            topics: self.topics as usize,
            rate: self.rate,
            payload: self.payload,
            read: self.read,
            warmup: Duration::from_secs_f64(self.warmup),
            seconds: Duration::from_secs_f64(self.seconds),
            version: self.common.version,
        })])
    }
}

/// The load.
#[derive(Clone, Debug)]
struct Slow {
    topics: usize,
    rate: u32,
    payload: usize,
    /// Bytes per second.
    read: u32,
    warmup: Duration,
    seconds: Duration,
    version: Version,
}

impl Slow {
    /// Bytes of one message on the wire, about.
    fn message_bytes(&self) -> usize {
        self.payload + 40
    }

    /// The time in which a client that reads so slowly gets each topic once: newer is impossible
    /// for topics that take turns.
    fn turn_us(&self) -> f64 {
        (self.topics * self.message_bytes()) as f64 / f64::from(self.read) * 1e6
    }
}

impl Workload for Slow {
    fn sheet(&self) -> Sheet {
        let (topics, rate, read) = (count(self.topics), count(self.rate), count(self.read));
        let (payload, version) = (self.payload, self.version.as_str());
        let mut needs = Needs::new(2, payload, self.version);
        needs.silence = self.warmup + self.seconds;
        needs.config = "[[policy]]\nfilter = \"bench/#\"\nqos0 = \"conflate\"\n".into();
        Sheet {
            name: "slow",
            title: format!(
                "slow: {topics} topics, {rate} msg/s × {payload} B, a client that reads {read} \
                 B/s, MQTT {version}"
            ),
            parameters: members(json!({
                "topics": self.topics,
                "messages_per_s": self.rate,
                "payload_bytes": payload,
                "read_bytes_per_s": self.read,
                "warmup_seconds": self.warmup.as_secs_f64(),
                "seconds": self.seconds.as_secs_f64(),
                "version": version,
            })),
            floors: Vec::new(),
            needs,
            pairs: 3,
            plan: vec![
                "a client subscribes and reads at a limited rate, through a small buffer of its own"
                    .into(),
                "one publisher goes round all topics; this server conflates them, a rival does \
                 what it does"
                    .into(),
                "age: from the time a message should have left to the time it is read; then, with \
                 the publisher silent, the last message of each topic has to come, and never an \
                 older one after a newer one"
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
        let start_ns = now_ns() + SECOND_NS / 2;
        let from_ns = start_ns + as_ns(self.warmup);
        let job = Job {
            load: self.clone(),
            endpoint: running.endpoint.clone(),
            login: running.login.clone(),
            run: run_id(),
            pid: running.pid(),
            start_ns,
            measured_ns: from_ns..from_ns + as_ns(self.seconds),
        };
        let silent = Arc::new(AtomicBool::new(false));
        let (reading, is_silent) = (job.clone(), Arc::clone(&silent));
        let reader = spawn("reader", move || reading.read_slowly(&is_silent))?;
        let now = || "reading slowly".to_owned();
        let sent = run("publisher", progress, &now, move || job.publish());
        silent.store(true, Ordering::SeqCst);
        let seen = join(reader)??;
        Ok(self.evaluate(seen, &sent?))
    }
}

impl Slow {
    /// That the client was not as quick as it might have been, if it has read no more than this.
    fn unread(&self, bytes: u64) -> Option<String> {
        let (read, may) = (
            bytes as f64 / self.seconds.as_secs_f64(),
            f64::from(self.read),
        );
        (read < may * READ_MIN).then(|| {
            format!(
                "the client read {} B/s of {} B/s: no more came",
                grouped(read.round()),
                grouped(may)
            )
        })
    }

    fn evaluate(&self, seen: Seen, sent: &Sent) -> Leg {
        let mut leg = Leg::default();
        leg.faults.reordered = seen.older_after_newer;
        leg.faults.duplicated = seen.duplicated;
        leg.faults.corrupt = seen.foreign;
        let missing = sent
            .last
            .iter()
            .zip(&seen.last)
            .filter(|(sent, seen)| sent != seen);
        leg.faults.lost = missing.count() as u64;
        let max = (!seen.ages.is_empty()).then(|| seen.ages.max() as f64 / 1e3);
        push_latency(&mut leg, seen.ages, &[(P50, 0.5), (P99, 0.99)]);
        leg.push(MAX, max);
        leg.push(BACKLOG, seen.age_at_end_ns as f64 / 1e3);
        leg.push(LEAST, self.turn_us());
        leg.push(READ, seen.messages as f64);
        let seconds = self.seconds.as_secs_f64();
        push_link(&mut leg, seen.measured as f64 / seconds, self.payload);
        leg.notes.extend(self.unread(seen.bytes));
        leg.push(SENT, sent.messages as f64);
        leg.push(IN_TIME, sent.in_time as f64 / sent.due as f64 * 100.0);
        sent.generator.push(&mut leg, sent.server_cpu_s);
        let late = sent.due.saturating_sub(sent.in_time);
        let pace = Pace {
            lateness: &sent.lateness,
            due: sent.due as f64,
            came: sent.in_time as f64,
            edge: 1.0,
            after_end: late as f64,
            unsent: sent.unsent,
        };
        if let Some(why) = seen.broken.as_ref().or(sent.broken.as_ref()) {
            // No figures: what was lost with it, and how much of what was due came out.
            return Leg {
                faults: leg.faults,
                behind: Some(format!("{}, {why}", pace.in_time())),
                ..Leg::default()
            };
        }
        pace.judge(&mut leg);
        leg
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::histogram;
    use crate::measure::Verdict;
    use crate::meter::GeneratorUse;

    fn slow() -> Slow {
        Slow {
            topics: 1,
            rate: 10,
            payload: 100,
            read: 1_024,
            warmup: Duration::from_secs(4),
            seconds: Duration::from_secs(2),
            version: Version::V311,
        }
    }

    fn seen(last: u64) -> Seen {
        Seen {
            ages: histogram(),
            age_at_end_ns: 0,
            messages: 1_000,
            measured: 20,
            bytes: 2_048,
            last: vec![Some(last)],
            checkers: Vec::new(),
            older_after_newer: 0,
            duplicated: 0,
            foreign: 0,
            broken: None,
        }
    }

    fn sent(in_time: u64, late_ms: u64) -> Sent {
        let mut lateness = histogram();
        lateness.saturating_record(late_ms * 1_000_000);
        Sent {
            last: vec![Some(7)],
            messages: 8,
            lateness,
            due: 20,
            in_time,
            unsent: 0,
            server_cpu_s: None,
            generator: GeneratorUse {
                seconds: 2.0,
                cpu_percent: 10.0,
                busiest_thread: 0.1,
                rss: None,
            },
            broken: None,
        }
    }

    /// A server that dies has its share of what was due told as well.
    #[test]
    fn what_came_out_before_the_end_is_told() {
        let broken = Some("connection reset".to_owned());
        let seen = Seen {
            broken: Some("disconnected".into()),
            ..seen(6)
        };
        let leg = slow().evaluate(
            seen,
            &Sent {
                broken,
                ..sent(5, 1)
            },
        );
        let why = "1 lost, 25 % of what was due came out in time, disconnected";
        assert_eq!(leg.verdict(), Verdict::Failed(why.into()));
        assert!(leg.figures.is_empty());
    }

    #[test]
    fn only_the_seconds_measured_count() {
        let slow = slow();
        assert_eq!(slow.sheet().parameters["warmup_seconds"], 4.0);
        let leg = slow.evaluate(seen(7), &sent(20, 1));
        assert_eq!(leg.figure("payload_bytes_per_s"), Some(1_000.0));
    }

    #[test]
    fn a_client_that_got_less_than_it_may_read_is_told() {
        for (bytes, told) in [(2_048, false), (1_850, false), (1_500, true)] {
            let seen = Seen { bytes, ..seen(7) };
            let leg = slow().evaluate(seen, &sent(20, 1));
            assert_eq!(!leg.notes.is_empty(), told, "{bytes} {:?}", leg.notes);
        }
        let told = slow().unread(1_500).unwrap();
        assert!(told.contains("read 750 B/s of 1,024 B/s"), "{told}");
    }

    /// What the publisher could not do is not the server's; what the server did not take is.
    #[test]
    fn the_load_is_judged_like_any_other() {
        for (last, in_time, late_ms, expected) in [
            (7, 20, 1, "sound"),
            (7, 10, 1, "failed"),
            (7, 10, 60, "generator-limited"),
            (7, 20, 60, "generator-limited"),
            (6, 20, 60, "failed"),
        ] {
            let leg = slow().evaluate(seen(last), &sent(in_time, late_ms));
            let verdict = leg.verdict();
            assert_eq!(verdict.word(), expected, "{last} {in_time} {late_ms}");
        }
        let leg = slow().evaluate(seen(7), &sent(10, 1));
        assert_eq!(leg.figure("in_time_percent"), Some(50.0));
        let why = "50 % of what was due came out in time";
        assert_eq!(leg.verdict(), Verdict::Failed(why.into()));
    }
}
