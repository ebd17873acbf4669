//! Waking a shard that sleeps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A shard's waker: an event descriptor in its poll, written to only while the shard sleeps.
///
/// Lost wake-ups are ruled out by the usual pair of fences: the sleeper says that it sleeps and
/// then looks whether there is work; the other thread leaves work and then looks whether the first
/// sleeps. At least one of them sees the other.
#[derive(Debug)]
pub(crate) struct Waker {
    event: EventFd,
    sleeping: AtomicBool,
}

impl Waker {
    /// A waker that nobody listens to yet.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let event = EventFd::from_value_and_flags(0, flags)?;
        Ok(Self {
            event,
            sleeping: AtomicBool::new(false),
        })
    }

    /// Lets a poll wake up when the waker is used. Each use is an event of its own, so nobody has
    /// to read the descriptor.
    ///
    /// # Errors
    /// When the poll does not take it.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.as_raw_fd()), token, Interest::READABLE)
    }

    /// Wakes the shard if it sleeps. What it is to find must have been left before.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed) {
            // A full counter means that the poll wakes up already.
            let _ = self.event.write(1);
        }
    }

    /// Says that this shard is about to sleep; false if `is_idle` finds work after that, in which
    /// case it is awake again.
    pub(crate) fn begin_sleep(&self, is_idle: impl FnOnce() -> bool) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let idle = is_idle();
        if !idle {
            self.end_sleep();
        }
        idle
    }

    /// Says that this shard is awake.
    #[inline]
    pub(crate) fn end_sleep(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
