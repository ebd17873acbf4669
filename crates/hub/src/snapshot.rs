//! Retained messages on their way to a new subscription, paced by the subscriber's socket.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use hashbrown::HashMap;
use stentor_mqtt::{Property, PropertyBuf, QoS, forwardable};
use stentor_session::{Message, MessageParts, Publisher, Tick};
use stentor_topic::{FilterId, Zone, has_wildcard};

use crate::conflate::HeldBack;
use crate::deliver::{Course, Terms};
use crate::fence::Fence;
use crate::hub::Hub;
use crate::key::SessionKey;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::retained::{Cursor, Mark, Scope, Walk};
use crate::route::{Parcel, is_own};
use crate::sessions::{Live, Session};
use crate::settings::Settings;

/// A snapshot goes on while less than this waits for the socket: bounded memory for any number
/// of matches, and live messages are never far behind.
const QUEUED_BYTES_LOW: usize = 64 * 1024;
/// A single value that goes at once may find more waiting: it needs less than a note to send it
/// later.
const SINGLE_BYTES_LOW: usize = 256 * 1024;
/// Topics visited in one step, so that a large walk does not hold up the shard.
const VISITS: usize = 256;
/// When to ask again for what the store has to fetch from a disk, or other shards have to tell.
const FETCH_TIME: Duration = Duration::from_millis(1);
/// How often one step is asked for: whatever keeps it from memory, the snapshot goes on.
const FETCHES_MAX: u16 = 2_000;

/// What is left to send of the retained messages for one subscription.
#[derive(Debug)]
pub(crate) struct Snapshot {
    id: FilterId,
    filter: Box<str>,
    options: Options,
    /// What was put until then has been looked at; `Mark(0)` for nothing.
    after: Mark,
    mark: Mark,
    /// What the session had lost when the walk began.
    lost: Lost,
    progress: Progress,
    /// Whether stored messages are still wanted.
    sends: bool,
    marks_end: bool,
    /// What has to come live first.
    fence: Option<Fence>,
    /// How often its next step was asked for.
    fetches: u16,
}

/// How far a snapshot has come.
#[derive(Debug)]
enum Progress {
    /// There may be more in the store.
    Walking(Cursor),
    /// All is on its way, or held back up to there; what follows it is not yet.
    Walked([u64; 2]),
}

/// How often a session has lost messages while it had snapshots. What is above a snapshot's mark
/// comes live, unless it is lost on the way: then it is read from the store after all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost {
    /// Messages that would have come live.
    live: u64,
    /// Messages that had been queued, and may have been stored ones.
    queued: u64,
}

/// The snapshots of one session, which take turns: one for each subscription at most.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// Whose turn it is. An entry whose ticket is not that of its snapshot stands for nothing.
    turns: VecDeque<(FilterId, u64)>,
    by_filter: HashMap<FilterId, (u64, Snapshot), foldhash::fast::FixedState>,
    tickets: u64,
    lost: Lost,
    /// Until then the store is fetching what is next.
    idle_until: Tick,
}

impl Snapshots {
    fn is_empty(&self) -> bool {
        self.by_filter.is_empty()
    }

    /// Adds one at the end; one for the same subscription begins anew.
    fn push(&mut self, snapshot: Snapshot) {
        /// Empty turns that are not worth a sweep.
        const SLACK: usize = 16;
        self.tickets += 1;
        self.turns.push_back((snapshot.id, self.tickets));
        self.by_filter.insert(snapshot.id, (self.tickets, snapshot));
        if self.turns.len() > 2 * self.by_filter.len() + SLACK {
            let known = &self.by_filter;
            self.turns
                .retain(|(id, ticket)| known.get(id).is_some_and(|(of, _)| of == ticket));
        }
    }

    fn pop(&mut self) -> Option<Snapshot> {
        loop {
            let (id, ticket) = self.turns.pop_front()?;
            if self.by_filter.get(&id).is_some_and(|(of, _)| *of == ticket) {
                return self.by_filter.remove(&id).map(|(_, snapshot)| snapshot);
            }
        }
    }

    /// The next one, but not one whose end alone is left while messages of it are held back: it
    /// comes after them, and what lets them go asks again.
    fn pop_ready(&mut self, held: HeldBack) -> Option<Snapshot> {
        let next = self.pop()?;
        if let Progress::Walked(listed) = next.progress
            && !held.has_passed(listed)
        {
            self.push(next);
            return None;
        }
        Some(next)
    }

