//! The table of the figures that have a history: name, kind, unit, meaning and value.
//!
//! A figure's number is its place here, and files have that number. So a figure stays where it is,
//! a new one comes at the end, and one that is gone leaves its place to none.

use std::fmt::Write as _;

use stentor_auth::store::Directory;
use stentor_control::figures::{Kind, Unit};
use stentor_hub::{Holding, Retained};
use stentor_procedure::Figures as Procedure;
use stentor_series::FIGURES_MAX;

use Kind::{Level, PerSecond};
use Unit::{Bytes, Count, Seconds};

use crate::context::ServerContext;
use crate::telemetry::ShardReport;
use crate::telemetry::metrics::process::Process;

/// What the values of one moment are read from.
pub(super) struct Sources<'a> {
    pub(super) context: &'a ServerContext,
    pub(super) directory: &'a Directory,
    /// The sum of all shards.
    pub(super) sum: &'a ShardReport,
    pub(super) process: Process,
    pub(super) procedures: &'a [Procedure],
}

/// One figure.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    /// What it says, for the reference: a phrase without a full stop.
    meaning: &'static str,
    /// The level, or the counter; `None` where the system does not tell.
    pub(super) read: fn(&Sources<'_>) -> Option<f64>,
}

/// A row of the table.
const fn figure(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    meaning: &'static str,
    read: fn(&Sources<'_>) -> Option<f64>,
) -> Figure {
    Figure {
        name,
        kind,
        unit,
        meaning,
        read,
    }
}

/// A number of the table.
const fn some(value: u64) -> Option<f64> {
    // Exact up to 2^53.
    Some(value as f64)
}

fn held(from: &Sources<'_>, kind: Holding) -> Option<f64> {
    some(from.context.ledger.of(kind))
}

fn refused(from: &Sources<'_>) -> u64 {
    let (by_bound, by_disk) = from.context.retained.refused();
    by_bound + by_disk + from.sum.stats.unkept_by_memory
}

fn backlog(from: &Sources<'_>) -> u64 {
    let spool = from.context.journals.as_ref().and_then(|it| it.spool.get());
    spool.map_or(0, stentor_spool::Monitor::bytes)
}

fn errors(from: &Sources<'_>) -> u64 {
    let errors = from.procedures.iter().flat_map(|it| &it.errors);
    errors.map(|(_, count)| count).sum()
}

#[rustfmt::skip]
pub(super) const FIGURES: &[Figure] = &[
    figure("clients_connected", Level, Count, "connected clients",
        |from| some(from.sum.stats.connected)),
    figure("connections", Level, Count, "network connections, logged in or not",
        |from| some(from.context.admission.connections())),
    figure("sessions", Level, Count, "sessions with and without a connection",
        |from| some(from.sum.stats.sessions)),
    figure("subscriptions", Level, Count, "subscriptions, shared ones included",
        |from| some(from.sum.stats.subscriptions)),
    figure("shared_subscriptions", Level, Count, "shared subscriptions, once for each of their sessions",
        |from| some(from.sum.shared_subscriptions)),
    figure("connects", PerSecond, Count, "clients whose login was accepted",
        |from| some(from.sum.stats.connects)),
    figure("refusals", PerSecond, Count, "connections that were refused",
        |from| some(from.sum.refused)),
    figure("disconnects", PerSecond, Count, "connections of clients that ended",
        |from| some(from.context.journal.tallies().ended().map(|(_, count)| count).sum())),
    figure("sessions_expired", PerSecond, Count, "sessions that expired",
        |from| some(from.sum.stats.expired)),
    figure("sessions_evicted", PerSecond, Count, "sessions without a connection that ended early to make room",
        |from| some(from.sum.stats.evicted)),
    figure("packets_received", PerSecond, Count, "MQTT packets received, of any type",
        |from| some(from.sum.stats.packets_received)),
    figure("packets_sent", PerSecond, Count, "MQTT packets queued for clients, of any type",
        |from| some(from.sum.stats.packets_sent)),
    figure("messages_received", PerSecond, Count, "PUBLISH packets received",
        |from| some(from.sum.stats.publishes_received)),
    figure("messages_sent", PerSecond, Count, "PUBLISH packets queued for clients",
        |from| some(from.sum.stats.publishes_sent)),
    figure("received_payload_bytes", PerSecond, Bytes, "payload of the PUBLISH packets received",
        |from| some(from.sum.stats.publish_bytes_received)),
    figure("sent_payload_bytes", PerSecond, Bytes, "payload of the PUBLISH packets queued for clients",
        |from| some(from.sum.stats.publish_bytes_sent)),
    figure("received_bytes", PerSecond, Bytes, "bytes received from clients",
        |from| some(from.sum.bytes_received)),
    figure("sent_bytes", PerSecond, Bytes, "bytes sent to clients",
        |from| some(from.sum.bytes_sent)),
    figure("messages_lost", PerSecond, Count, "messages that clients did not receive",
        |from| some(from.sum.stats.publishes_dropped)),
    figure("messages_withheld", PerSecond, Count, "messages that matched a subscription whose client has no right to receive them",
        |from| some(from.sum.stats.publishes_withheld)),
    figure("denied", PerSecond, Count, "publishes and subscribes that were refused",
        |from| some(from.sum.stats.denied)),
    figure("topics_refused", PerSecond, Count, "publishes among them whose topic was above a limit",
        |from| some(from.sum.stats.topics_refused)),
    figure("bugs", PerSecond, Count, "connections that were closed because of a bug of the server",
        |from| some(from.sum.stats.bugs)),
    figure("connections_stalled", Level, Count, "connections that are not read because another shard is behind",
        |from| some(from.sum.stalled)),
    figure("mesh_messages", Level, Count, "messages between shards that wait",
        |from| some(from.sum.mesh_inward + from.sum.mesh_overflowed)),
    figure("turns", PerSecond, Count, "turns of the loops of all shards",
        |from| some(from.sum.turns)),
    figure("long_turns", PerSecond, Count, "turns that took as long as `log.slow_turn`, or longer",
        |from| some(from.sum.turn_report.long)),
    figure("longest_turn_seconds", Level, Seconds, "the longest turn of the minute before",
        |from| Some(from.sum.turn_report.lately.took.as_secs_f64())),
    figure("memory_held_bytes", Level, Bytes, "what clients make the server hold",
        |from| some(from.context.ledger.total())),
    figure("memory_sessions_bytes", Level, Bytes, "of that, sessions and subscriptions",
        |from| held(from, Holding::Sessions)),
    figure("memory_queues_bytes", Level, Bytes, "of that, messages that wait for clients",
        |from| held(from, Holding::Queues)),
    figure("memory_draining_bytes", Level, Bytes, "of that, what closed connections still have to be sent",
        |from| held(from, Holding::Draining)),
    figure("memory_connections_bytes", Level, Bytes, "of that, connections with their buffers",
        |from| held(from, Holding::Connections)),
    figure("memory_work_bytes", Level, Bytes, "of that, work that continues in later turns",
        |from| held(from, Holding::Work)),
    figure("memory_mesh_bytes", Level, Bytes, "of that, messages on their way between shards",
        |from| held(from, Holding::Mesh)),
    figure("memory_journal_bytes", Level, Bytes, "of that, what waits for the files of the sessions",
        |from| held(from, Holding::Journal)),
    figure("memory_retained_bytes", Level, Bytes, "of that, the index of the retained topics",
        |from| held(from, Holding::Retained)),
    figure("memory_rooms_bytes", Level, Bytes, "of that, rooms with their histories",
        |from| held(from, Holding::Rooms)),
    figure("retained_messages", Level, Count, "topics that have a retained message",
        |from| some(from.context.retained.count())),
    figure("retained_bytes", Level, Bytes, "topics, properties and payloads of the retained messages",
        |from| some(from.context.retained.bytes())),
    figure("retained_refused", PerSecond, Count, "retained messages that were not stored",
        |from| some(refused(from))),
    figure("session_store_bytes", Level, Bytes, "the files of the sessions",
        |from| some(from.context.journals.as_ref().map_or(0, |it| it.monitor.bytes()))),
    figure("session_store_written_bytes", PerSecond, Bytes, "what is appended to these files",
        |from| some(from.context.journals.as_ref().map_or(0, |it| it.monitor.written_bytes()))),
    figure("backlog_bytes", Level, Bytes, "messages on the disk for sessions whose clients are away",
        |from| some(backlog(from))),
    figure("user_queries", PerSecond, Count, "queries that look-ups of users cost",
        |from| some(from.directory.queries())),
    figure("logins_waiting", Level, Count, "logins that wait for a hash or for the user database",
        |from| some(from.context.authenticator.waiting() as u64)),
    figure("procedure_calls", PerSecond, Count, "calls of procedures that were answered",
        |from| some(from.procedures.iter().map(|it| it.calls).sum())),
    figure("procedure_errors", PerSecond, Count, "calls among them that came to no verdict",
        |from| some(errors(from))),
    figure("procedure_calls_waiting", Level, Count, "calls that wait for a thread of their procedure",
        |from| some(from.procedures.iter().map(|it| it.waiting as u64).sum())),
    figure("cpu_seconds", PerSecond, Seconds, "processor time of the process: 1.5 is one and a half processors",
        |from| from.process.cpu_secs),
    figure("resident_memory_bytes", Level, Bytes, "resident memory of the process",
        |from| from.process.resident_bytes.and_then(some)),
    figure("heap_bytes", Level, Bytes, "the anonymous part of the resident memory",
        |from| from.process.anonymous_bytes.and_then(some)),
    figure("threads", Level, Count, "threads of the process",
        |from| from.process.threads.and_then(some)),
    figure("log_events_dropped", PerSecond, Count, "events that are missing from the log",
        |from| some(from.context.journal.dropped())),
    figure("connections_shed", PerSecond, Count, "connections that were closed at once because no file descriptor was left",
        |from| some(from.context.journal.tallies().shed())),
    figure("memory_procedures_bytes", Level, Bytes, "of `memory_held_bytes`, messages that procedures are asked about",
        |from| held(from, Holding::Procedures)),
];

const _: () = assert!(
    FIGURES.len() <= FIGURES_MAX,
    "a row has room for FIGURES_MAX"
);

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/server/src/telemetry/figure_history/table.rs: change
     it there. -->

# Figures with a history

`stentor figures` shows what these figures were, from an hour to two years ago.
[The history of the figures](../figures.md) says how to use it.

- **Names** are those of the [metrics](metrics.md), without `stentor_`, `process_` and `_total`,
  where there is such a metric. Its labels are summed.
- **level** is a number at a moment. **per second** is counted in each second.

| figure | kind | unit | meaning |
|---|---|---|---|
";

/// The reference page, `docs/reference/figures.md`.
#[must_use]
pub fn figures_reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for figure in FIGURES {
        let kind = match figure.kind {
            Level => "level",
            PerSecond => "per second",
        };
        let unit = match figure.unit {
            Count => "",
            Bytes => "bytes",
            Seconds => "seconds",
        };
        let (name, meaning) = (figure.name, figure.meaning);
        let _ = writeln!(out, "| `{name}` | {kind} | {unit} | {meaning} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_tells_its_unit() {
        for (at, figure) in FIGURES.iter().enumerate() {
            let name = figure.name;
            let is_new = FIGURES[..at].iter().all(|other| other.name != name);
            assert!(is_new, "{name} is there twice");
            assert_eq!(name.ends_with("_bytes"), figure.unit == Bytes, "{name}");
            assert_eq!(name.ends_with("_seconds"), figure.unit == Seconds, "{name}");
        }
    }

    #[test]
    fn figures_keep_their_numbers() {
        // Files have the numbers: add at the end, and never move a figure.
        let known = [
            (0, "clients_connected"),
            (13, "messages_sent"),
            (28, "memory_held_bytes"),
        ];
        for (number, name) in known {
            assert_eq!(FIGURES[number].name, name);
        }
    }

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        let path = format!("{crate_folder}/../../docs/reference/figures.md");
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == figures_reference(),
            "docs/reference/figures.md is out of date; run `cargo xtask gen`"
        );
    }
}
