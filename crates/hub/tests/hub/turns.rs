//! What one client sends may take many turns, and between two of them everybody else is served.

use crate::world::{
    ConnectOptions, PING, Random, World, clean, encoded, encoded_publish, expiring, qos, run_seeds,
};
use stentor_hub::{LossCause, Settings};
use stentor_mqtt::{
    Ack, Disconnect, Packet, PacketId, Properties, Property, PropertyBuf, QoS, ReasonCode,
    Subscribe, SubscribeFilterBuf, SubscribeOptions, Unsubscribe, UnsubscribeFilterBuf, Version,
};

/// What a turn does at most: its budget, and what the last thing that began in it may take.
const VISITS_MAX: u32 = 4_096 + 1_024 + 512;

fn subscribe(version: Version, filters: &[(String, SubscribeOptions)]) -> Vec<u8> {
    let mut all = SubscribeFilterBuf::new(version);
    for (filter, options) in filters {
        all.push(filter, *options).unwrap();
    }
    let packet = Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).unwrap(),
        properties: Properties::EMPTY,
        filters: all.as_filters(),
    });
    encoded(version, &packet)
}

fn unsubscribe(version: Version, filters: &[String]) -> Vec<u8> {
    let mut all = UnsubscribeFilterBuf::new();
    for filter in filters {
        all.push(filter).unwrap();
    }
    let packet = Packet::Unsubscribe(Unsubscribe {
        packet_id: PacketId::new(9).unwrap(),
        properties: Properties::EMPTY,
        filters: all.as_filters(),
    });
    encoded(version, &packet)
}

/// Turns until nothing is left to do: each is short, and in each of them a bystander is served.
fn turns(w: &mut World, bystander: usize) -> usize {
    w.turns_beside(bystander, VISITS_MAX, |_| {}).1
}

fn many(count: usize) -> Vec<(String, SubscribeOptions)> {
    let one = |n| (format!("flood/{n}"), qos(QoS::AtMostOnce));
    (0..count).map(one).collect()
}

#[test]
fn a_subscribe_of_10_000_filters_leaves_turns_to_others_and_is_answered_once() {
    for version in [Version::V311, Version::V5] {
        let mut w = World::new(1);
        let (bystander, flooder) = (
            w.connect(Version::V5, "b", &clean()),
            w.connect(version, "f", &clean()),
        );
        w.paused = true;
        let filters = many(10_000);
        w.hubs[0].begin_turn();
        w.send_without_settling(flooder, &subscribe(version, &filters));
        // What follows waits for its answer.
        w.send_without_settling(flooder, &PING);
        assert!(w.hubs[0].turn().visits() < VISITS_MAX);
        assert!(turns(&mut w, bystander) > 15);
        let suback = w.take_packet(flooder, 0x90).unwrap();
        assert_eq!(suback[suback.len() - 10_000..], [0; 10_000]);
        assert!(w.take_packet(flooder, 0x90).is_none());
        assert!(w.take_packet(flooder, 0xD0).is_some());
        assert_eq!(w.hubs[0].inspect().stats().subscriptions, 10_000);
        // And back.
        let filters: Vec<_> = filters.into_iter().map(|(filter, _)| filter).collect();
        w.hubs[0].begin_turn();
        w.send_without_settling(flooder, &unsubscribe(version, &filters));
        assert!(w.hubs[0].turn().visits() < VISITS_MAX);
        assert!(turns(&mut w, bystander) > 15);
        assert!(w.take_packet(flooder, 0xB0).is_some());
        assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
    }
}

#[test]
fn ten_floods_at_once_share_the_turns() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let flooders: Vec<_> = (0..10)
        .map(|n| w.connect(Version::V5, &format!("f{n}"), &clean()))
        .collect();
    w.paused = true;
    let bytes = subscribe(Version::V5, &many(10_000));
    for &flooder in &flooders {
        w.send_without_settling(flooder, &bytes);
    }
    assert!(turns(&mut w, bystander) > 150);
    for &flooder in &flooders {
        assert!(w.take_packet(flooder, 0x90).is_some());
    }
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 100_000);
}

