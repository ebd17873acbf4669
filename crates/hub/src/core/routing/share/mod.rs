//! Shared subscriptions: each message goes to one member of the group.
//!
//! Every shard knows, for each shared subscription, how many members each shard has. The shard
//! that took a message picks a shard by these numbers, that shard picks one of its members in
//! turn. The numbers travel through the control queues, which are emptied before bytes that were
//! read later are applied; so a publish after a SUBACK is seen by the new member. How many of them
//! travel in a turn is bounded: see [`tell`].

mod members;
mod queue;
mod registry;
pub(crate) mod tell;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use members::Members;

use crate::core::delivery::deliver::DeliveryOptions;
use crate::core::ids::{SessionKey, ShardId};
use crate::core::inbound::subscribe::SubscriptionRef;
use crate::core::routing::options::share_subscriber;
use crate::core::routing::route;
use crate::core::sessions::state::{Grant, StoredMessages, Subscribed};
use crate::core::shard_set::ShardSet;
use crate::core::{Core, Routing};
use crate::items::RoutedItem;
use queue::Queue;
pub(crate) use queue::{
    ask_queues, ask_queues_first, is_queue, is_queue_member, open_queue, queue_asked,
    queue_offered, try_queue_again,
};
pub(crate) use registry::Shares;
use stentor_mqtt::{QoS, ReasonCode};
use stentor_session::{Message, Tick};
use stentor_session_log::Filter;
use stentor_topic::{FilterId, Zone};
pub(crate) use tell::count_visits;
use tell::{NAME_VISITS, Untold, name_visits};
pub(crate) use tell::{Telling, has_untold_shares};

/// Bytes that a shared subscription takes on one shard beside its filter in the index and its name:
/// its entry, its members and their numbers.
pub(crate) const SHARE_BYTES: usize = 256;

/// How many shards may look for a member before a message is given up: members that leave while
/// it travels cost one each.
const HOPS_MAX: u8 = 8;

/// The answer to a client that is a member of as many as it may be.
const TOO_MANY_SHARES: &str = "this session shares as many subscriptions as it may";

/// The same where a filter has as many groups as it may.
const TOO_MANY_GROUPS: &str = "this filter is shared by as many groups as may share one";

/// How the search for a member of a shared subscription stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// How many shards may still pass the message on when its member has left.
    hops: u8,
    /// The shards where no member may receive the message.
    refused: ShardSet,
}

impl Search {
    const NEW: Self = Self {
        hops: HOPS_MAX,
        refused: ShardSet::EMPTY,
    };

    /// Whether no member of this shard may receive the message.
    const fn has_refused(self, shard: ShardId) -> bool {
        self.refused.has(shard)
    }

    /// No member of this shard may receive the message. Shards are counted once each, so the search
    /// ends as well.
    const fn refuse(&mut self, shard: ShardId) {
        self.refused = self.refused.with(shard);
        self.hops = self.hops.saturating_add(1);
    }
}

/// Which shared subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShareName {
    /// The zone of its members.
    pub zone: Zone,
    /// The name after `$share/`.
    pub group: Box<str>,
    /// The filter.
    pub filter: Box<str>,
}

#[derive(Debug)]
struct Share {
    name: Arc<ShareName>,
    /// Unique, so that deliveries that outlive the slot name nothing.
    number: u64,
    filter: FilterId,
    members: Members,
    /// Members per shard, this one included.
    counts: Vec<Count>,
    /// The shard whose turn it is.
    turn: u32,
    /// Whether other shards have not heard of the last change of this shard's numbers.
    is_untold: bool,
    /// What it takes though nobody here is a member any more, since others have not heard of that.
    idle_bytes: u32,
    /// What keeps messages here, if it is a queue whose home this shard is.
    queue: Option<Queue>,
}

/// The members of a shared subscription on one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Those with a connection.
    pub(crate) live: u32,
    /// Those without.
    pub(crate) away: u32,
    /// Whether the shard keeps what no member takes.
    pub(crate) keeps: bool,
}

