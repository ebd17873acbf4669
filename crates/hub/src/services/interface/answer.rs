//! Answers, and where they go: to a call, to a command about rooms, to a private message.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Property, PropertyBuf, Publish, QoS, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick, Ticket};
use stentor_topic::Zone;
use stentor_zone::topic;

use crate::core::Core;
use crate::core::delivery::direct;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::routing::{batch, keep};
use crate::core::sessions::rights::Identity;
use crate::core::settings::Settings;

/// Where the answer to a call goes.
#[derive(Clone, Debug)]
pub struct ReturnAddress {
    /// The shard that has to be told.
    pub shard: ShardId,
    pub(crate) session: SessionKey,
    zone: Zone,
    pub(crate) place: Place,
    correlation: Option<Box<[u8]>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Place {
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

/// The request of a shard that waits for an answer of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardTicket {
    pub(crate) shard: ShardId,
    pub(crate) ticket: Ticket,
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
            direct::deliver(core, now, self.to.session, &message);
        }
    }

    /// Publishes it where others may hear it too, if that is where it goes.
    pub(crate) fn publish(&self, core: &mut Core, now: Tick) {
        if let Place::Public(listener) = &self.to.place {
            if !listener.may_answer(core) {
                core.count_denied();
                return;
            }
            batch::settle(core, now);
            keep::keep_and_route_now(core, now, self.message(now, &listener.topic));
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
        shard: ShardId,
        session: SessionKey,
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
pub(crate) fn return_address(
    core: &Core,
    key: SessionKey,
    publish: &Publish<'_>,
    reply: Option<&str>,
) -> Option<Option<ReturnAddress>> {
    let session = core.session(key)?;
    let (identity, client_id) = (session.state.identity(), session.state.client_id());
    let place = place(core, identity, client_id, publish, reply);
    let to = nowhere(core, key, publish)?;
    Some(place.map(|place| ReturnAddress { place, ..to }))
}

/// The address of an answer that nobody gets.
pub(crate) fn nowhere(
    core: &Core,
    key: SessionKey,
    publish: &Publish<'_>,
) -> Option<ReturnAddress> {
    Some(ReturnAddress {
        shard: core.shard(),
        session: key,
        zone: core.session(key)?.state.zone(),
        place: Place::Nowhere,
        correlation: publish.properties.correlation_data().map(Into::into),
    })
}

/// Where the answer is to go; `None` if it may not go there.
pub(crate) fn place(
    core: &Core,
    identity: &Arc<Identity>,
    client_id: &str,
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
