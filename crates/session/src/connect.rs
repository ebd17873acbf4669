//! The first packet of a connection, and the refusal of one.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use stentor_mqtt::{
    ConnAck, Connect, Packet, Properties, Property, PropertyBuf, QoS, ReasonCode, Sender, Version,
    decode, encode, forwardable, frame,
};

use crate::close::{CloseReason, Limit, Remote, Violation};

/// The packet type of CONNECT in the high half of a first byte.
const CONNECT_FIRST_BYTE: u8 = 0x10;

/// A CONNECT packet that outlives the bytes it came in: authentication and the way to the home
/// shard take time.
#[derive(Clone)]
pub struct ConnectRequest {
    /// The protocol version.
    pub version: Version,
    /// A mosquitto bridge of protocol 3.x: its subscriptions are no-local and
    /// retain-as-published.
    pub bridge: bool,
    /// Clean Session (3.x) or Clean Start (5.0).
    pub clean_start: bool,
    /// Seconds; 0 turns keep-alive off.
    pub keep_alive_secs: u16,
    /// Empty when the server is to assign one.
    pub client_id: String,
    /// User name. An empty one names nobody, and counts as none: many clients send an empty field
    /// for a setting that was left empty.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Vec<u8>>,
    /// The will.
    pub will: Option<Box<WillRequest>>,
    /// Seconds that the session outlives the connection. For 3.x: 0 with Clean Session, else
    /// `u32::MAX`, which is for ever.
    pub session_expiry_secs: u32,
    /// How many unacknowledged messages the client takes.
    pub receive_maximum: u16,
    /// The largest packet that the client takes, in bytes.
    pub packet_bytes_max: u32,
    /// The highest topic alias that the client takes; 0 for none.
    pub topic_alias_maximum: u16,
    /// Whether the client asked for response information.
    pub request_response_information: bool,
    /// Whether reason strings and user properties may stand on other packets than PUBLISH,
    /// CONNACK and DISCONNECT.
    pub request_problem_information: bool,
    /// The enhanced authentication method asked for.
    pub authentication_method: Option<String>,
    /// The first data of that method; once the client is let in, the server's last, which goes
    /// with CONNACK.
    pub authentication_data: Option<Vec<u8>>,
}

impl ConnectRequest {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts = [&self.username, &self.authentication_method];
        let datas = [&self.password, &self.authentication_data];
        let texts = texts.into_iter().flatten().map(String::capacity);
        let datas = datas.into_iter().flatten().map(Vec::capacity);
        let will = self.will.as_deref().map_or(0, WillRequest::bytes);
        size_of::<Self>() + self.client_id.capacity() + texts.chain(datas).sum::<usize>() + will
    }
}

/// The will of a CONNECT packet.
#[derive(Clone, Debug)]
pub struct WillRequest {
    /// A topic name.
    pub topic: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The forwarded properties, as on the wire.
    pub properties: Vec<u8>,
    /// Its QoS.
    pub qos: QoS,
    /// Its RETAIN flag.
    pub retain: bool,
    /// Seconds between the end of the connection and its publication.
    pub delay_secs: u32,
    /// Seconds until it expires, from its publication.
    pub expiry_secs: Option<u32>,
}

impl WillRequest {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = self.topic.capacity() + self.payload.capacity() + self.properties.capacity();
        size_of::<Self>() + held
    }
}

/// Leaves out what is secret.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("version", &self.version)
            .field("client_id", &self.client_id)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// Reads the first packet of a connection. `None`: more bytes are needed; else the request and
/// how many bytes it took. What follows it stays unread until the answer is known.
///
/// # Errors
/// When the packet is not CONNECT [MQTT-3.1.0-1], is malformed, or is above `packet_bytes_max`.
pub fn read_connect(
    input: &[u8],
    packet_bytes_max: u32,
) -> Result<Option<(ConnectRequest, usize)>, CloseReason> {
    match input.first() {
        None => return Ok(None),
        Some(first) if first & 0xF0 != CONNECT_FIRST_BYTE => {
            return Err(CloseReason::Violation(Violation::ExpectedConnect));
        }
        Some(_) => {}
    }
    let Some(frame) = frame(input, packet_bytes_max).map_err(malformed)? else {
        return Ok(None);
    };
    let Some(body) = input.get(frame.header_len..frame.total_len) else {
        return Ok(None);
    };
    // A CONNECT brings its own version.
    match decode(Version::V5, Sender::Client, frame.first, body).map_err(malformed)? {
        Packet::Connect(connect) => Ok(Some((ConnectRequest::new(&connect), frame.total_len))),
        _ => Err(CloseReason::Violation(Violation::ExpectedConnect)),
    }
}

/// The next AUTH packet of a client that has not got its CONNACK yet.
pub struct AuthAnswer {
    /// The data of the method.
    pub data: Vec<u8>,
}

/// Leaves out the data, which may be secret.
impl fmt::Debug for AuthAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthAnswer").finish_non_exhaustive()
    }
}

