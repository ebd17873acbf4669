//! From a message to its subscribers.

mod ahead;
pub(crate) mod dues;
pub(crate) mod job;

use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::core::delivery::deliver::{DeliveryOptions, Matching};
use crate::core::delivery::spool;
use crate::core::routing::batch::{EncodedBatch, Source};
use crate::core::routing::keep::{epoch, numbers};
use crate::core::routing::options::{Options, as_share};
use crate::core::routing::share;
use crate::core::sessions::registry::Session;
use crate::core::settings::{Settings, Shape, SlowPolicy, TopicPolicy};
use crate::core::work::{PUBLISH_VISITS_FREE, SLICE_VISITS_MIN, Turn};
use crate::core::{Core, Rules};
use crate::items::{RoutedItem, Sender};
pub(crate) use ahead::{JobsAhead, Look};
use job::{Entry, Found, SORTED_PER_VISIT};
pub(crate) use job::{Routes, reader, reader_owner, release_sender};
use smallvec::SmallVec;
use stentor_mqtt::{EncodedPublish, PublishParts, QoS, Version};
use stentor_session::{Message, Tick, Wire};
use stentor_topic::{FilterId, Subscriber};
use stentor_zone::Reach;

/// This many subscribers beside those of the longest list cost a message nothing: more than what a
/// few dashboards with wide filters add to a topic.
const SORTED_FREE: usize = 256;

/// Units of work that a session costs at least: see [`crate::AtOnce::work`].
const SESSION_WORK: u32 = 4;

/// The subscription identifiers, and the wires without and with a packet id.
type Identified = (SmallVec<[u32; 1]>, [Option<Rc<Wire>>; 2]);

/// What the policy of its topic makes of a message. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Treatment {
    /// How it is thinned out.
    pub(crate) shape: Option<Shape>,
    /// The epoch of its number, where MQTT 5 subscribers receive one.
    epoch: Option<u64>,
}

/// One message on its way to the subscribers of one shard: encoded at most once per variant.
pub(crate) struct EncodedVariants<'m> {
    pub(crate) message: &'m Arc<Message>,
    /// By version 3.x or 5.0, without and with a packet id.
    plain: [[Option<Rc<Wire>>; 2]; 2],
    /// With subscription identifiers.
    identified: SmallVec<[Identified; 2]>,
    policy: Option<SlowPolicy>,
    pub(crate) treatment: Treatment,
}

impl<'m> EncodedVariants<'m> {
    pub(crate) fn new(message: &'m Arc<Message>, treatment: Treatment) -> Self {
        Self {
            message,
            treatment,
            plain: Default::default(),
            identified: SmallVec::new(),
            policy: None,
        }
    }

    /// The encoded form for one kind of subscriber; `None` if it is not a packet, because the
    /// subscription identifiers bring it above what a packet can hold.
    #[inline]
    pub(crate) fn wire(
        &mut self,
        version: Version,
        with_id: bool,
        ids: &[u32],
    ) -> Option<Rc<Wire>> {
        /// Distinct lists of identifiers whose encoded form is kept. More than these are rare,
        /// and looking for them would cost more than encoding again.
        const IDENTIFIED_MAX: usize = 8;
        let message = self.message;
        let slot = if ids.is_empty() || !version.is_v5() {
            &mut self.plain[usize::from(version.is_v5())][usize::from(with_id)]
        } else {
            let index = self
                .identified
                .iter()
                .position(|(known, _)| known.as_slice() == ids);
            let index = index.unwrap_or_else(|| {
                if self.identified.len() >= IDENTIFIED_MAX {
                    self.identified.pop();
                }
                self.identified
                    .push((SmallVec::from_slice(ids), [None, None]));
                self.identified.len() - 1
            });
            &mut self.identified[index].1[usize::from(with_id)]
        };
        if slot.is_none() {
            let numbers = self.treatment.epoch.map(|epoch| numbers(message, epoch, 0));
            let extra = numbers.as_deref().unwrap_or_default();
            *slot = encode_wire(message, version, with_id, ids, extra).map(Rc::new);
        }
        slot.as_ref().map(Rc::clone)
    }

    /// [`EncodedVariants::wire`] for a message that stands for older ones too.
    pub(crate) fn wire_for(
        &mut self,
        version: Version,
        with_id: bool,
        terms: &DeliveryOptions<'_>,
    ) -> Option<Rc<Wire>> {
        let Some(epoch) = self
            .treatment
            .epoch
            .filter(|_| terms.conflated > 0 && version.is_v5())
        else {
            return self.wire(version, with_id, &terms.ids);
        };
        let numbers = numbers(self.message, epoch, terms.conflated);
        encode_wire(self.message, version, with_id, &terms.ids, &numbers).map(Rc::new)
    }

