//! Messages that are stored, and that a session gets as stored ones while they are on their way to
//! it, when the server is killed.

use std::collections::BTreeMap;

use stentor_hub::{AtOnce, Keep, Settings, TopicPolicy};
use stentor_mqtt::{PacketId, QoS, Version};

use super::come_back;
use super::messages::dear;
use crate::world::{ConnectOptions, Random, World, clean, qos};

/// What a session that is back receives at QoS 2: for each message, the ways on which it came, and
/// whether that was as a stored one.
fn receive_all(w: &mut World, client: usize) -> BTreeMap<String, Vec<bool>> {
    let mut all = BTreeMap::<_, Vec<bool>>::new();
    loop {
        let messages = w.take_messages(client);
        if messages.is_empty() {
            return all;
        }
        for message in messages {
            let payload = String::from_utf8(message.payload).unwrap();
            all.entry(payload).or_default().push(message.retain);
            let id = message.packet_id.expect("it has QoS 2");
            w.send_ack(client, 0x50, id);
            w.take_packet(client, 0x60).expect("a PUBREL");
            w.send_ack(client, 0x70, id);
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let keep = if random.chance(50) {
        Keep::Last
    } else {
        Keep::Retained
    };
    let settings = Settings {
        policies: vec![TopicPolicy {
            filter: "k".into(),
            keep,
            ..TopicPolicy::default()
        }],
        at_once: if random.chance(50) {
            dear()
        } else {
            AtOnce::default()
        },
        ..Settings::default()
    };
    let shards = 2 + random.below(2) as u8;
    let mut w = World::writing(shards, settings);
    // Somebody is owed it on each shard, so that it has a name where it is published.
    for witness in 0..4 {
        let id = format!("w{witness}");
        let client = w.connect(Version::V5, &id, &ConnectOptions::persistent());
        w.subscribe(client, "k", QoS::AtLeastOnce);
        w.drop_link(client);
    }
    // Each has a packet id of its own to give.
    let publishers: Vec<usize> = (0..3)
        .map(|at| w.connect(Version::V5, &format!("p{}{at}", seed % 8), &clean()))
        .collect();
    let subscriber = w.connect(Version::V5, "s", &ConnectOptions::persistent());
    w.paused = true;
    let (messages, moment) = (1 + random.below(3), random.below(3));
    for (serial, publisher) in publishers.into_iter().take(messages).enumerate() {
        w.publish(publisher, "k", &serial.to_string(), QoS::ExactlyOnce, true);
        if serial == moment.min(messages - 1) {
            let id = PacketId::new(1).unwrap();
            w.subscribe_only(subscriber, id, "k", qos(QoS::ExactlyOnce));
        }
        for _ in 0..random.below(8) {
            let pairs = w.pairs_under_way();
            match random.below(3) {
                0 if !pairs.is_empty() => {
                    w.deliver_one(pairs[random.below(pairs.len())]);
                }
                1 => drop(w.flush(random.below(usize::from(shards)) as u8)),
                _ => drop(w.go_on(random.below(usize::from(shards)) as u8)),
            }
        }
    }
    w.crash(1 + random.below(3) as u8, seed + 99);
    w.paused = false;
    w.settle();
    let (subscriber, is_there) = come_back(&mut w, "s");
    assert!(is_there);
    for (payload, ways) in receive_all(&mut w, subscriber) {
        assert_eq!(ways.len(), 1, "{payload}, {keep:?}: stored {ways:?}");
    }
}

/// At QoS 2, it comes as a stored one or live, but not both ways. The store of this test forgets
/// all with the server, so no subscription begins anew with it.
#[test]
fn a_stored_message_of_another_shard_comes_once() {
    crate::world::run_seeds(200, run);
}
