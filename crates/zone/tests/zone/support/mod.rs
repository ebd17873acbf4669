//! A zone's rooms with what is around them: the retained topics, the sessions, the time.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;
use stentor_zone::{
    Actor, Effect, Entry, Refusal, Role, Room, RoomOptions, Rooms, RoomsOptions, SessionId, topic,
};

pub(crate) const fn user(name: &str) -> Actor<'_> {
    Actor {
        user: name,
        role: Role::User,
    }
}

pub(crate) const fn admin() -> Actor<'static> {
    Actor {
        user: "admin",
        role: Role::Administrator,
    }
}

pub(crate) const fn session(number: u64) -> SessionId {
    SessionId(number)
}

/// Applies every effect as a hub would.
#[derive(Default)]
pub(crate) struct Hall {
    pub(crate) rooms: Rooms,
    pub(crate) now: Tick,
    pub(crate) retained: BTreeMap<String, Vec<u8>>,
    pub(crate) events: Vec<(String, Vec<u8>)>,
    pub(crate) said: Vec<(String, Vec<u8>)>,
    pub(crate) cleared: Vec<SessionId>,
    pub(crate) recalled: Vec<(SessionId, Vec<u8>, u64)>,
}

impl Hall {
    pub(crate) fn new(options: RoomsOptions) -> Self {
        Self {
            rooms: Rooms::new(options),
            ..Self::default()
        }
    }

    pub(crate) fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Publish {
                    topic,
                    payload,
                    retain: true,
                } => {
                    if payload.is_empty() {
                        self.retained.remove(&topic);
                    } else {
                        self.retained.insert(topic, payload);
                    }
                }
                Effect::Publish { topic, payload, .. } if topic.ends_with("/event") => {
                    self.events.push((topic, payload));
                }
                Effect::Publish { topic, payload, .. } => self.said.push((topic, payload)),
                Effect::Clear { session, .. } => self.cleared.push(session),
                Effect::Recall {
                    session,
                    message,
                    age_millis,
                } => self
                    .recalled
                    .push((session, message.payload().to_vec(), age_millis)),
            }
        }
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Rooms, Tick, &mut Vec<Effect>) -> R) -> R {
        let mut out = Vec::new();
        let result = f(&mut self.rooms, self.now, &mut out);
        self.apply(out);
        result
    }

    pub(crate) fn create(
        &mut self,
        actor: Actor<'_>,
        room: &str,
        options: RoomOptions,
    ) -> Result<(), Refusal> {
        self.with(|rooms, now, out| rooms.create(now, actor, room, options, out))
    }

    pub(crate) fn join(&mut self, name: &str, number: u64, room: &str) -> Result<(), Refusal> {
        let (session, entry) = (session(number), Entry::Member);
        self.with(|rooms, now, out| rooms.join(now, user(name), room, session, entry, out))
    }

    pub(crate) fn observe(&mut self, name: &str, number: u64, room: &str) -> Result<(), Refusal> {
        let (session, entry) = (session(number), Entry::Observer);
        self.with(|rooms, now, out| rooms.join(now, user(name), room, session, entry, out))
    }

    pub(crate) fn act<R>(
        &mut self,
        room: &str,
        f: impl FnOnce(&mut Room, &mut Vec<Effect>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        self.with(|rooms, _, out| rooms.act(room, out, f))
    }

    pub(crate) fn leave(&mut self, name: &str, number: u64, room: &str) {
        let now = self.now;
        let _ = self.act(room, |room, out| {
            room.leave(now, name, session(number), out);
            Ok(())
        });
    }

    pub(crate) fn lost(&mut self, name: &str, number: u64, room: &str) {
        let now = self.now;
        let _ = self.act(room, |room, out| {
            room.lost(now, name, session(number), out);
            Ok(())
        });
    }

    pub(crate) fn say(&mut self, name: &str, room: &str, payload: &[u8]) -> Result<(), Refusal> {
        self.say_for(name, room, (payload, None))
    }

    /// Somebody says something with a message expiry interval.
    pub(crate) fn say_for(
        &mut self,
        name: &str,
        room: &str,
        (payload, expiry_secs): (&[u8], Option<u32>),
    ) -> Result<(), Refusal> {
        let topic = topic::said(room, name);
        let parts = MessageParts {
            topic: &topic,
            properties: &[],
            payload,
            qos: Default::default(),
            retain: false,
            expiry_secs,
        };
        let message = Message::new(Zone::DEFAULT, Publisher::SERVER, self.now, &parts);
        let message = Arc::new(message);
        self.act(room, |room, _| room.say(user(name), &message))?;
        let said = (message.topic().to_owned(), payload.to_vec());
        self.said.push(said);
        Ok(())
    }

    /// Moves the time to so many seconds.
    pub(crate) fn at(&mut self, secs: u64) {
        self.now = Tick::from_secs(secs);
        while !self.with(Rooms::advance) {}
    }

    pub(crate) fn retained(&self, topic: &str) -> Option<Value> {
        let payload = self.retained.get(topic)?;
        Some(serde_json::from_slice(payload).expect("JSON"))
    }

    pub(crate) fn listed(&self, room: &str) -> Value {
        self.retained(&format!("$rooms/{room}")).expect("listed")
    }

    pub(crate) fn topics(&self) -> Vec<String> {
        self.retained.keys().cloned().collect()
    }

    /// The events of a room so far.
    pub(crate) fn events(&self, room: &str) -> Vec<Value> {
        let topic = format!("$room/{room}/event");
        let of_room = self.events.iter().filter(|(at, _)| *at == topic);
        of_room
            .map(|(_, payload)| serde_json::from_slice(payload).expect("JSON"))
            .collect()
    }

    /// What a session was sent of the history since this was last asked.
    pub(crate) fn recalled(&mut self, number: u64) -> Vec<(String, u64)> {
        std::mem::take(&mut self.recalled)
            .into_iter()
            .filter(|&(at, ..)| at == session(number))
            .map(|(_, payload, age)| (String::from_utf8(payload).expect("text"), age))
            .collect()
    }
}
