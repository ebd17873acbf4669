//! The verbs `ban.…`.

use std::sync::mpsc::Receiver;

use serde_json::json;
use stentor_auth::store::{Directory, Who};
use stentor_control::bans::{Add, Added, Ban, List, Removed, Rm, Target};
use stentor_control::events::Kind;
use tracing::warn;

use super::protocol::Failure;
use super::zones;
use crate::bans::{Flapper, Now, Party, checked, checked_reason};
use crate::context::ServerContext;
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_one;
use crate::telemetry::{Entry, Noted, ZoneOf, shown};

/// The longest time of a ban that ends: 100 years.
const SECS_MAX: u64 = 100 * 365 * 86_400;

/// Keeps somebody out, and closes the connections that there are.
pub(super) fn add(context: &ServerContext, who: &Who, request: &Add) -> Result<Added, Failure> {
    let target = checked(&request.target, request.force)?;
    if let Some(zone) = &target.zone {
        zones::number(context, zone)?;
    }
    let for_secs = request.for_secs.map(|secs| secs.min(SECS_MAX));
    if for_secs == Some(0) {
        let message = "a ban of 0 seconds keeps out nobody; name a time such as --for 10m";
        return Err(Failure::new("bad-request", message).about("for_secs"));
    }
    let now = Now::at(context.clock.now());
    let ban = Ban {
        target,
        until: for_secs.map(|secs| now.secs() + secs),
        since: now.secs(),
        reason: checked_reason(&request.reason)?,
        by: who.to_string(),
    };
    let replaced = context.bans.add(&ban, now)?;
    // New connections are refused from now on; these exist already.
    let closed = close(context)?;
    tell(context, &ban, added_text(&ban));
    Ok(Added {
        ban,
        replaced,
        closed,
    })
}

/// Bans clients that connect too often, as they are found. Runs for ever.
pub(crate) fn ban_flapping(
    context: &ServerContext,
    directory: &Directory,
    found: &Receiver<Flapper>,
) {
    let who = Who::new("the server (limits.flapping_connects)");
    for flapper in found {
        let Flapper {
            zone,
            client_id,
            rule,
        } = flapper;
        let party = Party {
            zone,
            client_id: &client_id,
            user: None,
        };
        // Somebody has done that already, perhaps for longer.
        let now = context.clock.now();
        if context.bans.of_party(now, party).is_some() {
            continue;
        }
        let zone = context.zone_name(zone);
        let request = Add {
            target: Target {
                client_id: Some(client_id.into_string()),
                zone: Some(zone.clone()),
                ..Target::default()
            },
            for_secs: Some(rule.ban.as_secs()),
            reason: rule.told(),
            force: false,
        };
        let client = request.target.client_id.as_deref().unwrap_or_default();
        let detail = match add(context, &who, &request) {
            Ok(added) => json!({
                "zone": zone,
                "until": added.ban.until,
                "ban_reason": added.ban.reason,
                "closed": added.closed,
            }),
            Err(failure) => {
                let reason = failure.message;
                let client = &*shown(client);
                warn!(
                    client,
                    "a client that connects too often is not banned: {reason}"
                );
                json!({ "zone": zone, "outcome": "refused", "reason": reason })
            }
        };
        directory.note(&who, "bans.add", &shown(client), detail);
    }
}

/// Lets somebody in again.
pub(super) fn remove(context: &ServerContext, who: &Who, request: &Rm) -> Result<Removed, Failure> {
    let target = checked(&request.target, true)?;
    let removed = context.bans.remove(&target, Now::at(context.clock.now()))?;
    let Some(ban) = removed else {
        let message = format!("there is no ban of {target}; `stentor ban ls` lists them");
        return Err(Failure::new("not-found", message));
    };
    let text = format!("{} may connect again, by {who}", ban.target);
    tell(context, &ban, text);
    Ok(Removed { ban })
}

/// The bans that hold.
pub(super) fn list(context: &ServerContext) -> List {
    List {
        bans: context.bans.list(Now::at(context.clock.now())),
    }
}

/// Closes the connections of all who are banned; how many there were. A shard looks at some of its
/// connections in one turn.
fn close(context: &ServerContext) -> Result<u64, Failure> {
    let mut closed = 0;
    for shard in 0..context.shards.len() {
        let mut from = Some(0);
        while let Some(first) = from {
            let question = |answer| Inquiry::CloseBanned {
                from: first,
                answer,
            };
            let answer = ask_one(context, shard, question);
            let (more, next) = answer.ok_or_else(|| {
                let message = format!(
                    "the ban holds for new connections, but shard {shard} does not answer, so \
                     those that are there may stay; see the server's log"
                );
                Failure::new("unavailable", message)
            })?;
            closed += more;
            from = next;
        }
    }
    Ok(closed)
}

fn added_text(ban: &Ban) -> String {
    let reason = match ban.reason.is_empty() {
        true => String::new(),
        false => format!(" ({:?})", ban.reason),
    };
    format!("{} is banned{reason}, by {}", ban.target, ban.by)
}

/// Leaves the change for the events.
fn tell(context: &ServerContext, ban: &Ban, text: String) {
    let Target {
        client_id,
        user,
        zone,
        ..
    } = &ban.target;
    let name = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
    let noted = Noted {
        zone: zone.as_deref().map(|zone| ZoneOf::Name(zone.into())),
        client_id: name(client_id),
        user: name(user),
        text: text.into(),
        ..Noted::new(Kind::Banned)
    };
    context.journal.note(Entry::Banned(Box::new(noted)));
    context.journal.wake();
}
