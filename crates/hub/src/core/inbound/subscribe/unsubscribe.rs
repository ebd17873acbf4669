//! UNSUBSCRIBE.

use alloc::vec::Vec;

use hashbrown::HashSet;
use smallvec::SmallVec;
use stentor_mqtt::{Packet, PacketId, Properties, ReasonCode, SubAck, Unsubscribe};
use stentor_topic::Subscription;

use super::slice::Unsubscribing;
use super::{SubscriptionRef, filter_visits};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::hold;
use crate::core::inbound::subscribe::{ROOMS, index, room_of, slice};
use crate::core::sessions::log::leave;
use crate::core::sessions::registry::Link;
use crate::core::transitions::Transition;
use crate::core::work::VISIT_BYTES;

/// The subscriptions that an UNSUBSCRIBE has ended.
type Gone = HashSet<SubscriptionRef, foldhash::fast::FixedState>;

pub(crate) fn begin(core: &mut Core, key: SessionKey, unsubscribe: &Unsubscribe<'_>) {
    let mut filters = unsubscribe.filters.iter();
    if slice::is_long(core, filters.rest(), || unsubscribe.filters.count()) {
        hold::begin(core, key);
        return slice::unsubscribe_later(core, key, Unsubscribing::new(unsubscribe));
    }
    let mut reasons = Vec::new();
    unsubscribe_some(core, key, &mut filters, &mut reasons, u32::MAX);
    send_unsuback(core, key, unsubscribe.packet_id, &reasons);
}

/// Ends some of the subscriptions: until about this many visits are used up.
pub(super) fn unsubscribe_some<'f>(
    core: &mut Core,
    key: SessionKey,
    filters: &mut impl Iterator<Item = &'f str>,
    reasons: &mut Vec<u8>,
    visits: u32,
) {
    let mut gone = HashSet::default();
    let mut rooms: SmallVec<[&str; 4]> = SmallVec::new();
    let before = core.turn.spent();
    while core.turn.spent() - before < visits
        && let Some(filter) = filters.next()
    {
        core.turn.spend(filter_visits(filter));
        let reason = unsubscribe_one(core, key, filter, &mut gone);
        if reason == ReasonCode::Success && filter.starts_with(ROOMS) {
            rooms.push(filter);
        }
        reasons.push(reason as u8);
    }
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    // In one pass, for the packet may name them all.
    if !gone.is_empty() {
        let subscriptions = &mut session.state.subscriptions;
        let bytes = size_of_val(subscriptions.as_slice());
        core.turn
            .spend(u32::try_from(bytes / VISIT_BYTES).unwrap_or(u32::MAX));
        subscriptions.retain(|subscription| !gone.contains(&subscription));
    }
    if !rooms.is_empty() {
        let rooms = rooms.into_iter().map(Into::into).collect();
        core.pending
            .transitions
            .note(Transition::LeftRooms(key, rooms));
    }
}

pub(super) fn send_unsuback(core: &mut Core, key: SessionKey, packet_id: PacketId, reasons: &[u8]) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    let packet = Packet::UnsubAck(SubAck {
        packet_id,
        properties: Properties::EMPTY,
        reasons,
    });
    core.outbox.packet(key, live, &packet);
}

/// Ends one subscription; it stays in the session's own list, and is in `gone`.
fn unsubscribe_one(core: &mut Core, key: SessionKey, text: &str, gone: &mut Gone) -> ReasonCode {
    let Ok(Subscription { share, filter }) = Subscription::parse(text) else {
        return ReasonCode::TopicFilterInvalid;
    };
    let Some(session) = core.sessions.get(key) else {
        return ReasonCode::UnspecifiedError;
    };
    let zone = session.state.zone();
    let found = index::find(core, key, zone, share, filter);
    let Some(found) = found.filter(|found| gone.insert(*found)) else {
        return ReasonCode::NoSubscriptionExisted;
    };
    if let Some(session) = core.sessions.get_mut(key) {
        session.state.forget_filtered(filter);
        // What is left of a snapshot is not wanted any more.
        if let SubscriptionRef::Filter(id) = found {
            session.forget_snapshot(id);
        }
    }
    index::remove(core, key, found, true);
    if room_of(text).is_some() {
        leave(core, key, filter);
    }
    ReasonCode::Success
}
