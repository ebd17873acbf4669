//! What clients see, step by step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use stentor_hub::{Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{
    Disconnect, Packet, PropertyBuf, QoS, ReasonCode, RetainHandling, SubscribeOptions, Version,
};
use stentor_session::{CloseReason, Denied, Limit, Local, Remote, Timer};
use world::{ConnectOptions, TestRights, VERSIONS, World, clean};

#[test]
fn a_publish_reaches_every_matching_subscriber_once() {
    for shards in 1..4 {
        for version in VERSIONS {
            let mut w = World::new(shards);
            let publisher = w.connect(version, "publisher", &clean());
            let subscribers: Vec<_> = (0..20)
                .map(|i| w.connect(VERSIONS[i % 3], &format!("subscriber-{i}"), &clean()))
                .collect();
            for (i, s) in subscribers.iter().enumerate() {
                w.subscribe(*s, ["a/b", "a/+", "#", "a/#"][i % 4], QoS::AtMostOnce);
            }
            w.publish(publisher, "a/b", "hello", QoS::AtMostOnce, false);
            for s in &subscribers {
                assert_eq!(w.take_payloads(*s), ["hello"], "{shards} shards");
            }
        }
    }
}

/// [MQTT-3.3.4-2] [MQTT-3.3.4-4]
#[test]
fn overlapping_subscriptions_give_one_copy_at_the_highest_qos_with_all_identifiers() {
    let mut w = World::new(1);
    let s = w.connect(Version::V5, "s", &clean());
    let options = |qos| SubscribeOptions {
        qos,
        ..Default::default()
    };
    w.subscribe_with(s, "a/+", options(QoS::AtMostOnce), Some(7));
    w.subscribe_with(s, "#", options(QoS::AtLeastOnce), Some(300));
    w.publish(s, "a/b", "x", QoS::ExactlyOnce, false);
    let messages = w.take_messages(s);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].qos, QoS::AtLeastOnce);
    let mut ids = messages[0].ids.clone();
    ids.sort_unstable();
    assert_eq!(ids, [7, 300]);
}

/// [MQTT-4.3.2-1] [MQTT-4.3.3-1]
#[test]
fn qos_1_and_2_complete_and_free_their_packet_ids() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &clean());
        w.subscribe(s, "t", QoS::ExactlyOnce);
        w.publish(p, "t", "one", QoS::AtLeastOnce, false);
        assert!(w.take_packet(p, 0x40).is_some(), "PUBACK");
        w.publish(p, "t", "two", QoS::ExactlyOnce, false);
        assert!(w.take_packet(p, 0x70).is_some(), "PUBCOMP");
        let messages = w.take_messages(s);
        assert_eq!(messages.len(), 2);
        w.send_ack(s, 0x40, messages[0].packet_id.unwrap());
        w.send_ack(s, 0x50, messages[1].packet_id.unwrap());
        assert!(w.take_packet(s, 0x60).is_some(), "PUBREL");
        w.send_ack(s, 0x70, messages[1].packet_id.unwrap());
        let info = w.hubs[usize::from(w.clients[s].shard)]
            .clients()
            .find(|c| &*c.client_id == "s");
        assert_eq!(
            info.map(|info| (info.in_flight, info.waiting)),
            Some((0, 0))
        );
    }
}

/// [MQTT-4.3.3-10]: a repeated QoS 2 PUBLISH is acknowledged again and not passed on again.
#[test]
fn a_repeated_qos_2_publish_is_passed_on_once() {
    let mut w = World::new(1);
    let p = w.connect(Version::V311, "p", &clean());
    let s = w.connect(Version::V311, "s", &clean());
    w.subscribe(s, "t", QoS::AtMostOnce);
    let publish = [0x34, 6, 0, 1, b't', 0, 5, b'x'];
    w.send_bytes(p, &publish);
    w.send_bytes(p, &[0x3C, 6, 0, 1, b't', 0, 5, b'x']);
    assert_eq!(w.take_payloads(s), ["x"]);
    assert!(w.take_packet(p, 0x50).is_some() && w.take_packet(p, 0x50).is_some());
}

