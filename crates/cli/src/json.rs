//! Messages as JSON, under mosquitto's names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use stentor_client::{Message, Property};

use crate::time::Time;

/// How the payload is in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// As text; as `payload_base64` if it is not UTF-8.
    Text,
    /// As the JSON value that it is.
    Value,
}

/// One message; nothing if its payload should be JSON and is not.
pub(crate) fn message(message: &Message, now: Time, payload: Payload) -> Option<Value> {
    let mut object = Map::new();
    object.insert("tst".into(), now.iso_micros().into());
    object.insert("topic".into(), message.topic.as_str().into());
    object.insert("qos".into(), (message.qos as u8).into());
    object.insert("retain".into(), u8::from(message.retain).into());
    object.insert("payloadlen".into(), message.payload.len().into());
    if let Some(id) = message.packet_id {
        object.insert("mid".into(), id.into());
    }
    let properties = properties(message);
    if !properties.is_empty() {
        object.insert("properties".into(), properties.into());
    }
    match payload {
        Payload::Value => {
            object.insert(
                "payload".into(),
                serde_json::from_slice(&message.payload).ok()?,
            );
        }
        Payload::Text => match std::str::from_utf8(&message.payload) {
            Ok(text) => {
                object.insert("payload".into(), text.into());
            }
            Err(_) => {
                let text = STANDARD.encode(&message.payload);
                object.insert("payload_base64".into(), text.into());
            }
        },
    }
    Some(object.into())
}

fn properties(message: &Message) -> Map<String, Value> {
    let mut object = Map::new();
    let (mut users, mut ids): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for property in message.properties.as_properties() {
        let (name, value): (&str, Value) = match property {
            Property::UserProperty((name, value)) => {
                users.push(json!({ name: value }));
                continue;
            }
            Property::SubscriptionIdentifier(id) => {
                ids.push(id.into());
                continue;
            }
            Property::PayloadFormatIndicator(text) => {
                ("payload-format-indicator", u8::from(text).into())
            }
            Property::MessageExpiryInterval(secs) => ("message-expiry-interval", secs.into()),
            Property::ContentType(text) => ("content-type", text.into()),
            Property::ResponseTopic(text) => ("response-topic", text.into()),
            Property::CorrelationData(bytes) => {
                ("correlation-data", String::from_utf8_lossy(bytes).into())
            }
            Property::TopicAlias(alias) => ("topic-alias", alias.into()),
            _ => continue,
        };
        object.insert(name.into(), value);
    }
    if !ids.is_empty() {
        object.insert("subscription-identifiers".into(), ids.into());
    }
    if !users.is_empty() {
        object.insert("user-properties".into(), users.into());
    }
    object
}
