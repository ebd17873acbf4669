//! Clients that get the newest message of each topic instead of all: because they do not read
//! fast enough and the topic's policy is `conflate`, or because of a maximum rate.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use smallvec::SmallVec;
use stentor_mqtt::{Properties, QoS};
use stentor_session::{Conflation, Delivery, Lane, Offered, Tick};
use stentor_topic::{FilterId, levels, matches_levels, split_levels};

use crate::charge::Charge;
use crate::deliver::{Course, Terms, Till, Verdict};
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::outbox::Outbox;
use crate::route::Parcel;
use crate::sessions::{Backlog, Flushing, Link, Session};
use crate::settings::Settings;
use crate::stats::LossCause;
use crate::subscribe::SubscriptionRef;

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

/// Rates that one session may ask for, and bytes of their filters: each costs a comparison for
/// every message that the session gets.
const RATES_MAX: usize = 64;
const RATE_BYTES_MAX: usize = 2_048;

/// What is said to a client that asks for one more.
pub(crate) const TOO_MANY_RATES: &str = "64 subscriptions of the session have a max-rate already, \
     or their filters would have more than 2,048 bytes";

/// What is said of a `max-rate` that is none.
pub(crate) const NO_RATE: &str =
    "max-rate is messages a second: digits, perhaps with a point, from 0.001 to 1000000";

/// The part of a client's queue that may be taken by the names of topics of which it has had a
/// message so recently that the next one has to wait. More are not remembered: their messages go
/// at once.
const TOPICS_SHARE: usize = 2;

/// What it costs to look at a session or at a topic, or to send a message that was held back, in
/// visits: names are compared that lie all over the memory.
const RELEASE_VISITS: u32 = 48;

/// Topics whose time is over that are looked at before one message is sent.
const WOKEN_AT_ONCE: usize = 4;

/// What a session is sent of that in a turn that is spent: many may be there in one turn.
const RELEASE_VISITS_MIN: u32 = 96;

/// A message to a session that is paced takes as long as so many others: its topic is looked up in
/// a tree of names.
const HELD_HANDED: usize = 32;

/// What one session holds back, and how often it wants to be sent what.
#[derive(Debug)]
pub(crate) struct Conflating {
    queue: Conflation,
    rates: Vec<Rate>,
    /// When the hub looks next; `NEVER` if it does not.
    armed: Tick,
}

#[derive(Debug)]
struct Rate {
    id: FilterId,
    filter: Box<str>,
    levels: usize,
    interval: Duration,
}

impl Default for Conflating {
    fn default() -> Self {
        Self {
            queue: Conflation::default(),
            rates: Vec::new(),
            armed: Tick::NEVER,
        }
    }
}

impl Conflating {
    /// What is held back.
    pub(crate) const fn charge(&self) -> Charge {
        Charge {
            bytes: self.queue.bytes(),
            messages: self.queue.len(),
        }
    }

    /// The least time between two messages of a topic that the session's subscriptions ask for,
    /// if this many of them match it: one without a rate asks for all.
    fn interval(&self, topic: &str, matched: u32) -> Duration {
        if self.rates.is_empty() {
            return Duration::ZERO;
        }
        let rates = self.rates.iter();
        let most = rates.clone().map(|rate| rate.levels).max().unwrap_or(0);
        let levels: SmallVec<[&[u8]; 16]> = split_levels(topic).take(most + 1).collect();
        let rates = rates.filter(|rate| matches_levels(&rate.filter, &levels));
        let (mut count, mut least) = (0, Duration::MAX);
        for rate in rates {
            count += 1;
            least = least.min(rate.interval);
        }
        if count == 0 || count < matched {
            Duration::ZERO
        } else {
            least
        }
    }

