//! Interleaved pairs: floor, server, rivals, and again, so that what disturbs the machine
//! disturbs all of them.

use serde_json::Value;

use crate::affinity::Placement;
use crate::clock::{SECOND_NS, now_ns, sleep_until_ns};
use crate::error::BenchError;
use crate::measure::{Leg, Verdict};
use crate::progress::Progress;
use crate::sampler::Sampler;
use crate::sequence::Faults;
use crate::stats::Spread;
use crate::target::{Running, Subject};
use crate::workload::{Sheet, Workload};

/// How long a process may take to end whose sockets are closed.
const DYING_NS: u64 = SECOND_NS;

/// All measurements of one server.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// Its version and whole configuration.
    pub(crate) identity: Value,
    /// The floor that it is compared with, if that is not the principal one.
    pub(crate) floor: Option<&'static str>,
    /// One per pair; a server that could not be measured, or died, has its reason instead.
    pub(crate) legs: Vec<Result<Leg, Verdict>>,
}

/// All measurements of one workload.
#[derive(Debug)]
pub(crate) struct Results {
    /// The principal floor first.
    pub(crate) floors: Vec<Outcome>,
    /// The measured server first, then its rivals.
    pub(crate) servers: Vec<Outcome>,
}

impl Results {
    /// The floor that one of them is compared with.
    pub(crate) fn floor_of(&self, outcome: &Outcome) -> Option<&Outcome> {
        let own = outcome.floor;
        let own = self
            .floors
            .iter()
            .find(|floor| Some(floor.name.as_str()) == own);
        own.or_else(|| self.floors.first())
    }
}

impl Outcome {
    pub(crate) fn sound_legs(&self) -> impl Iterator<Item = &Leg> {
        self.legs.iter().filter_map(|leg| leg.as_ref().ok())
    }

    /// Median and spread of a figure.
    pub(crate) fn spread(&self, key: &str) -> Option<Spread> {
        Spread::of(self.sound_legs().filter_map(|leg| leg.figure(key)))
    }

    /// Median and spread of the ratio to `base`, pair by pair. None where the load grew: the
    /// figures are those of the last step that was carried, which was another one. Nothing is
    /// compared with a pair in which `base` failed.
    pub(crate) fn ratio(&self, base: &Self, key: &str) -> Option<Spread> {
        let figure = |leg: &Result<Leg, Verdict>| {
            let leg = leg.as_ref().ok().filter(|leg| leg.climb.is_none())?;
            leg.figure(key)
        };
        let pairs = self.legs.iter().zip(&base.legs);
        let held = pairs.filter(|(_, its)| !has_failed(its));
        Spread::of_ratios(held.map(|(mine, its)| (figure(mine), figure(its))))
    }

    /// What a reader has to know beside the verdict, each once.
    pub(crate) fn notes(&self) -> Vec<&str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.sound_legs().flat_map(|leg| &leg.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// In how many pairs it was measured to the end: one that died has no figures.
    pub(crate) fn measured(&self) -> usize {
        self.sound_legs()
            .filter(|leg| !leg.figures.is_empty())
            .count()
    }

    /// What was lost and what failed, in all pairs. Unknown where nothing was counted and a pair
    /// was not measured to the end: a server that was killed has lost what nobody has counted.
    pub(crate) fn loss(&self) -> Option<(Faults, u64)> {
        let mut faults = Faults::default();
        let mut failed = 0;
        for leg in self.sound_legs() {
            faults += leg.faults;
            failed += leg.failed;
        }
        let has_any = failed > 0 || faults.told().next().is_some();
        let is_counted = |leg: &Leg| !leg.figures.is_empty() && !leg.is_uncounted;
        let mut legs = self.legs.iter();
        let is_known = legs.all(|leg| leg.as_ref().is_ok_and(is_counted));
        (has_any || is_known).then_some((faults, failed))
    }

    /// In how many pairs it failed.
    pub(crate) fn failures(&self) -> usize {
        self.legs.iter().filter(|leg| has_failed(leg)).count()
    }

    /// The worst verdict of all pairs.
    pub(crate) fn verdict(&self) -> Verdict {
        self.legs
            .iter()
            .map(|leg| match leg {
                Ok(leg) => leg.verdict(),
                Err(reason) => reason.clone(),
            })
            .max()
            .unwrap_or(Verdict::Sound)
    }
}

fn has_failed(leg: &Result<Leg, Verdict>) -> bool {
    let verdict = leg.as_ref().map(Leg::verdict);
    matches!(verdict, Ok(Verdict::Failed(_)) | Err(Verdict::Failed(_)))
}

/// The servers to measure, where and how often.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The measured server first, then its rivals.
    pub(crate) subjects: &'a [Subject],
    pub(crate) placement: Placement,
    pub(crate) pairs: u32,
    /// Whether floors are measured as well.
    pub(crate) floor: bool,
}

