//! The connection of a session inside the server: MQTT 5, from behind its CONNECT.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;

use stentor_mqtt::{
    Ack, ConnAck, DecodeError, Packet, PacketId, Properties, Publish, QoS, ReasonCode, Sender,
    SubAck, Subscribe, SubscribeFilterBuf, SubscribeOptions, Version, decode, encode, frame,
    frame_header,
};
use tokio::net::UnixStream;

use super::held::{Charge, StreamHeld};

/// Bytes that one read takes at most, unless they are of one packet.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of one long packet that one read takes at most.
const LONG_READ_BYTES: usize = 64 * 1024;

/// The largest packet that comes: the session has said so.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// Number of the one SUBSCRIBE.
const SUBSCRIBE_ID: u16 = 1;

/// A session that is read.
pub(crate) struct Feed {
    stream: UnixStream,
    /// Bytes that came; those before `parsed` are dealt with. They are a long packet, or a few
    /// short ones.
    input: Vec<u8>,
    parsed: usize,
    /// Counts the input.
    counted: Charge,
    held: StreamHeld,
    /// Acknowledgements that wait to be sent.
    output: Vec<u8>,
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard<'f> {
    /// The session has begun, under this client id, or not.
    Begun(Result<String, Said>),
    /// For each filter, the QoS, or why it is refused.
    Subscribed(Vec<Result<u8, Said>>),
    /// A message.
    Message(Publish<'f>),
    /// The server ends the session.
    Ended(Said),
}

/// A reason, and what the server says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) reason: ReasonCode,
    pub(crate) text: String,
}

impl Said {
    fn new(reason: ReasonCode, properties: Properties<'_>) -> Self {
        let text = properties.reason_string().unwrap_or_else(|| reason.name());
        Self {
            reason,
            text: text.to_owned(),
        }
    }
}

impl Feed {
    /// Of a connection whose first packet is the CONNACK.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn new(stream: StdUnixStream, held: &StreamHeld) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            input: Vec::new(),
            parsed: 0,
            counted: held.charge(0),
            held: held.clone(),
            output: Vec::new(),
        })
    }

    /// Waits until more has come. It may be given up at any time.
    ///
    /// # Errors
    /// When the connection has ended, or what comes is not MQTT.
    pub(crate) async fn fill(&mut self) -> io::Result<()> {
        self.give_back();
        loop {
            self.stream.readable().await?;
            let before = self.input.len();
            let (room, most) = self.room_to_read()?;
            if before + room > self.input.capacity() {
                self.held.room_for(room).await;
                self.counted.set(before + room);
                self.input.reserve_exact(room);
                self.counted.set(self.input.capacity());
            }
            self.input.resize(before + most, 0);
            let read = self.stream.try_read(&mut self.input[before..]);
            let count = read.as_ref().copied().unwrap_or(0);
            self.input.truncate(before + count);
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How much room what may come next takes: the rest of a long packet and no more, or a few
    /// short ones. And how many bytes of it to read.
    fn room_to_read(&self) -> io::Result<(usize, usize)> {
        let wrong = |_| io::Error::from(io::ErrorKind::InvalidData);
        let long = frame_header(&self.input, PACKET_BYTES_MAX).map_err(wrong)?;
        let missing = long.map_or(0, |frame| frame.total_len.saturating_sub(self.input.len()));
        Ok(match missing > READ_BYTES {
            true => (missing, missing.min(LONG_READ_BYTES)),
            false if self.input.len() > READ_BYTES => (missing.max(1), missing.max(1)),
            false => (READ_BYTES, READ_BYTES),
        })
    }

    /// Gives back the memory of the packets that are dealt with.
    pub(crate) fn give_back(&mut self) {
        self.input.drain(..self.parsed);
        self.parsed = 0;
        self.input.shrink_to(2 * READ_BYTES);
        self.counted.set(self.input.capacity());
    }

    /// The next thing that has come already.
    ///
    /// # Errors
    /// When it is not MQTT.
    pub(crate) fn next(&mut self) -> Result<Option<Heard<'_>>, DecodeError> {
        loop {
            let rest = &self.input[self.parsed..];
            let Some(frame) = frame(rest, PACKET_BYTES_MAX)? else {
                return Ok(None);
            };
            let body = &rest[frame.header_len..frame.total_len];
            let packet = decode(Version::V5, Sender::Server, frame.first, body)?;
            if let Packet::Publish(publish) = &packet {
                acknowledge(publish, &mut self.output);
            }
            self.parsed += frame.total_len;
            let heard = heard(packet);
            if heard.is_some() {
                return Ok(heard);
            }
        }
    }

    /// Subscribes.
    ///
    /// # Errors
    /// When a filter is too long, or the connection has ended.
    pub(crate) async fn subscribe(&mut self, filters: &[String], qos: QoS) -> io::Result<()> {
        let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let options = SubscribeOptions {
            qos,
            ..SubscribeOptions::default()
        };
        let mut buffer = SubscribeFilterBuf::new(Version::V5);
        for filter in filters {
            buffer.push(filter, options).map_err(wrong)?;
        }
        let Some(packet_id) = PacketId::new(SUBSCRIBE_ID) else {
            return Ok(());
        };
        let packet = Packet::Subscribe(Subscribe {
            packet_id,
            properties: Properties::EMPTY,
            filters: buffer.as_filters(),
        });
        encode(Version::V5, &packet, &mut self.output).map_err(wrong)?;
        self.flush().await
    }

    /// Acknowledges the messages that have come.
    ///
    /// # Errors
    /// When the connection has ended.
    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            self.stream.writable().await?;
            match self.stream.try_write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        self.output.clear();
        Ok(())
    }

    /// Says that the session ends because nobody wants it any more.
    pub(crate) fn leave(self) {
        const DISCONNECT: [u8; 2] = [0xE0, 0];
        // It ends either way.
        let _ = self.stream.try_write(&DISCONNECT);
    }
}

