//! What a scrape of the metrics costs.

use std::time::Duration;

use serde_json::json;

use super::Base;
use crate::clock::{SECOND_NS, as_ns, now_ns, sleep_until_ns};
use crate::error::BenchError;
use crate::http::{Http, HttpApi};
use crate::load;
use crate::measure::{Leg, Metric, Unit};
use crate::process::CpuMeter;
use crate::progress::Progress;
use crate::target::Running;
use crate::workload::{Bar, Limit, Sheet, Workload};

/// Scrapes of each half.
const SCRAPES: u32 = 50;
/// For how long the server is left alone before, at most.
const QUIET: Duration = Duration::from_secs(2);

const CPU: Metric = Metric::new("scrape_cpu_us", "CPU/scrape", Unit::Micros);
const CONTROL: Metric = Metric::new("scrape_control_ratio", "half to half", Unit::Ratio);
const TIME: Metric = Metric::new("scrape_us", "time/scrape", Unit::Micros);
const BYTES: Metric = Metric::new("scrape_bytes", "bytes/scrape", Unit::Bytes);
const SERIES: Metric = Metric::new("series_count", "series", Unit::Count);

const BARS: [Bar; 3] = [
    Bar {
        key: CPU.key,
        limit: Limit::AtMost(5_000.0),
        control: Some(CONTROL.key),
    },
    Bar {
        key: BYTES.key,
        limit: Limit::AtMost(204_800.0),
        control: None,
    },
    Bar {
        key: SERIES.key,
        limit: Limit::AtMost(2_000.0),
        control: None,
    },
];

/// The load.
#[derive(Clone, Debug)]
pub(super) struct Scrape {
    pub(super) base: Base,
}

impl Workload for Scrape {
    fn sheet(&self) -> Sheet {
        let does = format!("the metrics, {SCRAPES} times and as often again");
        let more = json!({ "scrapes": SCRAPES });
        let mut sheet = self.base.sheet("scrape", &does, 0, more).with(
            &[
                "open the idle clients",
                "leave the server alone, and see what processor time it takes",
                "read /metrics on one connection, one time after the other: processor time of the \
                 server beyond that, bytes and series",
            ],
            &BARS,
        );
        sheet.pairs = 3;
        sheet
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
        let quiet = self.base.seconds.min(QUIET);
        let pid = running.pid();
        let now = || "scraping".to_owned();
        let (halves, page) = load::run("scraper", progress, &now, move || {
            let mut http = api.connect()?;
            // The first one makes what later ones find.
            let page = scrape(&mut http)?;
            let at_rest = Half::of(pid, || {
                sleep_until_ns(now_ns() + as_ns(quiet));
                Ok(())
            })?;
            let mut half = || {
                let half = Half::of(pid, || {
                    (0..SCRAPES).try_for_each(|_| scrape(&mut http).map(drop))
                })?;
                Ok((
                    half.each_us(&at_rest),
                    half.seconds * 1e6 / f64::from(SCRAPES),
                ))
            };
            Ok(([half()?, half()?], page))
        })?;
        let [(first, first_us), (second, second_us)] = halves;
        leg.push(
            CPU,
            first.zip(second).map(|(one, other)| one.midpoint(other)),
        );
        let ratio = first.zip(second).map(|(first, second)| second / first);
        leg.push(CONTROL, ratio);
        leg.push(TIME, first_us.midpoint(second_us));
        leg.push(BYTES, page.len() as f64);
        leg.push(SERIES, series(&page) as f64);
        idle.end(&mut leg)?;
        Ok(leg)
    }
}

/// What the server has used in some time.
struct Half {
    used_s: Option<f64>,
    seconds: f64,
}

impl Half {
    fn of(
        pid: Option<u32>,
        work: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let (meter, begun_ns) = (CpuMeter::start(pid), now_ns());
        work()?;
        let seconds = (now_ns() - begun_ns).max(1) as f64 / SECOND_NS as f64;
        let used_s = meter.used_s();
        Ok(Self { used_s, seconds })
    }

    /// What each scrape has used, beyond what the server uses anyway.
    fn each_us(&self, at_rest: &Self) -> Option<f64> {
        let rest_s = at_rest.used_s? / at_rest.seconds * self.seconds;
        let used_s = (self.used_s? - rest_s).max(0.0);
        Some(used_s * 1e6 / f64::from(SCRAPES))
    }
}

/// The whole page.
///
/// # Errors
/// When the server does not answer, or refuses.
pub(super) fn scrape(http: &mut Http) -> Result<Vec<u8>, BenchError> {
    let answer = http.get("/metrics")?;
    match answer.status {
        200 => Ok(answer.body),
        status => {
            let why = format!("/metrics answers with the status {status}");
            Err(BenchError::broken(why))
        }
    }
}

/// The lines of a page that are figures.
fn series(page: &[u8]) -> usize {
    let lines = page.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_uses_anyway_is_no_cost_of_a_scrape() {
        let half = |used_s, seconds| Half { used_s, seconds };
        let at_rest = half(Some(0.02), 2.0);
        // A tenth of a second, of which 10 ms were for something else.
        let each = half(Some(0.11), 1.0)
            .each_us(&at_rest)
            .expect("it is known");
        assert!((each - 2_000.0).abs() < 1e-6, "{each}");
        assert_eq!(half(Some(0.001), 1.0).each_us(&at_rest), Some(0.0));
        assert_eq!(half(None, 1.0).each_us(&at_rest), None);
    }

    #[test]
    fn series_are_lines_with_figures() {
        let page = "# HELP a b\n# TYPE a gauge\na 1\na{b=\"c\"} 2\n\n# EOF\n";
        assert_eq!(series(page.as_bytes()), 2);
    }
}
