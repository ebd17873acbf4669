//! A session, and a message that waits for its client, as JSON objects: lines of an export.
//!
//! The line of a session says how many messages follow it. The line of a message names the session
//! once more, so that lines which were sorted or left out are noticed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use stentor_auth::model::DEFAULT_ZONE;
use stentor_hub::WRITTEN_BYTES_MAX;
use stentor_mqtt::{PacketId, QoS};
use stentor_session_log::{
    Body, DELIVERY_MAX, IDENTIFIER_MAX, Identifier, MILLIS_MAX, OwnedShare, OwnedTerms, Presence,
    Quotas, RestoredSession, RestoredSubscription, RestoredWill, TEXT_BYTES_MAX,
};
use stentor_topic::{Subscription, validate_name};

use super::fields::{Fields, text_of, wrong};
use super::room::{RoomLine, read_room};
use crate::peer::Network;
use crate::queues;
use crate::retained::{base64, properties_json, read_properties, stored_properties};

/// Subscriptions of a session.
const SUBSCRIPTIONS_MAX: usize = 1_000_000;
/// The longest is that of IPv6.
const ADDRESS_BYTES_MAX: usize = 64;
/// Roles of a session.
const ROLES_MAX: usize = 1_000;
/// Subscription identifiers of a message.
const IDENTIFIERS_MAX: usize = 1_000;
/// Bytes of the payload of a will, and of its properties.
const WILL_BYTES_MAX: usize = 65_535 + WRITTEN_BYTES_MAX;

/// The session of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    /// The name of the zone.
    pub(super) zone: Box<str>,
    pub(super) client_id: Box<str>,
    pub(super) user: Option<Box<str>>,
}

/// The line of a session.
#[derive(Debug, PartialEq)]
pub(super) struct SessionLine {
    pub(super) whose: Whose,
    /// Where its client came from, of one without a name.
    pub(super) address: Option<Network>,
    pub(super) expiry_secs: u32,
    pub(super) has_no_account: bool,
    pub(super) roles_are_of_credential: bool,
    pub(super) roles: Vec<Box<str>>,
    pub(super) quotas: Quotas,
    pub(super) presence: Presence,
    pub(super) subscriptions: Vec<RestoredSubscription>,
    pub(super) arrived: Vec<PacketId>,
    /// The number that the next delivery gets; `None` for that behind the last one.
    pub(super) next: Option<u64>,
    /// All deliveries before this one may have been sent.
    pub(super) sent: u64,
    /// How many messages follow; `None` if that is not said.
    pub(super) messages: Option<u64>,
    pub(super) will: Option<RestoredWill>,
}

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was not sent.
    Waiting,
    /// It may have been sent, and is sent with DUP.
    Sent,
    /// The client has received it at QoS 2: PUBREL is to be sent.
    Received,
    /// `conflate` or `max_rate` holds it back.
    Held,
}

impl State {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Waiting, "waiting"),
        (Self::Sent, "sent"),
        (Self::Received, "received"),
        (Self::Held, "held"),
    ];

    fn word(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(state, _)| *state == self)
            .map_or("", |(_, word)| word)
    }
}

/// The line of a message.
#[derive(Debug, PartialEq)]
pub(super) struct MessageLine {
    pub(super) whose: Whose,
    pub(super) state: State,
    /// Its number among the deliveries of the session; `None` for the one behind the last.
    pub(super) delivery: Option<u64>,
    pub(super) packet_id: Option<PacketId>,
    /// The message; `None` where only PUBREL is to be sent.
    pub(super) message: Option<(OwnedTerms, OwnedBody)>,
}

/// A message as it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedBody {
    pub(super) topic: Box<str>,
    pub(super) properties: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) expires_at_ms: Option<u64>,
}

impl OwnedBody {
    pub(super) fn body(&self, zone: u32) -> Body<'_> {
        Body {
            zone,
            publisher: 0,
            qos: self.qos,
            retain: self.retain,
            topic: &self.topic,
            properties: &self.properties,
            payload: &self.payload,
            expires_at_ms: self.expires_at_ms,
            sequence: 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.topic.len() + self.properties.len() + self.payload.len()
    }
}

