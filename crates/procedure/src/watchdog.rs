//! The clock of running calls: answers for those that go beyond their deadline, and shows scripts
//! the time without a system call.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use stentor_call_protocol::Status;

use crate::answer::Answer;
use crate::call::Reply;

/// How often the time is looked at while calls run.
const STEP: Duration = Duration::from_millis(5);

/// One thread that watches all calls of a registry.
pub(crate) struct Watchdog {
    shared: Arc<Shared>,
}

struct Shared {
    watched: Mutex<Watched>,
    wake: Condvar,
    time: Arc<Time>,
}

#[derive(Default)]
struct Watched {
    due: BinaryHeap<Reverse<Due>>,
    is_over: bool,
}

/// Milliseconds since the watchdog's start, as of a few milliseconds ago. It stands still while no
/// call runs.
pub(crate) struct Time {
    start: Instant,
    now_ms: AtomicU64,
}

impl Time {
    /// The time; cheap enough to be asked at every turn of a script's loop.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// A moment on this clock.
    pub(crate) fn at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.start);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn update(&self) -> Instant {
        let now = Instant::now();
        self.now_ms.store(self.at(now), Ordering::Relaxed);
        now
    }
}

struct Due {
    at: Instant,
    reply: Weak<Reply>,
    /// What happens besides the answer.
    then: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start() -> std::io::Result<Self> {
        let time = Arc::new(Time {
            start: Instant::now(),
            now_ms: AtomicU64::new(0),
        });
        let shared = Arc::new(Shared {
            watched: Mutex::default(),
            wake: Condvar::new(),
            time,
        });
        let own = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("call-watchdog".into())
            .spawn(move || own.run())?;
        Ok(Self { shared })
    }

    /// The clock for scripts.
    pub(crate) fn time(&self) -> &Arc<Time> {
        &self.shared.time
    }

    /// Answers `reply` with [`Status::TimedOut`] at `at`, and runs `then` right before, if nobody
    /// has answered by then.
    pub(crate) fn watch(
        &self,
        at: Instant,
        reply: &Arc<Reply>,
        then: impl FnOnce() + Send + 'static,
    ) {
        let due = Due {
            at,
            reply: Arc::downgrade(reply),
            then: Box::new(then),
        };
        let mut watched = self.shared.lock();
        let was_idle = watched.due.is_empty();
        watched.due.push(Reverse(due));
        if was_idle {
            self.shared.time.update();
            self.shared.wake.notify_one();
        }
    }

    /// Answers all that nobody has answered yet. They are still watched, so scripts end in time.
    pub(crate) fn answer_all(&self, answer: &Answer) {
        let watched = self.shared.lock();
        let replies: Vec<_> = watched
            .due
            .iter()
            .filter_map(|Reverse(due)| due.reply.upgrade())
            .collect();
        drop(watched);
        for reply in replies {
            reply.send(answer.clone());
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut watched = self.lock();
        loop {
            if watched.is_over {
                return;
            }
            let now = self.time.update();
            let mut expired = Vec::new();
            while let Some(Reverse(first)) = watched.due.peek() {
                // What was answered in the meantime is no longer alive.
                if first.at > now && first.reply.strong_count() > 0 {
                    break;
                }
                expired.extend(watched.due.pop());
            }
            drop(watched);
            for Reverse(due) in expired {
                let Some(reply) = due.reply.upgrade() else {
                    continue;
                };
                if !reply.is_sent() {
                    (due.then)();
                }
                let late = Answer::failed(Status::TimedOut, "there was no verdict in time");
                reply.send(late);
            }
            watched = self.lock();
            watched = if watched.due.is_empty() && !watched.is_over {
                self.wake
                    .wait(watched)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.wake.wait_timeout(watched, STEP);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}
