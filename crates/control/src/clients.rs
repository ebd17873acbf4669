//! `clients.…`: sessions, connected or away; and `why`: what keeps a message from one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `clients.ls`: sessions by client id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ls {
    /// All zones if it is not given.
    pub zone: Option<ZoneWord>,
    /// Only client ids that contain this text.
    pub containing: String,
    /// At most this many; 1,000 if it is not given.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: usize,
    /// Only sessions that outlive their connections.
    pub lasting: bool,
    /// Only sessions whose clients have been away for as many seconds.
    pub away_secs: Option<u64>,
    /// In which order.
    pub by: Order,
    /// The other way round.
    pub reverse: bool,
    /// Only sessions of this user, by the name in its zone.
    pub user: Option<String>,
    /// Only connections from this address or network, such as `192.0.2.0/24`.
    pub address: Option<String>,
    /// Only sessions that are connected, or only those that are away.
    pub state: Option<Presence>,
    /// Only what is true now: the server looks again. Otherwise the answer may be 2 seconds old.
    pub fresh: bool,
    /// Where the page before has ended, as its answer says. All else has to be as it was then.
    pub cursor: Option<String>,
}

/// Whether a client is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Presence {
    /// It is connected.
    Connected,
    /// It is not, and its session waits for it.
    Away,
}

/// An order of sessions. Those that are alike are in the order of their client ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By client id.
    #[default]
    Id,
    /// By the name of the zone.
    Zone,
    /// By user; those without a name last.
    User,
    /// By address; those without one last.
    Address,
    /// By the version of MQTT, the oldest first.
    Version,
    /// Those that have been connected for the longest time first.
    Connected,
    /// Those from which nothing has come for the longest time first.
    Silent,
    /// Those whose messages have something in their way first: clients that are paused, that read
    /// too slowly, that lost messages in the last minute, that had some withheld.
    State,
    /// Those with the most subscriptions first.
    Subscriptions,
    /// Those for which the most messages wait first.
    Waiting,
    /// Those that hold the most bytes first.
    Bytes,
    /// Those for which the most messages wait or are in flight first.
    Messages,
    /// Those that have been away for the longest time first.
    Away,
    /// Those whose connections have sent the server the most messages first.
    Received,
    /// The same by bytes.
    ReceivedBytes,
    /// Those whose connections were sent the most messages first.
    Sent,
    /// The same by bytes.
    SentBytes,
    /// Those that have lost the most messages first.
    Lost,
}

impl Request for Ls {
    const VERB: Verb = Verb::ClientsLs;
    type Answer = List;
}

/// What `clients.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// The page. It ends earlier than asked for where client ids are very long: then go on behind
    /// its last one.
    pub clients: Vec<Client>,
    /// How many there are in all.
    pub total: usize,
    /// Whether there are more behind this page.
    pub truncated: bool,
    /// Where the next page begins, if there is one: the `cursor` of the next request.
    pub cursor: Option<String>,
    /// How old the list is, in milliseconds.
    pub age_ms: u64,
    /// Why the page is in no order, and `total` counts all sessions: there are too many.
    pub unsorted: Option<String>,
}

/// `clients.show`: one session with its subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Show {
    /// Its client id.
    pub client_id: String,
    /// The default zone or the only one that has such a client, if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
    /// How many of its subscriptions to pass over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
}

/// Whether nothing is passed over, which need not be said.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands a reference over"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Request for Show {
    const VERB: Verb = Verb::ClientsShow;
    type Answer = Shown;
}

/// What `clients.show` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Shown {
    /// The session.
    #[serde(flatten)]
    pub client: Client,
    /// The filters of these subscriptions.
    pub filters: Vec<String>,
    /// Its subscriptions, or those of them that fit into an answer of about 2 MiB.
    pub granted: Vec<Subscription>,
    /// How many there are behind these. The same verb shows them, with as many as `subscriptions`
    /// without these as `offset`.
    pub left_out: usize,
    /// The messages of `lost`, by cause.
    pub lost_causes: Vec<LostBy>,
}

/// Messages that a session has lost by one cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LostBy {
    /// `drop-newest` and `drop-oldest`: its queue was full. `disconnect`: they waited for a
    /// connection that has ended. `packet-too-large`: for its client. `expired`: while they waited.
    /// `unreadable`: the disk does not give them any more.
    pub cause: String,
    /// The number of messages.
    pub messages: u64,
    /// How many of them while less might wait than is configured, because memory was short.
    pub while_memory_short: u64,
}

/// `clients.kick`: closes a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kick {
    /// The client id.
    pub client_id: String,
    /// The default zone or the only one that has such a client, if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
    /// Whether the session ends too.
    #[serde(default)]
    pub end_session: bool,
    /// Only if the client has been away for as many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_secs: Option<u64>,
}

