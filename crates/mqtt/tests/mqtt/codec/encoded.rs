//! One publish for many subscribers: every copy is what `encode` would have written.

use std::slice::SliceIndex;

use crate::codec::support::{Server, hex, id, parse, props};
use proptest::prelude::*;
use stentor_mqtt::{
    EncodeError, EncodedPublish, Packet, Property, PropertyBuf, Publish, PublishParts, QoS,
    Version, encode, first_byte,
};

/// A message and one subscriber of it.
#[derive(Clone, Debug)]
struct Delivery {
    version: Version,
    topic: String,
    payload: Vec<u8>,
    user: Vec<(String, String)>,
    ids: Vec<u32>,
    expiry: Option<u32>,
    qos: QoS,
    retain: bool,
    dup: bool,
    packet_id: u16,
    alias: u16,
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    let message = (
        prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)],
        "[a-z/]{1,40}",
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            // Around the sizes at which the remaining length grows.
            (16_300usize..16_500).prop_map(|len| vec![1; len]),
        ],
        proptest::collection::vec(("[a-z]{0,9}", "[a-z]{0,90}"), 0..3),
        proptest::collection::vec(1u32..=268_435_455, 0..4),
        any::<Option<u32>>(),
    );
    let subscriber = (0u8..3, any::<bool>(), any::<bool>(), 1u16.., 1u16..);
    (message, subscriber).prop_map(
        |((version, topic, payload, user, ids, expiry), (qos, retain, dup, packet_id, alias))| {
            let qos = QoS::from_bits(qos).expect("below 3");
            let dup = dup && qos > QoS::AtMostOnce;
            Delivery {
                version,
                topic,
                payload,
                user,
                ids,
                expiry,
                qos,
                retain,
                dup,
                packet_id,
                alias,
            }
        },
    )
}

