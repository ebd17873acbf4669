//! How much one turn of a shard may do, and how much of it one connection.
//!
//! All work that a client can make expensive is counted in **visits**. One visit takes about 30 ns:
//! a node of the topic index, a name of the retained store, or [`VISIT_BYTES`] bytes that are
//! copied or compared. What costs more than a turn may do goes on in later turns, and between two
//! turns every connection is served.
//!
//! A connection that has used its share of a turn is not read further in this turn. What is beyond
//! its due is a debt besides, which time pays: a connection that owes waits while a turn is spent,
//! and one that owes too much pauses. Ordinary clients never owe anything.

mod share;

use core::time::Duration;

use stentor_session::Tick;

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::inbound::flood::MeshRoom;
use crate::core::sessions::debts;
use crate::core::sessions::log::laden;
use crate::core::sessions::registry::Sessions;
use crate::core::shard_set::ShardSet;

pub(crate) use share::Share;

/// Visits of one turn. About 0.15 ms: no longer than what a turn does anyway.
pub(crate) const TURN_VISITS: u32 = 4_096;

/// This many bytes that are copied or compared count as one visit.
pub(crate) const VISIT_BYTES: usize = 64;

/// Bytes of a topic that names somebody, or a procedure, which are free, and how many of those
/// behind them count as one visit: names are decoded, checked against rights and written again.
const NAME_BYTES_FREE: usize = 128;
const NAME_BYTES_PER_VISIT: usize = 4;

/// The time of one visit, about, in nanoseconds.
const VISIT_NANOS: u128 = 30;

/// The time that counts as much as one packet does, where the part of a turn that somebody took was
/// measured, in nanoseconds.
const PART_NANOS: u128 = 200;

/// What a service takes for a message to it, or from it, in packets: some microseconds.
const SERVICE_PACKETS: u32 = 16;

/// The bytes of new memory that take as long as one piece of work.
const GROWTH_BYTES: u32 = 128;

/// What it takes to put a message into the store, in packets: a microsecond, or several where the
/// store takes new memory.
const STORE_PACKETS: u32 = 4;

/// What work that goes on from an earlier turn does at least, so that it always gets on.
pub(crate) const SLICE_VISITS_MIN: u32 = 256;

/// What one filter of a SUBSCRIBE or UNSUBSCRIBE costs: an entry of the index and of its session.
pub(crate) const FILTER_VISITS: u32 = 8;

/// What one snapshot costs that waits for its turn.
pub(crate) const ENQUEUE_VISITS: u32 = 4;

/// What a message costs for one member of a shared subscription.
pub(crate) const SHARED_VISITS: u32 = 8;

/// What it costs to drop one message that waited.
pub(crate) const DROP_VISITS: u32 = 2;

/// What the end of a session costs beside what it leaves.
pub(crate) const END_VISITS: u32 = 16;

/// What the end of a connection costs, and of what it did in rooms and groups.
pub(crate) const CLOSE_VISITS: u32 = 64;

/// What a timer costs that fires.
pub(crate) const TIMER_VISITS: u32 = 2;

/// Visits after which a connection is not read further in a turn. A filter counts as one here, for
/// whoever comes back sends a thousand SUBSCRIBE packets, and they are quickest in one piece.
pub(crate) const OWN_VISITS: u32 = 1_024;

/// The same in a turn that is spent already. Fewer would be answered by a write each, and the shard
/// ends the turn by its clock.
const OWN_VISITS_LATE: u32 = OWN_VISITS - 1;

/// Packets after which a connection is not read further in a turn: more than a read holds of
/// messages of 60 bytes, so that a burst stays in one piece. See
/// [`crate::TurnControl::set_packets_at_once`].
pub const OWN_PACKETS: u32 = 1_024;

/// Subscribers that the messages of a connection have been handed to when it is not read further
/// in a turn: that is about 0.4 ms. Where more sessions wait to be written to, which costs each of
/// them far more, this many for each of those: several messages go out by one write then.
pub(crate) const OWN_HANDED: u32 = 8_192;
const OWN_HANDED_EACH: u32 = 32;

