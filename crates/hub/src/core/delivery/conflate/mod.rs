//! Clients that get the newest message of each topic instead of all: because they do not read
//! fast enough and the topic's policy is `conflate`, or because of a maximum rate.

mod rates;
pub(crate) mod release;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cmp::Reverse;
use core::time::Duration;

use stentor_mqtt::QoS;
use stentor_session::{Conflation, Delivery, Message, Offered, QosClass, Tick};
use stentor_topic::{FilterId, TopicHasher};

use self::rates::Rates;
pub(crate) use self::rates::{NO_RATE, TOO_MANY_RATES, max_rate};

use crate::core::delivery::deliver::{DeliveryContext, DeliveryOptions, DeliveryResult};
use crate::core::delivery::outbox::Outbox;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::routing::route::EncodedVariants;
use crate::core::sessions::charge::Charge;
use crate::core::sessions::registry::{Backlog, Flushing, Link, Session};
use crate::core::settings::Settings;
use crate::core::stats::LossCause;

/// Below this many bytes that wait for its socket, a client keeps up. What is held back goes when
/// fewer wait, so that it is still the newest when it goes. At most [`QUEUED_SHARE`] of what may
/// wait for the client.
const QUEUED_BYTES_LOW: usize = 64 * 1024;

/// The same for a client that did not keep up before: what waits for its socket cannot be replaced
/// by something newer.
const LEAST_BYTES_LOW: usize = 4 * 1024;

/// The part of a client's queue that waits for its socket before its messages are conflated: the
/// rest is for the newest of each topic.
const QUEUED_SHARE: usize = 4;

/// The part of a client's queue that may be taken by the names of topics of which it has had a
/// message so recently that the next one has to wait. More are not remembered: their messages go
/// at once.
const TOPICS_SHARE: usize = 2;

/// A message to a session that is paced takes as long as this many others: its topic is looked up
/// among those of the session, and remembered.
const HELD_HANDED: usize = 48;

/// What one session holds back, and how often it wants to be sent what.
#[derive(Debug)]
pub(crate) struct Conflating {
    queue: Conflation,
    rates: Rates,
    /// When the hub looks next; `NEVER` if it does not.
    armed: Tick,
}

impl Conflating {
    fn new(hasher: &TopicHasher) -> Self {
        Self {
            queue: Conflation::new(hasher.clone()),
            rates: Rates::default(),
            armed: Tick::NEVER,
        }
    }

    /// In how many parts [`Conflating::waiting_in`] has what is held back.
    pub(crate) fn parts(&self) -> usize {
        self.queue.parts()
    }

    /// What is held back, of one part.
    pub(crate) fn waiting_in(&self, part: usize) -> impl Iterator<Item = &Delivery> {
        self.queue.waiting_in(part)
    }

    /// What is held back.
    pub(crate) const fn charge(&self) -> Charge {
        Charge {
            bytes: self.queue.bytes(),
            messages: self.queue.len(),
        }
    }

    /// How many pieces it holds that are dropped one by one.
    pub(crate) fn pieces(&self) -> usize {
        self.queue.pieces()
    }

    /// Drops a little of it: its session has ended. Returns whether there was something.
    pub(crate) fn shed(&mut self) -> bool {
        self.queue.shed()
    }

    /// The connection is gone. Nothing is left if there is nothing to remember.
    pub(crate) fn disconnected(mut self: Box<Self>) -> Option<Box<Self>> {
        self.queue.disconnected();
        (!self.is_unused()).then_some(self)
    }

    fn is_unused(&self) -> bool {
        self.queue.is_unused() && self.rates.is_empty()
    }

    /// Has the hub look at this session when something may go.
    fn arm(&mut self, outbox: &mut Outbox, key: SessionKey) {
        if let Some(at) = self.queue.next_deadline() {
            self.arm_at(outbox, key, at);
        }
    }

    /// Has the hub look at this session at this time, or before.
    fn arm_at(&mut self, outbox: &mut Outbox, key: SessionKey, at: Tick) {
        if at < self.armed {
            self.armed = at;
            outbox.paces.push(Reverse((at, key)));
        }
    }
}