    /// What happens to this message where it does not fit.
    pub(crate) fn policy(&mut self, settings: &Settings, qos: QoS) -> SlowPolicy {
        *self
            .policy
            .get_or_insert_with(|| settings.slow_policy(self.message.topic(), qos))
    }
}

/// Encodes a message for one variant, with more properties behind its own; `None` above the
/// largest packet there is. A long message stays where it is: the packet has the head alone. With
/// more properties that is so for the payload alone, since those come last: a publisher cannot
/// replace them.
pub(crate) fn encode_wire(
    message: &Arc<Message>,
    version: Version,
    with_id: bool,
    ids: &[u32],
    extra: &[u8],
) -> Option<Wire> {
    let v5 = version.is_v5();
    let own = if v5 { message.properties() } else { &[] };
    let with_extra: Vec<u8>;
    let (added, properties): (&[u8], &[u8]) = match (v5, extra) {
        (false, _) | (true, []) => (&[], own),
        (true, extra) => {
            with_extra = [own, extra].concat();
            (&with_extra, &[])
        }
    };
    let parts = PublishParts {
        topic: message.topic(),
        payload: message.payload(),
        properties,
        added_properties: added,
        subscription_ids: if v5 { ids } else { &[] },
        has_expiry: v5 && message.expires_at != Tick::NEVER,
    };
    let tail = parts.properties.len() + parts.payload.len();
    let is_shared = tail >= Wire::SHARED_BYTES_MIN;
    let encoded = match is_shared {
        true => EncodedPublish::head(version, &parts, with_id),
        false => EncodedPublish::new(version, &parts, with_id),
    };
    let encoded = encoded.ok()?;
    let (expires_at, received_at) = (message.expires_at, message.received_at);
    Some(Wire {
        encoded,
        message: is_shared.then(|| Arc::clone(message)),
        expires_at,
        received_at,
    })
}

/// The parts of a hub that handing out a message changes, while others are borrowed.
macro_rules! fanout {
    ($hub:expr, $now:expr) => {
        $crate::core::routing::route::Fanout {
            now: $now,
            sessions: &mut $hub.sessions,
            outbox: &mut $hub.outbox,
            settings: &$hub.rules.settings,
            stats: &mut $hub.counters.stats,
            losses: &mut $hub.counters.losses,
            traffic: &mut $hub.counters.traffic,
            overrun: &mut $hub.pending.overrun,
            turn: &mut $hub.turn,
            log: &mut $hub.pending.log,
            events: &mut $hub.effects.events,
            reach: stentor_zone::Reach::Nobody,
        }
    };
}

impl Rules {
    /// How messages of a topic are thinned out.
    #[inline]
    pub(crate) fn shape(&self, topic: &str) -> Option<Shape> {
        if !self.uses.shapes {
            return None;
        }
        self.settings.policy(topic).and_then(TopicPolicy::shape)
    }

    /// The time until which messages of a topic that come now may wait for others.
    #[inline]
    pub(crate) fn hold_until(&self, now: Tick, topic: &str) -> Option<Tick> {
        if !self.uses.delays {
            return None;
        }
        let delay = self.settings.policy(topic)?.delay;
        (!delay.is_zero()).then(|| now.after(delay))
    }
}

fn epoch_of(core: &Core, message: &Message) -> Option<u64> {
    epoch(
        core.rules.uses,
        &core.rules.settings,
        &*core.store.retained,
        message,
    )
}

/// A message to be handed out by itself.
pub(in crate::core) fn variants<'m>(core: &Core, message: &'m Arc<Message>) -> EncodedVariants<'m> {
    EncodedVariants::new(message, treatment(core, message))
}

/// How a message is treated.
pub(in crate::core) fn treatment(core: &Core, message: &Message) -> Treatment {
    Treatment {
        shape: core.rules.shape(message.topic()),
        epoch: epoch_of(core, message),
    }
}

pub(in crate::core) fn fanout(core: &mut Core, now: Tick) -> Fanout<'_> {
    fanout!(core, now)
}

/// To everybody, on this shard and on the others. All `messages` have one publisher and one
/// topic. What is expensive goes on in later turns, in its order.
pub(in crate::core) fn everywhere(core: &mut Core, now: Tick, messages: &[Arc<Message>]) {
    everywhere_from(core, now, messages, None);
}

