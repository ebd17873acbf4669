//! SUBSCRIBE and UNSUBSCRIBE.

mod drop;
mod element;
pub(crate) mod index;
mod kept;
pub(crate) mod permit;
pub(crate) mod slice;
mod tally;
pub(crate) mod unsubscribe;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use smallvec::SmallVec;
use stentor_mqtt::{
    Packet, PacketId, Properties, QoS, ReasonCode, RetainHandling, SubAck, Subscribe,
    SubscribeFilter, SubscribeOptions,
};
use stentor_session::{CloseReason, Tick, Ticket, Violation};
use stentor_topic::{FilterId, Subscription, asks_for_queue, is_shared};

pub(crate) use self::drop::{drop_below, drop_such, suspend_subscriptions};
pub use self::element::Denial;
pub(crate) use self::element::{Decided, Element, ROOM, ROOMS, Refused, Verdicts, expel, room_of};
pub use self::index::Granted;
pub(crate) use self::index::{granted_from, indexed};
use self::permit::no_right;
pub(crate) use self::permit::{TOO_LONG, TOO_MANY};
pub(crate) use self::slice::Slices;
use self::slice::{Source, Subscribing};
use self::tally::Tally;
use crate::core::delivery::conflate::{NO_RATE, max_rate};
use crate::core::delivery::snapshot::{self, SNAPSHOT_END, Wanted};
use crate::core::history::{HISTORY, HistoryAsk, NoHistoryAsk};
use crate::core::ids::SessionKey;
use crate::core::inbound::acknowledge::explanation;
use crate::core::inbound::hold;
use crate::core::routing::options::Options;
use crate::core::routing::share::{self, Telling, ask_queues_first, is_queue};
use crate::core::sessions::log::leave;
use crate::core::sessions::queue_member::joins_queue;
use crate::core::sessions::registry::{Link, Session};
use crate::core::sessions::state::{Grant, Subscribed};
use crate::core::sessions::{lifecycle, limits};
use crate::core::transitions::{Transition, Unexplained};
use crate::core::work::{FILTER_VISITS, VISIT_BYTES};
use crate::core::{Core, Rules, work};

/// A subscription as its session remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SubscriptionRef {
    /// An ordinary one.
    Filter(FilterId),
    /// Membership in a shared one, by its slot.
    Share(u32),
}

/// What the SUBACK says of one element, and why it was refused, where there is more to say.
type Answer<'f> = (ReasonCode, &'f str);

/// The retained messages to send after the SUBACK.
type AllWanted<'f> = SmallVec<[Wanted<'f>; 2]>;

/// One element of a SUBSCRIBE.
#[derive(Clone, Copy, Debug)]
struct Wanting<'a> {
    filter: &'a str,
    options: SubscribeOptions,
    /// The subscription identifier.
    id: Option<u32>,
    /// What an adaptor has against it.
    denial: Option<&'a Denial>,
    /// Why it was refused before they were asked.
    refused: Option<Refused>,
}

impl<'a> Wanting<'a> {
    fn owned(self) -> Element {
        Element {
            filter: self.filter.into(),
            options: self.options,
            id: self.id,
            denial: self.denial.cloned(),
            refused: self.refused,
            expelled: None,
        }
    }

    /// Whether nobody has refused it.
    const fn is_allowed(&self) -> bool {
        self.denial.is_none() && self.refused.is_none()
    }

    fn of(element: &'a Element) -> Self {
        Self {
            filter: &element.filter,
            options: element.options,
            id: element.id,
            denial: element.denial.as_ref(),
            refused: element.refused,
        }
    }
}

/// What is the same for all elements of a SUBSCRIBE.
#[derive(Clone, Copy, Debug)]
struct Common {
    /// Whether a bridge has sent it.
    bridge: bool,
    /// The subscription identifier.
    id: Option<u32>,
}

impl Common {
    fn wanting<'a>(self, element: &SubscribeFilter<'a>) -> Wanting<'a> {
        let mut options = element.options;
        options.no_local |= self.bridge && !is_shared(element.filter);
        options.retain_as_published |= self.bridge;
        Wanting {
            filter: element.filter,
            options,
            id: self.id,
            denial: None,
            refused: None,
        }
    }
}

