//! A long queue, written in parts before the base of its session.
//!
//! A base is one batch, and a turn has no time for one of a million messages. So most of what waits
//! is written before, in several turns. In the meantime the queue goes on: what becomes of it is
//! written as always, and holds for the parts as well. So the base says only which numbers it takes
//! from them.

use alloc::vec::Vec;
use core::ops::Range;

use stentor_session::waiting::{Waiting, pieces, waiting_from};
use stentor_session::{Outbound, Spooled};
use stentor_session_log::{List, Part, Parts, Record};

use super::queue::{Shares, kept, put_part, received, write_spooled};
use super::{Number, SessionLog};
use crate::core::Core;
use crate::core::ids::SessionKey;

/// Pieces of a queue that count as one place for a session: a piece is a message, or a chunk on the
/// disk.
const PIECES_PER_PLACE: usize = 4;

/// How far a round has come with the queue of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parted {
    key: SessionKey,
    count: u32,
    /// The number to go on with.
    next: u64,
    /// What has a number from this one on has come since: the base has it.
    until: u64,
    /// Whether that is reached.
    is_complete: bool,
    /// The batch with the last part, and whether that is appended.
    batch: u32,
    is_logged: bool,
}

impl Parted {
    /// A batch was appended.
    pub(super) fn logged(&mut self, batch: u32) {
        self.is_logged |= self.batch == batch;
    }
}

/// Which deliveries the base of a session takes from the parts before it.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    count: u32,
    pub(super) numbers: Range<u64>,
}

impl Taken {
    /// Writes that into the base.
    pub(super) fn write(&self, number: Number, log: &mut SessionLog) {
        // Records count from 0 on.
        log.write_beside(&Record::Parts(Parts {
            number: number.get(),
            count: self.count,
            from: self.numbers.start - 1,
            to: self.numbers.end - 1,
        }));
    }
}

/// What there is to do before the base of a session.
pub(super) enum Stage {
    /// Nothing: its queue is short.
    Short,
    /// The next part, or to wait for the last one.
    Parts,
    /// Nothing more.
    Ready(Taken),
}

/// Writes the next part of a queue in a round of bases, if there is more than such a part has: as
/// many pieces as count as `places` for sessions. O(pieces).
pub(super) fn write_part(core: &mut Core, key: SessionKey, places: usize) -> Stage {
    let most = places.saturating_mul(PIECES_PER_PLACE);
    let Some((number, parted)) = parted(core, key, most) else {
        return Stage::Short;
    };
    if parted.is_complete && parted.is_logged {
        return ready(core, parted);
    }
    if !parted.is_complete {
        let parted = SessionLog::whole(core, |core| write_part_of(core, (number, most), parted));
        core.pending.log.round.parted = parted;
    }
    Stage::Parts
}

/// How far the round has come with this session: it may begin with it. `None` for a short queue.
fn parted(core: &Core, key: SessionKey, most: usize) -> Option<(Number, Parted)> {
    let state = &core.sessions.get(key)?.state;
    let number = state.number()?;
    let owed = state.owed.get()?;
    let parted = core.pending.log.round.parted;
    if let Some(parted) = parted.filter(|parted| parted.key == key) {
        return Some((number, parted));
    }
    let begins = Parted {
        key,
        count: 0,
        next: 0,
        until: owed.next_number(),
        is_complete: false,
        batch: 0,
        is_logged: false,
    };
    (pieces(owed) > most).then_some((number, begins))
}

fn ready(core: &Core, parted: Parted) -> Stage {
    let session = core.sessions.get(parted.key);
    let owed = session.and_then(|session| session.state.owed.get());
    let first = owed.and_then(|owed| waiting_from(owed, 0).next().map(|it| it.first()));
    let first = first.unwrap_or(parted.next).min(parted.next);
    Stage::Ready(Taken {
        count: parted.count,
        numbers: first.max(1)..parted.next.max(1),
    })
}

fn write_part_of(
    core: &mut Core,
    (number, most): (Number, usize),
    mut parted: Parted,
) -> Option<Parted> {
    let owed = core.sessions.get(parted.key)?.state.owed.get()?;
    let log = &mut core.pending.log;
    let mut shares = Shares::default();
    let (mut here, mut chunks) = (Vec::new(), Vec::new());
    let mut all = waiting_from(owed, parted.next);
    let mut done = 0;
    while done < most && !log.batches.is_large() {
        let Some(piece) = all.next().filter(|it| it.first() < parted.until) else {
            parted.is_complete = true;
            break;
        };
        done += 1;
        parted.next = piece.end();
        match piece {
            Waiting::Chunk(chunk) => chunks.push(chunk),
            Waiting::Here {
                number,
                packet_id,
                delivery,
            } => {
                let one = (number, packet_id, Some(delivery));
                here.extend(kept(log, one, &mut shares, &core.routing.shares));
            }
        }
    }
    let part = Part {
        number: number.get(),
        place: parted.count,
        shares: List::default(),
        owed: List::default(),
    };
    put_part(log, &part, &shares, &here);
    write_chunks(log, number, (owed, &chunks));
    parted.count += 1;
    parted.batch = log.batches.present();
    core.turn.spend_each(done, 2);
    Some(parted)
}

fn write_chunks(log: &mut SessionLog, number: Number, (owed, chunks): (&Outbound, &[Spooled])) {
    if chunks.is_empty() {
        return;
    }
    let received = received(owed);
    for chunk in chunks {
        write_spooled(log, number, (chunk, &received));
    }
}
