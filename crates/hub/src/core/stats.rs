//! Counters of one shard.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::{Equivalent, HashMap};
use stentor_topic::Zone;

/// Counters since the start, and gauges of now. Plain numbers: a shard is one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Clients connected now.
    pub connected: u64,
    /// Sessions now, with and without a connection.
    pub sessions: u64,
    /// Subscriptions now, shared ones included.
    pub subscriptions: u64,
    /// Connections that were accepted since the start.
    pub connects: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets queued for clients.
    pub packets_sent: u64,
    /// PUBLISH packets received, and messages published by verbs.
    pub publishes_received: u64,
    /// PUBLISH payload bytes received.
    pub publish_bytes_received: u64,
    /// PUBLISH packets queued for clients.
    pub publishes_sent: u64,
    /// PUBLISH payload bytes queued for clients.
    pub publish_bytes_sent: u64,
    /// Messages that a client should have had and did not get.
    pub publishes_dropped: u64,
    /// Messages that matched a subscription but that its client may not receive.
    pub publishes_withheld: u64,
    /// Publishes and subscribes refused: by rights, or since a topic is above a limit.
    pub denied: u64,
    /// The publishes among these that their clients had no right to.
    pub publishes_denied: u64,
    /// The publishes among these whose topics were above a limit.
    pub topics_refused: u64,
    /// Messages that were not kept, since `limits.memory` is reached.
    pub unkept_by_memory: u64,
    /// Sessions that expired.
    pub expired: u64,
    /// Sessions that had to give way to others.
    pub evicted: u64,
    /// Those among them that ended for want of memory.
    pub evicted_by_memory: u64,
    /// Connections closed because an invariant of the program was broken.
    pub bugs: u64,
}

/// What went through a shard for one zone since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneTraffic {
    /// PUBLISH packets received.
    pub received: u64,
    /// Payload bytes of those.
    pub received_bytes: u64,
    /// PUBLISH packets queued for clients.
    pub sent: u64,
    /// Payload bytes of those.
    pub sent_bytes: u64,
    /// Messages that a client should have had and did not get.
    pub dropped: u64,
}

/// The traffic of every zone. Zones are numbered one after the other, so their numbers are places
/// in a list.
#[derive(Debug, Default)]
pub(crate) struct Traffic(Vec<ZoneTraffic>);

impl Traffic {
    /// The counters of a zone.
    #[inline]
    pub(crate) fn of(&mut self, zone: Zone) -> &mut ZoneTraffic {
        let at = zone.get() as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, ZoneTraffic::default());
        }
        &mut self.0[at]
    }

    /// Counts messages that were queued for clients.
    #[inline]
    pub(crate) fn sent(&mut self, zone: Zone, messages: u64, bytes: u64) {
        let own = self.of(zone);
        own.sent += messages;
        own.sent_bytes += bytes;
    }

    /// The numbers of all zones of which there is something are below this one.
    pub(crate) const fn end(&self) -> usize {
        self.0.len()
    }

    /// Of a zone, if it had any.
    pub(crate) fn seen(&self, zone: Zone) -> Option<ZoneTraffic> {
        let own = self.0.get(zone.get() as usize).copied();
        own.filter(|own| *own != ZoneTraffic::default())
    }
}

/// Why a message did not reach a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// Policy `drop-newest`, or a full queue of an absent client.
    DropNewest,
    /// Policy `drop-oldest`.
    DropOldest,
    /// The queue of a connection that was closed under policy `disconnect`.
    Disconnect,
    /// Larger than the client's maximum packet size.
    PacketTooLarge,
    /// Expired while it waited.
    Expired,
    /// Replaced by a newer message of its topic, under policy `conflate` or a maximum rate. Does
    /// not count as a loss of a message that the client should have had.
    Conflated,
    /// Delivered, but not kept for late subscribers: the retained store had no room. Counted for
    /// the publisher, where nobody waits for an answer that could say so.
    NotKept,
    /// The queue of a session that the server ended early for want of room.
    SessionEnded,
    /// Waited on the disk, which cannot give it any more.
    Unreadable,
}

