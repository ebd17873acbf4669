//! The 32 bits that the topic index keeps for each subscriber.

use stentor_mqtt::{QoS, SubscribeOptions};
use stentor_topic::Subscriber;

/// The options of a subscription that matter after the SUBSCRIBE: granted QoS, no-local,
/// retain-as-published and the subscription identifier, which has 28 bits [MQTT-3.8.2.1.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options(u32);

const NO_LOCAL: u32 = 1 << 2;
const RETAIN_AS_PUBLISHED: u32 = 1 << 3;
const ID_SHIFT: u32 = 4;
/// The session number that marks a subscriber of the index as a shared subscription.
const SHARE_BIT: u32 = 1 << 31;

impl Options {
    pub(crate) fn new(options: SubscribeOptions, id: Option<u32>) -> Self {
        let mut bits = options.qos as u32;
        bits |= if options.no_local { NO_LOCAL } else { 0 };
        bits |= if options.retain_as_published {
            RETAIN_AS_PUBLISHED
        } else {
            0
        };
        Self(bits | id.unwrap_or(0) << ID_SHIFT)
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn qos(self) -> QoS {
        match QoS::from_bits((self.0 & 3) as u8) {
            Some(qos) => qos,
            None => QoS::ExactlyOnce,
        }
    }

    #[inline]
    pub(crate) const fn no_local(self) -> bool {
        self.0 & NO_LOCAL != 0
    }

    #[inline]
    pub(crate) const fn retain_as_published(self) -> bool {
        self.0 & RETAIN_AS_PUBLISHED != 0
    }

    /// The subscription identifier; 0 for none.
    #[inline]
    pub(crate) const fn id(self) -> u32 {
        self.0 >> ID_SHIFT
    }
}

/// The subscriber that is in the index for a whole shared subscription.
pub(crate) const fn share_subscriber(slot: u32) -> Subscriber {
    Subscriber {
        session: slot | SHARE_BIT,
        options: 0,
    }
}

/// The shared subscription that a subscriber stands for.
#[inline]
pub(crate) const fn as_share(subscriber: Subscriber) -> Option<u32> {
    if subscriber.session & SHARE_BIT == 0 {
        None
    } else {
        Some(subscriber.session & !SHARE_BIT)
    }
}
