//! Handing one message to one session: straight to the socket's queue, into the in-flight
//! window, into the waiting queue, or nowhere, as QoS, limits and policies say.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use smallvec::SmallVec;
use stentor_mqtt::{PacketId, QoS};
use stentor_session::{Attempt, Delivery, Message, Outgoing, SubscriptionIds, Tick, Wire};
use stentor_topic::FilterId;
use stentor_zone::Reach;

use crate::core::delivery::conflate::hold_back;
use crate::core::delivery::outbox::Outbox;
use crate::core::delivery::spool::bytes_max_of;
use crate::core::ids::SessionKey;
use crate::core::routing::keep::numbers;
use crate::core::routing::options::Options;
use crate::core::routing::route::{EncodedVariants, Fanout, encode_wire};
use crate::core::routing::share::ShareName;
use crate::core::sessions::charge::Charge;
use crate::core::sessions::log::{JournalCopy, Number, SessionLog};
use crate::core::sessions::registry::{Link, Live, Session};
use crate::core::sessions::rights::QueueBounds;
use crate::core::sessions::state::{Owed, SessionState};
use crate::core::sessions::tally::Bound;
use crate::core::settings::{Settings, SlowPolicy};
use crate::core::stats::{LossCause, Losses, Stats, Traffic};
use crate::core::work::{DROP_VISITS, Turn};
use crate::effects::Event;

/// A subscription that matches a message: its filter and its options.
pub(crate) type Matching = (FilterId, Options);

/// How one session gets one message.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryOptions<'f> {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) ids: SmallVec<[u32; 1]>,
    /// The number of the shared subscription that chose this session; 0 for none.
    pub(crate) share: u64,
    /// Its subscriptions that match, where these may have rates.
    pub(crate) matching: &'f [Matching],
    /// Whether the message comes from the retained store, because of a new subscription.
    pub(crate) stored: bool,
    /// How many older messages of the topic it stands for.
    pub(crate) conflated: u32,
    /// The shared subscription of that number.
    pub(crate) group: Option<&'f Arc<ShareName>>,
}

impl DeliveryOptions<'_> {
    #[inline]
    pub(crate) fn new(message: &Message, options: Options, ids: &[u32], share: u64) -> Self {
        Self {
            qos: message.qos.min(options.qos()),
            retain: options.retain_as_published() && message.retain,
            ids: SmallVec::from_slice(ids),
            share,
            matching: &[],
            stored: false,
            conflated: 0,
            group: None,
        }
    }

    pub(crate) fn delivery(&self, message: &Arc<Message>) -> Delivery {
        Delivery {
            message: Arc::clone(message),
            qos: self.qos,
            retain: self.retain,
            subscription_ids: SubscriptionIds::new(&self.ids),
            share: self.share,
            conflated: self.conflated,
            number: 0,
        }
    }
}

/// Whether the message does not fit, and what became of that.
pub(crate) enum DeliveryResult {
    Taken,
    Lost(LossCause),
    /// Taken: older ones were dropped to make room.
    Displaced(Vec<Lost>),
    /// There is no room for it, though older ones may have been dropped.
    NoRoom(Vec<Lost>),
    Overrun,
}

impl DeliveryResult {
    /// How far the message has come.
    #[inline]
    const fn reach(&self, is_live: bool) -> Reach {
        match self {
            Self::Taken | Self::Displaced(_) if is_live => Reach::Delivered,
            Self::Taken | Self::Displaced(_) => Reach::Stored,
            Self::Lost(LossCause::PacketTooLarge) => Reach::TooLarge,
            Self::Lost(_) | Self::NoRoom(_) | Self::Overrun => Reach::Full,
        }
    }
}

/// What a message to one session goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Rights, and perhaps it is held back for now.
    Usual,
    /// Rights only: it was held back.
    Released,
    /// Rights only: it is one of several of its topic, which come in their order.
    History,
    /// Nothing: it answers a request of the client that was accepted.
    Answer,
}

