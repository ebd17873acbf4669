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

/// Subscribers that a step over filters counts, and those of one filter more.
const SUBSCRIBERS: usize = 4_096;

/// Where shared subscriptions begin, behind all numbers of filters.
const SHARES: u64 = 1 << 32;

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
    for slot in (from..to).filter_map(|slot| u32::try_from(slot).ok()) {
        if let Some((key, session)) = in_slot(&core.sessions, slot) {
            look(seen(key, session));
        }
    }
    (to < end).then_some(to)
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

/// Figures of zones: in the first step those that are there already, and in each those of some
/// sessions.
pub(crate) fn zone_figures(core: &Core, from: u64) -> Part<BTreeMap<u32, ZoneFigures>> {
    sessions(core, from).map(|found| {
        let mut zones: BTreeMap<u32, ZoneFigures> = BTreeMap::new();
        for (_, session) in found {
            let zone = zones.entry(session.state.zone().get()).or_default();
            zone.sessions += 1;
            zone.connections += u64::from(session.live().is_some());
            zone.subscriptions += session.state.subscriptions.len() as u64;
        }
        if from == 0 {
            for (zone, traffic) in core.counters.traffic.iter() {
                zones.entry(zone.get()).or_default().traffic = traffic;
            }
        }
        zones
    })
}

/// A filter with its zone and the number of subscribers, as `$share/GROUP/FILTER` if it is shared.
pub type Subscribed<'a> = (Zone, Cow<'a, str>, usize);

/// Filters with subscribers on this shard, from a place on.
pub(crate) fn filters(core: &Core, from: u64) -> Part<Vec<Subscribed<'_>>> {
    match from.checked_sub(SHARES) {
        None => plain_filters(core, from),
        Some(slot) => shared_filters(core, slot),
    }
}

fn plain_filters(core: &Core, from: u64) -> Part<Vec<Subscribed<'_>>> {
    let index = &core.routing.index;
    let end = u64::from(index.numbers_end());
    let to = from.saturating_add(SLOTS).min(end);
    let (mut found, mut subscribers, mut next) = (Vec::new(), 0, from);
    while next < to && subscribers < SUBSCRIBERS {
        let filter = u32::try_from(next).ok().and_then(|n| index.numbered(n));
        next += 1;
        let Some(filter) = filter else {
            continue;
        };
        subscribers += filter.subscribers.len();
        let count = own_sessions(filter.subscribers);
        if count > 0 {
            found.push((filter.zone, Cow::Borrowed(filter.text), count));
        }
    }
    let next = if next < end { next } else { SHARES };
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
        next: part.next.map(|slot| SHARES + slot),
        found: part.found,
    }
}
