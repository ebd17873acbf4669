//! What one client may make the server keep, and what it was told of that.

use std::sync::Arc;

use crate::world::{ConnectOptions, VERSIONS, World, clean, expiring};
use stentor_hub::{Event, LossCause, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{Packet, PacketId, Properties, QoS, Unsubscribe, UnsubscribeFilterBuf, Version};
use stentor_session::{CloseReason, Limit, Violation};
use stentor_topic::filter_cost;
use stentor_zone::RoomsOptions;

fn persistent() -> ConnectOptions<'static> {
    ConnectOptions::persistent()
}

#[test]
fn sessions_that_outlive_their_connections_are_bounded() {
    let settings = Settings {
        sessions_max: 3,
        ..Settings::default()
    };
    let mut w = World::with_settings(4, settings);
    let refused = Err(CloseReason::Limit(Limit::Sessions));
    let clients: Vec<_> = ["a", "b", "c"]
        .map(|id| {
            assert_eq!(w.admit(Version::V5, id, &persistent()), Ok(()));
            w.connect(Version::V5, id, &persistent())
        })
        .into();
    assert_eq!(w.admit(Version::V5, "d", &persistent()), refused);
    assert_eq!(w.admit(Version::V311, "d", &persistent()), refused);
    assert_eq!(
        w.admit(Version::V5, "d", &clean()),
        Ok(()),
        "it leaves nothing"
    );
    // Those that are there go on, connected or not, and may begin anew.
    w.drop_link(clients[1]);
    let anew = ConnectOptions {
        clean_start: true,
        ..persistent()
    };
    for id in ["a", "b"] {
        assert_eq!(w.admit(Version::V5, id, &persistent()), Ok(()));
        assert_eq!(w.admit(Version::V5, id, &anew), Ok(()));
    }
    let a = w.connect(Version::V5, "a", &anew);
    assert_eq!(
        w.admit(Version::V5, "d", &persistent()),
        refused,
        "taken over, not added"
    );
    // DISCONNECT with an expiry of 0 ends one.
    w.send_bytes(a, &[0xE0, 7, 0, 5, 0x11, 0, 0, 0, 0]);
    assert_eq!(w.admit(Version::V5, "d", &persistent()), Ok(()));
    w.connect(Version::V5, "d", &persistent());
    assert_eq!(w.admit(Version::V5, "a", &persistent()), refused);
    // A session that is resumed without an expiry ends with its connection.
    let b = w.connect(
        Version::V5,
        "b",
        &ConnectOptions {
            clean_start: false,
            ..clean()
        },
    );
    w.drop_link(b);
    assert_eq!(w.admit(Version::V5, "a", &persistent()), Ok(()));
    w.connect(Version::V5, "a", &persistent());
    for id in ["a", "c", "d"] {
        w.connect(Version::V5, id, &clean());
    }
    for client in 0..w.clients.len() {
        w.drop_link(client);
    }
    for id in ["x", "y", "z"] {
        assert_eq!(
            w.admit(Version::V5, id, &persistent()),
            Ok(()),
            "all were counted down"
        );
        w.connect(Version::V5, id, &persistent());
    }
    assert_eq!(w.admit(Version::V5, "a", &persistent()), refused);
}

#[test]
fn bytes_of_subscriptions_are_bounded() {
    let filter = |n: u8| format!("{n}/{}", "x".repeat(38));
    let one = filter_cost(&filter(1));
    let settings = Settings {
        subscription_bytes_max: 6 * one - 1,
        ..Settings::default()
    };
    for version in [Version::V311, Version::V5] {
        let mut w = World::with_settings(2, settings.clone());
        let refused = if version.is_v5() { 0x97 } else { 0x80 };
        let c = w.connect(version, "c", &clean());
        for n in 1..=5 {
            assert_eq!(w.subscribe(c, &filter(n), QoS::AtMostOnce), 0);
        }
        assert_eq!(w.subscribe(c, &filter(6), QoS::AtMostOnce), refused);
        assert_eq!(
            w.subscribe(c, &filter(2), QoS::AtLeastOnce),
            1,
            "it is there already"
        );
        // It costs as much as four or five of them, for both shards keep it.
        let shared = format!("$share/g/{}", "y".repeat(12));
        for n in 1..=4 {
            assert_eq!(w.subscribe(c, &shared, QoS::AtMostOnce), refused);
            w.unsubscribe(c, &filter(n));
        }
        assert_eq!(w.subscribe(c, &shared, QoS::AtMostOnce), 0);
        assert_eq!(w.subscribe(c, &shared, QoS::AtMostOnce), 0);
        assert_eq!(w.subscribe(c, &filter(6), QoS::AtMostOnce), refused);
        w.unsubscribe(c, &shared);
        assert_eq!(w.subscribe(c, &filter(6), QoS::AtMostOnce), 0);
    }
}

