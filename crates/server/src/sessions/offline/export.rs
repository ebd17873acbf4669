//! Sessions as lines of JSON.

use std::collections::BTreeSet;

use stentor_disk::MappedDisk;
use stentor_mqtt::PacketId;
use stentor_session_log::{
    Body, Chunk, OwnedTerms, Restored, RestoredChunk, RestoredDebt, RestoredDelivery,
    RestoredSession, RestoredSubscription, Target, Unheard, packet_id_of,
};
use stentor_spool::{NotRead, Reader};
use stentor_topic::matches;

use super::line::{Entry, State, Whose, message_json, session_json};
use super::room::room_json;
use super::{Files, Missing, SessionsError, ZoneNames, lost_power, read_chunk};
use crate::config::Config;
use crate::lifecycle::{keep_the_latest, sync_of};

/// What an export came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Sessions.
    pub sessions: u64,
    /// Messages that wait in them.
    pub messages: u64,
    /// Permanent rooms.
    pub rooms: u64,
    /// Sessions of guests, which no start goes on with.
    pub guests: u64,
    /// Messages that are lost, since they cannot be read.
    pub lost: u64,
    /// Damaged places that may have cost more.
    pub places: u64,
}

/// Gives `put` each line of an export of the sessions that a configuration names, with its end.
///
/// # Errors
/// When a server runs, the files cannot be read, or `put` fails.
pub fn export_sessions<E: From<SessionsError>>(
    config: &Config,
    mut put: impl FnMut(String) -> Result<(), E>,
) -> Result<Exported, E> {
    let Files { found, spool, .. } = &mut Files::open(config)?;
    let mut restored = found.earlier.replay(sync_of(config), |_, body| *body);
    keep_the_latest(&mut restored.sessions);
    if is_on_the_way(&restored) {
        return Err(SessionsError::OnTheWay.into());
    }
    let (mut zones, lost_power) = (ZoneNames::new(config), lost_power(&found.earlier));
    let mut exported = Exported {
        places: restored.damage.len() as u64,
        ..Exported::default()
    };
    for session in &restored.sessions {
        if session.guest.is_some() {
            exported.guests += 1;
            continue;
        }
        let whose = Whose {
            zone: zones
                .known(session.zone)?
                .ok_or(SessionsError::NoZone(session.zone))?
                .into(),
            client_id: session.client_id.clone(),
            user: session.user.clone(),
        };
        let missing = Missing::of(session, &lost_power);
        let (chunks, lost) = readable(spool, session, missing);
        let messages = count(session, &chunks);
        put(format!("{}\n", session_json(session, &whose, messages)))?;
        put_messages(spool, session, &whose, &chunks, &mut put)?;
        exported.sessions += 1;
        exported.messages += messages;
        exported.lost += session.lost + lost;
    }
    for room in &restored.rooms {
        let zone = zones.name(room.zone)?;
        put(format!("{}\n", room_json(room, &zone)))?;
        exported.rooms += 1;
    }
    Ok(exported)
}

/// The parts of a backlog that can be read, and how many messages are lost in the others.
fn readable<'r>(
    spool: &mut Reader<MappedDisk>,
    session: &'r RestoredSession<Body<'_>>,
    missing: Missing,
) -> (Vec<&'r RestoredChunk>, u64) {
    let (mut all, mut lost) = (Vec::new(), 0);
    for chunk in &session.spooled {
        match read_chunk(spool, session, chunk) {
            Ok(_) => all.push(chunk),
            Err(NotRead::Missing) if missing == Missing::Delivered => {}
            Err(_) => lost += left(chunk),
        }
    }
    (all, lost)
}

/// How many messages of a part are to be sent still.
pub(super) fn left(chunk: &RestoredChunk) -> u64 {
    u64::from(chunk.count).saturating_sub(chunk.gone.len() as u64)
}

fn count(session: &RestoredSession<Body<'_>>, chunks: &[&RestoredChunk]) -> u64 {
    let spooled: u64 = chunks.iter().map(|chunk| left(chunk)).sum();
    (session.owed.len() + session.held.len()) as u64 + spooled
}

