//! The messages that wait, piece by piece: they can be more than there is time for at once.
//!
//! A long queue is written down in parts. Between two parts the queue goes on: deliveries leave it
//! at its front, others join it at its end, and some of it goes to the disk.

use stentor_mqtt::PacketId;

use super::{Delivery, Outbound, Spooled};

/// A piece of what waits.
#[derive(Debug)]
pub enum Waiting<'o> {
    /// On the disk.
    Chunk(Spooled),
    /// In memory.
    Here {
        /// Its number.
        number: u64,
        /// Its packet id, if it has had one that does not follow from its number.
        packet_id: Option<PacketId>,
        /// The delivery.
        delivery: &'o Delivery,
    },
}

impl Waiting<'_> {
    /// The first number in it.
    #[must_use]
    pub const fn first(&self) -> u64 {
        match self {
            Self::Chunk(spooled) => spooled.chunk.first,
            Self::Here { number, .. } => *number,
        }
    }

    /// The number after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        match self {
            Self::Chunk(spooled) => spooled.chunk.end(),
            Self::Here { number, .. } => number + 1,
        }
    }
}

/// How many pieces wait, about. O(1).
#[must_use]
pub fn pieces(outbound: &Outbound) -> usize {
    let spool = outbound.spool.as_ref();
    outbound.waiting.len() + spool.map_or(0, |spool| spool.items_len())
}

/// The messages that wait and have numbers from this one on, in order, but for those that were
/// fetched from the disk: these are about to be sent.
pub fn waiting_from(outbound: &Outbound, from: u64) -> impl Iterator<Item = Waiting<'_>> {
    let next = outbound.next_number();
    let spool = outbound.spool.as_ref();
    let behind = outbound.waiting.iter();
    let behind = behind.skip_while(move |it| it.number < from);
    let behind = behind.filter(|it| it.number > 0);
    let here = move |delivery| here(outbound, delivery);
    let items = spool
        .into_iter()
        .flat_map(move |it| it.items_from(from, next));
    items.chain(behind.map(here))
}

fn here<'o>(outbound: &'o Outbound, delivery: &'o Delivery) -> Waiting<'o> {
    let number = delivery.number;
    let spool = outbound.spool.as_ref();
    Waiting::Here {
        number,
        packet_id: spool.and_then(|it| it.odd.get(&number)).copied(),
        delivery,
    }
}
