//! Calls of procedures: handed to the control plane, answered by an event.
//!
//! A shard runs no procedure. It checks the caller's rights, hands the call over without waiting,
//! and acknowledges that. The answer comes back through the control lane with the address that the
//! call carried, so that nothing is kept here in the meantime.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Property, PropertyBuf, Publish, QoS, ReasonCode, forwardable};
use stentor_session::{Message, MessageParts, Outcome, Publisher, Tick};
use stentor_topic::Zone;
use stentor_zone::{ROOM_COMMANDS, call_refused, topic};

use crate::core::Core;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::sessions::rights::Identity;
use crate::core::settings::Settings;
use crate::services::broadcast::{Fate, Part};
use crate::services::serving::Served;

/// A call on its way to the control plane.
#[derive(Debug)]
pub struct Call {
    /// What is called: one level of a topic.
    pub procedure: Box<str>,
    /// What it is about.
    pub payload: Box<[u8]>,
    /// The user properties of the publish, in their order.
    pub arguments: Vec<(Box<str>, Box<str>)>,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// The caller's client id.
    pub client_id: Box<str>,
    /// When the caller stops waiting; [`Tick::NEVER`] if it did not say.
    pub expires_at: Tick,
    /// Where the answer goes.
    pub return_to: ReturnAddress,
}

/// Where the answer to a call goes.
#[derive(Clone, Debug)]
pub struct ReturnAddress {
    /// The shard that has to be told.
    pub shard: ShardId,
    pub(crate) session: SessionKey,
    zone: Zone,
    place: Place,
    correlation: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
enum Place {
    /// Nobody wants it.
    Nowhere,
    /// A topic below `$reply/`: for the calling session alone.
    Own(Box<str>),
    /// Any other topic, to which the caller may publish.
    Public(Box<Listener>),
}

/// Where whoever calls listens for the answer, on a topic that others may hear as well.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) topic: Box<str>,
    /// The caller: the right to publish there is checked when the answer is there.
    pub(crate) identity: Arc<Identity>,
    pub(crate) client_id: Box<str>,
}

impl Listener {
    /// Whether the caller may publish there still; it may have lost the right in the meantime.
    fn may_answer(&self, core: &Core) -> bool {
        let caller = core.refresh(Arc::clone(&self.identity), &self.client_id);
        caller.is_some_and(|caller| caller.rights.may_publish(&self.topic))
    }
}

/// What has come of a call.
pub(crate) enum Called {
    /// The control plane has it.
    Taken,
    /// It is a command about rooms, whose answer goes there.
    Room(ReturnAddress),
    /// It goes no further, and this is the answer.
    Answered(Outcome, Answer),
}

/// The calls of clients, on their way to the control plane.
pub(crate) struct CallService {
    callees: Option<Arc<dyn Callees>>,
}

/// An answer to a call.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Where it goes.
    pub to: ReturnAddress,
    /// The payload.
    pub json: Vec<u8>,
}

impl Answer {
    /// Delivers it to the calling session, if that is where it goes. A session that is gone, or
    /// full, is not told.
    pub(crate) fn deliver(&self, core: &mut Core, now: Tick) {
        if let Place::Own(topic) = &self.to.place {
            let message = self.message(now, topic);
            core.deliver_to_session(now, self.to.session, &message);
        }
    }

    /// Publishes it where others may hear it too, if that is where it goes.
    pub(crate) fn publish(&self, core: &mut Core, now: Tick) {
        if let Place::Public(listener) = &self.to.place {
            if !listener.may_answer(core) {
                core.count_denied();
                return;
            }
            core.settle(now);
            core.keep_and_route_now(now, self.message(now, &listener.topic));
        }
    }

    /// The listener that it is published to, if it may be.
    pub(crate) fn listener(&self, core: &Core) -> Option<&Listener> {
        match &self.to.place {
            Place::Public(listener) => Some(&**listener).filter(|it| it.may_answer(core)),
            Place::Own(_) | Place::Nowhere => None,
        }
    }

    fn message(&self, now: Tick, topic: &str) -> Arc<Message> {
        let mut properties = PropertyBuf::new();
        properties.push(Property::PayloadFormatIndicator(true));
        properties.push(Property::ContentType("application/json"));
        if let Some(data) = &self.to.correlation {
            properties.push(Property::CorrelationData(data));
        }
        let mut raw = Vec::new();
        forwardable(properties.as_properties(), &mut raw);
        let parts = MessageParts {
            topic,
            properties: &raw,
            payload: &self.json,
            qos: QoS::AtLeastOnce,
            retain: false,
            expiry_secs: None,
        };
        Arc::new(Message::new(self.to.zone, Publisher::SERVER, now, &parts))
    }
}

/// The receiver of calls: the control plane.
pub trait Callees: Send + Sync {
    /// Takes a call. It is answered once, later and from another thread, by
    /// [`crate::ControlItem::Answer`]. Must not block.
    ///
    /// # Errors
    /// The call, if no more can wait.
    fn call(&self, call: Call) -> Result<(), Box<Call>>;

