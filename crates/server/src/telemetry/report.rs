//! What a shard reports when it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

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
    pub(crate) turn_report: TurnReport,
    /// Messages from other shards that wait to be applied.
    pub(crate) mesh_inward: u64,
    /// Messages for other shards whose rings are full.
    pub(crate) mesh_overflowed: u64,
    /// Connections that are not read because another shard is behind.
    pub(crate) stalled: u64,
    /// Descriptors on their way to other shards.
    pub(crate) handovers: u64,
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

/// How long turns took.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnReport {
    /// Turns that took as long as the log reports, or longer.
    pub(crate) long: u64,
    /// The longest since the start.
    pub(crate) longest: LongTurn,
    /// The longest of the last minute.
    pub(crate) lately: LongTurn,
    /// The long turn that was busy for longest: the time that it waited for a processor is not
    /// counted.
    pub(crate) busiest: LongTurn,
    /// The most visits of one turn since the start, however long it took.
    pub(crate) visits_max: u32,
    /// The most time on a processor that one turn has given to questions of the control plane.
    pub(crate) asked_max: Duration,
}

impl TurnReport {
    /// Adds what another shard reports.
    pub(crate) fn add(&mut self, other: &Self) {
        self.long += other.long;
        for (own, other) in [
            (&mut self.longest, &other.longest),
            (&mut self.lately, &other.lately),
        ] {
            if other.took > own.took {
                own.clone_from(other);
            }
        }
        if other.busiest.busy() > self.busiest.busy() {
            self.busiest.clone_from(&other.busiest);
        }
        self.visits_max = self.visits_max.max(other.visits_max);
        self.asked_max = self.asked_max.max(other.asked_max);
    }
}

impl LongTurn {
    /// How long it kept a processor busy: without the time that the thread may have waited for one,
    /// or for a disk.
    pub(crate) fn busy(&self) -> Duration {
        let took = self.took.saturating_sub(self.waited.unwrap_or_default());
        self.ran.map_or(took, |ran| ran.min(took))
    }
}

/// A turn, and what it did. Of one that was not long only the time is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LongTurn {
    /// The shard.
    pub(crate) shard: usize,
    /// How long it took.
    pub(crate) took: Duration,
    /// How much of that the thread waited for a processor, at most; `None` where it was not long or
    /// the system does not tell.
    pub(crate) waited: Option<Duration>,
    /// How much of it the thread ran on a processor, at most; `None` as before.
    pub(crate) ran: Option<Duration>,
    /// Work that a client can make expensive, in units of about 30 ns.
    pub(crate) visits: u32,
    /// Packets received.
    pub(crate) packets: u64,
    /// Messages queued for clients.
    pub(crate) deliveries: u64,
    /// Connections that were written to.
    pub(crate) flushes: u64,
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// The client whose packets took the largest part; empty if there is none.
    pub(crate) client_id: Box<str>,
}
