//! Retained messages on their way to a new subscription, paced by the subscriber's socket and by
//! what the turns of the shard may do.

mod ahead;
mod queue;
mod turn;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use stentor_mqtt::{Property, PropertyBuf, QoS, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_session_log::Filter;
use stentor_topic::{FilterId, Zone, has_wildcard};

use self::ahead::Wait;
pub(crate) use self::queue::Snapshots;
use self::queue::{Lost, Progress, Snapshot};
use self::turn::VISITS;
pub(in crate::core) use self::turn::{begin, continue_fenced, enqueue, go_on, list};
pub(crate) use self::turn::{continue_fetched, continue_listed};
use crate::core::delivery::conflate::HeldBack;
use crate::core::delivery::deliver::{Course, DeliveryOptions};
use crate::core::history::{HistoryAsk, HistoryQuery};
use crate::core::ids::SessionKey;
use crate::core::retained::{Cursor, Mark, Scope, Walk, copy_visits, topic_visits};
use crate::core::routing::options::Options;
use crate::core::routing::route::{self, EncodedVariants, Treatment, is_own};
use crate::core::sessions::registry::{Session, Sessions};
use crate::core::settings::Settings;
use crate::core::{Core, Memory, Store, work};

/// A snapshot goes on while less than this waits for the socket: bounded memory for any number
/// of matches, and live messages are never far behind.
const QUEUED_BYTES_LOW: usize = 64 * 1024;
/// What a message costs that was found, besides what its bytes do: it is encoded and queued.
const FOUND_VISITS: u32 = 4;
/// What a look for the message of one topic costs.
const GET_VISITS: u32 = 4;
/// What a message takes in the store besides its topic, properties and payload.
const RECORD_BYTES: usize = 64;
/// When to ask again for what the store has to fetch from a disk, or other shards have to tell.
const FETCH_TIME: Duration = Duration::from_millis(1);
/// How often one step is asked for: whatever keeps it from memory, the snapshot goes on.
const FETCHES_MAX: u16 = 2_000;

/// A subscription that asks for its retained messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) id: FilterId,
    pub(crate) filter: &'a str,
    pub(crate) has_wildcard: bool,
    pub(crate) options: Options,
    pub(crate) mark: Mark,
    /// Whether stored messages are sent at all.
    pub(crate) sends: bool,
    /// Whether a message tells the end of the snapshot; with a history, one does in any case.
    pub(crate) marks_end: bool,
    /// Which messages of the histories of topics are sent before the last messages of the others.
    pub(crate) history: Option<HistoryAsk>,
}

impl Wanted<'_> {
    /// Whether it wants one message at most, and no mark of the end.
    const fn is_single(&self) -> bool {
        let is_plain = !self.marks_end && self.history.is_none();
        self.sends && is_plain && !self.has_wildcard
    }
}

/// An ordinary subscription: nothing is retained for what is shared.
const fn ordinary(filter: &str) -> Filter<'_> {
    Filter {
        group: None,
        filter,
    }
}

/// Whether a session takes more of a snapshot now, of which part of its queue's bound may wait.
/// Where memory is short, nothing may wait: whoever has read all that it got gets on.
fn is_ready(session: &Session, settings: &Settings, memory: &Memory) -> bool {
    let most = session.state.queue_bytes_max(settings) / 4;
    has_less(session, QUEUED_BYTES_LOW, most)
        && !session.is_out_of_window(settings)
        && (has_nothing(session) || !memory.is_short())
}

/// Whether the client of a session has read and acknowledged all that it got.
fn has_nothing(session: &Session) -> bool {
    session.is_served() && session.live().is_some_and(|live| live.due_bytes() == 0)
}

/// What a walk costs for a message that it finds.
fn found_visits(message: &Message) -> u32 {
    let copied = message.topic().len() + message.properties().len() + message.payload().len();
    let visits = topic_visits(message.topic()) as u64 + copy_visits(copied + RECORD_BYTES);
    u32::try_from(visits).unwrap_or(u32::MAX)
}

/// Visits of one step for a session: few where its queue may hold little.
fn visits(session: &Session, settings: &Settings) -> usize {
    const EACH_BYTES: usize = 1024;
    let room = session.state.queue_bytes_max(settings) / EACH_BYTES;
    room.clamp(1, VISITS)
}

