//! The sending side of the inboxes.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::{Slot, Ticket};
use crate::fdtable::passing::DESCRIPTORS_MAX;

/// What one sender has on its way to each shard, in batches: one system call carries up to
/// [`DESCRIPTORS_MAX`] descriptors.
#[derive(Debug)]
pub(crate) struct Outbox {
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    slot: Slot,
    queue: VecDeque<(Ticket, OwnedFd)>,
}

impl Outbox {
    /// An outbox to these inboxes, numbered as the shards are.
    pub(crate) fn new(slots: Vec<Slot>) -> Self {
        let peers = slots
            .into_iter()
            .map(|slot| Peer {
                slot,
                queue: VecDeque::new(),
            })
            .collect();
        Self { peers }
    }

    /// Adds a descriptor that nothing here is registered for any more.
    pub(crate) fn queue(&mut self, shard: usize, ticket: Ticket, fd: OwnedFd) {
        if let Some(peer) = self.peers.get_mut(shard) {
            peer.queue.push_back((ticket, fd));
        }
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.peers.iter().all(|peer| peer.queue.is_empty())
    }

    /// Sends what is queued and closes this table's copies. Returns false if an inbox was full:
    /// then the caller tries again soon.
    pub(crate) fn flush(&mut self) -> bool {
        let mut all = true;
        for peer in &mut self.peers {
            all &= peer.flush();
        }
        all
    }
}

impl Peer {
    fn flush(&mut self) -> bool {
        while !self.queue.is_empty() {
            let len = self.queue.len().min(DESCRIPTORS_MAX);
            let batch = &self.queue.make_contiguous()[..len];
            match self.slot.send(batch) {
                Err(Errno::EAGAIN | Errno::ETOOMANYREFS | Errno::EINTR) => return false,
                // Sent; or the shard is gone and its connections end here.
                Ok(()) | Err(_) => drop(self.queue.drain(..len)),
            }
        }
        true
    }
}
