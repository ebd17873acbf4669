//! What one measurement yields, the same for all workloads.

use hdrhistogram::Histogram;
use nix::unistd::{SysconfVar, sysconf};
use serde_json::{Value, json};

use crate::ramp::Climb;
use crate::sampler::Sample;
use crate::sequence::Faults;

/// What a number counts; decides how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Events per second.
    PerSecond,
    /// Microseconds; shown as µs, ms or s.
    Micros,
    /// Bytes; shown as KiB and so on.
    Bytes,
    /// Bytes per second; shown as KiB/s and so on.
    BytesPerSecond,
    /// Hundredths.
    Percent,
    /// How many times as much.
    Ratio,
    /// A plain number.
    Count,
}

impl Unit {
    /// As in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::PerSecond => "per_s",
            Self::Micros => "us",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes_per_s",
            Self::Percent => "percent",
            Self::Ratio => "ratio",
            Self::Count => "count",
        }
    }

    /// The unit of that word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let units = [
            Self::PerSecond,
            Self::Micros,
            Self::Bytes,
            Self::BytesPerSecond,
            Self::Percent,
            Self::Ratio,
            Self::Count,
        ];
        units.into_iter().find(|unit| unit.as_str() == word)
    }
}

/// A name under which a figure is known in tables and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// In JSON; the unit is its last word.
    pub(crate) key: &'static str,
    /// In tables.
    pub(crate) label: &'static str,
    pub(crate) unit: Unit,
    /// Whether the ratio to the floor says something.
    pub(crate) against_floor: bool,
}

impl Metric {
    pub(crate) const fn new(key: &'static str, label: &'static str, unit: Unit) -> Self {
        Self {
            key,
            label,
            unit,
            against_floor: false,
        }
    }

    pub(crate) const fn against_floor(mut self) -> Self {
        self.against_floor = true;
        self
    }
}

/// Whether a measurement may be believed, and what it says about the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// Everything arrived once and in order.
    Sound,
    /// The generator could not do more: the server's figure is a lower bound.
    GeneratorLimited(String),
    /// Nothing was measured.
    NotRun(String),
    /// Loss, duplicates, wrong order, lost connections, or too slow for the offered load.
    Failed(String),
}

impl Verdict {
    /// As in JSON and tables.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::GeneratorLimited(_) => "generator-limited",
            Self::NotRun(_) => "not-run",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether a word in JSON stands for a verdict.
    pub(crate) fn is_word(word: &str) -> bool {
        let all = [
            Self::Sound,
            Self::GeneratorLimited(String::new()),
            Self::NotRun(String::new()),
            Self::Failed(String::new()),
        ];
        all.iter().any(|verdict| verdict.word() == word)
    }

    /// For the JSON.
    pub(crate) fn object(&self) -> Value {
        let why = match self {
            Self::Sound => None,
            Self::GeneratorLimited(why) | Self::NotRun(why) | Self::Failed(why) => Some(why),
        };
        json!({ "result": self.word(), "why": why })
    }
}

/// Counts over equal steps of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) step_s: f64,
    pub(crate) counts: Vec<u64>,
}

/// One measurement of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leg {
    /// `None` where a figure could not be had.
    pub(crate) figures: Vec<(Metric, Option<f64>)>,
    pub(crate) faults: Faults,
    /// Connections and requests that failed.
    pub(crate) failed: u64,
    /// The server was gone before what it had lost could be counted; the figures are of before.
    pub(crate) is_uncounted: bool,
    /// The offered load was not carried: how so.
    pub(crate) behind: Option<String>,
    /// The generator was the limit: how so.
    pub(crate) limited: Option<String>,
    /// What a reader has to know beside the verdict.
    pub(crate) notes: Vec<String>,
    pub(crate) series: Series,
    /// In nanoseconds.
    pub(crate) latency: Option<Histogram<u64>>,
    /// The steps of a load that grew; then it is they that decide the verdict.
    pub(crate) climb: Option<Climb>,
    /// CPU and memory over time, from the opening of the connections on.
    pub(crate) samples: Vec<Sample>,
}

impl Leg {
    /// Skips a value that is negative or not a number: a clock was read at the wrong moment.
    pub(crate) fn push(&mut self, metric: Metric, value: impl Into<Option<f64>>) {
        let value = value
            .into()
            .filter(|value| value.is_finite() && *value >= 0.0);
        self.figures.push((metric, value));
    }

    pub(crate) fn figure(&self, key: &str) -> Option<f64> {
        self.figures
            .iter()
            .find(|(metric, _)| metric.key == key)
            .and_then(|(_, value)| *value)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if let Some(climb) = &self.climb {
            return climb.verdict();
        }
        let failed = (self.failed > 0).then_some((self.failed, "failed"));
        let faults = self.faults.told().chain(failed);
        let wrong: Vec<String> = faults
            .map(|(count, what)| format!("{count} {what}"))
            .chain(self.behind.clone())
            .collect();
        if !wrong.is_empty() {
            return Verdict::Failed(wrong.join(", "));
        }
        self.limited
            .clone()
            .map_or(Verdict::Sound, Verdict::GeneratorLimited)
    }
}

/// The server's share of one processor.
pub(crate) const SERVER_CPU: Metric = Metric::new("server_cpu_percent", "CPU", Unit::Percent);

/// The server's share of all processors of this machine: what was published of others is such a
/// share. [`SERVER_CPU`] is that of one processor.
pub(crate) const MACHINE_CPU: Metric =
    Metric::new("machine_cpu_percent", "CPU of machine", Unit::Percent);

/// How many processors this machine has, wherever this thread may run.
pub(crate) fn processors() -> f64 {
    let processors = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    processors.unwrap_or(1).max(1) as f64
}

/// The share of one processor that a server has used in some seconds, and that of all of them.
pub(crate) fn push_cpu(leg: &mut Leg, used_s: Option<f64>, seconds: f64) {
    let percent = used_s.map(|used| used / seconds * 100.0);
    leg.push(SERVER_CPU, percent);
    leg.push(MACHINE_CPU, percent.map(|percent| percent / processors()));
}

/// The median, 99th and 99.9th percentile and maximum, in microseconds.
pub(crate) fn push_latency(leg: &mut Leg, latency: Histogram<u64>, metrics: &[(Metric, f64)]) {
    for (metric, quantile) in metrics {
        let value = latency.value_at_quantile(*quantile) as f64 / 1_000.0;
        leg.push(*metric, (!latency.is_empty()).then_some(value));
    }
    leg.latency = Some(latency);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_name_what_is_wrong() {
        let mut leg = Leg::default();
        assert_eq!(leg.verdict(), Verdict::Sound);
        leg.limited = Some("busy".into());
        assert_eq!(leg.verdict(), Verdict::GeneratorLimited("busy".into()));
        leg.faults.lost = 3;
        leg.failed = 1;
        assert_eq!(leg.verdict(), Verdict::Failed("3 lost, 1 failed".into()));
        leg.behind = Some("only half".into());
        assert_eq!(
            leg.verdict(),
            Verdict::Failed("3 lost, 1 failed, only half".into())
        );
    }

    #[test]
    fn a_failure_outranks_a_limited_generator() {
        let failed = Verdict::Failed(String::new());
        let limited = Verdict::GeneratorLimited(String::new());
        let not_run = Verdict::NotRun(String::new());
        assert!(failed > not_run && not_run > limited && limited > Verdict::Sound);
    }
}
