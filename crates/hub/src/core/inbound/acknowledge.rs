//! Acknowledging what clients publish: at once, or when what it waits for has happened.
//!
//! Acknowledgements leave in the order of receipt. One that waits for a ticket holds the later
//! ones of its connection, and nothing else: neither other connections nor other packets.

use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::{Ack, Packet, Property, PropertyBuf, Publish, QoS, ReasonCode};
use stentor_session::{CloseReason, Limit, Outcome, Receipt, Tick, Ticket};

use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::lifecycle;
use crate::core::sessions::registry::Link;
use crate::core::{Core, Inbound};
use crate::items::ShardItem;

/// What became of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// This is known now.
    Done(Outcome),
    /// It will be known when the ticket is resolved.
    Waits(Ticket),
}

impl Taken {
    /// All is well.
    pub(crate) const SUCCESS: Self = Self::Done(Outcome::SUCCESS);

    /// This is known now, and the code says it all.
    pub(crate) fn done(reason: ReasonCode) -> Self {
        Self::Done(reason.into())
    }
}

/// Acknowledgements of this shard that may wait at a time. Clients that come and go while
/// nothing is resolved cannot fill the memory; what is above is refused.
const DEFERRED_MAX: usize = 1 << 20;

/// The acknowledgements that wait, by what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    by_ticket: HashMap<Ticket, Vec<Waiting>, foldhash::fast::FixedState>,
    len: usize,
    /// How many tickets of its own this hub has given.
    tickets: u64,
}

/// Those who wait for a ticket.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// An acknowledgement of a session here, by its name.
    Ack(SessionKey, u64),
    /// Another shard, which knows it by this ticket.
    Shard(ShardId, Ticket),
}

/// How a publish is acknowledged; QoS 0 is not.
pub(crate) const fn receipt(publish: &Publish<'_>) -> Option<Receipt> {
    match (publish.qos, publish.packet_id) {
        (QoS::AtLeastOnce, Some(packet_id)) => Some(Receipt::PubAck(packet_id)),
        (QoS::ExactlyOnce, Some(packet_id)) => Some(Receipt::PubRec(packet_id)),
        _ => None,
    }
}

/// A reason string; nothing for no text.
pub(crate) fn explanation(text: &str) -> PropertyBuf {
    let mut properties = PropertyBuf::new();
    if !text.is_empty() {
        properties.push(Property::ReasonString(text));
    }
    properties
}

/// Whether this reason means that a message could not be kept. It is never acknowledged then:
/// 5.0 gets the reason, 3.x is disconnected. What is merely not permitted is acknowledged to 3.x,
/// which has no other way.
const fn is_withheld(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::QuotaExceeded | ReasonCode::ImplementationSpecificError
    )
}

/// Set in the tickets that a hub gives.
const OWN: u64 = 1 << 63;

/// Set in those of messages that it has routed before.
const ROUTED: u64 = 1 << 62;

/// Whether a message may not be written down yet whose acknowledgement waits for this: another
/// shard has to take it.
pub(crate) const fn is_elsewhere(ticket: Ticket) -> bool {
    ticket.0 & (OWN | ROUTED) == OWN
}

impl Inbound {
    fn wait_for(&mut self, ticket: Ticket, who: Waiting) {
        self.deferred.len += 1;
        let waiting = self.deferred.by_ticket.entry(ticket).or_default();
        waiting.push(who);
    }
}

/// Acknowledges a publish, now or in its turn.
pub(crate) fn answer(
    core: &mut Core,
    key: SessionKey,
    publish: &Publish<'_>,
    taken: Taken,
) -> Result<(), CloseReason> {
    let Some(receipt) = receipt(publish) else {
        // There is no acknowledgement to withhold.
        if let Taken::Done(outcome) = taken
            && is_withheld(outcome.reason)
        {
            core.counters.stats.publishes_dropped += 1;
        }
        return Ok(());
    };
    match taken {
        Taken::Done(outcome) => acknowledge(core, key, receipt, &outcome),
        Taken::Waits(_) if is_deferring_much(core) => {
            acknowledge(core, key, receipt, &ReasonCode::QuotaExceeded.into())
        }
        Taken::Waits(ticket) => {
            if !is_elsewhere(ticket) {
                // It was routed here, whatever else it waits for.
                has_arrived(core, key, receipt);
            }
            defer(core, key, receipt, ticket);
            Ok(())
        }
    }
}

fn acknowledge(
    core: &mut Core,
    key: SessionKey,
    receipt: Receipt,
    outcome: &Outcome,
) -> Result<(), CloseReason> {
    if !outcome.reason.is_error() {
        // Its acknowledgement may wait for others.
        has_arrived(core, key, receipt);
    }
    if let Some(session) = core.sessions.get_mut(key)
        && !session.state.arrivals.may_acknowledge(receipt, outcome)
    {
        return Ok(());
    }
    send_ack(core, key, receipt, outcome)
}

