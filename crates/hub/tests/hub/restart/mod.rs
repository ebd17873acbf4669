//! A server that ends at any moment, and goes on with its sessions.

mod dropped;
mod full;
mod messages;
mod rooms;
mod shares;
mod simulation;
mod stored;

use std::collections::BTreeSet;
use std::time::Duration;

use stentor_hub::{Settings, Start, prior_message, prior_sessions};
use stentor_mqtt::{Packet, PacketId, Properties, Publish, QoS, SubscribeOptions, Version};
use stentor_session::Tick;
use stentor_session_log::{Away, JournalId, List, Name, Quotas, Record, Replay, Session};
use stentor_topic::Zone;

use crate::world::{ConnectOptions, GRACE_SECS, Journal, World, clean, encoded, identity};

fn world() -> World {
    World::writing(2, Settings::default())
}

/// The server is killed, and starts with another number of shards.
fn restart(w: &mut World, shards: u8) {
    w.crash(shards, u64::from(shards) + 40);
}

/// Connects, and says whether the session was there.
fn come_back(w: &mut World, id: &str) -> (usize, bool) {
    let client = w.connect_only(Version::V5, id, &ConnectOptions::persistent());
    let connack = w.receive_packet(client).expect("a CONNACK");
    (client, connack[2] == 1)
}

#[test]
fn subscriptions_survive_with_their_options() {
    let mut w = world();
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    let options = SubscribeOptions {
        qos: QoS::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        ..SubscribeOptions::default()
    };
    w.subscribe_with(a, "news/+", options, Some(77));
    w.subscribe(a, "$share/crew/jobs", QoS::AtMostOnce);
    w.subscribe(a, "gone", QoS::AtMostOnce);
    w.unsubscribe(a, "gone");
    w.subscribe_asking(a, "slow", QoS::AtMostOnce, &[("max-rate", "2")]);
    let before = w.hubs[usize::from(w.home("a"))]
        .inspect()
        .granted(w.clients[a].key.unwrap());
    let slow = before.iter().find(|one| &*one.filter == "slow");
    let interval = slow.and_then(|one| one.interval);
    assert_eq!(interval, Some(Duration::from_millis(500)));
    for shards in [3, 1, 2] {
        restart(&mut w, shards);
        if shards == 1 {
            assert!(w.rewrite(0, 100), "nothing of the earlier starts is needed");
        }
        let p = w.connect(Version::V311, "p", &clean());
        let (a, present) = come_back(&mut w, "a");
        assert!(present, "{shards} shards");
        w.publish(p, "jobs", "for the group", QoS::AtLeastOnce, false);
        let mut after = w.hubs[usize::from(w.home("a"))]
            .inspect()
            .granted(w.clients[a].key.unwrap());
        let mut expected = before.clone();
        for all in [&mut after, &mut expected] {
            all.sort_by(|a, b| a.filter.cmp(&b.filter));
        }
        assert_eq!(after, expected, "{shards} shards");
        assert_eq!(w.take_payloads(a), ["for the group"], "it was a member");
        w.publish(p, "news/x", "here", QoS::AtMostOnce, false);
        let message = w.take_messages(a).pop().unwrap();
        assert_eq!((message.ids, message.qos), (vec![77], QoS::AtMostOnce));
    }
}

/// Shards know which members of a shared subscription are there, and which are away.
#[test]
fn a_shared_message_goes_to_a_member_that_is_there() {
    let mut w = world();
    for id in ["a", "b", "c", "d"] {
        let client = w.connect(Version::V5, id, &ConnectOptions::persistent());
        w.subscribe(client, "$share/crew/jobs", QoS::AtLeastOnce);
    }
    restart(&mut w, 3);
    let (b, _) = come_back(&mut w, "b");
    for id in ["p", "q", "r"] {
        let p = w.connect(Version::V311, id, &clean());
        (0..4).for_each(|_| w.publish(p, "jobs", id, QoS::AtLeastOnce, false));
        assert_eq!(w.take_payloads(b), [id; 4], "from shard {}", w.home(id));
    }
}

#[test]
fn a_session_that_does_not_last_writes_nothing() {
    let mut w = world();
    let a = w.connect(Version::V5, "a", &clean());
    w.subscribe(a, "x", QoS::ExactlyOnce);
    w.unsubscribe(a, "x");
    w.drop_link(a);
    assert!(w.journals.iter().all(Journal::is_empty));
}