impl Course {
    /// Whether the journal has the message, if it is written down.
    const fn copy(self, terms: &DeliveryOptions<'_>) -> JournalCopy {
        match self {
            Self::Released => JournalCopy::There,
            Self::Usual | Self::History | Self::Answer if terms.stored => JournalCopy::Unknown,
            Self::Usual | Self::History | Self::Answer => JournalCopy::Usual,
        }
    }
}

/// A message above QoS 0 takes as long as this many others more: it is owed and remembered.
const OWED_HANDED: usize = 16;

/// A message for a subscription with an identifier is encoded for this subscriber alone, most
/// likely. That takes as long as these, and as one more for each [`BYTES_PER_HANDED`] bytes.
const IDENTIFIED_HANDED: usize = 2;
const BYTES_PER_HANDED: usize = 128;

/// Messages of one topic that were lost one after the other.
pub(crate) struct Lost {
    cause: LossCause,
    topic: Box<str>,
    messages: u64,
}

/// Notes the loss of messages.
fn note(lost: &mut Vec<Lost>, cause: LossCause, topic: &str, messages: u64) {
    match lost.last_mut() {
        Some(last) if last.cause == cause && *last.topic == *topic => last.messages += messages,
        _ => lost.push(Lost {
            cause,
            topic: topic.into(),
            messages,
        }),
    }
}

/// What giving a message to one session needs besides the two.
pub(crate) struct DeliveryContext<'a> {
    pub(crate) now: Tick,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) settings: &'a Settings,
    stats: &'a mut Stats,
    losses: &'a mut Losses,
    traffic: &'a mut Traffic,
    pub(crate) turn: &'a mut Turn,
    pub(crate) log: &'a mut SessionLog,
    /// What the client may be charged with for what waits or is in flight, in bytes.
    pub(crate) queue_bytes_max: usize,
    /// Whether who hands it over sees to it that little waits: the bounds do not hold then. A
    /// snapshot has to be complete, and what was held back is the newest of its topic.
    paced: bool,
    /// Whether the journal has it, if it is written down.
    pub(crate) copy: JournalCopy,
    /// The bounds of the session, if it is that of a queue.
    queue: Option<QueueBounds>,
}

