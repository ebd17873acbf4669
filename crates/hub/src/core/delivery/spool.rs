//! Backlogs on the disk: what waits for clients that are away.
//!
//! Memory has the newest of what waits for a session, and the disk what is older. Each session has
//! its share of the memory; when it holds more, the oldest goes to the disk in chunks. Its client
//! gets chunk after chunk when it is back. While some of it is on the disk, what is new goes behind
//! that, also while the client is there.
//!
//! A message leaves the memory when the disk has it. Then a record says where it is, and the
//! journal need not have it any longer.
//!
//! **A publisher that is faster than the disk waits.** While much is on its way to the disk,
//! nothing more is read for a while from a connection whose message adds to that. Nobody else
//! waits.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use stentor_session::{Chunk, ChunkPlace, Delivery, SubscriptionIds, Tick};
use stentor_session_log::{Chunk as Content, Identifier, List, SpooledDelivery, Terms};

use crate::core::Core;
use crate::core::delivery::pump;
use crate::core::ids::SessionKey;
use crate::core::memory::disk_room;
use crate::core::routing::route::{job, release_sender};
use crate::core::sessions::log::{
    body_of, forget_needy, has_freed, identifiers, message_of, take_freed, tell_full, tell_needy,
    terms, turn_over_full,
};
use crate::core::sessions::registry::{
    RECOUNTED_AT_ONCE, count_disk_of, lasting_len, look_at_full, take_new_of_full,
};
use crate::core::sessions::state::{SessionState, own_queue_bytes, take_fetched, write_spooled};
use crate::core::sessions::tally::Bound;
use crate::core::settings::Settings;
use crate::core::stats::LossCause;
use crate::effects::{Event, SpoolOrder};
use crate::items::Sender;

/// Bytes that a unit of [`ChunkPlace`] stands for.
pub const SPOOL_UNIT: u64 = 64;

/// Bytes that may be on their way to the disk before connections wait that add to them, and when
/// they go on.
const MUCH: usize = 8 << 20;
const LITTLE: usize = 4 << 20;

/// Bytes that may be on their way before a PUBLISH waits where it was read, if a session here would
/// give it to the disk. It waits until 8 MiB are left: many connections may come with one message
/// each.
const FAR_TOO_MUCH: usize = 32 << 20;

/// How long a connection waits at most before it may send another message: others may add to what
/// is on its way without an end.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// How often some sessions are counted again whose owners have had their part of the disk: others
/// may have given theirs back.
const RECOUNT_TIME: Duration = Duration::from_millis(100);

/// When the messages of sessions go to the disk, on one shard.
#[derive(Debug)]
pub(crate) struct Spooling {
    /// Bytes that a session may hold in memory before that; 0 if nothing goes to the disk.
    pub(crate) share: usize,
    /// Whether the disk has refused something, so that nothing is to be tried for now.
    pub(crate) is_refused: bool,
    /// Sessions that hold more than that, each once.
    pub(crate) due: VecDeque<SessionKey>,
    /// What has come for them since, and did not go to the disk yet.
    pub(crate) due_bytes: usize,
    /// What the shard has given the disk, and it does not have yet, in bytes.
    under_way: usize,
    /// All that has come for sessions that hold more than their share, in bytes, since the start.
    pub(crate) taken: u64,
    /// Bytes that are free on the disk; `u64::MAX` until the shard has told.
    pub(crate) free: u64,
    /// When sessions of owners that were full are counted again.
    recount_at: Tick,
    /// How many of these are to be counted again before all were since others were told of them.
    recounts_left: usize,
    /// How many of the sessions that are due others were told of, because the disk refuses them.
    told: usize,
    /// Whether far too much has been on its way, and much still is.
    is_far_behind: bool,
    /// Connections that wait because their messages were among that, and until when at most.
    waiting: BTreeMap<Sender, Tick>,
    orders: Vec<SpoolOrder>,
}

impl Default for Spooling {
    fn default() -> Self {
        Self {
            share: 0,
            is_refused: false,
            due: VecDeque::new(),
            due_bytes: 0,
            under_way: 0,
            taken: 0,
            free: u64::MAX,
            recount_at: Tick::ZERO,
            recounts_left: 0,
            told: 0,
            is_far_behind: false,
            waiting: BTreeMap::new(),
            orders: Vec::new(),
        }
    }
}

