//! `status`: how the server is doing.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reload::Last;
use crate::zones::Zone;
use crate::{Request, Verb};

/// `status`: how the server is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// Over how many milliseconds rates are measured; 0 measures none.
    pub sample_ms: u64,
    /// Zones and holders of memory as they are now: the server looks again. Otherwise they may be 2
    /// seconds old.
    pub fresh: bool,
}

impl Request for Status {
    const VERB: Verb = Verb::Status;
    type Answer = Told;
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Told {
    /// The sum of all shards.
    #[serde(flatten)]
    pub figures: Figures,
    /// The version of the server.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it was started, in seconds since 1970.
    pub started_at: u64,
    /// For how long it has run.
    pub uptime_secs: u64,
    /// The open listeners.
    pub listeners: Vec<Listener>,
    /// Whether shards have descriptor tables of their own: `private` or `shared`.
    pub descriptor_tables: String,
    /// Connections, logged in or not.
    pub connections: u64,
    /// How many a shard can have.
    pub connections_per_shard_max: usize,
    /// Logins that wait for their decision.
    pub logins_waiting: usize,
    /// Questions to the user database since the start.
    pub user_queries: u64,
    /// What is wrong with the audit log.
    pub audit_trouble: Option<Trouble>,
    /// What new passwords are stored as.
    pub password_hash: String,
    /// Events that are missing from the log.
    pub log_lines_dropped: u64,
    /// The retained messages.
    pub retained: Retained,
    /// What is written down of sessions.
    pub session_store: SessionStore,
    /// What clients make the server hold.
    pub memory: Memory,
    /// What there is of each zone.
    pub zones: Vec<Zone>,
    /// Rates now, if they were measured.
    pub rates: Option<Rates>,
    /// Rates since the start.
    pub rates_since_start: Rates,
    /// Messages that were lost.
    pub losses: Losses,
    /// Turns of shards that took long.
    pub long_turns: Turns,
    /// The last reload.
    pub reload: Option<Last>,
    /// The configuration file, if it was saved since it was read.
    pub newer_file: Option<String>,
    /// Whether that file is empty.
    pub newer_file_is_empty: bool,
    /// Connections that were refused, for each reason that there is.
    pub refused_by: BTreeMap<String, u64>,
    /// Connections of clients that have ended, for each reason that there is.
    pub ended_by: BTreeMap<String, u64>,
    /// Each shard.
    pub shards: Vec<Shard>,
    /// How many shards have answered.
    pub shards_answering: usize,
    /// How many shards there are.
    pub shards_total: usize,
}

/// Counters of the server or of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Figures {
    /// Clients that are connected.
    pub clients_connected: u64,
    /// Sessions, connected or away.
    pub sessions: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Logins since the start.
    pub connects: u64,
    /// Connections that were refused.
    pub refused: u64,
    /// Packets from clients.
    pub packets_in: u64,
    /// Packets to clients.
    pub packets_out: u64,
    /// Messages from clients.
    pub messages_in: u64,
    /// Their payloads.
    pub messages_in_bytes: u64,
    /// Messages to clients.
    pub messages_out: u64,
    /// Their payloads.
    pub messages_out_bytes: u64,
    /// Messages that were lost.
    pub messages_dropped: u64,
    /// Messages that clients had no right to.
    pub messages_withheld: u64,
    /// Publishes and subscribes that were refused.
    pub denied: u64,
    /// Publishes among them.
    pub publishes_denied: u64,
    /// Publishes whose topic was above a limit.
    pub topics_refused: u64,
    /// Sessions that have expired.
    pub sessions_expired: u64,
    /// Sessions that ended for want of room.
    pub sessions_evicted: u64,
    /// Those of them that ended for want of memory.
    pub sessions_evicted_by_memory: u64,
    /// Connections that ended by a mistake of the server.
    pub bugs: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// How long messages take through the server.
    pub latency: Latency,
}

/// How long messages take through the server, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Latency {
    /// How many were measured.
    pub samples: u64,
    /// Half of them took at most this long.
    pub p50_micros: u64,
    /// 9 of 10.
    pub p90_micros: u64,
    /// 99 of 100.
    pub p99_micros: u64,
    /// 999 of 1,000.
    pub p999_micros: u64,
    /// The longest.
    pub max_micros: u64,
}

/// An open listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Listener {
    /// Its URL.
    pub url: String,
    /// Its connections.
    pub connections: u64,
    /// Whether clients need no login.
    pub anonymous: bool,
}

/// Something that is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Trouble {
    /// What.
    pub text: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

