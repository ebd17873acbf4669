//! What a session leaves that owes no longer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::spool::{GivenUp, Spool};
use super::{Awaits, Chunk, Delivery, InFlight};
use crate::blocks::Blocks;

/// Visits the messages that other members of shared subscriptions should get: see [`Remains`].
pub(super) fn for_each_shared<'d>(
    in_flight: &'d VecDeque<InFlight>,
    waiting: impl Iterator<Item = &'d Delivery>,
    visit: impl FnMut(&Delivery),
) {
    let in_flight = in_flight.iter();
    let in_flight = in_flight.filter_map(|entry| match &entry.awaits {
        Awaits::Acknowledgement(delivery) => Some(delivery),
        Awaits::Receipt(_) | Awaits::Completion(_) => None,
    });
    let all = in_flight.chain(waiting);
    all.filter(|delivery| delivery.share != 0).for_each(visit);
}

/// Messages that a session owes no longer, in order. Each is dropped when it is taken out, unless
/// another member of its shared subscription should get it: those are unacknowledged ones of QoS 1,
/// and all that were not sent yet [MQTT-4.8.2-5].
#[derive(Debug, Default)]
pub struct Remains {
    pub(super) in_flight: VecDeque<InFlight>,
    /// What waited before that, mostly on the disk.
    pub(super) spool: Option<Box<Spool>>,
    pub(super) waiting: Blocks<Delivery>,
    /// What they cost.
    pub(super) bytes: usize,
    /// What was on the disk, as far as it was walked.
    pub(super) chunks: Vec<Chunk>,
    /// A number that follows.
    pub(super) next: u64,
}

impl Remains {
    pub(super) fn push(&mut self, delivery: Delivery) {
        self.bytes += delivery.cost();
        self.waiting.push_back(delivery);
    }

    /// Visits the messages that other members of shared subscriptions should get.
    pub fn for_each_shared(&self, visit: impl FnMut(&Delivery)) {
        let spool = self.spool.iter().flat_map(|spool| spool.held());
        let waiting = spool.chain(self.waiting.iter());
        for_each_shared(&self.in_flight, waiting, visit);
    }

    /// Takes out the chunks on the disk that were walked: nobody needs them any more.
    pub fn take_chunks(&mut self) -> Vec<Chunk> {
        core::mem::take(&mut self.chunks)
    }

    /// How many pieces there are, about: messages, and chunks on the disk. O(1).
    #[must_use]
    pub fn pieces(&self) -> usize {
        let spool = self.spool.as_ref().map_or(0, |spool| spool.pieces());
        self.in_flight.len() + spool + self.waiting.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces() == 0
    }

    /// What they cost, in bytes. O(1).
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that the list of chunks takes. O(1).
    #[must_use]
    pub fn list_bytes(&self) -> usize {
        self.spool.as_ref().map_or(0, |spool| spool.own_bytes())
    }
}

/// Says of each message whether another member should get it. A chunk on the disk is a piece as
/// well: nobody gets what is in it.
impl Iterator for Remains {
    type Item = Option<Delivery>;

    fn next(&mut self) -> Option<Option<Delivery>> {
        let delivery = match self.in_flight.pop_front() {
            Some(entry) => {
                self.bytes -= entry.cost();
                match entry.awaits {
                    Awaits::Acknowledgement(delivery) => delivery,
                    Awaits::Receipt(_) | Awaits::Completion(_) => return Some(None),
                }
            }
            None => {
                let delivery = match self.next_spooled() {
                    Some(GivenUp::Delivery(delivery)) => delivery,
                    Some(GivenUp::Chunk(chunk)) => {
                        self.chunks.push(chunk);
                        return Some(None);
                    }
                    None => self.waiting.pop_front()?,
                };
                self.bytes -= delivery.cost();
                delivery
            }
        };
        Some((delivery.share != 0).then_some(delivery))
    }
}

impl Remains {
    fn next_spooled(&mut self) -> Option<GivenUp> {
        let next = self.spool.as_mut()?.give_up(self.next);
        if next.is_none() {
            self.spool = None;
        }
        next
    }
}
