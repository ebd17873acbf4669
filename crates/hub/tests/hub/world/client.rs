//! A client: its connection, and what came in by it.

use std::collections::VecDeque;

use stentor_hub::{LinkId, SessionKey};
use stentor_mqtt::{Packet, PacketId, QoS, Sender, Version, decode, frame};
use stentor_session::CloseReason;

/// A client as the test sees it.
pub struct Client {
    pub version: Version,
    pub shard: u8,
    pub link: Option<LinkId>,
    pub key: Option<SessionKey>,
    /// Bytes that its socket still takes; tests lower it to play a slow reader.
    pub socket_room: usize,
    input: Vec<u8>,
    /// What it has sent while its connection was held, to be read later.
    pub(super) unread: Vec<u8>,
    /// Whole packets, as their bytes.
    pub received: VecDeque<Vec<u8>>,
    pub closed: Option<CloseReason>,
}

/// What a client received, owned.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Message {
    pub topic: String,
    pub payload: Vec<u8>,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub packet_id: Option<PacketId>,
    pub expiry: Option<u32>,
    pub ids: Vec<u32>,
}

impl Client {
    /// It has a link and no session yet.
    pub(super) fn new(version: Version, shard: u8, link: LinkId) -> Self {
        Self {
            version,
            shard,
            link: Some(link),
            key: None,
            socket_room: usize::MAX,
            input: Vec::new(),
            unread: Vec::new(),
            received: VecDeque::new(),
            closed: None,
        }
    }

    /// Cuts the packets out of bytes that its socket took.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while let Some(frame) = frame(&self.input, u32::MAX).unwrap() {
            let rest = self.input.split_off(frame.total_len);
            let packet = std::mem::replace(&mut self.input, rest);
            decode(
                self.version,
                Sender::Server,
                packet[0],
                &packet[frame.header_len..],
            )
            .expect("the hub sends valid packets");
            self.received.push_back(packet);
        }
    }

    pub fn parse(&self, bytes: &[u8]) -> Message {
        let frame = frame(bytes, u32::MAX).unwrap().unwrap();
        let body = &bytes[frame.header_len..];
        match decode(self.version, Sender::Server, frame.first, body).unwrap() {
            Packet::Publish(publish) => Message {
                topic: publish.topic.to_owned(),
                payload: publish.payload.to_vec(),
                qos: publish.qos,
                retain: publish.retain,
                dup: publish.dup,
                packet_id: publish.packet_id,
                expiry: publish.properties.message_expiry(),
                ids: publish.properties.subscription_ids().collect(),
            },
            other => panic!("expected PUBLISH, got {other:?}"),
        }
    }
}
