//! The beginning of a connection: CONNECT and its answer.

use std::time::Instant;

use stentor_mqtt::{
    ConnAck, Connect, DecodeError, Packet, Properties, PropertyBuf, QoS, ReasonCode, Sender,
    Version, Will, decode, encode, frame,
};

use crate::error::ClientError;
use crate::message::Publication;
use crate::options::Options;
use crate::transport::Transport;

/// What an answer of the call protocol begins with; no CONNACK does.
const CALL_ANSWER: u8 = 0x83;

/// What the server said when it let the client in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The server knew this client and kept its session.
    pub session_present: bool,
    /// The client's id: its own, or the one that the server chose.
    pub client_id: String,
    /// Seconds between packets at most, in the server's opinion if it has one; 0: no limit.
    pub keep_alive_secs: u16,
    /// CONNACK's properties; 5.0 only.
    pub properties: PropertyBuf,
}

impl Accepted {
    /// Unacknowledged messages with QoS 1 or 2 that the server takes.
    #[must_use]
    pub fn receive_maximum(&self) -> usize {
        usize::from(
            self.properties
                .as_properties()
                .receive_maximum()
                .unwrap_or(u16::MAX),
        )
    }

    /// The largest packet that the server takes, in bytes.
    #[must_use]
    pub fn packet_bytes_max(&self) -> usize {
        let stated = self.properties.as_properties().maximum_packet_size();
        stated.map_or(usize::MAX, |bytes| bytes as usize)
    }

    /// The highest QoS that the server offers.
    #[must_use]
    pub fn maximum_qos(&self) -> QoS {
        self.properties
            .as_properties()
            .maximum_qos()
            .unwrap_or(QoS::ExactlyOnce)
    }
}

impl Accepted {
    /// Why the server would not take this message, as far as it has said what it takes: a client
    /// must not send such a one [MQTT-3.2.2-11] [MQTT-3.2.2-14] [MQTT-3.2.2-17].
    #[must_use]
    pub fn objection(&self, publication: &Publication<'_>) -> Option<(ReasonCode, String)> {
        let stated = self.properties.as_properties();
        if let Some(alias) = publication.properties.as_properties().topic_alias() {
            let limit = stated.topic_alias_maximum().unwrap_or(0);
            if alias == 0 || alias > limit {
                let text = match limit {
                    0 => format!("alias {alias}, and the server takes none"),
                    _ => format!("alias {alias}, and the server takes 1 to {limit}"),
                };
                return Some((ReasonCode::TopicAliasInvalid, text));
            }
        }
        let (qos, limit) = (publication.qos, self.maximum_qos());
        if qos > limit {
            let text = format!(
                "QoS {}, and the server takes up to {}",
                qos as u8, limit as u8
            );
            return Some((ReasonCode::QoSNotSupported, text));
        }
        if publication.retain && stated.retain_available() == Some(false) {
            let text = "the server keeps no messages".to_owned();
            return Some((ReasonCode::RetainNotSupported, text));
        }
        None
    }
}

/// Sends CONNECT and waits for CONNACK. What arrives behind it stays in `input`.
pub(crate) fn connect(
    transport: &mut Transport,
    options: &Options,
    input: &mut Vec<u8>,
) -> Result<Accepted, ClientError> {
    let deadline = Instant::now() + options.timeout;
    let mut output = Vec::new();
    encode(
        options.version,
        &Packet::Connect(request(options)),
        &mut output,
    )?;
    transport.write_all(&output)?;
    let mut chunk = [0; 4_096];
    loop {
        if is_tls_alert(input) {
            return Err(ClientError::SpeaksTls);
        }
        if input.starts_with(b"HTTP/") {
            return Err(ClientError::SpeaksHttp);
        }
        if input.first() == Some(&CALL_ANSWER) {
            return Err(ClientError::SpeaksCalls);
        }
        if let Some(frame) = frame(input, options.packet_bytes_max)? {
            let body = &input[frame.header_len..frame.total_len];
            let accepted = answer(options, frame.first, body)?;
            input.drain(..frame.total_len);
            return Ok(accepted);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::Timeout("CONNACK"));
        }
        match transport.read(&mut chunk, Some(left))? {
            None => {}
            Some(0) => return Err(ClientError::Closed),
            Some(read) => input.extend_from_slice(&chunk[..read]),
        }
    }
}

fn request(options: &Options) -> Connect<'_> {
    Connect {
        version: options.version,
        bridge: false,
        clean_start: options.clean_start,
        keep_alive_secs: keep_alive_secs(options),
        client_id: &options.client_id,
        will: options.will.as_ref().map(|will| Will {
            qos: will.qos,
            retain: will.retain,
            topic: &will.topic,
            payload: &will.payload,
            properties: in_version(options.version, &will.properties),
        }),
        username: options
            .username
            .as_deref()
            .or(options.url.username.as_deref()),
        password: options
            .password
            .as_deref()
            .or_else(|| options.url.password.as_deref().map(str::as_bytes)),
        properties: in_version(options.version, &options.properties),
    }
}

fn keep_alive_secs(options: &Options) -> u16 {
    u16::try_from(options.keep_alive.as_secs()).unwrap_or(u16::MAX)
}

fn in_version(version: Version, properties: &PropertyBuf) -> Properties<'_> {
    if version.is_v5() {
        properties.as_properties()
    } else {
        Properties::EMPTY
    }
}

fn answer(options: &Options, first: u8, body: &[u8]) -> Result<Accepted, ClientError> {
    let connack = connack(options.version, first, body)?;
    let properties = connack.properties;
    if connack.reason.is_error() {
        return Err(ClientError::Refused {
            reason: connack.reason,
            text: properties.reason_string().map(str::to_owned),
        });
    }
    let mut kept = PropertyBuf::new();
    kept.extend(properties);
    Ok(Accepted {
        session_present: connack.session_present,
        client_id: properties
            .assigned_client_id()
            .unwrap_or(&options.client_id)
            .to_owned(),
        keep_alive_secs: properties
            .server_keep_alive()
            .unwrap_or_else(|| keep_alive_secs(options)),
        properties: kept,
    })
}

fn connack(version: Version, first: u8, body: &[u8]) -> Result<ConnAck<'_>, ClientError> {
    let packet = match decode(version, Sender::Server, first, body) {
        Ok(packet) => packet,
        Err(error) => return refused_in_old_words(version, first, body, error),
    };
    match packet {
        Packet::ConnAck(connack) => Ok(connack),
        other => Err(ClientError::Unexpected(other.name())),
    }
}

/// Whether this is the beginning of a TLS alert: the type of the record, and its version. No packet
/// of a server begins so.
pub(crate) fn is_tls_alert(input: &[u8]) -> bool {
    const ALERT: u8 = 21;
    input.starts_with(&[ALERT, 3])
}

/// A server that does not know 5.0 refuses in the form of the version that it knows.
fn refused_in_old_words(
    version: Version,
    first: u8,
    body: &[u8],
    error: DecodeError,
) -> Result<ConnAck<'_>, ClientError> {
    let old = if version.is_v5() {
        decode(Version::V311, Sender::Server, first, body)
    } else {
        Err(error)
    };
    match old {
        Ok(Packet::ConnAck(connack)) if connack.reason != ReasonCode::Success => Ok(connack),
        _ => Err(error.into()),
    }
}
