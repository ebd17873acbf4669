//! From the body of a packet to a [`Packet`].

mod connect;
mod reasons;

use crate::error::{DecodeError, DecodeErrorKind};
use crate::packet::{
    Ack, Disconnect, Packet, Publish, SubAck, Subscribe, SubscribeFilters, Unsubscribe,
    UnsubscribeFilters,
};
use crate::properties::Properties;
use crate::reason::ReasonCode;
use crate::rules::{Place, validate};
use crate::types::{QoS, Version};
use crate::wire::{Reader, read_varint};
pub use connect::connect_version;
use reasons::{
    is_client_auth_reason, is_client_disconnect_reason, is_publish_reason, is_release_reason,
    is_server_auth_reason, is_server_disconnect_reason, is_suback_reason, is_suback_return_code,
    is_unsuback_reason,
};
use stentor_topic::NameError;

/// Which side sent the bytes: it decides which packets and properties are legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client: what a server decodes.
    Client,
    /// A server: what a client decodes.
    Server,
}

/// Decodes a packet whose frame begins with `first` and has `body` behind its fixed header.
///
/// Nothing is copied and nothing is allocated: the packet borrows from `body`. CONNECT says itself
/// which version it is, so `version` is ignored for it; for everything else it is what the
/// connection agreed on. An invalid topic filter is not an error here, because SUBACK and UNSUBACK
/// answer each filter by itself.
///
/// # Errors
///
/// Everything that the specification calls a malformed packet or a protocol error and that can be
/// seen from one packet alone.
pub fn decode<'a>(
    version: Version,
    from: Sender,
    first: u8,
    body: &'a [u8],
) -> Result<Packet<'a>, DecodeError> {
    let kind = first >> 4;
    if kind == 3 {
        return decode_publish(version, from, first, body).map(Packet::Publish);
    }
    check_flags(version, first)?;
    if !may_send(version, from, kind) {
        return Err(DecodeErrorKind::PacketNotExpected.into());
    }
    let mut reader = Reader::new(body);
    let packet = match kind {
        1 => Packet::Connect(connect::connect(&mut reader)?),
        2 => Packet::ConnAck(connect::connack(version, &mut reader)?),
        4 => Packet::PubAck(ack(version, from, &mut reader, is_publish_reason)?),
        5 => Packet::PubRec(ack(version, from, &mut reader, is_publish_reason)?),
        6 => Packet::PubRel(ack(version, from, &mut reader, is_release_reason)?),
        7 => Packet::PubComp(ack(version, from, &mut reader, is_release_reason)?),
        8 => return decode_subscribe(version, first, body).map(Packet::Subscribe),
        9 => return suback(version, from, reader).map(Packet::SubAck),
        10 => return unsubscribe(version, from, reader).map(Packet::Unsubscribe),
        11 => return unsuback(version, from, reader).map(Packet::UnsubAck),
        12 => Packet::PingReq,
        13 => Packet::PingResp,
        14 => Packet::Disconnect(disconnect(version, from, &mut reader)?),
        15 => Packet::Auth(auth(from, &mut reader)?),
        _ => return Err(DecodeErrorKind::TypeReserved.into()),
    };
    reader.finish()?;
    Ok(packet)
}

/// The flags of everything but PUBLISH [MQTT-2.1.3-1]. MQTT 3.1 sets DUP when it repeats a PUBREL,
/// SUBSCRIBE or UNSUBSCRIBE.
#[inline]
fn check_flags(version: Version, first: u8) -> Result<(), DecodeError> {
    let flags = first & 0x0F;
    let (expected, dup) = match first >> 4 {
        6 | 8 | 10 => (0b0010, version == Version::V31),
        _ => (0, false),
    };
    if flags == expected || (dup && flags == expected | 0b1000) {
        Ok(())
    } else {
        Err(DecodeErrorKind::FlagsReserved.into())
    }
}

/// Which side sends what [MQTT 5.0, table 2-1].
const fn may_send(version: Version, from: Sender, kind: u8) -> bool {
    match kind {
        1 | 8 | 10 | 12 => matches!(from, Sender::Client),
        2 | 9 | 11 | 13 => matches!(from, Sender::Server),
        14 => version.is_v5() || matches!(from, Sender::Client),
        15 => version.is_v5(),
        _ => true,
    }
}