/// What a packet says, if that is anything.
fn heard(packet: Packet<'_>) -> Option<Heard<'_>> {
    match packet {
        Packet::ConnAck(ConnAck {
            reason, properties, ..
        }) => Some(Heard::Begun(match reason.is_error() {
            true => Err(Said::new(reason, properties)),
            false => Ok(properties
                .assigned_client_id()
                .unwrap_or_default()
                .to_owned()),
        })),
        Packet::SubAck(answer) => Some(Heard::Subscribed(granted(&answer))),
        Packet::Publish(publish) => Some(Heard::Message(publish)),
        Packet::Disconnect(disconnect) => Some(Heard::Ended(Said::new(
            disconnect.reason,
            disconnect.properties,
        ))),
        _ => None,
    }
}

fn granted(answer: &SubAck<'_>) -> Vec<Result<u8, Said>> {
    let one = |byte: &u8| match ReasonCode::from_u8(*byte) {
        Some(reason) if !reason.is_error() => Ok(*byte),
        reason => Err(Said::new(
            reason.unwrap_or(ReasonCode::UnspecifiedError),
            answer.properties,
        )),
    };
    answer.reasons.iter().map(one).collect()
}

/// The acknowledgement of a message of QoS 1; no others are subscribed to.
fn acknowledge(publish: &Publish<'_>, out: &mut Vec<u8>) {
    let (QoS::AtLeastOnce, Some(packet_id)) = (publish.qos, publish.packet_id) else {
        return;
    };
    let packet = Packet::PubAck(Ack {
        packet_id,
        reason: ReasonCode::Success,
        properties: Properties::EMPTY,
    });
    let encoded = encode(Version::V5, &packet, out);
    debug_assert!(encoded.is_ok(), "it has no text");
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::held::Held;
    use stentor_mqtt::PropertyBuf;
    use tokio::runtime::Builder;

    use super::*;

    fn publish(payload: &[u8]) -> Vec<u8> {
        let properties = PropertyBuf::new();
        let packet = Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: false,
            topic: "a",
            packet_id: None,
            properties: properties.as_properties(),
            payload,
        });
        let mut bytes = Vec::new();
        encode(Version::V5, &packet, &mut bytes).expect("it is a packet");
        bytes
    }

    /// Of a long packet no more is held than its bytes, and nothing when it is dealt with. What
    /// follows it waits in the socket.
    #[test]
    fn a_long_packet_is_held_once_and_given_back() {
        let runtime = Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let held = Held::default();
            let (ours, mut theirs) = StdUnixStream::pair().expect("a pair of sockets");
            let mut feed = Feed::new(ours, &held.stream()).expect("it can be read");
            let lengths = [10, 1_040_000, 20_000, READ_BYTES, 10, 1_000_000, 40_000, 10];
            let packets = lengths.map(|length| publish(&vec![b'x'; length]));
            let all = packets.concat();
            let writer = std::thread::spawn(move || theirs.write_all(&all));
            let mut came = Vec::new();
            while came.len() < lengths.len() {
                while let Some(heard) = feed.next().expect("it is MQTT") {
                    let Heard::Message(publish) = heard else {
                        panic!("only messages come: {heard:?}");
                    };
                    came.push(publish.payload.len());
                }
                assert_eq!(held.bytes(), feed.input.capacity() as u64);
                feed.give_back();
                assert_eq!(held.bytes(), feed.input.capacity() as u64);
                let Some(next) = lengths.get(came.len()) else {
                    break;
                };
                feed.fill().await.expect("more comes");
                let most = next + 2 * READ_BYTES + 100;
                assert!(held.bytes() <= most as u64, "{} > {most}", held.bytes());
            }
            assert_eq!(came, lengths);
            assert!(held.bytes() <= 2 * READ_BYTES as u64, "{}", held.bytes());
            drop(feed);
            assert_eq!(held.bytes(), 0);
            writer.join().expect("it ends").expect("all is read");
        });
    }
}