/// Decides whether a session gets a message now. `None`: it does, like everybody.
pub(crate) fn hold_back(
    context: &mut DeliveryContext<'_>,
    variants: &EncodedVariants<'_>,
    key: SessionKey,
    session: &mut Session,
    terms: &DeliveryOptions<'_>,
) -> Option<DeliveryResult> {
    let shape = variants.treatment.shape.unwrap_or_default();
    let message = variants.message;
    let topic = message.topic();
    let is_away = session.live().is_none();
    if terms.share != 0 || (is_away && terms.qos == QoS::AtMostOnce) {
        return None;
    }
    let interval = shape
        .interval
        .max(asked_interval(context, session, terms, message));
    if interval.is_zero() && !shape.conflates(terms.qos) {
        // It goes another way, and what waits must not follow it.
        if !terms.stored {
            let older = session.known_conflating()?.queue.withdraw(topic)?;
            context.lets_go(session, &older);
            context.count_conflated(session);
        }
        return None;
    }
    if terms.stored && ask_again(context, session, topic) {
        // The message that waits is newer than the one that was stored before the subscription: to
        // a client that keeps up both go, in this order, and to another one the newer alone.
        let keeps_up = keeps_up(session, terms.qos, context.queue_bytes_max);
        return (!keeps_up).then_some(DeliveryResult::Taken);
    }
    let known = session.conflating();
    let passes = known.is_none_or(|c| c.queue.may_pass(context.now, topic));
    if known.is_none() {
        // The session begins to remember topics, or what waits for it is looked at.
        context.turn.hand_over(HELD_HANDED);
    }
    // A message that finds no room in the queue replaces an older one instead.
    let has_room =
        session.is_served() || session.charge().bytes + message.cost() <= context.queue_bytes_max;
    let keeps_up = if terms.stored && !is_away {
        // A snapshot takes as much of the socket's room as it needs, and waits for more by itself:
        // what is held back would only fill the queue.
        terms.qos == QoS::AtMostOnce || (has_room && session.has_window(context.queue_bytes_max))
    } else {
        has_room && keeps_up(session, terms.qos, context.queue_bytes_max)
    };
    if shape.conflates(terms.qos) || !keeps_up {
        bound_backlog(context.outbox, key, session, keeps_up);
    }
    if passes && keeps_up {
        if !interval.is_zero() {
            let held = session.conflating_or_new(&context.outbox.hasher);
            let most = context.queue_bytes_max / TOPICS_SHARE;
            held.queue.passed(context.now, topic, interval, most);
            held.arm(context.outbox, key);
        }
        return None;
    }
    Some(wait(context, key, session, message, terms, interval))
}

/// The least time between two messages of a topic that the session's own subscriptions ask for.
fn asked_interval(
    context: &mut DeliveryContext<'_>,
    session: &Session,
    terms: &DeliveryOptions<'_>,
    message: &Message,
) -> Duration {
    let Some(known) = session.conflating() else {
        return Duration::ZERO;
    };
    context.turn.hand_over(HELD_HANDED);
    if terms.stored {
        context.turn.spend(known.rates.comparing());
        return known.rates.interval_of_topic(message.topic());
    }
    let is_own = session.state.publisher() == message.publisher;
    let matching = terms.matching.iter();
    let matching = matching.filter(|(_, options)| !(is_own && options.no_local()));
    known.rates.interval(matching.map(|(filter, _)| *filter))
}

/// A SUBSCRIBE asks for a stored message, which comes whatever the rate [MQTT-3.3.1-9]: the pace of
/// its topic begins again with it. Whether another message of the topic waits, whose turn stays.
fn ask_again(context: &DeliveryContext<'_>, session: &mut Session, topic: &str) -> bool {
    let Some(known) = session.known_conflating() else {
        return false;
    };
    if known.queue.holds(topic) {
        return true;
    }
    known.queue.hurry(context.now, topic);
    false
}

