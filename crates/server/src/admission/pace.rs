//! How fast connections come.

use std::collections::HashMap;

use stentor_session::Tick;

use crate::peer::Network;

/// One connection, in millionths.
const ONE: u64 = 1_000_000;

/// How long a bucket takes to be full again, whatever its rate is, in microseconds.
const FILL_MICROS: u64 = 1_000_000;

/// Networks remembered at a time, in each of two generations: some 5 MB in all.
const NETWORKS_MAX: usize = 65_536;

/// Lets a second's worth of connections through at once, then this many per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Connections that may come now, in millionths: one is added per second and unit of rate.
    micro_tokens: u64,
    filled_at: Tick,
}

/// Full, whatever the rate is: who comes right after the start is admitted like anybody later.
impl Default for Bucket {
    fn default() -> Self {
        Self {
            micro_tokens: u64::MAX,
            filled_at: Tick::ZERO,
        }
    }
}

impl Bucket {
    /// Whether a connection may come now; `rate` is in connections per second, and not 0.
    pub(super) fn pass(&mut self, now: Tick, rate: u32) -> bool {
        let rate = u64::from(rate);
        let elapsed = now.as_micros().saturating_sub(self.filled_at.as_micros());
        let added = elapsed.saturating_mul(rate);
        self.micro_tokens = self.micro_tokens.saturating_add(added).min(rate * ONE);
        self.filled_at = self.filled_at.max(now);
        match self.micro_tokens.checked_sub(ONE) {
            Some(left) => {
                self.micro_tokens = left;
                true
            }
            None => false,
        }
    }
}

/// A bucket for each network that has come lately. One that has not come for as long as a bucket
/// takes to fill has a full one, so that it is forgotten at no loss: tables are changed so often.
/// One that is full is changed earlier, and then networks may come twice as fast as they should.
#[derive(Debug, Default)]
pub(super) struct Paces {
    now: HashMap<Network, Bucket>,
    before: HashMap<Network, Bucket>,
    began: Tick,
}

impl Paces {
    /// Whether a connection of this network may come now; see [`Bucket::pass`].
    pub(super) fn pass(&mut self, now: Tick, network: Network, rate: u32) -> bool {
        let lasted = now.as_micros().saturating_sub(self.began.as_micros());
        if lasted >= FILL_MICROS || self.now.len() >= NETWORKS_MAX {
            self.before = std::mem::take(&mut self.now);
            self.began = now;
        }
        let before = &self.before;
        let bucket = self
            .now
            .entry(network)
            .or_insert_with(|| before.get(&network).copied().unwrap_or_default());
        bucket.pass(now, rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    fn network(number: u32) -> Network {
        let peer = Peer::V4(number.to_be_bytes(), 1);
        peer.network().unwrap()
    }

    #[test]
    fn each_network_has_a_pace_that_outlives_the_tables() {
        let mut paces = Paces::default();
        let mut passed = 0;
        // Tries every 10 ms for ten seconds, at two a second.
        for step in 0..1_000 {
            let now = Tick::from_millis(step * 10);
            passed += u32::from(paces.pass(now, network(1), 2));
        }
        // A second's worth at once, and then the rate.
        assert!((20..=22).contains(&passed), "{passed}");
        assert!(paces.pass(Tick::from_millis(9_990), network(2), 2));
    }

    #[test]
    fn memory_is_bounded() {
        let mut paces = Paces::default();
        let number = NETWORKS_MAX as u32;
        for number in 0..3 * number {
            assert!(paces.pass(Tick::ZERO, network(number), 1));
        }
        assert!(paces.now.len() <= NETWORKS_MAX && paces.before.len() <= NETWORKS_MAX);
        // Those of the last tables are known still.
        assert!(!paces.pass(Tick::ZERO, network(3 * number - 1), 1));
    }
}
