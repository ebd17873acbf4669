//! The threads that do what takes time.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How a pool is made.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// What its threads are called, before their numbers.
    pub name: &'static str,
    /// Threads; at least one.
    pub threads: usize,
    /// Jobs that may wait; one more is refused.
    pub waiting_max: usize,
    /// Called first on every thread: to lower its priority, for example.
    pub at_start: fn(),
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            name: "login",
            threads: 1,
            waiting_max: 10_000,
            at_start: || {},
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A bounded queue of jobs and the threads that do them in order. Dropping it ends the threads
/// after the job that each is at; what still waits is forgotten.
pub struct Pool {
    queue: Arc<Queue>,
    waiting_max: usize,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
enum State {
    Open(VecDeque<Job>),
    #[default]
    Closed,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts the threads. They block no signal of their own: a server starts its pool after it
    /// has blocked what it handles elsewhere.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(options: PoolOptions) -> std::io::Result<Self> {
        let state = Mutex::new(State::Open(VecDeque::new()));
        let queue = Arc::new(Queue {
            state,
            arrived: Condvar::new(),
        });
        let pool = Self {
            queue: Arc::clone(&queue),
            waiting_max: options.waiting_max,
        };
        for number in 0..options.threads.max(1) {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new()
                .name(format!("{}-{number}", options.name))
                .spawn(move || {
                    (options.at_start)();
                    while let Some(job) = queue.next() {
                        // One job that fails takes no thread away from the others; what it had
                        // with it was dropped, and says so.
                        let _ = catch_unwind(AssertUnwindSafe(job));
                    }
                })?;
        }
        Ok(pool)
    }

    /// Adds a job that takes something with it.
    ///
    /// # Errors
    /// When too many wait already: what it would have taken comes back.
    pub fn submit<T: Send + 'static>(
        &self,
        luggage: T,
        job: impl FnOnce(T) + Send + 'static,
    ) -> Result<(), T> {
        let mut state = self.queue.lock();
        let State::Open(jobs) = &mut *state else {
            return Err(luggage);
        };
        if jobs.len() >= self.waiting_max {
            return Err(luggage);
        }
        jobs.push_back(Box::new(move || job(luggage)));
        drop(state);
        self.queue.arrived.notify_one();
        Ok(())
    }

    /// How many jobs wait for a thread.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &*self.queue.lock() {
            State::Open(jobs) => jobs.len(),
            State::Closed => 0,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        *self.queue.lock() = State::Closed;
        self.queue.arrived.notify_all();
    }
}

impl Queue {
    /// No job runs under the lock, so a panic elsewhere left it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            match &mut *state {
                State::Closed => return None,
                State::Open(jobs) => {
                    if let Some(job) = jobs.pop_front() {
                        return Some(job);
                    }
                }
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_in_order_and_refused_beyond_the_bound() {
        let pool = Pool::start(PoolOptions {
            waiting_max: 2,
            ..PoolOptions::default()
        })
        .unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let (done, results) = mpsc::channel();
        let first = pool.submit((), move |()| {
            begun.send(()).unwrap();
            held.recv().unwrap();
        });
        assert_eq!(first, Ok(()));
        has_begun.recv().unwrap();
        for number in 0..2 {
            let done = done.clone();
            let added = pool.submit(number, move |number| done.send(number).unwrap());
            assert_eq!(added, Ok(()));
        }
        assert_eq!(pool.waiting(), 2);
        let refused = pool.submit(9, |_| unreachable!("the queue is full"));
        assert_eq!(refused, Err(9));
        hold.send(()).unwrap();
        assert_eq!([results.recv(), results.recv()], [Ok(0), Ok(1)]);
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_away() {
        let pool = Pool::start(PoolOptions::default()).unwrap();
        let (done, results) = mpsc::channel();
        pool.submit((), |()| panic!("on purpose")).unwrap();
        pool.submit((), move |()| done.send(7).unwrap()).unwrap();
        assert_eq!(results.recv(), Ok(7));
    }
}
