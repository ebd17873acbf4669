//! Messages that are expensive to route, and go on in later turns.
//!
//! A message is expensive if finding its subscribers takes long, or very many filters or shared
//! subscriptions match it. It becomes a job then: its filters are found, their subscribers are
//! collected and sorted by session, the sessions are served, and then the shared subscriptions, a
//! slice of that in each turn. Nothing is read from the publisher in the meantime, and the job is
//! charged to it. What comes after a job from the same publisher, or to the same topic, waits for
//! it, so that everybody gets messages in their order.
//!
//! A client that subscribes after a message became a job does not get it. Neither does a client
//! that has unsubscribed by the time of its turn.

use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::{self, Vec};
use core::cmp::Reverse;
use core::mem;

use hashbrown::HashMap;
use slab::Slab;
use smallvec::SmallVec;
use stentor_session::{Message, Publisher, Tick};
use stentor_topic::{FilterId, Walk};

use super::dues::Dues;
use crate::core::delivery::deliver::Matching;
use crate::core::delivery::{snapshot, spool};
use crate::core::ids::SessionKey;
use crate::core::inbound::hold;
use crate::core::routing::batch::{EncodedBatch, Source};
use crate::core::routing::options::{Options, as_share};
use crate::core::routing::{route, share};
use crate::core::sessions::state::owner_of;
use crate::core::work::{DROP_VISITS, OWN_VISITS, SHARED_VISITS, Turn, urgent_visits};
use crate::core::{Core, work};
use crate::items::{Sender, ShardItem};

/// Jobs that are under way at a time, and hold the subscribers that they have collected. The others
/// hold their messages only.
const RUNNING_MAX: usize = 8;

/// Places of jobs that are kept when there is none any more.
const JOBS_KEPT: usize = 256;

/// This many subscribers are sorted at a time.
const SORTED_AT_ONCE: usize = 1_024;

/// This many subscribers of a list are copied, or sorted, by the time of one visit.
const COPIED_PER_VISIT: usize = 8;
pub(super) const SORTED_PER_VISIT: usize = 2;

/// Visits that a message costs for each session, or member of a shared subscription, that gets it.
const DELIVERY_VISITS: u32 = 4;

/// What a job costs beside what it does: its place, and its place in two lines.
const JOB_VISITS: u32 = 16;

/// A subscription: its session and its filter.
pub(super) type Entry = (u32, FilterId);

/// What has to be routed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    /// Messages to a topic, by its hash.
    Topic(u64),
    /// Messages of a publisher.
    Sender(u8, SessionKey),
    /// The server's own: what rooms and presence tell stays in its order.
    Server,
}

/// The messages of a shard that go on in later turns.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(super) jobs: Slab<Job>,
    pub(super) by_number: BTreeMap<u64, u32>,
    /// The jobs of each line, in order.
    lines: BTreeMap<Line, VecDeque<u32>>,
    /// Those that take turns.
    running: VecDeque<u32>,
    /// Those that wait for one of the former to end, and for nothing else.
    ready: VecDeque<u32>,
    /// Subscriptions that began while there were jobs, with the number of the last job by then.
    late: HashMap<Entry, u64, foldhash::fast::FixedState>,
    /// What the jobs hold.
    bytes: usize,
    /// How many jobs began with subscribers that were left.
    pub(crate) crowds: u32,
    /// How many jobs there have been.
    pub(super) number: u64,
    /// Sessions with a snapshot that waits for a job, by its number.
    pub(super) waiting: BTreeSet<(u64, SessionKey)>,
    /// The connection whose bytes are being applied.
    pub(crate) reading: Option<SessionKey>,
    /// The client whose will is being published.
    pub(crate) will_of: Option<Sender>,
    pub(super) dues: Dues,
}

