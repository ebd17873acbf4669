//! The verbs `clients.ls`, `clients.show` and `clients.kick`.

use serde_json::{Value, json};
use stentor_hub::home_shard;
use stentor_mqtt::Version;
use stentor_session::Tick;
use stentor_topic::Zone;

use super::protocol::{Answer, Failure, Request};
use crate::backplane::Backplane;
use crate::shard::{ClientEntry, Inquiry};
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
    let (zone, client_id) = named(request)?;
    let found = ask_one(backplane, home(backplane, zone, &client_id), |answer| {
        Inquiry::Client {
            zone,
            client_id: client_id.clone(),
            answer,
        }
    });
    match found {
        Some(Some((entry, subscriptions))) => {
            let mut client = describe(backplane, &entry, backplane.clock.now());
            let filters: Vec<&str> = subscriptions.iter().map(|filter| &**filter).collect();
            if let Value::Object(client) = &mut client {
                client.insert("filters".into(), json!(filters));
            }
            Ok(client)
        }
        Some(None) => Err(missing(&client_id)),
        None => Err(silent()),
    }
}

/// Closes a client's connection.
pub(super) fn kick(backplane: &Backplane, request: &Request) -> Answer {
    let (zone, client_id) = named(request)?;
    let end_session = request.end_session;
    let found = ask_one(backplane, home(backplane, zone, &client_id), |answer| {
        Inquiry::Kick {
            zone,
            client_id: client_id.clone(),
            end_session,
            answer,
        }
    });
    match found {
        Some(true) => Ok(json!({})),
        Some(false) => Err(missing(&client_id)),
        None => Err(silent()),
    }
}

fn named(request: &Request) -> Result<(Zone, String), Failure> {
    match &request.client_id {
        Some(client_id) => Ok((Zone(request.zone), client_id.clone())),
        None => Err(Failure::new(
            "bad-request",
            "this verb needs a \"client_id\"",
        )),
    }
}

fn home(backplane: &Backplane, zone: Zone, client_id: &str) -> usize {
    let shards = backplane.shard_count();
    usize::from(home_shard(&backplane.hasher, zone, client_id, shards).0)
}

fn missing(client_id: &str) -> Failure {
    let message = format!(
        "there is no session with the client id \"{client_id}\"; `stentor clients ls` lists them"
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
