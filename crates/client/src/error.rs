//! What can go wrong, said so that a person can act on it.

use std::io;

use stentor_mqtt::{DecodeError, EncodeError, ReasonCode};
use stentor_websocket::{FrameError, HandshakeError};

/// Why an operation of the client failed. Every one but [`Encode`](Self::Encode) and
/// [`Rejected`](Self::Rejected) ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection: the address could not be resolved, or nobody answers there.
    #[error("{}", unconnected(.address, .source))]
    Connect {
        /// Where to.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key file cannot be used, or the server's certificate is not trusted.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server would not upgrade to WebSocket.
    #[error("WebSocket: {0}")]
    Handshake(#[from] HandshakeError),
    /// The server sent a broken WebSocket frame.
    #[error("WebSocket: {0}")]
    Frame(#[from] FrameError),
    /// The server refused the login.
    #[error("the server refused the login: {}{}", .reason.name(), told(.text))]
    Refused {
        /// Why.
        reason: ReasonCode,
        /// What the server added for people.
        text: Option<String>,
    },
    /// The server refused one publish or subscription; the connection lives on.
    #[error("the server refused: {}{}", .reason.name(), told(.text))]
    Rejected {
        /// Why.
        reason: ReasonCode,
        /// What the server added for people.
        text: Option<String>,
    },
    /// The server said DISCONNECT (MQTT 5.0).
    #[error("the server ended the connection: {}{}", .reason.name(), told(.text))]
    Disconnected {
        /// Why.
        reason: ReasonCode,
        /// What the server added for people.
        text: Option<String>,
    },
    /// The connection ended without a word.
    #[error("the server closed the connection")]
    Closed,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Io(#[source] io::Error),
    /// The server did not answer in time.
    #[error("no {0} from the server in time")]
    Timeout(&'static str),
    /// The server sent bytes that are not MQTT.
    #[error("the server sent something that is not MQTT: {0}")]
    Decode(#[from] DecodeError),
    /// The server answered MQTT with a TLS alert.
    #[error("this port seems to speak TLS: add --cafile FILE, or --tls-use-os-certs")]
    SpeaksTls,
    /// The server ended the connection, or said something else, where TLS begins.
    #[error(
        "this port seems not to speak TLS: leave out --cafile and what else asks for TLS, or name \
         the port of a listener mqtts:// or wss://"
    )]
    SpeaksNoTls,
    /// The server answered MQTT with an answer of the call protocol.
    #[error(
        "this port is for calls (stentor-call), not for MQTT; name the port of a listener mqtt://"
    )]
    SpeaksCalls,
    /// The server answered MQTT with HTTP.
    #[error("this port seems to speak WebSocket: add --ws, or name the port of a listener mqtt://")]
    SpeaksHttp,
    /// The server answered the request for a WebSocket with no HTTP.
    #[error(
        "this port seems not to speak WebSocket: leave out --ws, or name the port of a listener \
         ws://"
    )]
    SpeaksNoHttp,
    /// The server sent a packet that has no place here.
    #[error("the server sent {0}")]
    Unexpected(&'static str),
    /// What was to be sent does not fit into a packet.
    #[error("{0}")]
    Encode(#[from] EncodeError),
}

/// Why there is no connection, in words that say what to look at.
fn unconnected(address: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!("cannot connect to {address}: no server listens there")
        }
        _ => format!("cannot connect to {address}: {source}"),
    }
}

fn told(text: &Option<String>) -> String {
    text.as_ref()
        .map(|text| format!(" ({text})"))
        .unwrap_or_default()
}
