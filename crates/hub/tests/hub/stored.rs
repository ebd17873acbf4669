//! The stored messages of single topics: they take a shorter way than others, which nobody may
//! notice, and the store hears of what comes.

use std::sync::{Arc, Mutex};

use crate::world::{ConnectOptions, World};
use stentor_hub::{
    Cursor, Keep, Kept, Mark, NotKept, Purpose, Retained, Scope, Settings, TopicPolicy, Walk,
};
use stentor_mqtt::{
    Packet, PacketId, Property, PropertyBuf, QoS, Subscribe, SubscribeFilterBuf, SubscribeOptions,
    Version, encode,
};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{Message, Tick};
use stentor_topic::{TopicHasher, Zone};

const TOPICS: usize = 60;

fn topic(number: usize) -> String {
    format!("t/{number}")
}

/// Messages of all kinds: each QoS, short and long, with properties, with an expiry.
fn fill(w: &mut World, publisher: usize) {
    for number in 0..TOPICS {
        let len = match number % 6 {
            5 => 5_000 + number,
            other => other * 40 + 1,
        };
        let mut properties = PropertyBuf::new();
        if number % 4 == 1 {
            properties.push(Property::UserProperty(("a", "b")));
        }
        if number % 4 == 2 {
            properties.push(Property::MessageExpiryInterval(60));
        }
        let qos = QoS::from_bits((number % 3) as u8).unwrap();
        let payload = "x".repeat(len);
        let properties = properties.as_properties();
        w.publish_with(publisher, &topic(number), &payload, qos, true, properties);
        if qos == QoS::ExactlyOnce {
            w.send_ack(publisher, 6, PacketId::new(77).unwrap());
        }
    }
}

/// How subscriptions are made.
#[derive(Clone, Copy)]
struct Kind {
    version: Version,
    options: SubscribeOptions,
    id: Option<u32>,
}

impl Kind {
    fn plain(version: Version) -> Self {
        Self {
            version,
            options: SubscribeOptions::default(),
            id: None,
        }
    }

    fn subscribe(&self, packet_id: u16, filter: &str) -> Vec<u8> {
        let mut filters = SubscribeFilterBuf::new(self.version);
        filters.push(filter, self.options).unwrap();
        let mut properties = PropertyBuf::new();
        if let Some(id) = self.id {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        let packet = Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(packet_id).unwrap(),
            properties: properties.as_properties(),
            filters: filters.as_filters(),
        });
        let mut bytes = Vec::new();
        encode(self.version, &packet, &mut bytes).unwrap();
        bytes
    }

    /// One SUBSCRIBE for each topic, twice as many topics as hold a message.
    fn subscribes(&self) -> Vec<Vec<u8>> {
        let packet = |number: usize| self.subscribe(number as u16 + 1, &topic(number));
        (0..2 * TOPICS).map(packet).collect()
    }
}

fn sorted(mut messages: Vec<crate::world::Message>) -> Vec<crate::world::Message> {
    for message in &mut messages {
        // The order of topics makes no difference.
        message.packet_id = None;
    }
    messages.sort_by(|a, b| a.topic.cmp(&b.topic));
    messages
}

/// Subscribes to each topic, and by a wildcard to all of them: both bring the same. Returns how
/// many messages.
fn compare(settings: &Settings, version: Version, client: &ConnectOptions<'_>, kind: u8) -> usize {
    let mut w = World::with_settings(2, settings.clone());
    let each = w.connect(version, "each", client);
    let all = w.connect(version, "all", client);
    let publisher = w.connect(Version::V5, "p", &ConnectOptions::default());
    fill(&mut w, publisher);
    let options = SubscribeOptions {
        qos: QoS::from_bits(kind % 2).unwrap(),
        no_local: version.is_v5() && kind & 2 != 0,
        retain_as_published: version.is_v5() && kind & 4 != 0,
        ..SubscribeOptions::default()
    };
    let id = (version.is_v5() && kind & 8 != 0).then_some(7);
    let kind = Kind {
        version,
        options,
        id,
    };
    let packets = kind.subscribes();
    w.send_bytes(each, &packets.concat());
    w.send_bytes(all, &kind.subscribe(1, "t/+"));
    let (got, want) = (w.take_messages(each), w.take_messages(all));
    assert!(want.iter().all(|message| message.retain));
    let (got, want) = (sorted(got), sorted(want));
    assert_eq!(got.len(), want.len(), "{version:?} {options:?}");
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(got, want, "{version:?} {options:?}");
    }
    for number in 0..packets.len() {
        let suback = w.take_packet(each, 0x90).unwrap();
        let id = number as u16 + 1;
        assert!(suback.windows(2).any(|two| two == id.to_be_bytes()));
    }
    assert!(w.take_packet(each, 0x90).is_none());
    got.len()
}

