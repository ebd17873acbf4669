//! A load that grows step by step until the server cannot carry it: the breaking point.

use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::{Metric, Verdict};
use crate::report::number::{figure, grouped};
use crate::report::table::align;

/// How the load grows.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct RampArgs {
    /// Grow the load by so much, step by step, to the breaking point: clients (fanout: messages
    /// per second and publisher). Each step is warmed up and measured as --warmup and --seconds say
    #[arg(long, value_name = "STEP", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) ramp: Option<u32>,
    /// A step is not sound if its 99th percentile is beyond this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000, requires = "ramp",
        value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) bound: u32,
}

impl RampArgs {
    /// The plan, if the load is to grow.
    pub(crate) fn plan(self) -> Option<Plan> {
        self.ramp.map(|step| Plan {
            step: step as usize,
            bound: Duration::from_millis(self.bound.into()),
        })
    }
}

/// How the load grows, and what is too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) step: usize,
    /// Of the 99th percentile.
    pub(crate) bound: Duration,
}

impl Plan {
    /// Why a percentile is too late, if it is.
    pub(crate) fn too_late(self, p99_us: Option<f64>) -> Option<String> {
        let bound_us = self.bound.as_secs_f64() * 1e6;
        let late_us = p99_us.filter(|p99_us| *p99_us > bound_us)?;
        Some(format!(
            "p99 was {:.0} ms, the bound is {} ms",
            late_us / 1e3,
            self.bound.as_millis()
        ))
    }
}

/// One step of the load.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// How much there was.
    pub(crate) size: usize,
    pub(crate) figures: Vec<(Metric, Option<f64>)>,
    /// Whether the server carried it.
    pub(crate) verdict: Verdict,
}

impl Step {
    fn figure(&self, metric: &Metric) -> Option<f64> {
        let found = self.figures.iter().find(|(of, _)| of.key == metric.key);
        found.and_then(|(_, value)| *value)
    }
}

/// All steps, the last of which may have been too much.
#[derive(Clone, Debug)]
pub(crate) struct Climb {
    /// What grows, as in "clients".
    pub(crate) what: &'static str,
    pub(crate) steps: Vec<Step>,
    /// What was seen of those who were there when it broke.
    pub(crate) aftermath: Vec<String>,
    /// What was done to those who were there that should not have been.
    pub(crate) harm: Vec<String>,
}

impl Climb {
    /// Nothing yet.
    pub(crate) const fn new(what: &'static str) -> Self {
        Self {
            what,
            steps: Vec::new(),
            aftermath: Vec::new(),
            harm: Vec::new(),
        }
    }

    /// Takes a step; whether there may be another.
    pub(crate) fn take(&mut self, step: Step) -> bool {
        let goes_on = step.verdict == Verdict::Sound;
        self.steps.push(step);
        goes_on
    }

    /// The last step that was carried.
    pub(crate) fn last_sound(&self) -> Option<&Step> {
        let mut steps = self.steps.iter().rev();
        steps.find(|step| step.verdict == Verdict::Sound)
    }

    /// The step that was too much.
    fn broken(&self) -> Option<&Step> {
        let last = self.steps.last();
        last.filter(|step| step.verdict != Verdict::Sound)
    }

    /// A breaking point is what was looked for: only a server that carried nothing, or that harmed
    /// those who were there, has failed.
    pub(crate) fn verdict(&self) -> Verdict {
        if !self.harm.is_empty() {
            return Verdict::Failed(self.harm.join(", "));
        }
        match (self.last_sound(), self.broken()) {
            (_, Some(step)) if matches!(step.verdict, Verdict::GeneratorLimited(_)) => {
                step.verdict.clone()
            }
            (None, Some(step)) => step.verdict.clone(),
            (Some(_), _) | (None, None) => Verdict::Sound,
        }
    }

    /// One sentence about where it broke, and what became of the others.
    pub(crate) fn sentence(&self) -> String {
        let sound = self.last_sound().map_or_else(
            || format!("no number of {} was carried", self.what),
            |step| format!("sound up to {} {}", grouped(step.size as f64), self.what),
        );
        let broke = match self.broken().map(|step| (step.size, &step.verdict)) {
            None | Some((_, Verdict::Sound)) => "it did not break".into(),
            Some((size, Verdict::Failed(why) | Verdict::NotRun(why))) => {
                format!("it broke at {}: {why}", grouped(size as f64))
            }
            Some((size, Verdict::GeneratorLimited(why))) => format!(
                "at {} the generator was the limit: {why}",
                grouped(size as f64)
            ),
        };
        let parts = [sound, broke];
        let rest = self.aftermath.iter().chain(&self.harm).cloned();
        parts.into_iter().chain(rest).collect::<Vec<_>>().join("; ")
    }

