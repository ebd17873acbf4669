//! What connections make the shard hold beside their sessions.
//!
//! A link is weighed where it has been read or written to, and what it weighs more or less than
//! before changes the sum: so nothing is counted twice or missed, and a plain connection that
//! sends whole packets costs one comparison for each read.

use std::collections::{BTreeSet, HashMap};

use stentor_hub::Beside;
use stentor_hub::connections::close_connection;
use stentor_session::{CloseReason, Limit};

use super::Shard;
use super::link::{Link, Phase};
use super::tell::Applicant;
use crate::peer::Network;

/// What an unfinished packet takes in any case: a part that is shorter is never too much.
const SHORT_BYTES: u32 = 4 * 1024;
/// What unfinished packets take beyond that is this part of `limits.memory` at most.
const LONG_PART: u64 = 4;
/// Connections that one read may end. It brings no more than one of them holds.
const ENDED_MAX: usize = 16;

/// The address that a connection counts for; `None` for the Unix sockets of this machine.
type Place = Option<Network>;

/// The unfinished packets that are not short, by address.
#[derive(Debug, Default)]
pub(super) struct Long {
    places: HashMap<Place, Parts>,
    /// The address that holds most is the last one.
    by_bytes: BTreeSet<(u64, Place)>,
    /// What they hold beyond what is short.
    bytes: u64,
    links: usize,
}

/// Those of one address.
#[derive(Debug, Default)]
struct Parts {
    bytes: u64,
    /// The bytes and the link of each: the longest is the last one.
    links: BTreeSet<(u32, u32)>,
}

impl Long {
    /// A link of an address holds this much beyond what is short, and before it was that much.
    /// O(log links).
    #[cold]
    fn change(&mut self, place: Place, index: u32, before: u32, now: u32) {
        let parts = self.places.entry(place).or_default();
        self.by_bytes.remove(&(parts.bytes, place));
        self.bytes -= u64::from(before);
        parts.bytes -= u64::from(before);
        self.links -= usize::from(parts.links.remove(&(before, index)));
        if now > 0 {
            self.bytes += u64::from(now);
            parts.bytes += u64::from(now);
            self.links += usize::from(parts.links.insert((now, index)));
        }
        if parts.links.is_empty() {
            self.places.remove(&place);
        } else {
            self.by_bytes.insert((parts.bytes, place));
        }
        if self.places.is_empty() {
            *self = Self::default();
        }
    }

    /// Whether they are too much. One may be there in any case, however long it is.
    const fn is_beyond(&self, most: u64) -> bool {
        self.bytes > most && self.links > 1
    }

    /// The link with the longest part of the address that holds most.
    fn largest(&self) -> Option<u32> {
        let (_, place) = self.by_bytes.last()?;
        let (_, index) = self.places.get(place)?.links.last()?;
        Some(*index)
    }
}

impl Link {
    /// Bytes of memory that the connection takes: itself, what it has sent that was not applied,
    /// what it asks for until it is let in, and its transport. O(1).
    fn weight(&self) -> u32 {
        let bytes = self.unfinished() + self.transport.heap_bytes();
        bounded(bytes - self.transport.received_bytes())
    }

    /// The part of that which the client has sent. O(1).
    fn unfinished(&self) -> usize {
        let request = match &self.phase {
            Phase::Authenticating(request) => request.bytes(),
            Phase::ExpectAuth(waiting) => waiting.bytes(),
            Phase::ExpectConnect(_) | Phase::Live(_) | Phase::Draining(_) | Phase::Gone => 0,
        };
        let received = self.tail.heap_bytes() + self.transport.received_bytes();
        size_of::<Self>() + received + request
    }

    /// What of that is beyond what is short. Of a connection that is closed already, nothing.
    fn excess(&self) -> u32 {
        match self.phase {
            Phase::Draining(_) | Phase::Gone => 0,
            _ => bounded(self.unfinished()).saturating_sub(SHORT_BYTES),
        }
    }
}