/// Whether fewer bytes wait for a session's socket, at less than the `most` that they may cost, and
/// no message for a packet id.
fn has_less(session: &Session, bytes: usize, most: usize) -> bool {
    session.state.owed.waiting_len() == 0
        && session
            .live()
            .filter(|live| !live.is_given_up())
            .is_some_and(|live| live.due_bytes() < bytes && live.queued().bytes < most)
}

impl Store {
    /// Whether the store has to fetch the next step of a snapshot from a disk.
    fn is_fetching(&self, zone: Zone, snapshot: &mut Snapshot) -> bool {
        let filter = &snapshot.filter;
        let is_fetching = match (&snapshot.progress, snapshot.history) {
            _ if snapshot.fetches >= FETCHES_MAX => false,
            (Progress::Recalling(cursor), Some(ask)) => {
                let query = HistoryQuery { zone, filter, ask };
                self.retained.is_fetching_history(query, cursor, VISITS)
            }
            (Progress::Walking(cursor), _) => {
                self.retained.is_fetching(zone, filter, cursor, VISITS)
            }
            (Progress::Recalling(_) | Progress::Walked(_), _) => false,
        };
        snapshot.fetches = if is_fetching { snapshot.fetches + 1 } else { 0 };
        is_fetching
    }
}

impl Sessions {
    fn snapshots_mut(&mut self, key: SessionKey) -> Option<&mut Snapshots> {
        let live = self.get_mut(key)?.live_mut()?;
        live.snapshots()
    }
}

/// One step of the snapshot whose turn it is; whether there was something to do now.
fn step_snapshots(core: &mut Core, now: Tick, key: SessionKey, visits_max: usize) -> bool {
    let Some(session) = core
        .sessions
        .get_mut(key)
        .filter(|session| is_ready(session, &core.rules.settings, &core.memory))
    else {
        return false;
    };
    let (zone, at_most) = (session.state.zone(), visits(session, &core.rules.settings));
    let held = session.held();
    let Some(mut snapshot) = session
        .live_mut()
        .and_then(|live| live.snapshots())
        .filter(|snapshots| snapshots.idle_until <= now)
        .and_then(|snapshots| snapshots.pop_ready(held))
    else {
        return false;
    };
    core.turn.spend(1);
    if let Some(wait) = ahead::is_behind(core, zone, &mut snapshot) {
        put_behind(core, now, key, snapshot, wait);
        return false;
    }
    if core.store.is_fetching(zone, &mut snapshot) {
        put_off(core, now, key, snapshot);
        return false;
    }
    let at_most = at_most.min(visits_max);
    let walk = match (&snapshot.progress, snapshot.history) {
        (Progress::Walked(_), _) => finish(core, now, key, &mut snapshot),
        (Progress::Recalling(_), Some(ask)) => recall(core, now, key, &mut snapshot, ask, at_most),
        _ => step(core, now, key, &mut snapshot, at_most),
    };
    let Some(session) = core.sessions.get_mut(key) else {
        return true;
    };
    if walk != Walk::More {
        let filter = ordinary(&snapshot.filter);
        session.state.snapshot_ends(filter, &mut core.pending.log);
    }
    if let Some(live) = session.live_mut()
        && let Some(snapshots) = live.snapshots()
    {
        if walk == Walk::More {
            snapshots.push(snapshot);
        }
        if snapshots.is_empty() {
            live.extras().snapshots = None;
        }
    }
    true
}