/// Writes the messages of a session in the order of their deliveries, then what is held back.
fn put_messages<E>(
    spool: &mut Reader<MappedDisk>,
    session: &RestoredSession<Body<'_>>,
    whose: &Whose,
    chunks: &[&RestoredChunk],
    put: &mut impl FnMut(String) -> Result<(), E>,
) -> Result<(), E> {
    let mut owed = session.owed.iter().peekable();
    for chunk in chunks {
        // What a client has received of a part at QoS 2 stands among the others.
        let Ok(bytes) = read_chunk(spool, session, chunk) else {
            continue;
        };
        let Ok(content) = Chunk::decode(&bytes) else {
            continue;
        };
        for (delivery, it) in (chunk.first..).zip(content.deliveries.iter()) {
            while let Some(before) = owed.next_if(|it| it.delivery < delivery) {
                put(owed_line(session, whose, before))?;
            }
            if chunk.gone.binary_search(&delivery).is_err() {
                let odd = chunk.odd.iter().find(|(number, _)| *number == delivery);
                let packet_id = odd.map_or_else(|| packet_id_of(delivery), |(_, id)| *id);
                let entry = entry(session, delivery, packet_id);
                let terms = OwnedTerms::from(&it.terms);
                put(line(whose, entry, Some((&terms, &it.body))))?;
            }
        }
    }
    for it in owed {
        put(owed_line(session, whose, it))?;
    }
    for held in &session.held {
        let entry = Entry {
            state: State::Held,
            delivery: None,
            packet_id: None,
        };
        put(line(whose, entry, Some((&held.terms, &held.message))))?;
    }
    Ok(())
}

fn line(whose: &Whose, entry: Entry, message: Option<(&OwnedTerms, &Body<'_>)>) -> String {
    format!("{}\n", message_json(whose, entry, message))
}

/// A delivery whose message is to be sent.
fn entry(session: &RestoredSession<Body<'_>>, delivery: u64, packet_id: PacketId) -> Entry {
    let may_be_sent = delivery < session.sent || packet_id != packet_id_of(delivery);
    Entry {
        state: if may_be_sent {
            State::Sent
        } else {
            State::Waiting
        },
        delivery: Some(delivery),
        packet_id: Some(packet_id),
    }
}

fn owed_line(
    session: &RestoredSession<Body<'_>>,
    whose: &Whose,
    it: &RestoredDelivery<Body<'_>>,
) -> String {
    let entry = entry(session, it.delivery, it.packet_id);
    match &it.debt {
        RestoredDebt::Message(body, terms) => line(whose, entry, Some((terms, body))),
        RestoredDebt::Release => {
            let state = State::Received;
            line(whose, Entry { state, ..entry }, None)
        }
    }
}

/// Whether a message was on its way to another shard where a session may be owed it. An export
/// does not say to whom it goes.
pub(super) fn is_on_the_way(restored: &Restored<Body<'_>>) -> bool {
    // Those that were asked about: mostly there are many of one topic.
    let mut asked = BTreeSet::new();
    restored.unheard.iter().any(|unheard| {
        let body = &unheard.message;
        let Target::Subscribers(route) = &unheard.to else {
            return may_be_owed(restored, unheard);
        };
        let route = route.as_deref().unwrap_or(body.topic);
        let is_served = !unheard.served.sessions.is_empty();
        let key = (unheard.generation, unheard.shard, body.zone, route);
        let is_new = asked.insert((key, unheard.is_own)) || is_served;
        is_new && may_be_owed(restored, unheard)
    })
}

fn may_be_owed(restored: &Restored<Body<'_>>, unheard: &Unheard<Body<'_>>) -> bool {
    let is_private = |text: &str| text.starts_with("$private/");
    let body = &unheard.message;
    let its = restored.sessions.iter().filter(|it| {
        it.guest.is_none()
            && it.expiry_secs > 0
            && (it.zone, it.origin.generation) == (body.zone, unheard.generation)
            && !unheard.served.sessions.contains(&it.origin)
    });
    let subscriptions = |it: &RestoredSession<Body<'_>>, gets: &dyn Fn(Its<'_>) -> bool| {
        let mut all = it.subscriptions.iter();
        all.any(|subscription| gets((it.origin.shard, subscription)))
    };
    let gets = |(shard, it): Its<'_>| match (&unheard.to, &it.group) {
        (Target::Member(share), group) => {
            group.as_ref() == Some(&share.group) && it.filter == share.filter
        }
        // The shard did not come to all shared subscriptions.
        (Target::Subscribers(None), Some(_)) => unheard.is_own && matches(&it.filter, body.topic),
        (Target::Subscribers(Some(_)), Some(_)) => false,
        (Target::Subscribers(route), None) => {
            let route = route.as_deref().unwrap_or(body.topic);
            // An inbox has the name of its user in topics, and not in filters.
            let matches = match is_private(&it.filter) {
                true => is_private(route),
                false => matches(&it.filter, route),
            };
            shard == unheard.shard && matches
        }
    };
    { its }.any(|it| subscriptions(it, &gets))
}

/// A subscription, and the shard of its session.
type Its<'s> = (u16, &'s RestoredSubscription);
