//! The table of the topics below `$SYS/broker/`: name, unit, meaning and value of each figure.
//!
//! The server publishes what stands here, and `docs/reference/sys-topics.md` is written from it.

use stentor_hub::{Holding, Retained};
use stentor_session::Tick;

use Value::{Known, Number, Text};

use super::load::{COUNTERS, SPANS};
use super::report::{LongTurn, ShardReport};
use crate::context::ServerContext;
use crate::memory;

/// What the values of one publication are read from.
pub(super) struct Sources<'a> {
    pub(super) context: &'a ServerContext,
    /// The sum of all shards.
    pub(super) sum: &'a ShardReport,
    /// The time since the start.
    pub(super) now: Tick,
    /// The most clients at a publication.
    pub(super) clients_max: u64,
    /// The anonymous memory now, and the most at a publication; `None` where the system does not
    /// tell.
    pub(super) heap_bytes: Option<(u64, u64)>,
}

/// How a value is read.
enum Value {
    /// A number.
    Number(fn(&Sources<'_>) -> u64),
    /// A number that not every system tells.
    Known(fn(&Sources<'_>) -> Option<u64>),
    /// A text.
    Text(fn(&Sources<'_>) -> String),
}

/// One topic.
pub(super) struct Figure {
    /// The topic after `$SYS/broker/`.
    name: &'static str,
    unit: &'static str,
    /// What it says, for the reference: a phrase without a full stop.
    meaning: &'static str,
    value: Value,
}

impl Figure {
    /// The topic after `$SYS/broker/` and the payload; `None` where there is nothing to publish.
    pub(super) fn read(&self, sources: &Sources<'_>) -> Option<(String, String)> {
        let value = match self.value {
            Number(read) => read(sources).to_string(),
            Known(read) => read(sources)?.to_string(),
            Text(read) => read(sources),
        };
        Some((self.name.to_owned(), value))
    }
}

/// A row of the table.
const fn figure(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    value: Value,
) -> Figure {
    Figure {
        name,
        unit,
        meaning,
        value,
    }
}

fn micros(turn: &LongTurn) -> u64 {
    u64::try_from(turn.took.as_micros()).unwrap_or(u64::MAX)
}

fn away(sources: &Sources<'_>) -> u64 {
    let stats = &sources.sum.stats;
    stats.sessions.saturating_sub(stats.connected)
}

fn refused(sources: &Sources<'_>) -> u64 {
    let (by_bound, by_disk) = sources.context.retained.refused();
    by_bound + by_disk + sources.sum.stats.unkept_by_memory
}

fn held(sources: &Sources<'_>, kind: Holding) -> u64 {
    sources.context.ledger.of(kind)
}

#[rustfmt::skip]
pub(super) const FIGURES: &[Figure] = &[
    figure("version", "text", "the name and the version of the server",
        Text(|_| concat!("stentor version ", env!("CARGO_PKG_VERSION")).to_owned())),
    figure("uptime", "`N seconds`", "the time since the start",
        Text(|from| format!("{} seconds", from.now.as_secs()))),
    figure("clients/total", "sessions now", "sessions with and without a connection",
        Number(|from| from.sum.stats.sessions)),
    figure("clients/maximum", "clients", "the most connected clients at a publication since the start",
        Number(|from| from.clients_max)),
    figure("clients/connected", "clients now", "connected clients",
        Number(|from| from.sum.stats.connected)),
    figure("clients/active", "clients now", "the same as `clients/connected`",
        Number(|from| from.sum.stats.connected)),
    figure("clients/disconnected", "sessions now", "sessions without a connection",
        Number(away)),
    figure("clients/inactive", "sessions now", "the same as `clients/disconnected`",
        Number(away)),
    figure("clients/expired", "sessions", "sessions that expired",
        Number(|from| from.sum.stats.expired)),
    figure("messages/received", "packets", "MQTT packets received, of any type",
        Number(|from| from.sum.stats.packets_received)),
    figure("messages/sent", "packets", "MQTT packets queued for clients, of any type",
        Number(|from| from.sum.stats.packets_sent)),
    figure("messages/stored", "messages now", "the same as `retained messages/count`",
        Number(|from| from.context.retained.count())),
    figure("publish/messages/received", "messages", "PUBLISH packets received",
        Number(|from| from.sum.stats.publishes_received)),
    figure("publish/messages/sent", "messages", "PUBLISH packets queued for clients",
        Number(|from| from.sum.stats.publishes_sent)),
    figure("publish/messages/dropped", "messages", "messages that clients lost; `stentor status` shows the causes",
        Number(|from| from.sum.stats.publishes_dropped)),
    figure("publish/messages/withheld", "messages", "messages that matched a subscription whose client has no right to receive them",
        Number(|from| from.sum.stats.publishes_withheld)),
    figure("publish/bytes/received", "bytes", "payload of the PUBLISH packets received",
        Number(|from| from.sum.stats.publish_bytes_received)),
    figure("publish/bytes/sent", "bytes", "payload of the PUBLISH packets queued for clients",
        Number(|from| from.sum.stats.publish_bytes_sent)),
    figure("bytes/received", "bytes", "bytes received from clients",
        Number(|from| from.sum.bytes_received)),
    figure("bytes/sent", "bytes", "bytes sent to clients",
        Number(|from| from.sum.bytes_sent)),
    figure("subscriptions/count", "subscriptions now", "subscriptions, shared ones included",
        Number(|from| from.sum.stats.subscriptions)),
    figure("shared_subscriptions/count", "subscriptions now", "shared subscriptions, one for each session that has it",
        Number(|from| from.sum.shared_subscriptions)),
    figure("retained messages/count", "messages now", "topics that have a retained message, those below `$SYS/` included",
        Number(|from| from.context.retained.count())),
    figure("store/messages/count", "messages now", "the same as `retained messages/count`",
        Number(|from| from.context.retained.count())),
    figure("store/messages/bytes", "bytes now", "topics, properties and payloads of the retained messages, without those below `$SYS/`",
        Number(|from| from.context.retained.bytes())),
    figure("store/messages/refused", "messages", "retained messages that were not stored, because of a limit or the disk",
        Number(refused)),
    figure("store/troubles", "troubles now", "what is wrong with the disk of the retained messages; `stentor status` lists it",
        Number(|from| from.context.retained.troubles().len() as u64)),
    figure("turns/long", "turns", "[long turns](../turns.md)",
        Number(|from| from.sum.turn_report.long)),
    figure("turns/longest_us", "microseconds", "the longest turn since the start",
        Number(|from| micros(&from.sum.turn_report.longest))),
    figure("turns/longest_us/1min", "microseconds", "the longest turn of the last minute",
        Number(|from| micros(&from.sum.turn_report.lately))),
    figure("memory/held", "bytes now", "what [clients make the server hold](../limits.md), in all",
        Number(|from| from.context.ledger.total())),
    figure("memory/limit", "bytes", "the limit of `memory/held`; 0 if there is no limit",
        Number(|from| memory::limit(&from.context.ledger))),
    figure("memory/sessions", "bytes now", "sessions with their subscriptions, aliases and wills",
        Number(|from| held(from, Holding::Sessions))),
    figure("memory/queues", "bytes now", "packets that wait for clients or are in flight; a message counts for each client that it waits for",
        Number(|from| held(from, Holding::Queues))),
    figure("memory/draining", "bytes now", "data that waits for the sockets of disconnected clients",
        Number(|from| held(from, Holding::Draining))),
    figure("memory/connections", "bytes now", "packets and logins that are not complete, the buffers of TLS and WebSocket, and what event streams hold",
        Number(|from| held(from, Holding::Connections))),
    figure("memory/work", "bytes now", "work of earlier packets that continues in later turns",
        Number(|from| held(from, Holding::Work))),
    figure("memory/mesh", "bytes now", "messages on their way between shards",
        Number(|from| held(from, Holding::Mesh))),
    figure("memory/journal", "bytes now", "what waits until the files of the sessions have it",
        Number(|from| held(from, Holding::Journal))),
    figure("memory/retained", "bytes now", "the index of the retained topics; the messages themselves are in files",
        Number(|from| held(from, Holding::Retained))),
    figure("memory/rooms", "bytes now", "rooms with their properties and histories",
        Number(|from| held(from, Holding::Rooms))),
    figure("memory/procedures", "bytes now", "messages that procedures are asked about, without those in files",
        Number(|from| held(from, Holding::Procedures))),
    figure("heap/current", "bytes now", "the resident anonymous memory of the process; only on systems that tell it",
        Known(|from| from.heap_bytes.map(|(current, _)| current))),
    figure("heap/maximum", "bytes", "the highest published value of `heap/current`",
        Known(|from| from.heap_bytes.map(|(_, max)| max))),
];

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/server/src/telemetry/figures.rs: change it there. -->

# `$SYS` topics

The server publishes its figures as retained messages below `$SYS/broker/`. The names are those of
mosquitto where mosquitto has the figure, so dashboards and exporters for mosquitto work.

- **Time:** the first publication is shortly after the start, the next ones are every
  [`sys.interval`](../configuration.md). A figure that has not changed is not published again.
- **Units:** a figure with \"now\" is the state at the publication. Counts of packets, messages,
  bytes, sessions and turns begin at 0 when the server starts.
- **Rights:** a user needs the right to subscribe to these topics. The roles `member`, `admin` and
  `anonymous` have it.
- **Zones:** the topics are in the zone `default`.
- **Days:** `report/day` and `report/day/json` have the
  [report of each day](../procedures.md#the-report-of-each-day), from midnight to midnight in UTC.

`stentor status` shows the same figures and more, without MQTT.

## Figures

| topic below `$SYS/broker/` | unit | meaning |
|---|---|---|
";

const AVERAGES: &str = "
## Averages

Each of these is a moving average of a number per minute, with two decimals. The topic ends in the
time that it covers: ";

/// The reference page, `docs/reference/sys-topics.md`.
#[must_use]
pub fn sys_topics() -> String {
    let mut out = String::from(INTRODUCTION);
    for figure in FIGURES {
        let Figure {
            name,
            unit,
            meaning,
            ..
        } = figure;
        out.push_str(&format!("| `{name}` | {unit} | {meaning} |\n"));
    }
    out.push_str(AVERAGES);
    let spans = SPANS.map(|(_, suffix)| format!("`/{suffix}`"));
    out.push_str(&format!("{}.\n\n", spans.join(", ")));
    out.push_str("| topic below `$SYS/broker/` | what is counted |\n|---|---|\n");
    for (name, meaning, _) in COUNTERS {
        out.push_str(&format!("| `{name}/…` | {meaning} |\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_memory_has_a_topic_and_each_topic_is_there_once() {
        let count = |name: &str| FIGURES.iter().filter(|one| one.name == name).count();
        for kind in Holding::ALL {
            assert_eq!(count(&format!("memory/{}", kind.label())), 1, "{kind:?}");
        }
        for figure in FIGURES {
            assert_eq!(count(figure.name), 1, "{}", figure.name);
        }
    }

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        // At run time: objects may be shared between checkouts, and this one is meant.
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        let page = crate_folder + "/../../docs/reference/sys-topics.md";
        let found = std::fs::read_to_string(page).unwrap_or_default();
        assert!(
            found == sys_topics(),
            "docs/reference/sys-topics.md is out of date; run `cargo xtask gen`"
        );
    }
}