/// The SUBACK that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Awaited {
    packet_id: PacketId,
    /// This many elements at the end of the SUBSCRIBE are refused and not looked at: the session
    /// may not have this many.
    surplus: usize,
}

/// What a SUBSCRIBE asks for in user properties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// `max-rate`: the least time between two messages of one topic.
    interval: Option<Duration>,
    /// `snapshot-end`, whatever its value: a message that tells the end of the stored ones.
    marks_end: bool,
    /// `history`: which messages of the histories of topics.
    history: Option<HistoryAsk>,
}

/// The wishes, if they make sense; else what is wrong with them.
pub(crate) type Asked = Result<Wishes, &'static str>;

impl Wishes {
    /// None.
    pub(crate) const NOTHING: Self = Self {
        interval: None,
        marks_end: false,
        history: None,
    };

    /// Whether a message tells the end of what is stored.
    const fn has_end(&self) -> bool {
        self.marks_end || self.history.is_some()
    }

    /// Reads them. One that is none refuses the subscription: these are this server's own
    /// properties.
    fn new(properties: Properties<'_>) -> Asked {
        if properties.raw().is_empty() {
            return Ok(Self::NOTHING);
        }
        let interval = max_rate(properties).map_err(|_| NO_RATE)?;
        let mut pairs = properties.user_properties();
        let marks_end = pairs.any(|(name, _)| name == SNAPSHOT_END);
        let mut pairs = properties.user_properties();
        let history = pairs.find(|(name, _)| *name == HISTORY);
        let history = history.map(|(_, text)| HistoryAsk::parse(text)).transpose();
        if pairs.any(|(name, _)| name == HISTORY) {
            return Err(HISTORY_TWICE);
        }
        Ok(Self {
            interval,
            marks_end,
            history: history.map_err(|_| NoHistoryAsk::TEXT)?,
        })
    }
}

/// The answer to a client that asks for two parts of a history at once.
const HISTORY_TWICE: &str = "history is there twice, and only one can be meant";

/// How the filters of private messages begin. Nothing is retained below it.
const INBOXES: &str = "$private/";

/// The answer to a client that asks for a queue that nobody has declared.
const NO_QUEUE: &str = "the server has no queue of this name with this filter";

/// A filter as it was written, without `$share/<group>/`.
fn without_share(text: &str) -> &str {
    Subscription::parse(text).map_or(text, |subscription| subscription.filter)
}

/// What a session asks for by a filter. If that is a queue, it has to be there.
fn parsed<'a>(
    core: &Core,
    key: SessionKey,
    text: &'a str,
) -> Result<Subscription<'a>, &'static str> {
    let subscription = Subscription::parse(text).map_err(|error| error.text())?;
    match asks_for_queue(text) && !is_queue(core, key, subscription) {
        true => Err(NO_QUEUE),
        false => Ok(subscription),
    }
}

/// How the filters of the list of rooms begin.
const ROOM_LIST: &str = "$rooms/";

/// Filters of one SUBSCRIBE whose single values go out at once though the turn is spent, unless
/// it has done far more than it may.
const AT_ONCE_MAX: usize = 8;

/// Whether a subscription brings what is retained.
const fn sends_retained(options: SubscribeOptions, is_new: bool) -> bool {
    match options.retain_handling {
        RetainHandling::Send => true,
        RetainHandling::SendIfNew => is_new,
        RetainHandling::DoNotSend => false,
    }
}

/// How a SUBACK says which QoS was granted.
const fn granted_reason(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
    }
}

/// The options that a session gets of those that it wants. A member of a queue gets QoS 1 at most:
/// at QoS 2, a message that was sent and whose session ends must not go to anybody else
/// [MQTT-4.8.2-5], so the queue could lose it.
fn grantable(
    core: &mut Core,
    key: SessionKey,
    subscription: Subscription<'_>,
    options: SubscribeOptions,
) -> SubscribeOptions {
    let qos = match joins_queue(core, key, subscription) {
        true => options.qos.min(QoS::AtLeastOnce),
        false => options.qos,
    };
    SubscribeOptions { qos, ..options }
}

