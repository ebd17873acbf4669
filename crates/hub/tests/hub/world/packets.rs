//! What clients send, and what they find that they received.

use stentor_mqtt::{
    Ack, Packet, PacketId, Properties, Property, PropertyBuf, Publish, QoS, ReasonCode, Sender,
    Subscribe, SubscribeFilterBuf, SubscribeOptions, Unsubscribe, UnsubscribeFilterBuf, Version,
    decode, encode, frame,
};

use super::{Message, World};

/// The properties of a message that expires.
pub fn expiring(secs: u32) -> PropertyBuf {
    let mut properties = PropertyBuf::new();
    properties.push(Property::MessageExpiryInterval(secs));
    properties
}

/// A subscription with this QoS, and nothing special.
pub fn qos(qos: QoS) -> SubscribeOptions {
    SubscribeOptions {
        qos,
        ..Default::default()
    }
}

impl World {
    pub fn send(&mut self, client: usize, packet: &Packet<'_>) {
        let bytes = encoded(self.clients[client].version, packet);
        self.send_bytes(client, &bytes);
    }

    pub fn subscribe(&mut self, client: usize, filter: &str, qos: QoS) -> u8 {
        self.subscribe_with(
            client,
            filter,
            SubscribeOptions {
                qos,
                ..Default::default()
            },
            None,
        )
    }

    pub fn subscribe_with(
        &mut self,
        client: usize,
        filter: &str,
        options: SubscribeOptions,
        id: Option<u32>,
    ) -> u8 {
        let mut properties = PropertyBuf::new();
        if let Some(id) = id {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        let suback = self.suback(client, filter, options, &properties);
        suback.map_or(0xFF, |bytes| *bytes.last().unwrap())
    }

    /// Subscribes with user properties; the whole SUBACK.
    pub fn subscribe_asking(
        &mut self,
        client: usize,
        filter: &str,
        level: QoS,
        pairs: &[(&str, &str)],
    ) -> Vec<u8> {
        let mut properties = PropertyBuf::new();
        for pair in pairs {
            properties.push(Property::UserProperty(*pair));
        }
        let suback = self.suback(client, filter, qos(level), &properties);
        suback.unwrap()
    }

    /// Subscribes; the SUBACK, if there is one.
    fn suback(
        &mut self,
        client: usize,
        filter: &str,
        options: SubscribeOptions,
        properties: &PropertyBuf,
    ) -> Option<Vec<u8>> {
        let mut filters = SubscribeFilterBuf::new(self.clients[client].version);
        filters.push(filter, options).unwrap();
        let packet = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: properties.as_properties(),
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
        self.take_packet(client, 0x90)
    }

    /// Subscribes to all of these by one packet; what the SUBACK says of each.
    pub fn subscribe_all(&mut self, client: usize, filters: &[String]) -> Vec<u8> {
        self.subscribe_all_only(client, filters);
        let suback = self.take_packet(client, 0x90).unwrap_or_default();
        suback[suback.len().saturating_sub(filters.len())..].to_vec()
    }

    /// The same, and waits for nothing.
    pub fn subscribe_all_only(&mut self, client: usize, filters: &[String]) {
        let mut all = SubscribeFilterBuf::new(self.clients[client].version);
        for filter in filters {
            all.push(filter, qos(QoS::AtMostOnce)).unwrap();
        }
        let packet = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: Properties::EMPTY,
            filters: all.as_filters(),
        });
        self.send(client, &packet);
    }

    /// Sends a SUBSCRIBE and waits for nothing.
    pub fn subscribe_only(
        &mut self,
        client: usize,
        packet_id: PacketId,
        filter: &str,
        options: SubscribeOptions,
    ) {
        let version = self.clients[client].version;
        let mut filters = SubscribeFilterBuf::new(version);
        filters.push(filter, options).unwrap();
        let packet = Packet::Subscribe(Subscribe {
            packet_id,
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
    }

    pub fn unsubscribe(&mut self, client: usize, filter: &str) {
        let mut filters = UnsubscribeFilterBuf::new();
        filters.push(filter).unwrap();
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        });
        self.send(client, &packet);
        assert!(self.take_packet(client, 0xB0).is_some(), "an UNSUBACK");
    }

    pub fn publish(&mut self, client: usize, topic: &str, payload: &str, qos: QoS, retain: bool) {
        self.publish_with(client, topic, payload, qos, retain, Properties::EMPTY);
    }

    pub fn publish_with(
        &mut self,
        client: usize,
        topic: &str,
        payload: &str,
        qos: QoS,
        retain: bool,
        properties: Properties<'_>,
    ) {
        let packet_id = (qos > QoS::AtMostOnce).then(|| PacketId::new(77).unwrap());
        let publish = Publish {
            dup: false,
            qos,
            retain,
            topic,
            packet_id,
            properties,
            payload: payload.as_bytes(),
        };
        self.send(client, &Packet::Publish(publish));
        if qos == QoS::ExactlyOnce && self.take_packet(client, 0x50).is_some() {
            self.send_ack(client, 0x60, packet_id.unwrap());
        }
    }

    /// PUBACK 0x40, PUBREC 0x50, PUBREL 0x60 or PUBCOMP 0x70.
    pub fn send_ack(&mut self, client: usize, kind: u8, packet_id: PacketId) {
        let ack = Ack {
            packet_id,
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        };
        let packet = match kind {
            0x40 => Packet::PubAck(ack),
            0x50 => Packet::PubRec(ack),
            0x60 => Packet::PubRel(ack),
            _ => Packet::PubComp(ack),
        };
        self.send(client, &packet);
    }

    pub fn receive_packet(&mut self, client: usize) -> Option<Vec<u8>> {
        self.clients[client].received.pop_front()
    }

    /// Takes the first packet of a type out of what a client received.
    pub fn take_packet(&mut self, client: usize, kind: u8) -> Option<Vec<u8>> {
        let received = &mut self.clients[client].received;
        let at = received
            .iter()
            .position(|packet| packet[0] & 0xF0 == kind)?;
        received.remove(at)
    }

    /// The reason code and the reason string of a PUBACK or PUBREC.
    pub fn take_ack(&mut self, client: usize, kind: u8) -> (u8, String) {
        let bytes = self.take_packet(client, kind).expect("an acknowledgement");
        let frame = frame(&bytes, u32::MAX).unwrap().unwrap();
        let (version, body) = (self.clients[client].version, &bytes[frame.header_len..]);
        match decode(version, Sender::Server, frame.first, body).unwrap() {
            Packet::PubAck(ack) | Packet::PubRec(ack) => {
                let text = ack.properties.reason_string().unwrap_or_default();
                (ack.reason as u8, text.to_owned())
            }
            other => panic!("{other:?}"),
        }
    }

    /// Takes all messages that a client received, without acknowledging them.
    pub fn take_messages(&mut self, client: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(bytes) = self.take_packet(client, 0x30) {
            messages.push(self.clients[client].parse(&bytes));
        }
        messages
    }

    pub fn take_payloads(&mut self, client: usize) -> Vec<String> {
        let text = |m: Message| String::from_utf8(m.payload).unwrap();
        self.take_messages(client).into_iter().map(text).collect()
    }
}

/// A packet as bytes.
pub fn encoded(version: Version, packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(version, packet, &mut bytes).unwrap();
    bytes
}

/// A PUBLISH of MQTT 5 at QoS 0 as bytes.
pub fn encoded_publish(topic: &str, payload: &[u8], properties: Properties<'_>) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic,
        packet_id: None,
        properties,
        payload,
    };
    encoded(Version::V5, &Packet::Publish(publish))
}
