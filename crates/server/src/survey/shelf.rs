//! What is kept of walks, and shared by all who ask.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For how long the result of a walk is used.
const KEPT: Duration = Duration::from_secs(2);

/// How new a result has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Some seconds old at most.
    Lately,
    /// Of a walk that began after somebody asked.
    Fresh,
}

impl Age {
    /// What a request says of it.
    pub(crate) const fn of(is_fresh: bool) -> Self {
        match is_fresh {
            true => Self::Fresh,
            false => Self::Lately,
        }
    }
}

/// The result of a walk.
pub(crate) struct Kept<T> {
    pub(crate) found: Arc<T>,
    began: Instant,
    ended: Instant,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self {
            found: Arc::clone(&self.found),
            ..*self
        }
    }
}

/// The newest result of walks of one kind. One walk is made at a time, and whoever asks while it is
/// made waits for it.
pub(crate) struct Shelf<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    newest: Option<Kept<T>>,
    is_walking: bool,
    /// Results of walks that began before are not used any more.
    outdated: Option<Instant>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        let state = State {
            newest: None,
            is_walking: false,
            outdated: None,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl<T> State<T> {
    /// The newest result, if it does for somebody who has asked at this time.
    fn suiting(&self, asked: Instant, age: Age) -> Option<&Kept<T>> {
        let newest = self.newest.as_ref()?;
        let is_outdated = self.outdated.is_some_and(|at| newest.began < at);
        let suits = match age {
            Age::Fresh => newest.began >= asked,
            // A long walk that was under way is what the asker has waited for.
            Age::Lately => !is_outdated && (newest.began + KEPT >= asked || newest.ended >= asked),
        };
        suits.then_some(newest)
    }
}

/// A walk that is made. It ends also if the walker panics, so that nobody waits for ever.
struct Walking<'s, T>(&'s Shelf<T>);

impl<T> Drop for Walking<'_, T> {
    fn drop(&mut self) {
        self.0.lock().is_walking = false;
        self.0.changed.notify_all();
    }
}

impl<T> Shelf<T> {
    /// A state is changed in one step.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A result that is new enough, of a walk if there is none.
    pub(crate) fn get(&self, age: Age, walk: impl FnOnce() -> T) -> Kept<T> {
        let asked = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(kept) = state.suiting(asked, age) {
                return kept.clone();
            }
            if !state.is_walking {
                break;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_walking = true;
        drop(state);
        let walking = Walking(self);
        let began = Instant::now();
        let kept = Kept {
            found: Arc::new(walk()),
            began,
            ended: Instant::now(),
        };
        self.lock().newest = Some(kept.clone());
        drop(walking);
        kept
    }

    /// Something was changed: only walks that begin from now on know of it.
    pub(crate) fn outdate(&self) {
        self.lock().outdated = Some(Instant::now());
    }

    /// Gives up the newest result, to make room for the next one.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        self.lock().newest.take().map(|kept| kept.found)
    }

    /// The same if it is too old for everybody.
    pub(crate) fn take_old(&self) -> Option<Arc<T>> {
        let mut state = self.lock();
        let is_old = |kept: &mut Kept<T>| kept.ended.elapsed() > KEPT;
        state.newest.take_if(is_old).map(|kept| kept.found)
    }

    /// The newest result, however old.
    pub(crate) fn newest(&self) -> Option<Arc<T>> {
        let state = self.lock();
        state.newest.as_ref().map(|kept| Arc::clone(&kept.found))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_result_is_shared_until_it_is_outdated() {
        let (shelf, walks) = (Shelf::default(), AtomicUsize::new(0));
        let get = |age| {
            *shelf
                .get(age, || walks.fetch_add(1, Ordering::Relaxed))
                .found
        };
        assert_eq!((get(Age::Lately), get(Age::Lately)), (0, 0));
        assert_eq!((get(Age::Fresh), get(Age::Lately)), (1, 1));
        shelf.outdate();
        assert_eq!((get(Age::Lately), get(Age::Lately)), (2, 2));
        assert_eq!(shelf.take().as_deref(), Some(&2));
        assert_eq!(get(Age::Lately), 3);
    }

    /// All who ask while a walk is made get its result.
    #[test]
    fn one_walk_has_many_waiters() {
        let shelf = Shelf::default();
        let (begun, has_begun) = channel();
        let (end, is_to_end) = channel::<()>();
        std::thread::scope(|scope| {
            let shelf = &shelf;
            let walker = scope.spawn(move || {
                let walk = || {
                    begun.send(()).unwrap();
                    is_to_end.recv().unwrap();
                    1
                };
                *shelf.get(Age::Fresh, walk).found
            });
            has_begun.recv().unwrap();
            // Whether they ask before or after its end, they make no walk.
            let ask = || *shelf.get(Age::Lately, || 2).found;
            let waiters: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            end.send(()).unwrap();
            assert_eq!(walker.join().unwrap(), 1);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), 1);
            }
        });
    }

    #[test]
    fn a_walk_that_panics_keeps_nobody_waiting() {
        let shelf = Shelf::default();
        std::thread::scope(|scope| {
            let walker = scope.spawn(|| shelf.get(Age::Fresh, || panic!("a bug")).found);
            assert!(walker.join().is_err());
        });
        assert_eq!(*shelf.get(Age::Lately, || 1).found, 1);
    }
}
