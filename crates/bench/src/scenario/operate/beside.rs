//! Threads that do something beside a load until it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::{SECOND_NS, now_ns, sleep_until_ns};
use crate::error::BenchError;
use crate::load::{join, spawn};

/// Some threads; dropping it has them end.
#[derive(Debug)]
pub(super) struct ClientThreads<T> {
    stop: Stop,
    threads: Vec<JoinHandle<Result<T, BenchError>>>,
}

/// Whether the load is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until a time, unless the load is over before; whether it is not.
    pub(super) fn wait_until(&self, time_ns: u64) -> bool {
        while !self.is_set() && now_ns() < time_ns {
            let look_ns = now_ns() + LOOK.as_nanos() as u64;
            sleep_until_ns(time_ns.min(look_ns));
        }
        !self.is_set()
    }

    /// Waits for so long.
    pub(super) fn wait(&self, time: Duration) -> bool {
        self.wait_until(now_ns() + (time.as_secs_f64() * SECOND_NS as f64) as u64)
    }
}

/// How often a thread that waits looks whether the load is over.
const LOOK: Duration = Duration::from_millis(50);

impl<T: Send + 'static> ClientThreads<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self {
            stop: Stop::default(),
            threads: Vec::new(),
        }
    }

    /// Starts a thread, which ends soon after the load is over.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn add(
        &mut self,
        name: &str,
        work: impl FnOnce(&Stop) -> Result<T, BenchError> + Send + 'static,
    ) -> Result<(), BenchError> {
        let stop = self.stop.clone();
        self.threads.push(spawn(name, move || work(&stop))?);
        Ok(())
    }

    /// Has them end; what each has come to, in their order.
    ///
    /// # Errors
    /// When one of them has failed.
    pub(super) fn end(mut self) -> Result<Vec<T>, BenchError> {
        self.stop.0.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(|thread| join(thread)?).collect()
    }
}

impl<T> Drop for ClientThreads<T> {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }
}