/// One step through the store.
fn step(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    snapshot: &mut Snapshot,
    at_most: usize,
) -> Walk {
    let Some(zone) = core.sessions.get(key).map(|session| session.state.zone()) else {
        return Walk::Done;
    };
    let mut found = core::mem::take(&mut core.store.found);
    let (filter, mark) = (&snapshot.filter, snapshot.mark);
    let mut visits = u64::from(GET_VISITS);
    let walk = match &mut snapshot.progress {
        Progress::Walking(cursor) if has_wildcard(filter) => {
            let after = snapshot.after;
            let scope = Scope { after, mark, now };
            cursor.visits = 0;
            let walk = core
                .store
                .retained
                .walk(zone, filter, scope, cursor, at_most, &mut found);
            visits = cursor.visits;
            walk
        }
        _ => {
            if let Some(message) = core.store.retained.get(zone, filter, mark, now) {
                core.turn.spend(found_visits(&message));
                found.push(message);
            }
            // There is no other topic, and no other message but of a history.
            snapshot.sends &= found.is_empty() || snapshot.history.is_some();
            Walk::Done
        }
    };
    let visits = u32::try_from(visits).unwrap_or(u32::MAX);
    core.turn.spend(visits);
    let mut vain = visits;
    for message in found.drain(..) {
        core.turn.spend(FOUND_VISITS);
        if snapshot.history.is_some() && has_history(core, zone, message.topic()) {
            // It was in the history, if it was wanted.
            continue;
        }
        if send_retained(core, now, key, snapshot.options, &message) {
            vain = vain.saturating_sub(found_visits(&message));
        } else {
            vain += FOUND_VISITS;
        }
    }
    core.store.found = found;
    charge_vain(core, now, key, vain);
    if walk == Walk::Done {
        // The end comes after the last message, which may wait for a packet id, and after all
        // that was passed over because it comes live.
        let session = core.sessions.get(key);
        let held = session.map_or_else(HeldBack::default, Session::held);
        snapshot.progress = Progress::Walked(held.listed);
        snapshot.ahead = core.routing.what_is_ahead();
        let lost = lost(core, key);
        if snapshot.has_end() || snapshot.ahead.is_some() || lost != snapshot.lost {
            return Walk::More;
        }
    }
    walk
}

/// After a walk: what was passed over because it comes live has come, or was lost. Then the
/// next walk is for what was put since this one began.
fn finish(core: &mut Core, now: Tick, key: SessionKey, snapshot: &mut Snapshot) -> Walk {
    let lost = lost(core, key);
    if snapshot.sends && lost != snapshot.lost {
        snapshot.after = if lost.queued == snapshot.lost.queued {
            snapshot.mark
        } else {
            Mark(0)
        };
        snapshot.mark = core.store.retained.mark();
        snapshot.ahead = core.routing.what_is_ahead();
        snapshot.lost = lost;
        snapshot.progress = Progress::begin(snapshot.history);
        return Walk::More;
    }
    if snapshot.has_end() {
        send_end(core, now, key, snapshot);
    }
    Walk::Done
}

/// A session owes for visits that have brought it nothing.
fn charge_vain(core: &mut Core, now: Tick, key: SessionKey, vain: u32) {
    let session = core.sessions.get_mut(key);
    let live = session.and_then(|session| session.live_mut());
    let snapshots = live.and_then(|live| live.snapshots());
    let charged = snapshots.map_or(vain, |snapshots| snapshots.charged(vain));
    if charged > 0 {
        work::charge_visits(core, now, key, charged);
    }
}

/// What a session has lost.
fn lost(core: &Core, key: SessionKey) -> Lost {
    let session = core.sessions.get(key);
    let snapshots = session.and_then(Session::snapshots);
    snapshots.map_or_else(Lost::default, |snapshots| snapshots.lost)
}

/// Puts a snapshot back that waits for messages.
fn put_behind(core: &mut Core, now: Tick, key: SessionKey, snapshot: Snapshot, wait: Wait) {
    if wait == Wait::Shards {
        core.outbox.fenced.push(key);
        return put_off(core, now, key, snapshot);
    }
    if let Some(snapshots) = core.sessions.snapshots_mut(key) {
        snapshots.push(snapshot);
    }
    match wait {
        Wait::Job(number) => core.routing.routes.await_job(number, key),
        Wait::Shards | Wait::Look => list(core, key),
    }
}

/// Puts a snapshot back for a moment: none of its session is looked at in the meantime.
fn put_off(core: &mut Core, now: Tick, key: SessionKey, snapshot: Snapshot) {
    let at = now.after(FETCH_TIME);
    if let Some(snapshots) = core.sessions.snapshots_mut(key) {
        snapshots.push(snapshot);
        snapshots.idle_until = at;
        core.outbox.fetches.push(Reverse((at, key)));
    }
}