impl Spooling {
    /// What is on its way to the disk, in bytes.
    const fn on_the_way(&self) -> usize {
        self.due_bytes.saturating_add(self.under_way)
    }

    /// Shares the memory among the sessions that last.
    fn share(settings: &Settings, sessions: usize) -> usize {
        let spool = &settings.spool;
        if spool.client_bytes_max == 0 {
            return 0;
        }
        let share = spool.memory / sessions.max(1);
        let share = share.min(spool.share.1).max(spool.share.0);
        share.min(settings.queue_bytes_max / 2)
    }
}

/// Bytes that the disk may have of what waits for a session.
pub(crate) fn bytes_max_of(state: &SessionState, settings: &Settings) -> u64 {
    let all = settings.spool.client_bytes_max;
    match own_queue_bytes(state) {
        Some(own) => all.min(own.into()),
        None => all,
    }
}

/// Shares the memory among the sessions that there are now. O(1).
pub(crate) fn share_memory(core: &mut Core) {
    let lasting = lasting_len(&core.sessions);
    core.outbox.spooling.share = Spooling::share(&core.rules.settings, lasting);
}

/// What has come for the disk so far: for [`hold_back`].
#[inline]
pub(crate) const fn taken(core: &Core) -> u64 {
    core.outbox.spooling.taken
}

/// Messages of a connection have been handed out. If some of them were for the disk, `before` being
/// what [`taken`] said then, and much is on its way there, nothing more is read from it for now.
#[inline]
pub(crate) fn hold_back(core: &mut Core, now: Tick, sender: Option<Sender>, before: u64) {
    if core.outbox.spooling.taken != before
        && let Some(sender) = sender
    {
        hold_back_one(core, now, sender);
    }
}

#[cold]
fn hold_back_one(core: &mut Core, now: Tick, sender: Sender) {
    let spooling = &mut core.outbox.spooling;
    if spooling.on_the_way() < MUCH || spooling.waiting.contains_key(&sender) {
        return;
    }
    spooling.waiting.insert(sender, now.after(WAIT_MAX));
    job::hold_sender(core, sender);
}

/// The shard has given the disk so much that it does not have yet, and so much more has room there.
/// Connections that wait for the disk go on when little is left.
pub(crate) fn tell_room(core: &mut Core, now: Tick, under_way: usize, free: u64) {
    let spooling = &mut core.outbox.spooling;
    (spooling.under_way, spooling.free) = (under_way, free);
    let on_the_way = spooling.on_the_way();
    spooling.is_far_behind =
        on_the_way >= FAR_TOO_MUCH || spooling.is_far_behind && on_the_way >= MUCH;
    tell_others(core, now);
    let spooling = &mut core.outbox.spooling;
    if spooling.waiting.is_empty() {
        return;
    }
    let is_little = on_the_way <= LITTLE;
    let may_go = |_: &Sender, until: &mut Tick| is_little || *until <= now;
    let all: Vec<_> = spooling.waiting.extract_if(.., may_go).collect();
    for (sender, _) in all {
        release_sender(core, now, sender, 0);
    }
}

/// Tells other shards of sessions that the disk has no more room for.
fn tell_others(core: &mut Core, now: Tick) {
    /// Sessions that need the disk, as many as a turn tells others of.
    const AT_ONCE: usize = 256;
    let new = take_new_of_full(&mut core.sessions);
    tell_full(core, &new);
    let spooling = &core.outbox.spooling;
    if spooling.is_refused {
        let (from, due) = (spooling.told, &spooling.due);
        let to = due.len().min(from + AT_ONCE);
        tell_needy(core, due.range(from.min(to)..to).copied());
        core.outbox.spooling.told = to;
    }
    if now < core.outbox.spooling.recount_at {
        return;
    }
    if core.outbox.spooling.recounts_left == 0 {
        turn_over_full(core);
    }
    let all = look_at_full(&mut core.sessions);
    let spooling = &mut core.outbox.spooling;
    spooling.recount_at = now.after(RECOUNT_TIME);
    spooling.recounts_left = match spooling.recounts_left {
        0 => all.saturating_sub(RECOUNTED_AT_ONCE),
        left => left.saturating_sub(RECOUNTED_AT_ONCE),
    };
}