/// The same in any case: about 2 ms.
const OWN_HANDED_MAX: u32 = 32_768;

/// Subscribers that the messages of a connection, or of other shards, have been handed to in a turn
/// when those that follow are a crowd: others are written to before them.
const CROWD: u32 = 512;

/// Subscribers that a turn hands messages to, at most about: 2 ms. Messages to many that come after
/// that go on in later turns.
const TURN_REACHED: u32 = 8_192;

/// The same where each is more work: it is owed, or looked up among topics that are paced. In
/// subscribers' worth of handing over.
const TURN_HANDED: u32 = 8 * TURN_REACHED;

/// The same in a turn that should take little, from then on.
const LITTLE_REACHED: u32 = 512;

/// A message to no more subscribers than these never waits for that. Neither do more messages at
/// once than these: they would be as many later.
const FEW_SUBSCRIBERS: usize = 16;
const FEW_MESSAGES: usize = 2;

/// Visits of one PUBLISH that are free: more than nearly all messages need.
pub(crate) const PUBLISH_VISITS_FREE: u32 = 64;

/// Visits of any other packet for which nothing is owed: a SUBSCRIBE of 64 filters.
pub(crate) const PACKET_VISITS_FREE: u32 = 64 * FILTER_VISITS;

/// How fast a debt is paid, in visits per second: about a tenth of what a shard can do.
const VISITS_PER_SEC: u64 = 3_000_000;

/// What a connection may owe before it pauses, in visits.
const DEBT_VISITS_MAX: u64 = 65_536;

/// What a message costs while the retained store is behind: a pause of 10 ms.
pub(crate) const BEHIND_VISITS: u32 = DEBT_VISITS_MAX as u32 + VISITS_PER_SEC as u32 / 100;

/// No pause is longer, in nanoseconds.
const PAUSE_NANOS_MAX: u64 = 10_000_000_000;

/// Visits that things on their way out get in any turn, however busy that is, if they hold this
/// much memory: the more they hold, the more, so that they go as fast as others can come.
pub(crate) fn urgent_visits(bytes: usize) -> u32 {
    const BYTES_PER_VISIT: usize = 16 * 1024;
    const VISITS_MAX: u32 = 8_192;
    let visits = u32::try_from(bytes / BYTES_PER_VISIT);
    visits.unwrap_or(VISITS_MAX).min(VISITS_MAX)
}

/// What the present turn of a shard has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    spent: u32,
    /// Subscribers that messages were handed to, each once for messages that went together, and
    /// more often where a message was more work.
    handed: u32,
    /// The subscribers alone.
    reached: u32,
    /// The same when the present connection began.
    reached_before: u32,
    /// How many they are when messages to many go on in later turns.
    reached_max: u32,
    /// Bytes of the messages that went to a crowd.
    crowd_bytes: usize,
    /// Bytes of the messages that were put into the store.
    stored_bytes: usize,
    marks: Marks,
    terms: Terms,
    /// The client whose packets or jobs took the largest part, and how large that was.
    heaviest: Option<(SessionKey, u32)>,
    /// The part that nobody's session took, because there was none yet.
    nameless: u32,
    /// Work in packets' worth: what services and the store did, and by how much the memory of
    /// connections has grown, in units of [`GROWTH_BYTES`].
    extra: u32,
    /// Packets that had been received, and messages that had been delivered, when it began.
    packets_before: u64,
    deliveries_before: u64,
}

/// What has happened in a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Whether messages that could not be put off went to many beyond what a turn has time for.
    has_exceeded: bool,
    /// Whether something has ended that may have been owed much.
    has_ended: bool,
    /// Whether a connection gave way because of what it had handed over.
    was_cut: bool,
}

