//! What deliveries and subscriptions cost in the hub alone, without a socket.
//!
//! `cargo run --release -p stentor-hub --example hub_speed`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use stentor_hub::{
    Access, Hub, Identity, InterestTable, LinkId, Rights, SessionKey, Settings, ShardId, Shared,
    home_shard,
};
use stentor_mqtt::{
    Connect, Packet, PacketId, Properties, Publish, QoS, Subscribe, SubscribeFilterBuf,
    SubscribeOptions, Version, encode,
};
use stentor_retained::{Bounds, MemoryStore};
use stentor_session::{Batch, ConnectRequest, Tick};
use stentor_topic::{TopicHasher, Zone};

struct Everything;

impl Rights for Everything {
    fn may_publish(&self, _: &str) -> bool {
        true
    }
    fn may_subscribe(&self, _: &str) -> Access {
        Access::All
    }

    fn may_receive(&self, _: &str) -> bool {
        true
    }
}

const TOPICS: usize = 5;
const SUBSCRIBERS: usize = 3_000;
const SHARDS: u8 = 2;
const SEED: u64 = 1;
const VERSION: Version = Version::V311;

/// A client id that is at home on the hub's shard.
fn client_id(number: usize) -> String {
    let hasher = TopicHasher::new(SEED);
    let is_here = |id: &String| home_shard(&hasher, Zone(0), id, SHARDS) == ShardId(0);
    let mut names = (0..).map(|one| format!("client-{number}-{one}"));
    names.find(is_here).expect("one in two is")
}

fn connect(hub: &mut Hub, number: usize) -> SessionKey {
    let id = client_id(number);
    let request = ConnectRequest::new(&Connect {
        version: VERSION,
        bridge: false,
        clean_start: true,
        keep_alive_secs: 60,
        client_id: &id,
        will: None,
        username: None,
        password: None,
        properties: Properties::EMPTY,
    });
    let (user, rights) = (None, Arc::new(Everything));
    let identity = Arc::new(Identity {
        user,
        zone: Zone(0),
        rights,
        expires_at: Tick::NEVER,
        guest: None,
    });
    hub.connect(Tick::ZERO, LinkId(number as u32), request, identity)
}

fn subscribe(hub: &mut Hub, key: SessionKey, filter: &str) {
    let mut bytes = Vec::new();
    append_subscribe(filter, &mut bytes);
    receive(hub, key, &bytes);
}

/// Has the hub take everything, in as many turns as that needs.
fn receive(hub: &mut Hub, key: SessionKey, bytes: &[u8]) {
    let mut taken = 0;
    while taken < bytes.len() {
        hub.begin_turn();
        taken += hub.receive(Tick::ZERO, key, &bytes[taken..]);
        if taken < bytes.len() {
            // What was put off comes first, and nothing is read before it.
            hub.advance(Tick::ZERO);
        }
    }
}

fn append_subscribe(filter: &str, bytes: &mut Vec<u8>) {
    let mut filters = SubscribeFilterBuf::new(VERSION);
    filters
        .push(filter, SubscribeOptions::default())
        .expect("a valid filter");
    let packet = Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(1).expect("not zero"),
        properties: Properties::EMPTY,
        filters: filters.as_filters(),
    });
    encode(VERSION, &packet, bytes).expect("a small packet");
}

/// 100 users, each with 1,000 subscriptions of its own in one piece.
fn subscriptions(hub: &mut Hub, batch: &mut Batch, dirty: &mut Vec<SessionKey>) {
    let users: Vec<_> = (0..100).map(|user| connect(hub, 10_000 + user)).collect();
    flush(hub, batch, dirty);
    let inputs: Vec<_> = (0..100)
        .map(|user| {
            let mut bytes = Vec::new();
            for number in 0..1_000 {
                append_subscribe(&format!("user/{user}/topic/{number}"), &mut bytes);
            }
            bytes
        })
        .collect();
    let started = Instant::now();
    for (key, bytes) in users.iter().zip(&inputs) {
        receive(hub, *key, bytes);
    }
    let read = started.elapsed();
    flush(hub, batch, dirty);
    let each = started.elapsed().as_nanos() as f64 / 100_000.0;
    let read = read.as_nanos() as f64 / 100_000.0;
    println!("100,000 subscriptions: {each:.0} ns each, {read:.0} of them before the flush");
}

fn flush(hub: &mut Hub, batch: &mut Batch, dirty: &mut Vec<SessionKey>) -> usize {
    std::mem::swap(&mut hub.effects().dirty, dirty);
    dirty.append(&mut hub.effects().crowd);
    let mut bytes = 0;
    for key in dirty.drain(..) {
        while hub.transmit(Tick::ZERO, key, batch) {
            bytes += batch.len();
            hub.transmitted(Tick::ZERO, key, batch, batch.len());
        }
    }
    hub.effects().events.clear();
    hub.effects().yielded.clear();
    bytes
}

fn main() {
    let hasher = TopicHasher::new(SEED);
    let shared = Shared {
        sessions_zero_ms: None,
        keeps_wills: false,
        interest: Arc::new(InterestTable::new()),
        retained: Arc::new(MemoryStore::new(hasher.clone(), Bounds::default())),
        adaptors: None,
        persistent_sessions: Arc::default(),
        random: Arc::new(|| 0),
        ledger: Arc::new(stentor_hub::Ledger::new(1)),
        callees: None,
    };
    // As one of two, which counts interest.
    let mut hub = Hub::new(
        ShardId(0),
        SHARDS,
        hasher,
        shared,
        Arc::new(Settings::default()),
    );
    let (mut batch, mut dirty) = (Batch::new(), Vec::new());
    let started = Instant::now();
    for number in 0..SUBSCRIBERS {
        let key = connect(&mut hub, number);
        subscribe(&mut hub, key, &format!("topic/{}", number % TOPICS));
    }
    flush(&mut hub, &mut batch, &mut dirty);
    let each = started.elapsed().as_nanos() as f64 / SUBSCRIBERS as f64;
    println!("connect and subscribe: {each:.0} ns each");
    subscriptions(&mut hub, &mut batch, &mut dirty);
    let publisher = connect(&mut hub, SUBSCRIBERS);
    for (payload, per_turn) in [(100, 1), (100, 10), (100, 100), (1_000, 1), (1_000, 20)] {
        let mut bytes = Vec::new();
        let payload_bytes = vec![b'x'; payload];
        for turn in 0..per_turn {
            let topic = format!("topic/{}", turn % TOPICS);
            let publish = Publish {
                dup: false,
                qos: QoS::AtMostOnce,
                retain: false,
                topic: &topic,
                packet_id: None,
                properties: Properties::EMPTY,
                payload: &payload_bytes,
            };
            encode(VERSION, &Packet::Publish(publish), &mut bytes).expect("a small packet");
        }
        let turns = 3_000_000 / (per_turn * SUBSCRIBERS / TOPICS);
        let started = Instant::now();
        let mut out = 0;
        for _ in 0..turns {
            receive(&mut hub, publisher, &bytes);
            out += flush(&mut hub, &mut batch, &mut dirty);
        }
        let deliveries = turns * per_turn * SUBSCRIBERS / TOPICS;
        let each = started.elapsed().as_nanos() as f64 / deliveries as f64;
        println!("{payload} B, {per_turn} per turn: {each:.1} ns per delivery ({out} bytes)");
    }
}