/// Whether the disk has refused something of this shard, and not told since that it takes more.
pub(crate) const fn is_refused(core: &Core) -> bool {
    core.outbox.spooling.is_refused
}

/// Whether a session that holds so much has its share of the memory, so that more is for the disk.
pub(crate) const fn has_its_share(core: &Core, held_bytes: usize) -> bool {
    let share = core.outbox.spooling.share;
    share > 0 && held_bytes >= share
}

/// Whether far too much is on its way to the disk.
pub(crate) const fn is_far_behind(core: &Core) -> bool {
    core.outbox.spooling.is_far_behind
}

/// Whether the disk is to do something.
pub(crate) const fn has_orders(core: &Core) -> bool {
    !core.outbox.spooling.orders.is_empty() || has_freed(&core.pending.log)
}

/// What the disk is to do, in order. What the log has said before has to be appended first.
pub(crate) fn take_orders(core: &mut Core) -> Vec<SpoolOrder> {
    let mut orders = core::mem::take(&mut core.outbox.spooling.orders);
    take_freed(&mut core.pending.log, &mut orders);
    orders
}

/// Whether sessions hold more than their share, and the disk takes it.
pub(crate) fn is_due(core: &Core) -> bool {
    !core.outbox.spooling.due.is_empty() && !core.outbox.spooling.is_refused
}

/// What it takes to encode a message for the disk.
const SEAL_VISITS: u32 = 4;

/// The same of all messages of a turn, at most: one or two milliseconds, however short they are.
const SEALED_VISITS: u32 = 8_192 * SEAL_VISITS;

/// Has the disk take some of what sessions hold beyond their share: about `bytes_max` at most, and
/// no more messages than a turn has time for.
pub(crate) fn seal_some(core: &mut Core, bytes_max: usize) {
    let mut bytes = 0;
    let until = core.turn.spent().saturating_add(SEALED_VISITS);
    while bytes < bytes_max
        && core.turn.spent() < until
        && is_due(core)
        && let Some(key) = core.outbox.spooling.due.pop_front()
    {
        // Other sessions of its owner may have used up the room since it was counted.
        count_on_disk(core, key);
        let (sealed, is_over) = seal(core, key, bytes_max - bytes, until);
        bytes += sealed;
        count_on_disk(core, key);
        if !is_over {
            core.outbox.spooling.due.push_back(key);
        }
    }
    if core.outbox.spooling.due.is_empty() {
        core.outbox.spooling.due_bytes = 0;
    }
}

/// Counts what a session has on the disk, or on its way there.
fn count_on_disk(core: &mut Core, key: SessionKey) {
    let room = disk_room(core);
    count_disk_of(&mut core.sessions, key, room);
}

/// Has the disk take some of what one session holds: see [`seal_some`]. Returns the bytes, and
/// whether that was all.
fn seal(core: &mut Core, key: SessionKey, bytes_max: usize, until: u32) -> (usize, bool) {
    let share = core.outbox.spooling.share;
    let mut sum = 0;
    let Some(session) = core.sessions.get_mut(key) else {
        return (sum, true);
    };
    let most = bytes_max_of(&session.state, &core.rules.settings);
    let log = &core.pending.log;
    let zone = session.state.zone().0;
    let client_id = Box::<str>::from(session.state.client_id());
    while sum < bytes_max && core.turn.spent() < until {
        let owed = &mut session.state.owed;
        if owed.is_barred() || owed.disk_bytes() >= most {
            // What is more waits in memory, as far as it may.
            owed.note_done();
            return (sum, true);
        }
        let Some(sealing) = owed.seal(share / 2) else {
            return (sum, true);
        };
        let first = sealing.first;
        // A chunk has at most 64.
        let count = sealing.deliveries.len() as u8;
        core.turn.spend_each(sealing.deliveries.len(), SEAL_VISITS);
        let content = Content {
            zone,
            client_id: &client_id,
            first,
            deliveries: List::default(),
        };
        let mut bytes = Vec::new();
        let all = sealing.deliveries.iter();
        let ids: Vec<Vec<Identifier>> = all.map(identifiers).collect();
        let all = sealing.deliveries.iter().zip(&ids);
        let all = all.map(|(delivery, ids)| SpooledDelivery {
            terms: terms(delivery, ids),
            body: body_of(log, &delivery.message),
        });
        content.encode_to(all, &mut bytes);
        sum += bytes.len();
        let cost: usize = sealing.deliveries.iter().map(Delivery::cost).sum();
        let spooling = &mut core.outbox.spooling;
        spooling.due_bytes = spooling.due_bytes.saturating_sub(cost);
        core.outbox.spooling.orders.push(SpoolOrder::Seal {
            session: key,
            first,
            count,
            bytes,
        });
    }
    (sum, false)
}