/// What holds for all turns until the shard says something else.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// Packets of one connection.
    packets_at_once: u32,
    /// What work that goes on from an earlier turn does at a time, at most.
    slice_max: u32,
    mesh_room: MeshRoom,
    /// The shards whose journal has much that waits for room.
    laden_journals: ShardSet,
}

/// What a shard does in a turn beside its hub.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    /// A connection holds this many bytes more than before that were not applied yet. New memory
    /// takes the system some time: it counts in [`crate::TurnView::work`], and no client
    /// is charged for it.
    Growth(u32),
    /// The layers below MQTT, and the packets in them, have taken this part of the turn: for a
    /// session, or for a connection that has none yet. See [`TurnFigures::client_id`].
    Layers(Option<SessionKey>, Duration),
    /// Output is left of earlier turns. From now on, the turn hands messages to few subscribers.
    /// A message to many goes on in later turns; a burst does not, and is counted as too much.
    OutputLeft,
    /// So much room is left for what other shards get, until something else is said: see
    /// [`crate::Effects::awaiting_room`].
    MeshRoom(MeshRoom),
    /// What each kind of work that goes on from earlier turns does in one call of
    /// [`crate::Hub::advance`], at most, in visits. So the shard can look at its clock in between.
    Slice(u32),
}

/// What a turn has handed over so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Subscribers that messages were handed to.
    pub subscribers: u32,
    /// The bytes of the messages that went to a crowd.
    pub crowd_bytes: usize,
    /// The bytes of the messages that it has put into the store.
    pub stored_bytes: usize,
    /// Whether the subscribers are more than [`Beside::OutputLeft`] allows.
    pub is_too_much: bool,
}

/// What a turn of a shard has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnFigures<'h> {
    /// Work that a client can make expensive, in units of about 30 ns.
    pub visits: u32,
    /// Packets received.
    pub packets: u64,
    /// Messages queued for clients.
    pub deliveries: u64,
    /// The client id of the session whose packets took the largest part of it. Empty if there was
    /// none, it has gone, or connections that have no session yet took more.
    pub client_id: &'h str,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            spent: 0,
            handed: 0,
            reached: 0,
            reached_before: 0,
            reached_max: TURN_REACHED,
            crowd_bytes: 0,
            stored_bytes: 0,
            marks: Marks::default(),
            terms: Terms {
                packets_at_once: OWN_PACKETS,
                slice_max: u32::MAX,
                mesh_room: MeshRoom::Free,
                laden_journals: ShardSet::EMPTY,
            },
            heaviest: None,
            nameless: 0,
            extra: 0,
            packets_before: 0,
            deliveries_before: 0,
        }
    }
}

impl Turn {
    /// How many packets of one connection are taken, at most: [`OWN_PACKETS`], or fewer while many
    /// connections wait for their turn. Holds until the next call.
    pub(crate) const fn set_packets_at_once(&mut self, packets: u32) {
        self.terms.packets_at_once = packets;
    }

    /// Counts what the shard does.
    #[inline]
    pub(crate) fn count(&mut self, what: Beside) {
        match what {
            Beside::Growth(bytes) => self.extra = self.extra.saturating_add(bytes / GROWTH_BYTES),
            Beside::Layers(key, took) => self.attribute_time(key, took),
            Beside::OutputLeft => self.take_little(),
            Beside::MeshRoom(room) => self.terms.mesh_room = room,
            Beside::Slice(visits) => self.terms.slice_max = visits,
        }
    }

    /// A new turn begins.
    pub(crate) const fn begin(&mut self) {
        self.spent = 0;
        self.handed = 0;
        self.reached = 0;
        self.reached_before = 0;
        self.crowd_bytes = 0;
        self.stored_bytes = 0;
        self.marks = Marks {
            has_exceeded: false,
            has_ended: false,
            was_cut: false,
        };
        self.heaviest = None;
        self.nameless = 0;
        self.extra = 0;
        self.reached_max = TURN_REACHED;
    }

