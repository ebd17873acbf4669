//! A round of bases: what it has written again, and when it is over.
//!
//! When a round has ended, the files go that were there before it began. So a message that somebody
//! is owed has to be in a later file, whoever wrote it there.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use stentor_session_log::Name;

use super::parts::Parted;

/// Names of messages, in many small tables: the growth of one large table would take a turn too
/// much time.
#[derive(Debug, Default)]
struct Names(Vec<HashSet<Name, FixedState>>);

impl Names {
    const TABLES: usize = 64;

    fn place(name: Name) -> usize {
        // The tables use other bits of it.
        let hash = FixedState::default().hash_one(name);
        (hash >> 32) as usize % Self::TABLES
    }

    fn has(&self, name: Name) -> bool {
        let table = self.0.get(Self::place(name));
        table.is_some_and(|table| table.contains(&name))
    }

    fn insert(&mut self, name: Name) {
        if self.0.is_empty() {
            self.0.resize_with(Self::TABLES, HashSet::default);
        }
        if let Some(table) = self.0.get_mut(Self::place(name)) {
            table.insert(name);
        }
    }

    fn remove(&mut self, name: Name) {
        if let Some(table) = self.0.get_mut(Self::place(name)) {
            table.remove(&name);
        }
    }
}

/// The present round, or the last one.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Rounds that have begun.
    number: u32,
    is_under_way: bool,
    /// The first batch of this shard since it began: what has a later name stays.
    since: Option<Name>,
    /// Messages that have been written again.
    carried: Names,
    /// Those of them whose batches are not appended, with the numbers of these.
    fresh: VecDeque<(u32, Name)>,
    /// The session whose messages are being written again, by its slot, and the number of the
    /// delivery to go on with.
    place: Option<(u32, u64)>,
    /// How far it has come with a large session.
    pub(super) parted: Option<Parted>,
    /// What was under way when all bases were written.
    pub(super) awaited: Option<Vec<(u8, Name)>>,
}

impl Round {
    /// Another one begins.
    pub(super) fn begins(&mut self) {
        *self = Self {
            number: self.number.wrapping_add(1),
            is_under_way: true,
            ..Self::default()
        };
    }

    /// It is over, or given up. What was written since it began stays.
    pub(super) fn ends(&mut self) {
        self.is_under_way = false;
        self.carried = Names::default();
        self.parted = None;
        self.fresh = VecDeque::new();
        self.awaited = None;
    }

    /// The first batch of this shard since it began.
    pub(super) const fn since(&self) -> Option<Name> {
        self.since
    }

    /// While this stays the same, nothing goes that is there now. `None` if something may go soon.
    pub(super) fn epoch(&self) -> Option<u32> {
        (!self.is_under_way).then_some(self.number)
    }

    /// Whether a message is known to be in a file that stays.
    pub(super) fn has(&self, is_own: bool, name: Name) -> bool {
        is_own && self.since.is_some_and(|since| since <= name) || self.carried.has(name)
    }

    /// The present batch writes a message again, if that is needed. Returns whether it is. That is
    /// remembered until all bases of the round are written.
    pub(super) fn carries(&mut self, batch: u32, is_own: bool, name: Name) -> bool {
        let is_needed = !self.has(is_own, name);
        if is_needed && self.is_under_way && self.awaited.is_none() {
            self.carried.insert(name);
            self.fresh.push_back((batch, name));
        }
        is_needed
    }

    /// The number of the delivery of a session to go on with.
    pub(super) fn place_in(&self, slot: u32) -> u64 {
        let place = self.place.filter(|(of, _)| *of == slot);
        place.map_or(0, |(_, number)| number)
    }

    /// The round goes on with this delivery of a session later.
    pub(super) const fn stops_at(&mut self, slot: u32, number: u64) {
        self.place = Some((slot, number));
    }

    /// A batch was appended there, or dropped. O(what it carried).
    pub(super) fn logged(&mut self, batch: u32, at: Option<Name>) {
        match (&mut self.parted, at) {
            (Some(parted), Some(_)) => parted.logged(batch),
            // It may be that a part is missing, or what has become of a delivery in it.
            (parted, None) => *parted = None,
            (None, Some(_)) => {}
        }
        while let Some((_, name)) = self.fresh.pop_front_if(|(of, _)| *of == batch) {
            if at.is_none() {
                self.carried.remove(name);
                self.place = None;
            }
        }
        self.since = self.since.or(at);
    }
}