/// The disk has a chunk of a session's messages, or has refused it.
pub(crate) fn sealed(
    core: &mut Core,
    key: SessionKey,
    first: u64,
    count: u8,
    place: Option<ChunkPlace>,
) {
    if place.is_none() {
        // Nobody waits for a disk that refuses: what makes room goes on.
        core.outbox.spooling.is_refused = true;
        core.outbox.spooling.due_bytes = 0;
    }
    let session = core.sessions.get_mut(key);
    let is_taken = session.is_some_and(|session| {
        let is_taken = session.state.owed.sealed(first, count, place);
        if let (true, Some(place)) = (is_taken, place) {
            let chunk = Chunk {
                first,
                count,
                place,
            };
            write_spooled(&session.state, &chunk, &mut core.pending.log);
        } else if place.is_none() && session.state.owed.note_due() {
            // It is tried again when the disk takes chunks.
            core.outbox.spooling.due.push_back(key);
        }
        is_taken
    });
    if let (false, Some(place)) = (is_taken, place) {
        // Its client was faster, or it has ended.
        core.outbox.spooling.orders.push(SpoolOrder::Free(place));
    }
}

/// The disk takes chunks again.
pub(crate) fn goes_on(core: &mut Core) {
    core.outbox.spooling.is_refused = false;
    core.outbox.spooling.told = 0;
    forget_needy(core);
}

/// Asks for the next chunk of a session whose client is there, if little is left in memory.
pub(crate) fn fetch_next(core: &mut Core, key: SessionKey) {
    let session = core.sessions.get_mut(key);
    let owed = session.map(|session| &mut session.state.owed);
    if let Some(chunk) = owed.and_then(|owed| owed.next_fetch()) {
        core.outbox.spooling.orders.push(SpoolOrder::Fetch {
            session: key,
            first: chunk.first,
            place: chunk.place,
        });
    }
}

/// A chunk has come from the disk, or nobody can read it any more.
pub(crate) fn fetched(
    core: &mut Core,
    now: Tick,
    key: SessionKey,
    first: u64,
    bytes: Option<&[u8]>,
) {
    let log = &core.pending.log;
    let Some(session) = core.sessions.get_mut(key) else {
        return;
    };
    let content = bytes.and_then(|bytes| Content::decode(bytes).ok());
    let is_its = |it: &Content<'_>| {
        let whose = (it.zone, it.client_id, it.first);
        whose == (session.state.zone().0, session.state.client_id(), first)
    };
    let content = content.filter(is_its);
    let is_readable = content.is_some();
    let all = content.iter().flat_map(|it| it.deliveries.iter());
    let deliveries = (first..).zip(all).map(|(number, it)| Delivery {
        message: message_of(log, now, &it.body),
        qos: it.terms.qos,
        retain: it.terms.retain,
        subscription_ids: ids(&it.terms),
        share: 0,
        conflated: it.terms.conflated,
        number,
    });
    let deliveries: Vec<Delivery> = deliveries.collect();
    let lost = take_fetched(&mut session.state, first, deliveries) as u64;
    if lost > 0 && is_readable {
        core.counters.stats.publishes_withheld += lost;
        session.tally().withheld.add(now, lost);
    } else if lost > 0 {
        let cause = LossCause::Unreadable;
        session.tally().lose(now, cause, lost, Bound::AsConfigured);
        core.counters.stats.publishes_dropped += lost;
        core.counters.traffic.of(session.state.zone()).dropped += lost;
        core.counters.losses.record_many(cause, lost);
        core.effects.events.push(Event::Unreadable {
            client_id: session.state.client_id().into(),
            messages: lost,
        });
    }
    pump::begin(core, now, key);
}

fn ids(terms: &Terms<'_>) -> SubscriptionIds {
    let ids: Vec<u32> = terms.identifiers.iter().map(|id| id.0).collect();
    SubscriptionIds::new(&ids)
}
