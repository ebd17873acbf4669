//! CONNECT and CONNACK.

use super::reasons::is_connack_reason;
use super::{Sender, properties, reason, topic_name};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::packet::{ConnAck, Connect, Will};
use crate::properties::Properties;
use crate::reason::ReasonCode;
use crate::rules::Place;
use crate::types::{QoS, Version};
use crate::wire::Reader;

const USER_NAME: u8 = 0b1000_0000;
const PASSWORD: u8 = 0b0100_0000;
const WILL_RETAIN: u8 = 0b0010_0000;
const WILL_QOS: u8 = 0b0001_1000;
const WILL: u8 = 0b0000_0100;
const CLEAN_START: u8 = 0b0000_0010;
const RESERVED: u8 = 0b0000_0001;

/// The bit that a mosquitto bridge adds to the protocol level of 3.1 and 3.1.1.
const BRIDGE: u8 = 0x80;

/// The version that the body of a CONNECT announces, whatever follows: a server that refuses a
/// malformed CONNECT answers in the client's version. `None` for an unknown name or level.
#[must_use]
pub fn connect_version(body: &[u8]) -> Option<Version> {
    version(&mut Reader::new(body))
        .ok()
        .map(|(version, _)| version)
}

/// Protocol name and level [MQTT-3.1.2-1] [MQTT-3.1.2-2].
fn version(reader: &mut Reader<'_>) -> Result<(Version, bool), DecodeError> {
    let name = reader.binary()?;
    if name != b"MQTT" && name != b"MQIsdp" {
        return Err(DecodeErrorKind::ProtocolName.into());
    }
    let level = reader.u8()?;
    let version = match (name, level & !BRIDGE) {
        (b"MQIsdp", 3) => Version::V31,
        (b"MQTT", 4) => Version::V311,
        (b"MQTT", 5) if level & BRIDGE == 0 => Version::V5,
        _ => return Err(DecodeErrorKind::ProtocolLevel.into()),
    };
    Ok((version, level & BRIDGE != 0))
}

pub(super) fn connect<'a>(reader: &mut Reader<'a>) -> Result<Connect<'a>, DecodeError> {
    let (version, bridge) = version(reader)?;
    let flags = reader.u8()?;
    check_connect_flags(version, flags)?;
    let keep_alive_secs = reader.u16()?;
    let properties = properties(version, reader, Place::Connect, Sender::Client)?;
    let client_id = reader.string()?;
    let clean_start = flags & CLEAN_START != 0;
    // 3.1.1 lets the server choose an identifier only for a session that ends with the connection;
    // 5.0 always, 3.1 never [MQTT-3.1.3-6] [MQTT311-3.1.3-8].
    let may_be_empty = match version {
        Version::V31 => false,
        Version::V311 => clean_start,
        Version::V5 => true,
    };
    if client_id.is_empty() && !may_be_empty {
        return Err(DecodeErrorKind::ClientIdEmpty.into());
    }
    let will = if flags & WILL == 0 {
        None
    } else {
        Some(will(version, flags, reader)?)
    };
    // 3.1 lets the packet end before the user name and password that its flags announce.
    let missing = |reader: &Reader<'_>| version == Version::V31 && reader.is_empty();
    let username = if flags & USER_NAME == 0 || missing(reader) {
        None
    } else {
        Some(reader.string()?)
    };
    let password = if flags & PASSWORD == 0 || missing(reader) {
        None
    } else {
        Some(reader.binary()?)
    };
    Ok(Connect {
        version,
        bridge,
        clean_start,
        keep_alive_secs,
        client_id,
        will,
        username,
        password,
        properties,
    })
}

fn check_connect_flags(version: Version, flags: u8) -> Result<(), DecodeError> {
    // 3.1 says "not used" of the lowest bit, so it is ignored there.
    if flags & RESERVED != 0 && version != Version::V31 {
        return Err(DecodeErrorKind::ConnectFlagReserved.into());
    }
    if flags & WILL == 0 {
        if flags & WILL_QOS != 0 {
            return Err(DecodeErrorKind::WillQoSWithoutWill.into());
        }
        if flags & WILL_RETAIN != 0 {
            return Err(DecodeErrorKind::WillRetainWithoutWill.into());
        }
    }
    if flags & WILL_QOS == WILL_QOS {
        return Err(DecodeErrorKind::WillQoSReserved.into());
    }
    if !version.is_v5() && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(DecodeErrorKind::PasswordWithoutUserName.into());
    }
    Ok(())
}

fn will<'a>(version: Version, flags: u8, reader: &mut Reader<'a>) -> Result<Will<'a>, DecodeError> {
    let qos = QoS::from_bits((flags & WILL_QOS) >> 3).ok_or(DecodeErrorKind::WillQoSReserved)?;
    let properties = properties(version, reader, Place::Will, Sender::Client)?;
    let topic = topic_name(reader.binary()?)?;
    let payload = reader.binary()?;
    Ok(Will {
        qos,
        retain: flags & WILL_RETAIN != 0,
        topic,
        payload,
        properties,
    })
}

pub(super) fn connack<'a>(
    version: Version,
    reader: &mut Reader<'a>,
) -> Result<ConnAck<'a>, DecodeError> {
    let flags = reader.u8()?;
    let code = reader.u8()?;
    if version == Version::V31 {
        // The first byte means nothing in 3.1.
        let reason = return_code(code)?;
        return Ok(ConnAck {
            session_present: false,
            reason,
            properties: Properties::EMPTY,
        });
    }
    if flags & !1 != 0 {
        return Err(DecodeErrorKind::ConnAckFlagsReserved.into());
    }
    let session_present = flags != 0;
    let reason = if version.is_v5() {
        reason(code, is_connack_reason)?
    } else {
        return_code(code)?
    };
    if session_present && reason != ReasonCode::Success {
        return Err(DecodeErrorKind::SessionPresentWithError.into());
    }
    let properties = properties(version, reader, Place::ConnAck, Sender::Server)?;
    Ok(ConnAck {
        session_present,
        reason,
        properties,
    })
}

fn return_code(code: u8) -> Result<ReasonCode, DecodeError> {
    ReasonCode::from_connect_return_code(code).ok_or_else(|| DecodeErrorKind::ReasonUnknown.into())
}
