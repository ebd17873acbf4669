//! Sessions that end are gone at once, and what they leave is worked off in turns.

use crate::world::{ConnectOptions, World, clean};
use stentor_hub::{Holding, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};
use stentor_topic::Zone;

/// What a turn does at most: its budget, and what the last thing that began in it may take.
const VISITS_MAX: u32 = 4_096 + 1_024 + 512;

fn filters(client: usize, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("flood/{client}/{n}")).collect()
}

/// Turns until nothing is left to do, each of them short.
fn turns(w: &mut World, bystander: usize) -> usize {
    w.turns_beside(bystander, VISITS_MAX, |_| {}).1
}

#[test]
fn many_filters_of_many_sessions_are_taken_out_in_turns() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let all: Vec<usize> = (0..20)
        .map(|n| {
            let client = w.connect(Version::V5, &format!("f{n}"), &clean());
            w.subscribe_all(client, &filters(n, 1_000));
            client
        })
        .collect();
    w.settle();
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 20_000);
    w.paused = true;
    w.hubs[0].begin_turn();
    for &client in &all {
        w.drop_link(client);
    }
    let stats = w.hubs[0].inspect().stats();
    assert_eq!((stats.sessions, stats.connected), (1, 1), "they are gone");
    assert!(w.hubs[0].turn().visits() < VISITS_MAX);
    assert!(turns(&mut w, bystander) > 30);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
    assert_eq!(w.hubs[0].inspect().filters().count(), 0);
    w.check_accounts();
}

/// The next session of the same client begins while the filters of the one before it stand in the
/// index still.
#[test]
fn a_newcomer_gets_nothing_for_the_filters_of_its_predecessor() {
    let mut w = World::new(1);
    let publisher = w.connect(Version::V5, "p", &clean());
    let first = w.connect(Version::V5, "c", &ConnectOptions::persistent());
    w.subscribe_all(first, &filters(0, 5_000));
    w.drop_link(first);
    w.settle();
    // What it owes for that is paid by then.
    w.pass_secs(1);
    w.paused = true;
    w.hubs[0].begin_turn();
    let second = w.connect_only(Version::V5, "c", &clean());
    assert_eq!(w.hubs[0].inspect().stats().sessions, 2);
    assert!(
        w.hubs[0].inspect().stats().subscriptions > 0,
        "they stand there still"
    );
    w.publish(publisher, "flood/0/4999", "old", QoS::AtLeastOnce, false);
    w.publish(publisher, "flood/0/0", "old", QoS::AtLeastOnce, false);
    w.subscribe(second, "flood/0/0", QoS::AtMostOnce);
    w.publish(publisher, "flood/0/0", "new", QoS::AtLeastOnce, false);
    w.paused = false;
    w.settle();
    assert!(w.take_packet(second, 0x20).is_some());
    assert_eq!(w.take_payloads(second), ["new"]);
    w.drop_link(second);
    w.settle();
    assert_eq!(w.hubs[0].inspect().filters().count(), 0);
    w.check_accounts();
}

/// What a member of a group was owed goes to the others, however much it is, and none is lost or
/// doubled.
#[test]
fn what_members_that_leave_were_owed_is_handed_on_in_turns() {
    const MESSAGES: usize = 3_000;
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let publisher = w.connect(Version::V5, "p", &clean());
    let leaving = w.connect(Version::V5, "l", &clean());
    w.subscribe(leaving, "$share/g/work", QoS::AtLeastOnce);
    for n in 0..MESSAGES {
        w.publish(publisher, "work", &n.to_string(), QoS::AtLeastOnce, false);
    }
    w.settle();
    let staying = w.connect(Version::V5, "s", &clean());
    w.subscribe(staying, "$share/g/work", QoS::AtLeastOnce);
    w.settle();
    w.paused = true;
    w.hubs[0].begin_turn();
    w.drop_link(leaving);
    assert!(w.hubs[0].turn().visits() < VISITS_MAX);
    assert!(turns(&mut w, bystander) > 5);
    w.paused = false;
    w.settle();
    let mut got: Vec<usize> = Vec::new();
    loop {
        let messages = w.take_messages(staying);
        if messages.is_empty() {
            break;
        }
        for message in messages {
            let payload = String::from_utf8(message.payload).unwrap();
            got.push(payload.parse().unwrap());
            w.send_ack(staying, 0x40, message.packet_id.unwrap());
        }
        w.settle();
    }
    got.sort_unstable();
    assert_eq!(got, (0..MESSAGES).collect::<Vec<_>>());
    w.check_accounts();
}