/// Has a message wait in the place of an older one of its topic, if there is room. A step of a
/// snapshot is bounded, and has to be complete.
fn wait(
    context: &mut DeliveryContext<'_>,
    key: SessionKey,
    session: &mut Session,
    message: &Arc<Message>,
    terms: &DeliveryOptions<'_>,
    interval: Duration,
) -> DeliveryResult {
    let delivery = &terms.delivery(message);
    let is_away = session.live().is_none();
    let charge = session.charge();
    let topic = delivery.message.topic();
    let number = session.state.number();
    let held = session.conflating_or_new(&context.outbox.hasher);
    let bytes = charge.bytes - held.queue.bytes() + held.queue.bytes_with(delivery);
    let is_full =
        charge.messages >= context.settings.queue_messages_max && !held.queue.holds(topic);
    if (bytes > context.queue_bytes_max || is_full) && !terms.stored {
        // Newer than all that this client was sent of its topic: it may not just be lost.
        return if is_away {
            DeliveryResult::Lost(LossCause::DropNewest)
        } else {
            DeliveryResult::Overrun
        };
    }
    let older = number.and_then(|_| held.queue.waiting(topic).cloned());
    let offered = held.queue.offer(context.now, delivery.clone(), interval);
    held.arm(context.outbox, key);
    if offered == Offered::Replaced {
        context.count_conflated(session);
    }
    if number.is_some() {
        context.holds(session, topic, older.as_ref());
    }
    DeliveryResult::Taken
}

impl DeliveryContext<'_> {
    /// A message of a topic is held back for a session, in the place of an older one.
    fn holds(&mut self, session: &Session, topic: &str, older: Option<&Delivery>) {
        if let Some(older) = older {
            self.lets_go(session, older);
        }
        let held = session.conflating();
        let held = held.and_then(|held| held.queue.waiting(topic));
        if let (Some(number), Some(held)) = (session.state.number(), held)
            && held.qos != QoS::AtMostOnce
        {
            self.log.holds(number, held, self.copy);
        }
    }

    /// A message is not held back any more.
    fn lets_go(&mut self, session: &Session, older: &Delivery) {
        if let Some(number) = session.state.number()
            && older.qos != QoS::AtMostOnce
        {
            self.log.lets_go(number, &older.message);
        }
    }
}

/// A session gets messages that newer ones may replace: what lies in its socket cannot be, so it
/// should be little, and even less waits here once the client has not kept up.
fn bound_backlog(outbox: &mut Outbox, key: SessionKey, session: &mut Session, keeps_up: bool) {
    let Link::Live(live) = &mut session.link else {
        return;
    };
    let backlog = &mut live.extras().backlog;
    if *backlog == Backlog::Usual {
        outbox.conflating.push(key);
        *backlog = Backlog::Bounded;
    }
    if !keeps_up {
        *backlog = Backlog::Least;
    }
}

/// Whether a session takes another message at once; `queue_bytes_max` may wait for it in all.
fn keeps_up(session: &Session, qos: QoS, queue_bytes_max: usize) -> bool {
    let Link::Live(live) = &session.link else {
        return false;
    };
    let backlog = live.extras.as_ref().map_or(Backlog::Usual, |e| e.backlog);
    let most = queue_bytes_max / QUEUED_SHARE;
    let low = match backlog {
        Backlog::Usual | Backlog::Bounded => QUEUED_BYTES_LOW.min(most),
        Backlog::Least => LEAST_BYTES_LOW.min(most / 4),
    };
    live.flushing != Flushing::Blocked
        && live.queued_bytes() < low
        && live.queued().bytes < most
        && (qos == QoS::AtMostOnce || session.has_window(queue_bytes_max))
}

/// How far a session's lists of messages that are held back have come, at QoS 0 and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    taken: [u64; 2],
    /// Where they end.
    pub(crate) listed: [u64; 2],
}

impl HeldBack {
    /// Whether what was in the lists has gone; those that are empty have passed everything.
    pub(crate) fn has_passed(&self, listed: [u64; 2]) -> bool {
        (0..2).all(|class| {
            self.taken[class] >= listed[class] || self.taken[class] == self.listed[class]
        })
    }
}

impl Session {
    pub(crate) fn conflating(&self) -> Option<&Conflating> {
        match &self.link {
            Link::Live(live) => live.extras.as_ref()?.conflating.as_deref(),
            Link::Away(away) => away.conflating.as_deref(),
        }
    }

    /// The same to change it: nothing is made for a session that holds nothing back.
    fn known_conflating(&mut self) -> Option<&mut Conflating> {
        match &mut self.link {
            Link::Live(live) => live.extras.as_mut()?.conflating.as_deref_mut(),
            Link::Away(away) => away.conflating.as_deref_mut(),
        }
    }

