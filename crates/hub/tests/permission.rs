//! Rights that permit a part of what is subscribed to: checked at delivery, and only then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use stentor_hub::{Settings, WideSubscription};
use stentor_mqtt::{QoS, Version};
use world::{ConnectOptions, World};

const V5: Version = Version::V5;

/// May not see what begins with `x/`.
fn narrow() -> ConnectOptions<'static> {
    ConnectOptions {
        denied: &["x/"],
        ..ConnectOptions::persistent()
    }
}

fn free() -> ConnectOptions<'static> {
    ConnectOptions {
        denied: &[],
        ..ConnectOptions::persistent()
    }
}

fn withheld(world: &World) -> u64 {
    world
        .hubs
        .iter()
        .map(|hub| hub.stats().publishes_withheld)
        .sum()
}

#[test]
fn a_wide_subscription_delivers_what_is_permitted() {
    for shards in [1, 3] {
        let mut w = World::new(shards);
        let publisher = w.connect(V5, "p", &free());
        w.publish(publisher, "x/old", "1", QoS::AtMostOnce, true);
        w.publish(publisher, "y/old", "2", QoS::AtMostOnce, true);
        let dashboard = w.connect(V5, "d", &narrow());
        assert_eq!(w.subscribe(dashboard, "#", QoS::AtLeastOnce), 1);
        assert_eq!(w.take_payloads(dashboard), ["2"], "a retained message");
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
            w.publish(publisher, "x/a", "3", qos, false);
            w.publish(publisher, "y/a", "4", qos, false);
            assert_eq!(w.take_payloads(dashboard), ["4"]);
        }
        assert_eq!(withheld(&w), 3);
        // A second subscription that is permitted in full changes nothing, nor does its end.
        w.subscribe(dashboard, "z/#", QoS::AtMostOnce);
        w.publish(publisher, "x/a", "5", QoS::AtMostOnce, false);
        w.unsubscribe(dashboard, "z/#");
        w.publish(publisher, "x/a", "6", QoS::AtMostOnce, false);
        assert!(w.take_payloads(dashboard).is_empty());
        assert_eq!(withheld(&w), 5);
        // Nothing is looked at once the wide one is gone.
        w.unsubscribe(dashboard, "#");
        w.subscribe(dashboard, "z/#", QoS::AtMostOnce);
        w.publish(publisher, "z/a", "7", QoS::AtMostOnce, false);
        assert_eq!(w.take_payloads(dashboard), ["7"]);
        assert_eq!(withheld(&w), 5);
    }
}

/// Messages that arrive in one read are delivered together; the rights count all the same.
#[test]
fn a_burst_delivers_what_is_permitted() {
    for shards in [1, 2] {
        let mut w = World::new(shards);
        let publisher = w.connect(Version::V311, "p", &free());
        let dashboard = w.connect(Version::V311, "d", &narrow());
        w.subscribe(dashboard, "#", QoS::AtMostOnce);
        let packet = |topic: &[u8; 3]| [&[0x30, 6, 0, 3], &topic[..], b"!"].concat();
        w.send_bytes(
            publisher,
            &[packet(b"x/a"), packet(b"y/a")].concat().repeat(3),
        );
        w.send_bytes(publisher, &packet(b"x/a").repeat(5));
        w.send_bytes(publisher, &packet(b"y/a").repeat(5));
        assert_eq!(w.take_payloads(dashboard).len(), 8);
        assert_eq!(withheld(&w), 8);
    }
}

#[test]
fn what_is_not_permitted_at_all_is_refused_always_and_in_part_by_choice() {
    for (wide, expected) in [
        (WideSubscription::Filter, 0),
        (WideSubscription::Refuse, 0x87),
    ] {
        let mut w = World::with_settings(
            1,
            Settings {
                wide_subscription: wide,
                ..Settings::default()
            },
        );
        for filter in ["", "$share/g/"] {
            let of = |topic: &str| format!("{filter}{topic}");
            let client = w.connect(V5, "c", &narrow());
            assert_eq!(w.subscribe(client, &of("#"), QoS::AtMostOnce), expected);
            assert_eq!(w.subscribe(client, &of("x/#"), QoS::AtMostOnce), 0x87);
            assert_eq!(w.subscribe(client, &of("y/#"), QoS::AtMostOnce), 0);
            let old = w.connect(Version::V311, "c3", &narrow());
            let expected = expected.min(0x80);
            assert_eq!(w.subscribe(old, &of("#"), QoS::AtMostOnce), expected);
            assert_eq!(w.subscribe(old, &of("x/#"), QoS::AtMostOnce), 0x80);
        }
    }
}

/// Each message finds the one member that may have it, on whatever shard that is.
#[test]
fn a_shared_subscription_picks_who_may_receive() {
    for shards in [1, 2, 5] {
        let mut w = World::new(shards);
        let publisher = w.connect(V5, "p", &free());
        let mut narrow_ones = Vec::new();
        for number in 0..20 {
            let client = w.connect(V5, &format!("n{number}"), &narrow());
            w.subscribe(client, "$share/g/#", QoS::AtLeastOnce);
            narrow_ones.push(client);
        }
        w.publish(publisher, "x/a", "nobody", QoS::AtLeastOnce, false);
        assert_eq!(withheld(&w), 1);
        let free_one = w.connect(V5, "f", &free());
        w.subscribe(free_one, "$share/g/#", QoS::AtLeastOnce);
        for number in 0..50 {
            w.publish(
                publisher,
                "x/a",
                &format!("{number}"),
                QoS::AtLeastOnce,
                false,
            );
        }
        let got = w.take_payloads(free_one);
        assert_eq!(got.len(), 50, "{shards} shards");
        for client in &narrow_ones {
            assert!(w.take_payloads(*client).is_empty());
        }
        // What all may receive is spread as always.
        for number in 0..42 {
            w.publish(
                publisher,
                "y/a",
                &format!("{number}"),
                QoS::AtLeastOnce,
                false,
            );
        }
        let of_free = w.take_payloads(free_one).len();
        let of_narrow = narrow_ones
            .iter()
            .map(|client| w.take_payloads(*client).len());
        assert_eq!(of_free + of_narrow.sum::<usize>(), 42);
        assert!(of_free < 42);
    }
}

#[test]
fn what_was_queued_is_checked_again_when_the_client_comes_back() {
    let mut w = World::new(2);
    let publisher = w.connect(V5, "p", &free());
    let client = w.connect(V5, "c", &free());
    w.subscribe(client, "#", QoS::AtLeastOnce);
    w.publish(publisher, "x/sent", "0", QoS::AtLeastOnce, false);
    assert_eq!(w.take_payloads(client), ["0"], "and is not acknowledged");
    w.drop_link(client);
    w.publish(publisher, "x/a", "1", QoS::AtLeastOnce, false);
    w.publish(publisher, "y/a", "2", QoS::AtLeastOnce, false);
    let client = w.connect(V5, "c", &narrow());
    assert_eq!(w.take_payloads(client), ["2"]);
    assert_eq!(withheld(&w), 2);
    // The subscription that it found is filtered from now on.
    w.publish(publisher, "x/b", "3", QoS::AtMostOnce, false);
    w.publish(publisher, "y/b", "4", QoS::AtMostOnce, false);
    assert_eq!(w.take_payloads(client), ["4"]);
    // And not any more when the rights come back.
    w.drop_link(client);
    let client = w.connect(V5, "c", &free());
    w.publish(publisher, "x/b", "5", QoS::AtMostOnce, false);
    assert!(w.take_payloads(client).contains(&"5".to_owned()));
}