/// What a filter costs besides what its snapshot does.
pub(crate) const fn filter_visits(filter: &str) -> u32 {
    // A packet has far less than 2^32 bytes.
    FILTER_VISITS + (filter.len() / VISIT_BYTES) as u32
}

/// The elements of a SUBSCRIBE that are looked at, with what was decided about them.
fn elements<'s>(
    common: Common,
    subscribe: &Subscribe<'s>,
    most: usize,
    denials: &'s [Option<Denial>],
    decided: &'s Decided,
) -> impl Iterator<Item = Wanting<'s>> + Clone + use<'s> {
    let elements = subscribe.filters.iter().take(most).enumerate();
    elements.map(move |(at, element)| Wanting {
        denial: denials.get(at).and_then(Option::as_ref),
        refused: decided.refused(at),
        ..common.wanting(&element)
    })
}

/// Whether there may be rooms among the filters of a SUBSCRIBE: cheaper than to read them again.
pub(crate) fn may_name_rooms(subscribe: &Subscribe<'_>) -> bool {
    subscribe.filters.iter().rest().contains(&b'$')
}

/// How many elements of a SUBSCRIBE are beyond those that are looked at.
fn surplus(subscribe: &Subscribe<'_>, most: usize) -> usize {
    // A length, a byte of text, and the options.
    const ELEMENT_BYTES_MIN: usize = 4;
    let bytes = subscribe.filters.iter().rest().len();
    if bytes / ELEMENT_BYTES_MIN <= most {
        return 0;
    }
    subscribe.filters.count().saturating_sub(most)
}

impl Rules {
    /// What a SUBSCRIBE asks for that has passed everybody who may have something against it: the
    /// filters of its elements that nobody has refused.
    pub(crate) fn allowed_filters<'s>(
        &self,
        subscribe: &Subscribe<'s>,
        denials: &'s [Option<Denial>],
        decided: &'s Decided,
    ) -> impl Iterator<Item = &'s str> + use<'s> {
        let common = Common {
            bridge: false,
            id: None,
        };
        let most = self.settings.subscriptions_max;
        let elements = elements(common, subscribe, most, denials, decided);
        elements.filter(Wanting::is_allowed).map(|one| one.filter)
    }
}

/// A SUBSCRIBE whose elements outlive the packet; `None` without a connection.
pub(crate) fn owned_request(
    core: &Core,
    key: SessionKey,
    subscribe: &Subscribe<'_>,
    denials: &[Option<Denial>],
    decided: &Decided,
) -> Option<(Awaited, Vec<Element>, Asked)> {
    let common = common(core, key, subscribe)?;
    let most = core.rules.settings.subscriptions_max;
    let elements = elements(common, subscribe, most, denials, decided);
    let awaited = Awaited {
        packet_id: subscribe.packet_id,
        surplus: surplus(subscribe, most),
    };
    let asked = Wishes::new(subscribe.properties);
    Some((awaited, elements.map(Wanting::owned).collect(), asked))
}

/// What is the same for all elements of a SUBSCRIBE; `None` without a connection.
fn common(core: &Core, key: SessionKey, subscribe: &Subscribe<'_>) -> Option<Common> {
    let live = core.sessions.get(key)?.live()?;
    let bridge = live.extras.as_ref().is_some_and(|extras| extras.bridge);
    let id = subscribe.properties.subscription_id();
    Some(Common { bridge, id })
}

/// Takes a SUBSCRIBE, now or in slices. `denials` are what adaptors have against its elements,
/// and `decided` of what they were not asked; what is missing is allowed. `verdicts` are what
/// was said about its rooms.
pub(crate) fn begin(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    subscribe: &Subscribe<'_>,
    denials: &[Option<Denial>],
    decided: &Decided,
    verdicts: &Verdicts,
) -> Result<(), CloseReason> {
    let Some(common) = common(core, key, subscribe) else {
        return Ok(());
    };
    let asked = Wishes::new(subscribe.properties);
    let most = core.rules.settings.subscriptions_max;
    // What is behind those is refused in any case.
    let elements = elements(common, subscribe, most, denials, decided);
    let awaited = Awaited {
        packet_id: subscribe.packet_id,
        surplus: surplus(subscribe, most),
    };
    let is_long = slice::is_long(core, subscribe.filters.iter().rest(), || {
        subscribe.filters.count()
    });
    if is_long || slice::waits_to_share(core, elements.clone().map(|one| one.filter)) {
        let source = if elements.clone().all(|one| one.is_allowed()) {
            Source::packet(common, subscribe, most)
        } else {
            Source::elements(elements.map(Wanting::owned).collect())
        };
        subscribe_in_slices(core, key, awaited, source, asked, verdicts);
        return Ok(());
    }
    subscribe_all(core, now, key, Some(awaited), elements, asked, verdicts)
}

