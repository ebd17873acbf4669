//! The verb `status`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use stentor_hub::{Holder, Holding, Retained};

use super::protocol::Request;
use super::{Desk, ReloadNote, lock, zones};
use crate::backplane::Backplane;
use crate::fdtable::Table;
use crate::listener::Port;
use crate::shard::Inquiry;
use crate::telemetry::collect::{ask_all, reports, total};
use crate::telemetry::{LongTurn, ShardReport, TurnReport};

/// Rates are measured over this long at most.
const SAMPLE_MAX: Duration = Duration::from_secs(10);

/// Losses named by client and topic.
const WORST: usize = 20;

/// Sessions named that hold most.
const HOLDERS: usize = 10;

/// Counters, depths and latencies, of the whole server and of each shard.
pub(super) fn status(desk: &Desk, request: &Request) -> Value {
    let backplane = &*desk.backplane;
    let rates = (request.sample_ms > 0).then(|| {
        let window = Duration::from_millis(request.sample_ms).min(SAMPLE_MAX);
        let (before, since) = (total(&reports(backplane)), Instant::now());
        // This is a thread of its own.
        std::thread::sleep(window);
        rates(&before, &total(&reports(backplane)), since.elapsed())
    });
    let reports = reports(backplane);
    let sum = total(&reports);
    let uptime = backplane.clock.now().since(stentor_session::Tick::ZERO);
    let (ports, reload, password_hash, newer_file) = {
        let notes = lock(&desk.notes);
        let ports: Vec<Value> = notes.ports.iter().map(|port| listener(port)).collect();
        let reload = notes.last_reload.as_ref().map(reload);
        let newer_file = notes.newer_file();
        (ports, reload, notes.password_hash.name(), newer_file)
    };
    let more = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started_at": backplane.clock.started_at_secs(),
        "uptime_secs": uptime.as_secs(),
        "listeners": ports,
        "descriptor_tables": match desk.table {
            Table::Private => "private",
            Table::Shared => "shared",
        },
        "connections": backplane.admission.connections(),
        "connections_per_shard_max": backplane.capacity.connections,
        "logins_waiting": backplane.authenticator.waiting(),
        "user_queries": desk.directory.queries(),
        "audit_trouble": desk.directory.audit_trouble().map(|it| trouble(&(it.text, it.since))),
        "password_hash": password_hash,
        "log_lines_dropped": backplane.journal.dropped(),
        "retained": retained(backplane, sum.stats.unkept_by_memory),
        "memory": memory(backplane),
        "zones": zones::zones(backplane, std::iter::empty())["zones"].take(),
        "rates": rates,
        "rates_since_start": self::rates(&ShardReport::default(), &sum, uptime),
        "losses": losses(&sum),
        "long_turns": turns(&sum.turn_report),
        "reload": reload,
        "newer_file": newer_file.as_ref().map(|(file, _)| file),
        "newer_file_is_empty": newer_file.as_ref().is_some_and(|(_, is_empty)| *is_empty),
        "shards": reports.iter().map(shard).collect::<Vec<_>>(),
        // Fewer than there are, if one does not answer.
        "shards_answering": reports.len(),
        "shards_total": backplane.shards.len(),
    });
    extend(figures(&sum), more)
}

/// What is wrong, and since when, in seconds since 1970.
fn trouble((text, since): &(String, SystemTime)) -> Value {
    let since = since.duration_since(SystemTime::UNIX_EPOCH);
    json!({ "text": text, "since": since.map_or(0, |since| since.as_secs()) })
}

/// The retained messages, and how many of them are the server's own; how many were refused, and
/// what is wrong with the disk since when, in seconds since 1970.
fn retained(backplane: &Backplane, by_memory: u64) -> Value {
    let store = &backplane.retained;
    let of_server = store.volatile_count();
    let (by_bound, by_disk) = store.refused();
    let troubles = store.troubles();
    json!({
        "messages": store.count(),
        // They are among these.
        "messages_of_server": of_server,
        "bytes": store.bytes(),
        "refused_by_bound": by_bound,
        "refused_by_disk": by_disk,
        "refused_by_memory": by_memory,
        "troubles": troubles.iter().map(trouble).collect::<Vec<_>>(),
    })
}

/// What clients make the server hold: by kind, and who holds most.
fn memory(backplane: &Backplane) -> Value {
    let ledger = &backplane.ledger;
    crate::memory::take_stock(backplane);
    let kind = |kind: Holding| (kind.label().to_owned(), json!(ledger.of(kind)));
    let by_kind: serde_json::Map<String, Value> = Holding::ALL.map(kind).into_iter().collect();
    json!({
        "held_bytes": ledger.total(),
        "budget_bytes": Some(ledger.budget()).filter(|budget| *budget != u64::MAX),
        "state": ledger.pressure().label(),
        "by_kind": by_kind,
        "resident_bytes": crate::memory::anonymous_bytes(),
        "own_bytes": ledger.own(),
        "overgrown": ledger.is_overgrown(),
        "holders": holders(backplane),
    })
}