/// A message, or several of one publisher to one topic.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) messages: Vec<Arc<Message>>,
    /// What the messages hold.
    message_bytes: usize,
    hash: u64,
    /// Whether shared subscriptions are served too.
    serves_shares: bool,
    /// The client that is held until it is over.
    sender: Option<Sender>,
    lines: SmallVec<[Line; 2]>,
    /// In how many lines others stand before it.
    blocked: u8,
    number: u64,
    /// The shared subscription that was the last one when it began, by its serial number.
    last_share: u64,
    /// What is still to be charged to its publisher.
    owed: u32,
    /// What is free of what it has cost and will cost: deliveries, and to look through the longest
    /// list of subscribers. Both are free for messages that are routed at once.
    free: u32,
    /// What it held when it was last counted.
    bytes: usize,
    found: Found,
    /// Whether it began with subscribers that were left.
    is_rest: bool,
    /// Its message, if that is written down: it counts as taken on that way when the job is over.
    written: Option<(u8, Arc<Message>)>,
}

/// What a job has found and not yet served.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Whether the match has begun.
    has_begun: bool,
    /// What is left of the match.
    walk: Option<Walk>,
    /// Filters whose subscribers have not been collected.
    filters: Vec<FilterId>,
    /// The subscribers of one filter that were collected, at most.
    longest: usize,
    /// Subscriptions as they were found, and in pieces that are sorted from the end.
    pile: Vec<Entry>,
    pieces: Vec<vec::IntoIter<Entry>>,
    /// The next one of each piece.
    heads: BinaryHeap<Reverse<(Entry, u32)>>,
    /// Shared subscriptions, by number, and how many messages the last of them has got.
    shares: Vec<u64>,
    shared: usize,
}

impl Found {
    /// What a match has found until it went on later.
    pub(super) fn filters(walk: Option<Walk>, filters: Vec<FilterId>) -> Self {
        Self {
            has_begun: true,
            walk,
            filters,
            ..Self::default()
        }
    }

    /// Where some subscribers are left, and shared subscriptions, by number.
    pub(super) fn rest(rest: Vec<Entry>, shares: Vec<u64>) -> Self {
        Self {
            has_begun: true,
            pile: rest,
            shares,
            ..Self::default()
        }
    }

    /// The next session, with its filters that match, each once.
    fn next_session(&mut self, filters: &mut SmallVec<[FilterId; 4]>) -> Option<u32> {
        let Reverse(((slot, _), _)) = *self.heads.peek()?;
        while let Some(Reverse(((next, filter), piece))) = self.heads.peek().copied()
            && next == slot
        {
            self.heads.pop();
            let follows = self.pieces[piece as usize].next();
            self.heads
                .extend(follows.map(|entry| Reverse((entry, piece))));
            if filters.last() != Some(&filter) {
                filters.push(filter);
            }
        }
        Some(slot)
    }

    /// Sorts a piece of what was collected; returns how many there were in it.
    fn sort_some(&mut self) -> usize {
        let from = self.pile.len().saturating_sub(SORTED_AT_ONCE);
        let mut piece = self.pile.split_off(from);
        piece.sort_unstable();
        let count = piece.len();
        let mut piece = piece.into_iter();
        // There are fewer than 2^32 sessions, with some thousand filters each.
        let number = self.pieces.len() as u32;
        self.heads
            .extend(piece.next().map(|entry| Reverse((entry, number))));
        self.pieces.push(piece);
        if self.pile.is_empty() {
            self.pile = Vec::new();
        }
        count
    }

    fn heap_bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(|piece| piece.len().max(1)).sum();
        let entries = self.pile.capacity() + pieces.next_multiple_of(SORTED_AT_ONCE);
        entries * size_of::<Entry>()
            + self.walk.as_ref().map_or(0, Walk::heap_bytes)
            + self.filters.capacity() * size_of::<FilterId>()
            + self.pieces.capacity() * size_of::<vec::IntoIter<Entry>>()
            + self.heads.capacity() * size_of::<Reverse<(Entry, u32)>>()
            + self.shares.capacity() * size_of::<u64>()
    }
}

impl Job {
    /// What it takes itself: in the table of jobs, in two lines of its own, by its number, and
    /// among those that run or may begin. Each of these has room for twice as many.
    const PLACES: usize = 2 * (size_of::<Self>() + 2 * LINE_BYTES + size_of::<(u64, [u32; 2])>());

    /// Bytes of memory that the job holds, its messages included. O(pieces).
    fn held(&self) -> usize {
        let places = self.messages.capacity() * size_of::<Arc<Message>>();
        Self::PLACES + places + self.message_bytes + self.found.heap_bytes()
    }