/// Decodes a PUBLISH: as [`decode`], for those who have looked at the packet type already.
///
/// # Errors
///
/// As [`decode`].
#[inline]
pub fn decode_publish<'a>(
    version: Version,
    from: Sender,
    first: u8,
    body: &'a [u8],
) -> Result<Publish<'a>, DecodeError> {
    let dup = first & 0b1000 != 0;
    let qos = QoS::from_bits((first >> 1) & 0b11).ok_or(DecodeErrorKind::QoSReserved)?;
    let mut reader = Reader::new(body);
    let topic = reader.binary()?;
    let packet_id = if qos == QoS::AtMostOnce {
        if dup {
            return Err(DecodeErrorKind::DupWithoutQoS.into());
        }
        None
    } else {
        Some(reader.packet_id()?)
    };
    let properties = properties(version, &mut reader, Place::Publish, from)?;
    let topic = if topic.is_empty() && properties.topic_alias().is_some() {
        ""
    } else {
        topic_name(topic)?
    };
    Ok(Publish {
        dup,
        qos,
        retain: first & 1 != 0,
        topic,
        packet_id,
        properties,
        payload: reader.rest(),
    })
}

/// Validates a topic name: UTF-8, at least one character, no U+0000, no wildcards
/// [MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-4.7.3-1] [MQTT-4.7.3-2].
#[inline]
fn topic_name(bytes: &[u8]) -> Result<&str, DecodeError> {
    let topic = simdutf8::basic::from_utf8(bytes).map_err(|_| DecodeErrorKind::Utf8)?;
    match stentor_topic::validate_name(topic) {
        Ok(()) => Ok(topic),
        Err(error) => Err(name_error(error)),
    }
}

#[cold]
fn name_error(error: NameError) -> DecodeError {
    match error {
        NameError::Empty => DecodeErrorKind::TopicEmpty,
        NameError::Nul => DecodeErrorKind::Nul,
        NameError::Wildcard => DecodeErrorKind::TopicWildcard,
        // A two-byte length cannot say so.
        NameError::TooLong => DecodeErrorKind::Truncated,
    }
    .into()
}

/// Reads the properties of a 5.0 packet; 3.x has none.
#[inline]
fn properties<'a>(
    version: Version,
    reader: &mut Reader<'a>,
    place: Place,
    from: Sender,
) -> Result<Properties<'a>, DecodeError> {
    if !version.is_v5() {
        return Ok(Properties::EMPTY);
    }
    let len = reader.varint()?;
    if len == 0 {
        return Ok(Properties::EMPTY);
    }
    let raw = reader.take(len as usize)?;
    let known = validate(raw, place, from)?;
    Ok(Properties::from_checked(raw, known))
}

/// Properties that are left out together with their length when the packet ends before them.
fn trailing_properties<'a>(
    reader: &mut Reader<'a>,
    place: Place,
    from: Sender,
) -> Result<Properties<'a>, DecodeError> {
    if reader.is_empty() {
        return Ok(Properties::EMPTY);
    }
    properties(Version::V5, reader, place, from)
}

fn reason(byte: u8, allowed: fn(ReasonCode) -> bool) -> Result<ReasonCode, DecodeError> {
    let code = ReasonCode::from_u8(byte).ok_or(DecodeErrorKind::ReasonUnknown)?;
    if allowed(code) {
        Ok(code)
    } else {
        Err(DecodeErrorKind::ReasonNotAllowed.into())
    }
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP. In 5.0 the end of the packet may stand for "success" and for
/// "no properties".
fn ack<'a>(
    version: Version,
    from: Sender,
    reader: &mut Reader<'a>,
    allowed: fn(ReasonCode) -> bool,
) -> Result<Ack<'a>, DecodeError> {
    let packet_id = reader.packet_id()?;
    if !version.is_v5() || reader.is_empty() {
        return Ok(Ack {
            packet_id,
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        });
    }
    let reason = reason(reader.u8()?, allowed)?;
    let properties = trailing_properties(reader, Place::Ack, from)?;
    Ok(Ack {
        packet_id,
        reason,
        properties,
    })
}

/// Decodes a SUBSCRIBE of a client: as [`decode`], for those who have looked at the packet type
/// already.
///
/// # Errors
///
/// As [`decode`].
#[inline]
pub fn decode_subscribe(
    version: Version,
    first: u8,
    body: &[u8],
) -> Result<Subscribe<'_>, DecodeError> {
    check_flags(version, first)?;
    let mut reader = Reader::new(body);
    let packet_id = reader.packet_id()?;
    let properties = properties(version, &mut reader, Place::Subscribe, Sender::Client)?;
    let filters = SubscribeFilters::parse(version, reader.rest())?;
    Ok(Subscribe {
        packet_id,
        properties,
        filters,
    })
}