/// A line of an export.
#[derive(Debug)]
pub(super) enum Line {
    Session(Box<SessionLine>),
    Message(Box<MessageLine>),
    Room(Box<RoomLine>),
}

/// Reads a line.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(super) fn read(value: &Value) -> Result<Line, String> {
    let mut fields = Fields::of(value, "a line")?;
    match fields.a_text("kind", 16)? {
        "session" => Ok(Line::Session(Box::new(read_session(value)?))),
        "message" => Ok(Line::Message(Box::new(read_message(value)?))),
        "room" => Ok(Line::Room(Box::new(read_room(value)?))),
        _ => Err(wrong(
            "kind",
            &value["kind"],
            "it is session, message or room",
        )),
    }
}

// === The session of a line ===

impl Whose {
    fn put(&self, object: &mut Map<String, Value>) {
        object.insert("client_id".into(), (*self.client_id).into());
        if &*self.zone != DEFAULT_ZONE {
            object.insert("zone".into(), (*self.zone).into());
        }
        if let Some(user) = &self.user {
            object.insert("user".into(), (**user).into());
        }
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, String> {
        let whose = Self {
            zone: fields
                .text("zone", TEXT_BYTES_MAX)?
                .unwrap_or(DEFAULT_ZONE)
                .into(),
            client_id: fields.a_text("client_id", TEXT_BYTES_MAX)?.into(),
            user: fields.text("user", TEXT_BYTES_MAX)?.map(Into::into),
        };
        if whose.client_id.is_empty() || whose.user.as_deref() == Some("") {
            return Err("neither client_id nor user can be empty".to_owned());
        }
        let looks_so = whose.user.as_deref() == Some(queues::USER);
        match looks_so && !whose.is_queue() {
            true => Err(format!(
                "the user {} is the server's own: its client ids begin with $queue/",
                queues::USER
            )),
            false => Ok(whose),
        }
    }

    /// Whether it is a queue, and no client's session.
    pub(super) fn is_queue(&self) -> bool {
        queues::is_queue(self.user.as_deref(), &self.client_id)
    }
}

// === Session ===

/// The line of a session that this many messages follow.
pub(super) fn session_json<M>(it: &RestoredSession<M>, whose: &Whose, messages: u64) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), "session".into());
    whose.put(&mut object);
    let address = it.owner.map(|mark| Network::of_mark(mark).to_string());
    put_some(&mut object, "address", address);
    object.insert("expiry_secs".into(), it.expiry_secs.into());
    if let Presence::Away {
        since_ms,
        until_ms,
        will_at_ms,
    } = it.presence
    {
        object.insert("away_since_ms".into(), since_ms.into());
        put_some(&mut object, "ends_ms", until_ms);
        put_some(&mut object, "will_at_ms", will_at_ms);
    }
    for (name, is_so) in [
        ("has_no_account", it.has_no_account),
        ("roles_are_of_credential", it.roles_are_of_credential),
    ] {
        put_some(&mut object, name, is_so.then_some(true));
    }
    if !it.roles.is_empty() {
        object.insert("roles".into(), json!(it.roles));
    }
    let quotas = quotas_json(&it.quotas);
    put_some(
        &mut object,
        "quotas",
        Some(quotas).filter(|it| !it.is_empty()),
    );
    let subscriptions = it.subscriptions.iter().map(subscription_json);
    object.insert("subscriptions".into(), subscriptions.collect());
    if !it.arrived.is_empty() {
        let ids = it.arrived.iter().map(|id| Value::from(id.get()));
        object.insert("arrived".into(), ids.collect());
    }
    object.insert("next_delivery".into(), it.next.into());
    object.insert("sent_before".into(), it.sent.into());
    object.insert("messages".into(), messages.into());
    put_some(&mut object, "will", it.will.as_ref().map(will_json));
    object.into()
}