/// [MQTT-3.10.4-1] [MQTT-3.10.4-6], and without a pass over all for each.
#[test]
fn an_unsubscribe_may_name_everything_at_once() {
    const FILTERS: usize = 60_000;
    let settings = Settings {
        shares_max: FILTERS,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let c = w.connect(Version::V5, "c", &clean());
    let name = |i: usize| {
        if i.is_multiple_of(100) {
            format!("$share/g/{i}")
        } else {
            format!("f/{i}")
        }
    };
    for i in 0..FILTERS {
        w.subscribe(c, &name(i), QoS::AtMostOnce);
    }
    w.subscribe(c, "left", QoS::AtMostOnce);
    let mut filters = UnsubscribeFilterBuf::new();
    for i in 0..FILTERS {
        filters.push(&name(i)).unwrap();
    }
    filters.push(&name(1)).unwrap();
    filters.push("never").unwrap();
    w.send(
        c,
        &Packet::Unsubscribe(Unsubscribe {
            packet_id: PacketId::new(3).unwrap(),
            properties: Properties::EMPTY,
            filters: filters.as_filters(),
        }),
    );
    let unsuback = w.take_packet(c, 0xB0).unwrap();
    let reasons = &unsuback[unsuback.len() - FILTERS - 2..];
    assert!(reasons[..FILTERS].iter().all(|reason| *reason == 0));
    assert_eq!(reasons[FILTERS..], [0x11, 0x11], "twice, and never there");
    let key = w.clients[c].key.unwrap();
    assert_eq!(w.hubs[0].inspect().subscriptions(key), [Arc::from("left")]);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 1);
}

/// A packet that names very many rooms joins some, without a pass over all for each.
#[test]
fn a_subscribe_joins_so_many_rooms() {
    const ROOMS: usize = 40_000;
    let rooms = |max| RoomsOptions {
        owned_max: max,
        ..RoomsOptions::default()
    };
    let settings = Settings {
        rooms: rooms(usize::MAX),
        ..Settings::default()
    };
    let user = ConnectOptions {
        user: Some("ann"),
        denied: &["$rooms/r"],
        ..clean()
    };
    for shards in [1, 4] {
        let mut w = World::with_settings(shards, settings.clone());
        let c = w.connect(Version::V5, "c", &user);
        let filters = |from: usize| -> Vec<String> {
            (from..ROOMS).map(|i| format!("$room/r{i}/event")).collect()
        };
        for at_once in 1..=10 {
            let reasons = w.subscribe_all(c, &filters(0));
            let joined = 1_000 * at_once;
            assert_eq!(
                reasons.iter().filter(|reason| **reason == 0).count(),
                joined
            );
            assert!(reasons[joined..].iter().all(|reason| *reason == 0x97));
        }
        let reasons = w.subscribe_all(c, &filters(20_000));
        assert!(reasons.iter().all(|reason| *reason == 0x97), "in too many");
        w.drop_link(c);
        w.pass_secs(31);
        assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
    }
}

/// What a session has no room for makes no rooms.
#[test]
fn a_full_session_asks_for_no_rooms() {
    for shards in [1, 4] {
        let settings = Settings {
            subscriptions_max: 3,
            ..Settings::default()
        };
        let user = |name| ConnectOptions {
            user: Some(name),
            denied: &["secret/"],
            ..clean()
        };
        let mut w = World::with_settings(shards, settings);
        let watcher = w.connect(Version::V5, "w", &user("eve"));
        w.subscribe(watcher, "$rooms/+", QoS::AtMostOnce);
        w.take_messages(watcher);
        let c = w.connect(Version::V5, "c", &user("ann"));
        w.subscribe(c, "t", QoS::AtMostOnce);
        let filters: Vec<String> = (0..9).map(|i| format!("$room/r{i}/#")).collect();
        let reasons = w.subscribe_all(c, &filters);
        assert_eq!(reasons, [0, 0, 0x97, 0x97, 0x97, 0x97, 0x97, 0x97, 0x97]);
        let heard = w.take_messages(watcher).into_iter();
        let mut heard: Vec<String> = heard.map(|message| message.topic).collect();
        heard.dedup();
        assert_eq!(heard, ["$rooms/r0", "$rooms/r1"]);
    }
}

