//! What the server itself says.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;
use stentor_zone::Effect;

use crate::core::Core;
use crate::core::routing::keep;

/// What the server itself says, which is not retained.
pub(crate) const fn server_parts<'a>(topic: &'a str, payload: &'a [u8]) -> MessageParts<'a> {
    MessageParts {
        topic,
        properties: &[],
        payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs: None,
    }
}

/// A message of the server's own.
pub(crate) fn server_message(now: Tick, zone: Zone, parts: &MessageParts<'_>) -> Arc<Message> {
    Arc::new(Message::new(zone, Publisher::SERVER, now, parts))
}

/// Publishes what a service has to say. What goes to single sessions is not published.
pub(crate) fn publish(core: &mut Core, now: Tick, zone: Zone, effects: Vec<Effect>) {
    for effect in effects {
        if let Effect::Publish {
            topic,
            payload,
            retain,
        } = effect
        {
            let parts = MessageParts {
                retain,
                ..server_parts(&topic, &payload)
            };
            let message = server_message(now, zone, &parts);
            keep::keep_and_route_now(core, now, message);
        }
    }
}
