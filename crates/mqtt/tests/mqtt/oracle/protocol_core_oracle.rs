//! `mqtt-protocol-core` as oracle: 3.1.1 and 5.0.

use mqtt_protocol_core::mqtt::packet::{v3_1_1 as v3, v5_0 as v5};
use std::panic::catch_unwind;
use stentor_mqtt::Version;

/// Decodes one packet and encodes it again, or says why not.
pub(crate) fn recode(version: Version, first: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    let (kind, flags) = (first >> 4, first & 0x0F);
    // The parsers of packets take the body alone; their caller looks at the flags.
    let expected_flags = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
    if kind != 3 && flags != expected_flags {
        return Err("flags".to_owned());
    }
    catch_unwind(|| {
        if version.is_v5() {
            recode_v5(kind, flags, body)
        } else {
            recode_v3(kind, flags, body)
        }
    })
    .unwrap_or_else(|_| Err("panic".to_owned()))
}

macro_rules! recode {
    ($parsed:expr, $body:ident) => {{
        let (packet, used) = $parsed.map_err(|error| format!("{error:?}"))?;
        if used != $body.len() {
            return Err(format!("{} bytes left", $body.len() - used));
        }
        Ok(packet.to_continuous_buffer())
    }};
}

fn recode_v5(kind: u8, flags: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    match kind {
        1 => recode!(v5::Connect::parse(body), body),
        2 => recode!(v5::Connack::parse(body), body),
        3 => recode!(v5::Publish::parse(flags, body.into()), body),
        4 => recode!(v5::Puback::parse(body), body),
        5 => recode!(v5::Pubrec::parse(body), body),
        6 => recode!(v5::Pubrel::parse(body), body),
        7 => recode!(v5::Pubcomp::parse(body), body),
        8 => recode!(v5::Subscribe::parse(body), body),
        9 => recode!(v5::Suback::parse(body), body),
        10 => recode!(v5::Unsubscribe::parse(body), body),
        11 => recode!(v5::Unsuback::parse(body), body),
        12 => recode!(v5::Pingreq::parse(body), body),
        13 => recode!(v5::Pingresp::parse(body), body),
        14 => recode!(v5::Disconnect::parse(body), body),
        15 => recode!(v5::Auth::parse(body), body),
        _ => Err("type".to_owned()),
    }
}

fn recode_v3(kind: u8, flags: u8, body: &[u8]) -> Result<Vec<u8>, String> {
    match kind {
        1 => recode!(v3::Connect::parse(body), body),
        2 => recode!(v3::Connack::parse(body), body),
        3 => recode!(v3::Publish::parse(flags, body.into()), body),
        4 => recode!(v3::Puback::parse(body), body),
        5 => recode!(v3::Pubrec::parse(body), body),
        6 => recode!(v3::Pubrel::parse(body), body),
        7 => recode!(v3::Pubcomp::parse(body), body),
        8 => recode!(v3::Subscribe::parse(body), body),
        9 => recode!(v3::Suback::parse(body), body),
        10 => recode!(v3::Unsubscribe::parse(body), body),
        11 => recode!(v3::Unsuback::parse(body), body),
        12 => recode!(v3::Pingreq::parse(body), body),
        13 => recode!(v3::Pingresp::parse(body), body),
        14 => recode!(v3::Disconnect::parse(body), body),
        _ => Err("type".to_owned()),
    }
}
