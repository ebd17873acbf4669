//! A retained message as a JSON object: a line of an export.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use stentor_control::publish::{Plain, Text};
use stentor_disk::Disk;
use stentor_mqtt::{Packet, Property, PropertyBuf, QoS, Sender, Version, decode};
use stentor_retained::{Remembered, Store};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::{Zone, validate_name};
use stentor_zone::{Address, NotAddress};

use super::ZoneNames;

/// What topic, properties and payload may come to: what a packet can carry beside its other
/// fields.
const CONTENT_BYTES_MAX: usize = (256 << 20) - 32;

/// Figures of the running server, which are not kept.
const SERVERS_OWN: &str = "$SYS/";

/// What begins so is a shared subscription where it is a filter.
const SHARED: &str = "$share/";

/// One message.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) topic: String,
    pub(super) zone: Zone,
    /// When it was received; `None` for now.
    pub(super) received_ms: Option<u64>,
    payload: Vec<u8>,
    qos: QoS,
    expiry_secs: Option<u32>,
    sequence: u64,
    properties: PropertyBuf,
}

impl Line {
    /// The line of a stored message.
    pub(super) fn of<D: Disk>(message: &Message, store: &Store<D>, now: Tick) -> Self {
        Self {
            topic: message.topic().to_owned(),
            zone: message.zone,
            received_ms: store.received_ms(message.zone, message.topic()),
            payload: message.payload().to_vec(),
            qos: message.qos,
            expiry_secs: message.expiry_secs(now),
            sequence: message.sequence(),
            properties: stored_properties(message.properties()),
        }
    }

    /// The line of a message of a history.
    pub(super) fn remembered(remembered: &Remembered, now: Tick) -> Self {
        let Remembered {
            message,
            received_ms,
        } = remembered;
        Self {
            topic: message.topic().to_owned(),
            zone: message.zone,
            received_ms: Some(*received_ms),
            payload: message.payload().to_vec(),
            qos: message.qos,
            expiry_secs: message.expiry_secs(now),
            sequence: message.sequence(),
            properties: stored_properties(message.properties()),
        }
    }

