//! Whether a session may have a subscription.

use alloc::sync::Arc;

use stentor_mqtt::ReasonCode;
use stentor_topic::{Subscription, Zone, filter_cost, has_wildcard, wildcards};
use stentor_zone::Interest;

use super::{Answer, Asked, Wishes};
use crate::core::delivery::conflate::TOO_MANY_RATES;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{ROOMS, Verdicts, index};
use crate::core::routing::share::{self, SHARE_BYTES};
use crate::core::sessions::log::{DISK_FULL, is_full};
use crate::core::sessions::registry::{Link, Session};
use crate::core::sessions::rights::{Access, Identity};
use crate::core::settings::Settings;
use crate::core::{Core, Rules};
use crate::effects::Event;

/// A subscription that is taken.
pub(super) struct Permitted {
    /// How much of it is permitted.
    pub(super) access: Access,
    pub(super) zone: Zone,
    pub(super) wishes: Wishes,
    /// What it is charged with.
    pub(super) bytes: usize,
}

/// The answer to a client that may not be in a room.
const NO_RIGHT: &str = "the right to be in this room is missing";

/// The same of a filter of no room.
const NO_RIGHT_TO_READ: &str = "the right to receive what this filter matches is missing";

/// The answer to a client whose filter is longer, or has more levels, than this server takes.
pub(crate) const TOO_LONG: &str =
    "this filter is longer, or has more levels, than this server takes";

/// The answer to a client whose group of a shared subscription has a longer name than a topic.
const GROUP_TOO_LONG: &str =
    "the group of this shared subscription has a longer name than this server takes";

/// The answer to a client that has no place for another subscription.
pub(crate) const TOO_MANY: &str = "this session has as many subscriptions as it may have";

/// The answer to a client whose filter has too many wildcards.
const TOO_MANY_WILDCARDS: &str = "this filter has more wildcards than one may have";

/// Whether a filter has no more wildcards than this server takes from anybody, or why not: they
/// make it expensive to find who gets the messages of others. O(length of the filter).
fn check_filter_bounds(
    settings: &Settings,
    filter: &str,
) -> Result<(), (ReasonCode, &'static str)> {
    let most = settings.topic_wildcards_max;
    // Each takes a byte, and a slash parts it from the next one.
    let may_have_more = filter.len() / 2 >= most && has_wildcard(filter);
    if may_have_more && wildcards(filter) > most {
        return Err((ReasonCode::QuotaExceeded, TOO_MANY_WILDCARDS));
    }
    Ok(())
}

/// The bytes of memory that a subscription is charged with. All shards know of a shared one.
pub(super) fn cost(share: Option<&str>, filter: &str, shards: u8) -> usize {
    let Some(group) = share else {
        return filter_cost(filter);
    };
    // The name stands there once more.
    let of_one = SHARE_BYTES + group.len() + filter.len() + filter_cost(filter);
    of_one * usize::from(shards)
}

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
pub(super) fn no_right(filter: &str) -> (ReasonCode, &'static str) {
    let is_room = filter.starts_with(ROOMS);
    (
        ReasonCode::NotAuthorized,
        match is_room {
            true => NO_RIGHT,
            false => NO_RIGHT_TO_READ,
        },
    )
}

impl Rules {
    /// How many bytes of memory more subscriptions may take.
    pub(crate) fn filter_bytes_left(&self, session: &Session) -> usize {
        let max = self.settings.subscription_bytes_max;
        max.saturating_sub(session.state.subscriptions.bytes())
    }

    /// How many subscriptions more a session may have.
    pub(crate) fn places_left(&self, session: &Session) -> usize {
        let quota = session.state.identity().rights.quotas().subscriptions;
        let max = quota.map_or(usize::MAX, |quota| quota as usize);
        let max = self.settings.subscriptions_max.min(max);
        max.saturating_sub(session.state.subscriptions.len())
    }

