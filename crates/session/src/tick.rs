//! Time, as the caller tells it.

use core::time::Duration;

/// A point in monotonic time, in microseconds since an origin that the caller chose.
///
/// Nothing below the server reads a clock: every call that needs the time is handed a `Tick`, so
/// that tests run on a virtual clock. Ticks never go backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The origin.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline.
    pub const NEVER: Self = Self(u64::MAX);

    /// The tick that many microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The tick that many milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The tick that many seconds after the origin.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since the origin.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000
    }

    /// This tick plus a duration; saturates at [`Tick::NEVER`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// This tick plus whole seconds; saturates at [`Tick::NEVER`].
    #[must_use]
    pub const fn after_secs(self, secs: u32) -> Self {
        // The cast widens; `u64::from` is not const.
        Self(self.0.saturating_add(secs as u64 * 1_000_000))
    }

    /// The time since an earlier tick; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}
