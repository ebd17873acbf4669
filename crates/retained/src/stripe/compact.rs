//! Compaction: emptying segments that hold little, so that their files can go.

use super::{Env, Held, Stripe};
use crate::class::{self, BLOCK_BYTES};
use crate::disk::Region;
use crate::space::{Place, Segment, Slot};

/// What a stripe may have free in any case.
const SLACK_BYTES: usize = 16 * BLOCK_BYTES;

/// What a step of compaction came to.
#[derive(Debug)]
pub(crate) enum Compaction<R> {
    /// There is nothing worth the work.
    Idle,
    /// There is more to do, now or after the next commit.
    Busy,
    /// A segment is empty: its file can go.
    Emptied(Segment<R>),
}

impl<R: Region> Stripe<R> {
    /// Moves at most so many messages out of the segment with the least in use, if the others have
    /// room for them and there is a lot of free room.
    pub(crate) fn compact(&mut self, env: &Env, at_most: usize) -> Compaction<R> {
        let retired = self
            .space
            .segments()
            .find(|(_, segment)| segment.is_retired())
            .map(|(position, _)| position);
        let Some(position) = retired.or_else(|| self.retire_one()) else {
            return Compaction::Idle;
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

    /// Chooses a segment to be emptied.
    fn retire_one(&mut self) -> Option<u16> {
        let (mut total, mut least) = (0, None);
        for (position, segment) in self.space.segments() {
            let live = segment.live_bytes();
            total += live;
            if least.is_none_or(|(bytes, _)| live < bytes) {
                least = Some((live, position));
            }
        }
        let (live, position) = least?;
        let segment = self.space.segment(position)?;
        let others = (self.space.blocks() - segment.blocks()) * BLOCK_BYTES;
        let free = (self.space.free_blocks() - segment.free_blocks()) * BLOCK_BYTES;
        // Afterwards half must be free, so that growing and compacting do not take turns; and one
        // segment always stays.
        let is_worth_it = self.space.segments().count() > 1
            && others > 2 * total + SLACK_BYTES
            && free > 2 * live;
        if !is_worth_it {
            return None;
        }
        self.space.retire(position);
        Some(position)
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
