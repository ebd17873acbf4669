//! SUBSCRIBE and UNSUBSCRIBE packets with more filters than one turn handles: they go on in later
//! turns.
//!
//! What has been done takes effect at once, and there is one answer at the end. Nothing is read
//! from the connection in the meantime. If it ends, so does the work: nobody waits for the answer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use stentor_mqtt::{
    PacketId, Subscribe, SubscribeFiltersIter, Unsubscribe, UnsubscribeFiltersIter, Version,
};
use stentor_session::{Tick, Ticket};
use stentor_topic::is_shared;
use stentor_zone::Refusal;

use super::kept::Kept;
use super::tally::Tally;
use super::{Asked, Awaited, Common, SubscriptionRef, Wanting};
use crate::core::delivery::snapshot::{self, Wanted};
use crate::core::ids::SessionKey;
use crate::core::inbound::subscribe::{Element, Verdicts, index, unsubscribe};
use crate::core::inbound::{hold, subscribe};
use crate::core::sessions::lifecycle;
use crate::core::sessions::log::laden;
use crate::core::sessions::registry::Session;
use crate::core::transitions::Transition;
use crate::core::work::{ENQUEUE_VISITS, FILTER_VISITS, OWN_VISITS};
use crate::core::{Core, work};

/// What the packets of one shard that go on in later turns may hold together before more of them
/// stay where they were read.
const BYTES_MAX: usize = 16 << 20;

/// The packets of a shard that go on in later turns, which take turns.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    jobs: VecDeque<Job>,
    /// What they hold.
    bytes: usize,
}

#[derive(Debug)]
struct Job {
    session: SessionKey,
    /// Of the connection that has sent it.
    epoch: u32,
    /// What the packet takes: it is kept whole.
    packet_bytes: usize,
    /// What the job held when it was last counted.
    bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Subscribe(Box<Subscribing>),
    Unsubscribe(Unsubscribing),
}

/// A SUBSCRIBE.
#[derive(Debug)]
pub(super) struct Subscribing {
    awaited: Awaited,
    source: Source,
    asked: Asked,
    verdicts: Verdicts,
    /// What those who let it into rooms know it by, to be told of its end.
    pub(super) entered: Option<Ticket>,
    kept: Kept,
    /// How many of its snapshots have begun; `None` before it is answered.
    begun: Option<usize>,
}

/// The elements that are left.
#[derive(Debug)]
pub(super) enum Source {
    /// As the client has sent them.
    Packet {
        common: Common,
        version: Version,
        raw: Box<[u8]>,
        /// Bytes and elements that are left.
        bytes_left: usize,
        elements_left: usize,
    },
    /// With what is to be said of each, and how many are done.
    Elements(Vec<Element>, usize),
}

/// An UNSUBSCRIBE.
#[derive(Debug)]
pub(super) struct Unsubscribing {
    packet_id: PacketId,
    raw: Box<[u8]>,
    bytes_left: usize,
    reasons: Vec<u8>,
}

impl Source {
    /// The first elements of a packet, `most` at most.
    pub(super) fn packet(common: Common, subscribe: &Subscribe<'_>, most: usize) -> Self {
        let filters = subscribe.filters.iter();
        Self::Packet {
            common,
            version: filters.version(),
            raw: filters.rest().into(),
            bytes_left: filters.rest().len(),
            elements_left: most,
        }
    }

    pub(super) const fn elements(elements: Vec<Element>) -> Self {
        Self::Elements(elements, 0)
    }

    /// Bytes of memory that it holds. It does not change.
    fn bytes(&self) -> usize {
        match self {
            Self::Packet { raw, .. } => raw.len(),
            Self::Elements(elements, _) => {
                let text = |element: &Element| element.filter.len() + size_of::<Element>();
                elements.iter().map(text).sum()
            }
        }
    }

    const fn is_empty(&self) -> bool {
        match self {
            Self::Packet {
                bytes_left,
                elements_left,
                ..
            } => *bytes_left == 0 || *elements_left == 0,
            Self::Elements(elements, done) => *done >= elements.len(),
        }
    }
}

impl Subscribing {
    pub(super) fn new(awaited: Awaited, source: Source, asked: Asked, verdicts: Verdicts) -> Self {
        Self {
            awaited,
            source,
            asked,
            verdicts,
            entered: None,
            kept: Kept::default(),
            begun: None,
        }
    }
}

impl Unsubscribing {
    pub(super) fn new(unsubscribe: &Unsubscribe<'_>) -> Self {
        let raw = unsubscribe.filters.iter().rest();
        Self {
            packet_id: unsubscribe.packet_id,
            raw: raw.into(),
            bytes_left: raw.len(),
            reasons: Vec::new(),
        }
    }
}