impl Share {
    /// The shard whose turn it is, weighted by its members: those with a connection first, and
    /// those without only for messages that can wait. No member of a shard in `refused`
    /// may receive the message. O(shards).
    fn next_shard(&mut self, qos: QoS, refused: ShardSet) -> Option<ShardId> {
        let counts = || {
            let is_left = move |(shard, _): &(u8, &Count)| !refused.has(ShardId(*shard));
            (0..).zip(&self.counts).filter(is_left)
        };
        let live: u32 = counts().map(|(_, count)| count.live).sum();
        let away: u32 = counts().map(|(_, count)| count.away).sum();
        let queue_shard = self.queue_shard().filter(|_| qos > QoS::AtMostOnce);
        let (total, of): (u32, fn(&Count) -> u32) = match (live, away, qos) {
            (1.., _, _) => (live, |count| count.live),
            // The first member that comes gets it, not one that may never come back.
            _ if queue_shard.is_some() => return queue_shard,
            (0, 1.., QoS::AtLeastOnce | QoS::ExactlyOnce) => (away, |count| count.away),
            _ => return None,
        };
        let turn = self.turn.wrapping_add(1);
        let mut place = turn % total;
        let mut chosen = None;
        for (shard, count) in counts() {
            if place < of(count) {
                chosen = Some(ShardId(shard));
                break;
            }
            place -= of(count);
        }
        self.turn = turn;
        chosen
    }
}

impl Routing {
    /// Returns whether it was empty. One that others believe to have members here stays until they
    /// hear of it.
    fn close_share_if_empty(&mut self, slot: u32) -> bool {
        let Some(share) = self.shares.slots.get(slot as usize) else {
            return false;
        };
        let is_empty = !share.is_untold
            && share.members.list.is_empty()
            && share.counts.iter().all(|count| *count == Count::default());
        if is_empty {
            self.index
                .remove(share.filter, share_subscriber(slot).session);
            self.shares.remove(slot);
        }
        is_empty
    }
}

/// The number of a shared subscription that has chosen sessions of earlier starts. Its members may
/// not be known yet: see [`forget_expected`].
pub(crate) fn expect_share(core: &mut Core, name: ShareName) -> u64 {
    let slot = core.routing.shares.find_name(&name).unwrap_or_else(|| {
        let slot = open(core, &Arc::new(name));
        core.routing.shares.expected.push(slot);
        slot
    });
    core.routing.shares.number(slot).unwrap_or(0)
}

/// All shards know of the members of one another: those that were expected and have no members
/// are no longer there.
pub(crate) fn forget_expected(core: &mut Core) {
    for slot in core::mem::take(&mut core.routing.shares.expected) {
        core.routing.close_share_if_empty(slot);
    }
}

/// Whether a session may become a member of one shared subscription more, or why not. O(1).
pub(in crate::core) fn check(
    core: &Core,
    key: SessionKey,
    zone: Zone,
    share: Option<&str>,
    filter: &str,
) -> Result<(), (ReasonCode, &'static str)> {
    let Some(group) = share else {
        return Ok(());
    };
    if core.routing.shares.memberships(key.slot) >= core.rules.settings.shares_max {
        return Err((ReasonCode::QuotaExceeded, TOO_MANY_SHARES));
    }
    if core.routing.shares.find(zone, group, filter).is_some() {
        return Ok(());
    }
    let groups = core.routing.index.find(zone, filter);
    let groups = groups.map_or(0, |filter| core.routing.shares.groups(filter));
    if groups >= core.rules.settings.share_groups_max {
        return Err((ReasonCode::QuotaExceeded, TOO_MANY_GROUPS));
    }
    Ok(())
}

