//! The verbs `clients.show` and `clients.kick`.

use stentor_control::ZoneWord;
use stentor_control::clients::{
    Client, Connection, Count as Times, Kick, Kicked, LostBy, Paused, Show, Shown, Subscription,
};
use stentor_hub::{Count, Granted, PauseCause, home_shard};
use stentor_mqtt::Version;
use stentor_session::Tick;
use stentor_topic::Zone;

use super::protocol::{Failure, Names};
use super::zones;
use crate::config::suggest::nearest;
use crate::context::ServerContext;
use crate::shard::{AboutClient, ClientEntry, Found, Inquiry};
use crate::survey::{Age, Seen};
use crate::telemetry::collect::{ask_all, ask_one};

/// Zones that a shard looks into in one turn.
const ZONES_AT_ONCE: u32 = 512;

/// Sessions that are looked through for a client id that was misspelt.
const NAMES_MAX: usize = 10_000;

/// One session, with its subscriptions.
pub(super) fn show(context: &ServerContext, request: &Show) -> Result<Shown, Failure> {
    let (zone, found) = find(context, &request.client_id, request.zone.as_ref())?;
    let Found { entry, lost, .. } = found;
    let client_id = &*entry.info.client_id;
    let (granted, behind) = some_of(context, zone, client_id, request.offset)?;
    let filters = granted.iter().map(|granted| granted.filter.to_string());
    Ok(Shown {
        client: describe_entry(context, &entry),
        filters: filters.collect(),
        granted: granted.iter().map(subscription).collect(),
        left_out: entry.info.subscriptions.saturating_sub(behind),
        lost_causes: lost.iter().map(lost_by).collect(),
    })
}

/// One session without its subscriptions.
pub(super) fn client(context: &ServerContext, request: &Show) -> Result<Client, Failure> {
    let (_, found) = find(context, &request.client_id, request.zone.as_ref())?;
    Ok(describe_entry(context, &found.entry))
}

/// Subscriptions of a session from a number on, as many as an answer has, and the number behind
/// the last one.
fn some_of(
    context: &ServerContext,
    zone: Zone,
    client_id: &str,
    from: usize,
) -> Result<(Vec<Granted>, usize), Failure> {
    let (mut granted, mut names, mut next) = (Vec::new(), Names::default(), Some(from));
    while let Some(from) = next {
        // It may have ended in the meantime.
        let Some(part) = step(context, zone, client_id, from).ok_or_else(silent)? else {
            break;
        };
        next = part.next;
        for one in part.granted {
            // An answer has it twice, with the keys of its options once.
            if !names.take(2 * (2 * written(&one.filter) + OPTIONS_BYTES)) {
                next = None;
                break;
            }
            granted.push(one);
        }
    }
    let behind = from.saturating_add(granted.len());
    Ok((granted, behind))
}

/// Bytes of the rest of a subscription in an answer.
const OPTIONS_BYTES: usize = 64;

/// Bytes of a text as JSON has it: some characters take six.
pub(super) fn written(text: &str) -> usize {
    serde_json::to_string(text).map_or(text.len(), |text| text.len())
}

fn lost_by(lost: &stentor_hub::LostBy) -> LostBy {
    LostBy {
        cause: lost.cause.label().to_owned(),
        messages: lost.messages,
        while_memory_short: lost.while_memory_short,
    }
}

/// A session with some of its subscriptions, from a number on; `None` if its shard does not answer.
fn step(
    context: &ServerContext,
    zone: Zone,
    client_id: &str,
    from: usize,
) -> Option<Option<Found>> {
    ask_one(context, home(context, zone, client_id), |answer| {
        Inquiry::Client {
            zone,
            client_id: client_id.to_owned(),
            about: AboutClient::Shown { from, answer },
        }
    })
}

/// The session that a request is about, and its zone.
fn find(
    context: &ServerContext,
    client_id: &str,
    zone: Option<&ZoneWord>,
) -> Result<(Zone, Found), Failure> {
    let said = zones::named(context, zone)?;
    let zone = zone_of(context, said, client_id)?;
    match step(context, zone, client_id, 0) {
        Some(Some(found)) => Ok((zone, found)),
        Some(None) => Err(missing(context, said, client_id)),
        None => Err(silent()),
    }
}

