//! The shared subscriptions that a shard knows of, by slot and by name.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use slab::Slab;
use smallvec::SmallVec;
use stentor_topic::{FilterId, TagTable, TopicHasher, Zone};

use super::{Share, ShareName, Untold};
use crate::core::routing::options::Options;

/// All shared subscriptions that a shard knows of.
#[derive(Debug)]
pub(crate) struct Shares {
    hasher: TopicHasher,
    pub(super) slots: Slab<Share>,
    /// Slots by the hashes of their names.
    by_name: TagTable,
    /// How many groups share a filter.
    groups: HashMap<FilterId, u32, foldhash::fast::FixedState>,
    /// Of which shared subscriptions a session is a member, by its slot and theirs: no more than
    /// [`crate::Settings::shares_max`].
    memberships: HashMap<u32, SmallVec<[u32; 2]>, foldhash::fast::FixedState>,
    /// How many memberships there are: those of queues do not count.
    members: usize,
    pub(super) numbers: u64,
    pub(super) untold: Untold,
    /// Slots that were made for messages that sessions of earlier starts are owed.
    pub(super) expected: Vec<u32>,
    /// How many of them are queues.
    queues: usize,
}

impl Shares {
    pub(crate) fn new(hasher: TopicHasher) -> Self {
        Self {
            hasher,
            slots: Slab::new(),
            by_name: TagTable::new(),
            groups: HashMap::default(),
            memberships: HashMap::default(),
            members: 0,
            numbers: 0,
            untold: Untold::default(),
            expected: Vec::new(),
            queues: 0,
        }
    }

    pub(crate) fn find(&self, zone: Zone, group: &str, filter: &str) -> Option<u32> {
        if self.by_name.is_empty() {
            return None;
        }
        let hash = hash(&self.hasher, zone, group, filter);
        let is_it = |slot: u32| {
            let share = self.slots.get(slot as usize);
            share.is_some_and(|share| {
                share.name.zone == zone
                    && *share.name.group == *group
                    && *share.name.filter == *filter
            })
        };
        self.by_name.find(hash, is_it)
    }

    pub(super) fn find_name(&self, name: &ShareName) -> Option<u32> {
        self.find(name.zone, &name.group, &name.filter)
    }

    /// The options of a member. O(1).
    pub(crate) fn options(&self, slot: u32, session: u32) -> Option<Options> {
        self.slots.get(slot as usize)?.members.options(session)
    }

    /// The member at a place of the list, by its session. O(1).
    pub(crate) fn member(&self, slot: u32, place: usize) -> Option<u32> {
        let share = self.slots.get(slot as usize)?;
        share.members.list.get(place).map(|(session, _)| *session)
    }

    /// Whether a session is a member. O(1).
    pub(crate) fn has_member(&self, slot: u32, session: u32) -> bool {
        let share = self.slots.get(slot as usize);
        share.is_some_and(|share| share.members.contains(session))
    }

    /// Of how many shared subscriptions a session is a member.
    pub(crate) fn memberships(&self, session: u32) -> usize {
        self.memberships.get(&session).map_or(0, SmallVec::len)
    }

    /// The same by their slots: a list of its own, so that the hub can be changed while it is
    /// walked. O(memberships), however many subscriptions the session has.
    pub(crate) fn of_member(&self, session: u32) -> SmallVec<[u32; 2]> {
        let slots = self.memberships.get(&session);
        slots.map_or_else(SmallVec::new, |slots| slots.as_slice().into())
    }

    /// A session has become a member.
    pub(super) fn joined(&mut self, session: u32, slot: u32) {
        self.memberships.entry(session).or_default().push(slot);
        self.members += 1;
    }

    /// How many memberships clients of this shard have. O(1).
    pub(crate) const fn members(&self) -> usize {
        self.members
    }

    /// One of its members is what keeps messages of a queue, or leaves as that.
    pub(super) const fn count_queue_session(&mut self, is_one: bool) {
        self.members = match is_one {
            true => self.members.saturating_sub(1),
            false => self.members + 1,
        };
    }

