//! What is begun on the thread of the HTTP server, and answered from elsewhere.
//!
//! A verb waits on a thread of its own ([`crate::slots`]), which costs four changes between
//! threads. What need not wait is begun where the request is read. Requests that came together
//! begin together: the backend hears once when all of them have begun ([`Backend::go_on`]). It
//! writes to an event descriptor when it has replies, and gives them on the thread of the HTTP
//! server ([`Backend::give_replies`]).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stentor_control::Failure;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{Notify, oneshot};

use crate::backend::Backend;
use crate::bounds::SOON_MAX;

/// What comes of a message that was published.
pub type Outcome = Result<Taken, Failure>;

/// What has become of a message that was taken.
pub enum Taken {
    /// It was sent to those who are subscribed.
    Passed,
    /// Its topic keeps it too.
    Kept,
    /// Its topic keeps it as soon as this says so, which may block.
    Waits(Box<dyn FnOnce() -> Result<(), Failure> + Send>),
}

/// The way back to a request that was begun. If it is dropped, the request is answered by an error.
///
/// Both wake the thread of the HTTP server by a descriptor. So a thread with a table of descriptors
/// of its own must neither give nor drop it.
pub struct Reply {
    to: oneshot::Sender<Outcome>,
    _place: Place,
}

impl Reply {
    /// Answers. If the client is gone, nobody hears it.
    pub fn give(self, outcome: Outcome) {
        let _ = self.to.send(outcome);
    }
}

/// The place of a request that was begun, until it is answered.
struct Place(Arc<Soon>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.begun.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All requests that were begun.
#[derive(Default)]
pub(crate) struct Soon {
    /// Those that were begun and not answered.
    begun: AtomicUsize,
    /// Some were begun, and the backend has not heard that.
    is_wanted: Notify,
}

impl Soon {
    /// The way back to a request that begins, and where its answer comes; `None` if too many have
    /// begun.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<(Reply, oneshot::Receiver<Outcome>)> {
        let place = Place(Arc::clone(self));
        if self.begun.fetch_add(1, Ordering::Relaxed) >= SOON_MAX {
            return None;
        }
        let (to, answer) = oneshot::channel();
        Some((Reply { to, _place: place }, answer))
    }

    /// A request has begun: the backend hears it after the others that are there have begun too.
    pub(crate) fn has_begun(&self) {
        self.is_wanted.notify_one();
    }

    /// Tells the backend each time when requests have begun, for as long as the runtime lives.
    pub(crate) async fn tell(self: Arc<Self>, backend: Arc<dyn Backend>) {
        loop {
            // This task comes after those that are ready now.
            self.is_wanted.notified().await;
            backend.go_on();
        }
    }
}

/// Has the backend give its replies at each event, for as long as the runtime lives.
///
/// # Errors
/// When the event descriptor cannot be watched.
pub(crate) fn hear(
    event: OwnedFd,
    backend: Arc<dyn Backend>,
) -> io::Result<impl Future<Output = ()>> {
    let mut event = Receiver::from_owned_fd_unchecked(event)?;
    Ok(async move {
        // More than the bytes of one event: so what is read is all that there was.
        let mut read = [0; 16];
        while event.read(&mut read).await.is_ok() {
            backend.give_replies();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_begun_at_once() {
        let soon = Arc::new(Soon::default());
        let mut begun: Vec<_> = (0..SOON_MAX).filter_map(|_| soon.begin()).collect();
        assert_eq!(begun.len(), SOON_MAX);
        assert!(soon.begin().is_none());
        let (reply, _answer) = begun.pop().expect("one has begun");
        reply.give(Ok(Taken::Passed));
        assert!(soon.begin().is_some(), "a place is free");
        drop(begun);
        let again = (0..SOON_MAX).filter_map(|_| soon.begin());
        assert_eq!(again.collect::<Vec<_>>().len(), SOON_MAX);
    }

    #[test]
    fn answers_come_to_those_who_asked() {
        let soon = Arc::new(Soon::default());
        let (first, mut to_first) = soon.begin().expect("there is room");
        let (second, mut to_second) = soon.begin().expect("there is room");
        let (lost, mut to_lost) = soon.begin().expect("there is room");
        second.give(Ok(Taken::Kept));
        first.give(Err(Failure::new("busy", "later")));
        drop(lost);
        assert!(matches!(to_first.try_recv(), Ok(Err(failure)) if failure.code == "busy"));
        assert!(matches!(to_second.try_recv(), Ok(Ok(Taken::Kept))));
        assert!(to_lost.try_recv().is_err(), "nobody answers");
    }
}
