//! Attempts that wait for their time.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::throttle::Cause;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does things at their time, and a bounded list of them. Dropping it ends the
/// thread; what still waits is forgotten.
pub(super) struct Delays {
    queue: Arc<Queue>,
    waiting_max: usize,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By time, and by number among those of the same time.
    jobs: BTreeMap<(Instant, u64), Job>,
    number: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    Closed,
}

impl Delays {
    pub(super) fn start(waiting_max: usize) -> io::Result<Self> {
        let state = State {
            jobs: BTreeMap::new(),
            number: 0,
            stage: Stage::Open,
        };
        let queue = Arc::new(Queue {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let worker = Arc::clone(&queue);
        std::thread::Builder::new()
            .name("login-delay".into())
            .spawn(move || worker.run())?;
        Ok(Self { queue, waiting_max })
    }

    /// Has something done with `luggage` at a time; gives it back if too much waits already. What
    /// waits for failures at its own address gets half of the room, so that it leaves some.
    pub(super) fn put<T: Send + 'static>(
        &self,
        at: Instant,
        cause: Cause,
        luggage: T,
        job: impl FnOnce(T) + Send + 'static,
    ) -> Result<(), T> {
        let room = match cause {
            Cause::Own => self.waiting_max.div_ceil(2),
            Cause::Others => self.waiting_max,
        };
        let mut state = self.queue.lock();
        if state.jobs.len() >= room {
            return Err(luggage);
        }
        state.number += 1;
        let number = state.number;
        state
            .jobs
            .insert((at, number), Box::new(move || job(luggage)));
        drop(state);
        self.queue.changed.notify_one();
        Ok(())
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.lock().jobs.len()
    }
}

impl Drop for Delays {
    fn drop(&mut self) {
        let jobs = {
            let mut state = self.queue.lock();
            state.stage = Stage::Closed;
            std::mem::take(&mut state.jobs)
        };
        self.queue.changed.notify_all();
        drop(jobs);
    }
}

impl Queue {
    /// No job runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        while state.stage == Stage::Open {
            let now = Instant::now();
            let next = state.jobs.first_key_value().map(|((at, _), _)| *at);
            state = match next {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    let waited = self.changed.wait_timeout(state, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let job = state.jobs.pop_first();
                    drop(state);
                    if let Some((_, job)) = job {
                        job();
                    }
                    self.lock()
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn things_are_done_in_the_order_of_their_times() {
        let delays = Delays::start(10).unwrap();
        let (done, order) = mpsc::channel();
        let now = Instant::now();
        for (millis, number) in [(30, 2), (10, 1)] {
            let done = done.clone();
            let at = now + Duration::from_millis(millis);
            let put = delays.put(at, Cause::Own, number, move |number| {
                done.send(number).unwrap();
            });
            assert_eq!(put, Ok(()));
        }
        assert_eq!([order.recv(), order.recv()], [Ok(1), Ok(2)]);
    }

    #[test]
    fn no_more_than_so_many_wait() {
        let delays = Delays::start(4).unwrap();
        let far = Instant::now() + Duration::from_secs(3600);
        let put = |cause| {
            let puts = (0..3).map(|number| delays.put(far, cause, number, drop));
            puts.collect::<Vec<_>>()
        };
        assert_eq!(put(Cause::Own), [Ok(()), Ok(()), Err(2)]);
        // Attackers have filled their half; there is room for those whom they attack.
        assert_eq!(put(Cause::Others), [Ok(()), Ok(()), Err(2)]);
        assert_eq!(delays.waiting(), 4);
    }

    #[test]
    fn what_waits_is_dropped_with_it() {
        let delays = Delays::start(2).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        let far = Instant::now() + Duration::from_secs(3600);
        delays.put(far, Cause::Others, sender, drop).unwrap();
        drop(delays);
        assert!(receiver.recv().is_err());
    }
}