    /// Drops some of its messages, the first one last, for about this many visits: everybody has
    /// got them. Each may take its memory along, which is free for its publisher as it is for
    /// those of all messages.
    fn shed(&mut self, turn: &mut Turn, visits: u32) {
        let at_most = (visits / DROP_VISITS).max(1) as usize;
        let left = self.messages.len().saturating_sub(at_most);
        for message in self.messages.drain(left..) {
            self.message_bytes -= message.shared_bytes();
            self.free = self.free.saturating_add(DROP_VISITS);
            turn.spend(DROP_VISITS);
        }
    }
}

/// What it costs to look through a list of subscribers that is served: to copy it, to sort it, and
/// to take each from it.
fn free_visits(subscribers: usize) -> u32 {
    let copied = subscribers / COPIED_PER_VISIT + 1;
    let sorted = subscribers / SORTED_PER_VISIT + subscribers.div_ceil(SORTED_AT_ONCE);
    u32::try_from(copied + sorted + subscribers).unwrap_or(u32::MAX)
}

/// A line with one job: its entry, and the least that its queue takes.
const LINE_BYTES: usize = size_of::<(Line, VecDeque<u32>)>() + 4 * size_of::<u32>();

fn bytes_of(messages: &[Arc<Message>]) -> usize {
    messages.iter().map(|message| message.shared_bytes()).sum()
}

impl Routes {
    /// Whether no message goes on in later turns.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Bytes of memory that all jobs hold. O(1).
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.late_bytes()
    }

    /// The same, counted one by one.
    pub(crate) fn recount(&self) -> usize {
        let held = |job: &Job| job.held() - job.message_bytes + bytes_of(&job.messages);
        let jobs = self.jobs.iter().map(|(_, job)| held(job));
        jobs.sum::<usize>() + self.late_bytes()
    }

    fn late_bytes(&self) -> usize {
        self.late.allocation_size()
    }

    /// Visits that all jobs get in a turn, of which a slice is left. Many messages may wait that
    /// nobody gets any more: the more memory they hold, the faster they go.
    fn visits(&self, slice: u32) -> u32 {
        slice.max(urgent_visits(self.bytes))
    }

    /// A session has subscribed to a filter that it had not: what became a job before is not for
    /// it.
    #[inline]
    pub(crate) fn subscribed(&mut self, slot: u32, filter: FilterId) {
        if !self.is_empty() {
            self.late.insert((slot, filter), self.number);
        }
    }

    /// A session has unsubscribed from a filter.
    #[inline]
    pub(crate) fn unsubscribed(&mut self, slot: u32, filter: FilterId) {
        if !self.late.is_empty() {
            self.late.remove(&(slot, filter));
        }
    }

    fn is_late(&self, entry: Entry, job: u64) -> bool {
        self.late.get(&entry).is_some_and(|last| *last >= job)
    }

    /// Whether a message to a topic has to wait for a job.
    pub(super) fn is_behind(&self, hash: u64, message: &Message, sender: Option<Sender>) -> bool {
        let mut lines = lines_of(hash, message, sender).into_iter();
        lines.any(|line| self.lines.contains_key(&line))
    }

    fn push(&mut self, mut job: Job) {
        self.number += 1;
        job.number = self.number;
        job.is_rest = !job.found.pile.is_empty();
        self.crowds += u32::from(job.is_rest);
        job.bytes = job.held();
        self.bytes += job.bytes;
        // A job takes some hundred bytes: there are fewer than 2^32.
        let id = self.jobs.vacant_key() as u32;
        for line in &job.lines {
            let waiting = self.lines.entry(*line).or_default();
            job.blocked += u8::from(!waiting.is_empty());
            waiting.push_back(id);
        }
        if job.blocked == 0 {
            self.ready.push_back(id);
        }
        self.by_number.insert(job.number, id);
        self.jobs.insert(job);
    }

    /// The job whose turn it is.
    fn next(&mut self) -> Option<(u32, Job)> {
        while self.running.len() < RUNNING_MAX
            && let Some(id) = self.ready.pop_front()
        {
            self.running.push_back(id);
        }
        let id = self.running.pop_front()?;
        let job = self.jobs.get_mut(id as usize).map(mem::take)?;
        Some((id, job))
    }

    /// A job goes on later.
    fn put_back(&mut self, id: u32, mut job: Job) {
        let held = job.held();
        self.bytes = self.bytes - job.bytes + held;
        job.bytes = held;
        if let Some(place) = self.jobs.get_mut(id as usize) {
            *place = job;
            self.running.push_back(id);
        }
    }

    /// A job is over: those behind it may begin.
    fn remove(&mut self, id: u32, job: &Job) {
        self.jobs.try_remove(id as usize);
        self.crowds -= u32::from(job.is_rest);
        self.bytes -= job.bytes;
        self.by_number.remove(&job.number);
        for line in &job.lines {
            let Some(waiting) = self.lines.get_mut(line) else {
                continue;
            };
            waiting.pop_front();
            let Some(next) = waiting.front().copied() else {
                self.lines.remove(line);
                continue;
            };
            if let Some(job) = self.jobs.get_mut(next as usize) {
                job.blocked -= 1;
                if job.blocked == 0 {
                    self.ready.push_back(next);
                }
            }
        }
        if self.jobs.is_empty() {
            self.late = HashMap::default();
            self.give_room_back();
        }
    }

    /// Nothing counts the places of very many jobs that there were once.
    fn give_room_back(&mut self) {
        if self.jobs.capacity() > JOBS_KEPT {
            self.jobs = Slab::new();
            self.running = VecDeque::new();
            self.ready = VecDeque::new();
        }
    }
}

