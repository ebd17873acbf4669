//! How many requests of each kind are answered at a time, on threads that may wait.

use tokio::sync::Semaphore;

use crate::bounds::{
    HEALTH_AT_ONCE, METRICS_AT_ONCE, TOKENS_AT_ONCE, TOKENS_WAITING_MAX, VERBS_AT_ONCE,
    VERBS_WAITING_MAX, WAITS_AT_ONCE,
};

/// The kinds of requests.
pub(crate) struct Slots {
    pub(crate) health: Slot,
    pub(crate) metrics: Slot,
    /// Tokens that are not known yet; a wrong one takes its time.
    pub(crate) tokens: Slot,
    /// Verbs.
    pub(crate) verbs: Slot,
    /// Verbs that wait for something to happen.
    pub(crate) waits: Slot,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            health: Slot::endless(HEALTH_AT_ONCE),
            metrics: Slot::endless(METRICS_AT_ONCE),
            tokens: Slot::new(TOKENS_AT_ONCE, TOKENS_WAITING_MAX),
            verbs: Slot::new(VERBS_AT_ONCE, VERBS_WAITING_MAX),
            waits: Slot::new(WAITS_AT_ONCE, 0),
        }
    }
}

/// Requests of one kind: some are answered, others wait for their turn.
pub(crate) struct Slot {
    /// Those that are answered or wait.
    places: Semaphore,
    turns: Semaphore,
}

impl Slot {
    fn new(at_once: usize, waiting_max: usize) -> Self {
        Self {
            places: Semaphore::new(at_once + waiting_max),
            turns: Semaphore::new(at_once),
        }
    }

    /// One where any number may wait: the connections are counted.
    fn endless(at_once: usize) -> Self {
        Self::new(at_once, Semaphore::MAX_PERMITS - at_once)
    }

    /// Does something on a thread that may wait, when it is this kind's turn; `None` if too many
    /// wait, or the thread has failed.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _place = self.places.try_acquire().ok()?;
        let _turn = self.turns.acquire().await.ok()?;
        tokio::task::spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn one_too_many_is_not_waited_for() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let slot = std::sync::Arc::new(Slot::new(1, 1));
            let (go, gone) = channel::<()>();
            let run = |slot: std::sync::Arc<Slot>, wait: Option<std::sync::mpsc::Receiver<()>>| {
                tokio::spawn(async move {
                    let work = move || {
                        if let Some(wait) = wait {
                            let _ = wait.recv();
                        }
                        7
                    };
                    slot.run(work).await
                })
            };
            let first = run(std::sync::Arc::clone(&slot), Some(gone));
            tokio::task::yield_now().await;
            let second = run(std::sync::Arc::clone(&slot), None);
            tokio::task::yield_now().await;
            assert_eq!(slot.run(|| 7).await, None, "two are there already");
            drop(go);
            assert_eq!(first.await.expect("it ends"), Some(7));
            assert_eq!(second.await.expect("it ends"), Some(7));
            assert_eq!(slot.run(|| 7).await, Some(7));
        });
    }
}
