//! What `stentor-call` does, for two programs: the one of that name, and `stentor-call-tls`.
//!
//! Whatever happens, a call ends before its deadline with a code that its profile knows: an answer,
//! or what `--on-error` says about a server that is down, slow, or tells nonsense.

mod args;
mod edit;
mod fault;
mod file;
mod help;
mod line;
mod outcome;
mod platform;
mod profile;
mod talk;

use std::ffi::OsString;
use std::time::Duration;

use args::{Changed, Command, Options, Problem};
use outcome::Outcome;
use platform::Deadline;
use profile::Profile;
use stentor_call_protocol::Verdict;

pub use fault::Fault;
pub use file::regular;
pub use line::{Begin, Cipher, Secret};

/// How long people may take to read the help.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Does everything; returns the exit code. `begin` is asked for TLS where a server speaks it,
/// before the message is read.
#[must_use]
pub fn run(arguments: &[OsString], begin: Begin<'_>) -> i32 {
    let clock = platform::Clock::start();
    match args::parse(arguments) {
        Ok(Command::Help) => shown(help::TEXT, clock),
        Ok(Command::Version) => shown(help::VERSION, clock),
        Ok(Command::Call(options)) => {
            let deadline = clock.deadline(options.deadline);
            let outcome = call(&options, begin, &deadline)
                .unwrap_or_else(|fault| without(&fault, &options, &deadline));
            finish(outcome, &options, &deadline)
        }
        Err(Problem { fault, options }) => {
            let deadline = clock.deadline(options.deadline);
            finish(without(&fault, &options, &deadline), &options, &deadline)
        }
    }
}

/// Tells the caller what came of the call, and deletes the file if that is wanted. Returns the exit
/// code.
fn finish(outcome: Outcome, options: &Options, deadline: &Deadline) -> i32 {
    let code = outcome.finish(options, deadline);
    if let Err(fault) = file::delete(options) {
        outcome::complain(options.profile, &fault.to_string(), deadline);
    }
    code
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
fn call(options: &Options, begin: Begin<'_>, deadline: &Deadline) -> Result<Outcome, Fault> {
    // Another program may take over here, which will want to read a pipe itself.
    let cipher = line::cipher(options, begin);
    let message = file::open(options, deadline)?;
    // A message that passes whatever the server does has to be printed then.
    let is_sure = options.changed == Changed::Printed && options.on_error == Some(Verdict::Accept);
    let patience = is_sure.then(|| deadline.with_rest());
    let patience = patience.as_ref().unwrap_or(deadline);
    let talked = cipher.and_then(|cipher| talk::talk(options, cipher, message.as_ref(), patience));
    let (outcome, edits) = talked.unwrap_or_else(|fault| {
        outcome::complain(options.profile, &fault.to_string(), deadline);
        (Outcome::of_fault(&fault, options.on_error), Vec::new())
    });
    if let Some(message) = message.filter(|_| outcome.passes()) {
        edit::deliver(message, options, &edits, deadline)?;
    }
    Ok(outcome)
}