#[test]
fn a_hub_that_is_not_told_to_writes_nothing() {
    let mut w = World::new(1);
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    w.subscribe(a, "x", QoS::AtLeastOnce);
    assert!(w.journals.is_empty() && w.hubs[0].effects().log.is_empty());
}

#[test]
fn what_has_ended_does_not_come_back() {
    let mut w = world();
    let (mut ended, lasts) = (Vec::new(), ConnectOptions::persistent());
    for id in ["clean", "kicked", "expired", "lasts"] {
        let expiry_secs = if id == "expired" { 5 } else { 1_000 };
        let options = ConnectOptions {
            expiry_secs,
            ..lasts.clone()
        };
        ended.push(w.connect(Version::V5, id, &options));
    }
    w.connect(Version::V5, "clean", &clean());
    let home = usize::from(w.home("kicked"));
    let now = w.now;
    w.hubs[home].operate().kick(now, Zone(0), "kicked", true);
    w.settle();
    w.drop_link(ended[2]);
    w.drop_link(ended[3]);
    restart(&mut w, 3);
    w.pass_secs(6);
    for id in ["clean", "kicked", "expired"] {
        assert!(!come_back(&mut w, id).1, "{id}");
    }
    restart(&mut w, 2);
    assert!(come_back(&mut w, "lasts").1);
}

/// An absence goes on: neither does it begin again, nor is it counted twice.
#[test]
fn a_session_expires_when_it_would_have() {
    let mut w = world();
    let options = ConnectOptions {
        expiry_secs: 100,
        ..ConnectOptions::persistent()
    };
    let a = w.connect(Version::V5, "a", &options);
    w.drop_link(a);
    for _ in 0..2 {
        w.pass_secs(40);
        restart(&mut w, 1);
    }
    let is_there = |w: &World| w.hubs[0].inspect().client(Zone(0), "a").is_some();
    assert!(is_there(&w));
    w.pass_secs(21);
    assert!(!is_there(&w));
}

fn with_will(expiry_secs: u32) -> ConnectOptions<'static> {
    ConnectOptions {
        will: Some(("will", "gone", 0)),
        expiry_secs,
        ..ConnectOptions::persistent()
    }
}

fn is_published_once(expiry_secs: u32) {
    let mut w = world();
    w.connect(Version::V5, "a", &with_will(expiry_secs));
    let watcher = w.connect(Version::V5, "w", &ConnectOptions::persistent());
    w.subscribe(watcher, "will", QoS::AtMostOnce);
    restart(&mut w, 1);
    let (watcher, _) = come_back(&mut w, "w");
    w.pass_secs(GRACE_SECS - 1);
    assert!(w.take_payloads(watcher).is_empty());
    w.pass_secs(2);
    assert_eq!(w.take_payloads(watcher), ["gone"]);
    restart(&mut w, 2);
    let (watcher, _) = come_back(&mut w, "w");
    w.pass_secs(2 * GRACE_SECS);
    assert!(w.take_payloads(watcher).is_empty());
}

#[test]
fn the_will_of_a_client_that_stays_away_is_published_once() {
    is_published_once(u32::MAX);
}

#[test]
fn so_is_that_of_a_session_that_does_not_last() {
    is_published_once(0);
}

fn is_not_published(expiry_secs: u32) {
    let mut w = world();
    w.connect(Version::V5, "a", &with_will(expiry_secs));
    let watcher = w.connect(Version::V5, "w", &ConnectOptions::persistent());
    w.subscribe(watcher, "will", QoS::AtLeastOnce);
    restart(&mut w, 3);
    come_back(&mut w, "w");
    let (_, present) = come_back(&mut w, "a");
    assert_eq!(present, expiry_secs > 0);
    restart(&mut w, 1);
    let (watcher, _) = come_back(&mut w, "w");
    w.pass_secs(2 * GRACE_SECS);
    assert!(w.take_payloads(watcher).is_empty());
}

#[test]
fn the_will_of_a_client_that_is_back_is_not_published() {
    is_not_published(u32::MAX);
}

#[test]
fn nor_is_that_of_one_whose_session_has_not_lasted() {
    is_not_published(0);
}

