//! Random packets from many clients: whatever they send, a hub goes on.

use crate::world::{ConnectOptions, Random, World};
use stentor_hub::{Settings, SlowPolicy, TopicPolicy};
use stentor_mqtt::{QoS, Version};

const TOPICS: [&[u8]; 6] = [b"a", b"a/b", b"a/c/d", b"", b"secret/x", b"$x"];
const FILTERS: [&[u8]; 8] = [
    b"a",
    b"#",
    b"a/+",
    b"+/b",
    b"$share/g/#",
    b"$share/h/a",
    b"secret/x",
    b"a/#/b",
];

/// A packet that is often valid.
fn packet(random: &mut Random, is_v5: bool) -> Vec<u8> {
    let id = [0, random.below(6) as u8];
    let mut body = Vec::new();
    let text = |body: &mut Vec<u8>, text: &[u8]| {
        body.extend([0, text.len() as u8]);
        body.extend(text);
    };
    let properties: &[&[u8]] = &[&[0], &[0], &[3, 0x23, 0, 1], &[3, 0x23, 0, 9]];
    let first = match random.below(12) {
        0..=4 => {
            let flags = [0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x3C][random.below(7)];
            text(&mut body, random.pick(&TOPICS));
            if flags & 6 != 0 {
                body.extend(id);
            }
            if is_v5 {
                body.extend(random.pick(properties));
            }
            body.resize(body.len() + random.below(40) * random.below(20), b'x');
            flags
        }
        5 | 6 => {
            body.extend(id);
            if is_v5 {
                body.extend(random.pick(&[&[0], &[2, 0x0B, 5]]));
            }
            for _ in 0..=random.below(3) {
                text(&mut body, random.pick(&FILTERS));
                body.push(
                    random.below(3) as u8
                        | if is_v5 {
                            4 * (random.below(12) as u8)
                        } else {
                            0
                        },
                );
            }
            0x82
        }
        7 => {
            body.extend(id);
            if is_v5 {
                body.push(0);
            }
            text(&mut body, random.pick(&FILTERS));
            0xA2
        }
        8..=10 => {
            body.extend(id);
            if is_v5 && random.below(4) == 0 {
                body.push(0x80);
            }
            [0x40, 0x50, 0x62, 0x70][random.below(4)]
        }
        _ => [0xC0, 0xE0, 0xF0, 0x10][random.below(12).min(3) * random.below(2)],
    };
    let len = body.len();
    let mut bytes = vec![first, (len & 0x7F) as u8 | 0x80, (len >> 7) as u8];
    if len < 128 {
        bytes = vec![first, len as u8];
    }
    bytes.extend(body);
    bytes
}

fn options(random: &mut Random) -> ConnectOptions<'static> {
    ConnectOptions {
        clean_start: random.below(3) == 0,
        expiry_secs: [0, 2, u32::MAX][random.below(3)],
        keep_alive_secs: [0, 3][random.below(2)],
        receive_maximum: [1, 3, 65_535][random.below(3)],
        alias_maximum: [0, 2][random.below(2)],
        packet_bytes_max: [0, 0, 40, 3][random.below(4)],
        will: [None, Some(("a/b", "will", 0)), Some(("a", "late", 1))][random.below(3)],
        user: None,
        bridge: false,
        ..ConnectOptions::default()
    }
}

fn stumble(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let policy = |r: &mut Random| {
        [
            SlowPolicy::DropNewest,
            SlowPolicy::DropOldest,
            SlowPolicy::Disconnect,
        ][r.below(3)]
    };
    let settings = Settings {
        queue_bytes_max: 2_000,
        queue_messages_max: 8,
        receive_maximum: 3,
        in_flight_max: 4,
        topic_alias_maximum: 4,
        subscriptions_max: 4,
        policies: vec![TopicPolicy {
            filter: "#".into(),
            qos0: policy(&mut random),
            qos1: policy(&mut random),
            ..TopicPolicy::default()
        }],
        ..Settings::default()
    };
    let mut w = World::with_settings(1 + (seed % 3) as u8, settings);
    let mut clients = [usize::MAX; 6];
    for _ in 0..600 {
        let which = random.below(clients.len());
        let is_there = w
            .clients
            .get(clients[which])
            .is_some_and(|client| client.link.is_some());
        if !is_there || random.below(40) == 0 {
            let version = [Version::V31, Version::V311, Version::V5][random.below(3)];
            let options = options(&mut random);
            clients[which] = w.connect_only(version, &format!("c{which}"), &options);
            continue;
        }
        let client = clients[which];
        match random.below(30) {
            0 => w.drop_link(client),
            1 => w.pass_secs(random.below(4) as u32),
            2..=4 => w.clients[client].socket_room = random.below(60),
            5..=7 => w.open_socket(client, [7, 100, usize::MAX][random.below(3)]),
            _ => {
                let is_v5 = w.clients[client].version.is_v5();
                let bytes = packet(&mut random, is_v5);
                w.send_bytes(client, &bytes);
            }
        }
    }
    // Whatever happened, a new client is served.
    let c = w.connect(Version::V5, "healthy", &ConnectOptions::default());
    w.subscribe(c, "healthy", QoS::AtMostOnce);
    w.publish(c, "healthy", "yes", QoS::AtMostOnce, false);
    assert_eq!(w.take_payloads(c), ["yes"], "seed {seed}");
    for client in clients {
        w.drop_link(client.min(w.clients.len() - 1));
    }
    let bugs: u64 = w.hubs.iter().map(|hub| hub.inspect().stats().bugs).sum();
    assert_eq!(bugs, 0, "seed {seed}");
}

#[test]
fn random_packets_harm_nobody() {
    for seed in 1..400 {
        stumble(seed);
    }
}
