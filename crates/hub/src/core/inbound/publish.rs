//! A PUBLISH from a client.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{Publish, ReasonCode, forwardable};
use stentor_session::{
    Arrival, CloseReason, Limit, Message, MessageParts, Outcome, Receipt, Tick, TopicName,
};
use stentor_topic::Zone;
use stentor_zone::{Address, NotAddress};

use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::{Taken, receipt};
use crate::core::memory::Pressure;
use crate::core::routing::keep::{self, Hearer, refusal};
use crate::core::sessions::limits;
use crate::core::sessions::registry::{Link, Live, Session};
use crate::core::sessions::rights::Identity;
use crate::core::{Core, Counters};
use crate::effects::Event;

/// What the server says to a publish whose sender has not the right to it.
pub(crate) const NO_RIGHT: Outcome = Outcome::new(
    ReasonCode::NotAuthorized,
    "the right to publish to this topic is missing",
);

/// Whether somebody may have a will on a topic, be it an ordinary one or one of a zone's.
pub(crate) fn may_publish(identity: &Identity, topic: &str) -> bool {
    if !topic.starts_with('$') {
        return identity.rights.may_publish(topic);
    }
    match Address::parse(topic) {
        Ok(address @ Address::Private { .. }) => {
            identity.user.is_some() && identity.rights.may_publish(&address.right(topic))
        }
        Err(NotAddress::Elsewhere) => identity.rights.may_publish(topic),
        // Nobody is left to hear what came of a call, who is gone is in no room, and its calls have
        // been answered for it.
        Ok(
            Address::Say { .. }
            | Address::RoomCall { .. }
            | Address::Call { .. }
            | Address::Answer { .. },
        ) => false,
        Err(_) => false,
    }
}

/// The server's owner, if a message of theirs replaces a retained one.
fn operator_of(publish: &Publish<'_>, session: &Session) -> Option<Arc<Identity>> {
    let identity = session.state.identity();
    (publish.retain && identity.rights.is_operator()).then(|| Arc::clone(identity))
}