impl DeliveryContext<'_> {
    /// What the client may be charged with.
    #[inline]
    const fn bound(&self) -> Charge {
        Charge {
            bytes: self.queue_bytes_max,
            messages: self.settings.queue_messages_max,
        }
    }

    /// A member of a shared subscription without a connection may be a queue, which has bounds of
    /// its own.
    fn bound_queue(&mut self, session: &Session, terms: &DeliveryOptions<'_>) {
        if terms.share == 0 || session.live().is_some() {
            return;
        }
        self.queue = session.state.queue();
        if let Some(queue) = &mut self.queue {
            let bytes_max = usize::try_from(queue.bytes).unwrap_or(usize::MAX);
            if self.settings.is_tightened() {
                // It takes no more than a client, and keeps what it has.
                queue.full = SlowPolicy::DropNewest;
                self.queue_bytes_max = self.queue_bytes_max.min(bytes_max);
            } else {
                self.queue_bytes_max = bytes_max;
            }
        }
    }

    /// A delivery is owed, and written down if its session is.
    #[inline]
    fn write(
        &mut self,
        number: Option<Number>,
        delivery: &Delivery,
        group: Option<&Arc<ShareName>>,
    ) {
        if let Some(number) = number {
            self.log.owes(number, delivery, group, self.copy);
        }
    }

    /// One more is about to wait for a session of which something is on the disk, or whose client
    /// is away. If it holds more than its share of the memory, the oldest goes to the disk. Returns
    /// whether the disk takes it: then its publisher may have to wait, and nothing is dropped.
    fn spools(&mut self, state: &mut SessionState, delivery: &Delivery, key: SessionKey) -> bool {
        let spooling = &mut self.outbox.spooling;
        // The bound may have fallen since the share was found, and one message may exceed it.
        let (held, most) = (state.owed.held_bytes(), self.queue_bytes_max);
        let fits = held < spooling.share && held + delivery.cost() <= most;
        if spooling.share == 0 || fits {
            return false;
        }
        // Another member of a shared subscription may have to get it, so it stays in memory.
        if delivery.share != 0 {
            return false;
        }
        let topic = delivery.message.topic();
        if self.settings.slow_policy(topic, delivery.qos) != SlowPolicy::Disconnect {
            return false;
        }
        if state.owed.note_due() {
            spooling.due.push_back(key);
        }
        let room = bytes_max_of(state, self.settings);
        let has_room = !state.owed.is_barred() && state.owed.disk_bytes() < room;
        let is_taken = has_room && !spooling.is_refused;
        if is_taken {
            spooling.due_bytes += delivery.cost();
            spooling.taken += delivery.cost() as u64;
        }
        is_taken
    }

    /// A message was encoded for a subscription with an identifier.
    #[inline]
    fn count_encoded(&mut self, wire: &Wire, terms: &DeliveryOptions<'_>) {
        if !terms.ids.is_empty() {
            let bytes = wire.encoded.owned_len();
            self.turn
                .hand_over(IDENTIFIED_HANDED + bytes / BYTES_PER_HANDED);
        }
    }

    /// A message is queued for its client.
    #[inline]
    fn count_sent(&mut self, message: &Message) {
        let bytes = message.payload().len() as u64;
        self.stats.publishes_sent += 1;
        self.stats.publish_bytes_sent += bytes;
        self.traffic.sent(message.zone, 1, bytes);
    }

    /// Messages were dropped to make room. Each takes about as long as half a session that gets the
    /// new one: a message that makes much room in many queues goes on in later turns.
    fn count_dropped(&mut self, messages: usize) {
        self.turn.spend_each(messages, DROP_VISITS);
        self.turn.hand_over(messages * DROP_VISITS as usize);
    }

    /// A newer message has taken the place of one that waited.
    pub(crate) fn count_conflated(&mut self, session: &mut Session) {
        // Neither a line in the log nor a place among the losers: it is what was asked for.
        self.losses.record_many(LossCause::Conflated, 1);
        session.tally().conflated.add(self.now, 1);
    }
}