/// Runs all pairs. A floor or the measured server that cannot be run is an error; a rival that
/// cannot, and a server that dies or breaks off, is reported in its place. What was measured before
/// is kept.
pub(crate) fn run(
    workload: &mut dyn Workload,
    sheet: &Sheet,
    plan: &Plan<'_>,
    progress: &mut Progress,
) -> Result<Results, BenchError> {
    let floors = sheet.floors.iter().filter(|_| plan.floor);
    let floors: Vec<Subject> = floors.map(|floor| Subject::Floor(*floor)).collect();
    let empty = |subject: &Subject| Outcome {
        name: subject.name(),
        identity: subject.identity(&sheet.needs),
        floor: None,
        legs: Vec::new(),
    };
    let mut results = Results {
        floors: floors.iter().map(empty).collect(),
        servers: plan.subjects.iter().map(empty).collect(),
    };
    for pair in 1..=plan.pairs {
        for (index, subject) in floors.iter().chain(plan.subjects).enumerate() {
            let name = subject.name();
            let outcomes = match index.checked_sub(floors.len()) {
                None => &mut results.floors[index],
                Some(server) => &mut results.servers[server],
            };
            if let Some(Err(Verdict::NotRun(_))) = outcomes.legs.last() {
                // What could not be started once is not tried again.
                continue;
            }
            progress.stage(format!("{} {pair}/{} {name}:", sheet.name, plan.pairs));
            progress.show("starting");
            let leg = measure(workload, index, subject, sheet, plan.placement, progress);
            let rival = index > floors.len();
            let is_first = outcomes.legs.is_empty();
            match leg.or_else(|error| verdict_on(error, is_first)) {
                Ok(leg) => outcomes.legs.push(leg),
                Err(e) if rival || !is_first => {
                    outcomes.legs.push(Err(Verdict::NotRun(e.to_string())));
                }
                Err(e) => {
                    progress.clear();
                    return Err(e);
                }
            }
        }
    }
    progress.clear();
    Ok(results)
}

/// What an error says about the server, if anything.
fn verdict_on(error: BenchError, is_first: bool) -> Result<Result<Leg, Verdict>, BenchError> {
    match error {
        BenchError::Broken(why) => Ok(Err(Verdict::Failed(why))),
        // It was there before: that it is not any more is a result.
        BenchError::Server(why) if !is_first => {
            Ok(Err(Verdict::Failed(format!("not there any more: {why}"))))
        }
        other => Err(other),
    }
}

fn measure(
    workload: &mut dyn Workload,
    index: usize,
    subject: &Subject,
    sheet: &Sheet,
    placement: Placement,
    progress: &Progress,
) -> Result<Result<Leg, Verdict>, BenchError> {
    let allotment = placement.allot()?;
    let mut running = allotment.start(|| subject.start(&sheet.needs))??;
    let moved = match running.was_started_here() {
        true => None,
        false => allotment.move_server(running.pid())?,
    };
    let stay = allotment.generate()?;
    let sampler = Sampler::start(running.pid());
    let mut leg = workload.leg(index, &mut running, progress);
    if let Ok(leg) = &mut leg {
        leg.notes.extend(running.note());
    }
    let samples = sampler.finish();
    drop((stay, moved));
    // A dead server explains whatever else went wrong, and is a result of its own.
    let is_sound = matches!(&leg, Ok(leg) if leg.verdict() == Verdict::Sound);
    match (look_after(&mut running, is_sound), leg) {
        (Ok(()), leg) => leg.map(|leg| Ok(Leg { samples, ..leg })),
        (Err(death), Ok(leg)) => Ok(Ok(lost(&leg, &death))),
        (Err(death), Err(_)) => Ok(Err(Verdict::Failed(death.to_string()))),
    }
}

