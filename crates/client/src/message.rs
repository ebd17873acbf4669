//! Messages in both directions.

use stentor_mqtt::{PropertyBuf, QoS};

/// A message to be published.
#[derive(Clone, Debug)]
pub struct Publication<'a> {
    /// Topic name: no wildcards.
    pub topic: &'a str,
    /// At most 256 MiB together with topic and properties.
    pub payload: &'a [u8],
    /// How hard to try.
    pub qos: QoS,
    /// Whether the server keeps it as the topic's last message.
    pub retain: bool,
    /// Ignored in 3.x.
    pub properties: PropertyBuf,
}

impl<'a> Publication<'a> {
    /// A message of QoS 0 that is not retained.
    #[must_use]
    pub const fn new(topic: &'a str, payload: &'a [u8]) -> Self {
        Self {
            topic,
            payload,
            qos: QoS::AtMostOnce,
            retain: false,
            properties: PropertyBuf::new(),
        }
    }
}

/// A message that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Topic name; topic aliases are resolved.
    pub topic: String,
    /// The application's bytes.
    pub payload: Vec<u8>,
    /// As delivered.
    pub qos: QoS,
    /// Stored before this client subscribed (or, with retain-as-published, as it was published).
    pub retain: bool,
    /// Perhaps delivered before.
    pub dup: bool,
    /// Packet identifier; `None` at QoS 0.
    pub packet_id: Option<u16>,
    /// Empty in 3.x.
    pub properties: PropertyBuf,
}
