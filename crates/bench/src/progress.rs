//! One line of live progress, on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::clock::{SECOND_NS, now_ns, sleep_until_ns};

/// Where a run stands. Silent unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    /// Which part of a longer run this is.
    part: String,
    stage: String,
}

/// How far a load thread has come, for whoever waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    pub(crate) fn set(&self, count: usize) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Progress {
    /// One that shows nothing, for what goes on beside something that is shown.
    pub(crate) fn silent() -> Self {
        Self {
            shown: false,
            part: String::new(),
            stage: String::new(),
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            shown: io::stderr().is_terminal(),
            part: String::new(),
            stage: String::new(),
        }
    }

    /// Which part of a longer run is measured from now on; stands before everything else.
    pub(crate) fn part(&mut self, part: String) {
        self.part = part;
    }

    /// What is being measured from now on.
    pub(crate) fn stage(&mut self, stage: String) {
        self.stage = stage;
        self.show("");
    }

    /// What goes on right now.
    pub(crate) fn show(&self, now: &str) {
        if self.shown {
            let line: String = format!("{}{} {now}", self.part, self.stage)
                .chars()
                .take(110)
                .collect();
            // Progress is a courtesy: a terminal that went away is no reason to stop.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        }
    }

    /// Waits until the clock shows `until_ns`, and says second by second how long that is.
    pub(crate) fn wait(&self, now: &str, until_ns: u64) {
        loop {
            let at_ns = now_ns();
            if at_ns >= until_ns {
                return;
            }
            let left = (until_ns - at_ns).div_ceil(SECOND_NS);
            self.show(&format!("{now}, {left} s left"));
            sleep_until_ns(until_ns.min(at_ns + SECOND_NS));
        }
    }

    /// Waits for what a thread sends, and says second by second how it goes and how long it takes
    /// already; `None` if the thread ends without having sent anything.
    pub(crate) fn receive<T>(&self, now: impl Fn() -> String, from: &Receiver<T>) -> Option<T> {
        let begun_ns = now_ns();
        self.show(&now());
        loop {
            match from.recv_timeout(Duration::from_secs(1)) {
                Ok(sent) => return Some(sent),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let passed = (now_ns() - begun_ns) / SECOND_NS;
                    self.show(&format!("{}, {passed} s", now()));
                }
            }
        }
    }

    /// Clears the line.
    pub(crate) fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