    /// The note that clears a topic.
    pub(super) fn clearing(zone: Zone, topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            zone,
            received_ms: None,
            payload: Vec::new(),
            qos: QoS::AtMostOnce,
            expiry_secs: None,
            sequence: 0,
            properties: PropertyBuf::new(),
        }
    }

    /// Whether a stored message is this one, whenever it came, and stays for as long.
    pub(super) fn is(&self, message: &Message, now: Tick) -> bool {
        message.payload() == self.payload
            && message.qos == self.qos
            && message.properties() == self.properties.as_properties().raw()
            && match (self.expiry_secs, message.expiry_secs(now)) {
                (None, None) => true,
                // Whole seconds: what was read a moment ago is the same.
                (Some(secs), Some(left)) => secs.abs_diff(left) <= 1,
                _ => false,
            }
    }

    /// The message to keep, with RETAIN as those get it that ask for it as published.
    pub(super) fn message(&self, now: Tick) -> Message {
        let parts = MessageParts {
            topic: &self.topic,
            properties: self.properties.as_properties().raw(),
            payload: &self.payload,
            qos: self.qos,
            retain: true,
            expiry_secs: self.expiry_secs,
        };
        Message::new(self.zone, Publisher::SERVER, now, &parts)
    }

    /// The line of an export, which names the zone: numbers mean nothing elsewhere.
    pub(super) fn into_json(self, zones: &dyn ZoneNames) -> Value {
        let mut object = Map::new();
        object.insert("topic".into(), self.topic.into());
        match String::from_utf8(self.payload) {
            Ok(text) => object.insert("payload".into(), text.into()),
            Err(error) => {
                let text = STANDARD.encode(error.as_bytes());
                object.insert("payload_base64".into(), text.into())
            }
        };
        object.insert("qos".into(), (self.qos as u8).into());
        if self.zone != Zone::DEFAULT {
            object.insert("zone".into(), zones.name(self.zone).into());
        }
        object.insert("received_ms".into(), self.received_ms.into());
        if let Some(secs) = self.expiry_secs {
            object.insert("expiry_secs".into(), secs.into());
        }
        object.insert("sequence".into(), self.sequence.into());
        let properties = properties_json(&self.properties);
        if !properties.is_empty() {
            object.insert("properties".into(), properties.into());
        }
        object.into()
    }

    /// Reads a line that carries a message to keep: see [`Line::read`].
    pub(super) fn from_json(
        value: &Value,
        zone: Zone,
        zone_of: &mut dyn FnMut(&str) -> Result<Zone, String>,
    ) -> Result<Self, String> {
        let line = Self::read(value, zone, zone_of)?;
        match line.payload.is_empty() {
            true => Err("there is no payload, or an empty one; `clear` clears a topic".into()),
            false => Ok(line),
        }
    }

    /// Reads a line. What it does not name has its default, or is in `zone`; names that are not
    /// known are refused, so that nothing is lost without anybody knowing. `zone_of` tells the
    /// number of a zone that it names.
    fn read(
        value: &Value,
        zone: Zone,
        zone_of: &mut dyn FnMut(&str) -> Result<Zone, String>,
    ) -> Result<Self, String> {
        let object = value.as_object().ok_or("it is not a JSON object")?;
        if object.contains_key("payload") && object.contains_key("payload_base64") {
            return Err("it has both payload and payload_base64: only one can be meant".into());
        }
        let mut line = Self::clearing(zone, "");
        for (name, value) in object {
            let wrong = || format!("{name} cannot be {value}");
            match name.as_str() {
                "topic" => line.topic = value.as_str().ok_or_else(wrong)?.to_owned(),
                "payload" => line.payload = value.as_str().ok_or_else(wrong)?.into(),
                "payload_base64" => line.payload = base64(value).ok_or_else(wrong)?,
                "qos" => {
                    let bits = value.as_u64().and_then(|qos| u8::try_from(qos).ok());
                    line.qos = bits.and_then(QoS::from_bits).ok_or_else(wrong)?;
                }
                "zone" => line.zone = zone_of(value.as_str().ok_or_else(wrong)?)?,
                "received_ms" if value.is_null() => {}
                "received_ms" => {
                    let ms = value.as_u64().filter(|ms| *ms < 1 << 48);
                    line.received_ms = Some(ms.ok_or_else(wrong)?);
                }
                "expiry_secs" => {
                    let secs = value.as_u64().and_then(|secs| u32::try_from(secs).ok());
                    line.expiry_secs = Some(secs.ok_or_else(wrong)?);
                }
                // Numbers of another store mean nothing in this one.
                "sequence" => {}
                "properties" => line.properties = read_properties(value)?,
                _ => return Err(format!("nothing is called {name:?}")),
            }
        }
        validate_name(&line.topic)
            .map_err(|error| format!("{:?} is not a topic: {error}", line.topic))?;
        refuse_own(&line.topic)?;
        let properties = line.properties.as_properties().raw().len();
        if line.topic.len() + properties + line.payload.len() > CONTENT_BYTES_MAX {
            return Err(format!(
                "topic, properties and payload have more than {CONTENT_BYTES_MAX} bytes"
            ));
        }
        // Its interval runs from now: that is what `expiry_secs` counted when it was exported.
        if line.expiry_secs.is_some() {
            line.received_ms = None;
        }
        Ok(line)
    }
}

/// A message to publish, from an object with the keys of a line.
///
/// # Errors
/// When it is not one, or its topic is one that only the server writes.
pub(crate) fn published(
    value: &Value,
    zone: Zone,
    now: Tick,
    retain: bool,
) -> Result<Message, String> {
    let mut elsewhere = |_: &str| Err("the zone stands elsewhere".to_owned());
    let line = Line::read(value, zone, &mut elsewhere)?;
    let parts = MessageParts {
        topic: &line.topic,
        properties: line.properties.as_properties().raw(),
        payload: &line.payload,
        qos: line.qos,
        retain,
        expiry_secs: line.expiry_secs,
    };
    Ok(Message::new(line.zone, Publisher::SERVER, now, &parts))
}

/// The same of a request that is not larger than a packet can be, without the detour; `None` if it
/// is not one.
pub(crate) fn plainly_published(request: &Plain<'_>, zone: Zone, now: Tick) -> Option<Message> {
    let decoded = match &request.payload_base64 {
        Some(_) if request.payload.is_some() => return None,
        Some(Text(text)) => Some(STANDARD.decode(&**text).ok()?),
        None => None,
    };
    let text = request.payload.as_ref();
    let text = text.map_or(&b""[..], |Text(text)| text.as_bytes());
    validate_name(&request.topic).ok()?;
    refuse_own(&request.topic).ok()?;
    let parts = MessageParts {
        topic: &request.topic,
        properties: &[],
        payload: decoded.as_deref().unwrap_or(text),
        qos: QoS::from_bits(request.qos)?,
        retain: request.retain,
        expiry_secs: request.expiry_secs,
    };
    Some(Message::new(zone, Publisher::SERVER, now, &parts))
}

