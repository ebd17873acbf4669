//! Queues: shared subscriptions that keep messages above QoS 0 while no member takes them.
//!
//! A queue is a member of its shared subscription that never has a connection: a session that
//! belongs to the server. It lives on the home shard of its name, and is written down like every
//! session that lasts. So a message that it keeps survives what messages to sessions survive.
//!
//! - A message goes to a member with a connection that has room for it. If no shard has one, the
//!   message goes to the home of the queue, and waits there.
//! - A member that has room **asks** for what waits: when it joins or comes back, and when it has
//!   acknowledged what it had. The question says how much room it has. The home answers with as
//!   many messages, which go the usual way. So a slow member leaves messages in the queue, where
//!   the other members can have them.
//! - A message may come to the queue just after a member has asked. So the home **offers** what it
//!   keeps by itself from time to time, while there are members with a connection: those with room
//!   ask then.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_session::{Delivery, Message, Tick};
use stentor_topic::Subscription;

use super::{Share, ShareName};
use crate::core::ids::{SessionKey, ShardId};
use crate::core::routing::options::Options;
use crate::core::sessions::charge::Charge;
use crate::core::sessions::ending::give_kept;
use crate::core::sessions::registry::Session;
use crate::core::settings::Settings;
use crate::core::stats::LossCause;
use crate::core::work::DROP_VISITS;
use crate::core::{Clock, Core, Timer};
use crate::items::ShardItem;

/// Messages that go out for one question. A member asks again when it has acknowledged them.
const MESSAGES_AT_ONCE: usize = 64;

/// Bytes of them: one message may exceed it.
const BYTES_AT_ONCE: usize = 256 << 10;

/// Messages that have expired and are dropped for one question.
const EXPIRED_AT_ONCE: usize = 256;

/// Messages that wait for a member, above QoS 0, before it has no room for more.
const WAITING_MAX: usize = 2 * MESSAGES_AT_ONCE;

/// Seconds after which the home of a queue tries again by itself.
const AGAIN_SECS: u32 = 1;

/// What keeps messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// Its session, and of which of its connections, of which there are none.
    pub(super) session: SessionKey,
    epoch: u32,
    /// Whether a timer runs that tries again.
    is_timed: bool,
}

impl Share {
    /// The shard that keeps what no member takes, if this is a queue. O(shards).
    pub(super) fn queue_shard(&self) -> Option<ShardId> {
        let queue_shard = self.counts.iter().position(|count| count.keeps)?;
        u8::try_from(queue_shard).ok().map(ShardId)
    }

    /// Members with a connection, on all shards. O(shards).
    fn live(&self) -> u32 {
        self.counts.iter().map(|count| count.live).sum()
    }

    /// The member that keeps a message, if this is the home of the queue. Sees to it that the
    /// message gets another chance if there are members.
    pub(super) fn keep(&mut self, now: Tick, clock: &mut Clock) -> Option<(u32, Options)> {
        let slot = self.queue?.session.slot;
        let options = self.members.options(slot)?;
        self.set_timer(now, clock);
        Some((slot, options))
    }

    fn set_timer(&mut self, now: Tick, clock: &mut Clock) {
        let has_members = self.live() > 0;
        if let Some(queue) = &mut self.queue
            && has_members
            && !queue.is_timed
        {
            queue.is_timed = true;
            let timer = Timer {
                session: queue.session,
                epoch: queue.epoch,
            };
            clock.arm(now, now.after_secs(AGAIN_SECS), timer);
        }
    }
}

/// Messages above QoS 0 that may wait for a member, and how many bytes more it may hold.
fn room_of(session: &Session, settings: &Settings) -> Charge {
    let waiting_max = WAITING_MAX.min(settings.queue_messages_max.div_ceil(2));
    let messages = waiting_max.saturating_sub(session.state.owed.waiting_len());
    let most = session.state.queue_bytes_max(settings);
    Charge {
        bytes: most.saturating_sub(session.charge().bytes),
        messages,
    }
}

/// Whether a member takes a message of a queue without having much wait.
pub(super) fn has_room(session: &Session, message: &Message, settings: &Settings) -> bool {
    let Charge { bytes, messages } = room_of(session, settings);
    // What would never fit is dropped as usual: it would wait in the queue for ever.
    messages > 0 && (message.cost() <= bytes || session.charge().bytes == 0)
}

