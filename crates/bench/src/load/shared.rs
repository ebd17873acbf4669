//! What the threads of one load tell each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;

/// A number on a cache line of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded(AtomicU64);

/// Progress of one fan-out, shared by publisher, receivers and the thread that measures.
#[derive(Debug)]
pub(crate) struct Shared {
    publishers: usize,
    receivers: usize,
    /// Per publisher: an upper bound of the sequence numbers in use, raised before sending.
    published: Vec<Padded>,
    /// Per receiver and publisher: all below has reached this receiver's subscribers.
    low: Vec<Padded>,
    /// Per publisher: wake it when the lowest of `low` gets there.
    wake_at: Vec<Padded>,
    /// Per receiver: messages received.
    delivered: Vec<Padded>,
    /// Per receiver: faults and lost connections so far.
    faults: Vec<Padded>,
    /// Messages that each publisher keeps outstanding, when the window paces it.
    window: Padded,
    /// Latency counts for messages whose intended time lies in `from..to`.
    from_ns: Padded,
    to_ns: Padded,
    /// The publisher sleeps until the window opens.
    asleep: AtomicBool,
    stop: AtomicBool,
    finished: AtomicBool,
    publisher: OnceLock<Thread>,
}

impl Shared {
    pub(crate) fn new(publishers: usize, receivers: usize) -> Self {
        let padded = |count: usize| (0..count).map(|_| Padded::default()).collect::<Vec<_>>();
        let shared = Self {
            publishers,
            receivers,
            published: padded(publishers),
            low: padded(publishers * receivers),
            wake_at: padded(publishers),
            delivered: padded(receivers),
            faults: padded(receivers),
            window: Padded::default(),
            from_ns: Padded::default(),
            to_ns: Padded::default(),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            publisher: OnceLock::new(),
        };
        shared.set_interval(u64::MAX, u64::MAX);
        shared
    }

    /// Counts latency of messages meant to leave in `from_ns..to_ns`.
    pub(crate) fn set_interval(&self, from_ns: u64, to_ns: u64) {
        self.to_ns.0.store(to_ns, Ordering::Relaxed);
        self.from_ns.0.store(from_ns, Ordering::Release);
    }

    #[inline]
    pub(crate) fn interval(&self) -> (u64, u64) {
        (
            self.from_ns.0.load(Ordering::Acquire),
            self.to_ns.0.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_window(&self, messages: u64) {
        self.window.0.store(messages, Ordering::Relaxed);
        self.wake_publisher();
    }

    pub(crate) fn window(&self) -> u64 {
        self.window.0.load(Ordering::Relaxed)
    }

    /// No more messages are to be sent.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake_publisher();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The publisher has sent its last message.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub(crate) fn set_published(&self, publisher: usize, count: u64) {
        self.published[publisher].0.store(count, Ordering::Release);
    }

    #[inline]
    pub(crate) fn published(&self, publisher: usize) -> u64 {
        self.published[publisher].0.load(Ordering::Acquire)
    }

    /// The same of all publishers.
    pub(crate) fn all_published(&self) -> impl Iterator<Item = u64> {
        (0..self.publishers).map(|publisher| self.published(publisher))
    }

    /// Whether anybody receives in this process.
    pub(crate) const fn has_receivers(&self) -> bool {
        self.receivers > 0
    }

    pub(crate) fn set_low(&self, receiver: usize, publisher: usize, low: u64) {
        // Sequentially consistent with `asleep`: either the publisher sees this, or this side
        // sees that it sleeps.
        self.low[receiver * self.publishers + publisher]
            .0
            .store(low, Ordering::SeqCst);
    }

    /// Everything below has reached all subscribers of this publisher; `u64::MAX` if none is left.
    pub(crate) fn low(&self, publisher: usize) -> u64 {
        (0..self.receivers)
            .map(|receiver| {
                self.low[receiver * self.publishers + publisher]
                    .0
                    .load(Ordering::SeqCst)
            })
            .min()
            .unwrap_or(0)
    }

    pub(crate) fn set_delivered(&self, receiver: usize, count: u64, faults: u64) {
        self.delivered[receiver].0.store(count, Ordering::Relaxed);
        self.faults[receiver].0.store(faults, Ordering::Relaxed);
    }

    /// Messages received so far by all subscribers.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    }

    /// Faults and lost connections so far.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .sum()
    }

    /// The calling thread is the one that publishes.
    pub(crate) fn register_publisher(&self) {
        let _ = self.publisher.set(std::thread::current());
    }

    /// Declares when to wake the publisher: once any of `marks` is reached.
    pub(crate) fn fall_asleep(&self, marks: impl Iterator<Item = u64>) {
        for (slot, mark) in self.wake_at.iter().zip(marks) {
            slot.0.store(mark, Ordering::Relaxed);
        }
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// Whether some mark was reached already.
    pub(crate) fn is_due(&self) -> bool {
        (0..self.publishers).any(|p| self.low(p) >= self.wake_at[p].0.load(Ordering::Relaxed))
    }

    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes the publisher if it sleeps and a mark was reached.
    pub(crate) fn nudge_publisher(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.is_due() {
            self.wake_publisher();
        }
    }

    fn wake_publisher(&self) {
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(thread) = self.publisher.get() {
            thread.unpark();
        }
    }
}