/// [MQTT-3.1.2-5] [MQTT-4.4.0-1]
#[test]
fn a_session_keeps_what_its_client_missed() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let p = w.connect(version, "p", &clean());
        let s = w.connect(version, "s", &ConnectOptions::persistent());
        w.subscribe(s, "t", QoS::AtLeastOnce);
        w.publish(p, "t", "seen", QoS::AtLeastOnce, false);
        let unacknowledged = w.take_messages(s);
        w.drop_link(s);
        w.publish(p, "t", "missed", QoS::AtLeastOnce, false);
        w.publish(p, "t", "gone", QoS::AtMostOnce, false);
        let again = w.connect_only(version, "s", &ConnectOptions::persistent());
        let connack = w.receive_packet(again).unwrap();
        // 3.1 has the session but no flag to say so.
        assert_eq!(
            connack[2],
            u8::from(version != Version::V31),
            "session present"
        );
        let messages = w.take_messages(again);
        let texts: Vec<_> = messages.iter().map(|m| m.payload.as_slice()).collect();
        assert_eq!(texts, [b"seen".as_slice(), b"missed"]);
        assert!(messages[0].dup && !messages[1].dup);
        assert_eq!(messages[0].packet_id, unacknowledged[0].packet_id);
    }
}

/// [MQTT-3.3.4-9] towards the client: never more in flight than its receive maximum.
#[test]
fn the_receive_maximum_of_a_client_is_kept_also_after_a_reconnect() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let two = ConnectOptions {
        receive_maximum: 2,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &two);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    for i in 0..5 {
        w.publish(p, "t", &i.to_string(), QoS::AtLeastOnce, false);
    }
    let first = w.take_messages(s);
    assert_eq!(first.len(), 2);
    w.send_ack(s, 0x40, first[0].packet_id.unwrap());
    assert_eq!(w.take_payloads(s), ["2"]);
    w.drop_link(s);
    let one = ConnectOptions {
        receive_maximum: 1,
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &one);
    let mut seen = Vec::new();
    while let [message] = w.take_messages(s).as_slice() {
        seen.push(String::from_utf8(message.payload.clone()).unwrap());
        w.send_ack(s, 0x40, message.packet_id.unwrap());
    }
    assert_eq!(seen, ["1", "2", "3", "4"]);
}

/// [MQTT-3.1.4-3] [MQTT-3.1.2-4]
#[test]
fn a_second_connection_takes_the_session_over() {
    for version in VERSIONS {
        let mut w = World::new(3);
        let p = w.connect(version, "p", &clean());
        let first = w.connect(version, "s", &ConnectOptions::persistent());
        w.subscribe(first, "t", QoS::AtLeastOnce);
        let second = w.connect_only(version, "s", &ConnectOptions::persistent());
        let present = u8::from(version != Version::V31);
        assert_eq!(w.receive_packet(second).unwrap()[2], present);
        assert_eq!(
            w.clients[first].closed,
            Some(CloseReason::Local(Local::TakenOver))
        );
        if version == Version::V5 {
            assert_eq!(
                w.take_packet(first, 0xE0).unwrap()[2],
                ReasonCode::SessionTakenOver as u8
            );
        }
        w.publish(p, "t", "x", QoS::AtLeastOnce, false);
        assert_eq!(w.take_payloads(second), ["x"]);
        let third = w.connect_only(version, "s", &clean());
        assert_eq!(
            w.receive_packet(third).unwrap()[2],
            0,
            "clean start ends the session"
        );
        w.publish(p, "t", "y", QoS::AtLeastOnce, false);
        assert!(w.take_payloads(third).is_empty());
    }
}

#[test]
fn another_user_does_not_inherit_a_session() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let alice = ConnectOptions {
        user: Some("alice"),
        ..ConnectOptions::persistent()
    };
    let s = w.connect(Version::V5, "s", &alice);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    w.publish(p, "t", "for alice", QoS::AtLeastOnce, false);
    let bob = ConnectOptions {
        user: Some("bob"),
        ..ConnectOptions::persistent()
    };
    let s = w.connect_only(Version::V5, "s", &bob);
    assert_eq!(w.receive_packet(s).unwrap()[2], 0);
    assert!(w.take_payloads(s).is_empty());
}

