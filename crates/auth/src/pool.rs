//! The threads that do what takes time.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Called by a thread that finds nothing more to do: to give memory back, for example.
    pub at_rest: fn(),
    /// One more thread that steps in where the others get no processor.
    pub helper: Option<Helper>,
}

/// A thread that works only while nothing else of its pool gets on.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// It steps in when no job has ended for this long.
    pub patience: Duration,
    /// Called first on it.
    pub at_start: fn(),
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            name: "login",
            threads: 1,
            waiting_max: 10_000,
            at_start: || {},
            at_rest: || {},
            helper: None,
        }
    }
}

/// What a thread does. One that was begun and got no processor is begun again by the helper, and
/// then both may be at it at once.
pub type Job = Arc<dyn Fn() + Send + Sync>;

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
    /// Something has ended, or the first one has arrived where nothing was to do.
    moved: Condvar,
}

#[derive(Default)]
enum State {
    Open(Jobs),
    #[default]
    Closed,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// What is done when nothing waits.
    later: VecDeque<Job>,
    /// What each thread is at for somebody who waits, unless the helper has taken it over.
    begun: Vec<Option<Job>>,
    /// Jobs that the threads have done, those of the helper not among them.
    done: u64,
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
        let threads = options.threads.max(1);
        let jobs = Jobs {
            begun: vec![None; threads],
            ..Jobs::default()
        };
        let queue = Arc::new(Queue {
            state: Mutex::new(State::Open(jobs)),
            arrived: Condvar::new(),
            moved: Condvar::new(),
        });
        let pool = Self {
            queue: Arc::clone(&queue),
            waiting_max: options.waiting_max,
        };
        let spawn = |name: String, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name).spawn(run).map(drop)
        };
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            let run = Box::new(move || {
                (options.at_start)();
                queue.work(number, options.at_rest);
            });
            spawn(format!("{}-{number}", options.name), run)?;
        }
        if let Some(helper) = options.helper {
            let run = Box::new(move || {
                (helper.at_start)();
                queue.help(helper.patience, options.at_rest);
            });
            spawn(format!("{}-help", options.name), run)?;
        }
        Ok(pool)
    }

    /// Adds a job that takes something with it, and is done once.
    ///
    /// # Errors
    /// When too many wait already: what it would have taken comes back.
    pub fn submit<T: Send + 'static>(
        &self,
        luggage: T,
        job: impl FnOnce(T) + Send + 'static,
    ) -> Result<(), T> {
        let kept = Arc::new(Mutex::new(Some((luggage, job))));
        let take = move |kept: &Mutex<Option<(T, _)>>| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let taken = Arc::clone(&kept);
        let run = move || {
            if let Some((luggage, job)) = take(&taken) {
                job(luggage);
            }
        };
        if self.submit_repeatable(Arc::new(run)) {
            return Ok(());
        }
        match take(&kept) {
            Some((luggage, _)) => Err(luggage),
            // Nobody runs what was refused.
            None => Ok(()),
        }
    }

    /// Adds a job that may be begun twice; false, and it is forgotten, if too many wait already.
    #[must_use]
    pub fn submit_repeatable(&self, job: Job) -> bool {
        let mut state = self.queue.lock();
        let State::Open(jobs) = &mut *state else {
            return false;
        };
        if jobs.waiting.len() >= self.waiting_max {
            return false;
        }
        let was_idle = jobs.is_idle();
        jobs.waiting.push_back(job);
        drop(state);
        self.queue.arrived.notify_one();
        if was_idle {
            self.queue.moved.notify_one();
        }
        true
    }

    /// Adds a job for which nobody waits: it is done when there is no other. It is forgotten if
    /// too many are there already.
    pub fn submit_later(&self, job: Job) {
        let mut state = self.queue.lock();
        if let State::Open(jobs) = &mut *state
            && jobs.later.len() < self.waiting_max
        {
            jobs.later.push_back(job);
            drop(state);
            self.queue.arrived.notify_one();
        }
    }

    /// How many jobs wait for a thread.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &*self.queue.lock() {
            State::Open(jobs) => jobs.waiting.len(),
            State::Closed => 0,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        *self.queue.lock() = State::Closed;
        self.queue.arrived.notify_all();
        self.queue.moved.notify_all();
    }
}