    /// A message that would have come live was lost.
    pub(crate) const fn lose_live(&mut self) {
        self.lost.live += 1;
    }

    /// Messages were lost that had been queued: perhaps stored ones.
    pub(crate) const fn lose_queued(&mut self) {
        self.lost.queued += 1;
    }

    /// The subscription is gone: what is left of its snapshot is not wanted any more.
    pub(crate) fn cancel(&mut self, id: FilterId) {
        self.by_filter.remove(&id);
    }
}

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
    /// Whether a message tells the end of the snapshot.
    pub(crate) marks_end: bool,
}

/// Whether a session takes more of a snapshot now, of which part of its queue's bound may wait.
fn is_ready(session: &Session, settings: &Settings) -> bool {
    let most = session.queue_bytes_max(settings) / 4;
    has_less(session, QUEUED_BYTES_LOW, most) && !session.is_out_of_window(settings)
}

/// Topics visited in one step for a session: few where its queue may hold little.
fn visits(session: &Session, settings: &Settings) -> usize {
    const EACH_BYTES: usize = 1024;
    let room = session.queue_bytes_max(settings) / EACH_BYTES;
    room.clamp(1, VISITS)
}

/// Whether fewer bytes wait for a session's socket, at less than the `most` that they may cost, and
/// no message for a packet id.
fn has_less(session: &Session, bytes: usize, most: usize) -> bool {
    let waiting = session
        .outbound
        .as_ref()
        .map_or(0, |outbound| outbound.waiting_len());
    waiting == 0
        && session
            .live()
            .is_some_and(|live| live.queued_bytes() < bytes && live.queued().bytes < most)
}

impl Hub {
    /// Starts a snapshot: at once what the socket takes, the rest as it is written.
    pub(crate) fn begin_snapshot(&mut self, now: Tick, key: SessionKey, wanted: &Wanted<'_>) {
        let fence = self.fences.raise();
        let Some(session) = self.sessions.get_mut(key) else {
            return;
        };
        let is_first = session
            .live_mut()
            .and_then(|live| live.snapshots())
            .is_none_or(|snapshots| snapshots.is_empty());
        let is_single = wanted.sends && !wanted.marks_end && !wanted.has_wildcard;
        let most = session.queue_bytes_max(&self.settings) / 4;
        let is_next = is_first && fence.is_none();
        if is_next && is_single && has_less(session, SINGLE_BYTES_LOW, most) {
            // The common case, one value at most, needs no bookkeeping.
            let zone = session.zone();
            let start = Cursor::default();
            if !self.retained.is_fetching(zone, wanted.filter, &start, 1) {
                return self.send_stored(now, key, wanted);
            }
        }
        if let Some(live) = session.live_mut() {
            let Wanted {
                id,
                filter,
                has_wildcard: _,
                options,
                mark,
                sends,
                marks_end,
            } = *wanted;
            let filter = filter.into();
            let progress = if sends {
                Progress::Walking(Cursor::default())
            } else {
                Progress::Walked([0; 2])
            };
            let snapshots = live.extras().snapshots.get_or_insert_default();
            let lost = snapshots.lost;
            snapshots.push(Snapshot {
                id,
                filter,
                options,
                after: Mark(0),
                mark,
                lost,
                progress,
                sends,
                marks_end,
                fence,
                fetches: 0,
            });
        }
        self.continue_snapshots(now, key);
    }

    /// Goes on with the snapshots of a session, which take turns, as far as its socket takes more:
    /// so many single values, or one step of a walk.
    pub(crate) fn continue_snapshots(&mut self, now: Tick, key: SessionKey) {
        let mut visits = VISITS;
        while visits > 0 {
            visits = visits.saturating_sub(self.step_snapshots(now, key));
        }
        self.close_overrun(now);
    }