#[test]
fn one_by_one_or_all_is_the_same() {
    let all = ConnectOptions::default();
    for kind in 0..16 {
        for version in [Version::V311, Version::V5] {
            assert_eq!(compare(&Settings::default(), version, &all, kind), TOPICS);
        }
    }
}

#[test]
fn what_a_client_does_not_take_or_may_not_see_is_left_out() {
    let small = ConnectOptions {
        packet_bytes_max: 500,
        ..ConnectOptions::default()
    };
    let got = compare(&Settings::default(), Version::V5, &small, 0);
    assert_eq!(got, TOPICS * 5 / 6, "without the long ones");
    let aliases = ConnectOptions {
        alias_maximum: 10,
        ..ConnectOptions::default()
    };
    assert_eq!(
        compare(&Settings::default(), Version::V5, &aliases, 0),
        TOPICS
    );
    let denied = ConnectOptions {
        denied: &["t/1"],
        ..ConnectOptions::default()
    };
    let got = compare(&Settings::default(), Version::V5, &denied, 0);
    assert_eq!(got, TOPICS - 11, "without t/1 and t/10 to t/19");
}

#[test]
fn topics_with_a_policy_keep_it() {
    let policy = |sequence, interval| TopicPolicy {
        filter: "t/+".into(),
        keep: Keep::Last,
        sequence,
        interval,
        ..TopicPolicy::default()
    };
    let second = core::time::Duration::from_secs(1);
    for policy in [
        policy(true, core::time::Duration::ZERO),
        policy(false, second),
    ] {
        let settings = Settings {
            policies: vec![policy],
            ..Settings::default()
        };
        for version in [Version::V311, Version::V5] {
            let got = compare(&settings, version, &ConnectOptions::default(), 0);
            assert_eq!(got, TOPICS);
        }
    }
}

/// With little room for what waits, nothing is missing: it comes as the socket takes it.
#[test]
fn a_small_queue_gets_everything_in_time() {
    let settings = Settings {
        queue_bytes_max: 8_000,
        ..Settings::default()
    };
    for version in [Version::V311, Version::V5] {
        let got = compare(&settings, version, &ConnectOptions::default(), 0);
        assert_eq!(got, TOPICS);
    }
}

/// What follows a SUBSCRIBE in the same read follows it in what is received too.
#[test]
fn a_publish_behind_a_subscribe_comes_behind_the_stored_message() {
    for version in [Version::V311, Version::V5] {
        let mut w = World::new(2);
        let c = w.connect(version, "c", &ConnectOptions::default());
        w.publish(c, "t/0", "old", QoS::AtMostOnce, true);
        let mut bytes = Kind::plain(version).subscribe(1, "t/0");
        let publish = Packet::Publish(stentor_mqtt::Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: true,
            topic: "t/0",
            packet_id: None,
            properties: stentor_mqtt::Properties::EMPTY,
            payload: b"new",
        });
        encode(version, &publish, &mut bytes).unwrap();
        w.send_bytes(c, &bytes);
        let kinds: Vec<u8> = w.clients[c].received.iter().map(|p| p[0] & 0xF0).collect();
        assert_eq!(kinds, [0x90, 0x30, 0x30]);
        let got = w.take_messages(c);
        let got: Vec<_> = got.into_iter().map(|m| (m.payload, m.retain)).collect();
        assert_eq!(got, [(b"old".to_vec(), true), (b"new".to_vec(), false)]);
    }
}

/// Each message follows its acknowledgement, however many SUBSCRIBE packets come at once.
#[test]
fn a_message_follows_its_acknowledgement() {
    for version in [Version::V311, Version::V5] {
        let mut w = World::new(1);
        let publisher = w.connect(Version::V5, "p", &ConnectOptions::default());
        for number in 0..TOPICS {
            w.publish(publisher, &topic(number), "x", QoS::AtMostOnce, true);
        }
        let c = w.connect(version, "c", &ConnectOptions::default());
        let bytes = Kind::plain(version).subscribes()[..TOPICS].concat();
        w.clients[c].received.clear();
        w.send_bytes(c, &bytes);
        let kinds = w.clients[c].received.iter().map(|p| p[0] & 0xF0);
        assert!(kinds.eq([0x90, 0x30].into_iter().cycle().take(2 * TOPICS)));
        let topics = w.take_messages(c).into_iter().map(|m| m.topic);
        assert!(topics.eq((0..TOPICS).map(topic)));
    }
}