/// [MQTT-3.1.2-8] [MQTT-3.1.2-10] [MQTT-3.14.4-3]
#[test]
fn wills_are_published_unless_the_client_says_goodbye() {
    for version in VERSIONS {
        let mut w = World::new(2);
        let watcher = w.connect(version, "watcher", &clean());
        w.subscribe(watcher, "will/#", QoS::AtLeastOnce);
        let will = ConnectOptions {
            will: Some(("will/a", "gone", 0)),
            ..clean()
        };
        let a = w.connect(version, "a", &will);
        w.drop_link(a);
        assert_eq!(w.take_payloads(watcher), ["gone"]);
        let a = w.connect(version, "a", &will);
        w.send_bytes(a, &[0xE0, 0]);
        assert_eq!(
            w.clients[a].closed,
            Some(CloseReason::Remote(Remote::Disconnect))
        );
        assert!(w.take_payloads(watcher).is_empty());
    }
}

/// [MQTT-3.1.3-9], and the end of a session ends the delay.
#[test]
fn a_will_delay_runs_until_the_client_is_back_or_its_session_ends() {
    let mut w = World::new(1);
    let watcher = w.connect(Version::V5, "watcher", &clean());
    w.subscribe(watcher, "will", QoS::AtMostOnce);
    let delayed = |expiry_secs| ConnectOptions {
        will: Some(("will", "gone", 10)),
        expiry_secs,
        clean_start: false,
        ..clean()
    };
    let a = w.connect(Version::V5, "a", &delayed(60));
    w.drop_link(a);
    w.pass_secs(5);
    let a = w.connect(Version::V5, "a", &delayed(60));
    w.pass_secs(20);
    assert!(
        w.take_payloads(watcher).is_empty(),
        "the client came back in time"
    );
    w.drop_link(a);
    w.pass_secs(9);
    assert!(w.take_payloads(watcher).is_empty());
    w.pass_secs(2);
    assert_eq!(w.take_payloads(watcher), ["gone"]);
    let a = w.connect(Version::V5, "b", &delayed(3));
    w.drop_link(a);
    w.pass_secs(4);
    assert_eq!(
        w.take_payloads(watcher),
        ["gone"],
        "the session ended before the delay"
    );
}

/// [MQTT-3.1.2-22]
/// 5.0 is told the server's keep alive [MQTT-3.2.2-21]; older versions cannot be, so a client that
/// asks for more, or for none, is refused.
#[test]
fn a_keep_alive_above_the_maximum_is_replaced_or_refused() {
    let settings = Settings {
        keep_alive_max_secs: 10,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    for (version, keep_alive_secs) in [
        (Version::V31, 0),
        (Version::V311, 0),
        (Version::V311, 11),
        (Version::V311, 10),
        (Version::V5, 0),
        (Version::V5, 11),
    ] {
        let options = ConnectOptions {
            keep_alive_secs,
            ..ConnectOptions::default()
        };
        let connected = w.connect_as(version, "c", &options, TestRights::denying(&[]));
        if !version.is_v5() && keep_alive_secs != 10 {
            let refused = CloseReason::Denied(Denied::KeepAlive);
            assert_eq!(connected, Err(refused), "{version:?} {keep_alive_secs}");
            continue;
        }
        let c = connected.unwrap();
        w.pass_secs(14);
        assert_eq!(w.clients[c].closed, None, "{version:?} {keep_alive_secs}");
        w.pass_secs(2);
        let late = Some(CloseReason::Timeout(Timer::KeepAlive));
        assert_eq!(w.clients[c].closed, late, "{version:?} {keep_alive_secs}");
    }
}

#[test]
fn a_silent_client_is_closed_after_one_and_a_half_keep_alives() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        keep_alive_secs: 10,
        ..clean()
    };
    let silent = w.connect(Version::V5, "silent", &options);
    let alive = w.connect(Version::V5, "alive", &options);
    for _ in 0..14 {
        w.pass_secs(1);
        w.send_bytes(alive, &[0xC0, 0]);
    }
    assert_eq!(w.clients[silent].closed, None);
    w.pass_secs(2);
    assert_eq!(
        w.clients[silent].closed,
        Some(CloseReason::Timeout(Timer::KeepAlive))
    );
    assert_eq!(w.clients[alive].closed, None);
}

#[test]
fn a_session_expires_and_its_subscriptions_with_it() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        expiry_secs: 30,
        clean_start: false,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    w.pass_secs(29);
    assert_eq!(w.hubs[0].stats().subscriptions, 1);
    w.pass_secs(2);
    let stats = w.hubs[0].stats();
    assert_eq!(
        (stats.subscriptions, stats.sessions, stats.expired),
        (0, 0, 1)
    );
}

