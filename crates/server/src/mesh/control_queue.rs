//! The control queue into a shard: rare things that must neither wait nor be lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Waker;

/// A queue without a bound that any thread may fill. Looking whether it is empty costs one atomic
/// load.
///
/// What goes in is bounded by its causes: one answer per login, one arrival per connection, one
/// command per administrator's request. Of what clients can cause very much of, changes of shared
/// subscriptions, the senders look how much is in already ([`ControlQueue::free`]).
#[derive(Debug)]
pub(crate) struct ControlQueue<T> {
    items: Mutex<Vec<T>>,
    /// Whether `items` holds something; written under its lock.
    pending: AtomicBool,
    /// What its shard was given to do since its present turn began, in visits.
    load: AtomicU32,
    waker: Arc<Waker>,
}

/// What other shards may give a shard to do in a turn, in visits: about half a millisecond. What
/// comes in one turn may be opened in the next, so a turn may have twice as much.
pub(crate) const LOAD_MAX: u32 = 8_192;

impl<T> ControlQueue<T> {
    /// The control queue into the shard with this waker.
    pub(crate) const fn new(waker: Arc<Waker>) -> Self {
        Self {
            items: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            load: AtomicU32::new(0),
            waker,
        }
    }

    /// Adds an item and wakes the shard.
    pub(crate) fn push(&self, item: T) {
        {
            let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
            items.push(item);
            self.pending.store(true, Ordering::Release);
        }
        self.waker.wake();
    }

    /// Adds an item that costs the shard this many visits, and wakes it.
    pub(crate) fn push_heavy(&self, item: T, visits: u32) {
        if visits > 0 {
            self.load.fetch_add(visits, Ordering::Relaxed);
        }
        self.push(item);
    }

    /// How many visits may be added in the present turn of the shard.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        LOAD_MAX.saturating_sub(self.load.load(Ordering::Relaxed))
    }

    /// The shard begins a turn. Returns whether others may wait for that: wake them.
    #[inline]
    pub(crate) fn begin_turn(&self) -> bool {
        if self.load.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.load.swap(0, Ordering::Relaxed) >= LOAD_MAX
    }

    /// Wakes the shard though nothing was added.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Whether something waits.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Exchanges what waits for the empty `taken`, whose allocation is used again.
    #[inline]
    pub(crate) fn take(&self, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        if self.is_pending() {
            let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *items, taken);
            self.pending.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_what_was_pushed_once_and_in_order() {
        let control_queue = ControlQueue::new(Arc::new(Waker::new().unwrap()));
        let mut taken = Vec::new();
        control_queue.take(&mut taken);
        assert!(taken.is_empty());
        control_queue.push(1);
        control_queue.push(2);
        assert!(control_queue.is_pending());
        control_queue.take(&mut taken);
        assert_eq!(taken, [1, 2]);
        taken.clear();
        control_queue.take(&mut taken);
        assert!(taken.is_empty() && !control_queue.is_pending());
    }

    #[test]
    fn a_turn_takes_so_much_and_the_next_one_again() {
        let control_queue = ControlQueue::new(Arc::new(Waker::new().unwrap()));
        assert!(!control_queue.begin_turn());
        assert_eq!(control_queue.free(), LOAD_MAX);
        control_queue.push_heavy(1, 100);
        control_queue.push(2);
        assert_eq!(control_queue.free(), LOAD_MAX - 100);
        assert!(!control_queue.begin_turn(), "nobody had to wait");
        assert_eq!(control_queue.free(), LOAD_MAX);
        control_queue.push_heavy(3, LOAD_MAX + 1);
        assert_eq!(control_queue.free(), 0);
        assert!(control_queue.begin_turn());
        assert_eq!(control_queue.free(), LOAD_MAX);
        let mut taken = Vec::new();
        control_queue.take(&mut taken);
        assert_eq!(taken, [1, 2, 3]);
    }
}
