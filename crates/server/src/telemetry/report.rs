//! What a shard reports when it is asked.

use std::collections::BTreeMap;

use stentor_hub::Stats;

use super::Histogram;

/// The state of one shard.
#[derive(Debug, Clone, Default)]
pub(crate) struct ShardReport {
    pub(crate) shard: u8,
    /// The hub's counters.
    pub(crate) stats: Stats,
    /// Sessions that have subscribed to a shared subscription, each once for every one of them.
    pub(crate) shared_subscriptions: u64,
    /// Connections, logged in or not.
    pub(crate) links: u64,
    /// Connections that were refused or closed before they were let in.
    pub(crate) refused: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// Turns of the loop since the start.
    pub(crate) turns: u64,
    /// Messages from other shards that wait to be applied.
    pub(crate) mesh_inward: u64,
    /// Messages for other shards whose rings are full.
    pub(crate) mesh_overflowed: u64,
    /// Connections that are not read because another shard is behind.
    pub(crate) stalled: u64,
    /// Descriptors on their way to other shards.
    pub(crate) travelling: u64,
    /// Publish to socket, in microseconds; a sample.
    pub(crate) latency: Histogram,
    pub(crate) losses: LossReport,
}

/// Which messages were lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossReport {
    /// By cause.
    pub(crate) causes: BTreeMap<&'static str, u64>,
    /// (client id, topic, messages), most lost first.
    pub(crate) worst: Vec<(String, String, u64)>,
}
