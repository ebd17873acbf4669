//! What a SUBSCRIBE has looked for in the retained store may take many turns, and between two of
//! them everybody else is served.

use crate::world::{ConnectOptions, PING, World, clean, qos};
use stentor_hub::{Beside, Settings};
use stentor_mqtt::{
    Packet, PacketId, Properties, QoS, Subscribe, SubscribeFilterBuf, Version, encode,
};
use stentor_topic::Zone;

/// What a turn does at most: its budget, and what the last thing that began in it may take.
const VISITS_MAX: u32 = 4_096 + 1_024 + 512;

fn subscribe(filters: &[String]) -> Vec<u8> {
    let mut all = SubscribeFilterBuf::new(Version::V5);
    for filter in filters {
        all.push(filter, qos(QoS::AtMostOnce)).unwrap();
    }
    let packet = Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(9).unwrap(),
        properties: Properties::EMPTY,
        filters: all.as_filters(),
    });
    let mut bytes = Vec::new();
    encode(Version::V5, &packet, &mut bytes).unwrap();
    bytes
}

/// What the snapshots of a session hold that are not sent yet.
fn snapshot_bytes(w: &World, client_id: &str) -> usize {
    let client = w.hubs[0]
        .inspect()
        .client(Zone::DEFAULT, client_id)
        .unwrap();
    assert!(client.held_bytes > client.snapshot_bytes as u64);
    client.snapshot_bytes
}

/// A shard with so many retained messages, a bystander, and somebody who subscribes.
fn stored(topics: impl Iterator<Item = String>) -> (World, usize, usize) {
    let mut w = World::with_settings(1, Settings::default());
    for topic in topics {
        w.restore(&topic, "x");
    }
    let bystander = w.connect(Version::V5, "b", &clean());
    let flooder = w.connect(Version::V5, "f", &clean());
    w.paused = true;
    (w, bystander, flooder)
}

/// Audit B6: 109 KB.
#[test]
fn ten_thousand_filters_that_match_nothing_leave_turns_to_others() {
    let topics = (0..2_000).map(|n| format!("factory/hall/line/machine/sensor/{n:06}"));
    let (mut w, bystander, flooder) = stored(topics);
    let filters: Vec<_> = (0..10_000).map(|n| format!("+/zz{n}")).collect();
    w.hubs[0].begin_turn();
    w.send_without_settling(flooder, &subscribe(&filters));
    assert!(w.hubs[0].turn().visits() <= VISITS_MAX);
    // The packet is kept until the last of its filters is done.
    let work = w.hubs[0].inspect().work_bytes();
    assert!((100_000..300_000).contains(&work), "{work}");
    let key = w.clients[flooder].key.unwrap();
    let mut most = 0;
    let mut answered_in = None;
    let mut turn = 0;
    let (visits, turns) = w.turns_beside(bystander, VISITS_MAX, |w| {
        turn += 1;
        most = most.max(snapshot_bytes(w, "f"));
        if answered_in.is_none() && w.take_packet(flooder, 0x90).is_some() {
            answered_in = Some(turn);
        }
    });
    // Each looks at every topic; its answer does not wait for that.
    assert!(visits > 10_000 * 2_000, "{visits}");
    assert!(turns > 4_000, "{turns}");
    assert!(answered_in.unwrap() < 40, "{answered_in:?}");
    assert!((100_000..8_000_000).contains(&most), "{most}");
    assert_eq!(snapshot_bytes(&w, "f"), 0);
    assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    // A client that has so much looked at pays for it.
    assert_eq!(w.hubs[0].receive(w.now, key, &PING), 0);
}

