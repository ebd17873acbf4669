//! Bounds of the subscriptions that make it dear to deliver the messages of others.

use std::sync::Arc;

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::Settings;
use stentor_mqtt::{QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

fn narrow() -> Settings {
    Settings {
        shares_max: 3,
        share_groups_max: 2,
        topic_wildcards_max: 2,
        ..Settings::default()
    }
}

/// The last text of a packet, in words.
fn explanation(suback: &[u8]) -> String {
    String::from_utf8_lossy(suback).into_owned()
}

#[test]
fn a_filter_has_so_many_wildcards() {
    for version in [Version::V311, Version::V5] {
        let mut w = World::with_settings(2, narrow());
        let refused = if version.is_v5() { 0x97 } else { 0x80 };
        let c = w.connect(version, "c", &clean());
        for (filter, reason) in [
            ("a/+/b/+", 0),
            ("+/a/#", 0),
            ("+/+/+", refused),
            ("+/a/+/#", refused),
            ("$share/g/+/a/+/#", refused),
            ("$share/g/+/a/#", 0),
        ] {
            assert_eq!(w.subscribe(c, filter, Q0), reason, "{filter}");
        }
        assert_eq!(
            w.hubs[usize::from(w.home("c"))]
                .inspect()
                .stats()
                .subscriptions,
            3
        );
    }
}

#[test]
fn a_session_shares_so_many_subscriptions() {
    for shards in [1, 3] {
        let mut w = World::with_settings(shards, narrow());
        let c = w.connect(Version::V5, "c", &ConnectOptions::persistent());
        let share = |n: u8| format!("$share/g/t/{n}");
        for n in 0..3 {
            assert_eq!(w.subscribe(c, &share(n), Q0), 0);
        }
        w.subscribe_all_only(c, &[share(3)]);
        let suback = w.take_packet(c, 0x90).unwrap();
        assert_eq!(suback.last(), Some(&0x97));
        let why = explanation(&suback);
        assert!(
            why.contains("shares as many subscriptions as it may"),
            "{why}"
        );
        // What is there already may change, and what is not shared does not count.
        assert_eq!(w.subscribe(c, &share(2), Q1), 1);
        assert_eq!(w.subscribe(c, "t/3", Q0), 0);
        // It does not matter for others.
        let other = w.connect(Version::V5, "other", &clean());
        assert_eq!(w.subscribe(other, &share(3), Q0), 0);
        w.unsubscribe(c, &share(0));
        w.unsubscribe(c, &share(0));
        assert_eq!(w.subscribe(c, &share(3), Q0), 0);
        assert_eq!(w.subscribe(c, &share(0), Q0), 0x97);
        // They count while the session waits, and end with it.
        w.drop_link(c);
        let c = w.connect(Version::V5, "c", &ConnectOptions::persistent());
        assert_eq!(w.subscribe(c, &share(0), Q0), 0x97);
        let c = w.connect(Version::V5, "c", &clean());
        for n in 0..3 {
            assert_eq!(w.subscribe(c, &share(n), Q0), 0);
        }
        assert_eq!(w.subscribe(c, &share(3), Q0), 0x97);
    }
}

#[test]
fn so_many_groups_share_one_filter() {
    for shards in [1, 3] {
        let mut w = World::with_settings(shards, narrow());
        let members: Vec<_> = (0..4)
            .map(|n| w.connect(Version::V5, &format!("m{n}"), &clean()))
            .collect();
        assert_eq!(w.subscribe(members[0], "$share/a/t/+", Q0), 0);
        assert_eq!(w.subscribe(members[1], "$share/b/t/+", Q0), 0);
        w.subscribe_all_only(members[2], &["$share/c/t/+".to_owned()]);
        let suback = w.take_packet(members[2], 0x90).unwrap();
        assert_eq!(suback.last(), Some(&0x97));
        let why = explanation(&suback);
        assert!(why.contains("as many groups as may share one"), "{why}");
        // Neither who joins one of them, nor another filter, nor who does not share.
        for filter in ["$share/a/t/+", "$share/c/t/#", "t/+"] {
            assert_eq!(w.subscribe(members[2], filter, Q0), 0, "{filter}");
        }
        // A group ends with its last member.
        w.unsubscribe(members[0], "$share/a/t/+");
        assert_eq!(w.subscribe(members[3], "$share/c/t/+", Q0), 0x97);
        w.drop_link(members[1]);
        assert_eq!(w.subscribe(members[3], "$share/c/t/+", Q0), 0);
        for member in [2, 3] {
            w.drop_link(members[member]);
        }
        let filters: usize = w
            .hubs
            .iter()
            .map(|hub| hub.inspect().filters().count())
            .sum();
        assert_eq!(filters, 0);
    }
}

/// Lower limits refuse what is new.
#[test]
fn a_session_keeps_what_it_has_when_limits_are_lowered() {
    let mut w = World::with_settings(2, Settings::default());
    let c = w.connect(Version::V5, "c", &clean());
    let p = w.connect(Version::V5, "p", &clean());
    let had = ["+/+/+/+", "a/long/topic/of/b", "$share/g/t", "$share/h/t"];
    for filter in had {
        assert_eq!(w.subscribe(c, filter, Q0), 0);
    }
    let lower = Arc::new(Settings {
        shares_max: 1,
        share_groups_max: 1,
        topic_wildcards_max: 1,
        topic_levels_max: 4,
        subscription_bytes_max: 100,
        ..Settings::default()
    });
    for hub in &mut w.hubs {
        hub.operate().reconfigure(Arc::clone(&lower));
    }
    for filter in had {
        assert_eq!(w.subscribe(c, filter, Q1), 1, "{filter}");
    }
    w.publish(p, "a/b/c/d", "1", Q0, false);
    w.publish(p, "t", "2", Q0, false);
    assert_eq!(w.take_payloads(c), ["1", "2", "2"]);
    for (filter, reason) in [
        ("+/+/+", 0x97),
        ("a/long/topic/of/c", 0x8F),
        ("$share/i/t", 0x97),
        ("$share/g/u", 0x97),
        ("short", 0x97),
    ] {
        assert_eq!(w.subscribe(c, filter, Q0), reason, "{filter}");
    }
}

/// A SUBACK tells why, where the client wants to know [MQTT-3.1.2-29].
#[test]
fn a_refused_filter_is_explained() {
    let settings = Settings {
        subscriptions_max: 1,
        topic_levels_max: 4,
        ..narrow()
    };
    let denied = ConnectOptions {
        denied: &["secret"],
        ..clean()
    };
    for wants in [true, false] {
        let mut w = World::with_settings(1, settings.clone());
        let (mut request, identity) = crate::world::request(Version::V5, "c", &denied);
        request.request_problem_information = wants;
        let c = w.enter(request, identity.into());
        assert_eq!(w.subscribe(c, "a", Q0), 0);
        for (filter, reason, text) in [
            (
                "a/b#",
                0x8F,
                "`#` in a topic filter must occupy a whole level",
            ),
            (
                "$share/g",
                0x8F,
                "a shared subscription lacks its topic filter",
            ),
            (
                "a/b/c/d/e",
                0x8F,
                "or has more levels, than this server takes: limits.topic_levels is 4",
            ),
            (
                "secret/b",
                0x87,
                "the right to receive what this filter matches",
            ),
            (
                "b",
                0x97,
                "as it may have: limits.subscriptions_per_client is 1",
            ),
        ] {
            let suback = w.subscribe_asking(c, filter, Q0, &[]);
            assert_eq!(suback.last(), Some(&reason), "{filter}");
            let told = explanation(&suback).contains(text);
            assert_eq!(told, wants, "{filter}: {}", explanation(&suback));
        }
        let all = ["a".to_owned(), "a".to_owned()];
        w.subscribe_all_only(c, &all);
        let suback = explanation(&w.take_packet(c, 0x90).unwrap());
        assert_eq!(suback.contains("as many subscriptions"), wants, "{suback}");
    }
    // 3.x has no place for it.
    let mut w = World::with_settings(1, settings);
    let c = w.connect(Version::V311, "c", &denied);
    let suback = w.subscribe_asking(c, "secret/b", Q0, &[]);
    assert_eq!(suback[1..], [3, 0, 9, 0x80]);
}

/// Audit B8: members of a group come and go in any order, and each has its turn.
#[test]
fn members_come_and_go_and_each_has_its_turn() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    let id = |n: usize| format!("m{n}");
    let mut members: Vec<_> = (0..40)
        .map(|n| w.connect(Version::V5, &id(n), &ConnectOptions::persistent()))
        .collect();
    for member in &members {
        w.subscribe(*member, "$share/g/t", Q1);
    }
    // Every third is away, every fifth has left.
    for (n, member) in members.iter().enumerate() {
        if n.is_multiple_of(5) {
            w.unsubscribe(*member, "$share/g/t");
        } else if n.is_multiple_of(3) {
            w.drop_link(*member);
        }
    }
    let is_there = |n: &usize| !n.is_multiple_of(5) && !n.is_multiple_of(3);
    let there: Vec<_> = (0..40_usize).filter(is_there).collect();
    for round in 0..3 {
        for _ in &there {
            w.publish(p, "t", "x", Q1, false);
        }
        for &n in &there {
            assert_eq!(w.take_messages(members[n]).len(), 1, "{n} in {round}");
        }
    }
    for n in (0..40_usize).filter(|n| n.is_multiple_of(3)) {
        members[n] = w.connect(Version::V5, &id(n), &ConnectOptions::persistent());
    }
    let there: Vec<_> = (0..40_usize).filter(|n| !n.is_multiple_of(5)).collect();
    for _ in &there {
        w.publish(p, "t", "x", Q1, false);
    }
    for n in there {
        assert_eq!(w.take_messages(members[n]).len(), 1, "{n}");
    }
}
