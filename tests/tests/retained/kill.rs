//! kill -9 under load.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one. `STENTOR_SOAK=1` kills hundreds of
//! times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use stentor_tests::raw::{self, eventually};
use stentor_tests::{Plan, Raw, Server, Version};

use crate::support::{publish, snapshot};

const PUBLISHERS: u64 = 3;
const TOPICS: u64 = 40;
/// Messages that are on their way at a time.
const WINDOW: u64 = 20;

/// What is known of a topic: the last message that was acknowledged, and the last that was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    acknowledged: u64,
    sent: u64,
}

type Topics = BTreeMap<String, Known>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// The message of a number: mostly short, some larger than a page, some larger than a block.
fn payload(number: u64) -> Vec<u8> {
    let len = match number % 50 {
        0 => 40_000,
        1..5 => 5_000,
        _ => number % 300,
    };
    let mut payload = format!("{number}:").into_bytes();
    payload.extend((0..len).map(|at| ((at + number) % 251) as u8));
    payload
}

fn number_of(payload: &[u8]) -> u64 {
    let digits = payload.split(|byte| *byte == b':').next();
    let digits = std::str::from_utf8(digits.unwrap_or(b"")).expect("a number is text");
    digits.parse().expect("a payload begins with its number")
}

/// Publishes until the server is gone.
fn run_publisher(
    mut client: Raw,
    publisher: u64,
    topics: &mut Topics,
    (acknowledged, ends): (&AtomicU64, &AtomicBool),
) {
    let mut number = topics.values().map(|known| known.sent).max().unwrap_or(0);
    while !ends.load(Ordering::Relaxed) {
        let mut window = Vec::new();
        let mut bytes = Vec::new();
        for at in 0..WINDOW {
            number += 1;
            let topic = format!("p{publisher}/{}", number * 7 % TOPICS);
            // At most `WINDOW`.
            let packet_id = 1 + at as u16;
            bytes.extend(publish(&topic, &payload(number), packet_id));
            topics.entry(topic.clone()).or_default().sent = number;
            window.push((topic, number));
        }
        if client.try_send(&bytes).is_err() {
            return;
        }
        for (at, (topic, number)) in window.into_iter().enumerate() {
            let Some(answer) = client.try_receive() else {
                return;
            };
            assert_eq!((answer.kind(), answer.body[1] as usize), (4, 1 + at));
            topics.entry(topic).or_default().acknowledged = number;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs publishers, kills the server after so many acknowledgements, and returns its plan.
fn kill_under_load(server: Server, known: &mut [Topics], after: u64) -> Plan {
    let (acknowledged, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let clients: Vec<Raw> = (0..PUBLISHERS)
        .map(|publisher| server.client(Version::V4, &format!("p{publisher}")))
        .collect();
    thread::scope(|scope| {
        for ((publisher, topics), client) in (0..).zip(known.iter_mut()).zip(clients) {
            let watched = (&acknowledged, &ends);
            scope.spawn(move || run_publisher(client, publisher, topics, watched));
        }
        eventually("enough is acknowledged", || {
            acknowledged.load(Ordering::Relaxed) >= after
        });
        let plan = server.kill();
        ends.store(true, Ordering::Relaxed);
        plan
    })
}

fn check(server: &Server, known: &mut [Topics]) {
    let mut found = snapshot(server, "#");
    for (topic, known) in known.iter_mut().flatten() {
        let Some(payload_found) = found.remove(topic) else {
            assert_eq!(known.acknowledged, 0, "{topic} is gone: {known:?}");
            known.sent = 0;
            continue;
        };
        let number = number_of(&payload_found);
        assert!(
            (known.acknowledged..=known.sent).contains(&number),
            "{topic} holds {number}: {known:?}"
        );
        assert_eq!(
            payload_found,
            payload(number),
            "{topic} is not what was sent"
        );
        known.acknowledged = number;
    }
    assert_eq!(found.len(), 0, "nobody published {:?}", found.keys());
}

fn run(seed: u64, kills: u64) {
    let mut random = Random(seed);
    let sync = ["never", "interval", "always"][random.below(3) as usize];
    eprintln!("seed {seed}: sync = {sync}");
    let config = format!("[retained]\nsync = \"{sync}\"\nsync_interval = \"10ms\"\n");
    let mut server = Plan::new().tcp().anonymous().config(&config).start();
    let mut known: Vec<Topics> = vec![Topics::new(); PUBLISHERS as usize];
    for _ in 0..kills {
        let after = 1 + random.below(2_000);
        server = kill_under_load(server, &mut known, after).start();
        let damage = server.log();
        assert!(
            !damage.contains("damage"),
            "a kill damages nothing: {damage}"
        );
        check(&server, &mut known);
    }
    let mut client = server.client(Version::V4, "last");
    client.send(&raw::publish(Version::V4, "last", b"works", 1, true));
    client.expect(4);
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged() {
    if let Ok(seed) = std::env::var("STENTOR_SEED") {
        return run(seed.parse().expect("STENTOR_SEED is a number"), 10);
    }
    let (seeds, kills) = if std::env::var_os("STENTOR_SOAK").is_some() {
        (30, 20)
    } else {
        (3, 3)
    };
    for seed in 0..seeds {
        run(seed, kills);
    }
}
