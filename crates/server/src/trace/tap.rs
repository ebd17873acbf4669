//! What a shard does for traces: it looks at the packets of connections that they are about.

use std::collections::HashMap;
use std::sync::Arc;

use stentor_control::trace::Way;
use stentor_hub::connections::connected_as;
use stentor_hub::{Hub, SessionKey};
use stentor_mqtt::{Frame, Version, frame, frame_header};
use stentor_session::{Batch, Tick};

use super::Trace;
use super::names::{Names, Room};
use super::packet::{Seen, shown, topic};
use crate::peer::Peer;

/// Bytes of a packet that are kept.
const KEPT_BYTES: usize = 4 * 1024;

/// Memory that a connection keeps for its next packet.
const HELD_BYTES: usize = 64;

/// What is known of a connection, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nobody has looked since the traces changed, or since it began.
    Nothing,
    /// No trace is about it.
    Other,
    Tapped,
}

/// The connections of a shard that traces are about. A connection is looked up when something goes
/// in or out for the first time.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    traces: Vec<Arc<Trace>>,
    known: Vec<Known>,
    taps: HashMap<u32, Tap>,
    /// For the names of all.
    room: Room,
}

impl Taps {
    /// Whether any trace runs.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        !self.traces.is_empty()
    }

    /// Other traces run from now on.
    pub(crate) fn set(&mut self, traces: Vec<Arc<Trace>>) {
        self.traces = traces;
        if self.is_on() {
            self.known.fill(Known::Nothing);
        } else {
            // Nothing is kept for traces that have ended.
            *self = Self::default();
        }
    }

    /// A connection begins in this place.
    pub(crate) fn begin(&mut self, index: u32) {
        self.remove(index);
        *self.place(index) = Known::Nothing;
    }

    fn remove(&mut self, index: u32) {
        if let Some(tap) = self.taps.remove(&index) {
            tap.names.forget(&mut self.room);
        }
    }

    /// Drops traces that have ended, and what was kept for them alone.
    fn drop_ended(&mut self, now: Tick) {
        if self.traces.iter().any(|trace| trace.is_over(now)) {
            let mut traces = std::mem::take(&mut self.traces);
            traces.retain(|trace| !trace.is_over(now));
            self.set(traces);
        }
    }

    fn place(&mut self, index: u32) -> &mut Known {
        let index = index as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, Known::Nothing);
        }
        &mut self.known[index]
    }

    /// Looks whether a connection is traced, before its packets are taken or written.
    pub(crate) fn look(&mut self, hub: &Hub, index: u32, key: SessionKey, now: Tick, peer: Peer) {
        self.drop_ended(now);
        if !self.is_on() || *self.place(index) != Known::Nothing {
            return;
        }
        let Some(who) = connected_as(hub, key) else {
            return;
        };
        let about = self
            .traces
            .iter()
            .filter(|one| one.rule.is_about(&who, peer));
        let traces: Vec<Arc<Trace>> = about.cloned().collect();
        if traces.is_empty() {
            self.remove(index);
            *self.place(index) = Known::Other;
            return;
        }
        let tap = self.taps.entry(index);
        let tap = tap.or_insert_with(|| Tap::new(who.client_id, who.version));
        tap.traces = traces;
        *self.place(index) = Known::Tapped;
    }

    fn tap(&mut self, index: u32) -> Option<(&mut Tap, &mut Room)> {
        let known = self.known.get(index as usize);
        match known == Some(&Known::Tapped) {
            true => self.taps.get_mut(&index).map(|tap| (tap, &mut self.room)),
            false => None,
        }
    }

    /// Whole packets came from a connection.
    pub(crate) fn received(&mut self, index: u32, now: Tick, bytes: &[u8]) {
        if let Some((tap, room)) = self.tap(index) {
            tap.received(now, bytes, room);
        }
    }

    /// The first bytes of a batch went to a connection.
    pub(crate) fn sent(&mut self, index: u32, now: Tick, batch: &Batch, written: usize) {
        if let Some((tap, room)) = self.tap(index) {
            tap.sent(now, batch, written, room);
        }
    }
}

/// A connection that is traced.
#[derive(Debug)]
struct Tap {
    client_id: Box<str>,
    version: Version,
    traces: Vec<Arc<Trace>>,
    stream: Stream,
    names: Names,
}

/// What goes out, put together to packets.
#[derive(Debug)]
enum Stream {
    /// It is not known where the next packet begins: a batch says it.
    Between,
    Packet {
        /// The beginning of the packet.
        held: Vec<u8>,
        /// Bytes of the one before that are passed over.
        passed: usize,
    },
}

impl Stream {
    /// The next packet begins behind these bytes.
    const fn behind(passed: usize) -> Self {
        Self::Packet {
            held: Vec::new(),
            passed,
        }
    }