impl Fanout<'_> {
    /// Gives a message to the session in `slot`. O(1), but for dropping older ones.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        variants: &mut EncodedVariants<'_>,
        slot: u32,
        terms: &DeliveryOptions<'_>,
    ) {
        self.give(variants, slot, terms, Course::Usual);
    }

    /// [`Fanout::deliver`] on another course.
    #[inline]
    pub(crate) fn give(
        &mut self,
        variants: &mut EncodedVariants<'_>,
        slot: u32,
        terms: &DeliveryOptions<'_>,
        course: Course,
    ) {
        let session = self.sessions.at_mut(slot, terms.qos);
        let Some(session) = session.filter(|session| !session.is_retired()) else {
            return;
        };
        if course != Course::Answer && !session.state.may_receive(variants.message.topic()) {
            self.withhold(slot);
            return;
        }
        let key = SessionKey {
            slot,
            generation: session.generation,
        };
        let mut context = DeliveryContext {
            now: self.now,
            outbox: self.outbox,
            settings: self.settings,
            stats: self.stats,
            losses: self.losses,
            traffic: self.traffic,
            turn: self.turn,
            log: self.log,
            queue_bytes_max: session.state.queue_bytes_max_at(terms.qos, self.settings),
            paced: terms.stored || course == Course::Released,
            copy: course.copy(terms),
            queue: None,
        };
        context.bound_queue(session, terms);
        if session.is_given_up() && (terms.qos == QoS::AtMostOnce || !session.state.is_persistent())
        {
            // A message that waits for its connection ends with that, or with the session.
            return;
        }
        // A queue has every message, however few a client of its own would get.
        let may_hold = course == Course::Usual && context.queue.is_none();
        let shaped = may_hold && (variants.treatment.shape.is_some() || session.is_special());
        let hold = || hold_back(&mut context, variants, key, session, terms);
        let held = shaped.then(hold).flatten();
        let verdict = if let Some(verdict) = held {
            verdict
        } else if terms.qos == QoS::AtMostOnce {
            let Link::Live(live) = &mut session.link else {
                // QoS 0 is for those who are there [MQTT-3.1.2-5].
                return;
            };
            let owed = &session.state.owed;
            give_now(&mut context, variants, key, live, owed, terms)
        } else {
            owe(&mut context, variants, key, session, terms)
        };
        self.reach = self.reach.max(verdict.reach(session.live().is_some()));
        self.settle(key, variants.message, terms.qos, verdict);
    }

    /// Counts what was lost, and gives a connection up that its policy has given up.
    #[inline]
    fn settle(&mut self, key: SessionKey, message: &Message, qos: QoS, verdict: DeliveryResult) {
        match verdict {
            DeliveryResult::Taken => {}
            DeliveryResult::Lost(cause) => self.lose(key.slot, message.topic(), cause, 1),
            DeliveryResult::Displaced(lost) | DeliveryResult::NoRoom(lost) => {
                for lost in lost {
                    self.lose(key.slot, &lost.topic, lost.cause, lost.messages);
                }
            }
            DeliveryResult::Overrun => {
                if qos == QoS::AtMostOnce {
                    // It waits nowhere.
                    self.lose(key.slot, message.topic(), LossCause::Disconnect, 1);
                }
                self.give_up(key);
            }
        }
    }

    /// As [`lifecycle::give_up`].
    #[cold]
    fn give_up(&mut self, key: SessionKey) {
        let session = self.sessions.get_mut(key);
        if let Some(live) = session.and_then(Session::live_mut)
            && live.give_up()
        {
            self.overrun.push_back(key);
        }
    }

    /// A message is not for the session in `slot`, though it has subscribed to it.
    #[cold]
    fn withhold(&mut self, slot: u32) {
        self.stats.publishes_withheld += 1;
        // The first time, what the session takes changes without any output: it is to be marked.
        if let Some(session) = self.sessions.at_mut(slot, QoS::AtLeastOnce) {
            session.tally().withheld.add(self.now, 1);
        }
    }

    fn lose(&mut self, slot: u32, topic: &str, cause: LossCause, messages: u64) {
        self.stats.publishes_dropped += messages;
        let Some(session) = self.sessions.at_mut(slot, QoS::AtLeastOnce) else {
            return;
        };
        let bound = match cause {
            LossCause::DropNewest | LossCause::DropOldest | LossCause::Disconnect => {
                Bound::of(self.settings)
            }
            _ => Bound::AsConfigured,
        };
        session.tally().lose(self.now, cause, messages, bound);
        if let Some(snapshots) = session.live_mut().and_then(Live::snapshots) {
            match cause {
                LossCause::DropNewest => snapshots.lose_live(),
                LossCause::DropOldest => snapshots.lose_queued(),
                // The store does not help.
                _ => {}
            }
        }
        self.traffic.of(session.state.zone()).dropped += messages;
        let client_id = session.state.client_id();
        let is_first = self
            .losses
            .record_several(cause, client_id, topic, messages);
        if is_first {
            self.events.push(Event::Losing {
                client_id: session.state.client_id().into(),
                topic: topic.into(),
                cause: cause.label(),
                full: match cause {
                    LossCause::DropNewest | LossCause::DropOldest => {
                        Some(session.full(self.settings))
                    }
                    _ => None,
                },
            });
        }
    }
}