impl Request for Kick {
    const VERB: Verb = Verb::ClientsKick;
    type Answer = Kicked;
}

/// What `clients.kick` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Kicked {
    /// The zone of the client.
    pub zone_name: String,
    /// Whether there was a connection.
    pub was_connected: bool,
    /// Whether the session has ended.
    pub session_ended: bool,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Client {
    /// Its client id.
    pub client_id: String,
    /// Its user.
    pub user: Option<String>,
    /// The name of its zone.
    pub zone: String,
    /// The same under the name that it had before.
    pub zone_name: String,
    /// Nothing while it is away.
    pub connection: Option<Connection>,
    /// For how long it has been away; nothing while it is connected.
    pub away_secs: Option<u64>,
    /// In how many seconds its session ends; nothing while it is connected, and if that is never.
    pub ends_in_secs: Option<u64>,
    /// How long it is kept while it is away; nothing for ever.
    pub session_expiry_secs: Option<u32>,
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait for its acknowledgement.
    pub in_flight: usize,
    /// Messages that wait for it.
    pub waiting: usize,
    /// What it makes the server hold.
    pub held_bytes: u64,
    /// What of it is stored messages on their way to it.
    pub snapshot_bytes: usize,
    /// Messages that it has no right to.
    pub withheld: Count,
    /// Messages that it has lost.
    pub lost: Count,
    /// Why it has lost the last one.
    pub lost_by: Option<String>,
    /// Messages that newer ones have replaced.
    pub conflated: Count,
    /// How often nothing was read from it for a while.
    pub pauses: Count,
    /// Why the last time.
    pub paused_by: Option<String>,
    /// Publishes that it has no right to.
    pub publishes_refused: Count,
    /// Publishes whose topic is above a limit.
    pub topics_refused: Count,
}

/// A connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// The version of MQTT.
    pub version: String,
    /// The other end.
    pub peer: Option<String>,
    /// The URL of the listener.
    pub listener: Option<String>,
    /// What it has asked for; 0 for none.
    pub keep_alive_secs: u16,
    /// For how long it has been connected.
    pub connected_secs: u64,
    /// For how long nothing has come from it.
    pub silent_secs: u64,
    /// Messages that have come by it.
    pub received: u64,
    /// Bytes that have come by it, of all packets.
    pub received_bytes: u64,
    /// Messages that went to it, or wait to be sent.
    pub sent: u64,
    /// Bytes that went to it, of all packets.
    pub sent_bytes: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: usize,
    /// Whether it reads too slowly now.
    pub blocked: bool,
    /// Whether nothing is read from it now.
    pub paused: Option<Paused>,
}

/// A connection from which nothing is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Paused {
    /// For how long still.
    pub millis: u64,
    /// Why.
    pub by: String,
}

/// How often something has happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Count {
    /// In all.
    pub total: u64,
    /// In the last minute.
    pub last_minute: u64,
    /// When last.
    pub last_secs_ago: Option<u64>,
}

/// A subscription as it was granted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Subscription {
    /// Its filter.
    pub filter: String,
    /// Its QoS.
    pub qos: u8,
    /// Whether it leaves out what the client publishes itself.
    pub no_local: bool,
    /// Messages a second for each topic at most.
    pub max_rate: Option<f64>,
}

/// `why`: what keeps a message of a topic from a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The client; with `to`, the one that publishes.
    pub client_id: String,
    /// The topic.
    pub topic: String,
    /// The client that is to get what `client_id` publishes.
    #[serde(default)]
    pub to: Option<String>,
    /// The zone of both.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
}

impl Request for Why {
    const VERB: Verb = Verb::Why;
    type Answer = Because;
}

/// What `why` answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Because {
    /// The topic.
    pub topic: String,
    /// `yes`, `no`, or `later`: the messages wait for it.
    pub gets: String,
    /// The answer as a sentence.
    pub verdict: String,
    /// The client that publishes, if one was named.
    pub publisher: Option<Party>,
    /// The client that is to get it.
    pub subscriber: Party,
}

/// One side of a message's way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Party {
    /// Its client id.
    pub client_id: String,
    /// Its zone; nothing if it is in none.
    pub zone: Option<String>,
    /// The same under the name that it had before.
    pub zone_name: Option<String>,
    /// Its session, if it has one.
    pub client: Option<Client>,
    /// Its subscriptions that match.
    pub matching: Option<Vec<Subscription>>,
    /// What was looked at.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Check {
    /// What.
    pub what: String,
    /// `good`, `note` or `bad`.
    pub state: String,
    /// What was found.
    pub text: String,
    /// What to do, as a command or a sentence.
    pub remedy: Option<String>,
}