/// Refuses the topics that only the server writes: figures of its own, rooms, presence, calls; and
/// those that nobody could subscribe to.
fn refuse_own(topic: &str) -> Result<(), String> {
    let is_figure = topic.starts_with(SERVERS_OWN);
    if is_figure || Address::parse(topic) != Err(NotAddress::Elsewhere) {
        let (tree, _) = topic.split_once('/').unwrap_or((topic, ""));
        return Err(format!("topics below {tree}/ are the server's own"));
    }
    if topic.starts_with(SHARED) {
        return Err(format!(
            "nobody could subscribe to it: below {SHARED} are shared subscriptions"
        ));
    }
    Ok(())
}

/// The bytes that a text in base 64 stands for.
pub(crate) fn base64(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// The properties of a stored message: none if they are not well-formed, which a checksum rules
/// out.
pub(crate) fn stored_properties(raw: &[u8]) -> PropertyBuf {
    let mut found = PropertyBuf::new();
    // A PUBLISH of MQTT 5 on the topic "a", with these properties.
    let mut body = vec![0, 1, b'a'];
    push_varint(&mut body, raw.len());
    body.extend_from_slice(raw);
    if let Ok(Packet::Publish(publish)) = decode(Version::V5, Sender::Client, 0x30, &body) {
        found.extend(publish.properties);
    }
    found
}

fn push_varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The properties of a message as a line of an export has them: those that a publisher sets, but
/// for the expiry, which is a field of its own.
#[must_use]
pub fn properties_json(properties: &PropertyBuf) -> Map<String, Value> {
    let mut object = Map::new();
    let mut users: Vec<Value> = Vec::new();
    for property in properties.as_properties().iter() {
        let (name, value): (&str, Value) = match property {
            Property::PayloadFormatIndicator(is_text) => {
                ("payload_format_indicator", is_text.into())
            }
            Property::ContentType(text) => ("content_type", text.into()),
            Property::ResponseTopic(text) => ("response_topic", text.into()),
            Property::CorrelationData(bytes) => {
                ("correlation_data_base64", STANDARD.encode(bytes).into())
            }
            Property::UserProperty((name, value)) => {
                users.push(json!([name, value]));
                continue;
            }
            _ => continue,
        };
        object.insert(name.into(), value);
    }
    if !users.is_empty() {
        object.insert("user_properties".into(), users.into());
    }
    object
}

/// The properties that [`properties_json`] has written.
///
/// # Errors
/// A sentence that says what is wrong.
pub(crate) fn read_properties(value: &Value) -> Result<PropertyBuf, String> {
    let object = value.as_object().ok_or("properties are an object")?;
    let mut properties = PropertyBuf::new();
    for (name, value) in object {
        let wrong = || format!("{name} cannot be {value}");
        let mut push = |property| properties.try_push(property).map_err(|_| wrong());
        match name.as_str() {
            "payload_format_indicator" => {
                let is_text = value.as_bool().ok_or_else(wrong)?;
                push(Property::PayloadFormatIndicator(is_text))?;
            }
            "content_type" => push(Property::ContentType(text(value).ok_or_else(wrong)?))?,
            "response_topic" => {
                let topic = text(value).filter(|topic| validate_name(topic).is_ok());
                push(Property::ResponseTopic(topic.ok_or_else(wrong)?))?;
            }
            "correlation_data_base64" => {
                push(Property::CorrelationData(&base64(value).ok_or_else(wrong)?))?;
            }
            "user_properties" => {
                for pair in value.as_array().ok_or_else(wrong)? {
                    let pair = pair.as_array().filter(|pair| pair.len() == 2);
                    let pair = pair.ok_or_else(wrong)?;
                    let pair = text(&pair[0]).zip(text(&pair[1])).ok_or_else(wrong)?;
                    push(Property::UserProperty(pair))?;
                }
            }
            _ => return Err(format!("there is no property {name:?}")),
        }
    }
    Ok(properties)
}

/// Text that MQTT can carry.
fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.contains('\0'))
}
