//! The subscriptions of sessions in the index, and out of it.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use stentor_mqtt::QoS;
use stentor_session_log::Filter;
use stentor_topic::{Inserted, Subscriber, Zone, matches};
use stentor_zone::inbox;

use super::permit::cost;
use super::{INBOXES, SubscriptionRef};
use crate::core::Core;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{permit, room_of};
use crate::core::routing::options::Options;
use crate::core::routing::share;
use crate::core::sessions::registry::Sessions;
use crate::core::sessions::state::{Grant, StoredMessages, Subscribed};

/// A subscription of a session, as it was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its filter, as the client wrote it.
    pub filter: Arc<str>,
    /// The most that its messages come with.
    pub qos: QoS,
    /// Whether the client does not get by it what it has published itself.
    pub no_local: bool,
    /// The least time between two messages of a topic that it asks for.
    pub interval: Option<Duration>,
}

impl Sessions {
    /// The filter as it is in the index: an inbox stands under its user's name.
    fn indexed<'f>(&self, key: SessionKey, filter: &'f str) -> Cow<'f, str> {
        if !filter.starts_with(INBOXES) {
            return filter.into();
        }
        let session = self.get(key);
        indexed(session.and_then(|session| session.state.user()), filter)
    }
}

/// The filter of a session of this user as it is in the index.
pub(crate) fn indexed<'f>(user: Option<&str>, filter: &'f str) -> Cow<'f, str> {
    match user {
        Some(user) if filter.starts_with(INBOXES) => inbox::filter(user, filter).into(),
        _ => filter.into(),
    }
}

/// Puts an ordinary subscription into the index. Interest is raised before the SUBACK is
/// queued.
pub(in crate::core) fn add(
    core: &mut Core,
    key: SessionKey,
    zone: Zone,
    filter: &str,
    grant: &Grant,
) -> (Subscribed, Inserted) {
    let subscriber = Subscriber {
        session: key.slot,
        options: grant.options.bits(),
    };
    let indexed = core.sessions.indexed(key, filter);
    let hash = core.place.hasher.hash(zone, &indexed);
    let inserted = core
        .routing
        .index
        .insert_hashed(zone, &indexed, hash, subscriber);
    let session = core.sessions.get_mut(key);
    let subscribed = session.map_or(Subscribed::New, |session| {
        let subscription = SubscriptionRef::Filter(inserted.id);
        let before = inserted.previous.map(Options::from_bits);
        let named = Filter {
            group: None,
            filter,
        };
        let stored = match Snapshots::are_due(session, inserted.id) {
            true => StoredMessages::Due,
            false => StoredMessages::Settled,
        };
        let (state, log) = (&mut session.state, &mut core.pending.log);
        let subscribed = state.subscribe(subscription, named, grant, stored, before, log);
        if subscribed == Subscribed::New
            && let Some(room) = room_of(filter)
            && let Some(live) = session.live_mut()
        {
            live.entered(room);
        }
        subscribed
    });
    if subscribed == Subscribed::New {
        let whole = (!inserted.has_wildcard).then_some(hash);
        core.routing.interest.raise(zone, &indexed, whole);
        core.counters.stats.subscriptions += 1;
        core.routing.routes.subscribed(key.slot, inserted.id);
    }
    (subscribed, inserted)
}

/// A subscription that a session has already.
pub(crate) fn find(
    core: &Core,
    key: SessionKey,
    zone: Zone,
    share: Option<&str>,
    filter: &str,
) -> Option<SubscriptionRef> {
    if let Some(group) = share {
        let slot = core.routing.shares.find(zone, group, filter)?;
        let is_member = core.routing.shares.has_member(slot, key.slot);
        return is_member.then_some(SubscriptionRef::Share(slot));
    }
    let id = core
        .routing
        .index
        .find(zone, &core.sessions.indexed(key, filter))?;
    core.routing.index.options(id, key.slot)?;
    Some(SubscriptionRef::Filter(id))
}