/// Their readers are disconnected too, so they are for the next start.
#[test]
fn wills_survive_a_stop() {
    for expiry_secs in [0, u32::MAX] {
        let mut w = world();
        w.connect(Version::V5, "a", &with_will(expiry_secs));
        let watcher = w.connect(Version::V5, "w", &ConnectOptions::persistent());
        w.subscribe(watcher, "will", QoS::AtLeastOnce);
        w.stop();
        restart(&mut w, 1);
        let (watcher, _) = come_back(&mut w, "w");
        w.pass_secs(GRACE_SECS + 1);
        assert_eq!(w.take_payloads(watcher), ["gone"], "{expiry_secs}");
    }
}

/// What the client may receive follows from the roles that it had.
#[test]
fn rights_hold_by_the_roles_that_were_written_down() {
    let mut w = world();
    let options = ConnectOptions {
        denied: &["a/"],
        ..ConnectOptions::persistent()
    };
    let a = w.connect(Version::V5, "a", &options);
    w.subscribe(a, "#", QoS::AtLeastOnce);
    restart(&mut w, 2);
    let p = w.connect(Version::V311, "p", &clean());
    w.publish(p, "a/x", "denied", QoS::AtLeastOnce, false);
    w.publish(p, "b/x", "allowed", QoS::AtLeastOnce, false);
    let (a, _) = come_back(&mut w, "a");
    assert_eq!(w.take_payloads(a), ["allowed"]);
}

/// Stored messages that were not sent before the end are sent after it, from the first one on.
#[test]
fn a_snapshot_begins_anew() {
    const MESSAGES: usize = 400;
    let mut w = world();
    let keep = |w: &mut World| {
        let payload = "x".repeat(1_000);
        (0..MESSAGES).for_each(|at| w.restore(&format!("s/{at}"), &payload));
    };
    keep(&mut w);
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    let b = w.connect(Version::V5, "b", &ConnectOptions::persistent());
    w.subscribe(b, "s/+", QoS::AtMostOnce);
    w.paused = true;
    let id = PacketId::new(1).unwrap();
    w.subscribe_only(a, id, "s/+", crate::world::qos(QoS::AtMostOnce));
    restart(&mut w, 3);
    w.paused = false;
    keep(&mut w);
    assert!(w.rewrite_all());
    restart(&mut w, 1);
    keep(&mut w);
    for (id, messages) in [("a", MESSAGES), ("b", 0)] {
        let (client, _) = come_back(&mut w, id);
        assert_eq!(w.take_payloads(client).len(), messages, "{id}");
    }
    restart(&mut w, 1);
    keep(&mut w);
    let (a, _) = come_back(&mut w, "a");
    assert!(w.take_payloads(a).is_empty());
}

/// A session is in a room only while its client is there, and comes back to it then.
#[test]
fn what_is_below_rooms_is_asked_for_again() {
    let mut w = world();
    let lasts = ConnectOptions {
        user: Some("ann"),
        ..ConnectOptions::persistent()
    };
    let a = w.connect(Version::V5, "a", &lasts);
    for filter in ["$room/hall/#", "$room/left/#", "$room/away/#"] {
        w.subscribe(a, filter, QoS::AtLeastOnce);
    }
    w.unsubscribe(a, "$room/left/#");
    w.drop_link(a);
    for shards in [3, 1] {
        restart(&mut w, shards);
        if shards == 1 {
            assert!(w.rewrite_all());
            restart(&mut w, 2);
        }
        let a = w.connect(Version::V5, "a", &lasts);
        let granted = w.hubs[usize::from(w.home("a"))]
            .inspect()
            .granted(w.clients[a].key.unwrap());
        let mut filters: Vec<_> = granted.iter().map(|it| &*it.filter).collect();
        filters.sort_unstable();
        assert_eq!(filters, ["$room/away/#", "$room/hall/#"], "{shards} shards");
    }
}

/// The server was down for a while.
fn is_down(w: &mut World, secs: u32) {
    w.now = w.now.after_secs(secs);
}

