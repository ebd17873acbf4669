//! One line of live progress, on a terminal only.

use std::io::{self, IsTerminal, Write};

/// Where a run stands. Silent unless standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    stage: String,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            shown: io::stderr().is_terminal(),
            stage: String::new(),
        }
    }

    /// What is being measured from now on.
    pub(crate) fn stage(&mut self, stage: String) {
        self.stage = stage;
        self.show("");
    }

    /// What goes on right now.
    pub(crate) fn show(&self, now: &str) {
        if self.shown {
            let line: String = format!("{} {now}", self.stage).chars().take(110).collect();
            // Progress is a courtesy: a terminal that went away is no reason to stop.
            let _ = write!(io::stderr().lock(), "\r\x1b[K{line}");
        }
    }

    /// Clears the line.
    pub(crate) fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
