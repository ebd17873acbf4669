//! The lane into a shard: rare things that must neither wait nor be lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Bell;

/// A queue without a bound that any thread may fill. Looking whether it is empty costs one atomic
/// load.
///
/// What goes in is bounded by its causes: one answer per login, one arrival per connection, one
/// command per administrator's request, one change of a shared subscription per subscribe.
#[derive(Debug)]
pub(crate) struct Lane<T> {
    items: Mutex<Vec<T>>,
    /// Whether `items` holds something; written under its lock.
    pending: AtomicBool,
    bell: Arc<Bell>,
}

impl<T> Lane<T> {
    /// The lane into the shard with this bell.
    pub(crate) const fn new(bell: Arc<Bell>) -> Self {
        Self {
            items: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            bell,
        }
    }

    /// Adds an item and wakes the shard.
    pub(crate) fn push(&self, item: T) {
        {
            let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
            items.push(item);
            self.pending.store(true, Ordering::Release);
        }
        self.bell.ring();
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
        let lane = Lane::new(Arc::new(Bell::new().unwrap()));
        let mut taken = Vec::new();
        lane.take(&mut taken);
        assert!(taken.is_empty());
        lane.push(1);
        lane.push(2);
        assert!(lane.is_pending());
        lane.take(&mut taken);
        assert_eq!(taken, [1, 2]);
        taken.clear();
        lane.take(&mut taken);
        assert!(taken.is_empty() && !lane.is_pending());
    }
}
