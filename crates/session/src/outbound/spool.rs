//! Deliveries that wait on the disk, between those in flight and the newest ones.
//!
//! While a session is away, the oldest of what waits goes to the disk in *chunks*. In memory, a
//! chunk takes 16 bytes. It is a *run* until the disk has it: its deliveries are still here. When
//! the client is back, chunks are fetched one after the other. One that was fetched is *open*
//! until all of its deliveries are done: until then a restart needs it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ops::Range;

use stentor_mqtt::PacketId;

use super::Delivery;
use super::owed::{Piece, behind};
use super::waiting::Waiting;
use crate::blocks::Blocks;

/// Deliveries of a chunk, at most.
pub const CHUNK_LEN: usize = 64;
/// Bytes of the messages of a chunk, unless the first one is larger.
pub const CHUNK_BYTES: usize = 32 << 10;
/// This many of the newest deliveries stay in memory, and as many of the oldest while they go out.
pub(super) const KEPT_LEN: usize = 64;
/// Nothing is fetched while what is next costs as much.
const FRONT_BYTES: usize = 64 << 10;

/// Where a chunk lies on the disk. Only the store knows more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkPlace {
    /// The number of the file.
    pub file: NonZeroU32,
    /// Where it begins there.
    pub at: u16,
    /// How long it is.
    pub len: u16,
}

/// Deliveries with numbers that follow each other, on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The first number.
    pub first: u64,
    /// How many there are: from 1 to [`CHUNK_LEN`].
    pub count: u8,
    /// Where they are.
    pub place: ChunkPlace,
}

impl Chunk {
    /// The number after the last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    /// Whether a delivery is in it.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        (self.first..self.end()).contains(&number)
    }
}

/// A chunk as a session that was restored has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// The chunk.
    pub chunk: Chunk,
    /// Deliveries in it that are done, or that the client has received at QoS 2.
    pub gone: Vec<u64>,
    /// Packet ids that do not follow from the numbers of deliveries in it.
    pub odd: Vec<(u64, PacketId)>,
}

/// A chunk in little room.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// The low half of the first number.
    first: u32,
    place: ChunkPlace,
    count: u8,
}

impl Packed {
    const fn new(chunk: Chunk) -> Self {
        Self {
            first: chunk.first as u32,
            place: chunk.place,
            count: chunk.count,
        }
    }

    /// `next` is a number that follows: no session waits for 2^32 messages.
    fn chunk(self, next: u64) -> Chunk {
        let before = (next as u32).wrapping_sub(self.first);
        Chunk {
            first: next - u64::from(before),
            count: self.count,
            place: self.place,
        }
    }
}

/// Deliveries that are in memory, between chunks.
#[derive(Debug)]
struct Run {
    deliveries: Vec<Delivery>,
    /// The number of the first one, or of what is before it if it has none: ascending.
    key: u64,
    /// What they cost.
    bytes: usize,
    /// Whether they are about to become a chunk.
    is_under_way: bool,
}

#[derive(Debug)]
enum Item {
    Chunk(Packed),
    Run(Box<Run>),
}

/// A chunk that was fetched, and how many of its deliveries are not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    chunk: Chunk,
    left: u8,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Spool {
    /// What is next: of chunks that were fetched, and of runs before the first chunk.
    pub(super) front: Blocks<Delivery>,
    /// What that costs.
    front_bytes: usize,
    items: VecDeque<Item>,
    open: VecDeque<Open>,
    /// Chunks that nobody needs any more.
    done: Vec<Chunk>,
    /// Deliveries of chunks that are gone, as far as these were not fetched since the start.
    gone: BTreeSet<u64>,
    /// Their packet ids that do not follow from their numbers.
    pub(super) odd: BTreeMap<u64, PacketId>,
    /// The first number of the chunk that is being fetched.
    fetching: Option<u64>,
    /// Deliveries in chunks that were not fetched.
    chunk_len: usize,
    /// Deliveries in runs, and those of them that are under way, with what these cost.
    run_len: usize,
    under_way_len: usize,
    under_way_bytes: usize,
    /// Runs that the disk has refused, and a number that is not above that of the first.
    refused: usize,
    refused_from: u64,
    /// What all chunks take on the disk, in the unit of [`ChunkPlace::len`].
    disk_len: u64,
}

