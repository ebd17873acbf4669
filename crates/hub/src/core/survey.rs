//! Looking at everything of a shard in steps, none of which takes long.
//!
//! The caller comes back for each step with the place where the last one ended. What is there
//! from the first step to the last is seen once; what comes or goes between them is seen or not.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use stentor_topic::Zone;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inspect::{SeenClient, ZoneFigures, seen};
use crate::core::memory::{Account, Holder};
use crate::core::sessions::registry::{Session, in_slot};
use crate::core::upkeep::own_sessions;

/// Slots that a step looks into.
const SLOTS: u64 = 256;

/// Bytes of names that a step shows, and those of one session or filter more: clients choose them,
/// and somebody copies them.
const NAME_BYTES: usize = 32 * 1024;

/// Subscribers that a step over filters counts, and those of one filter more.
const SUBSCRIBERS: usize = 4_096;

/// Where shared subscriptions begin, behind all numbers of filters, and zones, behind all slots of
/// sessions.
const BEHIND: u64 = 1 << 32;

/// What one step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<T> {
    /// What it was.
    pub found: T,
    /// Where the next step begins; `None` after the last one.
    pub next: Option<u64>,
}

impl<T> Part<T> {
    /// The same step with something made of what it has found.
    pub fn map<R>(self, make: impl FnOnce(T) -> R) -> Part<R> {
        Part {
            found: make(self.found),
            next: self.next,
        }
    }
}

/// Looks into some slots, of those before the end.
fn step<T>(from: u64, end: usize, look: impl FnMut(u64) -> Option<T>) -> Part<Vec<T>> {
    let to = from.saturating_add(SLOTS).min(end as u64);
    Part {
        found: (from..to).filter_map(look).collect(),
        next: (to < end as u64).then_some(to),
    }
}

fn sessions(core: &Core, from: u64) -> Part<Vec<(SessionKey, &Session)>> {
    let look = |slot| in_slot(&core.sessions, u32::try_from(slot).ok()?);
    step(from, core.sessions.slots(), look)
}

