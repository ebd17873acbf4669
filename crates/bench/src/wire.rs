//! The generator's own packed MQTT: builds the few packets that it sends and splits what it
//! receives, without an allocation per message. Deliberately not the server's codec, so that both
//! cannot share a mistake.

use clap::ValueEnum;

use crate::load::storm::{Round, fill_payload};

/// CONNACK, as the high half of the first byte.
pub(crate) const CONNACK: u8 = 2;
/// PUBLISH.
pub(crate) const PUBLISH: u8 = 3;
/// PUBACK.
pub(crate) const PUBACK: u8 = 4;
/// PUBREC.
pub(crate) const PUBREC: u8 = 5;
/// PUBREL.
pub(crate) const PUBREL: u8 = 6;
/// PUBCOMP.
pub(crate) const PUBCOMP: u8 = 7;
/// SUBSCRIBE.
pub(crate) const SUBSCRIBE: u8 = 8;
/// SUBACK.
pub(crate) const SUBACK: u8 = 9;
/// PINGREQ.
pub(crate) const PINGREQ: u8 = 12;
/// DISCONNECT.
pub(crate) const DISCONNECT: u8 = 14;
/// More of an enhanced authentication.
pub(crate) const AUTH: u8 = 15;

/// The protocol version that the generator speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// MQTT 3.1.1.
    #[value(name = "3.1.1", alias = "4", alias = "311")]
    V311,
    /// MQTT 5.0.
    #[value(name = "5", alias = "5.0")]
    V5,
}

impl Version {
    pub(crate) fn is_v5(self) -> bool {
        self == Self::V5
    }

    /// As users write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V311 => "3.1.1",
            Self::V5 => "5",
        }
    }
}

/// The credentials of a client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

/// What the front of a buffer holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole packet: its first byte, where its body begins, and where it ends.
    Whole { first: u8, body: usize, end: usize },
    /// More bytes are needed.
    Partial,
    /// A remaining length of more than four bytes [MQTT-1.5.5-1].
    Malformed,
}

/// Looks at the front of `input`.
#[inline]
pub(crate) fn frame(input: &[u8]) -> Frame {
    let (mut length, mut at) = (0_usize, 1_usize);
    loop {
        let Some(&byte) = input.get(at) else {
            return Frame::Partial;
        };
        length |= usize::from(byte & 0x7f) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if at > 4 {
            return Frame::Malformed;
        }
    }
    if input.len() - at < length {
        return Frame::Partial;
    }
    Frame::Whole {
        first: input[0],
        body: at,
        end: at + length,
    }
}

/// The two-byte number at `at`; `None` past the end.
#[inline]
pub(crate) fn u16_at(body: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*body.get(at)?, *body.get(at + 1)?]))
}

/// The parts of a PUBLISH packet that the generator looks at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Publish<'a> {
    pub(crate) qos: u8,
    pub(crate) topic: &'a [u8],
    /// 0 at QoS 0.
    pub(crate) packet_id: u16,
    pub(crate) payload: &'a [u8],
}

/// Takes the body of a PUBLISH packet apart; `None` if it is malformed.
#[inline]
pub(crate) fn publish(first: u8, body: &[u8], version: Version) -> Option<Publish<'_>> {
    let qos = first >> 1 & 3;
    let mut at = 2 + usize::from(u16_at(body, 0)?);
    let topic = body.get(2..at)?;
    let mut packet_id = 0;
    if qos > 0 {
        packet_id = u16_at(body, at)?;
        at += 2;
    }
    if version.is_v5() {
        let (length, taken) = varint(body.get(at..)?)?;
        at += taken + length;
    }
    Some(Publish {
        qos,
        topic,
        packet_id,
        payload: body.get(at..)?,
    })
}

/// A variable byte integer and the bytes it takes; `None` if it does not end within four.
pub(crate) fn varint(input: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (at, &byte) in input.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

fn push_varint(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // Topics, client ids, names and passwords of a benchmark are far below 65,535 bytes; a longer
    // one is cut, and the server refuses the packet.
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&bytes[..usize::from(length)]);
}

fn push_packet(out: &mut Vec<u8>, first: u8, body: &[u8]) {
    out.push(first);
    push_varint(out, body.len());
    out.extend_from_slice(body);
}