fn put_some(object: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(name.into(), value.into());
    }
}

fn quotas_json(quotas: &Quotas) -> Map<String, Value> {
    let mut object = Map::new();
    put_some(&mut object, "messages_per_sec", quotas.messages_per_sec);
    put_some(&mut object, "bytes_per_sec", quotas.bytes_per_sec);
    put_some(&mut object, "subscriptions", quotas.subscriptions);
    put_some(&mut object, "queued_bytes", quotas.queued_bytes);
    object
}

fn read_session(value: &Value) -> Result<SessionLine, String> {
    let mut fields = Fields::of(value, "a session")?;
    fields.get("kind");
    let whose = Whose::read(&mut fields)?;
    let since_ms = fields.number("away_since_ms", 0, MILLIS_MAX)?;
    let until_ms = fields.number("ends_ms", 0, MILLIS_MAX)?;
    let will_at_ms = fields.number("will_at_ms", 0, MILLIS_MAX)?;
    // As MQTT has it, the highest number stands for ever.
    let expiry_secs =
        u32::try_from(fields.a_number("expiry_secs", 0, u32::MAX.into())?).unwrap_or(u32::MAX);
    let ends_after = |since_ms: u64| {
        let lasts_ms = u64::from(expiry_secs) * 1_000;
        (expiry_secs < u32::MAX).then(|| since_ms.saturating_add(lasts_ms).min(MILLIS_MAX))
    };
    let presence = match since_ms {
        Some(since_ms) => Presence::Away {
            since_ms,
            until_ms: until_ms.or_else(|| ends_after(since_ms)),
            will_at_ms,
        },
        None if until_ms.or(will_at_ms).is_none() => Presence::Here,
        None => return Err("ends_ms and will_at_ms need away_since_ms".to_owned()),
    };
    let roles = fields.list("roles", ROLES_MAX)?;
    let roles = roles
        .iter()
        .map(|it| text_of("roles", it, TEXT_BYTES_MAX).map(Into::into));
    let line = SessionLine {
        whose,
        address: fields
            .text("address", ADDRESS_BYTES_MAX)?
            .map(read_address)
            .transpose()?,
        expiry_secs,
        has_no_account: fields.flag("has_no_account")?,
        roles_are_of_credential: fields.flag("roles_are_of_credential")?,
        roles: roles.collect::<Result<_, _>>()?,
        quotas: fields
            .get("quotas")
            .map(read_quotas)
            .transpose()?
            .unwrap_or_default(),
        presence,
        subscriptions: read_subscriptions(fields.list("subscriptions", SUBSCRIPTIONS_MAX)?)?,
        arrived: read_arrived(fields.list("arrived", usize::from(u16::MAX))?)?,
        next: fields.number("next_delivery", 0, DELIVERY_MAX)?,
        sent: fields.number("sent_before", 0, DELIVERY_MAX)?.unwrap_or(0),
        messages: fields.number("messages", 0, DELIVERY_MAX)?,
        will: fields.get("will").map(read_will).transpose()?,
    };
    fields.end()?;
    match line.next {
        Some(next) if next < line.sent => Err("sent_before is above next_delivery".to_owned()),
        None if line.sent > 0 => {
            Err("sent_before needs next_delivery: nobody knows which number comes next".to_owned())
        }
        _ => Ok(line),
    }
}

fn read_address(text: &str) -> Result<Network, String> {
    let expected = "it is an IPv4 address, an IPv6 network that ends in /64, or uid and a number";
    text.parse()
        .map_err(|()| wrong("address", &text.into(), expected))
}

fn read_quotas(value: &Value) -> Result<Quotas, String> {
    let mut fields = Fields::of(value, "quotas")?;
    let quotas = Quotas {
        messages_per_sec: fields.small("messages_per_sec", 0, u32::MAX)?,
        bytes_per_sec: fields.number("bytes_per_sec", 0, u64::MAX)?,
        subscriptions: fields.small("subscriptions", 0, u32::MAX)?,
        queued_bytes: fields.number("queued_bytes", 0, u64::MAX)?,
    };
    fields.end()?;
    Ok(quotas)
}

