//! A load of one's own: this many topics, publishers and subscribers, and a verdict in a sentence.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::idle::CONNECTIONS_PER_WORKER;
use super::super::{Scenario, count};
use super::{DELIVERIES, Fanout, Manner, P50, P99, RSS, Rate};
use crate::args::{Common, clients, payload_bytes};
use crate::error::BenchError;
use crate::measure::{Leg, SERVER_CPU, Unit, Verdict};
use crate::progress::Progress;
use crate::report::number::{figure, grouped};
use crate::runner::{Outcome, Results};
use crate::target::Running;
use crate::workload::{Sheet, Workload, members};

/// What the workload is called.
const NAME: &str = "mine";
/// Bytes of messages that the publishers keep ready, one for each topic.
const READY_BYTES_MAX: usize = 256 << 20;
/// Streams that the subscribers check: each subscriber one of each publisher.
const STREAMS_MAX: usize = 10_000_000;

/// Readers who know their load ask with it.
#[derive(Debug, clap::Args)]
pub(crate) struct MineArgs {
    /// Topics, spread over the publishers; if there are fewer, several publishers share one
    #[arg(long, default_value_t = 100, value_parser = clients, allow_negative_numbers = true)]
    topics: usize,
    /// Publishers
    #[arg(long, default_value_t = 5, value_parser = clients, allow_negative_numbers = true)]
    publishers: usize,
    /// Subscribers, each of which gets all messages
    #[arg(long, default_value_t = 10, value_parser = clients, allow_negative_numbers = true)]
    subscribers: usize,
    /// Messages per second of all publishers together
    #[arg(long, default_value_t = 1_000.0, value_parser = rate, allow_negative_numbers = true)]
    rate: f64,
    /// Bytes per message
    #[arg(long, default_value_t = 100, value_parser = payload_bytes, allow_negative_numbers = true)]
    payload: usize,
    #[command(flatten)]
    manner: Manner,
    #[command(flatten)]
    common: Common,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=1e7).contains(&rate) => Ok(rate),
        _ => Err("a number of messages per second from 0.1 to 10000000".into()),
    }
}

impl Scenario for MineArgs {
    fn common(&self) -> &Common {
        &self.common
    }

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError> {
        self.check()?;
        Ok(vec![Box::new(Mine {
            rate: self.rate,
            load: self.load(),
        })])
    }
}

impl MineArgs {
    /// Refuses what makes no sense.
    fn check(&self) -> Result<(), BenchError> {
        let refuse = |text: String| Err(BenchError::usage(text));
        let ready = self.topics.max(self.publishers);
        if ready.saturating_mul(self.payload) > READY_BYTES_MAX {
            return refuse(format!(
                "--topics times --payload is more than 256 MiB: give at most {} topics, or a \
                 smaller --payload",
                READY_BYTES_MAX / self.payload
            ));
        }
        if self.publishers.saturating_mul(self.subscribers) > STREAMS_MAX {
            return refuse(format!(
                "--publishers times --subscribers is more than 10,000,000: give at most {} \
                 publishers",
                grouped((STREAMS_MAX / self.subscribers) as f64)
            ));
        }
        let (publishers, seconds) = (self.publishers as f64, self.manner.seconds);
        if self.rate / publishers * seconds < 1.0 {
            return refuse(format!(
                "--rate {} is less than one message of each publisher in the {seconds} s that are \
                 measured: give --rate {} or more, or more --seconds",
                self.rate,
                (publishers / seconds * 10.0).ceil() / 10.0
            ));
        }
        Ok(())
    }

    fn load(&self) -> Fanout {
        Fanout {
            preset: NAME,
            publishers: self.publishers,
            subscribers: self.subscribers,
            rate: Rate::Paced(self.rate / self.publishers as f64),
            payload: self.payload,
            qos: self.manner.qos,
            retain: self.manner.retain,
            topics: self.topics,
            all: true,
            version: self.common.version,
            warmup: Duration::from_secs_f64(self.manner.warmup),
            seconds: Duration::from_secs_f64(self.manner.seconds),
            grace: Duration::from_secs(5),
            workers: self.subscribers.div_ceil(CONNECTIONS_PER_WORKER).max(1),
            groups: None,
            window: None,
            ramp: None,
            published: None,
            windows: HashMap::new(),
        }
    }
}

