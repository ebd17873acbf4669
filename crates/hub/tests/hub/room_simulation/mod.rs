//! Random lives of a zone's rooms over several hubs: users come and go with several sessions, lose
//! their connections at any moment, come back in time or too late, take their own connections over,
//! fight for places, locks and properties. After every step the retained topics say what a naive
//! model says, and what is said in a room is heard by those who are in it, once.
//!
//! A failure prints its seed; `STENTOR_SEED=n` runs that one alone. `STENTOR_SOAK=1` runs many.

mod model;
use std::collections::BTreeSet;

use crate::world::{ConnectOptions, Message, Random, World};
use model::{Model, Refused};
use stentor_mqtt::{PacketId, QoS, SubscribeOptions, Version};
use stentor_session::{CloseReason, Remote, Tick};

const Q1: QoS = QoS::AtLeastOnce;
const ROOMS: [&str; 3] = ["a", "b", "lobby"];
const USERS: usize = 4;
/// Client ids of each user; the second one's session ends with its connection.
const SESSIONS: usize = 2;

/// A client id, and its connection if it has one.
struct SimulatedSession {
    user: usize,
    persistent: bool,
    client: Option<usize>,
    /// The rooms that it is subscribed to.
    rooms: BTreeSet<usize>,
    /// Those that it comes back to by itself, in that order.
    stored: Vec<usize>,
    /// How many of those it was sent out of meanwhile: it is told when it comes back.
    expelled: usize,
}

struct Simulation {
    w: World,
    random: Random,
    root: usize,
    sessions: Vec<SimulatedSession>,
    model: Model,
    /// What was done, for the report of a failure.
    trace: Vec<String>,
}

/// Whether a session outlives its connection.
fn is_lasting(session: usize) -> bool {
    session.is_multiple_of(SESSIONS)
}