/// Far more filters than a session may have, or has.
#[test]
fn what_no_session_may_have_is_refused_without_looking_at_it() {
    let settings = Settings {
        subscriptions_max: 10_000,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let bystander = w.connect(Version::V5, "b", &clean());
    let flooder = w.connect(Version::V5, "f", &clean());
    w.paused = true;
    let equal = vec![("a".to_owned(), qos(QoS::AtMostOnce)); 130_000];
    w.send_without_settling(flooder, &subscribe(Version::V5, &equal));
    let taken = turns(&mut w, bystander);
    assert!((15..40).contains(&taken), "{taken}");
    let suback = w.take_packet(flooder, 0x90).unwrap();
    let reasons = &suback[suback.len() - 130_000..];
    assert!(reasons[..10_000].iter().all(|reason| *reason == 0));
    assert!(reasons[10_000..].iter().all(|reason| *reason == 0x97));
}

#[test]
fn a_flood_ends_with_its_connection() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let flooder = w.connect(Version::V5, "f", &ConnectOptions::persistent());
    w.paused = true;
    w.send_without_settling(flooder, &subscribe(Version::V5, &many(10_000)));
    w.go_on(0);
    w.drop_link(flooder);
    assert!(turns(&mut w, bystander) < 5);
    let subscribed = w.hubs[0].inspect().stats().subscriptions;
    assert!((1..9_000).contains(&subscribed), "{subscribed}");
    // A client that comes back can end what was begun.
    w.paused = false;
    let flooder = w.connect(Version::V5, "f", &ConnectOptions::persistent());
    for (filter, _) in many(10_000).iter().take(600) {
        w.unsubscribe(flooder, filter);
    }
    assert!(w.hubs[0].inspect().stats().subscriptions < subscribed);
}

#[test]
fn thousands_of_cheap_packets_of_one_read_leave_turns_to_others() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let subscriber = w.connect(Version::V5, "s", &clean());
    w.subscribe(subscriber, "#", QoS::AtMostOnce);
    let flooder = w.connect(Version::V5, "f", &clean());
    w.paused = true;
    let mut bytes = Vec::new();
    for n in 0..8_000 {
        let topic = ["a", "b"][n % 2];
        let payload = (n as u16).to_be_bytes();
        bytes.extend(encoded_publish(topic, &payload, Properties::EMPTY));
    }
    w.hubs[0].begin_turn();
    w.send_without_settling(flooder, &bytes);
    let first = w.hubs[0].turn().figures();
    assert!((600..2_000).contains(&first.packets), "{first:?}");
    assert_eq!(first.client_id, "f");
    assert!(turns(&mut w, bystander) >= 4);
    let numbers = w.take_messages(subscriber).into_iter();
    let numbers: Vec<_> = numbers
        .map(|m| u16::from_be_bytes([m.payload[0], m.payload[1]]))
        .collect();
    assert!(numbers.iter().copied().eq(0..8_000));
}

/// A PUBLISH at QoS 0 with these properties.
fn publish(topic: &str, properties: &PropertyBuf) -> Vec<u8> {
    encoded_publish(topic, b"", properties.as_properties())
}

/// By a topic alias, a packet of few bytes has a long topic.
#[test]
fn names_in_topics_cost_by_their_bytes() {
    for (topic, packets_max) in [
        (format!("$private/to/{}", "%24".repeat(255)), 16),
        (format!("$private/to/{}", "%41".repeat(1_300)), 8),
        (format!("$call/{}", "%41".repeat(1_300)), 8),
        (format!("$private/to/{}", "b".repeat(40)), 2_000),
    ] {
        for user in [None, Some("ann")] {
            let settings = Settings {
                topic_alias_maximum: 1,
                ..Settings::default()
            };
            let mut w = World::with_settings(1, settings);
            let options = ConnectOptions { user, ..clean() };
            let flooder = w.connect(Version::V5, "f", &options);
            w.paused = true;
            let mut alias = PropertyBuf::new();
            alias.push(Property::TopicAlias(1));
            let mut bytes = publish(&topic, &alias);
            bytes.extend(publish("", &alias).repeat(999));
            w.hubs[0].begin_turn();
            w.send_without_settling(flooder, &bytes);
            let first = w.hubs[0].turn().figures();
            assert!(first.packets <= packets_max, "{topic}: {first:?}");
        }
    }
}