/// However soon its session would have ended: in the downtime, or before the grace is over.
#[test]
fn a_will_waits_for_the_grace() {
    for (down, is_connected) in [(0, true), (0, false), (100, true), (100, false)] {
        let mut w = world();
        let delayed = ConnectOptions {
            will: Some(("will", "gone", 1_000)),
            ..with_will(5)
        };
        let a = w.connect(Version::V5, "a", &delayed);
        let watcher = w.connect(Version::V5, "w", &ConnectOptions::persistent());
        w.subscribe(watcher, "will", QoS::AtLeastOnce);
        if !is_connected {
            w.drop_link(a);
        }
        is_down(&mut w, down);
        restart(&mut w, 2);
        let (watcher, _) = come_back(&mut w, "w");
        w.pass_secs(GRACE_SECS - 1);
        assert!(w.take_payloads(watcher).is_empty(), "{down} {is_connected}");
        w.pass_secs(2);
        assert_eq!(w.take_payloads(watcher), ["gone"], "{down} {is_connected}");
    }
}

#[test]
fn the_delay_of_a_will_goes_on_after_a_stop() {
    let mut w = world();
    let delayed = ConnectOptions {
        will: Some(("will", "gone", 300)),
        ..with_will(u32::MAX)
    };
    w.connect(Version::V5, "a", &delayed);
    let watcher = w.connect(Version::V5, "w", &ConnectOptions::persistent());
    w.subscribe(watcher, "will", QoS::AtLeastOnce);
    w.stop();
    is_down(&mut w, 100);
    restart(&mut w, 3);
    let (watcher, _) = come_back(&mut w, "w");
    w.pass_secs(199);
    assert!(w.take_payloads(watcher).is_empty());
    w.pass_secs(2);
    assert_eq!(w.take_payloads(watcher), ["gone"]);
}

/// The client may hold the ids that it was last sent: it would take a new message for an old one.
#[test]
fn packet_ids_go_on() {
    for waits in [false, true] {
        let mut w = world();
        let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
        w.subscribe(a, "x", QoS::ExactlyOnce);
        let p = w.connect(Version::V311, "p", &clean());
        let publish = |w: &mut World, p, payload: &str| {
            w.publish(p, "x", payload, QoS::ExactlyOnce, false);
        };
        publish(&mut w, p, "old");
        let before = w.take_messages(a)[0].packet_id.unwrap();
        w.send_ack(a, 0x50, before);
        restart(&mut w, 1);
        let p = w.connect(Version::V311, "p", &clean());
        if waits {
            publish(&mut w, p, "new");
        }
        let (a, present) = come_back(&mut w, "a");
        assert!(present);
        if !waits {
            publish(&mut w, p, "new");
        }
        let pubrel = w.take_packet(a, 0x60).expect("it was received before");
        assert_eq!(pubrel[2..4], before.get().to_be_bytes());
        let message = &w.take_messages(a)[0];
        let after = message.packet_id.unwrap().get();
        assert_eq!((&*message.payload, after), (&b"new"[..], before.get() + 1));
    }
}

/// A board without a clock begins in 1970, or was told a wrong time once.
#[test]
fn a_clock_that_was_wrong_neither_ends_a_session_nor_keeps_it() {
    const HOUR_MS: u64 = 3_600_000;
    const NOW_MS: u64 = 1_700_000_000_000;
    for (since_ms, left) in [
        (NOW_MS - HOUR_MS, 3_600),
        (5_000, 7_200),
        (NOW_MS + 1_000 * HOUR_MS, 7_200),
    ] {
        let session = Session {
            number: 0,
            zone: 0,
            client_id: "a",
            user: None,
            guest: None,
            expiry_secs: 7_200,
            has_no_account: false,
            roles_are_of_credential: false,
            roles: List::default(),
            quotas: Quotas::default(),
        };
        let away = Away {
            number: 0,
            since_ms,
            until_ms: Some(since_ms + 2 * HOUR_MS),
            will_at_ms: None,
        };
        let mut records = Vec::new();
        Record::Session(session).encode(&mut records);
        Record::Away(away).encode(&mut records);
        let mut replay = Replay::new();
        replay.journal(JournalId {
            generation: 1,
            shard: 0,
        });
        let at = Name {
            file: 1,
            offset: 64,
        };
        replay.batch(at, &records).unwrap();
        let start = Start {
            now: Tick::from_secs(1),
            zero_ms: NOW_MS - 1_000,
            will_grace_secs: GRACE_SECS,
        };
        let restored = replay.finish(|name, body| prior_message(&start, name, body));
        let owner = (identity(None, Tick::NEVER, &[]), None);
        let sessions = prior_sessions(restored, &start, |_| Some(owner.clone()));
        assert_eq!(sessions[0].until, start.now.after_secs(left), "{since_ms}");
    }
}

