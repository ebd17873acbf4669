//! What the shards say to each other.
//!
//! Between every two shards there is a ring in each direction for messages, which is bounded and
//! takes no lock, and every shard has a [`ControlQueue`] for everything that is rare and must never
//! wait or be lost. A [`Waker`] wakes a shard that sleeps, and only then costs a system call.
//!
//! A ring holds [`RING_ITEMS`] items that have [`RING_BYTES_MAX`] bytes together: the items of a
//! client may be far larger than what it has sent.
//!
//! **No shard ever spins, blocks or drops on a full ring.** An item that does not fit waits in the
//! sender's overflow queue, and the connections that publish into it are not read until it is empty
//! ([`Pushed::Overflowed`]); past [`OVERFLOW_ITEMS_MAX`] or [`OVERFLOW_BYTES_MAX`] the sender takes
//! no message that other shards need, and past twice as much no message at all ([`Mesh::room`]).
//! Every shard goes on emptying its own rings in the meantime, so two full rings cannot wait for
//! each other.

mod control_queue;
mod waker;

pub(crate) use control_queue::ControlQueue;
#[cfg(test)]
pub(crate) use control_queue::LOAD_MAX;
pub(crate) use waker::Waker;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use stentor_hub::MeshRoom;

/// How many items one ring holds. Its pages are touched only as far as it was ever filled.
pub(crate) const RING_ITEMS: usize = 4096;

/// With this many items in overflow a shard takes nothing that other shards need.
pub(crate) const OVERFLOW_ITEMS_MAX: usize = 65_536;

/// Bytes that the items in one ring hold. One item may be larger, and goes alone.
pub(crate) const RING_BYTES_MAX: u64 = 4 << 20;

/// The same for the bytes in overflow.
pub(crate) const OVERFLOW_BYTES_MAX: u64 = 16 << 20;

/// What travels through the mesh: it says how many bytes of memory it holds.
pub(crate) trait Cargo {
    /// Bytes, with what it shares. The same at both ends.
    fn bytes(&self) -> usize;
}

impl Cargo for stentor_hub::MeshItem {
    #[inline]
    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

/// One shard's end of the mesh.
#[derive(Debug)]
pub(crate) struct Mesh<T> {
    outward: Vec<Option<Outward<T>>>,
    inward: Vec<Option<Inward<T>>>,
    overflowed: Load,
}

/// Items and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// How many items.
    pub(crate) items: usize,
    /// The bytes that they hold.
    pub(crate) bytes: u64,
}

impl Load {
    const fn add(&mut self, bytes: u64) {
        self.items += 1;
        self.bytes += bytes;
    }

    const fn remove(&mut self, bytes: u64) {
        self.items -= 1;
        self.bytes -= bytes;
    }
}

/// What the two ends of a ring tell each other, and everybody who asks.
#[derive(Debug, Default)]
struct Gauge {
    /// Bytes of all items that were pushed into the ring.
    pushed: Apart,
    /// Bytes of all items that the receiver has taken out.
    drained: AtomicU64,
    /// Whether the sender has something that found no room, and wants to be woken. A sender that
    /// is missed, because the receiver looked a moment before, tries again by itself.
    is_wanted: AtomicBool,
}

/// A figure that its writer changes with each item: on cache lines of its own, so that the other
/// end does not wait for it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The gauges of all rings.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Vec<Arc<Gauge>>);

impl Gauges {
    /// Those of a whole mesh.
    pub(crate) fn of<T>(ends: &[Mesh<T>]) -> Self {
        let outward = ends.iter().flat_map(|end| end.outward.iter().flatten());
        Self(outward.map(|way| Arc::clone(&way.gauge)).collect())
    }

    /// Bytes of what is in the rings, about, while others push and drain. O(shards²).
    pub(crate) fn bytes(&self) -> u64 {
        let held = |gauge: &Arc<Gauge>| {
            let drained = gauge.drained.load(Ordering::Relaxed);
            let pushed = gauge.pushed.0.load(Ordering::Relaxed);
            pushed.saturating_sub(drained)
        };
        self.0.iter().map(held).sum()
    }
}

/// The way from one other shard.
#[derive(Debug)]
struct Inward<T> {
    ring: Consumer<T>,
    /// Items of the present round that are still in the ring.
    ready: usize,
    gauge: Arc<Gauge>,
}