/// QoS 0: into the socket's queue, if it fits.
#[inline]
fn give_now(
    context: &mut DeliveryContext<'_>,
    variants: &mut EncodedVariants<'_>,
    key: SessionKey,
    live: &mut Live,
    owed: &Owed,
    terms: &DeliveryOptions<'_>,
) -> DeliveryResult {
    let Some(wire) = variants
        .wire_for(live.version, false, terms)
        .filter(|w| fits(live, w))
    else {
        return DeliveryResult::Lost(LossCause::PacketTooLarge);
    };
    context.count_encoded(&wire, terms);
    let len = wire.encoded.wire_len();
    let mut verdict = DeliveryResult::Taken;
    let (bytes, messages) = (len, 1);
    if !context.paced && live.is_full(context.bound(), owed, Charge { bytes, messages }) {
        match variants.policy(context.settings, QoS::AtMostOnce) {
            SlowPolicy::DropNewest => return DeliveryResult::Lost(LossCause::DropNewest),
            SlowPolicy::Disconnect | SlowPolicy::Conflate => return DeliveryResult::Overrun,
            SlowPolicy::DropOldest => {
                let others = live.owed(owed);
                let messages_max = context.settings.queue_messages_max;
                let room = Charge {
                    bytes: context.queue_bytes_max.saturating_sub(others.bytes + len),
                    messages: messages_max.saturating_sub(others.messages + 1),
                };
                let mut dropped = make_room(live, room);
                let pieces: u64 = dropped.iter().map(|lost| lost.messages).sum();
                context.count_dropped(pieces as usize);
                let left = live.queued();
                if left.bytes > room.bytes || left.messages > room.messages {
                    let topic = variants.message.topic();
                    note(&mut dropped, LossCause::DropOldest, topic, 1);
                    return DeliveryResult::NoRoom(dropped);
                }
                verdict = DeliveryResult::Displaced(dropped);
            }
        }
    }
    context.count_sent(variants.message);
    context.outbox.publish(
        key,
        live,
        Outgoing::new(wire, QoS::AtMostOnce, terms.retain, false, None),
    );
    verdict
}

/// Drops the oldest queued messages until no more than `room` is taken, as far as possible.
fn make_room(live: &mut Live, room: Charge) -> Vec<Lost> {
    let mut dropped = Vec::new();
    if let Some(output) = &mut live.output {
        output.make_room(room.bytes, room.messages, |topic, messages| {
            note(&mut dropped, LossCause::DropOldest, topic, messages);
        });
    }
    dropped
}

/// QoS 1 and 2: owed until it is acknowledged.
fn owe(
    context: &mut DeliveryContext<'_>,
    variants: &mut EncodedVariants<'_>,
    key: SessionKey,
    session: &mut Session,
    terms: &DeliveryOptions<'_>,
) -> DeliveryResult {
    context.turn.hand_over(OWED_HANDED);
    let mut delivery = terms.delivery(variants.message);
    let number = session.state.number();
    let number = number.filter(|_| context.log.takes_body(variants.message));
    if number.is_some() {
        delivery.number = session.state.owed.next_number();
    }
    let bytes = session.charge().bytes + delivery.cost();
    let may_send = !session.is_given_up();
    let may_send =
        may_send && (context.paced || session.is_served() || bytes <= context.queue_bytes_max);
    let next_id = session.next_packet_id();
    let owed = &mut session.state.owed;
    if may_send
        && let Link::Live(live) = &mut session.link
        && let window = live.window(context.queue_bytes_max)
        && owed.may_send(window)
    {
        let wire = variants.wire_for(live.version, true, terms);
        let Some(wire) = wire.filter(|wire| fits(live, wire)) else {
            return DeliveryResult::Lost(LossCause::PacketTooLarge);
        };
        context.count_encoded(&wire, terms);
        let packet_id = owed.send(context.now, window, next_id, &delivery);
        context.write(number, &delivery, terms.group);
        if number.is_some() {
            session.state.write_odd(context.log);
        }
        context.count_sent(variants.message);
        let outgoing = Outgoing::new(wire, terms.qos, terms.retain, false, packet_id);
        context.outbox.publish(key, live, outgoing);
        return DeliveryResult::Taken;
    }
    keep_waiting(context, delivery, key, session, number, terms.group)
}

