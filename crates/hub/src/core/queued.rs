//! The messages that wait for one client, to look at in steps.
//!
//! First what is in flight, then what waits in its order, then the newest messages that are held
//! back. Of what is on the disk, there is only the place where it lies: nothing is read here.

use alloc::sync::Arc;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS};
use stentor_session::owed::{Counts, Flying, Piece, counts, in_flight_from, waiting_behind};
use stentor_session::{Delivery, Message, Spooled, Tick};

use crate::core::Core;
use crate::core::ids::SessionKey;
use crate::core::sessions::registry::Session;

/// How far a look at a queue has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePlace {
    /// At this place of the window.
    InFlight(usize),
    /// Behind the delivery with this number, and a number of others without one behind that.
    Waiting(u64, usize),
    /// In this part of what is held back, behind a number of them.
    HeldBack(usize, usize),
}

impl Default for QueuePlace {
    fn default() -> Self {
        Self::InFlight(0)
    }
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedState {
    /// It was sent on the present connection, at this time, and its client has not acknowledged it.
    Sent(PacketId, Tick),
    /// It was sent before, and is to be sent again.
    ToResend(PacketId),
    /// It waits in memory.
    Waits,
    /// A newer one of its topic may take its place.
    HeldBack,
}

/// A message of a queue.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// Where it is.
    pub state: QueuedState,
    /// The message; `None` if the client has received it at QoS 2, and PUBCOMP is missing.
    pub message: Option<Arc<Message>>,
    /// The QoS that it is delivered with.
    pub qos: QoS,
    /// The RETAIN flag that it is delivered with.
    pub retain: bool,
    /// How many messages of its topic it stands for, besides itself.
    pub conflated: u32,
}

/// A piece of a queue.
#[derive(Clone, Debug)]
pub enum QueuedPiece {
    /// A message in memory.
    Message(QueuedMessage),
    /// Messages on the disk.
    Chunk(Spooled),
}

/// What a step has found.
#[derive(Clone, Debug, Default)]
pub struct QueuedPart {
    /// How much is where.
    pub counts: Counts,
    /// Messages that are held back.
    pub held_back: usize,
    /// Messages that wait for the socket, of any QoS: those above QoS 0 are in flight too.
    pub in_socket: usize,
    /// The pieces, each with the place behind it.
    pub pieces: Vec<(QueuedPiece, QueuePlace)>,
    /// Where the next step begins; `None` after the last one.
    pub next: Option<QueuePlace>,
}

/// Pieces of the queue of a session from a place on, at most this many; `None` without a session.
/// O(`at_most`), and in the part of what is held back, the topics of which something is known
/// there.
pub(crate) fn from(
    core: &Core,
    key: SessionKey,
    place: QueuePlace,
    at_most: usize,
) -> Option<QueuedPart> {
    let session = core.sessions.get(key)?;
    let owed = session.state.owed.get();
    let held = session.conflating();
    let mut part = QueuedPart {
        counts: owed.map_or_else(Counts::default, counts),
        held_back: held.map_or(0, |held| held.charge().messages),
        in_socket: session.live().map_or(0, |live| live.queued().messages),
        ..QueuedPart::default()
    };
    let mut next = Some(place);
    while let Some(place) = next
        && part.pieces.len() < at_most
    {
        let most = at_most - part.pieces.len();
        next = match place {
            QueuePlace::InFlight(from) => Some(in_flight(session, from, most, &mut part.pieces)),
            QueuePlace::Waiting(after, passed) => {
                Some(waiting(session, after, passed, most, &mut part.pieces))
            }
            QueuePlace::HeldBack(at, passed) => {
                held_back(session, at, passed, most, &mut part.pieces)
            }
        };
    }
    part.next = next;
    Some(part)
}

type Pieces = Vec<(QueuedPiece, QueuePlace)>;

fn queued(state: QueuedState, delivery: &Delivery) -> QueuedPiece {
    QueuedPiece::Message(QueuedMessage {
        state,
        message: Some(Arc::clone(&delivery.message)),
        qos: delivery.qos,
        retain: delivery.retain,
        conflated: delivery.conflated,
    })
}

fn in_flight(session: &Session, from: usize, most: usize, pieces: &mut Pieces) -> QueuePlace {
    let owed = session.state.owed.get().into_iter();
    let all = owed.flat_map(|owed| in_flight_from(owed, from));
    let before = pieces.len();
    pieces.extend(
        all.take(most)
            .zip(from.saturating_add(1)..)
            .map(|(flying, behind)| {
                let Flying {
                    packet_id,
                    delivery,
                    sent_at,
                } = flying;
                let state = match sent_at {
                    Some(at) => QueuedState::Sent(packet_id, at),
                    None => QueuedState::ToResend(packet_id),
                };
                let released = QueuedMessage {
                    state,
                    message: None,
                    qos: QoS::ExactlyOnce,
                    retain: false,
                    conflated: 0,
                };
                let piece = match delivery {
                    Some(delivery) => queued(state, delivery),
                    None => QueuedPiece::Message(released),
                };
                (piece, QueuePlace::InFlight(behind))
            }),
    );
    match pieces.len() - before {
        found if found == most => QueuePlace::InFlight(from.saturating_add(found)),
        _ => QueuePlace::Waiting(0, 0),
    }
}

fn waiting(
    session: &Session,
    mut after: u64,
    mut passed: usize,
    most: usize,
    pieces: &mut Pieces,
) -> QueuePlace {
    let owed = session.state.owed.get().into_iter();
    let all = owed.flat_map(move |owed| waiting_behind(owed, after, passed));
    let mut found = 0;
    for piece in all.take(most) {
        found += 1;
        (after, passed) = match &piece {
            Piece::Here(delivery) if delivery.number == 0 => (after, passed.saturating_add(1)),
            Piece::Here(delivery) => (delivery.number, 0),
            Piece::Chunk(spooled) => (spooled.chunk.end() - 1, 0),
        };
        let piece = match piece {
            Piece::Here(delivery) => queued(QueuedState::Waits, delivery),
            Piece::Chunk(spooled) => QueuedPiece::Chunk(spooled),
        };
        pieces.push((piece, QueuePlace::Waiting(after, passed)));
    }
    match found == most {
        true => QueuePlace::Waiting(after, passed),
        false => QueuePlace::HeldBack(0, 0),
    }
}

/// One part of what is held back: each topic stays in its part, and in its place there, as long as
/// no topic comes or goes.
fn held_back(
    session: &Session,
    at: usize,
    passed: usize,
    most: usize,
    pieces: &mut Pieces,
) -> Option<QueuePlace> {
    let held = session.conflating()?;
    let all = held.waiting_in(at).skip(passed).take(most);
    let before = pieces.len();
    pieces.extend(
        all.zip(passed.saturating_add(1)..)
            .map(|(delivery, behind)| {
                let piece = queued(QueuedState::HeldBack, delivery);
                (piece, QueuePlace::HeldBack(at, behind))
            }),
    );
    match pieces.len() - before {
        found if found == most => Some(QueuePlace::HeldBack(at, passed.saturating_add(found))),
        _ => {
            let next = at.saturating_add(1);
            (next < held.parts()).then_some(QueuePlace::HeldBack(next, 0))
        }
    }
}