impl Job {
    /// Bytes of memory that it holds. O(1).
    fn held(&self) -> usize {
        // A queue has room for twice as many.
        2 * size_of::<Self>() + self.packet_bytes + self.kind.bytes()
    }
}

impl Kind {
    /// Bytes of memory that it holds beside its packet.
    fn bytes(&self) -> usize {
        match self {
            Self::Subscribe(job) => size_of::<Subscribing>() + job.kept.bytes(),
            Self::Unsubscribe(job) => job.reasons.capacity(),
        }
    }
}

impl Slices {
    /// Whether no packet goes on.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// A job goes to the end of the queue, and is counted again.
    fn push(&mut self, mut job: Job) {
        job.bytes = job.held();
        self.bytes += job.bytes;
        self.jobs.push_back(job);
    }

    /// The job whose turn it is. It is not counted until it is put back.
    fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.bytes -= job.bytes;
        Some(job)
    }

    /// Bytes of memory that they hold. O(1).
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, counted one by one.
    pub(crate) fn recount(&self) -> usize {
        self.jobs.iter().map(Job::held).sum()
    }

    /// Whether another packet has to stay where it was read.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// A session is out of a room that it was about to subscribe in.
    pub(crate) fn expel(&mut self, key: SessionKey, room: &str) {
        for job in self.jobs.iter_mut().filter(|job| job.session == key) {
            if let Kind::Subscribe(subscribing) = &mut job.kind
                && let Some(verdict) = subscribing.verdicts.get_mut(room)
            {
                *verdict = Some(Refusal::NotMember);
            }
        }
    }
}

/// Whether what long packets change can be told and written down.
fn may_go_on(core: &Core) -> bool {
    core.routing.may_share() && !laden(core).has(core.place.shard)
}

/// Whether a list of filters is too long for this turn. `count` is asked where the bytes alone
/// do not tell.
pub(super) fn is_long(core: &Core, raw: &[u8], count: impl FnOnce() -> usize) -> bool {
    // A length and a byte of text.
    const FILTER_BYTES_MIN: usize = 3;
    !fits_turn(core, raw.len() / FILTER_BYTES_MIN) && !fits_turn(core, count())
}

/// Whether this many filters fit into what is left of this turn.
pub(super) fn fits_turn(core: &Core, filters: usize) -> bool {
    filters <= (core.turn.slice() / FILTER_VISITS) as usize
}

/// Whether there are shared subscriptions among filters, and other shards cannot hear of new
/// members in this turn. O(filters) in such a turn only.
pub(super) fn waits_to_share<'f>(core: &Core, mut filters: impl Iterator<Item = &'f str>) -> bool {
    !core.routing.may_share() && filters.any(is_shared)
}

pub(super) fn subscribe_later(core: &mut Core, key: SessionKey, subscribing: Subscribing) {
    let bytes = subscribing.source.bytes();
    push_job(core, key, bytes, Kind::Subscribe(Box::new(subscribing)));
}

pub(super) fn unsubscribe_later(core: &mut Core, key: SessionKey, unsubscribing: Unsubscribing) {
    let bytes = unsubscribing.raw.len();
    push_job(core, key, bytes, Kind::Unsubscribe(unsubscribing));
}

fn push_job(core: &mut Core, key: SessionKey, packet_bytes: usize, kind: Kind) {
    let epoch = core.sessions.get(key).map_or(0, |session| session.epoch);
    core.inbound.slices.push(Job {
        session: key,
        epoch,
        packet_bytes,
        bytes: 0,
        kind,
    });
}

/// Whether a packet goes on as soon as it can.
pub(in crate::core) fn is_due(core: &Core) -> bool {
    !core.inbound.slices.is_empty() && may_go_on(core)
}

/// Goes on with long packets, as far as the turn allows, and a little in any case. All of them
/// wait while other shards cannot hear of new members of shared subscriptions, and while much
/// waits for room in the journal: most packets are not long, and go on without this.
pub(crate) fn go_on(core: &mut Core, now: Tick) {
    let mut left = core.turn.slice();
    while left >= FILTER_VISITS
        && may_go_on(core)
        && let Some(job) = core.inbound.slices.pop()
    {
        let before = core.turn.spent();
        slice(core, now, job, left.min(OWN_VISITS));
        left = left.saturating_sub(core.turn.spent() - before);
    }
}

