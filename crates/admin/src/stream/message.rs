//! A message as JSON, in the keys that `publish` takes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stentor_control::publish::Properties as Shown;
use stentor_mqtt::{Properties, Publish};

/// A message that has come.
pub(crate) fn of(publish: &Publish<'_>) -> Value {
    let mut message = json!({
        "topic": publish.topic,
        "qos": publish.qos as u8,
        "retain": publish.retain,
    });
    match str::from_utf8(publish.payload) {
        Ok(text) => message["payload"] = json!(text),
        Err(_) => message["payload_base64"] = json!(STANDARD.encode(publish.payload)),
    }
    if let Some(secs) = publish.properties.message_expiry() {
        message["expiry_secs"] = json!(secs);
    }
    let properties = properties(publish.properties);
    if properties != Shown::default() {
        message["properties"] = json!(properties);
    }
    message
}

fn properties(all: Properties<'_>) -> Shown {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let pairs = all.user_properties();
    Shown {
        payload_format_indicator: all.payload_format(),
        content_type: text(all.content_type()),
        response_topic: text(all.response_topic()),
        correlation_data_base64: all.correlation_data().map(|data| STANDARD.encode(data)),
        user_properties: pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use stentor_mqtt::{Property, PropertyBuf, QoS};

    use super::*;

    #[test]
    fn a_message_has_the_keys_of_publish() {
        let mut properties = PropertyBuf::new();
        properties.push(Property::ContentType("text/plain"));
        properties.push(Property::CorrelationData(&[1, 2]));
        properties.push(Property::MessageExpiryInterval(9));
        properties.push(Property::UserProperty(("a", "1")));
        properties.push(Property::UserProperty(("a", "2")));
        let mut publish = Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "a/b",
            packet_id: None,
            properties: properties.as_properties(),
            payload: b"x\ny",
        };
        let expected = json!({
            "topic": "a/b", "qos": 1, "retain": true, "payload": "x\ny", "expiry_secs": 9,
            "properties": {
                "content_type": "text/plain",
                "correlation_data_base64": "AQI=",
                "user_properties": [["a", "1"], ["a", "2"]],
            },
        });
        assert_eq!(of(&publish), expected);
        publish.payload = &[0, 255];
        publish.properties = Properties::EMPTY;
        let expected = json!({
            "topic": "a/b", "qos": 1, "retain": true, "payload_base64": "AP8=",
        });
        assert_eq!(of(&publish), expected);
    }
}