/// Reads the answer of a client to AUTH, between CONNECT and CONNACK. `None`: more bytes are
/// needed; else the answer and how many bytes it took.
///
/// # Errors
/// When it is malformed or too large; when it is neither AUTH nor DISCONNECT [MQTT-3.1.2-30]; when
/// it does not go on [MQTT-4.12.0-3], or names another method than CONNECT did [MQTT-4.12.0-5].
/// DISCONNECT ends it as well.
pub fn read_auth(
    input: &[u8],
    packet_bytes_max: u32,
    method: &str,
) -> Result<Option<(AuthAnswer, usize)>, CloseReason> {
    let Some(frame) = frame(input, packet_bytes_max).map_err(malformed)? else {
        return Ok(None);
    };
    let Some(body) = input.get(frame.header_len..frame.total_len) else {
        return Ok(None);
    };
    const UNEXPECTED: CloseReason = CloseReason::Violation(Violation::UnexpectedAuth);
    match decode(Version::V5, Sender::Client, frame.first, body).map_err(malformed)? {
        Packet::Auth(auth) => {
            let goes_on = auth.reason == ReasonCode::ContinueAuthentication;
            if !goes_on || auth.properties.auth_method() != Some(method) {
                return Err(UNEXPECTED);
            }
            let data = auth.properties.auth_data().unwrap_or_default().to_vec();
            Ok(Some((AuthAnswer { data }, frame.total_len)))
        }
        Packet::Disconnect(_) => Err(CloseReason::Remote(Remote::Disconnect)),
        _ => Err(UNEXPECTED),
    }
}

/// The bytes of an AUTH packet: 0x18 asks for more [MQTT-4.12.0-2], 0x00 ends a re-authentication.
/// Empty if the data does not fit into a packet.
#[must_use]
pub fn auth(reason: ReasonCode, method: &str, data: Option<&[u8]>) -> Vec<u8> {
    let mut properties = PropertyBuf::new();
    properties.push(Property::AuthenticationMethod(method));
    let fits = data.is_none_or(|data| {
        let data = Property::AuthenticationData(data);
        properties.try_push(data).is_ok()
    });
    if !fits {
        return Vec::new();
    }
    let packet = Packet::Auth(stentor_mqtt::Disconnect {
        reason,
        properties: properties.as_properties(),
    });
    let mut out = Vec::new();
    if encode(Version::V5, &packet, &mut out).is_err() {
        out.clear();
    }
    out
}

/// How a codec error ends a connection.
#[must_use]
pub fn malformed(error: stentor_mqtt::DecodeError) -> CloseReason {
    if error.reason() == ReasonCode::PacketTooLarge {
        CloseReason::Limit(Limit::PacketBytes)
    } else {
        CloseReason::Malformed(error)
    }
}

impl ConnectRequest {
    /// Copies a decoded CONNECT.
    #[must_use]
    pub fn new(connect: &Connect<'_>) -> Self {
        let properties = connect.properties;
        let session_expiry_secs = match (connect.version, connect.clean_start) {
            (Version::V5, _) => properties.session_expiry().unwrap_or(0),
            (_, true) => 0,
            (_, false) => u32::MAX,
        };
        Self {
            version: connect.version,
            bridge: connect.bridge,
            clean_start: connect.clean_start,
            keep_alive_secs: connect.keep_alive_secs,
            client_id: connect.client_id.into(),
            username: connect
                .username
                .filter(|name| !name.is_empty())
                .map(Into::into),
            password: connect.password.map(Into::into),
            will: connect
                .will
                .as_ref()
                .map(|will| Box::new(WillRequest::new(will))),
            session_expiry_secs,
            receive_maximum: properties.receive_maximum().unwrap_or(u16::MAX),
            packet_bytes_max: properties.maximum_packet_size().unwrap_or(u32::MAX),
            topic_alias_maximum: properties.topic_alias_maximum().unwrap_or(0),
            request_response_information: properties.request_response_info().unwrap_or(false),
            request_problem_information: properties.request_problem_info().unwrap_or(true),
            authentication_method: properties.auth_method().map(Into::into),
            authentication_data: properties.auth_data().map(Into::into),
        }
    }
}

impl WillRequest {
    fn new(will: &stentor_mqtt::Will<'_>) -> Self {
        let mut properties = Vec::new();
        forwardable(will.properties, &mut properties);
        Self {
            topic: will.topic.into(),
            payload: will.payload.into(),
            properties,
            qos: will.qos,
            retain: will.retain,
            delay_secs: will.properties.will_delay().unwrap_or(0),
            expiry_secs: will.properties.message_expiry(),
        }
    }
}

/// The CONNACK bytes that refuse a connection.
#[must_use]
pub fn refusal(version: Version, reason: ReasonCode, reason_string: Option<&str>) -> Vec<u8> {
    let mut properties = PropertyBuf::new();
    if let (Version::V5, Some(text)) = (version, reason_string) {
        properties.push(Property::ReasonString(text));
    }
    let packet = Packet::ConnAck(ConnAck {
        session_present: false,
        reason,
        properties: if version.is_v5() {
            properties.as_properties()
        } else {
            Properties::EMPTY
        },
    });
    let mut out = Vec::new();
    // A refusal is far below every limit of the encoder, but for a huge reason string.
    if encode(version, &packet, &mut out).is_err() {
        out.clear();
    }
    out
}
