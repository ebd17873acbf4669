//! What other shards hear of the members of shared subscriptions, and how much at a time.
//!
//! Each change of a number is an item for every other shard, which applies all such items before it
//! applies what it reads afterwards. It cannot leave some of them for later: a client that has seen
//! a SUBACK may publish through any shard. So the shards that send these items bound their
//! number. The receiver says how much work it takes in a turn, and each of the others has a part of
//! that, its **room** ([`set_room`]).
//!
//! - A SUBSCRIBE for shared subscriptions waits while there is no room, as one with too many
//!   filters does; nobody else waits for it. What has begun goes out at once, before the SUBACK.
//! - All other changes wait in a queue while there is no room: members that leave, whose connection
//!   ends, or who come back. An item has all numbers of one shard and one shared subscription. So
//!   each is in the queue once however often it changes, and the order of the items does not
//!   matter. Until an item arrives, its receiver may send a message to a shard where no member is
//!   any more, and that one passes it on. A message of QoS 0 may not reach the only members if they
//!   have just come back; one of a higher QoS does.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use super::{SHARE_BYTES, ShareName};
use crate::core::ids::ShardId;
use crate::core::inbound::subscribe::filter_visits;
use crate::core::work::VISIT_BYTES;
use crate::core::{Core, Routing};
use crate::items::ShardItem;

/// What it costs to find a shared subscription by its name, beside the bytes of that.
pub(super) const NAME_VISITS: u32 = 2;

/// What it costs to tell one shard of a change.
const TOLD_VISITS: u32 = 2;

/// What shared subscriptions without members may take here before there are no new ones: the
/// others have to be told first that those have ended.
const IDLE_BYTES_MAX: usize = 16 << 20;

/// When other shards hear of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    Now,
    /// When there is room.
    Soon,
}

/// What other shards have not been told.
#[derive(Debug)]
pub(crate) struct Untold {
    /// By their slots, each once.
    slots: VecDeque<u32>,
    /// What the receivers' turns have room for, in their visits.
    room: u32,
    /// Bytes of those that have no member here.
    idle_bytes: usize,
}

impl Default for Untold {
    fn default() -> Self {
        Self {
            slots: VecDeque::new(),
            room: u32::MAX,
            idle_bytes: 0,
        }
    }
}

/// What a name costs that is hashed and compared.
pub(super) fn name_visits(name: &ShareName) -> u32 {
    // A packet has far less than 2^32 bytes.
    ((name.group.len() + name.filter.len()) / VISIT_BYTES) as u32
}

/// What it costs a shard, at most, to hear of a change.
pub(crate) fn count_visits(name: &ShareName) -> u32 {
    filter_visits(&name.filter) + NAME_VISITS + name_visits(name)
}

impl Routing {
    /// Whether a SUBSCRIBE for shared subscriptions may go on in this turn.
    #[inline]
    pub(crate) const fn may_share(&self) -> bool {
        self.shares.untold.room > 0 && self.shares.untold.idle_bytes <= IDLE_BYTES_MAX
    }

    /// Whether something goes out as soon as it can.
    pub(crate) fn has_untold(&self) -> bool {
        self.shares.untold.room > 0 && !self.shares.untold.slots.is_empty()
    }

    /// Counts the bytes of a shared subscription that is here only because others have not heard
    /// of its end. Those of members are counted with them.
    fn count_idle(&mut self, slot: u32) {
        let Some(share) = self.shares.slots.get_mut(slot as usize) else {
            return;
        };
        let bytes = if share.is_untold && share.members.list.is_empty() {
            SHARE_BYTES + share.name.group.len() + 2 * share.name.filter.len()
        } else {
            0
        };
        let untold = &mut self.shares.untold;
        untold.idle_bytes -= share.idle_bytes as usize;
        untold.idle_bytes += bytes;
        // A packet has far less than 2^32 bytes.
        share.idle_bytes = bytes as u32;
    }
}

/// The turns of the other shards have room for changes of shared subscriptions that cost this
/// many of their visits. Holds until the next call; without one there is no bound. Part of what
/// waits goes out now, so [`upkeep::effects`] has control items.
pub(crate) fn set_room(core: &mut Core, visits: u32) {
    core.routing.shares.untold.room = visits;
    // The other half is for new members, who would otherwise wait for all of them.
    tell_untold(core, visits / 2);
}

/// Whether something waits for room, and for nothing else.
pub(crate) fn waits_for_room(core: &Core) -> bool {
    let waits = !core.routing.shares.untold.slots.is_empty() || !core.inbound.slices.is_empty();
    core.routing.shares.untold.room == 0 && waits
}

/// Bytes of memory of shared subscriptions that have ended, and of which others have not heard
/// that yet.
pub(crate) const fn untold_bytes(core: &Core) -> u64 {
    core.routing.shares.untold.idle_bytes as u64
}

/// Tells the other shards what they have not heard yet, until only so much room is left.
pub(crate) fn tell_untold(core: &mut Core, left: u32) {
    while core.routing.shares.untold.room > left
        && let Some(slot) = core.routing.shares.untold.slots.pop_front()
    {
        post_counts(core, slot);
        if let Some(share) = core.routing.shares.slots.get_mut(slot as usize) {
            share.is_untold = false;
        }
        core.routing.count_idle(slot);
        core.routing.close_share_if_empty(slot);
    }
}

/// The numbers of this shard have changed.
pub(super) fn tell(core: &mut Core, slot: u32, telling: Telling) {
    if core.place.shards == 1 {
        return;
    }
    let untold = &mut core.routing.shares.untold;
    if telling == Telling::Now || untold.room > 0 && untold.slots.is_empty() {
        post_counts(core, slot);
    } else if let Some(share) = core.routing.shares.slots.get_mut(slot as usize)
        && !share.is_untold
    {
        share.is_untold = true;
        untold.slots.push_back(slot);
    }
    core.routing.count_idle(slot);
}

/// Writes the items, whether there is room or not.
fn post_counts(core: &mut Core, slot: u32) {
    let Some(share) = core.routing.shares.slots.get(slot as usize) else {
        return;
    };
    let count = share.counts[usize::from(core.place.shard.0)];
    for shard in (0..core.place.shards).filter(|shard| *shard != core.place.shard.0) {
        let item = ShardItem::ShareCount {
            name: Arc::clone(&share.name),
            shard: core.place.shard,
            live: count.live,
            away: count.away,
            keeps: count.keeps,
        };
        core.effects.control_items.push((ShardId(shard), item));
    }
    let untold = &mut core.routing.shares.untold;
    // Without a bound it stays so.
    if untold.room != u32::MAX {
        untold.room = untold.room.saturating_sub(count_visits(&share.name));
    }
    let others = usize::from(core.place.shards) - 1;
    core.turn.spend_each(others, TOLD_VISITS);
}

/// Whether other shards have not heard of all changes.
pub(crate) fn has_untold_shares(core: &Core) -> bool {
    !core.routing.shares.untold.slots.is_empty()
}