    /// Counts work.
    #[inline]
    pub(crate) const fn spend(&mut self, visits: u32) {
        self.spent = self.spent.saturating_add(visits);
    }

    /// Counts work that is estimated by its time.
    pub(crate) fn spend_time(&mut self, time: Duration) {
        let visits = time.as_nanos() / VISIT_NANOS;
        self.spend(u32::try_from(visits).unwrap_or(u32::MAX));
    }

    /// Counts the work with names that take this many bytes of topics.
    pub(crate) fn spend_on_names(&mut self, bytes: usize) {
        let beyond = bytes.saturating_sub(NAME_BYTES_FREE);
        self.spend_each(beyond / NAME_BYTES_PER_VISIT, 1);
    }

    /// Counts this many pieces of work, which cost this many visits each.
    pub(crate) fn spend_each(&mut self, pieces: usize, visits: u32) {
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        self.spend(pieces.saturating_mul(visits));
    }

    /// A service takes a message, or sends one.
    #[inline]
    pub(crate) const fn serve(&mut self) {
        self.extra = self.extra.saturating_add(SERVICE_PACKETS);
    }

    /// Messages are handed to this many subscribers.
    #[inline]
    pub(crate) const fn reach(&mut self, subscribers: usize) {
        // A list holds fewer than 2^32 sessions.
        self.reached = self.reached.saturating_add(subscribers as u32);
        self.hand_over(subscribers);
    }

    /// From now on, the turn hands messages to few.
    fn take_little(&mut self) {
        self.reached_max = self.reached.saturating_add(LITTLE_REACHED);
        self.marks.has_exceeded = false;
    }

    /// Whether messages to these subscribers go on in later turns, because the turn has handed
    /// messages to enough.
    #[inline]
    pub(crate) const fn puts_off(&mut self, messages: usize, subscribers: usize) -> bool {
        let has_room = self.reached < self.reached_max && self.handed < TURN_HANDED;
        if has_room || subscribers <= FEW_SUBSCRIBERS {
            return false;
        }
        self.marks.has_exceeded |= messages > FEW_MESSAGES;
        messages <= FEW_MESSAGES
    }

    /// What it has handed over so far.
    pub(crate) const fn handed_over(&self) -> HandedOver {
        HandedOver {
            subscribers: self.reached,
            crowd_bytes: self.crowd_bytes,
            stored_bytes: self.stored_bytes,
            is_too_much: self.marks.has_exceeded,
        }
    }

    /// Handing over is as much work as for this many subscribers more.
    #[inline]
    pub(crate) const fn hand_over(&mut self, units: usize) {
        self.handed = self.handed.saturating_add(units as u32);
    }

    /// Whether the messages of the present connection, or of other shards, go to a crowd.
    #[inline]
    pub(crate) const fn serves_crowd(&self) -> bool {
        self.reached - self.reached_before > CROWD
    }

    /// Messages of this many bytes go to a crowd.
    pub(crate) const fn count_crowd(&mut self, bytes: usize) {
        self.crowd_bytes = self.crowd_bytes.saturating_add(bytes);
    }

    /// A message of this many bytes is put into the store, which costs this many visits.
    pub(crate) const fn store(&mut self, bytes: usize, visits: u32) {
        self.stored_bytes = self.stored_bytes.saturating_add(bytes);
        self.extra = self.extra.saturating_add(STORE_PACKETS);
        self.spend(visits);
    }

    /// A connection gives way because of what it has handed over.
    pub(crate) const fn cut(&mut self) {
        self.marks.was_cut = true;
    }

    /// The work of handing over, in subscribers' worth.
    pub(crate) const fn handed(&self) -> u32 {
        self.handed
    }

    /// A session or a connection ends that may be owed very much.
    pub(crate) const fn ends(&mut self) {
        self.marks.has_ended = true;
    }

    /// Whether another one may end: one does in each turn, and more while the turn is not spent.
    pub(crate) const fn may_end(&self) -> bool {
        !self.marks.has_ended || self.left() > 0
    }

