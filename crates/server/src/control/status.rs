//! The verb `status`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use stentor_control::reload::{Done, Last};
use stentor_control::status::{
    Figures, Holder as Held, Listener, Loss, Losses, Memory, Queues, Rates, Retained as Kept,
    SessionStore, Shard, Status, Told, Trouble, Turn, Turns,
};
use stentor_hub::{Holder, Holding, Retained};

use super::{Admin, ReloadNote, lock, zones};
use crate::context::ServerContext;
use crate::fdtable::Table;
use crate::lifecycle::Reloaded;
use crate::listener::Port;
use crate::shard::Survey;
use crate::survey::Age;
use crate::telemetry::collect::{reports, survey, total};
use crate::telemetry::{LongTurn, ShardReport, TurnReport, latency};

/// Rates are measured over this long at most.
const SAMPLE_MAX: Duration = Duration::from_secs(10);

/// Losses named by client and topic.
const WORST: usize = 20;

/// Sessions named that hold most.
const HOLDERS: usize = 10;

/// Counters, depths and latencies, of the whole server and of each shard.
pub(super) fn status(admin: &Admin, request: &Status) -> Told {
    let context = &*admin.context;
    let rates = (request.sample_ms > 0).then(|| {
        let window = Duration::from_millis(request.sample_ms).min(SAMPLE_MAX);
        let (before, since) = (total(&reports(context)), Instant::now());
        // This is a thread of its own.
        std::thread::sleep(window);
        rates(&before, &total(&reports(context)), since.elapsed())
    });
    let age = Age::of(request.fresh);
    let reports = reports(context);
    let sum = total(&reports);
    let uptime = context.clock.now().since(stentor_session::Tick::ZERO);
    let (ports, reload, password_hash, newer_file) = {
        let notes = lock(&admin.notes);
        let ports: Vec<Listener> = notes.ports.iter().map(|port| listener(port)).collect();
        let reload = notes.last_reload.as_ref().map(reload);
        let newer_file = notes.newer_file();
        (ports, reload, notes.password_hash.name(), newer_file)
    };
    let tallies = context.journal.tallies();
    let audit_trouble = admin.directory.audit_trouble();
    Told {
        figures: figures(&sum),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: context.clock.started_at_secs(),
        uptime_secs: uptime.as_secs(),
        listeners: ports,
        descriptor_tables: tables(admin.table).to_owned(),
        connections: context.admission.connections(),
        connections_per_shard_max: context.capacity.connections,
        logins_waiting: context.authenticator.waiting(),
        user_queries: admin.directory.queries(),
        audit_trouble: audit_trouble.map(|it| trouble(&it.text, it.since)),
        password_hash: password_hash.to_owned(),
        log_lines_dropped: context.journal.dropped(),
        retained: retained(context, sum.stats.unkept_by_memory),
        session_store: session_store(context),
        memory: memory(context, age),
        zones: zones::zones(context, age, std::iter::empty()).zones,
        rates,
        rates_since_start: self::rates(&ShardReport::default(), &sum, uptime),
        losses: losses(&sum),
        long_turns: turns(&sum.turn_report),
        reload,
        newer_file: newer_file.as_ref().map(|(file, _)| file.clone()),
        newer_file_is_empty: newer_file.is_some_and(|(_, is_empty)| is_empty),
        refused_by: named(tallies.refused()),
        ended_by: named(tallies.ended()),
        shards: reports.iter().map(shard).collect(),
        // Fewer than there are, if one does not answer.
        shards_answering: reports.len(),
        shards_total: context.shards.len(),
    }
}

const fn tables(table: Table) -> &'static str {
    match table {
        Table::Private => "private",
        Table::Shared => "shared",
    }
}