fn lines_of(hash: u64, message: &Message, sender: Option<Sender>) -> SmallVec<[Line; 2]> {
    let publisher = match sender {
        Some(sender) => Some(Line::Sender(sender.shard.0, sender.session)),
        None => (message.publisher == Publisher::SERVER).then_some(Line::Server),
    };
    [Some(Line::Topic(hash)), publisher]
        .into_iter()
        .flatten()
        .collect()
}

/// The connection whose bytes are being applied.
pub(crate) fn reader(core: &Core) -> Option<Sender> {
    let session = core.routing.routes.reading?;
    let known = core.sessions.get(session)?;
    known.live().is_some().then_some(Sender {
        shard: core.place.shard,
        session,
        epoch: known.epoch,
    })
}

/// With whose sessions that of this connection counts together.
pub(crate) fn reader_owner(core: &Core) -> Option<u32> {
    let session = core.sessions.get(core.routing.routes.reading?)?;
    Some(owner_of(&session.state))
}

/// Undoes one [`hold_sender`]. The messages of the connection have cost this many visits that
/// were not charged yet.
pub(crate) fn release_sender(core: &mut Core, now: Tick, sender: Sender, visits: u32) {
    let Sender {
        shard,
        session,
        epoch,
    } = sender;
    if shard == core.place.shard {
        return release_publisher(core, now, session, epoch, visits);
    }
    let item = ShardItem::ReleasePublisher {
        session,
        epoch,
        visits,
    };
    core.effects.control_items.push((shard, item));
}

/// The client whose bytes are being applied, or whose will is published, if these messages are
/// theirs.
pub(crate) fn sender_of(core: &Core, message: &Message) -> Option<Sender> {
    if message.publisher == Publisher::SERVER {
        return core.routing.routes.will_of;
    }
    let reader = reader(core)?;
    let known = core.sessions.get(reader.session)?;
    (known.state.publisher() == message.publisher).then_some(reader)
}

/// Makes messages a job. Nothing is read from their publisher until it is over.
pub(super) fn route_later(
    core: &mut Core,
    messages: &[Arc<Message>],
    source: Source,
    sender: Option<Sender>,
    hash: u64,
    found: Found,
) {
    let Some(first) = messages.first() else {
        return;
    };
    if let Some(sender) = sender {
        hold_sender(core, sender);
    }
    let log = &mut core.pending.log;
    let written = log.writes(first.qos).then(|| log.puts_off(first));
    // What was found already is charged, or it was free.
    let free = free_visits(found.pile.len());
    core.routing.routes.push(Job {
        messages: messages.to_vec(),
        message_bytes: bytes_of(messages),
        hash,
        serves_shares: source == Source::Client,
        sender,
        lines: lines_of(hash, first, sender),
        last_share: core.routing.shares.last_serial(),
        written: written.map(|way| (way, Arc::clone(first))),
        found,
        free,
        ..Job::default()
    });
}

