//! From a [`Packet`] to bytes.

use crate::REMAINING_LEN_MAX;
use crate::packet::{
    Ack, ConnAck, Connect, Disconnect, Packet, Publish, SubAck, Subscribe, Unsubscribe,
};
use crate::properties::Properties;
use crate::publish::first_byte;
use crate::reason::ReasonCode;
use crate::types::{QoS, Version};
use crate::wire::{Counter, Sink};
use alloc::vec::Vec;
use thiserror::Error;

/// Why a packet cannot be encoded: the caller's fault, or a value from outside that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// The body is over 268,435,455 bytes.
    #[error("the packet has a body of {bytes} bytes, which is more than MQTT can frame")]
    PacketTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// A string or binary value is over 65,535 bytes.
    #[error("a string or binary value of {bytes} bytes does not fit into a packet")]
    StringTooLong {
        /// Its size.
        bytes: usize,
    },
    /// An integer is over 268,435,455.
    #[error("{value} does not fit into a variable byte integer")]
    IntegerTooLarge {
        /// The number.
        value: u32,
    },
    /// A PUBLISH has a packet identifier at QoS 0, or none above it.
    #[error("a PUBLISH has a packet identifier exactly when its QoS is above 0")]
    PacketIdMismatch,
    /// 3.x has no such packet.
    #[error("this protocol version has no such packet")]
    NotInVersion,
}

/// Appends a packet to `out`, which is untouched on an error.
///
/// What a version lacks is left out (properties, reasons of acknowledgements) or translated (the
/// reasons of CONNACK and SUBACK). CONNECT is encoded in the version that it carries. In 5.0 the
/// short forms are used: no reason code where it is "success" and no properties follow.
///
/// # Errors
///
/// See [`EncodeError`].
pub fn encode(version: Version, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let version = match packet {
        Packet::Connect(connect) => connect.version,
        _ => version,
    };
    let mut counter = Counter::default();
    body(version, packet, &mut counter)?;
    let body_len = u32::try_from(counter.bytes)
        .ok()
        .filter(|&len| len <= REMAINING_LEN_MAX)
        .ok_or(EncodeError::PacketTooLarge {
            bytes: counter.bytes,
        })?;
    out.reserve(5 + counter.bytes);
    out.u8(fixed_header(packet));
    out.varint(body_len);
    body(version, packet, out)
}

const fn fixed_header(packet: &Packet<'_>) -> u8 {
    match packet {
        Packet::Connect(_) => 0x10,
        Packet::ConnAck(_) => 0x20,
        Packet::Publish(publish) => first_byte(publish.qos, publish.retain, publish.dup),
        Packet::PubAck(_) => 0x40,
        Packet::PubRec(_) => 0x50,
        Packet::PubRel(_) => 0x62,
        Packet::PubComp(_) => 0x70,
        Packet::Subscribe(_) => 0x82,
        Packet::SubAck(_) => 0x90,
        Packet::Unsubscribe(_) => 0xA2,
        Packet::UnsubAck(_) => 0xB0,
        Packet::PingReq => 0xC0,
        Packet::PingResp => 0xD0,
        Packet::Disconnect(_) => 0xE0,
        Packet::Auth(_) => 0xF0,
    }
}

fn body<S: Sink>(version: Version, packet: &Packet<'_>, out: &mut S) -> Result<(), EncodeError> {
    match packet {
        Packet::Connect(packet) => connect(packet, out),
        Packet::ConnAck(packet) => connack(version, packet, out),
        Packet::Publish(packet) => publish(version, packet, out),
        Packet::PubAck(packet)
        | Packet::PubRec(packet)
        | Packet::PubRel(packet)
        | Packet::PubComp(packet) => ack(version, packet, out),
        Packet::Subscribe(packet) => subscribe(version, packet, out),
        Packet::SubAck(packet) => suback(version, packet, out),
        Packet::Unsubscribe(packet) => unsubscribe(version, packet, out),
        Packet::UnsubAck(packet) => unsuback(version, packet, out),
        Packet::PingReq | Packet::PingResp => Ok(()),
        Packet::Disconnect(packet) if version.is_v5() => disconnect(packet, out),
        Packet::Disconnect(_) => Ok(()),
        Packet::Auth(packet) if version.is_v5() => auth(packet, out),
        Packet::Auth(_) => Err(EncodeError::NotInVersion),
    }
}

/// Properties with their length in front; nothing in 3.x.
fn properties<S: Sink>(
    version: Version,
    properties: Properties<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    if !version.is_v5() {
        return Ok(());
    }
    let bytes = properties.raw().len();
    let len = u32::try_from(bytes)
        .ok()
        .filter(|&len| len <= REMAINING_LEN_MAX)
        .ok_or(EncodeError::PacketTooLarge { bytes })?;
    out.varint(len);
    out.put(properties.raw());
    Ok(())
}

