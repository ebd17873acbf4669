//! Requests whose token is being checked, or whose body is on its way: none of them takes the place
//! of another one for long.
//!
//! A wrong token is answered late, so that guessing is slow. If [`TOKENS_MAX`] requests wait, the
//! oldest one gives way to a new one: of the address that has most of them. So wrong tokens keep no
//! right one out, which is answered as soon as the user database has been asked.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::bounds::{TOKEN_TIME, TOKENS_MAX};
use crate::connections::block;

/// The requests that wait, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pending: Mutex<Vec<Arc<Pending>>>,
    users: RandomState,
}

/// The place of a request.
#[derive(Debug)]
struct Pending {
    /// The address of its client, none on a Unix socket; or its user.
    of: Option<u128>,
    end: Notify,
}

/// A place that is taken, until it is dropped.
struct Taken<'c> {
    checks: &'c Checks,
    request: Arc<Pending>,
}

impl Checks {
    /// Waits for what is said of a token from this address; `None` if that takes too long, or if
    /// the request has to give way.
    pub(crate) async fn wait<T>(
        &self,
        address: Option<IpAddr>,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let answer = timeout(TOKEN_TIME, answer);
        self.wait_as(address.map(block), answer).await?.ok()
    }

    /// The same for a user who is known, from whatever address. The answer has a bound in time of
    /// its own.
    pub(crate) async fn wait_for<T>(
        &self,
        user: &str,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        let user = self.users.hash_one(user);
        self.wait_as(Some(user.into()), answer).await
    }

    async fn wait_as<T>(&self, of: Option<u128>, answer: impl Future<Output = T>) -> Option<T> {
        let taken = self.take(of);
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = taken.request.end.notified() => None,
        }
    }

    fn take(&self, of: Option<u128>) -> Taken<'_> {
        let mut pending = self.lock();
        if pending.len() >= TOKENS_MAX
            && let Some(place) = who_gives_way(&pending)
        {
            pending.remove(place).end.notify_one();
        }
        let request = Arc::new(Pending {
            of,
            end: Notify::new(),
        });
        pending.push(Arc::clone(&request));
        drop(pending);
        Taken {
            checks: self,
            request,
        }
    }

    /// A request is put in or taken out in one step.
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Pending>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest request of the address or user that has most; of several of these, of the one that
/// has the oldest request.
fn who_gives_way(pending: &[Arc<Pending>]) -> Option<usize> {
    let count = |place: usize| {
        let of_same = pending
            .iter()
            .filter(|request| request.of == pending[place].of);
        of_same.count()
    };
    (0..pending.len()).rev().max_by_key(|place| count(*place))
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.checks
            .lock()
            .retain(|request| !Arc::ptr_eq(request, &self.request));
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::net::Ipv4Addr;

    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some(Ipv4Addr::new(192, 0, 2, last).into())
    }

    /// Many tokens that are never answered keep nobody out, and end one another.
    #[test]
    fn the_oldest_of_the_address_with_most_gives_way() {
        let runtime = Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let checks = Arc::new(Checks::default());
            let wait = |last: u8| {
                let checks = Arc::clone(&checks);
                tokio::spawn(async move { checks.wait(address(last), pending::<()>()).await })
            };
            let other = wait(2);
            let strangers: Vec<_> = (0..TOKENS_MAX + 5).map(|_| wait(1)).collect();
            yield_now().await;
            assert_eq!(checks.wait(address(1), ready(7)).await, Some(7));
            yield_now().await;
            let ended: Vec<bool> = strangers.iter().map(|one| one.is_finished()).collect();
            let expected = (0..TOKENS_MAX + 5).map(|at| at < 7);
            assert_eq!(ended, expected.collect::<Vec<_>>());
            assert!(!other.is_finished());
            assert_eq!(checks.lock().len(), TOKENS_MAX - 1);
            for one in strangers {
                one.abort();
            }
            other.abort();
            yield_now().await;
            assert!(checks.lock().is_empty());
        });
    }
}