/// Calls `f` with the topic of a publish: the one it carries, or the one of its alias.
pub(crate) fn with_topic<C: AsMut<Core>, R>(
    context: &mut C,
    key: SessionKey,
    publish: &Publish<'_>,
    f: impl FnOnce(&mut C, TopicName<'_>) -> R,
) -> Result<R, CloseReason> {
    let Some(alias) = publish.properties.topic_alias() else {
        return Ok(f(context, TopicName::Written(publish.topic)));
    };
    let core = context.as_mut();
    if !publish.topic.is_empty() && !core.rules.settings.takes_topic(publish.topic) {
        // It is refused, and so is its alias.
        return Ok(f(context, TopicName::Written(publish.topic)));
    }
    let bytes_max = alias_bytes_max(core.memory.ledger.pressure());
    let live = live_of(core, key);
    // The table leaves the session while the topic is borrowed from it.
    let (mut aliases, maximum) = live.map(Live::take_aliases).unwrap_or_default();
    let result = aliases
        .resolve(alias, publish.topic, maximum, bytes_max)
        .map(|topic| f(context, topic));
    if let Some(live) = live_of(context.as_mut(), key) {
        live.extras().received_aliases = Some(aliases);
    }
    result
}

/// Bytes that the aliases of one client may come to when another one is set. They cannot be taken
/// back, so where memory is short, only what few topics need is added; and nothing when all of it
/// is used.
const fn alias_bytes_max(pressure: Pressure) -> usize {
    match pressure {
        Pressure::None => usize::MAX,
        Pressure::Pressed => 4 * 1024,
        Pressure::Full => 0,
    }
}

fn live_of(core: &mut Core, key: SessionKey) -> Option<&mut Live> {
    core.sessions.get_mut(key)?.live_mut()
}

/// So that [`with_topic`] hands it on.
impl AsMut<Self> for Core {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

/// Counts a message that was published, by a client or by somebody without a connection.
#[inline]
pub(crate) fn count_received(counters: &mut Counters, zone: Option<Zone>, bytes: u64) {
    counters.stats.publishes_received += 1;
    counters.stats.publish_bytes_received += bytes;
    if let Some(zone) = zone {
        let own = counters.traffic.of(zone);
        own.received += 1;
        own.received_bytes += bytes;
    }
}

/// Counts a publish, and tells whether it is new. One that is not is acknowledged once more, by
/// what is returned.
pub(crate) fn begin(
    core: &mut Core,
    key: SessionKey,
    publish: &Publish<'_>,
) -> Result<Option<Taken>, CloseReason> {
    let bytes = publish.payload.len() as u64;
    let counters = &mut core.counters;
    let mut session = core.sessions.unmarked_mut(key);
    if let Some(live) = session.as_mut().and_then(|session| session.live_mut()) {
        live.messages.received += 1;
    }
    let zone = session.as_ref().map(|session| session.state.zone());
    count_received(counters, zone, bytes);
    let Some(receipt) = receipt(publish) else {
        return Ok(None);
    };
    // What it has to acknowledge may be remembered.
    let arrival = core.sessions.get_mut(key).and_then(|session| {
        let receive_maximum = session.live()?.announced.receive_maximum;
        let (arrivals, attempt) = (&mut session.state.arrivals, publish.dup.into());
        Some(arrivals.arrived(receipt, attempt, receive_maximum))
    });
    match arrival.unwrap_or(Arrival::TooMany) {
        Arrival::New => Ok(None),
        Arrival::TooMany => Err(CloseReason::Limit(Limit::ReceiveMaximum)),
        Arrival::RepeatedWaiting(ticket) => Ok(Some(Taken::Waits(ticket))),
        Arrival::Repeated => Ok(Some(Taken::SUCCESS)),
    }
}

/// A QoS 2 publish that closes the connection was not taken: it is new when it comes again.
pub(crate) fn forget_arrival(core: &mut Core, key: SessionKey, publish: &Publish<'_>) {
    if let Some(Receipt::PubRec(packet_id)) = receipt(publish)
        && let Some(session) = core.sessions.get_mut(key)
    {
        session.state.refuse(packet_id, &mut core.pending.log);
    }
}

/// Checks a publish to an ordinary topic, keeps it if it is retained, and routes it.
pub(crate) fn accept(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    publish: &Publish<'_>,
    name: TopicName<'_>,
) -> Taken {
    let topic: &str = &name;
    if let Some(outcome) = limits::refuse_topic(core, now, key, topic) {
        return Taken::Done(outcome);
    }
    let Some(session) = core.sessions.get(key) else {
        return Taken::done(ReasonCode::UnspecifiedError);
    };
    if !session.state.identity().rights.may_publish(topic) {
        deny(core, now, key, topic);
        return Taken::Done(NO_RIGHT);
    }
    let mut properties = Vec::new();
    if !publish.properties.is_empty() {
        forwardable(publish.properties, &mut properties);
    }
    let parts = MessageParts {
        topic,
        properties: &properties,
        payload: publish.payload,
        qos: publish.qos,
        retain: publish.retain,
        expiry_secs: publish.properties.message_expiry(),
    };
    let zone = session.state.zone();
    let (shared, publisher) = (name.to_shared(), session.state.publisher());
    let message = Arc::new(Message::to_topic(shared, zone, publisher, now, &parts));
    let hearer = match publish.packet_id {
        Some(_) => Hearer::Publisher,
        None => Hearer::Nobody,
    };
    let operator = operator_of(publish, session);
    let taken = keep::keep_and_route(core, now, message, hearer);
    note_retained(core, operator, topic, &taken);
    let Some(why) = refusal(&taken) else {
        return taken;
    };
    let session = core.sessions.get(key);
    let client_id: Box<str> = session
        .map_or("", |session| session.state.client_id())
        .into();
    if hearer == Hearer::Publisher {
        keep::tell_not_taken(core, client_id, zone, topic, why);
        return taken;
    }
    keep::count_unkept(core, &client_id, zone, topic, why);
    Taken::SUCCESS
}

/// Notes that the server's owner, if it is one, has replaced a retained message. Where the
/// store still has to promise that it keeps it, that counts as done: a later refusal is logged
/// as for any other message.
fn note_retained(core: &mut Core, operator: Option<Arc<Identity>>, topic: &str, taken: &Taken) {
    let Some(identity) = operator else {
        return;
    };
    let refused = match taken {
        Taken::Done(outcome) if outcome.reason.is_error() => Some(outcome.reason.name().into()),
        Taken::Done(_) | Taken::Waits(_) => None,
    };
    core.effects.events.push(Event::Administered {
        identity,
        what: "publish.retained",
        target: topic.into(),
        user: None,
        refused,
    });
}

pub(crate) fn deny(core: &mut Core, now: Tick, key: SessionKey, topic: &str) {
    core.counters.stats.denied += 1;
    core.counters.stats.publishes_denied += 1;
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let zone = session.state.zone();
    let Link::Live(live) = &mut session.link else {
        return;
    };
    live.tally().refused.add(now, 1);
    if live
        .extras()
        .remember_refusal(core.place.hasher.hash(zone, topic))
    {
        let client_id = session.state.client_id().into();
        let identity = Arc::clone(session.state.identity());
        core.effects.events.push(Event::PublishDenied {
            client_id,
            identity,
            topic: topic.into(),
        });
    }
}
