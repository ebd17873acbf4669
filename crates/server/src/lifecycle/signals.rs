//! Signals: blocked everywhere, waited for by one thread.

use std::io;
use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use super::{Command, spawn};
use crate::error::ServerError;

/// The signals that this program handles, blocked in the calling thread and in all that it starts.
pub(super) struct Signals(SigSet);

/// Blocks the signals that [`run`](super::run) waits for, in the calling thread and in all that it
/// starts.
///
/// `run` does so itself. A program that does something before, reading its configuration for
/// example, calls this first of all: a signal that arrives in the meantime then waits for the
/// server instead of killing the process. Until `run` is reached nothing answers signals, so what
/// comes between must not take long.
///
/// # Errors
/// When the system refuses.
pub fn block_signals() -> io::Result<()> {
    block().map(drop)
}

/// Blocks the signals. To be called before any other thread is started.
///
/// # Errors
/// When the system refuses.
pub(super) fn block() -> io::Result<Signals> {
    let set: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect();
    set.thread_block()?;
    survive_long_files()?;
    Ok(Signals(set))
}

/// Makes a file that may not grow any more (`ulimit -f`) an error of whoever writes it, as a full
/// disk is, for the calling thread and all that it starts; else it kills the process.
///
/// # Errors
/// When the system refuses.
pub fn survive_long_files() -> io::Result<()> {
    // Nobody waits for it.
    let of_files: SigSet = [Signal::SIGXFSZ].into_iter().collect();
    Ok(of_files.thread_block()?)
}

impl Signals {
    /// Starts the thread that turns signals into commands. Signals to stop may come in any number:
    /// `timeout` sends one to the process and one to its group, people press Ctrl-C again. The
    /// first one counts, and what it begins ends in bounded time.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(self, commands: Sender<Command>) -> Result<(), ServerError> {
        spawn("signals", move || {
            while let Ok(signal) = self.0.wait() {
                let command = match signal {
                    Signal::SIGHUP => Command::Reload("SIGHUP", None),
                    Signal::SIGINT => Command::Stop("SIGINT", None),
                    _ => Command::Stop("SIGTERM", None),
                };
                // Nobody takes it any more while the server ends. The thread stays to take the
                // signals, which are harmless then.
                let _ = commands.send(command);
            }
        })
    }
}