/// A packet that names more than a session may have is not looked at to its end.
#[test]
fn a_subscribe_beyond_the_quota_is_not_looked_at() {
    let settings = Settings {
        subscriptions_max: 3,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let options = ConnectOptions {
        user: Some("ann"),
        denied: &["secret/"],
        ..clean()
    };
    let c = w.connect(Version::V5, "c", &options);
    let filters: Vec<String> = (0..6).map(|i| format!("secret/{i}")).collect();
    let reasons = w.subscribe_all(c, &filters);
    assert_eq!(reasons, [0x87, 0x87, 0x87, 0x97, 0x97, 0x97]);
    assert_eq!(w.subscribe_all(c, &["a".into(), "b".into()]), [0, 0]);
}

/// What has expired gives its room to what is new.
#[test]
fn expired_messages_of_an_absent_client_hold_no_room() {
    let settings = Settings {
        queue_messages_max: 5,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let s = w.connect(Version::V5, "s", &persistent());
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    let p = w.connect(Version::V5, "p", &clean());
    for i in 0..6 {
        let properties = expiring(if i % 2 == 0 { 5 } else { 50 });
        let payload = i.to_string();
        let properties = properties.as_properties();
        w.publish_with(p, "t", &payload, QoS::AtLeastOnce, false, properties);
    }
    let lost = |w: &World, cause| w.hubs[0].inspect().losses().by_cause(cause);
    assert_eq!(
        lost(&w, LossCause::DropNewest),
        1,
        "nothing had expired yet"
    );
    w.pass_secs(6);
    for i in 6..10 {
        w.publish(p, "t", &i.to_string(), QoS::AtLeastOnce, false);
    }
    assert_eq!(lost(&w, LossCause::Expired), 3);
    assert_eq!(lost(&w, LossCause::DropNewest), 2);
    let s = w.connect(Version::V5, "s", &persistent());
    assert_eq!(w.take_payloads(s), ["1", "3", "6", "7", "8"]);
}

/// Many full queues in which messages have expired: each message goes on with the search for them,
/// and the search counts as work.
#[test]
fn the_search_for_expired_messages_is_short_and_counted() {
    const SESSIONS: usize = 20;
    const KEPT: usize = 1_500;
    const EXPIRING: usize = 500;
    // The turn is spent by then: a piece of the search for each session is left.
    const VISITS_MAX: u32 = 4_096 + 512 * SESSIONS as u32;
    let settings = Settings {
        queue_messages_max: KEPT + EXPIRING,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    for number in 0..SESSIONS {
        let s = w.connect(Version::V5, &format!("s{number}"), &persistent());
        w.subscribe(s, "t", QoS::AtLeastOnce);
        w.drop_link(s);
    }
    let p = w.connect(Version::V5, "p", &clean());
    for number in 0..KEPT + EXPIRING {
        let properties = expiring(if number < KEPT { 500 } else { 5 });
        let properties = properties.as_properties();
        w.publish_with(p, "t", "x", QoS::AtLeastOnce, false, properties);
    }
    w.pass_secs(6);
    w.paused = true;
    let lost = |w: &World, cause| w.hubs[0].inspect().losses().by_cause(cause) as usize;
    let mut visits = Vec::new();
    loop {
        let before = lost(&w, LossCause::DropNewest);
        w.hubs[0].begin_turn();
        w.publish(p, "t", "new", QoS::AtLeastOnce, false);
        visits.push(w.hubs[0].turn().visits());
        if lost(&w, LossCause::DropNewest) == before {
            break;
        }
        assert!(visits.len() < 20, "the search comes to an end");
    }
    assert!(lost(&w, LossCause::Expired) >= SESSIONS);
    assert!(visits.iter().all(|each| *each <= VISITS_MAX), "{visits:?}");
    let all: u32 = visits.iter().sum();
    let least = 2 * SESSIONS * KEPT;
    assert!(
        all as usize >= least,
        "each message was looked at: {visits:?}"
    );
    // What is left stands in its order.
    w.paused = false;
    let s = w.connect(Version::V5, "s3", &persistent());
    let first = w.take_payloads(s);
    assert!(!first.is_empty() && first.iter().all(|payload| payload == "x"));
}

/// [MQTT-3.3.2-5]: whatever its QoS, what expires before it is sent is not sent, and its packet
/// id goes to the next one.
#[test]
fn a_message_that_expires_while_the_socket_is_full_is_not_sent() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut w = World::new(1);
        let options = ConnectOptions {
            receive_maximum: 2,
            ..clean()
        };
        let s = w.connect(Version::V5, "s", &options);
        w.subscribe(s, "t", qos);
        w.clients[s].socket_room = 0;
        let p = w.connect(Version::V5, "p", &clean());
        for (payload, secs) in [("a", 5), ("b", 50), ("c", 5), ("d", 50)] {
            let properties = expiring(secs);
            w.publish_with(p, "t", payload, qos, false, properties.as_properties());
        }
        w.pass_secs(6);
        w.open_socket(s, usize::MAX);
        let mut got = w.take_messages(s);
        if qos > QoS::AtMostOnce {
            // `a` gave its place in the window of two to `d`; `c` was gone before it got one.
            assert_eq!(got.len(), 2, "{qos:?}");
        }
        assert_eq!(got.pop().unwrap().payload, b"d");
        assert_eq!(got.pop().unwrap().payload, b"b");
        assert_eq!(w.hubs[0].inspect().losses().by_cause(LossCause::Expired), 2);
    }
}

/// The delivery of what was sent has begun: it goes on, and 5.0 is told that nothing is left of
/// its time [MQTT-4.4.0-1] [MQTT-3.3.2-6].
#[test]
fn a_message_that_expires_after_it_was_sent_is_sent_again() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &persistent());
    w.subscribe(s, "t", QoS::AtLeastOnce);
    let p = w.connect(Version::V5, "p", &clean());
    let properties = expiring(5);
    w.publish_with(
        p,
        "t",
        "x",
        QoS::AtLeastOnce,
        false,
        properties.as_properties(),
    );
    assert_eq!(w.take_messages(s)[0].expiry, Some(5));
    w.drop_link(s);
    w.pass_secs(6);
    let s = w.connect(Version::V5, "s", &persistent());
    let again = w.take_messages(s);
    assert!(again[0].dup);
    assert_eq!(again[0].expiry, Some(0));
}