/// The same for messages that came by a connection of another shard, if `sender` names one.
pub(crate) fn everywhere_from(
    core: &mut Core,
    now: Tick,
    messages: &[Arc<Message>],
    sender: Option<Sender>,
) {
    let Some(first) = messages.first() else {
        return;
    };
    let sender = sender.or_else(|| job::sender_of(core, first));
    let others = core.routing.interest.others(first.zone, first.topic());
    if core.pending.log.writes(first.qos) {
        // What is written of the message names them.
        let lasting = core.pending.log.lasting(others);
        core.pending.log.sends(first, lasting, None);
    }
    let shares = locally(core, now, messages, Source::Client, sender);
    for shard in others {
        let items = messages.iter().map(Arc::clone);
        let items = items.map(|message| RoutedItem::Publish {
            message,
            sender,
            is_named: false,
        });
        core.effects
            .mesh
            .extend(items.map(|item| (shard, item.into())));
    }
    // What goes to members has its own names, which follow: see `SessionLog::sends_to_member`.
    for share in shares {
        for message in messages {
            share::deliver(core, now, share, message);
        }
    }
}

/// To the subscribers of this shard, for messages that another shard routed. That one serves
/// the shared subscriptions.
pub(in crate::core) fn here(
    core: &mut Core,
    now: Tick,
    messages: &[Arc<Message>],
    sender: Option<Sender>,
) {
    let _ = locally(core, now, messages, Source::Mesh, sender);
}

/// Delivers to the ordinary subscribers here; returns the shared subscriptions that match, if
/// they are this shard's to serve. Or makes the messages a job, which serves them too. What
/// this costs is charged to the sender.
fn locally(
    core: &mut Core,
    now: Tick,
    messages: &[Arc<Message>],
    source: Source,
    sender: Option<Sender>,
) -> SmallVec<[u32; 2]> {
    let (before, taken) = (core.turn.spent(), spool::taken(core));
    let shares = match_and_serve(core, now, messages, source, sender);
    dues::charge_sender(core, now, sender, core.turn.spent() - before);
    spool::hold_back(core, now, sender, taken);
    shares
}

