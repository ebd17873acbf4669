//! Presence of users, over one shard and over several: the home of the zone is shard 0.

use crate::world::{ConnectOptions, World};
use stentor_hub::{Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Remote};

const Q1: QoS = QoS::AtLeastOnce;
const ONLINE: &str = r#"{"state":"online"}"#;

fn user(name: &str) -> ConnectOptions<'_> {
    ConnectOptions {
        user: Some(name),
        ..ConnectOptions::default()
    }
}

/// What has arrived: the user, the state and whether it was retained.
fn told(w: &mut World, client: usize) -> Vec<(String, String, bool)> {
    let messages = w.take_messages(client).into_iter();
    let told = |m: crate::world::Message| {
        let user = m.topic.strip_prefix("$presence/").unwrap().to_owned();
        (user, String::from_utf8(m.payload).unwrap(), m.retain)
    };
    messages.map(told).collect()
}

fn entry(user: &str, state: &str, retained: bool) -> (String, String, bool) {
    (user.into(), state.into(), retained)
}

fn lost() -> CloseReason {
    CloseReason::Remote(Remote::Closed)
}

#[test]
fn users_are_shown_while_they_are_there() {
    for shards in [1, 4] {
        for version in [Version::V311, Version::V5] {
            let mut w = World::new(shards);
            let bob = w.connect(version, "b", &user("bob"));
            let watcher = w.connect(version, "w", &ConnectOptions::default());
            assert_eq!(w.subscribe(watcher, "$presence/+", Q1), 1);
            // A user without a name is not seen.
            assert_eq!(told(&mut w, watcher), [entry("bob", ONLINE, true)]);
            let ann = w.connect(version, "a", &user("a/nn"));
            assert_eq!(told(&mut w, watcher), [entry("a%2fnn", ONLINE, false)]);
            w.disconnect(ann, CloseReason::Remote(Remote::Disconnect));
            assert_eq!(told(&mut w, watcher), [entry("a%2fnn", "", false)]);
            w.disconnect(bob, lost());
            assert_eq!(told(&mut w, watcher), [entry("bob", "", false)]);
            let late = w.connect(version, "l", &ConnectOptions::default());
            assert_eq!(w.subscribe(late, "$presence/#", Q1), 1);
            assert_eq!(told(&mut w, late), [], "nobody is there");
        }
    }
}

#[test]
fn a_user_with_several_connections_is_shown_once() {
    for shards in [1, 4] {
        let mut w = World::new(shards);
        let watcher = w.connect(Version::V5, "w", &ConnectOptions::default());
        w.subscribe(watcher, "$presence/bob", Q1);
        let ids = ["b1", "b2", "b3", "b4", "b5"];
        let all = ids.map(|id| w.connect(Version::V5, id, &user("bob")));
        assert_eq!(told(&mut w, watcher), [entry("bob", ONLINE, false)]);
        for client in &all[1..] {
            w.disconnect(*client, lost());
        }
        assert_eq!(told(&mut w, watcher), []);
        w.disconnect(all[0], lost());
        assert_eq!(told(&mut w, watcher), [entry("bob", "", false)]);
    }
}

#[test]
fn a_session_that_is_taken_over_stays_there() {
    for shards in [1, 4] {
        let mut w = World::new(shards);
        let watcher = w.connect(Version::V5, "w", &ConnectOptions::default());
        w.subscribe(watcher, "$presence/+", Q1);
        for clean_start in [true, false] {
            let bob = ConnectOptions {
                clean_start,
                ..user("bob")
            };
            w.connect_only(Version::V5, "b", &bob);
            w.connect_only(Version::V5, "b", &bob);
        }
        w.settle();
        assert_eq!(told(&mut w, watcher), [entry("bob", ONLINE, false)]);
        // Another user takes the client id.
        let ann = w.connect(Version::V5, "b", &user("ann"));
        let expected = [entry("ann", ONLINE, false), entry("bob", "", false)];
        assert_eq!(told(&mut w, watcher), expected);
        w.disconnect(ann, lost());
        assert_eq!(told(&mut w, watcher), [entry("ann", "", false)]);
    }
}

#[test]
fn nobody_says_it_for_somebody_else() {
    let mut w = World::new(1);
    let watcher = w.connect(Version::V5, "w", &ConnectOptions::default());
    w.subscribe(watcher, "$presence/+", Q1);
    let eve = w.connect(Version::V5, "e", &user("eve"));
    told(&mut w, watcher);
    w.publish(eve, "$presence/bob", ONLINE, Q1, true);
    let ack = w.take_packet(eve, 0x40).unwrap();
    assert_eq!(ack[4], 0x87);
    assert_eq!(told(&mut w, watcher), []);
}

/// Every message of a burst is too much for a client, and others are told of its end meanwhile. Its
/// connection was closed once more for each, one within the other, until the stack was full.
#[test]
fn a_burst_that_is_too_much_for_a_client_ends_it_once() {
    let test = || {
        let settings = Settings {
            queue_bytes_max: 2_000,
            policies: vec![TopicPolicy {
                filter: "m".into(),
                qos0: SlowPolicy::Disconnect,
                ..TopicPolicy::default()
            }],
            ..Settings::default()
        };
        let mut w = World::with_settings(1, settings);
        let slow = w.connect(Version::V5, "slow", &user("slow"));
        let watcher = w.connect(Version::V5, "w", &user("watcher"));
        assert_eq!(w.subscribe(watcher, "$presence/slow", Q1), 1);
        assert_eq!(w.subscribe(slow, "m", QoS::AtMostOnce), 0);
        told(&mut w, watcher);
        w.clients[slow].socket_room = 0;
        let publisher = w.connect(Version::V5, "p", &ConnectOptions::default());
        let publish = [0x30, 4, 0, 1, b'm', 0];
        w.send_bytes(publisher, &publish.repeat(1_000));
        assert!(w.clients[slow].closed.is_some());
        assert_eq!(w.hubs[0].inspect().stats().connected, 2);
        assert_eq!(told(&mut w, watcher), [entry("slow", "", false)]);
    };
    let small_stack = std::thread::Builder::new().stack_size(256 * 1_024);
    small_stack.spawn(test).unwrap().join().unwrap();
}
