//! What a session is owed that lies elsewhere.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use stentor_mqtt::PacketId;

use super::restored::RestoredChunk;
use crate::spooled::{Place, Spooled};

/// The chunks, in order, and what has become of their deliveries.
#[derive(Debug, Default)]
pub(super) struct Spool {
    chunks: VecDeque<(u64, u8, Place)>,
    /// Deliveries that are not to be sent any more.
    gone: BTreeSet<u64>,
    odd: BTreeMap<u64, PacketId>,
}

impl Spool {
    /// Adds a chunk, unless it overlaps with another one: no server writes that.
    pub(super) fn push(&mut self, it: &Spooled) {
        let at = self.chunks.partition_point(|(first, ..)| *first < it.first);
        let follows = self
            .chunks
            .get(at)
            .is_none_or(|(first, ..)| it.end() <= *first);
        if follows && !self.has(it.first) {
            self.chunks.insert(at, (it.first, it.count, it.place));
        }
    }

    pub(super) fn has(&self, delivery: u64) -> bool {
        let after = self
            .chunks
            .partition_point(|(first, ..)| *first <= delivery);
        let chunk = after.checked_sub(1).and_then(|at| self.chunks.get(at));
        chunk.is_some_and(|(first, count, _)| delivery < first + u64::from(*count))
    }

    pub(super) fn gone(&mut self, delivery: u64) {
        if self.has(delivery) {
            self.gone.insert(delivery);
        }
    }

    pub(super) fn sent_as(&mut self, delivery: u64, packet_id: PacketId) {
        if self.has(delivery) {
            self.odd.insert(delivery, packet_id);
        }
    }

    pub(super) fn odd(&self, delivery: u64) -> Option<PacketId> {
        self.odd.get(&delivery).copied()
    }

    /// Everything before a number is done.
    pub(super) fn trim(&mut self, front: u64) {
        let is_over =
            |(first, count, _): &mut (u64, u8, Place)| *first + u64::from(*count) <= front;
        while self.chunks.pop_front_if(is_over).is_some() {}
        if self.gone.first().is_some_and(|first| *first < front) {
            self.gone = self.gone.split_off(&front);
        }
        if self.odd.keys().next().is_some_and(|first| *first < front) {
            self.odd = self.odd.split_off(&front);
        }
        if let Some((first, ..)) = self.chunks.front() {
            self.gone.extend(*first..front);
        }
    }

    /// The chunks, in order.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Spooled> {
        let all = self.chunks.iter();
        all.map(|(first, count, place)| Spooled {
            number: 0,
            first: *first,
            count: *count,
            place: *place,
        })
    }

    /// Deliveries in them that are not to be sent any more.
    pub(super) fn all_gone(&self) -> impl Iterator<Item = u64> {
        self.gone.iter().copied()
    }

    /// Packet ids in them that do not follow from the numbers.
    pub(super) fn all_odd(&self) -> impl Iterator<Item = (u64, PacketId)> {
        self.odd.iter().map(|(at, id)| (*at, *id))
    }

    /// The first delivery that is to be sent.
    pub(super) fn first(&self) -> Option<u64> {
        let mut all = self.chunks.iter();
        all.find_map(|(first, count, _)| {
            let mut numbers = *first..*first + u64::from(*count);
            numbers.find(|number| !self.gone.contains(number))
        })
    }

    /// As they are at the end: what is gone altogether is left out.
    pub(super) fn restored(&self) -> Vec<RestoredChunk> {
        let all = self.chunks.iter().map(|(first, count, place)| {
            let range = *first..*first + u64::from(*count);
            RestoredChunk {
                first: *first,
                count: *count,
                place: *place,
                gone: self.gone.range(range.clone()).copied().collect(),
                odd: self.odd.range(range).map(|(at, id)| (*at, *id)).collect(),
            }
        });
        all.filter(|it| it.gone.len() < usize::from(it.count))
            .collect()
    }
}