/// Audit A3: names as long as they may be.
#[test]
fn long_names_leave_turns_to_others_and_are_not_remembered_for_each_filter() {
    let stem = "n".repeat(4_000);
    let (mut w, bystander, flooder) = stored((0..500).map(|n| format!("{stem}{n:04}")));
    let filters: Vec<_> = (0..500).map(|n| format!("+/zz{n}")).collect();
    w.hubs[0].begin_turn();
    w.send_without_settling(flooder, &subscribe(&filters));
    let mut most = 0;
    let (visits, turns) = w.turns_beside(bystander, VISITS_MAX, |w| {
        most = most.max(snapshot_bytes(w, "f"));
    });
    assert!(visits > 500 * 500 * 4_000 / 64, "{visits}");
    assert!(turns > 3_000, "{turns}");
    assert!(most < 400_000, "{most}");
}

/// Names of 65 KB: one of them is a quarter of a turn.
#[test]
fn names_of_65_kilobytes_leave_turns_to_others() {
    let stem = "n".repeat(65_400);
    let (mut w, bystander, flooder) = stored((0..100).map(|n| format!("{stem}{n:04}")));
    let filters: Vec<_> = (0..50).map(|n| format!("+/zz{n}")).collect();
    w.send_without_settling(flooder, &subscribe(&filters));
    let (visits, turns) = w.turns_beside(bystander, VISITS_MAX, |_| {});
    assert!(visits > 50 * 100 * 1_000, "{visits}");
    assert!(turns > 900, "{turns}");
}

#[test]
fn sessions_take_turns_whatever_others_have_asked_for() {
    let (mut w, bystander, flooder) = stored((0..2_000).map(|n| format!("a/{n}")));
    let filters: Vec<_> = (0..5_000).map(|n| format!("+/zz{n}")).collect();
    w.send_without_settling(flooder, &subscribe(&filters));
    for _ in 0..60 {
        w.go_on(0);
        w.flush(0);
    }
    // One value comes in the turn of its SUBACK, and after it.
    w.hubs[0].begin_turn();
    w.send_without_settling(bystander, &subscribe(&["a/7".to_owned()]));
    w.flush(0);
    let suback = w.receive_packet(bystander).unwrap();
    assert_eq!(suback[0], 0x90);
    assert_eq!(w.take_payloads(bystander), ["x"]);
    // Many values need as many turns as they are worth.
    w.hubs[0].begin_turn();
    w.send_without_settling(bystander, &subscribe(&["a/+".to_owned()]));
    w.flush(0);
    let (mut got, mut turns) = (0, 0);
    while got < 2_000 {
        w.go_on(0);
        w.flush(0);
        got += w.take_payloads(bystander).len();
        turns += 1;
        assert!(turns < 200, "{got} of 2,000 after {turns} turns");
    }
    assert!(snapshot_bytes(&w, "f") > 0);
}

#[test]
fn long_values_of_one_subscribe_go_out_one_after_the_other() {
    const LEN: usize = 1_000_000;
    let mut w = World::with_settings(1, Settings::default());
    let filters: Vec<_> = (0..8).map(|n| format!("long/{n}")).collect();
    for topic in &filters {
        w.restore(topic, &"x".repeat(LEN));
    }
    let readers: Vec<_> = (0..4)
        .map(|n| w.connect(Version::V5, &format!("r{n}"), &clean()))
        .collect();
    w.paused = true;
    w.hubs[0].begin_turn();
    for reader in &readers {
        w.send_without_settling(*reader, &subscribe(&filters));
    }
    // One of them is four turns' worth, so it is the only one of this turn.
    let visits = w.hubs[0].turn().visits();
    assert!(visits < 2 * (LEN / 64) as u32, "{visits}");
    let mut got = [0; 4];
    for _ in 0..200 {
        w.flush(0);
        let before: usize = got.iter().sum();
        for (reader, got) in readers.iter().zip(&mut got) {
            *got += w.take_payloads(*reader).len();
        }
        let in_turn = got.iter().sum::<usize>() - before;
        assert!(in_turn <= 2, "{in_turn} values in a turn");
        w.go_on(0);
    }
    assert_eq!(got, [8; 4]);
}

