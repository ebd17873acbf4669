//! The heaviest topics and publishers, whichever way the messages come.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::world::{ConnectOptions, World, clean, identity};
use stentor_hub::survey::{heaviest_publishers, heaviest_topics};
use stentor_hub::{
    Act, Broadcast, Callees, HeavyBy, HeavyPublisher, Origin, Recipient, Served, ServiceCommand,
    home_shard, publish_for,
};
use stentor_mqtt::Property as P;
use stentor_mqtt::{Packet, Properties, PropertyBuf, Publish, QoS, Version, encode};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

const Q0: QoS = QoS::AtMostOnce;

/// So many that some hundred are looked at.
const MANY: u64 = 64 * 300;

/// Messages and bytes of the topics of all shards.
fn topics(w: &World) -> BTreeMap<String, (u64, u64)> {
    let mut all = BTreeMap::new();
    for hub in &w.hubs {
        for it in heaviest_topics(hub, w.now, HeavyBy::Messages).found {
            let sums: &mut (u64, u64) = all.entry(it.who.topic.to_string()).or_default();
            *sums = (sums.0 + it.messages, sums.1 + it.bytes);
        }
    }
    all
}

/// The same of publishers, by client id and user.
fn publishers(w: &World) -> BTreeMap<(String, String), u64> {
    let mut all = BTreeMap::new();
    let text = |name: &Option<Box<str>>| name.as_deref().unwrap_or("-").to_owned();
    for hub in &w.hubs {
        for it in heaviest_publishers(hub, w.now, HeavyBy::Messages).found {
            let HeavyPublisher {
                client_id, user, ..
            } = &*it.who;
            *all.entry((text(client_id), text(user))).or_default() += it.messages;
        }
    }
    all
}

/// Whether about [`MANY`] were counted: 300 samples, whose standard deviation is 10.
#[track_caller]
fn assert_many(count: u64) {
    assert!((MANY / 64 * 50..MANY / 64 * 78).contains(&count), "{count}");
}

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        ..clean()
    }
}

fn packet(topic: &str, properties: Properties<'_>, payload: &[u8]) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos: Q0,
        retain: false,
        topic,
        packet_id: None,
        properties,
        payload,
    };
    let mut bytes = Vec::new();
    encode(Version::V5, &Packet::Publish(publish), &mut bytes).unwrap();
    bytes
}

/// Each message of a burst counts, although they are routed together; and none of them counts
/// again on the shards that it goes to.
#[test]
fn messages_of_bursts_count_one_by_one_and_once() {
    for shards in [1, 3] {
        let mut w = World::new(shards);
        let client = w.connect(Version::V5, "c", &user("ann"));
        for n in 0..8 {
            let other = w.connect(Version::V5, &format!("s{n}"), &clean());
            w.subscribe(other, "#", Q0);
        }
        let one = packet("t", Properties::EMPTY, b"12345");
        for _ in 0..MANY / 100 {
            w.send_bytes(client, &one.repeat(100));
        }
        let topics = topics(&w);
        assert_eq!(topics.len(), 1, "{topics:?}");
        assert_many(topics["t"].0);
        assert_eq!(topics["t"].1, topics["t"].0 * 5);
        let publishers = publishers(&w);
        assert_eq!(publishers.len(), 1, "{publishers:?}");
        assert_many(publishers[&("c".into(), "ann".into())]);
    }
}

#[test]
fn an_alias_counts_as_its_topic() {
    let mut w = World::new(1);
    let client = w.connect(Version::V5, "c", &clean());
    let mut alias = PropertyBuf::new();
    alias.push(P::TopicAlias(1));
    w.send_bytes(client, &packet("long/topic", alias.as_properties(), b""));
    let again = packet("", alias.as_properties(), b"");
    for _ in 0..MANY / 100 {
        w.send_bytes(client, &again.repeat(100));
    }
    let topics = topics(&w);
    assert_eq!(topics.len(), 1, "{topics:?}");
    assert_many(topics["long/topic"].0);
}

/// A flood that the server refuses is one nevertheless.
#[test]
fn refused_messages_count() {
    let mut w = World::new(1);
    let client = w.connect(Version::V311, "c", &clean());
    for _ in 0..MANY {
        w.publish(client, "secret/t", "x", Q0, false);
    }
    assert_many(topics(&w)["secret/t"].0);
}

