//! Calls that a connected client serves: each goes to one session, and its answer is taken from
//! that session alone.
//!
//! To serve a procedure is to subscribe to `$serve/<procedure>/…`, which needs the right to.
//! The control plane asks one shard after the other; a shard gives the call to the least busy of
//! its connected clients and tells what came of it. What a client was asked is forgotten with its
//! connection, so that a call fails at once when whoever serves it goes.

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use stentor_mqtt::{Property, PropertyBuf, Publish, QoS, ReasonCode, forwardable};
use stentor_session::{Message, MessageParts, Outcome, Publisher, Tick};
use stentor_topic::Zone;
use stentor_zone::{Reach, topic};

use crate::core::Core;
use crate::core::delivery::direct;
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::Taken;
use crate::services::interface::calls::{Ask, Callees, Served};

/// The calls that clients of this shard are asked and have not answered.
#[derive(Default)]
pub(crate) struct ServingService {
    callees: Option<Arc<dyn Callees>>,
    asked: HashMap<u64, Asked, foldhash::fast::FixedState>,
    /// Calls that were given to somebody.
    given: usize,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    session: SessionKey,
    until: Tick,
}

/// What is said to an answer that comes too late, or from somebody else.
const NOT_AWAITED: Outcome = Outcome::new(
    ReasonCode::NoMatchingSubscribers,
    "nobody waits for this answer of this client",
);

impl ServingService {
    pub(crate) fn new(callees: Option<Arc<dyn Callees>>) -> Self {
        Self {
            callees,
            ..Self::default()
        }
    }

    /// The control plane asks for a client that serves a call.
    pub(crate) fn ask_client(&mut self, core: &mut Core, now: Tick, ask: &Ask) {
        self.asked.retain(|_, asked| asked.until > now);
        let to = topic::serve(&ask.procedure, ask.number);
        let served = match self.pick_server(core, ask.zone, &to) {
            None => Served::Nobody,
            Some(key) => {
                let message = ask_message(now, ask, &to);
                let until = ask.until;
                let asked = Asked {
                    session: key,
                    until,
                };
                self.asked.insert(ask.number, asked);
                match direct::deliver(core, now, key, &message) {
                    Reach::Delivered | Reach::Stored => return,
                    Reach::TooLarge => Served::TooLarge,
                    Reach::Full => Served::Full,
                    Reach::Nobody => Served::Nobody,
                }
            }
        };
        // If that closed its connection, this was said already.
        self.asked.remove(&ask.number);
        self.say_served(ask.number, served);
    }

    /// The connected session that a call is given to: the one that has the fewest; those that have
    /// as many take turns. O(sessions that serve it × calls that wait for an answer).
    fn pick_server(&mut self, core: &mut Core, zone: Zone, to: &str) -> Option<SessionKey> {
        let mut slots = core.connected_subscribers(zone, to);
        if slots.is_empty() {
            return None;
        }
        self.given = self.given.wrapping_add(1);
        let turn = self.given % slots.len();
        slots.rotate_left(turn);
        let asked = || self.asked.values();
        let load = |slot: &u32| asked().filter(|asked| asked.session.slot == *slot).count();
        let slot = slots.into_iter().min_by_key(load)?;
        core.session_at(slot)
    }

    /// A publish to `$answer/<number>`.
    pub(crate) fn take_answer(
        &mut self,
        key: SessionKey,
        publish: &Publish<'_>,
        number: u64,
    ) -> Taken {
        let asked = self.asked.get(&number);
        if asked.is_none_or(|asked| asked.session != key) {
            return Taken::Done(NOT_AWAITED);
        }
        self.asked.remove(&number);
        if self.say_served(number, Served::Said(publish.payload)) {
            Taken::SUCCESS
        } else {
            Taken::Done(NOT_AWAITED)
        }
    }

    /// The connection of a session ends: what it was asked will not be answered.
    pub(crate) fn lose_server(&mut self, key: SessionKey) {
        if self.asked.is_empty() {
            return;
        }
        let own = self.asked.extract_if(|_, asked| asked.session == key);
        let numbers: Vec<u64> = own.map(|(number, _)| number).collect();
        for number in numbers {
            self.say_served(number, Served::Gone);
        }
    }

    fn say_served(&self, number: u64, served: Served<'_>) -> bool {
        let callees = self.callees.as_ref();
        callees.is_some_and(|callees| callees.served(number, served))
    }
}

/// A call as the client that serves it gets it. It expires with the call.
fn ask_message(now: Tick, ask: &Ask, to: &str) -> Arc<Message> {
    let mut properties = PropertyBuf::new();
    properties.push(Property::ResponseTopic(&topic::answer(ask.number)));
    for (name, value) in &ask.properties {
        properties.push(Property::UserProperty((name, value)));
    }
    let mut raw = Vec::new();
    forwardable(properties.as_properties(), &mut raw);
    let secs = ask.until.since(now).as_secs().saturating_add(1);
    let parts = MessageParts {
        topic: to,
        properties: &raw,
        payload: &ask.payload,
        qos: QoS::AtLeastOnce,
        retain: false,
        expiry_secs: Some(u32::try_from(secs).unwrap_or(u32::MAX)),
    };
    Arc::new(Message::new(ask.zone, Publisher::SERVER, now, &parts))
}