fn connect<S: Sink>(packet: &Connect<'_>, out: &mut S) -> Result<(), EncodeError> {
    let version = packet.version;
    let (name, level) = match version {
        Version::V31 => ("MQIsdp", 3),
        Version::V311 => ("MQTT", 4),
        Version::V5 => ("MQTT", 5),
    };
    let bridge = packet.bridge && !version.is_v5();
    let mut flags = u8::from(packet.clean_start) << 1;
    if let Some(will) = &packet.will {
        flags |= 1 << 2 | (will.qos as u8) << 3 | u8::from(will.retain) << 5;
    }
    flags |= u8::from(packet.password.is_some()) << 6 | u8::from(packet.username.is_some()) << 7;
    out.string(name)?;
    out.u8(level | u8::from(bridge) << 7);
    out.u8(flags);
    out.u16(packet.keep_alive_secs);
    properties(version, packet.properties, out)?;
    out.string(packet.client_id)?;
    if let Some(will) = &packet.will {
        properties(version, will.properties, out)?;
        out.string(will.topic)?;
        out.binary(will.payload)?;
    }
    if let Some(username) = packet.username {
        out.string(username)?;
    }
    if let Some(password) = packet.password {
        out.binary(password)?;
    }
    Ok(())
}

fn connack<S: Sink>(
    version: Version,
    packet: &ConnAck<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    // A refusal never claims a session [MQTT-3.2.2-6], and 3.1 has no such flag.
    let session_present =
        packet.session_present && packet.reason == ReasonCode::Success && version != Version::V31;
    out.u8(u8::from(session_present));
    out.u8(if version.is_v5() {
        packet.reason as u8
    } else {
        packet.reason.connect_return_code()
    });
    properties(version, packet.properties, out)
}

fn publish<S: Sink>(
    version: Version,
    packet: &Publish<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    if packet.packet_id.is_some() != (packet.qos > QoS::AtMostOnce) {
        return Err(EncodeError::PacketIdMismatch);
    }
    out.string(packet.topic)?;
    if let Some(packet_id) = packet.packet_id {
        out.u16(packet_id.get());
    }
    properties(version, packet.properties, out)?;
    out.put(packet.payload);
    Ok(())
}

fn ack<S: Sink>(version: Version, packet: &Ack<'_>, out: &mut S) -> Result<(), EncodeError> {
    out.u16(packet.packet_id.get());
    if !version.is_v5() {
        return Ok(());
    }
    reason_and_properties(packet.reason, packet.properties, out)
}

/// A reason and properties at the end of a packet, left out where the end of the packet says it.
fn reason_and_properties<S: Sink>(
    reason: ReasonCode,
    props: Properties<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    if props.is_empty() {
        if reason != ReasonCode::Success {
            out.u8(reason as u8);
        }
        return Ok(());
    }
    out.u8(reason as u8);
    properties(Version::V5, props, out)
}

fn subscribe<S: Sink>(
    version: Version,
    packet: &Subscribe<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    out.u16(packet.packet_id.get());
    properties(version, packet.properties, out)?;
    for subscription in packet.filters {
        out.string(subscription.filter)?;
        let options = subscription.options;
        out.u8(if version.is_v5() {
            options.to_bits()
        } else {
            options.qos as u8
        });
    }
    Ok(())
}

fn suback<S: Sink>(version: Version, packet: &SubAck<'_>, out: &mut S) -> Result<(), EncodeError> {
    out.u16(packet.packet_id.get());
    properties(version, packet.properties, out)?;
    if version.is_v5() {
        out.put(packet.reasons);
    } else {
        for &reason in packet.reasons {
            // The only failure that 3.x knows [MQTT311-3.9.3-2].
            out.u8(if reason >= 0x80 { 0x80 } else { reason });
        }
    }
    Ok(())
}

fn unsubscribe<S: Sink>(
    version: Version,
    packet: &Unsubscribe<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    out.u16(packet.packet_id.get());
    properties(version, packet.properties, out)?;
    out.put(packet.filters.raw);
    Ok(())
}

fn unsuback<S: Sink>(
    version: Version,
    packet: &SubAck<'_>,
    out: &mut S,
) -> Result<(), EncodeError> {
    out.u16(packet.packet_id.get());
    properties(version, packet.properties, out)?;
    if version.is_v5() {
        out.put(packet.reasons);
    }
    Ok(())
}

fn disconnect<S: Sink>(packet: &Disconnect<'_>, out: &mut S) -> Result<(), EncodeError> {
    reason_and_properties(packet.reason, packet.properties, out)
}

/// AUTH has no form with a reason alone.
fn auth<S: Sink>(packet: &Disconnect<'_>, out: &mut S) -> Result<(), EncodeError> {
    if packet.reason == ReasonCode::Success && packet.properties.is_empty() {
        return Ok(());
    }
    out.u8(packet.reason as u8);
    properties(Version::V5, packet.properties, out)
}
