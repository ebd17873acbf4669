//! What an administrator may see.

use alloc::vec::Vec;

use stentor_session::{CloseReason, Tick};
use stentor_topic::Zone;

use super::Hub;
use crate::core::audience::{self, AudiencePlace, FoundFilters, Listener};
use crate::core::ids::{LinkId, SessionKey};
use crate::core::inspect::{self, ClientInfo, Delivering};
use crate::core::sessions::tally::LostBy;

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

/// Filters of this shard that match a topic, from the beginning or from what an earlier step has
/// left. A step costs as much as a bounded part of a publish.
#[must_use]
pub fn filters_matching(
    hub: &Hub,
    zone: Zone,
    topic: &str,
    rest: Option<stentor_topic::Walk>,
) -> FoundFilters {
    audience::filters(&hub.core, (zone, topic), rest)
}

/// Sessions of this shard with a subscription to a filter, if that matches a topic: from a place
/// on, at most this many; and where to go on, if there are more. A step looks at 256 places at
/// most. While subscriptions come and go between two steps, one may be missed or come twice.
#[must_use]
pub fn audience_of(
    hub: &Hub,
    (zone, topic, filter): (Zone, &str, &str),
    from: AudiencePlace,
    at_most: usize,
) -> (Vec<Listener>, Option<AudiencePlace>) {
    audience::of_filter(&hub.core, (zone, topic, filter), from, at_most)
}

impl Hub {
    /// The client id of a session that exists.
    #[must_use]
    pub fn client_id(&self, key: SessionKey) -> Option<&str> {
        self.core.client_id(key)
    }

    /// The connection that a session has, by its client id: the one that is taken over when its
    /// client connects again.
    #[must_use]
    pub fn link(&self, zone: Zone, client_id: &str) -> Option<LinkId> {
        self.core.link(zone, client_id)
    }

    /// What there is to see of the session of a client id.
    #[must_use]
    pub fn client(&self, zone: Zone, client_id: &str) -> Option<ClientInfo> {
        self.core.client(zone, client_id)
    }

    /// When and why the server has ended the last connection of a client, while it remembers that.
    #[must_use]
    pub fn departure(&self, zone: Zone, client_id: &str) -> Option<(Tick, CloseReason)> {
        self.core.departure(zone, client_id)
    }

    /// What decides whether a session gets a message of a topic. As quick as finding its policy.
    #[must_use]
    pub fn delivering(&self, key: SessionKey, topic: &str) -> Option<Delivering> {
        self.core.delivering(key, topic)
    }
}