/// One call of the hub may say more than a batch should have. What is cut apart holds together.
#[test]
fn what_is_much_is_written_in_several_batches() {
    for payload_bytes in [10_000, 150_000, 600_000] {
        let mut w = world();
        let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
        for filter in ["x", "$share/g/x"] {
            w.subscribe(a, filter, QoS::AtLeastOnce);
        }
        w.drop_link(a);
        let p = w.connect(Version::V311, "p", &clean());
        let payload = "x".repeat(payload_bytes);
        let count = 1_200_000 / payload_bytes;
        let mut bytes = Vec::new();
        for number in 0..count {
            let packet = Packet::Publish(Publish {
                dup: false,
                qos: QoS::AtLeastOnce,
                retain: false,
                topic: "x",
                packet_id: PacketId::new(number as u16 + 1),
                properties: Properties::EMPTY,
                payload: payload.as_bytes(),
            });
            bytes.extend(encoded(Version::V311, &packet));
        }
        w.send_bytes(p, &bytes);
        let sizes = w.journals[usize::from(w.home("p"))].sizes();
        let largest = sizes.iter().max().copied().unwrap_or(0);
        assert!(largest < payload_bytes + (257 << 10), "{sizes:?}");
        restart(&mut w, 2);
        let (a, _) = come_back(&mut w, "a");
        let received = w.take_payloads(a).len();
        assert_eq!(received, 2 * count, "by each of its subscriptions");
    }
}

/// A member that begins anew leaves what it was owed to others, however soon the server is killed.
#[test]
fn messages_of_a_member_that_begins_anew_survive() {
    const COUNT: usize = 300;
    let mut w = world();
    let subscribe = |w: &mut World, id| {
        let client = w.connect(Version::V5, id, &ConnectOptions::persistent());
        w.subscribe(client, "$share/g/x", QoS::AtLeastOnce);
        w.drop_link(client);
    };
    subscribe(&mut w, "a");
    let p = w.connect(Version::V311, "p", &clean());
    for number in 0..COUNT {
        w.publish(p, "x", &number.to_string(), QoS::AtLeastOnce, false);
    }
    subscribe(&mut w, "b");
    // So nothing is handed on in later turns.
    w.paused = true;
    let options = ConnectOptions {
        clean_start: true,
        ..ConnectOptions::persistent()
    };
    w.connect_only(Version::V5, "a", &options);
    restart(&mut w, 2);
    w.paused = false;
    let (b, present) = come_back(&mut w, "b");
    assert!(present);
    let received: BTreeSet<String> = w.take_payloads(b).into_iter().collect();
    assert_eq!(received.len(), COUNT, "others get all of it");
}

/// The messages of a long queue are written before its base, in batches of their own.
#[test]
fn the_base_of_a_long_queue_is_written_in_several_batches() {
    const COUNT: usize = 20;
    let mut w = world();
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    w.subscribe(a, "x", QoS::AtLeastOnce);
    w.drop_link(a);
    let p = w.connect(Version::V311, "p", &clean());
    let payload = "x".repeat(100_000);
    for _ in 0..COUNT {
        w.publish(p, "x", &payload, QoS::AtLeastOnce, false);
    }
    for _ in 0..60 {
        w.rewrite(0, 6);
        w.rewrite(1, 6);
    }
    let sizes = w.journals[usize::from(w.home("a"))].sizes();
    let largest = sizes.iter().max().copied().unwrap_or(0);
    assert!(largest < payload.len() + (257 << 10), "{sizes:?}");
    restart(&mut w, 1);
    let (a, _) = come_back(&mut w, "a");
    assert_eq!(w.take_payloads(a).len(), COUNT);
}

