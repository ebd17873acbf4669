//! Records that no base of a round stands for.
//!
//! A base says all that there is to say of a session or a room that is there. That one has ended,
//! or goes on with one of an earlier start, only a record of its own says. If that one was dropped,
//! the next round begins with it. Otherwise a restart would go on with what has ended, as long as
//! older files are there.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use stentor_session_log::{Name, Origin, Record, RoomName};

use super::SessionLog;

/// Such a record.
#[derive(Clone, Debug)]
pub(super) enum Singular {
    /// [`Record::Adopted`]: the number of the session, and where it was before.
    Adopted(u32, Origin),
    /// [`Record::End`].
    End(u32),
    /// [`Record::RoomGone`]: the number of the zone, and the room.
    RoomGone(u32, Box<str>),
}

/// Those that may have to be written once more.
#[derive(Debug, Default)]
pub(super) struct Singulars {
    /// Those of batches that are not appended, with the numbers of these.
    fresh: VecDeque<(u32, Singular)>,
    /// Those that were dropped, in order, and what has ended since that goes on there. A session
    /// has two at most.
    dropped: Vec<Singular>,
    /// While batches are dropped, how many sessions had numbers when that began. Nothing is
    /// written of later ones.
    known: Option<u32>,
    /// How many sessions had numbers when the last one went on with an earlier one.
    adopted: u32,
}

impl Singular {
    fn record(&self) -> Record<'_> {
        match self {
            Self::Adopted(number, origin) => Record::Adopted {
                number: *number,
                origin: *origin,
            },
            Self::End(number) => Record::End { number: *number },
            Self::RoomGone(zone, room) => Record::RoomGone(RoomName { zone: *zone, room }),
        }
    }
}

impl Singulars {
    /// The present batch has one.
    pub(super) fn push(&mut self, batch: u32, it: Singular) {
        if let Singular::Adopted(number, _) = it {
            self.adopted = self.adopted.max(number + 1);
        }
        self.fresh.push_back((batch, it));
    }

    /// A batch was appended there, or dropped. Sessions have `numbers` numbers by now. O(such
    /// records in it).
    pub(super) fn logged(&mut self, batch: u32, at: Option<Name>, numbers: u32) {
        self.known = match at {
            Some(_) => None,
            None => self.known.or(Some(numbers)),
        };
        while let Some((_, it)) = self.fresh.pop_front_if(|(of, _)| *of == batch) {
            let is_lost = match it {
                // It may have to follow the record that it goes on with an earlier one.
                Singular::End(number) if number < self.adopted && !self.dropped.is_empty() => true,
                Singular::End(number) => self.known.is_some_and(|known| number < known),
                Singular::Adopted(..) | Singular::RoomGone(..) => at.is_none(),
            };
            if is_lost {
                self.dropped.push(it);
            }
        }
    }
}

/// Writes those again that were dropped.
pub(super) fn write_dropped(log: &mut SessionLog) {
    for it in core::mem::take(&mut log.singulars.dropped) {
        log.write(&it.record());
        log.singulars.push(log.batches.present(), it);
    }
}
