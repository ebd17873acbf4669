//! How to connect.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use stentor_mqtt::{PropertyBuf, QoS, Version};

use crate::url::Url;

/// Everything about a connection that can be chosen before it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to; its user name and password count unless the fields below are set.
    pub url: Url,
    /// Protocol version; 5.0 unless changed.
    pub version: Version,
    /// Empty: the server assigns one (3.1 has no such thing, and 3.1.1 only with a clean start).
    pub client_id: String,
    /// Begin without what an earlier session left.
    pub clean_start: bool,
    /// Whole seconds up to 65,535; zero turns keep-alive off.
    pub keep_alive: Duration,
    /// User name, instead of the URL's.
    pub username: Option<String>,
    /// Password, instead of the URL's: any bytes.
    pub password: Option<Vec<u8>>,
    /// What the server publishes if the connection ends without a DISCONNECT.
    pub will: Option<Will>,
    /// Of CONNECT; ignored in 3.x.
    pub properties: PropertyBuf,
    /// Used with `mqtts://` and `wss://`.
    pub tls: TlsOptions,
    /// The address of this machine to connect from; the system chooses if `None`.
    pub bind_address: Option<IpAddr>,
    /// How long to wait for a connection, and for each acknowledgement.
    pub timeout: Duration,
    /// The largest packet to accept.
    pub packet_bytes_max: u32,
}

impl Options {
    /// MQTT 5.0, clean start, 60 seconds of keep-alive, 30 seconds of patience.
    #[must_use]
    pub const fn new(url: Url) -> Self {
        Self {
            url,
            version: Version::V5,
            client_id: String::new(),
            clean_start: true,
            keep_alive: Duration::from_secs(60),
            username: None,
            password: None,
            will: None,
            properties: PropertyBuf::new(),
            tls: TlsOptions {
                ca_file: None,
                identity: None,
                accept_any_name: false,
                version: None,
            },
            bind_address: None,
            timeout: Duration::from_secs(30),
            packet_bytes_max: stentor_mqtt::REMAINING_LEN_MAX + 5,
        }
    }
}

/// The message that speaks for a client that vanished.
#[derive(Clone, Debug)]
pub struct Will {
    /// Topic name: no wildcards.
    pub topic: String,
    /// At most 65,535 bytes.
    pub payload: Vec<u8>,
    /// How hard to try.
    pub qos: QoS,
    /// Whether the server keeps it as the topic's last message.
    pub retain: bool,
    /// Ignored in 3.x.
    pub properties: PropertyBuf,
}

/// The authorities to trust, and the client's own certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file of the authorities to trust, or a folder of such files; the system's if `None`
    /// (`SSL_CERT_FILE` says which, else the usual places are searched).
    pub ca_file: Option<PathBuf>,
    /// PEM files of this client's certificate chain and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Accept a trusted certificate of another server: for tests only.
    pub accept_any_name: bool,
    /// The one version to speak; the best that both sides know if `None`.
    pub version: Option<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}