fn holders(backplane: &Backplane) -> Vec<Value> {
    let of_shards = ask_all(backplane, |answer| Inquiry::Holders {
        at_most: HOLDERS,
        answer,
    });
    let mut holders: Vec<_> = of_shards.into_iter().flatten().collect();
    holders.sort_by(|a, b| (b.bytes, &a.client_id).cmp(&(a.bytes, &b.client_id)));
    holders.truncate(HOLDERS);
    let holder = |holder: Holder| {
        json!({
            "zone": backplane.zone_name(holder.zone),
            "client_id": holder.client_id,
            "user": holder.user,
            "connected": holder.is_connected,
            "bytes": holder.bytes,
        })
    };
    holders.into_iter().map(holder).collect()
}

/// Adds the keys of the second object to the first.
fn extend(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn listener(port: &Port) -> Value {
    json!({
        "url": port.url.to_string(),
        "connections": port.connections.load(Ordering::Relaxed),
        "anonymous": port.rules.load().anonymous,
    })
}

/// What was counted between two reports, per second.
fn rates(before: &ShardReport, after: &ShardReport, time: Duration) -> Value {
    let per_sec = |count: fn(&ShardReport) -> u64| {
        let counted = count(after).saturating_sub(count(before));
        let rate = counted as f64 / time.as_secs_f64().max(1e-6);
        (rate * 10.0).round() / 10.0
    };
    json!({
        "secs": (time.as_secs_f64() * 1000.0).round() / 1000.0,
        "messages_in": per_sec(|report| report.stats.publishes_received),
        "messages_out": per_sec(|report| report.stats.publishes_sent),
        "messages_dropped": per_sec(|report| report.stats.publishes_dropped),
        "bytes_in": per_sec(|report| report.bytes_received),
        "bytes_out": per_sec(|report| report.bytes_sent),
        "connects": per_sec(|report| report.stats.connects),
    })
}

/// Turns that were long: how many, the longest one, that of the last minute, and the one that was
/// busy for longest; and the most visits of any turn.
fn turns(report: &TurnReport) -> Value {
    json!({
        "count": report.long,
        "longest": turn(&report.longest),
        "longest_lately": turn(&report.lately),
        "busiest": turn(&report.busiest),
        "visits_max": report.visits_max,
    })
}

/// What a turn did is known of long ones only: others have a time and nothing else.
fn turn(turn: &LongTurn) -> Value {
    json!({
        "shard": turn.shard,
        "micros": turn.took.as_micros() as u64,
        "waited_micros": turn.waited.map(|waited| waited.as_micros() as u64),
        "ran_micros": turn.ran.map(|ran| ran.as_micros() as u64),
        "client_id": turn.client_id,
        "visits": turn.visits,
        "packets": turn.packets,
        "deliveries": turn.deliveries,
        "flushes": turn.flushes,
        "accepted": turn.accepted,
    })
}

fn losses(sum: &ShardReport) -> Value {
    let worst = sum.losses.worst.iter().take(WORST).map(|(client, topic, messages)| {
        json!({ "client_id": client, "topic": topic, "messages": messages })
    });
    json!({ "by_cause": sum.losses.causes, "worst": worst.collect::<Vec<_>>() })
}

fn figures(report: &ShardReport) -> Value {
    let stats = &report.stats;
    json!({
        "clients_connected": stats.connected,
        "sessions": stats.sessions,
        "subscriptions": stats.subscriptions,
        "connects": stats.connects,
        "refused": report.refused,
        "packets_in": stats.packets_received,
        "packets_out": stats.packets_sent,
        "messages_in": stats.publishes_received,
        "messages_in_bytes": stats.publish_bytes_received,
        "messages_out": stats.publishes_sent,
        "messages_out_bytes": stats.publish_bytes_sent,
        "messages_dropped": stats.publishes_dropped,
        "messages_withheld": stats.publishes_withheld,
        "denied": stats.denied,
        "publishes_denied": stats.publishes_denied,
        "topics_refused": stats.topics_refused,
        "sessions_expired": stats.expired,
        "sessions_evicted": stats.evicted,
        "sessions_evicted_by_memory": stats.evicted_by_memory,
        "bugs": stats.bugs,
        "bytes_in": report.bytes_received,
        "bytes_out": report.bytes_sent,
        "latency": report.latency.snapshot(),
    })
}

fn shard(report: &ShardReport) -> Value {
    let more = json!({
        "shard": report.shard,
        "connections": report.links,
        "turns": report.turns,
        "long_turns": turns(&report.turn_report),
        "queues": {
            "mesh_inward": report.mesh_inward,
            "mesh_overflowed": report.mesh_overflowed,
            "connections_stalled": report.stalled,
            "connections_travelling": report.travelling,
        },
    });
    extend(figures(report), more)
}

/// `at` is in seconds since 1970.
pub(super) fn reload(note: &ReloadNote) -> Value {
    let at = note
        .at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let more = match &note.result {
        Ok(done) => json!({
            "ok": true,
            "changed": done.changed,
            "renewed": done.renewed,
            "waiting": done.waiting,
        }),
        Err(reason) => json!({ "ok": false, "reason": reason }),
    };
    extend(json!({ "cause": note.cause, "at": at }), more)
}