/// Seconds of keep-alive: longer than any measurement, so that no pings disturb it, and not "off",
/// since real clients cost their server a timer (and rumqttd refuses those that do not).
pub(crate) const KEEP_ALIVE_SECS: u16 = 3_600;

/// How long a session lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// It begins and ends with its connection.
    Connection,
    /// It goes on where it was, and never expires.
    Forever,
}

/// Appends a CONNECT.
pub(crate) fn push_connect(
    out: &mut Vec<u8>,
    version: Version,
    client_id: &str,
    login: &Login,
    lasts: Lasts,
) {
    let mut flags = match lasts {
        Lasts::Connection => 0x02,
        Lasts::Forever => 0,
    };
    flags |= if login.username.is_some() { 0x80 } else { 0 };
    flags |= if login.password.is_some() { 0x40 } else { 0 };
    let level = if version.is_v5() { 5 } else { 4 };
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', level, flags];
    body.extend_from_slice(&KEEP_ALIVE_SECS.to_be_bytes());
    match (version.is_v5(), lasts) {
        (false, _) => {}
        (true, Lasts::Connection) => body.push(0),
        // Session Expiry Interval.
        (true, Lasts::Forever) => body.extend_from_slice(&[5, 0x11, 0xff, 0xff, 0xff, 0xff]),
    }
    push_bytes(&mut body, client_id.as_bytes());
    for field in [&login.username, &login.password].into_iter().flatten() {
        push_bytes(&mut body, field.as_bytes());
    }
    push_packet(out, 0x10, &body);
}

/// Appends a CONNECT of MQTT 5 that begins an enhanced authentication.
pub(crate) fn push_connect_by(out: &mut Vec<u8>, client_id: &str, method: &str, data: &[u8]) {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, 0x02];
    body.extend_from_slice(&KEEP_ALIVE_SECS.to_be_bytes());
    push_method(&mut body, method, data);
    push_bytes(&mut body, client_id.as_bytes());
    push_packet(out, 0x10, &body);
}

/// Appends an AUTH with that reason code.
pub(crate) fn push_auth(out: &mut Vec<u8>, reason: u8, method: &str, data: &[u8]) {
    let mut body = vec![reason];
    push_method(&mut body, method, data);
    push_packet(out, AUTH << 4, &body);
}

/// Appends the properties Authentication Method and Data.
fn push_method(out: &mut Vec<u8>, method: &str, data: &[u8]) {
    let mut properties = vec![0x15];
    push_bytes(&mut properties, method.as_bytes());
    properties.push(0x16);
    push_bytes(&mut properties, data);
    push_varint(out, properties.len());
    out.extend_from_slice(&properties);
}

/// The method and the data of an AUTH packet's body.
pub(crate) fn auth(body: &[u8]) -> Result<(&str, &[u8]), String> {
    let malformed = || "the server sent a malformed AUTH".to_owned();
    let properties = property_section(body, 1).ok_or_else(malformed)?;
    let method = property(properties, 0x15).and_then(|text| std::str::from_utf8(text).ok());
    let data = property(properties, 0x16);
    method.zip(data).ok_or_else(malformed)
}

/// The authentication data of a CONNACK's body, if it has any.
pub(crate) fn connack_data(body: &[u8]) -> Option<&[u8]> {
    property(property_section(body, 2)?, 0x16)
}

/// The data that begins an exchange in a CONNECT's body, and the method.
pub(crate) fn connect_method(body: &[u8]) -> Option<(&str, &[u8])> {
    let properties = property_section(body, 10)?;
    let method = std::str::from_utf8(property(properties, 0x15)?).ok()?;
    Some((method, property(properties, 0x16)?))
}

/// The properties that begin at `at`.
fn property_section(body: &[u8], at: usize) -> Option<&[u8]> {
    let rest = body.get(at..)?;
    let (len, taken) = varint(rest)?;
    rest.get(taken..taken + len)
}

/// The bytes of a text or binary property.
fn property(mut properties: &[u8], wanted: u8) -> Option<&[u8]> {
    while let Some((&id, rest)) = properties.split_first() {
        let size = property_size(id, rest)?;
        if id == wanted {
            return rest.get(2..size);
        }
        properties = rest.get(size..)?;
    }
    None
}

