//! SUBSCRIBE and UNSUBSCRIBE.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hashbrown::HashSet;
use smallvec::SmallVec;
use stentor_mqtt::{
    Packet, PacketId, Properties, QoS, ReasonCode, RetainHandling, SubAck, Subscribe,
    SubscribeOptions, Unsubscribe,
};
use stentor_session::{CloseReason, Tick, Violation};
use stentor_topic::{FilterId, Inserted, Subscriber, Subscription, Zone};
use stentor_zone::{Interest, inbox};

use crate::acknowledge::explanation;
use crate::adaptor::{Denial, Refused, Scope};
use crate::conflate::{NO_RATE, NoRate, TOO_MANY_RATES, max_rate};
use crate::effects::Event;
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::options::Options;
use crate::rights::{Access, Identity};
use crate::room::{Cause, Element, JOINED_AT_ONCE_MAX, ROOM, ROOMS, Verdicts, room_of};
use crate::sessions::{Link, Session};
use crate::snapshot::{SNAPSHOT_END, Wanted};

/// A subscription as its session remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SubscriptionRef {
    /// An ordinary one.
    Filter(FilterId),
    /// Membership in a shared one, by its slot.
    Share(u32),
}

/// The subscriptions that an UNSUBSCRIBE has ended.
type Gone = HashSet<SubscriptionRef, foldhash::fast::FixedState>;

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

/// What a SUBSCRIBE asks for in user properties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// `max-rate`: the least time between two messages of one topic.
    interval: Option<Duration>,
    /// `snapshot-end`, whatever its value: a message that tells the end of the stored ones.
    marks_end: bool,
}

/// The wishes, if they make sense.
pub(crate) type Asked = Result<Wishes, NoRate>;

impl Wishes {
    /// None.
    pub(crate) const NOTHING: Self = Self {
        interval: None,
        marks_end: false,
    };

    /// Reads them. A rate that is none refuses the subscription: it is this server's own property.
    fn new(properties: Properties<'_>) -> Result<Self, NoRate> {
        let interval = max_rate(properties)?;
        let mut pairs = properties.user_properties();
        let marks_end = pairs.any(|(name, _)| name == SNAPSHOT_END);
        Ok(Self {
            interval,
            marks_end,
        })
    }
}

/// How the filters of private messages begin. Nothing is retained below it.
const INBOXES: &str = "$private/";

/// What a client is told that may not be in a room.
const NO_RIGHT: &str = "the right to be in this room is missing";

/// A filter as it was written, without `$share/<group>/`.
fn without_share(text: &str) -> &str {
    Subscription::parse(text).map_or(text, |subscription| subscription.filter)
}

/// How the filters of the list of rooms begin.
const ROOM_LIST: &str = "$rooms/";

/// Whether a filter is one that can be subscribed to, if it is one of a zone's.
fn check_zone_filter(
    identity: &Identity,
    share: Option<&str>,
    filter: &str,
) -> Result<(), (ReasonCode, &'static str)> {
    if !filter.starts_with('$') {
        return Ok(());
    }
    let interest = Interest::parse(filter);
    if let Some(text) = interest.never(share.is_some()) {
        return Err((ReasonCode::TopicFilterInvalid, text));
    }
    if interest == Interest::Inbox && identity.user.is_none() {
        let text = "private messages need a login with a user name";
        return Err((ReasonCode::NotAuthorized, text));
    }
    Ok(())
}

/// Why a subscription without the right to it is refused.
fn no_right(filter: &str) -> (ReasonCode, &'static str) {
    let is_room = filter.starts_with(ROOMS);
    (
        ReasonCode::NotAuthorized,
        if is_room { NO_RIGHT } else { "" },
    )
}

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