    /// What the turn has done, in visits.
    #[inline]
    pub(crate) const fn spent(&self) -> u32 {
        self.spent
    }

    /// What it may still do.
    #[inline]
    pub(crate) const fn left(&self) -> u32 {
        TURN_VISITS.saturating_sub(self.spent)
    }

    /// Whether it has done so much more than it may that nothing small goes out either.
    pub(crate) const fn is_overspent(&self) -> bool {
        self.spent >= 2 * TURN_VISITS
    }

    /// What work that goes on from an earlier turn may do.
    pub(crate) fn slice(&self) -> u32 {
        self.left().max(SLICE_VISITS_MIN).min(self.terms.slice_max)
    }

    /// The shards in whose journal much waits for room, since the turn began.
    #[inline]
    pub(crate) const fn laden_journals(&self) -> ShardSet {
        self.terms.laden_journals
    }

    /// How much room is left for what other shards get.
    #[inline]
    pub(crate) const fn mesh_room(&self) -> MeshRoom {
        self.terms.mesh_room
    }

    /// A session has taken so large a part of the turn.
    #[inline]
    pub(crate) fn attribute(&mut self, key: SessionKey, part: u32) {
        if self.heaviest.is_none_or(|(_, most)| part > most) {
            self.heaviest = Some((key, part));
        }
    }

    /// The layers below MQTT have taken this part of the turn, for a session or for a connection
    /// without one.
    fn attribute_time(&mut self, key: Option<SessionKey>, took: Duration) {
        let part = u32::try_from(took.as_nanos() / PART_NANOS).unwrap_or(u32::MAX);
        match key {
            Some(key) => self.attribute(key, part),
            None => self.nameless = self.nameless.saturating_add(part),
        }
    }

    /// The session that has taken the largest part, if connections without one did not take more.
    fn heaviest(&self) -> Option<SessionKey> {
        let (key, part) = self.heaviest?;
        (part >= self.nameless).then_some(key)
    }
}

/// What a connection owes for work: the time when everything is paid for, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt(u64);

impl Debt {
    /// Adds this many visits.
    pub(crate) fn add(&mut self, now: Tick, visits: u32) {
        let now = now.as_micros().saturating_mul(1_000);
        let costs = u64::from(visits) * 1_000_000_000 / VISITS_PER_SEC;
        let until = self.0.max(now).saturating_add(costs);
        self.0 = until.min(now.saturating_add(PAUSE_NANOS_MAX));
    }

    /// Whether something is not paid for yet.
    pub(crate) fn is_owed(self, now: Tick) -> bool {
        self.0 > now.as_micros().saturating_mul(1_000)
    }

    /// From when on more is read.
    pub(crate) fn paid_at(self) -> Tick {
        let credit = DEBT_VISITS_MAX * 1_000_000_000 / VISITS_PER_SEC;
        Tick::from_micros(self.0.saturating_sub(credit).div_ceil(1_000))
    }
}

impl Sessions {
    #[cold]
    fn owes(&self, now: Tick, key: SessionKey) -> bool {
        let live = self.get(key).and_then(|session| session.live());
        live.is_some_and(|live| live.owes(now))
    }
}

/// The shard begins a turn: what it may do is counted from here on.
pub(crate) fn begin_turn(core: &mut Core) {
    core.turn.begin();
    core.turn.terms.laden_journals = laden(core);
    core.turn.packets_before = core.counters.stats.packets_received;
    core.turn.deliveries_before = core.counters.stats.publishes_sent;
}

/// What the present turn has done so far.
pub(crate) fn turn_figures(core: &Core) -> TurnFigures<'_> {
    let Turn {
        spent,
        packets_before,
        deliveries_before,
        ..
    } = core.turn;
    let session = core.turn.heaviest().and_then(|key| core.sessions.get(key));
    TurnFigures {
        visits: spent,
        packets: core.counters.stats.packets_received - packets_before,
        deliveries: core.counters.stats.publishes_sent - deliveries_before,
        client_id: session.map_or("", |session| session.state.client_id()),
    }
}