/// The length of a property's value.
fn property_size(id: u8, rest: &[u8]) -> Option<usize> {
    Some(match id {
        0x11 | 0x27 => 4,
        0x13 | 0x21 | 0x22 => 2,
        0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => 1,
        0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => 2 + usize::from(u16_at(rest, 0)?),
        0x26 => {
            let name = 2 + usize::from(u16_at(rest, 0)?);
            name + 2 + usize::from(u16_at(rest, name)?)
        }
        _ => return None,
    })
}

/// Appends a SUBSCRIBE with one filter.
pub(crate) fn push_subscribe(
    out: &mut Vec<u8>,
    version: Version,
    packet_id: u16,
    filter: &str,
    qos: u8,
) {
    let properties = usize::from(version.is_v5());
    out.push(SUBSCRIBE << 4 | 2);
    push_varint(out, 2 + properties + 2 + filter.len() + 1);
    out.extend_from_slice(&packet_id.to_be_bytes());
    out.extend_from_slice(&[0][..properties]);
    push_bytes(out, filter.as_bytes());
    out.push(qos);
}

/// Whether the SUBACK of one filter grants what was asked for, or why not: a server that does less
/// is not compared with those that do it.
pub(crate) fn granted(suback: &[u8], asked: u8) -> Result<(), String> {
    match suback.last() {
        Some(&code) if code == asked => Ok(()),
        Some(code @ 0..=2) => Err(format!(
            "the server granted QoS {code} where {asked} was asked for"
        )),
        Some(code) => Err(format!(
            "the server refused the subscription (0x{code:02x})"
        )),
        None => Err("the server sent a malformed SUBACK".into()),
    }
}

/// Appends a PUBLISH with RETAIN and QoS 0, whose payload tells its topic: see
/// [`fill_payload`](crate::load::storm::fill_payload).
pub(crate) fn push_retained(out: &mut Vec<u8>, v5: bool, topic: &[u8], payload: usize) {
    out.push(PUBLISH << 4 | 1);
    push_varint(out, 2 + topic.len() + usize::from(v5) + payload);
    push_bytes(out, topic);
    if v5 {
        out.push(0);
    }
    let from = out.len();
    out.resize(from + payload, 0);
    fill_payload(Round::Canned, topic, &mut out[from..]);
}

/// Appends a PUBLISH with QoS 0 made of another's topic, with its length, and what follows it.
pub(crate) fn push_echo(out: &mut Vec<u8>, topic: &[u8], rest: &[u8]) {
    out.push(PUBLISH << 4);
    push_varint(out, topic.len() + rest.len());
    out.extend_from_slice(topic);
    out.extend_from_slice(rest);
}

/// Appends a four-byte acknowledgement; PUBREL has its reserved bits set [MQTT-3.6.1-1].
#[inline]
pub(crate) fn push_ack(out: &mut Vec<u8>, kind: u8, packet_id: u16) {
    let first = kind << 4 | if kind == PUBREL { 2 } else { 0 };
    let [high, low] = packet_id.to_be_bytes();
    out.extend_from_slice(&[first, 2, high, low]);
}

/// A PUBLISH packet made once and patched per message.
#[derive(Clone, Debug)]
pub(crate) struct PublishTemplate {
    bytes: Vec<u8>,
    packet_id_at: Option<usize>,
    payload_at: usize,
}

impl PublishTemplate {
    /// A message of `payload_len` bytes of filler.
    pub(crate) fn new(
        version: Version,
        topic: &str,
        qos: u8,
        retain: bool,
        payload_len: usize,
    ) -> Self {
        let mut body = Vec::with_capacity(topic.len() + 8 + payload_len);
        push_bytes(&mut body, topic.as_bytes());
        let id_at = body.len();
        if qos > 0 {
            body.extend_from_slice(&[0, 0]);
        }
        if version.is_v5() {
            body.push(0);
        }
        let payload_from_end = payload_len;
        body.resize(body.len() + payload_len, b'.');
        let mut bytes = Vec::new();
        push_packet(
            &mut bytes,
            PUBLISH << 4 | qos << 1 | u8::from(retain),
            &body,
        );
        let body_at = bytes.len() - body.len();
        Self {
            packet_id_at: (qos > 0).then_some(body_at + id_at),
            payload_at: bytes.len() - payload_from_end,
            bytes,
        }
    }

