//! The server's figures as retained messages below `$SYS/`, under mosquitto's names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use stentor_hub::{ControlItem, Holding, Retained};
use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

use super::collect::{reports, total};
use super::load::Loads;
use super::report::{LongTurn, ShardReport};
use crate::backplane::Backplane;
use crate::memory;
use crate::shard::Letter;

/// How soon after the start the figures are published for the first time.
const FIRST: Duration = Duration::from_millis(200);

/// Publishes the figures at an interval until the sender of intervals is gone. Zero turns them
/// off.
pub(crate) fn run(backplane: &Backplane, interval: Duration, intervals: &Receiver<Duration>) {
    let mut topics = SysTopics::default();
    let mut interval = interval;
    let mut wait = FIRST;
    loop {
        let received = if interval.is_zero() {
            intervals.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            intervals.recv_timeout(wait.min(interval))
        };
        match received {
            Ok(new) => interval = new,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => topics.publish(backplane, interval),
        }
        wait = interval;
    }
}

/// What clients make the server hold, in all and by kind, and the limit.
fn held(backplane: &Backplane) -> impl Iterator<Item = (String, String)> {
    let ledger = &backplane.ledger;
    memory::take_stock(backplane);
    let sums = [("held", ledger.total()), ("limit", memory::limit(ledger))];
    let kinds = Holding::ALL.map(|kind| (kind.label(), ledger.of(kind)));
    let all = sums.into_iter().chain(kinds);
    all.map(|(name, bytes)| (format!("memory/{name}"), bytes.to_string()))
}

fn micros(turn: &LongTurn) -> u64 {
    u64::try_from(turn.took.as_micros()).unwrap_or(u64::MAX)
}

/// What was published last, so that only changes are published again.
#[derive(Debug, Default)]
pub(crate) struct SysTopics {
    last: HashMap<String, String>,
    loads: Loads,
    clients_max: u64,
    /// The most memory at a publication, in bytes.
    heap_max: u64,
    published_at: Tick,
}

impl SysTopics {
    /// Asks the shards and publishes what has changed.
    pub(crate) fn publish(&mut self, backplane: &Backplane, interval: Duration) {
        let now = backplane.clock.now();
        let sum = total(&reports(backplane));
        let elapsed = if self.published_at == Tick::ZERO {
            interval
        } else {
            now.since(self.published_at)
        };
        self.published_at = now;
        self.clients_max = self.clients_max.max(sum.stats.connected);
        let mut figures = self.figures(backplane, &sum, now);
        if let Some(current) = memory::anonymous_bytes() {
            self.heap_max = self.heap_max.max(current);
            figures.push(("heap/current".to_owned(), current.to_string()));
            figures.push(("heap/maximum".to_owned(), self.heap_max.to_string()));
        }
        self.loads.update(&sum, elapsed, &mut figures);
        for (name, value) in figures {
            self.publish_figure(backplane, now, name, value);
        }
    }