    /// Takes the next bytes, and calls `each` with every packet that is whole or long enough.
    fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Frame, &[u8])) {
        let Self::Packet { held, passed } = self else {
            return;
        };
        loop {
            let over = bytes.len().min(*passed);
            (*passed, bytes) = (*passed - over, &bytes[over..]);
            let Ok(frame) = frame_header(held, u32::MAX) else {
                *self = Self::Between;
                return;
            };
            // The header first, byte by byte.
            let wanted = frame.map_or(held.len() + 1, |frame| {
                frame.total_len.min(frame.header_len + KEPT_BYTES)
            });
            if let Some(frame) = frame.filter(|_| held.len() >= wanted) {
                each(frame, &held[frame.header_len..]);
                *passed = frame.total_len - held.len();
                held.clear();
                held.shrink_to(HELD_BYTES);
                continue;
            }
            if bytes.is_empty() {
                return;
            }
            let more = bytes.len().min(wanted - held.len());
            held.extend_from_slice(&bytes[..more]);
            bytes = &bytes[more..];
        }
    }
}

impl Tap {
    fn new(client_id: &str, version: Version) -> Self {
        Self {
            client_id: client_id.into(),
            version,
            traces: Vec::new(),
            stream: Stream::Between,
            names: Names::default(),
        }
    }

    fn received(&mut self, now: Tick, mut bytes: &[u8], room: &mut Room) {
        while let Ok(Some(frame)) = frame(bytes, u32::MAX) {
            let Some(body) = bytes.get(frame.header_len..frame.total_len) else {
                return;
            };
            let kept = &body[..body.len().min(KEPT_BYTES)];
            self.packet(now, frame, kept, Way::Received, room);
            bytes = &bytes[frame.total_len..];
        }
    }

    fn sent(&mut self, now: Tick, batch: &Batch, written: usize, room: &mut Room) {
        let mut stream = std::mem::replace(&mut self.stream, Stream::Between);
        if let Stream::Between = stream {
            stream = Stream::behind(batch.begun_len());
        }
        let mut left = written;
        for piece in batch.slices() {
            let piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            stream.take(piece, |frame, body| {
                self.packet(now, frame, body, Way::Sent, room);
            });
        }
        self.stream = stream;
    }

    fn packet(&mut self, now: Tick, frame: Frame, body: &[u8], way: Way, room: &mut Room) {
        let seen = Seen {
            frame,
            body,
            version: self.version,
            way,
        };
        let packet = seen.packet();
        let topic = packet.as_ref().and_then(topic);
        let named = topic.and_then(|topic| self.names.name(&topic, way, room));
        for trace in &self.traces {
            trace.note(now, named.as_deref(), |payload_bytes| {
                let mut line = seen.line(packet.as_ref(), payload_bytes);
                line.client_id = shown(&self.client_id).to_owned();
                line.topic = named.as_deref().map(|name| shown(name).to_owned());
                line
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use stentor_mqtt::{Ack, Packet, PacketId, Properties, Publish, QoS, ReasonCode, encode};

    use super::*;

    fn packets() -> Vec<u8> {
        let mut bytes = Vec::new();
        let id = PacketId::new(7);
        let long = "x".repeat(3 * KEPT_BYTES);
        for payload in ["first", &long, "third"] {
            let publish = Packet::Publish(Publish {
                dup: false,
                qos: QoS::AtLeastOnce,
                retain: false,
                topic: "a/b",
                packet_id: id,
                properties: Properties::default(),
                payload: payload.as_bytes(),
            });
            encode(Version::V311, &publish, &mut bytes).unwrap();
        }
        let ack = Packet::PubAck(Ack {
            packet_id: id.unwrap(),
            reason: ReasonCode::Success,
            properties: Properties::default(),
        });
        encode(Version::V311, &ack, &mut bytes).unwrap();
        bytes
    }

    /// In pieces of any length, each packet is seen once, and a long one by its beginning.
    #[test]
    fn what_goes_out_is_put_together_to_packets() {
        let bytes = packets();
        for piece in [1, 2, 3, 1_000, KEPT_BYTES, bytes.len()] {
            let (mut stream, mut seen) = (Stream::behind(0), Vec::new());
            for piece in bytes.chunks(piece) {
                stream.take(piece, |frame, body| {
                    let seen_of = Seen {
                        frame,
                        body,
                        version: Version::V311,
                        way: Way::Sent,
                    };
                    let line = seen_of.line(seen_of.packet().as_ref(), 5);
                    seen.push((line.packet, line.text, line.payload, line.bytes));
                });
            }
            let told: Vec<String> = seen.iter().map(|it| format!("{it:?}")).collect();
            assert_eq!(
                told,
                [
                    r#"("PUBLISH", "qos=1 id=7 payload=5 bytes", Some("first"), 14)"#,
                    r#"("PUBLISH", "qos=1 id=7 payload=12288 bytes", Some("xxxxx"), 12298)"#,
                    r#"("PUBLISH", "qos=1 id=7 payload=5 bytes", Some("third"), 14)"#,
                    r#"("PUBACK", "id=7 reason=success", None, 4)"#,
                ],
                "{piece}"
            );
        }
    }

    #[test]
    fn nothing_is_taken_for_a_packet_that_begins_in_the_middle_of_one() {
        let mut stream = Stream::Between;
        stream.take(&packets(), |_, _| panic!("nobody knows where it begins"));
        let (mut seen, bytes) = (0, packets());
        let mut behind = Stream::behind(3);
        behind.take(&[&[0, 1, 2], &bytes[..]].concat(), |_, _| seen += 1);
        assert_eq!(seen, 4);
        let mut broken = Stream::behind(0);
        broken.take(&[0x00, 0x00], |_, _| panic!("0 is no packet"));
        assert!(matches!(broken, Stream::Between));
    }
}
