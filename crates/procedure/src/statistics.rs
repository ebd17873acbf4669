//! What each procedure did.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use stentor_call_protocol::{Status, Verdict};

use crate::answer::Answer;

/// The longest time that is distinguished, in microseconds: five minutes.
const LONGEST_US: u64 = 300_000_000;

/// How often the log says of a procedure that its calls find no room.
const OVERLOAD_PERIOD: Duration = Duration::from_secs(10);

/// Counters of one procedure; they outlive its versions.
pub(crate) struct Statistics(Mutex<Counters>);

struct Counters {
    statuses: [u64; Status::ALL.len()],
    verdicts: [u64; Verdict::ALL.len()],
    /// Those of them that were only logged.
    observed: [u64; Verdict::ALL.len()],
    cpu: Duration,
    time_us: Histogram<u64>,
    overloads: Overloads,
}

/// The lines of the log about calls that found no room: one in [`OVERLOAD_PERIOD`].
#[derive(Default)]
struct Overloads {
    told: Option<Instant>,
    held_back: u64,
}

/// A procedure's figures, as `/status` shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Its name.
    pub procedure: String,
    /// The version that is loaded; empty if there is none.
    pub version: String,
    /// How it is run; `none` if it is not.
    pub kind: &'static str,
    /// Whether its verdicts are only logged.
    pub observe: bool,
    /// Calls that wait for a thread now.
    pub waiting: usize,
    /// Calls that were answered, in whatever way.
    pub calls: u64,
    /// Calls that came to no verdict, by status; those that are 0 are left out.
    pub errors: Vec<(&'static str, u64)>,
    /// Verdicts by name; those that are 0 are left out.
    pub verdicts: Vec<(&'static str, u64)>,
    /// Those of them that were only logged, as `mode = "observe"` has it.
    pub observed: Vec<(&'static str, u64)>,
    /// Half of the calls took at most this long, in microseconds, waiting included.
    pub p50_us: u64,
    /// 99 of 100 calls.
    pub p99_us: u64,
    /// The longest call.
    pub max_us: u64,
    /// Processor time of its threads and programs, in microseconds.
    pub cpu_us: u64,
    /// Why the newest version of its file is not loaded; empty if it is.
    pub problem: String,
}

impl Figures {
    /// Those of a procedure that was never loaded.
    pub(crate) fn absent(name: &str, problem: &str) -> Self {
        Self {
            procedure: name.to_owned(),
            kind: "none",
            problem: problem.to_owned(),
            ..Statistics::new().figures()
        }
    }
}

impl Statistics {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, 2);
        Self(Mutex::new(Counters {
            statuses: [0; Status::ALL.len()],
            verdicts: [0; Verdict::ALL.len()],
            observed: [0; Verdict::ALL.len()],
            cpu: Duration::ZERO,
            // The bounds above are valid ones; without them it grows as needed.
            time_us: histogram.unwrap_or_else(|_| growing()),
            overloads: Overloads::default(),
        }))
    }

    /// Counts an answer, and whether its verdict is only logged.
    pub(crate) fn count(&self, answer: &Answer, took: Duration, is_observed: bool) {
        let mut counters = self.lock();
        counters.statuses[usize::from(answer.status.number())] += 1;
        if let Some(outcome) = &answer.outcome {
            let verdict = usize::from(outcome.verdict.number());
            counters.verdicts[verdict] += 1;
            counters.observed[verdict] += u64::from(is_observed);
        }
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counters.time_us.saturating_record(us.clamp(1, LONGEST_US));
    }

    /// Asks to write a line about a call that found no room. `Some` if it is written: the number of
    /// such calls before it that have none.
    pub(crate) fn admit_overload(&self, now: Instant) -> Option<u64> {
        let overloads = &mut self.lock().overloads;
        let is_early = |told| now.saturating_duration_since(told) < OVERLOAD_PERIOD;
        if overloads.told.is_some_and(is_early) {
            overloads.held_back += 1;
            return None;
        }
        overloads.told = Some(now);
        Some(std::mem::take(&mut overloads.held_back))
    }

    /// Counts processor time.
    pub(crate) fn spend(&self, cpu: Duration) {
        self.lock().cpu += cpu;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures; what they belong to is filled in by the caller.
    pub(crate) fn figures(&self) -> Figures {
        let counters = self.lock();
        let errors = Status::ALL.iter().filter(|status| **status != Status::Done);
        let errors = errors.map(|s| (s.name(), counters.statuses[usize::from(s.number())]));
        let verdicts = |counts: &[u64; Verdict::ALL.len()]| -> Vec<(&'static str, u64)> {
            let each = Verdict::ALL.iter();
            let each = each.map(|verdict| (verdict.name(), counts[usize::from(verdict.number())]));
            each.filter(|(_, count)| *count > 0).collect()
        };
        Figures {
            procedure: String::new(),
            version: String::new(),
            kind: "",
            observe: false,
            waiting: 0,
            calls: counters.statuses.iter().sum(),
            errors: errors.filter(|(_, count)| *count > 0).collect(),
            verdicts: verdicts(&counters.verdicts),
            observed: verdicts(&counters.observed),
            p50_us: counters.time_us.value_at_quantile(0.5),
            p99_us: counters.time_us.value_at_quantile(0.99),
            max_us: counters.time_us.max(),
            cpu_us: u64::try_from(counters.cpu.as_micros()).unwrap_or(u64::MAX),
            problem: String::new(),
        }
    }
}

fn growing() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "2 digits are a valid precision")]
    Histogram::new(2).expect("a valid precision")
}

/// Figures as a table for people.
pub(crate) fn table(all: &[Figures]) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "{:<20} {:<8} {:<8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}  verdicts\n",
        "procedure", "version", "kind", "waiting", "calls", "errors", "p50 us", "p99 us", "cpu ms"
    );
    for figures in all {
        let errors: u64 = figures.errors.iter().map(|(_, count)| count).sum();
        let told = |(name, count): &(&'static str, u64)| {
            let observed = figures.observed.iter().find(|(known, _)| known == name);
            match observed {
                // While it observes, that stands at the end of the line.
                Some((_, observed)) if !figures.observe || observed != count => {
                    format!("{name} {count} ({observed} only observed)")
                }
                _ => format!("{name} {count}"),
            }
        };
        let errors_told = figures
            .errors
            .iter()
            .map(|(name, count)| format!("{name} {count}"));
        let counts: Vec<String> = errors_told
            .chain(figures.verdicts.iter().map(told))
            .collect();
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "{:<20} {:<8} {:<8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9}  {}{}",
            figures.procedure,
            if figures.version.is_empty() {
                "-"
            } else {
                &figures.version
            },
            figures.kind,
            figures.waiting,
            figures.calls,
            errors,
            figures.p50_us,
            figures.p99_us,
            figures.cpu_us / 1000,
            counts.join(", "),
            if figures.observe { " (observe)" } else { "" },
        );
        if !figures.problem.is_empty() {
            let _ = writeln!(text, "  not loaded: {}", figures.problem);
        }
    }
    text
}
