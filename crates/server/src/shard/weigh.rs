//! What connections make the shard hold beside their sessions.
//!
//! A link is weighed where it has been read or written to, and what it weighs more or less than
//! before changes the sum: so nothing is counted twice or missed, and a plain connection that
//! sends whole packets costs one comparison for each read.

use stentor_hub::Beside;

use super::Shard;
use super::link::{Link, Phase};

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
            let growth = now.saturating_sub(before);
            self.hub.count_beside(Beside::Growth(growth));
        }
    }

    /// Takes a connection out of its place: it counts no longer.
    pub(super) fn take_out(&mut self, index: u32) -> Option<Link> {
        let mut link = self.links.try_remove(index as usize)?;
        self.figures.links -= u64::from(std::mem::take(&mut link.weighed));
        Some(link)
    }
}
