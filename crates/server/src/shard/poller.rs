//! What a shard waits at: its poll, with a timer for what is not soon.
//!
//! A time-out of the poll is a timer that the kernel makes for each wait, and takes back when
//! something comes before it. Most waits end so, after a few microseconds, and the next thing that
//! has its time is seconds away. So the poll watches one timer that stays set from wait to wait:
//! it saves about half a microsecond each time that a shard falls asleep.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use stentor_session::Tick;

/// What comes sooner than this is a time-out of the poll: it changes with each wait.
const SOON: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Poller {
    poll: Poll,
    timer: TimerFd,
    /// When the timer wakes the shard: never later than it has to. In the past if it is not set.
    set: Tick,
}

impl Poller {
    /// One whose timer is announced by this token, which says nothing else: an event of it may be
    /// of a time that is no longer waited for.
    ///
    /// # Errors
    /// When there is no descriptor for the timer, or the poll does not take it.
    pub(super) fn new(poll: Poll, token: Token) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // Each time that it fires is an event of its own, so nobody has to read it.
        let fd = timer.as_fd().as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&fd), token, Interest::READABLE)?;
        Ok(Self {
            poll,
            timer,
            set: Tick::ZERO,
        })
    }

    /// Where descriptors are registered.
    pub(super) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Waits for events, so long at most; `None` for ever. It may come back earlier, without any.
    pub(super) fn wait(&mut self, events: &mut Events, now: Tick, timeout: Option<Duration>) {
        let timeout = timeout.filter(|after| *after < SOON || !self.is_set_for(now, *after));
        if self.poll.poll(events, timeout).is_err() {
            // Interrupted: signals are blocked here, but a debugger or a freezer can do it too.
            events.clear();
        }
    }

    /// Whether the timer comes at this time, or earlier; it is set if it does not.
    fn is_set_for(&mut self, now: Tick, after: Duration) -> bool {
        let at = now.after(after);
        if self.set > now && self.set <= at {
            return true;
        }
        let expiration = Expiration::OneShot(TimeSpec::from(after));
        let is_set = self.timer.set(expiration, TimerSetTimeFlags::empty());
        self.set = if is_set.is_ok() { at } else { Tick::ZERO };
        is_set.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn poller() -> Poller {
        Poller::new(Poll::new().unwrap(), Token(7)).unwrap()
    }

    /// What is not soon wakes up like what is, and once.
    #[test]
    fn it_comes_back_in_time() {
        let mut poller = poller();
        let mut events = Events::with_capacity(8);
        let now = Tick::from_secs(100);
        for millis in [1, 120, 120] {
            let (began, after) = (Instant::now(), Duration::from_millis(millis));
            poller.wait(&mut events, now, Some(after));
            assert!(began.elapsed() >= after);
            assert_eq!(events.is_empty(), after < SOON);
            // The test's time stands still: as if it was over.
            poller.set = Tick::ZERO;
        }
    }

    /// A timer that is set for an earlier time stays: it wakes up too early, and is set again.
    #[test]
    fn it_is_set_when_the_time_is_earlier_or_over() {
        let mut poller = poller();
        let (second, now) = (Duration::from_secs(1), Tick::from_secs(100));
        assert!(poller.is_set_for(now, 10 * second));
        assert_eq!(poller.set, Tick::from_secs(110));
        assert!(poller.is_set_for(Tick::from_secs(105), 7 * second));
        assert_eq!(poller.set, Tick::from_secs(110));
        assert!(poller.is_set_for(Tick::from_secs(106), second));
        assert_eq!(poller.set, Tick::from_secs(107));
        assert!(poller.is_set_for(Tick::from_secs(107), 5 * second));
        assert_eq!(poller.set, Tick::from_secs(112));
    }
}
