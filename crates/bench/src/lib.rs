//! `stentor bench`: published workloads replayed against this server or any other, each beside its
//! *floor*, a bare program that makes the same system calls without a protocol.
//!
//! The load is open-loop with intended send times, so that a server that falls behind cannot hide
//! it; every payload carries publisher, sequence number and intended time, so that loss,
//! duplicates, order and latency are checked for each message. Floor, server and rivals take turns,
//! and ratios are medians over these pairs.

#![forbid(unsafe_code)]

mod affinity;
mod args;
mod clock;
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

pub use args::Args;
use args::{Command, Common};
use error::{BenchError, Doing};
use measure::Verdict;
use progress::Progress;
use workload::Workload;

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
    match args.command {
        Command::List => print(args::LIST).map(|()| Verdict::Sound),
        Command::Floor { kind } => floor::run(kind).map(|()| Verdict::Sound),
        Command::Fanout(args) => measure_all(args.workloads()?, &args.common),
        Command::Subscribe(args) => measure_all(args.workloads(), &args.common),
        Command::Idle(args) => measure_all(vec![args.workload()], &args.common),
        Command::Connect(args) => measure_all(vec![args.workload()], &args.common),
        Command::Pingpong(args) => {
            measure_all(args.workloads()?, &args.common.with_default_shards(1))
        }
    }
}

/// Measures (or explains) one workload after the other; the worst verdict of the measured server.
fn measure_all(workloads: Vec<Box<dyn Workload>>, common: &Common) -> Result<Verdict, BenchError> {
    let subjects = common.subjects();
    if subjects.is_empty() && common.no_floor {
        return Err(BenchError::usage(
            "--no-server --no-floor leaves nothing to measure",
        ));
    }
    if common.explain {
        let text: String = workloads
            .iter()
            .map(|w| explain(w.as_ref(), common))
            .collect();
        return print(&text).map(|()| Verdict::Sound);
    }
    let descriptors = process::raise_descriptor_limit();
    let machine = report::machine::describe(descriptors);
    let mut progress = Progress::new();
    let mut worst = Verdict::Sound;
    print(&format!("{}\n", report::machine::line()))?;
    for (index, mut workload) in workloads.into_iter().enumerate() {
        let pairs = common.pairs.unwrap_or_else(|| workload.pairs());
        let results = runner::run(
            workload.as_mut(),
            &subjects,
            pairs,
            !common.no_floor,
            &mut progress,
        )?;
        print(&report::table::render(workload.as_ref(), &results, pairs))?;
        if let Some(file) = &common.json {
            let object = report::json::object(workload.as_ref(), &results, pairs, &machine);
            write_json(file, &object, index == 0)?;
        }
        if let Some(judged) = results.servers.first().or_else(|| results.floors.first()) {
            worst = worst.max(judged.verdict());
        }
    }
    Ok(worst)
}

fn explain(workload: &dyn Workload, common: &Common) -> String {
    let pairs = common.pairs.unwrap_or_else(|| workload.pairs());
    let mut text = format!("{}\n", workload.title());
    for (index, step) in workload.plan().iter().enumerate() {
        text.push_str(&format!("  {}. {step}\n", index + 1));
    }
    let floors = workload.floors().into_iter().filter(|_| !common.no_floor);
    let subjects = floors.map(target::Subject::Floor).chain(common.subjects());
    text.push_str(&format!("  {} times in turn, against\n", pairs));
    for subject in subjects {
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
