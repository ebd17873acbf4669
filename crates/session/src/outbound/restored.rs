//! What a session owed when the server ended.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS};

use super::spool::Spool;
use super::{Awaits, Delivery, InFlight, Outbound, PriorDelivery, Spooled, natural_id};

/// What a session owed that was written down: all deliveries in the order of their numbers, and
/// what is on the disk. Of numbers, `numbers` have been given, and what is below `sent` may have
/// been sent.
#[must_use]
pub(super) fn restored(
    numbers: u64,
    sent: u64,
    deliveries: impl IntoIterator<Item = PriorDelivery>,
    spooled: Vec<Spooled>,
) -> Outbound {
    let mut outbound = Outbound {
        numbers,
        next_id: natural_id(numbers + 1).map_or(1, PacketId::get),
        sent_before: sent,
        ..Outbound::default()
    };
    let mut deliveries = deliveries.into_iter().peekable();
    let first = spooled.first().map_or(u64::MAX, |it| it.chunk.first);
    let mut spool = Spool::default();
    let is_spooled = !spooled.is_empty();
    while let Some(prior) = deliveries.next_if(|prior| prior.number < first) {
        if may_be_sent(&outbound, &prior) {
            relaunch(&mut outbound, prior.packet_id, prior.number, prior.delivery);
        } else if is_spooled {
            keep_in(&mut outbound, &mut spool, prior);
        } else {
            prior.delivery.into_iter().for_each(|it| outbound.wait(it));
        }
    }
    // What comes after a chunk is not sent before it.
    for chunk in spooled {
        while let Some(prior) = deliveries.next_if(|it| it.number < chunk.chunk.first) {
            keep_in(&mut outbound, &mut spool, prior);
        }
        spool.restore(chunk);
    }
    outbound.spool = is_spooled.then(|| Box::new(spool));
    for prior in deliveries {
        wait_behind(&mut outbound, prior);
    }
    outbound.has_progress = false;
    outbound
}

/// Whether a delivery of an earlier start may be with the client.
fn may_be_sent(outbound: &Outbound, prior: &PriorDelivery) -> bool {
    let is_natural = natural_id(prior.number) == Some(prior.packet_id);
    prior.number < outbound.sent_before || !is_natural || prior.delivery.is_none()
}

/// Goes on with one that is before a chunk.
fn keep_in(outbound: &mut Outbound, spool: &mut Spool, prior: PriorDelivery) {
    let prior_number = prior.number;
    if natural_id(prior.number) != Some(prior.packet_id) && prior.delivery.is_some() {
        spool.odd.insert(prior.number, prior.packet_id);
    }
    match prior.delivery {
        Some(delivery) => {
            outbound.bytes += delivery.cost();
            outbound.has_shared |= delivery.share != 0;
            spool.keep(delivery, prior_number + 1);
        }
        None => relaunch(outbound, prior.packet_id, prior.number, None),
    }
}

/// The same with one behind all chunks.
fn wait_behind(outbound: &mut Outbound, prior: PriorDelivery) {
    let is_natural = natural_id(prior.number) == Some(prior.packet_id);
    match prior.delivery {
        Some(delivery) => {
            if let Some(spool) = outbound.spool.as_mut().filter(|_| !is_natural) {
                spool.odd.insert(prior.number, prior.packet_id);
            }
            outbound.wait(delivery);
        }
        None => relaunch(outbound, prior.packet_id, prior.number, None),
    }
}

/// Puts back what is to be sent again.
fn relaunch(outbound: &mut Outbound, packet_id: PacketId, number: u64, delivery: Option<Delivery>) {
    outbound.has_shared |= delivery.as_ref().is_some_and(|it| it.share != 0);
    let awaits = match delivery {
        Some(delivery) if delivery.qos == QoS::ExactlyOnce => Awaits::Receipt(delivery),
        Some(delivery) => Awaits::Acknowledgement(delivery),
        None => Awaits::Completion(number),
    };
    let entry = InFlight {
        packet_id,
        sent_secs: 0,
        awaits,
    };
    outbound.bytes += entry.cost();
    outbound.push_in_flight(entry);
}
