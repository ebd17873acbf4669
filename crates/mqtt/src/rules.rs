//! Which properties may stand where, and what else a packet's properties have to fulfil.

use crate::decode::Sender;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::property::{Property, Shape, shape};
use crate::types::QoS;
use crate::wire::{Reader, checked_str};

/// The packets that have a property set of their own [MQTT 5.0, table 2-4].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Connect,
    Will,
    ConnAck,
    Publish,
    /// PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK and UNSUBACK.
    Ack,
    Subscribe,
    Unsubscribe,
    Disconnect,
    Auth,
}

const PAYLOAD_FORMAT: u8 = 0x01;
const MESSAGE_EXPIRY: u8 = 0x02;
const CONTENT_TYPE: u8 = 0x03;
const RESPONSE_TOPIC: u8 = 0x08;
const CORRELATION_DATA: u8 = 0x09;
const SUBSCRIPTION_ID: u8 = 0x0B;
const SESSION_EXPIRY: u8 = 0x11;
const AUTH_METHOD: u8 = 0x15;
const AUTH_DATA: u8 = 0x16;
const SERVER_REFERENCE: u8 = 0x1C;
const REASON_STRING: u8 = 0x1F;
const RECEIVE_MAXIMUM: u8 = 0x21;
const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
const TOPIC_ALIAS: u8 = 0x23;
const USER_PROPERTY: u8 = 0x26;
const MAXIMUM_PACKET_SIZE: u8 = 0x27;

const fn set(ids: &[u8]) -> u64 {
    let mut bits = 0;
    let mut index = 0;
    while index < ids.len() {
        bits |= 1 << ids[index];
        index += 1;
    }
    bits
}

/// The properties that a server forwards with an application message [MQTT-3.3.2-4]
/// [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-20].
pub(crate) const FORWARDABLE: u64 = set(&[
    PAYLOAD_FORMAT,
    CONTENT_TYPE,
    RESPONSE_TOPIC,
    CORRELATION_DATA,
    USER_PROPERTY,
]);

const MESSAGE: u64 = FORWARDABLE | set(&[MESSAGE_EXPIRY]);

const AUTHENTICATION: u64 = set(&[AUTH_METHOD, AUTH_DATA, USER_PROPERTY]);

const LIMITS: u64 = set(&[
    SESSION_EXPIRY,
    RECEIVE_MAXIMUM,
    TOPIC_ALIAS_MAXIMUM,
    MAXIMUM_PACKET_SIZE,
]);

impl Place {
    const fn allowed(self) -> u64 {
        match self {
            Self::Connect => AUTHENTICATION | LIMITS | set(&[0x17, 0x19]),
            Self::Will => MESSAGE | set(&[0x18]),
            Self::ConnAck => {
                AUTHENTICATION
                    | LIMITS
                    | set(&[0x12, 0x13, 0x1A, SERVER_REFERENCE, REASON_STRING])
                    | set(&[0x24, 0x25, 0x28, 0x29, 0x2A])
            }
            Self::Publish => MESSAGE | set(&[SUBSCRIPTION_ID, TOPIC_ALIAS]),
            Self::Ack => set(&[REASON_STRING, USER_PROPERTY]),
            Self::Subscribe => set(&[SUBSCRIPTION_ID, USER_PROPERTY]),
            Self::Unsubscribe => set(&[USER_PROPERTY]),
            Self::Disconnect => set(&[
                SESSION_EXPIRY,
                SERVER_REFERENCE,
                REASON_STRING,
                USER_PROPERTY,
            ]),
            Self::Auth => AUTHENTICATION | set(&[REASON_STRING]),
        }
    }

    /// Properties that may stand more than once.
    const fn repeatable(self) -> u64 {
        match self {
            // One for each subscription that the message matched [MQTT-3.3.4-4].
            Self::Publish => set(&[USER_PROPERTY, SUBSCRIPTION_ID]),
            _ => set(&[USER_PROPERTY]),
        }
    }

    /// What one side may not send although the table has it.
    const fn refused(self, from: Sender, id: u8) -> Option<DecodeErrorKind> {
        match (self, from, id) {
            (Self::Publish, Sender::Client, SUBSCRIPTION_ID) => {
                Some(DecodeErrorKind::SubscriptionIdFromClient)
            }
            (Self::Disconnect, Sender::Server, SESSION_EXPIRY) => {
                Some(DecodeErrorKind::SessionExpiryFromServer)
            }
            (Self::Disconnect, Sender::Client, SERVER_REFERENCE) => {
                Some(DecodeErrorKind::ServerReferenceFromClient)
            }
            _ => None,
        }
    }
}

/// The most properties of a client's packet, because the time to check and to search them has to be
/// bounded.
pub const PROPERTIES_MAX: usize = 4_096;

/// Checks a packet's properties: number, identifiers, places, repetitions, types and ranges.
/// Returns a bit for each identifier that occurs.
pub(crate) fn validate(raw: &[u8], place: Place, from: Sender) -> Result<u64, DecodeError> {
    let allowed = place.allowed();
    let repeatable = place.repeatable();
    let (mut seen, mut count) = (0u64, 0_usize);
    let mut reader = Reader::new(raw);
    while !reader.is_empty() {
        let id = reader.varint()?;
        let (id, shape) = u8::try_from(id)
            .ok()
            .and_then(|id| Some((id, shape(id)?)))
            .ok_or(DecodeErrorKind::PropertyUnknown)?;
        count += 1;
        if count > PROPERTIES_MAX && from == Sender::Client {
            return Err(DecodeErrorKind::PropertiesTooMany.into());
        }
        let bit = 1u64 << id;
        if allowed & bit == 0 {
            return Err(DecodeErrorKind::PropertyNotAllowed.into());
        }
        if let Some(kind) = place.refused(from, id) {
            return Err(kind.into());
        }
        if seen & bit & !repeatable != 0 {
            return Err(DecodeErrorKind::PropertyDuplicate.into());
        }
        seen |= bit;
        check_value(id, shape, shape.cut(&mut reader)?)?;
    }
    // CONNACK has no such rule, and AUTH a stricter one.
    let data_alone = seen & AUTHENTICATION & !set(&[USER_PROPERTY]) == set(&[AUTH_DATA]);
    if data_alone && place == Place::Connect {
        return Err(DecodeErrorKind::AuthMethodMissing.into());
    }
    Ok(seen)
}

/// Checks what the data type leaves open.
fn check_value(id: u8, shape: Shape, value: &[u8]) -> Result<(), DecodeError> {
    match shape {
        Shape::Text => {
            let text = checked_str(&value[2..])?;
            if id == RESPONSE_TOPIC && stentor_topic::validate_name(text).is_err() {
                return Err(DecodeErrorKind::ResponseTopicInvalid.into());
            }
        }
        Shape::Pair => {
            let mut reader = Reader::new(value);
            reader.string()?;
            reader.string()?;
        }
        Shape::Binary => {}
        Shape::Bool | Shape::MaxQoS | Shape::U16 | Shape::U32 | Shape::VarInt => {
            match Property::parse(id, value) {
                Some(Property::TopicAlias(0)) => {
                    return Err(DecodeErrorKind::TopicAliasZero.into());
                }
                None
                | Some(
                    Property::ReceiveMaximum(0)
                    | Property::MaximumPacketSize(0)
                    | Property::SubscriptionIdentifier(0)
                    | Property::MaximumQoS(QoS::ExactlyOnce),
                ) => return Err(DecodeErrorKind::PropertyValue.into()),
                Some(_) => {}
            }
        }
    }
    Ok(())
}