    /// A session is not a member any more. O(its memberships).
    pub(super) fn left(&mut self, session: u32, slot: u32) {
        let Some(slots) = self.memberships.get_mut(&session) else {
            return;
        };
        // A session that leaves them all begins with the last.
        if let Some(at) = slots.iter().rposition(|of| *of == slot) {
            slots.swap_remove(at);
            self.members = self.members.saturating_sub(1);
        }
        if slots.is_empty() {
            self.memberships.remove(&session);
        }
    }

    /// Whether some are queues: nearly always there are none.
    #[inline]
    pub(super) const fn has_queues(&self) -> bool {
        self.queues > 0
    }

    /// One is a queue from now on, or is not any more.
    pub(super) fn count_queue(&mut self, before: bool, after: bool) {
        self.queues = (self.queues + usize::from(after)).saturating_sub(usize::from(before));
    }

    /// How many groups share a filter of the index.
    pub(super) fn groups(&self, filter: FilterId) -> usize {
        self.groups.get(&filter).copied().unwrap_or(0) as usize
    }

    pub(super) fn insert(&mut self, share: Share) -> u32 {
        let name = Arc::clone(&share.name);
        *self.groups.entry(share.filter).or_default() += 1;
        let slot = u32::try_from(self.slots.insert(share)).unwrap_or(u32::MAX);
        let hash = hash(&self.hasher, name.zone, &name.group, &name.filter);
        self.by_name.insert_unique(hash, slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let Some(share) = self.slots.try_remove(slot as usize) else {
            return;
        };
        decrease(&mut self.groups, share.filter);
        let name = &share.name;
        let hash = hash(&self.hasher, name.zone, &name.group, &name.filter);
        self.by_name.remove(hash, slot);
    }

    /// As it is in a SUBSCRIBE.
    pub(crate) fn text(&self, slot: u32) -> String {
        self.slots
            .get(slot as usize)
            .map_or_else(String::new, |share| {
                format!("$share/{}/{}", share.name.group, share.name.filter)
            })
    }

    /// The name of one, to keep.
    pub(crate) fn shared_name(&self, slot: u32) -> Option<Arc<ShareName>> {
        let share = self.slots.get(slot as usize)?;
        Some(Arc::clone(&share.name))
    }

    /// Its group and filter.
    pub(crate) fn name(&self, slot: u32) -> Option<&ShareName> {
        self.slots.get(slot as usize).map(|share| &*share.name)
    }

    /// What its members subscribed to.
    pub(crate) fn filter(&self, slot: u32) -> &str {
        let share = self.slots.get(slot as usize);
        share.map_or("", |share| &share.name.filter)
    }

    /// All of them, with the number of members on this shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ShareName, usize)> {
        let shares = self.slots.iter();
        shares.filter_map(|(slot, _)| self.in_slot(slot))
    }

    /// The one in a slot, with the number of members on this shard.
    pub(crate) fn in_slot(&self, slot: usize) -> Option<(&ShareName, usize)> {
        let share = self.slots.get(slot)?;
        let members = share.members.list.len() - usize::from(share.queue.is_some());
        Some((&share.name, members))
    }

    /// All of them are in slots below this one.
    pub(crate) fn slots_end(&self) -> usize {
        self.slots.capacity()
    }

    /// The number of a shared subscription, which names it for as long as it is there.
    pub(crate) fn number(&self, slot: u32) -> Option<u64> {
        self.slots.get(slot as usize).map(|share| share.number)
    }

    /// The serial number of the newest one.
    pub(crate) const fn last_serial(&self) -> u64 {
        self.numbers
    }

    /// The serial number of the one with this number: newer ones have a higher one.
    pub(crate) const fn serial_of(&self, number: u64) -> u64 {
        number >> 32
    }

    pub(crate) fn by_number(&self, number: u64) -> Option<u32> {
        let slot = (number & 0xFFFF_FFFF) as u32;
        self.slots
            .get(slot as usize)
            .filter(|share| share.number == number)
            .map(|_| slot)
    }
}

/// The keyed hash of a shared subscription's name.
fn hash(hasher: &TopicHasher, zone: Zone, group: &str, filter: &str) -> u64 {
    // Turned, so that a group that is called like its filter is nothing special.
    hasher.hash(zone, group).rotate_left(32) ^ hasher.hash(zone, filter)
}

/// Counts one less, and nothing any more at 0.
fn decrease(counts: &mut HashMap<FilterId, u32, foldhash::fast::FixedState>, key: FilterId) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}
