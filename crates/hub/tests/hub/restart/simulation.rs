//! Clients that do what they like with their sessions, and a server that is killed at any moment:
//! what they were told holds.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

use std::collections::{BTreeMap, BTreeSet};

use stentor_hub::Settings;
use stentor_mqtt::{
    Disconnect, Packet, PacketId, Properties, Property, PropertyBuf, QoS, ReasonCode, Unsubscribe,
    UnsubscribeFilterBuf, Version, encode,
};
use stentor_session::Tick;

use crate::world::{ConnectOptions, Disk, GRACE_SECS, Random, World, clean, qos};

const CLIENTS: usize = 6;
static FILTERS: [&str; 6] = ["a", "a/+", "#", "$share/g/a", "$share/h/#", "b/c"];
const EXPIRIES: [u32; 4] = [0, 20, 60, u32::MAX];
const ALL_QOS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

/// A session as its client knows it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct State {
    exists: bool,
    expiry_secs: u32,
    subscriptions: BTreeMap<&'static str, QoS>,
}

/// What a client waits for.
#[derive(Debug)]
struct Asked {
    /// The first byte of the packet that tells.
    kind: u8,
    /// Whether CONNACK says that there was a session.
    present: bool,
    /// The session, once that has come.
    then: State,
}

#[derive(Debug, Default)]
struct Model {
    client: Option<usize>,
    state: State,
    asked: Option<Asked>,
    /// When it ends, where its client is away.
    until: Option<Tick>,
    /// The will of its last connection, and when it is due if its client does not come back.
    will: Option<(u32, Option<Tick>)>,
}

/// A client that reads all wills, while the server is there.
#[derive(Debug, Default)]
struct Watcher {
    client: usize,
    /// What has been published since the server started, and was not received yet.
    due: BTreeSet<u32>,
    /// How many wills there have been.
    wills: u32,
}