/// Nothing more is read from a connection, here or on another shard, until
/// [`release_sender`].
pub(in crate::core) fn hold_sender(core: &mut Core, sender: Sender) {
    let Sender {
        shard,
        session,
        epoch,
    } = sender;
    if shard == core.place.shard {
        hold_publisher(core, session, epoch);
    } else {
        let item = ShardItem::HoldPublisher { session, epoch };
        core.effects.control_items.push((shard, item));
    }
}

/// Nothing is read from a publisher until [`release_publisher`], if it has the connection
/// still that it had.
pub(in crate::core) fn hold_publisher(core: &mut Core, key: SessionKey, epoch: u32) {
    if hold::is_still(core, key, epoch) {
        hold::begin(core, key);
    }
}

/// A job of its messages is over, which has cost this many visits that were not charged yet.
pub(in crate::core) fn release_publisher(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    epoch: u32,
    visits: u32,
) {
    if visits > 0 {
        work::charge_visits(core, now, key, visits);
    }
    if hold::is_still(core, key, epoch) {
        hold::end(core, now, key);
    }
}

/// Goes on with messages, as far as the turn allows, and a little in any case.
pub(crate) fn go_on(core: &mut Core, now: Tick) {
    if core.pending.log.waits() {
        // They have no names yet, by which other recipients could be written down.
        return;
    }
    let visits = core.routing.routes.visits(core.turn.slice());
    let mut left = visits.min(core.rules.settings.at_once.job_visits);
    while left > 0
        && let Some((id, mut job)) = core.routing.routes.next()
    {
        let (before, taken) = (core.turn.spent(), spool::taken(core));
        let is_over = route_slice(core, now, &mut job, left.min(OWN_VISITS));
        spool::hold_back(core, now, job.sender, taken);
        if is_over {
            core.turn.spend(JOB_VISITS);
            job.free = job.free.saturating_add(JOB_VISITS);
        }
        let used = core.turn.spent() - before;
        left = left.saturating_sub(used.max(1));
        let owed = used.saturating_sub(job.free);
        job.free = job.free.saturating_sub(used);
        let own = job.sender.filter(|sender| sender.shard == core.place.shard);
        if let Some(sender) = own {
            core.turn.attribute(sender.session, used);
            work::charge_visits(core, now, sender.session, owed);
        } else {
            job.owed = job.owed.saturating_add(owed);
        }
        if is_over {
            end(core, now, id, &job);
        } else {
            core.routing.routes.put_back(id, job);
        }
    }
}

fn end(core: &mut Core, now: Tick, id: u32, job: &Job) {
    core.routing.routes.remove(id, job);
    if let Some((way, message)) = &job.written {
        core.pending.log.finishes(*way, message);
        core.pending.log.tell_taken();
    }
    for key in core.routing.routes.take_waiting(job.number) {
        core.turn.spend(1);
        snapshot::list(core, key);
    }
    if let Some(sender) = job.sender {
        release_sender(core, now, sender, job.owed);
    }
}

/// One slice of a job, of about this many visits. Returns whether it was the last one.
fn route_slice(core: &mut Core, now: Tick, job: &mut Job, visits: u32) -> bool {
    let before = core.turn.spent();
    loop {
        let used = core.turn.spent() - before;
        if used >= visits {
            return false;
        }
        if !route_step(core, now, job, visits - used) {
            return true;
        }
    }
}

/// The next step of a job; `false` if there is none.
fn route_step(core: &mut Core, now: Tick, job: &mut Job, visits: u32) -> bool {
    let found = &mut job.found;
    if !found.has_begun || found.walk.is_some() {
        find_filters(core, job, visits);
    } else if let Some(filter) = found.filters.pop() {
        collect_subscribers(core, job, filter);
    } else if !found.pile.is_empty() {
        let sorted = found.sort_some();
        core.turn.spend((sorted / SORTED_PER_VISIT) as u32 + 1);
    } else if !found.heads.is_empty() {
        serve_some(core, now, job, visits);
    } else if let Some(share) = found.shares.last().copied() {
        serve_share(core, now, job, share);
    } else if !job.messages.is_empty() {
        job.shed(&mut core.turn, visits);
    } else {
        return false;
    }
    true
}