/// Goes on with a SUBSCRIBE that nobody waits for, and whose rooms have answered.
pub(crate) fn go_on(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    elements: &[Element],
    asked: Asked,
    verdicts: &Verdicts,
) {
    let all = elements.iter().map(Wanting::of);
    let result = subscribe_all(core, now, key, None, all, asked, verdicts);
    let below_rooms = elements.iter().filter(|it| room_of(&it.filter).is_some());
    for element in below_rooms {
        let session = core.sessions.get(key);
        let zone = session.map(|session| session.state.zone());
        let has = |zone| index::find(core, key, zone, None, &element.filter);
        if zone.and_then(has).is_none() {
            leave(core, key, &element.filter);
        }
    }
    if let Err(reason) = result {
        lifecycle::close(core, now, key, reason);
    }
}

/// A SUBSCRIBE whose rooms have answered.
pub(crate) struct Entering<'a> {
    pub(crate) awaited: Awaited,
    pub(crate) elements: Vec<Element>,
    pub(crate) asked: Asked,
    /// What the rooms have answered.
    pub(crate) verdicts: &'a Verdicts,
    /// The ticket of the packet that waits for its end.
    pub(crate) ticket: Ticket,
}

/// Goes on with a SUBSCRIBE whose rooms have answered, in slices if it is long. The session is
/// held already. Returns whether that is all; otherwise a [`Transition::Entered`] with its
/// ticket tells when it is.
pub(crate) fn go_on_entered(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    entering: Entering<'_>,
) -> bool {
    let Entering {
        awaited,
        elements,
        asked,
        verdicts,
        ticket,
    } = entering;
    let filters = elements.iter().map(|element| &*element.filter);
    if slice::fits_turn(core, elements.len()) && !slice::waits_to_share(core, filters) {
        let all = elements.iter().map(Wanting::of);
        let result = subscribe_all(core, now, key, Some(awaited), all, asked, verdicts);
        if let Err(reason) = result {
            lifecycle::close(core, now, key, reason);
        }
        hold::end(core, now, key);
        return true;
    }
    let source = Source::elements(elements);
    let mut job = Subscribing::new(awaited, source, asked, verdicts.clone());
    job.entered = Some(ticket);
    slice::subscribe_later(core, key, job);
    false
}

/// Subscribes, and acknowledges that if there is a packet to acknowledge.
fn subscribe_all<'f>(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    awaited: Option<Awaited>,
    mut elements: impl Iterator<Item = Wanting<'f>>,
    asked: Asked,
    verdicts: &Verdicts,
) -> Result<(), CloseReason> {
    let is_v5 = core.sessions.get(key).is_some_and(Session::speaks_v5);
    let mut tally = Tally::new(is_v5, awaited);
    subscribe_some(
        core,
        key,
        &mut elements,
        asked,
        verdicts,
        &mut tally,
        u32::MAX,
    )?;
    conclude(core, now, key, awaited, verdicts, &mut tally);
    Ok(())
}

/// Subscribes to some of the elements: until about this many visits are used up.
fn subscribe_some<'f>(
    core: &mut Core,
    key: SessionKey,
    elements: &mut impl Iterator<Item = Wanting<'f>>,
    asked: Asked,
    verdicts: &Verdicts,
    tally: &mut Tally<'f>,
    visits: u32,
) -> Result<(), CloseReason> {
    let before = core.turn.spent();
    while core.turn.spent() - before < visits
        && let Some(wanting) = elements.next()
    {
        core.turn.spend(filter_visits(wanting.filter));
        let (reason, why) = subscribe_one(core, key, wanting, asked, verdicts, &mut tally.wanted)?;
        if reason.is_error() {
            tally.refuse(&wanting, (reason, why), verdicts);
        }
        // 3.x knows one failure only [MQTT-3.9.3-2].
        let failed = reason.is_error() && !tally.is_v5;
        tally.reasons.push(if failed { 0x80 } else { reason as u8 });
    }
    Ok(())
}