/// Takes one subscription out of the index.
pub(in crate::core) fn remove(
    core: &mut Core,
    key: SessionKey,
    subscription: SubscriptionRef,
    was_live: bool,
) {
    core.counters.stats.subscriptions = core.counters.stats.subscriptions.saturating_sub(1);
    match subscription {
        SubscriptionRef::Filter(id) => {
            let (zone, filter) = core.routing.index.filter(id);
            let written = inbox::written(filter);
            let bytes = permit::subscription_cost(core, None, &written);
            core.routing.interest.lower(zone, filter);
            if let Some(session) = core.sessions.get_mut(key) {
                let what = Filter {
                    group: None,
                    filter: &written,
                };
                session
                    .state
                    .unsubscribe(what, bytes, &mut core.pending.log);
                session.forget_rate(id);
                if let Some(room) = room_of(filter)
                    && let Some(live) = session.live_mut()
                {
                    live.left(room);
                }
            }
            core.routing.index.remove(id, key.slot);
            core.routing.routes.unsubscribed(key.slot, id);
        }
        SubscriptionRef::Share(slot) => {
            if let Some(name) = core.routing.shares.name(slot)
                && let Some(session) = core.sessions.get_mut(key)
            {
                let (group, filter) = (Some(&*name.group), &*name.filter);
                let bytes = cost(group, filter, core.place.shards);
                let what = Filter { group, filter };
                session
                    .state
                    .unsubscribe(what, bytes, &mut core.pending.log);
            }
            share::leave(core, slot, key.slot, was_live);
        }
    }
}

/// The filter of a subscription as its client wrote it, without the share group.
pub(crate) fn filter_of(core: &Core, subscription: SubscriptionRef) -> Cow<'_, str> {
    match subscription {
        SubscriptionRef::Filter(id) => inbox::written(core.routing.index.filter(id).1),
        SubscriptionRef::Share(slot) => core.routing.shares.filter(slot).into(),
    }
}

/// The subscriptions of a session, for inspection.
pub(crate) fn granted(core: &Core, key: SessionKey) -> Vec<Granted> {
    let session = core.sessions.get(key);
    let all = session.map_or(&[][..], |session| session.state.subscriptions.as_slice());
    all.iter()
        .map(|subscription| grant_of(core, key, *subscription))
        .collect()
}

pub(in crate::core) fn grant_of(
    core: &Core,
    key: SessionKey,
    subscription: SubscriptionRef,
) -> Granted {
    let (filter, options) = match subscription {
        SubscriptionRef::Filter(id) => {
            let options = core
                .routing
                .index
                .options(id, key.slot)
                .map(Options::from_bits);
            (Arc::from(filter_of(core, subscription)), options)
        }
        SubscriptionRef::Share(slot) => {
            let options = core.routing.shares.options(slot, key.slot);
            (Arc::from(core.routing.shares.text(slot).as_str()), options)
        }
    };
    let session = core.sessions.get(key);
    Granted {
        filter,
        qos: options.map_or(QoS::AtMostOnce, Options::qos),
        no_local: options.is_some_and(Options::no_local),
        interval: session.and_then(|session| session.rate_of(subscription)),
    }
}

/// The subscriptions of a session that match a topic: of all its subscriptions from a number
/// on, this many are looked at; and with which to go on, if there are more. O(`at_most`).
pub(crate) fn matching(
    core: &Core,
    key: SessionKey,
    topic: &str,
    from: usize,
    at_most: usize,
) -> (Vec<Granted>, Option<usize>) {
    let session = core.sessions.get(key);
    let all = session.map_or(&[][..], |session| session.state.subscriptions.as_slice());
    let until = from.saturating_add(at_most).min(all.len());
    let some = all.get(from..until).unwrap_or_default();
    let found = some
        .iter()
        .filter(|subscription| matches(&filter_of(core, **subscription), topic))
        .map(|subscription| grant_of(core, key, *subscription))
        .collect();
    (found, (until < all.len()).then_some(until))
}

/// The filters of a session, as it wrote them, for inspection.
pub(crate) fn subscriptions(core: &Core, key: SessionKey) -> Vec<Arc<str>> {
    let granted = granted(core, key).into_iter();
    granted.map(|granted| granted.filter).collect()
}

/// Subscriptions that a step of [`granted_from`] has, and bytes of their filters, but for the last.
const GRANTED_AT_ONCE: usize = 128;
const FILTER_BYTES: usize = 32 * 1024;

/// Some subscriptions of a session: see [`crate::survey::granted_from`].
pub(crate) fn granted_from(
    core: &Core,
    key: SessionKey,
    from: usize,
) -> (Vec<Granted>, Option<usize>) {
    let session = core.sessions.get(key);
    let all = session.map_or(&[][..], |session| session.state.subscriptions.as_slice());
    let (mut found, mut filter_bytes) = (Vec::new(), 0);
    for subscription in all.get(from..).unwrap_or_default() {
        if found.len() >= GRANTED_AT_ONCE || filter_bytes >= FILTER_BYTES {
            let next = from + found.len();
            return (found, Some(next));
        }
        let granted = grant_of(core, key, *subscription);
        filter_bytes += granted.filter.len();
        found.push(granted);
    }
    (found, None)
}