/// One slice of a job, which is over then or goes to the end of the queue.
fn slice(core: &mut Core, now: Tick, mut job: Job, visits: u32) {
    let key = job.session;
    let before = core.turn.spent();
    let is_over = if hold::is_still(core, key, job.epoch) {
        match &mut job.kind {
            Kind::Subscribe(subscribing) => subscribe_slice(core, now, key, subscribing, visits),
            Kind::Unsubscribe(unsubscribing) => unsubscribe_slice(core, key, unsubscribing, visits),
        }
    } else {
        core.turn.spend(1);
        true
    };
    let used = core.turn.spent() - before;
    core.turn.attribute(key, used);
    work::charge_visits(core, now, key, used);
    if is_over {
        end_job(core, now, job);
    } else {
        core.inbound.slices.push(job);
    }
}

fn end_job(core: &mut Core, now: Tick, job: Job) {
    let key = job.session;
    let is_same = hold::is_still(core, key, job.epoch);
    if is_same {
        hold::end(core, now, key);
    }
    if let Kind::Subscribe(subscribing) = job.kind
        && let Some(ticket) = subscribing.entered
    {
        let entered = Transition::Entered(key, ticket, is_same);
        core.pending.transitions.note(entered);
    }
}

/// Returns whether that was the last one.
fn subscribe_slice(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    job: &mut Subscribing,
    visits: u32,
) -> bool {
    if let Some(begun) = &mut job.begun {
        return begin_some(core, now, key, &job.kept.wanted, begun, visits);
    }
    let is_v5 = core.sessions.get(key).is_some_and(Session::speaks_v5);
    let awaited = job.awaited;
    let mut tally = Tally::new(is_v5, Some(awaited));
    let result = match &mut job.source {
        Source::Packet {
            common,
            version,
            raw,
            bytes_left,
            elements_left,
        } => {
            let rest = &raw[raw.len() - *bytes_left..];
            let mut filters = SubscribeFiltersIter::resume(*version, rest);
            let some = filters.by_ref().take(*elements_left);
            let mut some = some.map(|element| common.wanting(&element));
            let (asked, verdicts) = (job.asked, &job.verdicts);
            let result = subscribe::subscribe_some(
                core, key, &mut some, asked, verdicts, &mut tally, visits,
            );
            *elements_left -= tally.reasons.len();
            *bytes_left = filters.rest().len();
            result
        }
        Source::Elements(elements, done) => {
            let mut some = elements[*done..].iter().map(Wanting::of);
            let (asked, verdicts) = (job.asked, &job.verdicts);
            let result = subscribe::subscribe_some(
                core, key, &mut some, asked, verdicts, &mut tally, visits,
            );
            *done += tally.reasons.len();
            result
        }
    };
    job.kept.add(tally);
    if let Err(reason) = result {
        lifecycle::close(core, now, key, reason);
        return true;
    }
    if job.source.is_empty() {
        let mut tally = job.kept.tally(is_v5, awaited);
        subscribe::answer(core, key, Some(awaited), &job.verdicts, &mut tally);
        job.begun = Some(0);
    }
    job.begun.is_some() && job.kept.wanted.is_empty()
}

/// Enqueues some of the snapshots of a SUBSCRIBE that was answered: until about this many
/// visits are used up. Returns whether those were the last ones.
fn begin_some(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    wanted: &[(Box<str>, Wanted<'static>)],
    begun: &mut usize,
    visits: u32,
) -> bool {
    let before = core.turn.spent();
    let zone = core.sessions.get(key).map(|session| session.state.zone());
    while let (Some((filter, wanted)), Some(zone)) = (wanted.get(*begun), zone) {
        if core.turn.spent() - before >= visits {
            break;
        }
        *begun += 1;
        core.turn.spend(ENQUEUE_VISITS);
        // It may have ended since.
        let found = index::find(core, key, zone, None, filter);
        if found == Some(SubscriptionRef::Filter(wanted.id)) {
            let is_soon = !work::turn_is_spent(core);
            let wanted = Wanted { filter, ..*wanted };
            snapshot::enqueue(core, now, key, &wanted, is_soon);
        }
    }
    snapshot::list(core, key);
    let is_over = *begun >= wanted.len();
    if is_over {
        let filters = wanted.iter().map(|(filter, _)| &**filter);
        subscribe::list_rooms_for(core, key, filters);
    }
    is_over
}

/// Returns whether that was the last one.
fn unsubscribe_slice(
    core: &mut Core,
    key: SessionKey,
    job: &mut Unsubscribing,
    visits: u32,
) -> bool {
    let rest = &job.raw[job.raw.len() - job.bytes_left..];
    let mut filters = UnsubscribeFiltersIter::resume(rest);
    unsubscribe::unsubscribe_some(core, key, &mut filters, &mut job.reasons, visits);
    job.bytes_left = filters.rest().len();
    if job.bytes_left == 0 {
        unsubscribe::send_unsuback(core, key, job.packet_id, &job.reasons);
    }
    job.bytes_left == 0
}