/// Whether no more acknowledgements may wait.
pub(crate) const fn is_deferring_much(core: &Core) -> bool {
    core.inbound.deferred.len >= DEFERRED_MAX
}

fn defer(core: &mut Core, key: SessionKey, receipt: Receipt, ticket: Ticket) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let name = session.state.arrivals.defer(receipt, ticket);
    core.inbound.wait_for(ticket, Waiting::Ack(key, name));
}

/// A ticket of this hub's own, that the store does not give.
pub(crate) const fn issue_ticket(core: &mut Core) -> Ticket {
    core.inbound.deferred.tickets += 1;
    Ticket(OWN | core.inbound.deferred.tickets)
}

/// Tells another shard what became of a publish: now, or when it is known.
pub(in crate::core) fn tell_shard(core: &mut Core, to: ShardId, ticket: Ticket, taken: Taken) {
    let outcome = match taken {
        Taken::Waits(of) if !is_deferring_much(core) => {
            return core.inbound.wait_for(of, Waiting::Shard(to, ticket));
        }
        Taken::Waits(_) => ReasonCode::QuotaExceeded.into(),
        Taken::Done(outcome) => outcome,
    };
    let item = ShardItem::Resolved { ticket, outcome };
    core.effects.control_items.push((to, item));
}

/// What acknowledgements of this shard waited for has happened; `outcome` is what their
/// publishers get. Does nothing for a ticket that nobody waits for.
pub(crate) fn resolve(core: &mut Core, now: Tick, ticket: Ticket, outcome: &Outcome) {
    let Some(waiting) = core.inbound.deferred.by_ticket.remove(&ticket) else {
        return;
    };
    core.inbound.deferred.len -= waiting.len();
    for who in waiting {
        let (key, name) = match who {
            Waiting::Ack(key, name) => (key, name),
            Waiting::Shard(to, ticket) => {
                tell_shard(core, to, ticket, Taken::Done(outcome.clone()));
                continue;
            }
        };
        let Some(session) = core.sessions.get_mut(key) else {
            continue;
        };
        let arrivals = &mut session.state.arrivals;
        if arrivals.settle(name, ticket, outcome.clone())
            && let Err(reason) = release_acks(core, key)
        {
            lifecycle::close(core, now, key, reason);
        }
    }
}

/// Sends the acknowledgements of a session that wait for nothing any more.
fn release_acks(core: &mut Core, key: SessionKey) -> Result<(), CloseReason> {
    while let Some(session) = core.sessions.get_mut(key)
        && let Some((receipt, outcome)) = session.state.arrivals.next_ack()
    {
        if !outcome.reason.is_error() {
            has_arrived(core, key, receipt);
        }
        send_ack(core, key, receipt, &outcome)?;
    }
    Ok(())
}

fn send_ack(
    core: &mut Core,
    key: SessionKey,
    receipt: Receipt,
    outcome: &Outcome,
) -> Result<(), CloseReason> {
    let reason = outcome.reason;
    let Some(session) = core.sessions.get_mut(key) else {
        return Ok(());
    };
    // A message that was refused is new when it comes again.
    if let (true, Receipt::PubRec(packet_id)) = (reason.is_error(), receipt) {
        session.state.refuse(packet_id, &mut core.pending.log);
    }
    let Link::Live(live) = &mut session.link else {
        return Ok(());
    };
    let is_v5 = live.version.is_v5();
    if !is_v5 && is_withheld(reason) {
        return Err(CloseReason::Limit(Limit::Retained));
    }
    let reason = if is_v5 { reason } else { ReasonCode::Success };
    // Without the text if that makes the packet too large [MQTT-3.4.2-2] [MQTT-3.5.2-2].
    for text in live.explanations(&outcome.text) {
        let properties = explanation(text);
        let ack = |packet_id| Ack {
            packet_id,
            reason,
            properties: properties.as_properties(),
        };
        let packet = match receipt {
            Receipt::PubAck(packet_id) => Packet::PubAck(ack(packet_id)),
            Receipt::PubRec(packet_id) => Packet::PubRec(ack(packet_id)),
        };
        if core.outbox.packet(key, live, &packet) {
            break;
        }
    }
    Ok(())
}

/// A message was routed by this shard, and its acknowledgement waits for something else. If the
/// server ends before that, the message is taken all the same.
fn has_arrived(core: &mut Core, key: SessionKey, receipt: Receipt) {
    if let Receipt::PubRec(packet_id) = receipt
        && let Some(session) = core.sessions.get(key)
    {
        session.state.has_arrived(packet_id, &mut core.pending.log);
    }
}

/// The same for what this hub has routed, and only wants to know what became of it.
pub(crate) const fn issue_ticket_after_routing(core: &mut Core) -> Ticket {
    Ticket(issue_ticket(core).0 | ROUTED)
}