/// The load, and how it was asked for.
struct Mine {
    rate: f64,
    load: Fanout,
}

impl Workload for Mine {
    fn sheet(&self) -> Sheet {
        let load = &self.load;
        let (rate, subscribers) = (grouped(self.rate), count(load.subscribers));
        let title = format!(
            "mine: {} publishers, {rate} msg/s × {} B on {} topics to each of {subscribers} \
             subscribers, QoS {}{}, MQTT {}",
            count(load.publishers),
            count(load.payload),
            count(load.topics),
            load.qos,
            if load.retain { ", RETAIN" } else { "" },
            load.version.as_str(),
        );
        let mut plan = load.plan();
        plan[0] =
            format!("open {subscribers} subscribers of all topics, and wait for every SUBACK");
        let (publishers, topics) = (count(load.publishers), count(load.topics));
        plan[1] = match load.topics < load.publishers {
            true => format!("open {publishers} publishers, which share {topics} topics"),
            false => format!("open {publishers} publishers, whose {topics} topics take turns"),
        };
        plan[2] = format!("publish {rate} messages/s by the clock");
        Sheet {
            name: NAME,
            title,
            parameters: members(json!({
                "topics": load.topics,
                "publishers": load.publishers,
                "subscribers": load.subscribers,
                "rate": self.rate,
                "payload_bytes": load.payload,
                "qos": load.qos,
                "retain": load.retain,
                "version": load.version.as_str(),
                "warmup_seconds": load.warmup.as_secs_f64(),
                "seconds": load.seconds.as_secs_f64(),
            })),
            // It makes other system calls than a floor: each of its subscribers gets all.
            floors: Vec::new(),
            pairs: 1,
            plan,
            ..load.sheet()
        }
    }

    fn leg(
        &mut self,
        subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        self.load.leg(subject, running, progress)
    }
}

/// How much of the machine's processors that is, of a hundred for each.
fn processors(percent: f64) -> String {
    match percent {
        ..1.0 => "less than 1 % of one processor".to_owned(),
        ..99.5 => format!("{percent:.0} % of one processor"),
        _ => format!("{:.1} processors", percent / 100.0),
    }
}

/// Of a server's processors, the share in percent below which it is not they that were too few.
const IDLE_PERCENT: f64 = 60.0;

/// Whether a server was only too slow, and used far less than the processors that it had. What is
/// unknown does not count.
fn is_idle(sheet: &Sheet, outcome: &Outcome) -> bool {
    let is_slow = outcome
        .loss()
        .is_none_or(|(faults, _)| faults.total() == faults.lost);
    let cpu_percent = outcome.spread(SERVER_CPU.key).filter(|_| is_slow);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let placement = sheet.parameters.get("placement").and_then(Value::as_str);
    cpu_percent
        .is_some_and(|percent| percent.median < IDLE_PERCENT * own_processors(placement, all))
}

/// How many of all processors a server has.
fn own_processors(placement: Option<&str>, all: usize) -> f64 {
    match placement {
        Some("apart") => (all / 2).max(1) as f64,
        Some("together") => 1.0,
        _ => all as f64,
    }
}

/// What came of it, for whoever asked: a sentence or two about each server.
pub(crate) fn sentences(sheet: &Sheet, results: &Results) -> Vec<String> {
    if sheet.name != NAME {
        return Vec::new();
    }
    let servers = results.servers.iter();
    servers.map(|server| verdict(sheet, server)).collect()
}