struct Simulation {
    w: World,
    random: Random,
    models: Vec<Model>,
    watcher: Watcher,
    crashes: u64,
    /// Whether disks are full from time to time.
    disks_change: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut w = World::writing(1 + random.below(3) as u8, Settings::default());
        w.paused = true;
        let mut simulation = Self {
            w,
            random,
            models: (0..CLIENTS).map(|_| Model::default()).collect(),
            watcher: Watcher::default(),
            crashes: 0,
            disks_change: false,
        };
        simulation.watch();
        simulation
    }

    /// Somebody reads the wills from now on.
    fn watch(&mut self) {
        let client = self.w.connect_only(Version::V5, "watcher", &clean());
        let (packet_id, options) = (PacketId::new(1).unwrap(), qos(QoS::AtMostOnce));
        self.w.subscribe_only(client, packet_id, "will", options);
        self.watcher.client = client;
        self.watcher.due.clear();
    }

    /// Each will was due, and comes once.
    fn read_wills(&mut self) {
        for payload in self.w.take_payloads(self.watcher.client) {
            let will = payload.parse().unwrap();
            assert!(
                self.watcher.due.remove(&will),
                "will {will} of {:?}",
                self.models
            );
        }
    }

    fn publish_will(&mut self, who: usize) {
        if let Some((will, _)) = self.models[who].will.take() {
            self.watcher.due.insert(will);
        }
    }

    fn step(&mut self) {
        let who = self.random.below(CLIENTS);
        match self.random.below(if self.disks_change { 24 } else { 20 }) {
            0..12 => self.act(who),
            12..16 => {
                let shard = self.random.below(self.w.hubs.len()) as u8;
                self.w.go_on(shard);
                self.w.flush(shard);
                (0..CLIENTS).for_each(|who| self.read(who));
                self.read_wills();
            }
            16 => self.drop_link(who),
            17 if self.random.chance(30) => {
                let shard = self.random.below(self.w.hubs.len()) as u8;
                let at_most = self.random.below(4);
                self.w.rewrite(shard, at_most);
            }
            17 => {
                let secs = self.random.below(15) as u32;
                self.pass_secs(secs);
            }
            18 => {
                for pair in self.w.pairs_under_way() {
                    self.w.deliver_one(pair);
                }
            }
            20..24 => self.change_disk(),
            _ => self.crash(),
        }
    }

    /// A disk is full, or has room again.
    fn change_disk(&mut self) {
        let shard = self.random.below(self.w.hubs.len()) as u8;
        if self.random.chance(30) {
            return self.w.set_disk(shard, Disk::IsFull);
        }
        self.w.set_disk(shard, Disk::CatchesUp);
        if self.random.chance(60) {
            self.w.rewrite(shard, usize::MAX);
        }
    }

    /// All disks have room, and everything is written down.
    fn mend_disks(&mut self) {
        for _ in 0..100 {
            for shard in 0..self.w.hubs.len() as u8 {
                self.w.set_disk(shard, Disk::CatchesUp);
                self.w.rewrite(shard, usize::MAX);
            }
            for pair in self.w.pairs_under_way() {
                self.w.deliver_one(pair);
            }
        }
        assert!(self.w.is_sound(), "the journals are complete");
    }

    fn pass_secs(&mut self, secs: u32) {
        self.w.pass_secs(secs);
        // A timer may fire a moment after its time.
        let now = self.w.now;
        let deadlines = |it: &Model| [it.until, it.will.and_then(|(_, at)| at)];
        let mut all = self.models.iter().flat_map(deadlines).flatten();
        if all.any(|at| is_near(now, at)) {
            return self.pass_secs(1);
        }
        for who in 0..CLIENTS {
            let due = self.models[who].will.and_then(|(_, at)| at);
            if due.is_some_and(|at| at <= now) {
                self.publish_will(who);
            }
            let model = &mut self.models[who];
            if model.until.take_if(|until| *until <= now).is_some() {
                model.state = State::default();
                self.publish_will(who);
            }
        }
    }

    /// Takes the answer, if it is there.
    fn read(&mut self, who: usize) {
        let model = &mut self.models[who];
        let Some(client) = model.client else {
            return;
        };
        while let Some(packet) = self.w.clients[client].received.pop_front() {
            // A will.
            if packet[0] & 0xF0 == 0x30 {
                continue;
            }
            let Some(asked) = model.asked.take_if(|asked| asked.kind == packet[0] & 0xF0) else {
                panic!("{packet:?} came without a question");
            };
            if asked.kind == 0x20 {
                assert_eq!(packet[2] == 1, asked.present, "client {who}: {model:?}");
            }
            model.state = asked.then;
        }
    }

    fn act(&mut self, who: usize) {
        let Some(client) = self.models[who].client else {
            return self.connect(who);
        };
        if self.models[who].asked.is_some() {
            return;
        }
        let filter = FILTERS[self.random.below(FILTERS.len())];
        let mut then = self.models[who].state.clone();
        match self.random.below(8) {
            0..4 => {
                let level = ALL_QOS[self.random.below(3)];
                let packet_id = PacketId::new(1).unwrap();
                self.w.subscribe_only(client, packet_id, filter, qos(level));
                then.subscriptions.insert(filter, level);
                self.ask(who, 0x90, then);
            }
            4..7 => {
                let mut filters = UnsubscribeFilterBuf::new();
                filters.push(filter).unwrap();
                let packet = Packet::Unsubscribe(Unsubscribe {
                    packet_id: PacketId::new(1).unwrap(),
                    properties: Properties::EMPTY,
                    filters: filters.as_filters(),
                });
                self.send(client, &packet);
                then.subscriptions.remove(filter);
                self.ask(who, 0xB0, then);
            }
            _ => self.disconnect(who),
        }
    }

    fn ask(&mut self, who: usize, kind: u8, then: State) {
        let present = false;
        self.models[who].asked = Some(Asked {
            kind,
            present,
            then,
        });
    }

    fn send(&mut self, client: usize, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        encode(Version::V5, packet, &mut bytes).unwrap();
        self.w.send_without_settling(client, &bytes);
    }

    /// A client says goodbye, perhaps with another expiry. Nothing answers that.
    fn disconnect(&mut self, who: usize) {
        let Some(client) = self.models[who].client else {
            return;
        };
        let mut properties = PropertyBuf::new();
        if self.models[who].state.expiry_secs > 0 && self.random.chance(50) {
            let secs = EXPIRIES[self.random.below(EXPIRIES.len())];
            properties.push(Property::SessionExpiryInterval(secs));
            self.models[who].state.expiry_secs = secs;
        }
        let packet = Packet::Disconnect(Disconnect {
            reason: ReasonCode::Success,
            properties: properties.as_properties(),
        });
        self.send(client, &packet);
        self.models[who].will = None;
        self.is_away(who);
    }

    /// The connection of a client is gone. What it has asked for was done, or not: the hub knows.
    fn drop_link(&mut self, who: usize) {
        if let Some(client) = self.models[who].client {
            self.w.drop_link(client);
            // The hub has taken all that was sent.
            if let Some(asked) = self.models[who].asked.take() {
                self.models[who].state = asked.then;
            }
            self.publish_will(who);
            self.is_away(who);
        }
    }

    fn is_away(&mut self, who: usize) {
        let model = &mut self.models[who];
        model.client = None;
        match model.state.expiry_secs {
            0 => model.state = State::default(),
            u32::MAX => model.until = None,
            secs => model.until = Some(self.w.now.after_secs(secs)),
        }
    }

    fn connect(&mut self, who: usize) {
        let will = self.random.chance(40).then(|| {
            self.watcher.wills += 1;
            self.watcher.wills
        });
        let payload = will.map(|will| will.to_string());
        let options = ConnectOptions {
            clean_start: self.random.chance(15),
            expiry_secs: EXPIRIES[self.random.below(EXPIRIES.len())],
            will: payload.as_deref().map(|payload| ("will", payload, 0)),
            ..ConnectOptions::default()
        };
        if options.clean_start && self.models[who].state.exists {
            // The session ends, and its will does not wait any longer.
            self.publish_will(who);
        }
        self.models[who].will = will.map(|will| (will, None));
        let goes_on = !options.clean_start && self.models[who].state.exists;
        let before = self.models[who].state.clone();
        let then = State {
            exists: true,
            expiry_secs: options.expiry_secs,
            subscriptions: match goes_on {
                true => before.subscriptions,
                false => BTreeMap::new(),
            },
        };
        let client = self
            .w
            .connect_only(Version::V5, &format!("c{who}"), &options);
        let model = &mut self.models[who];
        model.asked = Some(Asked {
            kind: 0x20,
            present: goes_on,
            then,
        });
        model.client = Some(client);
        model.until = None;
        self.w.settle();
    }

    /// The server is killed. What a client was told holds. What it has asked for without an answer
    /// was done, or not.
    fn crash(&mut self) {
        if !self.w.is_sound() {
            // Nothing was promised.
            return;
        }
        (0..CLIENTS).for_each(|who| self.read(who));
        self.read_wills();
        self.crashes += 1;
        let shards = 1 + self.random.below(4) as u8;
        let is_full = self.disks_change && self.random.chance(20);
        let disk = if is_full { Disk::IsFull } else { Disk::Takes };
        self.w.crash_onto(disk, shards, self.crashes);
        self.watch();
        for who in 0..CLIENTS {
            let found = self.found(who);
            let model = &mut self.models[who];
            let before = &model.state;
            let after = model.asked.take().map(|asked| asked.then);
            let is_told = found == lasting(before);
            let is_asked = after.as_ref().is_some_and(|after| found == lasting(after));
            assert!(
                is_told || is_asked,
                "client {who}: {found:?} instead of {before:?} or {after:?}"
            );
            model.state = found;
            let grace = self.w.now.after_secs(GRACE_SECS);
            if model.client.take().is_some() {
                model.until = match model.state.expiry_secs {
                    0 | u32::MAX => None,
                    secs => Some(self.w.now.after_secs(secs)),
                };
            }
            // It waits for its client again, and its session with it.
            if let Some((_, at)) = &mut model.will {
                *at = Some(grace);
                model.until = model.until.map(|until| until.max(grace));
            }
        }
    }

    /// What the server has of a client.
    fn found(&self, who: usize) -> State {
        let id = format!("c{who}");
        let hub = &self.w.hubs[usize::from(self.w.home(&id))];
        let info = hub.inspect().client(stentor_topic::Zone(0), &id);
        // Of some, there is nothing but the will.
        let Some(info) = info.filter(|info| info.expiry_secs > 0) else {
            return State::default();
        };
        let key = stentor_hub::survey::session_of(hub, stentor_topic::Zone(0), &id);
        let granted = hub.inspect().granted(key.expect("it is there"));
        let subscriptions = granted.iter().map(|granted| {
            let filter = FILTERS.iter().find(|filter| ***filter == *granted.filter);
            (*filter.unwrap(), granted.qos)
        });
        State {
            exists: true,
            expiry_secs: info.expiry_secs,
            subscriptions: subscriptions.collect(),
        }
    }
}

fn is_near(now: Tick, at: Tick) -> bool {
    now.since(at).as_millis() < 500 && at <= now
}

/// What is left of a session after a crash.
fn lasting(state: &State) -> State {
    match state.expiry_secs {
        0 => State::default(),
        _ => state.clone(),
    }
}

fn run(seed: u64) {
    let mut simulation = Simulation::new(seed);
    simulation.disks_change = seed.is_multiple_of(2);
    for _ in 0..600 {
        simulation.step();
    }
    simulation.mend_disks();
    simulation.crash();
    simulation.pass_secs(2 * GRACE_SECS);
    simulation.w.paused = false;
    simulation.w.settle();
    simulation.read_wills();
    let watcher = &simulation.watcher;
    assert!(watcher.due.is_empty(), "{watcher:?} was not received");
    simulation.w.check_accounts();
}

#[test]
fn what_clients_were_told_holds_after_a_crash() {
    crate::world::run_seeds(300, run);
}