    /// Takes what a shard says to the [`Ask`] of that number; whether somebody waits for it. Must
    /// not block.
    ///
    /// [`Ask`]: crate::Ask
    fn served(&self, number: u64, served: Served<'_>) -> bool;

    /// Takes what has become of one recipient of the [`Broadcast`] of that number, by its place.
    /// Must not block.
    ///
    /// [`Broadcast`]: crate::Broadcast
    fn told(&self, number: u64, place: usize, fate: Fate);
}

impl ReturnAddress {
    /// The address of something that a session receives without having asked.
    pub(crate) fn own(shard: ShardId, session: SessionKey, zone: Zone, topic: &str) -> Self {
        Self {
            shard,
            session,
            zone,
            place: Place::Own(topic.into()),
            correlation: None,
        }
    }

    /// The address of a response on `$reply/<id>`.
    pub(crate) fn reply(
        (shard, session): (ShardId, SessionKey),
        zone: Zone,
        publish: &Publish<'_>,
        id: &str,
    ) -> Self {
        let correlation = publish.properties.correlation_data().map(Into::into);
        Self {
            correlation,
            ..Self::own(shard, session, zone, &topic::reply(id))
        }
    }

    /// Whether anybody wants the answer.
    #[must_use]
    pub const fn is_somewhere(&self) -> bool {
        !matches!(self.place, Place::Nowhere)
    }

    /// The bytes of memory that it holds beside itself. O(1).
    pub(crate) fn bytes(&self) -> usize {
        let place = match &self.place {
            Place::Nowhere => 0,
            Place::Own(topic) => topic.len(),
            Place::Public(listener) => listener.topic.len() + listener.client_id.len(),
        };
        place + self.correlation.as_ref().map_or(0, |data| data.len())
    }

    /// Has the answer go to another topic, if one is given. Whether it is one to answer on.
    pub(crate) fn redirect(&mut self, topic: Option<&str>, settings: &Settings) -> bool {
        let Place::Public(listener) = &mut self.place else {
            return false;
        };
        if let Some(topic) = topic {
            listener.topic = topic.into();
        }
        let topic = &*listener.topic;
        let is_topic = settings.takes_topic(topic) && stentor_topic::validate_name(topic).is_ok();
        is_topic && !topic.starts_with('$')
    }
}

/// Why a call is not made, as acknowledgement and as answer.
struct Refused {
    reason: ReasonCode,
    status: &'static str,
    text: &'static str,
}

const NOT_ALLOWED: Refused = Refused {
    reason: ReasonCode::NotAuthorized,
    status: "not-allowed",
    text: "the right to call this procedure is missing",
};
const NO_PLACE: Refused = Refused {
    reason: ReasonCode::NotAuthorized,
    status: "not-allowed",
    text: "answers go below $reply/, or to a topic without $ where the caller may publish",
};
const NOT_FOUND: Refused = Refused {
    reason: ReasonCode::NoMatchingSubscribers,
    status: "not-found",
    text: "this server runs no procedures",
};
const NOT_TAKEN: Refused = Refused {
    reason: ReasonCode::NoMatchingSubscribers,
    status: "not-found",
    text: "no adaptor of the room answers this call",
};
const OVERLOADED: Refused = Refused {
    reason: ReasonCode::QuotaExceeded,
    status: "overloaded",
    text: "too many calls wait; try again",
};

impl CallService {
    pub(crate) const fn new(callees: Option<Arc<dyn Callees>>) -> Self {
        Self { callees }
    }

    /// Says what has become of a part of a broadcast.
    pub(crate) fn tell(&self, part: &Part, fate: Fate) {
        if let Some(callees) = &self.callees {
            callees.told(part.broadcast.number, part.place, fate);
        }
    }

