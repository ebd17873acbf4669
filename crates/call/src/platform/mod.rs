//! What differs between systems: sockets, descriptors, files that nobody sees.
//!
//! Nothing outside this module assumes Unix. Elsewhere there is TCP, and no in-place change keeps
//! an owner.

// Compiled by the tests on Unix too, so that it stays whole.
#[cfg(any(not(unix), test))]
#[cfg_attr(unix, expect(dead_code, reason = "this is for other systems"))]
mod other;
#[cfg(unix)]
mod unix;

use std::time::{Duration, Instant};

use crate::fault::Fault;

#[cfg(not(unix))]
pub(crate) use other::{
    Link, Mark, Output, complain, create_like, log, names, open, overwrite, read_at, stdin_file,
    temporary_file,
};
#[cfg(unix)]
pub(crate) use unix::{
    Link, Mark, Output, complain, create_like, log, names, open, overwrite, read_at, stdin_file,
    temporary_file,
};

/// What [`Deadline::with_rest`] leaves at most.
const REST_MAX: Duration = Duration::from_secs(1);

/// When the program started.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn deadline(self, after: Duration) -> Deadline {
        Deadline(self.0 + after)
    }
}

/// When the program has to have ended.
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// The time that is left.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn left(&self) -> Result<Duration, Fault> {
        match self.0.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(Fault::Timeout),
        }
    }

    /// An earlier one, so that after it there is time for what has to be done in any case: a
    /// quarter of what is left, a second at most.
    pub(crate) fn with_rest(&self) -> Self {
        let left = self.0.saturating_duration_since(Instant::now());
        Self(self.0 - (left / 4).min(REST_MAX))
    }
}
