//! A large session, written in parts before its base.
//!
//! A base is one batch, and a turn has no time for one of a million messages. So a session that has
//! much is written before, in several turns. In the meantime it goes on: what becomes of it is
//! written as always, and holds for the parts as well. So the base says only which numbers it takes
//! from them.
//!
//! ```text
//! subscriptions ──▶ what is held back ──▶ what waits ──▶ the last part is appended: the base
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use stentor_mqtt::QoS;
use stentor_session::waiting::{Waiting, pieces, waiting_from};
use stentor_session::{Outbound, Spooled};
use stentor_session_log::{List, Part, Parts, Record};

use super::base::write_subscription;
use super::queue::{Held, Kept, Shares, held, kept, put_part, received, write_spooled};
use super::{Number, SessionLog};
use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::routing::share::Shares as AllShares;
use crate::core::sessions::registry::Session;

/// Pieces of a session that count as one place for a session: a piece is a message, a chunk on the
/// disk, or a subscription.
const PIECES_PER_PLACE: usize = 4;

/// What it costs to write down one piece, in visits.
const PIECE_VISITS: u32 = 4;

/// How far a round has come with one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parted {
    key: SessionKey,
    /// What it was called in the journal when the parts began.
    number: Number,
    count: u32,
    stage: Stage,
    /// The batch with the last part, and whether that is appended.
    batch: u32,
    is_logged: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The subscriptions before this place, from the last one to the first. A session that ends one
    /// may put another in its place that stood behind it: that one is written twice.
    Subscriptions(usize),
    /// The first of these parts of what is held back, and how many there are.
    Held(usize, usize),
    /// Messages that wait, with numbers from the first of these on. Messages with the other number,
    /// or a higher one, have come since, and the base has them.
    Waiting(u64, u64),
    /// The base. What has a number from this one on is not in the parts.
    Base(u64),
}

impl Parted {
    /// A batch was appended.
    pub(super) fn logged(&mut self, batch: u32) {
        self.is_logged |= self.batch == batch;
    }
}

/// What the base of a session takes from the parts before it.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    count: u32,
    /// These deliveries. It also takes all subscriptions, and all that is held back.
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
pub(super) enum Before {
    /// Nothing: it has little.
    Nothing,
    /// The next part, or to wait for the last one.
    Parts,
    /// Nothing more.
    Done(Taken),
}

/// Writes the next part of a session in a round of bases, if it has more than such a part: as many
/// pieces as count as `places` for sessions. O(pieces).
pub(super) fn write_part(core: &mut Core, key: SessionKey, places: usize) -> Before {
    let most = places.saturating_mul(PIECES_PER_PLACE);
    let Some(parted) = parted(core, key, most) else {
        return Before::Nothing;
    };
    match parted.stage {
        Stage::Base(end) if parted.is_logged => return done(core, &parted, end),
        Stage::Base(_) => {}
        _ => {
            let parted = SessionLog::whole(core, |core| write_part_of(core, most, parted));
            core.pending.log.round.parted = parted;
        }
    }
    Before::Parts
}

/// How far the round has come with this session: it may begin with it. `None` if that has little.
fn parted(core: &Core, key: SessionKey, most: usize) -> Option<Parted> {
    let session = core.sessions.get(key)?;
    let number = session.state.number()?;
    let parted = core.pending.log.round.parted;
    // A session that was forgotten in the meantime has another number: its parts begin again.
    let is_its = |parted: &Parted| parted.key == key && parted.number == number;
    if let Some(parted) = parted.filter(is_its) {
        return Some(parted);
    }
    let subscriptions = session.state.subscriptions.len();
    let held = session.conflating().map_or(0, |it| it.charge().messages);
    let waiting = session.state.owed.get().map_or(0, pieces);
    let begins = Parted {
        key,
        number,
        count: 0,
        stage: Stage::Subscriptions(subscriptions),
        batch: 0,
        is_logged: false,
    };
    (subscriptions + held + waiting > most).then_some(begins)
}

fn done(core: &Core, parted: &Parted, end: u64) -> Before {
    let session = core.sessions.get(parted.key);
    let owed = session.and_then(|session| session.state.owed.get());
    let first = owed.and_then(|owed| waiting_from(owed, 0).next().map(|it| it.first()));
    let end = end.max(1);
    let first = first.unwrap_or(end).clamp(1, end);
    Before::Done(Taken {
        count: parted.count,
        numbers: first..end,
    })
}

/// A part, while it is being made.
#[derive(Default)]
struct Making<'s> {
    shares: Shares,
    here: Vec<Kept<'s>>,
    held: Vec<Held<'s>>,
    chunks: Vec<Spooled>,
    /// Places among the subscriptions.
    subscriptions: Range<usize>,
    done: usize,
}

