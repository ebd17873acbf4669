//! Which sessions somebody asks for, and in which order.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use stentor_control::Network;
use stentor_control::clients::{Order, Presence};
use stentor_hub::{ClientInfo, ConnectionInfo};
use stentor_mqtt::Version;
use stentor_session::Tick;
use stentor_topic::Zone;

use super::census::Census;
use super::first::First;
use super::rows::Seen;

/// The place of sessions that have nothing of what decides: behind all others.
const LAST: u128 = u128::MAX;

/// Some sessions, in an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    /// Of this zone; of all if it is not given.
    pub(crate) zone: Option<Zone>,
    /// Only those with this in their client ids.
    pub(crate) containing: String,
    /// Only those of this user.
    pub(crate) user: Option<String>,
    /// Only those with connections from these addresses.
    pub(crate) network: Option<Network>,
    /// Only those that are connected, or away.
    pub(crate) presence: Option<Presence>,
    /// Only those that outlive their connections.
    pub(crate) lasting: bool,
    /// Only those with clients that have been away for as many seconds. A queue has no client.
    pub(crate) away_secs: Option<u64>,
    pub(crate) by: Order,
    /// The other way round.
    pub(crate) reverse: bool,
}

impl Selection {
    /// Whether a session is one of them, at a time of [`clock_ms`].
    ///
    /// [`clock_ms`]: stentor_hub::survey::clock_ms
    pub(crate) fn has(&self, seen: &Seen<'_>, now_ms: u64) -> bool {
        let info = &seen.info;
        let is_away = |secs: u64| away_secs(info, now_ms).is_some_and(|away| away >= secs);
        let is_from = |network: Network| {
            let address = seen.origin.and_then(|(peer, _)| peer.address());
            address.is_some_and(|address| network.contains(address))
        };
        let is_present = |presence: Presence| match presence {
            Presence::Connected => info.connection.is_some(),
            Presence::Away => info.connection.is_none(),
        };
        self.zone.is_none_or(|zone| info.zone == zone)
            && info.client_id.contains(&self.containing)
            && (!self.lasting || info.expiry_secs > 0)
            && self.presence.is_none_or(is_present)
            && self.network.is_none_or(is_from)
            && self
                .user
                .as_deref()
                .is_none_or(|user| info.user == Some(user))
            && self
                .away_secs
                .is_none_or(|secs| !info.is_queue && is_away(secs))
    }
}

/// For how long a client has been away; `None` while it is connected.
pub(crate) fn away_secs<I, U>(client: &ClientInfo<I, U>, now_ms: u64) -> Option<u64> {
    let since_ms = client.away_since_ms?;
    Some(now_ms.saturating_sub(since_ms) / 1_000)
}

/// Some places of a census in the order of a selection, and how many there are in all. O(sessions):
/// the rows are looked at as they lie in memory, and only those of the pages so far are kept.
pub(super) fn places(
    census: &Census,
    some: &Selection,
    page: Range<usize>,
    name: impl Fn(Zone) -> String,
) -> (Vec<u32>, usize) {
    let ranking = Ranking::of(census, some, name);
    let mut total = 0;
    let mut first = First::new(page.end, |a: &Ranked, b: &Ranked| ranking.compare(a, b));
    for place in 0..census.rows.len() {
        let seen = census.rows.seen(place);
        if some.has(&seen, census.rows.now_ms) {
            total += 1;
            first.offer(Ranked {
                rank: ranking.rank(&seen),
                by_id: census.ranks[place],
                place: place as u32,
            });
        }
    }
    let rows = first.in_order().into_iter().skip(page.start);
    (rows.map(|it| it.place).collect(), total)
}

/// A session that a selection has.
struct Ranked {
    rank: u128,
    /// The place in the order of the client ids.
    by_id: u32,
    /// The place of its row.
    place: u32,
}

/// What decides about the places of sessions.
struct Ranking<'c> {
    census: &'c Census,
    by: Order,
    is_reverse: bool,
    /// The places of the zones among their names, where that is what decides.
    zones: HashMap<Zone, u128>,
}

