//! The receiving side of an inbox.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::{Inbox, Ticket};
use crate::fdtable::passing::{self, DESCRIPTORS_MAX};

/// Joins descriptors with the state that travelled beside them.
#[derive(Debug)]
pub(crate) struct Arrivals<T> {
    inbox: Inbox,
    /// State whose descriptor is still on its way.
    expected: HashMap<u64, T>,
    /// Descriptors whose state is still on its way.
    early: HashMap<u64, OwnedFd>,
}

/// What became of something that travelled.
#[derive(Debug)]
pub(crate) enum Received<T> {
    /// Both halves are here.
    Whole(T, OwnedFd),
    /// The descriptor found no room in this table; the kernel closed it.
    Lost(T),
}

impl<T> Arrivals<T> {
    /// Nothing has arrived yet.
    pub(crate) fn new(inbox: Inbox) -> Self {
        Self {
            inbox,
            expected: HashMap::new(),
            early: HashMap::new(),
        }
    }

    /// The descriptor to register for reading.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.inbox.as_raw_fd()
    }

    /// How many states wait for their descriptor.
    pub(crate) fn waiting(&self) -> usize {
        self.expected.len()
    }

    /// Announces state; gives it back with its descriptor if that came first.
    pub(crate) fn expect(&mut self, ticket: Ticket, state: T) -> Option<(T, OwnedFd)> {
        if let Some(fd) = self.early.remove(&ticket.0) {
            return Some((state, fd));
        }
        self.expected.insert(ticket.0, state);
        None
    }

    /// Receives every message that is there and hands out what is complete.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Received<T>)) {
        let mut payload = [0; DESCRIPTORS_MAX * size_of::<Ticket>()];
        let mut descriptors = Vec::new();
        // An error is EAGAIN; anything else repeats at the next event.
        while let Ok(len) = passing::receive(
            self.inbox.0.as_fd(),
            &mut payload,
            &mut descriptors,
            DESCRIPTORS_MAX,
        ) {
            if len == 0 {
                return;
            }
            let mut arrived = descriptors.drain(..);
            let (tickets, _) = payload[..len].as_chunks::<8>();
            for ticket in tickets {
                let ticket = u64::from_le_bytes(*ticket);
                match (arrived.next(), self.expected.remove(&ticket)) {
                    (Some(fd), Some(state)) => each(Received::Whole(state, fd)),
                    (Some(fd), None) => drop(self.early.insert(ticket, fd)),
                    (None, Some(state)) => each(Received::Lost(state)),
                    (None, None) => {}
                }
            }
        }
    }
}