/// Whether more messages are there that go to a crowd, and wait only for the next turn: so
/// that the crowd is better written to when it has them too.
pub(crate) const fn crowd_goes_on(core: &Core) -> bool {
    core.turn.marks.was_cut || core.routing.routes.crowds > 0
}

/// Whether messages that were expensive to route go on in later turns.
pub(crate) fn has_jobs(core: &Core) -> bool {
    !core.routing.routes.is_empty()
}

/// Whether the present turn has done what it may.
#[inline]
pub(crate) const fn turn_is_spent(core: &Core) -> bool {
    core.turn.left() == 0
}

/// A figure that grows with all that the present turn does.
#[inline]
pub(crate) const fn turn_work(core: &Core) -> u64 {
    let packets = core.counters.stats.packets_received - core.turn.packets_before;
    packets + (core.turn.spent as u64) + (core.turn.handed as u64) + (core.turn.extra as u64)
}

/// Whether a connection has handed its messages to enough subscribers for one turn.
#[inline]
pub(in crate::core) fn has_handed_over_enough(core: &Core, share: &Share) -> bool {
    let handed = core.turn.handed - share.handed_before;
    handed >= OWN_HANDED_MAX
        || handed >= OWN_HANDED && {
            let dirty = core.outbox.listed.dirty.len() + core.effects.dirty.len();
            let dirty = dirty + core.outbox.listed.crowd.len() + core.effects.crowd.len();
            handed as usize >= dirty * OWN_HANDED_EACH as usize
        }
}

/// Whether a connection waits for the next turn: this one is spent, and it owes for work. O(1).
#[inline]
pub(crate) fn waits(core: &Core, now: Tick, key: SessionKey) -> bool {
    core.turn.left() == 0 && core.sessions.owes(now, key)
}

/// A connection has taken this part of the turn, and owes for what is beyond its due.
pub(crate) fn charge_share(core: &mut Core, now: Tick, key: SessionKey, share: &Share) {
    core.turn.attribute(key, share.weight());
    if share.owed > 0 {
        charge_visits(core, now, key, share.owed);
    }
}

