//! The server's clock.

use std::time::{Instant, SystemTime};

use stentor_session::Tick;

/// Monotonic time since the server was started, the same for all its threads, and when that was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    started_at: SystemTime,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
            started_at: SystemTime::now(),
        }
    }

    /// Now.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        let micros = self.origin.elapsed().as_micros();
        // 584,000 years.
        Tick::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The start, as the system's monotonic clock has it.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// The wall clock's time at the start.
    pub(crate) fn started_at(&self) -> SystemTime {
        self.started_at
    }

    /// Seconds since 1970 at the start.
    pub(crate) fn started_at_secs(&self) -> u64 {
        unix_secs(self.started_at)
    }
}

/// Seconds since 1970; 0 before that.
pub(crate) fn unix_secs(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