/// The zone that a client is in: the one that is said, else the default one, else the only other
/// one that has such a client. Where there is no such client at all, the first of these.
pub(super) fn zone_of(
    context: &ServerContext,
    said: Option<Zone>,
    client_id: &str,
) -> Result<Zone, Failure> {
    if let Some(zone) = said {
        return Ok(zone);
    }
    let mut all = zones_with(context, client_id);
    if all.len() < 2 || all.contains(&Zone::DEFAULT) {
        let is_default = all.contains(&Zone::DEFAULT);
        let other = all.pop().filter(|_| !is_default);
        return Ok(other.unwrap_or(Zone::DEFAULT));
    }
    all.sort_unstable_by_key(|zone| zone.get());
    let names: Vec<String> = all.iter().map(|zone| context.zone_name(*zone)).collect();
    let message = format!(
        "the zones {} have a client {client_id:?}; say which one you mean: --zone NAME",
        names.join(", ")
    );
    Err(Failure::new("ambiguous", message).about("zone"))
}

/// The zones that have a session of this client id. Each shard looks at some zones in a turn.
fn zones_with(context: &ServerContext, client_id: &str) -> Vec<Zone> {
    let mut found = Vec::new();
    for first in (0..).step_by(ZONES_AT_ONCE as usize) {
        let zones = first..first + ZONES_AT_ONCE;
        // They are numbered one after the other, and one that was removed keeps its number.
        let is_known = |zone: u32| context.authenticator.zone_name(Zone(zone)).is_some();
        if first > 0 && !zones.clone().any(is_known) {
            break;
        }
        let of_shards = ask_all(context, |answer| Inquiry::ZonesOf {
            client_id: client_id.to_owned(),
            zones: zones.clone(),
            answer,
        });
        found.extend(of_shards.into_iter().flatten());
    }
    found
}

/// Closes a client's connection.
pub(super) fn kick(context: &ServerContext, request: &Kick) -> Result<Kicked, Failure> {
    let (zone, Found { entry, .. }) = find(context, &request.client_id, request.zone.as_ref())?;
    let client_id = entry.info.client_id.into_string();
    let end_session = request.end_session;
    if entry.info.is_queue {
        let message = format!(
            "{client_id:?} is a queue, and no client: it ends at a restart for which its [[queue]] \
             is not in the configuration any more"
        );
        return Err(Failure::new("queue", message));
    }
    if let Some(least) = request.away_secs
        && entry.away_secs.is_none_or(|secs| secs < least)
    {
        let message = format!("{client_id:?} has not been away for {least} seconds; it is kept");
        return Err(Failure::new("not-away", message));
    }
    if entry.info.connection.is_none() && !end_session {
        let message = format!(
            "{client_id:?} is not connected; `stentor clients kick {client_id:?} --end-session` \
             ends its session"
        );
        return Err(Failure::new("not-connected", message));
    }
    let found = ask_one(context, home(context, zone, &client_id), |answer| {
        Inquiry::Client {
            zone,
            client_id: client_id.clone(),
            about: AboutClient::Kick {
                end_session,
                answer,
            },
        }
    });
    match found {
        Some(Some(was_connected)) => Ok(Kicked {
            zone_name: context.zone_name(zone),
            was_connected,
            session_ended: end_session,
        }),
        Some(None) => Err(missing(context, Some(zone), &client_id)),
        None => Err(silent()),
    }
}

pub(super) fn home(context: &ServerContext, zone: Zone, client_id: &str) -> usize {
    let shards = context.shard_count();
    usize::from(home_shard(&context.hasher, zone, client_id, shards).0)
}