/// [MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] [MQTT-3.3.1-11] [MQTT-3.3.1-12]
#[test]
fn retained_messages_follow_the_suback_as_retain_handling_says() {
    let mut w = World::new(2);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &clean());
    w.publish(p, "t", "kept", QoS::AtLeastOnce, true);
    let with = |retain_handling| SubscribeOptions {
        qos: QoS::AtLeastOnce,
        retain_handling,
        ..Default::default()
    };
    w.subscribe_with(s, "t", with(RetainHandling::DoNotSend), None);
    assert!(w.take_messages(s).is_empty());
    w.subscribe_with(s, "t", with(RetainHandling::SendIfNew), None);
    assert!(w.take_messages(s).is_empty(), "the subscription existed");
    w.subscribe_with(s, "t", with(RetainHandling::Send), None);
    let messages = w.take_messages(s);
    assert!(messages.len() == 1 && messages[0].retain && messages[0].payload == b"kept");
    w.publish(p, "t", "live", QoS::AtMostOnce, true);
    assert!(
        !w.take_messages(s)[0].retain,
        "RETAIN is 0 to established subscriptions"
    );
    w.publish(p, "t", "", QoS::AtMostOnce, true);
    assert_eq!(w.take_payloads(s), [""]);
    w.subscribe_with(s, "+", with(RetainHandling::Send), None);
    assert!(w.take_messages(s).is_empty(), "an empty payload clears");
}

#[test]
fn a_wildcard_gets_every_retained_match_however_slow_its_reader() {
    let mut w = World::new(2);
    let p = w.connect(Version::V311, "p", &clean());
    for i in 0..1_500 {
        w.publish(p, &format!("r/{i}"), &i.to_string(), QoS::AtMostOnce, true);
    }
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "r/#", qos);
        let mut seen = 0;
        loop {
            let messages = w.take_messages(s);
            seen += messages.len();
            if messages.is_empty() {
                break;
            }
            for id in messages.iter().filter_map(|message| message.packet_id) {
                w.send_ack(s, 0x40, id);
            }
        }
        assert_eq!(seen, 1_500);
        w.drop_link(s);
        let s = w.connect(Version::V311, "slow", &clean());
        w.clients[s].socket_room = 5;
        w.subscribe(s, "r/+", QoS::AtMostOnce);
        let mut seen = 0;
        while w.hubs[usize::from(w.clients[s].shard)]
            .client(stentor_topic::Zone(0), "slow")
            .and_then(|info| info.connection)
            .is_some_and(|connection| connection.is_blocked)
        {
            let queued = w.hubs.iter().flat_map(stentor_hub::Hub::clients);
            let most = queued
                .filter_map(|c| c.connection.map(|c| c.queued_bytes))
                .max();
            assert!(most.unwrap() < 80 * 1024, "bounded memory");
            w.open_socket(s, 4_003);
            seen += w.take_messages(s).len();
        }
        assert_eq!(seen, 1_500);
        w.drop_link(s);
    }
}

/// [MQTT-3.8.3-3] no-local; retain-as-published.
#[test]
fn no_local_and_retain_as_published() {
    let mut w = World::new(1);
    let a = w.connect(Version::V5, "a", &clean());
    let options = SubscribeOptions {
        no_local: true,
        retain_as_published: true,
        ..Default::default()
    };
    w.subscribe_with(a, "t", options, None);
    w.publish(a, "t", "own", QoS::AtMostOnce, false);
    assert!(w.take_messages(a).is_empty());
    let b = w.connect(Version::V5, "b", &clean());
    w.publish(b, "t", "other", QoS::AtMostOnce, true);
    assert!(w.take_messages(a)[0].retain);
    // A mosquitto bridge of 3.1.1 gets both without asking.
    let bridge = ConnectOptions {
        bridge: true,
        ..clean()
    };
    let c = w.connect(Version::V311, "c", &bridge);
    w.subscribe(c, "u", QoS::AtMostOnce);
    w.publish(c, "u", "own", QoS::AtMostOnce, false);
    assert!(w.take_messages(c).is_empty());
    w.publish(b, "u", "other", QoS::AtMostOnce, true);
    assert!(w.take_messages(c)[0].retain);
}