/// A packet has 256 MiB at most.
fn bounded(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Shard {
    /// Counts again what a connection holds.
    #[inline]
    pub(super) fn weigh(&mut self, index: u32) {
        if let Some(link) = self.links.get_mut(index) {
            let now = link.weight();
            let before = std::mem::replace(&mut link.weighed, now);
            self.figures.links += u64::from(now);
            self.figures.links -= u64::from(before);
            if now.max(before) > SHORT_BYTES {
                let excess = link.excess();
                let before = std::mem::replace(&mut link.long, excess);
                if before != excess {
                    let place = link.peer.network();
                    self.figures.long.change(place, index, before, excess);
                }
            }
            let growth = now.saturating_sub(before);
            self.hub.turn_mut().count_beside(Beside::Growth(growth));
        }
    }

    /// Takes a connection out of its place: it counts no longer.
    pub(super) fn take_out(&mut self, index: u32) -> Option<Link> {
        let mut link = self.links.remove(index)?;
        self.figures.links -= u64::from(std::mem::take(&mut link.weighed));
        let long = std::mem::take(&mut link.long);
        if long > 0 {
            let place = link.peer.network();
            self.figures.long.change(place, index, long, 0);
        }
        Some(link)
    }

    /// Ends connections if unfinished packets take too much together, after another part of one was
    /// read: nobody else should lose anything for them.
    ///
    /// The longest one of the address that holds most of them goes first, however short each of its
    /// parts is: who sends one long packet while others take the room can finish it.
    #[inline]
    pub(super) fn bound_long(&mut self) {
        // Mostly there is none.
        if self.figures.long.bytes > 0 {
            self.end_longest();
        }
    }

    fn end_longest(&mut self) {
        let budget = self.context.ledger.budget();
        let most = budget / LONG_PART / self.context.shards.len() as u64;
        for _ in 0..ENDED_MAX {
            if !self.figures.long.is_beyond(most) {
                return;
            }
            match self.figures.long.largest() {
                Some(index) => self.end_long(index),
                None => return,
            }
        }
    }

    fn end_long(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let reason = CloseReason::Limit(Limit::Memory);
        match &link.phase {
            Phase::Live(session) => {
                let session = *session;
                // Its room is free at once, and the connection ends with the turn.
                link.tail.clear();
                close_connection(&mut self.hub, self.now, session, reason);
                self.forward();
            }
            Phase::ExpectConnect(_) | Phase::ExpectAuth(_) | Phase::Authenticating(_) => {
                self.note_refusal(index, Applicant::default(), reason);
                self.bury(index);
            }
            Phase::Draining(_) | Phase::Gone => {}
        }
        self.weigh(index);
        if let Some(link) = self.links.get_mut(index) {
            let rest = std::mem::take(&mut link.long);
            if rest > 0 {
                let place = link.peer.network();
                self.figures.long.change(place, index, rest, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    fn place(last: u8) -> Place {
        Peer::V4([192, 0, 2, last], 1).network()
    }

    #[test]
    fn the_longest_of_the_address_that_holds_most_is_the_largest() {
        let mut long = Long::default();
        assert_eq!(long.largest(), None);
        long.change(place(1), 7, 0, 90);
        assert_eq!(long.largest(), Some(7));
        for (of, index, bytes) in [(place(2), 3, 40), (None, 4, 20), (place(2), 5, 60)] {
            long.change(of, index, 0, bytes);
        }
        assert_eq!((long.largest(), long.bytes, long.links), (Some(5), 210, 4));
        long.change(place(2), 5, 60, 30);
        assert_eq!(long.largest(), Some(7), "70 of the other address");
        long.change(None, 4, 20, 91);
        assert_eq!(long.largest(), Some(4));
    }

    /// Each part is short: an address with many of them holds most all the same.
    #[test]
    fn many_parts_of_one_address_are_more_than_a_long_one() {
        let mut long = Long::default();
        long.change(place(1), 0, 0, 1_000_000);
        (1..=100).for_each(|index| long.change(place(2), index, 0, 60_000));
        for ended in (1..=100).rev().take(84) {
            assert_eq!(long.largest(), Some(ended));
            long.change(place(2), ended, 60_000, 0);
        }
        assert_eq!(long.largest(), Some(0));
    }

    #[test]
    fn one_long_packet_is_never_too_much() {
        let mut long = Long::default();
        long.change(place(1), 1, 0, 500);
        assert!(!long.is_beyond(100));
        long.change(place(1), 2, 0, 1);
        assert!(long.is_beyond(500) && !long.is_beyond(501));
        long.change(place(1), 2, 1, 0);
        long.change(place(1), 1, 500, 80);
        assert!(!long.is_beyond(0));
        long.change(place(1), 1, 80, 0);
        assert_eq!((long.bytes, long.links), (0, 0));
        assert!(long.places.is_empty() && long.by_bytes.is_empty());
    }
}