/// A session of a queue has become a member of it. Has no effect for other sessions.
pub(crate) fn open_queue(core: &mut Core, slot: u32, key: SessionKey) {
    let session = core.sessions.get(key);
    let Some(session) = session.filter(|it| it.state.queue().is_some()) else {
        return;
    };
    let own = usize::from(core.place.shard.0);
    if let Some(share) = core.routing.shares.slots.get_mut(slot as usize) {
        let before = share.queue.replace(Queue {
            session: key,
            epoch: session.epoch,
            is_timed: false,
        });
        if before.is_none() {
            core.routing.shares.count_queue_session(true);
        }
        let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
            return;
        };
        let had_queue = share.queue_shard().is_some();
        share.counts[own].keeps = true;
        core.routing.shares.count_queue(had_queue, true);
    }
}

/// Whether a shared subscription is a queue.
pub(crate) fn is_queue(core: &Core, key: SessionKey, subscription: Subscription<'_>) -> bool {
    let shares = &core.routing.shares;
    let session = core.sessions.get(key).filter(|_| shares.has_queues());
    let slot = session
        .zip(subscription.share)
        .and_then(|(session, group)| shares.find(session.state.zone(), group, subscription.filter));
    let share = slot.and_then(|slot| shares.slots.get(slot as usize));
    share.is_some_and(|share| share.queue_shard().is_some())
}

/// Whether a session is a member of a queue, and not that of the queue itself. O(its shared
/// subscriptions).
pub(crate) fn is_queue_member(core: &Core, key: SessionKey) -> bool {
    let shares = &core.routing.shares;
    let session = core.sessions.get(key).filter(|_| shares.has_queues());
    if session.is_none_or(|session| session.state.queue().is_some()) {
        return false;
    }
    let of_member = shares.of_member(key.slot);
    let mut all = of_member
        .iter()
        .filter_map(|slot| shares.slots.get(*slot as usize));
    all.any(|share| share.queue_shard().is_some())
}

/// A session has a connection, or has become a member: asks its queues, whatever it has in flight,
/// which may be a long job or of other subscriptions. O(1) where there are no queues.
pub(crate) fn ask_queues_first(core: &mut Core, now: Tick, key: SessionKey) {
    if core.routing.shares.has_queues()
        && let Some(session) = core.sessions.get(key)
        && session.live().is_some()
    {
        let room = room_of(session, &core.rules.settings);
        ask_each(core, now, key, room);
    }
}

/// A member may have room for more. Asks its queues, if it has acknowledged enough messages to be
/// worth a question. O(1) where there are no queues.
#[inline]
pub(crate) fn ask_queues(core: &mut Core, now: Tick, key: SessionKey) {
    if core.routing.shares.has_queues()
        && let Some(room) = room_to_ask_for(core, key)
    {
        ask_each(core, now, key, room);
    }
}

fn ask_each(core: &mut Core, now: Tick, key: SessionKey, room: Charge) {
    if room.messages == 0 || room.bytes == 0 {
        return;
    }
    let room = Charge {
        messages: room.messages.min(MESSAGES_AT_ONCE),
        ..room
    };
    for slot in core.routing.shares.of_member(key.slot) {
        core.turn.spend(1);
        ask(core, now, slot, room);
    }
}

/// The room of a member for which a question is worth it.
fn room_to_ask_for(core: &Core, key: SessionKey) -> Option<Charge> {
    let session = core.sessions.get(key)?;
    session.live()?;
    let owed = session.state.owed.get();
    let (waiting, in_flight) = owed.map_or((0, 0), |it| (it.waiting_len(), it.in_flight_len()));
    if waiting > 0 || in_flight % MESSAGES_AT_ONCE != 0 {
        return None;
    }
    Some(room_of(session, &core.rules.settings))
}

/// Asks for up to this many messages and bytes, if the shared subscription is a queue.
fn ask(core: &mut Core, now: Tick, slot: u32, room: Charge) {
    let share = core.routing.shares.slots.get(slot as usize);
    let Some((share, queue_shard)) = share.and_then(|it| Some((it, it.queue_shard()?))) else {
        return;
    };
    let name = Arc::clone(&share.name);
    if queue_shard == core.place.shard {
        return queue_asked(core, now, &name, room);
    }
    let item = ShardItem::AskQueue {
        name,
        // No more than are sent at once.
        messages: room.messages as u32,
        bytes: room.bytes,
    };
    core.effects.control_items.push((queue_shard, item));
}