#[test]
fn a_subscribe_of_one_wildcard_brings_little_in_its_own_turn() {
    let (mut w, _, reader) = stored((0..20).map(|n| format!("a/{n}")));
    w.hubs[0].begin_turn();
    w.send_without_settling(reader, &subscribe(&["a/#".to_owned()]));
    w.flush(0);
    while w.go_on(0) {
        w.flush(0);
    }
    assert!(w.take_packet(reader, 0x90).is_some());
    assert_eq!(w.take_payloads(reader).len(), 20);
    // Nothing is owed for what everybody does.
    let key = w.clients[reader].key.unwrap();
    assert!(!w.hubs[0].turn().waits(w.now, key));
    assert_eq!(w.hubs[0].receive(w.now, key, &PING), 2);
}

#[test]
fn what_waits_ends_with_its_subscription_and_outlives_its_connection() {
    let (mut w, bystander, _) = stored((0..2_000).map(|n| format!("a/{n}")));
    w.paused = false;
    let flooder = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    w.paused = true;
    let mut filters: Vec<_> = (0..400).map(|n| format!("+/zz{n}")).collect();
    filters.push("+/7".to_owned());
    let begin = |w: &mut World, flooder: usize| {
        w.send_without_settling(flooder, &subscribe(&filters));
        for _ in 0..12 {
            w.go_on(0);
            w.flush(0);
        }
    };
    begin(&mut w, flooder);
    assert!(snapshot_bytes(&w, "p") > 0);
    // A connection that takes over has them go on.
    w.drop_link(flooder);
    w.turns_beside(bystander, VISITS_MAX, |_| {});
    w.paused = false;
    let flooder = w.connect(Version::V5, "p", &ConnectOptions::persistent());
    let mut got = w.take_payloads(flooder);
    w.settle();
    got.extend(w.take_payloads(flooder));
    assert_eq!(got, ["x"]);
    // None goes on when its subscription has ended.
    w.paused = true;
    begin(&mut w, flooder);
    w.paused = false;
    for filter in &filters {
        w.unsubscribe(flooder, filter);
    }
    assert_eq!(snapshot_bytes(&w, "p"), 0);
    assert_eq!(w.hubs[0].inspect().stats().subscriptions, 0);
}

/// A shard that looks at its clock in between has the hub do little at a time.
#[test]
fn what_goes_on_does_so_much_at_a_time() {
    const TOPICS: usize = 2_000;
    let (mut w, bystander, reader) = stored((0..TOPICS).map(|n| format!("t/{n:04}")));
    w.hubs[0].turn_mut().count_beside(Beside::Slice(500));
    w.hubs[0].begin_turn();
    w.send_without_settling(reader, &subscribe(&["t/#".to_owned()]));
    w.flush(0);
    let mut got = 0;
    // A slice, and the last step in it: 256 names, and the messages that it finds.
    let (_, turns) = w.turns_beside(bystander, 500 + 5 * 256, |w| {
        w.flush(0);
        got += w.take_payloads(reader).len();
    });
    assert!(turns > 5, "{turns}");
    assert_eq!(got, TOPICS);
}

/// What a turn has put into the store, so that a long message ends its reading.
#[test]
fn bytes_that_are_stored_are_counted() {
    let mut w = World::new(1);
    let p = w.connect(Version::V5, "p", &clean());
    w.paused = true;
    w.hubs[0].begin_turn();
    w.publish(p, "t", &"x".repeat(100_000), QoS::AtMostOnce, true);
    w.publish(p, "t", &"x".repeat(100_000), QoS::AtMostOnce, false);
    let stored = w.hubs[0].turn().handed_over().stored_bytes;
    assert!((100_000..150_000).contains(&stored), "{stored}");
    w.hubs[0].begin_turn();
    assert_eq!(w.hubs[0].turn().handed_over().stored_bytes, 0);
}