    /// Bytes of each payload.
    pub(crate) const fn payload_len(&self) -> usize {
        self.bytes.len() - self.payload_at
    }

    /// Appends one message; `fill` writes the payload.
    #[inline]
    pub(crate) fn push(&self, out: &mut Vec<u8>, packet_id: u16, fill: impl FnOnce(&mut [u8])) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(at) = self.packet_id_at {
            out[start + at..start + at + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
        fill(&mut out[start + self.payload_at..]);
    }
}

/// What a server demands of a client that it lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// Whether it had a session of this client.
    pub(crate) is_present: bool,
    /// QoS 1 and 2 messages that it takes at once; 65,535 in 3.1.1.
    pub(crate) receive_maximum: u16,
    /// What takes the place of the keep alive that the client asked for, in seconds
    /// [MQTT-3.2.2-21]; 0 is none.
    pub(crate) keep_alive_secs: u16,
}

impl Accepted {
    /// As if it had said nothing.
    const SILENT: Self = Self {
        is_present: false,
        receive_maximum: u16::MAX,
        keep_alive_secs: KEEP_ALIVE_SECS,
    };
}

/// Whether a CONNACK's body accepts, and what it demands then.
pub(crate) fn connack(body: &[u8], version: Version) -> Result<Accepted, String> {
    match body.get(1) {
        Some(0) => {}
        Some(code) => {
            return Err(refused(*code));
        }
        None => return Err("the server sent a malformed CONNACK".into()),
    }
    let mut accepted = Accepted::SILENT;
    accepted.is_present = body[0] & 1 == 1;
    let properties = match version.is_v5() {
        true => property_section(body, 2).unwrap_or_default(),
        false => &[],
    };
    if let Some(number) = number_property(properties, 0x21) {
        accepted.receive_maximum = number;
    }
    if let Some(number) = number_property(properties, 0x13) {
        accepted.keep_alive_secs = number;
    }
    Ok(accepted)
}

/// What helps where a login is refused for who logs in.
pub(crate) const LOGIN_REMEDY: &str = "; the benchmark logs in without a user, or with a wrong \
                                       one: give one by --target mqtt://USER:PW@HOST:PORT";

/// What is said of a refused login.
fn refused(code: u8) -> String {
    let remedy = match code {
        // Of MQTT 3.1.1 and 5.0: bad user name or password, not authorized.
        0x04 | 0x05 | 0x86 | 0x87 => LOGIN_REMEDY,
        _ => "",
    };
    format!("the server refused the login with code 0x{code:02x}{remedy}")
}

