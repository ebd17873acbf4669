//! The table of metrics: name, kind, labels, meaning and value of each family.
//!
//! `/metrics` shows what stands here, and `docs/reference/metrics.md` is written from it.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use stentor_hub::{Holding, LossCause, Pressure, Retained};

use Kind::{Counter, Gauge, Info};

use super::exposition::{Kind, Samples};
use super::process::Process;
use super::{LISTENERS_MAX, PROCEDURES_MAX};
use crate::context::ServerContext;
use crate::control::Noted;
use crate::memory;
use crate::telemetry::{LongTurn, ShardReport};
use stentor_auth::store::Directory;
use stentor_procedure::Figures;

/// What the values of one page are read from.
pub(super) struct Sources<'a> {
    pub(super) context: &'a ServerContext,
    pub(super) directory: &'a Directory,
    /// What the main thread knows.
    pub(super) noted: &'a Noted,
    /// The last report of each shard, and its age.
    pub(super) shards: &'a [(ShardReport, Duration)],
    /// Their sum.
    pub(super) sum: &'a ShardReport,
    pub(super) process: Process,
    pub(super) procedures: &'a [Figures],
}

/// One family.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The names of its labels, for the reference.
    pub(super) labels: &'static str,
    /// What it says: a sentence.
    pub(super) meaning: &'static str,
    pub(super) read: fn(&Sources<'_>, &mut Samples<'_>),
}

/// A row of the table.
const fn family(
    name: &'static str,
    kind: Kind,
    labels: &'static str,
    meaning: &'static str,
    read: fn(&Sources<'_>, &mut Samples<'_>),
) -> Family {
    Family {
        name,
        kind,
        labels,
        meaning,
        read,
    }
}

/// The value of each shard.
fn by_shard<V: std::fmt::Display>(
    from: &Sources<'_>,
    out: &mut Samples<'_>,
    value: impl Fn(&ShardReport, Duration) -> V,
) {
    for (report, age) in from.shards {
        out.by("shard", report.shard, value(report, *age));
    }
}

/// The value of each procedure that has series of its own.
fn by_procedure<V: std::fmt::Display>(
    from: &Sources<'_>,
    out: &mut Samples<'_>,
    value: impl Fn(&Figures) -> V,
) {
    for figures in from.procedures.iter().take(PROCEDURES_MAX) {
        out.by("procedure", &figures.procedure, value(figures));
    }
}

fn secs(turn: &LongTurn) -> f64 {
    turn.took.as_secs_f64()
}