impl LossCause {
    /// All causes, in the order of their counters.
    pub const ALL: [Self; 9] = [
        Self::DropNewest,
        Self::DropOldest,
        Self::Disconnect,
        Self::PacketTooLarge,
        Self::Expired,
        Self::Conflated,
        Self::NotKept,
        Self::SessionEnded,
        Self::Unreadable,
    ];

    /// The name in counters and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::DropNewest => "drop-newest",
            Self::DropOldest => "drop-oldest",
            Self::Disconnect => "disconnect",
            Self::PacketTooLarge => "packet-too-large",
            Self::Expired => "expired",
            Self::Conflated => "conflated",
            Self::NotKept => "not-kept",
            Self::SessionEnded => "session-ended",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Losses by cause, and by client and topic for the first thousand pairs.
#[derive(Debug, Default)]
pub struct Losses {
    by_cause: [u64; LossCause::ALL.len()],
    by_client_topic: HashMap<Loser, u64, foldhash::fast::FixedState>,
}

/// A client that has lost messages, and their topic.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Loser {
    client_id: Box<str>,
    topic: Box<str>,
}

/// A borrowed [`Loser`], so that counting another loss allocates nothing. Its hash is the same.
#[derive(Hash)]
struct LoserRef<'a> {
    client_id: &'a str,
    topic: &'a str,
}

impl Equivalent<Loser> for LoserRef<'_> {
    fn equivalent(&self, key: &Loser) -> bool {
        *self.client_id == *key.client_id && *self.topic == *key.topic
    }
}

/// Bounds the memory that naming the losers can take.
const PAIRS_MAX: usize = 1_000;

/// A name as it is kept: longer ones are cut, since clients choose them.
fn cut(name: &str) -> &str {
    const NAME_BYTES_MAX: usize = 256;
    &name[..name.floor_char_boundary(NAME_BYTES_MAX)]
}

impl Losses {
    /// Counts one. Returns whether it is the first of this client and topic that is named.
    pub fn record(&mut self, cause: LossCause, client_id: &str, topic: &str) -> bool {
        self.record_several(cause, client_id, topic, 1)
    }

    /// Counts several of one topic. Returns whether they are the first of this client and topic
    /// that are named.
    pub(crate) fn record_several(
        &mut self,
        cause: LossCause,
        client_id: &str,
        topic: &str,
        messages: u64,
    ) -> bool {
        self.by_cause[cause as usize] += messages;
        let (client_id, topic) = (cut(client_id), cut(topic));
        let loser = LoserRef { client_id, topic };
        if let Some(count) = self.by_client_topic.get_mut(&loser) {
            *count += messages;
            return false;
        }
        if self.by_client_topic.len() >= PAIRS_MAX {
            return false;
        }
        let (client_id, topic) = (client_id.into(), topic.into());
        self.by_client_topic
            .insert(Loser { client_id, topic }, messages);
        true
    }

    /// Counts several that have no topic any more.
    pub(crate) const fn record_many(&mut self, cause: LossCause, messages: u64) {
        self.by_cause[cause as usize] += messages;
    }

    /// Losses by one cause.
    #[must_use]
    pub const fn by_cause(&self, cause: LossCause) -> u64 {
        self.by_cause[cause as usize]
    }

    /// Messages of one topic that a client has lost, where the two are named.
    #[must_use]
    pub fn of(&self, client_id: &str, topic: &str) -> u64 {
        let (client_id, topic) = (cut(client_id), cut(topic));
        let loser = LoserRef { client_id, topic };
        self.by_client_topic.get(&loser).copied().unwrap_or(0)
    }

    /// `(client id, topic, messages)`, most lost first.
    #[must_use]
    pub fn worst(&self, at_most: usize) -> Vec<(&str, &str, u64)> {
        let mut pairs: Vec<_> = self
            .by_client_topic
            .iter()
            .map(|(loser, count)| (&*loser.client_id, &*loser.topic, *count))
            .collect();
        // Only those that are shown are brought into an order: an operator asks a shard for them.
        let worst_first = |a: &(_, _, u64), b: &(_, _, u64)| b.2.cmp(&a.2).then(a.cmp(b));
        if (1..pairs.len()).contains(&at_most) {
            pairs.select_nth_unstable_by(at_most - 1, worst_first);
        }
        pairs.truncate(at_most);
        pairs.sort_unstable_by(worst_first);
        pairs
    }
}