/// The way to one other shard.
#[derive(Debug)]
struct Outward<T> {
    ring: Producer<T>,
    /// Bytes of all items that were pushed into the ring.
    pushed: u64,
    gauge: Arc<Gauge>,
    overflow: VecDeque<T>,
    waker: Arc<Waker>,
    news: News,
}

/// Whether something was pushed since the peer was last woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Told,
    Untold,
}

/// Where an item went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Into the ring.
    Sent,
    /// Into the overflow: stop reading whoever caused it until [`Mesh::refill`] names the peer.
    Overflowed,
}

/// The mesh between as many shards as there are wakers: one end for each.
pub(crate) fn build<T>(wakers: &[Arc<Waker>], ring_items: usize) -> Vec<Mesh<T>> {
    let count = wakers.len();
    let mut ends: Vec<Mesh<T>> = (0..count)
        .map(|_| Mesh {
            outward: Vec::new(),
            inward: Vec::new(),
            overflowed: Load::default(),
        })
        .collect();
    for from in 0..count {
        for to in 0..count {
            if from == to {
                ends[from].outward.push(None);
                ends[to].inward.push(None);
                continue;
            }
            let (ring, consumer) = RingBuffer::new(ring_items);
            let gauge = Arc::<Gauge>::default();
            ends[from].outward.push(Some(Outward {
                ring,
                pushed: 0,
                gauge: Arc::clone(&gauge),
                overflow: VecDeque::new(),
                waker: Arc::clone(&wakers[to]),
                news: News::Told,
            }));
            let ring = consumer;
            ends[to].inward.push(Some(Inward {
                ring,
                ready: 0,
                gauge,
            }));
        }
    }
    ends
}

impl<T: Cargo> Outward<T> {
    /// Bytes of the items in the ring.
    fn held(&self) -> u64 {
        self.pushed - self.gauge.drained.load(Ordering::Relaxed)
    }

    /// Puts an item into the ring, unless that is full of items or of bytes: then it comes back.
    #[inline]
    fn push(&mut self, item: T) -> Result<(), T> {
        let bytes = item.bytes() as u64;
        // What the receiver takes in the meantime only makes more room.
        let held = self.held();
        if held + bytes > RING_BYTES_MAX && held > 0 {
            return Err(item);
        }
        self.ring.push(item).map_err(|PushError::Full(item)| item)?;
        self.pushed += bytes;
        self.gauge.pushed.0.store(self.pushed, Ordering::Relaxed);
        Ok(())
    }
}

impl<T: Cargo> Mesh<T> {
    /// Sends an item to another shard, which wakes up at the next [`Mesh::wake_peers`]. Items to
    /// one shard arrive in the order they were pushed.
    #[inline]
    pub(crate) fn push(&mut self, to: usize, item: T) -> Pushed {
        let Some(Some(peer)) = self.outward.get_mut(to) else {
            debug_assert!(false, "no way to shard {to}");
            return Pushed::Sent;
        };
        peer.news = News::Untold;
        let item = if peer.overflow.is_empty() {
            match peer.push(item) {
                Ok(()) => return Pushed::Sent,
                Err(item) => item,
            }
        } else {
            item
        };
        self.overflowed.add(item.bytes() as u64);
        peer.overflow.push_back(item);
        peer.gauge.is_wanted.store(true, Ordering::Relaxed);
        Pushed::Overflowed
    }

