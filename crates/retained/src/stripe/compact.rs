//! Compaction: emptying segments that hold little, so that their files can go.

use super::{Env, Held, Stripe};
use crate::class::{self, BLOCK_BYTES};
use crate::damage::Outcome;
use crate::index::Entry;
use crate::space::{Place, Segment, Slot};
use stentor_disk::Region;

/// Blocks that a stripe may have free in any case.
const SLACK_BLOCKS: usize = 16;

/// What a step of compaction came to.
#[derive(Debug)]
pub(crate) enum Compaction<R> {
    /// There is nothing worth the work.
    Idle,
    /// There is more to do, now or after the next commit.
    Busy,
    /// A segment is much too large for what there is, and no other has room for it: the stripe
    /// should get one of this many blocks.
    Cramped(usize),
    /// A segment is empty: its file can go.
    Emptied(Segment<R>),
}

/// What is to be done about the segments of a stripe.
enum Choice {
    Nothing,
    /// Empty the one at this position.
    Retire(u16),
    /// Make one of this many blocks, so that a much larger one can be emptied.
    Grow(usize),
}

impl<R: Region> Stripe<R> {
    /// Moves at most this many messages out of a segment, if the others have room for them and
    /// there is a lot of free room.
    pub(crate) fn compact(&mut self, env: &Env, at_most: usize) -> Compaction<R> {
        let retired = self
            .space
            .segments()
            .find(|(_, segment)| segment.is_retired())
            .map(|(position, _)| position);
        let position = match retired {
            Some(position) => position,
            None => match self.choose() {
                Choice::Retire(position) => {
                    self.space.retire(position);
                    position
                }
                Choice::Grow(blocks) => return Compaction::Cramped(blocks),
                Choice::Nothing => return Compaction::Idle,
            },
        };
        let is_unused = self.space.segment(position).is_some_and(Segment::is_unused);
        if is_unused {
            return match self.space.detach(position) {
                Some(segment) => Compaction::Emptied(segment),
                None => Compaction::Idle,
            };
        }
        let mut moved = 0;
        for slot in self.space.slots_in_use(position) {
            moved += usize::from(self.move_out(env, slot));
            if moved == at_most {
                return Compaction::Busy;
            }
        }
        // The rest is held until the next commit, or has no place to go.
        let is_unused = self.space.segment(position).is_some_and(Segment::is_unused);
        if is_unused {
            Compaction::Busy
        } else {
            Compaction::Idle
        }
    }

    /// Chooses the segment to be emptied: the one that gives back the most, of those that the
    /// others have room for.
    fn choose(&self) -> Choice {
        let space = &self.space;
        let (blocks, free) = (space.blocks(), space.free_blocks());
        // What there always is room for. An empty stripe may lose all that it has.
        if blocks <= SLACK_BLOCKS {
            return Choice::Nothing;
        }
        let live: usize = space.segments().map(|(_, it)| it.live_bytes()).sum();
        // Afterwards half must be free, so that growing and compacting do not take turns.
        let enough = match live {
            0 => 0,
            _ => (2 * live).div_ceil(BLOCK_BYTES).max(space.packed_blocks()) + SLACK_BLOCKS,
        };
        let fits_elsewhere = |segment: &Segment<R>| {
            let free_bytes = (free - segment.free_blocks()) * BLOCK_BYTES;
            blocks - segment.blocks() >= enough
                && free_bytes >= 2 * segment.live_bytes()
                && free_bytes >= segment.packed_blocks() * BLOCK_BYTES
        };
        let gain = |(_, segment): &(u16, &Segment<R>)| segment.bytes().len() - segment.live_bytes();
        // What was given up is not given back before the next start.
        let can_go = || space.segments().filter(|(_, it)| !it.has_given_up());
        let worthy = can_go().filter(|(_, it)| fits_elsewhere(it));
        if let Some((position, _)) = worthy.max_by_key(gain) {
            return Choice::Retire(position);
        }
        match can_go().max_by_key(gain) {
            Some((_, largest)) if largest.blocks() > 2 * enough => Choice::Grow(enough),
            _ => Choice::Nothing,
        }
    }

    /// Moves the message of a slot to another segment; whether it did.
    fn move_out(&mut self, env: &Env, slot: Slot) -> bool {
        let Some((entry, len)) = self.entry_of(env, slot) else {
            // Held until the next commit.
            return false;
        };
        let place = entry.place();
        let room = match len {
            Some(len) => class::for_record(len),
            None => self.space.class_of(slot),
        };
        let Some(to) = room.and_then(|(id, class)| self.space.take(id, class)) else {
            return false;
        };
        let to = Place {
            slot: to,
            second: false,
        };
        if len.is_some() {
            // It was read just now.
            let is_copied = self.space.copy(place, to);
            debug_assert!(is_copied, "a whole record is copied");
        } else {
            self.move_damaged(env, place, to);
        }
        if let Some(entry) = self.index.entry_mut(entry.hash, place) {
            entry.set_place(to);
        }
        self.release(env, Held::Moved(place.slot));
        true
    }

    /// The topic whose message lies in a slot, if one does, and the length of its record; `None`
    /// for a damaged one, which does not say whose it was, but the index does.
    fn entry_of(&self, env: &Env, slot: Slot) -> Option<(Entry, Option<usize>)> {
        let first = Place {
            slot,
            second: false,
        };
        let (mut has_record, mut is_damaged) = (false, false);
        for place in [first, first.spare()] {
            match self.space.read(place) {
                Ok(Some(record)) => {
                    has_record = true;
                    let hash = env.hasher.hash(record.zone, record.topic);
                    let entry = self.index.find(hash, |entry| entry.place() == place);
                    if let Some(entry) = entry {
                        return Some((entry, Some(record.encoded_len())));
                    }
                }
                Ok(None) => {}
                Err(_) => is_damaged = true,
            }
        }
        if has_record && !is_damaged {
            return None;
        }
        let entry = self.index.iter().find(|it| it.place().slot == slot);
        Some((entry?, None))
    }

    /// Takes a damaged message with it as it is, so that its segment can go: the topic still has
    /// it, is reported to have lost it, and an older message beside it stands at the next start.
    fn move_damaged(&mut self, env: &Env, place: Place, to: Place) {
        self.space.copy(place.spare(), to.spare());
        self.space.transplant(place, to);
        let was = self.describe(place, Outcome::Lost);
        env.damage
            .moved(was.file, was.offset, self.describe(to, Outcome::Lost));
    }
}
