//! Compaction: emptying segments that hold little, so that their files can go.

use super::{Env, Held, Stripe};
use crate::class::{self, BLOCK_BYTES};
use crate::disk::Region;
use crate::space::{Place, Segment, Slot};

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
    /// should get one of so many blocks.
    Cramped(usize),
    /// A segment is empty: its file can go.
    Emptied(Segment<R>),
}

/// What is to be done about the segments of a stripe.
enum Choice {
    Nothing,
    /// Empty the one at this position.
    Retire(u16),
    /// Make one of so many blocks, so that a much larger one can be emptied.
    Grow(usize),
}

impl<R: Region> Stripe<R> {
    /// Moves at most so many messages out of a segment, if the others have room for them and there
    /// is a lot of free room.
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
        // The rest is held until the next commit, or damaged, or has no place to go.
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
        let worthy = space.segments().filter(|(_, it)| fits_elsewhere(it));
        if let Some((position, _)) = worthy.max_by_key(gain) {
            return Choice::Retire(position);
        }
        match space.segments().max_by_key(gain) {
            Some((_, largest)) if largest.blocks() > 2 * enough => Choice::Grow(enough),
            _ => Choice::Nothing,
        }
    }

    /// Moves the message of a slot to another segment; whether it did.
    fn move_out(&mut self, env: &Env, slot: Slot) -> bool {
        let first = Place {
            slot,
            second: false,
        };
        let live = [first, first.spare()]
            .into_iter()
            .filter_map(|place| {
                let head = self.space.head(place).ok().flatten()?;
                Some((head.version, place, head.encoded_len()))
            })
            .max();
        let Some((_, place, len)) = live else {
            return false;
        };
        let hash = match self.space.read(place) {
            Ok(Some(record)) if !record.cleared => env.hasher.hash(record.zone, record.topic),
            // Held until the next commit; a damaged one stays.
            _ => return false,
        };
        if self.index.entry_mut(hash, place).is_none() {
            return false;
        }
        let Some((id, class)) = class::for_record(len) else {
            return false;
        };
        let Some(slot) = self.space.take(id, class) else {
            return false;
        };
        let to = Place {
            slot,
            second: false,
        };
        // It was read just now.
        let is_copied = self.space.copy(place, to);
        debug_assert!(is_copied, "a whole record is copied");
        if let Some(entry) = self.index.entry_mut(hash, place) {
            entry.set_place(to);
        }
        self.release(env, Held::Moved(place.slot));
        true
    }
}
