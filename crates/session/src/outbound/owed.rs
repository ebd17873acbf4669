//! What a session owes, to look at in pages. Nobody sends or drops anything here.

use alloc::vec::Vec;

use stentor_mqtt::PacketId;

use super::spool::Spool;
use super::{Awaits, Delivery, Outbound, Spooled};
use crate::Tick;

/// A message in flight.
#[derive(Debug)]
pub struct Flying<'o> {
    /// Its packet id.
    pub packet_id: PacketId,
    /// The message; `None` if the client has received it at QoS 2, and PUBCOMP is missing.
    pub delivery: Option<&'o Delivery>,
    /// When it was sent on the present connection, to the second; `None` if it is to be sent again.
    pub sent_at: Option<Tick>,
}

/// A piece of what waits behind that.
#[derive(Debug)]
pub enum Piece<'o> {
    /// In memory.
    Here(&'o Delivery),
    /// On the disk.
    Chunk(Spooled),
}

/// What a session owes, by where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages in flight.
    pub in_flight: usize,
    /// Those that wait in memory, and are not about to go to the disk.
    pub here: usize,
    /// Those that wait on the disk, or are about to go there.
    pub on_the_disk: usize,
}

/// Says what time it is, for those who look when what is in flight was sent.
#[inline]
pub const fn note_time(outbound: &mut Outbound, now: Tick) {
    // It is enough for 136 years.
    outbound.now_secs = now.as_secs() as u32;
}

/// How much of what is owed is where. O(1).
#[must_use]
pub fn counts(outbound: &Outbound) -> Counts {
    let here = outbound.held_len();
    Counts {
        in_flight: outbound.in_flight_len(),
        here,
        on_the_disk: outbound.waiting_len() - here,
    }
}

/// The messages in flight, from a place in the window on. O(what is looked at).
pub fn in_flight_from(outbound: &Outbound, from: usize) -> impl Iterator<Item = Flying<'_>> {
    let from = from.min(outbound.in_flight.len());
    let all = outbound.in_flight.range(from..).zip(from..);
    all.map(|(entry, at)| Flying {
        packet_id: entry.packet_id,
        delivery: match &entry.awaits {
            Awaits::Acknowledgement(delivery) | Awaits::Receipt(delivery) => Some(delivery),
            Awaits::Completion(_) => None,
        },
        sent_at: (at < outbound.sent).then(|| Tick::from_secs(entry.sent_secs.into())),
    })
}

/// The messages that wait, in order: behind the delivery with the number `after`, and `passed`
/// deliveries without a number behind that; from the first one on if both are 0. It finds its
/// beginning by the number, in O(log messages). In a queue without numbers, it takes O(messages /
/// 256). Deliveries that have left the queue in the meantime are passed over.
///
/// A chunk may begin before the delivery that comes next.
pub fn waiting_behind(
    outbound: &Outbound,
    after: u64,
    passed: usize,
) -> impl Iterator<Item = Piece<'_>> {
    let next = outbound.next_number();
    let spool = outbound.spool.as_deref();
    // Without numbers there is no spool, and the place is a number of entries.
    let (index, mut passed) = match outbound.is_numbered() {
        true => (0, passed),
        false => (passed, 0),
    };
    let front = spool.filter(|it| !is_behind_front(outbound, it, after, next));
    let front: Vec<&Delivery> = front.into_iter().flat_map(|it| it.front.iter()).collect();
    let front = behind(front, after).into_iter().map(Piece::Here);
    let items = spool
        .into_iter()
        .flat_map(move |it| it.pieces_behind(after, next));
    let waiting = match index {
        0 => outbound
            .waiting
            .iter_behind(|it| (it.number > 0).then_some(it.number <= after)),
        _ => outbound.waiting.iter_from(index),
    };
    let all = front.chain(items).chain(waiting.map(Piece::Here));
    all.skip_while(move |piece| match piece {
        Piece::Here(delivery) if delivery.number == 0 && passed > 0 => {
            passed -= 1;
            true
        }
        Piece::Here(_) | Piece::Chunk(_) => false,
    })
}

/// Whether a number is one of those behind the front of the spool: then nothing of that comes next.
fn is_behind_front(outbound: &Outbound, spool: &Spool, after: u64, next: u64) -> bool {
    /// Few have no number.
    const LOOKED_AT: usize = 256;
    let waiting = outbound.waiting.iter().take(LOOKED_AT);
    let first = spool.first_item(next);
    let first = first.or_else(|| waiting.map(|it| it.number).find(|number| *number > 0));
    first.is_some_and(|first| first <= after)
}

/// What stands behind the last delivery whose number is at most this.
pub(super) fn behind(mut all: Vec<&Delivery>, after: u64) -> Vec<&Delivery> {
    let is_passed = |it: &&Delivery| (1..=after).contains(&it.number);
    let passed = all.iter().rposition(is_passed).map_or(0, |at| at + 1);
    all.split_off(passed)
}
