//! The load generator: packed clients on their own threads, each thread with its own poll and,
//! where the system allows, its own descriptor table.

pub(crate) mod crowd;
pub(crate) mod echo;
pub(crate) mod fill;
pub(crate) mod lasting;
pub(crate) mod publisher;
pub(crate) mod pulse;
pub(crate) mod receiver;
pub(crate) mod shared;
pub(crate) mod source;
pub(crate) mod storm;
mod watermark;

use std::sync::mpsc;
use std::thread::{JoinHandle, ScopedJoinHandle};

use hdrhistogram::Histogram;
use nix::sched::{CloneFlags, unshare};

use crate::error::{BenchError, Doing};
use crate::progress::Progress;

/// The longest latency that a histogram tells apart: a day, longer than anything that is measured,
/// so that none is cut.
const LATENCY_NS_MAX: u64 = 24 * 3_600 * 1_000_000_000;

/// A latency histogram in nanoseconds: a tenth of a microsecond, three significant digits.
pub(crate) fn histogram() -> Histogram<u64> {
    // These bounds are valid, which is all that can go wrong; the default would be as good.
    Histogram::new_with_bounds(100, LATENCY_NS_MAX, 3)
        .unwrap_or_else(|_| unreachable!("constant bounds are valid"))
}

/// Starts a load thread with a descriptor table of its own: system calls get cheaper, and the
/// descriptor limit applies to each thread alone. Where that is refused (containers), the threads
/// share one table.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, BenchError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            let _ = unshare(CloneFlags::CLONE_FILES);
            work()
        })
        .doing("start a thread")
}

/// Runs something on a load thread and waits for its result; `now` says what goes on, for those who
/// wait.
pub(crate) fn run<T: Send + 'static>(
    name: &str,
    progress: &Progress,
    now: &dyn Fn() -> String,
    work: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    let (running, has_ended) = mpsc::channel::<()>();
    let handle = spawn(name, move || {
        let result = work();
        drop(running);
        result
    })?;
    progress.receive(now, &has_ended);
    join(handle)?
}

/// Waits for a load thread of a scope.
pub(crate) fn join_scoped<T>(handle: ScopedJoinHandle<'_, T>) -> Result<T, BenchError> {
    handle
        .join()
        .map_err(|_| BenchError::server("a load thread panicked"))
}

/// Waits for a load thread.
pub(crate) fn join<T>(handle: JoinHandle<T>) -> Result<T, BenchError> {
    handle
        .join()
        .map_err(|_| BenchError::server("a load thread panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_is_late_however_late() {
        let mut latency = histogram();
        // A server that answers after two minutes is no faster than that.
        for seconds in [1, 120, 7_200] {
            latency.saturating_record(seconds * 1_000_000_000);
        }
        for (quantile, seconds) in [(0.5, 120.0), (1.0, 7_200.0)] {
            let shown = latency.value_at_quantile(quantile) as f64 / 1e9;
            // Three digits.
            assert!((shown / seconds - 1.0).abs() < 0.002, "{quantile}: {shown}");
        }
    }
}