/// The retained messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Retained {
    /// Topics that hold a message.
    pub messages: u64,
    /// Those of them that are the server's own.
    pub messages_of_server: u64,
    /// Their size.
    pub bytes: u64,
    /// Messages that were refused because of a bound of `[retained]`.
    pub refused_by_bound: u64,
    /// Messages that were refused because of the disk.
    pub refused_by_disk: u64,
    /// Messages that were refused because of `limits.memory`.
    pub refused_by_memory: u64,
    /// What is wrong with the disk.
    pub troubles: Vec<Trouble>,
}

/// What is written down of sessions that outlive their connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SessionStore {
    /// Whether anything is written.
    pub enabled: bool,
    /// The folder.
    pub folder: String,
    /// Bytes of the files that count.
    pub bytes: u64,
    /// Bytes that were written to them since the start.
    pub written_bytes: u64,
    /// Bytes of the files of what waits for clients that are away.
    pub backlog_bytes: u64,
    /// Parts of that which could not be read.
    pub unreadable: u64,
    /// Sessions of earlier starts that were found.
    pub found_at_start: u64,
    /// Places of files that could not be read.
    pub damaged_at_start: u64,
    /// What is wrong now, in sentences.
    pub troubles: Vec<String>,
}

/// What clients make the server hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Memory {
    /// How much.
    pub held_bytes: u64,
    /// How much they may.
    pub budget_bytes: Option<u64>,
    /// `free`, `pressed` or `full`.
    pub state: String,
    /// By kind.
    pub by_kind: serde_json::Map<String, serde_json::Value>,
    /// What the process has of memory.
    pub resident_bytes: Option<u64>,
    /// What of it is the server's own.
    pub own_bytes: u64,
    /// Whether the process has far more than what is held.
    pub overgrown: bool,
    /// The sessions that hold most.
    pub holders: Vec<Holder>,
}

/// A session that holds much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Holder {
    /// The name of its zone.
    pub zone: String,
    /// Its client id.
    pub client_id: String,
    /// Its user.
    pub user: Option<String>,
    /// Whether it is connected.
    pub connected: bool,
    /// How much.
    pub bytes: u64,
}

/// What was counted, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rates {
    /// Over how long.
    pub secs: f64,
    /// Messages from clients.
    pub messages_in: f64,
    /// Messages to clients.
    pub messages_out: f64,
    /// Messages that were lost.
    pub messages_dropped: f64,
    /// Bytes from clients.
    pub bytes_in: f64,
    /// Bytes to clients.
    pub bytes_out: f64,
    /// Logins.
    pub connects: f64,
}

/// Messages that were lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Losses {
    /// By cause.
    pub by_cause: BTreeMap<String, u64>,
    /// By client and topic, most first.
    pub worst: Vec<Loss>,
}

/// Messages of a topic that a client has lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Loss {
    /// The client.
    pub client_id: String,
    /// The topic.
    pub topic: String,
    /// The number of messages.
    pub messages: u64,
}

/// Turns that took long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Turns {
    /// How many.
    pub count: u64,
    /// The longest since the start.
    pub longest: Turn,
    /// The longest of the last minute.
    pub longest_lately: Turn,
    /// The one that was busy for longest.
    pub busiest: Turn,
    /// The most visits of any turn.
    pub visits_max: u32,
    /// The most time on a processor that one turn has given to questions, such as those of verbs
    /// and of `/metrics`.
    pub asked_max_micros: u64,
}

/// A turn of a shard. Of one that was not long only the time is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Turn {
    /// The shard.
    pub shard: usize,
    /// How long it took.
    pub micros: u64,
    /// How much of that it waited for a processor.
    pub waited_micros: Option<u64>,
    /// How much of that it ran on a processor.
    pub ran_micros: Option<u64>,
    /// The client that took the largest part.
    pub client_id: String,
    /// Work that a client can make expensive, in units of about 30 ns.
    pub visits: u32,
    /// Packets received.
    pub packets: u64,
    /// Messages queued for clients.
    pub deliveries: u64,
    /// Connections that were written to.
    pub flushes: u64,
    /// Connections accepted.
    pub accepted: u64,
}

/// A shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Shard {
    /// Its counters.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its number.
    pub shard: u8,
    /// Its connections, logged in or not.
    pub connections: u64,
    /// Turns since the start.
    pub turns: u64,
    /// Turns that took long.
    pub long_turns: Turns,
    /// The queues.
    pub queues: Queues,
}

/// The queues of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queues {
    /// Messages from other shards.
    pub mesh_inward: u64,
    /// Messages for other shards whose rings are full.
    pub mesh_overflowed: u64,
    /// Connections that are not read because another shard is behind.
    pub connections_stalled: u64,
    /// Connections on their way to other shards.
    pub connections_travelling: u64,
}
