//! What every workload reports besides its own figures: what the generator itself used, and what
//! the messages came to on a link.

use crate::clock::{SECOND_NS, now_ns};
use crate::measure::{Leg, Metric, Unit};
use crate::process;

const GENERATOR_CPU: Metric = Metric::new("generator_cpu_percent", "generator CPU", Unit::Percent);
const GENERATOR_RSS: Metric = Metric::new("generator_rss_bytes", "generator RSS", Unit::Bytes);
const BYTES: Metric = Metric::new("payload_bytes_per_s", "payload", Unit::BytesPerSecond);
const LINK: Metric = Metric::new("gigabit_share_percent", "of 1 Gbit/s", Unit::Percent);

/// Ethernet, IP and TCP headers of a small segment, as a share of a link would count them.
const FRAME_BYTES: f64 = 78.0;

/// What this process, the generator, uses from the making of this on.
#[derive(Debug)]
pub(crate) struct GeneratorMeter {
    begun_ns: u64,
    before_s: f64,
}

impl GeneratorMeter {
    /// Begins to measure.
    pub(crate) fn start() -> Self {
        Self {
            begun_ns: now_ns(),
            before_s: process::own_cpu_s(),
        }
    }

    /// Ends: the share of one processor that all threads of the generator used, and its memory.
    pub(crate) fn stop(&self) -> GeneratorUse {
        let seconds = (now_ns() - self.begun_ns).max(1) as f64 / SECOND_NS as f64;
        GeneratorUse {
            cpu_percent: (process::own_cpu_s() - self.before_s) / seconds * 100.0,
            rss: process::glance_alone().map(|(_, rss)| rss),
        }
    }
}

/// What the generator used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneratorUse {
    cpu_percent: f64,
    rss: Option<u64>,
}

impl GeneratorUse {
    /// Adds the figures.
    pub(crate) fn push(self, leg: &mut Leg) {
        leg.push(GENERATOR_CPU, self.cpu_percent);
        leg.push(GENERATOR_RSS, self.rss.map(|rss| rss as f64));
    }
}

/// Adds what so many messages a second that the server sends come to on a link.
pub(crate) fn push_link(leg: &mut Leg, messages_per_s: f64, payload: usize) {
    let payload = payload as f64;
    leg.push(BYTES, messages_per_s * payload);
    let bits_per_s = messages_per_s * (payload + FRAME_BYTES) * 8.0;
    leg.push(LINK, bits_per_s / 1e9 * 100.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_share_that_was_published() {
        let mut leg = Leg::default();
        // 30,000 messages of 1,000 B: 26 % of the link, in 2005 as well.
        push_link(&mut leg, 30_000.0, 1_000);
        assert_eq!(leg.figure("payload_bytes_per_s"), Some(30e6));
        let share = leg.figure("gigabit_share_percent").unwrap();
        assert!((25.0..27.0).contains(&share), "{share}");
    }

    #[test]
    fn the_generator_uses_something() {
        let mut leg = Leg::default();
        GeneratorMeter::start().stop().push(&mut leg);
        assert!(leg.figure("generator_rss_bytes").unwrap() > 100_000.0);
        assert!(leg.figure("generator_cpu_percent").unwrap() >= 0.0);
    }
}