/// What waited for sessions that expire together is dropped in turns, and counts as held until
/// then.
#[test]
fn the_queues_of_many_sessions_are_dropped_in_turns() {
    const SESSIONS: usize = 40;
    const MESSAGES: usize = 2_000;
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let publisher = w.connect(Version::V5, "p", &clean());
    for n in 0..SESSIONS {
        let options = ConnectOptions {
            expiry_secs: 10,
            ..clean()
        };
        let client = w.connect(Version::V5, &format!("s{n}"), &options);
        w.subscribe(client, "t", QoS::AtLeastOnce);
        w.drop_link(client);
    }
    for _ in 0..MESSAGES {
        w.publish(publisher, "t", "x", QoS::AtLeastOnce, false);
    }
    w.check_accounts();
    let queued = w.ledger.of(Holding::Queues);
    w.now = w.now.after_secs(11);
    w.paused = true;
    w.hubs[0].begin_turn();
    w.hubs[0].advance(w.now);
    assert!(w.hubs[0].turn().visits() < VISITS_MAX);
    let gone = w.hubs[0].inspect().stats().expired as usize;
    assert_eq!(gone, SESSIONS, "to end them is cheap");
    assert_eq!(w.hubs[0].inspect().stats().sessions, 2);
    let left = w.hubs[0].inspect().work_bytes();
    assert!(left > queued / 10 * 9, "{left} of {queued}");
    let (visits, turns) = w.turns_beside(bystander, VISITS_MAX, |_| {});
    let most = (SESSIONS * MESSAGES) as u64 * 2;
    assert!(
        (most / 10 * 9..most + most / 10).contains(&visits),
        "{visits}"
    );
    assert!(turns > 20, "{turns}");
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    w.check_accounts();
}

/// The same for messages of which the newest of each topic is held back.
#[test]
fn what_was_held_back_is_dropped_in_turns() {
    const TOPICS: usize = 5_000;
    let policies = vec![TopicPolicy {
        filter: "t/#".into(),
        qos1: SlowPolicy::Conflate,
        ..TopicPolicy::default()
    }];
    let mut w = World::with_settings(
        1,
        Settings {
            policies,
            ..Settings::default()
        },
    );
    let bystander = w.connect(Version::V5, "b", &clean());
    let publisher = w.connect(Version::V5, "p", &clean());
    let client = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.subscribe(client, "t/#", QoS::AtLeastOnce);
    w.drop_link(client);
    for n in 0..TOPICS {
        w.publish(publisher, &format!("t/{n}"), "x", QoS::AtLeastOnce, false);
    }
    w.check_accounts();
    let held = w.ledger.of(Holding::Queues);
    assert!(held > 100 * TOPICS as u64, "{held}");
    w.paused = true;
    w.hubs[0].begin_turn();
    assert!(w.hubs[0].operate().kick(w.now, Zone(0), "s", true));
    assert!(w.hubs[0].turn().visits() < VISITS_MAX);
    assert!(w.hubs[0].inspect().work_bytes() > held / 10 * 9);
    assert!(turns(&mut w, bystander) > 1);
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    w.check_accounts();
}

/// A member of few groups that has many other subscriptions leaves those groups at once.
#[test]
fn shared_subscriptions_are_found_among_many_others() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let client = w.connect(Version::V5, "s", &clean());
    w.subscribe(client, "$share/g/first", QoS::AtLeastOnce);
    w.subscribe_all(client, &filters(0, 3_000));
    w.subscribe(client, "$share/g/last", QoS::AtLeastOnce);
    w.subscribe(client, "$share/g/gone", QoS::AtLeastOnce);
    w.unsubscribe(client, "$share/g/gone");
    w.pass_secs(1);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 3_002);
    assert_eq!(w.hubs[0].inspect().shared_subscriptions().count(), 2);
    w.paused = true;
    w.hubs[0].begin_turn();
    w.drop_link(client);
    assert_eq!(w.hubs[0].inspect().shared_subscriptions().count(), 0);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 3_000);
    assert!(
        w.hubs[0].turn().visits() < 200,
        "{}",
        w.hubs[0].turn().visits()
    );
    assert!(turns(&mut w, bystander) > 1);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
    w.check_accounts();
}

/// What a client did not read is dropped in turns when its connection is lost.
#[test]
fn what_waited_for_a_socket_is_dropped_in_turns() {
    let mut w = World::new(1);
    let bystander = w.connect(Version::V5, "b", &clean());
    let publisher = w.connect(Version::V5, "p", &clean());
    let client = w.connect(Version::V5, "s", &clean());
    w.subscribe(client, "t/+", QoS::AtMostOnce);
    w.clients[client].socket_room = 0;
    for n in 0..10_000 {
        w.publish(
            publisher,
            &format!("t/{}", n % 2),
            "x",
            QoS::AtMostOnce,
            false,
        );
    }
    w.check_accounts();
    let held = w.ledger.of(Holding::Queues);
    w.paused = true;
    w.hubs[0].begin_turn();
    w.drop_link(client);
    assert!(w.hubs[0].turn().visits() < 500);
    let left = w.hubs[0].inspect().work_bytes();
    assert!(left > held / 10 * 9, "{left} of {held}");
    assert!(turns(&mut w, bystander) > 1);
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    w.check_accounts();
}
