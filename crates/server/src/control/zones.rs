//! The verb `zones`.

use std::collections::BTreeMap;

use stentor_control::ZoneWord;
use stentor_control::zones::{Told, Zone as Shown};
use stentor_hub::ZoneFigures;
use stentor_topic::Zone;

use super::protocol::Failure;
use super::retained;
use crate::config::suggest::nearest;
use crate::context::ServerContext;
use crate::retained::ZoneNames as _;
use crate::shard::{Inquiry, Survey};
use crate::survey::Age;
use crate::telemetry::collect::{ask_one, survey};

/// What there is of each zone now: connections, sessions, rooms, retained messages; and what went
/// through it since the start. `named` are the zones of which there may be nothing.
pub(super) fn zones(
    context: &ServerContext,
    age: Age,
    named: impl Iterator<Item = String>,
) -> Told {
    let nothing = |name| (name, (ZoneFigures::default(), 0, 0));
    let mut zones: BTreeMap<String, (ZoneFigures, u64, u64)> = named.map(nothing).collect();
    let kept = context.surveys.zones.get(age, || walk(context));
    for (zone, figures) in &*kept.found {
        let (sum, ..) = zones.entry(context.zone_name(Zone(*zone))).or_default();
        add(sum, figures);
    }
    for (zone, messages, bytes) in context.retained.status().zones {
        let of_zone = zones.entry(context.zone_name(zone)).or_default();
        (of_zone.1, of_zone.2) = (messages, bytes);
    }
    let shown = zones.into_iter().map(|(name, (sum, messages, bytes))| {
        let number = context.authenticator.known_zone(&name).map(Zone::get);
        Shown {
            name,
            number,
            connections: sum.connections,
            users: sum.users,
            sessions: sum.sessions,
            subscriptions: sum.subscriptions,
            rooms: sum.rooms,
            members: sum.members,
            room_bytes: sum.room_bytes,
            held_bytes: sum.session_bytes + sum.room_bytes,
            messages_in: sum.traffic.received,
            messages_in_bytes: sum.traffic.received_bytes,
            messages_out: sum.traffic.sent,
            messages_out_bytes: sum.traffic.sent_bytes,
            messages_dropped: sum.traffic.dropped,
            retained_messages: messages,
            retained_bytes: bytes,
        }
    });
    Told {
        zones: shown.collect(),
    }
}

/// What there is of each zone on all shards, by its number.
fn walk(context: &ServerContext) -> BTreeMap<u32, ZoneFigures> {
    let mut zones: BTreeMap<u32, ZoneFigures> = BTreeMap::new();
    survey(context, Survey::Zones, |part| {
        for (zone, figures) in part {
            add(zones.entry(zone.get()).or_default(), &figures);
        }
    });
    zones
}

fn add(sum: &mut ZoneFigures, part: &ZoneFigures) {
    sum.sessions += part.sessions;
    sum.connections += part.connections;
    sum.subscriptions += part.subscriptions;
    sum.rooms += part.rooms;
    sum.members += part.members;
    sum.room_bytes += part.room_bytes;
    sum.session_bytes += part.session_bytes;
    sum.users += part.users;
    let (all, traffic) = (&mut sum.traffic, &part.traffic);
    all.received += traffic.received;
    all.received_bytes += traffic.received_bytes;
    all.sent += traffic.sent;
    all.sent_bytes += traffic.sent_bytes;
    all.dropped += traffic.dropped;
}

/// The zone that a request names, if it names one.
///
/// # Errors
/// When there is no zone of that name.
pub(super) fn named(
    context: &ServerContext,
    zone: Option<&ZoneWord>,
) -> Result<Option<Zone>, Failure> {
    match zone {
        None => Ok(None),
        Some(ZoneWord::Number(number)) => Ok(Some(Zone(*number))),
        Some(ZoneWord::Name(name)) => number(context, name).map(Some),
    }
}

/// The name of the zone that a request names, if it names one.
///
/// # Errors
/// When there is no such zone.
pub(super) fn name(
    context: &ServerContext,
    zone: Option<&ZoneWord>,
) -> Result<Option<String>, Failure> {
    let zone = named(context, zone)?;
    Ok(zone.map(|zone| context.zone_name(zone)))
}

/// The number of a zone. One that nobody has used yet gets its number now.
pub(super) fn number(context: &ServerContext, name: &str) -> Result<Zone, Failure> {
    if let Some(zone) = context.known(name) {
        return Ok(zone);
    }
    if !context.authenticator.has_zone(name) {
        let meant = meant(context, name);
        let message = format!("there is no zone {name:?}{meant}; `stentor zone list` lists them");
        return Err(Failure::new("not-found", message).about("zone"));
    }
    let number = context.number(name);
    number.map_err(|message| Failure::new("unavailable", message))
}

/// Which zone was probably meant, of those of which there is something: the end of a sentence, or
/// nothing.
fn meant(context: &ServerContext, name: &str) -> String {
    let all = zones(context, Age::Lately, std::iter::empty());
    let names = all.zones.iter().map(|zone| &*zone.name);
    nearest(name, names).map_or_else(String::new, |near| format!("; did you mean {near:?}?"))
}

/// Ends all that there is of a zone: its connections, sessions, rooms and retained messages.
/// Returns how many sessions and retained messages there were.
///
/// # Errors
/// When its retained messages cannot be cleared.
pub(super) fn end(context: &ServerContext, zone: Zone) -> Result<(u64, u64), Failure> {
    let mut sessions = 0;
    for shard in 0..context.shards.len() {
        let mut next = Some(0);
        while let Some(from) = next {
            let question = |answer| Inquiry::EndZone { zone, from, answer };
            let part = ask_one(context, shard, question).ok_or_else(|| {
                let message = format!(
                    "shard {shard} does not answer, so some sessions of the zone may be left; see \
                     the server's log, and remove the zone again"
                );
                Failure::new("unavailable", message)
            })?;
            sessions += part.found;
            next = part.next;
        }
    }
    let messages = retained::clear_zone(context, zone)?;
    Ok((sessions, messages))
}