/// Properties cost by their number as well: an empty one takes five bytes.
#[test]
fn each_property_of_many_is_a_visit() {
    const COUNT: u32 = 4_000;
    let mut empty = PropertyBuf::new();
    for _ in 0..COUNT {
        empty.push(Property::UserProperty(("", "")));
    }
    let properties = empty.as_properties();
    let ack = || Ack {
        packet_id: PacketId::new(1).unwrap(),
        reason: ReasonCode::Success,
        properties,
    };
    let one = [("a".to_owned(), qos(QoS::AtMostOnce))];
    let mut filters = SubscribeFilterBuf::new(Version::V5);
    filters.push(&one[0].0, one[0].1).unwrap();
    let mut topics = UnsubscribeFilterBuf::new();
    topics.push("a").unwrap();
    let packet_id = PacketId::new(9).unwrap();
    let packets = [
        Packet::PubAck(ack()),
        Packet::PubRec(ack()),
        Packet::PubRel(ack()),
        Packet::PubComp(ack()),
        Packet::Subscribe(Subscribe {
            packet_id,
            properties,
            filters: filters.as_filters(),
        }),
        Packet::Unsubscribe(Unsubscribe {
            packet_id,
            properties,
            filters: topics.as_filters(),
        }),
        Packet::Disconnect(Disconnect {
            reason: ReasonCode::Success,
            properties,
        }),
    ];
    let packets = packets.map(|packet| encoded(Version::V5, &packet));
    for bytes in packets.into_iter().chain([publish("a", &empty)]) {
        let mut w = World::new(1);
        let client = w.connect(Version::V5, "c", &clean());
        w.paused = true;
        w.hubs[0].begin_turn();
        w.send_without_settling(client, &bytes);
        let visits = w.hubs[0].turn().visits();
        assert!(
            (COUNT..2 * COUNT).contains(&visits),
            "{visits}: {:x}",
            bytes[0]
        );
    }
    // Few are free.
    let mut w = World::new(1);
    let client = w.connect(Version::V5, "c", &clean());
    let mut few = PropertyBuf::new();
    few.push(Property::UserProperty(("sensor", "7")));
    w.paused = true;
    w.hubs[0].begin_turn();
    w.send_without_settling(client, &publish("a", &few));
    assert_eq!(w.hubs[0].turn().visits(), 0);
}

/// A client that causes more work than its share pauses; and a turn that is spent has it wait
/// first. Each packet walks over all that its session has subscribed to.
#[test]
fn an_unsubscribe_costs_by_what_its_session_has() {
    let mut w = World::new(1);
    let (poor, rich) = (
        w.connect(Version::V5, "p", &clean()),
        w.connect(Version::V5, "r", &clean()),
    );
    let mut visits = [0; 2];
    for (visits, (client, count)) in visits.iter_mut().zip([(poor, 10), (rich, 10_000)]) {
        w.paused = true;
        w.send_without_settling(client, &subscribe(Version::V5, &many(count)));
        while w.go_on(0) {}
        // What it owes for that is paid by then.
        w.now = stentor_session::Tick::from_micros(w.now.as_micros() + 1_000_000);
        w.hubs[0].begin_turn();
        w.send_without_settling(client, &unsubscribe(Version::V5, &["flood/7".to_owned()]));
        *visits = w.hubs[0].turn().visits();
    }
    assert!(visits[1] > visits[0] + 1_000, "{visits:?}");
}

#[test]
fn dear_work_is_paid_for_by_a_pause_and_by_nobody_else() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let flooder = w.connect(Version::V5, "f", &clean());
    let key = w.clients[flooder].key.unwrap();
    w.paused = true;
    let filters = many(10_000);
    w.send_without_settling(flooder, &subscribe(Version::V5, &filters));
    // No time passes.
    while w.go_on(0) {
        w.send_without_settling(bystander, &PING);
        w.flush(0);
        assert!(w.take_packet(bystander, 0xD0).is_some());
    }
    assert!(w.take_packet(flooder, 0x90).is_some());
    assert_eq!(w.hubs[0].receive(w.now, key, &PING), 0, "it pauses");
    let until = w.hubs[0].effects().paused.pop().unwrap().1;
    let pause = until.since(w.now).as_millis();
    assert!((1..100).contains(&pause), "{pause}");
    w.now = until;
    assert_eq!(w.hubs[0].receive(w.now, key, &PING), 2);
    w.flush(0);
    assert!(w.take_packet(flooder, 0xD0).is_some());
}