    /// Whether a session has room for another subscription that costs this many bytes.
    fn have_room_for(&self, session: &Session, bytes: usize) -> bool {
        self.places_left(session) > 0 && self.filter_bytes_left(session) >= bytes
    }
}

/// How much of a subscription is permitted, or why nothing is.
pub(crate) fn check_filter(
    core: &Core,
    key: SessionKey,
    session: &Session,
    share: Option<&str>,
    filter: &str,
) -> Result<Access, (ReasonCode, &'static str)> {
    // What it has already it keeps, though the limits have changed since.
    let is_known = || {
        let known = index::find(core, key, session.state.zone(), share, filter);
        known.is_some()
    };
    let settings = &core.rules.settings;
    if !settings.takes_topic(filter) && !is_known() {
        return Err((ReasonCode::TopicFilterInvalid, TOO_LONG));
    }
    let is_long = |group: &str| group.len() > settings.topic_bytes_max;
    if share.is_some_and(is_long) && !is_known() {
        return Err((ReasonCode::TopicFilterInvalid, GROUP_TOO_LONG));
    }
    check_zone_filter(session.state.identity(), share, filter)?;
    let access = session.state.identity().rights.may_subscribe(filter);
    if !core.rules.is_accepted(access) {
        return Err(no_right(filter));
    }
    let is_dear = check_filter_bounds(&core.rules.settings, filter)
        .and_then(|()| share::check(core, key, session.state.zone(), share, filter))
        .and_then(|()| match session.state.is_persistent() && is_full(core) {
            true => Err(DISK_FULL),
            false => Ok(()),
        });
    match is_dear {
        Err(refusal) if !is_known() => Err(refusal),
        _ => Ok(access),
    }
}

/// Whether a subscription is taken: how much of it is permitted, its zone, and what it wishes.
pub(super) fn check(
    core: &mut Core,
    key: SessionKey,
    text: &str,
    Subscription { share, filter }: Subscription<'_>,
    asked: Asked,
    verdicts: &Verdicts,
) -> Result<Permitted, Answer<'static>> {
    let wishes = asked.map_err(|why| (ReasonCode::ImplementationSpecificError, why))?;
    let Some(session) = core.sessions.get(key) else {
        return Err((ReasonCode::UnspecifiedError, ""));
    };
    let access = match check_filter(core, key, session, share, filter) {
        Ok(access) => access,
        Err(refusal) => {
            if refusal == no_right(filter) {
                deny(core, key, text);
            }
            return Err(refusal);
        }
    };
    let zone = session.state.zone();
    let known = || index::find(core, key, zone, share, filter);
    let bytes = subscription_cost(core, share, filter);
    if !core.rules.have_room_for(session, bytes) && known().is_none() {
        return Err((ReasonCode::QuotaExceeded, TOO_MANY));
    }
    let has_rate = share.is_none() && wishes.interval.is_some();
    if has_rate && !session.takes_rate(filter) && !known().is_some_and(|it| session.has_rate(it)) {
        return Err((ReasonCode::QuotaExceeded, TOO_MANY_RATES));
    }
    if let Interest::Room { room } = Interest::parse(filter)
        && !core.is_in_room(key, room)
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
    Ok(Permitted {
        access,
        zone,
        wishes,
        bytes,
    })
}

/// The bytes of memory that a subscription is charged with. O(length of the filter).
pub(crate) fn subscription_cost(core: &Core, share: Option<&str>, filter: &str) -> usize {
    cost(share, filter, core.place.shards)
}

pub(in crate::core) fn deny(core: &mut Core, key: SessionKey, text: &str) {
    core.counters.stats.denied += 1;
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    // The opposite of what it is for a publish, so that the two can be distinguished.
    let hash = !core.place.hasher.hash(session.state.zone(), text);
    if let Link::Live(live) = &mut session.link
        && live.extras().remember_refusal(hash)
    {
        let client_id = session.state.client_id().into();
        let event = Event::SubscribeDenied {
            client_id,
            identity: Arc::clone(session.state.identity()),
            filter: text.into(),
        };
        core.effects.events.push(event);
    }
}
