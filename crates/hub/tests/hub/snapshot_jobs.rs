//! Snapshots beside messages that are dear to route: what is kept already may be on its way still.

use std::collections::HashMap;

use crate::world::{Random, World, clean, qos, run_seeds};
use stentor_hub::{AtOnce, Settings};
use stentor_mqtt::{Packet, PacketId, Properties, Publish, QoS, Version, encode};

const Q0: QoS = QoS::AtMostOnce;

/// Makes every message a job that takes several turns.
fn tiny() -> Settings {
    Settings {
        at_once: AtOnce {
            visits: 1,
            filters: 0,
            subscribers: 0,
            shares: 0,
            work: 0,
            job_visits: 8,
        },
        ..Settings::default()
    }
}

fn retained(topic: &str, payload: &str) -> Vec<u8> {
    let publish = Publish {
        dup: false,
        qos: Q0,
        retain: true,
        topic,
        packet_id: None,
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    };
    let mut bytes = Vec::new();
    encode(Version::V5, &Packet::Publish(publish), &mut bytes).unwrap();
    bytes
}

fn subscribe(w: &mut World, client: usize, filter: &str) {
    let nine = PacketId::new(9).unwrap();
    w.subscribe_only(client, nine, filter, qos(Q0));
}

/// The payloads that a client has received, with an `r` where RETAIN was set.
fn take(w: &mut World, client: usize) -> Vec<String> {
    w.flush(0);
    let messages = w.take_messages(client).into_iter();
    let text = |m: crate::world::Message| {
        let mark = if m.retain { "r" } else { "" };
        format!("{mark}{}", String::from_utf8_lossy(&m.payload))
    };
    messages.map(text).collect()
}

fn turn(w: &mut World) {
    w.go_on(0);
    w.tick();
}

#[test]
fn a_snapshot_comes_after_the_messages_that_were_kept_before_it() {
    for filter in ["t", "+", "t/#"] {
        let mut w = World::with_settings(1, tiny());
        let s = w.connect(Version::V5, "s", &clean());
        w.subscribe(s, "#", Q0);
        let publishers: Vec<_> = (0..3)
            .map(|n| w.connect(Version::V5, &format!("p{n}"), &clean()))
            .collect();
        w.paused = true;
        for (n, p) in publishers.iter().enumerate() {
            w.send_without_settling(*p, &retained("t", &n.to_string()));
        }
        subscribe(&mut w, s, filter);
        for _ in 0..100 {
            turn(&mut w);
        }
        assert_eq!(take(&mut w, s), ["0", "1", "2", "r2"], "{filter}");
        assert_eq!(w.hubs[0].inspect().work_bytes(), 0);
    }
}

/// Jobs that come later, or that are about something else, put no snapshot off.
#[test]
fn a_snapshot_waits_for_nothing_else() {
    let mut w = World::with_settings(1, tiny());
    let s = w.connect(Version::V5, "s", &clean());
    let publishers: Vec<_> = (0..300)
        .map(|n| w.connect(Version::V5, &format!("p{n}"), &clean()))
        .collect();
    for topic in ["t", "u"] {
        w.publish(publishers[0], topic, "before", Q0, true);
    }
    w.subscribe(s, "#", Q0);
    w.take_messages(s);
    w.paused = true;
    let mut number = 0;
    let mut publish = |w: &mut World, p: usize| {
        number += 1;
        w.send_without_settling(p, &retained("u", &number.to_string()));
    };
    // About another topic: more jobs than are looked at in one go.
    for p in &publishers {
        publish(&mut w, *p);
    }
    subscribe(&mut w, s, "t/#");
    for _ in 0..4 {
        turn(&mut w);
    }
    assert!(w.hubs[0].inspect().work_bytes() > 0);
    let payloads = take(&mut w, s);
    assert!(payloads.contains(&"rbefore".to_owned()), "{payloads:?}");
    // Later ones about the same.
    subscribe(&mut w, s, "+");
    let mut turns = 0;
    while !take(&mut w, s).contains(&"rbefore".to_owned()) {
        publish(&mut w, publishers[turns % 300]);
        turn(&mut w);
        turns += 1;
        assert!(turns < 100_000, "it is not put off for ever");
    }
    assert!(
        turns > 300 && w.hubs[0].inspect().work_bytes() > 0,
        "{turns}"
    );
}

/// Whatever is dear, and however messages travel: a subscriber sees no older message of a topic
/// after a newer one, be it live or kept.
#[test]
fn no_older_message_follows_a_newer_one() {
    run_seeds(60, |seed| {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let shards = [1, 2, 3][random.below(3)];
        let mut w = World::with_settings(shards, tiny());
        let connect = |w: &mut World, name: &str, n: usize| {
            w.connect(Version::V5, &format!("{name}{n}"), &clean())
        };
        let publishers: Vec<_> = (0..4).map(|n| connect(&mut w, "p", n)).collect();
        let subscribers: Vec<_> = (0..6).map(|n| connect(&mut w, "s", n)).collect();
        for s in &subscribers[..3] {
            w.subscribe(*s, "#", Q0);
        }
        let mut last: HashMap<(usize, String), usize> = HashMap::new();
        let mut check = |w: &mut World| {
            for s in &subscribers {
                for message in w.take_messages(*s) {
                    let number: usize = String::from_utf8_lossy(&message.payload).parse().unwrap();
                    let last = last.entry((*s, message.topic)).or_default();
                    assert!(number >= *last, "seed {seed}: {number} after {last}");
                    *last = number;
                }
            }
        };
        w.paused = true;
        for number in 1..300 {
            let at = random.below(4);
            w.send_without_settling(
                publishers[at],
                &retained(&format!("t/{at}"), &number.to_string()),
            );
            for _ in 0..random.below(3) {
                let pairs = w.pairs_under_way();
                if !pairs.is_empty() {
                    w.deliver_one(pairs[random.below(pairs.len())]);
                }
                let shard = random.below(usize::from(shards)) as u8;
                w.go_on(shard);
                w.flush(shard);
                w.tick();
            }
            if random.chance(20) {
                let filter = ["t/0", "t/1", "t/+", "+/2", "t/#"][random.below(5)];
                subscribe(&mut w, subscribers[random.below(6)], filter);
            }
            check(&mut w);
        }
        w.paused = false;
        w.settle();
        check(&mut w);
        assert!(w.hubs.iter().all(|hub| hub.inspect().work_bytes() == 0));
    });
}