/// What is left of a measurement whose server has died: no figures, but what was lost with it, and
/// how much of what was due came out.
fn lost(leg: &Leg, death: &BenchError) -> Leg {
    let behind = leg.behind.iter().cloned();
    let told: Vec<String> = behind.chain([death.to_string()]).collect();
    Leg {
        faults: leg.faults,
        failed: leg.failed,
        behind: Some(told.join(", ")),
        ..Leg::default()
    }
}

/// Says so if the server has died. Its sockets are closed before the process is gone: after a
/// failure it gets a moment to be so.
fn look_after(running: &mut Running, is_sound: bool) -> Result<(), BenchError> {
    let until_ns = now_ns() + if is_sound { 0 } else { DYING_NS };
    loop {
        running.check_alive()?;
        if now_ns() >= until_ns {
            return Ok(());
        }
        sleep_until_ns(now_ns() + SECOND_NS / 100);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Metric, Unit};

    fn outcome(legs: &[(f64, u64)]) -> Outcome {
        let legs = legs.iter().map(|(figure, failed)| {
            let mut leg = Leg {
                failed: *failed,
                ..Leg::default()
            };
            leg.push(Metric::new("each_us", "each", Unit::Micros), *figure);
            Ok(leg)
        });
        Outcome {
            name: "one".into(),
            identity: Value::Null,
            floor: None,
            legs: legs.collect(),
        }
    }

    /// Figures of a server that died say nothing; what was lost with it does.
    #[test]
    fn what_a_dying_server_loses_is_counted() {
        let mut leg = Leg {
            failed: 55,
            behind: Some("4 % of what was due came out in time".into()),
            ..Leg::default()
        };
        leg.faults.lost = 700;
        leg.push(Metric::new("each_us", "each", Unit::Micros), 1.0);
        let lost = lost(&leg, &BenchError::server("it ended"));
        assert_eq!((lost.faults.lost, lost.failed), (700, 55));
        assert!(lost.figures.is_empty());
        let why = "700 lost, 55 failed, 4 % of what was due came out in time, it ended".to_owned();
        assert_eq!(lost.verdict(), Verdict::Failed(why));
    }

    /// A load that grew has the figures of the step before the server was gone.
    #[test]
    fn what_was_lost_with_a_server_is_not_told_as_nothing() {
        let mut outcome = outcome(&[(1.0, 0), (1.0, 0)]);
        assert_eq!(outcome.loss(), Some((Faults::default(), 0)));
        if let Some(Ok(leg)) = outcome.legs.last_mut() {
            leg.is_uncounted = true;
        }
        assert_eq!(outcome.loss(), None);
        assert_eq!(outcome.measured(), 2);
    }

    #[test]
    fn a_connection_that_breaks_is_a_result() {
        let failed = |why: &str| Some(Verdict::Failed(why.into()));
        let refused = failed("not there any more: no");
        for (error, is_first, expected) in [
            (BenchError::broken("no"), true, failed("no")),
            (BenchError::broken("no"), false, failed("no")),
            (BenchError::server("no"), true, None),
            (BenchError::server("no"), false, refused),
            (BenchError::server("no").midway(), true, failed("no")),
            (BenchError::usage("no").midway(), true, None),
            (BenchError::usage("no"), false, None),
        ] {
            let told = format!("{error:?} {is_first}");
            let verdict = verdict_on(error, is_first).ok();
            let verdict = verdict.and_then(Result::err);
            assert_eq!(verdict, expected, "{told}");
        }
    }

    #[test]
    fn nothing_is_compared_with_a_floor_that_failed() {
        let server = outcome(&[(20.0, 0), (30.0, 0), (40.0, 1)]);
        let median = |floor: &Outcome| server.ratio(floor, "each_us").map(|ratio| ratio.median);
        assert_eq!(
            median(&outcome(&[(10.0, 0), (10.0, 0), (10.0, 0)])),
            Some(3.0)
        );
        let floor = outcome(&[(10.0, 0), (1.0, 7), (1.0, 7)]);
        assert_eq!((median(&floor), floor.failures()), (Some(2.0), 2));
        assert_eq!(median(&outcome(&[(10.0, 1), (1.0, 7), (1.0, 7)])), None);
    }
}
