//! Connections that have not sent their CONNECT yet: whose turn it is among them, and who of them
//! goes when there is no room.
//!
//! A step of a TLS handshake takes up to a millisecond, and whoever has an address can ask for
//! many. So the addresses take turns, and each waits for one step of every other address at most,
//! however many connections they have. When the places are taken, the oldest connections of those
//! addresses go that have most of them.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::time::Duration;

use stentor_session::{CloseReason, Limit, Remote, Tick};

use super::Shard;
use super::link::{Entrance, Link, LinkKey, Phase, Stream};
use super::tell::Applicant;
use crate::peer::Network;

/// Places of rows and of turns that are kept when nobody waits any more.
const KEPT: usize = 1_024;

/// The address that a connection counts for; `None` for the Unix sockets of this machine.
type Place = Option<Network>;

/// Links with bytes to read that are steps of TLS handshakes, or parts of long CONNECTs: few of
/// them are taken in a turn.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Those of each address, the oldest first. No row is empty.
    rows: HashMap<Place, VecDeque<LinkKey>>,
    /// The addresses that have a row, each once.
    turns: VecDeque<Place>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// A link waits behind the others of its address.
    pub(super) fn push(&mut self, place: Place, key: LinkKey) {
        let row = match self.rows.entry(place) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(row) => {
                self.turns.push_back(place);
                row.insert(VecDeque::new())
            }
        };
        row.push_back(key);
    }

    /// Takes out the link whose turn it is. It may be gone.
    pub(super) fn pop(&mut self) -> Option<LinkKey> {
        let place = self.turns.pop_front()?;
        let Entry::Occupied(mut row) = self.rows.entry(place) else {
            return None;
        };
        let key = row.get_mut().pop_front();
        if row.get().is_empty() {
            row.remove();
        } else {
            self.turns.push_back(place);
        }
        if self.is_empty() && self.turns.capacity() > KEPT {
            *self = Self::default();
        }
        key
    }
}

/// What a shard keeps of them beside the links.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    pub(super) line: Line,
    surplus: Surplus,
}

/// The connections that end when there is no room for a newcomer, as of the last look: a look
/// goes through all connections.
#[derive(Debug, Default)]
struct Surplus {
    /// The oldest connections of the addresses that have most, the oldest last.
    oldest: Vec<LinkKey>,
    /// Each address that they are of keeps at least this many.
    left: u32,
    /// How many each address has, with those that have come since.
    counts: HashMap<Place, u32>,
    /// The time until which this holds.
    again: Option<Tick>,
    /// Whether there may be more than the look has found.
    has_more: bool,
}

impl Surplus {
    /// Connections that one look finds, at least, if there are as many.
    const ENOUGH: usize = 256;
    /// How long a look holds.
    const TIME: Duration = Duration::from_millis(100);

    /// Of these connections, with how long ago each has come.
    fn of(mut strangers: Vec<(u32, Place, LinkKey)>, now: Tick) -> Self {
        let mut counts: HashMap<Place, u32> = HashMap::new();
        for (_, place, _) in &strangers {
            *counts.entry(*place).or_default() += 1;
        }
        let left = level(counts.values().copied());
        let is_above = |place: &Place| counts.get(place).is_some_and(|count| *count > left);
        strangers.retain(|(_, place, _)| is_above(place));
        strangers.sort_unstable_by_key(|(age, _, _)| std::cmp::Reverse(*age));
        let mut above = counts.clone();
        let goes = |(_, place, key): (u32, Place, LinkKey)| {
            let count = above.get_mut(&place).filter(|count| **count > left)?;
            *count -= 1;
            Some(key)
        };
        let mut oldest: Vec<LinkKey> = strangers.into_iter().filter_map(goes).collect();
        oldest.reverse();
        Self {
            has_more: oldest.len() >= Self::ENOUGH,
            oldest,
            left,
            counts,
            again: Some(now.after(Self::TIME)),
        }
    }

    /// Whether another look may find somebody.
    fn is_used_up(&self, now: Tick) -> bool {
        let is_old = self.again.is_none_or(|again| now >= again);
        is_old || self.has_more && self.oldest.is_empty()
    }
}

/// How many connections each address keeps so that enough others go: one at least.
fn level(counts: impl Iterator<Item = u32> + Clone) -> u32 {
    let most = counts.clone().max().unwrap_or(0);
    // For each number of connections, how many addresses have it.
    let mut having = vec![0_usize; most as usize + 1];
    for count in counts {
        having[count as usize] += 1;
    }
    let (mut level, mut above, mut found) = (most, 0, 0);
    while level > 1 && found < Surplus::ENOUGH {
        above += having[level as usize];
        level -= 1;
        found += above;
    }
    level.max(1)
}

impl Shard {
    /// A link waits for its turn among those of its kind.
    pub(super) fn stand_in_line(&mut self, index: u32) {
        if let Some(link) = self.links.get(index) {
            let serial = link.serial;
            let key = LinkKey { index, serial };
            self.strangers.line.push(link.peer.network(), key);
        }
    }

