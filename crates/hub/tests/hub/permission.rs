//! Rights that permit a part of what is subscribed to: checked at delivery, and only then.

use std::sync::Arc;

use crate::world::{ConnectOptions, TestRights, World};
use stentor_hub::{ControlItem, Identity, Renewal, Renewed, Settings, WideSubscription};
use stentor_mqtt::{QoS, Version};

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
        .map(|hub| hub.inspect().stats().publishes_withheld)
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

/// A session of very many subscriptions, whose rights change: nothing that they do not permit is
/// delivered, not even while its subscriptions are weighed.
#[test]
fn new_rights_hold_at_once_however_long_their_review_takes() {
    let mut w = World::new(1);
    let options = ConnectOptions {
        user: Some("ann"),
        ..free()
    };
    let ann = w.connect(Version::V5, "a", &options);
    let filters: Vec<String> = (0..20_000).map(|n| format!("t/{n}")).collect();
    w.subscribe_all(ann, &filters);
    w.subscribe(ann, "secret/#", QoS::AtMostOnce);
    let publisher = w.connect(Version::V5, "p", &free());
    let publish = |w: &mut World, payload: &str| {
        w.publish(publisher, "secret/x", payload, QoS::AtMostOnce, false);
        w.publish(publisher, "t/7", payload, QoS::AtMostOnce, false);
        w.flush(0);
    };
    let change = |w: &mut World, denied: &'static [&'static str]| {
        w.hubs[0].begin_turn();
        w.control_all(&ControlItem::Renew(Arc::new(Denying(denied))));
        assert!(w.hubs[0].turn().visits() < 6_000);
    };
    w.paused = true;
    change(&mut w, &["secret/"]);
    let mut turns = 0;
    while w.go_on(0) {
        assert!(w.hubs[0].turn().visits() < 6_000);
        publish(&mut w, "1");
        assert_eq!(w.take_payloads(ann), ["1"]);
        turns += 1;
    }
    assert!(turns > 3, "{turns}");
    publish(&mut w, "2");
    assert_eq!(w.take_payloads(ann), ["2"], "the review has found it");
    // Back and forth while a review is under way: only the last ones count.
    change(&mut w, &[]);
    w.go_on(0);
    change(&mut w, &["t/"]);
    w.go_on(0);
    change(&mut w, &["secret/"]);
    while w.go_on(0) {}
    publish(&mut w, "3");
    assert_eq!(w.take_payloads(ann), ["3"]);
    change(&mut w, &[]);
    while w.go_on(0) {}
    publish(&mut w, "4");
    assert_eq!(w.take_payloads(ann), ["4", "4"]);
}

/// Ann has all rights but these.
#[derive(Debug)]
struct Denying(&'static [&'static str]);

impl Renewal for Denying {
    fn subject(&self) -> &str {
        "ann"
    }
    fn renew(&self, identity: &Arc<Identity>, _client_id: &str) -> Renewed {
        if identity.user.as_deref() != Some("ann") {
            return Renewed::Keep;
        }
        Renewed::Replace(Arc::new(Identity {
            rights: TestRights::denying(self.0),
            ..(**identity).clone()
        }))
    }
}