/// A suggestion for an unknown client id: the client that was probably meant, in the named zone if
/// there is one. It is the end of a sentence, or empty, and never names the `other` client of the
/// question.
pub(super) fn meant(
    context: &ServerContext,
    said: Option<Zone>,
    client_id: &str,
    other: Option<&str>,
) -> String {
    let elsewhere = zones_with(context, client_id);
    if let Some(zone) = elsewhere.first() {
        return format!("; it is in the zone {:?}", context.zone_name(*zone));
    }
    let kept = context.surveys.clients(context, Age::Lately);
    let Ok(census) = &*kept.found else {
        return String::new();
    };
    let all = (0..census.rows.len()).map(|place| census.rows.seen(place).info);
    let of_zone = all.filter(|info| said.is_none_or(|zone| zone == info.zone));
    let names = of_zone.take(NAMES_MAX).map(|info| info.client_id);
    let near = nearest(client_id, names.filter(|name| other != Some(*name)));
    near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

pub(super) fn missing(context: &ServerContext, zone: Option<Zone>, client_id: &str) -> Failure {
    let place = zone.map_or_else(String::new, |zone| {
        format!(" in the zone {:?}", context.zone_name(zone))
    });
    let meant = meant(context, zone, client_id, None);
    let message = format!(
        "there is no session with the client id {client_id:?}{place}{meant}; `stentor clients ls` \
         lists them"
    );
    Failure::new("not-found", message).about("client_id")
}

pub(super) fn silent() -> Failure {
    Failure::new(
        "unavailable",
        "the shard of this client does not answer; see the server's log",
    )
}

/// A session as its shard has just told of it.
pub(super) fn describe_entry(context: &ServerContext, entry: &ClientEntry) -> Client {
    let seen = Seen {
        info: entry.info.borrowed(),
        origin: entry.origin.as_ref().map(|(peer, url)| (*peer, &**url)),
        bytes: entry.bytes,
        slot: 0,
    };
    describe(context, &seen, entry.away_secs, context.clock.now())
}

/// A session at a time, with the seconds for which its client was away then.
pub(super) fn describe(
    context: &ServerContext,
    seen: &Seen<'_>,
    away_secs: Option<u64>,
    now: Tick,
) -> Client {
    let info = &seen.info;
    let secs = |since: Tick| now.since(since).as_secs();
    let connection = info.connection.map(|connection| Connection {
        version: version(connection.version).to_owned(),
        peer: seen.origin.map(|(peer, _)| peer.to_string()),
        listener: seen.origin.map(|(_, url)| url.to_owned()),
        keep_alive_secs: connection.keep_alive_secs,
        connected_secs: secs(connection.since),
        silent_secs: secs(connection.last_seen),
        received: connection.messages.received,
        received_bytes: seen.bytes.received,
        sent: connection.messages.sent,
        sent_bytes: seen.bytes.sent,
        queued_bytes: connection.queued_bytes,
        blocked: connection.is_blocked,
        paused: connection
            .paused_until
            .and_then(|(until, cause)| paused(until, cause, now)),
    });
    let (tally, zone) = (&info.tally, context.zone_name(info.zone));
    Client {
        client_id: info.client_id.to_string(),
        user: info.user.map(str::to_owned),
        zone: zone.clone(),
        zone_name: zone,
        connection,
        away_secs,
        ends_in_secs: (info.ends_at != Tick::NEVER).then(|| secs_until(info.ends_at, now)),
        session_expiry_secs: (info.expiry_secs != u32::MAX).then_some(info.expiry_secs),
        subscriptions: info.subscriptions,
        in_flight: info.in_flight,
        waiting: info.waiting,
        held_bytes: info.held_bytes,
        snapshot_bytes: info.snapshot_bytes,
        withheld: count(&tally.withheld, now),
        lost: count(&tally.lost, now),
        lost_by: tally.lost_by.map(|by| by.label().to_owned()),
        conflated: count(&tally.conflated, now),
        pauses: count(&tally.paused, now),
        paused_by: tally.paused_by.map(|by| by.label().to_owned()),
        publishes_refused: count(&tally.refused, now),
        topics_refused: count(&tally.topics_refused, now),
    }
}

fn secs_until(at: Tick, now: Tick) -> u64 {
    at.since(now).as_secs()
}

/// A subscription as it was granted.
pub(super) fn subscription(granted: &Granted) -> Subscription {
    // As the client has asked for it: its interval is a whole number of microseconds.
    let rate = |micros: f64| (1e9 / micros).round() / 1_000.0;
    Subscription {
        filter: granted.filter.to_string(),
        qos: granted.qos as u8,
        no_local: granted.no_local,
        max_rate: granted.interval.map(|least| rate(least.as_micros() as f64)),
    }
}

/// For how long nothing is read from a connection, and why; `None` if it is read.
fn paused(until: Tick, cause: PauseCause, now: Tick) -> Option<Paused> {
    let millis = until.since(now).as_millis() as u64;
    (millis > 0).then(|| Paused {
        millis,
        by: cause.label().to_owned(),
    })
}

/// How often something has happened, and when last.
fn count(count: &Count, now: Tick) -> Times {
    Times {
        total: count.total(),
        last_minute: count.lately(now),
        last_secs_ago: count.last().map(|last| now.since(last).as_secs()),
    }
}

/// The name of a protocol version.
const fn version(version: Version) -> &'static str {
    match version {
        Version::V31 => "3.1",
        Version::V311 => "3.1.1",
        Version::V5 => "5.0",
    }
}
