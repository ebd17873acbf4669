//! Retained messages on their way to a new subscription, paced by the subscriber's socket.

use alloc::boxed::Box;
use alloc::sync::Arc;

use stentor_session::{Message, Tick};
use stentor_topic::has_wildcard;

use crate::deliver::Terms;
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::options::Options;
use crate::retained::{Cursor, Mark, Walk};
use crate::route::Parcel;
use crate::sessions::Session;

/// A snapshot goes on while less than this waits for the socket: bounded memory for any number
/// of matches, and live messages are never far behind.
const QUEUED_BYTES_LOW: usize = 64 * 1024;
/// Topics visited in one step, so that a large walk does not hold up the shard.
const VISITS: usize = 256;

/// What is left to send of the retained messages for one subscription.
#[derive(Debug)]
pub(crate) struct Snapshot {
    filter: Box<str>,
    options: Options,
    mark: Mark,
    cursor: Cursor,
}

/// A subscription that asks for its retained messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) filter: &'a str,
    pub(crate) options: Options,
    pub(crate) mark: Mark,
}

impl Snapshot {
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }
}

/// Whether a session takes more of a snapshot now.
fn is_ready(session: &Session) -> bool {
    let waiting = session
        .outbound
        .as_ref()
        .map_or(0, |outbound| outbound.waiting_len());
    waiting == 0
        && session
            .live()
            .is_some_and(|live| live.queued_bytes() < QUEUED_BYTES_LOW)
}

impl Hub {
    /// Starts a snapshot: at once what the socket takes, the rest as it is written.
    pub(crate) fn begin_snapshot(&mut self, now: Tick, key: SessionKey, wanted: &Wanted<'_>) {
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let is_first = session.live().is_some_and(|live| {
            live.extras
                .as_ref()
                .is_none_or(|extras| extras.snapshots.is_empty())
        });
        if is_first && is_ready(session) && !has_wildcard(wanted.filter) {
            // The common case, one value at most, needs no bookkeeping.
            let zone = session.zone();
            let found = self.retained.get(zone, wanted.filter, wanted.mark, now);
            if let Some(message) = found {
                self.send_retained(key, wanted.options, &message);
            }
            return;
        }
        if let Some(live) = session.live_mut() {
            let Wanted {
                filter,
                options,
                mark,
            } = *wanted;
            let (filter, cursor) = (filter.into(), Cursor::default());
            live.extras().snapshots.push_back(Snapshot {
                filter,
                options,
                mark,
                cursor,
            });
        }
        self.continue_snapshots(now, key);
    }

    /// Goes on with the snapshots of a session, one step of each, if its socket takes more.
    pub(crate) fn continue_snapshots(&mut self, now: Tick, key: SessionKey) {
        let Some(session) = self
            .sessions
            .get_mut(key)
            .filter(|session| is_ready(session))
        else {
            return;
        };
        let zone = session.zone();
        let Some(mut snapshot) = session
            .live_mut()
            .and_then(|live| live.extras.as_mut())
            .and_then(|extras| extras.snapshots.pop_front())
        else {
            return;
        };
        let mut found = core::mem::take(&mut self.found);
        let walk = if has_wildcard(&snapshot.filter) {
            let scope = (snapshot.mark, now);
            let cursor = &mut snapshot.cursor;
            self.retained
                .walk(zone, &snapshot.filter, scope, cursor, VISITS, &mut found)
        } else {
            found.extend(
                self.retained
                    .get(zone, &snapshot.filter, snapshot.mark, now),
            );
            Walk::Done
        };
        for message in found.drain(..) {
            self.send_retained(key, snapshot.options, &message);
        }
        self.found = found;
        if let (Walk::More, Some(live)) = (
            walk,
            self.sessions
                .get_mut(key)
                .and_then(|session| session.live_mut()),
        ) {
            // In turn with the session's other snapshots.
            live.extras().snapshots.push_back(snapshot);
        }
        self.close_overrun(now);
    }

    /// Whether a session still has retained messages to come.
    pub(crate) fn has_snapshots(&self, key: SessionKey) -> bool {
        self.sessions
            .get(key)
            .and_then(|session| session.live())
            .and_then(|live| live.extras.as_ref())
            .is_some_and(|extras| !extras.snapshots.is_empty())
    }

    fn send_retained(&mut self, key: SessionKey, options: Options, message: &Arc<Message>) {
        let ids = [options.id()];
        let ids = if ids == [0] { &[][..] } else { &ids[..] };
        let mut terms = Terms::new(message, options, ids, 0);
        // Sent because of a subscription: RETAIN is set [MQTT-3.3.1-8].
        terms.retain = true;
        self.counter()
            .hand_over(&mut Parcel::new(message), key.slot, &terms);
    }
}