fn write_part_of(core: &mut Core, most: usize, mut parted: Parted) -> Option<Parted> {
    let number = parted.number;
    let session = core.sessions.get(parted.key)?;
    let log = &mut core.pending.log;
    let mut making = Making::default();
    while making.done < most && !log.batches.is_large() {
        let shared = &core.routing.shares;
        parted.stage = go_on(log, session, shared, most, parted.stage, &mut making);
        // Filters may be long: they are in a part of their own.
        let has_filters = !making.subscriptions.is_empty();
        if has_filters || matches!(parted.stage, Stage::Base(_)) {
            break;
        }
    }
    let part = Part {
        number: number.get(),
        place: parted.count,
        shares: List::default(),
        owed: List::default(),
        held: List::default(),
    };
    put_part(log, &part, &making.shares, &making.here, &making.held);
    if let Some(owed) = session.state.owed.get() {
        write_chunks(log, number, owed, &making.chunks);
    }
    let subscriptions = session.state.subscriptions.as_slice();
    let slot = parted.key.slot;
    for subscription in subscriptions.get(making.subscriptions).unwrap_or_default() {
        write_subscription(session, slot, *subscription, number, &core.routing, log);
    }
    parted.count += 1;
    parted.batch = log.batches.present();
    parted.is_logged = false;
    core.turn.spend_each(making.done, PIECE_VISITS);
    Some(parted)
}

/// Adds some of what is next to a part. Returns the next stage.
fn go_on<'s>(
    log: &mut SessionLog,
    session: &'s Session,
    shared: &AllShares,
    most: usize,
    stage: Stage,
    making: &mut Making<'s>,
) -> Stage {
    let parts = parts_of_held(session);
    match stage {
        Stage::Subscriptions(left) => {
            let left = left.min(session.state.subscriptions.len());
            let from = left.saturating_sub(most - making.done);
            making.done += left - from;
            making.subscriptions = from..left;
            match from {
                0 => Stage::Held(0, parts),
                _ => Stage::Subscriptions(from),
            }
        }
        // A topic may be in another part than before.
        Stage::Held(_, of) if of != parts => Stage::Held(0, parts),
        Stage::Held(at, of) if at < of => match hold(log, session, at, making) {
            true => Stage::Held(at + 1, of),
            false => stage,
        },
        Stage::Held(..) => {
            let owed = session.state.owed.get();
            Stage::Waiting(0, owed.map_or(1, Outbound::next_number))
        }
        Stage::Waiting(next, until) => {
            match wait(log, session, shared, next..until, most, making) {
                end if end >= until => Stage::Base(end),
                next => Stage::Waiting(next, until),
            }
        }
        Stage::Base(_) => stage,
    }
}

fn parts_of_held(session: &Session) -> usize {
    session.conflating().map_or(0, |held| held.parts())
}

/// Adds one part of what is held back. Returns whether that was all of it. Else it begins
/// again, and the messages that were written are not written again.
fn hold<'s>(
    log: &mut SessionLog,
    session: &'s Session,
    at: usize,
    making: &mut Making<'s>,
) -> bool {
    let all = session.conflating().into_iter();
    let all = all.flat_map(|held| held.waiting_in(at));
    for delivery in all.filter(|delivery| delivery.qos != QoS::AtMostOnce) {
        if log.batches.is_large() {
            return false;
        }
        making.done += 1;
        making.held.extend(held(log, delivery));
    }
    true
}

/// Adds some of what waits, of these numbers. Returns the number to go on with.
fn wait<'s>(
    log: &mut SessionLog,
    session: &'s Session,
    shared: &AllShares,
    numbers: Range<u64>,
    most: usize,
    making: &mut Making<'s>,
) -> u64 {
    let owed = session.state.owed.get();
    let mut all = owed
        .into_iter()
        .flat_map(|owed| waiting_from(owed, numbers.start));
    let mut next = numbers.start;
    while making.done < most && !log.batches.is_large() {
        let Some(piece) = all.next().filter(|it| it.first() < numbers.end) else {
            return numbers.end;
        };
        making.done += 1;
        next = piece.end();
        match piece {
            Waiting::Chunk(chunk) => making.chunks.push(chunk),
            Waiting::Here {
                number,
                packet_id,
                delivery,
            } => {
                let one = (number, packet_id, Some(delivery));
                making
                    .here
                    .extend(kept(log, one, &mut making.shares, shared));
            }
        }
    }
    next
}

fn write_chunks(log: &mut SessionLog, number: Number, owed: &Outbound, chunks: &[Spooled]) {
    if chunks.is_empty() {
        return;
    }
    let received = received(owed);
    for chunk in chunks {
        write_spooled(log, number, chunk, &received);
    }
}
