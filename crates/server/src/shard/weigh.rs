//! What connections make the shard hold beside their sessions.
//!
//! A link is weighed where it has been read or written to, and what it weighs more or less than
//! before changes the sum: so nothing is counted twice or missed, and a plain connection that
//! sends whole packets costs one comparison for each read.

use std::collections::{HashMap, HashSet};

use stentor_hub::{Beside, close_connection};
use stentor_session::{CloseReason, Limit};

use super::Shard;
use super::link::{Link, Phase};
use crate::peer::Network;

/// An unfinished packet that takes less is short: it is never too much.
const SHORT_BYTES: u32 = 64 * 1024;
/// What unfinished packets take beyond that is this part of `limits.memory` at most.
const LONG_PART: u64 = 8;
/// Connections that one read may end. It brings no more than one of them holds.
const ENDED_MAX: usize = 16;

/// The links whose unfinished packets are long.
#[derive(Debug, Default)]
pub(super) struct Long {
    links: HashSet<u32>,
    /// What they hold beyond what is short.
    bytes: u64,
}

impl Long {
    /// A link holds this much beyond what is short, and before it was that much.
    #[cold]
    fn change(&mut self, index: u32, (before, now): (u32, u32)) {
        self.bytes += u64::from(now);
        self.bytes -= u64::from(before);
        if now > 0 {
            self.links.insert(index);
        } else {
            self.links.remove(&index);
            if self.links.is_empty() {
                self.links = HashSet::new();
            }
        }
    }

    /// Whether they are too much. One may be there in any case, however long it is.
    fn is_beyond(&self, most: u64) -> bool {
        self.bytes > most && self.links.len() > 1
    }
}

/// Of connections with their addresses and bytes, the one with the most bytes of the address that
/// has the most.
fn largest(of: impl Iterator<Item = (Option<Network>, u32, u32)>) -> Option<u32> {
    let mut sums: HashMap<Option<Network>, (u64, (u32, u32))> = HashMap::new();
    for (place, index, bytes) in of {
        let (sum, longest) = sums.entry(place).or_default();
        *sum += u64::from(bytes);
        *longest = (bytes, index).max(*longest);
    }
    let most = sums.into_values().max_by_key(|(sum, _)| *sum);
    most.map(|(_, (_, index))| index)
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
        if let Some(link) = self.links.get_mut(index as usize) {
            let now = link.weight();
            let before = std::mem::replace(&mut link.weighed, now);
            self.figures.links += u64::from(now);
            self.figures.links -= u64::from(before);
            if now.max(before) > SHORT_BYTES {
                let excess = link.excess();
                let before = std::mem::replace(&mut link.long, excess);
                self.figures.long.change(index, (before, excess));
            }
            let growth = now.saturating_sub(before);
            self.hub.count_beside(Beside::Growth(growth));
        }
    }

    /// Takes a connection out of its place: it counts no longer.
    pub(super) fn take_out(&mut self, index: u32) -> Option<Link> {
        let mut link = self.links.try_remove(index as usize)?;
        self.figures.links -= u64::from(std::mem::take(&mut link.weighed));
        let long = std::mem::take(&mut link.long);
        if long > 0 {
            self.figures.long.change(index, (long, 0));
        }
        Some(link)
    }

    /// Ends connections if unfinished packets take too much together, after another part of one was
    /// read: nobody else should lose anything for them.
    ///
    /// The longest one of the address that holds most of them goes first: who sends one long
    /// packet while others take the room can finish it.
    #[inline]
    pub(super) fn bound_long(&mut self) {
        // Mostly there is none.
        if self.figures.long.bytes > 0 {
            self.end_longest();
        }
    }

    fn end_longest(&mut self) {
        let budget = self.backplane.ledger.budget();
        let most = budget / LONG_PART / self.backplane.shards.len() as u64;
        for _ in 0..ENDED_MAX {
            if !self.figures.long.is_beyond(most) {
                return;
            }
            let long = self.figures.long.links.iter().filter_map(|&index| {
                let link = self.links.get(index as usize)?;
                Some((link.peer.network(), index, link.long))
            });
            match largest(long) {
                Some(index) => self.end_long(index),
                None => return,
            }
        }
    }

    fn end_long(&mut self, index: u32) {
        let Some(link) = self.links.get_mut(index as usize) else {
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
                self.note_refusal(index, (None, ""), reason);
                self.bury(index);
            }
            Phase::Draining(_) | Phase::Gone => {}
        }
        self.weigh(index);
        if let Some(link) = self.links.get_mut(index as usize) {
            let rest = std::mem::take(&mut link.long);
            self.figures.long.change(index, (rest, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    fn place(last: u8) -> Option<Network> {
        Peer::V4([192, 0, 2, last], 1).network()
    }

    #[test]
    fn the_longest_of_the_address_that_holds_most_is_the_largest() {
        let one = [(place(1), 7, 90)];
        assert_eq!(largest(one.into_iter()), Some(7));
        let three = [(place(2), 3, 40), (None, 4, 20), (place(2), 5, 60)];
        assert_eq!(largest(one.into_iter().chain(three)), Some(5));
        assert_eq!(largest(std::iter::empty()), None);
    }

    #[test]
    fn one_long_packet_is_never_too_much() {
        let mut long = Long::default();
        long.change(1, (0, 500));
        assert!(!long.is_beyond(100));
        long.change(2, (0, 1));
        assert!(long.is_beyond(500) && !long.is_beyond(501));
        long.change(2, (1, 0));
        long.change(1, (500, 80));
        assert!(!long.is_beyond(0));
        long.change(1, (80, 0));
        assert_eq!((long.bytes, long.links.len()), (0, 0));
    }
}
