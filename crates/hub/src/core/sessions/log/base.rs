//! All that there is to say of a session, written down at once.
//!
//! This replaces everything that was written of it before, so the files with those records can go.

use stentor_mqtt::SubscribeOptions;
use stentor_session_log::Filter;
use stentor_topic::Subscription;

use super::{SessionLog, Terms};
use crate::core::delivery::snapshot::Snapshots;
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Element, SubscriptionRef};
use crate::core::{Core, Routing};

use crate::core::routing::options::Options;
use crate::core::sessions::log::Number;
use crate::core::sessions::registry::{Link, Session};

/// Writes down all that a session has, if its changes are written down.
/// O(its subscriptions).
pub(crate) fn write_base(core: &mut Core, key: SessionKey) {
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
    write_subscriptions((session, key.slot), number, &core.routing, log);
    if let Link::Away(away) = &session.link {
        session.state.is_away(away.since_ms, away.absence, log);
        for element in away.left.iter().flat_map(|left| &left.rooms) {
            write_element(number, element, log);
        }
    }
}

/// Bytes after which [`write_bases`] stops.
const BYTES_AT_ONCE: usize = 128 << 10;

/// [`write_base`] for the sessions from a slot on, until this many places and subscriptions were
/// looked at, or [`BYTES_AT_ONCE`] were written. A session is written whole. Returns the slot to go
/// on with.
pub(crate) fn write_bases(core: &mut Core, from: u32, at_most: usize) -> Option<u32> {
    let end = u32::try_from(core.sessions.slots()).unwrap_or(u32::MAX);
    let mut left = at_most.max(1);
    for slot in from..end {
        if left == 0 || core.pending.log.bytes() >= BYTES_AT_ONCE {
            return Some(slot);
        }
        left -= 1;
        if let Some(key) = core.sessions.key(slot) {
            let session = core.sessions.get(key);
            let subscriptions = session.map_or(0, |it| it.state.subscriptions.len());
            left = left.saturating_sub(subscriptions);
            write_base(core, key);
        }
    }
    None
}

fn write_subscriptions(
    (session, slot): (&Session, u32),
    number: Number,
    routing: &Routing,
    log: &mut SessionLog,
) {
    for subscription in session.state.subscriptions.as_slice() {
        let interval = session.rate_of(*subscription);
        let (text, options, snapshot) = match *subscription {
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
        let (Ok(Subscription { share, filter }), Some(options)) =
            (Subscription::parse(&text), options)
        else {
            debug_assert!(false, "it was subscribed to");
            continue;
        };
        let terms = Terms {
            options,
            interval,
            snapshot,
        };
        let group = share;
        log.subscribed(number, Filter { group, filter }, terms);
    }
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
    log.subscribed(number, filter, terms);
}
