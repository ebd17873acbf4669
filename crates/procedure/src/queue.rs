//! A procedure's own threads and its queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stentor_call_protocol::Status;

use crate::answer::Answer;
use crate::call::{Call, Reply};
use crate::statistics::Statistics;

/// A thread without work ends after this time, and with it the memory of its scripts.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// How many times as many places of a queue as are free a user may have: four fifths of it alone.
const SHARE: usize = 4;

/// Whether a user has all that it gets of a queue, once half of its `max` places are taken: the
/// rest is for others. `theirs` counts the user's places.
pub fn has_share(waiting: usize, max: usize, theirs: impl FnOnce() -> usize) -> bool {
    waiting >= max / 2 && theirs() >= SHARE * max.saturating_sub(waiting)
}

/// What runs calls: one on each thread, made by that thread.
pub(crate) trait Runner {
    /// Runs a call. A panic ends this call, and the runner is made again.
    fn run(&mut self, call: &Call) -> Answer;

    /// Processor time of other processes for the last call.
    fn spent_elsewhere(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// Makes runners. Called on the thread that will use the runner.
pub(crate) type MakeRunner = dyn Fn() -> Result<Box<dyn Runner>, String> + Send + Sync;

/// What is done about a call on the thread that runs it, since it may wait for a file: the answer
/// if there is one without the procedure.
pub(crate) type Prepare = dyn FnOnce(&mut Call) -> Option<Answer> + Send;

/// A call with the place for its answer.
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) prepare: Box<Prepare>,
    pub(crate) reply: Arc<Reply>,
}

/// The threads and the queue of one version of one procedure. Threads are started as they are
/// needed; when this is dropped they finish what is queued and end.
pub(crate) struct Queue(Arc<Shared>);

struct Shared {
    name: String,
    threads_max: usize,
    waiting_max: usize,
    make: Box<MakeRunner>,
    statistics: Arc<Statistics>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Calls that were answered for being late, whose jobs may be in the queue still.
    late: usize,
    is_closed: bool,
}

impl State {
    /// Why a call that no thread waits for has no place. O(calls that wait), in a queue that is
    /// half full.
    fn refusal(&self, call: &Call, waiting_max: usize) -> Option<&'static str> {
        if self.jobs.len() >= waiting_max {
            return Some("too many calls are waiting for this procedure");
        }
        let is_theirs = |job: &&Job| {
            job.call.is_clients && job.call.caller == call.caller && !job.reply.is_sent()
        };
        let theirs = || self.jobs.iter().filter(is_theirs).count();
        let has_share = call.is_clients && has_share(self.jobs.len(), waiting_max, theirs);
        has_share.then_some("too many calls of this user are waiting for this procedure")
    }
}

impl Queue {
    pub(crate) fn new(
        name: &str,
        threads_max: usize,
        waiting_max: usize,
        statistics: &Arc<Statistics>,
        make: Box<MakeRunner>,
    ) -> Self {
        Self(Arc::new(Shared {
            name: name.to_owned(),
            threads_max,
            waiting_max,
            make,
            statistics: Arc::clone(statistics),
            state: Mutex::default(),
            wake: Condvar::new(),
        }))
    }

    /// Calls that wait for a thread.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().jobs.len()
    }

    /// What is to be done when a call of this queue is answered for being late.
    pub(crate) fn note_late(&self) -> impl FnOnce() + Send + use<> {
        let shared = Arc::downgrade(&self.0);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.lock().late += 1;
            }
        }
    }

    /// Takes a call, or answers it at once when too many wait.
    pub(crate) fn push(&self, job: Job) {
        let mut state = self.0.lock();
        if state.late > 0 && state.jobs.len() >= self.0.waiting_max {
            // Nobody waits for these any more, and they keep nobody out.
            state.late = 0;
            state.jobs.retain(|job| !job.reply.is_sent());
        }
        // Jobs that an idle thread has been woken for are as good as taken.
        let has_thread = state.idle > state.jobs.len();
        if !has_thread && state.threads < self.0.threads_max {
            match Shared::start(&self.0) {
                Ok(()) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    drop(state);
                    let reason = format!("no thread can be started: {error}");
                    job.reply.send(Answer::failed(Status::Overloaded, &reason));
                    return;
                }
                // The threads that are there will get to it.
                Err(_) => {}
            }
        } else if !has_thread && let Some(reason) = state.refusal(&job.call, self.0.waiting_max) {
            drop(state);
            job.reply.send(Answer::failed(Status::Overloaded, reason));
            return;
        }
        state.jobs.push_back(job);
        drop(state);
        self.0.wake.notify_one();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(this: &Arc<Self>) -> std::io::Result<()> {
        let own = Arc::clone(this);
        // Names of threads have at most 15 bytes.
        let name: String = format!("proc-{}", this.name).chars().take(15).collect();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || own.work())
            .map(|_| ())
    }

    /// Takes the next call; `None` when the thread is to end.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let waited = self.wake.wait_timeout(state, IDLE_TIME);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
        None
    }

    fn work(&self) {
        let mut runner = None;
        while let Some(job) = self.next() {
            let Job {
                mut call,
                prepare,
                reply,
            } = job;
            // The watchdog was quicker: the caller is gone.
            if reply.is_sent() || call.deadline <= Instant::now() {
                reply.send(Answer::failed(
                    Status::TimedOut,
                    "it waited too long in the queue",
                ));
                continue;
            }
            let before = thread_time();
            let answer = catch_unwind(AssertUnwindSafe(|| match prepare(&mut call) {
                Some(answer) => answer,
                None => self.run(&mut runner, &call),
            }));
            let answer = answer.unwrap_or_else(|_| {
                runner = None;
                Answer::failed(Status::Failed, "the procedure crashed")
            });
            let elsewhere = runner.as_mut().map(|runner| runner.spent_elsewhere());
            let own = thread_time().saturating_sub(before);
            self.statistics.spend(own + elsewhere.unwrap_or_default());
            reply.send(answer);
        }
    }

    fn run(&self, runner: &mut Option<Box<dyn Runner>>, call: &Call) -> Answer {
        if runner.is_none() {
            match (self.make)() {
                Ok(made) => *runner = Some(made),
                Err(reason) => return Answer::failed(Status::Failed, &reason),
            }
        }
        match runner {
            Some(runner) => runner.run(call),
            None => Answer::failed(Status::Failed, "the procedure cannot be started"),
        }
    }
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
