//! `mqtt5-protocol` as oracle: 3.1.1 and 5.0.

use mqtt5_protocol::packet::{FixedHeader, MqttPacket, Packet, PacketType};
use std::panic::{AssertUnwindSafe, catch_unwind};
use stentor_mqtt::Version;

/// Decodes one packet and encodes it again, or says why not.
pub(crate) fn recode(version: Version, first: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    catch_unwind(AssertUnwindSafe(|| recode_unguarded(version, first, body)))
        .unwrap_or_else(|_| Err("panic".to_owned()))
}

fn recode_unguarded(version: Version, first: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    let kind = PacketType::from_u8(first >> 4).ok_or("type")?;
    let header = FixedHeader::new(kind, first & 0x0F, body.len() as u32);
    let level = if version.is_v5() { 5 } else { 4 };
    let mut rest = body;
    let packet = Packet::decode_from_body_with_version(kind, &header, &mut rest, level)
        .map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err(format!("{} bytes left", rest.len()));
    }
    let mut out = Vec::new();
    let encoded = match packet {
        Packet::Connect(packet) => packet.encode(&mut out),
        Packet::ConnAck(packet) => packet.encode(&mut out),
        Packet::Publish(packet) => packet.encode(&mut out),
        Packet::PubAck(packet) => packet.encode(&mut out),
        Packet::PubRec(packet) => packet.encode(&mut out),
        Packet::PubRel(packet) => packet.encode(&mut out),
        Packet::PubComp(packet) => packet.encode(&mut out),
        Packet::Subscribe(packet) => packet.encode(&mut out),
        Packet::SubAck(packet) => packet.encode(&mut out),
        Packet::Unsubscribe(packet) => packet.encode(&mut out),
        Packet::UnsubAck(packet) => packet.encode(&mut out),
        Packet::Disconnect(packet) => packet.encode(&mut out),
        Packet::Auth(packet) => packet.encode(&mut out),
        Packet::PingReq | Packet::PingResp => {
            out.extend_from_slice(&[first, 0]);
            Ok(())
        }
    };
    encoded.map_err(|error| format!("encode: {error}"))?;
    Ok(out)
}