    /// One step of the snapshot whose turn it is; how many topics it may have visited, or as many
    /// as there are visits if nothing is to be done now.
    fn step_snapshots(&mut self, now: Tick, key: SessionKey) -> usize {
        let Some(session) = self
            .sessions
            .get_mut(key)
            .filter(|session| is_ready(session, &self.settings))
        else {
            return VISITS;
        };
        let (zone, at_most) = (session.zone(), visits(session, &self.settings));
        let held = session.held();
        let Some(mut snapshot) = session
            .live_mut()
            .and_then(|live| live.snapshots())
            .filter(|snapshots| snapshots.idle_until <= now)
            .and_then(|snapshots| snapshots.pop_ready(held))
        else {
            return VISITS;
        };
        if self.is_behind(&mut snapshot) {
            self.outbox.fenced.push(key);
            self.put_back(now, key, snapshot, now);
            return VISITS;
        }
        if self.is_fetching(zone, &mut snapshot) {
            self.put_back(now, key, snapshot, now.after(FETCH_TIME));
            return VISITS;
        }
        let mut visited = 1;
        let walk = if let Progress::Walked(_) = snapshot.progress {
            self.finish(now, key, &mut snapshot)
        } else {
            visited = if has_wildcard(&snapshot.filter) {
                VISITS
            } else {
                1
            };
            self.step(now, key, &mut snapshot, at_most)
        };
        if let Some(session) = self.sessions.get_mut(key) {
            let is_ready = is_ready(session, &self.settings);
            if let Some(live) = session.live_mut() {
                proceed(&mut self.outbox, key, live, is_ready, walk, snapshot);
            }
        }
        visited
    }

    /// One step through the store.
    fn step(
        &mut self,
        now: Tick,
        key: SessionKey,
        snapshot: &mut Snapshot,
        at_most: usize,
    ) -> Walk {
        let Some(zone) = self.sessions.get(key).map(Session::zone) else {
            return Walk::Done;
        };
        let mut found = core::mem::take(&mut self.found);
        let (filter, mark) = (&snapshot.filter, snapshot.mark);
        let walk = match &mut snapshot.progress {
            Progress::Walking(cursor) if has_wildcard(filter) => {
                let after = snapshot.after;
                let scope = Scope { after, mark, now };
                self.retained
                    .walk(zone, filter, scope, cursor, at_most, &mut found)
            }
            _ => {
                found.extend(self.retained.get(zone, filter, mark, now));
                // There is no other topic.
                snapshot.sends &= found.is_empty();
                Walk::Done
            }
        };
        for message in found.drain(..) {
            self.send_retained(now, key, snapshot.options, &message);
        }
        self.found = found;
        if walk == Walk::Done {
            // The end comes after the last message, which may wait for a packet id, and after all
            // that was passed over because it comes live.
            let session = self.sessions.get(key);
            let held = session.map_or_else(HeldBack::default, Session::held);
            snapshot.progress = Progress::Walked(held.listed);
            snapshot.fence = self.fences.raise();
            let lost = self.lost(key);
            if snapshot.marks_end || snapshot.fence.is_some() || lost != snapshot.lost {
                return Walk::More;
            }
        }
        walk
    }

    /// After a walk: what was passed over because it comes live has come, or was lost. Then the
    /// next walk is for what was put since this one began.
    fn finish(&mut self, now: Tick, key: SessionKey, snapshot: &mut Snapshot) -> Walk {
        let lost = self.lost(key);
        if snapshot.sends && lost != snapshot.lost {
            snapshot.after = if lost.queued == snapshot.lost.queued {
                snapshot.mark
            } else {
                Mark(0)
            };
            snapshot.mark = self.retained.mark();
            snapshot.fence = self.fences.raise();
            snapshot.lost = lost;
            snapshot.progress = Progress::Walking(Cursor::default());
            return Walk::More;
        }
        if snapshot.marks_end {
            self.send_end(now, key, snapshot);
        }
        Walk::Done
    }

    /// What a session has lost.
    fn lost(&self, key: SessionKey) -> Lost {
        let session = self.sessions.get(key);
        let snapshots = session.and_then(Session::snapshots);
        snapshots.map_or_else(Lost::default, |snapshots| snapshots.lost)
    }

    /// Whether a message may still come that was kept before a snapshot began.
    fn is_behind(&self, snapshot: &mut Snapshot) -> bool {
        let fences = &self.fences;
        snapshot.fence = snapshot
            .fence
            .take()
            .filter(|fence| !fences.is_passed(fence));
        snapshot.fence.is_some()
    }

    /// Whether the store has to fetch the next step of a snapshot from a disk.
    fn is_fetching(&self, zone: Zone, snapshot: &mut Snapshot) -> bool {
        let is_fetching = match &snapshot.progress {
            Progress::Walking(cursor) if snapshot.fetches < FETCHES_MAX => {
                let filter = &snapshot.filter;
                self.retained.is_fetching(zone, filter, cursor, VISITS)
            }
            _ => false,
        };
        snapshot.fetches = if is_fetching { snapshot.fetches + 1 } else { 0 };
        is_fetching
    }