    /// Moves overflow into rings that have room again; calls `emptied` with each shard whose
    /// overflow is now empty and was not before.
    pub(crate) fn refill(&mut self, mut emptied: impl FnMut(usize)) {
        if self.overflowed.items == 0 {
            return;
        }
        for (to, peer) in self.outward.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            if peer.overflow.is_empty() {
                continue;
            }
            while let Some(item) = peer.overflow.pop_front() {
                let bytes = item.bytes() as u64;
                if let Err(item) = peer.push(item) {
                    peer.overflow.push_front(item);
                    peer.gauge.is_wanted.store(true, Ordering::Relaxed);
                    break;
                }
                peer.news = News::Untold;
                self.overflowed.remove(bytes);
            }
            if peer.overflow.is_empty() {
                emptied(to);
            }
        }
    }

    /// Whether anything waits in an overflow queue.
    pub(crate) const fn has_overflow(&self) -> bool {
        self.overflowed.items > 0
    }

    /// What is left of the room for what waits there.
    pub(crate) const fn room(&self) -> MeshRoom {
        let Load { items, bytes } = self.overflowed;
        if items > 2 * OVERFLOW_ITEMS_MAX || bytes > 2 * OVERFLOW_BYTES_MAX {
            MeshRoom::Overfull
        } else if items > OVERFLOW_ITEMS_MAX || bytes > OVERFLOW_BYTES_MAX {
            MeshRoom::Full
        } else {
            MeshRoom::Free
        }
    }

    /// Wakes the shards that were sent something and sleep.
    pub(crate) fn wake_peers(&mut self) {
        for peer in self.outward.iter_mut().flatten() {
            if peer.news == News::Untold {
                peer.news = News::Told;
                peer.waker.wake();
            }
        }
    }

    /// Begins a round with what other shards have sent until now, unless one is under way. What
    /// they send in the meantime waits for the next, so that a busy peer cannot keep this shard
    /// from its connections. Returns whether a round has begun.
    #[inline]
    pub(crate) fn begin_round(&mut self) -> bool {
        let mut inward = self.inward.iter().flatten();
        if inward.any(|inward| inward.ready > 0) {
            return false;
        }
        for inward in self.inward.iter_mut().flatten() {
            inward.ready = inward.ring.slots();
        }
        true
    }

    /// Hands out what the round has, until `each` says that it is enough for now. A peer whose ring
    /// was full is woken: it may have more to send. Returns whether that was all of the round.
    #[inline]
    pub(crate) fn drain(&mut self, mut each: impl FnMut(usize, T) -> bool) -> bool {
        for (from, (inward, back)) in self.inward.iter_mut().zip(&self.outward).enumerate() {
            let Some(Inward { ring, ready, gauge }) = inward else {
                continue;
            };
            if *ready == 0 {
                continue;
            }
            let mut bytes = 0;
            let mut is_enough = false;
            if let Ok(chunk) = ring.read_chunk(*ready) {
                for item in chunk {
                    *ready -= 1;
                    bytes += item.bytes() as u64;
                    is_enough = each(from, item);
                    if is_enough {
                        break;
                    }
                }
            }
            gauge.drained.fetch_add(bytes, Ordering::Relaxed);
            if gauge.is_wanted.load(Ordering::Relaxed)
                && gauge.is_wanted.swap(false, Ordering::Relaxed)
                && let Some(back) = back
            {
                back.waker.wake();
            }
            if is_enough {
                break;
            }
        }
        let mut inward = self.inward.iter().flatten();
        inward.all(|inward| inward.ready == 0)
    }

    /// Whether other shards sent something that was not drained.
    pub(crate) fn has_inward(&self) -> bool {
        let mut inward = self.inward.iter().flatten();
        inward.any(|inward| !inward.ring.is_empty())
    }

    /// Bytes of what waits in overflow queues; [`Gauges`] tell of the rings.
    pub(crate) const fn overflowed_bytes(&self) -> u64 {
        self.overflowed.bytes
    }

    /// How many items wait to be drained, and how many to be sent.
    pub(crate) fn depths(&self) -> (usize, usize) {
        let inward = self.inward.iter().flatten();
        let inward = inward.map(|inward| inward.ring.slots()).sum();
        (inward, self.overflowed.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T: Cargo> Mesh<T> {
        /// One round, to its end.
        fn take_all(&mut self, mut each: impl FnMut(T)) {
            self.begin_round();
            assert!(self.drain(|_, item| {
                each(item);
                false
            }));
        }

        /// Bytes of what this shard has sent and no other has taken yet.
        fn bytes(&self) -> u64 {
            let in_rings: u64 = self.outward.iter().flatten().map(Outward::held).sum();
            in_rings + self.overflowed.bytes
        }
    }

    impl Cargo for i32 {
        fn bytes(&self) -> usize {
            size_of::<Self>()
        }
    }

    impl Cargo for u64 {
        fn bytes(&self) -> usize {
            size_of::<Self>()
        }
    }

    impl Cargo for () {
        fn bytes(&self) -> usize {
            0
        }
    }

    impl Cargo for (usize, usize, usize) {
        fn bytes(&self) -> usize {
            size_of::<Self>()
        }
    }

    /// Holds that many bytes.
    #[derive(Debug, PartialEq, Eq)]
    struct Heavy(usize);

    impl Cargo for Heavy {
        fn bytes(&self) -> usize {
            self.0
        }
    }

    /// A ring with room for thousands of items is full of a few large ones.
    #[test]
    fn bytes_fill_a_ring_as_items_do() {
        const ITEM: usize = RING_BYTES_MAX as usize / 4;
        let mut ends = mesh(2, 4_096);
        let gauges = Gauges::of(&ends);
        for _ in 0..4 {
            assert_eq!(ends[0].push(1, Heavy(ITEM)), Pushed::Sent);
        }
        assert_eq!(ends[0].push(1, Heavy(1)), Pushed::Overflowed);
        assert_eq!(ends[0].bytes(), RING_BYTES_MAX + 1);
        assert_eq!(
            (gauges.bytes(), ends[0].overflowed_bytes()),
            (RING_BYTES_MAX, 1)
        );
        for room in [MeshRoom::Free, MeshRoom::Full] {
            for _ in 0..OVERFLOW_BYTES_MAX as usize / ITEM {
                assert_eq!(ends[0].room(), room);
                ends[0].push(1, Heavy(ITEM));
            }
        }
        assert_eq!(ends[0].room(), MeshRoom::Overfull);
        let mut got = 0;
        while ends[0].bytes() > 0 {
            ends[1].take_all(|_| got += 1);
            ends[0].refill(|_| {});
        }
        assert!(got == 5 + 32 && ends[0].room() == MeshRoom::Free);
        assert_eq!(gauges.bytes(), 0);
    }

    /// An item that is larger than a ring may hold goes alone, and waits for nobody else.
    #[test]
    fn an_item_larger_than_a_ring_goes_alone() {
        let large = || Heavy(3 * RING_BYTES_MAX as usize);
        let mut ends = mesh(2, 8);
        assert_eq!(ends[0].push(1, large()), Pushed::Sent);
        assert_eq!(ends[0].push(1, large()), Pushed::Overflowed);
        let mut got = Vec::new();
        ends[1].take_all(|item| got.push(item));
        ends[0].refill(|_| {});
        ends[1].take_all(|item| got.push(item));
        assert_eq!(got, [large(), large()]);
    }

    fn mesh<T: Cargo>(shards: usize, ring_items: usize) -> Vec<Mesh<T>> {
        let wakers: Vec<_> = (0..shards)
            .map(|_| Arc::new(Waker::new().unwrap()))
            .collect();
        build(&wakers, ring_items)
    }

    #[test]
    fn every_pair_is_connected_in_order() {
        let mut ends = mesh(3, 8);
        for (from, end) in ends.iter_mut().enumerate() {
            for to in 0..3 {
                if from != to {
                    assert_eq!(end.push(to, (from, to, 1)), Pushed::Sent);
                    assert_eq!(end.push(to, (from, to, 2)), Pushed::Sent);
                }
            }
        }
        for (to, end) in ends.iter_mut().enumerate() {
            assert!(end.has_inward());
            let mut got = Vec::new();
            end.take_all(|item| got.push(item));
            let expected: Vec<_> = (0..3)
                .filter(|from| *from != to)
                .flat_map(|from| [(from, to, 1), (from, to, 2)])
                .collect();
            assert_eq!(got, expected);
            assert!(!end.has_inward());
        }
    }

    #[test]
    fn a_full_ring_overflows_without_loss_and_in_order() {
        let mut ends = mesh(2, 4);
        for item in 0..10 {
            let expected = if item < 4 {
                Pushed::Sent
            } else {
                Pushed::Overflowed
            };
            assert_eq!(ends[0].push(1, item), expected);
        }
        assert_eq!(ends[0].overflowed.items, 6);
        ends[0].refill(|_| panic!("the ring is still full"));
        let mut got = Vec::new();
        let mut emptied = Vec::new();
        while got.len() < 10 {
            ends[1].take_all(|item| got.push(item));
            ends[0].refill(|peer| emptied.push(peer));
        }
        assert_eq!(got, (0..10).collect::<Vec<_>>());
        assert_eq!(emptied, [1]);
        assert!(!ends[0].has_overflow());
        assert_eq!(ends[0].push(1, 10), Pushed::Sent);
    }

    /// While an overflow is not empty, nothing may pass it through the ring.
    #[test]
    fn the_ring_is_not_used_past_an_overflow() {
        let mut ends = mesh(2, 2);
        for item in 0..3 {
            ends[0].push(1, item);
        }
        ends[1].take_all(|_| {});
        assert_eq!(ends[0].push(1, 3), Pushed::Overflowed);
    }

    /// Two shards that push into each other's full rings: both overflow, neither waits.
    #[test]
    fn two_full_rings_do_not_wait_for_each_other() {
        let mut ends = mesh(2, 2);
        let mut got = [0, 0];
        for _ in 0..100 {
            for (from, end) in ends.iter_mut().enumerate() {
                for _ in 0..5 {
                    end.push(1 - from, ());
                }
            }
            for at in 0..2 {
                ends[at].take_all(|()| got[at] += 1);
                ends[at].refill(|_| {});
            }
        }
        for _ in 0..1000 {
            for at in 0..2 {
                ends[at].take_all(|()| got[at] += 1);
                ends[at].refill(|_| {});
            }
        }
        assert_eq!(got, [500, 500]);
    }

    /// A shard that sleeps over a full ring is woken when the ring is emptied.
    #[test]
    fn an_emptied_ring_wakes_its_sender() {
        let wakers: Vec<_> = (0..2).map(|_| Arc::new(Waker::new().unwrap())).collect();
        let mut ends = build(&wakers, 2);
        let mut poll = mio::Poll::new().unwrap();
        wakers[0].register(poll.registry(), mio::Token(0)).unwrap();
        for item in 0..3 {
            ends[0].push(1, item);
        }
        assert!(wakers[0].begin_sleep(|| true));
        ends[1].take_all(|_| {});
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(std::time::Duration::ZERO))
            .unwrap();
        assert!(!events.is_empty());
        ends[0].refill(|_| {});
        assert!(!ends[0].has_overflow());
    }

    /// A shard that goes to sleep is woken by what was pushed before or after, never missed.
    #[test]
    fn no_wake_up_is_lost() {
        const ITEMS: u64 = 20_000;
        let wakers: Vec<_> = (0..2).map(|_| Arc::new(Waker::new().unwrap())).collect();
        let mut ends = build::<u64>(&wakers, 16);
        let mut receiver = ends.pop().unwrap();
        let mut sender = ends.pop().unwrap();
        let waker = Arc::clone(&wakers[1]);
        let thread = std::thread::spawn(move || {
            let mut poll = mio::Poll::new().unwrap();
            waker.register(poll.registry(), mio::Token(0)).unwrap();
            let mut events = mio::Events::with_capacity(4);
            let mut sum = 0;
            let mut count = 0;
            while count < ITEMS {
                receiver.take_all(|item| {
                    sum += item;
                    count += 1;
                });
                if count < ITEMS && waker.begin_sleep(|| !receiver.has_inward()) {
                    let limit = std::time::Duration::from_secs(20);
                    poll.poll(&mut events, Some(limit)).unwrap();
                    assert!(!events.is_empty(), "the wake-up was lost");
                    waker.end_sleep();
                }
            }
            sum
        });
        for item in 0..ITEMS {
            sender.push(1, item);
            sender.wake_peers();
            while sender.has_overflow() {
                std::thread::yield_now();
                sender.refill(|_| {});
                sender.wake_peers();
            }
        }
        assert_eq!(thread.join().unwrap(), ITEMS * (ITEMS - 1) / 2);
    }

    /// A round goes on where it broke off, and takes nothing that came after its beginning.
    #[test]
    fn a_round_may_take_several_turns() {
        let mut ends = mesh(3, 8);
        for item in 0..3 {
            ends[0].push(2, item);
            ends[1].push(2, 10 + item);
        }
        let mut got = Vec::new();
        assert!(ends[2].begin_round());
        assert!(!ends[2].drain(|_, item| {
            got.push(item);
            got.len() == 2
        }));
        ends[0].push(2, 3);
        assert!(!ends[2].begin_round(), "it is under way");
        assert!(ends[2].drain(|_, item| {
            got.push(item);
            false
        }));
        assert_eq!(got, [0, 1, 2, 10, 11, 12]);
        assert!(ends[2].has_inward() && ends[2].begin_round());
        ends[2].take_all(|item| got.push(item));
        assert_eq!(got.last(), Some(&3));
    }
}
