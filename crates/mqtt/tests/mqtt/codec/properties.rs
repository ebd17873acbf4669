//! Every property in every packet, from both sides, with good and bad values.

use crate::codec::support::{hex, parse, props};
use stentor_mqtt::DecodeErrorKind as K;
use stentor_mqtt::Sender::{Client, Server};
use stentor_mqtt::Version::V5;
use stentor_mqtt::{EncodeError, Property, PropertyBuf, QoS, ReasonCode, Sender, forwardable};

/// One of each, in order of the identifiers.
const SAMPLES: [Property<'static>; 27] = [
    Property::PayloadFormatIndicator(true),
    Property::MessageExpiryInterval(0x0102_0304),
    Property::ContentType("text/plain"),
    Property::ResponseTopic("re/ply"),
    Property::CorrelationData(&[0, 0xFF]),
    Property::SubscriptionIdentifier(200),
    Property::SessionExpiryInterval(u32::MAX),
    Property::AssignedClientIdentifier("id"),
    Property::ServerKeepAlive(30),
    Property::AuthenticationMethod("SCRAM"),
    Property::AuthenticationData(&[1]),
    Property::RequestProblemInformation(false),
    Property::WillDelayInterval(7),
    Property::RequestResponseInformation(true),
    Property::ResponseInformation("base"),
    Property::ServerReference("other:1883"),
    Property::ReasonString("because"),
    Property::ReceiveMaximum(1),
    Property::TopicAliasMaximum(0),
    Property::TopicAlias(65_535),
    Property::MaximumQoS(QoS::AtMostOnce),
    Property::RetainAvailable(true),
    Property::UserProperty(("name", "")),
    Property::MaximumPacketSize(1),
    Property::WildcardSubscriptionAvailable(true),
    Property::SubscriptionIdentifiersAvailable(false),
    Property::SharedSubscriptionAvailable(true),
];

/// Puts properties into a packet: what precedes their length and what follows them.
struct Carrier {
    name: &'static str,
    from: Sender,
    first: u8,
    before: &'static [u8],
    after: &'static [u8],
    /// Identifiers that table 2-4 gives this packet, for this side.
    allowed: &'static [u8],
}

const CARRIERS: [Carrier; 22] = [
    carrier(
        "CONNECT",
        Client,
        0x10,
        b"\0\x04MQTT\x05\x02\0\0",
        b"\0\x01a",
        &[17, 21, 22, 23, 25, 33, 34, 38, 39],
    ),
    carrier(
        "will",
        Client,
        0x10,
        b"\0\x04MQTT\x05\x06\0\0\0\0\x01a",
        b"\0\x01w\0\0",
        &[1, 2, 3, 8, 9, 24, 38],
    ),
    carrier(
        "CONNACK",
        Server,
        0x20,
        &[0, 0],
        &[],
        &[
            17, 18, 19, 21, 22, 26, 28, 31, 33, 34, 36, 37, 38, 39, 40, 41, 42,
        ],
    ),
    carrier(
        "PUBLISH",
        Client,
        0x30,
        b"\0\x01t",
        &[],
        &[1, 2, 3, 8, 9, 35, 38],
    ),
    carrier(
        "PUBLISH",
        Server,
        0x30,
        b"\0\x01t",
        &[],
        &[1, 2, 3, 8, 9, 11, 35, 38],
    ),
    carrier("PUBACK", Client, 0x40, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBACK", Server, 0x40, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBREC", Client, 0x50, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBREC", Server, 0x50, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBREL", Client, 0x62, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBREL", Server, 0x62, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBCOMP", Client, 0x70, &[0, 1, 0], &[], &[31, 38]),
    carrier("PUBCOMP", Server, 0x70, &[0, 1, 0], &[], &[31, 38]),
    carrier("SUBSCRIBE", Client, 0x82, &[0, 1], b"\0\x01f\0", &[11, 38]),
    carrier("SUBACK", Server, 0x90, &[0, 1], &[0], &[31, 38]),
    carrier("UNSUBSCRIBE", Client, 0xA2, &[0, 1], b"\0\x01f", &[38]),
    carrier("UNSUBACK", Server, 0xB0, &[0, 1], &[0], &[31, 38]),
    carrier("DISCONNECT", Client, 0xE0, &[0], &[], &[17, 31, 38]),
    carrier("DISCONNECT", Server, 0xE0, &[0], &[], &[28, 31, 38]),
    carrier("AUTH", Client, 0xF0, &[0x19], &[], &[21, 22, 31, 38]),
    carrier("AUTH", Server, 0xF0, &[0x18], &[], &[21, 22, 31, 38]),
    carrier(
        "AUTH success",
        Server,
        0xF0,
        &[0x00],
        &[],
        &[21, 22, 31, 38],
    ),
];