/// [MQTT-3.3.2-6]
#[test]
fn message_expiry_counts_down_and_ends_the_wait() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.drop_link(s);
    let mut properties = PropertyBuf::new();
    properties.push(stentor_mqtt::Property::MessageExpiryInterval(60));
    w.publish_with(
        p,
        "t",
        "long",
        QoS::AtLeastOnce,
        false,
        properties.as_properties(),
    );
    properties.clear();
    properties.push(stentor_mqtt::Property::MessageExpiryInterval(5));
    w.publish_with(
        p,
        "t",
        "short",
        QoS::AtLeastOnce,
        false,
        properties.as_properties(),
    );
    w.pass_secs(20);
    let s = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    let messages = w.take_messages(s);
    assert_eq!(messages.len(), 1, "the short one expired");
    assert_eq!(
        (messages[0].payload.as_slice(), messages[0].expiry),
        (b"long".as_slice(), Some(40))
    );
}

/// [MQTT-3.3.2-8] and aliases towards the client.
#[test]
fn topic_aliases_work_both_ways() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        alias_maximum: 1,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "#", QoS::AtMostOnce);
    let mut alias = PropertyBuf::new();
    alias.push(stentor_mqtt::Property::TopicAlias(3));
    w.publish_with(
        p,
        "long/topic",
        "1",
        QoS::AtMostOnce,
        false,
        alias.as_properties(),
    );
    w.publish_with(p, "", "2", QoS::AtMostOnce, false, alias.as_properties());
    w.publish(p, "other", "3", QoS::AtMostOnce, false);
    let topics: Vec<_> = w.take_messages(s).into_iter().map(|m| m.topic).collect();
    assert_eq!(
        topics,
        ["long/topic", "", "other"],
        "the one alias is for the first topic"
    );
    alias.clear();
    alias.push(stentor_mqtt::Property::TopicAlias(9));
    w.publish_with(p, "", "?", QoS::AtMostOnce, false, alias.as_properties());
    assert!(matches!(
        w.clients[p].closed,
        Some(CloseReason::Violation(_))
    ));
}

#[test]
fn a_shared_subscription_gives_each_message_to_one_member() {
    for shards in [1, 2, 4] {
        let mut w = World::new(shards);
        let p = w.connect(Version::V311, "p", &clean());
        let members: Vec<_> = (0..6)
            .map(|i| w.connect(Version::V5, &format!("m{i}"), &clean()))
            .collect();
        for m in &members {
            assert_eq!(w.subscribe(*m, "$share/g/t/+", QoS::AtLeastOnce), 1);
        }
        for i in 0..600 {
            w.publish(p, "t/x", &i.to_string(), QoS::AtMostOnce, false);
        }
        let counts: Vec<_> = members.iter().map(|m| w.take_messages(*m).len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 600);
        assert!(
            counts.iter().all(|count| (60..=140).contains(count)),
            "balanced: {counts:?}"
        );
        for m in &members[1..] {
            w.unsubscribe(*m, "$share/g/t/+");
        }
        w.publish(p, "t/x", "last", QoS::AtMostOnce, false);
        assert_eq!(w.take_payloads(members[0]), ["last"]);
        w.drop_link(members[0]);
        assert_eq!(
            w.hubs
                .iter()
                .map(|hub| hub.filters().count())
                .sum::<usize>(),
            0
        );
    }
}