/// Seconds since 1970.
fn unix_secs(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

fn known<V: std::fmt::Display>(out: &mut Samples<'_>, value: Option<V>) {
    if let Some(value) = value {
        out.one(value);
    }
}

#[rustfmt::skip]
pub(super) const FAMILIES: &[Family] = &[
    family("stentor_build_info", Info, "version",
        "The version of the server. The value is always 1.",
        |_, out| out.by("version", env!("CARGO_PKG_VERSION"), 1)),
    // Clients.
    family("stentor_connections", Gauge, "",
        "Network connections, logged in or not.",
        |from, out| out.one(from.context.admission.connections())),
    family("stentor_clients_connected", Gauge, "",
        "Connected clients.",
        |from, out| out.one(from.sum.stats.connected)),
    family("stentor_sessions", Gauge, "",
        "Sessions with and without a connection.",
        |from, out| out.one(from.sum.stats.sessions)),
    family("stentor_subscriptions", Gauge, "",
        "Subscriptions, shared ones included.",
        |from, out| out.one(from.sum.stats.subscriptions)),
    family("stentor_connects_total", Counter, "",
        "Clients whose login was accepted.",
        |from, out| out.one(from.sum.stats.connects)),
    family("stentor_refusals_total", Counter, "reason",
        "Connections that were refused, by close reason.",
        |from, out| {
            for (reason, count) in from.context.journal.tallies().refused() {
                out.by("reason", reason, count);
            }
        }),
    family("stentor_http_refusals_total", Counter, "reason",
        "Requests by HTTP that were refused: wrong or missing logins, and rights that are missing. [The HTTP API](../http.md#refusals-that-the-operator-sees) lists the reasons.",
        |from, out| {
            for (reason, count) in from.context.journal.tallies().http_refused() {
                out.by("reason", reason, count);
            }
        }),
    family("stentor_http_logins_total", Counter, "",
        "Logins by HTTP: sessions of browsers, and tokens and certificates that were checked.",
        |from, out| out.one(from.context.journal.tallies().http_logins())),
    family("stentor_disconnects_total", Counter, "reason",
        "Connections of clients that ended, by close reason.",
        |from, out| {
            for (reason, count) in from.context.journal.tallies().ended() {
                out.by("reason", reason, count);
            }
        }),
    family("stentor_connections_shed_total", Counter, "",
        "Connections that were closed at once because no file descriptor was left.",
        |from, out| out.one(from.context.journal.tallies().shed())),
    family("stentor_sessions_expired_total", Counter, "",
        "Sessions that expired.",
        |from, out| out.one(from.sum.stats.expired)),
    family("stentor_sessions_evicted_total", Counter, "",
        "Sessions without a connection that ended early to make room.",
        |from, out| out.one(from.sum.stats.evicted)),
    family("stentor_sessions_evicted_by_memory_total", Counter, "",
        "Those of them that ended because memory was short.",
        |from, out| out.one(from.sum.stats.evicted_by_memory)),
    family("stentor_listener_connections", Gauge, "listener",
        "Connections of each listener.",
        |from, out| {
            for port in from.noted.ports.iter().take(LISTENERS_MAX) {
                out.by("listener", &port.url, port.connections.load(Ordering::Relaxed));
            }
        }),
    family("stentor_certificate_expiry_timestamp_seconds", Gauge, "listener",
        "When the certificate of an encrypted listener, or of HTTP, expires, in seconds since 1970.",
        |from, out| {
            for port in from.noted.ports.iter().take(LISTENERS_MAX) {
                let rules = port.rules.load();
                let expires_at = rules.certificate.as_ref().and_then(|it| it.expires_at());
                if let Some(at) = expires_at {
                    out.by("listener", &port.url, at);
                }
            }
            for (url, at) in from.noted.expiries.iter().take(LISTENERS_MAX) {
                out.by("listener", url, *at);
            }
        }),
    // Messages.
    family("stentor_packets_received_total", Counter, "",
        "MQTT packets received, of any type.",
        |from, out| out.one(from.sum.stats.packets_received)),
    family("stentor_packets_sent_total", Counter, "",
        "MQTT packets queued for clients, of any type.",
        |from, out| out.one(from.sum.stats.packets_sent)),
    family("stentor_messages_received_total", Counter, "",
        "PUBLISH packets received.",
        |from, out| out.one(from.sum.stats.publishes_received)),
    family("stentor_messages_sent_total", Counter, "",
        "PUBLISH packets queued for clients.",
        |from, out| out.one(from.sum.stats.publishes_sent)),
    family("stentor_received_payload_bytes_total", Counter, "",
        "Payload of the PUBLISH packets received.",
        |from, out| out.one(from.sum.stats.publish_bytes_received)),
    family("stentor_sent_payload_bytes_total", Counter, "",
        "Payload of the PUBLISH packets queued for clients.",
        |from, out| out.one(from.sum.stats.publish_bytes_sent)),
    family("stentor_received_bytes_total", Counter, "",
        "Bytes received from clients.",
        |from, out| out.one(from.sum.bytes_received)),
    family("stentor_sent_bytes_total", Counter, "",
        "Bytes sent to clients.",
        |from, out| out.one(from.sum.bytes_sent)),
    family("stentor_messages_lost_total", Counter, "cause",
        "Messages that clients did not receive, by cause. With `conflated`, a newer message of the topic took the place: that is what the client asked for.",
        |from, out| {
            for cause in LossCause::ALL.map(LossCause::label) {
                let count = from.sum.losses.causes.get(cause).copied();
                out.by("cause", cause, count.unwrap_or_default());
            }
        }),
    family("stentor_messages_withheld_total", Counter, "",
        "Messages that matched a subscription whose client has no right to receive them.",
        |from, out| out.one(from.sum.stats.publishes_withheld)),
    family("stentor_denied_total", Counter, "",
        "Publishes and subscribes that were refused, because of rights or limits.",
        |from, out| out.one(from.sum.stats.denied)),
    family("stentor_publishes_denied_total", Counter, "",
        "Publishes among them that the client had no right to.",
        |from, out| out.one(from.sum.stats.publishes_denied)),
    family("stentor_topics_refused_total", Counter, "",
        "Publishes among them whose topic was above a limit.",
        |from, out| out.one(from.sum.stats.topics_refused)),
    family("stentor_publish_to_socket_seconds", Kind::Histogram, "le",
        "The time from a publish to the write that carries it to a subscriber. It is a sample: the oldest message of one write in eight.",
        |from, out| {
            let (count, secs) = from.sum.latency.count_and_secs();
            out.histogram(from.sum.latency.powers(), count, secs);
        }),
    // Shards.
    family("stentor_shard_connections", Gauge, "shard",
        "Connections of each shard.",
        |from, out| by_shard(from, out, |report, _| report.links)),
    family("stentor_shard_connections_limit", Gauge, "",
        "The connections for which each shard has file descriptors.",
        |from, out| out.one(from.context.capacity.connections)),
    family("stentor_shard_turns_total", Counter, "shard",
        "Turns of the loop of each shard.",
        |from, out| by_shard(from, out, |report, _| report.turns)),
    family("stentor_shard_long_turns_total", Counter, "shard",
        "Turns that took as long as `log.slow_turn`, or longer.",
        |from, out| by_shard(from, out, |report, _| report.turn_report.long)),
    family("stentor_shard_longest_turn_seconds", Gauge, "shard",
        "The longest turn of the last minute.",
        |from, out| by_shard(from, out, |report, _| secs(&report.turn_report.lately))),
    family("stentor_shard_mesh_messages", Gauge, "shard, direction",
        "Messages between shards: `inward` wait to be applied, `overflowed` wait for room in a ring.",
        |from, out| {
            for (report, _) in from.shards {
                let shard = report.shard;
                out.by_both("shard", shard, "direction", "inward", report.mesh_inward);
                out.by_both("shard", shard, "direction", "overflowed", report.mesh_overflowed);
            }
        }),
    family("stentor_shard_connections_stalled", Gauge, "shard",
        "Connections that are not read because another shard is behind.",
        |from, out| by_shard(from, out, |report, _| report.stalled)),
    family("stentor_shard_report_age_seconds", Gauge, "shard",
        "The age of the figures of each shard on this page. A shard that does not answer in time keeps its last figures.",
        |from, out| by_shard(from, out, |_, age| age.as_secs_f64())),
    family("stentor_bugs_total", Counter, "",
        "Connections that were closed because of a bug of the server.",
        |from, out| out.one(from.sum.stats.bugs)),
    // Memory.
    family("stentor_memory_held_bytes", Gauge, "kind",
        "What clients make the server hold, by kind.",
        |from, out| {
            for kind in Holding::ALL {
                out.by("kind", kind.label(), from.context.ledger.of(kind));
            }
        }),
    family("stentor_memory_limit_bytes", Gauge, "",
        "The limit of their sum, `limits.memory`; 0 if there is none.",
        |from, out| out.one(memory::limit(&from.context.ledger))),
    family("stentor_memory_pressure", Gauge, "",
        "0: there is room. 1: four fifths of the limit are held, so sessions without a connection end. 2: all of it is held, so new clients are refused.",
        |from, out| out.one(match from.context.ledger.pressure() {
            Pressure::None => 0,
            Pressure::Pressed => 1,
            Pressure::Full => 2,
        })),
    // Retained messages.
    family("stentor_retained_messages", Gauge, "",
        "Topics that have a retained message, those below `$SYS/` included.",
        |from, out| out.one(from.context.retained.count())),
    family("stentor_retained_messages_limit", Gauge, "",
        "The limit of the topics with a retained message, `retained.messages`.",
        |from, out| out.one(from.noted.quota.messages_max)),
    family("stentor_retained_bytes", Gauge, "",
        "Topics, properties and payloads of the retained messages, without those below `$SYS/`.",
        |from, out| out.one(from.context.retained.bytes())),
    family("stentor_retained_limit_bytes", Gauge, "",
        "The limit of these bytes, `retained.bytes`.",
        |from, out| out.one(from.noted.quota.bytes_max)),
    family("stentor_retained_refused_total", Counter, "cause",
        "Retained messages that were not stored: because of a limit (`bound`), of the disk, or of `limits.memory`.",
        |from, out| {
            let (by_bound, by_disk) = from.context.retained.refused();
            out.by("cause", "bound", by_bound);
            out.by("cause", "disk", by_disk);
            out.by("cause", "memory", from.sum.stats.unkept_by_memory);
        }),
    family("stentor_retained_troubles", Gauge, "",
        "What is wrong with the disk of the retained messages; `stentor status` lists it.",
        |from, out| out.one(from.context.retained.troubles().len())),
    // Users.
    family("stentor_user_database_up", Gauge, "",
        "1 if the user database answers, 0 if not.",
        |from, out| out.one(u8::from(from.directory.is_available()))),
    family("stentor_user_queries_total", Counter, "",
        "Queries that look-ups of users have cost.",
        |from, out| out.one(from.directory.queries())),
    family("stentor_logins_waiting", Gauge, "",
        "Logins that wait for a hash or for the user database.",
        |from, out| out.one(from.context.authenticator.waiting())),
    family("stentor_audit_log_up", Gauge, "",
        "1 if the audit log can be written, 0 if not.",
        |from, out| out.one(u8::from(from.directory.audit_trouble().is_none()))),
    // Procedures.
    family("stentor_procedure_calls_total", Counter, "procedure",
        "Calls of each procedure that were answered, in whatever way.",
        |from, out| by_procedure(from, out, |figures| figures.calls)),
    family("stentor_procedure_errors_total", Counter, "procedure",
        "Calls among them that came to no verdict.",
        |from, out| by_procedure(from, out, |figures| -> u64 {
            figures.errors.iter().map(|(_, count)| count).sum()
        })),
    family("stentor_procedure_calls_waiting", Gauge, "procedure",
        "Calls that wait for a thread of the procedure.",
        |from, out| by_procedure(from, out, |figures| figures.waiting)),
    // The server itself.
    family("stentor_config_last_reload_successful", Gauge, "",
        "1 if the configuration was read without an error the last time, 0 if not.",
        |from, out| out.one(u8::from(from.noted.is_reload_good))),
    family("stentor_config_last_reload_success_timestamp_seconds", Gauge, "",
        "When the configuration was read without an error, in seconds since 1970.",
        |from, out| out.one(unix_secs(from.noted.read_at))),
    family("stentor_log_events_dropped_total", Counter, "",
        "Events that are missing from the log because more happened than could be written.",
        |from, out| out.one(from.context.journal.dropped())),
    family("process_cpu_seconds_total", Counter, "",
        "Processor time of the process.",
        |from, out| known(out, from.process.cpu_secs)),
    family("process_resident_memory_bytes", Gauge, "",
        "Resident memory of the process. The files of the retained messages count as far as they are cached.",
        |from, out| known(out, from.process.resident_bytes)),
    family("process_virtual_memory_bytes", Gauge, "",
        "Virtual memory of the process.",
        |from, out| known(out, from.process.virtual_bytes)),
    family("process_start_time_seconds", Gauge, "",
        "When the server started, in seconds since 1970.",
        |from, out| out.one(from.context.clock.started_at_secs())),
    family("process_open_fds", Gauge, "",
        "Open file descriptors, connections included. It is missing where all shards share one table of descriptors.",
        |from, out| known(out, from.process.descriptors.map(|own| own + from.sum.links))),
    family("process_max_fds", Gauge, "",
        "The limit of file descriptors. Each shard has a table of its own with this limit, where the system allows it.",
        |from, out| known(out, from.process.descriptors_max)),
    family("process_threads", Gauge, "",
        "Threads of the process.",
        |from, out| known(out, from.process.threads)),
];