/// Above QoS 0, and neither the window nor the socket takes it now: it waits, if there is room.
fn keep_waiting(
    context: &mut DeliveryContext<'_>,
    delivery: Delivery,
    key: SessionKey,
    session: &mut Session,
    number: Option<Number>,
    group: Option<&Arc<ShareName>>,
) -> DeliveryResult {
    let (settings, queue_bytes_max) = (context.settings, context.queue_bytes_max);
    let queue = context.queue;
    let messages_max = queue.map_or(settings.queue_messages_max, |it| it.messages as usize);
    let message = Arc::clone(&delivery.message);
    let is_live = session.live().is_some_and(|live| !live.is_given_up());
    let others = session.charge_unowed();
    let cost = delivery.cost();
    let next_id = session.next_packet_id();
    let may_spool =
        number.is_some() && queue.is_none() && (!is_live || session.state.owed.is_spooled());
    let spools = may_spool && context.spools(&mut session.state, &delivery, key);
    let owed = &mut session.state.owed;
    let fits = |owed: &Owed| {
        others.bytes + owed.held_bytes() + cost <= queue_bytes_max
            && others.messages + owed.held_len() < messages_max
    };
    let mut lost = Vec::new();
    // What has expired goes first. In a turn that is spent the search is short: the next message
    // goes on with it.
    while !fits(owed) && !spools {
        let mut expired = |topic: &str| note(&mut lost, LossCause::Expired, topic, 1);
        let looked = owed.drop_expired(context.now, &mut expired);
        context.turn.spend_each(looked, DROP_VISITS);
        if looked == 0 || context.turn.left() == 0 {
            break;
        }
    }
    // What goes to the disk is bounded there: its publishers wait while much is on its way.
    if !fits(owed) && !context.paced && !spools {
        let usual = || settings.slow_policy(message.topic(), delivery.qos);
        match queue.map_or_else(usual, |it| it.full) {
            SlowPolicy::Disconnect | SlowPolicy::Conflate if is_live => {
                context.write(number, &delivery, group);
                owed.wait(next_id, delivery);
                return DeliveryResult::Overrun;
            }
            SlowPolicy::DropNewest | SlowPolicy::Disconnect | SlowPolicy::Conflate => {
                note(&mut lost, LossCause::DropNewest, message.topic(), 1);
                return DeliveryResult::NoRoom(lost);
            }
            SlowPolicy::DropOldest => {
                while !fits(owed) {
                    let oldest = owed.drop_oldest();
                    context.count_dropped(1);
                    let dropped = oldest.as_ref().map_or(&message, |d| &d.message);
                    note(&mut lost, LossCause::DropOldest, dropped.topic(), 1);
                    if oldest.is_none() {
                        return DeliveryResult::NoRoom(lost);
                    }
                }
            }
        }
    }
    context.write(number, &delivery, group);
    owed.wait(next_id, delivery);
    if lost.is_empty() {
        DeliveryResult::Taken
    } else {
        DeliveryResult::Displaced(lost)
    }
}

/// Whether the client takes a packet of this size [MQTT-3.1.2-24].
#[inline]
fn fits(live: &Live, wire: &Wire) -> bool {
    wire.encoded.wire_len() <= live.packet_bytes_max as usize
}

/// A PUBLISH of an owed message; `None` if the client does not take it.
pub(crate) fn outgoing(
    live: &Live,
    delivery: &Delivery,
    epoch: Option<u64>,
    packet_id: PacketId,
    attempt: Attempt,
) -> Option<Outgoing> {
    let ids = delivery.subscription_ids.as_slice();
    let message = &delivery.message;
    let numbers = epoch.map(|epoch| numbers(message, epoch, delivery.conflated));
    let extra = numbers.as_deref().unwrap_or_default();
    let wire = encode_wire(message, live.version, true, ids, extra)?;
    fits(live, &wire).then(|| {
        Outgoing::new(
            Rc::new(wire),
            delivery.qos,
            delivery.retain,
            attempt == Attempt::Again,
            Some(packet_id),
        )
    })
}