impl<'c> Ranking<'c> {
    fn of(census: &'c Census, some: &Selection, name: impl Fn(Zone) -> String) -> Self {
        let zones = if some.by == Order::Zone {
            let all = (0..census.rows.len()).map(|place| census.rows.seen(place).info.zone.get());
            let all: BTreeSet<u32> = all.collect();
            let mut named: Vec<(String, Zone)> = all
                .into_iter()
                .map(|it| (name(Zone(it)), Zone(it)))
                .collect();
            named.sort();
            let numbered = named.into_iter().zip(0..);
            numbered.map(|((_, zone), at)| (zone, at)).collect()
        } else {
            HashMap::new()
        };
        Self {
            census,
            by: some.by,
            is_reverse: some.reverse,
            zones,
        }
    }

    fn compare(&self, a: &Ranked, b: &Ranked) -> Ordering {
        let (first, second) = if self.is_reverse { (b, a) } else { (a, b) };
        let by_text = || self.text(first.place).cmp(&self.text(second.place));
        let by_rank = first.rank.cmp(&second.rank).then_with(by_text);
        by_rank.then_with(|| first.by_id.cmp(&second.by_id))
    }

    /// The lowest comes first.
    fn rank(&self, seen: &Seen<'_>) -> u128 {
        let info = &seen.info;
        let connection = info.connection.as_ref();
        let of =
            |value: fn(&ConnectionInfo) -> u64| connection.map_or(LAST, |it| u128::from(value(it)));
        let most = |value: u64| u128::from(u64::MAX - value);
        let messages = connection.map(|it| it.messages).unwrap_or_default();
        match self.by {
            Order::Id => 0,
            Order::Zone => self.zones.get(&info.zone).copied().unwrap_or(LAST),
            Order::User => info.user.map_or(LAST, prefix),
            Order::Address => {
                let address = seen.origin.and_then(|(peer, _)| peer.address());
                address.map_or(LAST, |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(address) => address.to_bits(),
                })
            }
            Order::Version => of(|it| match it.version {
                Version::V31 => 0,
                Version::V311 => 1,
                Version::V5 => 2,
            }),
            Order::Connected => of(|it| it.since.as_micros()),
            Order::Silent => of(|it| it.last_seen.as_micros()),
            Order::State => state(info, self.census.at),
            Order::Subscriptions => most(info.subscriptions as u64),
            Order::Waiting => most(info.waiting as u64),
            Order::Bytes => most(info.held_bytes),
            Order::Messages => most((info.waiting + info.in_flight) as u64),
            Order::Away => info.away_since_ms.map_or(LAST, u128::from),
            Order::Received => most(messages.received),
            Order::ReceivedBytes => most(seen.bytes.received),
            Order::Sent => most(messages.sent),
            Order::SentBytes => most(seen.bytes.sent),
            Order::Lost => most(info.tally.lost.total()),
        }
    }

    /// The text that decides between two of the same rank.
    fn text(&self, place: u32) -> Option<&'c str> {
        let is_text = self.by == Order::User;
        is_text.then(|| self.census.rows.seen(place as usize).info.user)?
    }
}

/// What is in the way of a client's messages: the worst comes first.
fn state<I, U>(info: &ClientInfo<I, U>, now: Tick) -> u128 {
    let connection = info.connection.as_ref();
    let paused = connection.and_then(|it| it.paused_until);
    let in_order = [
        paused.is_some_and(|(until, _)| until > now),
        connection.is_some_and(|it| it.is_blocked),
        info.tally.lost.lately(now) > 0,
        info.tally.withheld.lately(now) > 0,
        connection.is_some(),
    ];
    let worst = in_order.into_iter().position(|is_so| is_so);
    worst.unwrap_or(in_order.len()) as u128
}

/// The beginning of a text, as a number of the same order.
fn prefix(text: &str) -> u128 {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_text_has_its_order() {
        let names = ["", "a", "a-very-long-name", "ab", "b", "ä"];
        assert!(names.is_sorted_by(|a, b| prefix(a) < prefix(b)));
    }
}
