//! One packet through three codecs.

use crate::oracle::divergences::{Oracle, is_known_strict, known_lax};
use crate::oracle::{mqtt5_protocol_oracle, protocol_core_oracle};
use std::collections::BTreeSet;
use stentor_mqtt::{
    DecodeError, Packet, Properties, Property, PropertyBuf, Sender, Version, connect_version,
    decode, encode, frame,
};

/// What has been seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Packets that our codec accepts.
    pub(crate) accepted: u64,
    /// Packets that it refuses.
    pub(crate) refused: u64,
    /// Verdicts of an oracle that are the same and, for accepted packets, read the same.
    pub(crate) agreed: u64,
    /// Verdicts that differ for a known reason.
    pub(crate) known: u64,
    /// Entries of the list of known divergences that have been met.
    pub(crate) met: BTreeSet<usize>,
}

/// A verdict or a reading that differs and is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Which oracle, which packet, which verdict: the same for the same cause.
    pub(crate) summary: String,
    /// The packet as read here.
    pub(crate) detail: String,
}

/// Compares the codecs on one packet; bytes that do not frame are left out, since the oracles
/// have no such function.
pub(crate) fn compare(version: Version, bytes: &[u8], tally: &mut Tally) -> Result<(), Difference> {
    let Ok(Some(found)) = frame(bytes, u32::MAX) else {
        return Ok(());
    };
    let body = &bytes[found.header_len..];
    let version = match found.first >> 4 {
        1 => connect_version(body).unwrap_or(version),
        _ => version,
    };
    // The oracles know neither 3.1 nor bridges.
    let is_bridge = found.first >> 4 == 1 && body.get(6).is_some_and(|level| level & 0x80 != 0);
    if found.total_len != bytes.len() || version == Version::V31 || is_bridge {
        return Ok(());
    }
    let ours = decode_either(version, found.first, body);
    match ours {
        Ok(_) => tally.accepted += 1,
        Err(_) => tally.refused += 1,
    }
    for (oracle, theirs) in [
        (
            Oracle::ProtocolCore,
            protocol_core_oracle::recode(version, found.first, body),
        ),
        (
            Oracle::Mqtt5Protocol,
            mqtt5_protocol_oracle::recode(version, found.first, body),
        ),
    ] {
        let verdict = match (&ours, theirs) {
            (Err(_), Err(_)) => Ok(true),
            (Ok(_), Ok(again)) if same_packet(version, bytes, &again) => Ok(true),
            (Ok(_), Ok(again)) => Err(format!("reads otherwise: {again:02x?}")),
            (Ok(packet), Err(_)) if is_known_strict(oracle, version, packet) => Ok(false),
            (Ok(_), Err(error)) => Err(format!("refuses: {error}")),
            (Err(errors), Ok(_)) => match known_lax(oracle, found.first, errors) {
                Some(entry) => {
                    tally.met.insert(entry);
                    Ok(false)
                }
                None => Err(format!("accepts: {:?}", errors.map(|error| error.kind))),
            },
        };
        match verdict {
            Ok(true) => tally.agreed += 1,
            Ok(false) => tally.known += 1,
            Err(what) => {
                return Err(Difference {
                    summary: format!("{oracle:?} {version:?} type {} {what}", found.first >> 4),
                    detail: format!("{ours:?} {bytes:02x?}"),
                });
            }
        }
    }
    Ok(())
}

/// The oracles do not ask who sent a packet, so a packet that either side may send is accepted.
fn decode_either(version: Version, first: u8, body: &[u8]) -> Result<Packet<'_>, [DecodeError; 2]> {
    decode(version, Sender::Client, first, body).or_else(|as_client| {
        decode(version, Sender::Server, first, body).map_err(|as_server| [as_client, as_server])
    })
}

/// Whether two encodings hold the same packet, properties of different kinds in any order.
pub(crate) fn same_packet(version: Version, one: &[u8], other: &[u8]) -> bool {
    match (canonical(version, one), canonical(version, other)) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

fn canonical(version: Version, bytes: &[u8]) -> Option<Vec<u8>> {
    let found = frame(bytes, u32::MAX).ok()??;
    let mut packet = decode_either(version, found.first, &bytes[found.header_len..]).ok()?;
    let mut out = Vec::new();
    let (mut buf, mut will_buf) = (PropertyBuf::new(), PropertyBuf::new());
    if let Packet::Connect(connect) = &mut packet
        && let Some(will) = &mut connect.will
    {
        sort(will.properties, &mut will_buf);
        will.properties = will_buf.as_properties();
    }
    if let Some(properties) = properties_of(&mut packet) {
        sort(*properties, &mut buf);
        *properties = buf.as_properties();
    }
    encode(version, &packet, &mut out).ok()?;
    Some(out)
}

/// By identifier; the order among equal ones, such as user properties, stays.
fn sort(properties: Properties<'_>, out: &mut PropertyBuf) {
    let mut list: Vec<Property<'_>> = properties.iter().collect();
    list.sort_by_key(|property| property.id());
    list.into_iter().for_each(|property| out.push(property));
}

fn properties_of<'p, 'a>(packet: &'p mut Packet<'a>) -> Option<&'p mut Properties<'a>> {
    match packet {
        Packet::Connect(packet) => Some(&mut packet.properties),
        Packet::ConnAck(packet) => Some(&mut packet.properties),
        Packet::Publish(packet) => Some(&mut packet.properties),
        Packet::PubAck(packet)
        | Packet::PubRec(packet)
        | Packet::PubRel(packet)
        | Packet::PubComp(packet) => Some(&mut packet.properties),
        Packet::Subscribe(packet) => Some(&mut packet.properties),
        Packet::SubAck(packet) | Packet::UnsubAck(packet) => Some(&mut packet.properties),
        Packet::Unsubscribe(packet) => Some(&mut packet.properties),
        Packet::Disconnect(packet) | Packet::Auth(packet) => Some(&mut packet.properties),
        Packet::PingReq | Packet::PingResp => None,
    }
}