/// A client owes for this many visits more, be it connected still or not.
pub(crate) fn charge_visits(core: &mut Core, now: Tick, key: SessionKey, visits: u32) {
    if visits == 0 {
        return;
    }
    let session = core.sessions.get_mut(key);
    match session.and_then(|session| session.live_mut()) {
        Some(live) => live.extras().debt.add(now, visits),
        None => debts::charge_absent(core, now, key, visits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_spent_and_begins_again() {
        let mut turn = Turn::default();
        turn.spend(TURN_VISITS - 1);
        assert_eq!((turn.left(), turn.slice()), (1, SLICE_VISITS_MIN));
        turn.spend(u32::MAX);
        assert_eq!((turn.left(), turn.spent()), (0, u32::MAX));
        turn.begin();
        assert_eq!((turn.left(), turn.slice()), (TURN_VISITS, TURN_VISITS));
        turn.count(Beside::Slice(1_000));
        turn.begin();
        assert_eq!((turn.left(), turn.slice()), (TURN_VISITS, 1_000));
    }

    /// A bystander is not named for what TLS or WebSocket took of a turn.
    #[test]
    fn who_took_most_is_named_or_nobody() {
        let client = |slot| SessionKey {
            slot,
            generation: 1,
        };
        let micros = Duration::from_micros;
        let mut turn = Turn::default();
        turn.attribute(client(1), 1);
        assert_eq!(turn.heaviest(), Some(client(1)));
        turn.attribute_time(Some(client(2)), micros(6_000));
        turn.attribute(client(3), OWN_PACKETS);
        assert_eq!(turn.heaviest(), Some(client(2)));
        for _ in 0..9 {
            assert_eq!(turn.heaviest(), Some(client(2)));
            turn.attribute_time(None, micros(700));
        }
        assert_eq!(turn.heaviest(), None, "handshakes together took more");
        turn.begin();
        turn.attribute_time(None, micros(1));
        turn.attribute(client(3), OWN_PACKETS);
        assert_eq!(turn.heaviest(), Some(client(3)));
    }

    #[test]
    fn fewer_messages_to_services_are_taken_at_once() {
        let mut turn = Turn::default();
        let mut share = Share::of(&mut turn);
        let mut taken = 0;
        while !share.is_used_up() {
            turn.serve();
            share.count(&turn, true, 0);
            taken += 1;
        }
        assert_eq!(taken, OWN_PACKETS.div_ceil(1 + SERVICE_PACKETS));
    }

    #[test]
    fn fewer_messages_are_stored_at_once() {
        let mut turn = Turn::default();
        let mut share = Share::of(&mut turn);
        let mut taken = 0;
        while !share.is_used_up() {
            turn.store(100, 0);
            share.count(&turn, true, 0);
            taken += 1;
        }
        assert_eq!(taken, OWN_PACKETS.div_ceil(1 + STORE_PACKETS));
    }

    #[test]
    fn only_what_is_beyond_the_due_is_owed() {
        let mut turn = Turn::default();
        let mut share = Share::of(&mut turn);
        for _ in 0..OWN_PACKETS - 1 {
            share.count(&turn, true, PUBLISH_VISITS_FREE);
        }
        assert!(!share.is_used_up() && share.owed == 0);
        assert_eq!(share.packets_left(true), 1);
        share.count(&turn, true, 1);
        assert!(share.is_used_up(), "by packets");
        let mut share = Share::of(&mut turn);
        share.count(&turn, false, PACKET_VISITS_FREE);
        assert_eq!((share.visits, share.owed), (64, 0));
        assert_eq!(share.packets_left(false), 1_024 - 64);
        share.count(&turn, true, OWN_VISITS);
        assert_eq!(share.owed, OWN_VISITS - PUBLISH_VISITS_FREE);
        assert!(share.is_used_up(), "by visits");
        turn.spend(TURN_VISITS);
        let late = OWN_VISITS_LATE as usize;
        assert_eq!(
            Share::of(&mut turn).packets_left(false),
            late,
            "it comes late"
        );
    }

    #[test]
    fn packets_with_filters_are_taken_in_one_piece_also_in_a_crowd() {
        let mut turn = Turn::default();
        turn.set_packets_at_once(64);
        let mut share = Share::of(&mut turn);
        for _ in 1..OWN_VISITS {
            share.count(&turn, false, FILTER_VISITS);
            assert!(!share.is_used_up());
        }
        share.count(&turn, false, FILTER_VISITS);
        assert!(share.is_used_up(), "by visits");
        let mut share = Share::of(&mut turn);
        for _ in 1..64 {
            share.count(&turn, false, FILTER_VISITS - 1);
            assert!(!share.is_used_up());
        }
        share.count(&turn, false, 0);
        assert!(share.is_used_up(), "by packets");
    }

    #[test]
    fn a_debt_is_paid_by_time_and_pauses_beyond_its_bound() {
        let now = Tick::from_secs(100);
        let mut debt = Debt::default();
        assert!(!debt.is_owed(now));
        debt.add(now, DEBT_VISITS_MAX as u32);
        assert!(debt.is_owed(now) && debt.paid_at() <= now);
        debt.add(now, VISITS_PER_SEC as u32);
        let pause = debt.paid_at().since(now).as_millis();
        assert!((999..=1_001).contains(&pause), "{pause}");
        assert!(!debt.is_owed(Tick::from_secs(102)));
        for _ in 0..10 {
            debt.add(now, u32::MAX);
        }
        assert!(debt.paid_at().since(now).as_secs() <= 10);
    }
}
