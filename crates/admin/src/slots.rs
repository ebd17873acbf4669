//! How many requests of each kind are answered at a time, on threads that may wait.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::bounds::{
    FIGURES_AT_ONCE, HEALTH_AT_ONCE, LOOKS_AT_ONCE, METRICS_AT_ONCE, VERBS_AT_ONCE,
    VERBS_WAITING_MAX, WAITS_AT_ONCE,
};
use crate::checks::Checks;

/// The kinds of requests.
pub(crate) struct Slots {
    pub(crate) health: Slot,
    pub(crate) metrics: Slot,
    /// Tokens that are not known yet; they need no thread.
    pub(crate) tokens: Checks,
    /// Bodies of logins that are on their way; they need no thread.
    pub(crate) strangers: Checks,
    /// Verbs.
    pub(crate) verbs: Slot,
    /// Verbs that wait for something to happen.
    pub(crate) waits: Slot,
    /// Bodies of users that are on their way; they need no thread.
    pub(crate) bodies: Checks,
    /// Looks of event streams.
    pub(crate) looks: Slot,
    /// Looks of event streams at the figures.
    pub(crate) figures: Slot,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            health: Slot::endless(HEALTH_AT_ONCE),
            metrics: Slot::endless(METRICS_AT_ONCE),
            tokens: Checks::default(),
            strangers: Checks::default(),
            verbs: Slot::new(VERBS_AT_ONCE, VERBS_WAITING_MAX),
            waits: Slot::new(WAITS_AT_ONCE, 0),
            bodies: Checks::default(),
            looks: Slot::endless(LOOKS_AT_ONCE),
            figures: Slot::endless(FIGURES_AT_ONCE),
        }
    }
}

/// Requests of one kind: some are answered, others wait for their turn.
pub(crate) struct Slot {
    /// Those that are answered or wait.
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Slot {
    fn new(at_once: usize, waiting_max: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(at_once + waiting_max)),
            turns: Arc::new(Semaphore::new(at_once)),
        }
    }

    /// One where any number may wait: the connections are counted.
    fn endless(at_once: usize) -> Self {
        Self::new(at_once, Semaphore::MAX_PERMITS - at_once)
    }

    /// Does something on a thread that may wait, when it is this kind's turn; `None` if too many
    /// wait, or the thread has failed. The place is taken until that is done, also if the client is
    /// gone by then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let work = move || {
            let _held = place;
            work()
        };
        self.finish(work).await
    }

    /// The same of the end of something that has begun: it is not refused, however many wait.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        let work = move || {
            let _held = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    /// A client that hangs up does not make room for others while its request is done.
    #[test]
    fn a_place_is_taken_until_the_work_is_done() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let slot = Arc::new(Slot::new(1, 0));
            let (begin, begun) = channel::<()>();
            let (go, gone) = channel::<()>();
            let first = {
                let slot = Arc::clone(&slot);
                tokio::spawn(async move {
                    let work = move || {
                        let _ = begin.send(());
                        let _ = gone.recv();
                    };
                    slot.run(work).await
                })
            };
            tokio::task::yield_now().await;
            begun.recv().expect("it is done");
            first.abort();
            assert!(first.await.is_err(), "nobody waits for it any more");
            assert_eq!(slot.run(|| 7).await, None, "its place is taken");
            drop(go);
            while slot.run(|| 7).await.is_none() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn one_too_many_is_not_waited_for() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let slot = Arc::new(Slot::new(1, 1));
            let (go, gone) = channel::<()>();
            let run = |slot: Arc<Slot>, wait: Option<std::sync::mpsc::Receiver<()>>| {
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
            let first = run(Arc::clone(&slot), Some(gone));
            tokio::task::yield_now().await;
            let second = run(Arc::clone(&slot), None);
            tokio::task::yield_now().await;
            assert_eq!(slot.run(|| 7).await, None, "two are there already");
            drop(go);
            assert_eq!(first.await.expect("it ends"), Some(7));
            assert_eq!(second.await.expect("it ends"), Some(7));
            assert_eq!(slot.run(|| 7).await, Some(7));
        });
    }
}