/// Shows sessions from a place on, without a copy of anything. Returns where the next step begins.
pub(crate) fn each_client(
    core: &Core,
    from: u64,
    mut look: impl FnMut(SeenClient<'_>),
) -> Option<u64> {
    let end = core.sessions.slots() as u64;
    let to = from.saturating_add(SLOTS).min(end);
    let (mut next, mut name_bytes) = (from, 0);
    while next < to && name_bytes < NAME_BYTES {
        let slot = u32::try_from(next).ok();
        next += 1;
        if let Some((key, session)) = slot.and_then(|slot| in_slot(&core.sessions, slot)) {
            let seen = seen(key, session);
            name_bytes += seen.info.client_id.len() + seen.info.user.map_or(0, str::len);
            look(seen);
        }
    }
    (next < end).then_some(next)
}

/// The sessions of a zone from a place on, as many as this; and where the next step begins.
pub(crate) fn sessions_of(
    core: &Core,
    zone: Zone,
    from: u64,
    at_most: usize,
) -> Part<Vec<SessionKey>> {
    let end = core.sessions.slots() as u64;
    let to = from.saturating_add(SLOTS).min(end);
    let (mut found, mut next) = (Vec::new(), from);
    while next < to && found.len() < at_most {
        let slot = u32::try_from(next).ok();
        next += 1;
        let session = slot.and_then(|slot| in_slot(&core.sessions, slot));
        let own = session.filter(|(_, session)| session.state.zone() == zone);
        found.extend(own.map(|(key, _)| key));
    }
    Part {
        found,
        next: (next < end).then_some(next),
    }
}

/// Of the sessions from a place on those that hold most, at most this many, in order.
pub(crate) fn holders(core: &Core, from: u64, at_most: usize) -> Part<Vec<Holder>> {
    sessions(core, from).map(|found| {
        let bytes = |session: &Session| Account::of(session).bytes();
        let mut all: Vec<(u64, &Session)> = found
            .into_iter()
            .map(|(_, session)| (bytes(session), session))
            .collect();
        all.sort_by_key(|(bytes, _)| core::cmp::Reverse(*bytes));
        all.truncate(at_most);
        let holder = |(bytes, session): (u64, &Session)| Holder {
            zone: session.state.zone(),
            client_id: session.state.client_id().into(),
            user: session.state.identity().user.clone(),
            is_connected: session.live().is_some(),
            bytes,
        };
        all.into_iter().map(holder).collect()
    })
}

/// Figures of zones: in each step those of some sessions. Behind all of them, each step has zones
/// with these numbers, of which the caller says what else there is.
pub(crate) fn zone_figures(
    core: &Core,
    from: u64,
    of_zone: impl FnMut(Zone, &mut ZoneFigures),
) -> Part<Vec<(Zone, ZoneFigures)>> {
    match from.checked_sub(BEHIND) {
        None => figures_of_sessions(core, from),
        Some(number) => figures_of_zones(core, number, of_zone),
    }
}

fn figures_of_sessions(core: &Core, from: u64) -> Part<Vec<(Zone, ZoneFigures)>> {
    let part = sessions(core, from);
    let mut zones: BTreeMap<u32, ZoneFigures> = BTreeMap::new();
    for (_, session) in part.found {
        let zone = zones.entry(session.state.zone().get()).or_default();
        zone.sessions += 1;
        zone.connections += u64::from(session.live().is_some());
        zone.subscriptions += session.state.subscriptions.len() as u64;
        zone.session_bytes += Account::of(session).bytes();
    }
    let numbered = |(zone, figures)| (Zone(zone), figures);
    Part {
        found: zones.into_iter().map(numbered).collect(),
        next: part.next.or(Some(BEHIND)),
    }
}

fn figures_of_zones(
    core: &Core,
    from: u64,
    mut of_zone: impl FnMut(Zone, &mut ZoneFigures),
) -> Part<Vec<(Zone, ZoneFigures)>> {
    let look = |number| {
        let zone = Zone(u32::try_from(number).ok()?);
        let traffic = core.counters.traffic.seen(zone).unwrap_or_default();
        let mut figures = ZoneFigures {
            traffic,
            ..ZoneFigures::default()
        };
        of_zone(zone, &mut figures);
        (figures != ZoneFigures::default()).then_some((zone, figures))
    };
    let part = step(from, core.counters.traffic.end(), look);
    Part {
        next: part.next.map(|number| BEHIND + number),
        found: part.found,
    }
}

/// A filter with its zone and the number of subscribers, as `$share/GROUP/FILTER` if it is shared.
pub type Subscribed<'a> = (Zone, Cow<'a, str>, usize);

/// Filters with subscribers on this shard, from a place on.
pub(crate) fn filters(core: &Core, from: u64) -> Part<Vec<Subscribed<'_>>> {
    match from.checked_sub(BEHIND) {
        None => plain_filters(core, from),
        Some(slot) => shared_filters(core, slot),
    }
}

fn plain_filters(core: &Core, from: u64) -> Part<Vec<Subscribed<'_>>> {
    let index = &core.routing.index;
    let end = u64::from(index.numbers_end());
    let to = from.saturating_add(SLOTS).min(end);
    let (mut found, mut subscribers, mut next) = (Vec::new(), 0, from);
    let mut name_bytes = 0;
    while next < to && subscribers < SUBSCRIBERS && name_bytes < NAME_BYTES {
        let filter = u32::try_from(next).ok().and_then(|n| index.numbered(n));
        next += 1;
        let Some(filter) = filter else {
            continue;
        };
        subscribers += filter.subscribers.len();
        name_bytes += filter.text.len();
        let count = own_sessions(filter.subscribers);
        if count > 0 {
            found.push((filter.zone, Cow::Borrowed(filter.text), count));
        }
    }
    let next = if next < end { next } else { BEHIND };
    Part {
        found,
        next: Some(next),
    }
}

fn shared_filters(core: &Core, from: u64) -> Part<Vec<Subscribed<'_>>> {
    let shares = &core.routing.shares;
    let look = |slot| {
        let (name, members) = shares.in_slot(usize::try_from(slot).ok()?)?;
        let filter = || format!("$share/{}/{}", name.group, name.filter);
        (members > 0).then(|| (name.zone, Cow::Owned(filter()), members))
    };
    let part = step(from, shares.slots_end(), look);
    Part {
        next: part.next.map(|slot| BEHIND + slot),
        found: part.found,
    }
}