/// Answers a SUBSCRIBE, and begins what follows its answer.
fn conclude(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    awaited: Option<Awaited>,
    verdicts: &Verdicts,
    tally: &mut Tally<'_>,
) {
    answer(core, key, awaited, verdicts, tally);
    for (at, wanted) in tally.wanted.iter().enumerate() {
        let is_small = at < AT_ONCE_MAX && !core.turn.is_overspent();
        let is_soon = is_small || !work::turn_is_spent(core);
        snapshot::enqueue(core, now, key, wanted, is_soon);
    }
    snapshot::begin(core, now, key);
    let filters = tally.wanted.iter().map(|wanted| wanted.filter);
    list_rooms_for(core, key, filters);
    ask_queues_first(core, now, key);
}

/// Tells what rooms there are, if that was subscribed to.
fn list_rooms_for<'f>(
    core: &mut Core,
    key: SessionKey,
    mut filters: impl Iterator<Item = &'f str>,
) {
    if filters.any(|filter| filter.starts_with(ROOM_LIST))
        && let Some(zone) = core.sessions.get(key).map(|session| session.state.zone())
    {
        core.pending.transitions.note(Transition::WantsRooms(zone));
    }
}

/// Answers a SUBSCRIBE.
fn answer(
    core: &mut Core,
    key: SessionKey,
    awaited: Option<Awaited>,
    verdicts: &Verdicts,
    tally: &mut Tally<'_>,
) {
    if let Some(awaited) = awaited {
        if tally.is_all_granted() && awaited.surplus == 0 {
            send_suback(core, key, awaited.packet_id, &tally.reasons, "");
        } else {
            answer_refused(core, key, awaited, tally);
        }
    }
    if tally.explains && !(verdicts.is_empty() && tally.is_all_granted()) {
        note_unexplained(core, key, verdicts, tally);
    }
}

/// No SUBACK tells the client why it is not let into rooms.
#[cold]
fn note_unexplained(core: &mut Core, key: SessionKey, verdicts: &Verdicts, tally: &mut Tally<'_>) {
    let refused = verdicts.iter();
    let refused = refused.filter_map(|(room, refusal)| Some((room, (*refusal)?)));
    // A session without a place as a member continues as the observer that it is.
    let refused = refused.filter(|(room, _)| !core.is_in_room(key, room));
    let refusals = tally.refusals();
    let denied = refusals.denied.iter();
    let others = refusals.no_joins.iter();
    let unexplained = Unexplained {
        refusals: refused.map(|(room, why)| (room.clone(), why)).collect(),
        denials: denied
            .map(|(filter, denial)| ((*filter).into(), (*denial).clone()))
            .collect(),
        others: others
            .map(|(filter, reason, why)| ((*filter).into(), *reason, (*why).into()))
            .collect(),
    };
    if !unexplained.is_empty() {
        let unexplained = Box::new(unexplained);
        core.pending
            .transitions
            .note(Transition::Unexplained(key, unexplained));
    }
}

