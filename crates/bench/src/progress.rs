//! One line of live progress, on a terminal only.

use std::io::{self, IsTerminal, Write};

use crate::clock::{SECOND_NS, now_ns, sleep_until_ns};

/// Where a run stands. Silent unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    /// Which part of a longer run this is.
    part: String,
    stage: String,
}

impl Progress {
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

    /// Clears the line.
    pub(crate) fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
