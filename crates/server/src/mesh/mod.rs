//! What the shards say to each other.
//!
//! Between every two shards there is a ring in each direction for messages, which is bounded and
//! takes no lock, and every shard has a [`Lane`] for everything that is rare and must never wait
//! or be lost. A [`Bell`] wakes a shard that sleeps, and only then costs a system call.
//!
//! **No shard ever spins, blocks or drops on a full ring.** What does not fit waits in the
//! sender's overflow queue, and the connections that publish into it are not read until it is
//! empty ([`Pushed::Overflowed`]); past [`OVERFLOW_ITEMS_MAX`] the sender reads from no connection
//! at all. Every shard goes on emptying its own rings meanwhile, so two full rings cannot wait for
//! each other.

mod bell;
mod lane;

pub(crate) use bell::Bell;
pub(crate) use lane::Lane;

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

/// How many items one ring holds. Its pages are touched only as far as it was ever filled.
pub(crate) const RING_ITEMS: usize = 4096;

/// With this many items in overflow a shard reads from no connection.
pub(crate) const OVERFLOW_ITEMS_MAX: usize = 65_536;

/// One shard's end of the mesh.
#[derive(Debug)]
pub(crate) struct Mesh<T> {
    outward: Vec<Option<Outward<T>>>,
    inward: Vec<Option<Consumer<T>>>,
    overflowed: usize,
}

/// The way to one other shard.
#[derive(Debug)]
struct Outward<T> {
    ring: Producer<T>,
    overflow: VecDeque<T>,
    bell: Arc<Bell>,
    news: News,
}

/// Whether something was pushed since the peer's bell was last rung.
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

/// The mesh between as many shards as there are bells: one end for each.
pub(crate) fn build<T>(bells: &[Arc<Bell>], ring_items: usize) -> Vec<Mesh<T>> {
    let count = bells.len();
    let mut ends: Vec<Mesh<T>> = (0..count)
        .map(|_| Mesh {
            outward: Vec::new(),
            inward: Vec::new(),
            overflowed: 0,
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
            ends[from].outward.push(Some(Outward {
                ring,
                overflow: VecDeque::new(),
                bell: Arc::clone(&bells[to]),
                news: News::Told,
            }));
            ends[to].inward.push(Some(consumer));
        }
    }
    ends
}

impl<T> Mesh<T> {
    /// Sends an item to another shard, which is told at the next [`Mesh::ring_bells`]. Items to
    /// one shard arrive in the order they were pushed.
    #[inline]
    pub(crate) fn push(&mut self, to: usize, item: T) -> Pushed {
        let Some(Some(peer)) = self.outward.get_mut(to) else {
            debug_assert!(false, "no way to shard {to}");
            return Pushed::Sent;
        };
        peer.news = News::Untold;
        let item = if peer.overflow.is_empty() {
            match peer.ring.push(item) {
                Ok(()) => return Pushed::Sent,
                Err(PushError::Full(item)) => item,
            }
        } else {
            item
        };
        peer.overflow.push_back(item);
        self.overflowed += 1;
        Pushed::Overflowed
    }