impl Hub {
    pub(crate) fn on_subscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
    ) -> Result<(), CloseReason> {
        self.subscribe_judged(now, key, subscribe, (&[], &Scope::default()))
    }

    /// A SUBSCRIBE, what adaptors have against its elements, and of what they were not asked; what
    /// is missing is allowed.
    pub(crate) fn subscribe_judged(
        &mut self,
        now: Tick,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        (denials, scope): (&[Option<Denial>], &Scope),
    ) -> Result<(), CloseReason> {
        let Some(live) = self
            .sessions
            .get_mut(key)
            .and_then(|session| session.live_mut())
        else {
            return Ok(());
        };
        let bridge = live.extras.as_ref().is_some_and(|extras| extras.bridge);
        let id = subscribe.properties.subscription_id();
        let asked = Wishes::new(subscribe.properties);
        let elements = subscribe.filters.iter().enumerate().map(|(at, element)| {
            let mut options = element.options;
            options.no_local |= bridge && !element.filter.starts_with("$share/");
            options.retain_as_published |= bridge;
            Wanting {
                filter: element.filter,
                options,
                id,
                denial: denials.get(at).and_then(Option::as_ref),
                refused: scope.refused(at),
            }
        });
        let packet_id = subscribe.packet_id;
        // What is behind those is refused in any case.
        let looked_at = elements.clone().take(self.settings.subscriptions_max);
        let is_allowed = |one: &Wanting<'_>| one.denial.is_none() && one.refused.is_none();
        let filters = looked_at.filter(is_allowed).map(|element| element.filter);
        let rooms = self.rooms_to_ask(key, filters, (&scope.unasked, JOINED_AT_ONCE_MAX));
        if !rooms.to_ask.is_empty() {
            let owned = |wanting: Wanting<'_>| Element {
                filter: wanting.filter.into(),
                options: wanting.options,
                id: wanting.id,
                denial: wanting.denial.cloned(),
                refused: wanting.refused,
                expelled: None,
            };
            let owned = (elements.clone().map(owned).collect(), asked);
            let cause = Cause::Subscribe(packet_id);
            if self.ask_rooms(now, key, &rooms, cause, owned).is_ok() {
                return Ok(());
            }
        }
        let verdicts = &rooms.verdicts;
        self.subscribe_all(now, key, Some(packet_id), elements, (asked, verdicts))
    }

    /// Goes on with a SUBSCRIBE whose rooms have answered.
    pub(crate) fn go_on_subscribing(
        &mut self,
        now: Tick,
        key: SessionKey,
        packet_id: Option<PacketId>,
        (elements, asked, verdicts): (&[Element], Asked, &Verdicts),
    ) {
        let elements = elements.iter().map(|element| Wanting {
            filter: &element.filter,
            options: element.options,
            id: element.id,
            denial: element.denial.as_ref(),
            refused: element.refused,
        });
        let result = self.subscribe_all(now, key, packet_id, elements, (asked, verdicts));
        if let Err(reason) = result {
            self.close(now, key, reason);
        }
    }

    /// Subscribes, and acknowledges that if there is a packet to acknowledge.
    fn subscribe_all<'f>(
        &mut self,
        now: Tick,
        key: SessionKey,
        packet_id: Option<PacketId>,
        elements: impl Iterator<Item = Wanting<'f>>,
        (asked, verdicts): (Asked, &Verdicts),
    ) -> Result<(), CloseReason> {
        let is_v5 = self.sessions.get(key).is_some_and(Session::speaks_v5);
        // There is no SUBACK, or it has no reasons.
        let explains = !is_v5 || packet_id.is_none();
        let mut reasons: SmallVec<[u8; 8]> = SmallVec::new();
        let mut wanted = AllWanted::new();
        let mut text = "";
        let mut denied: SmallVec<[(&str, &Denial); 2]> = SmallVec::new();
        let mut no_joins: Vec<(&str, ReasonCode, &str)> = Vec::new();
        let most = self.settings.subscriptions_max;
        for (at, wanting) in elements.enumerate() {
            let asked = (asked, verdicts);
            let (reason, why) = if at < most {
                self.subscribe_one(key, wanting, asked, &mut wanted)?
            } else {
                // A packet with more than a session may have is not looked at to its end.
                (ReasonCode::QuotaExceeded, "")
            };
            denied.extend(wanting.denial.map(|denial| (wanting.filter, denial)));
            if reason.is_error() && explains && wanting.denial.is_none() {
                let filter = without_share(wanting.filter);
                let room = filter.strip_prefix(ROOMS);
                let room = room.or_else(|| (filter == ROOM).then_some(""));
                // What the home of the zone says is told with the room that it was asked for.
                let is_told = |room: &str| {
                    let verdict = room.split('/').next().and_then(|room| verdicts.get(room));
                    verdict.is_some_and(Option::is_some)
                };
                if room.is_some_and(|room| !is_told(room)) {
                    no_joins.push((filter, reason, why));
                }
            }
            // One explanation for all of them: the first.
            text = if text.is_empty() { why } else { text };
            // 3.x knows one failure only [MQTT-3.9.3-2].
            let failed = reason.is_error() && !is_v5;
            reasons.push(if failed { 0x80 } else { reason as u8 });
        }
        if let Some(packet_id) = packet_id {
            self.send_suback(key, packet_id, &reasons, text);
        }
        if explains {
            self.explain_refusals(now, key, verdicts);
            for (filter, denial) in denied {
                self.explain_denial(now, key, filter, denial);
            }
            for no_join in no_joins {
                self.explain_no_join(now, key, no_join);
            }
        }
        let lists_rooms = wanted
            .iter()
            .any(|wanted| wanted.filter.starts_with(ROOM_LIST));
        for wanted in &wanted {
            self.begin_snapshot(now, key, wanted);
        }
        if let (true, Some(zone)) = (lists_rooms, self.sessions.get(key).map(Session::zone)) {
            self.list_rooms(now, zone);
        }
        Ok(())
    }

    fn subscribe_one<'a>(
        &mut self,
        key: SessionKey,
        wanting: Wanting<'a>,
        (asked, verdicts): (Asked, &Verdicts),
        all_wanted: &mut AllWanted<'a>,
    ) -> Result<Answer<'a>, CloseReason> {
        let Wanting {
            filter: text,
            options,
            id,
            denial,
            refused,
        } = wanting;
        let Ok(subscription) = Subscription::parse(text) else {
            return Ok((ReasonCode::TopicFilterInvalid, ""));
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
                self.deny_subscribe(key, text);
            }
            return Ok(refused);
        }
        let permitted = self.permit(key, text, subscription, (asked, verdicts));
        let (access, zone, wishes) = match permitted {
            Ok(permitted) => permitted,
            Err(refusal) => return Ok(refusal),
        };
        let granted = Options::new(options, id);
        let reason = granted_reason(granted.qos());
        if let Some(group) = share {
            if self.join_share(key, zone, group, filter, granted) {
                self.count_filtered(key, access);
            }
            // Nothing is retained for what is shared.
            return Ok((reason, ""));
        }
        let inserted = self.add_subscription(key, zone, filter, granted);
        let is_new = inserted.previous.is_none();
        if is_new {
            self.count_filtered(key, access);
        }
        if let Some(session) = self.sessions.get_mut(key) {
            session.set_rate(inserted.id, filter, wishes.interval);
        }
        let sends = sends_retained(options, is_new);
        let marks_end = wishes.marks_end;
        if (sends || marks_end) && !filter.starts_with(INBOXES) {
            all_wanted.push(Wanted {
                sends,
                marks_end,
                id: inserted.id,
                filter,
                has_wildcard: inserted.has_wildcard,
                options: granted,
                mark: self.retained.mark(),
            });
        }
        Ok((reason, ""))
    }

    /// Refuses all of a SUBSCRIBE.
    pub(crate) fn refuse_subscribe(
        &mut self,
        key: SessionKey,
        subscribe: &Subscribe<'_>,
        reason: ReasonCode,
        text: &str,
    ) {
        let is_v5 = self.sessions.get(key).is_some_and(Session::speaks_v5);
        let code = if is_v5 { reason as u8 } else { 0x80 };
        let reasons: SmallVec<[u8; 8]> = subscribe.filters.iter().map(|_| code).collect();
        self.send_suback(key, subscribe.packet_id, &reasons, text);
    }

    fn send_suback(&mut self, key: SessionKey, packet_id: PacketId, reasons: &[u8], text: &str) {
        let Some(session) = self.sessions.get_mut(key) else {
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
            if self.outbox.packet(key, live, &packet) {
                break;
            }
        }
    }

    /// The filter as it stands in the index: an inbox stands under its user's name.
    fn indexed<'f>(&self, key: SessionKey, filter: &'f str) -> Cow<'f, str> {
        if !filter.starts_with(INBOXES) {
            return filter.into();
        }
        let session = self.sessions.get(key);
        match session.and_then(|session| session.identity.user.as_deref()) {
            Some(user) => inbox::filter(user, filter).into(),
            None => filter.into(),
        }
    }

    /// How much of a subscription is permitted, or why nothing is.
    pub(crate) fn check_filter(
        &self,
        session: &Session,
        share: Option<&str>,
        filter: &str,
    ) -> Result<Access, (ReasonCode, &'static str)> {
        if !self.settings.takes_topic(filter) {
            return Err((ReasonCode::TopicFilterInvalid, ""));
        }
        check_zone_filter(&session.identity, share, filter)?;
        let access = session.identity.rights.may_subscribe(filter);
        if self.is_accepted(access) {
            Ok(access)
        } else {
            Err(no_right(filter))
        }
    }

    /// Whether a subscription is taken: how much of it is permitted, its zone, and what it wishes.
    fn permit(
        &mut self,
        key: SessionKey,
        text: &str,
        Subscription { share, filter }: Subscription<'_>,
        (asked, verdicts): (Asked, &Verdicts),
    ) -> Result<(Access, Zone, Wishes), Answer<'static>> {
        let Ok(wishes) = asked else {
            return Err((ReasonCode::ImplementationSpecificError, NO_RATE));
        };
        let Some(session) = self.sessions.get(key) else {
            return Err((ReasonCode::UnspecifiedError, ""));
        };
        let access = match self.check_filter(session, share, filter) {
            Ok(access) => access,
            Err(refusal) => {
                if refusal == no_right(filter) {
                    self.deny_subscribe(key, text);
                }
                return Err(refusal);
            }
        };
        let zone = session.zone();
        let known = || self.find_subscription(key, zone, share, filter);
        if self.is_full(session, text) && known().is_none() {
            return Err((ReasonCode::QuotaExceeded, ""));
        }
        let has_rate = share.is_none() && wishes.interval.is_some();
        if has_rate && !session.takes_rate() && !known().is_some_and(|it| session.has_rate(it)) {
            return Err((ReasonCode::QuotaExceeded, TOO_MANY_RATES));
        }
        if let Interest::Room { room } = Interest::parse(filter)
            && !self.is_in_room(key, room)
        {
            match verdicts.get(room) {
                Some(None) => {}
                Some(Some(refusal)) => {
                    let reason = ReasonCode::from_u8(refusal.code());
                    return Err((reason.unwrap_or(ReasonCode::NotAuthorized), refusal.text()));
                }
                None => return Err((ReasonCode::QuotaExceeded, "too many wait for rooms")),
            }
        }
        Ok((access, zone, wishes))
    }

    /// Whether a session has no room for another subscription, written like this.
    fn is_full(&self, session: &Session, text: &str) -> bool {
        self.places_left(session) == 0 || self.filter_bytes_left(session) < text.len()
    }

    /// How many bytes the filters of more subscriptions may have.
    pub(crate) fn filter_bytes_left(&self, session: &Session) -> usize {
        let max = self.settings.subscription_bytes_max;
        max.saturating_sub(session.filter_bytes as usize)
    }

    /// How many subscriptions more a session may have.
    pub(crate) fn places_left(&self, session: &Session) -> usize {
        let quota = session.identity.rights.quotas().subscriptions;
        let max = quota.map_or(usize::MAX, |quota| quota as usize);
        let max = self.settings.subscriptions_max.min(max);
        max.saturating_sub(session.subscriptions.len())
    }

    /// Puts an ordinary subscription into the index. Interest is raised before the SUBACK is
    /// queued.
    fn add_subscription(
        &mut self,
        key: SessionKey,
        zone: Zone,
        filter: &str,
        granted: Options,
    ) -> Inserted {
        let subscriber = Subscriber {
            session: key.slot,
            options: granted.bits(),
        };
        let indexed = self.indexed(key, filter);
        let hash = self.hasher.hash(zone, &indexed);
        let inserted = self.index.insert_hashed(zone, &indexed, hash, subscriber);
        if inserted.previous.is_some() {
            return inserted;
        }
        let whole = (!inserted.has_wildcard).then_some(hash);
        self.interest.raise(zone, &indexed, whole);
        self.stats.subscriptions += 1;
        if let Some(session) = self.sessions.get_mut(key) {
            session.subscribed(SubscriptionRef::Filter(inserted.id), filter.len());
            if let Some(room) = room_of(filter) {
                session.entered(room);
            }
        }
        inserted
    }

    pub(crate) fn deny_subscribe(&mut self, key: SessionKey, text: &str) {
        self.stats.denied += 1;
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        // The opposite of what it is for a publish, so that the two are told apart.
        let hash = !self.hasher.hash(session.zone(), text);
        if let Link::Live(live) = &mut session.link
            && live.extras().remember_refusal(hash)
        {
            let client_id = session.client_id.clone();
            let filter = text.into();
            let event = Event::SubscribeDenied { client_id, filter };
            self.effects.events.push(event);
        }
    }

    /// A subscription that a session has already.
    pub(crate) fn find_subscription(
        &self,
        key: SessionKey,
        zone: Zone,
        share: Option<&str>,
        filter: &str,
    ) -> Option<SubscriptionRef> {
        if let Some(group) = share {
            let found = SubscriptionRef::Share(self.shares.find(zone, group, filter)?);
            let session = self.sessions.get(key)?;
            return session.subscriptions.contains(&found).then_some(found);
        }
        let id = self.index.find(zone, &self.indexed(key, filter))?;
        self.index.options(id, key.slot)?;
        Some(SubscriptionRef::Filter(id))
    }

    pub(crate) fn on_unsubscribe(
        &mut self,
        now: Tick,
        key: SessionKey,
        unsubscribe: &Unsubscribe<'_>,
    ) {
        let mut gone = HashSet::default();
        let reasons: Vec<u8> = unsubscribe
            .filters
            .iter()
            .map(|filter| self.unsubscribe_one(key, filter, &mut gone) as u8)
            .collect();
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        // In one pass, for the packet may name them all.
        if !gone.is_empty() {
            let subscriptions = &mut session.subscriptions;
            subscriptions.retain(|subscription| !gone.contains(subscription));
        }
        let is_success = |reason: &u8| *reason == ReasonCode::Success as u8;
        let ended = unsubscribe.filters.iter().zip(&reasons);
        let ended = ended.filter(|(_, reason)| is_success(reason));
        self.unsubscribed_rooms(now, key, ended.map(|(filter, _)| filter));
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let Link::Live(live) = &mut session.link else {
            return;
        };
        let packet = Packet::UnsubAck(SubAck {
            packet_id: unsubscribe.packet_id,
            properties: Properties::EMPTY,
            reasons: &reasons,
        });
        self.outbox.packet(key, live, &packet);
    }

    /// Ends one subscription; it stays in the session's own list, and stands in `gone`.
    fn unsubscribe_one(&mut self, key: SessionKey, text: &str, gone: &mut Gone) -> ReasonCode {
        let Ok(Subscription { share, filter }) = Subscription::parse(text) else {
            return ReasonCode::TopicFilterInvalid;
        };
        let Some(session) = self.sessions.get(key) else {
            return ReasonCode::UnspecifiedError;
        };
        let zone = session.zone();
        let found = self.find_subscription(key, zone, share, filter);
        let Some(found) = found.filter(|found| gone.insert(*found)) else {
            return ReasonCode::NoSubscriptionExisted;
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.forget_filtered(filter);
            // What is left of a snapshot is not wanted any more.
            if let SubscriptionRef::Filter(id) = found {
                session.forget_snapshot(id);
            }
        }
        self.drop_subscription(key, found, true);
        ReasonCode::Success
    }

    /// Takes one subscription out of the index.
    pub(crate) fn drop_subscription(
        &mut self,
        key: SessionKey,
        subscription: SubscriptionRef,
        was_live: bool,
    ) {
        self.stats.subscriptions = self.stats.subscriptions.saturating_sub(1);
        let bytes = match subscription {
            SubscriptionRef::Filter(id) => {
                let (zone, filter) = self.index.filter(id);
                let bytes = inbox::written(filter).len();
                self.interest.lower(zone, filter);
                if let Some(session) = self.sessions.get_mut(key) {
                    session.set_rate(id, "", None);
                    if let Some(room) = room_of(filter) {
                        session.left(room);
                    }
                }
                self.index.remove(id, key.slot);
                bytes
            }
            SubscriptionRef::Share(slot) => {
                let bytes = self.shares.text_len(slot);
                self.leave_share(slot, key.slot, was_live);
                bytes
            }
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.unsubscribed(bytes);
        }
    }

    /// The filter of a subscription as its client wrote it, without the share group.
    pub(crate) fn filter_of(&self, subscription: SubscriptionRef) -> Cow<'_, str> {
        match subscription {
            SubscriptionRef::Filter(id) => inbox::written(self.index.filter(id).1),
            SubscriptionRef::Share(slot) => self.shares.filter(slot).into(),
        }
    }

    /// The filters of a session, as it wrote them, for inspection.
    #[must_use]
    pub fn subscriptions(&self, key: SessionKey) -> Vec<Arc<str>> {
        let Some(session) = self.sessions.get(key) else {
            return Vec::new();
        };
        let text = |subscription: &SubscriptionRef| match subscription {
            SubscriptionRef::Filter(_) => Arc::from(self.filter_of(*subscription)),
            SubscriptionRef::Share(slot) => Arc::from(self.shares.text(*slot).as_str()),
        };
        session.subscriptions.iter().map(text).collect()
    }
}
