//! What a program writes, as it comes.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::DEADLINE;

/// Text that grows while a program runs.
#[derive(Debug, Default)]
pub struct Log {
    text: Mutex<String>,
    grown: Condvar,
}

impl Log {
    /// Takes all lines of a source, on a thread of its own, until it ends.
    pub fn follow(source: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let copy = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(source).split(b'\n') {
                let Ok(line) = line else { break };
                let mut text = copy.lock();
                text.push_str(&String::from_utf8_lossy(&line));
                text.push('\n');
                copy.grown.notify_all();
            }
        });
        log
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything up to now.
    #[must_use]
    pub fn text(&self) -> String {
        self.lock().clone()
    }

    /// Waits until it contains a text past that many bytes, and returns all of it.
    ///
    /// # Panics
    /// If the text does not come in time.
    #[track_caller]
    pub fn wait(&self, from: usize, text: &str) -> String {
        self.when(&format!("{text:?}"), |log| {
            log.get(from..).is_some_and(|new| new.contains(text))
        })
    }

    /// Waits until all of it is as is wanted, and returns it. Lines come whole.
    ///
    /// # Panics
    /// If that does not come to be in time.
    #[track_caller]
    pub fn when(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + DEADLINE;
        let mut log = self.lock();
        while !is_so(&log) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the log never said {what}:\n{log}");
            log = self
                .grown
                .wait_timeout(log, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        log.clone()
    }
}