    /// A publish to `$call/<procedure>`. The acknowledgement says whether the call was taken.
    /// `None` if there is no such session.
    pub(crate) fn take_call(
        &mut self,
        core: &mut Core,
        now: Tick,
        key: SessionKey,
        publish: &Publish<'_>,
        (procedure, reply): (&str, Option<&str>),
    ) -> Option<Called> {
        // What the caller has published before comes before.
        core.settle(now);
        let session = core.session(key)?;
        let is_v5 = session.speaks_v5();
        let identity = Arc::clone(session.state.identity());
        let client_id: Box<str> = session.state.client_id().into();
        let place = place(core, (&identity, &client_id), publish, reply);
        let mut return_to = nowhere(core, key, publish)?;
        let to = topic::call(procedure);
        let refused = if !identity.rights.may_publish(&to) {
            core.deny_publish(now, key, &to);
            return_to.place = place.unwrap_or(Place::Nowhere);
            NOT_ALLOWED
        } else if let Some(place) = place {
            return_to.place = place;
            if procedure.starts_with(ROOM_COMMANDS) {
                return Some(Called::Room(return_to));
            }
            let expires_at = publish.properties.message_expiry();
            let call = Call {
                procedure: procedure.into(),
                payload: publish.payload.into(),
                arguments: arguments(publish),
                identity,
                client_id,
                expires_at: expires_at.map_or(Tick::NEVER, |secs| now.after_secs(secs)),
                return_to: return_to.clone(),
            };
            let callees = self.callees.as_ref();
            match callees.map(|callees| callees.call(call)) {
                Some(Ok(())) => return Some(Called::Taken),
                Some(Err(_)) => OVERLOADED,
                None => NOT_FOUND,
            }
        } else {
            NO_PLACE
        };
        Some(refused.called(is_v5, return_to))
    }
}

impl Refused {
    /// What becomes of a call that is refused.
    fn called(&self, is_v5: bool, to: ReturnAddress) -> Called {
        let json = call_refused(self.status, self.text);
        let outcome = Outcome::new(self.reason, self.text);
        // 3.x would be disconnected for what it cannot be told.
        let outcome = if is_v5 { outcome } else { Outcome::SUCCESS };
        Called::Answered(outcome, Answer { to, json })
    }
}

/// A call to a room that no adaptor has answered. `None` if there is no such session.
pub(crate) fn refuse_room_call(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    (room, reply): (&str, Option<&str>),
) -> Option<Called> {
    core.settle(now);
    let session = core.session(key)?;
    let (is_v5, to) = (session.speaks_v5(), topic::say(room));
    let may = session.state.identity().rights.may_publish(&to);
    let Some(return_to) = return_address(core, key, publish, reply)? else {
        return Some(NO_PLACE.called(is_v5, nowhere(core, key, publish)?));
    };
    if !may {
        core.deny_publish(now, key, &to);
        return Some(NOT_ALLOWED.called(is_v5, return_to));
    }
    Some(NOT_TAKEN.called(is_v5, return_to))
}

/// A call that an adaptor has answered. `None` if there is no such session.
pub(crate) fn answer_call(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    (reply, json): (Option<&str>, Vec<u8>),
) -> Option<Called> {
    core.settle(now);
    let is_v5 = core.session(key)?.speaks_v5();
    Some(match return_address(core, key, publish, reply)? {
        Some(to) => Called::Answered(Outcome::SUCCESS, Answer { to, json }),
        // The caller has lost the right in the meantime.
        None => NO_PLACE.called(is_v5, nowhere(core, key, publish)?),
    })
}

/// Whether the answer to a call may go where its caller has it go.
pub(crate) fn may_be_answered(
    core: &Core,
    key: SessionKey,
    publish: &Publish<'_>,
    reply: Option<&str>,
) -> bool {
    matches!(return_address(core, key, publish, reply), Some(Some(_)))
}

/// Where the answer to a call of a session goes; the inner one is `None` if it may not go there.
fn return_address(
    core: &Core,
    key: SessionKey,
    publish: &Publish<'_>,
    reply: Option<&str>,
) -> Option<Option<ReturnAddress>> {
    let session = core.session(key)?;
    let who = (session.state.identity(), session.state.client_id());
    let place = place(core, who, publish, reply);
    let to = nowhere(core, key, publish)?;
    Some(place.map(|place| ReturnAddress { place, ..to }))
}

/// The address of an answer that nobody gets.
fn nowhere(core: &Core, key: SessionKey, publish: &Publish<'_>) -> Option<ReturnAddress> {
    Some(ReturnAddress {
        shard: core.shard(),
        session: key,
        zone: core.session(key)?.state.zone(),
        place: Place::Nowhere,
        correlation: publish.properties.correlation_data().map(Into::into),
    })
}

/// Where the answer is to go; `None` if it may not go there.
fn place(
    core: &Core,
    (identity, client_id): (&Arc<Identity>, &str),
    publish: &Publish<'_>,
    reply: Option<&str>,
) -> Option<Place> {
    if let Some(id) = reply {
        return Some(Place::Own(topic::reply(id).into()));
    }
    let Some(topic) = publish.properties.response_topic() else {
        return Some(Place::Nowhere);
    };
    if !core.settings().takes_topic(topic) || stentor_topic::validate_name(topic).is_err() {
        return None;
    }
    if topic.starts_with(topic::REPLIES) {
        return Some(Place::Own(topic.into()));
    }
    let may = !topic.starts_with('$') && identity.rights.may_publish(topic);
    let listener = || Listener {
        topic: topic.into(),
        identity: Arc::clone(identity),
        client_id: client_id.into(),
    };
    may.then(|| Place::Public(Box::new(listener())))
}

/// The user properties of a publish.
pub(crate) fn arguments(publish: &Publish<'_>) -> Vec<(Box<str>, Box<str>)> {
    let pairs = publish.properties.user_properties();
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}
