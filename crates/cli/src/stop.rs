//! Ctrl-C and SIGTERM, for commands that say DISCONNECT before they go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use stentor_client::{Client, Interrupter};

use crate::failure::Failure;

/// Waits for the signals in a thread of its own.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    /// There is no server to say DISCONNECT to.
    Alone,
    /// A client waits for messages.
    Connected(Interrupter),
    /// The user wants an end, by this signal.
    Asked(Signal),
}

impl Stop {
    /// Takes the signals over from here on. To be called before other threads are started.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("cannot wait for signals: {error}"));
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGINT);
        signals.add(Signal::SIGTERM);
        signals.thread_block().map_err(failed)?;
        let stop = Self(Arc::new(Mutex::new(State::Alone)));
        let noted = stop.clone();
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                noted.ask(signal);
            }
        });
        Ok(stop)
    }

    /// Without a connection, or when it takes too long for the user, the command ends at once.
    fn ask(&self, signal: Signal) {
        let mut state = self.lock();
        match &*state {
            State::Connected(client) => client.interrupt(),
            State::Alone | State::Asked(_) => std::process::exit(128 + signal as i32),
        }
        *state = State::Asked(signal);
    }

    /// From now on the end of this client's waiting is what the signals cause.
    pub(crate) fn guard(&self, client: &Client) -> Result<(), Failure> {
        let interrupter = client
            .interrupter()
            .map_err(|error| Failure::new(error.to_string()))?;
        let mut state = self.lock();
        if matches!(&*state, State::Asked(_)) {
            interrupter.interrupt();
        } else {
            *state = State::Connected(interrupter);
        }
        Ok(())
    }

    /// The connection is gone. Whether a signal was the reason.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked().is_some()
    }

    /// The connection is gone. The signal that was the reason, if one was.
    pub(crate) fn asked(&self) -> Option<Signal> {
        let mut state = self.lock();
        match &*state {
            State::Asked(signal) => Some(*signal),
            State::Alone | State::Connected(_) => {
                *state = State::Alone;
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
