//! Which sessions somebody asks for, and in which order.

use std::cmp::Ordering;

use stentor_control::clients::Order;
use stentor_hub::ClientInfo;
use stentor_topic::Zone;

use super::link::LinkBytes;

/// Some sessions, in an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Of this zone; of all if it is not given.
    pub(crate) zone: Option<Zone>,
    /// Only those with this in their client ids.
    pub(crate) containing: String,
    /// Only those that outlive their connections.
    pub(crate) lasting: bool,
    /// Only those with clients that have been away for as many seconds. A queue has no client.
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
            && self
                .away_secs
                .is_none_or(|secs| !client.is_queue && is_away(secs))
    }

    /// What decides about the place of a session: the highest comes first, see [`in_order`].
    pub(crate) fn rank(&self, client: &ClientInfo, bytes: LinkBytes) -> u64 {
        let messages = client.connection.map(|it| it.messages).unwrap_or_default();
        match self.by {
            Order::Id => 0,
            Order::Bytes => client.held_bytes,
            Order::Messages => (client.waiting + client.in_flight) as u64,
            Order::Away => u64::MAX - client.away_since_ms.unwrap_or(u64::MAX),
            Order::Received => messages.received,
            Order::ReceivedBytes => bytes.received,
            Order::Sent => messages.sent,
            Order::SentBytes => bytes.sent,
            Order::Lost => client.tally.lost.total(),
        }
    }
}

/// Which of two sessions comes first, by their ranks and names.
pub(crate) fn in_order((rank, a): (u64, &ClientInfo), (other, b): (u64, &ClientInfo)) -> Ordering {
    let name = |info: &ClientInfo| (info.zone.get(), info.user.clone());
    other
        .cmp(&rank)
        .then_with(|| a.client_id.cmp(&b.client_id))
        .then_with(|| name(a).cmp(&name(b)))
}

/// For how long a client has been away; `None` while it is connected.
pub(super) fn away_secs(client: &ClientInfo, now_ms: u64) -> Option<u64> {
    let since_ms = client.away_since_ms?;
    Some(now_ms.saturating_sub(since_ms) / 1_000)
}

/// Keeps the first items in order. O(items), and only what is kept is sorted.
pub(crate) fn keep_first<T>(
    items: &mut Vec<T>,
    at_most: usize,
    order: impl Fn(&T, &T) -> Ordering,
) {
    if at_most < items.len() {
        items.select_nth_unstable_by(at_most, &order);
        items.truncate(at_most);
    }
    items.sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_items_are_kept_in_order() {
        for at_most in 0..7 {
            let mut items = vec![3, 1, 4, 2, 0];
            keep_first(&mut items, at_most, i32::cmp);
            let expected: Vec<i32> = (0..5).take(at_most).collect();
            assert_eq!(items, expected);
        }
    }
}