    /// The peer of a link has closed its side. Returns whether the connection is over with that:
    /// its TLS handshake can never be finished. Nobody can who has not seen what the server says.
    ///
    /// So it does not wait for its turn, in its place.
    pub(super) fn note_end(&mut self, index: u32) -> bool {
        let Some(link) = self.links.get_mut(index) else {
            return true;
        };
        link.stream = Stream::Ended;
        let is_stranger = matches!(link.phase, Phase::ExpectConnect(_));
        let is_over = is_stranger
            && link.transport.is_handshaking()
            && (link.transport.is_unanswered() || link.is_absent_and_read());
        if is_over {
            self.lost(index, Remote::Closed);
        }
        is_over
    }

    /// Makes room for a newcomer of this address, if another one has more connections that have not
    /// sent their CONNECT: the oldest of those ends. Returns whether one did.
    pub(super) fn make_room(&mut self, place: Place) -> bool {
        // What the last look has found may be gone.
        for _ in 0..2 {
            if self.strangers.surplus.is_used_up(self.now) {
                self.strangers.surplus = self.look_for_surplus();
            }
            let own = self
                .strangers
                .surplus
                .counts
                .get(&place)
                .copied()
                .unwrap_or(0);
            if own >= self.strangers.surplus.left {
                return false;
            }
            while let Some(key) = self.strangers.surplus.oldest.pop() {
                if self.link_named(key).is_some_and(|link| link.is_stranger()) {
                    self.evict(key.index);
                    self.strangers.surplus.counts.insert(place, own + 1);
                    return true;
                }
            }
        }
        false
    }

    fn look_for_surplus(&self) -> Surplus {
        let strangers = self.links.iter().filter(|(_, link)| link.is_stranger());
        let strangers = strangers.map(|(index, link)| {
            let serial = link.serial;
            // Slots are 32 bits wide.
            let key = LinkKey { index, serial };
            (self.serials.wrapping_sub(serial), link.peer.network(), key)
        });
        Surplus::of(strangers.collect(), self.now)
    }

    fn evict(&mut self, index: u32) {
        let reason = CloseReason::Limit(Limit::Connections);
        self.note_refusal(index, Applicant::default(), reason);
        self.bury(index);
    }
}

impl Link {
    /// Whether it holds a place and has not sent its CONNECT.
    const fn is_stranger(&self) -> bool {
        self.permit.is_some() && matches!(self.phase, Phase::ExpectConnect(Entrance::Login))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    fn place(last: u8) -> Place {
        Peer::V4([192, 0, 2, last], 1).network()
    }

    const fn key(index: u32) -> LinkKey {
        LinkKey { index, serial: 1 }
    }

    #[test]
    fn addresses_take_turns() {
        let mut line = Line::default();
        for index in 0..100 {
            line.push(place(1), key(index));
        }
        line.push(place(2), key(100));
        line.push(None, key(101));
        line.push(place(2), key(102));
        let order: Vec<u32> = (0..6)
            .filter_map(|_| line.pop())
            .map(|key| key.index)
            .collect();
        assert_eq!(order, [0, 100, 101, 1, 102, 2]);
        line.push(place(3), key(103));
        assert_eq!(line.pop(), Some(key(3)));
        assert_eq!(line.pop(), Some(key(103)));
        assert_eq!(std::iter::from_fn(|| line.pop()).count(), 96);
        assert!(line.is_empty() && line.rows.is_empty());
        assert_eq!(line.pop(), None);
    }

    /// Connections of addresses: each with its number, the oldest first.
    fn surplus(of: &[(u8, u32)]) -> Surplus {
        let strangers = of.iter().flat_map(|(last, count)| {
            let first = u32::from(*last) * 1_000;
            (0..*count)
                .map(move |number| (9_000 - number - first, place(*last), key(first + number)))
        });
        Surplus::of(strangers.collect(), Tick::ZERO)
    }

    #[test]
    fn the_oldest_go_of_those_who_have_most() {
        let mut few = surplus(&[(1, 5), (2, 2), (3, 1)]);
        assert_eq!((few.left, few.oldest.len(), few.has_more), (1, 5, false));
        // Four of the first, and one of the second.
        let mut gone: Vec<u32> = few.oldest.drain(..).map(|key| key.index).collect();
        gone.sort_unstable();
        assert_eq!(gone, [1_000, 1_001, 1_002, 1_003, 2_000]);

        let most = surplus(&[(1, 300), (2, 290), (3, 10)]);
        // 300 - 167, and 290 - 167.
        assert_eq!((most.left, most.oldest.len()), (167, 256));
        assert!(most.has_more);
        assert_eq!(most.oldest.last(), Some(&key(1_000)), "the oldest");
    }

    #[test]
    fn who_is_alone_does_not_go() {
        assert!(surplus(&[]).oldest.is_empty());
        let single = surplus(&[(1, 1), (2, 1)]);
        assert!(single.oldest.is_empty() && single.left == 1);
        assert!(!single.is_used_up(Tick::from_millis(99)));
        assert!(single.is_used_up(Tick::from_millis(100)));
        assert!(Surplus::default().is_used_up(Tick::ZERO));
    }
}
