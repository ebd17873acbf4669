//! `publish`: a message of somebody who has no connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Request, Verb, ZoneWord};

/// `publish`: publishes a message, with the rights of whoever asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publish {
    /// The topic.
    pub topic: String,
    /// The zone of the topic: the default one if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneWord>,
    /// The payload as text. It is empty if neither this nor `payload_base64` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The payload in base 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The QoS: 0, 1 or 2.
    #[serde(default)]
    #[schemars(range(max = 2))]
    pub qos: u8,
    /// Whether the topic keeps it. An empty payload clears the topic then.
    #[serde(default)]
    pub retain: bool,
    /// For how many seconds it is delivered and kept; without an end if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry_secs: Option<u32>,
    /// The properties of MQTT 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Properties>,
}

/// Properties of a message, as in a line of `stentor retained export`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Properties {
    /// Whether the payload is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_format_indicator: Option<bool>,
    /// What kind of content the payload is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The topic for a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_topic: Option<String>,
    /// What a response repeats, in base 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_data_base64: Option<String>,
    /// Names and values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_properties: Vec<(String, String)>,
}

impl Request for Publish {
    const VERB: Verb = Verb::Publish;
    type Answer = Published;
}

/// What `publish` answers when the message was taken: it goes to all who are subscribed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Published {
    /// The topic. An adaptor may have chosen another one.
    pub topic: String,
    /// Whether the topic keeps it, as far as its store has promised.
    pub kept: bool,
}
