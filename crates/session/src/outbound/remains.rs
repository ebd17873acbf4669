//! What a session leaves that owes no longer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Awaits, Chunk, Delivery, InFlight};
use crate::blocks::Blocks;

/// Visits the messages that other members of shared subscriptions should get: see [`Remains`].
pub(super) fn for_each_shared<'d>(
    (in_flight, waiting): (&'d VecDeque<InFlight>, impl Iterator<Item = &'d Delivery>),
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
    pub(super) waiting: Blocks<Delivery>,
    /// What they cost.
    pub(super) bytes: usize,
    /// What was on the disk.
    pub(super) chunks: Vec<Chunk>,
}

impl Remains {
    pub(super) fn push(&mut self, delivery: Delivery) {
        self.bytes += delivery.cost();
        self.waiting.push_back(delivery);
    }

    /// Visits the messages that other members of shared subscriptions should get.
    pub fn for_each_shared(&self, visit: impl FnMut(&Delivery)) {
        for_each_shared((&self.in_flight, self.waiting.iter()), visit);
    }

    /// Takes out the chunks on the disk: nobody needs them any more.
    pub fn take_chunks(&mut self) -> Vec<Chunk> {
        core::mem::take(&mut self.chunks)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What they cost, in bytes. O(1).
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Says of each message whether another member should get it.
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
                let delivery = self.waiting.pop_front()?;
                self.bytes -= delivery.cost();
                delivery
            }
        };
        Some((delivery.share != 0).then_some(delivery))
    }
}
