//! What connections make the shard hold beside their sessions.
//!
//! A link is weighed where it has been read or written to, and what it weighs more or less than
//! before changes the sum: so nothing is counted twice or missed, and a plain connection that
//! sends whole packets costs one comparison for each read.

use stentor_hub::{Beside, close_connection};
use stentor_session::{CloseReason, Limit};

use super::Shard;
use super::link::{Link, Phase};

/// A connection that weighs less is short: it is never too much.
const SHORT_BYTES: u32 = 64 * 1024;
/// What connections hold beyond that takes this part of `limits.memory` at most.
const LONG_PART: u64 = 8;

/// What a connection holds beyond what is short, in bytes.
const fn long(weight: u32) -> u64 {
    weight.saturating_sub(SHORT_BYTES) as u64
}

impl Link {
    /// Bytes of memory that the connection takes: itself, what it has sent that was not applied,
    /// what it asks for until it is let in, and its transport. O(1).
    fn weight(&self) -> u32 {
        let request = match &self.phase {
            Phase::Authenticating(request) => request.bytes(),
            Phase::ExpectAuth(waiting) => waiting.bytes(),
            Phase::ExpectConnect(_) | Phase::Live(_) | Phase::Draining(_) | Phase::Gone => 0,
        };
        let bytes = size_of::<Self>() + self.tail.heap_bytes() + self.transport.heap_bytes();
        // A packet has 256 MiB at most.
        u32::try_from(bytes + request).unwrap_or(u32::MAX)
    }
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
            self.figures.long_links += long(now);
            self.figures.long_links -= long(before);
            let growth = now.saturating_sub(before);
            self.hub.count_beside(Beside::Growth(growth));
        }
    }

    /// Takes a connection out of its place: it counts no longer.
    pub(super) fn take_out(&mut self, index: u32) -> Option<Link> {
        let mut link = self.links.try_remove(index as usize)?;
        let weighed = std::mem::take(&mut link.weighed);
        self.figures.links -= u64::from(weighed);
        self.figures.long_links -= long(weighed);
        Some(link)
    }

    /// Ends a connection that has just been read if its unfinished packet is long, and such packets
    /// take too much together: nobody else should lose anything for them.
    #[inline]
    pub(super) fn bound_long(&mut self, index: u32) {
        // Mostly there is none.
        if self.figures.long_links > 0 {
            self.end_long(index);
        }
    }

    fn end_long(&mut self, index: u32) {
        let budget = self.backplane.ledger.budget();
        let most = budget / LONG_PART / self.backplane.shards.len() as u64;
        let Some(link) = self.links.get(index as usize) else {
            return;
        };
        let (own, all) = (long(link.weighed), self.figures.long_links);
        // One may be there in any case, however long it is.
        if all <= most || own == 0 || own == all {
            return;
        }
        let reason = CloseReason::Limit(Limit::Memory);
        match &link.phase {
            Phase::Live(session) => {
                close_connection(&mut self.hub, self.now, *session, reason);
                self.forward();
            }
            Phase::ExpectConnect(_) | Phase::ExpectAuth(_) | Phase::Authenticating(_) => {
                self.note_refusal(index, (None, ""), reason);
                self.bury(index);
            }
            Phase::Draining(_) | Phase::Gone => {}
        }
    }
}
