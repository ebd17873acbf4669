//! What is written down of rooms that stay when they are empty.
//!
//! This only writes: which rooms these are, their service knows.

use stentor_session_log::Record;

use super::singular::Singular;
use super::{SessionLog, round_begins, write_unpromised};
use crate::core::Core;

/// Whether anything is written down.
pub(crate) fn writes_rooms(core: &Core) -> bool {
    core.pending.log.is_on()
}

/// Writes records of one room, in one batch.
pub(crate) fn write_room(core: &mut Core, records: &[Record<'_>]) {
    SessionLog::whole(core, |core| {
        let log = &mut core.pending.log;
        for record in records {
            log.write(record);
            if let Record::RoomGone(name) = record {
                let it = Singular::RoomGone(name.zone, name.room.into());
                log.singulars.push(log.batches.present(), it);
            }
        }
    });
}

/// Writes that somebody has a place in a room, or has none any more. No answer promises that.
pub(crate) fn write_place(core: &mut Core, record: &Record<'_>) {
    write_unpromised(&mut core.pending.log, |log| log.write(record));
}

/// A round of bases begins.
pub(crate) fn begin_bases(core: &mut Core) {
    round_begins(&mut core.pending.log);
}

/// Whether a round has written enough at once.
pub(crate) const fn is_enough(core: &Core) -> bool {
    core.pending.log.batches.is_large()
}
