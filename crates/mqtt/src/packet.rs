//! The packets, borrowed from the bytes they were decoded from.
//!
//! The same types are encoded and decoded, by server and client alike, so that one table of cases
//! covers both directions.

use crate::properties::Properties;
use crate::reason::ReasonCode;
use crate::types::{PacketId, QoS, SubscribeOptions, Version};

/// One control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A client asks to connect.
    Connect(Connect<'a>),
    /// The server's answer to CONNECT.
    ConnAck(ConnAck<'a>),
    /// An application message.
    Publish(Publish<'a>),
    /// QoS 1 acknowledgement.
    PubAck(Ack<'a>),
    /// QoS 2, first answer.
    PubRec(Ack<'a>),
    /// QoS 2, release.
    PubRel(Ack<'a>),
    /// QoS 2, completion.
    PubComp(Ack<'a>),
    /// A client subscribes.
    Subscribe(Subscribe<'a>),
    /// The server's answer to SUBSCRIBE.
    SubAck(SubAck<'a>),
    /// A client unsubscribes.
    Unsubscribe(Unsubscribe<'a>),
    /// The server's answer to UNSUBSCRIBE.
    UnsubAck(SubAck<'a>),
    /// A client shows that it is alive.
    PingReq,
    /// The server's answer to PINGREQ.
    PingResp,
    /// The end of a connection.
    Disconnect(Disconnect<'a>),
    /// 5.0 enhanced authentication.
    Auth(Disconnect<'a>),
}

impl Packet<'_> {
    /// The specification's name for the type of packet.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "CONNECT",
            Self::ConnAck(_) => "CONNACK",
            Self::Publish(_) => "PUBLISH",
            Self::PubAck(_) => "PUBACK",
            Self::PubRec(_) => "PUBREC",
            Self::PubRel(_) => "PUBREL",
            Self::PubComp(_) => "PUBCOMP",
            Self::Subscribe(_) => "SUBSCRIBE",
            Self::SubAck(_) => "SUBACK",
            Self::Unsubscribe(_) => "UNSUBSCRIBE",
            Self::UnsubAck(_) => "UNSUBACK",
            Self::PingReq => "PINGREQ",
            Self::PingResp => "PINGRESP",
            Self::Disconnect(_) => "DISCONNECT",
            Self::Auth(_) => "AUTH",
        }
    }
}

/// CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The protocol name and level.
    pub version: Version,
    /// Mosquitto's bridge bit (level 0x83 or 0x84): no-local and retain-as-published for 3.x.
    pub bridge: bool,
    /// Clean Session (3.x) or Clean Start (5.0).
    pub clean_start: bool,
    /// Seconds between packets at most; 0 turns keep-alive off.
    pub keep_alive_secs: u16,
    /// May be empty: then the server assigns one.
    pub client_id: &'a str,
    /// The message to publish when the connection ends without DISCONNECT.
    pub will: Option<Will<'a>>,
    /// User name.
    pub username: Option<&'a str>,
    /// Password: binary.
    pub password: Option<&'a [u8]>,
    /// 5.0 only.
    pub properties: Properties<'a>,
}

/// The will in a CONNECT packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Its QoS.
    pub qos: QoS,
    /// Its RETAIN flag.
    pub retain: bool,
    /// Its topic.
    pub topic: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
    /// 5.0 only: will delay and the properties of the message.
    pub properties: Properties<'a>,
}

/// CONNACK. In 3.x the reason is translated to and from a return code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// Whether the server had a session for this client.
    pub session_present: bool,
    /// Success or why not.
    pub reason: ReasonCode,
    /// 5.0 only.
    pub properties: Properties<'a>,
}

/// PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// A repeated attempt.
    pub dup: bool,
    /// Its QoS; `packet_id` is `Some` exactly when this is above 0.
    pub qos: QoS,
    /// The RETAIN flag.
    pub retain: bool,
    /// Empty only in 5.0 with a topic alias.
    pub topic: &'a str,
    /// The packet identifier.
    pub packet_id: Option<PacketId>,
    /// 5.0 only.
    pub properties: Properties<'a>,
    /// The application message.
    pub payload: &'a [u8],
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Which PUBLISH it answers.
    pub packet_id: PacketId,
    /// `Success` in 3.x.
    pub reason: ReasonCode,
    /// 5.0 only.
    pub properties: Properties<'a>,
}

/// SUBSCRIBE: at least one filter [MQTT-3.8.3-2].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// Which SUBACK answers it.
    pub packet_id: PacketId,
    /// 5.0 only.
    pub properties: Properties<'a>,
    /// The validated list of filters and options.
    pub filters: SubscribeFilters<'a>,
}

/// SUBACK and UNSUBACK. A 3.x UNSUBACK has no reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Which packet it answers.
    pub packet_id: PacketId,
    /// 5.0 only.
    pub properties: Properties<'a>,
    /// One byte per filter, as on the wire; each is a valid [`ReasonCode`].
    pub reasons: &'a [u8],
}

/// UNSUBSCRIBE: at least one filter [MQTT-3.10.3-2].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// Which UNSUBACK answers it.
    pub packet_id: PacketId,
    /// 5.0 only.
    pub properties: Properties<'a>,
    /// The validated list of filters.
    pub filters: UnsubscribeFilters<'a>,
}

/// DISCONNECT and AUTH: a reason and properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// `Success` (normal disconnection) in 3.x.
    pub reason: ReasonCode,
    /// 5.0 only.
    pub properties: Properties<'a>,
}

/// The payload of SUBSCRIBE: iterate to get `(filter, options)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeFilters<'a> {
    /// As on the wire, validated: UTF-8, option bits.
    pub(crate) raw: &'a [u8],
    pub(crate) version: Version,
    /// The text that stands first: most packets have one filter, which need not be checked again.
    /// Empty, as no filter is, where nothing was read yet.
    pub(crate) first: &'a str,
}

/// The payload of UNSUBSCRIBE: iterate to get the filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubscribeFilters<'a> {
    /// As on the wire, validated.
    pub(crate) raw: &'a [u8],
}

/// One element of [`SubscribeFilters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeFilter<'a> {
    /// May begin with `$share/<group>/`.
    pub filter: &'a str,
    /// Its options.
    pub options: SubscribeOptions,
}