/// The same filters in one packet, which takes several turns, and in packets of a few.
#[test]
fn answers_are_the_same_in_one_packet_and_in_many() {
    run_seeds(20, |seed| {
        let mut random = Random(seed * 0x9E37_79B9);
        let version = [Version::V311, Version::V5][random.below(2)];
        let settings = || Settings {
            subscriptions_max: 700,
            ..Settings::default()
        };
        let mut worlds = [
            World::with_settings(1, settings()),
            World::with_settings(1, settings()),
        ];
        let filter = |random: &mut Random| {
            let n = random.below(400);
            match random.below(8) {
                0 => format!("bad/#/{n}"),
                1 => format!("$share/g{}/t/{n}", n % 3),
                2 => format!("t/+/{n}"),
                _ => format!("t/{n}"),
            }
        };
        let options =
            |random: &mut Random| qos([QoS::AtMostOnce, QoS::AtLeastOnce][random.below(2)]);
        let wanted: Vec<_> = (0..600)
            .map(|_| (filter(&mut random), options(&mut random)))
            .collect();
        let ended: Vec<_> = (0..700).map(|_| filter(&mut random)).collect();
        let mut found = Vec::new();
        for (w, piece) in worlds.iter_mut().zip([1_000, 1 + random.below(30)]) {
            let p = w.connect(Version::V5, "p", &clean());
            w.publish(p, "t/7", "kept", QoS::AtMostOnce, true);
            let c = w.connect(version, "c", &clean());
            let mut answers: Vec<u8> = Vec::new();
            for piece in wanted.chunks(piece) {
                w.send_bytes(c, &subscribe(version, piece));
                let suback = w.take_packet(c, 0x90).unwrap();
                answers.extend(&suback[suback.len() - piece.len()..]);
            }
            let mut kept = w.take_payloads(c);
            kept.dedup();
            let before = w.hubs[0].inspect().stats().subscriptions;
            for piece in ended.chunks(piece) {
                w.send_bytes(c, &unsubscribe(version, piece));
                let unsuback = w.take_packet(c, 0xB0).unwrap();
                if version.is_v5() {
                    answers.extend(&unsuback[unsuback.len() - piece.len()..]);
                }
            }
            let key = w.clients[c].key.unwrap();
            let mut left = w.hubs[0].inspect().subscriptions(key);
            left.sort_unstable();
            assert_eq!(left.len() as u64, w.hubs[0].inspect().stats().subscriptions);
            found.push((answers, kept, before, left));
        }
        assert_eq!(found[0], found[1]);
    });
}

/// One acknowledgement, and behind it 10,000 messages that have expired.
#[test]
fn what_has_expired_while_it_waited_is_dropped_over_many_turns() {
    let settings = Settings {
        queue_messages_max: 20_000,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let bystander = w.connect(Version::V5, "b", &clean());
    let publisher = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        receive_maximum: 1,
        ..clean()
    };
    let slow = w.connect(Version::V5, "slow", &options);
    w.subscribe(slow, "t", QoS::AtLeastOnce);
    w.publish(publisher, "t", "first", QoS::AtLeastOnce, false);
    for _ in 0..10_000 {
        let properties = expiring(5);
        let properties = properties.as_properties();
        w.publish_with(publisher, "t", "x", QoS::AtLeastOnce, false, properties);
    }
    w.pass_secs(6);
    w.publish(publisher, "t", "last", QoS::AtLeastOnce, false);
    w.paused = true;
    w.hubs[0].begin_turn();
    let first = w.take_messages(slow).remove(0).packet_id.unwrap();
    w.send_ack(slow, 0x40, first);
    assert!(w.hubs[0].turn().visits() < VISITS_MAX);
    let expired = |w: &World| w.hubs[0].inspect().losses().by_cause(LossCause::Expired);
    assert!(expired(&w) < 2_000, "a part of them");
    assert!(turns(&mut w, bystander) > 5);
    assert_eq!(expired(&w), 10_000);
    assert_eq!(w.take_payloads(slow), ["last"]);
}