impl Jobs {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.begun.iter().all(Option::is_none)
    }

    /// The job that has been there longest, for the helper.
    fn oldest(&mut self) -> Option<Job> {
        let begun = self.begun.iter_mut().find_map(Option::take);
        begun.or_else(|| self.waiting.pop_front())
    }
}

/// One job that fails takes no thread away from the others; what it had with it was dropped, and
/// says so.
fn run(job: &Job) {
    let _ = catch_unwind(AssertUnwindSafe(|| job()));
}

impl Queue {
    /// No job runs under the lock, so a panic elsewhere left it whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does jobs until the pool is dropped.
    fn work(&self, number: usize, at_rest: fn()) {
        while let Some(job) = self.next(number, at_rest) {
            run(&job);
            drop(job);
            if let State::Open(jobs) = &mut *self.lock() {
                jobs.begun[number] = None;
                jobs.done += 1;
            }
            self.moved.notify_one();
        }
    }

    fn next(&self, number: usize, at_rest: fn()) -> Option<Job> {
        let mut state = self.lock();
        let mut rests = false;
        loop {
            let State::Open(jobs) = &mut *state else {
                return None;
            };
            if let Some(job) = jobs.waiting.pop_front() {
                jobs.begun[number] = Some(Arc::clone(&job));
                return Some(job);
            }
            if let Some(job) = jobs.later.pop_front() {
                return Some(job);
            }
            if !rests {
                rests = true;
                drop(state);
                at_rest();
                state = self.lock();
                continue;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does jobs while the threads get on with none.
    fn help(&self, patience: Duration, at_rest: fn()) {
        let mut seen = None;
        while let Some((job, done)) = self.next_stuck(patience, seen) {
            seen = Some(done);
            run(&job);
            at_rest();
        }
    }

    /// Waits until no job has ended for some time, though there are some; the first of them, and
    /// how many were done. Where none was done since the last time, nothing is waited for.
    fn next_stuck(&self, patience: Duration, seen: Option<u64>) -> Option<(Job, u64)> {
        let mut state = self.lock();
        let mut before = seen;
        loop {
            let State::Open(jobs) = &mut *state else {
                return None;
            };
            let done = jobs.done;
            if jobs.is_idle() {
                before = None;
                state = self
                    .moved
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            } else if before == Some(done) {
                let job = jobs.oldest()?;
                return Some((job, done));
            } else {
                before = Some(done);
                let is_stuck = |state: &mut State| match state {
                    State::Open(jobs) => jobs.done == done && !jobs.is_idle(),
                    State::Closed => false,
                };
                let waited = self.moved.wait_timeout_while(state, patience, is_stuck);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};

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
        let later = done.clone();
        pool.submit_later(Arc::new(move || later.send(7).unwrap()));
        hold.send(()).unwrap();
        assert_eq!([results.recv(), results.recv()], [Ok(0), Ok(1)]);
        assert_eq!(results.recv(), Ok(7));
    }

    /// The thread is at a job that gets no processor, and another waits.
    #[test]
    fn the_helper_steps_in_where_the_threads_do_not_get_on() {
        // Without this, the helper may be the first to take the job.
        static TAKEN: Barrier = Barrier::new(2);
        let pool = Pool::start(PoolOptions {
            helper: Some(Helper {
                patience: Duration::from_millis(1),
                at_start: || {
                    TAKEN.wait();
                },
            }),
            ..PoolOptions::default()
        })
        .unwrap();
        let (hold, held) = mpsc::channel::<()>();
        let held = Mutex::new(Some(held));
        let (done, results) = mpsc::channel();
        let tell = done.clone();
        let stuck: Job = Arc::new(move || {
            // The first thread that takes this gets no further; the next one does.
            let first = held.lock().unwrap().take();
            if let Some(held) = first {
                TAKEN.wait();
                let _ = held.recv();
            }
            tell.send("stuck").unwrap();
        });
        assert!(pool.submit_repeatable(stuck));
        pool.submit((), move |()| done.send("other").unwrap())
            .unwrap();
        assert_eq!([results.recv(), results.recv()], [Ok("stuck"), Ok("other")]);
        assert!(results.try_recv().is_err());
        // The thread goes on where it was.
        drop(hold);
        assert_eq!(results.recv(), Ok("stuck"));
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
