//! The verb `status`.

use std::sync::PoisonError;

use serde_json::{Value, json};
use stentor_hub::Retained;

use super::LastReload;
use crate::backplane::Backplane;
use crate::telemetry::ShardReport;
use crate::telemetry::collect::{reports, total};

/// Counters, depths and latencies, of the whole server and of each shard.
pub(super) fn status(backplane: &Backplane, last_reload: &LastReload) -> Value {
    let reports = reports(backplane);
    let sum = total(&reports);
    let now = backplane.clock.now();
    let worst: Vec<Value> = sum
        .losses
        .worst
        .iter()
        .take(20)
        .map(|(client, topic, messages)| {
            json!({ "client_id": client, "topic": topic, "messages": messages })
        })
        .collect();
    let mut status = figures(&sum);
    let more = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "started_at": backplane.clock.started_at_secs(),
        "uptime_secs": now.as_secs(),
        "connections": backplane.admission.connections(),
        "connections_per_shard_max": backplane.capacity,
        "logins_waiting": backplane.authenticator.waiting(),
        "retained": {
            "messages": backplane.retained.count(),
            "bytes": backplane.retained.bytes(),
        },
        "rates": rates(&sum, now.as_micros()),
        "losses": { "by_cause": sum.losses.causes, "worst": worst },
        "reload": reload(last_reload),
        "shards": reports.iter().map(shard).collect::<Vec<_>>(),
        // Fewer than there are, if one does not answer.
        "shards_answering": reports.len(),
        "shards_total": backplane.shards.len(),
    });
    if let (Value::Object(status), Value::Object(more)) = (&mut status, more) {
        status.extend(more);
    }
    status
}

/// Averages since the start, per second. A client that wants rates of now asks twice.
fn rates(sum: &ShardReport, uptime_micros: u64) -> Value {
    let per_sec = |count: u64| {
        let rate = count as f64 * 1e6 / (uptime_micros.max(1) as f64);
        (rate * 10.0).round() / 10.0
    };
    json!({
        "messages_in": per_sec(sum.stats.publishes_received),
        "messages_out": per_sec(sum.stats.publishes_sent),
        "bytes_in": per_sec(sum.bytes_received),
        "bytes_out": per_sec(sum.bytes_sent),
        "connects": per_sec(sum.stats.connects),
    })
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
        "messages_in": stats.publishes_received,
        "messages_in_bytes": stats.publish_bytes_received,
        "messages_out": stats.publishes_sent,
        "messages_out_bytes": stats.publish_bytes_sent,
        "messages_dropped": stats.publishes_dropped,
        "denied": stats.denied,
        "sessions_expired": stats.expired,
        "bugs": stats.bugs,
        "bytes_in": report.bytes_received,
        "bytes_out": report.bytes_sent,
        "latency": report.latency.snapshot(),
    })
}

fn shard(report: &ShardReport) -> Value {
    let mut shard = figures(report);
    let more = json!({
        "shard": report.shard,
        "connections": report.links,
        "turns": report.turns,
        "queues": {
            "mesh_inward": report.mesh_inward,
            "mesh_overflowed": report.mesh_overflowed,
            "connections_stalled": report.stalled,
            "connections_travelling": report.travelling,
        },
    });
    if let (Value::Object(shard), Value::Object(more)) = (&mut shard, more) {
        shard.extend(more);
    }
    shard
}

fn reload(last: &LastReload) -> Value {
    match &*last.lock().unwrap_or_else(PoisonError::into_inner) {
        None => Value::Null,
        Some((who, Ok(done))) => {
            json!({ "cause": who, "ok": true, "changed": done.changed, "waiting": done.waiting })
        }
        Some((who, Err(reason))) => json!({ "cause": who, "ok": false, "reason": reason }),
    }
}