/// What a session leaves that has ended.
#[derive(Debug)]
pub(super) enum GivenUp {
    Delivery(Delivery),
    /// What was on the disk.
    Chunk(Chunk),
}

/// Deliveries that are to become a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Sealing<'a> {
    /// The first number.
    pub first: u64,
    /// They have numbers that follow each other.
    pub deliveries: &'a [Delivery],
}

/// The highest number that may be in it.
fn last_of(item: &Item, next: u64) -> u64 {
    match item {
        Item::Chunk(packed) => packed.chunk(next).end() - 1,
        Item::Run(run) => {
            // Few have no number.
            let mut numbers = run.deliveries.iter().rev().map(|it| it.number);
            let last = numbers.find(|number| *number > 0);
            last.unwrap_or(0).max(run.key)
        }
    }
}

/// Whether it is a run that the disk has refused, or one like it.
fn is_refused(item: &Item) -> bool {
    match item {
        Item::Run(run) => !run.is_under_way && is_sealable(&run.deliveries),
        Item::Chunk(_) => false,
    }
}

/// Whether these could be a chunk.
fn is_sealable(deliveries: &[Delivery]) -> bool {
    let first = deliveries.first().map_or(0, |it| it.number);
    let numbers = (first..).zip(deliveries);
    let follows = { numbers }.all(|(number, it)| it.number == number && it.share == 0);
    first > 0 && deliveries.len() <= CHUNK_LEN && follows
}

/// What a chunk on the disk has.
#[derive(Debug)]
pub(super) struct Unsealed {
    /// What the deliveries cost that have left the memory.
    pub(super) bytes: usize,
}

impl Spool {
    /// Goes on with a chunk that was written down, behind the others.
    pub(super) fn restore(&mut self, spooled: Spooled) {
        let Spooled { chunk, gone, odd } = spooled;
        self.disk_len += u64::from(chunk.place.len);
        self.items.push_back(Item::Chunk(Packed::new(chunk)));
        self.gone
            .extend(gone.into_iter().filter(|number| chunk.has(*number)));
        let gone = self.gone.range(chunk.first..chunk.end()).count();
        self.chunk_len += usize::from(chunk.count).saturating_sub(gone);
        self.odd.extend(odd);
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_over(&self) -> bool {
        let knows = !self.open.is_empty() || !self.done.is_empty() || !self.odd.is_empty();
        self.is_empty() && !knows
    }

    /// Whether nothing waits here.
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.items.is_empty()
    }

    /// How many deliveries wait here.
    pub(super) fn len(&self) -> usize {
        self.chunk_len + self.front.len() + self.run_len
    }

    /// How many of them are in memory, and are not about to leave it.
    pub(super) fn held_len(&self) -> usize {
        self.front.len() + self.run_len - self.under_way_len
    }

    /// How many of them are on the disk alone.
    pub(super) const fn chunk_len(&self) -> usize {
        self.chunk_len
    }

    /// What those cost that are about to leave the memory.
    pub(super) const fn under_way_bytes(&self) -> usize {
        self.under_way_bytes
    }

    /// What the chunks take on the disk, in the unit of [`ChunkPlace::len`].
    pub(super) const fn disk_len(&self) -> u64 {
        self.disk_len
    }

    /// Bytes of memory that it takes, without deliveries.
    pub(super) fn own_bytes(&self) -> usize {
        size_of::<Self>()
            + self.items.capacity() * size_of::<Item>()
            + self.open.capacity() * size_of::<Open>()
    }

    /// The lowest number of what waits here. `next` is the number of the next delivery.
    pub(super) fn first(&self, next: u64) -> Option<u64> {
        let numbered = |delivery: &&Delivery| delivery.number > 0;
        let front = self.front.iter().find(numbered).map(|it| it.number);
        front.or_else(|| self.first_item(next))
    }

