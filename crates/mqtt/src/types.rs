//! The small types that every packet is made of.

use core::fmt;
use core::num::NonZeroU16;

/// The protocol version that a connection speaks, fixed by its CONNECT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// MQTT 3.1 (`MQIsdp`, level 3).
    V31,
    /// MQTT 3.1.1 (level 4).
    V311,
    /// MQTT 5.0 (level 5).
    V5,
}

impl Version {
    /// Whether packets carry properties and reason codes.
    #[must_use]
    pub const fn is_v5(self) -> bool {
        matches!(self, Self::V5)
    }
}

/// Delivery guarantee of an application message. Ordered: a subscription grants the minimum of
/// what was published and what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0.
    #[default]
    AtMostOnce = 0,
    /// QoS 1.
    AtLeastOnce = 1,
    /// QoS 2.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS of a two-bit field; `None` for 3, which is malformed [MQTT-3.3.1-4].
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// A packet identifier: never zero [MQTT-2.2.1-3].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// The identifier of a non-zero number.
    #[must_use]
    pub const fn new(raw: u16) -> Option<Self> {
        match NonZeroU16::new(raw) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What a 5.0 subscriber wants of retained messages when it subscribes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// Send retained messages at every subscribe.
    #[default]
    Send = 0,
    /// Send them only if the subscription is new.
    SendIfNew = 1,
    /// Do not send them.
    DoNotSend = 2,
}

/// The options byte of one subscription [MQTT-3.8.3].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscribeOptions {
    /// The highest QoS at which to deliver.
    pub qos: QoS,
    /// Do not deliver what the same client published.
    pub no_local: bool,
    /// Keep the RETAIN flag as the publisher set it.
    pub retain_as_published: bool,
    /// What to do with retained messages now.
    pub retain_handling: RetainHandling,
}