/// Those that come again, because the acknowledgement was lost, do not.
#[test]
fn repetitions_do_not_count() {
    let mut w = World::new(1);
    let client = w.connect(Version::V5, "c", &clean());
    let publish = Publish {
        dup: true,
        qos: QoS::ExactlyOnce,
        retain: false,
        topic: "t",
        packet_id: stentor_mqtt::PacketId::new(1),
        properties: Properties::EMPTY,
        payload: b"",
    };
    let mut bytes = Vec::new();
    encode(Version::V5, &Packet::Publish(publish), &mut bytes).unwrap();
    for _ in 0..10 {
        w.send_bytes(client, &bytes.repeat(1_000));
    }
    assert_eq!(topics(&w), BTreeMap::new());
}

#[test]
fn wills_count_as_those_of_their_clients() {
    let mut w = World::new(2);
    for _ in 0..MANY / 4 {
        let options = ConnectOptions {
            will: Some(("gone", "x", 0)),
            ..user("ann")
        };
        let client = w.connect(Version::V5, "c", &options);
        w.drop_link(client);
    }
    let all = topics(&w)["gone"].0;
    assert!((MANY / 6..MANY / 3).contains(&all), "{all}");
    assert_eq!(publishers(&w)[&("c".into(), "ann".into())], all);
}

/// What is published by HTTP has a user and no client; what the server's owner or an adaptor
/// publishes has a topic alone.
#[test]
fn what_comes_without_a_connection_counts() {
    let mut w = World::new(1);
    for n in 0..2 * MANY {
        let parts = MessageParts {
            topic: "t",
            properties: &[],
            payload: b"12",
            qos: Q0,
            retain: false,
            expiry_secs: None,
        };
        let message = Message::new(Zone(0), Publisher::SERVER, w.now, &parts);
        let home = home_shard(&w.hasher, Zone(0), "t", 1).0;
        let user = (n % 2 == 0).then_some("web");
        publish_for(
            &mut w.hubs[usize::from(home)],
            w.now,
            Arc::new(message),
            user,
        )
        .unwrap();
    }
    assert_many(publishers(&w)[&("-".into(), "web".into())]);
    assert_many(topics(&w)["t"].0 / 2);
    for _ in 0..MANY {
        let act = Act::Publish {
            zone: Zone(0),
            topic: "by/adaptor".into(),
            payload: b"x".to_vec(),
            retain: false,
        };
        w.control(0, ServiceCommand::Act(Arc::new(act)));
    }
    assert_many(topics(&w)["by/adaptor"].0);
    assert_eq!(publishers(&w).len(), 1);
}

struct Nobody;

impl Callees for Nobody {
    fn call(&self, _: stentor_hub::Call) -> Result<(), Box<stentor_hub::Call>> {
        Ok(())
    }

    fn served(&self, _: u64, _: Served<'_>) -> bool {
        false
    }

    fn told(&self, _: u64, _: usize, _: stentor_hub::Fate) {}
}

#[test]
fn each_recipient_of_a_broadcast_counts() {
    let mut w = World::with_callees(1, Arc::new(Nobody));
    let who = identity(Some("ann"), Tick::NEVER, &[]);
    let recipients = [
        Recipient::Topic("news".into()),
        Recipient::User("bob".into()),
    ];
    for number in 0..MANY {
        let broadcast = Broadcast {
            number,
            origin: Origin::without_session(Arc::clone(&who)),
            recipients: recipients.to_vec(),
            payload: b"hi".as_slice().into(),
            qos: Q0,
        };
        w.control(0, ServiceCommand::Broadcast(Arc::new(broadcast)));
    }
    w.settle();
    let topics = topics(&w);
    assert_many(topics["news"].0);
    assert_many(topics["$private"].0);
    assert_many(publishers(&w)[&("-".into(), "ann".into())] / 2);
}

/// What the server says of itself is nobody's flood.
#[test]
fn what_the_server_publishes_does_not_count() {
    let mut w = World::new(1);
    let parts = MessageParts {
        topic: "$SYS/uptime",
        properties: &[],
        payload: b"1",
        qos: Q0,
        retain: true,
        expiry_secs: None,
    };
    let message = Arc::new(Message::new(Zone(0), Publisher::SERVER, w.now, &parts));
    for _ in 0..1_000 {
        w.hubs[0].publish_as_server(w.now, &message);
    }
    assert_eq!(topics(&w), BTreeMap::new());
}

#[test]
fn floods_are_forgotten() {
    let mut w = World::new(1);
    let client = w.connect(Version::V5, "c", &clean());
    for _ in 0..MANY {
        w.publish(client, "t", "x", Q0, false);
    }
    let before = topics(&w)["t"].0;
    w.now = Tick::from_secs(60 * 3 + 1);
    assert_eq!(topics(&w)["t"].0, before / 8);
    w.now = Tick::from_secs(60 * 60);
    assert_eq!(topics(&w), BTreeMap::new());
}