/// The slot of a shared subscription, made if it is new here.
fn open(core: &mut Core, name: &Arc<ShareName>) -> u32 {
    if let Some(slot) = core.routing.shares.find_name(name) {
        return slot;
    }
    let slot = u32::try_from(core.routing.shares.slots.vacant_key()).unwrap_or(u32::MAX);
    let subscriber = share_subscriber(slot);
    let filter = core
        .routing
        .index
        .insert(name.zone, &name.filter, subscriber)
        .id;
    core.routing.shares.numbers += 1;
    core.routing.shares.insert(Share {
        name: Arc::clone(name),
        number: core.routing.shares.numbers << 32 | u64::from(slot),
        filter,
        members: Members::default(),
        counts: alloc::vec![Count::default(); usize::from(core.place.shards)],
        turn: 0,
        is_untold: false,
        idle_bytes: 0,
        queue: None,
    })
}

/// Makes a session a member, or changes its options.
pub(in crate::core) fn join(
    core: &mut Core,
    key: SessionKey,
    zone: Zone,
    group: &str,
    filter: &str,
    grant: &Grant,
    telling: Telling,
) {
    let name = ShareName {
        zone,
        group: group.into(),
        filter: filter.into(),
    };
    let slot = open(core, &Arc::new(name));
    let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
        return;
    };
    let Some(session) = core.sessions.get_mut(key) else {
        core.routing.close_share_if_empty(slot);
        return;
    };
    let before = share.members.insert(key.slot, grant.options);
    let subscription = SubscriptionRef::Share(slot);
    let named = Filter {
        group: Some(group),
        filter,
    };
    // Nothing that is stored goes to shared subscriptions.
    let stored = StoredMessages::Settled;
    let (state, log) = (&mut session.state, &mut core.pending.log);
    let subscribed = state.subscribe(subscription, named, grant, stored, before, log);
    if subscribed != Subscribed::New {
        return;
    }
    core.routing.shares.joined(key.slot, slot);
    core.counters.stats.subscriptions += 1;
    adjust(core, slot, telling, |count| count.live += 1);
}

/// A session that is gone, or goes, leaves; `was_live` says as what it was counted.
pub(in crate::core) fn leave(core: &mut Core, slot: u32, session: u32, was_live: bool) {
    let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
        return;
    };
    if share.members.remove(session) {
        let is_queue = share
            .queue
            .take_if(|it| it.session.slot == session)
            .is_some();
        core.routing.shares.left(session, slot);
        if is_queue {
            core.routing.shares.count_queue_session(false);
        }
        adjust(core, slot, Telling::Soon, |count| {
            count.keeps &= !is_queue;
            let of = if was_live {
                &mut count.live
            } else {
                &mut count.away
            };
            *of = of.saturating_sub(1);
        });
    }
}

/// The connection of a member begins or ends.
pub(in crate::core) fn member_changed(core: &mut Core, slot: u32, session: u32, is_live: bool) {
    if let Some(share) = core.routing.shares.slots.get_mut(slot as usize) {
        share.members.set_live(session, is_live);
    }
    adjust(core, slot, Telling::Soon, |count| {
        let (up, down) = if is_live {
            (&mut count.live, &mut count.away)
        } else {
            (&mut count.away, &mut count.live)
        };
        *up += 1;
        *down = down.saturating_sub(1);
    });
}

/// Changes the numbers of this shard and tells the other shards.
fn adjust(core: &mut Core, slot: u32, telling: Telling, change: impl FnOnce(&mut Count)) {
    let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
        return;
    };
    let had_queue = share.queue_shard().is_some();
    change(&mut share.counts[usize::from(core.place.shard.0)]);
    let has_queue = share.queue_shard().is_some();
    core.routing.shares.count_queue(had_queue, has_queue);
    tell::tell(core, slot, telling);
    core.routing.close_share_if_empty(slot);
}

/// Another shard's numbers.
pub(in crate::core) fn count(core: &mut Core, name: &Arc<ShareName>, shard: ShardId, its: Count) {
    let before = core.routing.shares.slots.len();
    let slot = open(core, name);
    let is_new = core.routing.shares.slots.len() > before;
    if let Some(share) = core.routing.shares.slots.get_mut(slot as usize)
        && let Some(count) = share.counts.get_mut(usize::from(shard.0))
    {
        let had_queue = count.keeps;
        *count = its;
        core.routing.shares.count_queue(had_queue, its.keeps);
    }
    let is_over = core.routing.close_share_if_empty(slot);
    core.turn.spend(if is_new || is_over {
        count_visits(name)
    } else {
        NAME_VISITS + name_visits(name)
    });
}