/// [MQTT-4.8.2-4]: what a member did not acknowledge goes to another one when its session ends.
#[test]
fn a_member_that_leaves_loses_nothing() {
    for shards in [1, 3] {
        let mut w = World::new(shards);
        let p = w.connect(Version::V5, "p", &clean());
        let a = w.connect(Version::V5, "a", &clean());
        w.subscribe(a, "$share/g/t", QoS::AtLeastOnce);
        for i in 0..10 {
            w.publish(p, "t", &i.to_string(), QoS::AtLeastOnce, false);
        }
        let b = w.connect(Version::V5, "b", &clean());
        w.subscribe(b, "$share/g/t", QoS::AtLeastOnce);
        let seen = w.take_messages(a);
        w.send_ack(a, 0x40, seen[0].packet_id.unwrap());
        w.drop_link(a);
        let mut left = w.take_payloads(b);
        left.sort();
        assert_eq!(left, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    }
}

#[test]
fn rights_refuse_without_closing() {
    let mut w = World::new(1);
    let old = w.connect(Version::V311, "old", &clean());
    let new = w.connect(Version::V5, "new", &clean());
    assert_eq!(w.subscribe(old, "secret/x", QoS::AtMostOnce), 0x80);
    assert_eq!(w.subscribe(new, "secret/x", QoS::AtMostOnce), 0x87);
    w.publish(old, "secret/x", "1", QoS::AtLeastOnce, false);
    assert_eq!(
        w.take_packet(old, 0x40).unwrap(),
        [0x40, 2, 0, 77],
        "3.1.1 is acknowledged"
    );
    w.publish(new, "secret/x", "1", QoS::AtLeastOnce, false);
    assert_eq!(w.take_packet(new, 0x40).unwrap()[4], 0x87);
    w.publish(new, "secret/x", "1", QoS::AtLeastOnce, false);
    assert!(w.clients[old].closed.is_none() && w.clients[new].closed.is_none());
    let logged = w
        .events
        .iter()
        .filter(|e| matches!(e, stentor_hub::Event::PublishDenied { .. }));
    assert_eq!(logged.count(), 2, "once for each client and topic");
    assert_eq!(w.subscribe(new, "a/#/b", QoS::AtMostOnce), 0x8F);
}

fn slow_world(qos0: SlowPolicy, qos1: SlowPolicy) -> (World, usize, usize) {
    let mut w = World::with_settings(
        2,
        Settings {
            queue_bytes_max: 20_000,
            policies: vec![TopicPolicy {
                filter: "t/#".into(),
                qos0,
                qos1,
                ..TopicPolicy::default()
            }],
            ..Settings::default()
        },
    );
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        expiry_secs: 100,
        ..clean()
    };
    let s = w.connect(Version::V5, "slow", &options);
    w.subscribe(s, "t/#", QoS::AtLeastOnce);
    w.clients[s].socket_room = 0;
    (w, p, s)
}

fn flood(w: &mut World, p: usize, qos: QoS) {
    for i in 0..100 {
        let payload = format!("{i:03}{}", "x".repeat(997));
        w.publish(p, "t/1", &payload, qos, false);
    }
}

#[test]
fn the_topic_policy_decides_what_a_slow_client_gets() {
    let numbers = |payloads: Vec<String>| -> Vec<usize> {
        payloads.iter().map(|p| p[..3].parse().unwrap()).collect()
    };
    let (mut w, p, s) = slow_world(SlowPolicy::DropNewest, SlowPolicy::DropNewest);
    flood(&mut w, p, QoS::AtMostOnce);
    w.open_socket(s, usize::MAX);
    let got = numbers(w.take_payloads(s));
    assert_eq!(
        got,
        (0..got.len()).collect::<Vec<_>>(),
        "the oldest are kept"
    );
    assert!(got.len() < 25);
    let (mut w, p, s) = slow_world(SlowPolicy::DropOldest, SlowPolicy::DropOldest);
    flood(&mut w, p, QoS::AtMostOnce);
    w.open_socket(s, usize::MAX);
    let got = numbers(w.take_payloads(s));
    assert_eq!(
        got,
        (100 - got.len()..100).collect::<Vec<_>>(),
        "the newest are kept"
    );
    let shard = usize::from(w.clients[s].shard);
    assert_eq!(
        w.hubs[shard].stats().publishes_dropped,
        100 - got.len() as u64
    );
    assert_eq!(w.hubs[shard].losses().worst(1)[0].0, "slow");
}

#[test]
fn policy_disconnect_closes_with_0x97_and_keeps_the_session() {
    let (mut w, p, s) = slow_world(SlowPolicy::Disconnect, SlowPolicy::Disconnect);
    flood(&mut w, p, QoS::AtLeastOnce);
    assert_eq!(
        w.clients[s].closed,
        Some(CloseReason::Limit(Limit::QueueBytes))
    );
    let options = ConnectOptions {
        clean_start: false,
        expiry_secs: 100,
        ..clean()
    };
    let s = w.connect_only(Version::V5, "slow", &options);
    assert_eq!(w.receive_packet(s).unwrap()[2], 1);
    assert!(w.take_messages(s).len() > 10);
}

