//! How much the shards give each other to do through their control queues.
//!
//! A shard applies all its commands before it applies what it reads afterwards, so it cannot leave
//! some of them for a later turn. Clients can cause very many of one kind, changes of shared
//! subscriptions; so a shard that sends those looks how much the others have got since their
//! present turns began, and its hub keeps the rest. A shard whose control queue was full wakes the
//! others when it begins its next turn.
//!
//! Nobody waits for a shard that waits: whoever has no room applies its own commands all the same.

use super::Shard;
use crate::context::Way;

/// What one of many shards may add to a control queue that is not full, in visits: some commands.
const PART_MIN: u32 = 256;

impl Shard {
    /// A turn begins: the others may give this shard work again, and it sees how much they take.
    pub(super) fn share_control_queues(&mut self) {
        if self.context.shards[self.id].control_queue.begin_turn() {
            for other in self.others() {
                other.control_queue.wake();
            }
        }
        let visits = self.share_room();
        self.hub.turn_mut().set_share_room(visits);
        if !self.hub.effects().control_items.is_empty() {
            self.forward();
        }
    }

    /// Whether the hub has waited for room in the control queues of others, and there is some.
    pub(super) fn may_tell(&self) -> bool {
        self.hub.turn().waits_for_share_room() && self.share_room() > 0
    }

    /// What this shard may add to the fullest control queue. O(shards).
    fn share_room(&self) -> u32 {
        let free = self.others().map(|other| other.control_queue.free());
        free.min()
            .map_or(u32::MAX, |free| part(free, self.others().count()))
    }

    fn others(&self) -> impl Iterator<Item = &Way> {
        let all = self.context.shards.iter().enumerate();
        let others = all.filter(|(shard, _)| *shard != self.id);
        others.map(|(_, way)| way)
    }
}

/// What one of several shards may add, which may all do that at once.
fn part(free: u32, shards: usize) -> u32 {
    // There are at most 64.
    let part = free / (shards.max(1) as u32);
    part.max(PART_MIN.min(free))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::LOAD_MAX;

    #[test]
    fn each_shard_has_a_part_of_what_is_free() {
        assert_eq!(part(LOAD_MAX, 1), LOAD_MAX);
        assert_eq!(part(LOAD_MAX, 4), LOAD_MAX / 4);
        assert_eq!(part(LOAD_MAX, 63), PART_MIN);
        assert_eq!((part(10, 63), part(0, 1)), (10, 0));
    }
}
