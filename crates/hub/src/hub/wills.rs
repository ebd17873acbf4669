//! Wills, which may be private messages, and which adaptors may judge.

use alloc::sync::Arc;

use stentor_session::{Message, MessageParts, Publisher, Tick, WillRequest};
use stentor_zone::{Address, inbox, topic as zone_topic};

use super::Hub;
use crate::core::sessions::rights::Identity;
use crate::core::transitions::DueWill;

impl Hub {
    /// Publishes a will whose time has come, or asks adaptors about it.
    pub(crate) fn will_due(&mut self, now: Tick, due: &DueWill) {
        let DueWill {
            identity,
            client_id,
            will,
        } = due;
        if self.core.may_leave(identity, will)
            && !self
                .services
                .consult_will(&mut self.core, identity, client_id, will)
        {
            self.core.begin_will(identity.zone, client_id);
            self.publish_will_as(now, identity, will);
            self.core.end_will();
        }
    }

    /// Publishes a will that is permitted.
    pub(crate) fn publish_will_as(&mut self, now: Tick, identity: &Identity, will: &WillRequest) {
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
                self.services
                    .send_private(&mut self.core, now, message, &route);
            }
            None => self.core.keep_and_route_now(now, message),
        }
    }
}
