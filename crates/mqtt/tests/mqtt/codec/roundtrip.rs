//! Packets of every kind through `encode`, `frame` and `decode`.

use crate::codec::support::{Client, Server, id, parse};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use stentor_mqtt::{
    Ack, ConnAck, Connect, Disconnect, Packet, Property, PropertyBuf, Publish, QoS, ReasonCode,
    RetainHandling, Sender, SubAck, Subscribe, SubscribeFilterBuf, SubscribeOptions, Unsubscribe,
    UnsubscribeFilterBuf, Version, Will, encode,
};

fn versions() -> impl Strategy<Value = Version> {
    prop_oneof![Just(Version::V31), Just(Version::V311), Just(Version::V5)]
}

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![
        Just(QoS::AtMostOnce),
        Just(QoS::AtLeastOnce),
        Just(QoS::ExactlyOnce)
    ]
}

fn handling() -> impl Strategy<Value = RetainHandling> {
    prop_oneof![
        Just(RetainHandling::Send),
        Just(RetainHandling::SendIfNew),
        Just(RetainHandling::DoNotSend)
    ]
}

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,20}"
}

fn topic() -> impl Strategy<Value = String> {
    "[^\0+#]{1,30}"
}

/// User properties, and one more that the packet may carry.
fn properties(one: impl Fn(&mut PropertyBuf) + Clone) -> impl Strategy<Value = PropertyBuf> {
    (any::<bool>(), vec((text(), text()), 0..3)).prop_map(move |(has_one, pairs)| {
        let mut buf = PropertyBuf::new();
        if has_one {
            one(&mut buf);
        }
        for (name, value) in &pairs {
            buf.push(Property::UserProperty((name, value)));
        }
        buf
    })
}

/// 3.x drops properties and reasons; what is left has to come back.
#[track_caller]
fn check(version: Version, from: Sender, packet: &Packet<'_>) {
    let mut bytes = Vec::new();
    encode(version, packet, &mut bytes).expect("fits");
    assert_eq!(
        parse(version, from, &bytes).as_ref(),
        Ok(packet),
        "{bytes:02x?}"
    );
}

fn of_version(version: Version, properties: &PropertyBuf) -> stentor_mqtt::Properties<'_> {
    if version.is_v5() {
        properties.as_properties()
    } else {
        stentor_mqtt::Properties::EMPTY
    }
}