/// A message that this shard took, for one member anywhere.
pub(in crate::core) fn deliver(core: &mut Core, now: Tick, slot: u32, message: &Arc<Message>) {
    let Some(share) = core.routing.shares.slots.get_mut(slot as usize) else {
        return;
    };
    let name = Arc::clone(&share.name);
    pass_on(core, now, &name, message, Search::NEW);
}

fn pass_on(
    core: &mut Core,
    now: Tick,
    name: &Arc<ShareName>,
    message: &Arc<Message>,
    mut search: Search,
) {
    let slot = core.routing.shares.find_name(name);
    let Some(share) = slot.and_then(|slot| core.routing.shares.slots.get_mut(slot as usize)) else {
        return;
    };
    let queue_shard = share.queue_shard();
    let (shard, hops) = match (search.hops.checked_sub(1), queue_shard) {
        // Members have left again and again: the queue keeps it.
        (None, Some(queue_shard)) if message.qos > QoS::AtMostOnce => {
            search.refused = ShardSet::ALL;
            (Some(queue_shard), Some(0))
        }
        (hops, _) => (share.next_shard(message.qos, search.refused), hops),
    };
    let (Some(shard), Some(hops)) = (shard, hops) else {
        if !search.refused.is_empty() {
            core.counters.stats.publishes_withheld += 1;
        }
        return;
    };
    search.hops = hops;
    if shard == core.place.shard {
        deliver_here(core, now, name, message, search);
    } else {
        let log = &mut core.pending.log;
        let message = match log.writes(message.qos) {
            true => log.sends_to_member(message, shard.0, name),
            false => Arc::clone(message),
        };
        let item = RoutedItem::Share {
            name: Arc::clone(name),
            message,
            search,
            is_named: false,
        };
        core.effects.mesh.push((shard, item.into()));
    }
}

/// A message for one member here; picked again elsewhere if the last one has left in the
/// meantime, or none may receive it.
pub(crate) fn deliver_here(
    core: &mut Core,
    now: Tick,
    name: &Arc<ShareName>,
    message: &Arc<Message>,
    mut search: Search,
) {
    let share = core.routing.shares.find_name(name);
    let Some(share) = share.and_then(|slot| core.routing.shares.slots.get_mut(slot as usize))
    else {
        return pass_on(core, now, name, message, search);
    };
    let is_kept = message.qos > QoS::AtMostOnce && share.queue_shard().is_some();
    // What was kept before the start goes to members first, and none of it has yet.
    let waits = share.queue.is_some() && core.past.endings.are_held();
    let found = if !is_kept {
        share.members.next(&core.sessions, message.topic())
    } else if !waits && !search.has_refused(core.place.shard) {
        let settings = &core.rules.settings;
        share
            .members
            .next_with_room(&core.sessions, message, settings)
    } else {
        share.keep(now, &mut core.clock)
    };
    let Some((member, options)) = found else {
        if is_kept || !share.members.list.is_empty() {
            if is_kept && search.has_refused(core.place.shard) {
                // The queue has ended, and other shards have not heard of it.
                return;
            }
            search.refuse(core.place.shard);
        }
        return pass_on(core, now, name, message, search);
    };
    let ids = [options.id()];
    let ids = if ids == [0] { &[][..] } else { &ids[..] };
    let terms = DeliveryOptions {
        group: Some(name),
        ..DeliveryOptions::new(message, options, ids, share.number)
    };
    let mut variants = route::variants(core, message);
    core.outbox.held.now_until = core.rules.hold_until(now, message.topic());
    route::fanout(core, now).deliver(&mut variants, member, &terms);
    core.outbox.held.now_until = None;
}
