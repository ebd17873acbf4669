//! How look-ups come to the directory's thread.
//!
//! Those who ask are shards, and a shard has a descriptor table of its own: the number by which the
//! directory's runtime would be woken means something else there. So a shard only touches a lock
//! and a condition, and a thread that does nothing else passes the news on.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::worker::LookUp;

/// Look-ups that wait, first come, first served.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Something waits, or nothing will any more.
    changed: Condvar,
    /// The same, for the runtime.
    news: Notify,
    waiting_max: usize,
}

struct State {
    waiting: VecDeque<LookUp>,
    phase: Phase,
}

/// What the directory's thread knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// That nothing waits.
    Quiet,
    /// That something waits, or it is about to be told.
    Told,
    /// That nothing will come any more.
    Closed,
}

impl Queue {
    pub(super) fn new(waiting_max: usize) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            phase: Phase::Quiet,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            news: Notify::new(),
            waiting_max: waiting_max.max(1),
        }
    }

    /// Adds a look-up; false if too many wait, or the directory ends.
    pub(super) fn push(&self, look_up: LookUp) -> bool {
        let mut state = self.lock();
        if state.waiting.len() >= self.waiting_max || state.phase == Phase::Closed {
            return false;
        }
        state.waiting.push_back(look_up);
        let is_news = state.phase == Phase::Quiet;
        drop(state);
        if is_news {
            self.changed.notify_one();
        }
        true
    }

    /// Passes news on to the runtime, until the queue is closed.
    pub(super) fn relay(&self) {
        let mut state = self.lock();
        loop {
            match state.phase {
                Phase::Closed => break,
                Phase::Quiet if !state.waiting.is_empty() => {
                    state.phase = Phase::Told;
                    self.news.notify_one();
                }
                Phase::Quiet | Phase::Told => {
                    let woken = self.changed.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        self.news.notify_one();
    }

    /// Waits for look-ups and takes them, at most this many; none if the queue is closed and empty.
    pub(super) async fn take(&self, taken: &mut Vec<LookUp>, max: usize) {
        loop {
            {
                let mut state = self.lock();
                let count = state.waiting.len().min(max);
                taken.extend(state.waiting.drain(..count));
                let is_closed = state.phase == Phase::Closed;
                if state.waiting.is_empty() && !is_closed {
                    state.phase = Phase::Quiet;
                }
                if count > 0 || is_closed {
                    return;
                }
            }
            self.news.notified().await;
        }
    }

    /// Lets nothing more in.
    pub(super) fn close(&self) {
        self.lock().phase = Phase::Closed;
        self.changed.notify_one();
    }

    /// Drops what waits.
    pub(super) fn clear(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        drop(waiting);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// One step each, so the queue is whole after any panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::UserKey;
    use std::sync::Arc;

    fn look_up(name: &str) -> LookUp {
        LookUp {
            key: UserKey::parse(name),
            found: Box::new(|_| {}),
        }
    }

    #[test]
    fn look_ups_come_in_order_in_bounded_number_and_to_the_last() {
        let queue = Arc::new(Queue::new(5));
        let relay = Arc::clone(&queue);
        let relay = std::thread::spawn(move || relay.relay());
        let added = (0..6).map(|n| queue.push(look_up(&format!("u{n}"))));
        assert_eq!(
            added.collect::<Vec<_>>(),
            [true, true, true, true, true, false]
        );
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let names = runtime.unwrap().block_on(async {
            let mut names = Vec::new();
            let mut taken = Vec::new();
            queue.take(&mut taken, 3).await;
            assert_eq!(taken.len(), 3);
            assert_eq!(queue.len(), 2);
            queue.close();
            assert!(!queue.push(look_up("late")));
            loop {
                names.extend(taken.drain(..).map(|look_up| look_up.key.to_string()));
                queue.take(&mut taken, 3).await;
                if taken.is_empty() {
                    return names;
                }
            }
        });
        assert_eq!(names, ["u0", "u1", "u2", "u3", "u4"]);
        relay.join().unwrap();
    }

    #[test]
    fn who_waits_is_woken_from_another_thread() {
        let queue = Arc::new(Queue::new(5));
        let relay = Arc::clone(&queue);
        let relay = std::thread::spawn(move || relay.relay());
        let asking = Arc::clone(&queue);
        let asking = std::thread::spawn(move || {
            for n in 0..1_000 {
                while !asking.push(look_up(&format!("u{n}"))) {
                    std::thread::yield_now();
                }
            }
            asking.close();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let count = runtime.unwrap().block_on(async {
            let mut taken = Vec::new();
            let mut count = 0;
            loop {
                queue.take(&mut taken, 2).await;
                if taken.is_empty() {
                    return count;
                }
                count += taken.drain(..).count();
            }
        });
        assert_eq!(count, 1_000);
        asking.join().unwrap();
        relay.join().unwrap();
    }
}
