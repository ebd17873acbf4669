//! Load averages over one, five and fifteen minutes, as mosquitto computes them.

use std::time::Duration;

use super::ShardReport;

/// Minutes and the name of their average.
pub(super) const SPANS: [(f64, &str); 3] = [(1.0, "1min"), (5.0, "5min"), (15.0, "15min")];

/// What is averaged: the topic's name, what is counted in words, and the counter.
type Counter = (&'static str, &'static str, fn(&ShardReport) -> u64);

pub(super) const COUNTERS: [Counter; 9] = [
    (
        "load/messages/received",
        "MQTT packets received, of any type",
        |sum| sum.stats.packets_received,
    ),
    (
        "load/messages/sent",
        "MQTT packets queued for clients, of any type",
        |sum| sum.stats.packets_sent,
    ),
    ("load/publish/received", "PUBLISH packets received", |sum| {
        sum.stats.publishes_received
    }),
    (
        "load/publish/sent",
        "PUBLISH packets queued for clients",
        |sum| sum.stats.publishes_sent,
    ),
    (
        "load/publish/dropped",
        "messages that clients lost",
        |sum| sum.stats.publishes_dropped,
    ),
    (
        "load/bytes/received",
        "bytes received from clients",
        |sum| sum.bytes_received,
    ),
    ("load/bytes/sent", "bytes sent to clients", |sum| {
        sum.bytes_sent
    }),
    (
        "load/sockets",
        "connections, the refused ones included",
        |sum| sum.stats.connects + sum.refused,
    ),
    (
        "load/connections",
        "connections that were accepted",
        |sum| sum.stats.connects,
    ),
];

/// Moving averages of counters, each per minute.
#[derive(Debug, Default)]
pub(super) struct Loads {
    averages: [Average; COUNTERS.len()],
}

#[derive(Debug, Default)]
struct Average {
    counted: u64,
    per_minute: [f64; SPANS.len()],
}

impl Loads {
    /// Takes the counters after some time has passed, and appends the averages that are due.
    pub(super) fn update(
        &mut self,
        sum: &ShardReport,
        elapsed: Duration,
        figures: &mut Vec<(String, String)>,
    ) {
        let minutes = elapsed.as_secs_f64() / 60.0;
        if minutes <= 0.0 {
            return;
        }
        for ((name, _, counter), average) in COUNTERS.iter().zip(&mut self.averages) {
            let count = counter(sum);
            let rate = count.saturating_sub(average.counted) as f64 / minutes;
            average.counted = count;
            for ((span, suffix), value) in SPANS.iter().zip(&mut average.per_minute) {
                let weight = (-minutes / span).exp();
                *value = rate + weight * (*value - rate);
                figures.push((format!("{name}/{suffix}"), format!("{value:.2}")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_approach_the_rate() {
        let mut loads = Loads::default();
        let mut sum = ShardReport::default();
        let mut figures = Vec::new();
        for _ in 0..600 {
            sum.bytes_sent += 100;
            figures.clear();
            loads.update(&sum, Duration::from_secs(1), &mut figures);
        }
        let value = |name: &str| -> f64 {
            figures
                .iter()
                .find(|(figure, _)| figure == name)
                .unwrap()
                .1
                .parse()
                .unwrap()
        };
        assert!((value("load/bytes/sent/1min") - 6000.0).abs() < 1.0);
        let slow = value("load/bytes/sent/15min");
        assert!((2500.0..3500.0).contains(&slow), "{slow}");
        assert!(value("load/connections/1min").abs() < f64::EPSILON);
    }
}