fn read_arrived(list: &[Value]) -> Result<Vec<PacketId>, String> {
    let ids = list.iter().map(|value| packet_id("arrived", value));
    let mut ids: Vec<PacketId> = ids.collect::<Result<_, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    match ids.len() == list.len() {
        true => Ok(ids),
        false => Err("arrived has a packet id twice".to_owned()),
    }
}

fn packet_id(name: &str, value: &Value) -> Result<PacketId, String> {
    let number = value.as_u64().and_then(|id| u16::try_from(id).ok());
    let id = number.and_then(PacketId::new);
    id.ok_or_else(|| wrong(name, value, "it is a packet id, from 1 to 65535"))
}

// === Subscriptions ===

/// A filter as a client writes it.
fn written(group: Option<&str>, filter: &str) -> String {
    match group {
        Some(group) => format!("$share/{group}/{filter}"),
        None => filter.to_owned(),
    }
}

fn subscription_json(it: &RestoredSubscription) -> Value {
    let mut object = Map::new();
    let filter = written(it.group.as_deref(), &it.filter);
    object.insert("filter".into(), filter.into());
    object.insert("qos".into(), (it.qos as u8).into());
    for (name, is_so) in [
        ("no_local", it.no_local),
        ("retain_as_published", it.retain_as_published),
        ("snapshot", it.snapshot),
        ("room", it.room),
    ] {
        put_some(&mut object, name, is_so.then_some(true));
    }
    put_some(&mut object, "identifier", it.identifier);
    let interval = Some(it.interval_micros).filter(|micros| *micros > 0);
    put_some(&mut object, "interval_micros", interval);
    object.into()
}

fn read_subscriptions(list: &[Value]) -> Result<Vec<RestoredSubscription>, String> {
    let all = list.iter().map(read_subscription);
    let all: Vec<RestoredSubscription> = all.collect::<Result<_, _>>()?;
    let mut filters: Vec<_> = all.iter().map(|it| (&it.group, &it.filter)).collect();
    filters.sort_unstable();
    match filters.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("{:?} is subscribed to twice", pair[0].1)),
        None => Ok(all),
    }
}

fn read_subscription(value: &Value) -> Result<RestoredSubscription, String> {
    let mut fields = Fields::of(value, "a subscription")?;
    let text = fields.a_text("filter", TEXT_BYTES_MAX)?;
    let parsed = Subscription::parse(text).map_err(|error| format!("{text:?}: {error}"))?;
    let subscription = RestoredSubscription {
        group: parsed.share.map(Into::into),
        filter: parsed.filter.into(),
        qos: qos("qos", fields.a_number("qos", 0, 2)?)?,
        no_local: fields.flag("no_local")?,
        retain_as_published: fields.flag("retain_as_published")?,
        snapshot: fields.flag("snapshot")?,
        room: fields.flag("room")?,
        identifier: fields.small("identifier", 1, IDENTIFIER_MAX)?,
        interval_micros: fields.number("interval_micros", 0, u64::MAX)?.unwrap_or(0),
    };
    fields.end()?;
    Ok(subscription)
}

fn qos(name: &str, bits: u64) -> Result<QoS, String> {
    let qos = u8::try_from(bits).ok().and_then(QoS::from_bits);
    qos.ok_or_else(|| format!("{name} cannot be {bits}"))
}

// === Wills ===

fn will_json(will: &RestoredWill) -> Value {
    let mut object = Map::new();
    object.insert("topic".into(), (*will.topic).into());
    put_payload(&mut object, &will.payload);
    object.insert("qos".into(), (will.qos as u8).into());
    put_some(&mut object, "retain", will.retain.then_some(true));
    object.insert("delay_secs".into(), will.delay_secs.into());
    put_some(&mut object, "expiry_secs", will.expiry_secs);
    put_properties(&mut object, &will.properties);
    object.into()
}

