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
#[derive(Clone, Debug)]
struct Whole {
    begun_ns: u64,
    /// When the last one was done.
    counted_ns: u64,
    done: usize,
    /// About how long each takes, in seconds.
    lengths_s: Vec<f64>,
}

impl Whole {
    /// `7 of 29, about 3 min left`: as long as the others are, on a machine as quick as it was for
    /// those before.
    fn told(&self, now_ns: u64) -> String {
        let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / SECOND_NS as f64;
        let (before, after) = self.lengths_s.split_at(self.done.min(self.lengths_s.len()));
        let (done_s, rest_s): (f64, f64) = (before.iter().sum(), after.iter().sum());
        // What the first ones say of the machine is weighed against what was expected.
        let expected_s = (done_s + rest_s) / 4.0;
        let pace = (seconds(self.begun_ns, self.counted_ns) + expected_s)
            / (done_s + expected_s).max(f64::MIN_POSITIVE);
        let others_s: f64 = after.iter().skip(1).sum();
        let left_s = rest_s * pace - seconds(self.counted_ns, now_ns);
        let left_s = left_s.max(others_s * pace).round() as u64;
        let left = match left_s {
            0..90 => format!("{left_s} s"),
            _ => format!("{} min", left_s.div_ceil(60)),
        };
        format!(
            "{} of {}, about {left} left",
            self.done + 1,
            self.lengths_s.len()
        )
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

    /// One of a run of several workloads, which take about this many seconds each.
    pub(crate) fn of(lengths_s: Vec<f64>) -> Self {
        let begun_ns = now_ns();
        let whole = Whole {
            begun_ns,
            counted_ns: begun_ns,
            done: 0,
            lengths_s,
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
            whole.done = (whole.done + workloads).min(whole.lengths_s.len());
            whole.counted_ns = now_ns();
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
        self.whole.as_ref().map(|whole| whole.told(now_ns()))
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
            // Progress is a courtesy: the run goes on if the terminal went away.
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
    fn the_time_left_is_as_long_as_the_others_are() {
        let lengths_s = [vec![2.0; 4], vec![20.0; 4]].concat();
        let told = |done, counted_s, now_s| {
            let whole = Whole {
                begun_ns: 0,
                counted_ns: counted_s * SECOND_NS,
                done,
                lengths_s: lengths_s.clone(),
            };
            whole.told(now_s * SECOND_NS)
        };
        assert_eq!(told(0, 0, 0), "1 of 8, about 88 s left");
        // The first ones are short, and say little of the others.
        assert_eq!(told(4, 8, 8), "5 of 8, about 80 s left");
        assert_eq!(told(4, 8, 18), "5 of 8, about 70 s left");
        assert_eq!(told(4, 8, 58), "5 of 8, about 60 s left", "it takes longer");
        // On a machine that is half as quick.
        assert_eq!(told(7, 136, 136), "8 of 8, about 35 s left");
        assert_eq!(told(7, 136, 900), "8 of 8, about 0 s left");
    }
}
