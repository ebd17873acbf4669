//! Memory that is free goes back to the system from a thread that may wait.
//!
//! The allocator gives it back on whichever thread comes by when the time has come, all at once:
//! after a burst of hundreds of megabytes, a shard paused for 5 to 20 ms.
#![allow(unsafe_code)]

use std::ffi::c_long;

use libmimalloc_sys as mi;

/// `mi_option_purge_delay`: the time that freed memory is kept, in milliseconds. The crate has no
/// name for it.
const PURGE_DELAY: mi::mi_option_t = 15;

/// The time after which any thread gives memory back that [`give_back`] has left: only if that is
/// not called for so long.
const KEPT_MILLIS: c_long = 30_000;

/// From now on [`give_back`] is called every few seconds at least.
pub(crate) fn take_over() {
    // SAFETY: sets a number that the allocator reads by an atomic; any value is allowed.
    unsafe { mi::mi_option_set(PURGE_DELAY, KEPT_MILLIS) };
}

/// Gives back what is free. Takes about 40 µs for a megabyte.
pub(crate) fn give_back() {
    // SAFETY: may be called on any thread, at any time; it frees only what is free.
    unsafe { mi::mi_collect(true) };
}
