//! Wills, which may be private messages, and which adaptors may judge.

use alloc::sync::Arc;

use stentor_session::{Message, MessageParts, Publisher, Tick, WillRequest};
use stentor_zone::{Address, inbox, topic as zone_topic};

use super::Hub;
use crate::core::heavy_hitters::{By, count_publish_of};
use crate::core::routing::keep;
use crate::core::sessions::rights::Identity;
use crate::core::sessions::{debts, lifecycle};
use crate::core::transitions::DueWill;

/// Publishes a will whose time has come, or asks adaptors about it.
pub(crate) fn will_due(hub: &mut Hub, now: Tick, due: &DueWill) {
    let DueWill {
        identity,
        client_id,
        will,
    } = due;
    if !lifecycle::may_leave(&mut hub.core, identity, will) {
        return;
    }
    let by = By {
        client_id: Some(client_id),
        user: identity.user.as_deref(),
    };
    let (topic, payload) = (&*will.topic, &*will.payload);
    count_publish_of(&mut hub.core, now, identity.zone, topic, payload, Some(by));
    let services = &mut hub.services;
    if !services.consult_will(&mut hub.core, identity, client_id, will) {
        debts::begin_will(&mut hub.core, identity.zone, client_id);
        publish_will_as(hub, now, identity, will);
        debts::end_will(&mut hub.core);
    }
}

/// Publishes a will that is permitted.
pub(crate) fn publish_will_as(hub: &mut Hub, now: Tick, identity: &Identity, will: &WillRequest) {
    let zone = identity.zone;
    let private = match (Address::parse(&will.topic), identity.user.as_deref()) {
        (Ok(Address::Private { user, .. }), Some(sender)) => Some((
            zone_topic::private_from(sender),
            inbox::route(&user, sender),
        )),
        _ => None,
    };
    let parts = MessageParts {
        topic: private.as_ref().map_or(&will.topic, |(topic, _)| topic),
        properties: &will.properties,
        payload: &will.payload,
        qos: will.qos,
        retain: will.retain && private.is_none(),
        expiry_secs: will.expiry_secs,
    };
    let publisher = Publisher::SERVER;
    let message = Arc::new(Message::new(zone, publisher, now, &parts));
    match private {
        Some((_, route)) => {
            hub.services
                .send_private(&mut hub.core, now, message, &route);
        }
        None => keep::keep_and_route_now(&mut hub.core, now, message),
    }
}
