//! What an administrator may see.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{CloseReason, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::audience::{self, AudiencePlace, FoundFilters, Listener};
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inbound::subscribe::{self, Granted, index};
use crate::core::inspect::{self, ClientInfo, Delivering};
use crate::core::memory::Holding;
use crate::core::queued::{self, QueuePlace, QueuedPart};
use crate::core::routing::share::ShareName;
use crate::core::sessions::tally::LostBy;
use crate::core::stats::{Losses, Stats};
use crate::core::upkeep::shared_members as shared_members_of;
use crate::core::{Core, memory, upkeep};

/// A time on the clock by which absences are counted, in milliseconds: since 1970 if sessions are
/// written down, else since the start of the server.
#[must_use]
pub fn clock_ms(hub: &Hub, now: Tick) -> u64 {
    inspect::clock_ms(&hub.core, now)
}

/// The session of a client id: of several users, the one that is connected.
#[must_use]
pub fn session_of(hub: &Hub, zone: Zone, client_id: &str) -> Option<SessionKey> {
    inspect::session_of(&hub.core, zone, client_id)
}

/// What a session has lost, by those causes that there were.
#[must_use]
pub fn losses_of(hub: &Hub, key: SessionKey) -> Vec<LostBy> {
    inspect::losses_of(&hub.core, key)
}

/// Pieces of what waits for the client of a session, from a place on, at most this many: what is in
/// flight, then what waits, then what is held back. `None` without a session. A chunk on the disk
/// is one piece, and is not read.
#[must_use]
pub fn queued_from(
    hub: &Hub,
    key: SessionKey,
    place: QueuePlace,
    at_most: usize,
) -> Option<QueuedPart> {
    queued::from(&hub.core, key, place, at_most)
}

/// Shared subscriptions of this shard, once for each of their members. O(1).
#[must_use]
pub const fn shared_members(hub: &Hub) -> usize {
    shared_members_of(&hub.core)
}

/// Some subscriptions of a session, from a number on; and with which to go on, if there are more. A
/// step has 128 of them, or fewer if their filters are long.
#[must_use]
pub fn granted_from(hub: &Hub, key: SessionKey, from: usize) -> (Vec<Granted>, Option<usize>) {
    subscribe::granted_from(&hub.core, key, from)
}

/// Filters of this shard that match a topic, from the beginning or from what an earlier step has
/// left. A step costs as much as a bounded part of a publish.
#[must_use]
pub fn filters_matching(
    hub: &Hub,
    zone: Zone,
    topic: &str,
    rest: Option<stentor_topic::Walk>,
) -> FoundFilters {
    audience::filters(&hub.core, zone, topic, rest)
}

/// Sessions of this shard with a subscription to a filter, if that matches a topic: from a place
/// on, at most this many; and where to go on, if there are more. A step looks at 128 places at
/// most. While subscriptions come and go between two steps, one may be missed or come twice.
#[must_use]
pub fn audience_of(
    hub: &Hub,
    zone: Zone,
    topic: &str,
    filter: &str,
    from: AudiencePlace,
    at_most: usize,
) -> (Vec<Listener>, Option<AudiencePlace>) {
    audience::of_filter(&hub.core, zone, topic, filter, from, at_most)
}

impl Hub {
    /// What there is to see of clients, sessions and subscriptions, and the counters.
    #[inline]
    #[must_use]
    pub const fn inspect(&self) -> Inspect<'_> {
        Inspect { core: &self.core }
    }
}

/// What there is to see of a hub: see [`Hub::inspect`].
#[derive(Clone, Copy)]
pub struct Inspect<'a> {
    core: &'a Core,
}

impl<'a> Inspect<'a> {
    /// The client id of a session that exists.
    #[must_use]
    pub fn client_id(&self, key: SessionKey) -> Option<&'a str> {
        inspect::client_id(self.core, key)
    }

    /// The connection that a session has, by its client id: the one that is taken over when its
    /// client connects again.
    #[must_use]
    pub fn link(&self, zone: Zone, client_id: &str) -> Option<LinkId> {
        inspect::link(self.core, zone, client_id)
    }

    /// What there is to see of the session of a client id.
    #[must_use]
    pub fn client(&self, zone: Zone, client_id: &str) -> Option<ClientInfo> {
        inspect::client(self.core, zone, client_id)
    }

    /// When and why the server has ended the last connection of a client, while it remembers that.
    #[must_use]
    pub fn departure(&self, zone: Zone, client_id: &str) -> Option<(Tick, CloseReason)> {
        inspect::departure(self.core, zone, client_id)
    }

    /// What decides whether a session gets a message of a topic. As quick as finding its policy.
    #[must_use]
    pub fn delivering(&self, key: SessionKey, topic: &str) -> Option<Delivering> {
        inspect::delivering(self.core, key, topic)
    }

    /// All subscriptions of a session, for tests: [`granted_from`](crate::survey::granted_from) has
    /// them in steps.
    #[must_use]
    pub fn granted(&self, key: SessionKey) -> Vec<Granted> {
        index::granted(self.core, key)
    }

    /// The subscriptions of a session that match a topic: of all its subscriptions from a number
    /// on, this many are looked at; and with which to go on, if there are more. O(`at_most`).
    #[must_use]
    pub fn matching(
        &self,
        key: SessionKey,
        topic: &str,
        from: usize,
        at_most: usize,
    ) -> (Vec<Granted>, Option<usize>) {
        index::matching(self.core, key, topic, from, at_most)
    }

    /// The filters of a session, as it wrote them, for inspection.
    #[must_use]
    pub fn subscriptions(&self, key: SessionKey) -> Vec<Arc<str>> {
        index::subscriptions(self.core, key)
    }

    /// Every filter that this shard routes by, with the number of its own sessions that subscribe
    /// to it: 0 if there are only members of shared subscriptions, here or elsewhere.
    /// [`crate::Inspect::shared_subscriptions`] has those.
    pub fn filters(&self) -> impl Iterator<Item = (Zone, &'a str, usize)> + use<'a> {
        upkeep::filters(self.core)
    }

    /// Every shared subscription with members on this shard, and their number.
    pub fn shared_subscriptions(&self) -> impl Iterator<Item = (&'a ShareName, usize)> + use<'a> {
        upkeep::shared_subscriptions(self.core)
    }

    /// What was lost, and by whom.
    #[must_use]
    pub const fn losses(&self) -> &'a Losses {
        upkeep::losses(self.core)
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        upkeep::stats(self.core)
    }

    /// The sums over all sessions and all work, counted one by one: what the ledger says of this
    /// shard after [`Hub::settle_accounts`]. O(sessions + work): for tests.
    #[must_use]
    pub fn recount(&self) -> [(Holding, u64); 3] {
        memory::recount(self.core)
    }

    /// Bytes of memory that work holds which goes on in later turns: messages that are expensive to
    /// route, with the subscribers found so far, long SUBSCRIBE and UNSUBSCRIBE packets, and what
    /// waited for sessions that have ended. O(1).
    #[must_use]
    pub fn work_bytes(&self) -> u64 {
        memory::work_bytes(self.core)
    }
}
