//! Messages that are published by HTTP, on their way to the shards and back.
//!
//! The thread that speaks HTTP begins them. Those that came together go to a shard in one command,
//! and their outcomes come back together. A shard knows a request by its number alone: to wake that
//! thread takes a descriptor, and a number of one means something else in the table of a shard. The
//! event descriptor is one that all tables have.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::eventfd::{EfdFlags, EventFd};
use slab::Slab;
use stentor_admin::{Outcome, Reply};
use stentor_hub::{Kept, NotKept};
use stentor_session::Message;

/// A message for the shard that orders its topic.
pub(crate) struct Errand {
    /// The number of the request.
    pub(crate) number: usize,
    pub(crate) message: Arc<Message>,
    /// The user that publishes it.
    pub(crate) user: Option<Arc<str>>,
}

/// What has become of a message: whether its topic keeps it.
pub(crate) type Done = Result<Option<Kept>, NotKept>;

/// See the module.
pub(crate) struct Errands {
    begun: Mutex<Begun>,
    /// What shards have done, by the number of the request.
    done: Mutex<Vec<(usize, Done)>>,
    event: EventFd,
}

/// Touched by the thread that speaks HTTP, and by no shard.
#[derive(Default)]
struct Begun {
    replies: Slab<Reply>,
    /// What is not on its way yet, by shard.
    waiting: Vec<Vec<Errand>>,
}

impl Errands {
    /// To be called before the first shard leaves the main thread's table of descriptors.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self {
            begun: Mutex::default(),
            done: Mutex::default(),
            event: EventFd::from_value_and_flags(0, flags)?,
        })
    }

    /// The descriptor that announces replies, for the thread that speaks HTTP.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(super) fn reply_event(&self) -> io::Result<OwnedFd> {
        self.event.as_fd().try_clone_to_owned()
    }

    /// Notes a message for a shard: [`Self::send`] sends it.
    pub(crate) fn begin(
        &self,
        shard: usize,
        message: Message,
        user: Option<Arc<str>>,
        reply: Reply,
    ) {
        let mut begun = self.begun();
        let number = begun.replies.insert(reply);
        if begun.waiting.len() <= shard {
            begun.waiting.resize_with(shard + 1, Vec::new);
        }
        let message = Arc::new(message);
        begun.waiting[shard].push(Errand {
            number,
            message,
            user,
        });
    }

    /// Hands over what was begun: all that is for a shard at once.
    pub(super) fn send(&self, mut post: impl FnMut(usize, Vec<Errand>)) {
        let mut begun = self.begun();
        for (shard, errands) in begun.waiting.iter_mut().enumerate() {
            if !errands.is_empty() {
                post(shard, mem::take(errands));
            }
        }
    }

    /// A shard has done some of them.
    pub(crate) fn report(&self, done: &mut Vec<(usize, Done)>) {
        let was_empty = {
            let mut all = lock(&self.done);
            let was_empty = all.is_empty();
            all.append(done);
            was_empty
        };
        // If there were some, the event was written for them, and nobody has come.
        if was_empty {
            let _ = self.event.write(1);
        }
    }

    /// Gives the replies to what is done. `told` says what it has come to.
    pub(super) fn give(&self, told: impl Fn(Done) -> Outcome) {
        // A shard does not wait for the rest of this.
        let all = mem::take(&mut *lock(&self.done));
        for (number, done) in all {
            let reply = self.begun().replies.try_remove(number);
            if let Some(reply) = reply {
                reply.give(told(done));
            }
        }
    }

    fn begun(&self) -> MutexGuard<'_, Begun> {
        lock(&self.begun)
    }
}

impl AsRawFd for Errands {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }
}

/// Each entry is put in or taken out in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
