//! Which sessions somebody asks for, and in which order.

use std::cmp::Ordering;

use stentor_control::clients::Order;
use stentor_hub::ClientInfo;
use stentor_topic::Zone;

/// Some sessions, in an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Of this zone; of all if it is not given.
    pub(crate) zone: Option<Zone>,
    /// Only those with this in their client ids.
    pub(crate) containing: String,
    /// Only those that outlive their connections.
    pub(crate) lasting: bool,
    /// Only those with clients that have been away for as many seconds.
    pub(crate) away_secs: Option<u64>,
    pub(crate) by: Order,
}

impl Selection {
    /// Whether a session is one of them, at a time of [`clock_ms`].
    ///
    /// [`clock_ms`]: stentor_hub::clock_ms
    pub(super) fn has(&self, client: &ClientInfo, now_ms: u64) -> bool {
        let is_away = |secs: u64| away_secs(client, now_ms).is_some_and(|away| away >= secs);
        self.zone.is_none_or(|zone| client.zone == zone)
            && client.client_id.contains(&self.containing)
            && (!self.lasting || client.expiry_secs > 0)
            && self.away_secs.is_none_or(is_away)
    }

    /// Which of two comes first.
    pub(crate) fn compare(&self, a: &ClientInfo, b: &ClientInfo) -> Ordering {
        let messages = |client: &ClientInfo| client.waiting + client.in_flight;
        let since = |client: &ClientInfo| client.away_since_ms.unwrap_or(u64::MAX);
        let first = match self.by {
            Order::Id => Ordering::Equal,
            Order::Bytes => b.held_bytes.cmp(&a.held_bytes),
            Order::Messages => messages(b).cmp(&messages(a)),
            Order::Away => since(a).cmp(&since(b)),
        };
        first.then_with(|| a.client_id.cmp(&b.client_id))
    }
}

/// For how long a client has been away; `None` while it is connected.
pub(super) fn away_secs(client: &ClientInfo, now_ms: u64) -> Option<u64> {
    let since_ms = client.away_since_ms?;
    Some(now_ms.saturating_sub(since_ms) / 1_000)
}