    /// Puts a snapshot back for a moment. None of its session's is looked at before `idle_until`.
    fn put_back(&mut self, now: Tick, key: SessionKey, snapshot: Snapshot, idle_until: Tick) {
        let at = now.after(FETCH_TIME);
        let session = self.sessions.get_mut(key);
        let live = session.and_then(|session| session.live_mut());
        if let Some(snapshots) = live.and_then(|live| live.snapshots()) {
            snapshots.push(snapshot);
            snapshots.idle_until = idle_until;
            self.outbox.fetches.push(Reverse((at, key)));
        }
    }

    /// Goes on with the snapshots that have waited for other shards.
    pub(crate) fn continue_fenced(&mut self, now: Tick) {
        for key in core::mem::take(&mut self.outbox.fenced) {
            self.continue_snapshots(now, key);
        }
    }

    /// Goes on with the snapshots that have waited for the store.
    pub(crate) fn continue_fetched(&mut self, now: Tick) {
        while let Some(Reverse((at, key))) = self.outbox.fetches.peek().copied()
            && at <= now
        {
            self.outbox.fetches.pop();
            self.continue_snapshots(now, key);
        }
    }

    /// Whether a session still has retained messages to come.
    pub(crate) fn has_snapshots(&self, key: SessionKey) -> bool {
        let session = self.sessions.get(key);
        session
            .and_then(Session::snapshots)
            .is_some_and(|snapshots| !snapshots.is_empty())
    }

    /// A message that matches the filter, empty but for the user property `snapshot-end` with the
    /// filter as its value.
    fn send_end(&mut self, now: Tick, key: SessionKey, snapshot: &Snapshot) {
        let Some(session) = self.sessions.get(key) else {
            return;
        };
        let mut properties = PropertyBuf::new();
        properties.push(Property::UserProperty((SNAPSHOT_END, &snapshot.filter)));
        let mut raw = Vec::new();
        forwardable(properties.as_properties(), &mut raw);
        let parts = MessageParts {
            topic: &topic_of(&snapshot.filter),
            properties: &raw,
            payload: &[],
            qos: QoS::AtMostOnce,
            retain: false,
            expiry_secs: None,
        };
        let message = Message::new(session.zone(), Publisher::SERVER, now, &parts);
        let message = Arc::new(message);
        let ids = [snapshot.options.id()];
        let ids = if ids == [0] { &[][..] } else { &ids[..] };
        let mut terms = Terms::new(&message, snapshot.options, ids, 0);
        // It is paced with the messages before it, which may have filled the queue.
        terms.stored = true;
        let mut parcel = Parcel::new(&message, (None, None));
        self.counter(now)
            .give(&mut parcel, key.slot, &terms, Course::Answer);
    }

    pub(crate) fn send_retained(
        &mut self,
        now: Tick,
        key: SessionKey,
        options: Options,
        message: &Arc<Message>,
    ) {
        // No-local [MQTT-3.8.3-3] makes no difference between retained and live.
        if options.no_local() && is_own(self.sessions.get(key), message) {
            return;
        }
        let ids = [options.id()];
        let ids = if ids == [0] { &[][..] } else { &ids[..] };
        let mut terms = Terms::new(message, options, ids, 0);
        // Sent because of a subscription: RETAIN is set [MQTT-3.3.1-8].
        terms.retain = true;
        terms.stored = true;
        let mut parcel = self.parcel(message);
        self.counter(now).hand_over(&mut parcel, key.slot, &terms);
    }
}

/// The user property that asks for the end of a snapshot, and tells it.
pub(crate) const SNAPSHOT_END: &str = "snapshot-end";

/// A topic that matches a filter, as that of every message to a subscriber has to
/// [MQTT-3.3.2-3].
fn topic_of(filter: &str) -> String {
    let mut topic = String::with_capacity(filter.len() + SNAPSHOT_END.len());
    for (at, level) in filter.split('/').enumerate() {
        if at > 0 {
            topic.push('/');
        }
        topic.push_str(match level {
            "+" | "#" => SNAPSHOT_END,
            level => level,
        });
    }
    topic
}

/// After one step: a walk that has more takes its next turn, and if the step queued nothing that
/// would bring the connection's next flush about, one is asked for.
fn proceed(
    outbox: &mut Outbox,
    key: SessionKey,
    live: &mut Live,
    is_ready: bool,
    walk: Walk,
    snapshot: Snapshot,
) {
    let Some(snapshots) = live.snapshots() else {
        return;
    };
    if walk == Walk::More {
        snapshots.push(snapshot);
    }
    if snapshots.is_empty() {
        live.extras().snapshots = None;
    } else if is_ready {
        outbox.revisit(key, live);
    }
}
