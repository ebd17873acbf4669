//! Several PUBLISH packets that travel as one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use stentor_mqtt::QoS;

use super::wire::{BLOCK, Wire};
use crate::Tick;

/// PUBLISH packets of QoS 0 to one topic, encoded one behind the other.
///
/// A client that publishes faster than the server turns leaves several messages in one read; a
/// subscriber that gets all of them gets one entry in its queue instead of one for each, and the
/// bytes are written from here.
#[derive(Debug)]
pub struct Run {
    topic: Box<str>,
    bytes: Vec<u8>,
    /// Where each packet ends in `bytes`.
    ends: Vec<End>,
    /// The length of the longest packet.
    packet_bytes: usize,
    received_at: Tick,
}

type End = u32;

impl Run {
    /// An empty run to a topic, of messages that were taken at about the same time.
    #[must_use]
    pub fn new(topic: &str, received_at: Tick) -> Self {
        Self {
            topic: topic.into(),
            bytes: Vec::new(),
            ends: Vec::new(),
            packet_bytes: 0,
            received_at,
        }
    }

    /// Adds a packet, with QoS 0 and without RETAIN. One that has a packet id or an expiry
    /// interval, or with which the run would exceed 4 GiB, is refused: `false` then.
    #[must_use]
    pub fn push(&mut self, wire: &Wire) -> bool {
        let encoded = &wire.encoded;
        let Ok(end) = u32::try_from(self.bytes.len() + encoded.wire_len()) else {
            return false;
        };
        if encoded.has_packet_id() || encoded.has_expiry() {
            return false;
        }
        let first = stentor_mqtt::first_byte(QoS::AtMostOnce, false, false);
        encoded.append_to(&mut self.bytes, first, None, None);
        if wire.message.is_some() {
            self.bytes.extend_from_slice(wire.tail());
        }
        self.ends.push(end);
        self.packet_bytes = self.packet_bytes.max(encoded.wire_len());
        true
    }

    /// How many packets it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All packets.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The length of the longest packet.
    #[must_use]
    pub const fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// The topic of all of them.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// When the server took them.
    #[must_use]
    pub const fn received_at(&self) -> Tick {
        self.received_at
    }

    /// Where the packet with this index begins; the end of all for one behind the last.
    #[must_use]
    pub(super) fn start(&self, index: usize) -> usize {
        let before = index.checked_sub(1);
        let end = before.and_then(|before| self.ends.get(before));
        end.map_or(0, |end| *end as usize)
    }

    /// What this many of its packets, the last ones, take beside their bytes.
    pub(super) fn overhead(&self, packets: usize) -> usize {
        let itself = size_of::<Self>() + 2 * size_of::<usize>() + self.topic.len();
        itself + 4 * BLOCK + packets * size_of::<End>()
    }

    /// How many packets from `first` on free `bytes` and are not fewer than `packets`; at least
    /// one. All that are left, if they are too few.
    pub(super) fn excess(&self, first: usize, bytes: usize, packets: usize) -> usize {
        let left = self.len() - first;
        let from = self.start(first);
        let mut count = packets.max(1).min(left);
        while count < left && self.start(first + count) - from + count * size_of::<End>() < bytes {
            count += 1;
        }
        count
    }

    /// How many packets end at or before a position.
    #[must_use]
    pub(super) fn whole_until(&self, position: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= position)
    }
}