fn subscribe_one<'a>(
    core: &mut Core,
    key: SessionKey,
    wanting: Wanting<'a>,
    asked: Asked,
    verdicts: &Verdicts,
    all_wanted: &mut AllWanted<'a>,
) -> Result<Answer<'a>, CloseReason> {
    let Wanting {
        filter: text,
        options,
        id,
        denial,
        refused,
    } = wanting;
    let subscription = match parsed(core, key, text) {
        Ok(subscription) => subscription,
        Err(why) => return Ok((ReasonCode::TopicFilterInvalid, why)),
    };
    let Subscription { share, filter } = subscription;
    if share.is_some() && options.no_local {
        return Err(CloseReason::Violation(Violation::SharedNoLocal));
    }
    if let Some(denial) = denial {
        return Ok((denial.reason, &denial.text));
    }
    if let Some(refused) = refused {
        if refused == no_right(filter) {
            permit::deny(core, key, text);
        }
        return Ok(refused);
    }
    let permitted = match permit::check(core, key, text, subscription, asked, verdicts) {
        Ok(permitted) => permitted,
        Err(refusal) => return Ok(refusal),
    };
    let (zone, wishes) = (permitted.zone, permitted.wishes);
    let options = grantable(core, key, subscription, options);
    let grant = Grant {
        options: Options::new(options, id),
        access: permitted.access,
        bytes: permitted.bytes,
        interval: wishes.interval.filter(|_| share.is_none()),
    };
    let reason = granted_reason(grant.options.qos());
    if let Some(group) = share {
        // Its SUBACK says that other shards know of it. Nothing is retained for what is shared.
        share::join(core, key, zone, group, filter, &grant, Telling::Now);
        return Ok((reason, ""));
    }
    let (subscribed, inserted) = index::add(core, key, zone, filter, &grant);
    if let Some(session) = core.sessions.get_mut(key) {
        let hasher = &core.outbox.hasher;
        session.set_rate(hasher, inserted.id, filter, wishes.interval);
    }
    let sends = sends_retained(options, subscribed == Subscribed::New);
    if (sends || wishes.has_end()) && !filter.starts_with(INBOXES) {
        all_wanted.push(Wanted {
            sends,
            marks_end: wishes.marks_end,
            history: wishes.history,
            id: inserted.id,
            filter,
            has_wildcard: inserted.has_wildcard,
            options: grant.options,
            mark: core.store.retained.mark(),
        });
    }
    Ok((reason, ""))
}

/// Refuses all of a SUBSCRIBE.
pub(crate) fn refuse(
    core: &mut Core,
    key: SessionKey,
    subscribe: &Subscribe<'_>,
    reason: ReasonCode,
    text: &str,
) {
    let is_v5 = core.sessions.get(key).is_some_and(Session::speaks_v5);
    let code = if is_v5 { reason as u8 } else { 0x80 };
    let reasons: SmallVec<[u8; 8]> = subscribe.filters.iter().map(|_| code).collect();
    send_suback(core, key, subscribe.packet_id, &reasons, text);
}

fn send_suback(core: &mut Core, key: SessionKey, packet_id: PacketId, reasons: &[u8], text: &str) {
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let Link::Live(live) = &mut session.link else {
        return;
    };
    // Without the text if that makes the packet too large [MQTT-3.9.2-1].
    for text in live.explanations(text) {
        let properties = explanation(text);
        let packet = Packet::SubAck(SubAck {
            packet_id,
            properties: properties.as_properties(),
            reasons,
        });
        if core.outbox.packet(key, live, &packet) {
            break;
        }
    }
}

/// Takes a SUBSCRIBE in slices, in this turn and in later ones.
#[cold]
fn subscribe_in_slices(
    core: &mut Core,
    key: SessionKey,
    awaited: Awaited,
    source: Source,
    asked: Asked,
    verdicts: &Verdicts,
) {
    let job = Subscribing::new(awaited, source, asked, verdicts.clone());
    hold::begin(core, key);
    slice::subscribe_later(core, key, job);
}

/// Answers a SUBSCRIBE of which a part was refused.
#[cold]
fn answer_refused(core: &mut Core, key: SessionKey, awaited: Awaited, tally: &mut Tally<'_>) {
    let Awaited { packet_id, surplus } = awaited;
    let code = if tally.is_v5 {
        ReasonCode::QuotaExceeded as u8
    } else {
        0x80
    };
    let all = tally.reasons.len() + surplus;
    tally.reasons.resize(all, code);
    let refusals = tally.refusals();
    if surplus > 0 && refusals.text.is_empty() {
        refusals.text = TOO_MANY;
    }
    let told = match (refusals.text, refusals.too_long) {
        (TOO_MANY, _) => Some(limits::tell_too_many(core, key, surplus > 0)),
        (TOO_LONG, Some(filter)) => Some(limits::tell_filter(core, key, filter)),
        _ => None,
    };
    let text = told.as_deref().unwrap_or(refusals.text);
    send_suback(core, key, packet_id, &tally.reasons, text);
}