/// What CONNACK announced holds as long as the connection does.
#[test]
fn a_reload_takes_nothing_from_those_who_are_connected() {
    let wide = Settings {
        packet_bytes_max: 4_096,
        receive_maximum: 5,
        topic_alias_maximum: 5,
        ..Settings::default()
    };
    let narrow = Settings {
        packet_bytes_max: 1_024,
        receive_maximum: 1,
        topic_alias_maximum: 1,
        ..Settings::default()
    };
    // A QoS 2 PUBLISH with topic alias 5; the client has two of them under way.
    let aliased = |id| [0x34, 10, 0, 1, b't', 0, id, 3, 0x23, 0, 5, b'x'];
    let mut long = vec![0x30, 0x81, 0x10, 0, 1, b't', 0];
    long.resize(3 + 0x801, b'x');
    let mut w = World::with_settings(1, wide);
    let old = w.connect(Version::V5, "old", &clean());
    w.hubs[0].operate().reconfigure(Arc::new(narrow));
    w.send_bytes(old, &aliased(1));
    w.send_bytes(old, &aliased(2));
    w.send_bytes(old, &long);
    assert_eq!(w.clients[old].closed, None);
    let cases = [
        (
            aliased(1).to_vec(),
            CloseReason::Violation(Violation::TopicAlias),
            "limits.topic_alias_maximum is 1",
        ),
        (
            long,
            CloseReason::Limit(Limit::PacketBytes),
            "limits.packet_bytes is 1024",
        ),
        (
            [
                [0x34, 7, 0, 1, b't', 0, 1, 0, b'x'],
                [0x34, 7, 0, 1, b't', 0, 2, 0, b'x'],
            ]
            .concat(),
            CloseReason::Limit(Limit::ReceiveMaximum),
            "limits.receive_maximum is 1",
        ),
    ];
    for (bytes, reason, told) in cases {
        let new = w.connect(Version::V5, "new", &clean());
        w.send_bytes(new, &bytes);
        assert_eq!(w.clients[new].closed, Some(reason));
        let final_output = w.take_packet(new, 0xE0).unwrap();
        let final_output = String::from_utf8_lossy(&final_output).into_owned();
        assert!(final_output.ends_with(told), "{final_output:?}");
    }
}

