//! `certificates.ls`: the certificates that are in use, and how long they hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb};

/// `certificates.ls`: the certificates of all encrypted listeners, and of HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ls {}

impl Request for Ls {
    const VERB: Verb = Verb::CertificatesLs;
    type Answer = List;
}

/// What `certificates.ls` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// Each listener that is encrypted: for MQTT, for calls, then HTTP.
    pub listeners: Vec<Listener>,
    /// Whether some certificates are left out, because there are more than 1,000.
    pub truncated: bool,
}

/// A listener that is encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Listener {
    /// Its URL.
    pub url: String,
    /// The file of its certificate.
    pub certificate_file: String,
    /// The file of its key.
    pub key_file: String,
    /// The file of the authorities that sign certificates of clients, if these are asked for.
    pub client_ca_file: Option<String>,
    /// Whether a client has to show a certificate.
    pub client_certificate_required: bool,
    /// What the files hold now.
    pub files: Files,
    /// Why the files cannot be used, if that is so: what is in use stays, and a reload fails.
    pub problem: Option<String>,
    /// The certificates in use: that of the server, those that come with it, then the authorities
    /// of clients.
    pub certificates: Vec<Certificate>,
}

/// What the files of a certificate hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// What is in use.
    #[default]
    InUse,
    /// Other certificates: a reload takes them.
    Newer,
    /// Nothing that can be used.
    Unusable,
}

/// What a certificate is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It is the server's own.
    #[default]
    Server,
    /// It comes with that, and signs it or another one of the chain.
    Chain,
    /// It signs certificates of clients.
    ClientAuthority,
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Certificate {
    /// What it is for.
    pub purpose: Purpose,
    /// Its subject.
    pub subject: String,
    /// Its alternative names, such as `DNS:mqtt.example.org`: up to 100 of them.
    pub names: Vec<String>,
    /// How many names it has besides.
    pub names_left_out: usize,
    /// Its issuer.
    pub issuer: String,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// From when on it holds, in seconds since 1970.
    pub not_before_secs: i64,
    /// The time until which it holds, in seconds since 1970.
    pub not_after_secs: i64,
    /// Whole days until then; below 0 when it has expired.
    pub days_left: i64,
    /// Why it cannot be read, if that is so: then nothing else is known of it.
    pub problem: Option<String>,
}