proptest! {
    #[test]
    fn connect(
        version in versions(),
        flags in any::<(bool, bool, u16)>(),
        client_id in "[^\0]{1,30}",
        will in option::of((qos(), any::<bool>(), topic(), vec(any::<u8>(), 0..30))),
        username in option::of(text()),
        password in option::of(vec(any::<u8>(), 0..20)),
        properties in properties(|buf| buf.push(Property::SessionExpiryInterval(9))),
        will_properties in properties(|buf| buf.push(Property::WillDelayInterval(9))),
    ) {
        let (bridge, clean_start, keep_alive_secs) = flags;
        let packet = Packet::Connect(Connect {
            version,
            bridge: bridge && !version.is_v5(),
            clean_start,
            keep_alive_secs,
            client_id: &client_id,
            will: will.as_ref().map(|(qos, retain, topic, payload)| Will {
                qos: *qos,
                retain: *retain,
                topic,
                payload,
                properties: of_version(version, &will_properties),
            }),
            username: username.as_deref(),
            password: password.as_deref().filter(|_| version.is_v5() || username.is_some()),
            properties: of_version(version, &properties),
        });
        check(version, Client, &packet);
    }

    #[test]
    fn connack(
        version in versions(),
        present in any::<bool>(),
        code in 0u8..6,
        properties in properties(|buf| buf.push(Property::ServerKeepAlive(9))),
    ) {
        let packet = Packet::ConnAck(ConnAck {
            session_present: present && code == 0 && version != Version::V31,
            reason: ReasonCode::from_connect_return_code(code).unwrap(),
            properties: of_version(version, &properties),
        });
        check(version, Server, &packet);
    }

    #[test]
    fn publish(
        version in versions(),
        from_server in any::<bool>(),
        qos in qos(),
        (dup, retain, packet_id) in (any::<bool>(), any::<bool>(), 1u16..),
        topic in topic(),
        payload in vec(any::<u8>(), 0..300),
        properties in properties(|buf| buf.push(Property::TopicAlias(9))),
    ) {
        let has_id = qos > QoS::AtMostOnce;
        let packet = Packet::Publish(Publish {
            dup: dup && has_id,
            qos,
            retain,
            topic: &topic,
            packet_id: has_id.then(|| id(packet_id)),
            properties: of_version(version, &properties),
            payload: &payload,
        });
        check(version, if from_server { Server } else { Client }, &packet);
    }

    #[test]
    fn acks(
        version in versions(),
        which in 0usize..4,
        failed in any::<bool>(),
        packet_id in 1u16..,
        properties in properties(|buf| buf.push(Property::ReasonString("x"))),
    ) {
        let variant = [Packet::PubAck, Packet::PubRec, Packet::PubRel, Packet::PubComp][which];
        let failure = match which {
            0 | 1 => ReasonCode::QuotaExceeded,
            _ => ReasonCode::PacketIdentifierNotFound,
        };
        let packet = variant(Ack {
            packet_id: id(packet_id),
            reason: if failed && version.is_v5() { failure } else { ReasonCode::Success },
            properties: of_version(version, &properties),
        });
        check(version, Client, &packet);
        check(version, Server, &packet);
    }

    #[test]
    fn subscribe(
        version in versions(),
        packet_id in 1u16..,
        filters in vec(("[^\0$]{1,20}", qos(), any::<(bool, bool)>(), handling()), 1..5),
        properties in properties(|buf| buf.push(Property::SubscriptionIdentifier(9))),
    ) {
        let mut buf = SubscribeFilterBuf::new(version);
        for (filter, qos, (no_local, retain_as_published), handling) in &filters {
            let options = SubscribeOptions {
                qos: *qos,
                no_local: *no_local,
                retain_as_published: *retain_as_published,
                retain_handling: *handling,
            };
            buf.push(filter, options).unwrap();
        }
        let packet = Packet::Subscribe(Subscribe {
            packet_id: id(packet_id),
            properties: of_version(version, &properties),
            filters: buf.as_filters(),
        });
        check(version, Client, &packet);
        let found: Vec<_> = buf.as_filters().iter().map(|item| item.filter.to_owned()).collect();
        let given: Vec<_> = filters.iter().map(|item| item.0.clone()).collect();
        prop_assert_eq!(found, given);
    }

    #[test]
    fn unsubscribe(
        version in versions(),
        packet_id in 1u16..,
        filters in vec("[^\0]{1,20}", 1..5),
        properties in properties(|_| ()),
    ) {
        let mut buf = UnsubscribeFilterBuf::new();
        for filter in &filters {
            buf.push(filter).unwrap();
        }
        let packet = Packet::Unsubscribe(Unsubscribe {
            packet_id: id(packet_id),
            properties: of_version(version, &properties),
            filters: buf.as_filters(),
        });
        check(version, Client, &packet);
        prop_assert_eq!(buf.as_filters().iter().collect::<Vec<_>>(), filters);
    }

    #[test]
    fn suback(
        version in versions(),
        packet_id in 1u16..,
        reasons in vec(prop_oneof![0u8..3, Just(0x80)], 1..9),
        properties in properties(|buf| buf.push(Property::ReasonString("x"))),
    ) {
        let packet = Packet::SubAck(SubAck {
            packet_id: id(packet_id),
            properties: of_version(version, &properties),
            reasons: &reasons,
        });
        check(version, Server, &packet);
    }

    #[test]
    fn unsuback(
        version in versions(),
        packet_id in 1u16..,
        reasons in vec(prop_oneof![Just(0u8), Just(0x11), Just(0x8F)], 1..9),
    ) {
        let packet = Packet::UnsubAck(SubAck {
            packet_id: id(packet_id),
            properties: stentor_mqtt::Properties::EMPTY,
            reasons: if version.is_v5() { &reasons } else { &[] },
        });
        check(version, Server, &packet);
    }

    #[test]
    fn disconnect_and_auth(
        properties in properties(|buf| buf.push(Property::ReasonString("x"))),
        data in vec(any::<u8>(), 0..40),
    ) {
        let packet = Packet::Disconnect(Disconnect {
            reason: ReasonCode::QuotaExceeded,
            properties: properties.as_properties(),
        });
        check(Version::V5, Client, &packet);
        check(Version::V5, Server, &packet);
        let mut with_method = properties.clone();
        with_method.push(Property::AuthenticationMethod("m"));
        with_method.push(Property::AuthenticationData(&data));
        let packet = Packet::Auth(Disconnect {
            reason: ReasonCode::ContinueAuthentication,
            properties: with_method.as_properties(),
        });
        check(Version::V5, Client, &packet);
        check(Version::V5, Server, &packet);
    }
}