    /// Moves overflow into rings that have room again; calls `emptied` with each shard whose
    /// overflow is now empty and was not before.
    pub(crate) fn refill(&mut self, mut emptied: impl FnMut(usize)) {
        if self.overflowed == 0 {
            return;
        }
        for (to, peer) in self.outward.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            if peer.overflow.is_empty() {
                continue;
            }
            while let Some(item) = peer.overflow.pop_front() {
                if let Err(PushError::Full(item)) = peer.ring.push(item) {
                    peer.overflow.push_front(item);
                    break;
                }
                peer.news = News::Untold;
                self.overflowed -= 1;
            }
            if peer.overflow.is_empty() {
                emptied(to);
            }
        }
    }

    /// How many items wait in overflow queues.
    pub(crate) const fn overflowed(&self) -> usize {
        self.overflowed
    }

    /// Wakes the shards that were sent something and sleep.
    pub(crate) fn ring_bells(&mut self) {
        for peer in self.outward.iter_mut().flatten() {
            if peer.news == News::Untold {
                peer.news = News::Told;
                peer.bell.ring();
            }
        }
    }

    /// Hands out what other shards sent before this call. What they send meanwhile waits for the
    /// next, so that a busy peer cannot keep this shard from its connections. A peer whose ring
    /// was full is woken: it may have more to send.
    #[inline]
    pub(crate) fn drain(&mut self, mut each: impl FnMut(T)) {
        for (ring, back) in self.inward.iter_mut().zip(&self.outward) {
            let Some(ring) = ring else { continue };
            let ready = ring.slots();
            if ready == 0 {
                continue;
            }
            if let Ok(chunk) = ring.read_chunk(ready) {
                chunk.into_iter().for_each(&mut each);
            }
            if ready == ring.buffer().capacity()
                && let Some(back) = back
            {
                back.bell.ring();
            }
        }
    }

    /// Whether other shards sent something that was not drained.
    pub(crate) fn has_inward(&self) -> bool {
        self.inward.iter().flatten().any(|ring| !ring.is_empty())
    }

    /// How many items wait to be drained, and how many to be sent.
    pub(crate) fn depths(&self) -> (usize, usize) {
        let inward = self.inward.iter().flatten().map(Consumer::slots).sum();
        (inward, self.overflowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh<T>(shards: usize, ring_items: usize) -> Vec<Mesh<T>> {
        let bells: Vec<_> = (0..shards)
            .map(|_| Arc::new(Bell::new().unwrap()))
            .collect();
        build(&bells, ring_items)
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
            end.drain(|item| got.push(item));
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
        assert_eq!(ends[0].overflowed(), 6);
        ends[0].refill(|_| panic!("the ring is still full"));
        let mut got = Vec::new();
        let mut emptied = Vec::new();
        while got.len() < 10 {
            ends[1].drain(|item| got.push(item));
            ends[0].refill(|peer| emptied.push(peer));
        }
        assert_eq!(got, (0..10).collect::<Vec<_>>());
        assert_eq!(emptied, [1]);
        assert_eq!(ends[0].overflowed(), 0);
        assert_eq!(ends[0].push(1, 10), Pushed::Sent);
    }

    /// While an overflow is not empty, nothing may pass it through the ring.
    #[test]
    fn the_ring_is_not_used_past_an_overflow() {
        let mut ends = mesh(2, 2);
        for item in 0..3 {
            ends[0].push(1, item);
        }
        ends[1].drain(|_| {});
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
                ends[at].drain(|()| got[at] += 1);
                ends[at].refill(|_| {});
            }
        }
        for _ in 0..1000 {
            for at in 0..2 {
                ends[at].drain(|()| got[at] += 1);
                ends[at].refill(|_| {});
            }
        }
        assert_eq!(got, [500, 500]);
    }

    /// Whoever sleeps over a full ring is woken when it is emptied.
    #[test]
    fn an_emptied_ring_wakes_its_sender() {
        let bells: Vec<_> = (0..2).map(|_| Arc::new(Bell::new().unwrap())).collect();
        let mut ends = build(&bells, 2);
        let mut poll = mio::Poll::new().unwrap();
        bells[0].register(poll.registry(), mio::Token(0)).unwrap();
        for item in 0..3 {
            ends[0].push(1, item);
        }
        assert!(bells[0].begin_sleep(|| true));
        ends[1].drain(|_| {});
        let mut events = mio::Events::with_capacity(4);
        poll.poll(&mut events, Some(std::time::Duration::ZERO))
            .unwrap();
        assert!(!events.is_empty());
        ends[0].refill(|_| {});
        assert_eq!(ends[0].overflowed(), 0);
    }

    /// A shard that goes to sleep is woken by what was pushed before or after, never missed.
    #[test]
    fn no_wake_up_is_lost() {
        const ITEMS: u64 = 20_000;
        let bells: Vec<_> = (0..2).map(|_| Arc::new(Bell::new().unwrap())).collect();
        let mut ends = build::<u64>(&bells, 16);
        let mut receiver = ends.pop().unwrap();
        let mut sender = ends.pop().unwrap();
        let bell = Arc::clone(&bells[1]);
        let thread = std::thread::spawn(move || {
            let mut poll = mio::Poll::new().unwrap();
            bell.register(poll.registry(), mio::Token(0)).unwrap();
            let mut events = mio::Events::with_capacity(4);
            let mut sum = 0;
            let mut count = 0;
            while count < ITEMS {
                receiver.drain(|item| {
                    sum += item;
                    count += 1;
                });
                if count < ITEMS && bell.begin_sleep(|| !receiver.has_inward()) {
                    let limit = std::time::Duration::from_secs(20);
                    poll.poll(&mut events, Some(limit)).unwrap();
                    assert!(!events.is_empty(), "slept through a bell");
                    bell.end_sleep();
                }
            }
            sum
        });
        for item in 0..ITEMS {
            sender.push(1, item);
            sender.ring_bells();
            while sender.overflowed() > 0 {
                std::thread::yield_now();
                sender.refill(|_| {});
                sender.ring_bells();
            }
        }
        assert_eq!(thread.join().unwrap(), ITEMS * (ITEMS - 1) / 2);
    }
}
