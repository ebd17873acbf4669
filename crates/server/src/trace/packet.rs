//! A packet in words.

use std::fmt::Write as _;

use stentor_control::trace::{Line, Way};
use stentor_mqtt::{Frame, Packet, QoS, Sender, Version, decode};

/// Filters and codes of one packet that are named.
const NAMED_MAX: usize = 8;

/// Bytes of a topic or filter that are shown.
const SHOWN_BYTES_MAX: usize = 256;

/// A packet as far as it was kept: of a long one, the beginning.
pub(super) struct Seen<'a> {
    pub(super) frame: Frame,
    pub(super) body: &'a [u8],
    pub(super) version: Version,
    pub(super) way: Way,
}

/// What a packet says of topics.
pub(super) struct Topic<'a> {
    /// Empty where an alias stands for it.
    pub(super) name: &'a str,
    pub(super) alias: Option<u16>,
}

impl<'a> Seen<'a> {
    /// The packet. The payload of a long PUBLISH is shorter than it was, since it ends with the
    /// packet; another packet that was cut is `None`.
    pub(super) fn packet(&self) -> Option<Packet<'a>> {
        let sender = match self.way {
            Way::Received => Sender::Client,
            Way::Sent => Sender::Server,
        };
        decode(self.version, sender, self.frame.first, self.body).ok()
    }

    /// The line of a packet, with so much of the payload.
    pub(super) fn line(&self, packet: Option<&Packet<'_>>, payload_bytes: usize) -> Line {
        let mut line = Line {
            way: self.way,
            packet: packet.map_or("UNREADABLE", Packet::name).to_owned(),
            bytes: self.frame.total_len as u64,
            ..Line::default()
        };
        if let Some(packet) = packet {
            line.text = text(packet);
        }
        if let Some(Packet::Publish(publish)) = packet {
            let cut = self.frame.total_len - self.frame.header_len - self.body.len();
            let bytes = publish.payload.len() + cut;
            let _ = write!(line.text, " payload={bytes} bytes");
            if payload_bytes > 0 {
                let shown = publish
                    .payload
                    .get(..payload_bytes)
                    .unwrap_or(publish.payload);
                line.payload = Some(String::from_utf8_lossy(shown).into_owned());
            }
        }
        line
    }
}

/// What a PUBLISH says of its topic; `None` for other packets.
pub(super) fn topic<'a>(packet: &Packet<'a>) -> Option<Topic<'a>> {
    match packet {
        Packet::Publish(publish) => Some(Topic {
            name: publish.topic,
            alias: publish.properties.topic_alias(),
        }),
        _ => None,
    }
}

/// What a packet says besides its type, topic and payload.
fn text(packet: &Packet<'_>) -> String {
    match packet {
        Packet::ConnAck(it) => format!("reason={} present={}", it.reason, it.session_present),
        Packet::Publish(it) => {
            let mut text = format!("qos={}", it.qos as u8);
            if let Some(id) = it.packet_id {
                let _ = write!(text, " id={}", id.get());
            }
            for (is, word) in [(it.retain, " retain"), (it.dup, " dup")] {
                if is {
                    text.push_str(word);
                }
            }
            if let Some(alias) = it.properties.topic_alias() {
                let _ = write!(text, " alias={alias}");
            }
            text
        }
        Packet::PubAck(it) | Packet::PubRec(it) | Packet::PubRel(it) | Packet::PubComp(it) => {
            format!("id={} reason={}", it.packet_id.get(), it.reason)
        }
        Packet::Subscribe(it) => {
            let filters = it.filters.into_iter().map(|one| {
                let qos: QoS = one.options.qos;
                format!("{:?} qos={}", shown(one.filter), qos as u8)
            });
            format!("id={} {}", it.packet_id.get(), listed(filters))
        }
        Packet::Unsubscribe(it) => {
            let filters = it.filters.into_iter();
            let filters = filters.map(|filter| format!("{:?}", shown(filter)));
            format!("id={} {}", it.packet_id.get(), listed(filters))
        }
        Packet::SubAck(it) | Packet::UnsubAck(it) => {
            let codes = it.reasons.iter().map(|code| format!("0x{code:02X}"));
            format!("id={} {}", it.packet_id.get(), listed(codes))
        }
        Packet::Disconnect(it) | Packet::Auth(it) => format!("reason={}", it.reason),
        Packet::Connect(_) | Packet::PingReq | Packet::PingResp => String::new(),
    }
}

fn listed(mut all: impl Iterator<Item = String>) -> String {
    let named: Vec<String> = all.by_ref().take(NAMED_MAX).collect();
    let mut text = named.join(", ");
    let more = all.count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// A topic or filter, shortened if it is very long.
pub(super) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}