fn match_and_serve(
    core: &mut Core,
    now: Tick,
    messages: &[Arc<Message>],
    source: Source,
    sender: Option<Sender>,
) -> SmallVec<[u32; 2]> {
    let Some(message) = messages.first() else {
        return SmallVec::new();
    };
    let (zone, topic) = (message.zone, message.topic());
    let hash = core.place.hasher.hash(zone, topic);
    if !core.routing.routes.is_empty() && core.routing.routes.is_behind(hash, message, sender) {
        job::route_later(core, messages, source, sender, hash, Found::default());
        return SmallVec::new();
    }
    let at_once = core.rules.settings.at_once;
    let visits_max = at_once.visits.min(core.turn.left().max(SLICE_VISITS_MIN));
    let mut filters: SmallVec<[List<'_>; 4]> = SmallVec::new();
    let (mut all, mut longest) = (0, 0);
    let matched = core
        .routing
        .index
        .match_some(zone, topic, hash, visits_max, |id, found| {
            all += found.len();
            longest = longest.max(found.len());
            filters.push((id, found));
        });
    let is_dear = matched.rest.is_some()
        || filters.len() > at_once.filters
        || all - longest > at_once.subscribers;
    if is_dear || core.turn.puts_off(messages.len(), all) {
        let ids = filters.iter().map(|(id, _)| *id).collect();
        let found = Found::filters(matched.rest, ids);
        drop(filters);
        core.turn.spend_on_match(matched.visits, 0);
        job::route_later(core, messages, source, sender, hash, found);
        return SmallVec::new();
    }
    core.turn.spend_on_match(matched.visits, all - longest);
    core.turn.reach(all);
    let mut batch = EncodedBatch::new(messages, treatment(core, message));
    core.outbox.held.now_until = core.rules.hold_until(now, topic);
    core.outbox.serves_crowd = core.turn.serves_crowd();
    if core.outbox.serves_crowd {
        core.turn
            .count_crowd(messages.iter().map(|message| message.cost()).sum());
    }
    let mut fanout = fanout!(core, now);
    let served = fanout.fan_out(&mut batch, message, &filters, at_once.work);
    drop(filters);
    core.outbox.serves_crowd = false;
    core.outbox.held.now_until = None;
    serve_rest_later(core, messages, source, sender, hash, served)
}

/// What may still be done at once for messages whose subscribers were served, as far as that
/// was possible: returns the shared subscriptions that match, or makes the messages a job.
fn serve_rest_later(
    core: &mut Core,
    messages: &[Arc<Message>],
    source: Source,
    sender: Option<Sender>,
    hash: u64,
    served: Served,
) -> SmallVec<[u32; 2]> {
    let Served { mut shares, rest } = served;
    if source == Source::Mesh {
        shares.clear();
    }
    let at_once = core.rules.settings.at_once;
    let deliveries = shares.len() * messages.len();
    let is_little =
        shares.len() <= at_once.shares && deliveries <= at_once.subscribers.max(messages.len());
    if rest.is_empty() && is_little {
        return shares;
    }
    let numbers = shares.iter().rev();
    let numbers = numbers.filter_map(|slot| core.routing.shares.number(*slot));
    let found = Found::rest(rest, numbers.collect());
    job::route_later(core, messages, source, sender, hash, found);
    SmallVec::new()
}

/// Delivers to the ordinary subscribers of `route` here, which need not be the topic that the
/// messages bear, and which few filters match. Returns the shared subscriptions that match, and
/// how far the messages came.
pub(crate) fn deliver_to(
    core: &mut Core,
    now: Tick,
    messages: &[Arc<Message>],
    route: &str,
) -> (SmallVec<[u32; 2]>, Reach) {
    let Some(message) = messages.first() else {
        return (SmallVec::new(), Reach::Nobody);
    };
    let mut batch = EncodedBatch::new(messages, treatment(core, message));
    let hash = core.place.hasher.hash(message.zone, route);
    let mut filters: SmallVec<[List<'_>; 4]> = SmallVec::new();
    let (mut all, mut longest) = (0, 0);
    let matched =
        core.routing
            .index
            .match_some(message.zone, route, hash, u32::MAX, |id, found| {
                all += found.len();
                longest = longest.max(found.len());
                filters.push((id, found));
            });
    core.turn.spend_on_match(matched.visits, all - longest);
    core.turn.reach(all);
    let taken = spool::taken(core);
    let mut fanout = fanout!(core, now);
    let served = fanout.fan_out(&mut batch, message, &filters, u32::MAX);
    let found = (served.shares, fanout.reach);
    drop(filters);
    spool::hold_back(core, now, reader(core), taken);
    found
}

impl Turn {
    /// Counts a match, and what the subscribers cost that are copied and sorted. A job counts that
    /// as well.
    fn spend_on_match(&mut self, visits: u32, beside_longest: usize) {
        if visits > PUBLISH_VISITS_FREE {
            self.spend(visits);
        }
        let sorted = beside_longest.saturating_sub(SORTED_FREE) / SORTED_PER_VISIT;
        self.spend(u32::try_from(sorted).unwrap_or(u32::MAX));
    }
}

/// The parts of a hub that handing out a message changes.
pub(crate) struct Fanout<'h> {
    pub(crate) now: Tick,
    pub(crate) sessions: &'h mut crate::core::sessions::registry::Sessions,
    pub(crate) outbox: &'h mut crate::core::delivery::outbox::Outbox,
    pub(crate) settings: &'h Settings,
    pub(crate) stats: &'h mut crate::core::stats::Stats,
    pub(crate) losses: &'h mut crate::core::stats::Losses,
    pub(crate) traffic: &'h mut crate::core::stats::Traffic,
    pub(crate) overrun: &'h mut alloc::collections::VecDeque<crate::core::ids::SessionKey>,
    pub(crate) turn: &'h mut Turn,
    pub(crate) log: &'h mut crate::core::sessions::log::SessionLog,
    pub(crate) events: &'h mut Vec<crate::effects::Event>,
    /// How far what it has handed out one by one has come.
    pub(crate) reach: Reach,
}

/// A filter that matches a message, and its subscribers.
type List<'i> = (FilterId, &'i [Subscriber]);

/// How far the subscribers of a message were served at once.
struct Served {
    /// The shared subscriptions that match.
    shares: SmallVec<[u32; 2]>,
    /// The subscriptions whose sessions are served later.
    rest: Vec<Entry>,
}

/// One of several subscriptions that match a message.
struct Match {
    slot: u32,
    filter: FilterId,
    options: Options,
    /// Whether its session has been served.
    served: bool,
}

