//! `stentor-call`: asks a server about a file and exits with the code that the caller understands.
//!
//! A mail server spawns it for each message, so what counts is the time from `exec` to `exit`:
//! one connection, one write, one read. There is no runtime, no name resolution and no
//! configuration file. Rust's own start-up is left out where that is possible (`start`).
//!
//! Whatever happens, it ends before its deadline with a code that its profile knows: an answer, or
//! what `--on-error` says about a server that is down, slow, or tells nonsense.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]

mod args;
mod edit;
mod fault;
mod file;
mod help;
mod line;
mod outcome;
mod platform;
mod profile;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod start;
mod talk;
mod tls;

use std::ffi::OsString;
use std::time::Duration;

use args::{Changed, Command, Options, Problem};
use fault::Fault;
use outcome::Outcome;
use platform::Deadline;
use profile::Profile;
use stentor_call_protocol::Verdict;

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
fn main() {
    std::process::exit(run(std::env::args_os().skip(1)));
}

/// How long people may take to read the help.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Does everything; returns the exit code.
fn run(arguments: impl Iterator<Item = OsString>) -> i32 {
    let clock = platform::Clock::start();
    let arguments: Vec<OsString> = arguments.collect();
    match args::parse(&arguments) {
        Ok(Command::Help) => shown(help::TEXT, clock),
        Ok(Command::Version) => shown(help::VERSION, clock),
        Ok(Command::Call(options)) => {
            let deadline = clock.deadline(options.deadline);
            let outcome = call(&options, &deadline)
                .unwrap_or_else(|fault| without(&fault, &options, &deadline));
            outcome.finish(&options, &deadline)
        }
        Err(Problem { fault, options }) => {
            let deadline = clock.deadline(options.deadline);
            without(&fault, &options, &deadline).finish(&options, &deadline)
        }
    }
}

/// Shows a text to people; returns the exit code.
fn shown(text: &str, clock: platform::Clock) -> i32 {
    if outcome::print(text.as_bytes(), &clock.deadline(PATIENCE)) {
        return 0;
    }
    Profile::Plain.exit_code(Verdict::Tempfail)
}

/// What comes of a message that was not passed on.
fn without(fault: &Fault, options: &Options, deadline: &Deadline) -> Outcome {
    outcome::complain(options.profile, &fault.to_string(), deadline);
    // What should be on standard output is not, so "accept" would lose the message.
    let is_lost = |wish: &Verdict| *wish == Verdict::Accept && options.changed == Changed::Printed;
    let on_error = options.on_error.filter(|wish| !is_lost(wish));
    Outcome::of_fault(fault, on_error)
}

/// Calls, and passes the message on if that is what comes of it. A fault of the network or the
/// server is an outcome as well; only a message that cannot be read or passed on is none.
fn call(options: &Options, deadline: &Deadline) -> Result<Outcome, Fault> {
    let message = file::open(options, deadline)?;
    // A message that passes whatever the server does has to be printed then.
    let is_sure = options.changed == Changed::Printed && options.on_error == Some(Verdict::Accept);
    let patience = is_sure.then(|| deadline.with_rest());
    let patience = patience.as_ref().unwrap_or(deadline);
    let (outcome, edits) =
        talk::talk(options, message.as_ref(), patience).unwrap_or_else(|fault| {
            outcome::complain(options.profile, &fault.to_string(), deadline);
            (Outcome::of_fault(&fault, options.on_error), Vec::new())
        });
    if let Some(message) = message.filter(|_| outcome.passes()) {
        edit::deliver(message, options, &edits, deadline)?;
    }
    Ok(outcome)
}