    pub(crate) fn conflating_mut(&mut self) -> &mut Option<Box<Conflating>> {
        match &mut self.link {
            Link::Live(live) => &mut live.extras().conflating,
            Link::Away(away) => &mut away.conflating,
        }
    }

    /// Whether a packet id is free for another message above QoS 0.
    fn has_window(&self, queue_bytes_max: usize) -> bool {
        let (Some(owed), Some(live)) = (self.state.owed.get(), self.live()) else {
            return true;
        };
        owed.may_send(live.window(queue_bytes_max))
    }

    /// Whether messages above QoS 0 are held back that may go when the client acknowledges others.
    fn has_held_windowed(&self) -> bool {
        self.conflating()
            .is_some_and(|known| known.queue.is_ready(QosClass::Windowed))
    }

    /// How far the lists of messages that are held back have come, and how far when all of them
    /// have gone that may go now.
    pub(crate) fn held(&self) -> HeldBack {
        self.conflating().map_or_else(HeldBack::default, |known| {
            let (taken, listed) = (known.queue.taken(), known.queue.listed());
            HeldBack { taken, listed }
        })
    }

    /// Whether messages above QoS 0 are held back, and no packet id is free.
    pub(crate) fn is_out_of_window(&self, settings: &Settings) -> bool {
        self.has_held_windowed() && !self.has_window(self.state.queue_bytes_max(settings))
    }

    fn conflating_or_new(&mut self, hasher: &TopicHasher) -> &mut Conflating {
        let known = self.conflating_mut();
        known.get_or_insert_with(|| Box::new(Conflating::new(hasher)))
    }

    /// Whether another subscription of it, to this filter, may have a rate.
    pub(crate) fn takes_rate(&self, filter: &str) -> bool {
        let known = self.conflating();
        let none = Rates::default();
        known.map_or(&none, |known| &known.rates).has_room(filter)
    }

    /// Whether a subscription of it has a rate.
    pub(crate) fn has_rate(&self, subscription: SubscriptionRef) -> bool {
        let SubscriptionRef::Filter(id) = subscription else {
            return false;
        };
        self.conflating().is_some_and(|known| known.rates.has(id))
    }

    /// The least time between two messages of a topic that a subscription asks for.
    pub(crate) fn rate_of(&self, subscription: SubscriptionRef) -> Option<Duration> {
        let SubscriptionRef::Filter(id) = subscription else {
            return None;
        };
        self.conflating()?.rates.of(id)
    }

    /// Whether a message of this topic is held back, which a newer one would replace.
    pub(crate) fn holds_back(&self, topic: &str) -> bool {
        self.conflating()
            .is_some_and(|known| known.queue.holds(topic))
    }

    /// Sets the rate of a subscription, or takes it back.
    pub(crate) fn set_rate(
        &mut self,
        hasher: &TopicHasher,
        id: FilterId,
        filter: &str,
        interval: Option<Duration>,
    ) {
        if interval.is_none() {
            return self.forget_rate(id);
        }
        let known = self.conflating_or_new(hasher);
        known.rates.set(id, filter, interval);
    }

    /// A subscription has no rate any more.
    pub(crate) fn forget_rate(&mut self, id: FilterId) {
        if let Some(known) = self.known_conflating() {
            known.rates.set(id, "", None);
        }
    }

    /// What is held back for it.
    pub(crate) fn held_charge(&self) -> Charge {
        let known = self.conflating();
        known.map_or_else(Charge::default, Conflating::charge)
    }
}

/// What is held back for a session above QoS 0.
pub(crate) fn held_windowed(session: &Session) -> impl Iterator<Item = &Delivery> {
    let all = session.conflating().into_iter();
    let all = all.flat_map(|held| held.queue.all_waiting());
    all.filter(|delivery| delivery.qos != QoS::AtMostOnce)
}

/// Holds back for a session what was held back for it when the server ended.
pub(crate) fn hold_again(
    session: &mut Session,
    hasher: &TopicHasher,
    now: Tick,
    delivery: Delivery,
) {
    let held = session.conflating_or_new(hasher);
    held.queue.offer(now, delivery, Duration::ZERO);
}