#[test]
fn a_slow_client_gets_every_byte_in_order_through_any_window() {
    for room in [5, 64, 1_000, 9_000] {
        let mut w = World::new(1);
        let p = w.connect(Version::V5, "p", &clean());
        let options = ConnectOptions {
            alias_maximum: 10,
            ..clean()
        };
        let aliased = w.connect(Version::V5, "aliased", &options);
        let plain = w.connect(Version::V311, "plain", &clean());
        for s in [aliased, plain] {
            w.subscribe(s, "#", QoS::AtLeastOnce);
            w.clients[s].socket_room = 0;
        }
        for i in 0..40 {
            // Some above and some below the size at which payloads are shared.
            let payload = format!("{i:02}{}", "y".repeat(if i % 3 == 0 { 6_000 } else { 30 }));
            let qos = if i % 2 == 0 {
                QoS::AtMostOnce
            } else {
                QoS::AtLeastOnce
            };
            w.publish(p, &format!("topic/{}", i % 12), &payload, qos, false);
        }
        for s in [aliased, plain] {
            let mut got = Vec::new();
            for _ in 0..200_000 {
                w.open_socket(s, room);
                got.extend(w.take_payloads(s));
                if got.len() == 40 {
                    break;
                }
            }
            let numbers: Vec<usize> = got.iter().map(|p| p[..2].parse().unwrap()).collect();
            assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "room {room}");
        }
    }
}

/// [MQTT-3.1.2-24]
#[test]
fn a_message_above_the_clients_packet_size_is_left_out() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let options = ConnectOptions {
        packet_bytes_max: 100,
        ..clean()
    };
    let s = w.connect(Version::V5, "s", &options);
    w.subscribe(s, "t", QoS::AtLeastOnce);
    w.publish(p, "t", &"x".repeat(200), QoS::AtLeastOnce, false);
    w.publish(p, "t", "small", QoS::AtLeastOnce, false);
    assert_eq!(w.take_payloads(s), ["small"]);
}

#[test]
fn disconnect_may_change_the_session_expiry_but_not_from_zero() {
    let mut w = World::new(1);
    let disconnect = |w: &mut World, client: usize, secs: u32| {
        let mut properties = PropertyBuf::new();
        properties.push(stentor_mqtt::Property::SessionExpiryInterval(secs));
        let reason = ReasonCode::Success;
        let properties = properties.as_properties();
        w.send(
            client,
            &Packet::Disconnect(Disconnect { reason, properties }),
        );
    };
    let a = w.connect(Version::V5, "a", &clean());
    disconnect(&mut w, a, 5);
    assert!(matches!(
        w.clients[a].closed,
        Some(CloseReason::Violation(_))
    ));
    let b = w.connect(
        Version::V5,
        "b",
        &ConnectOptions {
            expiry_secs: 5,
            ..clean()
        },
    );
    disconnect(&mut w, b, 0);
    assert_eq!(w.hubs[0].stats().sessions, 0);
}

#[test]
fn a_violation_closes_that_connection_and_no_other() {
    for bytes in [
        &[0x10, 0][..],                     // a broken CONNECT
        &[0x00, 0],                         // a reserved type
        &[0x36, 4, 0, 1, b'a', 0],          // QoS 3
        &[0x30, 3, 0, 1, b'#'],             // a wildcard in a topic name
        &[0x20, 2, 0, 0],                   // CONNACK
        &[0xF0, 0],                         // AUTH without a method
        &[0x82, 3, 0, 1, 0],                // SUBSCRIBE without a filter
        &[0xC0, 0x80, 0x80, 0x80, 0x80, 1], // a length of five bytes
    ] {
        let mut w = World::new(1);
        let bad = w.connect(Version::V5, "bad", &clean());
        let good = w.connect(Version::V5, "good", &clean());
        w.subscribe(good, "t", QoS::AtMostOnce);
        w.send_bytes(bad, bytes);
        assert!(w.clients[bad].closed.is_some(), "{bytes:x?}");
        let goodbye = w.take_packet(bad, 0xE0).expect("5.0 is told why");
        assert!(goodbye[2] >= 0x80);
        w.publish(good, "t", "fine", QoS::AtMostOnce, false);
        assert_eq!(w.take_payloads(good), ["fine"]);
    }
}