/// A property that is a two-byte number.
fn number_property(mut properties: &[u8], wanted: u8) -> Option<u16> {
    while let Some((&id, rest)) = properties.split_first() {
        if id == wanted {
            return u16_at(rest, 0);
        }
        properties = rest.get(property_size(id, rest)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_at_any_boundary() {
        let mut bytes = Vec::new();
        push_packet(&mut bytes, 0x30, &[7; 200]);
        for cut in 0..bytes.len() {
            assert_eq!(frame(&bytes[..cut]), Frame::Partial, "{cut}");
        }
        assert_eq!(
            frame(&bytes),
            Frame::Whole {
                first: 0x30,
                body: 3,
                end: 203
            }
        );
        assert_eq!(
            frame(&[0x30, 0xff, 0xff, 0xff, 0xff, 0x01]),
            Frame::Malformed
        );
        assert_eq!(
            frame(&[0xd0, 0]),
            Frame::Whole {
                first: 0xd0,
                body: 2,
                end: 2
            }
        );
    }

    #[test]
    fn published_messages_come_apart_again() {
        for version in [Version::V311, Version::V5] {
            for qos in 0..3 {
                let template = PublishTemplate::new(version, "a/b", qos, false, 30);
                let mut bytes = Vec::new();
                template.push(&mut bytes, 0x1234, |payload| {
                    payload[..2].copy_from_slice(b"hi")
                });
                let Frame::Whole { first, body, end } = frame(&bytes) else {
                    panic!("partial")
                };
                let publish = publish(first, &bytes[body..end], version).unwrap();
                assert_eq!((publish.qos, publish.topic), (qos, &b"a/b"[..]));
                assert_eq!(publish.packet_id, if qos > 0 { 0x1234 } else { 0 });
                assert_eq!(
                    (publish.payload.len(), &publish.payload[..3]),
                    (template.payload_len(), &b"hi."[..])
                );
                assert_eq!(template.payload_len(), 30);
            }
        }
    }

    #[test]
    fn truncated_publishes_are_malformed() {
        assert_eq!(publish(0x30, &[0, 5, b'a'], Version::V311), None);
        assert_eq!(publish(0x32, &[0, 1, b'a', 0], Version::V311), None);
        assert_eq!(publish(0x30, &[0, 1, b'a'], Version::V5), None);
    }

    #[test]
    fn a_session_lasts_as_long_as_it_is_told_to() {
        let connect = |version, lasts| {
            let mut out = Vec::new();
            push_connect(&mut out, version, "c", &Login::default(), lasts);
            out
        };
        for (version, lasts, flags, properties) in [
            (Version::V311, Lasts::Connection, 2, &[][..]),
            (Version::V311, Lasts::Forever, 0, &[]),
            (Version::V5, Lasts::Connection, 2, &[0]),
            (
                Version::V5,
                Lasts::Forever,
                0,
                &[5, 0x11, 255, 255, 255, 255],
            ),
        ] {
            let packet = connect(version, lasts);
            assert_eq!(packet[9], flags, "{version:?} {lasts:?}");
            assert_eq!(packet[12..], [properties, &[0, 1, b'c']].concat());
        }
        let is_present = |byte| connack(&[byte, 0], Version::V311).unwrap().is_present;
        assert!(is_present(1) && !is_present(0));
    }

    #[test]
    fn demands_are_found_among_other_properties() {
        let accepted = |receive_maximum, keep_alive_secs| {
            Ok(Accepted {
                is_present: false,
                receive_maximum,
                keep_alive_secs,
            })
        };
        let body = [0, 0, 11, 0x24, 1, 0x26, 0, 1, b'k', 0, 0, 0x21, 0, 20];
        assert_eq!(connack(&body, Version::V5), accepted(20, 3_600));
        let body = [0, 0, 8, 0x21, 0, 20, 0x24, 1, 0x13, 1, 4];
        assert_eq!(connack(&body, Version::V5), accepted(20, 260));
        // Older servers have no properties, whatever follows.
        assert_eq!(connack(&body, Version::V311), accepted(u16::MAX, 3_600));
        let silent = accepted(u16::MAX, 3_600);
        assert_eq!(connack(&[0, 0, 0], Version::V5), silent);
        assert_eq!(connack(&[0, 0], Version::V311), silent);
        assert!(connack(&[0, 5], Version::V311).is_err());
        assert!(connack(&[], Version::V311).is_err());
    }

    #[test]
    fn less_than_what_was_asked_for_is_not_granted() {
        for (suback, asked, expected) in [
            (&[0, 1, 0][..], 0, Ok(())),
            (&[0, 1, 2], 2, Ok(())),
            (&[0, 1, 0, 1], 1, Ok(())),
            (&[0, 1, 0], 1, Err("granted QoS 0 where 1 was asked for")),
            (&[0, 1, 2], 1, Err("granted QoS 2 where 1 was asked for")),
            (&[0, 1, 0x80], 0, Err("refused the subscription (0x80)")),
            (&[0, 1, 0, 0x87], 1, Err("refused the subscription (0x87)")),
            (&[], 0, Err("malformed SUBACK")),
        ] {
            match (granted(suback, asked), expected) {
                (Ok(()), Ok(())) => {}
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                (told, _) => panic!("{suback:?} for {asked}: {told:?}"),
            }
        }
    }

    #[test]
    fn connect_and_subscribe_are_laid_out_as_specified() {
        let mut out = Vec::new();
        let login = Login {
            username: Some("u".into()),
            password: Some("p".into()),
        };
        push_connect(&mut out, Version::V311, "c", &login, Lasts::Connection);
        assert_eq!(
            out,
            b"\x10\x13\x00\x04MQTT\x04\xc2\x0e\x10\x00\x01c\x00\x01u\x00\x01p"
        );
        out.clear();
        push_subscribe(&mut out, Version::V5, 9, "t", 1);
        assert_eq!(out, b"\x82\x07\x00\x09\x00\x00\x01t\x01");
        out.clear();
        push_ack(&mut out, PUBREL, 258);
        assert_eq!(out, b"\x62\x02\x01\x02");
    }
}