/// Members have room for some of what a queue of this shard has kept.
pub(crate) fn queue_asked(core: &mut Core, now: Tick, name: &ShareName, room: Charge) {
    let slot = core.routing.shares.find_name(name);
    let Some(share) = slot.and_then(|slot| core.routing.shares.slots.get_mut(slot as usize)) else {
        return;
    };
    let Some(queue) = share.queue else {
        return;
    };
    // Other shards have not told of their members yet.
    if core.past.endings.are_held() {
        return share.set_timer(now, &mut core.clock);
    }
    let room = Charge {
        bytes: room.bytes.min(BYTES_AT_ONCE),
        messages: room.messages.min(MESSAGES_AT_ONCE),
    };
    let kept = take_some(core, now, queue.session, room);
    give_kept(core, now, &kept);
    let Some(session) = core.sessions.get(queue.session) else {
        return;
    };
    if session.state.owed.waiting_len() > 0
        && let Some(share) = slot.and_then(|it| core.routing.shares.slots.get_mut(it as usize))
    {
        share.set_timer(now, &mut core.clock);
    }
}

/// Takes the oldest messages out of a queue: up to this many messages and bytes, and one in any
/// case.
fn take_some(core: &mut Core, now: Tick, key: SessionKey, most: Charge) -> Vec<Delivery> {
    let mut kept = Vec::new();
    let Some(session) = core.sessions.get_mut(key) else {
        return kept;
    };
    let owed = &mut session.state.owed;
    let (mut left, mut expired) = (most.bytes, 0);
    while kept.len() < most.messages
        && expired < EXPIRED_AT_ONCE
        && let Some(cost) = owed.get().and_then(|it| Some(it.oldest_waiting()?.cost()))
        && (cost <= left || kept.is_empty())
        && let Some(oldest) = owed.drop_oldest()
    {
        if oldest.message.is_expired(now) {
            expired += 1;
            continue;
        }
        left = left.saturating_sub(cost);
        kept.push(oldest);
    }
    core.turn.spend_each(kept.len() + expired, DROP_VISITS);
    core.counters.stats.publishes_dropped += expired as u64;
    let losses = &mut core.counters.losses;
    losses.record_many(LossCause::Expired, expired as u64);
    kept
}

/// The timer of a queue has fired: offers what it keeps to the shards with members.
pub(crate) fn try_queue_again(core: &mut Core, now: Tick, key: SessionKey) {
    let keeps = core
        .sessions
        .get(key)
        .is_some_and(|it| it.state.owed.waiting_len() > 0);
    for slot in core.routing.shares.of_member(key.slot) {
        let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
            continue;
        };
        if let Some(queue) = &mut share.queue {
            queue.is_timed = false;
        }
        if !keeps {
            continue;
        }
        share.set_timer(now, &mut core.clock);
        let (name, own) = (Arc::clone(&share.name), core.place.shard);
        let has_live = |(_, count): &(u8, &super::Count)| count.live > 0;
        let shards: Vec<u8> = (0..)
            .zip(&share.counts)
            .filter(has_live)
            .map(|it| it.0)
            .collect();
        for shard in shards {
            core.turn.spend(1);
            match ShardId(shard) {
                shard if shard == own => queue_offered(core, now, &name),
                shard => {
                    let item = ShardItem::OfferQueue(Arc::clone(&name));
                    core.effects.control_items.push((shard, item));
                }
            }
        }
    }
}

/// A queue keeps messages: the next member here that has room asks for them.
pub(crate) fn queue_offered(core: &mut Core, now: Tick, name: &ShareName) {
    let Some(slot) = core.routing.shares.find_name(name) else {
        return;
    };
    let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
        return;
    };
    let (sessions, settings) = (&core.sessions, &core.rules.settings);
    let room = |session: &Session| {
        let room = room_of(session, settings);
        (room.messages > 0 && room.bytes > 0).then_some(room)
    };
    if let Some(room) = share.members.next_with(sessions, room) {
        ask(core, now, slot, room);
    }
}