fn read_will(value: &Value) -> Result<RestoredWill, String> {
    let mut fields = Fields::of(value, "a will")?;
    let will = RestoredWill {
        topic: topic(&mut fields)?,
        payload: payload(&mut fields)?,
        properties: properties(&mut fields)?,
        qos: qos("qos", fields.a_number("qos", 0, 2)?)?,
        retain: fields.flag("retain")?,
        delay_secs: fields.small("delay_secs", 0, u32::MAX)?.unwrap_or(0),
        expiry_secs: fields.small("expiry_secs", 0, u32::MAX)?,
    };
    fields.end()?;
    check_bytes(will.payload.len() + will.properties.len(), WILL_BYTES_MAX)?;
    Ok(will)
}

// === Messages ===

/// A delivery, as a line of an export has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    pub(super) delivery: Option<u64>,
    pub(super) packet_id: Option<PacketId>,
}

/// The line of a message, or of what is left of one that the client has received.
pub(super) fn message_json(
    whose: &Whose,
    entry: Entry,
    message: Option<(&OwnedTerms, &Body<'_>)>,
) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), "message".into());
    whose.put(&mut object);
    object.insert("state".into(), entry.state.word().into());
    put_some(&mut object, "delivery", entry.delivery);
    put_some(&mut object, "packet_id", entry.packet_id.map(PacketId::get));
    let Some((terms, body)) = message else {
        return object.into();
    };
    object.insert("topic".into(), body.topic.into());
    put_payload(&mut object, body.payload);
    object.insert("qos".into(), (terms.qos as u8).into());
    put_some(&mut object, "retain", terms.retain.then_some(true));
    if body.qos != terms.qos {
        object.insert("published_qos".into(), (body.qos as u8).into());
    }
    put_some(&mut object, "published_retain", body.retain.then_some(true));
    put_some(&mut object, "expires_ms", body.expires_at_ms);
    let sequence = Some(body.sequence).filter(|number| *number > 0);
    put_some(&mut object, "sequence", sequence);
    let conflated = Some(terms.conflated).filter(|count| *count > 0);
    put_some(&mut object, "conflated", conflated);
    if !terms.identifiers.is_empty() {
        let ids = terms.identifiers.iter().map(|id| Value::from(id.0));
        object.insert("identifiers".into(), ids.collect());
    }
    let share = terms.share.as_ref();
    let share = share.map(|share| written(Some(&share.group), &share.filter));
    put_some(&mut object, "share", share);
    put_properties(&mut object, body.properties);
    object.into()
}

fn read_message(value: &Value) -> Result<MessageLine, String> {
    let mut fields = Fields::of(value, "a message")?;
    fields.get("kind");
    let whose = Whose::read(&mut fields)?;
    let word = fields.text("state", 16)?.unwrap_or("waiting");
    let known = State::ALL.into_iter().find(|(_, known)| *known == word);
    let known = known.map(|(state, _)| state);
    let expected = "it is waiting, sent, received or held";
    let state = known.ok_or_else(|| wrong("state", &value["state"], expected))?;
    let delivery = fields.number("delivery", 0, DELIVERY_MAX - 1)?;
    let id = fields.get("packet_id");
    let packet_id = id.map(|id| packet_id("packet_id", id)).transpose()?;
    match state {
        State::Held if delivery.is_some() || packet_id.is_some() => {
            return Err("a message that is held has neither delivery nor packet_id".to_owned());
        }
        State::Sent | State::Received if delivery.is_none() || packet_id.is_none() => {
            return Err(format!(
                "a message that is {word} has delivery and packet_id"
            ));
        }
        _ => {}
    }
    let message = match state {
        State::Received => None,
        State::Waiting | State::Sent | State::Held => Some(read_content(&mut fields)?),
    };
    fields.end()?;
    Ok(MessageLine {
        whose,
        state,
        delivery,
        packet_id,
        message,
    })
}