const fn carrier(
    name: &'static str,
    from: Sender,
    first: u8,
    before: &'static [u8],
    after: &'static [u8],
    allowed: &'static [u8],
) -> Carrier {
    Carrier {
        name,
        from,
        first,
        before,
        after,
        allowed,
    }
}

impl Carrier {
    fn with(&self, raw: &[u8]) -> Vec<u8> {
        let mut packet = vec![self.first, 0];
        packet.extend_from_slice(self.before);
        assert!(raw.len() < 128, "one byte of property length");
        packet.push(raw.len() as u8);
        packet.extend_from_slice(raw);
        packet.extend_from_slice(self.after);
        packet[1] = (packet.len() - 2) as u8;
        packet
    }

    fn outcome(&self, raw: &[u8]) -> Result<(), K> {
        parse(V5, self.from, &self.with(raw))
            .map(drop)
            .map_err(|error| error.kind)
    }

    /// The authentication method where a packet is not valid without it.
    fn base(&self, id: u8) -> Vec<u8> {
        let needs_method = (self.first == 0xF0 && id != 21) || (self.first == 0x10 && id == 22);
        if needs_method && self.allowed.contains(&21) {
            vec![21, 0, 1, b'm']
        } else {
            Vec::new()
        }
    }
}

/// [MQTT5 2.2.2.2] Table 2-4: each property once in each packet.
#[test]
fn every_property_in_every_packet() {
    for carrier in &CARRIERS {
        for sample in SAMPLES {
            let id = sample.id();
            let mut raw = carrier.base(id);
            raw.extend_from_slice(props(&[sample]).raw());
            let expected = match (carrier.name, id) {
                _ if carrier.allowed.contains(&id) => Ok(()),
                ("PUBLISH", 11) => Err(K::SubscriptionIdFromClient),
                ("DISCONNECT", 17) => Err(K::SessionExpiryFromServer),
                ("DISCONNECT", 28) => Err(K::ServerReferenceFromClient),
                _ => Err(K::PropertyNotAllowed),
            };
            assert_eq!(
                carrier.outcome(&raw),
                expected,
                "{} from {:?}: {sample:?}",
                carrier.name,
                carrier.from
            );
        }
    }
}

/// [MQTT5 2.2.2.2] Twice is a protocol error, but for user properties [MQTT-3.1.3-10] and for the
/// subscription identifiers of a server's PUBLISH [MQTT-3.3.4-4].
#[test]
fn every_property_twice() {
    for carrier in &CARRIERS {
        for sample in SAMPLES
            .into_iter()
            .filter(|sample| carrier.allowed.contains(&sample.id()))
        {
            let mut raw = carrier.base(sample.id());
            raw.extend_from_slice(props(&[sample, sample]).raw());
            let may_repeat = sample.id() == 38 || (carrier.name == "PUBLISH" && sample.id() == 11);
            let expected = if may_repeat {
                Ok(())
            } else {
                Err(K::PropertyDuplicate)
            };
            assert_eq!(
                carrier.outcome(&raw),
                expected,
                "{}: {sample:?}",
                carrier.name
            );
        }
    }
}

/// [MQTT5 2.2.2.2] All 256 identifiers, and identifiers of two bytes.
#[test]
fn undefined_properties_are_malformed() {
    for carrier in &CARRIERS {
        for id in 0..128u8 {
            if SAMPLES.iter().all(|sample| sample.id() != id) {
                assert_eq!(
                    carrier.outcome(&[id, 0, 0, 0, 0]),
                    Err(K::PropertyUnknown),
                    "{id}"
                );
            }
        }
        assert_eq!(carrier.outcome(&[0x80, 0x01]), Err(K::PropertyUnknown));
        assert_eq!(carrier.outcome(&[0x81, 0x00, 1]), Err(K::VarIntNotMinimal));
        assert_eq!(carrier.outcome(&[0x80]), Err(K::Truncated));
    }
}

