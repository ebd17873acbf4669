//! What a server writes down of sessions that last, and what it reads back at the next start.
//!
//! The state of a session changes by [`Record`]s. A call of the hub leaves those of all that it has
//! changed in one batch, which the shard appends to its journal before anybody hears of the change.
//! At the start, all batches of all journals are applied in order, which gives the sessions as they
//! were. This crate knows neither files nor clocks: bytes come in, and bytes go out.
//!
//! ```text
//! record    one change: which there are, and how a batch is read
//! session   what a session is                      message   what it is owed
//! queue     all that a session is owed             list      lists, read where they lie
//! name      where a message was first written
//! replay    from all batches to the sessions       wire      numbers, texts, bytes, their bounds
//! room      rooms that stay when they are empty
//! ```
//!
//! # Division of the writing
//!
//! - Each session has a number in the journal of its shard. All that is said of it is there.
//! - The shard that took a message writes it once. Others write its [`Name`].
//! - The record of a message lists its recipients on this shard, and the shards that may have more.
//!   Those answer by [`Record::Owe`] or [`Record::Heard`], in the order in which messages come from
//!   that shard. Both name that shard, since a message that was carried outlives its file. A
//!   message without an answer is routed again at the start: [`Restored::unheard`].
//! - Each delivery to a session has a number, one above that of the delivery before. It follows
//!   from the order of the records, so no record contains it. The packet id is one above the rest
//!   of the division of this number by 65,535, unless [`Record::Sent`] says another one.
//! - A debt is written at once. That it is paid may be written later: a crash in between costs a
//!   repetition, never a message. What QoS 2 needs is written at once.
//!
//! # Names
//!
//! A name is the file and the offset of the record there. The hub does not know the place of a
//! batch before it is appended. So it keeps the offset of each [`Message`] in its batch, and gives
//! the message its name afterwards, by [`Name::within`] of the place of the first record. A record
//! of the same batch says [`Name::in_this_batch`].
//!
//! # Starts
//!
//! A generation is one start of the server. The next one reads all of it and writes into journals
//! of its own:
//!
//! 1. For each session, one batch: [`Record::Adopted`], then an [`Owe`] for each message of
//!    [`Restored::unheard`] that the session is to have. So a message is routed again once, even if
//!    the server is killed between two batches.
//! 2. Later, a [`Record::Base`] for each session and a [`Carry`] for each message that is still
//!    owed. Then nothing of the earlier generation counts any longer.
//!
//! Inside a generation, the oldest file is given up in the same way, after a [`Record::Heard`] with
//! the last name from each shard. An [`Again`] that may not have come is written again.
//! While an earlier generation counts, no file of this one is given up: it may have the only record
//! of the end of a session, which would come back.
//!
//! A base is one batch, which a long queue would make too large. So most of what waits may precede
//! it in batches of their own: a [`Part`] each, with the chunks of that part. The base says by
//! [`Parts`] which of it counts. What becomes of these deliveries in between is written as always,
//! and holds for the parts as well.
//!
//! Records of a session may precede its base, or stand alone before its end: what told of it lay in
//! a file that was given up. This is not damage.
//!
//! # As bytes
//!
//! A record is a byte that says its kind, and its fields in the order of their types here. Flags
//! come first or after the number of the session, and say which optional fields follow.
//!
//! | field | bytes |
//! |---|---|
//! | number | seven bits a byte, the lowest first; the highest bit says that another byte follows |
//! | text, bytes | the length as a number, then the bytes |
//! | list | how many items as a number, then the items |
//! | sessions in a list | twice the distance to the one before, less one if it is below that |
//! | name | file and offset as numbers; with file 0, an offset in this batch |
//! | hash | eight bytes, little-endian: a publisher, or by what a guest is known again |
//! | deliveries in [`Queue`], [`Part`] | the difference to the least possible number |
//!
//! [`Message::encode_to`], [`Owe::encode_to`] and [`Queue::encode_to`] write lists that no slice
//! holds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

use stentor_mqtt::PacketId;

mod list;
mod message;
mod name;
mod queue;
mod record;
mod replay;
mod room;
mod session;
mod spooled;
#[cfg(test)]
mod tests;
mod wire;

pub use list::{Identifier, Iter, List};
pub use message::{
    Again, Arrival, Body, Carry, Delivery, Elsewhere, Front, Group, Held, Mark, Member, Message,
    Owe, Terms,
};
pub use name::Name;
pub use queue::{Debt, HeldBack, Owed, Part, Parts, Queue};
pub use record::{DecodeError, DecodeErrorKind, Record, Records};
pub use replay::{
    Damage, DamageKind, JournalId, LostSession, OwnedShare, OwnedTerms, Presence, Replay, Restored,
    RestoredChunk, RestoredDebt, RestoredDelivery, RestoredHeld, RestoredProperty, RestoredRoom,
    RestoredSession, RestoredSubscription, RestoredWill, Served, Target, Unheard,
};
pub use room::{Room, RoomMember, RoomName, RoomProperty};
pub use session::{Away, Filter, Origin, Quotas, Session, Share, Subscription, Will};
pub use spooled::{Chunk, Place, Spooled, SpooledDelivery};
pub use wire::{
    BODY_BYTES_MAX, DELIVERY_MAX, Fault, IDENTIFIER_MAX, MILLIS_MAX, TEXT_BYTES_MAX, Why,
};

/// The packet id of a delivery, unless [`Record::Sent`] says another one.
#[must_use]
pub fn packet_id_of(delivery: u64) -> PacketId {
    // The rest is below 65,535.
    PacketId::new((delivery % 65_535) as u16 + 1).unwrap_or(FIRST)
}

const FIRST: PacketId = match PacketId::new(1) {
    Some(first) => first,
    None => unreachable!(),
};