/// Policies, unlike what was announced, change for everybody.
#[test]
fn a_reload_changes_the_policies_of_those_who_are_connected() {
    let settings = |qos0| Settings {
        queue_bytes_max: 4_000,
        policies: vec![TopicPolicy {
            filter: "t".into(),
            qos0,
            qos1: SlowPolicy::Disconnect,
            ..TopicPolicy::default()
        }],
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings(SlowPolicy::DropNewest));
    let (s, p) = (
        w.connect(Version::V5, "s", &clean()),
        w.connect(Version::V5, "p", &clean()),
    );
    w.subscribe(s, "t", QoS::AtMostOnce);
    w.clients[s].socket_room = 0;
    w.hubs[0]
        .operate()
        .reconfigure(Arc::new(settings(SlowPolicy::DropOldest)));
    for i in 0..9 {
        w.publish(
            p,
            "t",
            &format!("{i}{}", "x".repeat(999)),
            QoS::AtMostOnce,
            false,
        );
    }
    w.open_socket(s, usize::MAX);
    let got = w.take_payloads(s);
    assert!(got.last().unwrap().starts_with('8') && got.len() < 4);
}

/// Each user has a session of its own under a client id, and guests get a new name each time.
#[test]
fn sessions_of_one_client_id_are_bounded_and_the_newest_stay() {
    let mut w = World::new(1);
    let user = |name: &'static str| ConnectOptions {
        user: Some(name),
        ..persistent()
    };
    let names: Vec<&'static str> = (0..20).map(|n| &*format!("guest{n}").leak()).collect();
    for name in &names {
        w.connect(Version::V5, "c", &user(name));
    }
    assert_eq!(w.hubs[0].inspect().stats().sessions, 16);
    let comes_back = |w: &mut World, name| {
        let client = w.connect_only(Version::V5, "c", &user(name));
        w.take_packet(client, 0x20).unwrap()[2] == 1
    };
    assert!(comes_back(&mut w, names[4]));
    assert!(!comes_back(&mut w, names[3]));
    assert!(!comes_back(&mut w, names[4]), "the oldest had to go for it");
    assert_eq!(w.hubs[0].inspect().stats().sessions, 16);
}

/// A will whose topic is above a limit would never be published: its client is not let in.
#[test]
fn a_will_above_a_limit_of_topics_is_refused() {
    let settings = Settings {
        topic_levels_max: 3,
        ..Settings::default()
    };
    let w = World::with_settings(1, settings);
    for (topic, refused) in [
        ("a/b/c", None),
        (
            "a/b/c/d",
            Some(CloseReason::Violation(Violation::TopicName)),
        ),
    ] {
        let options = ConnectOptions {
            will: Some((topic, "x", 0)),
            ..clean()
        };
        for version in VERSIONS {
            let admitted = w.admit(version, "c", &options);
            assert_eq!(admitted.err(), refused, "{topic}");
        }
    }
}

/// A message whose topic is above a limit is refused, counted and logged once, also where its
/// client cannot be told.
#[test]
fn a_topic_above_a_limit_is_counted_and_logged() {
    let settings = Settings {
        topic_levels_max: 3,
        ..Settings::default()
    };
    for version in [Version::V311, Version::V5] {
        let mut w = World::with_settings(1, settings.clone());
        let c = w.connect(version, "c", &ConnectOptions::default());
        w.subscribe(c, "#", QoS::AtMostOnce);
        for _ in 0..3 {
            w.publish(c, "a/b/c/d", "x", QoS::AtMostOnce, false);
            w.publish(c, "a/b/c", "x", QoS::AtMostOnce, false);
        }
        assert_eq!(w.take_messages(c).len(), 3);
        let stats = w.hubs[0].inspect().stats();
        assert_eq!((stats.denied, stats.topics_refused), (3, 3));
        assert_eq!(stats.publishes_denied, 0, "it had the right");
        let logged = w.events.iter().filter(|event| match event {
            Event::AboveLimit { bound, .. } => {
                &**bound == "the topic has too many levels: limits.topic_levels is 3"
            }
            _ => false,
        });
        assert_eq!(logged.count(), 1);
    }
}