/// A message that matches the filter, empty but for the user property `snapshot-end` or
/// `history-end` with the filter as its value.
fn send_end(core: &mut Core, now: Tick, key: SessionKey, snapshot: &Snapshot) {
    let Some(session) = core.sessions.get(key) else {
        return;
    };
    let mut properties = PropertyBuf::new();
    let name = snapshot.end_name();
    properties.push(Property::UserProperty((name, &snapshot.filter)));
    if snapshot.marks_end && name != SNAPSHOT_END {
        properties.push(Property::UserProperty((SNAPSHOT_END, &snapshot.filter)));
    }
    let mut raw = Vec::new();
    forwardable(properties.as_properties(), &mut raw);
    let parts = MessageParts {
        topic: &topic_of(&snapshot.filter, name),
        properties: &raw,
        payload: &[],
        qos: QoS::AtMostOnce,
        retain: false,
        expiry_secs: None,
    };
    let message = Message::new(session.state.zone(), Publisher::SERVER, now, &parts);
    let message = Arc::new(message);
    let ids = [snapshot.options.id()];
    let ids = if ids == [0] { &[][..] } else { &ids[..] };
    let mut terms = DeliveryOptions::new(&message, snapshot.options, ids, 0);
    // It is paced with the messages before it, which may have filled the queue.
    terms.stored = true;
    let mut variants = EncodedVariants::new(&message, Treatment::default());
    route::fanout(core, now).give(&mut variants, key.slot, &terms, Course::Answer);
}

/// Sends a stored message; whether the client may have it.
pub(in crate::core) fn send_retained(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    options: Options,
    message: &Arc<Message>,
) -> bool {
    send_kept(core, now, key, options, Course::Usual, message)
}

/// Whether a topic has a history, or had one under another policy.
fn has_history(core: &Core, zone: Zone, topic: &str) -> bool {
    core.rules.history(topic).is_some() || core.store.retained.history_len(zone, topic) > 0
}

/// One step through the histories of topics; the last messages of others follow.
fn recall(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    snapshot: &mut Snapshot,
    ask: HistoryAsk,
    at_most: usize,
) -> Walk {
    let zone = core.sessions.get(key).map(|session| session.state.zone());
    let (Some(zone), Progress::Recalling(cursor)) = (zone, &mut snapshot.progress) else {
        return Walk::Done;
    };
    let mut found = core::mem::take(&mut core.store.found);
    let (after, mark) = (snapshot.after, snapshot.mark);
    let scope = Scope { after, mark, now };
    let filter = &snapshot.filter;
    let query = HistoryQuery { zone, filter, ask };
    cursor.visits = 0;
    let walk = core
        .store
        .retained
        .history(query, scope, cursor, at_most, &mut found);
    let visits = u32::try_from(cursor.visits).unwrap_or(u32::MAX);
    core.turn.spend(visits);
    let mut vain = visits;
    for message in found.drain(..) {
        core.turn.spend(FOUND_VISITS);
        let course = Course::History;
        if send_kept(core, now, key, snapshot.options, course, &message) {
            vain = vain.saturating_sub(found_visits(&message));
        } else {
            vain += FOUND_VISITS;
        }
    }
    core.store.found = found;
    charge_vain(core, now, key, vain);
    if walk == Walk::Done {
        snapshot.progress = Progress::Walking(Cursor::default());
    }
    Walk::More
}

/// Sends a stored message on some course; whether the client may have it.
fn send_kept(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    options: Options,
    course: Course,
    message: &Arc<Message>,
) -> bool {
    // No-local [MQTT-3.8.3-3] makes no difference between retained and live.
    if options.no_local() && is_own(core.sessions.get(key), message) {
        return false;
    }
    let ids = [options.id()];
    let ids = if ids == [0] { &[][..] } else { &ids[..] };
    let mut terms = DeliveryOptions::new(message, options, ids, 0);
    // Sent because of a subscription: RETAIN is set [MQTT-3.3.1-8].
    terms.retain = true;
    terms.stored = true;
    let withheld = core.counters.stats.publishes_withheld;
    let hash = core.place.hasher.hash(message.zone, message.topic());
    let message = &core.store.copies.share(hash, message);
    let mut variants = route::variants(core, message);
    route::fanout(core, now).give(&mut variants, key.slot, &terms, course);
    core.counters.stats.publishes_withheld == withheld
}

/// The user property that asks for the end of a snapshot, and tells it.
pub(crate) const SNAPSHOT_END: &str = "snapshot-end";

/// A topic that matches a filter, as that of every message to a subscriber has to
/// [MQTT-3.3.2-3].
fn topic_of(filter: &str, end: &str) -> String {
    let mut topic = String::with_capacity(filter.len() + end.len());
    for (at, level) in filter.split('/').enumerate() {
        if at > 0 {
            topic.push('/');
        }
        topic.push_str(match level {
            "+" | "#" => end,
            level => level,
        });
    }
    topic
}