fn named(counts: impl Iterator<Item = (&'static str, u64)>) -> BTreeMap<String, u64> {
    let counts = counts.map(|(name, count)| (name.to_owned(), count));
    counts.collect()
}

/// What is wrong, and since when, in seconds since 1970.
fn trouble(text: &str, since: SystemTime) -> Trouble {
    let since = since.duration_since(SystemTime::UNIX_EPOCH);
    Trouble {
        text: text.to_owned(),
        since: since.map_or(0, |since| since.as_secs()),
    }
}

/// The retained messages, and how many of them are the server's own; how many were refused, and
/// what is wrong with the disk since when, in seconds since 1970.
fn retained(context: &ServerContext, by_memory: u64) -> Kept {
    let store = &context.retained;
    let (by_bound, by_disk) = store.refused();
    let troubles = store.troubles();
    Kept {
        messages: store.count(),
        messages_of_server: store.volatile_count(),
        bytes: store.bytes(),
        refused_by_bound: by_bound,
        refused_by_disk: by_disk,
        refused_by_memory: by_memory,
        troubles: troubles
            .iter()
            .map(|(text, since)| trouble(text, *since))
            .collect(),
    }
}

/// What is written down of sessions, if anything is, and what is wrong with that.
fn session_store(context: &ServerContext) -> SessionStore {
    let Some(journals) = &context.journals else {
        return SessionStore::default();
    };
    SessionStore {
        enabled: true,
        folder: journals.folder.display().to_string(),
        bytes: journals.monitor.bytes(),
        written_bytes: journals.monitor.written_bytes(),
        backlog_bytes: journals
            .spool
            .get()
            .map_or(0, stentor_spool::Monitor::bytes),
        unreadable: journals.unreadable.load(Ordering::Relaxed),
        found_at_start: journals.found.restored.load(Ordering::Relaxed),
        damaged_at_start: journals.found.damaged,
        troubles: journals.troubles(),
    }
}

/// What clients make the server hold: by kind, and who holds most.
fn memory(context: &ServerContext, age: Age) -> Memory {
    let ledger = &context.ledger;
    crate::memory::take_stock(context);
    let kind = |kind: Holding| (kind.label().to_owned(), ledger.of(kind).into());
    Memory {
        held_bytes: ledger.total(),
        budget_bytes: Some(ledger.budget()).filter(|budget| *budget != u64::MAX),
        state: ledger.pressure().label().to_owned(),
        by_kind: Holding::ALL.map(kind).into_iter().collect(),
        resident_bytes: crate::memory::anonymous_bytes(),
        own_bytes: ledger.own(),
        overgrown: ledger.is_overgrown(),
        holders: holders(context, age),
    }
}

/// Those that hold most.
fn holders(context: &ServerContext, age: Age) -> Vec<Held> {
    let kept = context.surveys.holders.get(age, || most(context));
    let holder = |holder: &Holder| Held {
        zone: context.zone_name(holder.zone),
        client_id: holder.client_id.to_string(),
        user: holder.user.as_deref().map(str::to_owned),
        connected: holder.is_connected,
        bytes: holder.bytes,
    };
    kept.found.iter().map(holder).collect()
}

/// The same, by a walk.
fn most(context: &ServerContext) -> Vec<Holder> {
    let mut holders = Vec::new();
    let question = |answer| Survey::Holders {
        at_most: HOLDERS,
        answer,
    };
    survey(context, question, |more| {
        holders.extend(more);
        holders.sort_by(|a: &Holder, b| (b.bytes, &a.client_id).cmp(&(a.bytes, &b.client_id)));
        holders.truncate(HOLDERS);
    });
    holders
}

fn listener(port: &Port) -> Listener {
    Listener {
        url: port.url.to_string(),
        connections: port.connections.load(Ordering::Relaxed),
        anonymous: port.rules.load().anonymous,
    }
}

/// What was counted between two reports, per second.
fn rates(before: &ShardReport, after: &ShardReport, time: Duration) -> Rates {
    let per_sec = |count: fn(&ShardReport) -> u64| {
        let counted = count(after).saturating_sub(count(before));
        let rate = counted as f64 / time.as_secs_f64().max(1e-6);
        (rate * 10.0).round() / 10.0
    };
    Rates {
        secs: (time.as_secs_f64() * 1000.0).round() / 1000.0,
        messages_in: per_sec(|report| report.stats.publishes_received),
        messages_out: per_sec(|report| report.stats.publishes_sent),
        messages_dropped: per_sec(|report| report.stats.publishes_dropped),
        bytes_in: per_sec(|report| report.bytes_received),
        bytes_out: per_sec(|report| report.bytes_sent),
        connects: per_sec(|report| report.stats.connects),
    }
}

/// Turns that were long: how many, the longest one, that of the last minute, and the one that was
/// busy for longest; and the most visits of any turn.
fn turns(report: &TurnReport) -> Turns {
    Turns {
        count: report.long,
        longest: turn(&report.longest),
        longest_lately: turn(&report.lately),
        busiest: turn(&report.busiest),
        visits_max: report.visits_max,
        asked_max_micros: report.asked_max.as_micros() as u64,
    }
}

/// What a turn did is known of long ones only: others have a time and nothing else.
fn turn(turn: &LongTurn) -> Turn {
    let micros = |time: Duration| time.as_micros() as u64;
    Turn {
        shard: turn.shard,
        micros: micros(turn.took),
        waited_micros: turn.waited.map(micros),
        ran_micros: turn.ran.map(micros),
        client_id: turn.client_id.to_string(),
        visits: turn.visits,
        packets: turn.packets,
        deliveries: turn.deliveries,
        flushes: turn.flushes,
        accepted: turn.accepted,
    }
}

fn losses(sum: &ShardReport) -> Losses {
    let worst = sum.losses.worst.iter().take(WORST);
    let loss = |(client_id, topic, messages): &(String, String, u64)| Loss {
        client_id: client_id.clone(),
        topic: topic.clone(),
        messages: *messages,
    };
    let causes = sum.losses.causes.iter();
    Losses {
        by_cause: named(causes.map(|(cause, count)| (*cause, *count))),
        worst: worst.map(loss).collect(),
    }
}

fn figures(report: &ShardReport) -> Figures {
    let stats = &report.stats;
    Figures {
        clients_connected: stats.connected,
        sessions: stats.sessions,
        subscriptions: stats.subscriptions,
        connects: stats.connects,
        refused: report.refused,
        packets_in: stats.packets_received,
        packets_out: stats.packets_sent,
        messages_in: stats.publishes_received,
        messages_in_bytes: stats.publish_bytes_received,
        messages_out: stats.publishes_sent,
        messages_out_bytes: stats.publish_bytes_sent,
        messages_dropped: stats.publishes_dropped,
        messages_withheld: stats.publishes_withheld,
        denied: stats.denied,
        publishes_denied: stats.publishes_denied,
        topics_refused: stats.topics_refused,
        sessions_expired: stats.expired,
        sessions_evicted: stats.evicted,
        sessions_evicted_by_memory: stats.evicted_by_memory,
        bugs: stats.bugs,
        bytes_in: report.bytes_received,
        bytes_out: report.bytes_sent,
        latency: latency(&report.latency),
    }
}

fn shard(report: &ShardReport) -> Shard {
    Shard {
        figures: figures(report),
        shard: report.shard,
        connections: report.links,
        turns: report.turns,
        long_turns: turns(&report.turn_report),
        queues: Queues {
            mesh_inward: report.mesh_inward,
            mesh_overflowed: report.mesh_overflowed,
            connections_stalled: report.stalled,
            connections_travelling: report.handovers,
        },
    }
}

/// A reload that was tried.
pub(super) fn reload(note: &ReloadNote) -> Last {
    let at = note.at.duration_since(SystemTime::UNIX_EPOCH);
    Last {
        cause: note.cause.to_owned(),
        at: at.map_or(0, |since| since.as_secs()),
        ok: note.result.is_ok(),
        done: note.result.as_ref().ok().map(done),
        reason: note.result.as_ref().err().cloned(),
    }
}

/// What a reload did.
pub(super) fn done(reloaded: &Reloaded) -> Done {
    Done {
        changed: reloaded.changed.clone(),
        renewed: reloaded.renewed.clone(),
        waiting: reloaded.waiting.clone(),
    }
}