/// Every value cut short at every byte is malformed.
#[test]
fn truncated_values_are_malformed() {
    for carrier in &CARRIERS {
        for sample in SAMPLES
            .into_iter()
            .filter(|sample| carrier.allowed.contains(&sample.id()))
        {
            let whole = props(&[sample]);
            for len in 1..whole.raw().len() {
                let outcome = carrier.outcome(&whole.raw()[..len]);
                assert_eq!(
                    outcome,
                    Err(K::Truncated),
                    "{}: {sample:?} at {len}",
                    carrier.name
                );
            }
        }
    }
}

/// Values that a property's type could hold but its meaning forbids.
#[test]
fn values_out_of_range() {
    let rows: [(&str, &[u8], K, ReasonCode); 15] = [
        (
            "payload format 2",
            &[1, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "request problem 2",
            &[23, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "request response 255",
            &[25, 255],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "maximum QoS 2",
            &[36, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "maximum QoS 3",
            &[36, 3],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "retain available 2",
            &[37, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "wildcard available 2",
            &[40, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "identifiers available 2",
            &[41, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "shared available 2",
            &[42, 2],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "receive maximum 0",
            &[33, 0, 0],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "maximum packet size 0",
            &[39, 0, 0, 0, 0],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "subscription identifier 0",
            &[11, 0],
            K::PropertyValue,
            ReasonCode::ProtocolError,
        ),
        (
            "topic alias 0",
            &[35, 0, 0],
            K::TopicAliasZero,
            ReasonCode::TopicAliasInvalid,
        ),
        (
            "response topic empty",
            &[8, 0, 0],
            K::ResponseTopicInvalid,
            ReasonCode::ProtocolError,
        ),
        (
            "response topic +",
            &[8, 0, 1, b'+'],
            K::ResponseTopicInvalid,
            ReasonCode::ProtocolError,
        ),
    ];
    for (name, raw, kind, reason) in rows {
        let mut tried = 0;
        for carrier in CARRIERS
            .iter()
            .filter(|carrier| carrier.allowed.contains(&raw[0]))
        {
            let error = parse(V5, carrier.from, &carrier.with(raw)).expect_err(name);
            assert_eq!(
                (error.kind, error.reason()),
                (kind, reason),
                "{}: {name}",
                carrier.name
            );
            tried += 1;
        }
        assert!(tried > 0, "{name}: no packet carries it");
    }
}

/// [MQTT-1.5.4-1] [MQTT-1.5.4-2] [MQTT-1.5.7-1] In every text of every packet.
#[test]
fn texts_are_utf8_without_nul() {
    for carrier in &CARRIERS {
        for id in [3, 8, 18, 21, 26, 28, 31]
            .into_iter()
            .filter(|id| carrier.allowed.contains(id))
        {
            assert_eq!(
                carrier.outcome(&[id, 0, 1, 0xFF]),
                Err(K::Utf8),
                "{} {id}",
                carrier.name
            );
            assert_eq!(
                carrier.outcome(&[id, 0, 1, 0x00]),
                Err(K::Nul),
                "{} {id}",
                carrier.name
            );
        }
        for raw in [[38, 0, 1, 0xFF, 0, 1, b'v'], [38, 0, 1, b'n', 0, 1, 0xFF]] {
            assert_eq!(carrier.outcome(&raw), Err(K::Utf8), "{}", carrier.name);
        }
        for raw in [[38, 0, 1, 0x00, 0, 1, b'v'], [38, 0, 1, b'n', 0, 1, 0x00]] {
            assert_eq!(carrier.outcome(&raw), Err(K::Nul), "{}", carrier.name);
        }
    }
}

/// Builder, iterator and finders agree; a name may stand twice and the order is kept.
#[test]
fn built_properties_are_found_again() {
    let mut all = SAMPLES.to_vec();
    all.push(Property::UserProperty(("name", "again")));
    all.push(Property::SubscriptionIdentifier(3));
    let built = props(&all);
    assert_eq!(built.iter().collect::<Vec<_>>(), all);
    assert_eq!(
        built.user_properties().collect::<Vec<_>>(),
        [("name", ""), ("name", "again")]
    );
    assert_eq!(built.subscription_ids().collect::<Vec<_>>(), [200, 3]);
    assert_eq!(built.payload_format(), Some(true));
    assert_eq!(built.message_expiry(), Some(0x0102_0304));
    assert_eq!(built.content_type(), Some("text/plain"));
    assert_eq!(built.response_topic(), Some("re/ply"));
    assert_eq!(built.correlation_data(), Some(&[0, 0xFF][..]));
    assert_eq!(built.subscription_id(), Some(200));
    assert_eq!(built.session_expiry(), Some(u32::MAX));
    assert_eq!(built.assigned_client_id(), Some("id"));
    assert_eq!(built.server_keep_alive(), Some(30));
    assert_eq!(built.auth_method(), Some("SCRAM"));
    assert_eq!(built.auth_data(), Some(&[1][..]));
    assert_eq!(built.request_problem_info(), Some(false));
    assert_eq!(built.will_delay(), Some(7));
    assert_eq!(built.request_response_info(), Some(true));
    assert_eq!(built.response_info(), Some("base"));
    assert_eq!(built.server_reference(), Some("other:1883"));
    assert_eq!(built.reason_string(), Some("because"));
    assert_eq!(built.receive_maximum(), Some(1));
    assert_eq!(built.topic_alias_maximum(), Some(0));
    assert_eq!(built.topic_alias(), Some(65_535));
    assert_eq!(built.maximum_qos(), Some(QoS::AtMostOnce));
    assert_eq!(built.retain_available(), Some(true));
    assert_eq!(built.maximum_packet_size(), Some(1));
    assert_eq!(built.wildcard_subscription_available(), Some(true));
    assert_eq!(built.subscription_ids_available(), Some(false));
    assert_eq!(built.shared_subscription_available(), Some(true));
    let none = props(&[]);
    assert!(none.is_empty());
    assert_eq!(none.topic_alias(), None);
}

/// [MQTT-3.3.2-4] [MQTT-3.3.2-15] [MQTT-3.3.2-16] [MQTT-3.3.2-17] [MQTT-3.3.2-18] [MQTT-3.3.2-20]
#[test]
fn forwarded_properties_are_unaltered_and_in_order() {
    let mut list = SAMPLES.to_vec();
    list.insert(0, Property::UserProperty(("z", "1")));
    list.push(Property::UserProperty(("a", "2")));
    let mut out = vec![0xEE];
    forwardable(props(&list), &mut out);
    let expected = props(&[
        Property::UserProperty(("z", "1")),
        Property::PayloadFormatIndicator(true),
        Property::ContentType("text/plain"),
        Property::ResponseTopic("re/ply"),
        Property::CorrelationData(&[0, 0xFF]),
        Property::UserProperty(("name", "")),
        Property::UserProperty(("a", "2")),
    ]);
    assert_eq!(out[0], 0xEE);
    assert_eq!(hex(&out[1..]), hex(expected.raw()));
}

/// What does not fit is refused and leaves the rest alone.
#[test]
fn values_that_do_not_fit() {
    let long = "x".repeat(65_536);
    let mut buf = PropertyBuf::new();
    buf.push(Property::ReceiveMaximum(1));
    let before = buf.clone();
    let too_long = Err(EncodeError::StringTooLong { bytes: 65_536 });
    assert_eq!(buf.try_push(Property::ReasonString(&long)), too_long);
    assert_eq!(buf.try_push(Property::UserProperty(("a", &long))), too_long);
    assert_eq!(
        buf.try_push(Property::CorrelationData(long.as_bytes())),
        too_long
    );
    assert_eq!(
        buf.try_push(Property::SubscriptionIdentifier(268_435_456)),
        Err(EncodeError::IntegerTooLarge { value: 268_435_456 })
    );
    assert_eq!(buf, before);
    assert_eq!(buf.try_push(Property::ReasonString(&long[1..])), Ok(()));
    assert_eq!(buf.as_properties().reason_string(), Some(&long[1..]));
    buf.clear();
    assert!(buf.is_empty());
}