/// [`EncodedPublish::new`] or [`EncodedPublish::head`].
type Encode = fn(Version, &PublishParts<'_>, bool) -> Result<EncodedPublish, EncodeError>;

impl Delivery {
    fn has_packet_id(&self) -> bool {
        self.qos > QoS::AtMostOnce
    }

    fn first(&self) -> u8 {
        first_byte(self.qos, self.retain, self.dup)
    }

    fn encoded(&self) -> EncodedPublish {
        self.encoded_by(EncodedPublish::new)
    }

    /// The user properties from one on.
    fn properties(
        &self,
        range: impl SliceIndex<[(String, String)], Output = [(String, String)]>,
    ) -> PropertyBuf {
        let mut properties = PropertyBuf::new();
        for (name, value) in self.user.get(range).unwrap_or_default() {
            properties.push(Property::UserProperty((name, value)));
        }
        properties
    }

    /// What follows the head of a message that stays where it is.
    fn tail(&self) -> Vec<u8> {
        let properties = self.properties(1..);
        let properties = match self.version.is_v5() {
            true => properties.as_properties().raw(),
            false => &[],
        };
        [properties, &self.payload].concat()
    }

    fn encoded_by(&self, encode: Encode) -> EncodedPublish {
        let (added, forwarded) = (self.properties(..1), self.properties(1..));
        let parts = PublishParts {
            topic: &self.topic,
            payload: &self.payload,
            properties: forwarded.as_properties().raw(),
            added_properties: added.as_properties().raw(),
            subscription_ids: &self.ids,
            has_expiry: self.expiry.is_some(),
        };
        encode(self.version, &parts, self.has_packet_id()).expect("fits")
    }

    /// What goes into a copy: 3.x has no expiry.
    fn patches(&self) -> (Option<stentor_mqtt::PacketId>, Option<u32>) {
        let packet_id = self.has_packet_id().then(|| id(self.packet_id));
        (packet_id, self.expiry.filter(|_| self.version.is_v5()))
    }

    /// The same by way of `encode`.
    fn expected(&self, alias: Option<u16>, with_topic: bool) -> Vec<u8> {
        let mut properties = PropertyBuf::new();
        alias
            .into_iter()
            .for_each(|alias| properties.push(Property::TopicAlias(alias)));
        self.expiry
            .into_iter()
            .for_each(|secs| properties.push(Property::MessageExpiryInterval(secs)));
        for &id in &self.ids {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        for (name, value) in &self.user {
            properties.push(Property::UserProperty((name, value)));
        }
        let packet = Packet::Publish(Publish {
            dup: self.dup,
            qos: self.qos,
            retain: self.retain,
            topic: if with_topic { &self.topic } else { "" },
            packet_id: self.patches().0,
            properties: properties.as_properties(),
            payload: &self.payload,
        });
        let mut out = Vec::new();
        encode(self.version, &packet, &mut out).expect("fits");
        out
    }
}

proptest! {
    #[test]
    fn copy_is_what_encode_writes(delivery in deliveries()) {
        let encoded = delivery.encoded();
        let (packet_id, expiry) = delivery.patches();
        let expected = delivery.expected(None, true);
        // Two copies into one buffer, as a flush gathers them.
        let mut out = Vec::new();
        encoded.append_to(&mut out, delivery.first(), packet_id, expiry);
        encoded.append_to(&mut out, delivery.first(), packet_id, expiry);
        prop_assert_eq!(hex(&out[..out.len() / 2]), hex(&expected));
        prop_assert_eq!(hex(&out[out.len() / 2..]), hex(&expected));
        prop_assert_eq!(encoded.wire_len(), expected.len());
        prop_assert_eq!(encoded.topic(), &delivery.topic);
        prop_assert_eq!(encoded.payload(), &delivery.payload[..]);
        prop_assert_eq!(encoded.has_packet_id(), delivery.has_packet_id());
    }

    #[test]
    fn head_and_payload_make_the_packet(delivery in deliveries()) {
        let encoded = delivery.encoded();
        let (packet_id, expiry) = delivery.patches();
        let mut out = vec![0xEE];
        encoded.append_head_to(&mut out, delivery.first(), packet_id, expiry);
        prop_assert_eq!(out.len() - 1, encoded.head_len());
        out.extend_from_slice(encoded.payload());
        prop_assert_eq!(hex(&out[1..]), hex(&delivery.expected(None, true)));
    }

    /// What stays where it is changes nothing but that it is not there.
    #[test]
    fn a_head_is_a_packet_without_its_tail(
        delivery in deliveries(), with_topic in any::<bool>(),
    ) {
        let (whole, head) = (delivery.encoded(), delivery.encoded_by(EncodedPublish::head));
        let (packet_id, expiry) = delivery.patches();
        let lens = |it: &EncodedPublish| {
            (it.wire_len(), it.payload_len(), it.aliased_len(with_topic))
        };
        prop_assert_eq!(lens(&whole), lens(&head));
        let tail = delivery.tail();
        prop_assert_eq!((head.tail_len(), head.owned_len()), (tail.len(), head.head_len()));
        prop_assert_eq!(whole.tail_len(), whole.payload_len());
        prop_assert_eq!(head.topic(), whole.topic());
        prop_assert_eq!(head.payload(), b"");
        let mut out = Vec::new();
        head.append_head_to(&mut out, delivery.first(), packet_id, expiry);
        out.extend_from_slice(&tail);
        prop_assert_eq!(hex(&out), hex(&delivery.expected(None, true)));
        if delivery.version.is_v5() {
            let (first, alias) = (delivery.first(), delivery.alias);
            let mut out = Vec::new();
            head.append_head_aliased(&mut out, first, packet_id, expiry, alias, with_topic);
            out.extend_from_slice(&tail);
            prop_assert_eq!(hex(&out), hex(&delivery.expected(Some(alias), with_topic)));
        }
    }

    /// [MQTT-3.3.2-7] With the topic name to teach the alias, without to use it.
    #[test]
    fn aliased_head_and_payload_make_the_packet(
        delivery in deliveries().prop_filter("5.0 only", |delivery| delivery.version.is_v5()),
        with_topic in any::<bool>(),
    ) {
        let encoded = delivery.encoded();
        let (packet_id, expiry) = delivery.patches();
        let mut out = vec![0xEE];
        let first = delivery.first();
        encoded.append_head_aliased(&mut out, first, packet_id, expiry, delivery.alias, with_topic);
        out.extend_from_slice(encoded.payload());
        prop_assert_eq!(hex(&out[1..]), hex(&delivery.expected(Some(delivery.alias), with_topic)));
        prop_assert_eq!(encoded.aliased_len(with_topic), out.len() - 1);
        prop_assert!(parse(delivery.version, Server, &out[1..]).is_ok());
    }
}

/// [MQTT5 3.3.1] All first bytes of PUBLISH.
#[test]
fn first_bytes() {
    assert_eq!(first_byte(QoS::AtMostOnce, false, false), 0x30);
    assert_eq!(first_byte(QoS::AtMostOnce, true, false), 0x31);
    assert_eq!(first_byte(QoS::AtLeastOnce, false, false), 0x32);
    assert_eq!(first_byte(QoS::ExactlyOnce, true, true), 0x3D);
}

/// The variant for 3.x leaves out what only 5.0 has.
#[test]
fn properties_do_not_reach_3_1_1() {
    let parts = PublishParts {
        topic: "t",
        payload: b"x",
        properties: props(&[Property::UserProperty(("a", "b"))]).raw(),
        added_properties: &[],
        subscription_ids: &[1],
        has_expiry: true,
    };
    let encoded = EncodedPublish::new(Version::V311, &parts, false).unwrap();
    assert!(!encoded.has_expiry());
    let mut out = Vec::new();
    encoded.append_to(&mut out, 0x30, None, None);
    assert_eq!(hex(&out), "300400017478");
    assert!(format!("{encoded:?}").contains("wire_len: 6"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let long = "t".repeat(65_536);
    let parts = PublishParts {
        topic: &long,
        payload: b"",
        properties: &[],
        added_properties: &[],
        subscription_ids: &[],
        has_expiry: false,
    };
    assert_eq!(
        EncodedPublish::new(Version::V5, &parts, false),
        Err(EncodeError::StringTooLong { bytes: 65_536 })
    );
    let parts = PublishParts {
        topic: "t",
        subscription_ids: &[268_435_456],
        ..parts
    };
    assert_eq!(
        EncodedPublish::new(Version::V5, &parts, false),
        Err(EncodeError::IntegerTooLarge { value: 268_435_456 })
    );
    let payload = vec![0; 268_435_455 - 3];
    let parts = PublishParts {
        payload: &payload,
        subscription_ids: &[],
        ..parts
    };
    assert!(EncodedPublish::new(Version::V311, &parts, false).is_ok());
    assert_eq!(
        EncodedPublish::new(Version::V311, &parts, true),
        Err(EncodeError::PacketTooLarge { bytes: 268_435_457 })
    );
}
