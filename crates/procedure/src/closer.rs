//! Closing files whose file systems may hang.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Files that wait to be closed before no more are to be taken.
const BEHIND: usize = 256;
/// How long the thread waits for more before it ends.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// A thread that closes somebody's files, so that nobody else waits for a file system that has to
/// ask others, and does not answer. It is there while there is something to do, and a little
/// longer.
#[derive(Clone, Debug, Default)]
pub struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    files: VecDeque<OwnedFd>,
    /// Files that are not closed yet.
    open: usize,
    has_thread: bool,
}

impl Closer {
    /// One without files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has a file closed; does not wait.
    pub fn close(&self, file: OwnedFd) {
        let mut state = self.0.lock();
        state.files.push_back(file);
        state.open += 1;
        if state.has_thread {
            drop(state);
            return self.0.filled.notify_one();
        }
        let shared = Arc::clone(&self.0);
        let builder = thread::Builder::new().name("closer".to_owned());
        // Without a thread left in the system, the files wait for the next one.
        state.has_thread = builder.spawn(move || shared.work()).is_ok();
    }

    /// Whether too many files wait to take more of them: a file system does not answer.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.0.lock().open >= BEHIND
    }

    /// Whether it ever had something to do, a moment ago.
    #[cfg(test)]
    pub(crate) fn has_had_files(&self) -> bool {
        self.0.lock().has_thread
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.lock().open == 0
    }

    /// Whether nothing waits, and nobody else has this closer any more who could make something
    /// wait.
    #[must_use]
    pub fn is_done(&self) -> bool {
        // In this order: who has it closes files before letting go of it.
        Arc::strong_count(&self.0) == 1 && self.is_idle()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let nothing = |state: &mut State| state.files.is_empty();
            let waited = self.filled.wait_timeout_while(state, IDLE_TIME, nothing);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let Some(file) = state.files.pop_front() else {
                state.has_thread = false;
                return;
            };
            drop(state);
            drop(file);
            state = self.lock();
            state.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        std::fs::File::open("/dev/null")
            .expect("it is there")
            .into()
    }

    #[test]
    fn files_are_closed_soon() {
        let closer = Closer::new();
        for _ in 0..2 * BEHIND {
            closer.close(file());
        }
        while !closer.is_idle() {
            thread::yield_now();
        }
        assert!(!closer.is_behind());
    }

    #[test]
    fn too_many_that_wait_are_told_of() {
        let closer = Closer::new();
        // As if a thread were busy.
        closer.0.lock().has_thread = true;
        for _ in 0..BEHIND {
            assert!(!closer.is_behind());
            closer.close(file());
        }
        assert!(closer.is_behind() && !closer.is_idle());
    }
}
