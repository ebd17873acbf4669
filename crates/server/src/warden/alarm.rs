//! Shards call the thread that looks at memory while it looks seldom.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// Ends a long wait of that thread.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    thread: OnceLock<Thread>,
    /// Whether it waits for long, and nobody has called it since.
    waits_long: AtomicBool,
}

impl Alarm {
    /// Waits for as long as `time` says. If that is long, somebody may call from then on when it
    /// is asked. One thread does that.
    pub(super) fn wait(&self, long: Duration, time: impl FnOnce() -> Duration) {
        self.thread.get_or_init(thread::current);
        // Before the question: whoever comes to hold much afterwards calls.
        self.waits_long.store(true, Ordering::SeqCst);
        let time = time();
        if time < long {
            self.waits_long.store(false, Ordering::Relaxed);
        }
        thread::park_timeout(time);
        self.waits_long.store(false, Ordering::Relaxed);
    }

    /// Ends a long wait. Costs one comparison where there is none.
    pub(crate) fn ring(&self) {
        if self.waits_long.load(Ordering::Relaxed)
            && self.waits_long.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_long_wait_ends_when_somebody_calls() {
        let alarm = Arc::new(Alarm::default());
        alarm.ring();
        let (waiter, (done, is_done)) = (Arc::clone(&alarm), std::sync::mpsc::channel());
        thread::spawn(move || {
            let hour = Duration::from_secs(3_600);
            waiter.wait(hour, || hour);
            done.send(())
        });
        while is_done.recv_timeout(Duration::from_millis(1)).is_err() {
            alarm.ring();
        }
        let short = Duration::from_millis(1);
        alarm.wait(Duration::from_secs(1), || short);
        alarm.ring();
    }
}
