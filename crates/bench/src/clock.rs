//! The one clock of all measurements: `CLOCK_MONOTONIC` in nanoseconds, comparable between
//! processes of one machine.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds since boot.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or_else(|_| TimeSpec::new(0, 0));
    // Time since boot is positive, and fits into 64 bits for 584 years.
    now.tv_sec().cast_unsigned() * SECOND_NS + now.tv_nsec().cast_unsigned()
}

/// Sleeps until the clock shows `deadline_ns`; returns at once if it already does.
pub(crate) fn sleep_until_ns(deadline_ns: u64) {
    let deadline = TimeSpec::from_duration(Duration::from_nanos(deadline_ns));
    while now_ns() < deadline_ns {
        // Interrupted sleeps are begun again: the deadline is absolute.
        let _ = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &deadline,
        );
    }
}

/// Wakes from sleeps as exactly as the kernel can; the default may be 50 µs late.
pub(crate) fn sleep_exactly() {
    // Refused only by a sandbox; then sends are 50 µs late, and reported as such.
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// A duration in nanoseconds; saturates after 584 years.
pub(crate) fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