    /// The lowest number of what waits behind the front.
    pub(super) fn first_item(&self, next: u64) -> Option<u64> {
        self.items.iter().find_map(|item| match item {
            Item::Chunk(packed) => {
                let chunk = packed.chunk(next);
                (chunk.first..chunk.end()).find(|number| !self.gone.contains(number))
            }
            Item::Run(run) => {
                let numbers = run.deliveries.iter().map(|it| it.number);
                { numbers }.find(|number| *number > 0)
            }
        })
    }

    /// The deliveries that are in memory, in order.
    pub(super) fn held(&self) -> impl Iterator<Item = &Delivery> {
        self.front.iter().chain(self.runs())
    }

    /// The same without those that were fetched.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Delivery> {
        let runs = self.items.iter().filter_map(|item| match item {
            Item::Run(run) => Some(run.deliveries.iter()),
            Item::Chunk(_) => None,
        });
        runs.flatten()
    }

    /// How many chunks there are that were not fetched, and messages in runs, about.
    pub(super) fn items_len(&self) -> usize {
        self.items.len() + self.run_len
    }

    /// These, from a number on. O(log items), and what is looked at.
    pub(super) fn items_from(&self, from: u64, next: u64) -> impl Iterator<Item = Waiting<'_>> {
        let at = self
            .items
            .partition_point(|item| last_of(item, next) < from);
        let all = self.items.range(at..).flat_map(move |item| {
            let (chunk, run) = match item {
                Item::Chunk(packed) => (Some(packed.chunk(next)), None),
                Item::Run(run) => (None, Some(run)),
            };
            let chunk = chunk.map(|chunk| Waiting::Chunk(self.unfetched(chunk)));
            let run = run.into_iter().flat_map(|run| &run.deliveries);
            let run = run
                .filter(|it| it.number > 0)
                .map(|delivery| Waiting::Here {
                    number: delivery.number,
                    packet_id: self.odd.get(&delivery.number).copied(),
                    delivery,
                });
            chunk.into_iter().chain(run)
        });
        all.skip_while(move |it| it.first() < from)
    }

    /// Runs and chunks that were not fetched, behind the delivery of a number, one piece after the
    /// other. O(log items), and what is looked at.
    pub(super) fn pieces_behind(&self, after: u64, next: u64) -> impl Iterator<Item = Piece<'_>> {
        // A run without numbers has that of what is before it.
        let at = { &self.items }.partition_point(|item| last_of(item, next) < after);
        self.items.range(at..).flat_map(move |item| {
            let (chunk, run) = match item {
                Item::Chunk(packed) => (Some(packed.chunk(next)), Vec::new()),
                Item::Run(run) => (None, behind(run.deliveries.iter().collect(), after)),
            };
            let chunk = chunk.filter(|chunk| chunk.end() > after + 1);
            let chunk = chunk.map(|chunk| Piece::Chunk(self.unfetched(chunk)));
            chunk.into_iter().chain(run.into_iter().map(Piece::Here))
        })
    }

    /// A chunk that was not fetched, as it is to be restored.
    fn unfetched(&self, chunk: Chunk) -> Spooled {
        let range = chunk.first..chunk.end();
        Spooled {
            chunk,
            gone: self.gone.range(range.clone()).copied().collect(),
            odd: self.odd.range(range).map(|(at, id)| (*at, *id)).collect(),
        }
    }

    /// Takes these out of the queue, to be a chunk. They wait here until then.
    pub(super) fn seal(&mut self, deliveries: Vec<Delivery>) -> Sealing<'_> {
        let bytes = deliveries.iter().map(Delivery::cost).sum();
        self.run_len += deliveries.len();
        self.under_way_len += deliveries.len();
        self.under_way_bytes += bytes;
        let key = deliveries.first().map_or(0, |it| it.number);
        self.items.push_back(Item::Run(Box::new(Run {
            deliveries,
            key,
            bytes,
            is_under_way: true,
        })));
        let last = match self.items.back() {
            Some(Item::Run(run)) => &run.deliveries[..],
            _ => &[],
        };
        Sealing {
            first: last.first().map_or(0, |it| it.number),
            deliveries: last,
        }
    }

    /// Takes one out of the queue that stays in memory.
    pub(super) fn keep(&mut self, delivery: Delivery, next: u64) {
        self.run_len += 1;
        let bytes = delivery.cost();
        let before = self.items.back().map_or(0, |item| last_of(item, next));
        let key = delivery.number.max(before);
        match self.items.back_mut() {
            Some(Item::Run(run)) if !run.is_under_way && run.deliveries.len() < CHUNK_LEN => {
                run.bytes += bytes;
                run.deliveries.push(delivery);
            }
            _ => self.items.push_back(Item::Run(Box::new(Run {
                deliveries: [delivery].into(),
                key,
                bytes,
                is_under_way: false,
            }))),
        }
    }

    /// Where a run or a chunk stands whose first number is this. O(log items).
    fn position(&self, first: u64, next: u64) -> Option<usize> {
        let key = |item: &Item| match item {
            Item::Chunk(packed) => packed.chunk(next).first,
            Item::Run(run) => run.key,
        };
        let from = self.items.partition_point(|item| key(item) < first);
        let mut all = self.items.iter().enumerate().skip(from);
        let found = all.find(|(_, item)| match item {
            Item::Chunk(_) => true,
            Item::Run(run) => run.deliveries.first().is_none_or(|it| it.number == first),
        });
        let (index, item) = found?;
        (key(item) == first).then_some(index)
    }

    /// Whether there are runs that the disk has refused.
    pub(super) fn has_refused(&mut self, next: u64) -> bool {
        if self.refused > 0 && self.first_refused(next).is_none() {
            self.refused = 0;
        }
        self.refused > 0
    }

    /// The first run that the disk has refused. O(log items), and what is between such runs.
    fn first_refused(&self, next: u64) -> Option<usize> {
        let from = self.refused_from;
        let at = self
            .items
            .partition_point(|item| last_of(item, next) < from);
        let found = self.items.range(at..).position(is_refused)?;
        Some(at + found)
    }

    /// A run that the disk has refused, to be given to it again.
    pub(super) fn seal_again(&mut self, next: u64) -> Option<Sealing<'_>> {
        if self.refused == 0 {
            return None;
        }
        let Some(index) = self.first_refused(next) else {
            self.refused = 0;
            return None;
        };
        self.refused -= 1;
        let Some(Item::Run(run)) = self.items.get_mut(index) else {
            return None;
        };
        self.refused_from = run.key;
        run.is_under_way = true;
        self.under_way_len += run.deliveries.len();
        self.under_way_bytes += run.bytes;
        Some(Sealing {
            first: run.key,
            deliveries: &run.deliveries,
        })
    }

    /// The disk has a run, or has refused it. Returns what left the memory, or `None` if the chunk
    /// is of no use: then it can go.
    pub(super) fn sealed(
        &mut self,
        first: u64,
        count: u8,
        place: Option<ChunkPlace>,
        next: u64,
    ) -> Option<Unsealed> {
        let index = self.position(first, next)?;
        let item = self.items.get_mut(index)?;
        let Item::Run(run) = item else {
            return None;
        };
        if !run.is_under_way || run.deliveries.len() != usize::from(count) {
            return None;
        }
        run.is_under_way = false;
        self.under_way_len -= run.deliveries.len();
        self.under_way_bytes -= run.bytes;
        let Some(place) = place else {
            self.refused_from = match self.refused {
                0 => first,
                _ => self.refused_from.min(first),
            };
            self.refused += 1;
            return None;
        };
        let bytes = run.bytes;
        *item = Item::Chunk(Packed::new(Chunk {
            first,
            count,
            place,
        }));
        self.run_len -= usize::from(count);
        self.chunk_len += usize::from(count);
        self.disk_len += u64::from(place.len);
        Some(Unsealed { bytes })
    }

    /// Moves runs to the front that nothing is before.
    fn refill(&mut self) {
        while self.front.len() < KEPT_LEN
            && self.front_bytes < FRONT_BYTES
            && let Some(Item::Run(_)) = self.items.front()
            && let Some(Item::Run(run)) = self.items.pop_front()
        {
            self.run_len -= run.deliveries.len();
            if run.is_under_way {
                self.under_way_len -= run.deliveries.len();
                self.under_way_bytes -= run.bytes;
            }
            self.front_bytes += run.bytes;
            for delivery in run.deliveries {
                self.front.push_back(delivery);
            }
        }
    }

    /// The next delivery; `None` if it is on the disk, or if there is none.
    pub(super) fn pop_front(&mut self) -> Option<Delivery> {
        if self.front.is_empty() {
            self.refill();
        }
        let next = self.front.pop_front()?;
        self.front_bytes -= next.cost();
        Some(next)
    }

    /// The chunk to fetch now, if little is left before it and none is being fetched.
    pub(super) fn next_fetch(&mut self, next: u64) -> Option<Chunk> {
        self.refill();
        let is_enough = self.front.len() >= KEPT_LEN || self.front_bytes >= FRONT_BYTES;
        if self.fetching.is_some() || is_enough {
            return None;
        }
        let Some(Item::Chunk(packed)) = self.items.front() else {
            return None;
        };
        let chunk = packed.chunk(next);
        self.fetching = Some(chunk.first);
        Some(chunk)
    }

    /// The chunk that was being fetched, if this is the one. It is not in the queue any more.
    fn take_fetched(&mut self, first: u64, next: u64) -> Option<Chunk> {
        self.fetching.take_if(|it| *it == first)?;
        let Some(Item::Chunk(packed)) = self.items.front() else {
            return None;
        };
        let chunk = packed.chunk(next);
        if chunk.first != first {
            return None;
        }
        self.items.pop_front();
        Some(chunk)
    }

    /// What was fetched: a delivery for each number of the chunk, or nothing if nobody can read it.
    /// Those that `may_have` refuses are not owed any more. `is_in_flight` tells what waits for its
    /// PUBCOMP. Returns what is in memory now, in bytes, and the numbers of what is not owed any
    /// more; `None` if nobody waits for it.
    pub(super) fn fetched(
        &mut self,
        first: u64,
        next: u64,
        deliveries: Vec<Delivery>,
        mut may_have: impl FnMut(&Delivery) -> bool,
        is_in_flight: impl Fn(u64) -> bool,
    ) -> Option<(usize, Vec<u64>)> {
        let chunk = self.take_fetched(first, next)?;
        let (mut bytes, mut lost, mut left) = (0, Vec::new(), 0);
        let mut found = deliveries.into_iter().peekable();
        for number in first..chunk.end() {
            let delivery = found.next_if(|it| it.number == number);
            if self.gone.remove(&number) {
                left += u8::from(is_in_flight(number));
                continue;
            }
            self.chunk_len -= 1;
            match delivery.filter(&mut may_have) {
                Some(delivery) => {
                    left += 1;
                    bytes += delivery.cost();
                    self.front_bytes += delivery.cost();
                    self.front.push_back(delivery);
                }
                None => lost.push(number),
            }
        }
        match left {
            0 => self.gives_up(chunk),
            _ => self.open.push_back(Open { chunk, left }),
        }
        Some((bytes, lost))
    }

    /// A delivery is done. If it was the last one of its chunk, nobody needs that any more.
    pub(super) fn is_done(&mut self, number: u64) {
        self.odd.remove(&number);
        let Some(index) = self.open_position(number) else {
            // It was never on the disk, or its chunk was not fetched since the start.
            return;
        };
        if let Some(open) = self.open.get_mut(index) {
            open.left = open.left.saturating_sub(1);
            if open.left == 0 {
                let chunk = open.chunk;
                self.open.remove(index);
                self.gives_up(chunk);
            }
        }
    }

    fn gives_up(&mut self, chunk: Chunk) {
        self.disk_len -= u64::from(chunk.place.len);
        self.done.push(chunk);
    }

    /// Takes out the chunks that nobody needs any more.
    pub(super) fn take_done(&mut self) -> Vec<Chunk> {
        core::mem::take(&mut self.done)
    }

    /// Whether a delivery is in a chunk that was fetched.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open_position(number).is_some()
    }

    /// Chunks are fetched in order.
    fn open_position(&self, number: u64) -> Option<usize> {
        let after = { &self.open }.partition_point(|open| open.chunk.first <= number);
        let index = after.checked_sub(1)?;
        let open = self.open.get(index)?;
        open.chunk.has(number).then_some(index)
    }

    /// All chunks, in order, as they are to be restored, but for those that were not fetched and
    /// begin with a number of `parts`. `owed` tells which deliveries of those that were fetched are
    /// owed still, with the packet ids that do not follow from their numbers.
    pub(super) fn spooled(
        &self,
        next: u64,
        parts: &Range<u64>,
        owed: impl Fn(&Chunk) -> (Vec<u64>, Vec<(u64, PacketId)>),
    ) -> Vec<Spooled> {
        let open = self.open.iter().map(|open| {
            let chunk = open.chunk;
            let (owed, odd) = owed(&chunk);
            let gone = (chunk.first..chunk.end()).filter(|number| !owed.contains(number));
            Spooled {
                chunk,
                gone: gone.collect(),
                odd,
            }
        });
        let rest = self.items.iter().filter_map(|item| {
            let Item::Chunk(packed) = item else {
                return None;
            };
            let chunk = packed.chunk(next);
            (!parts.contains(&chunk.first)).then(|| self.unfetched(chunk))
        });
        open.chain(rest).collect()
    }

    /// Nothing is owed any more: takes out one piece after the other. What is in memory comes in
    /// its order.
    pub(super) fn give_up(&mut self, next: u64) -> Option<GivenUp> {
        if let Some(delivery) = self.front.pop_front() {
            return Some(GivenUp::Delivery(delivery));
        }
        if let Some(open) = self.open.pop_front() {
            return Some(GivenUp::Chunk(open.chunk));
        }
        if let Some(chunk) = self.done.pop() {
            return Some(GivenUp::Chunk(chunk));
        }
        match self.items.pop_front()? {
            Item::Chunk(packed) => Some(GivenUp::Chunk(packed.chunk(next))),
            Item::Run(run) => {
                // At most as many as a chunk has.
                let mut all = run.deliveries.into_iter();
                let first = all.next();
                all.for_each(|delivery| self.front.push_back(delivery));
                first.map_or_else(|| self.give_up(next), |it| Some(GivenUp::Delivery(it)))
            }
        }
    }

    /// How many pieces that is, about. O(1).
    pub(super) fn pieces(&self) -> usize {
        self.front.len() + self.run_len + self.items.len() + self.open.len() + self.done.len()
    }

    /// Keeps such deliveries only, of those that are in memory. Gives away the others.
    pub(super) fn withdraw(
        &mut self,
        mut may_have: impl FnMut(&Delivery) -> bool,
    ) -> Vec<Delivery> {
        let mut withdrawn = Vec::new();
        for delivery in self.front.take() {
            match may_have(&delivery) {
                true => self.front.push_back(delivery),
                false => {
                    self.front_bytes -= delivery.cost();
                    withdrawn.push(delivery);
                }
            }
        }
        for item in &mut self.items {
            let Item::Run(run) = item else {
                continue;
            };
            let gone = run.deliveries.extract_if(.., |it| !may_have(it));
            let gone: Vec<Delivery> = gone.collect();
            if gone.is_empty() {
                continue;
            }
            if core::mem::take(&mut run.is_under_way) {
                // The chunk would have more than there is.
                self.under_way_len -= run.deliveries.len() + gone.len();
                self.under_way_bytes -= run.bytes;
            }
            self.run_len -= gone.len();
            run.bytes -= gone.iter().map(Delivery::cost).sum::<usize>();
            withdrawn.extend(gone);
        }
        self.items
            .retain(|item| !matches!(item, Item::Run(run) if run.deliveries.is_empty()));
        withdrawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_16_bytes() {
        assert_eq!(size_of::<Item>(), 16);
    }

    #[test]
    fn a_packed_chunk_knows_its_first_number() {
        let place = ChunkPlace {
            file: NonZeroU32::MIN,
            at: 3,
            len: 9,
        };
        for first in [1, 77, u64::from(u32::MAX), (7 << 32) - 3, 7 << 32] {
            let chunk = Chunk {
                first,
                count: 64,
                place,
            };
            for next in [first + 64, first + 1_000_000, first + u64::from(u32::MAX)] {
                assert_eq!(Packed::new(chunk).chunk(next), chunk);
            }
        }
    }
}