    fn metrics(&self) -> Vec<Metric> {
        let first = self.steps.first();
        let metrics = first.map(|step| step.figures.iter().map(|(metric, _)| *metric));
        metrics.into_iter().flatten().collect()
    }

    /// A row for each step, and the sentence.
    pub(crate) fn table(&self) -> String {
        let metrics = self.metrics();
        let mut header = vec![self.what.to_owned()];
        header.extend(metrics.iter().map(|metric| metric.label.to_owned()));
        header.push(String::new());
        let mut rows = vec![header];
        for step in &self.steps {
            let mut row = vec![grouped(step.size as f64)];
            row.extend(metrics.iter().map(|metric| {
                let value = step.figure(metric);
                value.map_or_else(|| "–".into(), |value| figure(value, metric.unit))
            }));
            row.push(match step.verdict {
                Verdict::Failed(_) => "broke".into(),
                Verdict::Sound | Verdict::GeneratorLimited(_) | Verdict::NotRun(_) => {
                    step.verdict.word().into()
                }
            });
            rows.push(row);
        }
        format!("\n{}\n  ramp: {}\n", align(&rows), self.sentence())
    }

    /// For the JSON.
    pub(crate) fn object(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            let figures = step.figures.iter();
            let figures = figures.map(|(metric, value)| (metric.key.to_owned(), json!(value)));
            json!({
                "size": step.size,
                "figures": figures.collect::<serde_json::Map<String, Value>>(),
                "verdict": step.verdict.object(),
            })
        });
        json!({
            "what": self.what,
            "steps": steps.collect::<Vec<_>>(),
            "sound_up_to": self.last_sound().map(|step| step.size),
            "broke_at": self.broken().map(|step| step.size),
            "aftermath": self.aftermath,
            "harm": self.harm,
            "sentence": self.sentence(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Unit;

    const IN: Metric = Metric::new("in_per_s", "in/s", Unit::PerSecond);

    fn climb(verdicts: &[Verdict]) -> Climb {
        let mut climb = Climb::new("clients");
        for (index, verdict) in verdicts.iter().enumerate() {
            let size = 1_000 * (index + 1);
            let goes_on = climb.take(Step {
                size,
                figures: vec![(IN, Some(size as f64))],
                verdict: verdict.clone(),
            });
            assert_eq!(goes_on, *verdict == Verdict::Sound);
        }
        climb
    }

    #[test]
    fn a_breaking_point_is_a_result() {
        let broken = Verdict::Failed("300 were refused".into());
        let mut found = climb(&[Verdict::Sound, Verdict::Sound, broken.clone()]);
        assert_eq!(found.verdict(), Verdict::Sound);
        let said = found.sentence();
        assert_eq!(
            said,
            "sound up to 2,000 clients; it broke at 3,000: 300 were refused"
        );
        assert!(
            found.table().contains("2,000    2,000  sound"),
            "{}",
            found.table()
        );
        assert_eq!(found.object()["sound_up_to"], 2_000);
        found.harm.push("5 live connections broke".into());
        assert!(matches!(found.verdict(), Verdict::Failed(_)));
        assert_eq!(climb(std::slice::from_ref(&broken)).verdict(), broken);
        let limited = Verdict::GeneratorLimited("late".into());
        assert_eq!(climb(&[Verdict::Sound, limited.clone()]).verdict(), limited);
        let whole = climb(&[Verdict::Sound]);
        assert_eq!(
            whole.sentence(),
            "sound up to 1,000 clients; it did not break"
        );
        assert_eq!(whole.object()["broke_at"], Value::Null);
    }

    /// A step of which there are no figures, the server being gone, is where it broke.
    #[test]
    fn a_server_that_was_lost_has_broken() {
        let mut lost = climb(&[Verdict::Sound]);
        lost.take(Step {
            size: 2_000,
            figures: Vec::new(),
            verdict: Verdict::Failed("it has ended".into()),
        });
        lost.harm.push("live connections were lost".into());
        let said = "sound up to 1,000 clients; it broke at 2,000: it has ended; \
                    live connections were lost";
        assert_eq!(lost.sentence(), said);
        assert!(lost.table().contains("–  broke"), "{}", lost.table());
        assert_eq!(lost.object()["broke_at"], 2_000);
        assert!(matches!(lost.verdict(), Verdict::Failed(_)));
    }

    #[test]
    fn a_late_percentile_breaks() {
        let plan = Plan {
            step: 1,
            bound: Duration::from_millis(500),
        };
        assert_eq!(plan.too_late(Some(499_000.0)), None);
        assert_eq!(plan.too_late(None), None);
        let why = plan.too_late(Some(600_000.0)).unwrap();
        assert_eq!(why, "p99 was 600 ms, the bound is 500 ms");
    }
}