    fn figures(
        &self,
        backplane: &Backplane,
        sum: &ShardReport,
        now: Tick,
    ) -> Vec<(String, String)> {
        let stats = &sum.stats;
        let refused = backplane.retained.refused();
        let away = stats.sessions.saturating_sub(stats.connected);
        let counts = [
            ("clients/total", stats.sessions),
            ("clients/maximum", self.clients_max),
            ("clients/inactive", away),
            ("clients/disconnected", away),
            ("clients/active", stats.connected),
            ("clients/connected", stats.connected),
            ("clients/expired", stats.expired),
            ("messages/received", stats.packets_received),
            ("messages/sent", stats.packets_sent),
            ("messages/stored", backplane.retained.count()),
            ("publish/messages/received", stats.publishes_received),
            ("publish/messages/sent", stats.publishes_sent),
            ("publish/messages/dropped", stats.publishes_dropped),
            ("publish/messages/withheld", stats.publishes_withheld),
            ("publish/bytes/received", stats.publish_bytes_received),
            ("publish/bytes/sent", stats.publish_bytes_sent),
            ("bytes/received", sum.bytes_received),
            ("bytes/sent", sum.bytes_sent),
            ("subscriptions/count", stats.subscriptions),
            ("shared_subscriptions/count", sum.shared_subscriptions),
            ("retained messages/count", backplane.retained.count()),
            ("store/messages/count", backplane.retained.count()),
            ("store/messages/bytes", backplane.retained.bytes()),
            ("store/messages/refused", refused.0 + refused.1),
            ("store/troubles", backplane.retained.troubles().len() as u64),
            ("turns/long", sum.turn_report.long),
            ("turns/longest_us", micros(&sum.turn_report.longest)),
            ("turns/longest_us/1min", micros(&sum.turn_report.lately)),
        ];
        let mut figures: Vec<(String, String)> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), count.to_string()))
            .collect();
        figures.extend(held(backplane));
        let version = concat!("stentor version ", env!("CARGO_PKG_VERSION"));
        figures.push(("version".to_owned(), version.to_owned()));
        figures.push(("uptime".to_owned(), format!("{} seconds", now.as_secs())));
        figures
    }

    fn publish_figure(&mut self, backplane: &Backplane, now: Tick, name: String, value: String) {
        if self.last.get(&name) == Some(&value) {
            return;
        }
        let topic = format!("$SYS/broker/{name}");
        let parts = MessageParts {
            topic: &topic,
            properties: &[],
            payload: value.as_bytes(),
            qos: QoS::AtMostOnce,
            retain: true,
            expiry_secs: None,
        };
        let message = Message::new(Zone::DEFAULT, Publisher::SERVER, now, &parts);
        backplane.post(0, Letter::Hub(ControlItem::Publish(Arc::new(message))));
        self.last.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use stentor_hub::{Cursor, Scope, Walk};

    use super::*;
    use crate::lifecycle::testing::Running;

    fn published(backplane: &Backplane) -> HashMap<String, String> {
        // The report comes after what was posted before.
        assert_eq!(reports(backplane).len(), backplane.shards.len());
        let (mark, mut cursor) = (backplane.retained.mark(), Cursor::default());
        let mut found = Vec::new();
        let scope = Scope::until(mark, backplane.clock.now());
        let store = &backplane.retained;
        while store.walk(
            Zone::DEFAULT,
            "$SYS/#",
            scope,
            &mut cursor,
            1_000,
            &mut found,
        ) == Walk::More
        {}
        let pair = |message: Arc<Message>| {
            let name = message
                .topic()
                .strip_prefix("$SYS/broker/")
                .unwrap()
                .to_owned();
            (name, String::from_utf8(message.payload().to_vec()).unwrap())
        };
        found.into_iter().map(pair).collect()
    }

    #[test]
    fn the_figures_stand_under_the_names_that_mosquitto_gives_them() {
        let server = Running::start(&[("shards", "1")]);
        let backplane = server.backplane();
        let mut topics = SysTopics::default();
        topics.publish(backplane, Duration::from_secs(10));
        let first = published(backplane);
        for name in [
            "version",
            "uptime",
            "clients/total",
            "clients/connected",
            "clients/disconnected",
            "clients/maximum",
            "clients/expired",
            "messages/received",
            "messages/sent",
            "messages/stored",
            "publish/messages/dropped",
            "publish/messages/received",
            "publish/messages/sent",
            "publish/bytes/received",
            "publish/bytes/sent",
            "bytes/received",
            "bytes/sent",
            "subscriptions/count",
            "shared_subscriptions/count",
            "heap/current",
            "heap/maximum",
            "retained messages/count",
            "store/messages/count",
            "store/messages/bytes",
            "memory/held",
            "memory/limit",
            "memory/sessions",
            "memory/queues",
            "memory/draining",
            "memory/connections",
            "memory/work",
            "memory/mesh",
            "memory/retained",
            "load/messages/received/1min",
            "load/messages/sent/5min",
            "load/publish/dropped/15min",
            "load/publish/received/1min",
            "load/publish/sent/1min",
            "load/bytes/received/1min",
            "load/bytes/sent/1min",
            "load/sockets/1min",
            "load/connections/1min",
        ] {
            assert!(first.contains_key(name), "{name}");
        }
        assert!(first["uptime"].ends_with(" seconds"));
        let heap = |name: &str| first[name].parse::<u64>().unwrap();
        // A process of this size holds megabytes.
        assert!(heap("heap/current") > 1 << 20);
        assert!(heap("heap/maximum") >= heap("heap/current"));
        assert_eq!(first["retained messages/count"], "0");
        topics.publish(backplane, Duration::from_secs(10));
        let second = published(backplane);
        assert_eq!(second["retained messages/count"], first.len().to_string());
        server.stop();
    }
}
