//! Messages that are dear on another shard than their publisher's.

use stentor_hub::{Keep, Settings, TopicPolicy, home_shard};
use stentor_mqtt::Version;
use stentor_topic::Zone;

use super::{Q0, open, publish, tiny};
use crate::world::{ConnectOptions, PING, World, clean};

/// A client id whose home is that shard.
fn id_at(w: &World, shard: u8, name: &str) -> String {
    let mut ids = (0..).map(|n| format!("{name}{n}"));
    ids.find(|id| w.home(id) == shard).unwrap()
}

/// A publisher's message comes to a shard where it is dear: that one holds the publisher until it
/// is routed.
fn is_held_elsewhere(w: &mut World, (p, s): (usize, usize), topic: &str, dear_on: usize) {
    w.paused = true;
    w.send_without_settling(p, &publish(topic, "1", Q0));
    while w.hubs[dear_on].inspect().work_bytes() == 0 {
        let pairs = w.pairs_under_way();
        assert!(!pairs.is_empty(), "it is dear");
        w.deliver_one(pairs[0]);
    }
    let more = [&publish(topic, "2", Q0)[..], &PING].concat();
    w.send_without_settling(p, &more);
    w.flush(w.clients[p].shard);
    assert!(w.take_packet(p, 0xD0).is_none(), "it is held");
    w.paused = false;
    w.settle();
    assert!(w.take_packet(p, 0xD0).is_some(), "it is let go");
    assert_eq!(w.take_payloads(s), ["1", "2"]);
    assert!(w.hubs.iter().all(|hub| hub.inspect().work_bytes() == 0));
}

/// A shard where a message is dear holds its publisher on another one.
#[test]
fn a_publisher_is_held_by_other_shards() {
    let mut w = World::with_settings(2, tiny());
    let (here, there) = (id_at(&w, 0, "p"), id_at(&w, 1, "s"));
    let p = w.connect(Version::V5, &here, &clean());
    let s = w.connect(Version::V5, &there, &clean());
    for filter in ["t", "+", "#", "t/#"] {
        w.subscribe(s, filter, Q0);
    }
    is_held_elsewhere(&mut w, (p, s), "t", 1);
}

/// The same where every message is kept, by a shard that is neither the publisher's nor the
/// subscriber's, or is one of them.
#[test]
fn a_publisher_is_held_by_the_shard_that_orders_a_topic() {
    let policy = TopicPolicy {
        filter: "k/#".into(),
        keep: Keep::Last,
        ..TopicPolicy::default()
    };
    for (publisher, owner, subscriber) in [(0, 1, 1), (0, 1, 0), (0, 1, 2), (1, 1, 0)] {
        let settings = Settings {
            policies: vec![policy.clone()],
            ..tiny()
        };
        let mut w = World::with_settings(3, settings);
        let (here, there) = (id_at(&w, publisher, "p"), id_at(&w, subscriber, "s"));
        let mut topics = (0..).map(|n| format!("k/{n}"));
        let topic = topics.find(|topic| home_shard(&w.hasher, Zone(0), topic, 3).0 == owner);
        let p = w.connect(Version::V5, &here, &clean());
        let s = w.connect(Version::V5, &there, &clean());
        for filter in ["k/+", "+/+", "#", "k/#"] {
            w.subscribe(s, filter, Q0);
        }
        is_held_elsewhere(&mut w, (p, s), &topic.unwrap(), usize::from(subscriber));
    }
}

/// A message in a room goes to the home of the room first.
#[test]
fn a_speaker_is_held_by_other_shards() {
    let mut w = World::with_settings(2, tiny());
    let (here, there) = (id_at(&w, 1, "p"), id_at(&w, 0, "s"));
    let user = |name| ConnectOptions {
        user: Some(name),
        ..clean()
    };
    let p = w.connect(Version::V5, &here, &user("ann"));
    let s = w.connect(Version::V5, &there, &user("ben"));
    for client in [p, s] {
        assert_eq!(w.subscribe(client, "$room/lobby/say/+", Q0), 0);
    }
    assert_eq!(w.subscribe(s, "$room/lobby/#", Q0), 0);
    w.take_messages(s);
    is_held_elsewhere(&mut w, (p, s), "$room/lobby/say", 0);
}

/// A message that is not a job, but costs another shard more than is free, is charged to its
/// publisher: by one item for many messages.
#[test]
fn visits_on_other_shards_are_charged() {
    const LEVELS: u32 = 9;
    let mut w = World::with_settings(2, open());
    let (here, there) = (id_at(&w, 0, "p"), id_at(&w, 1, "s"));
    let (p, s) = (
        w.connect(Version::V5, &here, &clean()),
        w.connect(Version::V5, &there, &clean()),
    );
    for bits in 0..1 << LEVELS {
        let level = |at| if bits >> at & 1 == 0 { "a/" } else { "+/" };
        let filter = (0..LEVELS).map(level).collect::<String>() + "z";
        assert_eq!(w.subscribe(s, &filter, Q0), 0);
    }
    w.paused = true;
    let dear = publish(&("a/".repeat(LEVELS as usize) + "y"), "x", Q0);
    let key = w.clients[p].key.unwrap();
    let takes_more = |w: &mut World| {
        w.hubs[0].begin_turn();
        w.hubs[0].receive(w.now, key, &PING) == PING.len()
    };
    let mut sent = 0;
    while takes_more(&mut w) {
        for _ in 0..10 {
            w.send_without_settling(p, &dear);
            w.hubs[1].begin_turn();
            for pair in w.pairs_under_way() {
                w.deliver_one(pair);
            }
            let visits = w.hubs[1].turn().visits();
            assert!((500..2_048).contains(&visits), "{visits}");
            assert_eq!(w.hubs[1].inspect().work_bytes(), 0);
        }
        sent += 10;
        assert!(takes_more(&mut w), "it does not know yet");
        w.hubs[1].begin_drain();
        w.hubs[1].end_drain(w.now);
        assert_eq!(w.hubs[1].effects().control_items.len(), 1);
        w.settle();
        assert!(sent < 1_000, "it pauses");
    }
    assert!(sent > 50, "it has a credit: {sent}");
}
