//! One encoded PUBLISH, shared by everybody who gets it.

use alloc::rc::Rc;
use alloc::sync::Arc;

use stentor_mqtt::{EncodedPublish, PacketId, QoS, first_byte};

use crate::Tick;
use crate::message::{Message, expiry_secs};

/// A PUBLISH encoded for one wire variant, with what is needed to finish it per subscriber.
#[derive(Debug)]
pub struct Wire {
    /// The bytes; packet id, expiry and first byte are patched in while copying.
    pub encoded: EncodedPublish,
    /// The message, where it is written from there: `encoded` has the head alone then.
    pub message: Option<Arc<Message>>,
    /// When the message expires.
    pub expires_at: Tick,
    /// When this server took the message: for the latency figures.
    pub received_at: Tick,
}

/// What the system's allocator takes for one block, about.
pub(super) const BLOCK: usize = 2 * size_of::<usize>();

impl Wire {
    /// What it takes beside its packet: itself, the two counts of its [`Rc`], and two blocks of
    /// memory.
    pub(super) const OVERHEAD: usize = size_of::<Self>() + 2 * size_of::<usize>() + 2 * BLOCK;

    /// Messages of at least this many bytes, properties and payload, are not copied: they are
    /// written from where they are. Below it a copy is cheaper than one more piece in a vectored
    /// write.
    pub const SHARED_BYTES_MIN: usize = 4096;

    /// What follows the head: see [`EncodedPublish::head`].
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        match &self.message {
            Some(message) => message.tail(self.encoded.tail_len()),
            None => self.encoded.payload(),
        }
    }

    /// The message expiry interval to write now; none in 3.x, which has no place for it.
    #[must_use]
    pub fn expiry_secs(&self, now: Tick) -> Option<u32> {
        let has_place = self.encoded.has_expiry();
        has_place.then(|| expiry_secs(self.expires_at, now))?
    }

    /// Whether the message expired before its delivery, by a packet with this first byte, began
    /// [MQTT-3.3.2-5]. The delivery of one that is sent again has begun, and goes on
    /// [MQTT-4.4.0-1].
    pub(super) fn is_expired(&self, now: Tick, first: u8) -> bool {
        const DUP: u8 = 1 << 3;
        self.expires_at <= now && first & DUP == 0
    }
}

/// One PUBLISH for one subscriber: shared bytes and what differs.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The shared bytes.
    pub wire: Rc<Wire>,
    /// The packet identifier, above QoS 0. A message that holds one is never dropped.
    pub packet_id: Option<PacketId>,
    pub(super) first: u8,
}

/// Whether the first byte of a PUBLISH has the RETAIN flag.
pub(super) const fn is_retained(first: u8) -> bool {
    first & 1 != 0
}

impl Outgoing {
    /// A PUBLISH to this subscriber.
    #[must_use]
    pub const fn new(
        wire: Rc<Wire>,
        qos: QoS,
        retain: bool,
        dup: bool,
        packet_id: Option<PacketId>,
    ) -> Self {
        Self {
            wire,
            packet_id,
            first: first_byte(qos, retain, dup),
        }
    }
}
