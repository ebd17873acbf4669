//! Interleaved pairs: floor, server, rivals, and again, so that what disturbs the machine
//! disturbs all of them.

use crate::error::BenchError;
use crate::measure::{Leg, Verdict};
use crate::progress::Progress;
use crate::stats::Spread;
use crate::target::Subject;
use crate::workload::Workload;

/// All measurements of one server.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// One per pair; a server that could not be measured has its reason instead.
    pub(crate) legs: Vec<Result<Leg, String>>,
}

/// All measurements of one workload.
#[derive(Debug)]
pub(crate) struct Results {
    /// The principal floor first.
    pub(crate) floors: Vec<Outcome>,
    /// The measured server first, then its rivals.
    pub(crate) servers: Vec<Outcome>,
}

impl Outcome {
    pub(crate) fn sound_legs(&self) -> impl Iterator<Item = &Leg> {
        self.legs.iter().filter_map(|leg| leg.as_ref().ok())
    }

    /// Median and spread of a figure.
    pub(crate) fn spread(&self, key: &str) -> Option<Spread> {
        Spread::of(self.sound_legs().filter_map(|leg| leg.figure(key)))
    }

    /// Median and spread of the ratio to `floor`, pair by pair.
    pub(crate) fn ratio(&self, floor: &Self, key: &str) -> Option<Spread> {
        let figure = |leg: &Result<Leg, String>| leg.as_ref().ok().and_then(|leg| leg.figure(key));
        Spread::of_ratios(
            self.legs
                .iter()
                .zip(&floor.legs)
                .map(|(mine, its)| (figure(mine), figure(its))),
        )
    }

    /// The worst verdict of all pairs.
    pub(crate) fn verdict(&self) -> Verdict {
        self.legs
            .iter()
            .map(|leg| match leg {
                Ok(leg) => leg.verdict(),
                Err(reason) => Verdict::Failed(reason.clone()),
            })
            .max()
            .unwrap_or(Verdict::Sound)
    }
}

/// Runs all pairs. A floor or the measured server that cannot be run is an error; a rival that
/// cannot is reported in its place.
pub(crate) fn run(
    workload: &mut dyn Workload,
    servers: &[Subject],
    pairs: u32,
    floor: bool,
    progress: &mut Progress,
) -> Result<Results, BenchError> {
    let floors: Vec<Subject> = workload
        .floors()
        .into_iter()
        .filter(|_| floor)
        .map(Subject::Floor)
        .collect();
    let empty = |subject: &Subject| Outcome {
        name: subject.name(),
        legs: Vec::new(),
    };
    let mut results = Results {
        floors: floors.iter().map(empty).collect(),
        servers: servers.iter().map(empty).collect(),
    };
    for pair in 1..=pairs {
        for (index, subject) in floors.iter().chain(servers).enumerate() {
            progress.stage(format!(
                "{} {pair}/{pairs} {}:",
                workload.name(),
                subject.name()
            ));
            let leg = measure(workload, index, subject, progress);
            let rival = index > floors.len();
            let leg = match leg {
                Err(e) if !rival => {
                    progress.clear();
                    return Err(e);
                }
                leg => leg.map_err(|e| e.to_string()),
            };
            let outcomes = match index.checked_sub(floors.len()) {
                None => &mut results.floors[index],
                Some(server) => &mut results.servers[server],
            };
            outcomes.legs.push(leg);
        }
    }
    progress.clear();
    Ok(results)
}

fn measure(
    workload: &mut dyn Workload,
    index: usize,
    subject: &Subject,
    progress: &Progress,
) -> Result<Leg, BenchError> {
    progress.show("starting");
    let mut running = subject.start(&workload.needs())?;
    let leg = workload.leg(index, &mut running, progress);
    // A dead server explains whatever else went wrong.
    running.check_alive()?;
    leg
}
