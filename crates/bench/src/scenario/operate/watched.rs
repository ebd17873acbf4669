//! What a fan-out notices of a scrape and five event streams each second.

use serde_json::json;

use super::Base;
use super::beside::ClientThreads;
use super::scrape::scrape;
use super::trio::{Told, Trio};
use crate::clock::{SECOND_NS, now_ns};
use crate::error::BenchError;
use crate::http::HttpApi;
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::scenario::count;
use crate::scenario::fanout;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// Event streams of figures, each with an event a second.
const STREAMS: usize = 5;
const STREAM: &str = "/api/v1/status/stream?interval_ms=1000";

const CPU: Told = Told {
    of: fanout::CPU,
    quiet: Metric::new("cpu_quiet_us", "CPU/delivery, quiet", Unit::Micros),
    with: Metric::new("cpu_watched_us", "watched", Unit::Micros),
    ratio: Metric::new(
        "cpu_watched_ratio",
        "CPU/delivery, watched to quiet",
        Unit::Ratio,
    ),
    control: Metric::new("cpu_control_ratio", "quiet to quiet", Unit::Ratio),
};
const P99: Told = Told {
    of: fanout::P99,
    quiet: Metric::new("latency_p99_quiet_us", "p99, quiet", Unit::Micros),
    with: Metric::new("latency_p99_watched_us", "watched", Unit::Micros),
    ratio: Metric::new(
        "latency_p99_watched_ratio",
        "p99, watched to quiet",
        Unit::Ratio,
    ),
    control: Metric::new("latency_p99_control_ratio", "quiet to quiet", Unit::Ratio),
};
const SCRAPES: Metric = Metric::new("scrapes_count", "scrapes", Unit::Count);
const EVENTS: Metric = Metric::new("events_count", "events", Unit::Count);

const BARS: [Bar; 2] = [
    Bar {
        key: CPU.ratio.key,
        limit: Limit::AtMost(1.02),
        control: Some(CPU.control.key),
    },
    Bar {
        key: P99.ratio.key,
        limit: Limit::AtMost(1.10),
        control: Some(P99.control.key),
    },
];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) base: Base,
    pub(super) subscribers: usize,
}

impl Workload for Watched {
    fn sheet(&self) -> Sheet {
        let load = self.base.fanout(self.subscribers);
        let does = format!(
            "a scrape and {STREAMS} event streams a second, beside {} deliveries/s",
            count(self.subscribers * 35)
        );
        let more = json!({ "subscribers": self.subscribers, "streams": STREAMS });
        let sheet = self.base.sheet("watched", &does, load.connections(), more);
        sheet.with(
            &[
                "open the idle clients",
                "measure a fan-out as ice-2 has it: CPU per delivery, and the delay",
                "measure it again while the metrics are read once a second on one connection, and \
                 five event streams tell the status once a second",
                "measure it a third time, quiet again",
            ],
            &BARS,
        )
    }

    fn leg(
        &mut self,
        _subject: usize,
        running: &mut Running,
        progress: &Progress,
    ) -> Result<Leg, BenchError> {
        let mut leg = self.base.leg();
        let idle = self.base.crowd(running, progress)?;
        let api = HttpApi::open(running)?;
        let load = self.base.fanout(self.subscribers);
        let measure = || load.run(running, progress, &|| ());
        let (trio, seen) = Trio::measure(measure, || watch(&api), ClientThreads::end)?;
        trio.tell(&mut leg, &CPU);
        trio.tell(&mut leg, &P99);
        let scrapes = seen.first().copied().unwrap_or(0);
        let events: u64 = seen.iter().skip(1).sum();
        leg.push(SCRAPES, scrapes as f64);
        leg.push(EVENTS, events as f64);
        trio.end(&mut leg);
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

/// Begins to watch: first the scrapes, then the streams, each of which is counted.
fn watch(api: &HttpApi) -> Result<ClientThreads<u64>, BenchError> {
    let mut threads = ClientThreads::new();
    let at = api.clone();
    threads.add("scraper", move |stop| {
        let mut http = at.connect()?;
        let (mut scrapes, mut next_ns) = (0, now_ns());
        while stop.wait_until(next_ns) {
            scrape(&mut http)?;
            scrapes += 1;
            next_ns += SECOND_NS;
        }
        Ok(scrapes)
    })?;
    for _ in 0..STREAMS {
        let at = api.clone();
        threads.add("stream", move |stop| {
            let events = at.connect()?.stream(STREAM)?;
            events.count(|| stop.is_set())
        })?;
    }
    Ok(threads)
}
