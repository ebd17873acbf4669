//! The server's figures as retained messages below `$SYS/`, under mosquitto's names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use stentor_hub::ControlItem;
use stentor_mqtt::QoS;
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::Zone;

use super::collect::{reports, total};
use super::day::Day;
use super::figures::{FIGURES, Sources};
use super::load::Loads;
use crate::context::ServerContext;
use crate::memory;
use crate::shard::ShardCommand;

/// How soon after the start the figures are published for the first time.
const FIRST: Duration = Duration::from_millis(200);

/// Publishes the figures at an interval until the sender of intervals is gone, and the report of
/// each day. Zero turns both off.
pub(crate) fn run(context: &ServerContext, interval: Duration, intervals: &Receiver<Duration>) {
    let mut topics = SysTopics::default();
    let mut day = Day::begin(context.clock.started_at());
    let mut interval = interval;
    let mut next = Instant::now() + FIRST.min(interval);
    loop {
        let received = if interval.is_zero() {
            intervals.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            let wait = next.saturating_duration_since(Instant::now());
            intervals.recv_timeout(wait.min(day.rest(SystemTime::now())))
        };
        let now = Instant::now();
        match received {
            Ok(new) => {
                interval = new;
                next = now + interval;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if now >= next {
                    day.count_clients(topics.publish(context, interval));
                    next = now + interval;
                }
                day.look(context, SystemTime::now());
            }
        }
    }
}

/// Publishes a retained message of the server's own below `$SYS/broker/`.
pub(super) fn publish(context: &ServerContext, name: &str, value: &[u8]) {
    publish_at(context, &format!("$SYS/broker/{name}"), value);
}

/// The same on any topic.
pub(super) fn publish_at(context: &ServerContext, topic: &str, value: &[u8]) {
    let parts = MessageParts {
        topic,
        properties: &[],
        payload: value,
        qos: QoS::AtMostOnce,
        retain: true,
        expiry_secs: None,
    };
    let now = context.clock.now();
    let message = Message::new(Zone::DEFAULT, Publisher::SERVER, now, &parts);
    context.post(
        0,
        ShardCommand::Hub(ControlItem::Publish(Arc::new(message))),
    );
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
    /// Asks the shards and publishes what has changed. Returns how many clients are connected.
    pub(crate) fn publish(&mut self, context: &ServerContext, interval: Duration) -> u64 {
        let now = context.clock.now();
        let sum = total(&reports(context));
        let elapsed = if self.published_at == Tick::ZERO {
            interval
        } else {
            now.since(self.published_at)
        };
        self.published_at = now;
        self.clients_max = self.clients_max.max(sum.stats.connected);
        let heap_bytes = memory::anonymous_bytes().map(|current| {
            self.heap_max = self.heap_max.max(current);
            (current, self.heap_max)
        });
        memory::take_stock(context);
        let sources = Sources {
            context,
            sum: &sum,
            now,
            clients_max: self.clients_max,
            heap_bytes,
        };
        let figures = FIGURES.iter().filter_map(|figure| figure.read(&sources));
        let mut figures: Vec<(String, String)> = figures.collect();
        self.loads.update(&sum, elapsed, &mut figures);
        for (name, value) in figures {
            self.publish_figure(context, name, value);
        }
        sum.stats.connected
    }

    fn publish_figure(&mut self, context: &ServerContext, name: String, value: String) {
        if self.last.get(&name) != Some(&value) {
            publish(context, &name, value.as_bytes());
            self.last.insert(name, value);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use stentor_hub::{Cursor, Retained, Scope, Walk};

    use super::*;
    use crate::lifecycle::testing::Running;

    pub(in crate::telemetry) fn published(context: &ServerContext) -> HashMap<String, String> {
        let all = published_below(context, "$SYS/#").into_iter();
        let name = |topic: String| topic.strip_prefix("$SYS/broker/").unwrap().to_owned();
        all.map(|(topic, value)| (name(topic), value)).collect()
    }

    /// The same of any filter, by topics.
    pub(in crate::telemetry) fn published_below(
        context: &ServerContext,
        filter: &str,
    ) -> HashMap<String, String> {
        // The report comes after what was posted before.
        assert_eq!(reports(context).len(), context.shards.len());
        let (mark, mut cursor) = (context.retained.mark(), Cursor::default());
        let mut found = Vec::new();
        let scope = Scope::until(mark, context.clock.now());
        let store = &context.retained;
        while store.walk(Zone::DEFAULT, filter, scope, &mut cursor, 1_000, &mut found) == Walk::More
        {
        }
        let pair = |message: Arc<Message>| {
            let payload = String::from_utf8(message.payload().to_vec()).unwrap();
            (message.topic().to_owned(), payload)
        };
        found.into_iter().map(pair).collect()
    }

    #[test]
    fn the_figures_stand_under_the_names_that_mosquitto_gives_them() {
        let server = Running::start(&[("shards", "1")]);
        let context = server.context();
        let mut topics = SysTopics::default();
        topics.publish(context, Duration::from_secs(10));
        let first = published(context);
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
            "memory/journal",
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
        topics.publish(context, Duration::from_secs(10));
        let second = published(context);
        assert_eq!(second["retained messages/count"], first.len().to_string());
        server.stop();
    }
}