    /// Sets the rate of a subscription, or takes it back.
    fn set_rate(&mut self, id: FilterId, filter: &str, interval: Option<Duration>) {
        self.rates.retain(|rate| rate.id != id);
        if let Some(interval) = interval {
            self.rates.push(Rate {
                id,
                filter: filter.into(),
                levels: levels(filter),
                interval,
            });
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

/// A `max-rate` that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRate;

/// The most often that a subscription wants messages of one topic, from the user property
/// `max-rate` of its SUBSCRIBE: messages per second, perhaps with a fraction.
///
/// # Errors
/// When it is there and no plain decimal from 0.001 to 1,000,000.
pub(crate) fn max_rate(properties: Properties<'_>) -> Result<Option<Duration>, NoRate> {
    let mut pairs = properties.user_properties();
    let Some((_, text)) = pairs.find(|(name, _)| *name == "max-rate") else {
        return Ok(None);
    };
    match text.parse::<f64>() {
        Ok(rate) if is_plain(text) && (0.001..=1_000_000.0).contains(&rate) => {
            // At most 10^9, and at least 1.
            let micros = 1_000_000.0 / rate;
            Ok(Some(Duration::from_micros(micros as u64)))
        }
        _ => Err(NoRate),
    }
}

/// Whether a number is written with digits, and perhaps digits behind a point: no other way of
/// writing it is the same everywhere.
fn is_plain(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(fraction)
}

/// Decides whether a session gets a message now. `None`: it does, like everybody.
pub(crate) fn hold_back(
    till: &mut Till<'_>,
    parcel: &Parcel<'_>,
    key: SessionKey,
    session: &mut Session,
    terms: &Terms,
) -> Option<Verdict> {
    let shape = parcel.shape.unwrap_or_default();
    let message = parcel.message;
    let topic = message.topic();
    let known = session.conflating();
    let asked = known.map_or(Duration::ZERO, |c| c.interval(topic, terms.matched));
    let interval = shape.interval.max(asked);
    if known.is_some() {
        till.turn.hand_over(HELD_HANDED);
    }
    let is_away = session.live().is_none();
    if terms.share != 0 || (is_away && terms.qos == QoS::AtMostOnce) {
        return None;
    }
    if interval.is_zero() && !shape.conflates(terms.qos) {
        // It goes another way, and what waits must not follow it.
        session.conflating()?;
        if let (false, Some(known)) = (terms.stored, session.conflating_mut()) {
            known.queue.withdraw(topic)?;
            till.count_conflated(session);
        }
        return None;
    }
    if terms.stored && ask_again(till, session, topic) {
        // What waits is newer than what was stored before the subscription: to a client that keeps
        // up both go, in this order, and to another one the newer alone.
        let keeps_up = keeps_up(session, terms.qos, till.queue_bytes_max);
        return (!keeps_up).then_some(Verdict::Taken);
    }
    let known = session.conflating();
    let passes = known.is_none_or(|c| c.queue.may_pass(till.now, topic));
    // A message that finds no room in the queue replaces an older one instead.
    let has_room =
        session.is_served() || session.charge().bytes + message.cost() <= till.queue_bytes_max;
    let keeps_up = if terms.stored && !is_away {
        // A snapshot takes as much of the socket's room as it needs, and waits for more by itself:
        // what is held back would only fill the queue.
        terms.qos == QoS::AtMostOnce || (has_room && session.has_window(till.queue_bytes_max))
    } else {
        has_room && keeps_up(session, terms.qos, till.queue_bytes_max)
    };
    if shape.conflates(terms.qos) || !keeps_up {
        bound_backlog(till.outbox, key, session, keeps_up);
    }
    if passes && keeps_up {
        if !interval.is_zero() {
            let held = session.conflating_mut().get_or_insert_default();
            let most = till.queue_bytes_max / TOPICS_SHARE;
            held.queue.passed(till.now, topic, interval, most);
            held.arm(till.outbox, key);
        }
        return None;
    }
    Some(wait(
        till,
        key,
        session,
        &terms.delivery(message),
        (interval, terms.stored),
    ))
}

/// A SUBSCRIBE asks for a stored message, which comes whatever the rate [MQTT-3.3.1-9]: the pace of
/// its topic begins again with it. Whether another message of the topic waits, whose turn stays.
fn ask_again(till: &Till<'_>, session: &mut Session, topic: &str) -> bool {
    if session.conflating().is_none() {
        return false;
    }
    let Some(known) = session.conflating_mut() else {
        return false;
    };
    if known.queue.holds(topic) {
        return true;
    }
    known.queue.hurry(till.now, topic);
    false
}

/// Has a message wait in the place of an older one of its topic, if there is room. A step of a
/// snapshot (`is_stored`) is bounded, and has to be complete.
fn wait(
    till: &mut Till<'_>,
    key: SessionKey,
    session: &mut Session,
    delivery: &Delivery,
    (interval, is_stored): (Duration, bool),
) -> Verdict {
    let is_away = session.live().is_none();
    let charge = session.charge();
    let topic = delivery.message.topic();
    let held = session.conflating_mut().get_or_insert_default();
    let bytes = charge.bytes - held.queue.bytes() + held.queue.bytes_with(delivery);
    let is_full = charge.messages >= till.settings.queue_messages_max && !held.queue.holds(topic);
    if (bytes > till.queue_bytes_max || is_full) && !is_stored {
        // Newer than all that this client was sent of its topic: it may not just be lost.
        return if is_away {
            Verdict::Lost(LossCause::DropNewest)
        } else {
            Verdict::Overrun
        };
    }
    let offered = held.queue.offer(till.now, delivery.clone(), interval);
    held.arm(till.outbox, key);
    if offered == Offered::Replaced {
        till.count_conflated(session);
    }
    Verdict::Taken
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
        (0..2).all(|lane| self.taken[lane] >= listed[lane] || self.taken[lane] == self.listed[lane])
    }
}

impl Session {
    fn conflating(&self) -> Option<&Conflating> {
        match &self.link {
            Link::Live(live) => live.extras.as_ref()?.conflating.as_deref(),
            Link::Away(away) => away.conflating.as_deref(),
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
        let (Some(outbound), Some(live)) = (&self.outbound, self.live()) else {
            return true;
        };
        outbound.may_send(live.window(queue_bytes_max))
    }

    /// Whether messages above QoS 0 are held back that may go when the client acknowledges others.
    fn has_held_windowed(&self) -> bool {
        self.conflating()
            .is_some_and(|known| known.queue.is_ready(Lane::Windowed))
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
        self.has_held_windowed() && !self.has_window(self.queue_bytes_max(settings))
    }

    /// Whether another subscription of it, to this filter, may have a rate.
    pub(crate) fn takes_rate(&self, filter: &str) -> bool {
        let rates = self.conflating().map_or(&[][..], |known| &known.rates);
        let bytes: usize = rates.iter().map(|rate| rate.filter.len()).sum();
        rates.len() < RATES_MAX && bytes + filter.len() <= RATE_BYTES_MAX
    }

    /// Whether a subscription of it has a rate.
    pub(crate) fn has_rate(&self, subscription: SubscriptionRef) -> bool {
        let is_it = |rate: &Rate| SubscriptionRef::Filter(rate.id) == subscription;
        let known = self.conflating();
        known.is_some_and(|c| c.rates.iter().any(is_it))
    }

    /// Sets the rate of a subscription, or takes it back.
    pub(crate) fn set_rate(&mut self, id: FilterId, filter: &str, interval: Option<Duration>) {
        if self.conflating().is_some() || interval.is_some() {
            let held = self.conflating_mut().get_or_insert_default();
            held.set_rate(id, filter, interval);
        }
    }

    /// Messages that are held back for it.
    pub(crate) fn held_back(&self) -> usize {
        self.held_charge().messages
    }

    /// What is held back for it.
    pub(crate) fn held_charge(&self) -> Charge {
        let known = self.conflating();
        known.map_or_else(Charge::default, Conflating::charge)
    }
}

impl Hub {
    /// Sends what was held back for a session, as far as it keeps up now, and the rates and the
    /// turn allow. The rest goes on in a later turn.
    pub(crate) fn release(&mut self, now: Tick, key: SessionKey) {
        let mut lanes = [Lane::Windowed, Lane::Free].into_iter().cycle();
        let before = self.turn.spent();
        loop {
            let is_enough =
                self.turn.left() == 0 && self.turn.spent() - before >= RELEASE_VISITS_MIN;
            let Some(session) = self.sessions.get_mut(key) else {
                return;
            };
            if session.conflating().is_none() {
                return;
            }
            let queue_bytes_max = session.queue_bytes_max(&self.settings);
            let keeps = [QoS::AtMostOnce, QoS::AtLeastOnce];
            let keeps = keeps.map(|qos| keeps_up(session, qos, queue_bytes_max));
            let Some(held) = session.conflating_mut() else {
                return;
            };
            if is_enough {
                return held.arm_at(&mut self.outbox, key, now);
            }
            let woken = held.queue.wake(now, WOKEN_AT_ONCE);
            self.turn.spend_each(woken, RELEASE_VISITS);
            // The lists take turns, so that neither starves.
            let may = |lane: Lane| keeps[lane as usize] && held.queue.is_ready(lane);
            let turns = [lanes.next(), lanes.next()].into_iter().flatten();
            let next = turns.into_iter().find(|lane| may(*lane));
            lanes.next();
            let Some(lane) = next else {
                if held.queue.next_deadline().is_some_and(|at| at <= now) {
                    continue;
                }
                held.arm(&mut self.outbox, key);
                if held.is_unused() {
                    *session.conflating_mut() = None;
                }
                return;
            };
            let taken = held.queue.taken()[lane as usize];
            let next = held.queue.pop(now, lane, queue_bytes_max / TOPICS_SHARE);
            let looked = held.queue.taken()[lane as usize] - taken;
            self.turn.spend_each(looked as usize, RELEASE_VISITS);
            if let Some(delivery) = next {
                self.send_held(now, key, &delivery);
            }
        }
    }

    fn send_held(&mut self, now: Tick, key: SessionKey, delivery: &Delivery) {
        let message = &delivery.message;
        if message.is_expired(now) {
            self.stats.publishes_dropped += 1;
            self.losses.record_many(LossCause::Expired, 1);
            if let Some(session) = self.sessions.get_mut(key) {
                session.tally().lose(now, LossCause::Expired, 1);
            }
            return;
        }
        let terms = Terms {
            qos: delivery.qos,
            retain: delivery.retain,
            ids: SmallVec::from_slice(delivery.subscription_ids.as_slice()),
            share: 0,
            matched: 0,
            stored: false,
            conflated: delivery.conflated,
        };
        let mut parcel = self.parcel(message);
        self.counter(now)
            .give(&mut parcel, key.slot, &terms, Course::Released);
    }

    /// Goes on with the sessions whose pace lets something go, as far as the turn allows.
    pub(crate) fn release_due(&mut self, now: Tick) {
        let (before, visits) = (self.turn.spent(), self.turn.slice());
        while self.turn.spent() - before < visits
            && let Some(Reverse((at, key))) = self.outbox.paces.peek().copied()
            && at <= now
        {
            self.outbox.paces.pop();
            self.turn.spend(RELEASE_VISITS);
            if let Some(session) = self.sessions.get_mut(key)
                && let Some(held) = session.conflating_mut()
            {
                if held.armed == at {
                    held.armed = Tick::NEVER;
                }
                self.release(now, key);
                // The end of a snapshot may have waited for it.
                self.continue_snapshots(now, key);
            }
        }
    }
}