/// A queue of many messages is written in parts before its base, while it goes on.
#[test]
fn a_queue_of_many_messages_is_written_in_parts() {
    const COUNT: usize = 300;
    let mut w = World::writing(1, Settings::default());
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    w.subscribe(a, "x", QoS::AtLeastOnce);
    w.drop_link(a);
    let p = w.connect(Version::V311, "p", &clean());
    let mut sent = 0;
    let publish = |w: &mut World, sent: &mut usize| {
        w.publish(p, "x", &sent.to_string(), QoS::AtLeastOnce, false);
        *sent += 1;
    };
    (0..COUNT).for_each(|_| publish(&mut w, &mut sent));
    let mut calls = 1;
    while !w.rewrite(0, 5) {
        publish(&mut w, &mut sent);
        calls += 1;
    }
    assert!(calls > COUNT / 20, "20 messages count as 5 places: {calls}");
    let largest = w.journals[0].sizes().into_iter().max();
    assert!(largest < Some(4_000), "{largest:?}");
    restart(&mut w, 1);
    let (a, _) = come_back(&mut w, "a");
    let all: Vec<String> = (0..sent).map(|serial| serial.to_string()).collect();
    assert_eq!(w.take_payloads(a), all);
}

/// So are many subscriptions, and what is held back, while both change.
#[test]
fn subscriptions_and_what_is_held_back_are_written_in_parts() {
    const COUNT: usize = 300;
    let mut w = World::writing(1, Settings::default());
    let a = w.connect(Version::V5, "a", &ConnectOptions::persistent());
    let filters: Vec<String> = (0..COUNT).map(|at| format!("f/{at}")).collect();
    w.subscribe_all(a, &filters);
    w.subscribe_asking(a, "r/#", QoS::AtLeastOnce, &[("max-rate", "0.001")]);
    let p = w.connect(Version::V311, "p", &clean());
    // The first of each topic goes at once, and is not in flight.
    for (payload, qos) in [("first", QoS::AtMostOnce), ("held", QoS::AtLeastOnce)] {
        for at in 0..COUNT {
            w.publish(p, &format!("r/{at}"), payload, qos, false);
        }
    }
    let first = w.take_payloads(a);
    assert!(
        first.len() == COUNT && first.iter().all(|it| it == "first"),
        "{first:?}"
    );
    let (mut calls, mut expected) = (1, filters.clone());
    while !w.rewrite(0, 5) {
        let at = calls % COUNT;
        if calls % 3 == 0 && expected.len() > 250 {
            w.unsubscribe(a, &expected.remove(at % 200));
        }
        w.publish(
            p,
            &format!("r/{at}"),
            &calls.to_string(),
            QoS::AtLeastOnce,
            false,
        );
        calls += 1;
    }
    assert!(
        calls > 2 * COUNT / 20,
        "20 pieces count as 5 places: {calls}"
    );
    let largest = w.journals[0].sizes().into_iter().max();
    assert!(largest < Some(6_000), "{largest:?}");
    restart(&mut w, 1);
    let (a, _) = come_back(&mut w, "a");
    let hub = &w.hubs[0];
    let granted = hub.inspect().granted(w.clients[a].key.unwrap());
    let mut granted: Vec<String> = granted.iter().map(|it| it.filter.to_string()).collect();
    granted.retain(|filter| filter != "r/#");
    granted.sort();
    expected.sort();
    assert_eq!(granted, expected);
    w.pass_secs(2_000);
    assert_eq!(w.take_payloads(a).len(), COUNT, "one of each topic");
}

/// A message goes on in later turns while whole rounds begin and end.
#[test]
fn a_message_that_goes_on_outlives_rounds() {
    const SESSIONS: usize = 20;
    let settings = Settings {
        at_once: messages::dear(),
        ..Settings::default()
    };
    let mut w = World::writing(1, settings);
    let ids: Vec<String> = (0..SESSIONS).map(|number| format!("s{number}")).collect();
    for id in &ids {
        let client = w.connect(Version::V5, id, &ConnectOptions::persistent());
        w.subscribe(client, "x", QoS::AtLeastOnce);
        w.drop_link(client);
    }
    let p = w.connect(Version::V311, "p", &clean());
    w.paused = true;
    w.publish(p, "x", "once", QoS::AtLeastOnce, false);
    for _ in 0..4 * SESSIONS {
        w.rewrite(0, usize::MAX);
        w.go_on(0);
    }
    w.paused = false;
    restart(&mut w, 1);
    for id in &ids {
        let (client, _) = come_back(&mut w, id);
        assert_eq!(w.take_payloads(client), ["once"], "{id}");
    }
}
