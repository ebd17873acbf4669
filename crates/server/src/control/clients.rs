//! The verbs `clients.ls`, `clients.show` and `clients.kick`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stentor_hub::home_shard;
use stentor_mqtt::Version;
use stentor_session::Tick;
use stentor_topic::Zone;

use super::protocol::{Answer, Failure, Request};
use super::zones;
use crate::backplane::Backplane;
use crate::shard::{ClientEntry, Found, Inquiry};
use crate::telemetry::collect::{ask_all, ask_one};

/// Sessions whose client id contains a text, by client id.
pub(super) fn list(backplane: &Backplane, request: &Request) -> Value {
    let (from, to) = request.page();
    let pages = ask_all(backplane, |answer| Inquiry::Clients {
        containing: request.containing.clone(),
        at_most: to,
        answer,
    });
    let total: usize = pages.iter().map(|page| page.total).sum();
    let mut entries: Vec<ClientEntry> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.sort_by(|a, b| a.info.client_id.cmp(&b.info.client_id));
    let now = backplane.clock.now();
    let clients: Vec<Value> = entries
        .iter()
        .take(to)
        .skip(from)
        .map(|entry| describe(backplane, entry, now))
        .collect();
    json!({ "clients": clients, "total": total, "truncated": total > to })
}

/// One session, with its subscriptions.
pub(super) fn show(backplane: &Backplane, request: &Request) -> Answer {
    let (_, (entry, granted)) = find(backplane, request)?;
    let mut client = describe(backplane, &entry, backplane.clock.now());
    let filters: Vec<&str> = granted.iter().map(|(filter, _)| &**filter).collect();
    let granted = granted.iter();
    let granted = granted.map(|(filter, qos)| json!({ "filter": filter, "qos": *qos as u8 }));
    if let Value::Object(client) = &mut client {
        client.insert("filters".into(), json!(filters));
        client.insert("granted".into(), granted.collect());
    }
    Ok(client)
}

/// The session that a request is about, and its zone: the one that the request names, else the
/// default one, else the only other one that has such a client.
fn find(backplane: &Backplane, request: &Request) -> Result<(Zone, Found), Failure> {
    let Some(client_id) = &request.client_id else {
        let message = "this verb needs a \"client_id\"";
        return Err(Failure::new("bad-request", message));
    };
    let zone = zones::named(backplane, request)?;
    let first = zone.unwrap_or(Zone::DEFAULT);
    if let Some(found) = find_in(backplane, first, client_id)? {
        return Ok((first, found));
    }
    let mut all = Vec::new();
    for other in zones_with_sessions(backplane) {
        if zone.is_none()
            && other != first
            && let Some(found) = find_in(backplane, other, client_id)?
        {
            all.push((other, found));
        }
    }
    match all.len() {
        0 => Err(missing(backplane, zone, client_id)),
        1 => Ok(all.remove(0)),
        _ => {
            let names: Vec<String> = all
                .iter()
                .map(|(zone, _)| backplane.zone_name(*zone))
                .collect();
            let message = format!(
                "the zones {} have a client {client_id:?}; say which one you mean: --zone NAME",
                names.join(", ")
            );
            Err(Failure::new("ambiguous", message))
        }
    }
}

fn find_in(backplane: &Backplane, zone: Zone, client_id: &str) -> Result<Option<Found>, Failure> {
    let question = |answer| Inquiry::Client {
        zone,
        client_id: client_id.to_owned(),
        answer,
    };
    let found = ask_one(backplane, home(backplane, zone, client_id), question);
    found.ok_or_else(silent)
}

/// The zones that have sessions now, each once.
fn zones_with_sessions(backplane: &Backplane) -> Vec<Zone> {
    let of_shards = ask_all(backplane, Inquiry::Zones).into_iter().flatten();
    let with_sessions = of_shards.filter(|(_, figures)| figures.sessions > 0);
    let zones: BTreeSet<u32> = with_sessions.map(|(zone, _)| zone.get()).collect();
    zones.into_iter().map(Zone).collect()
}

/// Closes a client's connection.
pub(super) fn kick(backplane: &Backplane, request: &Request) -> Answer {
    let (zone, (entry, _)) = find(backplane, request)?;
    let client_id = entry.info.client_id.into_string();
    let end_session = request.end_session;
    if entry.info.connection.is_none() && !end_session {
        let message = format!(
            "{client_id:?} is not connected; `stentor clients kick --end-session` ends its session"
        );
        return Err(Failure::new("not-connected", message));
    }
    let found = ask_one(backplane, home(backplane, zone, &client_id), |answer| {
        Inquiry::Kick {
            zone,
            client_id: client_id.clone(),
            end_session,
            answer,
        }
    });
    match found {
        Some(Some(was_connected)) => Ok(json!({
            "zone_name": backplane.zone_name(zone),
            "was_connected": was_connected,
            "session_ended": end_session,
        })),
        Some(None) => Err(missing(backplane, Some(zone), &client_id)),
        None => Err(silent()),
    }
}

fn home(backplane: &Backplane, zone: Zone, client_id: &str) -> usize {
    let shards = backplane.shard_count();
    usize::from(home_shard(&backplane.hasher, zone, client_id, shards).0)
}

fn missing(backplane: &Backplane, zone: Option<Zone>, client_id: &str) -> Failure {
    let place = zone.map_or_else(String::new, |zone| {
        format!(" in the zone {:?}", backplane.zone_name(zone))
    });
    let message = format!(
        "there is no session with the client id {client_id:?}{place}; `stentor clients ls` lists \
         them"
    );
    Failure::new("not-found", message)
}

fn silent() -> Failure {
    Failure::new(
        "unavailable",
        "the shard of this client does not answer; see the server's log",
    )
}

fn describe(backplane: &Backplane, entry: &ClientEntry, now: Tick) -> Value {
    let info = &entry.info;
    let connection = info.connection.map(|connection| {
        json!({
            "version": version(connection.version),
            "peer": entry.origin.as_ref().map(|(peer, _)| peer.to_string()),
            "listener": entry.origin.as_ref().map(|(_, url)| url),
            "keep_alive_secs": connection.keep_alive_secs,
            "connected_secs": now.since(connection.since).as_secs(),
            "silent_secs": now.since(connection.last_seen).as_secs(),
            "queued_bytes": connection.queued_bytes,
            "blocked": connection.is_blocked,
        })
    });
    json!({
        "client_id": info.client_id,
        "user": info.user.as_deref(),
        "zone": info.zone.get(),
        "zone_name": backplane.zone_name(info.zone),
        "connection": connection,
        "session_expiry_secs": (info.expiry_secs != u32::MAX).then_some(info.expiry_secs),
        "subscriptions": info.subscriptions,
        "in_flight": info.in_flight,
        "waiting": info.waiting,
        "held_bytes": info.held_bytes,
        "snapshot_bytes": info.snapshot_bytes,
    })
}

/// The name of a protocol version.
const fn version(version: Version) -> &'static str {
    match version {
        Version::V31 => "3.1",
        Version::V311 => "3.1.1",
        Version::V5 => "5.0",
    }
}
