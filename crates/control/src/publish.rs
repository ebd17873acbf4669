//! `publish`: a message of somebody who has no connection.

use std::borrow::Cow;

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

/// What most requests of `publish` have, read without a copy. A request with other keys is not one:
/// read it as a [`Publish`], which also says what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plain<'r> {
    /// The topic.
    #[serde(borrow)]
    pub topic: Cow<'r, str>,
    /// The payload as text.
    #[serde(default, borrow)]
    pub payload: Option<Text<'r>>,
    /// The payload in base 64.
    #[serde(default, borrow)]
    pub payload_base64: Option<Text<'r>>,
    /// The QoS: 0, 1 or 2.
    #[serde(default)]
    pub qos: u8,
    /// Whether the topic keeps it.
    #[serde(default)]
    pub retain: bool,
    /// For how many seconds it is delivered and kept.
    #[serde(default)]
    pub expiry_secs: Option<u32>,
}

/// A text that is borrowed from the request, unless it has escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Text<'r>(#[serde(borrow)] pub Cow<'r, str>);

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
    /// Whether the topic was cleared: the message was to be kept, and its payload is empty.
    #[serde(skip_serializing_if = "is_false")]
    pub cleared: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(request: &str) -> Option<Plain<'_>> {
        serde_json::from_slice(request.as_bytes()).ok()
    }

    /// What is read as a plain request means the same as a whole one.
    #[test]
    fn plain_requests_are_requests() {
        for request in [
            r#"{"topic":"a/b","retain":true}"#,
            r#" {"topic":"a\u002fb","payload":"x\ty","qos":1} "#,
            r#"{"payload_base64":"AP8=","topic":"","expiry_secs":7,"payload":null}"#,
        ] {
            let (plain, whole) = (plain(request), serde_json::from_str::<Publish>(request));
            let (plain, whole) = (plain.expect(request), whole.expect(request));
            let owned = |text: Option<Text<'_>>| text.map(|Text(text)| text.into_owned());
            let read = Publish {
                topic: plain.topic.into_owned(),
                payload: owned(plain.payload),
                payload_base64: owned(plain.payload_base64),
                qos: plain.qos,
                retain: plain.retain,
                expiry_secs: plain.expiry_secs,
                ..Publish::default()
            };
            assert_eq!(read, whole, "{request}");
        }
        let read = plain(r#"{"topic":"a","payload":"x"}"#).expect("it is plain");
        let payload = read.payload.map(|Text(text)| text);
        let is_borrowed = |text| matches!(text, &Cow::Borrowed(_));
        assert!(is_borrowed(&read.topic) && payload.as_ref().is_some_and(is_borrowed));
    }

    #[test]
    fn others_are_not_plain() {
        for request in [
            "",
            "[]",
            "{}",
            r#"{"topic":7}"#,
            r#"{"topic":"a","properties":{}}"#,
            r#"{"topic":"a","zone":"default"}"#,
            r#"{"topic":"a","fly":1}"#,
            r#"{"topic":"a","topic":"b"}"#,
            r#"{"topic":"a","qos":256}"#,
            r#"{"topic":"a","qos":null}"#,
            r#"{"topic":"a","payload":7}"#,
            r#"{"topic":"a"} x"#,
        ] {
            assert_eq!(plain(request), None, "{request}");
        }
    }
}