/// Notes what it is told to expect.
struct ExpectingStore {
    inner: MemoryStore,
    expected: Mutex<Vec<(Purpose, Vec<String>)>>,
}

impl Retained for ExpectingStore {
    fn put(&self, message: &Arc<Message>) -> Result<Kept, NotKept> {
        self.inner.put(message)
    }
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }
    fn mark(&self) -> Mark {
        self.inner.mark()
    }
    fn get(&self, zone: Zone, topic: &str, mark: Mark, now: Tick) -> Option<Arc<Message>> {
        self.inner.get(zone, topic, mark, now)
    }
    fn expect(&self, _: Zone, topics: &[&[u8]], purpose: Purpose) {
        let text = |topic: &&[u8]| String::from_utf8(topic.to_vec()).unwrap();
        let topics = topics.iter().map(text).collect();
        self.expected.lock().unwrap().push((purpose, topics));
    }
    fn walk(
        &self,
        zone: Zone,
        filter: &str,
        scope: Scope,
        cursor: &mut Cursor,
        visits: usize,
        out: &mut Vec<Arc<Message>>,
    ) -> Walk {
        self.inner.walk(zone, filter, scope, cursor, visits, out)
    }
    fn count(&self) -> u64 {
        self.inner.count()
    }
}

fn publish(version: Version, topic: &str, retain: bool) -> Vec<u8> {
    let publish = Packet::Publish(stentor_mqtt::Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain,
        topic,
        packet_id: None,
        properties: stentor_mqtt::Properties::EMPTY,
        payload: b"x",
    });
    let mut bytes = Vec::new();
    encode(version, &publish, &mut bytes).unwrap();
    bytes
}

/// The store hears of the topics in one read before they are asked for: those that it is asked for,
/// where there are several.
#[test]
fn the_store_hears_of_what_comes() {
    for (version, keeps_last) in [(Version::V311, false), (Version::V5, true)] {
        let store = Arc::new(ExpectingStore {
            inner: MemoryStore::new(TopicHasher::new(7), Bounds::default()),
            expected: Mutex::default(),
        });
        let settings = Settings {
            policies: keeps_last
                .then(|| TopicPolicy {
                    filter: "kept/#".into(),
                    keep: Keep::Last,
                    ..TopicPolicy::default()
                })
                .into_iter()
                .collect(),
            ..Settings::default()
        };
        let retained: Arc<dyn Retained> = Arc::<ExpectingStore>::clone(&store);
        let mut w = World::with_store(1, settings, retained);
        let c = w.connect(version, "c", &ConnectOptions::default());
        let mut send = |packets: &[Vec<u8>]| {
            w.send_bytes(c, &packets.concat());
            std::mem::take(&mut *store.expected.lock().unwrap())
        };
        let expected = |purpose, topics: &[&str]| {
            (
                purpose,
                topics.iter().map(|topic| (*topic).into()).collect(),
            )
        };
        let kind = Kind {
            id: version.is_v5().then_some(3),
            ..Kind::plain(version)
        };
        let (a, b) = (kind.subscribe(1, "a"), kind.subscribe(2, "b"));
        assert_eq!(
            send(std::slice::from_ref(&a)),
            [],
            "alone, it is asked for at once"
        );
        assert_eq!(
            send(&[a.clone(), b.clone()]),
            [expected(Purpose::Get, &["a", "b"])]
        );
        let put = |topic| publish(version, topic, true);
        assert_eq!(
            send(&[put("a"), put("b"), put("b"), a, b]),
            [
                expected(Purpose::Put, &["a", "b"]),
                expected(Purpose::Get, &["a", "b"])
            ]
        );
        assert_eq!(send(&[put("a"), put("a")]), [], "the first brings it");
        let sent = send(&[publish(version, "a", false), publish(version, "b", false)]);
        if keeps_last {
            assert_eq!(sent, [expected(Purpose::Put, &["a", "b"])]);
        } else {
            assert_eq!(sent, [], "nothing is kept");
        }
    }
}
