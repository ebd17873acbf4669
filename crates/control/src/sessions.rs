//! `sessions.queue`: what waits for one client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `sessions.queue`: what waits for one client, in the order in which it gets that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Its client id.
    pub client_id: String,
    /// The default zone or the only one that has such a client, if it is not given.
    #[serde(default)]
    pub zone: Option<ZoneWord>,
    /// At most this many messages; 100 if it is not given, 1,000 at most.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Where the last page ended.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Whether payloads are shown, of topics that the caller may read.
    #[serde(default)]
    pub payloads: bool,
}

impl Request for Queue {
    const VERB: Verb = Verb::SessionsQueue;
    type Answer = Queued;
}

/// What `sessions.queue` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Queued {
    /// The client id.
    pub client_id: String,
    /// The name of its zone.
    pub zone: String,
    /// Whether it is connected.
    pub connected: bool,
    /// Messages in flight, in all.
    pub in_flight: usize,
    /// Messages that wait in memory, in all.
    pub waiting: usize,
    /// Messages that wait on the disk, in all.
    pub on_disk: usize,
    /// Messages that are held back, in all: a newer one of the topic may take their place.
    pub held_back: usize,
    /// Messages that wait for the socket of the client, of any QoS. Those above QoS 0 are in flight
    /// too; the others are in no list.
    pub in_socket: usize,
    /// The page: what is in flight, then what waits, then what is held back.
    pub messages: Vec<Message>,
    /// Where the next page begins, if there may be more.
    pub cursor: Option<String>,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It was sent, and the client has not acknowledged it. While the client is away, it is to be
    /// sent again.
    InFlight,
    /// The client has received it at QoS 2, and has not completed the exchange.
    Received,
    /// It waits in memory.
    #[default]
    Waiting,
    /// It waits on the disk.
    OnDisk,
    /// It waits on the disk, and cannot be read there now: nothing else is known of it.
    Unreadable,
    /// It waits until its topic may be sent again; a newer one may take its place.
    HeldBack,
}

/// A message of a queue. What is not known of one is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Message {
    /// Where it is.
    pub state: State,
    /// Its topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The size of its payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<usize>,
    /// The QoS that it is delivered with. It is not known of a message that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<u8>,
    /// The RETAIN flag that it is delivered with. It is not known of a message that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<bool>,
    /// For how long the server has had it: since its start, if it restarted in the meantime. It is
    /// not known of messages on the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_secs: Option<u64>,
    /// In how many seconds it expires; nothing for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_secs: Option<u64>,
    /// The packet id, if it is in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_id: Option<u16>,
    /// For how long it has been in flight on this connection; nothing if it is to be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_secs: Option<u64>,
    /// How many messages of its topic it stands for, besides itself. It is not known of a message
    /// that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflated: Option<u32>,
    /// The payload, if it was asked for and is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The payload in base 64, if it was asked for and is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Whether the payload that is shown is only the first 64 KiB of it.
    pub payload_cut: bool,
    /// Whether the payload was asked for, and the caller may not read the topic.
    pub withheld: bool,
}
