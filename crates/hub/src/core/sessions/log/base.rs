//! All that there is to say of a session, written down at once.
//!
//! This replaces everything that was written of it before, so the files with those records can go.

use stentor_mqtt::SubscribeOptions;
use stentor_session::Outbound;
use stentor_session_log::Filter;
use stentor_topic::Subscription;

use super::parts::{Before, Taken, write_part};
use super::queue::{All, carry_alone};
use super::{SessionLog, Terms, gives_up_round, marks, round_ends};
use crate::core::delivery::conflate::held_windowed;
use crate::core::delivery::snapshot::Snapshots;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::acknowledge::is_elsewhere;
use crate::core::inbound::subscribe::{Element, SubscriptionRef};
use crate::core::{Core, Routing};
use crate::items::RoutedItem;

use crate::core::routing::options::Options;
use crate::core::sessions::log::Number;
use crate::core::sessions::registry::{Link, Session, mark_of};

/// Writes down all that a session has, if its changes are written down.
/// O(its subscriptions).
pub(crate) fn write_base(core: &mut Core, key: SessionKey) {
    write_base_with(core, key, None);
}

/// The same, with a part of its queue that the round has written before.
fn write_base_with(core: &mut Core, key: SessionKey, parts: Option<Taken>) {
    SessionLog::whole(core, |core| write_base_of(core, key, parts));
}

fn write_base_of(core: &mut Core, key: SessionKey, parts: Option<Taken>) {
    let log = &mut core.pending.log;
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let Some(number) = session.state.write_base(log) else {
        return;
    };
    if session.state.number().is_none() {
        // Only its will outlives its connection.
        return;
    }
    if let Some(mark) = mark_of(&core.sessions, key) {
        number.counts_for(log, mark);
    }
    let has_all = parts.is_none();
    write_owed(session, parts, number, &core.routing, log);
    let subscriptions = session.state.subscriptions.as_slice().iter();
    for subscription in subscriptions.filter(|_| has_all) {
        write_subscription(session, key.slot, *subscription, number, &core.routing, log);
    }
    if let Link::Away(away) = &session.link {
        session.state.is_away(away.since_ms, away.absence, log);
        for element in away.left.iter().flat_map(|left| &left.rooms) {
            write_element(number, element, log);
        }
    }
}

/// Where a round is when it waits for what is under way to other shards.
pub const ALL_WRITTEN: u32 = u32::MAX;

/// [`write_base`] in a round that has begun, for the sessions from a place on, until this many
/// places and subscriptions were looked at. A session is written whole, after the messages that it
/// is owed. Returns the place to go on with: a slot, counted from 1 on, or [`ALL_WRITTEN`].
pub(crate) fn write_bases(core: &mut Core, from: u32, at_most: usize) -> Option<u32> {
    let end = u32::try_from(core.sessions.slots()).unwrap_or(u32::MAX);
    let mut left = at_most.max(1);
    for slot in from.saturating_sub(1)..end {
        if left == 0 || core.pending.log.batches.is_large() {
            return Some(slot + 1);
        }
        left -= 1;
        if let Some(key) = core.sessions.key(slot) {
            if !write_whole(core, key, at_most.max(1)) {
                return Some(slot + 1);
            }
            let session = core.sessions.get(key);
            let subscriptions = session.map_or(0, |it| it.state.subscriptions.len());
            left = left.saturating_sub(subscriptions);
        }
    }
    for (shard, name) in marks(&mut core.pending.log) {
        let item = RoutedItem::Mark { name };
        core.effects.mesh.push((ShardId(shard), item.into()));
    }
    // What is under way was sent before.
    (!round_ends(&mut core.pending.log)).then_some(ALL_WRITTEN)
}

/// Writes a session in a round: parts of a large one, the messages that it is owed, and its base.
/// Returns whether all of that is written.
fn write_whole(core: &mut Core, key: SessionKey, places: usize) -> bool {
    let parts = match write_part(core, key, places) {
        Before::Nothing => None,
        Before::Parts => return false,
        Before::Done(parts) => Some(parts),
    };
    let are_written = carry_messages(core, key, parts.as_ref());
    if are_written {
        write_base_with(core, key, parts);
    }
    are_written
}

