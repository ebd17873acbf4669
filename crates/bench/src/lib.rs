//! `stentor bench`: published workloads replayed against this server or any other, each beside its
//! *floor*, a bare program that makes the same system calls without a protocol.
//!
//! The load is open-loop with intended send times, so that a server that falls behind cannot hide
//! it; every payload carries publisher, sequence number and intended time, so that loss,
//! duplicates, order and latency are checked for each message. Floor, server and rivals take turns,
//! and ratios are medians over these pairs.

#![forbid(unsafe_code)]

mod accounts;
mod affinity;
mod args;
mod call;
mod clock;
mod detour;
mod error;
mod floor;
mod link;
mod load;
mod measure;
mod process;
mod progress;
mod report;
mod runner;
mod scenario;
mod sequence;
mod stamp;
mod stats;
mod target;
mod wire;
mod workload;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use affinity::Placement;
pub use args::Args;
use args::{Command, Common};
use error::{BenchError, Doing};
use measure::Verdict;
use progress::Progress;
use scenario::Scenario;
use target::Subject;
use workload::Sheet;

/// Everything arrived, once and in order.
const EXIT_SOUND: u8 = 0;
/// Loss, duplicates, wrong order, failed connections, or less than the offered load.
const EXIT_FAILED: u8 = 1;
/// The generator was the limit.
const EXIT_GENERATOR: u8 = 2;
/// Nothing could be measured.
const EXIT_CANNOT_RUN: u8 = 3;

/// Runs `stentor bench …`. Tables go to standard output, progress and errors to standard error.
///
/// The exit code judges the measured server: 0 sound, 1 loss, reordering or failure, 2 the
/// generator was the limit, 3 could not run.
#[must_use]
pub fn run(args: Args) -> ExitCode {
    match dispatch(args) {
        Ok(verdict) => ExitCode::from(match verdict {
            Verdict::Sound => EXIT_SOUND,
            Verdict::Failed(_) => EXIT_FAILED,
            Verdict::GeneratorLimited(_) => EXIT_GENERATOR,
        }),
        Err(error) => {
            // Nobody is left to be told if standard error is gone.
            let _ = writeln!(io::stderr().lock(), "stentor bench: {error}");
            ExitCode::from(EXIT_CANNOT_RUN)
        }
    }
}

fn dispatch(args: Args) -> Result<Verdict, BenchError> {
    match &args.command {
        Command::List => print(args::LIST).map(|()| Verdict::Sound),
        Command::Call(args) => call::run(args),
        Command::Canned { path } => call::canned::run(path.as_deref()).map(|()| Verdict::Sound),
        Command::Floor { kind, payload } => floor::run(*kind, *payload).map(|()| Verdict::Sound),
        command => command.scenario().map_or(Ok(Verdict::Sound), measure_all),
    }
}

/// Measures (or explains) one workload after the other; the worst verdict of the measured server.
fn measure_all(scenario: &dyn Scenario) -> Result<Verdict, BenchError> {
    let common = scenario.common();
    let subjects = common.subjects(common.shards(scenario.shards()));
    if subjects.is_empty() && common.no_floor {
        return Err(BenchError::usage(
            "--no-server --no-floor leaves nothing to measure",
        ));
    }
    let placements = common.placements(scenario.placements());
    if common.explain {
        let workloads = scenario.workloads()?;
        let text: String = workloads
            .iter()
            .map(|workload| explain(&workload.sheet(), &subjects, &placements, common))
            .collect();
        return print(&text).map(|()| Verdict::Sound);
    }
    let descriptors = process::raise_descriptor_limit();
    let machine = report::machine::describe(descriptors);
    let mut progress = Progress::new();
    let mut worst = Verdict::Sound;
    let mut is_first = true;
    print(&format!("{}\n", report::machine::line()))?;
    for mut workload in scenario.workloads()? {
        for placement in &placements {
            let sheet = placement.mark(workload.sheet());
            let plan = runner::Plan {
                subjects: &subjects,
                placement: *placement,
                pairs: common.pairs(sheet.pairs),
                floor: !common.no_floor,
            };
            let results = runner::run(workload.as_mut(), &sheet, &plan, &mut progress)?;
            print(&report::table::render(&sheet, &results, plan.pairs))?;
            if let Some(file) = &common.json {
                let object = report::json::object(&sheet, &results, plan.pairs, &machine);
                write_json(file, &object, is_first)?;
                is_first = false;
            }
            if let Some(judged) = results.servers.first().or_else(|| results.floors.first()) {
                worst = worst.max(judged.verdict());
            }
        }
    }
    Ok(worst)
}

fn explain(
    sheet: &Sheet,
    subjects: &[Subject],
    placements: &[Placement],
    common: &Common,
) -> String {
    let mut text = format!("{}\n", sheet.title);
    for (index, step) in sheet.plan.iter().enumerate() {
        text.push_str(&format!("  {}. {step}\n", index + 1));
    }
    let floors = sheet.floors.iter().filter(|_| !common.no_floor);
    let floors = floors.map(|floor| Subject::Floor(*floor));
    let places: Vec<&str> = placements.iter().map(|place| place.describe()).collect();
    let pairs = common.pairs(sheet.pairs);
    text.push_str(&format!(
        "  {pairs} times in turn, {}, against\n",
        places.join("; then ")
    ));
    for subject in floors.chain(subjects.iter().cloned()) {
        text.push_str(&format!("     {}: {}\n", subject.name(), subject.explain()));
    }
    text
}

fn print(text: &str) -> Result<(), BenchError> {
    io::stdout()
        .lock()
        .write_all(text.as_bytes())
        .doing("write to standard output")
}

/// Writes one line; the first one of a run replaces what an earlier run has left.
fn write_json(file: &Path, object: &Value, first: bool) -> Result<(), BenchError> {
    let line = format!("{object}\n");
    if file == Path::new("-") {
        return print(&line);
    }
    let opened = OpenOptions::new()
        .create(true)
        .write(true)
        .append(!first)
        .truncate(first)
        .open(file);
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .doing(format!("write {}", file.display()))
}