fn find_filters(core: &mut Core, job: &mut Job, visits: u32) {
    let found = &mut job.found;
    let Some(message) = job.messages.first() else {
        found.has_begun = true;
        found.walk = None;
        return;
    };
    let (zone, topic) = (message.zone, message.topic());
    let filters = &mut found.filters;
    let used = if let Some(walk) = &mut found.walk {
        let visit = |filter| filters.push(filter);
        walk.resume(&core.routing.index, zone, topic, visits, visit)
    } else {
        found.has_begun = true;
        let visit = |filter, _: &[_]| filters.push(filter);
        let matched = core
            .routing
            .index
            .match_some(zone, topic, job.hash, visits, visit);
        found.walk = matched.rest;
        matched.visits
    };
    found.walk.take_if(|walk| walk.is_done());
    core.turn.spend(used.max(1));
}

/// The whole list, for it may change until later.
fn collect_subscribers(core: &mut Core, job: &mut Job, filter: FilterId) {
    let found = &mut job.found;
    let subscribers = core.routing.index.subscribers(filter);
    for subscriber in subscribers {
        let Some(share) = as_share(*subscriber) else {
            found.pile.push((subscriber.session, filter));
            continue;
        };
        if job.serves_shares {
            let number = core.routing.shares.number(share);
            found.shares.extend(number);
        }
    }
    core.turn
        .spend((subscribers.len() / COPIED_PER_VISIT) as u32 + 1);
    let more = subscribers.len().saturating_sub(found.longest);
    found.longest += more;
    job.free = job.free.saturating_add(free_visits(more));
}

fn serve_some(core: &mut Core, now: Tick, job: &mut Job, visits: u32) {
    let Some(message) = job.messages.first() else {
        job.found.heads.clear();
        return;
    };
    let mut batch = EncodedBatch::new(&job.messages, route::treatment(core, message));
    let per_session = (job.messages.len() as u32).saturating_mul(DELIVERY_VISITS);
    core.outbox.held.now_until = core.rules.hold_until(now, message.topic());
    core.outbox.serves_crowd = true;
    let before = core.turn.spent();
    let mut filters = SmallVec::new();
    while core.turn.spent() - before < visits
        && let Some(slot) = job.found.next_session(&mut filters)
    {
        core.turn.spend(per_session + filters.len() as u32);
        job.free = job.free.saturating_add(per_session);
        let all: SmallVec<[Matching; 4]> = filters
            .drain(..)
            .filter(|filter| !core.routing.routes.is_late((slot, *filter), job.number))
            .filter_map(|filter| Some((filter, core.routing.index.options(filter, slot)?)))
            .map(|(filter, bits)| (filter, Options::from_bits(bits)))
            .collect();
        if all.is_empty() {
            continue;
        }
        let handed = core.turn.handed();
        route::fanout(core, now).serve(&mut batch, message, slot, &all);
        let extra = core.turn.handed() - handed;
        core.turn.spend(extra);
        job.free = job.free.saturating_add(extra);
    }
    core.outbox.serves_crowd = false;
    core.outbox.held.now_until = None;
}

/// The next message for a member of a shared subscription.
fn serve_share(core: &mut Core, now: Tick, job: &mut Job, number: u64) {
    let found = &mut job.found;
    let slot = core.routing.shares.by_number(number);
    let slot = slot.filter(|_| core.routing.shares.serial_of(number) <= job.last_share);
    if let Some(message) = job.messages.get(found.shared)
        && let Some(slot) = slot
    {
        found.shared += 1;
        share::deliver(core, now, slot, message);
        core.turn.spend(SHARED_VISITS);
        // Others have subscribed: the publisher does not pay for them.
        job.free = job.free.saturating_add(SHARED_VISITS);
    } else {
        found.shared = 0;
        found.shares.pop();
        core.turn.spend(1);
    }
}
