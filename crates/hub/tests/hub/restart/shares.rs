//! What members of shared subscriptions are owed, and leave to one another.

use stentor_hub::Settings;
use stentor_mqtt::{QoS, Version};

use super::{come_back, restart, world};
use crate::world::{ConnectOptions, World, clean};

const Q1: QoS = QoS::AtLeastOnce;

/// A member that is away, and is owed as many messages.
fn with_member(w: &mut World, (id, expiry_secs): (&str, u32), filter: &str, messages: usize) {
    let options = ConnectOptions {
        expiry_secs,
        ..ConnectOptions::persistent()
    };
    let member = w.connect(Version::V5, id, &options);
    assert!(w.subscribe(member, filter, Q1) <= 2, "it is granted");
    w.drop_link(member);
    let publisher = w.connect(Version::V311, "p", &clean());
    for number in 0..messages {
        w.publish(publisher, "t", &format!("{number:03}"), Q1, false);
    }
}

/// Other members, which are away too.
fn join(w: &mut World, others: &[&str]) {
    for id in others {
        let other = w.connect(Version::V5, id, &ConnectOptions::persistent());
        w.subscribe(other, "$share/g/t", Q1);
        w.drop_link(other);
    }
}

/// What members get that come back, in order.
fn left_to(w: &mut World, others: &[&str]) -> Vec<String> {
    let mut got = Vec::new();
    for id in others {
        let (other, was_there) = come_back(w, id);
        assert!(was_there, "{id}");
        got.extend(w.take_payloads(other));
    }
    got.sort();
    got
}

/// What [`with_member`] has published.
fn all(messages: usize) -> Vec<String> {
    (0..messages).map(|it| format!("{it:03}")).collect()
}

/// All shards write all sessions again. Returns whether all have come to the end of that.
fn rewrite_all(w: &mut World) -> bool {
    let shards = u8::try_from(w.hubs.len()).unwrap();
    (0..3 * shards).fold(false, |_, at| w.rewrite(at % shards, usize::MAX))
}

fn written(w: &World) -> usize {
    let all = w.journals.iter();
    all.map(|it| it.sizes().iter().sum::<usize>()).sum()
}

/// It keeps what it is owed while it is there, so nothing waits for its end.
#[test]
fn a_member_that_comes_back_for_one_connection_holds_no_round_up() {
    let mut w = world();
    with_member(&mut w, ("a", 1_000), "$share/g/t", 1);
    let options = ConnectOptions {
        expiry_secs: 0,
        ..ConnectOptions::persistent()
    };
    let member = w.connect_only(Version::V5, "a", &options);
    assert_eq!(w.receive_packet(member).expect("a CONNACK")[2], 1);
    assert!(rewrite_all(&mut w), "its message is not acknowledged");
}

#[test]
fn a_long_name_of_a_group_is_written_once_for_all_that_a_member_is_owed() {
    const MESSAGES: usize = 400;
    let group = "g".repeat(4_000);
    let mut w = world();
    with_member(&mut w, ("a", 1_000), &format!("$share/{group}/t"), MESSAGES);
    assert!(rewrite_all(&mut w));
    let base = written(&w);
    assert!(base < 10 * group.len(), "{base} bytes");
    // Its end leaves them to others.
    w.connect(Version::V5, "a", &clean());
    let left = written(&w) - base;
    assert!(left < 10 * group.len(), "{left} bytes");
    // They are its own until it has ended.
    let mut w = world();
    with_member(&mut w, ("a", 1_000), &format!("$share/{group}/t"), MESSAGES);
    assert!(rewrite_all(&mut w));
    restart(&mut w, 3);
    let (member, was_there) = come_back(&mut w, "a");
    assert!(was_there);
    assert_eq!(w.take_payloads(member).len(), MESSAGES);
}

#[test]
fn a_group_with_a_longer_name_than_a_topic_is_refused() {
    let settings = Settings {
        topic_bytes_max: 20,
        ..Settings::default()
    };
    let mut w = World::with_settings(1, settings);
    let a = w.connect(Version::V5, "a", &clean());
    let filter = |bytes: usize| format!("$share/{}/t", "g".repeat(bytes));
    assert_eq!(w.subscribe(a, &filter(20), Q1), 1);
    assert_eq!(w.subscribe(a, &filter(21), Q1), 0x8F);
}

/// Other shards may not know of the other members when the first one could end.
#[test]
fn a_member_that_expired_while_the_server_was_down_leaves_its_messages_to_others() {
    const MESSAGES: usize = 40;
    for shards in 1..4 {
        let mut w = world();
        with_member(&mut w, ("short", 5), "$share/g/t", MESSAGES);
        let others = ["b", "c", "d", "e", "f"];
        join(&mut w, &others);
        w.now = w.now.after_secs(6);
        restart(&mut w, shards);
        w.pass_secs(1);
        assert!(!come_back(&mut w, "short").1);
        assert_eq!(left_to(&mut w, &others), all(MESSAGES), "{shards} shards");
    }
}

/// It is owed what came before, and leaves that to the members when it ends: after a restart too,
/// wherever they are.
#[test]
fn a_member_that_has_unsubscribed_leaves_its_messages_to_others() {
    const MESSAGES: usize = 40;
    for shards in 1..4 {
        let mut w = world();
        with_member(&mut w, ("left", 1_000), "$share/g/t", MESSAGES);
        let others = ["b", "c", "d"];
        join(&mut w, &others);
        let (left, _) = come_back(&mut w, "left");
        w.unsubscribe(left, "$share/g/t");
        w.drop_link(left);
        restart(&mut w, shards);
        w.connect(Version::V5, "left", &clean());
        assert_eq!(left_to(&mut w, &others), all(MESSAGES), "{shards} shards");
    }
}

/// Without a member, nothing is left of a shared subscription of which messages were owed.
#[test]
fn a_shared_subscription_without_members_does_not_come_back() {
    let mut w = world();
    with_member(&mut w, ("left", 1_000), "$share/g/t", 3);
    let (left, _) = come_back(&mut w, "left");
    w.unsubscribe(left, "$share/g/t");
    w.drop_link(left);
    restart(&mut w, 2);
    w.pass_secs(1);
    let known: usize = w
        .hubs
        .iter()
        .map(|hub| hub.inspect().shared_subscriptions().count())
        .sum();
    assert_eq!(known, 0);
    let (left, was_there) = come_back(&mut w, "left");
    assert!(was_there);
    assert_eq!(w.take_payloads(left).len(), 3);
}
