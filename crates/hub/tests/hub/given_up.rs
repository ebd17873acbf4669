//! Connections that a policy gives up are closed in turns, and hold no more meanwhile.

use crate::world::{ConnectOptions, PING, World, clean};
use stentor_hub::{Holding, Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};
use stentor_session::{CloseReason, Limit};

const CLIENTS: usize = 300;

/// What a turn does at most: its budget, and the last thing that began in it.
const VISITS_MAX: u32 = 4_096 + 1_024;

const GIVEN_UP: CloseReason = CloseReason::Limit(Limit::QueueBytes);

/// One shard that disconnects whoever has more than so many messages waiting.
fn world(queue_messages_max: usize) -> World {
    let policies = vec![TopicPolicy {
        filter: "#".into(),
        qos0: SlowPolicy::Disconnect,
        qos1: SlowPolicy::Disconnect,
        ..TopicPolicy::default()
    }];
    let settings = Settings {
        queue_messages_max,
        policies,
        ..Settings::default()
    };
    World::with_settings(1, settings)
}

/// Clients that do not read.
fn slow(w: &mut World, filter: &str, level: QoS, options: &ConnectOptions<'_>) -> Vec<usize> {
    let each = |n| {
        let client = w.connect(Version::V5, &format!("s{n}"), options);
        w.subscribe(client, filter, level);
        w.clients[client].socket_room = 0;
        client
    };
    (0..CLIENTS).map(each).collect()
}

fn closed(w: &World, all: &[usize]) -> usize {
    let is_closed = |client: &&usize| w.clients[**client].closed == Some(GIVEN_UP);
    all.iter().filter(is_closed).count()
}

#[test]
fn clients_overrun_by_one_message_are_closed_in_turns() {
    for level in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut w = world(20);
        let bystander = w.connect(Version::V5, "b", &clean());
        let publisher = w.connect(Version::V5, "p", &clean());
        let other = w.connect(Version::V5, "o", &clean());
        let options = ConnectOptions {
            receive_maximum: 1,
            ..clean()
        };
        let all = slow(&mut w, "t", level, &options);
        let most = if level == QoS::AtMostOnce { 20 } else { 21 };
        for _ in 0..most {
            w.hubs[0].begin_turn();
            w.publish(publisher, "t", "x", level, false);
        }
        assert_eq!(closed(&w, &all), 0);
        w.paused = true;
        w.hubs[0].begin_turn();
        w.publish(publisher, "t", "too much", level, false);
        assert!(w.hubs[0].turn().visits() < VISITS_MAX);
        w.flush(0);
        let at_once = closed(&w, &all);
        assert!((10..CLIENTS / 2).contains(&at_once), "{at_once}");
        w.check_accounts();
        let held = w.ledger.of(Holding::Queues);
        // Those that wait for their end get nothing more, and nothing is taken from them.
        for _ in 0..20 {
            w.publish(other, "t", "more", level, false);
        }
        let waiting = *all.last().unwrap();
        let received = w.hubs[0].inspect().stats().packets_received;
        w.send_without_settling(waiting, &PING);
        assert_eq!(w.hubs[0].inspect().stats().packets_received, received);
        w.check_accounts();
        let after = w.ledger.of(Holding::Queues);
        // The acknowledgements of what has just come wait as well.
        assert!(after < held + 1_000, "{after} > {held}");
        assert_eq!(w.hubs[0].inspect().stats().publishes_received, most + 21);
        let (_, turns) = w.turns_beside(bystander, VISITS_MAX, |_| {});
        assert!(turns > 3, "{turns}");
        w.flush(0);
        assert_eq!(closed(&w, &all), CLIENTS);
        let stats = w.hubs[0].inspect().stats();
        assert_eq!((stats.connected, stats.sessions), (3, 3));
        w.check_accounts();
        assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    }
}

/// A session that stays gets later what fits, in order, as if its connection had ended at once; and
/// a client that is back before its connection was closed is not closed again.
#[test]
fn a_session_that_stays_keeps_its_queue() {
    let mut w = world(20);
    let publisher = w.connect(Version::V5, "p", &clean());
    let other = w.connect(Version::V5, "o", &clean());
    let options = ConnectOptions {
        receive_maximum: 1,
        ..ConnectOptions::persistent()
    };
    let all = slow(&mut w, "t", QoS::AtLeastOnce, &options);
    for n in 0..21 {
        w.hubs[0].begin_turn();
        w.publish(publisher, "t", &n.to_string(), QoS::AtLeastOnce, false);
    }
    w.paused = true;
    w.hubs[0].begin_turn();
    w.publish(publisher, "t", "21", QoS::AtLeastOnce, false);
    w.flush(0);
    assert!(closed(&w, &all) < CLIENTS);
    w.publish(other, "t", "22", QoS::AtLeastOnce, false);
    let back = w.connect_only(Version::V5, &format!("s{}", CLIENTS - 1), &options);
    w.paused = false;
    for _ in 0..100 {
        w.advance();
    }
    assert_eq!(closed(&w, &all), CLIENTS - 1, "one was taken over");
    assert_eq!(w.clients[back].closed, None);
    let first = w.connect(Version::V5, "s0", &options);
    for client in [back, first] {
        let mut got = Vec::new();
        while let Some(message) = w.take_messages(client).pop() {
            got.push(String::from_utf8(message.payload.clone()).unwrap());
            w.send_ack(client, 0x40, message.packet_id.unwrap());
        }
        let expected: Vec<String> = (0..22).map(|n: u32| n.to_string()).collect();
        assert_eq!(got, expected);
    }
    w.check_accounts();
}

/// What is shared goes to members that stay.
#[test]
fn a_member_that_is_given_up_gets_nothing_that_is_shared() {
    let mut w = world(20);
    let publisher = w.connect(Version::V5, "p", &clean());
    let all = slow(&mut w, "t", QoS::AtMostOnce, &clean());
    let member = *all.last().unwrap();
    w.open_socket(member, usize::MAX);
    w.subscribe(member, "$share/g/work", QoS::AtLeastOnce);
    w.clients[member].socket_room = 0;
    let other = w.connect(Version::V5, "o", &clean());
    w.subscribe(other, "$share/g/work", QoS::AtLeastOnce);
    for _ in 0..20 {
        w.hubs[0].begin_turn();
        w.publish(publisher, "t", "x", QoS::AtMostOnce, false);
    }
    w.paused = true;
    w.hubs[0].begin_turn();
    w.publish(publisher, "t", "too much", QoS::AtMostOnce, false);
    w.flush(0);
    assert!(w.clients[member].closed.is_none());
    for _ in 0..10 {
        w.publish(other, "work", "x", QoS::AtLeastOnce, false);
    }
    w.paused = false;
    w.settle();
    assert_eq!(w.take_messages(other).len(), 10);
    w.pass_secs(5);
    assert_eq!(closed(&w, &all), CLIENTS);
}
