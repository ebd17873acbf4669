//! Subscriptions that end without an UNSUBSCRIBE.

use alloc::vec::Vec;

use super::SubscriptionRef;
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Element, index};
use crate::core::routing::options::Options;
use crate::core::sessions::log::leave;
use crate::core::work::FILTER_VISITS;

/// This many filters of a session are looked at by the time of one visit.
const SCANNED_PER_VISIT: usize = 2;

/// Takes a session's subscriptions whose filters begin so away; returns them.
pub(crate) fn drop_below(core: &mut Core, key: SessionKey, below: &str) -> Vec<Element> {
    drop_such(core, key, |filter| filter.starts_with(below))
}

/// Takes a session's subscriptions to such filters away; returns them.
pub(crate) fn drop_such(
    core: &mut Core,
    key: SessionKey,
    is_such: impl Fn(&str) -> bool,
) -> Vec<Element> {
    let elements = suspend_subscriptions(core, key, is_such);
    for element in &elements {
        leave(core, key, &element.filter);
    }
    elements
}

/// Takes a session's subscriptions to such filters away until its client is back; returns them.
pub(crate) fn suspend_subscriptions(
    core: &mut Core,
    key: SessionKey,
    is_such: impl Fn(&str) -> bool,
) -> Vec<Element> {
    let Some(session) = core.sessions.get_mut(key) else {
        return Vec::new();
    };
    let subscriptions = &mut session.state.subscriptions;
    core.turn
        .spend((subscriptions.len() / SCANNED_PER_VISIT) as u32);
    let mut gone = Vec::new();
    let mut elements = Vec::new();
    subscriptions.retain(|subscription| {
        let SubscriptionRef::Filter(id) = subscription else {
            return true;
        };
        let filter = core.routing.index.filter(id).1;
        if !is_such(filter) {
            return true;
        }
        let Some(options) = core.routing.index.options(id, key.slot) else {
            return true;
        };
        let options = Options::from_bits(options);
        elements.push(Element::stored(filter, options));
        gone.push(id);
        false
    });
    core.turn
        .spend((gone.len() as u32).saturating_mul(FILTER_VISITS));
    for (id, element) in gone.into_iter().zip(&elements) {
        if let Some(session) = core.sessions.get_mut(key) {
            session.state.forget_filtered(&element.filter);
            session.forget_snapshot(id);
        }
        index::remove(core, key, SubscriptionRef::Filter(id), true);
    }
    elements
}
