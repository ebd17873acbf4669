//! The application message, as it travels inside the server.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use stentor_mqtt::QoS;
use stentor_topic::Zone;

use crate::Tick;

/// The publisher of a message, for no-local, which goes by the client id [MQTT-3.8.3-3]: so it
/// holds for retained messages after the publisher's session has ended, and after a restart.
///
/// A hash, because it is in each message. Nobody else's messages can be kept from a client by
/// it: two clients of one hash, which somebody may make on purpose, miss each other's only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Publisher(u64);

impl Publisher {
    /// The server itself: equal to no client.
    pub const SERVER: Self = Self(0);

    /// A client: FNV-1a of its id, the same on every machine. O(length of the id).
    #[must_use]
    pub fn client(client_id: &str) -> Self {
        let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        Self(client_id.as_bytes().iter().fold(FNV_BASIS, fold).max(1))
    }

    /// As a number, for who has to store it.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`Publisher::to_bits`] gave.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// An application message: decoded once, then shared by every queue that holds it.
#[derive(Debug)]
pub struct Message {
    /// The zone whose subscribers may see it.
    pub zone: Zone,
    /// The QoS it was published with.
    pub qos: QoS,
    /// The RETAIN flag it was published with.
    pub retain: bool,
    /// Its publisher.
    pub publisher: Publisher,
    /// When this server took it.
    pub received_at: Tick,
    /// When it stops being of interest; [`Tick::NEVER`] without a message expiry interval.
    pub expires_at: Tick,
    /// Shared by the messages that name it by one alias.
    topic: Arc<str>,
    /// The forwarded properties as on the wire, then the payload.
    body: Box<[u8]>,
    properties_len: u32,
    /// Given by the retained store, before anybody else sees the message; 0 for none.
    sequence: AtomicU64,
    /// What it is called where it is written down; 0 for nothing.
    name: AtomicU64,
}

/// What [`Message::new`] copies.
#[derive(Clone, Copy, Debug)]
pub struct MessageParts<'a> {
    /// A valid topic name.
    pub topic: &'a str,
    /// Properties that are forwarded, as on the wire: without message expiry, topic alias and
    /// subscription identifiers.
    pub properties: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
    /// The QoS it is published with.
    pub qos: QoS,
    /// The RETAIN flag.
    pub retain: bool,
    /// Seconds until it expires.
    pub expiry_secs: Option<u32>,
}

impl Message {
    /// Copies a message out of the bytes it arrived in.
    #[must_use]
    pub fn new(zone: Zone, publisher: Publisher, now: Tick, parts: &MessageParts<'_>) -> Self {
        Self::to_topic(parts.topic.into(), zone, publisher, now, parts)
    }

    /// [`Message::new`] with a topic that other messages share. It takes the place of
    /// [`MessageParts::topic`].
    #[must_use]
    pub fn to_topic(
        topic: Arc<str>,
        zone: Zone,
        publisher: Publisher,
        now: Tick,
        parts: &MessageParts<'_>,
    ) -> Self {
        let mut body = Vec::with_capacity(parts.properties.len() + parts.payload.len());
        body.extend_from_slice(parts.properties);
        body.extend_from_slice(parts.payload);
        Self {
            zone,
            qos: parts.qos,
            retain: parts.retain,
            publisher,
            received_at: now,
            expires_at: parts
                .expiry_secs
                .map_or(Tick::NEVER, |secs| now.after_secs(secs)),
            topic,
            // A packet is at most 256 MiB, so its properties fit.
            properties_len: u32::try_from(parts.properties.len()).unwrap_or(u32::MAX),
            body: body.into_boxed_slice(),
            sequence: AtomicU64::new(0),
            name: AtomicU64::new(0),
        }
    }

    /// Gives the message its place among those of its topic. Done once, by the retained store,
    /// before it shows the message to anybody.
    pub fn stamp(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Relaxed);
    }

    /// Its place among the messages of its topic; 0 if the retained store did not number it.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    /// The message is written down, and has a name from now on, unless it has one already.
    pub fn written(&self, name: NonZeroU64) {
        // If it has one, another shard came first.
        let _ = self
            .name
            .compare_exchange(0, name.get(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What it is called where it is written down.
    #[must_use]
    pub fn name(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.name.load(Ordering::Relaxed))
    }

    /// The same message once more, which is not written down.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            zone: self.zone,
            qos: self.qos,
            retain: self.retain,
            publisher: self.publisher,
            received_at: self.received_at,
            expires_at: self.expires_at,
            topic: Arc::clone(&self.topic),
            body: self.body.clone(),
            properties_len: self.properties_len,
            sequence: AtomicU64::new(self.sequence()),
            name: AtomicU64::new(0),
        }
    }

    /// Bytes of the topic, the properties and the payload.
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.topic.len() + self.body.len()
    }

    /// The topic name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The forwarded properties, as on the wire.
    #[must_use]
    pub fn properties(&self) -> &[u8] {
        self.body
            .get(..self.properties_len as usize)
            .unwrap_or_default()
    }

    /// The last bytes of the properties and the payload behind them; all of both, if it is asked
    /// for more.
    #[must_use]
    pub fn tail(&self, len: usize) -> &[u8] {
        let from = self.body.len().saturating_sub(len);
        self.body.get(from..).unwrap_or_default()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.body
            .get(self.properties_len as usize..)
            .unwrap_or_default()
    }

    /// What this message costs a queue, in bytes. A topic that messages share counts for each of
    /// them, since any of them may be the last to hold it.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.topic.len() + self.body.len() + size_of::<Self>()
    }

    /// What it takes of memory where it is shared, in bytes: what it costs, and what lies around
    /// that.
    #[must_use]
    pub fn shared_bytes(&self) -> usize {
        /// What an allocator takes for one block, about.
        const BLOCK: usize = 2 * size_of::<usize>();
        /// The two counts of its [`Arc`], and its three blocks.
        const SHARED: usize = 2 * size_of::<usize>() + 3 * BLOCK;
        self.cost() + SHARED
    }

    /// Whether its expiry interval has passed.
    #[must_use]
    pub fn is_expired(&self, now: Tick) -> bool {
        self.expires_at <= now
    }

    /// The message expiry interval to send now: what was received less the time spent here
    /// [MQTT-3.3.2-6]; `None` if the publisher set none.
    #[must_use]
    pub fn expiry_secs(&self, now: Tick) -> Option<u32> {
        expiry_secs(self.expires_at, now)
    }
}

/// The whole seconds left until a deadline, rounded up so that a running interval is never 0.
pub(crate) fn expiry_secs(expires_at: Tick, now: Tick) -> Option<u32> {
    if expires_at == Tick::NEVER {
        return None;
    }
    let micros = expires_at.as_micros().saturating_sub(now.as_micros());
    Some(u32::try_from(micros.div_ceil(1_000_000)).unwrap_or(u32::MAX))
}