impl Fanout<'_> {
    /// Serves the subscribers in all lists, each session once, until that has been `work_max`
    /// units of work: see `AtOnce::work`.
    ///
    /// Usually one list is long and the others are few dashboards with wide filters. So the
    /// longest is walked as it is, and only the others are sorted and looked up.
    fn fan_out(
        &mut self,
        batch: &mut EncodedBatch<'_>,
        message: &Message,
        lists: &[List<'_>],
        work_max: u32,
    ) -> Served {
        let mut shares = SmallVec::new();
        let lists = lists.iter().enumerate();
        let longest = lists.clone().max_by_key(|(_, (_, list))| list.len());
        let Some((longest, (filter, list))) = longest else {
            let rest = Vec::new();
            return Served { shares, rest };
        };
        let others = lists.filter(|(at, _)| *at != longest);
        let mut others = collect(others.map(|(_, list)| *list), &mut shares);
        let mut enough = self.turn.handed().saturating_add(work_max);
        let mut walk = list.iter();
        while self.turn.handed() < enough
            && let Some(subscriber) = walk.next()
        {
            enough = enough.saturating_sub(SESSION_WORK);
            if let Some(share) = as_share(*subscriber) {
                shares.push(share);
                continue;
            }
            let own = (*filter, Options::from_bits(subscriber.options));
            let slot = subscriber.session;
            let first = others.partition_point(|other| other.slot < slot);
            if others.get(first).is_none_or(|other| other.slot != slot) {
                self.serve(batch, message, slot, &[own]);
                continue;
            }
            let same = others[first..]
                .iter_mut()
                .take_while(|other| other.slot == slot);
            let mut all: SmallVec<[Matching; 4]> = SmallVec::from_slice(&[own]);
            all.extend(same.map(|other| {
                other.served = true;
                (other.filter, other.options)
            }));
            self.serve(batch, message, slot, &all);
        }
        let mut unserved = others
            .chunk_by(|a, b| a.slot == b.slot)
            .filter(|same| !same[0].served);
        while self.turn.handed() < enough
            && let Some(same) = unserved.next()
        {
            enough = enough.saturating_sub(SESSION_WORK);
            let all = same.iter().map(|other| (other.filter, other.options));
            let all: SmallVec<[Matching; 4]> = all.collect();
            self.serve(batch, message, same[0].slot, &all);
        }
        let rest = unserved.flatten().map(|other| (other.slot, other.filter));
        let mut rest: Vec<Entry> = rest.collect();
        for subscriber in walk {
            match as_share(*subscriber) {
                Some(share) => shares.push(share),
                None => rest.push((subscriber.session, *filter)),
            }
        }
        Served { shares, rest }
    }

    /// All matching subscriptions of one session: it gets one copy of each message, at the highest
    /// of their QoS [MQTT-3.3.4-2], with all their identifiers [MQTT-3.3.4-4].
    #[inline]
    pub(crate) fn serve(
        &mut self,
        batch: &mut EncodedBatch<'_>,
        message: &Message,
        slot: u32,
        matching: &[Matching],
    ) {
        let mut best: Option<Options> = None;
        let mut retain = false;
        let mut ids: SmallVec<[u32; 1]> = SmallVec::new();
        for (_, options) in matching {
            if options.no_local() && is_own(self.sessions.at(slot), message) {
                continue;
            }
            if options.id() != 0 {
                ids.push(options.id());
            }
            retain |= options.retain_as_published() && message.retain;
            if best.is_none_or(|best| options.qos() > best.qos()) {
                best = Some(*options);
            }
        }
        if let Some(options) = best {
            let qos = message.qos.min(options.qos());
            let share = 0;
            let terms = DeliveryOptions {
                qos,
                retain,
                ids,
                share,
                matching,
                stored: false,
                conflated: 0,
                group: None,
            };
            self.deliver_batch(batch, slot, &terms);
        }
    }
}

/// Sorts subscribers by session; shared subscriptions go to `shares`.
fn collect<'i>(
    lists: impl Iterator<Item = List<'i>>,
    shares: &mut SmallVec<[u32; 2]>,
) -> Vec<Match> {
    let mut matches = Vec::new();
    for (filter, subscriber) in lists.flat_map(|(id, list)| list.iter().map(move |s| (id, s))) {
        match as_share(*subscriber) {
            Some(share) => shares.push(share),
            None => matches.push(Match {
                slot: subscriber.session,
                filter,
                options: Options::from_bits(subscriber.options),
                served: false,
            }),
        }
    }
    matches.sort_unstable_by_key(|found: &Match| found.slot);
    matches
}

/// Whether a message was published by the client of this session.
pub(crate) fn is_own(session: Option<&Session>, message: &Message) -> bool {
    session.is_some_and(|session| session.state.publisher() == message.publisher)
}
