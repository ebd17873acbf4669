//! The program `stentor-bench`, which is `stentor bench`: published workloads replayed against this
//! server or any other, each beside its *floor*, a bare program that makes the same system calls
//! without a protocol.
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
mod compare;
mod detour;
mod error;
mod floor;
mod http;
mod interrupt;
mod link;
mod load;
mod mariadb;
mod measure;
mod meter;
mod output;
mod pace;
mod process;
mod progress;
mod ramp;
mod reference;
mod report;
mod runner;
mod sampler;
mod saved;
mod scenario;
mod sequence;
mod session;
mod stamp;
mod stats;
mod suite;
mod target;
mod tips;
mod wire;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use nix::sys::signal::{SigSet, Signal};
use stentor_usage::{mended, show};

use args::{Args, Command};
use error::BenchError;
use measure::Verdict;
use output::{Output, print};
use progress::Progress;
pub use reference::reference;
use report::visible::visible;

/// Everything arrived, once and in order.
const EXIT_SOUND: u8 = 0;
/// Loss, duplicates, wrong order, failed connections, or less than the offered load.
const EXIT_FAILED: u8 = 1;
/// The generator was the limit.
const EXIT_GENERATOR: u8 = 2;
/// Nothing could be measured: also the exit code of a command line that makes no sense.
const EXIT_CANNOT_RUN: u8 = 3;
/// The reader of the tables left before the end: as if ended by SIGPIPE.
const EXIT_NOBODY_READS: u8 = 128 + 13;

/// Runs the command line of this process. Tables go to standard output (to standard error where
/// JSON or a page goes there), progress and errors to standard error.
///
/// The exit code judges the measured server: 0 sound, 1 loss, reordering or failure, 2 the
/// generator was the limit, 3 could not run.
#[must_use]
pub fn main() -> ExitCode {
    // A file that may not grow any more (`ulimit -f`) is an error of whoever writes it, as a full
    // disk is; else it kills the process. Should this fail, nothing is worse than it was.
    let of_files: SigSet = [Signal::SIGXFSZ].into_iter().collect();
    let _ = of_files.thread_block();
    match Args::try_parse() {
        Ok(args) => run(args),
        Err(error) => {
            let error = mended(error, tips::instead);
            show(&error);
            match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ => ExitCode::from(EXIT_CANNOT_RUN),
            }
        }
    }
}

fn run(args: Args) -> ExitCode {
    if args.command.starts_servers() {
        interrupt::watch();
    }
    let verdict = match dispatch(args) {
        Ok(verdict) => verdict,
        Err(BenchError::NobodyReads) => return ExitCode::from(EXIT_NOBODY_READS),
        Err(error) => Verdict::NotRun(error.to_string()),
    };
    if let Verdict::NotRun(why) = &verdict {
        // Nobody is left to be told if standard error is gone.
        let why = visible(why);
        let program = report::command::program();
        let _ = writeln!(io::stderr().lock(), "{program}: {why}");
    }
    ExitCode::from(match verdict {
        Verdict::Sound => EXIT_SOUND,
        Verdict::Failed(_) => EXIT_FAILED,
        Verdict::GeneratorLimited(_) => EXIT_GENERATOR,
        Verdict::NotRun(_) => EXIT_CANNOT_RUN,
    })
}

fn dispatch(args: Args) -> Result<Verdict, BenchError> {
    match &args.command {
        Command::List => print(args::LIST).map(|()| Verdict::Sound),
        Command::Suite(args) => suite::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Report(args) => report::html::run(args).map(|()| Verdict::Sound),
        Command::Reaper => {
            interrupt::reaper::run();
            Ok(Verdict::Sound)
        }
        Command::Canned { path } => call::canned::run(path.as_deref()).map(|()| Verdict::Sound),
        Command::Group => scenario::fanout::group::run().map(|()| Verdict::Sound),
        Command::Floor {
            kind,
            payload,
            folder,
        } => floor::run(*kind, *payload, folder.as_deref()).map(|()| Verdict::Sound),
        command => {
            let (json, html) = command.outputs();
            let mut output = Output::open(json, html, &command.inputs())?;
            let again = report::command::of_this_process();
            let verdict = measure(command, again, &mut output, &mut Progress::new())?;
            output.finish()?;
            Ok(verdict)
        }
    }
}

/// Runs a command that measures; `again` is the command line that it came from.
fn measure(
    command: &Command,
    again: String,
    output: &mut Output,
    progress: &mut Progress,
) -> Result<Verdict, BenchError> {
    match command {
        Command::Call(args) => call::run(args, again, output, progress),
        command => match command.scenario() {
            Some(scenario) => session::run(scenario, again, output, progress),
            None => Ok(Verdict::Sound),
        },
    }
}