fn name(user: usize) -> String {
    format!("u{user}")
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let shards = u8::try_from(1 + random.below(4)).unwrap();
        let mut w = World::new(shards);
        let options = ConnectOptions {
            user: Some("root"),
            ..ConnectOptions::default()
        };
        let root = w.connect(Version::V5, "root", &options);
        w.subscribe(root, "$reply/+", Q1);
        let session = |number| SimulatedSession {
            user: number / SESSIONS,
            persistent: is_lasting(number),
            client: None,
            rooms: BTreeSet::new(),
            stored: Vec::new(),
            expelled: 0,
        };
        let mut simulation = Self {
            w,
            random,
            root,
            sessions: (0..USERS * SESSIONS).map(session).collect(),
            model: Model::new(ROOMS.len(), ROOMS.len() - 1, is_lasting),
            trace: Vec::new(),
        };
        // The first look at the rooms makes the lobby.
        simulation.command(root, "list", "{}");
        simulation
    }

    fn note(&mut self, text: String) {
        self.trace.push(text);
    }

    fn step(&mut self) {
        let at = self.random.below(self.sessions.len());
        let room = self.random.below(ROOMS.len());
        match self.random.below(20) {
            0..3 => self.connect(at),
            3..5 => self.lose(at),
            5 => self.disconnect(at),
            6..10 => self.join(at, room),
            10 => self.join_and_break(at, room),
            11..13 => self.leave(at, room),
            13 => self.say(at, room),
            14 => self.set(at, room),
            15 => self.lock(at, room),
            16 => self.change(at, room),
            17 => self.kick(at, room),
            18 => self.create(at, room),
            _ => self.wait(),
        }
    }

    fn secs(&self) -> u64 {
        self.w.now.as_micros() / 1_000_000
    }

    /// A client connects, and takes its own connection over if it has one.
    fn connect(&mut self, at: usize) {
        let (user, persistent) = (self.sessions[at].user, self.sessions[at].persistent);
        self.note(format!("connect {at}"));
        let now = self.secs();
        if self.sessions[at].client.is_some() {
            self.gone(at, |model, room, user, session| {
                model.lost(now, room, user, session)
            });
        }
        let base = match persistent {
            true => ConnectOptions::persistent(),
            false => ConnectOptions::default(),
        };
        let user = name(user);
        let options = ConnectOptions {
            user: Some(&user),
            denied: &["$rooms/"],
            ..base
        };
        let version = if at.is_multiple_of(3) {
            Version::V311
        } else {
            Version::V5
        };
        let client = self.w.connect(version, &format!("c{at}"), &options);
        let told = self.read(client).into_iter();
        let told = told.filter(|message| message.topic == "$reply/join");
        let told = told.count();
        self.w.subscribe(client, "$reply/+", Q1);
        self.sessions[at].client = Some(client);
        let mut out = std::mem::take(&mut self.sessions[at].expelled);
        for room in std::mem::take(&mut self.sessions[at].stored) {
            let user = self.sessions[at].user;
            if self.model.join(room, user, at).is_ok() {
                self.sessions[at].rooms.insert(room);
            } else {
                out += 1;
            }
        }
        assert_eq!(told, out, "{:?}", self.trace);
    }

    /// The connection of a session ends: it is out of its rooms, and a session that lasts comes
    /// back.
    fn gone(&mut self, at: usize, mut out: impl FnMut(&mut Model, usize, usize, usize)) {
        let rooms = std::mem::take(&mut self.sessions[at].rooms);
        let user = self.sessions[at].user;
        for &room in &rooms {
            out(&mut self.model, room, user, at);
        }
        if self.sessions[at].persistent {
            self.sessions[at].stored = rooms.into_iter().collect();
        }
        self.sessions[at].client = None;
    }

    fn lose(&mut self, at: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("lose {at}"));
        self.w.drop_link(client);
        let now = self.secs();
        self.gone(at, |model, room, user, session| {
            model.lost(now, room, user, session)
        });
    }

    fn disconnect(&mut self, at: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("disconnect {at}"));
        let reason = CloseReason::Remote(Remote::Disconnect);
        self.w.disconnect(client, reason);
        self.gone(at, Model::leave);
    }

    fn join(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("join {at} {room}"));
        self.hush();
        let filter = format!("$room/{}/#", ROOMS[room]);
        let code = self.w.subscribe(client, &filter, Q1);
        let result = self.model.join(room, self.sessions[at].user, at);
        let is_v5 = self.w.clients[client].version.is_v5();
        let expected = match (result, is_v5) {
            (Ok(()), _) => 1,
            (Err(_), false) => 0x80,
            (Err(Refused::Full), true) => 0x97,
            (Err(Refused::Locked), true) => 0x83,
        };
        assert_eq!(code, expected, "{:?}", self.trace);
        if result.is_ok() {
            self.sessions[at].rooms.insert(room);
        }
        let told = self.read(client).into_iter();
        let told = told
            .filter(|message| message.topic == "$reply/join")
            .count();
        assert_eq!(told, usize::from(expected == 0x80), "{:?}", self.trace);
    }

    /// The connection breaks before the home of the zone has answered.
    fn join_and_break(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("join and break {at} {room}"));
        let filter = format!("$room/{}/#", ROOMS[room]);
        self.w.paused = true;
        let options = SubscribeOptions {
            qos: Q1,
            ..SubscribeOptions::default()
        };
        let id = PacketId::new(8).unwrap();
        self.w.subscribe_only(client, id, &filter, options);
        let is_home = self.w.clients[client].shard == 0;
        let was_in = self.sessions[at].rooms.contains(&room);
        self.w.drop_link(client);
        self.w.paused = false;
        self.w.settle();
        let (now, user) = (self.secs(), self.sessions[at].user);
        // The others' news overtake an answer that comes too late: it is not waited for.
        if is_home || was_in {
            if self.model.join(room, user, at).is_ok() {
                self.sessions[at].rooms.insert(room);
            }
            return self.gone(at, |model, room, user, session| {
                model.lost(now, room, user, session)
            });
        }
        let joined = self.model.join(room, user, at);
        self.gone(at, |model, room, user, session| {
            model.lost(now, room, user, session)
        });
        if joined.is_ok() {
            self.model.lost(now, room, user, at);
        }
    }

    fn leave(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("leave {at} {room}"));
        let filter = format!("$room/{}/#", ROOMS[room]);
        self.w.unsubscribe(client, &filter);
        if self.sessions[at].rooms.remove(&room) {
            self.model.leave(room, self.sessions[at].user, at);
        }
    }

    /// A user who is in the room by any session is heard by all sessions that are in it.
    fn say(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("say {at} {room}"));
        self.hush();
        let user = self.sessions[at].user;
        let topic = format!("$room/{}/say", ROOMS[room]);
        self.w.publish(client, &topic, "hello", Q1, false);
        self.w.take_packet(client, 0x40).expect("a PUBACK");
        let may = self.model.is_here(room, user);
        let heard_as = format!("{topic}/{}", name(user));
        for other in 0..self.sessions.len() {
            let Some(client) = self.sessions[other].client else {
                continue;
            };
            let messages = self.read(client).into_iter();
            let heard = messages.filter(|m| m.topic == heard_as).count();
            let expected = usize::from(may && self.sessions[other].rooms.contains(&room));
            assert_eq!(heard, expected, "{other}: {:?}", self.trace);
        }
    }

    /// Everybody has read what came before.
    fn hush(&mut self) {
        let sessions = self.sessions.iter().filter_map(|session| session.client);
        let clients: Vec<usize> = sessions.chain([self.root]).collect();
        clients
            .into_iter()
            .for_each(|client| drop(self.read(client)));
    }

    /// All messages that a client gets, each acknowledged.
    fn read(&mut self, client: usize) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let messages = self.w.take_messages(client);
            if messages.is_empty() {
                return all;
            }
            for id in messages.iter().filter_map(|message| message.packet_id) {
                self.w.send_ack(client, 0x40, id);
            }
            all.extend(messages);
        }
    }

    /// Calls a command; whether it was done.
    fn command(&mut self, client: usize, command: &str, words: &str) -> bool {
        self.hush();
        let topic = format!("$call/room.{command}/cmd");
        self.w.publish(client, &topic, words, Q1, false);
        self.w.take_packet(client, 0x40).expect("a PUBACK");
        let messages = self.read(client);
        let answer = messages
            .iter()
            .find(|message| message.topic == "$reply/cmd");
        let answer = answer.expect("an answer").payload.clone();
        let answer = String::from_utf8(answer).unwrap();
        answer.contains(r#""status":"done""#)
    }

    /// A property is set without condition, by compare-and-set with the right version or an old
    /// one, or taken away.
    fn set(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        let user = self.sessions[at].user;
        let version = self.model.property_version(room);
        let value = (!self.random.chance(20)).then(|| self.random.below(100));
        let expected = match self.random.below(3) {
            0 => None,
            1 => Some(version),
            _ => Some(version + 1),
        };
        self.note(format!("set {at} {room} {value:?} {expected:?}"));
        let condition =
            expected.map_or_else(String::new, |version| format!(r#","if_version":{version}"#));
        let value_text = value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let room_name = ROOMS[room];
        let words =
            format!(r#"{{"room":"{room_name}","name":"p","value":{value_text}{condition}}}"#);
        let done = self.command(client, "set", &words);
        let may = self.model.set(room, user, value, expected);
        assert_eq!(done, may, "{:?}", self.trace);
    }

    fn lock(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        let user = self.sessions[at].user;
        let locks = self.random.chance(60);
        self.note(format!("lock {at} {room} {locks}"));
        let words = format!(r#"{{"room":"{}","name":"p"}}"#, ROOMS[room]);
        let command = if locks { "lock" } else { "unlock" };
        let done = self.command(client, command, &words);
        let may = if locks {
            self.model.lock(room, user)
        } else {
            self.model.unlock(room, user)
        };
        assert_eq!(done, may, "{:?}", self.trace);
    }

    /// The room itself is changed: its places, or whether it lets anybody in.
    fn change(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        let user = self.sessions[at].user;
        let room_name = ROOMS[room];
        let capacity = self.random.below(4);
        let locked = self.random.chance(20);
        self.note(format!("change {at} {room} {capacity} {locked}"));
        let words = format!(r#"{{"room":"{room_name}","capacity":{capacity},"locked":{locked}}}"#);
        let done = self.command(client, "change", &words);
        let may = self.model.change(room, user, capacity, locked);
        assert_eq!(done, may, "{:?}", self.trace);
    }

    /// Somebody is sent out, by another user or by the administrator; it is told so.
    fn kick(&mut self, at: usize, room: usize) {
        let whom = self.random.below(USERS);
        let by_root = self.random.chance(50);
        let client = match (by_root, self.sessions[at].client) {
            (true, _) => self.root,
            (false, Some(client)) => client,
            (false, None) => return,
        };
        let by = (!by_root).then_some(self.sessions[at].user);
        self.note(format!("kick {at} {room} {whom} {by:?}"));
        let words = format!(r#"{{"room":"{}","user":"{}"}}"#, ROOMS[room], name(whom));
        let done = self.command(client, "kick", &words);
        let lost = self.model.kick(room, by, whom);
        assert_eq!(done, lost.is_some(), "{:?}", self.trace);
        let Some(lost) = lost else {
            return;
        };
        for session in self
            .sessions
            .iter_mut()
            .filter(|session| session.user == whom)
        {
            session.rooms.remove(&room);
        }
        for at in lost {
            let session = &mut self.sessions[at];
            if session.stored.contains(&room) {
                session.stored.retain(|stored| *stored != room);
                session.expelled += 1;
            }
        }
        self.hush();
    }

    fn create(&mut self, at: usize, room: usize) {
        let Some(client) = self.sessions[at].client else {
            return;
        };
        self.note(format!("create {at} {room}"));
        let words = format!(r#"{{"room":"{}"}}"#, ROOMS[room]);
        let done = self.command(client, "create", &words);
        let now = self.secs();
        let may = self.model.create(now, room, self.sessions[at].user);
        assert_eq!(done, may, "{:?}", self.trace);
    }

    fn wait(&mut self) {
        let secs = if self.random.chance(10) {
            700
        } else {
            1 + self.random.below(40)
        };
        self.note(format!("wait {secs}"));
        let micros = self.w.now.as_micros() + secs as u64 * 1_000_000;
        self.w.now = Tick::from_micros(micros);
        self.w.advance();
        self.model.advance(micros / 1_000_000);
    }

    /// The retained topics are what the model says.
    fn compare(&self) {
        let mut stored = self.w.stored("$room/#");
        stored.extend(self.w.stored("$rooms/#"));
        let expected = self.model.topics(&ROOMS, name);
        assert_eq!(stored, expected, "{:#?}", self.trace);
    }
}

#[test]
fn rooms_are_what_the_model_says() {
    crate::world::run_seeds(60, |seed| {
        println!("seed {seed}");
        let mut simulation = Simulation::new(seed);
        for _ in 0..250 {
            simulation.step();
            simulation.compare();
        }
    });
}