/// A round is given up: the next one begins with the first session.
pub(crate) fn give_up_bases(core: &mut Core) {
    gives_up_round(&mut core.pending.log);
}

/// Writes the messages that a session is owed, but for those in parts, where a round has not done
/// that yet, in batches of their own. Returns whether all are written, and have names: then its
/// base is short.
fn carry_messages(core: &mut Core, key: SessionKey, parts: Option<&Taken>) -> bool {
    let log = &mut core.pending.log;
    let session = core.sessions.get(key);
    let Some(session) = session.filter(|it| it.state.number().is_some()) else {
        return true;
    };
    let in_parts = parts.map_or(0..0, |it| it.numbers.clone());
    let owed = session.state.owed.get().into_iter();
    let owed = owed.flat_map(|owed| owed.numbered_but(in_parts.clone()));
    let owed = owed.filter_map(|(.., delivery)| delivery);
    let place = log.round.place_in(key.slot);
    let owed = owed.skip_while(|delivery| delivery.number < place);
    let mut have_names = true;
    let held = held_windowed(session).filter(|_| parts.is_none());
    for delivery in owed.chain(held) {
        if log.batches.is_large() {
            // What is held back has no number: all of that is looked at again.
            log.round.stops_at(key.slot, delivery.number.max(place));
            return false;
        }
        have_names &= carry_alone(log, delivery);
    }
    have_names
}

/// The messages in both directions.
fn write_owed(
    session: &Session,
    parts: Option<Taken>,
    number: Number,
    routing: &Routing,
    log: &mut SessionLog,
) {
    for (packet_id, ticket) in session.state.arrivals.received() {
        // Another shard may not have taken it yet.
        if !ticket.is_some_and(is_elsewhere) {
            number.arrived(log, packet_id);
        }
    }
    let owed = session.state.owed.get().filter(|owed| owed.is_numbered());
    let none = Outbound::default();
    let has_all = parts.is_none();
    let mut held = held_windowed(session).filter(|_| has_all).peekable();
    if owed.is_some() || held.peek().is_some() || !has_all {
        let owed = owed.unwrap_or(&none);
        log.queue(number, &All { owed, parts }, held, &routing.shares);
    }
}

/// One subscription, by the slot of its session.
pub(super) fn write_subscription(
    session: &Session,
    slot: u32,
    subscription: SubscriptionRef,
    number: Number,
    routing: &Routing,
    log: &mut SessionLog,
) {
    let interval = session.rate_of(subscription);
    let (text, options, snapshot) = match subscription {
        SubscriptionRef::Filter(id) => {
            let options = routing.index.options(id, slot);
            let text = stentor_zone::inbox::written(routing.index.filter(id).1);
            let options = options.map(Options::from_bits);
            (text.into_owned(), options, Snapshots::are_due(session, id))
        }
        SubscriptionRef::Share(share) => {
            let options = routing.shares.options(share, slot);
            (routing.shares.text(share), options, false)
        }
    };
    let (Ok(Subscription { share, filter }), Some(options)) = (Subscription::parse(&text), options)
    else {
        debug_assert!(false, "it was subscribed to");
        return;
    };
    let terms = Terms {
        options,
        interval,
        snapshot,
    };
    let group = share;
    number.subscribed(log, Filter { group, filter }, terms);
}

/// Something below a room, to which the session comes back with its client.
fn write_element(number: Number, element: &Element, log: &mut SessionLog) {
    // It has heard of its removal when it is back.
    if element.expelled.is_some() {
        return;
    }
    let Element {
        filter,
        options,
        id,
        ..
    } = element;
    let options: SubscribeOptions = *options;
    let terms = Terms {
        options: Options::new(options, *id),
        interval: None,
        snapshot: false,
    };
    let filter = Filter {
        group: None,
        filter,
    };
    number.subscribed(log, filter, terms);
}
