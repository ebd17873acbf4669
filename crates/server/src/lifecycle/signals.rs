//! Signals: blocked everywhere, waited for by one thread.

use std::io;
use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use super::{Command, spawn};
use crate::error::ServerError;

/// The signals that this program handles, blocked in the calling thread and in all that it starts.
pub(super) struct Signals(SigSet);

/// Blocks the signals. To be called before any other thread is started.
///
/// # Errors
/// When the system refuses.
pub(super) fn block() -> io::Result<Signals> {
    let set: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .collect();
    set.thread_block()?;
    Ok(Signals(set))
}

impl Signals {
    /// Starts the thread that turns signals into commands. A second signal to stop ends the
    /// process at once.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(self, commands: Sender<Command>) -> Result<(), ServerError> {
        spawn("signals", move || {
            let mut stops = 0;
            while let Ok(signal) = self.0.wait() {
                let command = match signal {
                    Signal::SIGHUP => Command::Reload("SIGHUP", None),
                    signal => {
                        stops += 1;
                        if stops > 1 {
                            // Somebody is impatient, and knows what it costs.
                            std::process::exit(1);
                        }
                        Command::Stop(if signal == Signal::SIGINT {
                            "SIGINT"
                        } else {
                            "SIGTERM"
                        })
                    }
                };
                if commands.send(command).is_err() {
                    return;
                }
            }
        })
    }
}
