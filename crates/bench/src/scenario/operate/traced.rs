//! What the others of a fan-out cost while one of its clients is traced.

use std::time::Duration;

use serde_json::json;

use super::Base;
use super::beside::ClientThreads;
use super::trio::{Told, Trio};
use crate::error::BenchError;
use crate::http::HttpApi;
use crate::measure::{Leg, Metric, Unit};
use crate::progress::Progress;
use crate::scenario::count;
use crate::scenario::fanout;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// The clients of the fan-out that subscribe have it in their names, and no other has.
const SUBSCRIBER: &str = "/api/v1/clients/ls?limit=1&containing=s-";
/// Until the fan-out has some.
const LOOK: Duration = Duration::from_millis(100);

const CPU: Told = Told {
    of: fanout::CPU,
    quiet: Metric::new("cpu_quiet_us", "CPU/delivery, quiet", Unit::Micros),
    with: Metric::new("cpu_traced_us", "traced", Unit::Micros),
    ratio: Metric::new(
        "cpu_traced_ratio",
        "CPU/delivery, traced to quiet",
        Unit::Ratio,
    ),
    control: Metric::new("cpu_control_ratio", "quiet to quiet", Unit::Ratio),
};
const LINES: Metric = Metric::new("traced_lines_count", "lines", Unit::Count);

const BARS: [Bar; 1] = [Bar {
    key: CPU.ratio.key,
    limit: Limit::AtMost(1.01),
    control: Some(CPU.control.key),
}];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) base: Base,
    pub(super) subscribers: usize,
}

impl Workload for Traced {
    fn sheet(&self) -> Sheet {
        let does = format!(
            "a trace of one of {} subscribers, beside {} deliveries/s",
            count(self.subscribers),
            count(self.subscribers * 35)
        );
        let others = self.base.fanout(self.subscribers).connections();
        let more = json!({ "subscribers": self.subscribers });
        self.base.sheet("traced", &does, others, more).with(
            &[
                "open the idle clients",
                "measure a fan-out as ice-2 has it: CPU per delivery",
                "measure it again while an event stream traces one of the subscribers; what the \
                 trace itself costs counts too",
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
        let (trio, seen) = Trio::measure(measure, || trace(&api), ClientThreads::end)?;
        trio.tell(&mut leg, &CPU);
        let lines: u64 = seen.iter().sum();
        leg.push(LINES, lines as f64);
        trio.end(&mut leg);
        if lines == 0 {
            leg.failed += 1;
            let why = || "the trace has told nothing".to_owned();
            leg.behind.get_or_insert_with(why);
        }
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

/// Traces the first subscriber that comes; the events of the trace.
fn trace(api: &HttpApi) -> Result<ClientThreads<u64>, BenchError> {
    let mut threads = ClientThreads::new();
    let at = api.clone();
    threads.add("tracer", move |stop| {
        let mut http = at.connect()?;
        while stop.wait(LOOK) {
            let found = http.get(SUBSCRIBER)?.json();
            if let Some(client_id) = found["clients"][0]["client_id"].as_str() {
                let path = format!("/api/v1/traces/stream?client_id={client_id}");
                let events = http.stream(&path)?.count(|| stop.is_set())?;
                // The first one says that it has begun.
                return Ok(events.saturating_sub(1));
            }
        }
        Ok(0)
    })?;
    Ok(threads)
}
