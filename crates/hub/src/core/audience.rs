//! The audience of a topic, for people: found in the index, as a publish finds it, and in steps.
//! See [`crate::survey::filters_matching`] and [`crate::survey::audience_of`].

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_topic::{FilterId, Subscriber, Walk, Zone, matches};

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Granted, SubscriptionRef, index};
use crate::core::routing::options::as_share;
use crate::core::sessions::rights::Rights;

/// What one step of a match may cost, in visits: about 30 µs, and what it takes to copy filters.
const MATCH_VISITS: u32 = 1_000;

/// Places in lists of subscribers, and of members of shared subscriptions, that one step looks at.
const LOOKS_MAX: usize = 128;

/// The filters that a step has found.
#[derive(Debug, Default)]
pub struct FoundFilters {
    /// Each may come again in a later step.
    pub filters: Vec<Box<str>>,
    /// What the next step goes on with, if there is more to find.
    pub rest: Option<Walk>,
}

/// Where a list of subscribers goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AudiencePlace {
    /// The place in the list of a filter.
    pub subscriber: u32,
    /// If a shared subscription stands there, the place among its members.
    pub member: u32,
}

/// A session with a subscription that matches.
#[derive(Clone)]
pub struct Listener {
    /// Its client id.
    pub client_id: Box<str>,
    /// Its user; `None` for anonymous.
    pub user: Option<Arc<str>>,
    /// Whether it has a connection.
    pub is_connected: bool,
    /// The subscription; of a shared one, every message goes to one member.
    pub granted: Granted,
    /// What it may do.
    pub rights: Arc<dyn Rights>,
    /// Whether its rights keep messages of the topic from it.
    pub is_withheld: bool,
}

impl core::fmt::Debug for Listener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Listener")
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Filters that match a topic, from the beginning or from `rest` on.
pub(crate) fn filters(core: &Core, zone: Zone, topic: &str, rest: Option<Walk>) -> FoundFilters {
    let index = &core.routing.index;
    let mut filters = Vec::new();
    let mut add = |id: FilterId| filters.push(index.filter(id).1.into());
    let rest = match rest {
        None => {
            let hash = index.hasher().hash(zone, topic);
            let add = |id, _: &[Subscriber]| add(id);
            index.match_some(zone, topic, hash, MATCH_VISITS, add).rest
        }
        Some(mut walk) => {
            walk.resume(index, zone, topic, MATCH_VISITS, &mut add);
            Some(walk).filter(|walk| !walk.is_done())
        }
    };
    FoundFilters { filters, rest }
}

/// Those on this shard who subscribe to a filter that matches a topic, from a place on: at most
/// this many, and where the next ones are. Nobody if the filter does not match any more.
pub(crate) fn of_filter(
    core: &Core,
    zone: Zone,
    topic: &str,
    filter: &str,
    from: AudiencePlace,
    at_most: usize,
) -> (Vec<Listener>, Option<AudiencePlace>) {
    let routing = &core.routing;
    let id = routing.index.find(zone, filter);
    let Some(id) = id.filter(|_| matches(filter, topic)) else {
        return (Vec::new(), None);
    };
    let (mut found, mut looks, mut place) = (Vec::new(), 0, from);
    let subscribers = routing.index.subscribers(id);
    while let Some(subscriber) = subscribers.get(place.subscriber as usize) {
        if looks >= LOOKS_MAX || found.len() >= at_most {
            return (found, Some(place));
        }
        looks += 1;
        let next = AudiencePlace {
            subscriber: place.subscriber + 1,
            member: 0,
        };
        let (session, subscription) = match as_share(*subscriber) {
            None => {
                place = next;
                (Some(subscriber.session), SubscriptionRef::Filter(id))
            }
            Some(share) => {
                let member = routing.shares.member(share, place.member as usize);
                place = match member {
                    Some(_) => AudiencePlace {
                        member: place.member + 1,
                        ..place
                    },
                    None => next,
                };
                (member, SubscriptionRef::Share(share))
            }
        };
        let listener = session.and_then(|slot| listener(core, slot, subscription, topic));
        found.extend(listener);
    }
    (found, None)
}

fn listener(
    core: &Core,
    slot: u32,
    subscription: SubscriptionRef,
    topic: &str,
) -> Option<Listener> {
    let session = core.sessions.at(slot)?;
    // The one that keeps what waits in a queue is nobody's.
    if session.state.queue().is_some() {
        return None;
    }
    let key = SessionKey {
        slot,
        generation: session.generation,
    };
    let rights = Arc::clone(&session.state.identity().rights);
    Some(Listener {
        client_id: session.state.client_id().into(),
        user: session.state.identity().user.clone(),
        is_connected: session.live().is_some(),
        granted: index::grant_of(core, key, subscription),
        is_withheld: !session.state.may_receive(topic),
        rights,
    })
}