/// The topic of a PUBLISH, or the first filter of a SUBSCRIBE, in a body that has not been decoded:
/// for who wants to prepare for it. Nothing is checked, not even that it is text; `None` for all
/// other packets, and for a topic that an alias stands for.
#[inline]
#[must_use]
pub fn peek_topic(version: Version, first: u8, body: &[u8]) -> Option<&[u8]> {
    let string = match first >> 4 {
        3 => body,
        8 => {
            let behind_id = body.get(2..)?;
            if version.is_v5() {
                let (len, len_bytes) = read_varint(behind_id).ok()??;
                behind_id.get(len_bytes + len as usize..)?
            } else {
                behind_id
            }
        }
        _ => return None,
    };
    let (len, text) = string.split_first_chunk()?;
    let text = text.get(..usize::from(u16::from_be_bytes(*len)))?;
    (!text.is_empty()).then_some(text)
}

fn unsubscribe<'a>(
    version: Version,
    from: Sender,
    mut reader: Reader<'a>,
) -> Result<Unsubscribe<'a>, DecodeError> {
    let packet_id = reader.packet_id()?;
    let properties = properties(version, &mut reader, Place::Unsubscribe, from)?;
    let filters = UnsubscribeFilters::parse(reader.rest())?;
    Ok(Unsubscribe {
        packet_id,
        properties,
        filters,
    })
}

fn suback<'a>(
    version: Version,
    from: Sender,
    mut reader: Reader<'a>,
) -> Result<SubAck<'a>, DecodeError> {
    let packet_id = reader.packet_id()?;
    let properties = properties(version, &mut reader, Place::Ack, from)?;
    let allowed = if version.is_v5() {
        is_suback_reason
    } else {
        is_suback_return_code
    };
    let reasons = reasons(reader, allowed)?;
    Ok(SubAck {
        packet_id,
        properties,
        reasons,
    })
}

fn unsuback<'a>(
    version: Version,
    from: Sender,
    mut reader: Reader<'a>,
) -> Result<SubAck<'a>, DecodeError> {
    let packet_id = reader.packet_id()?;
    let properties = properties(version, &mut reader, Place::Ack, from)?;
    if !version.is_v5() {
        reader.finish()?;
        return Ok(SubAck {
            packet_id,
            properties,
            reasons: &[],
        });
    }
    let reasons = reasons(reader, is_unsuback_reason)?;
    Ok(SubAck {
        packet_id,
        properties,
        reasons,
    })
}

/// The rest of the packet: one reason for each filter.
fn reasons(reader: Reader<'_>, allowed: fn(ReasonCode) -> bool) -> Result<&[u8], DecodeError> {
    let reasons = reader.rest();
    if reasons.is_empty() {
        return Err(DecodeErrorKind::ReasonsEmpty.into());
    }
    for &byte in reasons {
        reason(byte, allowed)?;
    }
    Ok(reasons)
}

/// In 5.0 the end of the packet may stand for "normal disconnection" and for "no properties".
fn disconnect<'a>(
    version: Version,
    from: Sender,
    reader: &mut Reader<'a>,
) -> Result<Disconnect<'a>, DecodeError> {
    if !version.is_v5() || reader.is_empty() {
        return Ok(Disconnect {
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        });
    }
    let allowed = match from {
        Sender::Client => is_client_disconnect_reason,
        Sender::Server => is_server_disconnect_reason,
    };
    let reason = reason(reader.u8()?, allowed)?;
    let properties = trailing_properties(reader, Place::Disconnect, from)?;
    Ok(Disconnect { reason, properties })
}

/// AUTH names its method [MQTT 5.0, section 3.15.2.2.2], except in the short form that stands for
/// "success" without properties.
fn auth<'a>(from: Sender, reader: &mut Reader<'a>) -> Result<Disconnect<'a>, DecodeError> {
    let allowed = match from {
        Sender::Client => is_client_auth_reason,
        Sender::Server => is_server_auth_reason,
    };
    if reader.is_empty() {
        let reason = reason(ReasonCode::Success as u8, allowed)?;
        return Ok(Disconnect {
            reason,
            properties: Properties::EMPTY,
        });
    }
    let reason = reason(reader.u8()?, allowed)?;
    let properties = properties(Version::V5, reader, Place::Auth, from)?;
    if properties.auth_method().is_none() {
        return Err(DecodeErrorKind::AuthMethodMissing.into());
    }
    Ok(Disconnect { reason, properties })
}
