//! What the server itself says.

use alloc::sync::Arc;

use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

/// A message of the server's own.
pub(crate) fn server_message(
    now: Tick,
    zone: Zone,
    topic: &str,
    (payload, properties, retain): (&[u8], &[u8], bool),
) -> Arc<Message> {
    let parts = MessageParts {
        topic,
        properties,
        payload,
        qos: QoS::AtLeastOnce,
        retain,
        expiry_secs: None,
    };
    Arc::new(Message::new(zone, Publisher::SERVER, now, &parts))
}
