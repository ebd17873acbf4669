//! What every workload reports besides its own figures: what the generator itself used, and what
//! the messages came to on a link.

use std::collections::HashMap;
use std::fs;

use crate::clock::{SECOND_NS, now_ns};
use crate::measure::{Leg, Metric, Unit};
use crate::process;

const GENERATOR_CPU: Metric = Metric::new("generator_cpu_percent", "generator CPU", Unit::Percent);
const GENERATOR_RSS: Metric = Metric::new("generator_rss_bytes", "generator RSS", Unit::Bytes);
const BYTES: Metric = Metric::new("payload_bytes_per_s", "payload", Unit::BytesPerSecond);
const LINK: Metric = Metric::new("gigabit_share_percent", "of 1 Gbit/s", Unit::Percent);

/// Ethernet, IP and TCP headers of a small segment, as a share of a link would count them.
const FRAME_BYTES: f64 = 78.0;

/// In less time, what this process has used is not known well enough to be told: the kernel adds
/// to that of threads which run in the meantime as seldom as its clock ticks, every 1 to 10 ms.
const TOLD_S_MIN: f64 = 0.01;
/// In less time, what threads have used is not known well enough to judge them.
const JUDGED_S_MIN: f64 = 0.5;
/// A thread that runs for a larger share of the time never rests.
const THREAD_MAX: f64 = 0.97;
/// A server that uses less of a processor does rest.
const SERVER_MIN: f64 = 0.9;

/// What this process, the generator, uses from the making of this on.
#[derive(Debug)]
pub(crate) struct GeneratorMeter {
    begun_ns: u64,
    before_s: f64,
    /// Nanoseconds on a processor, by thread.
    threads: HashMap<String, u64>,
}

impl GeneratorMeter {
    /// Begins to measure.
    pub(crate) fn start() -> Self {
        let threads = threads_ran_ns();
        // Last: looking at the threads does not count as work of the generator.
        Self {
            begun_ns: now_ns(),
            before_s: process::own_cpu_s(),
            threads,
        }
    }

    /// Ends: the share of one processor that all threads of the generator used, and its memory.
    /// Threads that are to be judged must not have ended yet.
    pub(crate) fn stop(&self) -> GeneratorUse {
        // First, both at once: to look at the threads may take longer than what was measured.
        let seconds = (now_ns() - self.begun_ns).max(1) as f64 / SECOND_NS as f64;
        let used_s = process::own_cpu_s() - self.before_s;
        let ran = threads_ran_ns().into_iter().map(|(thread, ran)| {
            ran.saturating_sub(self.threads.get(&thread).copied().unwrap_or(0))
        });
        GeneratorUse {
            seconds,
            busiest_thread: ran.max().unwrap_or(0) as f64 / SECOND_NS as f64 / seconds,
            cpu_percent: used_s / seconds * 100.0,
            rss: process::glance_alone().map(|(_, rss)| rss),
        }
    }
}

/// Nanoseconds on a processor, by thread of this process.
fn threads_ran_ns() -> HashMap<String, u64> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let ran = threads.filter_map(|entry| {
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let ran = text.split_whitespace().next()?.parse().ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), ran))
    });
    ran.collect()
}

/// What the generator used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneratorUse {
    pub(crate) seconds: f64,
    pub(crate) cpu_percent: f64,
    /// Share of the time for which the busiest thread ran.
    pub(crate) busiest_thread: f64,
    pub(crate) rss: Option<u64>,
}

impl GeneratorUse {
    /// What it used together with another process of the generator, in the same time.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            seconds: self.seconds,
            cpu_percent: self.cpu_percent + other.cpu_percent,
            busiest_thread: self.busiest_thread.max(other.busiest_thread),
            rss: self.rss.zip(other.rss).map(|(one, other)| one + other),
        }
    }

    /// Adds the figures, and that the generator was the limit if a thread of it never rested while
    /// the server did, which used this many seconds of CPU time.
    pub(crate) fn push(self, leg: &mut Leg, server_cpu_s: Option<f64>) {
        let is_told = self.seconds >= TOLD_S_MIN;
        leg.push(GENERATOR_CPU, is_told.then_some(self.cpu_percent));
        leg.push(GENERATOR_RSS, self.rss.map(|rss| rss as f64));
        // Of one that nobody knows it may have been the server.
        let server = server_cpu_s.map_or(f64::MAX, |used_s| used_s / self.seconds);
        let is_known = self.seconds >= JUDGED_S_MIN;
        if is_known && self.busiest_thread > THREAD_MAX && server < SERVER_MIN {
            let why = || "a generator thread was busy all the time".to_owned();
            leg.limited.get_or_insert_with(why);
        }
    }
}

/// Adds what this many messages a second that the server sends come to on a link.
pub(crate) fn push_link(leg: &mut Leg, messages_per_s: impl Into<Option<f64>>, payload: usize) {
    let messages_per_s = messages_per_s.into();
    let payload = payload as f64;
    leg.push(BYTES, messages_per_s.map(|rate| rate * payload));
    let bits_per_s = messages_per_s.map(|rate| rate * (payload + FRAME_BYTES) * 8.0);
    leg.push(LINK, bits_per_s.map(|bits| bits / 1e9 * 100.0));
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
    fn a_thread_that_never_rests_is_the_limit_where_the_server_rests() {
        for (seconds, busiest_thread, server_cpu_s, is_limit) in [
            (2.0, 0.99, Some(1.0), true),
            (2.0, 0.9, Some(1.0), false),
            (2.0, 0.99, Some(1.9), false),
            (2.0, 0.99, None, false),
            (0.1, 0.99, Some(0.01), false),
        ] {
            let mut leg = Leg::default();
            let used = GeneratorUse {
                seconds,
                cpu_percent: 0.0,
                busiest_thread,
                rss: None,
            };
            used.push(&mut leg, server_cpu_s);
            assert_eq!(leg.limited.is_some(), is_limit, "{used:?} {server_cpu_s:?}");
        }
    }

    #[test]
    fn the_busiest_thread_is_seen() {
        let meter = GeneratorMeter::start();
        let begun_s = process::thread_cpu_s();
        while process::thread_cpu_s() - begun_s < 0.2 {
            std::hint::black_box(begun_s);
        }
        let used = meter.stop();
        assert!(used.busiest_thread * used.seconds > 0.15, "{used:?}");
    }

    #[test]
    fn the_generator_uses_something() {
        let mut leg = Leg::default();
        let mut used = GeneratorMeter::start().stop();
        used.push(&mut leg, None);
        assert!(leg.figure("generator_rss_bytes").unwrap() > 100_000.0);
        used.seconds = 1.0;
        let mut leg = Leg::default();
        used.push(&mut leg, None);
        assert!(leg.figure("generator_cpu_percent").unwrap() >= 0.0);
    }

    /// Shares of next to no time are no shares: 627 % were told on two processors.
    #[test]
    fn processor_time_of_a_moment_is_not_told() {
        for (seconds, expected) in [(0.0008, None), (0.009, None), (0.02, Some(150.0))] {
            let mut leg = Leg::default();
            let used = GeneratorUse {
                seconds,
                cpu_percent: 150.0,
                busiest_thread: 0.5,
                rss: None,
            };
            used.push(&mut leg, None);
            assert_eq!(leg.figure("generator_cpu_percent"), expected, "{seconds}");
        }
    }
}