fn read_content(fields: &mut Fields<'_>) -> Result<(OwnedTerms, OwnedBody), String> {
    let granted = fields.a_number("qos", 1, 2)?;
    let published = fields.number("published_qos", 0, 2)?.unwrap_or(granted);
    // Numbers of another store mean nothing in this one.
    fields.get("sequence");
    let body = OwnedBody {
        topic: topic(fields)?,
        payload: payload(fields)?,
        properties: properties(fields)?,
        qos: qos("published_qos", published)?,
        retain: fields.flag("published_retain")?,
        expires_at_ms: fields.number("expires_ms", 0, MILLIS_MAX)?,
    };
    check_bytes(body.bytes(), WRITTEN_BYTES_MAX)?;
    let ids = fields.list("identifiers", IDENTIFIERS_MAX)?.iter();
    let ids = ids.map(|value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.filter(|id| (1..=IDENTIFIER_MAX).contains(id));
        let expected = "it is a subscription identifier, from 1 to 268435455";
        id.map(Identifier)
            .ok_or_else(|| wrong("identifiers", value, expected))
    });
    let terms = OwnedTerms {
        qos: qos("qos", granted)?,
        retain: fields.flag("retain")?,
        conflated: fields.small("conflated", 0, u32::MAX)?.unwrap_or(0),
        identifiers: ids.collect::<Result<_, _>>()?,
        share: read_share(fields)?,
    };
    Ok((terms, body))
}

fn read_share(fields: &mut Fields<'_>) -> Result<Option<OwnedShare>, String> {
    let Some(text) = fields.text("share", TEXT_BYTES_MAX)? else {
        return Ok(None);
    };
    let parsed = Subscription::parse(text).map_err(|error| format!("{text:?}: {error}"))?;
    let group = parsed.share.ok_or_else(|| {
        format!("share cannot be {text:?}: it begins with $share/ and the name of a group")
    })?;
    Ok(Some(OwnedShare {
        group: group.into(),
        filter: parsed.filter.into(),
    }))
}

// === What messages and wills have in common ===

fn put_payload(object: &mut Map<String, Value>, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => object.insert("payload".into(), text.into()),
        Err(_) => object.insert("payload_base64".into(), STANDARD.encode(payload).into()),
    };
}

fn put_properties(object: &mut Map<String, Value>, raw: &[u8]) {
    let properties = properties_json(&stored_properties(raw));
    if !properties.is_empty() {
        object.insert("properties".into(), properties.into());
    }
}

fn topic(fields: &mut Fields<'_>) -> Result<Box<str>, String> {
    let topic = fields.a_text("topic", TEXT_BYTES_MAX)?;
    validate_name(topic).map_err(|error| format!("{topic:?} is not a topic: {error}"))?;
    Ok(topic.into())
}

fn payload(fields: &mut Fields<'_>) -> Result<Vec<u8>, String> {
    match (fields.get("payload"), fields.get("payload_base64")) {
        (Some(_), Some(_)) => {
            Err("it has both payload and payload_base64: only one can be meant".to_owned())
        }
        (Some(value), None) => {
            let text = value.as_str();
            let text = text.ok_or_else(|| wrong("payload", value, "it is a text"))?;
            Ok(text.into())
        }
        (None, Some(value)) => {
            base64(value).ok_or_else(|| wrong("payload_base64", value, "it is a text in base 64"))
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn properties(fields: &mut Fields<'_>) -> Result<Vec<u8>, String> {
    let Some(value) = fields.get("properties") else {
        return Ok(Vec::new());
    };
    let properties = read_properties(value)?;
    Ok(properties.as_properties().raw().to_vec())
}

fn check_bytes(bytes: usize, bytes_max: usize) -> Result<(), String> {
    match bytes > bytes_max {
        true => Err(format!(
            "topic, properties and payload have {bytes} bytes, and there can be {bytes_max}"
        )),
        false => Ok(()),
    }
}