fn verdict(sheet: &Sheet, outcome: &Outcome) -> String {
    let name = &outcome.name;
    let median = |key: &str| outcome.spread(key).map(|spread| spread.median);
    let shown = |key: &str, unit| median(key).map(|value| figure(value, unit));
    let count = |key: &str| {
        grouped(
            sheet
                .parameters
                .get(key)
                .and_then(Value::as_f64)
                .unwrap_or(0.0),
        )
    };
    let deliveries = shown(DELIVERIES.key, Unit::PerSecond).unwrap_or_default();
    let rate = count("rate");
    match outcome.verdict() {
        Verdict::Sound => {
            let mut text = format!(
                "Yes: {name} carries your load. {rate} messages a second came in, {deliveries} went \
                 out, and nothing was lost"
            );
            if let (Some(p50), Some(p99)) =
                (shown(P50.key, Unit::Micros), shown(P99.key, Unit::Micros))
            {
                text += &format!("; half of them took less than {p50}, 99 % less than {p99}");
            }
            if let (Some(cpu), Some(rss)) = (median(SERVER_CPU.key), shown(RSS.key, Unit::Bytes)) {
                text += &format!("; it used {} and {rss} of memory", processors(cpu));
            }
            format!("{text}.")
        }
        Verdict::GeneratorLimited(why) => format!(
            "Nobody knows: the load generator was the limit ({why}), and not {name}, which \
             delivered {deliveries} messages a second. Ask with a smaller --rate, or measure a \
             server on another machine (--target)."
        ),
        Verdict::Failed(why) if is_idle(sheet, outcome) => format!(
            "No: {name} did not carry your load this time ({why}). But it used only {}: the machine \
             was busy with other things, or a limit of the server was met, which its log names. \
             Ask again while nothing else runs here, or measure a server on another machine \
             (--target).",
            processors(median(SERVER_CPU.key).unwrap_or(0.0)),
        ),
        Verdict::Failed(why) => format!(
            "No: {name} does not carry your load on this machine ({why}). {rate} messages a second \
             to {} subscribers are too many; ask with a smaller --rate or fewer --subscribers.",
            count("subscribers")
        ),
        Verdict::NotRun(why) => format!("Nobody knows: it could not run ({why})."),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: MineArgs,
    }

    #[test]
    fn a_server_has_the_processors_that_its_placement_says() {
        assert_eq!(own_processors(Some("apart"), 8), 4.0);
        assert_eq!(own_processors(Some("apart"), 1), 1.0);
        assert_eq!(own_processors(Some("together"), 8), 1.0);
        assert_eq!(own_processors(Some("free"), 8), 8.0);
    }

    /// The rate is not to blame where the server had little to do.
    #[test]
    fn a_machine_that_was_busy_with_other_things_is_said_to_be() {
        let args = Alone::try_parse_from(["mine"]).unwrap().args;
        let mut sheet = args.workloads().unwrap()[0].sheet();
        sheet
            .parameters
            .insert("placement".into(), "together".into());
        for (cpu, begins) in [
            (36.0, "No: stentor did not"),
            (98.0, "No: stentor does not"),
        ] {
            let mut leg = Leg::default();
            leg.push(SERVER_CPU, Some(cpu));
            leg.behind = Some("late".into());
            let outcome = Outcome {
                name: "stentor".into(),
                identity: Value::Null,
                floor: None,
                legs: vec![Ok(leg)],
            };
            let text = verdict(&sheet, &outcome);
            assert!(text.starts_with(begins), "{text}");
            let is_said = text.contains("busy with other things");
            assert_eq!(is_said, cpu < 50.0, "{text}");
        }
    }

    #[test]
    fn a_share_of_a_processor_is_told_as_one() {
        for (percent, expected) in [
            (0.2, "less than 1 % of one processor"),
            (4.0, "4 % of one processor"),
            (99.4, "99 % of one processor"),
            (99.6, "1.0 processors"),
            (250.0, "2.5 processors"),
        ] {
            assert_eq!(processors(percent), expected);
        }
    }
}
