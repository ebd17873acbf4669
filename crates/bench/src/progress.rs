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
    /// How far a longer run has come.
    whole: Option<Whole>,
    stage: String,
}

/// A run of several workloads.
#[derive(Clone, Copy, Debug)]
struct Whole {
    begun_ns: u64,
    done: usize,
    all: usize,
}

impl Whole {
    /// `7 of 29, about 3 min left`: as if the others took as long as those before.
    fn told(self, now_ns: u64) -> String {
        let number = self.done + 1;
        let passed_s = now_ns.saturating_sub(self.begun_ns) / SECOND_NS;
        let left_s = match self.done as u64 {
            0 => return format!("{number} of {}", self.all),
            done => passed_s * self.all.saturating_sub(self.done) as u64 / done,
        };
        let left = match left_s {
            0..90 => format!("{left_s} s"),
            _ => format!("{} min", left_s.div_ceil(60)),
        };
        format!("{number} of {}, about {left} left", self.all)
    }
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
            whole: None,
            stage: String::new(),
        }
    }

    /// One of a run of this many workloads.
    pub(crate) fn of(workloads: usize) -> Self {
        let whole = Whole {
            begun_ns: now_ns(),
            done: 0,
            all: workloads,
        };
        Self {
            whole: Some(whole),
            ..Self::new()
        }
    }

    pub(crate) fn new() -> Self {
        Self {
            shown: io::stderr().is_terminal(),
            whole: None,
            stage: String::new(),
        }
    }

    /// This many workloads of a longer run are done.
    pub(crate) fn count(&mut self, workloads: usize) {
        if let Some(whole) = &mut self.whole {
            whole.done = (whole.done + workloads).min(whole.all);
        }
    }

    /// One more is done: a line that says which of a longer run it was.
    pub(crate) fn step(&mut self) -> String {
        let told = self.whole().map(|told| format!("\n{told}\n"));
        self.count(1);
        told.unwrap_or_default()
    }

    /// How far a longer run has come; `None` of one that is a single command.
    pub(crate) fn whole(&self) -> Option<String> {
        self.whole.map(|whole| whole.told(now_ns()))
    }

    /// What is being measured from now on.
    pub(crate) fn stage(&mut self, stage: String) {
        self.stage = stage;
        self.show("");
    }

    /// What goes on right now.
    pub(crate) fn show(&self, now: &str) {
        if self.shown {
            let part = self
                .whole()
                .map_or_else(String::new, |told| format!("[{told}] "));
            let line: String = format!("{part}{} {now}", self.stage)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_those_before() {
        let whole = |done| Whole {
            begun_ns: 0,
            done,
            all: 29,
        };
        assert_eq!(whole(0).told(90 * SECOND_NS), "1 of 29");
        assert_eq!(whole(6).told(60 * SECOND_NS), "7 of 29, about 4 min left");
        assert_eq!(whole(28).told(280 * SECOND_NS), "29 of 29, about 10 s left");
    }
}
