//! The verbs `rooms.…`: the rooms of a zone, which live on its home shard.

use serde_json::{Value, json};
use stentor_control::rooms::{Close, Closed, History, Kick, List, Ls, Member, Room, Show, Shown};
use stentor_control::{Done, Request as _, ZoneWord};
use stentor_hub::{RoomsAsk, RoomsTold, home_of_zone};
use stentor_topic::Zone;
use stentor_zone::{ListedRoom, ShownMember, check_name};

use super::protocol::{Failure, Names};
use super::zones;
use crate::context::ServerContext;
use crate::shard::Inquiry;
use crate::telemetry::collect::ask_one;

/// How many of them a shard tells at once.
const AT_ONCE: usize = 256;

/// The rooms of a zone, by name.
pub(super) fn list(context: &ServerContext, request: &Ls) -> Result<List, Failure> {
    let zone = zone_of(context, request.zone.as_ref())?;
    let prefix: Box<str> = request.prefix.as_deref().unwrap_or_default().into();
    let limit = Ls::VERB.wanted(request.limit)?;
    let mut after: Option<Box<str>> = request.after.as_deref().map(Into::into);
    let (mut names, mut has_more) = (Names::default(), true);
    let mut list = List {
        zone: context.zone_name(zone),
        ..List::default()
    };
    while has_more && list.rooms.len() < limit {
        let told = ask(context, zone, || RoomsAsk::List {
            prefix: prefix.clone(),
            after: after.clone(),
            at_most: (limit - list.rooms.len()).min(AT_ONCE),
        })?;
        let RoomsTold::List(part) = told else {
            return Err(confused());
        };
        (list.total, has_more) = (part.total, part.has_more);
        for one in &part.rooms {
            if !names.take(one.room.len() + one.owner.as_ref().map_or(0, |owner| owner.len())) {
                list.next = after.as_deref().map(str::to_owned);
                return Ok(list);
            }
            after = Some((*one.room).into());
            list.rooms.push(room(one));
        }
    }
    list.next = after.filter(|_| has_more).map(Into::into);
    Ok(list)
}

/// A room with its members and properties.
pub(super) fn show(context: &ServerContext, request: &Show) -> Result<Shown, Failure> {
    let zone = zone_of(context, request.zone.as_ref())?;
    check(&request.room)?;
    let limit = Show::VERB.wanted(request.limit)?;
    let mut after: Option<Box<str>> = request.after.as_deref().map(Into::into);
    let mut shown = Shown {
        zone: context.zone_name(zone),
        ..Shown::default()
    };
    loop {
        let told = ask(context, zone, || RoomsAsk::Show {
            room: request.room.as_str().into(),
            after: after.clone(),
            at_most: (limit - shown.members.len()).min(AT_ONCE),
        })?;
        let RoomsTold::Shown(found) = told else {
            return Err(confused());
        };
        let part = *found.ok_or_else(|| missing(&request.room, &shown.zone))?;
        shown.room = room(&part.listed);
        shown.properties = part.properties;
        shown.locks = part.locks;
        shown.history = History {
            count: part.history.count,
            bytes: part.history.bytes,
            age_secs: part.history.age.map(|age| age.as_secs()),
        };
        let last = part.members.last().map(|last| (*last.user).into());
        after = last.or(after);
        shown.members.extend(part.members.iter().map(member));
        if !part.has_more {
            break;
        }
        if shown.members.len() >= limit {
            shown.next = after.map(Into::into);
            break;
        }
    }
    Ok(shown)
}

/// Removes a member of a room.
pub(super) fn kick(context: &ServerContext, request: &Kick) -> Result<Done, Failure> {
    let words = json!({ "room": request.room, "user": request.user });
    let zone = zone_of(context, request.zone.as_ref())?;
    run(context, zone, &request.room, "room.kick", &words)?;
    Ok(Done {})
}

/// Closes a room.
pub(super) fn close(context: &ServerContext, request: &Close) -> Result<Closed, Failure> {
    let words = json!({ "room": request.room });
    let zone = zone_of(context, request.zone.as_ref())?;
    let result = run(context, zone, &request.room, "room.close", &words)?;
    Ok(Closed {
        stays: result["stays"] == true,
    })
}

fn room(listed: &ListedRoom) -> Room {
    Room {
        room: listed.room.to_string(),
        member_count: listed.members,
        capacity: listed.capacity,
        owner: listed.owner.as_deref().map(str::to_owned),
        locked: listed.is_locked,
        permanent: listed.is_permanent,
        property_count: listed.properties,
        bytes: listed.bytes,
    }
}

fn member(member: &ShownMember) -> Member {
    Member {
        user: member.user.to_string(),
        away: member.is_away,
        is_virtual: member.is_virtual,
    }
}

/// Runs a command about a room as the server's own. Returns its result.
fn run(
    context: &ServerContext,
    zone: Zone,
    room: &str,
    command: &'static str,
    words: &Value,
) -> Result<Value, Failure> {
    check(room)?;
    let told = ask(context, zone, || RoomsAsk::Run {
        command: command.into(),
        words: words.to_string().into_bytes().into(),
    })?;
    let RoomsTold::Ran(json) = told else {
        return Err(confused());
    };
    let mut answer: Value = serde_json::from_slice(&json).unwrap_or_default();
    if answer["status"] == "done" {
        return Ok(answer["result"].take());
    }
    let text = answer["text"].as_str().unwrap_or("the command failed");
    if answer["error"] == "unknown" {
        // The answer names what is unknown if a command names several things.
        if answer["part"] == "room" {
            return Err(missing(room, &context.zone_name(zone)));
        }
        let message = format!("room {room:?}: {text}; `rooms.show` tells its members");
        return Err(Failure::new("not-found", message).about("user"));
    }
    Err(Failure::new("refused", format!("room {room:?}: {text}")))
}

/// Asks the home of a zone.
fn ask(
    context: &ServerContext,
    zone: Zone,
    question: impl FnOnce() -> RoomsAsk,
) -> Result<RoomsTold, Failure> {
    let home = home_of_zone(zone, context.shard_count());
    let question = question();
    let told = ask_one(context, usize::from(home.0), |answer| {
        Inquiry::Rooms(zone, question, answer)
    });
    told.ok_or_else(|| {
        let text = "the shard of these rooms does not answer; see the server's log";
        Failure::new("unavailable", text)
    })
}

fn zone_of(context: &ServerContext, zone: Option<&ZoneWord>) -> Result<Zone, Failure> {
    Ok(zones::named(context, zone)?.unwrap_or(Zone::DEFAULT))
}

/// Refuses what cannot be the name of a room.
fn check(room: &str) -> Result<(), Failure> {
    check_name(room).map_err(|error| {
        let message = format!("{room:?} cannot be the name of a room: {error}");
        Failure::new("bad-request", message).about("room")
    })
}

fn missing(room: &str, zone: &str) -> Failure {
    let message = format!(
        "the zone {zone:?} has no room {room:?}; `stentor room ls --zone {zone}` lists its rooms"
    );
    Failure::new("not-found", message).about("room")
}

/// The shard has answered something else.
fn confused() -> Failure {
    Failure::new(
        "unavailable",
        "the answer of the shard makes no sense; this is a bug of the server",
    )
}
