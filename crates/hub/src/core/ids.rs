//! The names that hub and shard use for each other's things.

use stentor_topic::{TopicHasher, Zone};

/// One shard of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u8);

/// A connection, by the slot that its shard keeps it in. Means nothing on another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkId(pub u32);

/// A session of one shard. The generation makes a key that outlives its session name nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The slot.
    pub slot: u32,
    /// The serial number of the session, unique on its shard.
    pub generation: u32,
}

/// The most shards that one server can have: a bit each in a set of them.
pub const SHARDS_MAX: u8 = 64;

/// The shard where the session of a client id lives. Connections go to their session, sessions
/// never move; so two sessions never share a client id, whatever races.
#[must_use]
pub fn home_shard(hasher: &TopicHasher, zone: Zone, client_id: &str, shards: u8) -> ShardId {
    let hash = hasher.hash(zone, client_id);
    // Multiply-shift over the high half, which the hash tables do not use for their buckets.
    let shard = ((hash >> 32) * u64::from(shards)) >> 32;
    ShardId(u8::try_from(shard).unwrap_or(0))
}

/// The shard where the rooms and the list of users of a zone are.
#[must_use]
pub const fn home_of_zone(zone: Zone, shards: u8) -> ShardId {
    // Less than the number of shards, which is a byte.
    ShardId((zone.get() % (shards as u32)) as u8)
}
